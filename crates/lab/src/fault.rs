//! Faults that a scenario asks for (`run.fault`, `--fault`), and what the machine does about them.
//!
//! ```text
//! KIND@WHEN[:SPAN][,…]       lost-interrupt@3   late-completion@every=50:200us   dma-fault@random=1000   link-flap@2ms:1ms
//! ```
//!
//! What goes wrong between device and host strikes in [`doorbell_bus::fault`], on the machine's
//! first platform: of two partitions it is the client's. A link goes down here: the device is told,
//! and what is on the wire is cut off and counted. Faults strike from the start of the traffic
//! until it is over, so that everything is opened and closed in peace.
//!
//! **The watchdog.** A stack looks after its queues (`dev_watchdog`): one that has been stopped for
//! `run.watchdog` without a packet taken has hung, and its driver is told ([`Alarm::TxTimeout`]). A
//! driver's own periodic work runs twice as often ([`Alarm::Tick`]), and a platform that saw an
//! access fail tells the driver so ([`Alarm::IoError`]), as EEH and AER do. Without faults nobody
//! looks: a run that gets stuck says so at once.

use crate::clock::Core;
use crate::clock::link::{Tell, Wired};
use crate::input::hint;
use crate::key::{Values, convert};
use crate::result::{Count, Group};
use crate::standstill;
use doorbell_bus::fault::{FaultCounts, Faults, Kind, Rule, When};
use doorbell_bus::{Bus, Machine, Platform};
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
    rules: Vec<Rule>,
    flaps: Vec<Flap>,
    seed: u64,
    watchdog: Span,
}

/// What a kind stands for.
#[derive(Clone, Copy)]
enum Meaning {
    /// A fault of the platform.
    Platform(Kind),
    /// A fault of the platform that lasts for the span behind the colon.
    Lasting(fn(Span) -> Kind),
    /// The link goes down for the span behind the colon.
    LinkFlap,
}

/// Kinds, in the order of messages.
const KINDS: [(&str, Meaning); 5] = [
    ("lost-interrupt", Meaning::Platform(Kind::LostInterrupt)),
    ("late-completion", Meaning::Lasting(Kind::LateCompletion)),
    ("poisoned-completion", Meaning::Platform(Kind::PoisonedCompletion)),
    ("dma-fault", Meaning::Platform(Kind::DmaFault)),
    ("link-flap", Meaning::LinkFlap),
];

/// What may stand there, for messages.
pub(crate) const ALLOWED: &str = "KIND@WHEN, several with commas: lost-interrupt@N, late-completion@N:SPAN, poisoned-completion@N, \
     dma-fault@N, link-flap@TIME:SPAN; N may be every=N or random=N (one in N), TIME every=TIME";

/// A time with its unit.
fn span(text: &str) -> Option<Span> {
    let end = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ')?;
    let (number, unit) = text.split_at(end);
    let ps = convert(number.trim().parse().ok().filter(|n: &f64| *n >= 0.0)?, unit, "ps")?;
    // A day, and less than a picosecond is none.
    (ps < 8.64e16).then(|| Span::from_ps(ps.round() as u64)).filter(|s| *s > Span::ZERO)
}

/// What `text` asks for.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn parse(text: &str) -> Result<Plan, String> {
    let mut plan = Plan::default();
    for one in text.split(',').map(str::trim).filter(|t| !t.is_empty()) {
        let wrong = |why: String| Err(format!("`{one}`: {why}; allowed: {ALLOWED}"));
        let (kind, rest) = one.split_once('@').unwrap_or((one, ""));
        let Some((kind, meaning)) = KINDS.iter().find(|k| k.0 == kind).copied() else {
            return wrong(format!(
                "no fault is called `{kind}`{}",
                hint(kind, KINDS.iter().map(|k| k.0))
            ));
        };
        let (when, lasts) = match rest.split_once(':') {
            Some((when, lasts)) => (when, Some(lasts)),
            None => (rest, None),
        };
        let lasts = match (meaning, lasts) {
            (Meaning::Platform(_), Some(_)) => return wrong(format!("{kind} takes no time")),
            (Meaning::Platform(_), None) => Span::ZERO,
            (_, Some(text)) => match span(text) {
                Some(s) => s,
                None => return wrong(format!("`{text}` is no time such as 200us")),
            },
            (_, None) => {
                return wrong(format!("{kind} takes a time behind a colon, such as :200us"));
            }
        };
        let kind = match meaning {
            Meaning::Platform(kind) => Some(kind),
            Meaning::Lasting(kind) => Some(kind(lasts)),
            Meaning::LinkFlap => None,
        };
        let Some(kind) = kind else {
            let (text, again) = when.strip_prefix("every=").map_or((when, false), |t| (t, true));
            let Some(after) = span(text) else {
                return wrong(format!("`{when}` is no time such as 2ms"));
            };
            if again && after <= lasts {
                return wrong("the link would never be up".to_owned());
            }
            plan.flaps.push(Flap { after, lasts, again });
            continue;
        };
        let number = |t: &str| t.parse::<u64>().ok().filter(|n| *n > 0);
        let when = match when.split_once('=') {
            None => number(when).map(When::Nth),
            Some(("every", n)) => number(n).map(When::Every),
            Some(("random", n)) => number(n).map(When::OneIn),
            Some(_) => None,
        };
        let Some(when) = when else {
            return wrong(
                "it does not say which, counted from 1: @3, @every=3 or @random=3".to_owned(),
            );
        };
        plan.rules.push(Rule { kind, when });
    }
    Ok(plan)
}

impl Plan {
    /// What these values ask for; `watchdog` is what the driver's queues have in Linux.
    pub fn of(v: &Values, watchdog: Span) -> Plan {
        // The key has looked at it.
        let plan = parse(v.text("run.fault")).unwrap_or_default();
        if plan.is_empty() {
            return plan;
        }
        let ms =
            v.number_or_word("run.watchdog").map(|ms| Span::from_ps((ms * 1e9).round() as u64));
        Plan { seed: v.number("run.seed") as u64, watchdog: ms.unwrap_or(watchdog), ..plan }
    }

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

    /// The same, and the link goes down as the plan says; `tell` tells the device.
    pub fn begin_wired<B: Bus, D, Pr>(&self, m: &mut Machine<B, Wired<D, Pr>>, tell: Tell<D>)
    where
        Wired<D, Pr>: Device<B>,
    {
        if !self.is_empty() {
            self.begin(&mut m.bus, Vec::new());
            m.outside(|wired, _, at| wired.flap(self, at, tell));
        }
    }

    /// It is over: nothing goes wrong any more, and the link is up. What has gone wrong, if
    /// anything was to.
    pub fn end_wired<B: Bus, D, Pr>(
        &self,
        m: &mut Machine<B, Wired<D, Pr>>,
        alarms: Alarms,
    ) -> Option<Report>
    where
        Wired<D, Pr>: Device<B>,
    {
        if self.is_empty() {
            return None;
        }
        let (flaps, cut) = m.outside(|wired, _, at| wired.mend(at));
        Some(Report { struck: end(&mut m.bus), flaps, cut, alarms })
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
pub struct Alarms {
    /// Queues that had hung.
    pub timeouts: u64,
    /// Times that a driver was told of failed accesses.
    pub io_errors: u64,
}

impl Alarms {
    /// Of all cores.
    pub(crate) fn of<Dr, Tr>(cores: &[Core<Dr, Tr>]) -> Alarms {
        let mut all = Alarms::default();
        cores.iter().for_each(|c| all.add(c.alarms()));
        all
    }

    /// And another's.
    pub fn add(&mut self, other: Alarms) {
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
    pub alarms: Alarms,
}

impl Watchdog {
    /// One that begins at `at`.
    pub fn new(limit: Span, at: Time) -> Watchdog {
        let mut w = Watchdog { limit, next: at, sent: at, failed: 0, alarms: Alarms::default() };
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
pub struct Trouble<B, D> {
    pub(crate) flaps: Flaps,
    pub(crate) tell: fn(&mut D, &mut B, Time, bool),
    pub(crate) limit: Span,
}

impl<B: Bus, D: Device<B>> Trouble<B, D> {
    /// The plan's, if it has any; `tell` tells the device of its link.
    pub fn begin(
        plan: &Plan,
        m: &mut Machine<B, D>,
        spared: Vec<(Iova, u32)>,
        tell: fn(&mut D, &mut B, Time, bool),
    ) -> Option<Trouble<B, D>> {
        let limit = plan.watchdog()?;
        plan.begin(&mut m.bus, spared);
        let at = doorbell_hal::Host::now(m);
        Some(Trouble { flaps: plan.flaps(at), tell, limit })
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
    pub fn end(self, m: &mut Machine<B, D>, alarms: Alarms) -> Report {
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
    pub alarms: Alarms,
}

impl Report {
    /// Under the names of results.
    pub fn counts(&self) -> Vec<Count> {
        let s = self.struck;
        [
            ("fault_lost_interrupts", "Interrupts that were lost", s.interrupts),
            ("fault_late_completions", "Completions that came late", s.late),
            ("fault_poisoned_completions", "Completions that reported a failure", s.poisoned),
            ("fault_dma_faults", "Accesses to memory that failed", s.dma),
            ("fault_link_flaps", "Times that the link went down", self.flaps),
            ("fault_frames_cut", "Frames lost on the wire with it", self.cut),
            ("fault_tx_timeouts", "Queues that the watchdog found hung", self.alarms.timeouts),
            (
                "fault_io_errors",
                "Times that a driver was told of failed accesses",
                self.alarms.io_errors,
            ),
        ]
        .into_iter()
        .map(|(name, about, value)| Count {
            group: Group::Fault,
            name: name.to_owned(),
            about,
            value,
        })
        .collect()
    }
}

/// Holds counts of two parties against each other: alike, or, where something was to go wrong,
/// apart by what has a name.
#[derive(Debug)]
pub(crate) struct Balance {
    lossy: bool,
    /// What does not add up.
    pub(crate) wrong: Vec<String>,
}

impl Balance {
    pub(crate) fn new(faults: Option<&Report>) -> Balance {
        Balance { lossy: faults.is_some(), wrong: Vec::new() }
    }

    /// Alike, whatever went wrong.
    pub(crate) fn same(&mut self, what: &str, a: (&str, u64), b: (&str, u64)) {
        if a.1 != b.1 {
            self.wrong.push(format!("{what}: {} {}, {} {}", a.0, a.1, b.0, b.1));
        }
    }

    /// Alike; but of `a` as many as `lost` may be missing in `b`.
    pub(crate) fn less(&mut self, what: &str, a: (&str, u64), b: (&str, u64), lost: (&str, u64)) {
        if !self.lossy {
            self.same(what, a, b);
        } else if a.1 < b.1 || a.1 - b.1 > lost.1 {
            self.wrong
                .push(format!("{what}: {} {}, {} {}, {} {}", a.0, a.1, b.0, b.1, lost.0, lost.1));
        }
    }

    /// A platform on which everything has been closed and released. `struck`: accesses that were
    /// made to fail. `place` stands before each message.
    pub(crate) fn platform(&mut self, place: &str, p: &Platform, struck: u64) {
        let l = &p.ledger;
        let (readable, writable) = p.memory.mapped();
        for (what, a, b) in [
            ("mappings", ("made", l.maps), ("ended", l.unmaps)),
            ("buffers", ("taken", l.buffers_taken), ("released", l.buffers_released)),
            ("translation entries", ("live", p.live_entries().into()), ("expected", 0)),
            ("pages still lent", ("to read", readable as u64), ("expected", 0)),
            ("pages still lent", ("to write", writable as u64), ("expected", 0)),
            ("DMA", ("faults allowed", struck), ("faults", l.dma_faults)),
        ] {
            self.same(&format!("{place}{what}"), a, b);
        }
        self.wrong.extend(standstill::of_coherent(p).map(|w| format!("{place}{w}")));
    }

    /// None, unless something was to go wrong; then `most`.
    pub(crate) fn none(&mut self, what: &str, a: (&str, u64), most: u64) {
        let most = if self.lossy { most } else { 0 };
        if a.1 > most {
            self.wrong.push(format!("{what}: {} {}, allowed {most}", a.0, a.1));
        }
    }
}

/// As many as there are: a loss with a name of its own, which others count.
pub(crate) const ANY: u64 = u64::MAX;

#[cfg(test)]
mod tests;
