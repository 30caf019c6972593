//! Cores, interrupts and polling: who runs next.
//!
//! Each core runs one driver and one traffic source. The core whose time is
//! smallest runs next, for one burst; a core with nothing to do is parked and
//! woken by its interrupt or at a time. The device runs along with whoever runs,
//! and alone when all are parked. Nothing else decides the order, so a run is a
//! function of its inputs.
//!
//! This is the loop of open-loop sources, which hand packets to a driver from the
//! core's only thread. Where interrupts, softirq and applications compete, and what is sent
//! follows from what comes, [`napi`] schedules, and [`link`] has the wire.

pub use super::napi::Interrupt;

use crate::sim::bql::Batch;
use crate::sim::fault::{FaultSchedule, Watchdog, WatchdogEvents, failed};
use crate::sim::histogram::Histogram;
use crate::sim::standstill::Cause;
use crate::sim::traffic::{Next, Traffic};
use doorbell_bus::trace::DriverCall;
use doorbell_bus::{Bus, Machine, Platform};
use doorbell_drivers::{Alarm, Driver, Irq, Poll, Sink, Tx};
use doorbell_hal::{Buf, CpuWork, Device, Host, Span, Time};
use doorbell_packet::Packet;

/// A core with its driver and its traffic.
#[derive(Debug)]
pub struct Core<Dr, Tr> {
    /// The driver of this core's queue.
    pub driver: Dr,
    /// What it sends.
    pub traffic: Tr,
    /// Interrupts of the queue.
    pub lines: Vec<Interrupt>,
    state: State,
    /// A packet that the queue had no room for.
    held: Option<(Packet, bool)>,
    /// The batch that a stack is handing over.
    batch: Batch,
    /// From the call of the driver to the buffer's return.
    pub latency: Histogram,
    /// When the packet with a cookie was handed to the driver.
    handed: Box<[Time]>,
    /// Who looks after it, if faults are asked for.
    watchdog: Option<Watchdog>,
    /// What that found, for the driver.
    alarm: Option<Alarm>,
}

/// Notes latencies on the way of buffers to their source.
struct Metered<'a, Tr> {
    traffic: &'a mut Tr,
    latency: &'a mut Histogram,
    handed: &'a [Time],
    now: Time,
}

impl<Tr: Sink> Sink for Metered<'_, Tr> {
    #[inline(always)]
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        if last {
            self.latency
                .record(self.now.since(self.handed[cookie as usize & (self.handed.len() - 1)]));
        }
        self.traffic.sent(b, cookie, last);
    }
    fn received(&mut self, p: Packet, verified: bool) {
        self.traffic.received(p, verified);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At this time.
    Runnable(Time),
    /// The next thing to happen to it is its interrupt.
    Parked,
    Finished,
}

impl<Dr, Tr> Core<Dr, Tr> {
    /// What its watchdog has raised.
    pub fn alarms(&self) -> WatchdogEvents {
        self.watchdog.as_ref().map_or(WatchdogEvents::default(), |w| w.alarms)
    }

    /// Since when one of its interrupts asks for attention.
    fn pending(&self, p: &Platform) -> Option<Time> {
        self.lines.iter().filter_map(|i| i.pending(p)).min()
    }

    /// Nothing is to be sent now: a batch that has begun ends.
    fn rest(&mut self, state: State) -> State {
        self.batch.end();
        state
    }

    /// A core that starts at time zero, with at most `in_flight` packets between
    /// driver and device (rounded up to a power of two).
    pub fn new(
        driver: Dr,
        traffic: Tr,
        lines: impl Into<Vec<Interrupt>>,
        in_flight: usize,
    ) -> Core<Dr, Tr> {
        Core {
            driver,
            traffic,
            lines: lines.into(),
            state: State::Runnable(Time::ZERO),
            held: None,
            batch: Batch::default(),
            latency: Histogram::default(),
            handed: vec![Time::ZERO; in_flight.next_power_of_two()].into_boxed_slice(),
            watchdog: None,
            alarm: None,
        }
    }
}

/// A run that cannot go on: cores wait for interrupts and nothing is under way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("core {core} waits for an interrupt that cannot come, at {at}{cause}")]
pub struct Stuck {
    /// The first core that waits.
    pub core: usize,
    /// When the last thing happened.
    pub at: Time,
    /// What is known of the cause.
    pub cause: Cause,
}

impl Stuck {
    /// Core `core` of a machine that stands still.
    fn of<B: Bus, D: Device<B>, Dr, Tr>(
        m: &mut Machine<B, D>,
        cores: &[Core<Dr, Tr>],
        core: usize,
    ) -> Stuck {
        let back = cores.iter().map(|c| c.latency.count()).sum();
        Stuck { core, at: m.now(), cause: Cause::of(m, Some(back)) }
    }
}

/// Packets a core sends, at the most, before the next core gets its turn.
const TURN: u32 = 64;
/// How far the device runs on alone past its next event when all cores are parked.
const QUANTUM: Span = Span::from_ns(100);
/// Completions handled in one poll (NAPI's weight).
const BUDGET: u32 = 64;
/// Looks of all watchdogs together, without a frame between them, after which nothing comes any
/// more.
const LOOKS: u64 = 4096;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All traffic has ended.
    Done,
    /// Somebody did not want to go on.
    Stopped,
}

/// Runs all cores until their traffic has ended and everything sent has been
/// reclaimed. `after_step` is called after every turn of a core, with its traffic,
/// and says whether to go on.
///
/// # Errors
/// When it gets stuck.
pub fn run<B, D, Dr, Tr>(
    m: &mut Machine<B, D>,
    cores: &mut [Core<Dr, Tr>],
    mut trouble: Option<&mut FaultSchedule<B, D>>,
    mut after_step: impl FnMut(&mut Machine<B, D>, &Tr) -> bool,
) -> Result<Ended, Stuck>
where
    B: Bus,
    D: Device<B>,
    Dr: Driver<Machine<B, D>>,
    Tr: Traffic<Machine<B, D>>,
{
    if let Some(t) = &trouble {
        for c in cores.iter_mut() {
            c.watchdog = Some(Watchdog::new(t.limit, m.now()));
        }
    }
    let (mut looks, mut frames) = (0, 0);
    loop {
        let mut next = None;
        let mut parked = None;
        for (i, c) in cores.iter().enumerate() {
            match c.state {
                State::Runnable(t) if next.is_none_or(|(_, best)| t < best) => next = Some((i, t)),
                State::Parked => parked = parked.or(Some(i)),
                _ => {}
            }
        }
        let event = m.next_event();
        if let Some(t) = &mut trouble {
            let first = event.min(next.map_or(Time::NEVER, |n| n.1));
            if t.flaps.next() <= first
                && t.flaps.next() < Time::NEVER
                && (next, parked) != (None, None)
            {
                t.flap(m);
                wake(cores, m.bus.platform_mut());
                continue;
            }
            let watched = |c: &Core<Dr, Tr>| match c.state {
                State::Finished => Time::NEVER,
                _ => c.watchdog.as_ref().map_or(Time::NEVER, |w| w.next),
            };
            let due = cores.iter().map(watched).min().unwrap_or(Time::NEVER);
            if due <= first && due < Time::NEVER {
                let sent = m.ledger().wire_frames;
                looks = if sent == frames { looks + 1 } else { 0 };
                frames = sent;
                if let (Some(i), true) = (parked, looks > LOOKS) {
                    return Err(Stuck::of(m, cores, i));
                }
                m.run_device(due);
                let failed = failed(&mut m.bus);
                for c in cores.iter_mut().filter(|c| watched(c) <= due) {
                    // One that waits for its buffers waits as one does whose queue is full.
                    let stopped = c.state == State::Parked || c.driver.stopped();
                    c.alarm = c.watchdog.as_mut().map(|w| w.look(due, stopped, failed));
                    if c.state == State::Parked {
                        c.state = State::Runnable(due);
                    }
                }
                continue;
            }
        }
        match (next, parked) {
            (None, None) => return Ok(Ended::Done),
            // A parked core's interrupt may come before the next core's turn.
            (Some((_, t)), Some(_)) if event < t => m.run_device(t.min(event + QUANTUM)),
            (Some((i, t)), _) => {
                // What the device starts before the floor it must have started.
                m.run_device(t);
                m.retire_before(t);
                m.enter(i);
                m.idle_until(t);
                let c = &mut cores[i];
                c.state = step(m, c);
                // Its interrupt may be on the way already.
                if c.state == State::Parked
                    && let Some(at) = c.pending(m.bus.platform())
                {
                    c.state = State::Runnable(at.max(m.now()));
                }
                if !after_step(m, &cores[i].traffic) {
                    return Ok(Ended::Stopped);
                }
            }
            (None, Some(i)) if event == Time::NEVER => return Err(Stuck::of(m, cores, i)),
            (None, Some(_)) => m.run_device(event + QUANTUM),
        }
        wake(cores, m.bus.platform_mut());
    }
}

/// Parked cores whose interrupt has arrived run from then on.
fn wake<Dr, Tr>(cores: &mut [Core<Dr, Tr>], platform: &mut Platform) {
    // A vector is taken by its core when it runs; here it is only looked at.
    let mut raised = [0u16; 64];
    let mut n = 0;
    for v in platform.drain_raised().take(raised.len()) {
        raised[n] = v;
        n += 1;
    }
    for c in cores.iter_mut().filter(|c| c.state == State::Parked) {
        let asks = c.lines.iter().any(|i| match i {
            Interrupt::Message(v) => raised[..n].contains(v),
            Interrupt::Line(_) => true,
        });
        if asks && let Some(at) = c.pending(platform) {
            c.state = State::Runnable(at);
        }
    }
}

/// One turn of one core: its interrupt if there is one, else a burst of packets.
fn step<B, D, Dr, Tr>(m: &mut Machine<B, D>, c: &mut Core<Dr, Tr>) -> State
where
    B: Bus,
    D: Device<B>,
    Dr: Driver<Machine<B, D>>,
    Tr: Traffic<Machine<B, D>>,
{
    m.catch_up();
    let mut poll = false;
    if let Some(alarm) = c.alarm.take() {
        poll = c.driver.alarm(m, alarm) == Irq::Poll;
    }
    for k in 0..c.lines.len() {
        if c.lines[k].pending(m.bus.platform()).is_some_and(|at| at <= m.now()) {
            let vector = c.lines[k].take(m.bus.platform_mut());
            let from = m.now();
            poll |= c.driver.interrupt(m, vector) == Irq::Poll;
            m.mark(from, DriverCall::Interrupt(vector));
        }
    }
    if poll {
        loop {
            let now = m.now();
            let (traffic, latency) = (&mut c.traffic, &mut c.latency);
            let mut up = Metered { traffic, latency, handed: &c.handed, now };
            let result = c.driver.poll(m, BUDGET, &mut up);
            m.mark(now, DriverCall::Poll);
            match result {
                Poll::Again => {}
                Poll::Idle => break,
                Poll::Work => {
                    let from = m.now();
                    c.driver.work(m);
                    m.mark(from, DriverCall::Work);
                    break;
                }
            }
        }
    }
    for _ in 0..TURN {
        if c.driver.stopped() {
            return State::Parked;
        }
        let (packet, more) = match c.held.take() {
            Some(held) => held,
            // Over the byte limit, something is in the queue whose completion ends the wait.
            None if !c.traffic.is_generator() && !c.batch.may_go(c.driver.byte_room()) => {
                return State::Parked;
            }
            None => match c.traffic.next(m) {
                Next::Packet(packet, more) => {
                    let slot = packet.cookie as usize & (c.handed.len() - 1);
                    c.handed[slot] = m.now();
                    m.charge(CpuWork::Stack);
                    let more = if c.traffic.is_generator() {
                        more
                    } else {
                        c.batch.goes(packet.len(), more)
                    };
                    (packet, more)
                }
                Next::At(t) => return c.rest(State::Runnable(t)),
                Next::Reclaim => return c.rest(State::Parked),
                Next::Done => return c.rest(State::Finished),
            },
        };
        let from = m.now();
        let result = c.driver.transmit(m, packet, more);
        m.mark(from, DriverCall::Transmit);
        match result {
            Tx::Ok => {
                if let Some(w) = &mut c.watchdog {
                    w.sent = m.now();
                }
            }
            Tx::Busy(p) => {
                c.held = Some((p, more));
                return State::Parked;
            }
            Tx::Dropped(p) => c.traffic.dropped(m, p),
        }
        if !more {
            break;
        }
    }
    State::Runnable(m.now())
}
