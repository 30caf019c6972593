//! The scheduler of open-loop runs: each core has one driver and one traffic source.
//!
//! The core with the smallest time runs next, for one burst. A core with nothing to do waits for
//! its interrupt or for a given time, whichever comes first. The device runs along with the core
//! that runs, and alone while all wait. Nothing else decides the order, so a run is a function of
//! its inputs.
//!
//! [`napi`](super::napi) schedules runs in which interrupts, softirq and applications compete for
//! a core.

pub use super::napi::Interrupt;

use crate::bql::Batch;
use crate::fault::{FaultSchedule, Watchdog, WatchdogEvents, failed};
use crate::histogram::Histogram;
use crate::standstill::Cause;
use crate::traffic::{Next, Traffic};
use doorbell_bus::{Bus, Machine, Platform, trace::DriverCall};
use doorbell_drivers::{Alarm, Driver, Irq, Poll, Sink, Tx};
use doorbell_hal::{Buf, CpuWork, Device, Host, Span, Time};
use doorbell_packet::Packet;

/// A core with its driver and its traffic.
#[derive(Debug)]
pub struct Core<Dr, Tr> {
    /// The driver of this core's queue.
    pub driver: Dr,
    /// The source of its packets.
    pub traffic: Tr,
    /// Interrupts of the queue.
    pub lines: Vec<Interrupt>,
    state: State,
    /// A packet that the queue had no room for. Boxed, because it is rare and looked for each time.
    held: Option<Box<(Packet, bool)>>,
    /// The batch that a stack is handing over.
    batch: Batch,
    /// Time from when a packet was due to the return of its buffer, since it was taken.
    latency: Histogram,
    /// Packets whose latencies were taken.
    taken: u64,
    /// Time at which the packet with a cookie was due.
    due: Box<[Time]>,
    /// The queue's watchdog in a run with faults.
    watchdog: Option<Watchdog>,
    /// The alarm to pass to the driver.
    alarm: Option<Alarm>,
}

/// Records latencies of buffers on their way back to the source.
struct Metered<'a, Tr> {
    traffic: &'a mut Tr,
    latency: &'a mut Histogram,
    due: &'a [Time],
    now: Time,
}

impl<Tr: Sink> Sink for Metered<'_, Tr> {
    #[inline(always)]
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        if last {
            self.latency.record(self.now.since(self.due[cookie as usize & (self.due.len() - 1)]));
        }
        self.traffic.sent(b, cookie, last);
    }
    fn received(&mut self, p: Packet, verified: bool) {
        self.traffic.received(p, verified);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Runs at this time.
    Runnable(Time),
    /// Waits for its interrupt.
    Parked,
    /// Waits for this time or its interrupt.
    Waiting(Time),
    Finished,
}

impl State {
    /// Returns the state of a waiting core that has an interrupt pending since `at`.
    fn interrupted(self, at: Time) -> State {
        match self {
            State::Parked => State::Runnable(at),
            State::Waiting(until) if at < until => State::Runnable(at),
            other => other,
        }
    }
}

impl<Dr, Tr> Core<Dr, Tr> {
    /// Returns the alarms that its watchdog raised.
    pub fn alarms(&self) -> WatchdogEvents {
        self.watchdog.as_ref().map_or(WatchdogEvents::default(), |w| w.alarms)
    }

    /// Returns the time since which one of its interrupts is pending.
    fn pending(&self, p: &Platform) -> Option<Time> {
        self.lines.iter().filter_map(|i| i.pending(p)).min()
    }

    /// Ends the batch, because there is nothing to send now. Returns `state`.
    fn rest(&mut self, state: State) -> State {
        self.batch.end();
        state
    }

    /// Adds the latencies since the last call to `all`.
    pub fn take_latencies(&mut self, all: &mut Histogram) {
        all.add(&self.latency);
        self.taken += self.latency.count();
        self.latency.clear();
    }

    /// Takes the packet that the queue had no room for, at the end of a run.
    pub fn take_held(&mut self) -> Option<Packet> {
        self.held.take().map(|held| held.0)
    }

    /// Creates a core that starts at time zero, with at most `in_flight` packets between driver and
    /// device (rounded up to a power of two).
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
            taken: 0,
            due: vec![Time::ZERO; in_flight.next_power_of_two()].into_boxed_slice(),
            watchdog: None,
            alarm: None,
        }
    }
}

/// A core that waits, where nothing is under way or no end is in sight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("core {core} waits for an interrupt that cannot come, at {at}{cause}")]
pub struct Stuck {
    /// The first core that waits.
    pub core: usize,
    /// Time of the last event.
    pub at: Time,
    /// The evidence.
    pub cause: Cause,
}

impl Stuck {
    /// Returns what waits, and the evidence, a line each.
    pub fn facts(&self) -> Vec<String> {
        let first = format!("core {} waits for an interrupt, at {}", self.core, self.at);
        core::iter::once(first).chain(self.cause.lines().map(str::to_owned)).collect()
    }

    /// Collects the evidence of a standstill in which `core` waits.
    fn of<B: Bus, D: Device<B>, Dr, Tr>(
        m: &mut Machine<B, D>,
        cores: &[Core<Dr, Tr>],
        core: usize,
    ) -> Stuck {
        let back = cores.iter().map(|c| c.taken + c.latency.count()).sum();
        Stuck { core, at: m.now(), cause: Cause::of(m, Some(back)) }
    }
}

/// Largest number of packets in a turn of a core.
const TURN: u32 = 64;
/// Time for which the device runs past its next event while a core waits.
const QUANTUM: Span = Span::from_ns(100);
/// Completions handled in one poll (NAPI's weight).
const BUDGET: u32 = 64;

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All traffic has ended.
    Done,
    /// Cores have waited for too long, because faults left no way on.
    Unfinished(Stuck),
    /// `after_step` stopped the run.
    Stopped,
}

/// Runs all cores until their traffic has ended and all packets are reclaimed. Calls `after_step`
/// with all cores and the number of the one that ran after every turn. It returns whether to go on.
///
/// # Errors
/// Returns [`Stuck`] if cores wait and no event is due.
pub fn run<B, D, Dr, Tr>(
    m: &mut Machine<B, D>,
    cores: &mut [Core<Dr, Tr>],
    mut trouble: Option<&mut FaultSchedule<B, D>>,
    mut after_step: impl FnMut(&mut Machine<B, D>, &mut [Core<Dr, Tr>], usize) -> bool,
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
    // With faults: the time that all cores have waited, and the last event.
    let (mut waited, mut last) = (Span::ZERO, m.now());
    let mut changes = 0;
    loop {
        // The core that runs next unless an interrupt comes before, and the first that waits.
        let (mut next, mut waiting) = (None, None);
        for (i, c) in cores.iter().enumerate() {
            if let State::Parked | State::Waiting(_) = c.state {
                waiting = waiting.or(Some(i));
            }
            if let State::Runnable(t) | State::Waiting(t) = c.state
                && next.is_none_or(|(_, best)| t < best)
            {
                next = Some((i, t));
            }
        }
        let event = m.next_event();
        if let Some(t) = &mut trouble {
            let first = event.min(next.map_or(Time::NEVER, |n| n.1));
            if next.is_some() {
                last = last.max(first);
            } else if waited > t.patience()
                && let Some(i) = waiting
            {
                return Ok(Ended::Unfinished(Stuck::of(m, cores, i)));
            }
            let watched = |c: &Core<Dr, Tr>| match c.state {
                State::Finished => Time::NEVER,
                _ => c.watchdog.as_ref().map_or(Time::NEVER, |w| w.next),
            };
            let due = cores.iter().map(watched).min().unwrap_or(Time::NEVER);
            if t.flaps.next() <= first.min(due)
                && t.flaps.next() < Time::NEVER
                && (next, waiting) != (None, None)
            {
                waited += idle(next, &mut last, t.flaps.next());
                t.flap(m);
                wake(cores, m, &mut changes);
                continue;
            }
            if due <= first && due < Time::NEVER {
                waited += idle(next, &mut last, due);
                m.run_device(due);
                let failed = failed(&mut m.bus);
                for c in cores.iter_mut().filter(|c| watched(c) <= due) {
                    // A core that waits for its buffers counts as one with a full queue.
                    let stopped = c.state == State::Parked || c.driver.stopped();
                    c.alarm = c.watchdog.as_mut().map(|w| w.look(due, stopped, failed));
                    c.state = c.state.interrupted(due);
                }
                continue;
            }
        }
        let due = next.map_or(Time::NEVER, |n| n.1);
        match (next, waiting) {
            (None, None) => return Ok(Ended::Done),
            // An interrupt may come before the next core's turn.
            (_, Some(_)) if event < due => {
                m.run_device(due.min(event + QUANTUM));
                // Only an interrupt ends the wait, or a fault.
                while trouble.is_none()
                    && m.bus.interrupt_changes() == changes
                    && m.next_event() < due
                {
                    let event = m.next_event();
                    m.run_device(due.min(event + QUANTUM));
                }
            }
            (None, Some(i)) => return Err(Stuck::of(m, cores, i)),
            (Some((i, t)), _) => {
                // The device must have started everything due before `retire_before`.
                m.run_device(t);
                m.retire_before(t);
                m.enter(i);
                m.idle_until(t);
                let c = &mut cores[i];
                c.state = step(m, c);
                // Its interrupt may be on the way already.
                if let State::Parked | State::Waiting(_) = c.state
                    && let Some(at) = c.pending(m.bus.platform())
                {
                    c.state = c.state.interrupted(at.max(m.now()));
                }
                if !after_step(m, cores, i) {
                    return Ok(Ended::Stopped);
                }
            }
        }
        wake(cores, m, &mut changes);
    }
}

/// Returns the time from the `last` event to that at `at`, if no core is to run `next`.
fn idle(next: Option<(usize, Time)>, last: &mut Time, at: Time) -> Span {
    let before = core::mem::replace(last, (*last).max(at));
    if next.is_none() { last.since(before) } else { Span::ZERO }
}

/// Makes waiting cores runnable from the time of their interrupt, which they take when they run.
/// `changes` is [`Bus::interrupt_changes`] at the last call. While it stays the same, no core that
/// waited then has an interrupt.
#[inline(always)]
fn wake<B: Bus, D, Dr, Tr>(cores: &mut [Core<Dr, Tr>], m: &Machine<B, D>, changes: &mut u64) {
    let before = core::mem::replace(changes, m.bus.interrupt_changes());
    if before != *changes {
        for c in cores.iter_mut() {
            if let State::Parked | State::Waiting(_) = c.state
                && let Some(at) = c.pending(m.bus.platform())
            {
                c.state = c.state.interrupted(at);
            }
        }
    }
}

/// Runs one turn of a core: its interrupts, then a burst of packets. Returns its next state.
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
            let mut up = Metered { traffic, latency, due: &c.due, now };
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
            Some(held) => *held,
            // A queue over its byte limit is not empty: a completion ends the wait.
            None if !c.traffic.is_generator() && !c.batch.may_go(c.driver.byte_room()) => {
                return State::Parked;
            }
            None => match c.traffic.next(m) {
                Next::Packet(packet, more, due) => {
                    let slot = packet.cookie as usize & (c.due.len() - 1);
                    c.due[slot] = due;
                    m.charge(CpuWork::Stack);
                    let more = if c.traffic.is_generator() {
                        more
                    } else {
                        c.batch.goes(packet.len(), more)
                    };
                    (packet, more)
                }
                Next::At(t) => return c.rest(State::Waiting(t)),
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
                c.held = Some(Box::new((p, more)));
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
