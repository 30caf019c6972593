//! A run as one record: every number of its result by the name in `list --metrics`, counts by
//! packet. The columns of csv, ndjson and `sweep --out`.

use crate::render::Record;
use doorbell_lab::Plan;
use doorbell_lab::key::{Key, Value as Setting};
use doorbell_lab::result::{RunResult, rounded};
use serde_json::Value;

/// Returns the value of a setting: a number in its key's unit, or a word; null if not given.
pub(crate) fn setting(key: &Key, value: &Setting) -> Value {
    match value {
        Setting::Number(n) if key.is_whole() => (*n as i64).into(),
        Setting::Number(n) => (*n).into(),
        Setting::Word(word) => (*word).into(),
        Setting::Text(text) => (!text.is_empty()).then_some(text.as_str()).into(),
    }
}

/// Returns the record of a run: its origin, the settings that `of` chooses, and its numbers.
pub(crate) fn of(plan: &Plan, result: &RunResult, chosen: impl Fn(&Key) -> bool) -> Record {
    let RunResult { of, limits, limit, measured: m } = result;
    let mut all = Record::new();
    let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
    put("scenario", of.scenario.as_str().into());
    put("profile", of.profile.as_str().into());
    for (key, value) in plan.values.iter().filter(|(key, _)| chosen(key)) {
        put(key.name, setting(key, value));
    }
    put("packets", m.packets.into());
    put("seconds", m.elapsed.as_secs_f64().into());
    for r in &m.rates {
        put(r.name, rounded(r.value).into());
        if r.name == "packets_per_s" {
            let error = m.window.error.map(|e| rounded(e * r.value));
            put("packets_per_s_error", error.into());
        }
    }
    let most = limits.first();
    put("limit", most.map(|(name, _)| name.as_str()).into());
    put("limit_share", most.map(|(_, share)| *share).into());
    if let Some(limit) = limit {
        put("binds", limit.binds.into());
    }
    for (name, ns) in m.latency_ns() {
        put(&format!("latency_ns.{name}"), ns.into());
    }
    m.per_packet().iter().for_each(|(name, v)| put(name, (*v).into()));
    put("sound", m.is_sound().into());
    all
}
