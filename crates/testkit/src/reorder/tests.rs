//! The arm against a toy that prefetches, and its driver with and without fences.

use super::*;
use doorbell_bus::pcie::{Rules, Settings};
use doorbell_bus::{Bus, Costs, Latencies, Machine, Pcie, Platform, ProtectionGranularity};
use doorbell_hal::{Device, EventSource, Iova, Port, RxVerdict, WorkKind};

const SLOTS: u32 = 16;
const SLOT: u32 = 16;
/// A slot: a body of 8 bytes, and at 8 the ownership word, 1 for the device.
const OWNER: u32 = 8;
/// Writing the ring's address.
const BASE: Reg = Reg::at(0);
const DOORBELL: Reg = Reg::at(8);

/// Sends each body as a frame. A doorbell starts it; from then on it looks at
/// the next slot every 10 ns for a microsecond, as a NIC that prefetches.
#[derive(Default)]
struct Toy {
    base: Iova,
    next: u32,
    look: Option<Time>,
    until: Time,
}

impl EventSource for Toy {
    fn next_due(&self) -> Option<Time> {
        self.look
    }
}

impl<P: Port> Device<P> for Toy {
    fn mmio_read(&mut self, _: &mut P, _: Time, _: Reg, _: u8) -> u64 {
        u64::MAX
    }
    fn mmio_write(&mut self, _: &mut P, at: Time, r: Reg, _: u8, v: u64) {
        match r {
            BASE => self.base = Iova(v),
            DOORBELL => {
                self.until = at + Span::from_us(1);
                self.look.get_or_insert(at);
            }
            _ => {}
        }
    }
    fn receive(&mut self, _: &mut P, _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Dropped(doorbell_hal::DropReason::Off)
    }
    fn advance(&mut self, p: &mut P, until: Time) {
        while let Some(at) = self.look.filter(|at| *at <= until) {
            let slot = self.base + u64::from(self.next * SLOT);
            let mut bytes = [0; SLOT as usize];
            p.read(at, slot, &mut bytes).unwrap();
            if bytes[OWNER as usize] == 1 {
                p.emit(at, &bytes[..8]);
                p.write(at, slot + u64::from(OWNER), &[0]).unwrap();
                self.next = (self.next + 1) % SLOTS;
            }
            self.look = Some(at + Span::from_ns(10)).filter(|at| *at <= self.until);
        }
    }
    fn reset(&mut self, _: &mut P, _: Time) {
        *self = Toy::default();
    }
}

/// The fences that the driver has.
#[derive(Clone, Copy)]
struct Fences {
    body: bool,
    doorbell: bool,
}
const MENDED: Fences = Fences { body: true, doorbell: true };

fn machine() -> Machine<Pcie, Toy> {
    let latencies = Latencies { link: Span::from_ns(100), memory: Span::from_ns(100) };
    let platform = Platform::new(1 << 32, 1 << 20, ProtectionGranularity::Byte);
    let mut pcie =
        Pcie::new(platform, Rules::new(Settings::link(3, 8)).unwrap(), latencies, 0xf000_0000);
    pcie.sink_mut().start();
    let mut costs = Costs::FREE;
    costs.work[WorkKind::TxDescriptor as usize].each = Span::from_ns(40);
    Machine::new(pcie, Toy::default(), costs, 1)
}

/// Sends `count` frames with bodies 1, 2, 3 …, four for each doorbell.
fn drive<H: Host>(h: &mut H, fences: Fences, count: u64) {
    let ring = h.coherent(SLOTS * SLOT, 64).unwrap();
    h.write64(BASE, ring.iova().0);
    'all: for i in 0..count {
        let at = i as u32 % SLOTS * SLOT;
        while h.load::<u32>(&ring, at + OWNER) != 0 {
            if h.now() > Time::ZERO + Span::from_us(100) {
                break 'all; // A lost doorbell: the ring stays full.
            }
            h.relax();
        }
        h.store(&ring, at, i + 1);
        if fences.body {
            h.fence(Fence::DmaWrite);
        }
        h.store(&ring, at + OWNER, 1u32);
        h.charge(CpuWork::TxDescriptor(1));
        if i % 4 == 3 {
            if fences.doorbell {
                h.fence(Fence::Write);
            }
            h.write32(DOORBELL, 0);
        }
    }
    h.delay(Span::from_us(5));
}

/// The bodies that left.
fn sent(mut m: Machine<Pcie, Toy>) -> Vec<u64> {
    let mut sent = vec![];
    let keep = |_, f: &[u8]| {
        sent.push(u64::from_le_bytes(f.try_into().unwrap()));
        Ok::<(), ()>(())
    };
    m.bus.sink_mut().drain(keep).unwrap();
    sent
}

/// The values that left.
fn run(order: Order, fences: Fences, count: u64) -> (Vec<u64>, u64) {
    let mut h = Reorder::new(machine(), order);
    drive(&mut h, fences, count);
    let passed = h.passed();
    (sent(h.into_inner()), passed)
}

fn right(count: u64) -> Vec<u64> {
    (1..=count).collect()
}

#[test]
fn a_driver_with_all_fences_passes_in_every_order() {
    for order in [Order::Late, Order::Overtaken] {
        assert_eq!(run(order, MENDED, 64).0, right(64), "{order:?}");
    }
    for seed in 0..100 {
        assert_eq!(run(Order::Random(seed), MENDED, 64).0, right(64), "seed {seed}");
    }
}

#[test]
fn a_doorbell_without_its_fence_announces_nothing() {
    let broken = Fences { doorbell: false, ..MENDED };
    assert_eq!(run(Order::Late, broken, 4).0, []);
}

#[test]
fn an_ownership_word_without_its_fence_goes_before_the_body() {
    let broken = Fences { body: false, ..MENDED };
    let (sent, passed) = run(Order::Overtaken, broken, 64);
    assert_ne!(sent, right(64));
    assert!(passed > 0);
}

#[test]
fn random_orders_find_either_mistake() {
    for broken in [Fences { body: false, ..MENDED }, Fences { doorbell: false, ..MENDED }] {
        let found =
            (0..100).filter(|seed| run(Order::Random(*seed), broken, 64).0 != right(64)).count();
        assert!(found > 50, "{found} of 100 seeds");
    }
}

#[test]
fn a_seed_is_an_order() {
    let broken = Fences { body: false, doorbell: false };
    assert_eq!(run(Order::Random(7), broken, 64), run(Order::Random(7), broken, 64));
    let orders: Vec<_> = (0..10).map(|seed| run(Order::Random(seed), broken, 64)).collect();
    assert!(orders.iter().any(|o| *o != orders[0]));
}

/// The values that a load returns by seed, if another load of its line was made before memory
/// changed from 0 to 7.
fn loads(order: fn(u64) -> Order, between: fn(&mut Reorder<Machine<Pcie, Toy>>)) -> Vec<u64> {
    (0..20)
        .map(|seed| {
            let mut h = Reorder::new(machine(), order(seed));
            let area = h.coherent(64, 64).unwrap();
            assert_eq!(h.load::<u32>(&area, 0), 0);
            h.inner.store(&area, 8, 7u64);
            between(&mut h);
            let seen = h.load(&area, 8);
            assert_eq!(h.load::<u64>(&area, 8), 7, "again");
            seen
        })
        .collect()
}

#[test]
fn a_load_may_be_made_with_one_before_it_unless_something_lies_between() {
    let old = loads(Order::Random, |_| {}).into_iter().filter(|v| *v == 0).count();
    assert!((1..20).contains(&old), "{old} of 20");
    assert_eq!(loads(|_| Order::Late, |_| {}), [7; 20]);
    assert_eq!(loads(Order::Random, |h| h.fence(Fence::DmaRead)), [7; 20]);
    assert_eq!(loads(Order::Random, |h| _ = h.read32(BASE)), [7; 20]);
    assert_eq!(loads(Order::Random, |h| h.delay(Span::ZERO)), [7; 20]);
    assert!(loads(Order::Random, |h| h.fence(Fence::Write)).contains(&0), "this orders stores");
}

#[test]
fn a_load_after_an_own_store_tells_it_however_early() {
    for seed in 0..20 {
        let mut h = Reorder::new(machine(), Order::Random(seed));
        let area = h.coherent(64, 64).unwrap();
        assert_eq!(h.load::<u32>(&area, 0), 0);
        h.store(&area, 8, 5u64);
        if seed % 2 == 0 {
            h.drain();
        }
        assert_eq!(h.load::<u64>(&area, 8), 5, "{seed}");
    }
}

#[test]
fn a_fence_that_is_ignored_does_nothing() {
    let mut h = Reorder::new(machine(), Order::Late);
    h.ignored = Some(Fence::Write);
    drive(&mut h, MENDED, 4);
    assert_eq!(sent(h.into_inner()), []);
}

#[test]
fn without_the_arm_both_mistakes_go_unseen() {
    let mut m = machine();
    drive(&mut m, Fences { body: false, doorbell: false }, 64);
    assert_eq!(sent(m), right(64));
}

#[test]
fn the_cpu_sees_its_own_stores() {
    let mut h = Reorder::new(machine(), Order::Late);
    let c = h.coherent(16, 64).unwrap();
    h.store(&c, 0, 0x1111_1111_1111_1111u64);
    h.store(&c, 2, 0x2222u16);
    assert_eq!(h.load::<u64>(&c, 0), 0x1111_1111_2222_1111);
    assert_eq!(h.load::<u32>(&c, 1), 0x1122_2211);
    assert_eq!(h.inner.load::<u64>(&c, 0), 0, "and memory does not have them");
    assert_eq!(h.into_inner().load::<u64>(&c, 0), 0x1111_1111_2222_1111);
}

#[test]
fn a_large_store_is_torn() {
    let mut h = Reorder::new(machine(), Order::Overtaken);
    let c = h.coherent(32, 64).unwrap();
    let b = h.buffer(12, Alignment::ANY).unwrap();
    h.bytes_mut(&b, 0..12, |bytes| bytes.fill(1));
    h.copy(&b, 0..12, &c, 4);
    assert_eq!(h.load::<[u8; 16]>(&c, 0)[3..], [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(h.inner.load::<u64>(&c, 0), 0);
    assert_eq!(h.inner.load::<u64>(&c, 8), 0x0101_0101_0101_0101);
    h.release(b);
}

#[test]
fn stores_to_the_same_bytes_stay_in_order() {
    for seed in 0..50 {
        let mut h = Reorder::new(machine(), Order::Random(seed));
        let c = h.coherent(64, 64).unwrap();
        for v in 1..=20u32 {
            h.store(&c, 0, v);
            h.relax();
            let seen: u32 = h.inner.load(&c, 0);
            assert!(seen <= v);
        }
        assert_eq!(h.into_inner().load::<u32>(&c, 0), 20);
    }
}

#[test]
fn a_store_is_not_kept_for_ever() {
    let mut h = Reorder::new(machine(), Order::Late);
    let c = h.coherent(16, 64).unwrap();
    h.store(&c, 0, 1u32);
    h.delay(Span::from_us(9));
    assert_eq!(h.inner.load::<u32>(&c, 0), 0);
    h.delay(Span::from_us(1));
    h.relax();
    assert_eq!(h.inner.load::<u32>(&c, 0), 1);
}
