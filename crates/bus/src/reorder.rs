//! A test arm: a host whose CPU reorders stores as far as its fences allow.
//!
//! x86 keeps stores in order, so a driver tested there alone may lack a barrier
//! that arm64 or POWER needs. [`Reorder`] wraps any [`Host`] and puts a store
//! buffer between its stores and memory. What the fences of the seam promise is
//! kept, and nothing else:
//!
//! * [`Fence::DmaWrite`] and [`Fence::Write`]: no store after the fence reaches
//!   memory before all stores ahead of it have.
//! * [`Fence::Write`]: moreover, all stores ahead of it are in memory when the
//!   next register write arrives. A register write alone flushes nothing, nor
//!   does a register read.
//! * Two stores to the same bytes stay in order, and the CPU sees its own stores.
//! * A store of more than eight bytes, or across their boundary, is several.
//! * A hypervisor runs on the same CPU: it sees all stores.
//! * No store buffer keeps a store for ever: after [`Reorder::LIMIT`] it goes.
//!
//! Buffers ([`Host::bytes`]) are not reordered: [`Host::map`] is their fence.
//!
//! Sources: linux Documentation/memory-barriers.txt ("Kernel I/O barrier
//! effects", `dma_wmb`), and the weakest of the architectures there.

use core::ops::Range;
use doorbell_seam::{
    Buf, Coherent, Direction, Exhausted, Fence, Hcall, HcallReturn, Host, Hypervisor, MapError, Mapped, Place, Reg,
    Span, Time, Work,
};
use std::collections::VecDeque;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Which of the allowed orders is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each store is kept as long as is allowed. Finds a missing fence between a
    /// store and the doorbell that announces it.
    Late,
    /// The first store behind a fence is kept, all others pass it at once. Finds
    /// a missing fence between a descriptor's body and its ownership word.
    Overtaken,
    /// Any store at any time, from this seed. Finds either, sooner or later.
    Random(u64),
}

/// A store that has not reached memory.
#[derive(Debug)]
struct Held {
    area: Coherent,
    offset: u32,
    bytes: Vec<u8>,
    /// Fences before it.
    epoch: u64,
    at: Time,
}

impl Held {
    fn range(&self) -> Range<u64> {
        let start = self.area.addr() + u64::from(self.offset);
        start..start + self.bytes.len() as u64
    }

    fn overlaps(&self, other: &Range<u64>) -> bool {
        let own = self.range();
        own.start < other.end && other.start < own.end
    }
}

/// A host with a store buffer: one CPU's. A driver that runs on several needs a
/// machine of its own for each.
#[derive(Debug)]
pub struct Reorder<H> {
    /// The host beneath. What is done to it directly passes the store buffer by.
    pub inner: H,
    /// A fence of this kind does nothing: what a driver that lacks it would do.
    pub ignored: Option<Fence>,
    order: Order,
    random: u64,
    /// Oldest first.
    held: VecDeque<Held>,
    /// Fences so far.
    epoch: u64,
    /// Stores of earlier epochs go before the next register write.
    before_register: u64,
    passed: u64,
}

impl<H: Host> Reorder<H> {
    /// The longest time for which a store is kept.
    pub const LIMIT: Span = Span::from_us(10);

    /// `inner` with an empty store buffer.
    pub fn new(inner: H, order: Order) -> Reorder<H> {
        let random = if let Order::Random(seed) = order { seed } else { 0 };
        Reorder { inner, ignored: None, order, random, held: VecDeque::new(), epoch: 0, before_register: 0, passed: 0 }
    }

    /// How many stores reached memory before an older one: whether the arm did
    /// anything at all.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Everything held goes to memory, oldest first.
    pub fn drain(&mut self) {
        while !self.held.is_empty() {
            self.release_at(0);
        }
    }

    /// The host beneath, once the store buffer is empty.
    pub fn into_inner(mut self) -> H {
        self.drain();
        self.inner
    }

    /// The CPU stores `bytes`: each aligned piece of up to eight is whole, and
    /// the pieces have no order.
    fn hold(&mut self, to: &Coherent, mut offset: u32, mut bytes: &[u8]) {
        assert!(offset as usize + bytes.len() <= to.len() as usize, "store outside the area");
        while !bytes.is_empty() {
            let to_boundary = 8 - (to.addr() + u64::from(offset)) % 8;
            let (piece, rest) = bytes.split_at(bytes.len().min(to_boundary as usize));
            let area = Coherent::from_parts(to.addr(), to.iova(), to.len(), to.token());
            let at = self.inner.now();
            self.held.push_back(Held { area, offset, bytes: piece.to_vec(), epoch: self.epoch, at });
            let newest = self.held.len() - 1;
            if self.order == Order::Overtaken && newest > 0 && self.may_go(newest) {
                self.release_at(newest);
            }
            offset += piece.len() as u32;
            bytes = rest;
        }
    }

    /// One store goes to memory, at one moment: no device looks in between.
    fn release_at(&mut self, i: usize) {
        self.passed += u64::from(i > 0);
        let Some(Held { area, offset, bytes, .. }) = self.held.remove(i) else { return };
        for (at, b) in (offset..).zip(bytes) {
            self.inner.store(&area, at, b);
        }
    }

    /// Whether nothing older has to go first.
    fn may_go(&self, i: usize) -> bool {
        let (epoch, range) = (self.held[i].epoch, self.held[i].range());
        self.held.iter().take(i).all(|older| older.epoch == epoch && !older.overlaps(&range))
    }

    /// The CPU is about to do something during which the device may look.
    fn turn(&mut self) {
        let now = self.inner.now();
        while self.held.front().is_some_and(|h| h.at + Self::LIMIT <= now) {
            self.release_at(0);
        }
        if let Order::Random(_) = self.order {
            // One time in two nothing goes; else one or more do.
            while !self.held.is_empty() && self.next_random() & 1 == 1 {
                let i = self.next_random() as usize % self.held.len();
                if self.may_go(i) {
                    self.release_at(i);
                }
            }
        }
    }

    /// What the last [`Fence::Write`] orders goes before a register write.
    fn before_register_write(&mut self) {
        self.turn();
        while self.held.front().is_some_and(|h| h.epoch < self.before_register) {
            self.release_at(0);
        }
    }

    /// SplitMix64.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) >> 32
    }
}

impl<H: Host> Host for Reorder<H> {
    fn read32(&mut self, r: Reg) -> u32 {
        self.turn();
        self.inner.read32(r)
    }
    fn write32(&mut self, r: Reg, v: u32) {
        self.before_register_write();
        self.inner.write32(r, v);
    }
    fn write64(&mut self, r: Reg, v: u64) {
        self.before_register_write();
        self.inner.write64(r, v);
    }

    fn buffer(&mut self, len: u32, place: Place) -> Result<Buf, Exhausted> {
        self.inner.buffer(len, place)
    }
    fn release(&mut self, b: Buf) {
        self.inner.release(b);
    }
    fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        self.inner.bytes(b, range, f)
    }
    fn bytes_mut<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.inner.bytes_mut(b, range, f)
    }
    fn copy(&mut self, from: &Buf, range: Range<u32>, to: &Coherent, offset: u32) {
        let bytes = self.inner.bytes(from, range, <[u8]>::to_vec);
        self.hold(to, offset, &bytes);
    }
    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError> {
        self.inner.map(b, range, dir)
    }
    fn unmap(&mut self, m: Mapped) -> Buf {
        self.inner.unmap(m)
    }

    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, Exhausted> {
        self.inner.coherent(len, align)
    }
    fn release_coherent(&mut self, c: Coherent) {
        // Its memory may soon be somebody else's.
        self.drain();
        self.inner.release_coherent(c);
    }

    fn load<T: FromBytes>(&mut self, at: &Coherent, offset: u32) -> T {
        self.turn();
        let start = at.addr() + u64::from(offset);
        let range = start..start + size_of::<T>() as u64;
        if !self.held.iter().any(|h| h.overlaps(&range)) {
            return self.inner.load(at, offset);
        }
        let mut bytes: Vec<u8> = (offset..).take(size_of::<T>()).map(|o| self.inner.load(at, o)).collect();
        for held in &self.held {
            for (address, b) in held.range().zip(&held.bytes) {
                if range.contains(&address) {
                    bytes[(address - start) as usize] = *b;
                }
            }
        }
        match T::read_from_bytes(&bytes) {
            Ok(v) => v,
            Err(_) => unreachable!("the bytes are as many as T has"),
        }
    }

    fn store<T: IntoBytes + Immutable>(&mut self, at: &Coherent, offset: u32, v: T) {
        self.hold(at, offset, v.as_bytes());
    }

    fn fence(&mut self, f: Fence) {
        if self.ignored == Some(f) {
            return;
        }
        match f {
            Fence::DmaRead => {}
            Fence::DmaWrite | Fence::Write => {
                self.epoch += 1;
                if f == Fence::Write {
                    self.before_register = self.epoch;
                }
                // What is kept behind a fence would keep what follows it from overtaking.
                if self.order == Order::Overtaken {
                    self.drain();
                }
            }
        }
        self.inner.fence(f);
    }

    fn spend(&mut self, w: Work) {
        self.inner.spend(w);
    }
    fn relax(&mut self) {
        self.turn();
        self.inner.relax();
    }
    fn delay(&mut self, d: Span) {
        self.turn();
        self.inner.delay(d);
    }
    fn now(&self) -> Time {
        self.inner.now()
    }
}

impl<H: Hypervisor> Hypervisor for Reorder<H> {
    fn hcall(&mut self, call: Hcall, a: &[u64]) -> HcallReturn {
        self.drain();
        self.inner.hcall(call, a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcie::{Rules, Settings};
    use crate::{Bus, Costs, Guard, Latencies, Machine, Pcie, Platform};
    use doorbell_seam::{Device, Iova, Port, Taken, Timed, WorkKind};

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

    impl Timed for Toy {
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
        fn receive(&mut self, _: &mut P, _: Time, _: &[u8]) -> Taken {
            Taken::Dropped(doorbell_seam::Drop::Off)
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

    /// Which fences the driver has.
    #[derive(Clone, Copy)]
    struct Fences {
        body: bool,
        doorbell: bool,
    }
    const MENDED: Fences = Fences { body: true, doorbell: true };

    fn machine() -> Machine<Pcie, Toy> {
        let latencies = Latencies { link: Span::from_ns(100), memory: Span::from_ns(100) };
        let mut platform = Platform::new(1 << 32, 1 << 20, Guard::Byte);
        platform.capture();
        let pcie = Pcie::new(platform, Rules::new(Settings::link(3, 8)).unwrap(), latencies, 0xf000_0000);
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
            h.spend(Work::TxDescriptor(1));
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
        m.bus.platform_mut().drain_capture(keep).unwrap();
        sent
    }

    /// What left, and how many stores had passed another.
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
            let found = (0..100).filter(|seed| run(Order::Random(*seed), broken, 64).0 != right(64)).count();
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
        let b = h.buffer(12, Place::ANY).unwrap();
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
}
