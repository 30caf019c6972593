//! A run as one record: every number of its result by the name in `list --metrics`, counts by
//! packet. The columns of csv, ndjson and of files of points.

use doorbell_spec::key::{Key, Value as Setting};
use doorbell_spec::table::Record;
use doorbell_systems::Plan;
use doorbell_systems::metrics::{Kind, LOST_SHARE};
use doorbell_systems::result::{Measured, Numbers, Outcome as Word, rounded};
use doorbell_systems::system::System;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The text among the columns of a result.
const TEXTS: [&str; 2] = ["limit", "outcome"];

/// The outcome of a run, as it is kept.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    packets: u64,
    seconds: f64,
    /// All numbers.
    pub numbers: Numbers,
    /// The rates are those of a steady state.
    steady: bool,
    /// The resource that was used most, and its share.
    limit: Option<String>,
    limit_share: Option<f64>,
    /// The checks that failed.
    pub audit: Vec<String>,
    /// The outcome of the run, in one word.
    outcome: String,
}

impl Outcome {
    /// Keeps what was measured, with the share of each resource that was used, the most used first.
    pub fn of(m: &Measured, limits: &[(String, f64)]) -> Outcome {
        let most = limits.first();
        Outcome {
            packets: m.packets,
            seconds: m.elapsed.as_secs_f64(),
            numbers: m.numbers(),
            steady: m.window.is_steady(),
            limit: most.map(|(name, _)| name.clone()),
            limit_share: most.map(|(_, share)| *share),
            audit: m.verdict.audit.clone(),
            outcome: m.verdict.outcome().name().to_owned(),
        }
    }

    /// Returns whether frames found no room in the device.
    pub fn loses_frames(&self) -> bool {
        self.numbers.get(LOST_SHARE.name).is_some_and(|n| n.value > 0.0)
    }

    /// Returns whether the machine did not keep up with its load.
    pub fn is_overloaded(&self) -> bool {
        self.outcome == Word::Overloaded.name()
    }

    /// Adds all numbers of a run of `system` to a record: rates and latencies with their errors.
    pub fn put(&self, system: &System, all: &mut Record) {
        let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
        put("packets", self.packets.into());
        put("seconds", self.seconds.into());
        let kinds = self.numbers.0.iter().filter_map(|n| Some((system.metric(&n.name)?.kind, n)));
        let kinds: Vec<_> = kinds.collect();
        let of = |kind: Kind| kinds.iter().filter(move |(of, _)| *of == kind).map(|(_, n)| *n);
        for n in of(Kind::Rate) {
            put(&n.name, rounded(n.value).into());
            put(&format!("{}_error", n.name), n.error.into());
        }
        put("steady", self.steady.into());
        put("limit", self.limit.as_deref().into());
        put("limit_share", self.limit_share.into());
        for n in of(Kind::Latency) {
            put(&n.name, n.value.into());
            put(&format!("{}_error", n.name), n.error.into());
        }
        of(Kind::Count).chain(of(Kind::Cycles)).for_each(|n| put(&n.name, n.value.into()));
        put("outcome", self.outcome.as_str().into());
    }
}

/// Returns whether a column without values is text: the setting of a file or of faults that no run
/// was given, or a word of the result. All others are numbers.
pub fn is_text(plan: &Plan, column: &str) -> bool {
    TEXTS.contains(&column) || plan.values.keys().iter().any(|k| k.name == column)
}

/// Returns the value of a setting: a number in its key's unit, or a word; null if not given.
pub fn setting(key: &Key, value: &Setting) -> Value {
    match value {
        Setting::Number(n) if key.is_whole() => (*n as i64).into(),
        Setting::Number(n) => (*n).into(),
        Setting::Word(word) => (*word).into(),
        Setting::Text(text) => (!text.is_empty()).then_some(text.as_str()).into(),
    }
}

/// Returns the start of a record: the origin of the run.
pub fn head(scenario: &str, profile: &str, settings: Record) -> Record {
    let names = [("scenario", scenario), ("profile", profile)];
    let names = names.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    names.chain(settings).collect()
}

/// Returns the units of all numbers and keys of a run that have one.
pub(crate) fn units(plan: &Plan) -> Map<String, Value> {
    let metrics = plan.system.metrics().iter();
    let numbers = metrics.map(|m| (m.name.to_owned(), m.unit.name().into()));
    let keys = plan.values.iter().map(|(k, _)| (k.name.to_owned(), k.unit().into()));
    numbers.chain(keys).filter(|(_, unit): &(String, Value)| unit != "").collect()
}
