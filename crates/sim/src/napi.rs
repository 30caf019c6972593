//! The NAPI scheduler of Linux. A step of a core is the first of: (1) a pending interrupt, (2) the
//! watchdog, (3) an endpoint's timer, (4) softirq, one poll of the list, (5) a thread: a system
//! call, or a poll by `ksoftirqd` once softirq has used up its restarts or time ([`Rules`]).
//! Threads share the core by time slices.
//!
//! A softirq action polls each queue of the list once (`net_rx_action` since Linux 3.19). One that
//! used up its weight waits for the next action, so a single busy queue gets one poll an action.
//!
//! The core with the smallest time steps next, the lower number first among equals, after the
//! device has run to that time. A stopped queue sends after the poll that woke it ([`super::bql`]).
//! Not modelled: interrupts within a poll or a system call, locks other than a socket's owner,
//! preemption on wake-up, RPS/RFS, idle states. A core may see effects of the other core's current
//! step, at most one poll early. A system call on its own core sends when it ends.

use crate::bql::{self, Batch};
use crate::fault::{Watchdog, failed};
use core::ops::Range;
use doorbell_bus::{Bus, Machine, Platform, trace::DriverCall};
use doorbell_drivers::{Driver, Irq, Poll, Sink, Tx, Verdict};
use doorbell_hal::{Buf, CpuWork, Device, Host, Mapped, Span, Time};
use doorbell_packet::Packet;
use std::collections::VecDeque;

/// The stack and its applications above a driver.
pub trait Endpoint<H: Host>: Sink {
    /// Handles received and sent packets in softirq, after a poll.
    fn softirq(&mut self, h: &mut H);
    /// Handles expired timers in softirq.
    fn timers(&mut self, _h: &mut H) {}
    /// Returns the expiry of the next timer, or [`Time::NEVER`].
    fn next_timer(&self) -> Time {
        Time::NEVER
    }
    /// Returns the next packet for the driver.
    fn output(&mut self, _h: &mut H) -> Option<Packet> {
        None
    }
    /// Returns whether another packet follows at once.
    fn more(&self) -> bool {
        false
    }
    /// Returns whether it calls the driver directly, as pktgen does, without regard to the byte
    /// limit of the queue.
    fn is_generator(&self) -> bool {
        false
    }
    /// Takes back a packet that the driver dropped.
    fn dropped(&mut self, h: &mut H, p: Packet);
    /// Returns whether an application can run.
    fn is_ready(&self) -> bool {
        false
    }
    /// Makes one system call of an application.
    fn run(&mut self, _h: &mut H) {}
    /// Returns whether all work is done.
    fn is_done(&self) -> bool {
        false
    }
}

/// An interrupt of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// A message, cleared when the handler runs.
    Message(u16),
    /// A level line. The handler runs while it is high.
    Line(u16),
}

impl From<Interrupt> for Vec<Interrupt> {
    fn from(i: Interrupt) -> Vec<Interrupt> {
        vec![i]
    }
}

impl Interrupt {
    /// Returns the time since which the interrupt is pending.
    pub fn pending(self, p: &Platform) -> Option<Time> {
        match self {
            Interrupt::Message(v) => p.message_pending(v),
            Interrupt::Line(n) => p.line(n),
        }
    }

    /// Clears a message before its handler runs. Returns the number of the message or line.
    pub fn take(self, p: &mut Platform) -> u16 {
        match self {
            Interrupt::Message(v) => {
                p.take_message(v);
                v
            }
            Interrupt::Line(n) => n,
        }
    }
}

/// A queue pair: its driver, its interrupts, its cores, and the endpoint above it.
#[derive(Debug)]
pub struct NapiContext<Dr, E> {
    /// The driver.
    pub driver: Dr,
    /// The stack above it.
    pub endpoint: E,
    /// Its interrupts. A poll serves all of them.
    pub lines: Vec<Interrupt>,
    /// Number of times that each was taken.
    pub taken: Vec<u64>,
    /// The core that takes the interrupts.
    pub irq_core: usize,
    /// The core that the applications run on.
    pub app_core: usize,
    /// The qdisc.
    queue: VecDeque<Packet>,
    /// The batch being handed to the driver.
    batch: Batch,
    /// Set while it is on a poll list.
    scheduled: bool,
    /// Time from which the applications may run. `None` while they sleep.
    awake: Option<Time>,
    /// Time from which interrupts, timers or the watchdog want its interrupt core. [`run`] finds it
    /// anew after each step of its cores and each change of an interrupt.
    asks: Time,
    /// Set after a system call until its packets are sent.
    ended: bool,
    /// Consecutive interrupts that the handler did not claim.
    unhandled: u32,
    /// Interrupts taken.
    pub interrupts: u64,
    /// Polls made.
    pub polls: u64,
    /// Packets received.
    pub received: u64,
    /// The queue's watchdog in a run with faults.
    pub watchdog: Option<Watchdog>,
}

impl<Dr, E> NapiContext<Dr, E> {
    /// Creates a context whose applications are awake at time zero.
    pub fn new(
        driver: Dr,
        endpoint: E,
        lines: impl Into<Vec<Interrupt>>,
        irq_core: usize,
        app_core: usize,
    ) -> NapiContext<Dr, E> {
        let lines = lines.into();
        NapiContext {
            driver,
            endpoint,
            taken: vec![0; lines.len()],
            lines,
            irq_core,
            app_core,
            queue: VecDeque::new(),
            batch: Batch::default(),
            scheduled: false,
            awake: Some(Time::ZERO),
            asks: Time::NEVER,
            ended: false,
            unhandled: 0,
            interrupts: 0,
            polls: 0,
            received: 0,
            watchdog: None,
        }
    }

    /// Returns whether packets wait in the qdisc.
    pub fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Drains the qdisc at the end of a run.
    pub fn drain_queue(&mut self) -> impl Iterator<Item = Packet> {
        self.queue.drain(..)
    }
}

/// Parameters of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Weight of a poll.
    pub weight: u32,
    /// Packets in one softirq action (`netdev_budget`).
    pub budget: u32,
    /// Longest time of an action, and of all restarts together (`netdev_budget_usecs`).
    pub time: Span,
    /// Restarts before `ksoftirqd` takes over (`MAX_SOFTIRQ_RESTART`).
    pub restarts: u32,
    /// Time slice of a thread when another is ready.
    pub slice: Span,
    /// Time of a switch between threads.
    pub switch: Span,
    /// Longest time that a queue may be stopped, if there is a watchdog.
    pub watchdog: Option<Span>,
    /// Goes on when all endpoints are done, because peers may still ask for lost frames.
    pub lingers: bool,
}

impl Rules {
    /// Linux's defaults, with the slice of EEVDF at HZ=1000, rounded. A switch of threads is free.
    pub const LINUX: Rules = Rules {
        weight: 64,
        budget: 300,
        time: Span::from_ms(2),
        restarts: 10,
        slice: Span::from_ms(3),
        switch: Span::ZERO,
        watchdog: None,
        lingers: false,
    };
}

/// The busy time of a core by context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Busy {
    /// Interrupt handlers.
    pub hardirq: Span,
    /// Softirq after interrupts, and timers.
    pub softirq: Span,
    /// Softirq in `ksoftirqd`.
    pub ksoftirqd: Span,
    /// Applications.
    pub application: Span,
    /// Actions that used up their budget or time (`time_squeeze`).
    pub squeezed: u64,
    /// Times that `ksoftirqd` took over.
    pub handovers: u64,
}

impl Busy {
    /// Returns the difference to `before`.
    pub fn since(&self, before: &Busy) -> Busy {
        let less = |a: Span, b: Span| Span::from_ps(a.ps() - b.ps());
        Busy {
            hardirq: less(self.hardirq, before.hardirq),
            softirq: less(self.softirq, before.softirq),
            ksoftirqd: less(self.ksoftirqd, before.ksoftirqd),
            application: less(self.application, before.application),
            squeezed: self.squeezed - before.squeezed,
            handovers: self.handovers - before.handovers,
        }
    }

    /// Returns the sum of all times.
    pub fn total(&self) -> Span {
        self.hardirq + self.softirq + self.ksoftirqd + self.application
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    Ksoftirqd,
    Application(usize),
}

#[derive(Clone, Copy, Debug)]
struct Action {
    entered: Time,
    started: Time,
    left: i64,
    restarts: u32,
    /// Queues at the front of the list that it has yet to poll. Those behind came later.
    own: usize,
}

/// One core.
#[derive(Debug, Default)]
pub struct Cpu {
    now: Time,
    /// Scratch space of [`first_ready`].
    wanted: Time,
    list: VecDeque<usize>,
    /// Queues that used up their weight in the current action.
    repoll: Vec<usize>,
    action: Option<Action>,
    ksoftirqd: bool,
    current: Option<(Thread, Time)>,
    /// Its busy time.
    pub busy: Busy,
}

impl Cpu {
    /// Returns its busy time until `at`, at or after its last step began. A step under way then
    /// counts until then.
    pub fn busy_until(&self, at: Time) -> Span {
        let beyond = self.now.max(at).since(at);
        Span::from_ps(self.busy.total().ps().saturating_sub(beyond.ps()))
    }

    /// Returns whether its last step went on until `at`, to which it was run.
    pub fn is_busy(&self, at: Time) -> bool {
        self.now >= at
    }
}

/// The reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All endpoints are done.
    Done,
    /// `until` was reached.
    Time,
}

/// The reason why a run cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// No event is due, and the endpoints are not done.
    #[error("connections wait for something that cannot come, at {0}")]
    Nothing(Time),
    /// A line stays high and its handler does not claim it ("nobody cared").
    #[error("interrupt line {0} is high, and nobody cares")]
    Line(u16),
}

/// Limit of unclaimed interrupts, as in Linux (of 100,000).
const NOBODY_CARED: u32 = 99_900;

/// Counts the packets received in a poll.
struct Counted<'a, E> {
    up: &'a mut E,
    received: u32,
}

impl<E: Sink> Sink for Counted<'_, E> {
    #[inline(always)]
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        self.up.sent(b, cookie, last);
    }
    #[inline(always)]
    fn received(&mut self, p: Packet, verified: bool) {
        self.received += 1;
        self.up.received(p, verified);
    }
    #[inline(always)]
    fn program<H: Host>(&mut self, h: &mut H, page: &Mapped, range: Range<u32>) -> Verdict {
        let verdict = self.up.program(h, page, range);
        self.received += u32::from(verdict != Verdict::Pass);
        verdict
    }
}

/// Runs until all endpoints are done or `until` is reached.
///
/// # Errors
/// Returns [`Stuck`] if no event is due and the endpoints are not done, or nobody claims a line.
///
/// # Panics
/// Panics if a station names a core that `cpus` does not have.
pub fn run<B, D, Dr, E>(
    m: &mut Machine<B, D>,
    cpus: &mut [Cpu],
    stations: &mut [NapiContext<Dr, E>],
    rules: &Rules,
    until: Time,
) -> Result<End, Stuck>
where
    B: Bus,
    D: Device<B>,
    Dr: Driver<Machine<B, D>>,
    E: Endpoint<Machine<B, D>>,
{
    for s in stations.iter() {
        assert!(
            s.irq_core < cpus.len() && s.app_core < cpus.len(),
            "a station on a core that is not there"
        );
    }
    if let Some(limit) = rules.watchdog {
        for s in stations.iter_mut().filter(|s| s.watchdog.is_none()) {
            s.watchdog = Some(Watchdog::new(limit, m.now()));
        }
    }
    let mut steps = 0u64;
    // The device moves nothing that decides between cores but interrupts.
    let mut changes = m.bus.interrupt_changes();
    stations.iter_mut().for_each(|s| s.ask(m));
    let mut next = first_ready(cpus, stations);
    loop {
        // Checked only now and then, because it walks over all connections. One station may still
        // have to carry packets that another has sent.
        let carried = stations.len() == 1 || next.0 > until;
        // A watchdog always has an event, so the check is also made when nothing else is due.
        let look =
            steps.is_multiple_of(64) || rules.watchdog.is_some() && m.next_event() == Time::NEVER;
        if !rules.lingers && carried && look && stations.iter().all(|s| s.endpoint.is_done()) {
            return Ok(End::Done);
        }
        let event = m.next_event();
        if event < next.0 && event <= until {
            m.run_to_interrupt(until.min(Time::from_ps(next.0.ps() - 1)));
            if m.bus.interrupt_changes() != changes {
                changes = m.bus.interrupt_changes();
                stations.iter_mut().for_each(|s| s.ask(m));
                next = first_ready(cpus, stations);
            }
            continue;
        }
        let (at, i) = next;
        if at > until || event.min(at) > until {
            if event.min(at) < Time::NEVER {
                return Ok(End::Time);
            }
            if stations.iter().all(|s| s.endpoint.is_done()) {
                return Ok(End::Done);
            }
            return Err(Stuck::Nothing(m.now()));
        }
        steps += 1;
        m.run_device(at);
        m.retire_before(at);
        m.enter(i);
        m.idle_until(at);
        Turn { m, stations, rules, core: i }.step(&mut cpus[i])?;
        cpus[i].now = m.now();
        let before = core::mem::replace(&mut changes, m.bus.interrupt_changes());
        for s in stations.iter_mut() {
            if s.irq_core == i || s.app_core == i || changes != before {
                s.ask(m);
            }
        }
        next = first_ready(cpus, stations);
    }
}

/// Returns the earliest time at which a core can step, and the core.
fn first_ready<Dr, E>(cpus: &mut [Cpu], stations: &[NapiContext<Dr, E>]) -> (Time, usize) {
    cpus.iter_mut().for_each(|c| c.wanted = Time::NEVER);
    for s in stations {
        let core = &mut cpus[s.irq_core];
        core.wanted = core.wanted.min(s.asks);
        let core = &mut cpus[s.app_core];
        core.wanted = core.wanted.min(s.awake.unwrap_or(Time::NEVER));
    }
    let mut next = (Time::NEVER, 0);
    for (i, c) in cpus.iter().enumerate() {
        let at = match c.wanted {
            _ if !c.list.is_empty() => c.now,
            Time::NEVER => Time::NEVER,
            at => at.max(c.now),
        };
        if at < next.0 {
            next = (at, i);
        }
    }
    next
}

/// A turn of a core.
struct Turn<'a, B, D, Dr, E> {
    m: &'a mut Machine<B, D>,
    stations: &'a mut [NapiContext<Dr, E>],
    rules: &'a Rules,
    core: usize,
}

impl<B: Bus, D: Device<B>, Dr, E> Turn<'_, B, D, Dr, E>
where
    Dr: Driver<Machine<B, D>>,
    E: Endpoint<Machine<B, D>>,
{
    fn step(&mut self, c: &mut Cpu) -> Result<(), Stuck> {
        self.m.catch_up();
        let began = self.m.now();
        let mut interrupted = false;
        for (n, s) in self.stations.iter_mut().enumerate().filter(|(_, s)| s.irq_core == self.core)
        {
            for k in 0..s.lines.len() {
                if s.lines[k].pending(self.m.bus.platform()).is_none_or(|at| at > self.m.now()) {
                    continue;
                }
                interrupted = true;
                let vector = s.lines[k].take(self.m.bus.platform_mut());
                s.interrupts += 1;
                s.taken[k] += 1;
                let from = self.m.now();
                let irq = s.driver.interrupt(self.m, vector);
                self.m.mark(from, DriverCall::Interrupt(vector));
                s.unhandled = if irq == Irq::None { s.unhandled + 1 } else { 0 };
                if s.unhandled > NOBODY_CARED {
                    return Err(Stuck::Line(vector));
                }
                if irq == Irq::Poll && !s.scheduled {
                    s.scheduled = true;
                    c.list.push_back(n);
                }
            }
        }
        if interrupted {
            c.busy.hardirq += self.m.now().since(began);
            return Ok(());
        }
        if self.rules.watchdog.is_some() && self.look_after(c) {
            c.busy.softirq += self.m.now().since(began);
            return Ok(());
        }
        let mut timers = false;
        for s in self
            .stations
            .iter_mut()
            .filter(|s| s.irq_core == self.core && s.endpoint.next_timer() <= began)
        {
            timers = true;
            let from = self.m.now();
            s.endpoint.timers(self.m);
            self.m.mark(from, DriverCall::Timers);
            s.send(self.m);
            s.wake(self.m);
        }
        if timers {
            c.busy.softirq += self.m.now().since(began);
            return Ok(());
        }
        if !c.list.is_empty() && !c.ksoftirqd {
            self.softirq(c, began);
            c.busy.softirq += self.m.now().since(began);
            return Ok(());
        }
        match self.choose(c, began) {
            Some((thread, switched)) => {
                if switched {
                    self.m.delay(self.rules.switch);
                }
                match thread {
                    Thread::Ksoftirqd => {
                        if let Some(n) = c.list.pop_front()
                            && self.poll(n).1
                        {
                            c.list.push_back(n);
                        }
                        c.ksoftirqd = !c.list.is_empty();
                        c.busy.ksoftirqd += self.m.now().since(began);
                    }
                    Thread::Application(n) => {
                        let s = &mut self.stations[n];
                        let from = self.m.now();
                        if core::mem::take(&mut s.ended) {
                            s.send(self.m);
                        } else {
                            // Neither the call nor its sends run the device ahead of the interrupt
                            // core, whose polls would then find frames too early.
                            s.ended = s.app_core != s.irq_core;
                            if s.ended {
                                self.m.ahead(|m| s.endpoint.run(m));
                            } else {
                                s.endpoint.run(self.m);
                            }
                            self.m.mark(from, DriverCall::Application);
                            if !s.ended {
                                s.send(self.m);
                            }
                        }
                        s.awake = (s.ended || s.endpoint.is_ready()).then_some(self.m.now());
                        c.busy.application += self.m.now().since(began);
                    }
                }
            }
            None => c.current = None,
        }
        Ok(())
    }

    /// Polls the next queue of the softirq action, and starts the next action after the last one.
    fn softirq(&mut self, c: &mut Cpu, began: Time) {
        let a = c.action.get_or_insert(Action {
            entered: began,
            started: began,
            left: i64::from(self.rules.budget),
            restarts: 0,
            own: c.list.len(),
        });
        let Some(n) = c.list.pop_front() else { return };
        let (used, again) = self.poll(n);
        if again {
            c.repoll.push(n);
        }
        a.own -= 1;
        a.left -= i64::from(used);
        let now = self.m.now();
        let squeezed = a.left <= 0 || now.since(a.started) >= self.rules.time;
        c.busy.squeezed += u64::from(squeezed);
        if !squeezed && a.own == 0 && c.repoll.is_empty() {
            // `in_net_rx_action`: an action with nothing left takes the queues scheduled meanwhile.
            a.own = c.list.len();
        }
        if !squeezed && a.own > 0 {
            return;
        }
        c.list.extend(c.repoll.drain(..));
        if c.list.is_empty() {
            c.action = None;
            return;
        }
        a.restarts += 1;
        if a.restarts < self.rules.restarts && now.since(a.entered) < self.rules.time {
            (a.started, a.left) = (now, i64::from(self.rules.budget));
            a.own = c.list.len();
        } else {
            c.action = None;
            c.ksoftirqd = true;
            c.busy.handovers += 1;
        }
    }

    /// Runs the due watchdogs of the core's stations. Returns whether there was any.
    #[cold]
    fn look_after(&mut self, c: &mut Cpu) -> bool {
        let mut any = false;
        for (n, s) in self.stations.iter_mut().enumerate().filter(|(_, s)| s.irq_core == self.core)
        {
            let Some(w) = s.watchdog.as_mut().filter(|w| w.next <= self.m.now()) else { continue };
            any = true;
            let alarm = w.look(self.m.now(), bql::is_stopped(&s.driver), failed(&mut self.m.bus));
            if s.driver.alarm(self.m, alarm) == Irq::Poll && !s.scheduled {
                s.scheduled = true;
                c.list.push_back(n);
            }
            s.send(self.m);
        }
        any
    }

    /// Returns the thread that runs next, and whether this is a switch.
    fn choose(&self, c: &mut Cpu, now: Time) -> Option<(Thread, bool)> {
        // Turns go round applications by station, then ksoftirqd.
        let all = self.stations.len() + 1;
        let ready = |n: usize| match self.stations.get(n) {
            Some(s) => s.app_core == self.core && s.awake.is_some_and(|t| t <= now),
            None => c.ksoftirqd,
        };
        let thread = |n: usize| {
            if n < self.stations.len() { Thread::Application(n) } else { Thread::Ksoftirqd }
        };
        let (last, since) = match c.current {
            Some((Thread::Application(n), since)) => (n, since),
            Some((Thread::Ksoftirqd, since)) => (self.stations.len(), since),
            None => (self.stations.len(), Time::ZERO),
        };
        let expired = c.current.is_none() || now.since(since) >= self.rules.slice;
        if !expired && ready(last) {
            return Some((thread(last), false));
        }
        let next = (1..=all).map(|k| (last + k) % all).find(|n| ready(*n))?;
        let switched = c.current.is_none_or(|(t, _)| t != thread(next));
        c.current = Some((thread(next), now));
        Some((thread(next), switched))
    }

    /// Polls queue `n`. Returns the part of the budget used, and whether to poll it again.
    fn poll(&mut self, n: usize) -> (u32, bool) {
        let s = &mut self.stations[n];
        s.polls += 1;
        let mut up = Counted { up: &mut s.endpoint, received: 0 };
        let from = self.m.now();
        let result = s.driver.poll(self.m, self.rules.weight, &mut up);
        let received = up.received;
        self.m.mark(from, DriverCall::Poll);
        s.received += u64::from(received);
        let from = self.m.now();
        s.endpoint.softirq(self.m);
        self.m.mark(from, DriverCall::Stack);
        s.send(self.m);
        s.wake(self.m);
        match result {
            Poll::Again => return (self.rules.weight, true),
            Poll::Work => {
                let from = self.m.now();
                s.driver.work(self.m);
                self.m.mark(from, DriverCall::Work);
            }
            Poll::Idle => {}
        }
        s.scheduled = false;
        (received, false)
    }
}

impl<Dr, E> NapiContext<Dr, E> {
    /// Wakes the applications if they can run.
    fn wake<H: Host>(&mut self, h: &H)
    where
        E: Endpoint<H>,
    {
        if self.awake.is_none() && self.endpoint.is_ready() {
            self.awake = Some(h.now());
        }
    }

    /// Finds the time from which it wants its interrupt core.
    fn ask<B: Bus, D, H: Host>(&mut self, m: &Machine<B, D>)
    where
        E: Endpoint<H>,
    {
        let platform = m.bus.platform_of(self.irq_core);
        self.asks =
            self.endpoint.next_timer().min(self.watchdog.as_ref().map_or(Time::NEVER, |w| w.next));
        for at in self.lines.iter().filter_map(|i| i.pending(platform)) {
            self.asks = self.asks.min(at);
        }
    }

    /// Passes packets to the driver: waiting ones, then new ones. An empty qdisc is bypassed
    /// without "more". Packets that waited go in batches with "more" on all but the last.
    pub fn send<B: Bus, D: Device<B>>(&mut self, m: &mut Machine<B, D>)
    where
        Dr: Driver<Machine<B, D>>,
        E: Endpoint<Machine<B, D>>,
    {
        loop {
            let room =
                if self.endpoint.is_generator() { i32::MAX } else { self.driver.byte_room() };
            if self.driver.stopped() || !self.batch.may_go(room) {
                // New packets wait too. Their sockets limit the number.
                while let Some(p) = self.endpoint.output(m) {
                    self.queue.push_back(p);
                }
                return;
            }
            let Some(p) = self.queue.pop_front().or_else(|| self.endpoint.output(m)) else {
                self.batch.end();
                return;
            };
            m.charge(CpuWork::Stack);
            let waiting = !self.queue.is_empty() || self.endpoint.more();
            let more = self.batch.goes(p.len(), waiting);
            let from = m.now();
            let result = self.driver.transmit(m, p, more);
            m.mark(from, DriverCall::Transmit);
            match result {
                Tx::Ok => {
                    if let Some(w) = &mut self.watchdog {
                        w.sent = m.now();
                    }
                }
                Tx::Busy(p) => {
                    self.queue.push_front(p);
                    return;
                }
                Tx::Dropped(p) => self.endpoint.dropped(m, p),
            }
        }
    }
}

#[cfg(test)]
mod tests;
