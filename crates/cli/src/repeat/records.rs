//! Files of records that were kept.

use super::{KINDS, named, sample, verdict};
use crate::archive::Opened;
use crate::plan;
use crate::point::{Runner, program};
use crate::record::{About, ORIGIN, beside, extension};
use doorbell_console::output::text_of;
use doorbell_console::render::{Program, Record, of_this_schema};
use doorbell_console::{Error, input};
use doorbell_host_io::files;
use doorbell_spec::table::csv;
use doorbell_study::point::Point;
use doorbell_study::runs::same_capture;
use doorbell_systems::Registry;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};

/// The formats that can be read back.
pub(crate) const FORMATS: [&str; 3] = ["parquet", "ndjson", "csv"];

/// Returns whether a file is a result that can be run again.
pub(crate) fn is_result(path: &Path) -> bool {
    let read = || -> Option<Value> { serde_json::from_str(&files::text(path).ok()?).ok() };
    extension(path) == "json"
        && read().is_some_and(|r| r["kind"].as_str().is_some_and(|kind| KINDS.contains(&kind)))
}

/// Returns the files of records and results in a directory, in the order of their names.
pub(crate) fn inside(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let at = Error::at(dir.display());
    let all: io::Result<Vec<PathBuf>> =
        std::fs::read_dir(dir).and_then(|all| all.map(|e| Ok(e?.path())).collect());
    let mut all = all.map_err(at)?;
    all.retain(|p| FORMATS.contains(&extension(p)) || is_result(p));
    if all.is_empty() {
        return Err(input!(
            "{}: there is no .parquet, .ndjson or .csv file and no result in it",
            dir.display()
        ));
    }
    all.sort();
    Ok(all)
}

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

/// Reads a file of records. Returns their origin and them.
pub(crate) fn parts(path: &Path) -> Result<(Value, Vec<Record>), Error> {
    let name = path.display().to_string();
    let (about, records) = match extension(path) {
        "parquet" => of_parquet(&name, path)?,
        "csv" => of_csv(&name, path)?,
        _ => of_lines(&name, path)?,
    };
    let about: Value =
        serde_json::from_str(&about).map_err(|e| input!("{name}: its origin is not JSON: {e}"))?;
    of_this_schema(&name, &about)?;
    Ok((about, records))
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

/// Reads records of lines, and the file beside them with their origin.
fn of_lines(name: &str, path: &Path) -> Result<(String, Vec<Record>), Error> {
    let origin = beside(path);
    let about = text_of(&origin.display().to_string(), &origin)?;
    let file = files::open(path).map_err(Error::at(name))?;
    let lines = files::lines(file).enumerate().map(|(n, line)| {
        let place = format!("{name}:{}", n + 1);
        let line = line.map_err(Error::at(&place))?;
        serde_json::from_str(&line).map_err(|e| input!("{place}: it is no record: {e}"))
    });
    Ok((about, lines.collect::<Result<_, _>>()?))
}

/// Reads the records of a CSV file, whose values are text, and the file beside it.
fn of_csv(name: &str, path: &Path) -> Result<(String, Vec<Record>), Error> {
    let origin = beside(path);
    let about = text_of(&origin.display().to_string(), &origin)?;
    Ok((about, cells(&files::text(path).map_err(Error::at(name))?)))
}

/// Reads records of CSV. An empty cell is null, and the place of an origin is a number.
fn cells(text: &str) -> Vec<Record> {
    let (mut lines, mut cell, mut quoted) = (vec![Vec::new()], String::new(), false);
    let mut all = text.chars().peekable();
    while let Some(c) = all.next() {
        match c {
            '"' if quoted && all.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => quoted = !quoted,
            ',' | '\n' if !quoted => {
                lines.last_mut().into_iter().for_each(|l| l.push(std::mem::take(&mut cell)));
                lines.extend((c == '\n').then(Vec::new));
            }
            c => cell.push(c),
        }
    }
    let mut lines = lines.into_iter().filter(|line| !line.is_empty());
    let heads = lines.next().unwrap_or_default();
    let value = |(name, text): (&String, String)| {
        // Text that a spreadsheet would take for a formula has an apostrophe before it.
        let text = text.strip_prefix('\'').unwrap_or(&text);
        let value = match text.parse::<u64>() {
            _ if text.is_empty() => Value::Null,
            Ok(place) if name == ORIGIN => place.into(),
            _ => text.into(),
        };
        (name.clone(), value)
    };
    lines.map(|line| heads.iter().zip(line).map(value).collect()).collect()
}

/// Reads the records of a Parquet file, and its metadata.
fn of_parquet(name: &str, path: &Path) -> Result<(String, Vec<Record>), Error> {
    let wrong = |e: parquet::errors::ParquetError| input!("{name}: {e}");
    let file = files::open(path).map_err(Error::at(name))?;
    let file = SerializedFileReader::new(file).map_err(wrong)?;
    let metadata = file.metadata().file_metadata().key_value_metadata();
    let about = metadata.and_then(|all| all.iter().find(|m| m.key == "doorbell"));
    let about = about.and_then(|m| m.value.clone());
    let about =
        about.ok_or_else(|| input!("{name}: it has no origin: doorbell did not write it"))?;
    let record = |row: Result<parquet::record::Row, _>| {
        let row = row.map_err(wrong)?;
        let value = |field: &Field| match field {
            Field::Bool(b) => (*b).into(),
            Field::Long(n) => (*n).into(),
            Field::Double(x) => (*x).into(),
            Field::Str(text) => text.as_str().into(),
            _ => Value::Null,
        };
        Ok(row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect())
    };
    let rows = file.get_row_iter(None).map_err(wrong)?;
    Ok((about, rows.map(record).collect::<Result<_, Error>>()?))
}

#[cfg(test)]
mod tests;
