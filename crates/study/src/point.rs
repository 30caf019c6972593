//! Points: runs that are planned, and made here or on another machine, now or later.
//!
//! A point is a line of JSON: the origin of a result (scenario, profile, the value of every key),
//! and a key, the hash of what decides the numbers. Equal keys have equal numbers, so a point runs
//! once, and its caller may have [kept](Caller::kept) its numbers.

use crate::origin;
use crate::record::{Outcome, head, units as units_of};
use crate::runs::{Caller, each, same_capture};
use crate::sweep::Grid;
use doorbell_spec::InputError;
use doorbell_spec::key::{Key, Kind, Values};
use doorbell_spec::table::Record;
use doorbell_systems::limits::shares;
use doorbell_systems::result::{Measured, Provenance};
use doorbell_systems::{Plan, Registry, on_threads};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// The key of a run's seed, which an origin also has by itself.
pub(crate) const SEED: &str = "run.seed";

/// A run to be made.
#[derive(Clone, Debug)]
pub struct Point {
    /// The hash of all that decides the numbers.
    key: String,
    /// The plan.
    pub plan: Plan,
    /// The settings that its record has, with their values there.
    columns: Record,
    capture_sha256: Option<String>,
}

/// The different origins of points, without their columns.
#[derive(Default, Debug)]
pub struct Origins {
    /// The origins.
    pub all: Vec<Provenance>,
    /// The place of each point's own.
    pub of: Vec<usize>,
}

impl Origins {
    /// Adds the origin of the next point.
    pub fn push(&mut self, one: Provenance) {
        let known = self.all.iter().rposition(|o| *o == one);
        self.of.push(known.unwrap_or(self.all.len()));
        self.all.extend(known.is_none().then_some(one));
    }

    /// Adds those of points of a sweep, which differ in their captures alone.
    pub fn extend(&mut self, grid: &Grid, points: &[Point]) {
        for point in points {
            let is_own = |of: &Provenance| of.capture_sha256 == point.capture_sha256;
            let known = self.all.iter().rposition(is_own);
            self.of.push(known.unwrap_or(self.all.len()));
            self.all.extend(known.is_none().then(|| grid.origin(point)));
        }
    }
}

/// A point, as a line of a plan.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    /// The program that planned it.
    doorbell: String,
    columns: Record,
    #[serde(flatten)]
    of: Provenance,
}

/// Returns the hash of the program and all that decides the numbers of a run: the value of each key
/// of scenario and profile that has an effect, the seed among them, and the bytes of the capture,
/// wherever it is.
fn key(program: &str, plan: &Plan, capture_sha256: Option<&str>) -> String {
    let mut all = format!("{program}\n{}\n", plan.system.name);
    let decides =
        |(key, _): &(&'static Key, _)| key.kind != Kind::File && plan.values.idle(key).is_none();
    for (key, value) in plan.values.iter().filter(decides) {
        let _ = writeln!(all, "{}={value}", key.name);
    }
    all += capture_sha256.unwrap_or_default();
    format!("{:x}", Sha256::digest(all))
}

impl Point {
    /// Creates the point of a plan whose capture has this hash; `columns` are settings for its
    /// record. `program` is the version of the program with the hash of its models.
    pub fn new(
        program: &str,
        plan: Plan,
        columns: Record,
        capture_sha256: Option<String>,
    ) -> Point {
        let key = key(program, &plan, capture_sha256.as_deref());
        Point { key, plan, columns, capture_sha256 }
    }

    /// Reads a line of a plan of this program. `place` is its file and line. Returns the origin
    /// beside it, without what its columns have.
    pub fn parse(
        registry: &Registry,
        program: &str,
        place: &str,
        line: &str,
    ) -> Result<(Point, Provenance), InputError> {
        let wrong = |what: String| InputError::new(place, what);
        let Line { key, doorbell, columns, of } = serde_json::from_str(line)
            .map_err(|e| wrong(format!("it is no point of `sweep --plan`: {e}")))?;
        if doorbell != program {
            return Err(wrong(format!("doorbell {doorbell} planned it, and this is {program}")));
        }
        let plan = registry.again(place, &of)?;
        let point = Point::new(program, plan, columns, of.capture_sha256.clone());
        if point.key != key {
            return Err(wrong("its key is not that of its settings".to_owned()));
        }
        let of = Provenance { settings: origin::settings(&point.plan), ..of };
        let mut of = origin::without(of, |key| point.columns.contains_key(key));
        if point.columns.contains_key(SEED) {
            of.seed = 0;
        }
        Ok((point, of))
    }

    /// Makes the point of a record again. Its settings are those of its origin and of its columns.
    pub fn again(
        registry: &Registry,
        program: &str,
        place: &str,
        mut of: Provenance,
        record: &Record,
    ) -> Result<Point, InputError> {
        let system = registry.system(&of.system).map_err(|e| InputError::new(place, e))?;
        let keys = system.keys();
        // Columns of other systems' records, and of other origins', are empty.
        let is_own =
            |name: &str| keys.iter().any(|k| k.name == name) && !of.settings.contains_key(name);
        let columns = record.iter().filter(|(name, _)| is_own(name));
        let columns: Record = columns.map(|(name, value)| (name.clone(), value.clone())).collect();
        let given = |value: &Value| match value {
            Value::Null => Value::Null,
            Value::String(text) => text.as_str().into(),
            other => other.to_string().into(),
        };
        of.settings.extend(columns.iter().map(|(name, value)| (name.clone(), given(value))));
        let plan = registry.again(place, &of)?;
        Ok(Point::new(program, plan, columns, of.capture_sha256))
    }

    /// Takes a capture of this hash for that of the point, whatever its origin had.
    pub fn on(self, capture_sha256: Option<String>) -> Point {
        Point { capture_sha256, ..self }
    }

    /// Returns the line of a plan. Settings that are as by default are left out.
    pub fn line(&self, program: &str) -> String {
        let (key, columns) = (self.key.clone(), self.columns.clone());
        let defaults = Values::defaults(&self.plan.system.keys());
        let mut of = self.origin();
        of.settings.retain(|name, _| defaults.get(name) != self.plan.values.get(name));
        let line = Line { key, doorbell: program.to_owned(), columns, of };
        let line = serde_json::to_string(&line);
        line.unwrap_or_else(|e| unreachable!("plain values serialise: {e}")) + "\n"
    }

    /// Returns the origin of its results.
    pub(crate) fn origin(&self) -> Provenance {
        origin::of(&self.plan, self.capture_sha256.as_deref())
    }

    /// Returns the record of its run.
    pub fn record(&self, outcome: &Outcome) -> Record {
        let (key, Plan { scenario, profile, .. }) = (self.key.as_str().into(), &self.plan);
        let mut all = Record::from_iter([("key".to_owned(), key)]);
        all.extend(head(scenario, profile, self.columns.clone()));
        outcome.put(self.plan.system, &mut all);
        all
    }
}

/// Returns the outcomes of points in their order, whatever the number of threads. Of equal points
/// one runs, and none if it was kept. Refuses a capture that is not that of its point.
pub fn outcomes<C: Caller>(
    caller: &C,
    threads: usize,
    points: &[Point],
) -> Result<Vec<Arc<Outcome>>, C::Error> {
    let mut seen = BTreeSet::new();
    let once: Vec<&Point> = points.iter().filter(|p| seen.insert(&p.key)).collect();
    let had = on_threads(threads, &once, |_, p| caller.kept(&p.key))?;
    let had = once.iter().zip(had).filter_map(|(p, o)| Some((&*p.key, Arc::new(o?))));
    let mut found: BTreeMap<&str, Arc<Outcome>> = had.collect();
    caller.had(found.len(), once.len());
    let rest: Vec<&Point> = once.into_iter().filter(|p| !found.contains_key(&*p.key)).collect();
    for Point { plan, capture_sha256, .. } in &rest {
        let now = caller.sha256(plan)?;
        same_capture(&plan.scenario, now.as_deref(), capture_sha256.as_deref())?;
    }
    let take = |p: &&Point, m: Measured| {
        let outcome = Outcome::of(&m, &shares(p.plan.system, &p.plan.values, &m));
        caller.keep(&p.key, &outcome)?;
        Ok(Arc::new(outcome))
    };
    let ran = each(caller, (threads, found.len()), &rest, |p| &p.plan, take)?;
    found.extend(rest.iter().map(|p| &*p.key).zip(ran));
    Ok(points.iter().map(|p| found[&*p.key].clone()).collect())
}

/// Returns the units of all numbers and keys of systems, of each of which there is a plan by its
/// name. A key that has another unit in another system has them all, each with its systems.
pub fn units(systems: &BTreeMap<&str, Plan>) -> Map<String, Value> {
    let mut all: BTreeMap<String, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for (system, plan) in systems {
        for (name, unit) in units_of(plan) {
            let unit = unit.as_str().unwrap_or_default().to_owned();
            all.entry(name).or_default().entry(unit).or_default().push(system);
        }
    }
    let one = |units: BTreeMap<String, Vec<&str>>| match units.len() {
        1 => units.into_keys().collect(),
        _ => {
            let all =
                units.iter().map(|(unit, systems)| format!("{unit} ({})", systems.join(", ")));
            all.collect::<Vec<_>>().join("; ")
        }
    };
    all.into_iter().map(|(name, units)| (name, Value::String(one(units)))).collect()
}

#[cfg(test)]
mod tests;
