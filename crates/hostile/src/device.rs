//! Any bytes as the device of a driver: a well-behaved model on the lab's machine, and lies told
//! between the two.
//!
//! The input is a byte of shape, a byte that tells how many lies wait for the driver's opening, and
//! steps of eight bytes: traffic, interrupts and time, lies, and memory that the device writes. A
//! driver must not panic, reach memory that is not its own, go on for ever, hand a buffer up
//! twice, or lose one; its counters must add up. When the lies end and the device is reset, a
//! driver that is opened again works. Whether a restart alone was enough is counted.

pub mod axienet;
pub mod e1000;
pub mod ibmveth;
pub mod ibmvnic;
pub mod mlx5;

use crate::fuzz::Seed;
use crate::mlx5::queue::Input;
use doorbell_bus::{Bus, Capture, Machine};
use doorbell_conformance::frames::{ip, plain, tagged};
use doorbell_conformance::mlx5::traffic::{Offload, Spec};
use doorbell_drivers::{Alarm, Driver, Filter, Irq, OpenError, Poll, Sink, Tx, Verdict};
use doorbell_hal::{Buf, Device, Host, Mapped, Span};
use doorbell_packet::Packet;
use doorbell_testkit::Hostile;
use doorbell_testkit::hostile::{Crossing, Form, Lie};
use std::collections::BTreeMap;
use std::ops::Range;

/// A machine with one device.
pub trait System: Host {
    /// Delivers a frame from the wire.
    fn inject(&mut self, frame: &[u8]);
    /// Takes the frames that have left.
    fn frames(&mut self) -> Vec<Vec<u8>>;
    /// Takes interrupts that have come: pending messages, and lines that are high.
    fn interrupts(&mut self) -> Vec<u16>;
    /// Resets the device as power-on does. No write and no message of it is left.
    fn power_on(&mut self);
    /// Returns accesses of the driver outside its areas, and refused ones of the device.
    fn faults(&self) -> (u64, u64);
    /// Returns mappings, entries of the translation table, and buffers that are out.
    fn left(&mut self) -> (u64, u32, u64);
}

impl<B: Bus<Sink = Capture>, D: Device<B>> System for Machine<B, D> {
    fn inject(&mut self, frame: &[u8]) {
        self.outside(|d, bus, at| _ = d.receive(bus, at, frame));
    }
    fn frames(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let drained = self.bus.sink_mut().drain(|_, f| {
            all.push(f.to_vec());
            Ok::<(), std::convert::Infallible>(())
        });
        match drained {
            Ok(()) => all,
        }
    }
    fn interrupts(&mut self) -> Vec<u16> {
        self.catch_up();
        let now = self.now();
        let p = self.bus.platform_mut();
        let high = |v: &u16| p.line(*v).is_some_and(|since| since <= now);
        let mut all: Vec<u16> = (0..VECTORS).filter(high).collect();
        for v in 0..VECTORS {
            if p.message_pending(v).is_some_and(|t| t <= now) {
                p.take_message(v);
                all.push(v);
            }
        }
        all
    }
    fn power_on(&mut self) {
        self.outside(|d, bus, at| d.reset(bus, at));
        self.flush_posted();
        self.interrupts();
        self.frames();
    }
    fn faults(&self) -> (u64, u64) {
        (self.bus.platform().strays().times, self.ledger().dma_faults)
    }
    fn left(&mut self) -> (u64, u32, u64) {
        self.flush_posted();
        let (p, l) = (self.bus.platform(), self.ledger());
        (l.maps - l.unmaps, p.live_entries(), l.buffers_taken - l.buffers_released)
    }
}

/// Interrupt vectors looked at.
const VECTORS: u16 = 64;

/// A driver under attack.
pub trait Subject<M: System>: Driver<Hostile<M>> + Sized {
    /// Creates the machine of a shape.
    fn machine(shape: u8) -> M;
    /// Opens the driver on it.
    ///
    /// # Errors
    /// The driver's own.
    fn open_on(h: &mut Hostile<M>, shape: u8) -> Result<Self, OpenError>;
    /// Closes it.
    fn shut(self, h: &mut Hostile<M>);
    /// Restarts it, as after a hang.
    ///
    /// # Errors
    /// The driver's own.
    fn reset(&mut self, h: &mut Hostile<M>) -> Result<(), OpenError>;
    /// Makes a change that a user may ask for: with 0, all groups are received.
    fn change(&mut self, h: &mut Hostile<M>, what: u8);
    /// Polls the second channel, if there is one.
    fn poll_second(&mut self, _h: &mut Hostile<M>, _budget: u32, _up: &mut Desk) {}
    /// Returns buffers that a later call would return.
    fn reclaim(&mut self, _h: &mut Hostile<M>, _up: &mut Desk) {}
    /// Returns the station's address; `None` if the driver does not receive.
    fn station(&self) -> Option<[u8; 6]>;
    /// Checks the counters against what was seen.
    fn check(&self, seen: &Seen);
    /// True if areas that a device would not give up stay with it, as long as it lives.
    const LEAVES_AREAS: bool = false;
    /// Returns how long the link may take to come up.
    fn settling() -> Span;
}

/// Counts of packets that went through the driver, and of lies told to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets that it took.
    pub taken: u64,
    /// Packets that it dropped or was too busy for.
    pub refused: u64,
    /// Packets that the stack had no memory for.
    pub starved: u64,
    /// Packets that came back.
    pub returned: u64,
    /// Packets that it passed up.
    pub received: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Frames that left while nobody lied, at the end.
    pub honest: u64,
    /// Lies told, by [`Crossing`].
    pub told: [u64; 5],
    /// Writes to memory made as the device's.
    pub pokes: u64,
    /// Openings that failed.
    pub unopened: u64,
    /// Restarts that brought the driver back.
    pub restarted: u64,
    /// Changes that a user asked for.
    pub changed: u64,
}

impl Seen {
    /// Adds another attack's counts.
    pub fn add(&mut self, other: &Seen) {
        self.taken += other.taken;
        self.refused += other.refused;
        self.starved += other.starved;
        self.returned += other.returned;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.honest += other.honest;
        self.told.iter_mut().zip(other.told).for_each(|(sum, n)| *sum += n);
        self.pokes += other.pokes;
        self.unopened += other.unopened;
        self.restarted += other.restarted;
        self.changed += other.changed;
    }
}

/// Keeps account of packets under way and of those that came.
#[derive(Debug, Default)]
pub struct Desk {
    /// Packets under way, by cookie: pieces.
    under_way: BTreeMap<u32, usize>,
    back: Vec<Buf>,
    received: Vec<Packet>,
    seen: Seen,
}

impl Sink for Desk {
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        let pieces = self.under_way.get_mut(&cookie).expect("a packet that is under way");
        *pieces = pieces.checked_sub(1).expect("no more pieces than the packet has");
        if last {
            self.under_way.remove(&cookie);
            self.seen.returned += 1;
        }
        self.back.push(b);
    }
    fn received(&mut self, p: Packet, _verified: bool) {
        self.received.push(p);
    }
    /// Decides by the length of the frame: 200 bytes pass.
    fn program<H: Host>(&mut self, _h: &mut H, _page: &Mapped, frame: Range<u32>) -> Verdict {
        use Verdict::{Drop, Pass, Redirect, Send};
        [Pass, Redirect, Drop, Send, Pass][(frame.end - frame.start) as usize % 5]
    }
}

/// Polls in a row at the most.
const POLLS: u32 = 8;

/// Kinds of steps: the first byte of each, modulo 16. The numbers left over do the same as others.
pub mod kind {
    /// Sends a packet.
    pub const TRANSMIT: u8 = 0;
    /// Takes interrupts, and polls.
    pub const RUN: u8 = 2;
    /// Lets time pass.
    pub const WAIT: u8 = 3;
    /// Delivers a frame.
    pub const RECEIVE: u8 = 4;
    /// Polls with a budget.
    pub const POLL: u8 = 5;
    /// Runs deferred work.
    pub const WORK: u8 = 6;
    /// Calls the driver as its timers do.
    pub const ALARM: u8 = 7;
    /// Raises an interrupt that the device did not raise.
    pub const INTERRUPT: u8 = 8;
    /// Arms a lie about registers,
    pub const LIE_READ: u8 = 9;
    /// about memory,
    pub const LIE_LOAD: u8 = 10;
    /// about calls, writes or requests for memory.
    pub const LIE: u8 = 11;
    /// Writes where the driver looked last, or near it.
    pub const POKE_NEAR: u8 = 12;
    /// Writes to memory of a number.
    pub const POKE: u8 = 13;
    /// Changes a setting.
    pub const CHANGE: u8 = 14;
    /// Restarts the driver.
    pub const RESTART: u8 = 15;
}
use kind::*;

/// Returns a step of an attack.
pub fn step(kind: u8, a: u8, number: u16, word: u32) -> [u8; 8] {
    let ([b, c], v) = (number.to_le_bytes(), word.to_le_bytes());
    [kind, a, b, c, v[0], v[1], v[2], v[3]]
}

struct Harness<M, S> {
    h: Hostile<M>,
    nic: S,
    desk: Desk,
    cookie: u32,
}

impl<M: System, S: Subject<M>> Harness<M, S> {
    fn call<R>(&mut self, f: impl FnOnce(&mut S, &mut Hostile<M>, &mut Desk) -> R) -> R {
        self.h.begin();
        let r = f(&mut self.nic, &mut self.h, &mut self.desk);
        assert_eq!(self.h.inner.faults().0, 0, "the driver reaches outside its areas");
        for b in self.desk.back.drain(..) {
            self.h.release(b);
        }
        for p in std::mem::take(&mut self.desk.received) {
            self.desk.seen.received += 1;
            let mut len = 0;
            for q in p.pieces() {
                assert!(q.len > 0, "an empty piece");
                len += self.h.bytes(&q.buf, q.start..q.start + q.len, <[u8]>::len);
            }
            self.desk.seen.received_bytes += len as u64;
            p.release(&mut self.h);
        }
        r
    }

    fn poll(&mut self, budget: u32) {
        self.call(|nic, h, up| nic.poll_second(h, budget, up));
        for _ in 0..POLLS {
            let before = self.desk.seen.received;
            let polled = self.call(|nic, h, up| nic.poll(h, budget, up));
            let came = self.desk.seen.received - before;
            // A NAPI for each channel, each with the budget.
            assert!(came <= u64::from(budget), "{came} packets, a budget of {budget}");
            match polled {
                Poll::Again => {}
                Poll::Work => return self.call(|nic, h, _| nic.work(h)),
                Poll::Idle => return,
            }
        }
    }

    fn interrupt(&mut self, v: u16) {
        if self.call(|nic, h, _| nic.interrupt(h, v)) == Irq::Poll {
            self.poll(64);
        }
    }

    /// Takes interrupts, and polls.
    fn run(&mut self) {
        for _ in 0..POLLS {
            let all = self.h.inner.interrupts();
            if all.is_empty() {
                return;
            }
            all.into_iter().for_each(|v| self.interrupt(v));
        }
    }

    fn wait(&mut self, span: Span) {
        self.h.inner.delay(span);
        self.run();
    }

    fn transmit(&mut self, spec: &Spec) -> bool {
        self.cookie += 1;
        let cookie = self.cookie;
        // Only the driver is refused memory, but it may have taken all for queues of lied numbers.
        let Some(p) = self.h.honestly(|h| spec.try_packet(h, cookie)) else {
            self.desk.seen.starved += 1;
            return false;
        };
        let pieces = p.pieces().count();
        if self.nic.stopped() {
            self.desk.seen.refused += 1;
            p.release(&mut self.h);
            return false;
        }
        self.desk.under_way.insert(cookie, pieces);
        match self.call(|nic, h, _| nic.transmit(h, p, spec.more)) {
            Tx::Ok => {
                self.desk.seen.taken += 1;
                true
            }
            Tx::Busy(p) | Tx::Dropped(p) => {
                assert_eq!(p.cookie, cookie, "the packet that was given");
                // Its pieces may have become one.
                assert!(self.desk.under_way.remove(&cookie).is_some(), "it did not come back");
                self.desk.seen.refused += 1;
                p.release(&mut self.h);
                false
            }
        }
    }

    fn inject(&mut self, kind: u8, len: usize, at: usize, with: u8) {
        let to = self.nic.station().unwrap_or([0xff; 6]);
        let to = if kind & 1 == 0 { to } else { [0xff; 6] };
        let mut f = match kind >> 1 & 3 {
            0 => plain(to, len.max(14)),
            1 => tagged(&ip(to, true, false, len), 5),
            k => ip(to, kind & 8 == 0, k == 3, len),
        };
        if kind & 0x80 != 0 {
            let at = at % f.len();
            f[at] = with;
        }
        self.h.inner.inject(&f);
    }

    fn step(&mut self, step: [u8; 8]) {
        let [what, a, b, c, ..] = step;
        let number = u16::from_le_bytes([b, c]);
        let word = u32::from_le_bytes([step[4], step[5], step[6], step[7]]);
        match what % 16 {
            TRANSMIT | 1 => {
                let spec = spec(a, number, word);
                self.transmit(&spec);
            }
            RUN => self.run(),
            WAIT => self.wait(Span::from_ns(u64::from(number) << (a % 20))),
            RECEIVE => self.inject(a, usize::from(number % 1600), word as usize & 0xffff, step[7]),
            POLL => self.poll(u32::from(a % 64) + 1),
            WORK => self.call(|nic, h, _| nic.work(h)),
            ALARM => {
                let why = [Alarm::Tick, Alarm::TxTimeout, Alarm::IoError][usize::from(a % 3)];
                if self.call(|nic, h, _| nic.alarm(h, why)) == Irq::Poll {
                    self.poll(64);
                }
            }
            INTERRUPT => self.interrupt(u16::from(a) % VECTORS),
            LIE_READ..=POKE => lie(&mut self.h, step),
            CHANGE => {
                self.desk.seen.changed += 1;
                self.call(|nic, h, up| {
                    nic.change(h, a);
                    nic.reclaim(h, up);
                });
            }
            _ if a & 7 == 7 => {
                // A restart that fails is one more thing that happens.
                let restarted = self.call(|nic, h, _| nic.reset(h));
                self.desk.seen.restarted += u64::from(restarted.is_ok());
            }
            _ => self.run(),
        }
    }

    /// Sends and receives a packet. Returns true if both came through.
    fn works(&mut self) -> bool {
        let mut sent = false;
        self.h.inner.frames();
        for _ in 0..4 {
            sent |= self.transmit(&PLAIN);
            for _ in 0..4 {
                self.wait(Span::from_us(500));
                self.poll(64);
            }
            self.call(|nic, h, up| nic.reclaim(h, up));
            sent &= !self.h.inner.frames().is_empty();
            let before = self.desk.seen.received;
            self.inject(0, 200, 0, 0);
            for _ in 0..4 {
                self.wait(Span::from_us(500));
                self.poll(64);
            }
            let came = self.desk.seen.received > before || self.nic.station().is_none();
            if sent && came {
                self.desk.seen.honest += 1;
                return true;
            }
        }
        false
    }

    /// Closes the driver, and checks that nothing is left.
    fn close(mut self) -> (Hostile<M>, Desk) {
        self.call(|nic, h, up| nic.reclaim(h, up));
        self.nic.check(&self.desk.seen);
        self.h.begin();
        self.nic.shut(&mut self.h);
        assert_eq!(self.h.inner.faults().0, 0, "the driver reaches outside its areas");
        is_even::<M, S>(&mut self.h);
        self.desk.under_way.clear();
        (self.h, self.desk)
    }
}

/// Checks that all has come back that the driver has taken.
fn is_even<M: System, S: Subject<M>>(h: &mut Hostile<M>) {
    let ((buffers, mapped, areas), left) = (h.held(), h.inner.left());
    assert_eq!((buffers, mapped, left.2), (0, 0, 0), "buffers, mappings");
    if areas > 0 {
        assert!(S::LEAVES_AREAS && h.has_lied(), "{areas} areas are left");
        return;
    }
    assert_eq!(left, (0, 0, 0), "the machine has all back");
}

/// A small packet that needs nothing.
const PLAIN: Spec = Spec {
    v6: false,
    tcp: false,
    payload: 200,
    offload: Offload::None,
    vlan: None,
    head: u16::MAX,
    fragment: 500,
    start: 0,
    more: false,
};

/// Returns a filter of some groups, up to 31.
fn groups(what: u8) -> Filter {
    let multicast = (0..what >> 3).map(|n| [1, 0, 0x5e, 0, n, what]).collect();
    Filter { multicast, ..Filter::default() }
}

fn spec(a: u8, payload: u16, word: u32) -> Spec {
    let offload = match a >> 2 & 3 {
        0 | 1 => Offload::None,
        2 => Offload::Checksum,
        _ => Offload::Large(100 + (word % 1400) as u16),
    };
    Spec {
        v6: a & 1 != 0,
        tcp: a & 2 != 0 || matches!(offload, Offload::Large(_)),
        payload: payload % 4000,
        offload,
        vlan: (a & 0x10 != 0).then_some(word as u16),
        head: if a & 0x20 != 0 { (word >> 16) as u16 % 200 } else { u16::MAX },
        fragment: 500 + (word >> 20) as u16,
        start: (word >> 24) as u8 % 70,
        more: a & 0x40 != 0,
    }
}

/// Arms a lie, or writes to the driver's memory at once.
fn lie<M: Host>(h: &mut Hostile<M>, step: [u8; 8]) {
    let [what, a, b, c, v @ ..] = step;
    let value = u64::from(u32::from_le_bytes(v));
    let form = [Form::Flip, Form::Set, Form::Random][usize::from(a & 3) % 3];
    let at = match what % 16 {
        LIE_READ => Crossing::Read,
        LIE_LOAD => Crossing::Load,
        LIE => match a >> 6 {
            0 | 1 => Crossing::Call,
            2 => Crossing::Write,
            _ => Crossing::Memory,
        },
        // Where the driver looked last, or near it.
        POKE_NEAR => {
            let at = i32::from(i16::from_le_bytes([b, c]) >> 4);
            return if a & 1 == 0 {
                h.poke(None, at as u32, &v[..1 << (a >> 1 & 1) << (a >> 2 & 1)]);
            } else {
                h.replay(16 << (a >> 1 & 3), at.unsigned_abs() & 0xff);
            };
        }
        _ => {
            let at = u32::from(u16::from_le_bytes([b, c])) << (a >> 6);
            return h.poke(Some(usize::from(a & 63)), at, &v);
        }
    };
    let times = match a >> 3 & 7 {
        7 => u32::MAX,
        n => 1 << (2 * n),
    };
    let (after, value) = (u32::from(b), value << (8 * (c % 5)));
    h.arm(Lie { at, after: if c & 0x80 == 0 { after } else { after << 6 }, times, form, value });
}

/// Attacks a driver as `bytes` say. Returns what was seen.
///
/// # Panics
/// Panics if the driver lets itself be harmed.
pub fn attack<M: System, S: Subject<M>>(bytes: &[u8]) -> Seen {
    let mut input = Input(bytes);
    let (shape, before) = (input.u8(), input.u8() & 7);
    let mut h = Hostile::new(S::machine(shape));
    for _ in 0..before {
        lie(&mut h, input.take());
    }
    h.begin();
    let opened = S::open_on(&mut h, shape);
    let mut desk = Desk::default();
    let (mut h, mut desk) = match opened {
        Ok(nic) => {
            let mut b = Harness { h, nic, desk, cookie: 0 };
            b.wait(S::settling());
            b.call(|nic, h, _| nic.work(h));
            while !input.0.is_empty() {
                b.step(input.take());
            }
            let lied = b.h.has_lied();
            assert!(lied || b.h.inner.faults().1 == 0, "the device reaches memory that it may not");
            b.h.disarm();
            if b.call(|nic, h, _| nic.reset(h)).is_ok() {
                b.wait(S::settling());
                b.call(|nic, h, _| nic.work(h));
                b.run();
                b.desk.seen.restarted += u64::from(b.works());
            }
            b.close()
        }
        Err(_) => {
            is_even::<M, S>(&mut h);
            desk.seen.unopened += 1;
            (h, desk)
        }
    };
    h.disarm();
    h.inner.power_on();
    h.begin();
    let seen = desk.seen;
    desk.seen = Seen::default();
    let nic = S::open_on(&mut h, shape).expect("a device that is well opens");
    let mut b = Harness { h, nic, desk, cookie: 0 };
    b.wait(S::settling());
    b.call(|nic, h, _| nic.work(h));
    b.run();
    let faults = b.h.inner.faults().1;
    assert!(b.works(), "opened again it works: {:?}", b.desk.seen);
    assert_eq!(b.h.inner.faults().1, faults, "the device reaches memory that it may not");
    let honest = b.desk.seen.honest;
    let (h, _) = b.close();
    Seen { told: h.told, pokes: h.pokes, honest: seen.honest + honest, ..seen }
}

/// Checks that a filter outlives the resets that a driver does by itself.
///
/// # Panics
/// Panics if it does not.
pub fn keeps_its_filter<M: System, S: Subject<M>>() {
    let mut h = Hostile::new(S::machine(0));
    h.begin();
    let nic = S::open_on(&mut h, 0).expect("a device that is well opens");
    let mut b = Harness { h, nic, desk: Desk::default(), cookie: 0 };
    let settle = |b: &mut Harness<M, S>| {
        b.wait(S::settling());
        b.call(|nic, h, _| nic.work(h));
    };
    let passes = |b: &mut Harness<M, S>| {
        let before = b.desk.seen.received;
        b.h.inner.inject(&plain([1, 0, 0x5e, 0, 0, 5], 200));
        b.wait(Span::from_us(500));
        b.poll(64);
        b.desk.seen.received > before
    };
    settle(&mut b);
    assert!(!passes(&mut b), "a group, and no filter");
    b.call(|nic, h, _| nic.change(h, 0));
    assert!(passes(&mut b));
    for why in [Alarm::TxTimeout, Alarm::IoError] {
        if b.call(|nic, h, _| nic.alarm(h, why)) == Irq::Poll {
            b.poll(64);
        }
        settle(&mut b);
        assert!(passes(&mut b), "after {why:?}");
    }
    b.close();
}

/// Returns the seeds of a driver: traffic on two shapes of the machine, each kind of lie, also at
/// the opening, writes of the device to memory, changes of settings with a restart, and an opening
/// that fails.
fn seeds(shapes: [u8; 2]) -> Vec<Seed> {
    let send = |how, payload, word| step(TRANSMIT, how, payload, word);
    let wait = |us: u16| step(WAIT, 10, us, 0);
    let traffic = [
        // Plain, IPv6, a checksum, a large send, a tag, and several pieces.
        send(0, 100, 0),
        send(3, 1200, 0),
        send(0x08, 700, 0),
        send(0x0c, 3000, 700),
        send(0x12, 300, 0x0005),
        send(0x22, 1400, 0x1f4 << 20 | 20 << 16),
        wait(500),
        step(RECEIVE, 0, 400, 0),
        step(RECEIVE, 2, 64, 0),
        step(RECEIVE, 4, 1400, 0),
        step(RECEIVE, 0xe, 40, 0),
        step(RECEIVE, 1, 60, 0),
        wait(500),
        step(POLL, 63, 0, 0),
        step(ALARM, 0, 0, 0),
        step(WORK, 0, 0, 0),
        step(INTERRUPT, 1, 0, 0),
        wait(500),
    ];
    let small = [send(0x08, 200, 0), step(RECEIVE, 0, 300, 0), wait(500), step(POLL, 63, 0, 0)];
    let restart = step(RESTART, 7, 0, 0);
    // A form and how often: once, four times, or until the end.
    const FLIP: u8 = 0;
    const SET: u8 = 1;
    const RANDOM: u8 = 2;
    const FOUR: u8 = 1 << 3;
    const ALWAYS: u8 = 7 << 3;
    const WRITE: u8 = 2 << 6;
    const MEMORY: u8 = 3 << 6;
    let lies = [
        // Refused at a later piece of a packet.
        vec![step(LIE, MEMORY, 2, 0), send(0x2a, 1400, 0x1f4 << 20 | 20 << 16)],
        vec![step(LIE_READ, FLIP, 0, 0x10), step(LIE_READ, RANDOM | FOUR, 4, 7)],
        vec![step(LIE_LOAD, RANDOM, 1, 9), step(LIE_LOAD, FLIP | FOUR, 8, 0x8000_0001)],
        vec![step(LIE, SET, 0, -4_i32 as u32), step(LIE, RANDOM | FOUR, 2, 11)],
        vec![step(LIE, FLIP, 6, -11_i32 as u32), step(LIE, WRITE | FOUR, 0, 0)],
        vec![step(LIE, MEMORY | FOUR, 0, 0)],
    ]
    .map(|lies| [lies, small.to_vec(), vec![step(ALARM, 0, 0, 0)], small.to_vec()].concat());
    let pokes = [
        vec![step(POKE_NEAR, 0, 0, 0xff), step(POKE_NEAR, 2, 16 << 4, 0x0101_0101)],
        vec![step(POKE_NEAR, 1, 1 << 4, 0), step(POKE_NEAR, 3, 2 << 4, 0)],
        (0..12).map(|area| step(POKE, area, u16::from(area) * 8, 0x8000_0080)).collect(),
    ]
    .map(|pokes| [small.to_vec(), pokes, small.to_vec()].concat());
    let changes: Vec<_> = (0..16)
        .flat_map(|what| {
            let packet = [send(0, 100, 0), step(RECEIVE, 0, 300, 0)];
            [[step(CHANGE, what, 0, 0), step(WAIT, 14, 1000, 0)], packet].concat()
        })
        .chain([wait(500), restart])
        .chain(small.iter().copied())
        .collect();
    let make = |shape: u8, before: &[[u8; 8]], steps: &[[u8; 8]]| {
        let head = [shape, before.len() as u8];
        [&head[..], before.as_flattened(), steps.as_flattened()].concat()
    };
    let [first, second] = shapes;
    vec![
        ("traffic", make(first, &[], &traffic)),
        ("traffic_other_shape", make(second, &[], &traffic)),
        ("lies", make(first, &[], &[lies.concat(), vec![restart]].concat())),
        (
            "lies_at_opening",
            make(first, &[step(LIE_READ, RANDOM | FOUR, 1, 5), step(LIE, RANDOM, 1, 5)], &small),
        ),
        ("pokes", make(first, &[], &pokes.concat())),
        ("changes", make(second, &[], &changes)),
        ("no_memory", make(first, &[step(LIE, MEMORY | ALWAYS, 1, 0)], &[])),
    ]
}
