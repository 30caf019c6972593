//! Results: the measurements of a run, under the same names for people and programs.
//!
//! A result holds counts and virtual time only, no clock and no host name: the same plan gives the
//! same bytes. Quotients are rounded to nine digits, so that the last bits of a division do not
//! show.

use crate::audit::CrossCheck;
use crate::limits::Limits;
use crate::metrics::{MISSED_LINES, PACKETS, STALLED};
use crate::run::Register;
use crate::window::{Window, error_of};
use crate::{Counts, RunError, metrics};
use doorbell_bus::log::Accesses;
use doorbell_bus::{Ledger, ledger};
use doorbell_hal::Span;
use doorbell_sim::histogram::Histogram;
use doorbell_sim::standstill;
use doorbell_sim::traffic::Frames;
pub use doorbell_spec::number::{Number, Numbers, Rate, Sampled, Series, rounded, significant};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// The section of a table that a count belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// The bus between CPU and device.
    Bus,
    /// The CPU's other work.
    Cpu,
    /// The driver's own counters.
    Driver,
    /// The device's counters.
    Device,
    /// Frames that left.
    Wire,
    /// Injected faults and their effects.
    Fault,
}

impl Group {
    /// All groups, in the order of a table.
    pub const ALL: [Group; 6] =
        [Group::Bus, Group::Cpu, Group::Driver, Group::Device, Group::Wire, Group::Fault];
}

/// A count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Count {
    /// The section.
    pub group: Group,
    /// A unique name. Counters of drivers and devices begin with `driver_` and `device_`.
    pub name: String,
    /// The meaning; empty where the name is that of a manual.
    pub about: &'static str,
    /// The count.
    pub value: u64,
}

impl Count {
    /// Returns every count of the ledger.
    pub fn of_ledger(l: &Ledger) -> Vec<Count> {
        let group = |group| match group {
            ledger::Group::Bus => Group::Bus,
            ledger::Group::Cpu => Group::Cpu,
            ledger::Group::Wire => Group::Wire,
        };
        l.counters()
            .map(|(c, value)| Count {
                group: group(c.group),
                name: c.name.to_owned(),
                about: c.about,
                value,
            })
            .collect()
    }

    /// Returns the counters of a driver or a device, or the calls made.
    pub fn of(
        group: Group,
        prefix: &str,
        entries: impl Iterator<Item = (&'static str, u64)>,
    ) -> impl Iterator<Item = Count> {
        entries.map(move |(name, value)| Count {
            group,
            name: format!("{prefix}{name}"),
            about: "",
            value,
        })
    }
}

/// The part of a run that counts and costs refer to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CountsOf {
    /// The whole run, start and end included.
    Run,
    /// The window of the rates.
    Window,
}

/// CPU time spent on one kind of work.
#[derive(Clone, PartialEq, Debug)]
pub struct Cost {
    /// The kind of work.
    pub name: &'static str,
    /// The number of times it was done.
    pub times: u64,
    /// The number of units processed.
    pub units: u64,
    /// The cost in cycles.
    pub cycles: f64,
}

impl Cost {
    /// Returns the costs of the drivers' work, and of the register accesses, fences and lines of
    /// memory that cores waited for, at a clock of `ghz`.
    pub fn of(c: &Counts, ghz: f64) -> Vec<Cost> {
        let cycles = |s: Span| s.as_ns_f64() * ghz;
        let work = c.work.iter().map(|(kind, done, spent)| Cost {
            name: kind.name(),
            times: done.times,
            units: done.units,
            cycles: cycles(*spent),
        });
        let waited = |name, n, s| Cost { name, times: n, units: n, cycles: cycles(s) };
        let stores = c.ledger.mmio_writes + c.ledger.mmio_reads + c.ledger.fences;
        let stalled = waited(STALLED, stores, c.stalled);
        let missed = c.missed.map(|s| waited(MISSED_LINES, c.counter(2, "llc_cpu_misses"), s));
        work.chain([stalled]).chain(missed).collect()
    }
}

/// The accesses of the CPU to a register, or to all that have one name.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct RegisterRow {
    /// The name in the manual, or else its place: `0x3818`, `1:0x10` in region 1.
    pub name: String,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Time that cores waited for them, in ns.
    pub waited_ns: f64,
    /// Their share of all time that cores waited for registers, fences and mappings.
    pub waited_share: f64,
}

impl RegisterRow {
    /// Returns a row for each name, the longest waited for first, then the most used. Cores waited
    /// for `stalled` in all.
    pub(crate) fn of(registers: &[Register], stalled: Span) -> Vec<RegisterRow> {
        let mut by_name: BTreeMap<String, Accesses> = BTreeMap::new();
        for Register { reg, name, accesses } in registers {
            let name = name.map_or_else(|| standstill::place(*reg), str::to_owned);
            by_name.entry(name).or_default().add(*accesses);
        }
        let mut all: Vec<_> = by_name.into_iter().filter(|(_, a)| a.reads + a.writes > 0).collect();
        all.sort_by_key(|(_, a)| Reverse((a.waited, a.reads + a.writes)));
        let row = |(name, Accesses { reads, writes, waited })| RegisterRow {
            name,
            reads,
            writes,
            waited_ns: rounded(waited.as_ns_f64()),
            waited_share: rounded(waited.ps() as f64 / stalled.ps().max(1) as f64),
        };
        all.into_iter().map(row).collect()
    }
}

/// Digits of a quantile of a latency. The histogram knows it to 0.2 per cent.
const QUANTILE_DIGITS: u32 = 4;

/// The quantiles of a latency, with how many of 1000 do not exceed them.
const QUANTILES: [(&str, u64); 4] = [("p50", 500), ("p90", 900), ("p99", 990), ("p999", 999)];

/// The meaning of the latency of a sent packet. At full speed it is due when its source calls the
/// driver.
pub const SENT: &str = "from a packet's due time to its buffer's return";

/// Halves of 95 % intervals, each in the unit of its number and in the order of the numbers. `None`
/// where the run cannot tell.
///
/// A rate, and a count of the window by packet, has the error of its own batch means
/// (`error_of`). A quantile has the interval of the share of spans below it, which batches give
/// as well, so it holds for latencies that depend on each other. Counts of the whole run are exact.
#[derive(Clone, PartialEq, Debug)]
pub struct Errors {
    /// Those of the rates.
    rates: Vec<Option<f64>>,
    /// Those of the counts by packet. Counts of faults have none.
    per_packet: Vec<Option<f64>>,
    /// Those of the cycles by packet, in all and by cause.
    cycles: Vec<Option<f64>>,
    /// Those of the quantiles of the latency.
    latency: [Option<f64>; QUANTILES.len()],
    /// That of a count that has no batches.
    otherwise: Option<f64>,
}

impl Errors {
    /// Returns the errors of a run that cannot tell.
    pub fn none(counts_of: CountsOf) -> Errors {
        let otherwise = (counts_of == CountsOf::Run).then_some(0.0);
        let [rates, per_packet, cycles] = [vec![], vec![], vec![]];
        Errors { rates, per_packet, cycles, latency: Default::default(), otherwise }
    }

    /// Takes the errors of the rates `whole` from the values that `rates` has for the batches.
    pub(crate) fn of_rates(
        &mut self,
        window: &Window,
        whole: &[Rate],
        batches: &[Counts],
        rates: impl Fn(&Counts, f64) -> Vec<Rate>,
    ) {
        let time: Vec<f64> = batches.iter().map(Counts::seconds).collect();
        let values: Vec<Vec<Rate>> = batches.iter().map(|c| rates(c, c.rate())).collect();
        let own = |(i, rate): (usize, &Rate)| match rate.sampled {
            Sampled::Batches => {
                let amounts = values.iter().zip(&time).map(|(v, t)| (v[i].value * t, *t));
                error_of(&amounts.collect::<Vec<_>>())
            }
            Sampled::Window => Some(window.error? * rate.value),
            Sampled::Once => None,
        };
        self.rates = whole.iter().enumerate().map(own).collect();
    }

    /// Takes the errors of counts and cycles by packet from the batches.
    pub(crate) fn of_counts(&mut self, batches: &[Counts], costs: impl Fn(&Counts) -> Vec<Cost>) {
        let packets: Vec<f64> = batches.iter().map(|c| c.packets as f64).collect();
        let errors = |of: &[Vec<f64>]| {
            let error = |i: usize| {
                let amounts = of.iter().zip(&packets).map(|(v, n)| (v[i], *n));
                error_of(&amounts.collect::<Vec<_>>())
            };
            (0..of.first().map_or(0, Vec::len)).map(error).collect::<Vec<_>>()
        };
        let counts = |c: &Counts| c.values().map(|n| n as f64).collect();
        let cycles = |c: &Counts| {
            let each: Vec<f64> = costs(c).iter().map(|cost| cost.cycles).collect();
            [vec![each.iter().sum()], each].concat()
        };
        self.per_packet = errors(&batches.iter().map(counts).collect::<Vec<_>>());
        self.cycles = errors(&batches.iter().map(cycles).collect::<Vec<_>>());
    }

    /// Takes the errors of the quantiles of `all` from the latencies of the batches.
    pub(crate) fn of_latencies(&mut self, all: &Histogram, batches: &[Histogram]) {
        self.latency = QUANTILES.map(|(_, per_mille)| {
            let at = all.quantile(per_mille)?;
            let (mut below, mut upto) = (Vec::new(), Vec::new());
            for h in batches {
                let around = h.around(at).map(|n| n as f64);
                below.push((around[0], h.count() as f64));
                upto.push((around[1], h.count() as f64));
            }
            // Where many spans are equal, the share below them varies, or that up to them.
            let half = error_of(&below)?.max(error_of(&upto)?);
            let (low, high) = all.interval(per_mille, half)?;
            Some((high.as_ns_f64() - low.as_ns_f64()) / 2.0)
        });
    }
}

/// The measurements of a run of any system.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Packets sent, large sends counted as their segments.
    pub packets: u64,
    /// Virtual time from the start to the last packet on link or wire.
    pub elapsed: Span,
    /// The time over which rates are taken.
    pub window: Window,
    /// The part of the run that counts, costs and quotients by packet refer to.
    pub counts_of: CountsOf,
    /// Rates and shares.
    pub rates: Vec<Rate>,
    /// Every count.
    pub counts: Vec<Count>,
    /// CPU time by cause.
    pub costs: Vec<Cost>,
    /// Accesses by register, the dearest first; empty unless they were logged.
    pub registers: Vec<RegisterRow>,
    /// Values over the time of the run.
    pub series: Vec<Series>,
    /// The latencies.
    pub latency: Histogram,
    /// Their meaning: [`SENT`], or a system's own words.
    pub latency_of: &'static str,
    /// The errors of all numbers.
    pub errors: Errors,
    /// The frames of a capture that were sent, and those that were not.
    pub sent: Option<Sent>,
    /// The outcome, with its evidence.
    pub verdict: Verdict,
}

/// The frames of a capture that are sent in a round, and those that are not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Sent {
    /// Packets in the file, of the interface that was asked for.
    pub packets: u64,
    /// Frames that are sent, large sends counted once.
    pub frames: u64,
    /// Frames among them that are cut into segments.
    pub large_sends: u64,
    /// Frames that were captured in part, and filled with zeros.
    pub padded: u64,
    /// Frames whose Ethernet header is made up.
    pub made_up_headers: u64,
    /// Packets that were left out, by reason: a link type, or the type of a cooked packet's
    /// device, that cannot be replayed; no IP on a link without Ethernet's header; captured in
    /// part; shorter or longer than any frame; longer than driver and device take; over the MTU;
    /// over it, and not to be cut; more payload than a large send takes; segments that are over
    /// the MTU.
    pub skipped: BTreeMap<&'static str, u64>,
    /// The offset in bytes of the record in which the file ends, if it is cut short.
    pub cut_short: Option<u64>,
}

impl Sent {
    /// Returns what there is to be sent. The frames are not counted yet.
    pub(crate) fn of(frames: &Frames) -> Sent {
        let file = &frames.file;
        Sent {
            packets: file.packets.max(frames.len() as u64),
            frames: 0,
            large_sends: 0,
            padded: file.padded,
            made_up_headers: file.headed,
            skipped: file.skipped.clone(),
            cut_short: file.cut_short,
        }
    }
}

/// Things that were lost for want of something, without a fault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Loss {
    /// Their number.
    pub lost: u64,
    /// Of what: `received frames`.
    pub of: &'static str,
    /// The thing that they did not find: `room in the device`.
    pub want: &'static str,
    /// The count that has them.
    pub counter: &'static str,
}

impl Loss {
    /// Returns what a run lost, if it did.
    pub(crate) fn of(m: &Measured, lost: &metrics::Lost) -> Option<Loss> {
        let count = m.counts.iter().find(|c| c.name == lost.counter && c.value > 0)?;
        let metrics::Lost { counter, of, want } = *lost;
        Some(Loss { lost: count.value, of, want, counter })
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loss { lost, of, want, counter } = self;
        write!(f, "{lost} {of} found no {want} ({counter})")
    }
}

/// The outcome of a run, in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Everything arrived, and all counts agree.
    Sound,
    /// Something was lost for want of room; all counts agree.
    Lossy,
    /// The machine does not keep up with its load, which did not come to its end.
    Overloaded,
    /// With faults: the load did not come to its end.
    Unfinished,
    /// Counts do not agree: a fault of a driver, a device or of Doorbell itself.
    Failed,
}

impl Outcome {
    /// Returns the name in JSON and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Sound => "sound",
            Outcome::Lossy => "lossy",
            Outcome::Overloaded => "overloaded",
            Outcome::Unfinished => "unfinished",
            Outcome::Failed => "failed",
        }
    }
}

/// The outcome of a run, with its evidence.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Verdict {
    /// The checks that failed; empty if all counts agree.
    pub audit: Vec<String>,
    /// Losses without a fault.
    pub lost: Vec<Loss>,
    /// The evidence of a run that was ended at its limit; empty if the load came to its end.
    pub unfinished: Vec<String>,
    /// Rules of the manual that the driver broke, and that the model works without.
    pub warnings: Vec<String>,
    /// Of a failed run whose register accesses were logged: the state of machine and device before
    /// the driver was closed, and the last accesses.
    pub evidence: Vec<String>,
    /// Faults were injected.
    pub faults: bool,
}

impl Verdict {
    /// Returns it in one word. What is worst goes first.
    pub fn outcome(&self) -> Outcome {
        match self {
            v if !v.audit.is_empty() => Outcome::Failed,
            v if !v.unfinished.is_empty() && v.faults => Outcome::Unfinished,
            v if !v.unfinished.is_empty() => Outcome::Overloaded,
            v if !v.lost.is_empty() => Outcome::Lossy,
            _ => Outcome::Sound,
        }
    }

    /// Adds what a comparison of counts found.
    pub(crate) fn take(&mut self, found: CrossCheck) {
        self.audit.extend(found.wrong);
    }
}

impl Measured {
    /// Returns every count by packet, and the cycles by cause and in all (`cycles`, `cycles_stack`,
    /// …). A run without packets has none.
    pub fn per_packet(&self) -> Vec<(String, f64)> {
        if self.packets == 0 {
            return Vec::new();
        }
        let packets = self.packets as f64;
        let counts = self.counts.iter().map(|c| (c.name.clone(), c.value as f64 / packets));
        let causes = self.costs.iter().map(|c| (format!("cycles_{}", c.name), c.cycles / packets));
        let all = self.costs.iter().map(|c| c.cycles).sum::<f64>() / packets;
        let all = counts.chain([("cycles".to_owned(), all)]).chain(causes);
        all.map(|(name, v)| (name, rounded(v))).collect()
    }

    /// Returns quantiles of the latency, in ns.
    pub fn latency_ns(&self) -> Vec<(&'static str, f64)> {
        let h = &self.latency;
        let exact = |name, s: Option<Span>| (name, s.map(Span::as_ns_f64));
        let quantiles = QUANTILES.map(|(name, per_mille)| (name, quantile_ns(h, per_mille)));
        let all = [exact("min", h.min())].into_iter().chain(quantiles);
        all.chain([exact("max", h.max())]).filter_map(|(name, ns)| Some((name, ns?))).collect()
    }

    /// Returns all numbers with their errors: rates, latencies, then those of a packet.
    pub fn numbers(&self) -> Numbers {
        let mut all = Vec::new();
        let mut put =
            |name: String, value, error| all.push(Number { error, ..Number::new(name, value) });
        let errors = self.rate_errors();
        for r in &self.rates {
            put(r.metric.name.to_owned(), r.value, of(&errors, r.metric.name));
        }
        let errors = self.latency_errors();
        for (name, ns) in self.latency_ns() {
            put(format!("{LATENCY}{name}"), ns, of(&errors, name));
        }
        let mut errors = self.per_packet_errors().into_iter().peekable();
        for (name, value) in self.per_packet() {
            let error = errors.next_if(|e| e.0 == name).map(|e| e.1);
            put(name, value, error);
        }
        Numbers(all)
    }

    /// Returns a number by its name in `list --metrics`.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.numbers().get(name).map(|n| n.value)
    }

    /// Keeps the counts whose names are wanted, with their errors.
    pub fn retain_counts(&mut self, wanted: impl Fn(&str) -> bool) {
        let kept: Vec<bool> = self.counts.iter().map(|c| wanted(&c.name)).collect();
        let (mut counts, mut errors) = (kept.iter(), kept.iter());
        self.counts.retain(|_| counts.next() == Some(&true));
        self.errors.per_packet.retain(|_| errors.next() == Some(&true));
    }

    /// Returns the halves of the 95 % intervals of the rates that have one, by name.
    pub fn rate_errors(&self) -> Vec<(&'static str, f64)> {
        let all = self.rates.iter().zip(&self.errors.rates);
        all.filter_map(|(r, error)| Some((r.metric.name, rounded((*error)?)))).collect()
    }

    /// Returns the halves of the 95 % intervals of the quantiles that have one, in ns.
    pub fn latency_errors(&self) -> Vec<(&'static str, f64)> {
        let all = QUANTILES.iter().zip(self.errors.latency);
        let error = |e: f64| significant(e, QUANTILE_DIGITS);
        all.filter_map(|((name, _), e)| Some((*name, error(e?)))).collect()
    }

    /// Returns those of the counts by packet and of the cycles. Those of a whole run are exact.
    pub fn per_packet_errors(&self) -> Vec<(String, f64)> {
        let (e, n) = (&self.errors, self.counts.len());
        let error = |i: usize| match i.checked_sub(n) {
            None => e.per_packet.get(i).copied().unwrap_or(e.otherwise),
            Some(i) => e.cycles.get(i).copied().unwrap_or(e.otherwise),
        };
        let all = self.per_packet().into_iter().enumerate();
        all.filter_map(|(i, (name, _))| Some((name, rounded(error(i)?)))).collect()
    }

    /// Returns half of a number's 95 % interval, in its unit. The least and the greatest latency
    /// have none, nor has a number of a run that is too short, or of a load that changes too
    /// slowly.
    pub fn error(&self, name: &str) -> Option<f64> {
        self.numbers().get(name)?.error
    }

    /// Returns the packet rate.
    pub fn packets_per_s(&self) -> f64 {
        self.rates.iter().find(|r| r.metric == PACKETS).map_or(0.0, |r| r.value)
    }

    /// Returns it, if all counts agree with each other and its load came to its end.
    ///
    /// # Errors
    /// The first check that failed, or what was waiting.
    pub fn sound(self) -> Result<Measured, RunError> {
        let v = &self.verdict;
        match (v.audit.first(), v.unfinished.first()) {
            (Some(why), _) => Err(RunError::Audit(why.clone())),
            (None, Some(why)) => Err(RunError::Overloaded(why.clone())),
            (None, None) => Ok(self),
        }
    }

    /// Returns whether all counts agree with each other.
    pub fn is_sound(&self) -> bool {
        self.verdict.audit.is_empty()
    }
}

/// The beginning of the names of latencies.
const LATENCY: &str = "latency_ns.";

fn of(errors: &[(&'static str, f64)], name: &str) -> Option<f64> {
    errors.iter().find(|e| e.0 == name).map(|e| e.1)
}

/// The origin of a result: all that decides its numbers, and the names of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// The scenario's name.
    pub scenario: String,
    /// The scenario's description.
    pub about: String,
    /// The system's name.
    pub system: String,
    /// The profile's name.
    pub profile: String,
    /// SHA-256 of the profile's content, a line `key=value` for each of its keys, in hexadecimal.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub profile_sha256: String,
    /// The settings given on top of the two, as they were written.
    pub set: Vec<String>,
    /// The final value of every key of scenario and profile, with its unit, as `--set` takes it;
    /// null for a file or faults that were not given. Where several runs share an origin, the keys
    /// that differ are left out; of a ranking, those that all sides set.
    #[schemars(with = "BTreeMap<String, Option<String>>")]
    pub settings: Map<String, Value>,
    /// SHA-256 of the capture that was sent, in hexadecimal, if there was one.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub capture_sha256: Option<String>,
    /// The seed of random faults and random loads.
    pub seed: u64,
}

/// The measurements of a run, with their origin.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct RunResult {
    /// The origin.
    #[serde(flatten)]
    pub of: Provenance,
    /// The share of each resource that was used over the window, 1 at its limit, the most used
    /// first: cores, buses, links, port.
    #[serde(serialize_with = "members")]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub limits: Vec<(String, f64)>,
    /// The limit of the packet rate, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limits>,
    /// The measurements.
    #[serde(flatten)]
    pub measured: Measured,
}

/// The measurements of a run as programs read them.
#[derive(Serialize, JsonSchema)]
struct Written<'a> {
    /// Packets sent, or received where the load is received; large sends count as their segments.
    packets: u64,
    /// Simulated time from the start to the last packet.
    seconds: f64,
    /// Rates and shares over the window.
    rates: IndexMap<&'a str, f64>,
    /// Half of the 95 % interval of a rate, in its unit, from the means of the rate in batches of
    /// the window. A rate has none where the run is too short for one, its load changes too
    /// slowly, or it is known at the end alone.
    rates_error: IndexMap<&'a str, f64>,
    window: &'a Window,
    counts_of: CountsOf,
    /// Counts, of the buses that the system has.
    ledger: IndexMap<&'a str, u64>,
    /// The same by packet, and CPU cycles, in all and by cause; empty without packets.
    per_packet: IndexMap<String, f64>,
    /// Only where counts are of the window: half of the 95 % interval of the members of
    /// `per_packet` that have one. Counts of the whole run are exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_packet_error: Option<IndexMap<String, f64>>,
    /// Quantiles of the latency within 0.2 %, to four digits (p50, p90, p99, p999), and the exact
    /// least and greatest (min, max); empty where nothing has one.
    latency_ns: IndexMap<&'a str, f64>,
    /// Half of the 95 % interval of the quantiles that have one, in ns.
    latency_ns_error: IndexMap<&'a str, f64>,
    /// The latency's start and end.
    latency_of: &'a str,
    /// Pairs of a bucket's upper bound and its count, of buckets that are not empty, each 1/256 of
    /// a power of two wide.
    latency_histogram_ns: Vec<(f64, u64)>,
    /// Numbers over the time of the run: pairs of ms and value.
    series: IndexMap<&'a str, Vec<[f64; 2]>>,
    /// Only of a driver or device of one's own, or with --registers: accesses of the CPU by
    /// register, the longest waited for first.
    #[serde(skip_serializing_if = "<[RegisterRow]>::is_empty")]
    #[schemars(default)]
    registers: &'a [RegisterRow],
    /// Only of a run that sends a capture: what is sent of it in a round.
    #[serde(skip_serializing_if = "Option::is_none")]
    capture: Option<&'a Sent>,
    outcome: Outcome,
    /// Losses for want of room.
    lost: &'a [Loss],
    /// The checks that failed: of counts of driver, device, bus and wire against each other. Empty
    /// if all agree.
    audit: &'a [String],
    /// Only of a run that did not come to its end: what was still waiting.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    #[schemars(default)]
    unfinished: &'a [String],
    /// Only of a driver of one's own, without --strict: rules of the manual that it broke, and that
    /// the model works without.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    #[schemars(default)]
    warnings: &'a [String],
    /// Only of a failed run with `registers`: the state of driver and device before the driver was
    /// closed, and the last accesses.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    #[schemars(default)]
    evidence: &'a [String],
}

impl Serialize for Measured {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let buckets = self.latency.buckets().map(|(upto, n)| (rounded(upto.as_ns_f64()), n));
        let points = |s: &Series| s.points.iter().map(|p| [rounded(p.0), rounded(p.1)]).collect();
        let v = &self.verdict;
        let of_window = self.counts_of == CountsOf::Window;
        Written {
            packets: self.packets,
            seconds: self.elapsed.as_secs_f64(),
            rates: self.rates.iter().map(|r| (r.metric.name, rounded(r.value))).collect(),
            rates_error: self.rate_errors().into_iter().collect(),
            window: &self.window,
            counts_of: self.counts_of,
            ledger: self.counts.iter().map(|c| (&*c.name, c.value)).collect(),
            per_packet: self.per_packet().into_iter().collect(),
            per_packet_error: of_window.then(|| self.per_packet_errors().into_iter().collect()),
            latency_ns: self.latency_ns().into_iter().collect(),
            latency_ns_error: self.latency_errors().into_iter().collect(),
            latency_of: self.latency_of,
            latency_histogram_ns: buckets.collect(),
            series: self.series.iter().map(|s| (s.name, points(s))).collect(),
            registers: &self.registers,
            capture: self.sent.as_ref(),
            outcome: v.outcome(),
            lost: &v.lost,
            audit: &v.audit,
            unfinished: &v.unfinished,
            warnings: &v.warnings,
            evidence: &v.evidence,
        }
        .serialize(s)
    }
}

impl JsonSchema for Measured {
    fn schema_name() -> Cow<'static, str> {
        "Measured".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Written::json_schema(generator)
    }
}

fn members<S: Serializer>(all: &[(String, f64)], s: S) -> Result<S::Ok, S::Error> {
    s.collect_map(all.iter().map(|(name, v)| (name, v)))
}

/// Returns a quantile in ns, with no more digits than the histogram knows. It is never outside the
/// shortest and the longest span.
pub fn quantile_ns(h: &Histogram, per_mille: u64) -> Option<f64> {
    let ns = significant(h.quantile(per_mille)?.as_ns_f64(), QUANTILE_DIGITS);
    Some(ns.clamp(h.min()?.as_ns_f64(), h.max()?.as_ns_f64()))
}

#[cfg(test)]
mod tests;
