//! Faults of a run: injected failures, link flaps, and the watchdog of the queues.
//!
//! [`doorbell_bus::fault`] injects failures between device and host on the machine's first
//! platform (of two partitions, the client's) while there is traffic. Opening and closing a driver
//! never fails.
//!
//! The watchdog follows `dev_watchdog`. A queue that was stopped for `run.watchdog` without taking
//! a packet has hung, and its driver receives [`Alarm::TxTimeout`]. [`Alarm::Tick`] comes twice as
//! often. A failed access raises [`Alarm::IoError`], as EEH and AER do. A run without faults has
//! no watchdog.

use doorbell_bus::fault::{FaultCounts, Faults, Rule};
use doorbell_bus::{Bus, Machine};
use doorbell_drivers::Alarm;
use doorbell_hal::{Device, Iova, Span, Time};
use std::collections::BTreeSet;

/// A link that goes down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flap {
    /// Time from the start of the traffic.
    pub after: Span,
    /// Duration.
    pub lasts: Span,
    /// Repeats the flap after each further `after`.
    pub again: bool,
}

/// The faults to inject in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Rules of the accesses that fail.
    pub rules: Vec<Rule>,
    /// Changes of the link.
    pub flaps: Vec<Flap>,
    /// Seed of the random rules.
    pub seed: u64,
    /// Time after which a stopped queue raises its alarm.
    pub watchdog: Span,
}

impl Plan {
    /// Returns whether the plan has no faults.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.flaps.is_empty()
    }

    /// Returns the time limit of the watchdog, or `None` for a plan without faults.
    pub fn watchdog(&self) -> Option<Span> {
        (!self.is_empty()).then_some(self.watchdog)
    }

    /// Returns the longest time that a load may wait without an end, from its last packet on: ten
    /// minutes, but no more than 100,000 times the watchdog's, which would only reset the device
    /// again and again.
    pub fn patience(&self) -> Span {
        patience(self.watchdog)
    }

    /// Starts to inject faults on the machine's first platform. Accesses to `spared` areas never
    /// fail, because a function is lost without its command queue.
    pub fn begin<B: Bus>(&self, bus: &mut B, spared: Vec<(Iova, u32)>) {
        if !self.rules.is_empty()
            && let Some(p) = bus.platforms().next()
        {
            p.inject(Faults::new(self.rules.clone(), self.seed).sparing(spared));
        }
    }

    /// Returns the schedule of link flaps for traffic that begins at `at`.
    pub fn flaps(&self, at: Time) -> Flaps {
        let mut f = Flaps::default();
        self.flaps.iter().for_each(|flap| f.add(at + flap.after, *flap));
        f
    }
}

fn patience(watchdog: Span) -> Span {
    Span::from_ps(watchdog.ps().saturating_mul(100_000)).min(Span::from_ms(600_000))
}

/// A change of the link: its time, `true` for up, its flap's number, and `after` and `lasts`
/// of a repeated flap.
type Due = (Time, bool, u64, Option<(Span, Span)>);

/// The schedule of a link's flaps.
#[derive(Clone, Debug, Default)]
pub struct Flaps {
    due: BTreeSet<Due>,
    /// Number of flaps that were ever due, which keeps those of one time apart.
    added: u64,
    /// Number of overlapping flaps now.
    down: u32,
    /// Number of times that the link went down.
    pub times: u64,
}

impl Flaps {
    fn add(&mut self, at: Time, f: Flap) {
        self.due.insert((at, false, self.added, f.again.then_some((f.after, f.lasts))));
        self.due.insert((at + f.lasts, true, self.added, None));
        self.added += 1;
    }

    /// Returns the time of the next change, or [`Time::NEVER`].
    pub fn next(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |f| f.0)
    }

    /// Makes the changes due at `at`. Returns the link's new state (`true` for up) if it differs.
    pub fn step(&mut self, at: Time) -> Option<bool> {
        let was = self.down > 0;
        while let Some((t, up, _, again)) = self.due.first().copied().filter(|f| f.0 <= at) {
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

    /// Returns whether the link is down.
    pub fn is_down(&self) -> bool {
        self.down > 0
    }

    /// Cancels all further flaps. Returns whether the link was down and has to come up.
    pub fn end(&mut self) -> bool {
        self.due.clear();
        core::mem::take(&mut self.down) > 0
    }
}

/// Counters of the alarms that watchdogs raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WatchdogEvents {
    /// Queues that hung.
    pub timeouts: u64,
    /// Reports of failed accesses to a driver.
    pub io_errors: u64,
}

impl WatchdogEvents {
    /// Adds the counters of `other`.
    pub fn add(&mut self, other: WatchdogEvents) {
        self.timeouts += other.timeouts;
        self.io_errors += other.io_errors;
    }
}

/// The watchdog of one queue.
#[derive(Clone, Copy, Debug)]
pub struct Watchdog {
    limit: Span,
    /// Time of the next check.
    pub next: Time,
    /// Time at which the queue last took a packet.
    pub sent: Time,
    failed: u64,
    /// Alarms raised so far.
    pub alarms: WatchdogEvents,
}

impl Watchdog {
    /// Creates a watchdog that starts at `at`.
    pub fn new(limit: Span, at: Time) -> Watchdog {
        let mut w =
            Watchdog { limit, next: at, sent: at, failed: 0, alarms: WatchdogEvents::default() };
        w.wait();
        w
    }

    fn wait(&mut self) {
        self.next += Span::from_ps((self.limit.ps() / 2).max(1));
    }

    /// Checks the queue at `now`, given its state and the number of failed accesses so far.
    /// Returns the alarm for the driver.
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
            // The driver has the same time to recover.
            self.sent = now;
            return Alarm::TxTimeout;
        }
        Alarm::Tick
    }
}

/// The faults of an open-loop run, in which the device has its own wire.
#[derive(Debug)]
pub struct FaultSchedule<B, D> {
    /// Changes of the link.
    pub flaps: Flaps,
    /// Reports the state of the link to the device.
    pub tell: fn(&mut D, &mut B, Time, bool),
    /// Time limit of the watchdog.
    pub limit: Span,
}

impl<B: Bus, D: Device<B>> FaultSchedule<B, D> {
    /// Starts the faults of `plan`. Returns `None` if it has none. `tell` reports the link's state
    /// to the device.
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

    /// Returns [`Plan::patience`] of its plan.
    pub fn patience(&self) -> Span {
        patience(self.limit)
    }

    /// Runs the device to the next change of the link and makes it.
    pub fn flap(&mut self, m: &mut Machine<B, D>) {
        let at = self.flaps.next();
        m.run_device(at);
        if let Some(up) = self.flaps.step(at) {
            m.outside(|d, b, _| (self.tell)(d, b, at, up));
        }
    }

    /// Cancels all further flaps and brings the link up.
    pub fn mend(&mut self, m: &mut Machine<B, D>) {
        if self.flaps.end() {
            m.outside(|d, b, at| (self.tell)(d, b, at, true));
        }
    }

    /// Stops all faults. Returns a report.
    pub fn end(self, m: &mut Machine<B, D>, alarms: WatchdogEvents) -> Report {
        Report { struck: end(&mut m.bus), flaps: self.flaps.times, cut: 0, alarms }
    }
}

/// Stops the injection on all platforms. Returns the sum of their counters.
pub fn end<B: Bus>(bus: &mut B) -> FaultCounts {
    bus.platforms().map(doorbell_bus::Platform::end_faults).fold(FaultCounts::default(), |a, b| {
        FaultCounts {
            interrupts: a.interrupts + b.interrupts,
            late: a.late + b.late,
            poisoned: a.poisoned + b.poisoned,
            dma: a.dma + b.dma,
        }
    })
}

/// Returns the number of failed accesses so far, as a platform's error handler sees them.
pub fn failed<B: Bus>(bus: &mut B) -> u64 {
    bus.platforms().map(|p| p.struck().dma).sum()
}

/// The faults of a run and the alarms they raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Faults between device and host.
    pub struck: FaultCounts,
    /// Number of times that the link went down.
    pub flaps: u64,
    /// Frames lost on a link that was down: in flight when it failed, or sent before it came up.
    pub cut: u64,
    /// Alarms that watchdogs raised.
    pub alarms: WatchdogEvents,
}

#[cfg(test)]
mod tests;
