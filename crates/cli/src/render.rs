//! Rendering of results: one model of headings, lines and tables, shown as text for a terminal,
//! Markdown or CSV, and JSON for programs. Also numbers as people read them.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
pub(crate) use doorbell_lab::table::{Cell, Table, Tone};
use indicatif::HumanCount;
use serde::Serialize;
use std::io::stdout;
use terminal_size::terminal_size_of;

/// The most columns of a line in a terminal.
const WIDTH: usize = 100;
/// The width of a name, and the usual width of a number.
const NAME: usize = 26;
pub(crate) const NUMBER: usize = 15;

/// An output format.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For documents, and for the summary of a CI run
    Markdown,
    /// For spreadsheets: numbers with all digits
    Csv,
    /// A line chart; of a sweep, over the last --over key
    Svg,
    /// For programs
    Json,
}

/// The formats of a command whose result is not one table.
pub(crate) const PLAIN: &[Format] = &[Format::Table, Format::Json];
/// The formats of a command whose result is a document of tables.
pub(crate) const PAGES: &[Format] = &[Format::Table, Format::Markdown, Format::Json];
/// The formats of a command whose result is one table.
pub(crate) const TABLES: &[Format] = &[Format::Table, Format::Markdown, Format::Csv, Format::Json];
/// The formats of a command whose result is one table that can be drawn.
pub(crate) const CHARTS: &[Format] =
    &[Format::Table, Format::Markdown, Format::Csv, Format::Svg, Format::Json];

impl Format {
    /// Returns a parser that accepts the formats that a command offers.
    pub(crate) fn among(offered: &'static [Format]) -> impl TypedValueParser<Value = Format> {
        let names = offered.iter().filter_map(ValueEnum::to_possible_value);
        PossibleValuesParser::new(names).try_map(|name| Format::from_str(&name, false))
    }
}

/// A result for people.
#[derive(Default)]
pub(crate) struct Document(Vec<Block>);

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
        Document(vec![Block::Table(table)])
    }
}

impl Document {
    /// Starts a document with a heading.
    pub(crate) fn titled(title: impl Into<String>) -> Document {
        Document(vec![Block::Heading(title.into())])
    }

    pub(crate) fn line(&mut self, text: impl Into<String>) {
        self.0.push(Block::Line(text.into()));
    }

    /// Adds an empty line.
    pub(crate) fn gap(&mut self) {
        self.0.push(Block::Gap);
    }

    /// Adds lines that stand as they are.
    pub(crate) fn literal(&mut self, lines: Vec<String>) {
        self.0.push(Block::Literal(lines));
    }

    /// Adds a table unless it has no rows.
    pub(crate) fn table(&mut self, table: Table) {
        if !table.is_empty() {
            self.0.push(Block::Table(table));
        }
    }

    /// Renders the document, or `data` in the format for programs.
    pub(crate) fn show(&self, format: Format, data: &impl Serialize) -> String {
        match format {
            Format::Json => json(data),
            Format::Csv => self.csv(),
            Format::Markdown => self.markdown(),
            Format::Table | Format::Svg => self.text(),
        }
    }

    pub(crate) fn text(&self) -> String {
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
        self.0.iter().enumerate().map(block).collect()
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
        self.0.iter().map(block).collect::<String>().trim_end().to_owned() + "\n"
    }

    fn csv(&self) -> String {
        let tables = self.0.iter().filter_map(|b| match b {
            Block::Table(t) => Some(t.csv()),
            _ => None,
        });
        tables.collect::<Vec<_>>().join("\n")
    }
}

/// Renders a value for programs.
pub(crate) fn json(data: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(data);
    text.unwrap_or_else(|e| unreachable!("plain values serialise: {e}")) + "\n"
}

/// Returns an empty table of names, numbers of this width, and a note about each.
pub(crate) fn numbers(title: &str, heads: &[&str], width: usize) -> Table {
    let widths = std::iter::once(NAME).chain(heads.iter().map(|_| width)).collect();
    let all = [title].into_iter().chain(heads.iter().copied());
    Table::new(all).right(1..=heads.len()).fixed(widths)
}

/// Lists things after a word, in lines of at most 100 columns.
pub(crate) fn wrapped(first: &str, things: &[String]) -> String {
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
pub(crate) fn count(n: u64) -> String {
    HumanCount(n).to_string()
}

/// Formats a quotient with five digits, and at most three after the point.
pub(crate) fn amount(x: f64) -> String {
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
pub(crate) fn each(all: f64, n: f64) -> String {
    if n > 0.0 { amount(all / n) } else { "-".to_owned() }
}

pub(crate) fn rate_name(name: &str) -> String {
    match name {
        "packets_per_s" => "packet rate".to_owned(),
        "frame_bits_per_s" => "frames".to_owned(),
        "cpu_busy_share" => "CPU busy".to_owned(),
        _ => name.trim_end_matches("_share").trim_end_matches("_bits_per_s").replace('_', " "),
    }
}

/// Converts a rate to the unit that people use, by the end of its name.
pub(crate) fn people(name: &str, value: f64) -> (f64, &'static str) {
    match name {
        _ if name.ends_with("_share") => (value * 100.0, "%"),
        _ if name.ends_with("bits_per_s") => (value / 1e9, "Gbit/s"),
        _ if name.starts_with("packets") => (value / 1e6, "Mpps"),
        _ => (value, ""),
    }
}

/// Formats a rate in the unit that people use.
pub(crate) fn rate(name: &str, value: f64) -> (String, &'static str) {
    match people(name, value) {
        (value, "%") => (format!("{value:.2}"), "%"),
        (value, "") => (amount(value), ""),
        (value, unit) => (format!("{value:.3}"), unit),
    }
}

#[cfg(test)]
mod tests;
