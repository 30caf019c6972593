//! A run as one record: every number of its result by the name in `list --metrics`, counts by
//! packet. The columns of csv, ndjson and of files of points.

mod file;

pub(crate) use file::RecordFile;

use crate::render::Record;
use doorbell_lab::Plan;
use doorbell_lab::key::{Key, Value as Setting};
use doorbell_lab::metrics::LOST_SHARE;
use doorbell_lab::result::{Outcome as Word, RunResult, rounded};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The numbers of a run, as they are kept.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    packets: u64,
    seconds: f64,
    pub(crate) rates: Record,
    /// Halves of the 95 % intervals of rates and latencies.
    rates_error: Record,
    latency_ns_error: Record,
    /// The rates are those of a steady state.
    steady: bool,
    /// The resource that was used most, and its share.
    limit: Option<String>,
    limit_share: Option<f64>,
    pub(crate) latency_ns: Record,
    pub(crate) per_packet: Record,
    /// The checks that failed.
    pub(crate) audit: Vec<String>,
    /// The outcome of the run, in one word.
    outcome: String,
}

impl Outcome {
    pub(crate) fn of(result: &RunResult) -> Outcome {
        let m = &result.measured;
        let most = result.limits.first();
        let values = |all: Vec<(String, f64)>| all.into_iter().map(|(n, v)| (n, v.into()));
        let latency = m.latency_ns().into_iter().map(|(n, v)| (n.to_owned(), v));
        let rates = m.rates.iter().map(|r| (r.name.to_owned(), rounded(r.value)));
        let errors = |all: Vec<(&'static str, f64)>| {
            all.into_iter().map(|(name, e)| (name.to_owned(), e.into())).collect()
        };
        Outcome {
            packets: m.packets,
            seconds: m.elapsed.as_secs_f64(),
            rates: values(rates.collect()).collect(),
            rates_error: errors(m.rate_errors()),
            latency_ns_error: errors(m.latency_errors()),
            steady: m.window.is_steady(),
            limit: most.map(|(name, _)| name.clone()),
            limit_share: most.map(|(_, share)| *share),
            latency_ns: values(latency.collect()).collect(),
            per_packet: values(m.per_packet()).collect(),
            audit: m.verdict.audit.clone(),
            outcome: m.verdict.outcome().name().to_owned(),
        }
    }

    /// Returns whether frames found no room in the device.
    pub(crate) fn loses_frames(&self) -> bool {
        self.rates.get(LOST_SHARE.0).and_then(Value::as_f64).is_some_and(|share| share > 0.0)
    }

    /// Returns whether the machine did not keep up with its load.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.outcome == Word::Overloaded.name()
    }

    /// Adds all numbers to a record.
    pub(crate) fn put(&self, all: &mut Record) {
        let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
        put("packets", self.packets.into());
        put("seconds", self.seconds.into());
        for (name, value) in &self.rates {
            put(name, value.clone());
            put(&format!("{name}_error"), self.rates_error.get(name).cloned().into());
        }
        put("steady", self.steady.into());
        put("limit", self.limit.as_deref().into());
        put("limit_share", self.limit_share.into());
        for (name, ns) in &self.latency_ns {
            put(&format!("latency_ns.{name}"), ns.clone());
            let error = self.latency_ns_error.get(name).cloned();
            put(&format!("latency_ns.{name}_error"), error.into());
        }
        self.per_packet.iter().for_each(|(name, v)| put(name, v.clone()));
        put("outcome", self.outcome.as_str().into());
    }
}

/// Returns the value of a setting: a number in its key's unit, or a word; null if not given.
pub(crate) fn setting(key: &Key, value: &Setting) -> Value {
    match value {
        Setting::Number(n) if key.is_whole() => (*n as i64).into(),
        Setting::Number(n) => (*n).into(),
        Setting::Word(word) => (*word).into(),
        Setting::Text(text) => (!text.is_empty()).then_some(text.as_str()).into(),
    }
}

/// Returns the start of a record: the origin of the run.
pub(crate) fn head(scenario: &str, profile: &str, settings: Record) -> Record {
    let names = [("scenario", scenario), ("profile", profile)];
    let names = names.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    names.chain(settings).collect()
}

/// Returns the record of a run: its origin, all settings, and its numbers.
pub(crate) fn of(plan: &Plan, result: &RunResult) -> Record {
    let settings = plan.values.iter().map(|(key, v)| (key.name.to_owned(), setting(key, v)));
    let mut all = head(&result.of.scenario, &result.of.profile, settings.collect());
    Outcome::of(result).put(&mut all);
    if let (Some(limit), Some(at)) = (&result.limit, all.keys().position(|k| k == "limit_share")) {
        all.shift_insert(at + 1, "binds".to_owned(), limit.binds.into());
    }
    all
}
