//! Rendering of results: one model of headings, lines and tables, shown as text for a terminal,
//! Markdown or CSV, and JSON for programs. Also numbers as people read them.

use crate::{Error, input};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use doorbell_hal::Unit;
use doorbell_spec::Sum;
use doorbell_spec::metric::Kind;
use doorbell_spec::number::rounded;
use doorbell_spec::table::csv;
pub use doorbell_spec::table::{Cell, Record, Table, Tone};
use indicatif::HumanCount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::sync::OnceLock;
use std::{borrow::Cow, fmt, io::stdout};
use terminal_size::terminal_size_of;

/// The most columns of a line in a terminal.
const WIDTH: usize = 100;
/// The width of a name.
const NAME: usize = 26;
/// The usual width of a number.
pub const NUMBER: usize = 15;

/// An output format.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// For people
    Table,
    /// For documents, and for the summary of a CI run
    Markdown,
    /// For spreadsheets: records, numbers with all digits
    Csv,
    /// For programs: the records of csv, each an object in a line
    Ndjson,
    /// A line chart; of a sweep, over the last --over key
    Svg,
    /// For programs: the whole result, as `schema result` describes it
    Json,
}

/// The formats of a command whose result has records.
pub const PLAIN: &[Format] = &[Format::Table, Format::Csv, Format::Ndjson, Format::Json];
/// The formats of a command whose result is a document of tables, with records.
pub const PAGES: &[Format] =
    &[Format::Table, Format::Markdown, Format::Csv, Format::Ndjson, Format::Json];
/// The formats of a command whose result can be drawn, too.
pub const CHARTS: &[Format] =
    &[Format::Table, Format::Markdown, Format::Csv, Format::Ndjson, Format::Svg, Format::Json];
/// The formats of a command whose result has no records.
pub const NO_RECORDS: &[Format] = &[Format::Table, Format::Markdown, Format::Json];

impl Format {
    /// Returns a parser that accepts the formats that a command offers.
    pub fn among(offered: &'static [Format]) -> impl TypedValueParser<Value = Format> {
        let names = offered.iter().filter_map(ValueEnum::to_possible_value);
        PossibleValuesParser::new(names).try_map(|name| Format::from_str(&name, false))
    }
}

/// A result for people.
#[derive(Default)]
pub struct Document {
    blocks: Vec<Block>,
    /// For programs, instead of the rows of its table.
    records: Option<Vec<Record>>,
}

enum Block {
    Heading(String),
    Line(String),
    Gap,
    /// Lines that stand as they are, such as messages with file and line.
    Literal(Vec<String>),
    Table(Table),
}

impl From<Table> for Document {
    fn from(table: Table) -> Document {
        Document { blocks: vec![Block::Table(table)], records: None }
    }
}

impl Document {
    /// Starts a document with a heading.
    pub fn titled(title: impl Into<String>) -> Document {
        Document { blocks: vec![Block::Heading(title.into())], records: None }
    }

    /// Sets the records for programs.
    pub fn with(self, records: Vec<Record>) -> Document {
        Document { records: Some(records), ..self }
    }

    /// Adds a line.
    pub fn line(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Line(text.into()));
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.blocks.push(Block::Gap);
    }

    /// Adds lines that stand as they are.
    pub fn literal(&mut self, lines: Vec<String>) {
        self.blocks.push(Block::Literal(lines));
    }

    /// Adds a table unless it has no rows.
    pub fn table(&mut self, table: Table) {
        if !table.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }

    /// Renders the document, or `data` in the format for programs.
    pub fn show(&self, format: Format, kind: &str, data: &impl Serialize) -> String {
        match format {
            Format::Json => json(kind, data),
            Format::Csv | Format::Ndjson => records(format, &self.records()),
            Format::Markdown => self.markdown(),
            Format::Table | Format::Svg => self.text(),
        }
    }

    /// Renders it for a terminal.
    pub fn text(&self) -> String {
        let room = terminal_size_of(stdout()).map_or(usize::MAX, |(width, _)| width.0.into());
        let block = |(n, b): (usize, &Block)| match b {
            Block::Heading(title) => {
                format!("\n {title}\n {}\n", "═".repeat(title.chars().count().min(WIDTH - 2)))
            }
            Block::Line(text) => format!(" {text}\n"),
            Block::Gap => "\n".to_owned(),
            Block::Literal(lines) => lines.iter().map(|l| format!("{l}\n")).collect(),
            Block::Table(t) => if n > 0 { "\n" } else { "" }.to_owned() + &t.text(room),
        };
        self.blocks.iter().enumerate().map(block).collect()
    }

    fn markdown(&self) -> String {
        let block = |b: &Block| match b {
            Block::Heading(title) => format!("### {title}\n\n"),
            Block::Line(text) => format!("{}\n\n", text.trim()),
            Block::Gap => String::new(),
            Block::Literal(lines) if lines.is_empty() => String::new(),
            Block::Literal(lines) => format!("```\n{}\n```\n\n", lines.join("\n")),
            Block::Table(t) => t.markdown() + "\n",
        };
        self.blocks.iter().map(block).collect::<String>().trim_end().to_owned() + "\n"
    }

    fn records(&self) -> Cow<'_, [Record]> {
        let first = self.blocks.iter().find_map(|b| match b {
            Block::Table(t) => Some(t.records()),
            _ => None,
        });
        self.records.as_deref().map_or_else(|| first.unwrap_or_default().into(), Cow::Borrowed)
    }
}

/// Renders records for programs, as CSV or each as an object in a line.
pub fn records(format: Format, all: &[Record]) -> String {
    match format {
        Format::Csv => csv(all),
        _ => all.iter().map(|r| Value::Object(r.clone()).to_string() + "\n").collect(),
    }
}

/// Returns records of the members of each object that are no lists or objects themselves.
pub fn flat(objects: impl IntoIterator<Item = impl Serialize>) -> Vec<Record> {
    let flat = |object| {
        let Ok(Value::Object(mut all)) = serde_json::to_value(object) else {
            unreachable!("plain objects serialise")
        };
        all.retain(|_, v| !v.is_array() && !v.is_object());
        all
    };
    objects.into_iter().map(flat).collect()
}

/// Version of the schema of results. Results of another version are refused.
pub const SCHEMA: u32 = 1;

/// The program that made a result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    version: Cow<'static, str>,
    /// The commit of its source; null if it was not built in a repository.
    commit: Option<Cow<'static, str>>,
    /// The hash of the sources that decide the numbers of a run; empty in files from before it.
    #[serde(default)]
    pub models: Cow<'static, str>,
}

impl Program {
    /// Returns this one.
    pub fn own() -> Program {
        let commit = Some(env!("DOORBELL_COMMIT")).filter(|c| !c.is_empty());
        Program {
            version: env!("CARGO_PKG_VERSION").into(),
            commit: commit.map(Cow::Borrowed),
            models: models().into(),
        }
    }
}

/// The hash of what decides the numbers of a run, if that is more than the sources here.
static MODELS: OnceLock<String> = OnceLock::new();

/// Returns the hash of what decides the numbers of a run: the sources of the built-in models, or
/// the program with systems of its own.
pub fn models() -> &'static str {
    MODELS.get().map_or(env!("DOORBELL_MODEL"), String::as_str)
}

/// Takes this program as a whole for the models, with the driver that it loads: it has systems of
/// its own, whose sources nobody else knows.
pub fn has_own_models(driver: Option<&Path>) -> Result<(), Error> {
    if MODELS.get().is_none() {
        let program = std::env::current_exe().and_then(std::fs::read);
        let program = program.map_err(Error::at("the program itself"))?;
        // Only the same program is to have the same, and a fast one does for that.
        let mut hasher = DefaultHasher::new();
        hasher.write(&program);
        if let Some(file) = driver {
            hasher.write(&std::fs::read(file).map_err(Error::at(file.display()))?);
        }
        MODELS.get_or_init(|| format!("{:016x}", hasher.finish()));
    }
    Ok(())
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commit = self.commit.as_deref().map(|c| format!(" ({c})")).unwrap_or_default();
        write!(f, "doorbell {}{commit}", self.version)?;
        if self.models.is_empty() { Ok(()) } else { write!(f, " with models {}", self.models) }
    }
}

/// Renders an object for programs, behind the schema's version, the program's, and its own kind.
pub fn json(kind: &str, data: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Whole<'a, T> {
        schema: u32,
        doorbell: Program,
        kind: &'a str,
        #[serde(flatten)]
        data: &'a T,
    }
    let doorbell = Program::own();
    let text = serde_json::to_string_pretty(&Whole { schema: SCHEMA, doorbell, kind, data });
    text.unwrap_or_else(|e| unreachable!("plain values serialise: {e}")) + "\n"
}

/// Refuses a value that is not a result of this schema.
pub fn of_this_schema(from: &str, result: &Value) -> Result<(), Error> {
    match &result["schema"] {
        v if *v == SCHEMA => Ok(()),
        Value::Null => Err(input!("{from}: it is no result: its member `schema` is missing")),
        other => Err(input!("{from}: it has schema {other}, but this doorbell reads {SCHEMA}")),
    }
}

/// Returns an empty table of names, numbers of this width, and a note about each.
pub fn numbers(title: &str, heads: &[&str], width: usize) -> Table {
    let widths = std::iter::once(NAME).chain(heads.iter().map(|_| width)).collect();
    let all = [title].into_iter().chain(heads.iter().copied());
    Table::new(all).right(1..=heads.len()).fixed(widths)
}

/// Returns an empty table of names, numbers of this width, the halves of their 95 % intervals, and
/// a note about each.
pub fn estimates(title: &str, unit: &str, width: usize) -> Table {
    const SHARE: usize = 8;
    Table::new([title, unit, "±"]).right(1..=2).fixed(vec![NAME, width, SHARE])
}

/// Lists things after a word, in lines of at most 100 columns.
pub fn wrapped(first: &str, things: &[String]) -> String {
    let mut text = first.to_owned();
    let mut column = 1 + text.chars().count();
    for (i, thing) in things.iter().enumerate() {
        let comma = if i + 1 < things.len() { "," } else { "" };
        if column + 1 + thing.chars().count() + comma.len() > WIDTH {
            text += "\n   ";
            column = 3;
        }
        text += &format!(" {thing}{comma}");
        column += 1 + thing.chars().count() + comma.len();
    }
    text
}

/// Formats a count with its digits in groups of three.
pub fn count(n: u64) -> String {
    HumanCount(n).to_string()
}

/// Formats a quotient with five digits, and at most three after the point.
pub fn amount(x: f64) -> String {
    match x.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.001 => format!("{x:.1e}"),
        size if size < 100.0 => format!("{x:.3}"),
        size if size < 1000.0 => format!("{x:.2}"),
        size if size < 100_000.0 => format!("{x:.1}"),
        _ => format!("{x:.0}"),
    }
}

/// Formats `all` divided by `n`, or `-` if `n` is zero.
pub fn each(all: f64, n: f64) -> String {
    if n > 0.0 { amount(all / n) } else { "-".to_owned() }
}

/// Returns a number in the unit that people use.
pub fn people(unit: Unit, value: f64) -> (f64, &'static str) {
    match unit {
        Unit::Share => (value * 100.0, "%"),
        Unit::BitsPerSecond => (value / 1e9, "Gbit/s"),
        Unit::PacketsPerSecond => (value / 1e6, "Mpps"),
        Unit::Count
        | Unit::Bytes
        | Unit::Cycles
        | Unit::Nanoseconds
        | Unit::Microseconds
        | Unit::PerSecond => (value, ""),
    }
}

/// Returns a value of a number of runs in the unit for people.
pub fn people_of(sum: &Sum, value: f64) -> f64 {
    if sum.kind() != Some(Kind::Rate) {
        return value;
    }
    let (shown, unit) = people(sum.unit(), value);
    // As many digits as `run` shows, and more of a low rate. Further ones depend on the time.
    let digits = match unit {
        "" => return rounded(shown),
        "%" => 1e2,
        _ if shown.abs() < 0.01 => 1e6,
        _ => 1e3,
    };
    (shown * digits).round() / digits
}

/// Returns its name for a column with this label, with the unit for people.
pub fn with_unit((text, sum): (&str, &Sum), label: &str) -> String {
    let unit = match sum.kind() {
        Some(Kind::Rate) => people(sum.unit(), 0.0).1,
        Some(Kind::Latency) => sum.unit().name(),
        _ => "",
    };
    let space = if label.is_empty() { "" } else { " " };
    let comma = if unit.is_empty() { "" } else { ", " };
    format!("{text}{space}{label}{comma}{unit}")
}

/// Formats a rate in the unit that people use.
pub fn rate(unit: Unit, value: f64) -> (String, &'static str) {
    match people(unit, value) {
        (value, "%") => (format!("{value:.2}"), "%"),
        (value, "") => (amount(value), ""),
        (value, unit) => (format!("{value:.3}"), unit),
    }
}

#[cfg(test)]
mod tests;
