//! Records for programs, and files of them, one for each point: CSV, NDJSON, and Parquet with typed
//! columns.
//!
//! Each says where it is from ([`About`]): Parquet in its metadata, under `doorbell`; the others
//! hold records alone, so there a file beside it does, `NAME.origin.json`.

pub(crate) mod kept;

use doorbell_console::output::{SHARED, apart, begun_file, keep};
use doorbell_console::render::{self, Format, Program, Record, SCHEMA};
use doorbell_console::{Error, input};
use doorbell_host_io::files;
use doorbell_spec::table::{csv_heads, csv_lines};
use doorbell_study::point::{Origins, Point, units};
use doorbell_study::record::{Outcome, head, is_text, setting};
use doorbell_systems::Plan;
use doorbell_systems::result::{Provenance, RunResult};
use indexmap::IndexMap;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
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

/// Records that are held at a time, and that make a row group of Parquet.
const GROUP: usize = 1024;

/// A file of records, whose name ends in its format. It is opened before the runs, and written
/// after them, when columns and origins are known. Until then all records but the last are in a
/// file without a name beside it.
pub(crate) struct RecordFile {
    file: NamedTempFile,
    path: PathBuf,
    /// That of its origin, if the format has no place for it.
    origin: Option<(NamedTempFile, PathBuf)>,
    shown: String,
    /// The origins of all records.
    pub(crate) origins: Origins,
    /// A plan of each system.
    systems: BTreeMap<&'static str, Plan>,
    columns: Columns,
    aside: Option<BufWriter<File>>,
    last: Vec<Record>,
}

/// The names of all records in the order of their first appearance, and the types of their values
/// so far.
type Columns = IndexMap<String, Option<Physical>>;

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
        let (origins, systems, columns) = (Origins::default(), BTreeMap::new(), Columns::default());
        let (aside, last) = (None, Vec::new());
        Ok(RecordFile { file, path, origin, shown, origins, systems, columns, aside, last })
    }

    /// Adds the records of points.
    pub(crate) fn extend(
        &mut self,
        points: &[Point],
        outcomes: &[Arc<Outcome>],
    ) -> Result<(), Error> {
        for (point, outcome) in points.iter().zip(outcomes) {
            let plan = &point.plan;
            self.systems.entry(plan.system.name).or_insert_with(|| plan.clone());
            self.add(point.record(outcome)).map_err(Error::at(&self.shown))?;
        }
        Ok(())
    }

    fn add(&mut self, record: Record) -> io::Result<()> {
        if self.last.len() == GROUP {
            self.put_aside()?;
        }
        know(&mut self.columns, &record);
        self.last.push(record);
        Ok(())
    }

    fn put_aside(&mut self) -> io::Result<()> {
        let aside = match self.aside.take() {
            Some(aside) => aside,
            None => {
                let dir = self.file.path().parent().unwrap_or(Path::new("."));
                BufWriter::new(tempfile::tempfile_in(dir)?)
            }
        };
        let text = render::records(Format::Ndjson, &self.last);
        self.aside.insert(aside).write_all(text.as_bytes())?;
        self.last.clear();
        Ok(())
    }

    /// Writes all records, and what they are about.
    pub(crate) fn end(mut self) -> Result<(), Error> {
        if self.origins.all.len() > 1 {
            self.columns.insert(ORIGIN.to_owned(), Some(Physical::INT64));
        }
        let about = About::new(std::mem::take(&mut self.origins.all), units(&self.systems)).text();
        self.written(&about).map_err(Error::at(&self.shown))?;
        if let Some((mut file, path)) = self.origin {
            writeln!(file, "{about}").map_err(Error::at(path.display()))?;
            keep(file, &path)?;
        }
        keep(self.file, &self.path)
    }

    fn written(&mut self, about: &str) -> io::Result<()> {
        let of_none = |name: &str| match self.systems.values().any(|plan| is_text(plan, name)) {
            true => Physical::BYTE_ARRAY,
            false => Physical::DOUBLE,
        };
        let columns = self.columns.iter();
        let columns = columns.map(|(name, of)| (&**name, of.unwrap_or_else(|| of_none(name))));
        let columns: Vec<(&str, Physical)> = columns.collect();
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let groups = Groups {
            aside: self.aside.take().map(|all| all.into_inner()).transpose()?,
            last: std::mem::take(&mut self.last),
            origins: names.contains(&ORIGIN).then_some(&self.origins.of),
        };
        match extension(&self.path) {
            "parquet" => {
                let mut rows = Rows::begin(&mut self.file, &columns, about)?;
                groups.each(|group| Ok(rows.group(group)?))?;
                Ok(rows.end()?)
            }
            "csv" => {
                self.file.write_all(csv_heads(&names).as_bytes())?;
                groups.each(|group| self.file.write_all(csv_lines(&names, group).as_bytes()))
            }
            _ => groups.each(|group| {
                self.file.write_all(render::records(Format::Ndjson, group).as_bytes())
            }),
        }
    }
}

/// All records of a file, in groups.
struct Groups<'a> {
    aside: Option<File>,
    last: Vec<Record>,
    /// The origin of each record, if there are several.
    origins: Option<&'a Vec<usize>>,
}

impl Groups<'_> {
    fn each(self, mut take: impl FnMut(&[Record]) -> io::Result<()>) -> io::Result<()> {
        let mut begin = 0;
        let mut taken = |mut group: Vec<Record>| {
            for (record, of) in group.iter_mut().zip(self.origins.iter().flat_map(|o| &o[begin..]))
            {
                record.insert(ORIGIN.to_owned(), (*of).into());
            }
            begin += group.len();
            take(&group)
        };
        if let Some(mut aside) = self.aside {
            aside.rewind()?;
            let mut lines = files::lines(aside).peekable();
            while lines.peek().is_some() {
                let group = lines.by_ref().take(GROUP);
                taken(group.map(|l| Ok(serde_json::from_str(&l?)?)).collect::<io::Result<_>>()?)?;
            }
        }
        taken(self.last)
    }
}

pub(crate) fn extension(path: &Path) -> &str {
    path.extension().and_then(|e| e.to_str()).unwrap_or_default()
}

/// Takes a record's names and types for columns. Values of different types make a column of text.
fn know(columns: &mut Columns, record: &Record) {
    for (name, value) in record {
        let own = match value {
            Value::Null => None,
            Value::Bool(_) => Some(Physical::BOOLEAN),
            Value::Number(n) if n.as_i64().is_some() => Some(Physical::INT64),
            Value::Number(_) => Some(Physical::DOUBLE),
            _ => Some(Physical::BYTE_ARRAY),
        };
        let Some(found) = columns.get_mut(name) else {
            columns.insert(name.clone(), own);
            continue;
        };
        *found = match (*found, own) {
            (known, None) | (None, known) => known,
            (Some(a), Some(b)) if a == b => Some(a),
            (
                Some(Physical::INT64 | Physical::DOUBLE),
                Some(Physical::INT64 | Physical::DOUBLE),
            ) => Some(Physical::DOUBLE),
            _ => Some(Physical::BYTE_ARRAY),
        };
    }
}

/// A Parquet file, a row group at a time.
struct Rows<'c, W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: &'c [(&'c str, Physical)],
}

impl<'c, W: Write + Send> Rows<'c, W> {
    /// Begins a file of these columns, with `about` as its metadata under `doorbell`.
    fn begin(
        out: W,
        columns: &'c [(&'c str, Physical)],
        about: &str,
    ) -> Result<Rows<'c, W>, ParquetError> {
        let field = |(name, physical): &(&str, Physical)| {
            let logical = (*physical == Physical::BYTE_ARRAY).then_some(LogicalType::String);
            let builder = Type::primitive_type_builder(name, *physical);
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
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        Ok(Rows { file, columns })
    }

    /// Writes records as a row group.
    fn group(&mut self, records: &[Record]) -> Result<(), ParquetError> {
        let mut rows = self.file.next_row_group()?;
        for (name, physical) in self.columns {
            let Some(mut to) = rows.next_column()? else {
                unreachable!("the schema has a column for each name")
            };
            let values: Vec<&Value> =
                records.iter().map(|r| r.get(*name).unwrap_or(&Value::Null)).collect();
            match physical {
                Physical::BOOLEAN => put::<BoolType>(&mut to, &values, Value::as_bool)?,
                Physical::INT64 => put::<Int64Type>(&mut to, &values, Value::as_i64)?,
                Physical::DOUBLE => put::<DoubleType>(&mut to, &values, Value::as_f64)?,
                _ => put::<ByteArrayType>(&mut to, &values, |v| match v {
                    Value::Null => None,
                    Value::String(s) => Some(ByteArray::from(s.as_str())),
                    other => Some(ByteArray::from(other.to_string().as_str())),
                })?,
            }
            to.close()?;
        }
        rows.close().map(drop)
    }

    fn end(self) -> Result<(), ParquetError> {
        self.file.close().map(drop)
    }
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
