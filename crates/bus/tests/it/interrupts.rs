//! Interrupts, masks and a NAPI driver that must not lose one.
//!
//! The device writes received frames to a ring. It interrupts after [`THRESHOLD`] frames, or
//! [`DELAY`] after the last one, by a timer that restarts with each frame. The interrupt handler
//! masks and schedules; a poll takes frames up to a budget, unmasks when there are no more, and
//! checks the ring once more.

use doorbell_bus::{Bus, Costs, Machine, Platform, ProtectionGranularity};
use doorbell_hal::{
    Coherent, CpuWork, Device, DropReason, EventSource, Fence, Host, Iova, Port, Reg, RxVerdict,
    Span, Time, WorkKind,
};
use doorbell_testkit::ConstantLatencyBus;
use std::collections::VecDeque;

const LINK: Span = Span::from_ns(100);

// ---- the device ----

/// Cause bits. A read clears them and lowers the line.
const CAUSE: Reg = Reg::at(0x00);
/// 1 unmasks.
const ENABLE: Reg = Reg::at(0x04);
/// 1 masks.
const DISABLE: Reg = Reg::at(0x08);
/// Address of the ring.
const RING: Reg = Reg::at(0x10);

const SLOTS: u32 = 256;
/// A slot: the frame's number, and at offset 4 its valid word.
const SLOT: u32 = 8;
const VALID: u32 = 4;

const THRESHOLD: u32 = 8;
const DELAY: Span = Span::from_us(10);

/// The kind of interrupt of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// A level, high while a cause is set and not masked.
    Line,
    /// A message. One that is masked is sent when it is unmasked.
    Message,
    /// A message. One that is masked is lost.
    Forgetful,
}

/// The device.
#[derive(Debug)]
struct Coalescer {
    signal: Signal,
    ring: Iova,
    next: u32,
    fifo: VecDeque<(Time, u32)>,
    /// Frames since the last interrupt.
    count: u32,
    /// Restarts with every frame.
    timer: Option<Time>,
    cause: bool,
    enabled: bool,
    /// All that the line did.
    edges: Vec<(Time, bool)>,
}

impl Coalescer {
    fn new(signal: Signal) -> Coalescer {
        let (fifo, ring, edges) = (VecDeque::new(), Iova(0), vec![]);
        Coalescer {
            signal,
            ring,
            next: 0,
            fifo,
            count: 0,
            timer: None,
            cause: false,
            enabled: false,
            edges,
        }
    }

    fn frame<P: Port>(&mut self, p: &mut P, at: Time, number: u32) {
        let slot = self.ring + u64::from(self.next % SLOTS * SLOT);
        self.next += 1;
        p.write(at, slot, &number.to_le_bytes()).unwrap();
        p.write(at, slot + u64::from(VALID), &[1, 0, 0, 0]).unwrap();
        self.count += 1;
        self.timer = Some(at + DELAY);
        if self.count == THRESHOLD {
            self.fire(p, at);
        }
    }

    fn fire<P: Port>(&mut self, p: &mut P, at: Time) {
        self.timer = None;
        self.count = 0;
        self.cause = self.enabled || self.signal != Signal::Forgetful;
        self.tell(p, at);
    }

    fn tell<P: Port>(&mut self, p: &mut P, at: Time) {
        match self.signal {
            Signal::Line => {
                let high = self.cause && self.enabled;
                p.set_irq_line(at, 0, high);
                if self.edges.last().is_some_and(|e| e.1) != high {
                    self.edges.push((at, high));
                }
            }
            Signal::Message | Signal::Forgetful if self.cause && self.enabled => {
                self.cause = false;
                p.raise_msi(at, 0);
            }
            Signal::Message | Signal::Forgetful => {}
        }
    }
}

impl EventSource for Coalescer {
    fn next_due(&self) -> Option<Time> {
        let frame = self.fifo.front().map(|f| f.0);
        frame.into_iter().chain(self.timer).min()
    }
}

impl<P: Port> Device<P> for Coalescer {
    fn mmio_read(&mut self, p: &mut P, at: Time, r: Reg, _: u8) -> u64 {
        if r != CAUSE {
            return u64::MAX;
        }
        let cause = core::mem::take(&mut self.cause);
        self.tell(p, at);
        cause.into()
    }
    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, _: u8, v: u64) {
        self.advance(p, at);
        match r {
            ENABLE => self.enabled = true,
            DISABLE => self.enabled = false,
            RING => self.ring = Iova(v),
            _ => {}
        }
        self.tell(p, at);
    }
    fn receive(&mut self, _: &mut P, at: Time, frame: &[u8]) -> RxVerdict {
        let Ok(number) = frame.try_into().map(u32::from_le_bytes) else {
            return RxVerdict::Dropped(DropReason::Malformed);
        };
        self.fifo.push_back((at, number));
        RxVerdict::Yes
    }
    fn advance(&mut self, p: &mut P, until: Time) {
        while let Some(at) = self.next_due().filter(|at| *at <= until) {
            if self.timer == Some(at) {
                self.fire(p, at);
            } else if let Some((_, number)) = self.fifo.pop_front() {
                self.frame(p, at, number);
            }
        }
    }
    fn reset(&mut self, p: &mut P, at: Time) {
        *self = Coalescer::new(self.signal);
        self.tell(p, at);
    }
}

/// A device on a wire with frames to come: they arrive at their times, whatever
/// the CPU is doing then.
#[derive(Debug)]
struct Wired<D> {
    device: D,
    frames: VecDeque<Time>,
    arrived: u32,
}

impl<D: EventSource> EventSource for Wired<D> {
    fn next_due(&self) -> Option<Time> {
        self.frames.front().copied().into_iter().chain(self.device.next_due()).min()
    }
}

impl<P: Port, D: Device<P>> Device<P> for Wired<D> {
    fn mmio_read(&mut self, p: &mut P, at: Time, r: Reg, size: u8) -> u64 {
        self.advance(p, at);
        self.device.mmio_read(p, at, r, size)
    }
    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, size: u8, v: u64) {
        self.advance(p, at);
        self.device.mmio_write(p, at, r, size, v);
    }
    fn receive(&mut self, p: &mut P, at: Time, frame: &[u8]) -> RxVerdict {
        self.device.receive(p, at, frame)
    }
    fn advance(&mut self, p: &mut P, until: Time) {
        while let Some(at) = self.frames.pop_front_if(|at| *at <= until) {
            self.device.advance(p, at);
            assert_eq!(self.device.receive(p, at, &self.arrived.to_le_bytes()), RxVerdict::Yes);
            self.arrived += 1;
        }
        self.device.advance(p, until);
    }
    fn reset(&mut self, p: &mut P, at: Time) {
        self.device.reset(p, at);
    }
}

// ---- the driver ----

/// The check that the driver makes after unmasking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recheck {
    Nothing,
    /// Checks the ring once more.
    Look,
    /// Flushes the unmasking by a read, then checks the ring.
    FlushAndLook,
}

struct Napi {
    signal: Signal,
    recheck: Recheck,
    ring: Coherent,
    next: u32,
    got: Vec<u32>,
    interrupts: u32,
}

impl Napi {
    fn open<H: Host>(h: &mut H, signal: Signal, recheck: Recheck) -> Napi {
        let ring = h.coherent(SLOTS * SLOT, 64).unwrap();
        h.write64(RING, ring.iova().0);
        h.write32(ENABLE, 1);
        Napi { signal, recheck, ring, next: 0, got: vec![], interrupts: 0 }
    }

    /// Masks; whether a poll is needed.
    fn interrupt<H: Host>(&mut self, h: &mut H) -> bool {
        h.charge(CpuWork::Interrupt);
        if self.signal == Signal::Line && h.read32(CAUSE) == 0 {
            return false;
        }
        self.interrupts += 1;
        h.write32(DISABLE, 1);
        true
    }

    fn take<H: Host>(&mut self, h: &mut H) -> bool {
        let at = self.next % SLOTS * SLOT;
        if h.load::<u32>(&self.ring, at + VALID) == 0 {
            return false;
        }
        h.fence(Fence::DmaRead);
        let number = h.load(&self.ring, at);
        self.got.push(number);
        h.store(&self.ring, at + VALID, 0u32);
        h.charge(CpuWork::RxPacket);
        self.next += 1;
        true
    }

    /// Takes up to `budget` frames; whether to poll again.
    fn poll<H: Host>(&mut self, h: &mut H, budget: u32) -> bool {
        h.charge(CpuWork::Poll);
        for _ in 0..budget {
            if !self.take(h) {
                h.write32(ENABLE, 1);
                let look = match self.recheck {
                    Recheck::Nothing => false,
                    Recheck::Look => true,
                    Recheck::FlushAndLook => {
                        h.read32(RING);
                        true
                    }
                };
                let at = self.next % SLOTS * SLOT;
                let more = look && h.load::<u32>(&self.ring, at + VALID) != 0;
                if more {
                    h.write32(DISABLE, 1);
                }
                return more;
            }
        }
        true
    }
}

// ---- the CPU ----

type System = Machine<ConstantLatencyBus, Wired<Coalescer>>;

fn us(n: u64) -> Time {
    Time::ZERO + Span::from_us(n)
}

fn system(signal: Signal, frames: impl IntoIterator<Item = Time>) -> System {
    let bus =
        ConstantLatencyBus::new(Platform::new(1 << 32, 1 << 20, ProtectionGranularity::Byte), LINK);
    let wired =
        Wired { device: Coalescer::new(signal), frames: frames.into_iter().collect(), arrived: 0 };
    let mut costs = Costs { mmio_write: Span::from_ns(40), ..Costs::FREE };
    for (kind, ns) in [(WorkKind::Interrupt, 500), (WorkKind::Poll, 50), (WorkKind::RxPacket, 200)]
    {
        costs.work[kind as usize].each = Span::from_ns(ns);
    }
    Machine::new(bus, wired, costs, 1)
}

/// Since when the CPU is asked to come.
fn asked(m: &System) -> Option<Time> {
    let p = m.bus.platform();
    p.line(0).or(p.message_pending(0))
}

/// One core, until nothing happens any more.
fn run(m: &mut System, d: &mut Napi) {
    loop {
        if let Some(since) = asked(m) {
            m.idle_until(since);
            m.bus.platform_mut().take_message(0);
            if d.interrupt(m) {
                while d.poll(m, 4) {}
            }
        } else if m.next_event() < Time::NEVER {
            m.run_device(m.next_event());
        } else {
            return;
        }
    }
}

fn all(n: u32) -> Vec<u32> {
    (0..n).collect()
}

// ---- the facts ----

#[test]
fn the_timer_restarts_with_every_frame() {
    let mut m = system(Signal::Line, [us(1), us(4), us(12)]);
    let _napi = Napi::open(&mut m, Signal::Line, Recheck::Nothing);
    for frame in [1, 4, 12] {
        m.run_device(us(frame));
        assert_eq!(m.device.device.next_due(), Some(us(frame) + DELAY));
    }
    m.run_device(us(22));
    assert_eq!(m.device.device.edges, [(us(22), true)]);
    assert_eq!(m.device.device.next_due(), None);
}

#[test]
fn the_threshold_fires_before_the_timer() {
    let frames: Vec<Time> = (1..=u64::from(THRESHOLD)).map(us).collect();
    let mut m = system(Signal::Line, frames);
    let _napi = Napi::open(&mut m, Signal::Line, Recheck::Nothing);
    m.run_device(us(100));
    assert_eq!(m.device.device.edges, [(us(THRESHOLD.into()), true)]);
    assert_eq!(m.device.device.next_due(), None, "and the timer is off");
}

#[test]
fn a_timer_that_ends_as_a_frame_comes_has_ended() {
    let mut m = system(Signal::Line, [us(1), us(11)]);
    let _napi = Napi::open(&mut m, Signal::Line, Recheck::Nothing);
    m.run_device(us(11));
    assert_eq!(m.device.device.edges, [(us(11), true)]);
    assert_eq!(m.device.device.next_due(), Some(us(21)));
}

#[test]
fn a_line_is_high_until_its_cause_is_read() {
    let mut m = system(Signal::Line, [us(1)]);
    let mut napi = Napi::open(&mut m, Signal::Line, Recheck::Nothing);
    run(&mut m, &mut napi);
    // The handler spends 500 ns, then its read travels.
    assert_eq!(
        m.device.device.edges,
        [(us(11), true), (us(11) + Span::from_ns(500) + LINK, false)]
    );
    assert_eq!((napi.interrupts, napi.got), (1, all(1)));
    assert_eq!(m.ledger().line_interrupts, 1);
}

#[test]
fn a_message_arrives_one_link_after_its_timer() {
    let mut m = system(Signal::Message, [us(1)]);
    let _napi = Napi::open(&mut m, Signal::Message, Recheck::Nothing);
    m.run_device(us(11));
    assert_eq!(asked(&m), None);
    assert_eq!(m.next_event(), us(11) + LINK);
    m.run_device(m.next_event());
    assert_eq!(asked(&m), Some(us(11) + LINK));
}

#[test]
fn an_interrupt_masked_in_the_device_fires_when_it_is_unmasked() {
    for signal in [Signal::Line, Signal::Message] {
        let mut m = system(signal, [us(1)]);
        let _napi = Napi::open(&mut m, signal, Recheck::Nothing);
        m.write32(DISABLE, 1);
        m.run_device(us(50));
        assert_eq!(asked(&m), None, "{signal:?}");
        m.idle_until(us(50));
        m.write32(ENABLE, 1);
        m.run_device(us(60));
        // The write travels; a message travels back.
        let expected = if signal == Signal::Line { us(50) + LINK } else { us(50) + LINK * 2 };
        assert_eq!(asked(&m), Some(expected), "{signal:?}");
    }
}

#[test]
fn an_interrupt_masked_in_the_cpu_is_there_on_unmasking_while_the_line_is_high() {
    let mut m = system(Signal::Line, [us(1), us(30)]);
    let _napi = Napi::open(&mut m, Signal::Line, Recheck::Nothing);
    // The CPU does not look for a while. When it does, the line is still high.
    m.run_device(us(20));
    assert_eq!(asked(&m), Some(us(11)));
    // The driver reads the cause without having been interrupted: nothing is left.
    m.idle_until(us(20));
    assert_eq!(m.read32(CAUSE), 1);
    assert_eq!(asked(&m), None);
    m.run_device(us(40));
    assert_eq!(asked(&m), Some(us(40)), "until the next");
}

#[test]
fn what_is_due_before_a_register_write_arrives_comes_before_it() {
    let mut m = system(Signal::Line, [us(1)]);
    let _napi = Napi::open(&mut m, Signal::Line, Recheck::Nothing);
    // The mask leaves 50 ns before the timer ends and arrives 50 ns after.
    m.idle_until(Time::from_ps(us(11).ps() - 50_000));
    m.write32(DISABLE, 1);
    assert_eq!(m.device.device.edges, [(us(11), true), (us(11) + Span::from_ns(50), false)]);
}

#[test]
fn reading_the_cause_brings_the_data_that_the_line_overtook() {
    let frames: Vec<Time> = (0..u64::from(THRESHOLD)).map(|i| us(1) + Span::from_ns(i)).collect();
    let mut m = system(Signal::Line, frames);
    let mut napi = Napi::open(&mut m, Signal::Line, Recheck::Nothing);
    m.run_device(us(1) + Span::from_ns(7));
    let since = asked(&m).unwrap();
    m.idle_until(since);
    assert!(!napi.take(&mut m), "the line came first");
    assert_eq!(m.read32(CAUSE), 1);
    assert!(napi.take(&mut m));
}

/// One frame and its interrupt, and, at an offset from that, as many as the
/// threshold at once: they fire in the middle of handler, poll or unmasking, or
/// well after. How many of 800 offsets lose frames.
fn lost(signal: Signal, recheck: Recheck) -> usize {
    let offsets = (0..4000).step_by(5).map(Span::from_ns);
    offsets
        .filter(|offset| {
            let burst = us(11) + *offset;
            let frames = [us(1)].into_iter().chain((0..THRESHOLD).map(|_| burst));
            let mut m = system(signal, frames);
            let mut napi = Napi::open(&mut m, signal, recheck);
            run(&mut m, &mut napi);
            napi.got != all(THRESHOLD + 1)
        })
        .count()
}

#[test]
fn nothing_is_lost_between_the_last_poll_and_the_unmasking() {
    for recheck in [Recheck::Nothing, Recheck::Look, Recheck::FlushAndLook] {
        assert_eq!(lost(Signal::Line, recheck), 0, "{recheck:?}");
        assert_eq!(lost(Signal::Message, recheck), 0, "{recheck:?}");
    }
}

#[test]
fn a_device_that_forgets_masked_interrupts_needs_the_second_look_and_the_flush_before_it() {
    let nothing = lost(Signal::Forgetful, Recheck::Nothing);
    let look = lost(Signal::Forgetful, Recheck::Look);
    assert!(nothing > look, "{nothing} {look}");
    // The unmasking is posted: what comes while it travels is masked and not yet in the ring.
    assert!(look > 0);
    assert_eq!(lost(Signal::Forgetful, Recheck::FlushAndLook), 0);
}

#[test]
fn the_same_frames_make_the_same_interrupts() {
    let mut random = 1u64;
    let mut frames = vec![];
    let mut at = us(1);
    for _ in 0..200 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        at += Span::from_ns((random >> 50) % 14_000);
        frames.push(at);
    }
    let once = || {
        let mut m = system(Signal::Line, frames.clone());
        let mut napi = Napi::open(&mut m, Signal::Line, Recheck::Nothing);
        run(&mut m, &mut napi);
        assert_eq!(napi.got, all(200));
        assert!(napi.interrupts > 10);
        (m.now(), m.device.device.edges, napi.interrupts)
    };
    assert_eq!(once(), once());
}
