//! One run of a system: snapshots, the measured window, and their statistics.
//!
//! A system builds a machine, opens its driver and counts its load ([`Probe`]). This module runs
//! the load, first for its warm-up and then for the measured time. [`Counts`] are read at both ends
//! of that time, and their difference is that of [`RunStats`]. Loads that end by themselves are
//! driven by [`super::open_loop`], with the same counts and statistics.

use crate::audit::fault_counts;
use crate::metrics::{self, DEVICE, DRIVER};
use crate::result::{
    Cost, Count, CountsOf, Errors, Group, Measured, Rate, RegisterRow, Series, Verdict,
};
use crate::system::LONGEST;
use crate::window::{MOST, Marks, Window, edges};
use crate::{SettingError, host};
use doorbell_bus::log::{Accesses, Log};
use doorbell_bus::machine::Done;
use doorbell_bus::{
    Bus, Ledger, Machine, Platform, ProtectionGranularity, RulesError, keep_every_other,
};
use doorbell_drivers::{Driver, OpenError};
use doorbell_hal::{Device, Host, OutOfMemory, Reg, Span, Time, WorkKind};
use doorbell_sim::fault::{self, Plan, Report, WatchdogEvents};
use doorbell_sim::link::{Peer, Tell, Wired, on_wire};
use doorbell_sim::napi::{Cpu, End, Endpoint, Interrupt, NapiContext, Rules, Stuck, run};
use doorbell_sim::{Watch, histogram::Histogram, standstill::Cause, watch};
use std::fmt;
use thiserror::Error;

/// Numbers over time with their names.
pub(crate) type Points = Vec<(&'static str, f64)>;

/// Counters with their names.
pub type Entries = Vec<(&'static str, u64)>;

/// Counters of drivers, those of devices, and hypervisor calls made.
pub type Counted = [Entries; 3];

/// Times, units and cost of drivers' work, by kind.
pub type WorkTotals = Vec<(WorkKind, Done, Span)>;

/// A run without a result.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum RunError {
    /// The settings do not go together, or do not fit the machine.
    #[error(transparent)]
    Input(#[from] SettingError),
    /// The machine's memory or translation table is too small.
    #[error("the machine's memory, or its translation table, does not hold it")]
    OutOfMemory,
    /// This system refuses the memory of the simulated machine.
    #[error(
        "this system refuses {} MiB for the memory of the simulated machine: take a smaller one, \
         fewer runs at once, or a higher limit (`ulimit -v`)",
        bytes.div_ceil(1 << 20)
    )]
    Refused {
        /// The bytes of the machine's memory, without its guard.
        bytes: usize,
    },
    /// The driver rejects a setting.
    #[error("the driver does not take this: {0}")]
    Setting(&'static str),
    /// The device did not answer as the driver expects.
    #[error("the device could not be opened: {0}")]
    Device(OpenError),
    /// A core waits for an interrupt and nothing is under way.
    #[error(transparent)]
    Core(#[from] doorbell_sim::scheduler::Stuck),
    /// Nothing is under way, or an interrupt line is high that nobody serves.
    #[error("{0}{1}")]
    Stuck(Stuck, Cause),
    /// The receiver of the captured frames failed.
    #[error("{0}")]
    Capture(String),
    /// The load did not come to its end.
    #[error("it does not keep up with its load: {0}")]
    Overloaded(String),
    /// The audit failed.
    #[error("{0}")]
    Audit(String),
    /// The watcher ended the run.
    #[error("stopped")]
    Stopped,
}

/// The sentence, which a program shows that returns the error from `main`.
impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The outcome of a run, or of a part of it.
pub type Result<T, E = RunError> = std::result::Result<T, E>;

/// Returns a platform with `bytes` of memory at `base`.
///
/// # Errors
/// [`RunError::Refused`].
pub(super) fn platform(base: u64, bytes: usize, guard: ProtectionGranularity) -> Result<Platform> {
    Platform::try_new(base, bytes, guard).map_err(|_| RunError::Refused { bytes })
}

impl RunError {
    /// Returns whether the user can correct it by other settings.
    pub fn is_input(&self) -> bool {
        use RunError::{Device, Input, OutOfMemory, Refused, Setting};
        matches!(self, Input(_) | OutOfMemory | Refused { .. } | Setting(_) | Device(_))
    }
}

impl From<RulesError> for RunError {
    fn from(e: RulesError) -> RunError {
        RunError::Input(host::refused(e))
    }
}

impl From<OutOfMemory> for RunError {
    fn from(_: OutOfMemory) -> RunError {
        RunError::OutOfMemory
    }
}

impl From<OpenError> for RunError {
    fn from(e: OpenError) -> RunError {
        match e {
            OpenError::OutOfMemory => RunError::OutOfMemory,
            OpenError::Setting(what) => RunError::Setting(what),
            e => RunError::Device(e),
        }
    }
}

/// The accesses to a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Register {
    /// The register.
    pub reg: Reg,
    /// Its name in the manual, if the device knows it.
    pub name: Option<&'static str>,
    /// The accesses.
    pub accesses: Accesses,
}

impl Register {
    /// Returns the accesses since those of `before`.
    fn since(&self, before: &[Register]) -> Register {
        let same = before.iter().find(|r| r.reg == self.reg);
        let since = same.map_or(self.accesses, |r| self.accesses.since(r.accesses));
        Register { accesses: since, ..*self }
    }
}

/// Returns the accesses by register so far. Without a log there are none.
fn registers<B: Bus, D: Device<B>>(m: &Machine<B, D>) -> Vec<Register> {
    let log = m.bus.platform().log().into_iter().flat_map(Log::registers);
    let named = |(reg, accesses)| Register { reg, name: m.device.register_name(reg), accesses };
    log.map(named).collect()
}

/// Returns the state of the machine for the case that the audit fails. Without a log there is none.
pub(crate) fn evidence<B: Bus, D: Device<B>>(m: &mut Machine<B, D>) -> Vec<String> {
    match m.bus.platform().log() {
        None => Vec::new(),
        Some(_) => Cause::of(m, None).lines().map(str::to_owned).collect(),
    }
}

/// Counts over a time, or of a machine so far.
#[derive(Clone, PartialEq, Debug)]
pub struct Counts {
    /// Packets sent or received, or transactions, as the load counts them.
    pub packets: u64,
    /// The time they took.
    pub elapsed: Span,
    /// The time that the device was run for, in which buses and wires carried what is counted. A
    /// core's step runs it beyond the end of `elapsed`: a register read that waits for a late write
    /// by milliseconds.
    pub ran: Span,
    /// The time in which each direction of the bus carries what is counted, which is booked ahead.
    pub bus_time: [Span; 2],
    /// Payload bytes; 0 where the load has none.
    pub payload: u64,
    /// Bytes on the wire, from the machine and to it, with preamble, FCS and gap.
    pub wire: (u64, u64),
    /// Crossings.
    pub ledger: Ledger,
    /// Accesses of the CPU by register, if they are logged.
    pub registers: Vec<Register>,
    /// The drivers' work.
    pub work: WorkTotals,
    /// Time that cores waited for register accesses, fences and mappings.
    pub stalled: Span,
    /// Time that cores waited for memory, where there is a last-level cache.
    pub missed: Option<Span>,
    /// Time that each core was busy.
    pub busy: Vec<Span>,
    /// The time of all cores, busy or not, added up.
    pub core_time: Span,
    /// Interrupts taken, by line.
    pub interrupts: Vec<u64>,
    /// Polls made.
    pub polls: u64,
    /// Counters of driver and device, and calls.
    pub counters: Counted,
    /// Times that the load went from one phase to another.
    pub phases: u64,
    /// Share of the bus in use: of one direction after the other, where it has two.
    pub bus_share: Vec<f64>,
}

impl Counts {
    /// Reads a machine whose device sends to the wire by itself.
    pub(crate) fn of<B: Bus, D: Device<B>>(m: &Machine<B, D>) -> Counts {
        let work: WorkTotals = WorkKind::ALL.map(|k| (k, m.done(k), m.spent(k))).into();
        let ledger = m.bus.ledger();
        Counts {
            packets: ledger.wire_frames,
            elapsed: m.now().since(Time::ZERO),
            ran: m.now().since(Time::ZERO),
            bus_time: m.bus.booked_after(m.now()).map(|ahead| m.now().since(Time::ZERO) + ahead),
            payload: 0,
            wire: (on_wire((ledger.wire_frames, ledger.wire_bytes)), 0),
            core_time: m.time_of_cores(),
            busy: vec![m.worked()],
            missed: m.bus.platform().cache().map(|_| m.missed()),
            interrupts: vec![m.done(WorkKind::Interrupt).times],
            polls: m.done(WorkKind::Poll).times,
            stalled: m.stalled(),
            registers: registers(m),
            ledger,
            work,
            counters: Default::default(),
            phases: 0,
            bus_share: Vec::new(),
        }
    }

    /// Returns what was counted since `before`.
    pub(crate) fn since(&self, before: &Counts) -> Counts {
        let (a, b) = (before, self);
        let work = |(a, b): (&(WorkKind, Done, Span), &(WorkKind, Done, Span))| {
            let done = Done { times: b.1.times - a.1.times, units: b.1.units - a.1.units };
            (b.0, done, b.2 - a.2)
        };
        let entries = |i: usize| {
            let both = a.counters[i].iter().zip(&b.counters[i]);
            both.map(|(a, b)| (b.0, b.1.saturating_sub(a.1))).collect()
        };
        Counts {
            packets: b.packets - a.packets,
            elapsed: b.elapsed - a.elapsed,
            ran: b.ran - a.ran,
            bus_time: [0, 1].map(|i| b.bus_time[i] - a.bus_time[i]),
            payload: b.payload - a.payload,
            // A frame that is held back arrives again.
            wire: (b.wire.0.saturating_sub(a.wire.0), b.wire.1.saturating_sub(a.wire.1)),
            core_time: b.core_time - a.core_time,
            ledger: b.ledger.since(&a.ledger),
            registers: b.registers.iter().map(|r| r.since(&a.registers)).collect(),
            work: a.work.iter().zip(&b.work).map(work).collect(),
            stalled: b.stalled - a.stalled,
            missed: a.missed.zip(b.missed).map(|(a, b)| b - a),
            busy: a.busy.iter().zip(&b.busy).map(|(a, b)| *b - *a).collect(),
            interrupts: a.interrupts.iter().zip(&b.interrupts).map(|(a, b)| b - a).collect(),
            polls: b.polls - a.polls,
            counters: [entries(0), entries(1), entries(2)],
            phases: b.phases - a.phases,
            bus_share: Vec::new(),
        }
    }

    /// Returns the time in seconds, never 0.
    pub fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64().max(1e-12)
    }

    /// Returns `n` divided by the time in seconds.
    pub fn by_time(&self, n: f64) -> f64 {
        n / self.seconds()
    }

    /// Returns the packets a second.
    pub fn rate(&self) -> f64 {
        self.by_time(self.packets as f64)
    }

    /// Returns the busy time of core `i` as a share of the time; 0 if there is no such core.
    pub fn busy_share(&self, i: usize) -> f64 {
        self.busy.get(i).map_or(0.0, |b| self.by_time(b.as_secs_f64()))
    }

    /// Returns the busy time of all cores as a share of their time.
    pub fn all_busy_share(&self) -> f64 {
        let busy = self.busy.iter().fold(Span::ZERO, |sum, b| sum + *b);
        busy.as_secs_f64() / self.core_time.as_secs_f64().max(1e-12)
    }

    /// Returns a counter by its name: of the drivers (0), of the devices (1), or a call (2).
    pub fn counter(&self, of: usize, name: &str) -> u64 {
        self.counters[of].iter().find(|c| c.0 == name).map_or(0, |c| c.1)
    }

    /// Returns every count in the order of a result: of the ledger, of drivers, of devices, then
    /// the calls.
    pub(crate) fn values(&self) -> impl Iterator<Item = u64> {
        let ledger = self.ledger.counters().map(|(_, value)| value);
        ledger.chain(self.counters.iter().flatten().map(|(_, value)| *value))
    }

    /// Returns the rates of the wire in both directions.
    pub fn wire_rates(&self) -> Vec<Rate> {
        let seconds = self.ran.as_secs_f64().max(1e-12);
        let rate = |n: u64| 8.0 * n as f64 / seconds;
        let (out, back) = self.wire;
        vec![metrics::WIRE_OUT.is(rate(out)), metrics::WIRE_IN.is(rate(back))]
    }

    /// Returns the share of received frames that found no room in the device.
    pub(crate) fn lost_share(&self) -> Rate {
        let [lost, kept] = ["rx_missed", "rx_packets"].map(|name| self.counter(1, name));
        metrics::LOST_SHARE.is(lost as f64 / (lost + kept).max(1) as f64)
    }

    /// Returns the rates of interrupts and polls, over a time in seconds.
    pub fn event_rates(&self, seconds: f64) -> Vec<Rate> {
        let interrupts = self.interrupts.iter().sum::<u64>();
        vec![
            metrics::INTERRUPTS.is(interrupts as f64 / seconds),
            metrics::POLLS.is(self.polls as f64 / seconds),
        ]
    }
}

/// A part of the time that is measured.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The counts of this part.
    pub counts: Counts,
    /// The latencies of it, if they are kept.
    pub latency: Histogram,
}

/// Looks at a run at marks of the time that is measured, so many that they make batches. In a long
/// run every other look is dropped each time that they are too many.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// Counts so far, each with the latencies since the look before.
    pub(crate) all: Vec<(Counts, Histogram)>,
    /// The rate when it was last asked whether the rates stand, if it did but for that question.
    stood: Option<f64>,
}

impl Looks {
    /// The number of looks at which every other is dropped.
    const MOST: usize = 128;
    /// Numbers of looks at which to ask whether the rates stand: a third to a half apart.
    const ASKED: [usize; 6] = [16, 24, 32, 48, 64, 96];

    /// Adds a look, with the latencies since the last one.
    pub(crate) fn push(&mut self, counts: Counts, latency: Histogram) {
        self.all.push((counts, latency));
    }

    /// Drops every other look if they are too many. Returns whether they were.
    pub(crate) fn thin(&mut self) -> bool {
        let many = self.all.len() == Looks::MOST;
        if many {
            for pair in self.all.chunks_exact_mut(2) {
                let dropped = std::mem::take(&mut pair[0].1);
                pair[1].1.add(&dropped);
            }
            keep_every_other(&mut self.all);
        }
        many
    }

    /// Returns whether to ask now whether the rates stand.
    pub(crate) fn ask(&self) -> bool {
        Looks::ASKED.contains(&self.all.len())
    }

    /// Returns whether the rate of a window, which may have these looks, has an error below `until`
    /// and is within that of the rate when it was asked before. A change that is slower than the
    /// window has no part in its error.
    pub(crate) fn stand(&mut self, window: Option<&Window>, until: f64) -> bool {
        let steady = window.filter(|w| w.is_steady() && w.error.is_some_and(|e| e <= until));
        let rate = steady.map(|w| w.rate());
        let before = std::mem::replace(&mut self.stood, rate);
        rate.zip(before).is_some_and(|(now, before)| (now / before - 1.0).abs() <= until)
    }

    /// Gives a window its error by these looks: `phases` are the load's.
    pub(crate) fn batched(&self, window: &mut Window, phases: u64) {
        let batches: Vec<Counts> = self.batches().into_iter().map(|b| b.counts).collect();
        if !batches.is_empty() {
            window.batched(&batches, phases);
        }
    }

    /// Returns 10 to 20 batches, or none if there are too few looks.
    pub(crate) fn batches(&self) -> Vec<Batch> {
        let Some(edges) = edges(self.all.len()) else { return Vec::new() };
        let edges: Vec<usize> = edges.collect();
        let batch = |ends: &[usize]| {
            let mut latency = Histogram::default();
            self.all[ends[0] + 1..=ends[1]].iter().for_each(|(_, h)| latency.add(h));
            Batch { counts: self.all[ends[1]].0.since(&self.all[ends[0]].0), latency }
        };
        edges.windows(2).map(batch).collect()
    }
}

/// All that is taken down of a run of a given duration.
struct Taken {
    begin: Time,
    /// There was a warm-up.
    warm: bool,
    /// The error with which the run may end.
    until: Option<f64>,
    series: Vec<Series>,
    /// The latencies of the measured time.
    latency: Histogram,
    /// The packets at the end of each slice of it.
    marks: Marks,
    looks: Looks,
    /// Slices from a look to the next, and those before the first.
    each: u64,
    first: u64,
}

impl Taken {
    /// Takes down a run that began at `begin` and is measured for so many slices.
    fn new(begin: Time, warm: bool, slices: u64, until: Option<f64>) -> Taken {
        let each = if until.is_some() { 1 } else { slices.div_ceil(MOST as u64).max(1) };
        Taken {
            begin,
            warm,
            until,
            series: Vec::new(),
            latency: Histogram::default(),
            marks: Marks::new(),
            looks: Looks::default(),
            each,
            first: slices % each,
        }
    }

    /// Adds the numbers of a slice that ended at `at`.
    fn sample(&mut self, at: Time, points: Points) {
        if self.series.is_empty() {
            let named = |p: &(&'static str, f64)| Series { name: p.0, points: Vec::new() };
            self.series = points.iter().map(named).collect();
        }
        let ms = at.since(self.begin).ps() as f64 / 1e9;
        let all = self.series.iter_mut().zip(points);
        all.for_each(|(s, (_, value))| s.points.push((ms, value)));
    }

    /// Adds the packets at the start or at the end of a slice. Returns whether to look there.
    fn mark(&mut self, at: Time, packets: u64) -> bool {
        self.marks.push((at, packets));
        (self.marks.len() as u64 - 1) % self.each == self.first
    }

    /// Adds the latencies since the last call, if they are of the measured time, and a look.
    fn look(&mut self, counts: Option<&Counts>, latency: Histogram, measured: bool) {
        if measured {
            self.latency.add(&latency);
        }
        let Some(counts) = counts else { return };
        self.looks.push(counts.clone(), latency);
        if self.looks.thin() {
            self.each *= 2;
            self.first = self.each - 1;
        }
    }

    /// Returns whether the packet rate stands: `phases` are the load's so far.
    fn stands(&mut self, phases: u64) -> bool {
        let Some(until) = self.until.filter(|_| self.looks.ask()) else { return false };
        let mut window = self.window();
        self.looks.batched(&mut window, phases);
        self.looks.stand(Some(&window), until)
    }

    fn window(&self) -> Window {
        Window::given(self.begin, &self.marks, self.warm)
    }
}

/// Statistics of a run. `T` are totals of the whole run that only its system knows.
#[derive(Clone, Debug)]
pub struct RunStats<T = ()> {
    /// The counts that costs and quotients by packet are taken from.
    pub counts: Counts,
    /// The time over which rates are taken.
    pub window: Window,
    /// The counts of that time.
    pub steady: Counts,
    /// The parts of that time that errors come from; none in a run that is too short.
    pub batches: Vec<Batch>,
    /// Latency of packets or transactions.
    pub latency: Histogram,
    /// Numbers that change over the run.
    pub series: Vec<Series>,
    /// Injected faults, if the plan has any.
    pub faults: Option<Report>,
    /// The outcome, with its evidence.
    pub verdict: Verdict,
    /// The system's own totals.
    pub totals: T,
}

impl RunStats {
    /// Makes statistics of these counts, with nothing else in them.
    pub(crate) fn new(window: Window, steady: Counts, counts: Counts) -> RunStats {
        RunStats {
            counts,
            window,
            steady,
            batches: Vec::new(),
            latency: Histogram::default(),
            series: Vec::new(),
            faults: None,
            verdict: Verdict::default(),
            totals: (),
        }
    }
}

impl<T> RunStats<T> {
    /// Adds the system's totals.
    pub(crate) fn with<U>(self, totals: U) -> RunStats<U> {
        let RunStats { counts, window, steady, batches, latency, series, faults, verdict, .. } =
            self;
        RunStats { counts, window, steady, batches, latency, series, faults, verdict, totals }
    }

    /// Sets the share of the bus in use, and checks that no direction carried more than it can.
    /// `used` are the counts of each direction in `unit`, of two directions by turns; `slack` are
    /// those of a transfer that a core has booked late.
    pub(crate) fn use_of_bus(
        &mut self,
        unit: &str,
        slack: u64,
        capacity: impl Fn(Span) -> u64,
        used: impl Fn(&Ledger) -> Vec<u64>,
    ) {
        for c in self.parts_mut() {
            let capacity = c.bus_time.map(&capacity);
            let share = |(i, n): (usize, u64)| {
                let capacity = capacity[i % 2];
                // Of a full bus, what was booked late counts for the time behind.
                let n = if n <= capacity + slack { n.min(capacity) } else { n };
                n as f64 / capacity as f64
            };
            c.bus_share = used(&c.ledger).into_iter().enumerate().map(share).collect();
        }
        let most = self.counts.bus_time.map(&capacity);
        for (i, n) in used(&self.counts.ledger).into_iter().enumerate() {
            let most = most[i % 2];
            if n > most + slack {
                self.verdict.audit.push(format!("bus: {n} {unit} in a time that has {most}"));
            }
        }
    }

    /// Returns the counts of the window, and of the batches in it.
    pub(crate) fn parts_mut(&mut self) -> impl Iterator<Item = &mut Counts> {
        let batches = self.batches.iter_mut().map(|b| &mut b.counts);
        std::iter::once(&mut self.steady).chain(batches)
    }

    /// Returns the run under the names of results, at a clock of `ghz`. `rates` computes them from
    /// the counts of a time and the packets a second in it.
    pub(crate) fn measured(
        mut self,
        rates: impl Fn(&Counts, f64) -> Vec<Rate>,
        counts_of: CountsOf,
        latency_of: &'static str,
        ghz: f64,
    ) -> Measured {
        let errors = self.errors(&rates, counts_of, ghz);
        // One that is not finished has told of it.
        if self.verdict.audit.is_empty() || !self.verdict.unfinished.is_empty() {
            self.verdict.evidence.clear();
        }
        let rates = rates(&self.steady, self.window.rate());
        let of = self.counts;
        let costs = Cost::of(&of, ghz);
        let registers = RegisterRow::of(&of.registers, of.stalled);
        let [driver, device, calls] = of.counters;
        let mut counts = Count::of_ledger(&of.ledger);
        counts.extend(Count::of(Group::Driver, DRIVER.prefix, driver.into_iter()));
        counts.extend(Count::of(Group::Device, DEVICE.prefix, device.into_iter()));
        counts.extend(Count::of(Group::Bus, "", calls.into_iter()));
        counts.extend(self.faults.iter().flat_map(fault_counts));
        Measured {
            packets: of.packets,
            elapsed: of.elapsed,
            window: self.window,
            counts_of,
            rates,
            counts,
            costs,
            registers,
            series: self.series,
            latency: self.latency,
            latency_of,
            errors,
            sent: None,
            verdict: Verdict { faults: self.faults.is_some(), ..self.verdict },
        }
    }

    /// Returns the errors of all numbers, and sets that of the window.
    fn errors(
        &mut self,
        rates: impl Fn(&Counts, f64) -> Vec<Rate>,
        counts_of: CountsOf,
        ghz: f64,
    ) -> Errors {
        let (batches, latencies): (Vec<Counts>, Vec<Histogram>) =
            std::mem::take(&mut self.batches).into_iter().map(|b| (b.counts, b.latency)).unzip();
        let whole = rates(&self.steady, self.window.rate());
        if !batches.is_empty() && !self.window.batched(&batches, self.steady.phases) {
            return Errors::none(counts_of);
        }
        let mut errors = Errors::none(counts_of);
        errors.of_rates(&self.window, &whole, &batches, rates);
        if counts_of == CountsOf::Window {
            errors.of_counts(&batches, |c| Cost::of(c, ghz));
        }
        errors.of_latencies(&self.latency, &latencies);
        errors
    }
}

/// A load's own counts, for an [`Experiment`]: `M` is the machine, `S` a station.
pub(crate) trait Probe<M, S> {
    /// Returns packets and payload bytes so far.
    fn done(&self, m: &M, stations: &[S]) -> (u64, u64);
    /// Returns the counters of drivers and devices, and the calls made.
    fn counters(&self, m: &M, stations: &[S]) -> Counted;
    /// Acts after a slice that ended at `at`.
    fn sliced(&mut self, _at: Time, _m: &mut M, _stations: &mut [S]) {}
    /// Returns the numbers of a slice, given its packets and interrupts a second.
    fn series(&mut self, rates: [f64; 2], _m: &M, _: &mut [S]) -> Points {
        vec![("packets_per_s", rates[0]), ("interrupts_per_s", rates[1])]
    }
    /// Takes the latencies since the last call out of the load: those of the warm-up, then those of
    /// the measured time.
    fn take_latency(&mut self, _m: &mut M, _stations: &mut [S]) -> Histogram {
        Histogram::default()
    }
    /// Returns how often the load went from one phase to another so far.
    fn phases(&self, _m: &M) -> u64 {
        0
    }
    /// Acts when a snapshot has been taken.
    fn snapped(&mut self, _m: &mut M, _stations: &mut [S]) {}
}

/// An open driver on a link, or a queue of one, before there is a load above it.
#[derive(Debug)]
pub(crate) struct OpenQueue<Dr> {
    pub(crate) driver: Dr,
    pub(crate) lines: Vec<Interrupt>,
    /// The core that takes its interrupts, and that of the applications.
    pub(crate) cores: [usize; 2],
}

impl<Dr> OpenQueue<Dr> {
    /// Puts the end of a load above it.
    pub(crate) fn under<E>(self, endpoint: E) -> NapiContext<Dr, E> {
        let [interrupts, applications] = self.cores;
        NapiContext::new(self.driver, endpoint, self.lines, interrupts, applications)
    }
}

/// The longest time between two looks at a run.
pub(crate) const SLICE: Span = Span::from_ms(1);

/// A machine on a link with its stations, under a load of a given duration.
pub(crate) struct Experiment<'a, B, D, Pr, Dr, E> {
    pub(crate) m: &'a mut Machine<B, Wired<D, Pr>>,
    pub(crate) stations: Vec<NapiContext<Dr, E>>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) rules: Rules,
    /// The load goes on although nothing is under way: its peer decides when it ends.
    pub(crate) may_idle: bool,
    /// The longest time between two looks.
    pub(crate) slice: Span,
    pub(crate) faults: &'a Plan,
    pub(crate) watch: &'a mut dyn Watch,
}

impl<'a, B, D, Pr, Dr, E> Experiment<'a, B, D, Pr, Dr, E>
where
    B: Bus,
    Pr: Peer,
    Wired<D, Pr>: Device<B>,
    Dr: Driver<Machine<B, Wired<D, Pr>>>,
    E: Endpoint<Machine<B, Wired<D, Pr>>>,
{
    /// Makes an experiment on `cores` idle cores.
    pub(crate) fn new(
        m: &'a mut Machine<B, Wired<D, Pr>>,
        stations: Vec<NapiContext<Dr, E>>,
        cores: usize,
        rules: Rules,
        faults: &'a Plan,
        watch: &'a mut dyn Watch,
    ) -> Experiment<'a, B, D, Pr, Dr, E> {
        let cpus = (0..cores).map(|_| Cpu::default()).collect();
        Experiment { m, stations, cpus, rules, may_idle: false, slice: SLICE, faults, watch }
    }

    /// Looks so often in a measured time of `duration` that its parts have an error.
    pub(crate) fn slice_within(&mut self, duration: Span) {
        self.slice = self.slice.min(Span::from_ps(duration.ps().div_ceil(MOST as u64)));
    }

    /// Starts faults, trace and capture. `tell` tells the device that its link goes up or down.
    pub(crate) fn begin(&mut self, tell: Tell<D>) {
        self.m.device.capture = self.watch.wants_frames().then(Vec::new);
        watch::begin_linked(self.m, self.watch);
        let faults = self.faults;
        if !faults.is_empty() {
            faults.begin(&mut self.m.bus, Vec::new());
            self.m.outside(|linked, _, at| linked.flap(faults, at, tell));
        }
    }

    pub(crate) fn slice(&mut self, until: Time) -> Result<End> {
        let end = match run(self.m, &mut self.cpus, &mut self.stations, &self.rules, until) {
            Err(Stuck::Nothing(_)) if self.may_idle => End::Time,
            Err(stuck) => {
                // The trace shows the events that led to it.
                watch::end_linked(self.m, self.watch);
                return Err(RunError::Stuck(stuck, Cause::of(self.m, None)));
            }
            Ok(end) => end,
        };
        self.hand_over_frames()?;
        Ok(end)
    }

    fn hand_over_frames(&mut self) -> Result<()> {
        let (m, watch) = (&mut *self.m, &mut *self.watch);
        m.device.drain_capture(|at, f| watch.frame(at, f)).map_err(RunError::Capture)
    }

    /// Runs what is on its way to the wire until `until`, without the CPU.
    pub(crate) fn settle(&mut self, until: Time) -> Result<()> {
        while self.m.next_event() <= until {
            self.m.run_device(self.m.next_event());
        }
        self.hand_over_frames()
    }

    /// Returns the counts so far, of a slice that ended at `at`.
    pub(crate) fn snapshot(
        &self,
        at: Time,
        probe: &impl Probe<Machine<B, Wired<D, Pr>>, NapiContext<Dr, E>>,
    ) -> Counts {
        let (packets, payload) = probe.done(self.m, &self.stations);
        let device = &self.m.device;
        let (time, ran) = (at.since(Time::ZERO), device.now().max(at));
        Counts {
            packets,
            elapsed: time,
            ran: ran.since(Time::ZERO),
            bus_time: self.m.bus.booked_after(ran).map(|ahead| ran.since(Time::ZERO) + ahead),
            payload,
            wire: (device.out.borrow().carried(ran), device.back.carried(ran)),
            core_time: time * self.cpus.len() as u64,
            busy: self.cpus.iter().map(|c| c.busy_until(at)).collect(),
            interrupts: self.stations.iter().flat_map(|s| s.taken.iter().copied()).collect(),
            polls: self.stations.iter().map(|s| s.polls).sum(),
            counters: probe.counters(self.m, &self.stations),
            phases: probe.phases(self.m),
            ..Counts::of(self.m)
        }
    }

    /// Returns whether at `at`, to which it was run, a core has work, or the device or a wire.
    pub(crate) fn is_under_way(&self, at: Time) -> bool {
        self.cpus.iter().any(|c| c.is_busy(at)) || self.m.next_event() < Time::NEVER
    }

    /// Returns the packets and the interrupts so far.
    fn so_far(&self, probe: &impl Probe<Machine<B, Wired<D, Pr>>, NapiContext<Dr, E>>) -> [u64; 2] {
        let interrupts = self.stations.iter().flat_map(|s| &s.taken).sum();
        [probe.done(self.m, &self.stations).0, interrupts]
    }

    /// Runs the warm-up from `begin` on, then the time that is measured. Returns the statistics of
    /// the latter, and the time at which it ended.
    pub(crate) fn measure(
        &mut self,
        begin: Time,
        (warmup, duration): (Span, Span),
        probe: &mut impl Probe<Machine<B, Wired<D, Pr>>, NapiContext<Dr, E>>,
    ) -> Result<(RunStats, Time)> {
        let ends = [begin + warmup, begin + warmup + duration];
        let until = self.watch.until();
        if until.is_some() {
            self.slice_within(Span::from_ps(duration.ps() / LONGEST));
        }
        let slices = duration.ps().div_ceil(self.slice.ps());
        let mut taken = Taken::new(begin, warmup > Span::ZERO, slices, until);
        let mut snapshots: Vec<Counts> = Vec::with_capacity(2);
        let (mut at, mut last) = (begin, self.so_far(probe));
        while snapshots.len() < 2 {
            let goal = ends[snapshots.len()];
            let from = at;
            at = goal.min(at + self.slice);
            self.slice(at)?;
            probe.sliced(at, self.m, &mut self.stations);
            if !self.watch.progress(at.since(begin).ps(), ends[1].since(begin).ps()) {
                return Err(RunError::Stopped);
            }
            let now = self.so_far(probe);
            let before = std::mem::replace(&mut last, now);
            // Without a warm-up the first slice has no time.
            if at > from {
                let seconds = at.since(from).as_secs_f64();
                let rates = [0, 1].map(|i| (now[i] - before[i]) as f64 / seconds);
                taken.sample(at, probe.series(rates, self.m, &mut self.stations));
            }
            if at < goal && snapshots.is_empty() {
                continue;
            }
            let edge = taken.mark(at, now[0]);
            if at == goal || edge {
                // Steps of cores that end later count for the other side at both ends alike.
                let snapshot = self.snapshot(at, probe);
                let latency = probe.take_latency(self.m, &mut self.stations);
                taken.look(edge.then_some(&snapshot), latency, !snapshots.is_empty());
                let phases = snapshots.first().map(|start| snapshot.phases - start.phases);
                if at == goal || phases.is_some_and(|phases| taken.stands(phases)) {
                    snapshots.push(snapshot);
                    probe.snapped(self.m, &mut self.stations);
                }
            }
        }
        let counts = snapshots[1].since(&snapshots[0]);
        let o = RunStats::new(taken.window(), counts.clone(), counts);
        let Taken { looks, latency, series, .. } = taken;
        Ok((RunStats { batches: looks.batches(), latency, series, ..o }, at))
    }

    /// Ends trace and faults. Returns the injected ones, if the plan has any.
    pub(crate) fn end(&mut self) -> Option<Report> {
        watch::end_linked(self.m, self.watch);
        let mut alarms = WatchdogEvents::default();
        let watchdogs = self.stations.iter().filter_map(|s| s.watchdog.as_ref());
        watchdogs.for_each(|w| alarms.add(w.alarms));
        if self.faults.is_empty() {
            return None;
        }
        let (flaps, cut) = self.m.outside(|linked, _, at| linked.mend(at));
        Some(Report { struck: fault::end(&mut self.m.bus), flaps, cut, alarms })
    }
}
