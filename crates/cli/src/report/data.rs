//! The data of a page: one object with the systems (rows, constants, runs), the user's own runs,
//! and descriptions of all names, so that the page knows no NIC. Each run is as `run --format json`
//! prints it.

use crate::guest;
use crate::render::people;
use crate::summary::{Ran, Sides};
use doorbell_bus::Ledger;
use doorbell_lab::figures::{Outcome, Report, Role, Sensitivity, SystemReport};
use doorbell_lab::metrics::{Better, Kind, Metric};
use doorbell_lab::{bill::PARTS, result::rounded, system::SYSTEMS};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The fields of a run that a page needs, to name the place of an error in a file.
#[derive(Deserialize)]
#[expect(dead_code, reason = "read by the page, from the same text")]
pub(super) struct Run {
    scenario: String,
    about: String,
    profile: String,
    profile_sha256: String,
    set: Vec<String>,
    seed: u64,
    doorbell: Value,
    limits: BTreeMap<String, f64>,
    window: Value,
    packets: u64,
    seconds: f64,
    rates: BTreeMap<String, f64>,
    rates_error: BTreeMap<String, f64>,
    per_packet: BTreeMap<String, f64>,
    latency_ns: BTreeMap<String, f64>,
    latency_of: String,
    latency_histogram_ns: Vec<(f64, u64)>,
    series: BTreeMap<String, Vec<(f64, f64)>>,
    audit: Value,
}

/// The fields of a sweep that a page needs.
#[derive(Deserialize)]
#[expect(dead_code, reason = "read by the page, from the same text")]
pub(super) struct Swept {
    of: Origin,
    over: BTreeMap<String, Vec<String>>,
    across: BTreeMap<String, Vec<String>>,
    units: BTreeMap<String, String>,
    rows: Vec<SweptRow>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read by the page, from the same text")]
struct SweptRow {
    keys: BTreeMap<String, Value>,
    values: BTreeMap<String, Value>,
    audit: Vec<String>,
}

/// The fields of a ranking that a page needs: rows, or a number over time.
#[derive(Deserialize)]
#[expect(dead_code, reason = "read by the page, from the same text")]
pub(super) struct Ranked {
    of: Vec<Origin>,
    sides: Vec<Side>,
    by: Vec<String>,
    units: BTreeMap<String, String>,
    noise_percent: f64,
    seeds: Option<(u64, u64)>,
    runs: Option<u64>,
    rows: Option<Vec<BTreeMap<String, Value>>>,
    series: Option<String>,
    every: Option<u64>,
    points: Option<BTreeMap<String, Vec<(f64, f64)>>>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read by the page, from the same text")]
struct Side {
    name: String,
    set: Vec<String>,
}

/// The origin of results.
#[derive(Deserialize)]
#[expect(dead_code, reason = "read by the page, from the same text")]
struct Origin {
    scenario: String,
    about: String,
    profile: String,
    profile_sha256: String,
    set: Vec<String>,
    seed: Option<u64>,
}

/// The fields of a reproduction that a page needs.
#[derive(Deserialize)]
#[expect(dead_code, reason = "read by the page, from the same text")]
pub(super) struct Reproduced {
    version: String,
    systems: Vec<BTreeMap<String, Value>>,
    parts: Vec<Value>,
    about: BTreeMap<String, String>,
}

/// Returns data without systems.
pub(super) fn empty() -> Value {
    let parts = PARTS.iter().map(|p| json!({ "name": p.name, "title": p.title, "unit": p.unit }));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "systems": [],
        "runs": [],
        "sweeps": [],
        "ranks": [],
        "guests": [],
        "parts": parts.collect::<Vec<_>>(),
        "items": items(),
        "rates": rates(),
        "about": about(),
    })
}

/// Returns the counts of each part of a bill with their names for people. Cycles have `cycles_`
/// before their cause; instructions of a guest's driver have their steps.
fn items() -> Value {
    let mut all = Map::new();
    for part in &PARTS {
        let named = Ledger::COUNTERS.iter();
        let named = named.filter_map(|c| Some((c.name.to_owned(), json!(part.item(c.name)?))));
        all.insert(part.name.to_owned(), Value::Object(named.collect()));
    }
    let steps =
        guest::PARTS.iter().filter_map(|(name, _)| Some((name, name.strip_prefix("driver_")?)));
    let steps = steps.map(|(name, step)| (format!("instructions.{name}"), json!(step)));
    all.insert("instructions".to_owned(), Value::Object(steps.collect()));
    Value::Object(all)
}

/// Returns of each rate the unit for people, its size, and whether more is better, if it is judged.
fn rates() -> BTreeMap<&'static str, Value> {
    let all = SYSTEMS.iter().flat_map(|s| s.metrics()).filter(|m| m.kind == Kind::Rate);
    let told = |m: &Metric| {
        let (factor, unit) = people(m.unit, 1.0);
        let more = (m.better != Better::Neither).then(|| m.is_better_high());
        json!({ "unit": unit, "size": 1.0 / factor, "more": more })
    };
    all.map(|m| (m.name, told(m))).collect()
}

/// Returns the descriptions of counts.
fn about() -> BTreeMap<String, &'static str> {
    let counts = Ledger::COUNTERS.iter().map(|c| (c.name.to_owned(), c.about));
    let parts = guest::PARTS.iter().map(|(name, about)| (format!("instructions.{name}"), *about));
    counts.chain(parts).collect()
}

/// Returns a reproduction with the runs of each system.
pub(crate) fn of_reproduction(report: &Report, sides: &[Option<Sides>]) -> Value {
    let mut all = empty();
    all["systems"] =
        report.systems.iter().zip(sides).map(|(s, sides)| system(s, sides.as_ref())).collect();
    all
}

fn system(s: &SystemReport, sides: Option<&Sides>) -> Value {
    let short = |figure: &str| {
        let own = figure.strip_prefix(&s.name).and_then(|f| f.strip_prefix('.'));
        own.unwrap_or(figure).replace('_', " ")
    };
    let choices = s.constants.choices().iter().map(|c| {
        json!({
            "key": c.key, "value": c.value(), "unit": c.unit, "alternatives": c.alternatives,
            "source": c.from(), "set": !c.is_free(),
            "rows": c.rows.iter().map(|row| short(row)).collect::<Vec<_>>(),
        })
    });
    let constants = s.constants.iter().map(|c| {
        json!({
            "key": c.key, "value": rounded(c.value), "unit": c.unit,
            "source": c.from(), "fitted": c.fit_row().is_some(),
        })
    });
    json!({
        "name": s.name,
        "about": s.about,
        "swapped": s.swapped.is_some_and(|fits| fits > 0),
        "freedom": s.freedom,
        "combinations": s.combinations,
        "rows": s.rows.iter().map(|r| row(r, &short(&r.row.figure))).collect::<Vec<_>>(),
        "constants": constants.collect::<Vec<_>>(),
        "choices": choices.collect::<Vec<_>>(),
        "sensitivity": s.sensitivity.as_ref().map(sensitivity),
        "headline": sides.map(headline),
    })
}

fn row(o: &Outcome, short: &str) -> Value {
    let r = &o.row;
    json!({
        "figure": r.figure,
        "name": short,
        "unit": r.unit,
        "published": r.published,
        "spread": r.spread,
        "measured": o.measured.as_ref().ok(),
        "off_by": o.off_by().map(rounded),
        "role": r.role.name(),
        "side": match r.role {
            side @ (Role::AtOrBelow | Role::AtOrAbove) => json!(format!("{side:?}")),
            _ => Value::Null,
        },
        "tolerance": r.tolerance,
        "broken": o.is_broken(),
        "tolerance_text": r.tolerance.map(|t| t.to_string()),
        "holds": o.holds,
        "known": o.known_miss.is_some(),
        "document": r.document,
        "passage": r.passage,
        "inputs": o.inputs,
        "remarks": o.remarks(),
    })
}

/// Returns the change of each row in percent for each constant, with the fits re-run: `null` if a
/// fit was lost, 0 at rest.
fn sensitivity(found: &Sensitivity) -> Value {
    let moved = found.constants.iter().map(|c| {
        let change = |at: usize| match c.rests(at) {
            Some(true) => Some(0.0),
            _ => c.refitted[at].map(|x| rounded(x * 100.0)),
        };
        let changes: Vec<Option<f64>> = (0..found.figures.len()).map(change).collect();
        json!({ "key": c.key, "by": c.nudge.to_string(), "fitted": c.fitted, "changes": changes })
    });
    json!({ "constants": moved.collect::<Vec<_>>() })
}

fn headline(s: &Sides) -> Value {
    let both = |runs: &[Ran; 2]| runs.each_ref().map(run).to_vec();
    let h = &s.headline;
    let curve = h.curve.zip(s.curve.as_ref()).map(|(c, points)| {
        let at = points.at.iter().map(|(x, [off, on])| [*x, *off, *on]).collect::<Vec<_>>();
        json!({
            "scenario": c.scenario, "key": c.key, "unit": points.unit, "about": points.about,
            "show": c.show, "shown": c.title, "more_is_better": points.more_is_better, "at": at,
        })
    });
    json!({
        "scenario": h.scenario,
        "sides": h.sides(),
        "bill": both(&s.bill),
        "moving": s.moving.as_ref().map(both),
        "waiting": s.waiting.as_ref().map(both),
        "curve": curve,
    })
}

/// Returns a run as it is printed.
fn run(r: &Ran) -> Value {
    serde_json::to_value(&r.result)
        .unwrap_or_else(|e| unreachable!("a plain result serialises: {e}"))
}

#[cfg(test)]
mod tests;
