//! Records for programs, and files of them, one for each point: CSV, NDJSON, and Parquet with typed
//! columns.
//!
//! Each says where it is from ([`About`]): Parquet in its metadata, under `doorbell`; the others
//! hold records alone, so there a file beside it does, `NAME.origin.json`.

pub(crate) mod kept;

use doorbell_console::output::{SHARED, apart, begun_file, keep};
use doorbell_console::render::{self, Format, Program, Record, SCHEMA};
use doorbell_console::{Error, input};
use doorbell_spec::table::names;
use doorbell_study::record::{Outcome, head, setting};
use doorbell_systems::Plan;
use doorbell_systems::result::{Provenance, RunResult};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::NamedTempFile;

/// Returns the record of a run: its origin, all settings, and its numbers.
pub(crate) fn of(plan: &Plan, result: &RunResult) -> Record {
    let settings = plan.values.iter().map(|(key, v)| (key.name.to_owned(), setting(key, v)));
    let mut all = head(&result.of.scenario, &result.of.profile, settings.collect());
    Outcome::of(&result.measured, &result.limits).put(plan.system, &mut all);
    if let (Some(limit), Some(at)) = (&result.limit, all.keys().position(|k| k == "limit_share")) {
        all.shift_insert(at + 1, "binds".to_owned(), limit.binds.into());
    }
    all
}

/// The column that tells which origin of several a record has.
pub(crate) const ORIGIN: &str = "origin";

/// The origin of a file's records, and their units.
#[derive(Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) schema: u32,
    pub(crate) doorbell: Program,
    /// The different origins, with all settings that are no columns. Of several, the column
    /// `origin` has the place of a record's own, from 0.
    pub(crate) of: Vec<Provenance>,
    /// The unit of each number and key that has one.
    pub(crate) units: Map<String, Value>,
}

impl About {
    pub(crate) fn new(of: Vec<Provenance>, units: Map<String, Value>) -> About {
        About { schema: SCHEMA, doorbell: Program::own(), of, units }
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|e| unreachable!("plain values serialise: {e}"))
    }
}

/// Returns the place of the origin of records in a file of another format than Parquet.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".origin.json");
    name.into()
}

/// A file of records, whose name ends in its format. It is opened before the runs.
pub(crate) struct RecordFile {
    file: NamedTempFile,
    path: PathBuf,
    /// That of its origin, if the format has no place for it.
    origin: Option<(NamedTempFile, PathBuf)>,
    shown: String,
}

impl RecordFile {
    /// Opens a file, which cannot be one of those that are read.
    pub(crate) fn begin(path: &Path, read: &[&Path]) -> Result<RecordFile, Error> {
        let shown = path.display().to_string();
        if !matches!(extension(path), "parquet" | "csv" | "ndjson") {
            return Err(input!("--out {shown}: allowed are .parquet, .csv and .ndjson"));
        }
        let beside = (extension(path) != "parquet").then(|| beside(path));
        let written: Vec<&Path> = [path].into_iter().chain(beside.as_deref()).collect();
        apart(&written, read)?;
        let (file, path) = begun_file(path.to_owned(), SHARED)?;
        let origin = beside.map(|path| begun_file(path, SHARED)).transpose()?;
        Ok(RecordFile { file, path, origin, shown })
    }

    /// Writes all records and what they are `about`. `is_text` tells the type of a column without
    /// values.
    pub(crate) fn write(
        mut self,
        records: &[Record],
        about: &About,
        is_text: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        let failed = |e: ParquetError| Error::at(&self.shown)(io::Error::other(e));
        match extension(&self.path) {
            "parquet" => {
                write(&mut self.file, records, &about.text(), &is_text).map_err(failed)?;
            }
            other => {
                let format = if other == "csv" { Format::Csv } else { Format::Ndjson };
                let text = render::records(format, records);
                self.file.write_all(text.as_bytes()).map_err(Error::at(&self.shown))?;
            }
        }
        if let Some((mut file, path)) = self.origin {
            writeln!(file, "{}", about.text()).map_err(Error::at(path.display()))?;
            keep(file, &path)?;
        }
        keep(self.file, &self.path)
    }
}

pub(crate) fn extension(path: &Path) -> &str {
    path.extension().and_then(|e| e.to_str()).unwrap_or_default()
}

/// Returns the type of a column: that of all its values, text if they differ. `is_text` is of a
/// column without values, so that files of parts of a sweep have the same types.
fn column<'a>(is_text: bool, values: impl Iterator<Item = &'a Value>) -> Physical {
    let mut found = None;
    for v in values.filter(|v| !v.is_null()) {
        let own = match v {
            Value::Bool(_) => Physical::BOOLEAN,
            Value::Number(n) if n.as_i64().is_some() => Physical::INT64,
            Value::Number(_) => Physical::DOUBLE,
            _ => Physical::BYTE_ARRAY,
        };
        found = match (found, own) {
            (None, own) => Some(own),
            (Some(a), b) if a == b => Some(a),
            (Some(Physical::INT64 | Physical::DOUBLE), Physical::INT64 | Physical::DOUBLE) => {
                Some(Physical::DOUBLE)
            }
            _ => return Physical::BYTE_ARRAY,
        };
    }
    found.unwrap_or(if is_text { Physical::BYTE_ARRAY } else { Physical::DOUBLE })
}

/// Writes records to a Parquet file, with `about` as the file's metadata under `doorbell`.
fn write(
    out: impl Write + Send,
    records: &[Record],
    about: &str,
    is_text: &dyn Fn(&str) -> bool,
) -> Result<(), ParquetError> {
    let none = Value::Null;
    let columns: Vec<(&str, Vec<&Value>)> = names(records)
        .into_iter()
        .map(|name| (name, records.iter().map(|r| r.get(name).unwrap_or(&none)).collect()))
        .collect();
    let field = |(name, values): &(&str, Vec<&Value>)| {
        let physical = column(is_text(name), values.iter().copied());
        let logical = (physical == Physical::BYTE_ARRAY).then_some(LogicalType::String);
        let builder = Type::primitive_type_builder(name, physical);
        let builder = builder.with_repetition(Repetition::OPTIONAL);
        builder.with_logical_type(logical).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder("doorbell").with_fields(fields).build()?;
    let metadata = KeyValue::new("doorbell".to_owned(), about.to_owned());
    let properties = WriterProperties::builder()
        .set_created_by(format!("doorbell {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![metadata]))
        .build();
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    let mut rows = file.next_row_group()?;
    for (name, values) in &columns {
        let Some(mut to) = rows.next_column()? else {
            unreachable!("the schema has a column for each name")
        };
        match column(is_text(name), values.iter().copied()) {
            Physical::BOOLEAN => put::<BoolType>(&mut to, values, Value::as_bool)?,
            Physical::INT64 => put::<Int64Type>(&mut to, values, Value::as_i64)?,
            Physical::DOUBLE => put::<DoubleType>(&mut to, values, Value::as_f64)?,
            _ => put::<ByteArrayType>(&mut to, values, |v| match v {
                Value::Null => None,
                Value::String(s) => Some(ByteArray::from(s.as_str())),
                other => Some(ByteArray::from(other.to_string().as_str())),
            })?,
        }
        to.close()?;
    }
    rows.close()?;
    file.close().map(drop)
}

/// Writes the values of a column that are not null, and which they are.
fn put<T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    values: &[&Value],
    of: impl Fn(&Value) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let all: Vec<Option<T::T>> = values.iter().map(|v| of(v)).collect();
    let there: Vec<i16> = all.iter().map(|v| i16::from(v.is_some())).collect();
    let given: Vec<T::T> = all.into_iter().flatten().collect();
    to.typed::<T>().write_batch(&given, Some(&there), None).map(drop)
}

#[cfg(test)]
mod tests;
