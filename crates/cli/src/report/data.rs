//! The results that a page is made of, as they stand in files. An unknown member is left out.

use crate::summary::{Ran, Sides};
use doorbell_console::render::Program;
use doorbell_spec::Readings;
use doorbell_study::figures::{
    Combinations, DegreesOfFreedom, Outcome, Report, Role, Sensitivity, SystemReport, Tolerance,
};
use doorbell_systems::result::{Provenance, rounded};
use indexmap::IndexMap;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// A run as `run --format json` prints it.
#[derive(Deserialize)]
pub(crate) struct Run {
    // Not a `Provenance`: members of a flattened one have no line in an error.
    pub(super) scenario: String,
    pub(super) about: String,
    pub(super) profile: String,
    pub(super) profile_sha256: String,
    pub(super) capture_sha256: Option<String>,
    pub(super) set: Vec<String>,
    pub(super) seed: u64,
    pub(super) limit: Option<Limit>,
    pub(super) window: Window,
    pub(super) packets: u64,
    pub(super) seconds: f64,
    pub(super) latency_of: String,
    pub(super) latency_histogram_ns: Vec<(f64, u64)>,
    pub(super) audit: Vec<String>,
    #[serde(flatten, deserialize_with = "whole")]
    pub(super) numbers: Readings,
}

/// Reads the numbers of a run, which has all groups.
fn whole<'de, D: Deserializer<'de>>(members: D) -> Result<Readings, D::Error> {
    let members = Map::deserialize(members)?;
    for group in ["limits", "rates", "rates_error", "per_packet", "latency_ns"] {
        let of = members.get(group).ok_or_else(|| D::Error::missing_field(group))?;
        IndexMap::<String, f64>::deserialize(of).map_err(D::Error::custom)?;
    }
    let series = members.get("series").ok_or_else(|| D::Error::missing_field("series"))?;
    IndexMap::<String, Vec<(f64, f64)>>::deserialize(series).map_err(D::Error::custom)?;
    Ok(Readings::of(&members))
}

impl Run {
    /// Returns the value of a number of a group.
    pub(super) fn value(&self, group: &str, name: &str) -> Option<f64> {
        self.numbers.value(group, name)
    }

    pub(super) fn origin(&self) -> Provenance {
        Provenance {
            scenario: self.scenario.clone(),
            about: self.about.clone(),
            profile: self.profile.clone(),
            profile_sha256: self.profile_sha256.clone(),
            capture_sha256: self.capture_sha256.clone(),
            set: self.set.clone(),
            seed: self.seed,
            system: String::new(),
            settings: Map::new(),
        }
    }
}

/// The limit of a run.
#[derive(Deserialize)]
pub(super) struct Limit {
    /// The resource.
    pub(super) binds: Option<String>,
    pub(super) said: String,
}

/// The window of the rates.
#[derive(Deserialize)]
pub(super) struct Window {
    pub(super) note: Option<String>,
}

/// Any other result, such as of `advise` and `fit`.
#[derive(Deserialize)]
pub(super) struct Other {
    pub(super) kind: String,
    pub(super) doorbell: Program,
    #[serde(flatten)]
    pub(super) members: Map<String, Value>,
}

/// A reproduction, `reproduce.json`. A run `R` is written as it is printed.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reproduced<R = Run> {
    pub(super) systems: Vec<System<R>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct System<R = Run> {
    pub(super) name: String,
    pub(super) about: String,
    /// True if its fits were made on the other state.
    pub(super) swapped: bool,
    pub(super) freedom: DegreesOfFreedom,
    pub(super) combinations: Option<Combinations>,
    pub(super) rows: Vec<Row>,
    pub(super) constants: Vec<Constant>,
    pub(super) choices: Vec<Choice>,
    pub(super) sensitivity: Option<Moved>,
    pub(super) headline: Option<Headline<R>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) figure: String,
    /// For people, without the system.
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) published: f64,
    pub(super) spread: Option<f64>,
    pub(super) measured: Option<f64>,
    pub(super) off_by: Option<f64>,
    pub(super) role: String,
    /// Of a bound.
    pub(super) side: Option<String>,
    pub(super) tolerance: Option<Tolerance>,
    pub(super) tolerance_text: Option<String>,
    /// True of a definition that came out otherwise.
    pub(super) broken: bool,
    pub(super) holds: Option<bool>,
    /// True of a miss with an explanation.
    pub(super) known: bool,
    pub(super) document: String,
    pub(super) passage: String,
    pub(super) inputs: Vec<String>,
    pub(super) remarks: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Constant {
    pub(super) key: String,
    pub(super) value: f64,
    pub(super) unit: String,
    pub(super) source: String,
    pub(super) fitted: bool,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Choice {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) unit: String,
    pub(super) alternatives: Vec<String>,
    pub(super) source: String,
    /// True if it was set by hand.
    pub(super) set: bool,
    /// The figures that were looked at.
    pub(super) rows: Vec<String>,
}

/// The change of each row in percent for each constant.
#[derive(Serialize, Deserialize)]
pub(super) struct Moved {
    pub(super) constants: Vec<MovedBy>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct MovedBy {
    pub(super) key: String,
    /// The change of the constant: a share, or a step to the next value that is allowed.
    pub(super) by: String,
    pub(super) fitted: bool,
    /// None if a fit was lost, 0 at rest.
    pub(super) changes: Vec<Option<f64>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Headline<R = Run> {
    pub(super) scenario: String,
    pub(super) sides: [String; 2],
    pub(super) bill: [R; 2],
    pub(super) moving: Option<[R; 2]>,
    pub(super) waiting: Option<[R; 2]>,
    pub(super) curve: Option<Curve>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Curve {
    pub(super) scenario: String,
    pub(super) key: String,
    pub(super) unit: String,
    pub(super) about: String,
    pub(super) show: String,
    /// Its heading.
    pub(super) shown: String,
    pub(super) more_is_better: bool,
    /// The key's value, and the number before and after.
    pub(super) at: Vec<[f64; 3]>,
}

/// Returns a reproduction with the runs of each system.
pub(crate) fn of_reproduction(report: &Report, sides: &[Option<Sides>]) -> Reproduced<Value> {
    let all = report.systems.iter().zip(sides);
    Reproduced { systems: all.map(|(s, sides)| system(s, sides.as_ref())).collect() }
}

fn system(s: &SystemReport, sides: Option<&Sides>) -> System<Value> {
    let short = |figure: &str| {
        let own = figure.strip_prefix(&s.name).and_then(|f| f.strip_prefix('.'));
        own.unwrap_or(figure).replace('_', " ")
    };
    let choices = s.constants.choices().iter().map(|c| Choice {
        key: c.key.to_string(),
        value: c.value().to_string(),
        unit: c.unit.to_string(),
        alternatives: c.alternatives.iter().map(ToString::to_string).collect(),
        source: c.from().to_string(),
        set: !c.is_free(),
        rows: c.rows.iter().map(|row| short(row)).collect(),
    });
    let constants = s.constants.iter().map(|c| Constant {
        key: c.key.to_string(),
        value: rounded(c.value),
        unit: c.unit.to_string(),
        source: c.from().to_string(),
        fitted: c.fit_row().is_some(),
    });
    System {
        name: s.name.clone(),
        about: s.about.clone(),
        swapped: s.swapped.is_some_and(|fits| fits > 0),
        freedom: s.freedom,
        combinations: s.combinations,
        rows: s.rows.iter().map(|r| row(r, &short(&r.row.figure))).collect(),
        constants: constants.collect(),
        choices: choices.collect(),
        sensitivity: s.sensitivity.as_ref().map(sensitivity),
        headline: sides.map(headline),
    }
}

fn row(o: &Outcome, short: &str) -> Row {
    let r = &o.row;
    Row {
        figure: r.figure.clone(),
        name: short.to_owned(),
        unit: r.unit.clone(),
        published: r.value,
        spread: r.spread,
        measured: o.measured.as_ref().ok().copied(),
        off_by: o.off_by().map(rounded),
        role: r.role.name().to_owned(),
        side: match r.role {
            side @ (Role::AtOrBelow | Role::AtOrAbove) => Some(format!("{side:?}")),
            _ => None,
        },
        tolerance: r.tolerance,
        tolerance_text: r.tolerance.map(|t| t.to_string()),
        broken: o.is_broken(),
        holds: o.holds,
        known: o.known_miss.is_some(),
        document: r.source.clone(),
        passage: r.passage.clone(),
        inputs: o.inputs.clone(),
        remarks: o.remarks(),
    }
}

fn sensitivity(found: &Sensitivity) -> Moved {
    let moved = found.constants.iter().map(|c| {
        let change = |at: usize| match c.rests(at) {
            Some(true) => Some(0.0),
            _ => c.refitted[at].map(|x| rounded(x * 100.0)),
        };
        MovedBy {
            key: c.key.to_string(),
            by: c.nudge.to_string(),
            fitted: c.fitted,
            changes: (0..found.figures.len()).map(change).collect(),
        }
    });
    Moved { constants: moved.collect() }
}

fn headline(s: &Sides) -> Headline<Value> {
    let both = |runs: &[Ran; 2]| runs.each_ref().map(run);
    let h = &s.headline;
    let curve = h.curve.zip(s.curve.as_ref()).map(|(c, points)| Curve {
        scenario: c.scenario.to_owned(),
        key: c.key.to_owned(),
        unit: points.unit.to_owned(),
        about: points.about.to_owned(),
        show: c.show.to_owned(),
        shown: c.title.to_owned(),
        more_is_better: points.more_is_better,
        at: points.at.iter().map(|(x, [off, on])| [*x, *off, *on]).collect(),
    });
    Headline {
        scenario: h.scenario.to_owned(),
        sides: h.sides().map(str::to_owned),
        bill: both(&s.bill),
        moving: s.moving.as_ref().map(both),
        waiting: s.waiting.as_ref().map(both),
        curve,
    }
}

/// Returns a run as it is printed.
fn run(r: &Ran) -> Value {
    serde_json::to_value(&r.result)
        .unwrap_or_else(|e| unreachable!("a plain result serialises: {e}"))
}

#[cfg(test)]
mod tests;
