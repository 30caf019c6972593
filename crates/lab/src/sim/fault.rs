//! Faults of a run: what strikes, when the link goes down, and the watchdog of the queues.
//!
//! Faults between device and host strike in [`doorbell_bus::fault`], on the machine's first
//! platform: of two partitions it is the client's. They strike from the start of the traffic until
//! its end, so that nothing fails while drivers are opened and closed.
//!
//! A stack checks its queues (`dev_watchdog`): one that has been stopped for `run.watchdog` without
//! a packet taken has hung, and its driver is told ([`Alarm::TxTimeout`]). A driver's periodic work
//! runs twice as often ([`Alarm::Tick`]), and a platform that saw an access fail tells the driver
//! so ([`Alarm::IoError`]), as EEH and AER do. Without faults there is no watchdog.

use doorbell_bus::fault::{FaultCounts, Faults, Rule};
use doorbell_bus::{Bus, Machine};
use doorbell_drivers::Alarm;
use doorbell_hal::{Device, Iova, Span, Time};
use std::collections::BTreeSet;

/// A link that goes down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flap {
    /// When, since the traffic began.
    pub after: Span,
    /// For how long.
    pub lasts: Span,
    /// Whether so long after it once more, and so on.
    pub again: bool,
}

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    pub(crate) rules: Vec<Rule>,
    pub(crate) flaps: Vec<Flap>,
    pub(crate) seed: u64,
    pub(crate) watchdog: Span,
}

impl Plan {
    /// Whether anything is.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.flaps.is_empty()
    }

    /// How long a queue may be stopped, where anybody looks.
    pub fn watchdog(&self) -> Option<Span> {
        (!self.is_empty()).then_some(self.watchdog)
    }

    /// From now on what is asked for goes wrong on the machine's first platform. Accesses to
    /// `spared` areas do not fail: a function whose command queue cannot be reached is lost
    /// with all that it has.
    pub fn begin<B: Bus>(&self, bus: &mut B, spared: Vec<(Iova, u32)>) {
        if !self.rules.is_empty()
            && let Some(p) = bus.platforms().next()
        {
            p.inject(Faults::new(self.rules.clone(), self.seed).sparing(spared));
        }
    }

    /// When the link goes down and up, of traffic that begins at `at`.
    pub fn flaps(&self, at: Time) -> Flaps {
        let mut f = Flaps { due: BTreeSet::new(), down: 0, times: 0 };
        for flap in &self.flaps {
            f.add(at + flap.after, *flap);
        }
        f
    }
}

/// A change: when, whether up, and after which time a further flap begins, of so long.
type Due = (Time, bool, Option<(Span, Span)>);

/// When a link goes down and up.
#[derive(Clone, Debug, Default)]
pub struct Flaps {
    due: BTreeSet<Due>,
    /// Flaps that overlap.
    down: u32,
    /// Times it went down.
    pub times: u64,
}

impl Flaps {
    fn add(&mut self, at: Time, f: Flap) {
        self.due.insert((at, false, f.again.then_some((f.after, f.lasts))));
        self.due.insert((at + f.lasts, true, None));
    }

    /// When it next does either.
    pub fn next(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |f| f.0)
    }

    /// What is due at `at`: whether the link is up from then on, if that is another state.
    pub fn step(&mut self, at: Time) -> Option<bool> {
        let was = self.down > 0;
        while let Some((t, up, again)) = self.due.first().copied().filter(|f| f.0 <= at) {
            self.due.pop_first();
            self.down = if up { self.down.saturating_sub(1) } else { self.down + 1 };
            if let Some((after, lasts)) = again {
                self.add(t + after, Flap { after, lasts, again: true });
            }
        }
        let is = self.down > 0;
        self.times += u64::from(is && !was);
        (is != was).then_some(!is)
    }

    /// Whether it is down.
    pub fn is_down(&self) -> bool {
        self.down > 0
    }

    /// No more of it: whether the link has to be brought up.
    pub fn end(&mut self) -> bool {
        self.due.clear();
        core::mem::take(&mut self.down) > 0
    }
}

/// What was done about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WatchdogEvents {
    /// Queues that had hung.
    pub timeouts: u64,
    /// Times that a driver was told of failed accesses.
    pub io_errors: u64,
}

impl WatchdogEvents {
    /// And another's.
    pub fn add(&mut self, other: WatchdogEvents) {
        self.timeouts += other.timeouts;
        self.io_errors += other.io_errors;
    }
}

/// When a queue is looked after, and what was seen last.
#[derive(Clone, Copy, Debug)]
pub struct Watchdog {
    limit: Span,
    /// When it looks next.
    pub next: Time,
    /// When the queue last took a packet.
    pub sent: Time,
    failed: u64,
    /// What it has raised.
    pub alarms: WatchdogEvents,
}

impl Watchdog {
    /// One that begins at `at`.
    pub fn new(limit: Span, at: Time) -> Watchdog {
        let mut w =
            Watchdog { limit, next: at, sent: at, failed: 0, alarms: WatchdogEvents::default() };
        w.wait();
        w
    }

    fn wait(&mut self) {
        self.next += Span::from_ps((self.limit.ps() / 2).max(1));
    }

    /// It looks, at `now`: at a queue that is stopped or not, and at the accesses that have failed
    /// so far.
    pub fn look(&mut self, now: Time, stopped: bool, failed: u64) -> Alarm {
        while self.next <= now {
            self.wait();
        }
        if core::mem::replace(&mut self.failed, failed) != failed {
            self.alarms.io_errors += 1;
            return Alarm::IoError;
        }
        if stopped && now.since(self.sent) >= self.limit {
            self.alarms.timeouts += 1;
            // It has as long to recover.
            self.sent = now;
            return Alarm::TxTimeout;
        }
        Alarm::Tick
    }
}

/// What goes wrong in an open-loop run, where the wire is the device's own.
#[derive(Debug)]
pub struct FaultSchedule<B, D> {
    pub(crate) flaps: Flaps,
    pub(crate) tell: fn(&mut D, &mut B, Time, bool),
    pub(crate) limit: Span,
}

impl<B: Bus, D: Device<B>> FaultSchedule<B, D> {
    /// The plan's, if it has any; `tell` tells the device of its link.
    pub fn begin(
        plan: &Plan,
        m: &mut Machine<B, D>,
        spared: Vec<(Iova, u32)>,
        tell: fn(&mut D, &mut B, Time, bool),
    ) -> Option<FaultSchedule<B, D>> {
        let limit = plan.watchdog()?;
        plan.begin(&mut m.bus, spared);
        let at = doorbell_hal::Host::now(m);
        Some(FaultSchedule { flaps: plan.flaps(at), tell, limit })
    }

    /// The link goes up or down, at its time.
    pub(crate) fn flap(&mut self, m: &mut Machine<B, D>) {
        let at = self.flaps.next();
        m.run_device(at);
        if let Some(up) = self.flaps.step(at) {
            m.outside(|d, b, _| (self.tell)(d, b, at, up));
        }
    }

    /// It goes down no more, and is up.
    pub(crate) fn mend(&mut self, m: &mut Machine<B, D>) {
        if self.flaps.end() {
            m.outside(|d, b, at| (self.tell)(d, b, at, true));
        }
    }

    /// It is over: nothing goes wrong any more. What has.
    pub fn end(self, m: &mut Machine<B, D>, alarms: WatchdogEvents) -> Report {
        Report { struck: end(&mut m.bus), flaps: self.flaps.times, cut: 0, alarms }
    }
}

/// Nothing goes wrong any more on any platform; what has.
pub(crate) fn end<B: Bus>(bus: &mut B) -> FaultCounts {
    bus.platforms().map(doorbell_bus::Platform::end_faults).fold(FaultCounts::default(), |a, b| {
        FaultCounts {
            interrupts: a.interrupts + b.interrupts,
            late: a.late + b.late,
            poisoned: a.poisoned + b.poisoned,
            dma: a.dma + b.dma,
        }
    })
}

/// Accesses that have failed so far, as a platform's error handler sees them.
pub(crate) fn failed<B: Bus>(bus: &mut B) -> u64 {
    bus.platforms().map(|p| p.struck().dma).sum()
}

/// What went wrong in a run, and what was done about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Between device and host.
    pub struck: FaultCounts,
    /// Times that the link went down.
    pub flaps: u64,
    /// Frames that were on a wire when it was cut, or were sent on it before it was mended.
    pub cut: u64,
    /// What the stack found.
    pub alarms: WatchdogEvents,
}

#[cfg(test)]
mod tests;
