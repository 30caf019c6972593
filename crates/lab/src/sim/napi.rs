//! Cores as Linux uses them: interrupts before softirq, softirq before applications.
//!
//! A [`NapiContext`] is one queue pair: a driver, its interrupts (messages or level lines), what
//! is above it (an [`Endpoint`]), the core that takes its interrupts and the one its
//! applications run on. One step of a core is the first of these that there is:
//!
//! 1. an interrupt that has arrived: the handler; if it asks for a poll, the station joins the
//!    core's poll list;
//! 2. a timer of an endpoint;
//! 3. softirq: one poll of 64. A station that wants more goes to the list's end. After 300 packets
//!    or 2 ms (`netdev_budget`, `netdev_budget_usecs`) the action ends; it restarts up to 10 times
//!    within 2 ms (`MAX_SOFTIRQ_RESTART`), then `ksoftirqd` takes over;
//! 4. a thread: an application's system call, or, while it has the list, one poll by `ksoftirqd`.
//!    They share the core by turns of a time slice.
//!
//! The core with the smallest time makes the next step; among equals the one with the
//! smaller number. A core with nothing to do waits until the next interrupt, timer or
//! wake-up. The device, and with it the link and the peer, runs up to a step before it is made.
//!
//! What is sent goes to the driver at once (an empty qdisc is bypassed, no "more"); while the
//! queue is stopped, or over its byte limit, it waits, and goes out after the poll that woke it, in
//! batches with "more" on all but the last ([`crate::sim::bql`]).
//!
//! With faults ([`crate::sim::fault`]) each station has a watchdog, whose time comes right after
//! interrupts.
//!
//! Not modelled: interrupts in the middle of a poll or a system call (they wait for its
//! end); locks between cores, but for a socket's owner; preemption on wake-up; RPS/RFS; idle
//! states. With two cores, one may see what the other did within a step that ends later: at most
//! one poll ahead. A system call on a core of its own does not take the device along, and sends
//! when it has ended.

use crate::sim::bql::Batch;
use crate::sim::fault::{Watchdog, failed};
use doorbell_bus::trace::DriverCall;
use doorbell_bus::{Bus, Machine, Platform};
use doorbell_drivers::{Driver, Irq, Poll, Sink, Tx};
use doorbell_hal::{Buf, CpuWork, Device, Host, Span, Time};
use doorbell_packet::Packet;
use std::collections::VecDeque;

/// What is above a driver.
pub trait Endpoint<H: Host>: Sink {
    /// After a poll, in softirq: handles what was received or sent.
    fn softirq(&mut self, h: &mut H);
    /// Timers that have ended, in softirq.
    fn timers(&mut self, h: &mut H);
    /// When the next timer ends; [`Time::NEVER`] if none runs.
    fn next_timer(&self) -> Time;
    /// The next packet for the driver.
    fn output(&mut self, h: &mut H) -> Option<Packet>;
    /// Whether another packet follows that one at once.
    fn more(&self) -> bool {
        false
    }
    /// The driver dropped a packet.
    fn dropped(&mut self, h: &mut H, p: Packet);
    /// Whether an application has something to do.
    fn is_ready(&self) -> bool;
    /// One system call of an application.
    fn run(&mut self, h: &mut H);
    /// Whether nothing is to be done any more.
    fn is_done(&self) -> bool;
}

/// How a queue asks for attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// A message; taken when the handler runs.
    Message(u16),
    /// A level line; the handler runs while it is high.
    Line(u16),
}

impl From<Interrupt> for Vec<Interrupt> {
    fn from(i: Interrupt) -> Vec<Interrupt> {
        vec![i]
    }
}

impl Interrupt {
    /// Since when it asks for attention.
    pub fn pending(self, p: &Platform) -> Option<Time> {
        match self {
            Interrupt::Message(v) => p.message_pending(v),
            Interrupt::Line(n) => p.line(n),
        }
    }

    /// Its handler runs: a message is taken. Its number.
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

/// One queue pair and what is above it.
#[derive(Debug)]
pub struct NapiContext<Dr, E> {
    /// The driver.
    pub driver: Dr,
    /// What is above it.
    pub endpoint: E,
    /// Its interrupts; a queue pair with more than one polls for all of them.
    pub lines: Vec<Interrupt>,
    /// How often each was taken.
    pub taken: Vec<u64>,
    /// The core that takes it.
    pub irq_core: usize,
    /// The core that the applications run on.
    pub app_core: usize,
    /// The qdisc.
    queue: VecDeque<Packet>,
    /// The batch that is being handed over.
    batch: Batch,
    /// Whether it is on a poll list.
    scheduled: bool,
    /// From when the applications may run; `None` while they sleep.
    awake: Option<Time>,
    /// A system call has ended, and what it has to send has not been sent.
    ended: bool,
    /// Handlers that found nothing to do, one after another.
    unhandled: u32,
    /// Interrupts taken.
    pub interrupts: u64,
    /// Polls made.
    pub polls: u64,
    /// Packets received.
    pub received: u64,
    /// Who looks after it, if faults are asked for.
    pub watchdog: Option<Watchdog>,
}

impl<Dr, E> NapiContext<Dr, E> {
    /// A station whose applications are awake at time zero.
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
            ended: false,
            unhandled: 0,
            interrupts: 0,
            polls: 0,
            received: 0,
            watchdog: None,
        }
    }

    /// Hands the driver what there is to send, as after a poll.
    pub fn send<B, D>(&mut self, m: &mut Machine<B, D>)
    where
        B: Bus,
        D: Device<B>,
        Dr: Driver<Machine<B, D>>,
        E: Endpoint<Machine<B, D>>,
    {
        send(m, self);
    }

    /// Gives back what still waits in the qdisc: for taking a system down.
    pub fn drain_queue(&mut self) -> impl Iterator<Item = Packet> {
        self.queue.drain(..)
    }
}

/// What the scheduler is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A poll's weight.
    pub weight: u32,
    /// Packets in one softirq action.
    pub budget: u32,
    /// Its longest time, and that of all restarts together.
    pub time: Span,
    /// Restarts before `ksoftirqd`.
    pub restarts: u32,
    /// A thread's turn when another is ready.
    pub slice: Span,
    /// A change from one thread to another.
    pub switch: Span,
    /// How long a queue may be stopped, if anybody looks.
    pub watchdog: Option<Span>,
    /// Whether interrupts are served and queues looked after when all endpoints are done: others
    /// may still ask for what was lost.
    pub lingers: bool,
}

impl Rules {
    /// Linux's defaults; slice as of EEVDF with HZ=1000, rounded. Changing threads is free.
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

/// Where a core's time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Busy {
    /// Interrupt handlers.
    pub hardirq: Span,
    /// Softirq on the back of interrupts, and timers.
    pub softirq: Span,
    /// Softirq in `ksoftirqd`.
    pub ksoftirqd: Span,
    /// Applications.
    pub application: Span,
    /// Actions that ended with work left (`time_squeeze`).
    pub squeezed: u64,
    /// Times that `ksoftirqd` took over.
    pub handovers: u64,
}

impl Busy {
    /// What has come since `before`.
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

    /// All of it.
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
}

/// One core.
#[derive(Debug, Default)]
pub struct Cpu {
    now: Time,
    list: VecDeque<usize>,
    action: Option<Action>,
    ksoftirqd: bool,
    current: Option<(Thread, Time)>,
    /// Where its time went.
    pub busy: Busy,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All endpoints are done.
    Done,
    /// The time is over.
    Time,
}

/// Why a run cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// Nothing is under way, and the endpoints are not done.
    #[error("connections wait for something that cannot come, at {0}")]
    Nothing(Time),
    /// A line is high and its handler says that it is not its device's ("nobody cared").
    #[error("interrupt line {0} is high, and nobody cares")]
    Line(u16),
}

/// As Linux, of 100,000.
const NOBODY_CARED: u32 = 99_900;

/// Counts what goes up.
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
}

/// Runs until all endpoints are done or `until` is reached.
///
/// # Errors
/// When it gets stuck.
///
/// # Panics
/// When a station names a core that `cpus` does not have.
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
    let mut wanted = vec![Time::NEVER; cpus.len()];
    loop {
        let next = first_ready(m, cpus, stations, &mut wanted);
        // Looked at now and then: it walks over all connections. One station may still have to
        // carry what another has sent.
        let carried = stations.len() == 1 || next.0 > until;
        // A watchdog always has something to do: then it is looked at also when nobody else has.
        let look =
            steps.is_multiple_of(64) || rules.watchdog.is_some() && m.next_event() == Time::NEVER;
        if !rules.lingers && carried && look && stations.iter().all(|s| s.endpoint.is_done()) {
            return Ok(End::Done);
        }
        let event = m.next_event();
        if event < next.0 && event <= until {
            m.run_device(event);
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
        step(m, &mut cpus[i], i, stations, rules)?;
        cpus[i].now = m.now();
    }
}

/// Since when a station asks for attention.
fn asked<B: Bus, D, Dr, E>(m: &Machine<B, D>, s: &NapiContext<Dr, E>) -> Time {
    s.lines
        .iter()
        .filter_map(|i| i.pending(m.bus.platform_of(s.irq_core)))
        .min()
        .unwrap_or(Time::NEVER)
}

/// Returns the first time at which a core has something to do, and the core. `wanted` is scratch
/// space, a time for each core.
fn first_ready<B: Bus, D, Dr, E, H: Host>(
    m: &Machine<B, D>,
    cpus: &[Cpu],
    stations: &[NapiContext<Dr, E>],
    wanted: &mut [Time],
) -> (Time, usize)
where
    E: Endpoint<H>,
{
    wanted.fill(Time::NEVER);
    for s in stations {
        let interrupt = asked(m, s).min(s.endpoint.next_timer());
        let interrupt = interrupt.min(s.watchdog.as_ref().map_or(Time::NEVER, |w| w.next));
        wanted[s.irq_core] = wanted[s.irq_core].min(interrupt);
        wanted[s.app_core] = wanted[s.app_core].min(s.awake.unwrap_or(Time::NEVER));
    }
    let mut next = (Time::NEVER, 0);
    for (i, (c, wanted)) in cpus.iter().zip(wanted).enumerate() {
        let at = match *wanted {
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

fn step<B, D, Dr, E>(
    m: &mut Machine<B, D>,
    c: &mut Cpu,
    i: usize,
    stations: &mut [NapiContext<Dr, E>],
    rules: &Rules,
) -> Result<(), Stuck>
where
    B: Bus,
    D: Device<B>,
    Dr: Driver<Machine<B, D>>,
    E: Endpoint<Machine<B, D>>,
{
    m.catch_up();
    let began = m.now();
    let mut interrupted = false;
    for (n, s) in stations.iter_mut().enumerate().filter(|(_, s)| s.irq_core == i) {
        for k in 0..s.lines.len() {
            if s.lines[k].pending(m.bus.platform()).is_none_or(|at| at > m.now()) {
                continue;
            }
            interrupted = true;
            let vector = s.lines[k].take(m.bus.platform_mut());
            s.interrupts += 1;
            s.taken[k] += 1;
            let from = m.now();
            let irq = s.driver.interrupt(m, vector);
            m.mark(from, DriverCall::Interrupt(vector));
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
        c.busy.hardirq += m.now().since(began);
        return Ok(());
    }
    if rules.watchdog.is_some() && look_after(m, c, i, stations) {
        c.busy.softirq += m.now().since(began);
        return Ok(());
    }
    let mut timers = false;
    for s in stations.iter_mut().filter(|s| s.irq_core == i && s.endpoint.next_timer() <= began) {
        timers = true;
        let from = m.now();
        s.endpoint.timers(m);
        m.mark(from, DriverCall::Timers);
        send(m, s);
        s.wake(m);
    }
    if timers {
        c.busy.softirq += m.now().since(began);
        return Ok(());
    }
    if !c.list.is_empty() && !c.ksoftirqd {
        let a = c.action.get_or_insert(Action {
            entered: began,
            started: began,
            left: i64::from(rules.budget),
            restarts: 0,
        });
        a.left -= i64::from(poll(m, &mut c.list, stations, rules));
        let now = m.now();
        if c.list.is_empty() {
            c.action = None;
        } else if a.left <= 0 || now.since(a.started) >= rules.time {
            c.busy.squeezed += 1;
            a.restarts += 1;
            if a.restarts < rules.restarts && now.since(a.entered) < rules.time {
                (a.started, a.left) = (now, i64::from(rules.budget));
            } else {
                c.action = None;
                c.ksoftirqd = true;
                c.busy.handovers += 1;
            }
        }
        c.busy.softirq += now.since(began);
        return Ok(());
    }
    match choose(c, i, stations, began, rules) {
        Some((thread, switched)) => {
            if switched {
                m.delay(rules.switch);
            }
            match thread {
                Thread::Ksoftirqd => {
                    poll(m, &mut c.list, stations, rules);
                    c.ksoftirqd = !c.list.is_empty();
                    c.busy.ksoftirqd += m.now().since(began);
                }
                Thread::Application(n) => {
                    let s = &mut stations[n];
                    let from = m.now();
                    if core::mem::take(&mut s.ended) {
                        send(m, s);
                    } else {
                        // Neither the call nor its sends take the device ahead of the core with the
                        // interrupts, whose polls would find frames that have not come yet.
                        s.ended = s.app_core != s.irq_core;
                        if s.ended {
                            m.ahead(|m| s.endpoint.run(m));
                        } else {
                            s.endpoint.run(m);
                        }
                        m.mark(from, DriverCall::Application);
                        if !s.ended {
                            send(m, s);
                        }
                    }
                    s.awake = (s.ended || s.endpoint.is_ready()).then_some(m.now());
                    c.busy.application += m.now().since(began);
                }
            }
        }
        None => c.current = None,
    }
    Ok(())
}

/// The watchdogs of core `i`'s stations look, as far as their time has come. Whether one's had.
#[cold]
fn look_after<B, D, Dr, E>(
    m: &mut Machine<B, D>,
    c: &mut Cpu,
    i: usize,
    stations: &mut [NapiContext<Dr, E>],
) -> bool
where
    B: Bus,
    D: Device<B>,
    Dr: Driver<Machine<B, D>>,
    E: Endpoint<Machine<B, D>>,
{
    let mut any = false;
    for (n, s) in stations.iter_mut().enumerate().filter(|(_, s)| s.irq_core == i) {
        let Some(w) = s.watchdog.as_mut().filter(|w| w.next <= m.now()) else { continue };
        any = true;
        let alarm = w.look(m.now(), s.driver.stopped(), failed(&mut m.bus));
        if s.driver.alarm(m, alarm) == Irq::Poll && !s.scheduled {
            s.scheduled = true;
            c.list.push_back(n);
        }
        send(m, s);
    }
    any
}

/// The thread whose turn it is, and whether that is a change.
fn choose<Dr, E>(
    c: &mut Cpu,
    i: usize,
    stations: &[NapiContext<Dr, E>],
    now: Time,
    rules: &Rules,
) -> Option<(Thread, bool)> {
    // Numbered for the turns: applications by their stations, then ksoftirqd.
    let all = stations.len() + 1;
    let ready = |n: usize| match stations.get(n) {
        Some(s) => s.app_core == i && s.awake.is_some_and(|t| t <= now),
        None => c.ksoftirqd,
    };
    let thread =
        |n: usize| if n < stations.len() { Thread::Application(n) } else { Thread::Ksoftirqd };
    let (last, since) = match c.current {
        Some((Thread::Application(n), since)) => (n, since),
        Some((Thread::Ksoftirqd, since)) => (stations.len(), since),
        None => (stations.len(), Time::ZERO),
    };
    let expired = c.current.is_none() || now.since(since) >= rules.slice;
    if !expired && ready(last) {
        return Some((thread(last), false));
    }
    let next = (1..=all).map(|k| (last + k) % all).find(|n| ready(*n))?;
    let switched = c.current.is_none_or(|(t, _)| t != thread(next));
    c.current = Some((thread(next), now));
    Some((thread(next), switched))
}

/// One poll of the list's first; how much of the budget it took.
fn poll<B, D, Dr, E>(
    m: &mut Machine<B, D>,
    list: &mut VecDeque<usize>,
    stations: &mut [NapiContext<Dr, E>],
    rules: &Rules,
) -> u32
where
    B: Bus,
    D: Device<B>,
    Dr: Driver<Machine<B, D>>,
    E: Endpoint<Machine<B, D>>,
{
    let Some(n) = list.pop_front() else { return 0 };
    let s = &mut stations[n];
    s.polls += 1;
    let mut up = Counted { up: &mut s.endpoint, received: 0 };
    let from = m.now();
    let result = s.driver.poll(m, rules.weight, &mut up);
    let received = up.received;
    m.mark(from, DriverCall::Poll);
    s.received += u64::from(received);
    let from = m.now();
    s.endpoint.softirq(m);
    m.mark(from, DriverCall::Stack);
    send(m, s);
    s.wake(m);
    match result {
        Poll::Again => {
            list.push_back(n);
            return rules.weight;
        }
        Poll::Work => {
            let from = m.now();
            s.driver.work(m);
            m.mark(from, DriverCall::Work);
        }
        Poll::Idle => {}
    }
    s.scheduled = false;
    received
}

impl<Dr, E> NapiContext<Dr, E> {
    /// The applications may run from now, if they have something to do.
    fn wake<H: Host>(&mut self, h: &H)
    where
        E: Endpoint<H>,
    {
        if self.awake.is_none() && self.endpoint.is_ready() {
            self.awake = Some(h.now());
        }
    }
}

/// Hands packets to the driver: those that waited, then new ones.
fn send<B, D, Dr, E>(m: &mut Machine<B, D>, s: &mut NapiContext<Dr, E>)
where
    B: Bus,
    D: Device<B>,
    Dr: Driver<Machine<B, D>>,
    E: Endpoint<Machine<B, D>>,
{
    loop {
        if s.driver.stopped() || !s.batch.may_go(s.driver.byte_room()) {
            // New packets wait too; how many is limited by their sockets.
            while let Some(p) = s.endpoint.output(m) {
                s.queue.push_back(p);
            }
            return;
        }
        let Some(p) = s.queue.pop_front().or_else(|| s.endpoint.output(m)) else {
            s.batch.end();
            return;
        };
        m.charge(CpuWork::Stack);
        let waiting = !s.queue.is_empty() || s.endpoint.more();
        let more = s.batch.goes(p.len(), waiting);
        let from = m.now();
        let result = s.driver.transmit(m, p, more);
        m.mark(from, DriverCall::Transmit);
        match result {
            Tx::Ok => {
                if let Some(w) = &mut s.watchdog {
                    w.sent = m.now();
                }
            }
            Tx::Busy(p) => {
                s.queue.push_front(p);
                return;
            }
            Tx::Dropped(p) => s.endpoint.dropped(m, p),
        }
    }
}
