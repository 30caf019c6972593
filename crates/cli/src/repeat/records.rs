//! Files of records that were kept.

use super::{named, sample, verdict};
use crate::archive::Opened;
use crate::plan;
use crate::point::{Runner, program};
use crate::record::kept::{cells, parts};
use crate::record::{About, ORIGIN, extension};
use doorbell_console::render::{Program, Record};
use doorbell_console::{Error, input};
use doorbell_spec::table::csv;
use doorbell_study::point::Point;
use doorbell_study::runs::same_capture;
use doorbell_systems::Registry;
use serde_json::Value;
use std::path::Path;

/// Records that were kept, and the points that make them again.
pub(super) struct Kept {
    name: String,
    about: About,
    /// Of the file, in all.
    rows: usize,
    /// Each with its row, from 1.
    sample: Vec<(usize, Record)>,
    /// Those of the sample.
    points: Vec<Point>,
}

impl Kept {
    /// Reads a file, and this share of its records.
    pub(super) fn read(
        registry: &Registry,
        path: &Path,
        from: Option<&Opened>,
        percent: f64,
    ) -> Result<Kept, Error> {
        let name = named(path, from);
        let (mut about, mut records) = parts(path)?;
        if let Some(archive) = from {
            archive.relocate(&mut about);
            records.iter_mut().for_each(|record| archive.relocate_members(record));
        }
        let about: About = serde_json::from_value(about)
            .map_err(|e| input!("{name}: its origin is not whole: {e}"))?;
        let rows = records.len();
        let mut chosen = sample(rows, percent).into_iter().peekable();
        let is_chosen = |(i, _): &(usize, Record)| chosen.next_if_eq(i).is_some();
        let sample = records.into_iter().enumerate().filter(is_chosen);
        let sample: Vec<(usize, Record)> = sample.map(|(i, record)| (i + 1, record)).collect();
        let points = sample.iter().map(|(row, record)| {
            let place = format!("{name}: record {row}");
            point(registry, &place, record, &about)
        });
        let points = points.collect::<Result<_, _>>()?;
        Ok(Kept { name, about, rows, sample, points })
    }

    /// Runs the records again, and says what differs. Returns whether they are the same.
    pub(super) fn again(&self, runner: impl Fn(&str) -> Runner) -> Result<bool, Error> {
        let own = Program::own();
        let tool: Vec<String> = match self.about.doorbell == own {
            true => Vec::new(),
            false => vec![format!("{} made it, and this is {own}", self.about.doorbell)],
        };
        // A point's key has the hash of the models.
        let is_other = |name: &str| name == "key" && self.about.doorbell.models != own.models;
        let outcomes = runner(&self.name).run(&self.points)?;
        let mut found = Vec::new();
        for (((row, then), point), outcome) in self.sample.iter().zip(&self.points).zip(outcomes) {
            let mut now = point.record(&outcome);
            if extension(Path::new(&self.name)) == "csv" {
                now = cells(&csv(&[now])).into_iter().next().unwrap_or_default();
            }
            let new = now.keys().filter(|name| !then.contains_key(*name));
            let names = then.keys().filter(|name| *name != ORIGIN).chain(new);
            for name in names.filter(|name| !is_other(name)) {
                let [a, b] = [then, &now].map(|record| record.get(name).unwrap_or(&Value::Null));
                if !same(a, b) {
                    found.push(format!("record {row}: {name} was {a}, and is {b}"));
                }
            }
        }
        let of = match self.sample.len() {
            n if n == self.rows => format!("{n} records"),
            n => format!("{n} of {} records", self.rows),
        };
        verdict(&self.name, &of, &tool, &found)
    }
}

/// Returns whether two values of a record are the same to the last bit. A whole number may be of
/// either type, and a column of several types is text.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
            a.as_f64().map(f64::to_bits) == b.as_f64().map(f64::to_bits)
        }
        (Value::String(then), Value::Number(_) | Value::Bool(_)) => {
            let now = b.to_string();
            *then == now
        }
        _ => a == b,
    }
}

/// Returns the point of a record: its settings are those of its origin and of its columns.
fn point(registry: &Registry, place: &str, record: &Record, about: &About) -> Result<Point, Error> {
    let at = record.get(ORIGIN).map_or(Some(0), Value::as_u64);
    let of = at.and_then(|n| about.of.get(n as usize));
    let of = of.cloned().ok_or_else(|| input!("{place}: its origin is missing"))?;
    let capture = of.capture_sha256.clone();
    let point = Point::again(registry, &program(), place, of, record)?;
    same_capture(place, plan::sha256(&point.plan)?.as_deref(), capture.as_deref())?;
    Ok(point)
}

#[cfg(test)]
mod tests;
