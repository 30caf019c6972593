//! Hypervisor calls: a device without registers copies frames between two partitions.
//!
//! The device is a small logical LAN. A partition registers one receive slot, another sends to it.
//! A large frame takes two calls: the first copies half of it and returns H_BUSY with a token, with
//! which the caller continues. The receiver is interrupted some time after the copy.

use doorbell_bus::{
    Bus, CallPrice, Costs, HypervisorDevice, HypervisorPort, Machine, Partitions, Platform,
    ProtectionGranularity,
};
use doorbell_hal::{
    Alignment, Buf, Coherent, Direction, DropReason, EventSource, Fence, Hcall, HcallDevice,
    HcallReturn, Host, Hypervisor, Iova, Mapped, Port, Reg, Reply, RxVerdict, Span, Time,
};
use doorbell_testkit::reorder::{Order, Reorder};

/// (slot) -> status. The slot is [`SLOT`] bytes: status word, length, frame.
const H_REGISTER: Hcall = Hcall(0x114);
/// (frame, length, to, token) -> status, token.
const H_SEND: Hcall = Hcall(0x120);
/// PAPR return codes.
const H_SUCCESS: i64 = 0;
const H_BUSY: i64 = 1;
const H_FUNCTION: i64 = -2;
const H_PARAMETER: i64 = -4;
const H_DROPPED: i64 = -12;

const FRAME: u32 = 8;
const SLOT: u32 = 2048;
/// Frames up to this length are copied in one call.
const AT_ONCE: u64 = 1024;
/// From the copy to the interrupt.
const NOTIFY: Span = Span::from_us(3);
const VECTOR: u16 = 5;

/// A frame that is half copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Half {
    from: usize,
    to: usize,
    frame: Iova,
    len: u64,
    token: u64,
}

/// The device.
#[derive(Debug, Default)]
struct Exchange {
    slots: [Option<Iova>; 2],
    half: Option<Half>,
    tokens: u64,
    /// Interrupts to come, in order: when, and for which partition.
    notify: Vec<(Time, usize)>,
}

impl Exchange {
    /// Copies bytes `range` of the frame; when that is done.
    fn copy<P: Port>(
        ports: &mut [P],
        at: Time,
        h: Half,
        slot: Iova,
        range: core::ops::Range<u64>,
    ) -> Option<Time> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let read = ports[h.from].read(at, h.frame + range.start, &mut bytes).ok()?;
        ports[h.to].write(read, slot + u64::from(FRAME) + range.start, &bytes).ok()
    }

    fn send<P: Port>(&mut self, ports: &mut [P], from: usize, at: Time, a: &[u64; 9]) -> Reply {
        let [frame, len, to, token, ..] = *a;
        let refused = (HcallReturn::status(H_PARAMETER), at);
        let to = to as usize;
        if to >= ports.len() || to == from || len == 0 || len > u64::from(SLOT - FRAME) {
            return refused;
        }
        let Some(slot) = self.slots[to] else { return (HcallReturn::status(H_DROPPED), at) };
        let h = Half { from, to, frame: Iova(frame), len, token };
        let start = match (token, self.half) {
            (0, _) => 0,
            (_, Some(half)) if half == h => AT_ONCE,
            _ => return refused,
        };
        let end = len.min(start + AT_ONCE);
        let Some(copied) = Exchange::copy(ports, at, h, slot, start..end) else { return refused };
        if end < len {
            self.tokens += 1;
            self.half = Some(Half { token: self.tokens, ..h });
            let mut ret = [0; 9];
            ret[0] = self.tokens;
            return (HcallReturn { status: H_BUSY, ret }, copied);
        }
        self.half = None;
        // Length and status are one word, behind the frame.
        let word = (len | 1 << 32).to_le_bytes();
        let Ok(told) = ports[to].write(copied, slot, &word) else { return refused };
        self.notify.push((told + NOTIFY, to));
        (HcallReturn::status(H_SUCCESS), told)
    }
}

impl EventSource for Exchange {
    fn next_due(&self) -> Option<Time> {
        self.notify.first().map(|n| n.0)
    }
}

impl<P: Port> HcallDevice<P> for Exchange {
    fn hcall(&mut self, ports: &mut [P], from: usize, at: Time, c: Hcall, a: &[u64; 9]) -> Reply {
        match c {
            H_REGISTER => {
                self.slots[from] = Some(Iova(a[0]));
                (HcallReturn::status(H_SUCCESS), at)
            }
            H_SEND => self.send(ports, from, at, a),
            _ => (HcallReturn::status(H_FUNCTION), at),
        }
    }
    fn receive(&mut self, _: &mut [P], _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Dropped(DropReason::Off)
    }
    fn advance(&mut self, ports: &mut [P], until: Time) {
        while let Some(&(at, to)) = self.notify.first().filter(|n| n.0 <= until) {
            self.notify.remove(0);
            ports[to].raise_msi(at, VECTOR);
        }
    }
    fn reset(&mut self, _: &mut [P], _: Time) {
        *self = Exchange::default();
    }
}

/// The driver: one adapter of one partition.
struct Adapter {
    slot: Coherent,
    /// Calls that the last send took.
    calls: u32,
}

impl Adapter {
    fn open<H: Hypervisor>(h: &mut H) -> Adapter {
        let slot = h.coherent(SLOT, 64).unwrap();
        assert_eq!(h.hcall(H_REGISTER, &[slot.iova().0]).status, H_SUCCESS);
        Adapter { slot, calls: 0 }
    }

    /// Sends a mapped frame, and comes back with the token while the hypervisor is busy.
    fn send<H: Hypervisor>(&mut self, h: &mut H, frame: &Mapped, to: u64) -> i64 {
        let mut token = 0;
        self.calls = 0;
        loop {
            self.calls += 1;
            let r = h.hcall(H_SEND, &[frame.iova().0, frame.len().into(), to, token]);
            if r.status != H_BUSY || self.calls == 100 {
                return r.status;
            }
            token = r.ret[0];
        }
    }

    /// The frame that has arrived, if one has.
    fn received<H: Host>(&mut self, h: &mut H) -> Option<Vec<u8>> {
        let word: u64 = h.load(&self.slot, 0);
        if word >> 32 == 0 {
            return None;
        }
        h.fence(Fence::DmaRead);
        let frame = (0..word as u32).map(|i| h.load(&self.slot, FRAME + i)).collect();
        h.store(&self.slot, 0, 0u64);
        Some(frame)
    }
}

type System = Machine<Partitions<HypervisorPort>, HypervisorDevice<Exchange>>;

const CALL: Span = Span::from_ns(700);
/// A picosecond a byte, so that times are easily told.
const PER_KIB: Span = Span::from_ps(1024);

/// Two partitions of one core each, with memory at the same addresses.
fn system() -> System {
    let partition = || {
        HypervisorPort::new(Platform::new(1 << 32, 1 << 20, ProtectionGranularity::Byte), PER_KIB)
    };
    let partitions = Partitions::new(vec![partition(), partition()], vec![0, 1], CALL);
    Machine::new(partitions, HypervisorDevice(Exchange::default()), Costs::FREE, 2)
}

fn pattern(len: u32) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + 1) as u8).collect()
}

fn mapped<H: Host>(h: &mut H, len: u32) -> Mapped {
    let b: Buf = h.buffer(len, Alignment::ANY).unwrap();
    h.bytes_mut(&b, 0..len, |bytes| bytes.copy_from_slice(&pattern(len)));
    h.map(b, 0..len, Direction::ToDevice).unwrap()
}

/// Both adapters open, partition 0 entered.
fn pair(m: &mut System) -> [Adapter; 2] {
    m.enter(1);
    let one = Adapter::open(m);
    m.enter(0);
    [Adapter::open(m), one]
}

#[test]
fn a_frame_crosses_from_one_partition_to_another() {
    let mut m = system();
    let [mut zero, mut one] = pair(&mut m);
    let frame = mapped(&mut m, 100);
    assert_eq!(zero.send(&mut m, &frame, 1), H_SUCCESS);
    let sent = m.now();
    m.enter(1);
    m.idle_until(sent);
    assert_eq!(one.received(&mut m), Some(pattern(100)));
    assert_eq!(one.received(&mut m), None);
    m.enter(0);
    assert_eq!(zero.received(&mut m), None, "it went to the other");
}

#[test]
fn a_busy_call_is_continued_with_its_token() {
    let mut m = system();
    let [mut zero, mut one] = pair(&mut m);
    let frame = mapped(&mut m, 1500);
    assert_eq!(zero.send(&mut m, &frame, 1), H_SUCCESS);
    assert_eq!(zero.calls, 2);
    let sent = m.now();
    m.enter(1);
    m.idle_until(sent);
    assert_eq!(one.received(&mut m), Some(pattern(1500)));
}

#[test]
fn a_token_of_another_call_is_refused() {
    let mut m = system();
    let [_, mut one] = pair(&mut m);
    let frame = mapped(&mut m, 1500);
    let send = |m: &mut System, len, token| m.hcall(H_SEND, &[frame.iova().0, len, 1, token]);
    let busy = send(&mut m, 1500, 0);
    assert_eq!(busy.status, H_BUSY);
    let token = busy.ret[0];
    assert_eq!(send(&mut m, 1500, token + 1).status, H_PARAMETER);
    assert_eq!(send(&mut m, 1400, token).status, H_PARAMETER);
    let now = m.now();
    m.enter(1);
    m.idle_until(now);
    assert_eq!(one.received(&mut m), None, "half a frame is no frame");
    m.enter(0);
    assert_eq!(send(&mut m, 1500, token).status, H_SUCCESS);
    assert_eq!(send(&mut m, 1500, token).status, H_PARAMETER, "a token is good once");
}

#[test]
fn an_address_that_is_not_mapped_is_an_error_and_nothing_is_copied() {
    let mut m = system();
    let [mut zero, mut one] = pair(&mut m);
    let slot = (one.slot.addr(), SLOT as usize);
    let frame = mapped(&mut m, 100);
    let outside = [frame.iova() + 1, Iova(0), Iova(u64::MAX - 10)];
    for from in outside {
        assert_eq!(m.hcall(H_SEND, &[from.0, 100, 1, 0]).status, H_PARAMETER, "{from:?}");
    }
    assert_eq!(m.ledger().dma_faults, 3);
    assert!(m.bus.ports[1].platform_mut().memory.cpu(slot.0, slot.1).iter().all(|b| *b == 0));
    assert_eq!(zero.send(&mut m, &frame, 1), H_SUCCESS);
    // And once its mapping has ended, the same address is not.
    let at = frame.iova().0;
    let b = m.unmap(frame);
    assert_eq!(m.hcall(H_SEND, &[at, 100, 1, 0]).status, H_PARAMETER);
    m.release(b);
    let now = m.now();
    m.enter(1);
    m.idle_until(now);
    assert!(one.received(&mut m).is_some());
    assert_eq!(m.ledger().dma_faults, 0, "the faults were the other partition's");
}

#[test]
fn a_receiver_that_has_ended_its_mapping_gets_nothing() {
    let mut m = system();
    let [mut zero, one] = pair(&mut m);
    let slot = one.slot.addr();
    m.enter(1);
    m.release_coherent(one.slot);
    m.enter(0);
    let frame = mapped(&mut m, 100);
    assert_eq!(zero.send(&mut m, &frame, 1), H_PARAMETER);
    assert!(m.bus.ports[1].platform_mut().memory.cpu(slot, SLOT as usize).iter().all(|b| *b == 0));
}

#[test]
fn the_same_address_in_two_partitions_is_two_places() {
    let mut m = system();
    let mut areas = vec![];
    for core in 0..2 {
        m.enter(core);
        let c = m.coherent(64, 64).unwrap();
        m.store(&c, 0, core as u32 + 1);
        areas.push(c);
    }
    assert_eq!(areas[0].iova(), areas[1].iova());
    for (core, area) in areas.iter().enumerate() {
        m.enter(core);
        assert_eq!(m.load::<u32>(area, 0), core as u32 + 1);
    }
}

#[test]
fn a_call_costs_its_price_and_the_time_of_the_copy() {
    let mut m = system();
    let [mut zero, _] = pair(&mut m);
    m.bus.price(H_SEND, CallPrice { fixed: Span::from_ns(400), ..CallPrice::default() });
    let frame = mapped(&mut m, 1500);
    let before = m.now();
    assert_eq!(zero.send(&mut m, &frame, 1), H_SUCCESS);
    // Two calls; 1500 bytes read, and written with the status word of 8.
    let copy = Span::from_ps(1500 + 1500 + 8);
    assert_eq!(m.now().since(before), Span::from_ns(400) * 2 + copy);
    let calls = m.bus.calls().iter().find(|c| c.call == H_SEND).unwrap();
    assert_eq!((calls.times, calls.spent), (2, Span::from_ns(800) + copy));
    assert_eq!(m.ledger().hcalls, 3, "registration, and two for the frame");
}

#[test]
fn the_receiver_sees_the_frame_no_earlier_than_the_copy_was_made() {
    let mut m = system();
    let [mut zero, mut one] = pair(&mut m);
    let frame = mapped(&mut m, 100);
    assert_eq!(zero.send(&mut m, &frame, 1), H_SUCCESS);
    let sent = m.now();
    m.enter(1);
    m.idle_until(Time::from_ps(sent.ps() - 1));
    assert_eq!(one.received(&mut m), None);
    m.idle_until(sent);
    assert_eq!(one.received(&mut m), Some(pattern(100)));
}

#[test]
fn the_receiver_is_interrupted_at_the_devices_own_time() {
    let mut m = system();
    let [mut zero, _] = pair(&mut m);
    let frame = mapped(&mut m, 100);
    assert_eq!(zero.send(&mut m, &frame, 1), H_SUCCESS);
    let due = m.now() + NOTIFY;
    let pending = |m: &System, i: usize| m.bus.ports[i].platform().message_pending(VECTOR);
    m.run_device(Time::from_ps(due.ps() - 1));
    assert_eq!(pending(&m, 1), None);
    assert_eq!(
        m.next_event(),
        due,
        "the sender's machine knows of it, though nobody is entered there"
    );
    m.run_device(due);
    assert_eq!((pending(&m, 0), pending(&m, 1)), (None, Some(due)));
}

#[test]
fn the_hypervisor_sees_stores_that_no_fence_orders() {
    let mut m = system();
    let [_, mut one] = pair(&mut m);
    let mut h = Reorder::new(m, Order::Late);
    let frame = h.coherent(64, 64).unwrap();
    h.store(&frame, 0, [7u8; 64]);
    assert_eq!(h.hcall(H_SEND, &[frame.iova().0, 64, 1, 0]).status, H_SUCCESS);
    let mut m = h.into_inner();
    let now = m.now();
    m.enter(1);
    m.idle_until(now);
    assert_eq!(one.received(&mut m), Some(vec![7; 64]));
}

#[test]
fn a_call_that_does_not_exist_and_a_register_that_does_not_are_harmless() {
    let mut m = system();
    assert_eq!(m.hcall(Hcall(0xdead), &[]), HcallReturn::status(H_FUNCTION));
    m.write32(Reg::at(0), 1);
    assert_eq!(m.read32(Reg::at(0)), u32::MAX);
}
