//! A sweep: one scenario over all combinations of the values of some keys.
//!
//! Each combination of the keys that it goes over is a row. The values of the key that it goes
//! across stand side by side, as columns.

use crate::axis::Axis;
use crate::origin;
use crate::point::Point;
use crate::record::{Outcome, setting, units};
use crate::shown::{self, Shown};
use doorbell_spec::InputError;
use doorbell_spec::key::{self, Key};
use doorbell_spec::table::Record;
use doorbell_systems::result::Provenance;
use doorbell_systems::{Plan, Registry, Setting};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Range;
use std::sync::Arc;

/// The most runs of a sweep.
pub const MOST: usize = 10_000_000;

/// A part of a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    part: usize,
    of: usize,
}

impl Shard {
    /// Parses `3/16`.
    pub fn parse(text: &str) -> Result<Shard, &'static str> {
        let parsed =
            text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parsed {
            Some((part, of)) if (1..=of).contains(&part) => Ok(Shard { part, of }),
            _ => Err("allowed are 1/N to N/N, such as 3/16"),
        }
    }

    /// Returns the part's share of so many rows: rows that follow each other, as many as in any
    /// other part, or one more or less. There is none if a part would be empty.
    fn rows(self, all: usize) -> Option<Range<usize>> {
        let begin = |part: usize| (all as u128 * part as u128 / self.of as u128) as usize;
        (self.of <= all).then(|| begin(self.part - 1)..begin(self.part))
    }
}

/// The rows and columns of a sweep.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The keys whose combinations are the rows; the last one changes fastest.
    pub over: Vec<Axis>,
    /// The key whose values are the columns.
    pub across: Option<Axis>,
    /// The rows that are run, of all.
    rows: Range<usize>,
}

impl Grid {
    /// Parses the axes of `--over` and `--across`, beside settings of `--set`. Refuses a key that
    /// is set twice, and more than [`MOST`] combinations.
    pub fn parse(
        over: &[String],
        across: Option<&str>,
        sets: &[String],
    ) -> Result<Grid, InputError> {
        let over = over.iter().map(|t| Axis::parse("--over", t)).collect::<Result<_, _>>()?;
        let across = across.map(|t| Axis::parse("--across", t)).transpose()?;
        let mut grid = Grid { over, across, rows: 0..0 };
        grid.once(sets)?;
        let runs: u128 = grid.axes().fold(1, |n, a| n.saturating_mul(a.values.len() as u128));
        if runs > MOST as u128 {
            let what = format!(
                "the values make {runs} runs, and a sweep has {MOST} at most; give a part of the \
                 values to each of several"
            );
            return Err(InputError::new("--over", what));
        }
        grid.rows = 0..runs as usize / grid.width();
        Ok(grid)
    }

    /// Refuses a key that is set twice: a run would have only its last value.
    fn once(&self, sets: &[String]) -> Result<(), InputError> {
        for (n, Axis { option, key, values }) in self.axes().enumerate() {
            if let Some(before) = self.axes().take(n).find(|a| a.key == *key) {
                let place = format!("{option} {key}={}", values.join(","));
                let before = before.option;
                let what = format!("{before} has it already, and a run has one value of it");
                return Err(InputError::new(place, what));
            }
            let is_key = |set: &&String| set.split_once('=').is_some_and(|(k, _)| k.trim() == key);
            if let Some(set) = sets.iter().find(is_key) {
                let what = format!("{option} gives every run a value of it");
                return Err(InputError::new(format!("--set {set}"), what));
            }
        }
        Ok(())
    }

    /// Keeps the rows of one part, of which none may be empty.
    pub fn keep(&mut self, part: Shard) -> Result<(), InputError> {
        let rows = self.rows.len();
        let what = || format!("there are {rows} rows, so at most as many parts");
        self.rows = part.rows(rows).ok_or_else(|| InputError::new("--shard", what()))?;
        Ok(())
    }

    /// Returns all axes.
    pub fn axes(&self) -> impl Iterator<Item = &Axis> {
        self.over.iter().chain(&self.across)
    }

    /// Returns whether this key is one of an axis.
    pub(crate) fn is_axis(&self, key: &str) -> bool {
        self.axes().any(|a| a.key == key)
    }

    /// Returns the number of columns.
    fn width(&self) -> usize {
        self.across.as_ref().map_or(1, |a| a.values.len())
    }

    /// Returns the runs of the rows that were kept.
    pub fn runs(&self) -> Range<usize> {
        self.runs_of(&self.rows)
    }

    /// Returns the number of rows that were kept.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the values of a row.
    fn row(&self, mut n: usize) -> Vec<&str> {
        let mut values: Vec<&str> = Vec::with_capacity(self.over.len());
        for Axis { values: all, .. } in self.over.iter().rev() {
            values.push(&all[n % all.len()]);
            n /= all.len();
        }
        values.reverse();
        values
    }

    /// Returns the settings of a run.
    pub fn settings(&self, n: usize) -> Vec<Setting> {
        let (row, column) = (self.row(n / self.width()), n % self.width());
        let row = self.over.iter().zip(row).map(|(a, v)| a.setting(v));
        row.chain(self.across.iter().map(|a| a.setting(&a.values[column]))).collect()
    }

    /// Returns the runs of all rows.
    pub fn all(&self) -> Range<usize> {
        0..self.axes().map(|a| a.values.len()).product()
    }

    /// Returns the runs whose plans show a wrong value before the first has run: those of the kept
    /// rows, and of the others those with the first value of all keys but one.
    pub fn samples(&self) -> impl Iterator<Item = usize> + use<'_> {
        let (own, lengths) = (self.runs(), self.axes().map(|a| a.values.len()));
        let lengths: Vec<usize> = lengths.collect();
        // The last key changes fastest.
        let step = move |axis: usize| lengths[axis + 1..].iter().product::<usize>();
        let along = self.axes().enumerate().flat_map(move |(axis, a)| {
            let step = step(axis);
            (0..a.values.len()).map(move |n| n * step)
        });
        let (kept, own) = (own.clone(), own);
        own.chain(along.filter(move |n| !kept.contains(n)))
    }

    /// Returns the kept rows in parts of about as many runs.
    pub fn parts(&self, runs: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (rows, some) = (self.rows.clone(), (runs / self.width()).max(1));
        rows.clone().step_by(some).map(move |begin| begin..rows.end.min(begin + some))
    }

    /// Returns the runs of some rows.
    pub fn runs_of(&self, rows: &Range<usize>) -> Range<usize> {
        rows.start * self.width()..rows.end * self.width()
    }

    /// Returns the axes whose values are text in all records: some of them are no numbers.
    pub fn words(&self, plan: &Plan) -> Vec<&Axis> {
        let is_number = |key: &Key, v: &String| {
            key.parse(v).is_ok_and(|value| setting(key, &value).is_number())
        };
        let has_words = |a: &&Axis| {
            plan.values.find(&a.key).is_some_and(|(k, _)| !a.values.iter().all(|v| is_number(k, v)))
        };
        self.axes().filter(has_words).collect()
    }

    /// Returns the settings of a plan for its record, each of one type in all records.
    pub fn columns(&self, plan: &Plan, words: &[&Axis]) -> Record {
        let column = |(key, value): (&'static Key, &key::Value)| {
            let name = key.name;
            let value = match setting(key, value) {
                Value::Number(n) if words.iter().any(|a| a.key == name) => n.to_string().into(),
                value => value,
            };
            (name.to_owned(), value)
        };
        plan.values.iter().filter(|(key, _)| self.is_axis(key.name)).map(column).collect()
    }

    /// Returns the origin that all runs share, by that of one of them.
    pub(crate) fn origin(&self, one: &Point) -> Provenance {
        origin::without(one.origin(), |key| self.is_axis(key))
    }
}

/// A number of a row, or one for each column.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Numbers {
    /// The only one.
    One(f64),
    /// By the value of the key across.
    Across(IndexMap<String, f64>),
}

impl Numbers {
    /// Returns all of them.
    pub fn all(&self) -> Vec<f64> {
        match self {
            Numbers::One(n) => vec![*n],
            Numbers::Across(all) => all.values().copied().collect(),
        }
    }
}

/// A value of a key in a row.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "describes what `setting` returns")]
enum Given {
    Number(f64),
    Word(String),
}

/// A row of a sweep.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SweptRow")]
pub struct Row {
    /// The values of its keys as they were given.
    #[serde(skip)]
    pub given: Vec<String>,
    /// The value of each `--over` key, in its unit: a number or a word; null if it was given as
    /// empty.
    #[schemars(with = "IndexMap<String, Option<Given>>")]
    pub keys: IndexMap<String, Value>,
    /// Each number of `--show`; with `--across` one for each of its values.
    pub values: IndexMap<String, Numbers>,
    /// The checks that failed.
    pub audit: Vec<String>,
}

impl Row {
    /// Returns the row with the outcomes of its columns.
    fn with(
        self,
        columns: Option<&Vec<String>>,
        shown: &[Shown<'_>],
        outcomes: &[Arc<Outcome>],
    ) -> Result<Row, InputError> {
        let numbers = |s: &Shown<'_>| -> Result<_, InputError> {
            let value = |o: &Arc<Outcome>| Ok::<_, InputError>(s.of(&o.numbers)?.0);
            let all = match columns {
                None => Numbers::One(value(&outcomes[0])?),
                Some(columns) => {
                    let all = columns.iter().zip(outcomes);
                    let all = all.map(|(v, o)| Ok::<_, InputError>((v.clone(), value(o)?)));
                    Numbers::Across(all.collect::<Result<_, _>>()?)
                }
            };
            Ok((s.text.to_owned(), all))
        };
        let values = shown.iter().map(numbers).collect::<Result<_, _>>()?;
        let audit = outcomes.iter().flat_map(|o| o.audit.clone()).collect();
        Ok(Row { values, audit, ..self })
    }
}

/// The results of a sweep.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Swept {
    /// The origin, without the keys of the axes.
    pub of: Provenance,
    /// The keys that it goes over, with their values as they were given.
    pub over: IndexMap<String, Vec<String>>,
    /// The key across, with its values; empty without one.
    pub across: IndexMap<String, Vec<String>>,
    /// The units of keys and numbers that have one.
    pub units: IndexMap<String, String>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Runs that lose frames. Their latencies are those of the frames that were left.
    #[serde(default)]
    pub lose_frames: usize,
}

impl Swept {
    /// Creates the results of a grid, of which this is a point, without rows.
    pub fn begin(grid: &Grid, shown: &[Shown<'_>], one: &Point) -> Swept {
        let all = units(&one.plan);
        let unit = |a: &Axis| Some((a.key.clone(), all.get(&a.key)?.as_str()?.to_owned()));
        let values = |a: &Axis| (a.key.clone(), a.values.clone());
        Swept {
            of: grid.origin(one),
            over: grid.over.iter().map(values).collect(),
            across: grid.across.iter().map(values).collect(),
            units: grid.axes().filter_map(unit).chain(shown::units(shown)).collect(),
            rows: Vec::new(),
            lose_frames: 0,
        }
    }

    /// Adds some rows with the outcomes of their points.
    pub fn extend(
        &mut self,
        (grid, rows): (&Grid, Range<usize>),
        shown: &[Shown<'_>],
        points: &[Point],
        outcomes: &[Arc<Outcome>],
    ) -> Result<(), InputError> {
        let row = |(n, (points, outcomes)): (usize, (&[Point], &[Arc<Outcome>]))| {
            let value = |a: &Axis| {
                let (key, value) = points[0].plan.values.find(&a.key)?;
                Some((a.key.clone(), setting(key, value)))
            };
            Row {
                given: grid.row(n).into_iter().map(str::to_owned).collect(),
                keys: grid.over.iter().filter_map(value).collect(),
                values: IndexMap::new(),
                audit: Vec::new(),
            }
            .with(grid.across.as_ref().map(|a| &a.values), shown, outcomes)
        };
        let runs = points.chunks(grid.width()).zip(outcomes.chunks(grid.width()));
        for row in rows.zip(runs).map(row) {
            self.rows.push(row?);
        }
        self.lose_frames += outcomes.iter().filter(|o| o.loses_frames()).count();
        Ok(())
    }

    /// Makes the points of some rows again, row by row. `place` is the file of the results.
    pub fn points(
        &self,
        registry: &Registry,
        program: &str,
        place: &str,
        rows: &[Row],
    ) -> Result<Vec<Point>, InputError> {
        let mut points = Vec::new();
        for row in rows {
            let keys: Record = row.keys.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            let across = self.across.first().map(|(key, all)| (key, &all[..]));
            let columns = across.map_or(vec![None], |(key, all)| {
                all.iter().map(|v| Some((key.clone(), v.as_str().into()))).collect()
            });
            for column in columns {
                let record = keys.clone().into_iter().chain(column).collect();
                points.push(Point::again(registry, program, place, self.of.clone(), &record)?);
            }
        }
        Ok(points)
    }

    /// Returns these rows with the outcomes of their points.
    pub fn again(
        &self,
        rows: &[Row],
        points: &[Point],
        outcomes: &[Arc<Outcome>],
    ) -> Result<Vec<Row>, InputError> {
        let names: Vec<&String> = rows.iter().take(1).flat_map(|r| r.values.keys()).collect();
        let shown = names.iter().map(|n| Shown::parse("--show", n, points[0].plan.system));
        let shown = shown.collect::<Result<Vec<_>, _>>()?;
        let columns = self.across.first().map(|(_, all)| all);
        let each = rows.iter().zip(outcomes.chunks(columns.map_or(1, Vec::len)));
        each.map(|(row, outcomes)| row.clone().with(columns, &shown, outcomes)).collect()
    }
}

#[cfg(test)]
mod tests;
