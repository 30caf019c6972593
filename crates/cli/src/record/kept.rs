//! Files of results and of records, read back.

use super::{ORIGIN, beside, extension};
use doorbell_console::output::text_of;
use doorbell_console::render::{Record, of_this_schema};
use doorbell_console::{Error, input};
use doorbell_host_io::files;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};

/// Commands whose results can be run again.
pub(crate) const KINDS: [&str; 4] = ["run", "sweep", "rank", "advise"];

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
pub(crate) fn cells(text: &str) -> Vec<Record> {
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
