//! The verdict of a check for people, for the summary of a CI run, and for programs.

use super::{Row, Verdict};
use doorbell_console::render::{Cell, Document, Table, amount};
use doorbell_study::budget::Bounds;
use doorbell_systems::result::Provenance;
use schemars::JsonSchema;
use serde::Serialize;

/// Formats a bound: `≤ 128`.
fn allowed(b: &Bounds) -> String {
    match *b {
        Bounds::Exactly(n) => format!("= {n}"),
        Bounds::Between { min: Some(min), max: Some(max) } => format!("{min} to {max}"),
        Bounds::Between { min: Some(n), .. } => format!("≥ {n}"),
        Bounds::Between { max, .. } => format!("≤ {}", max.unwrap_or_default()),
    }
}

/// Formats a number with six digits, or all before the point, as budgets have them.
fn measured(x: f64) -> String {
    if x.abs() >= 1e5 {
        format!("{x:.0}")
    } else {
        format!("{x:.5e}").parse().unwrap_or(x).to_string()
    }
}

/// Formats a difference with its sign.
fn signed(x: f64) -> String {
    format!("{}{}", if x > 0.0 { "+" } else { "" }, amount(x))
}

/// Returns allowed and measured numbers with their differences, then each broken line.
pub(super) fn document(v: &Verdict<'_>) -> Document {
    let mut doc = Document::titled(&v.title);
    v.set.iter().for_each(|set| doc.line(format!("with {set}")));
    let [name, holds] = ["name", "holds"].map(|named| Cell::exact("", named));
    let numbers = ["allowed", "measured", "difference", "percent"].map(Cell::from);
    let heads = [name].into_iter().chain(numbers).chain([holds]);
    let mut table = Table::new(heads).right(1..6);
    for r in &v.rows {
        let against = r.against();
        let percent = against.percent.filter(|p| *p != 0.0);
        let name = match r.workload {
            Some(workload) => format!("{workload}: {}", r.line.name),
            None => r.line.name.clone(),
        };
        table.row([
            Cell::from(name),
            allowed(&r.line.bounds).into(),
            Cell::exact(measured(r.measured), r.measured),
            Cell::exact(signed(against.difference), against.difference),
            percent.map_or("".into(), |p| Cell::exact(signed(p), p)),
            Cell::exact(if r.holds() { "" } else { "BROKEN" }, r.holds()),
        ]);
    }
    doc.table(table);
    let (all, broken) = (v.rows.len(), v.broken());
    doc.gap();
    doc.line(match (broken, v.measured.unsound.is_empty()) {
        (0, true) => format!("{}: {all} of {all} hold", v.file),
        (0, false) => format!("{}: NOTHING HOLDS, since the audit failed", v.file),
        _ => format!("{}: BROKEN, {broken} of {all}", v.file),
    });
    let broken = v.rows.iter().filter(|r| !r.holds());
    let broken = broken.map(|r| format!("{}:{}: {}", v.file, r.line.at, reason(r)));
    let unsound = v.measured.unsound.iter().map(|why| format!("{}: audit: {why}", v.file));
    doc.literal(unsound.chain(broken).collect());
    doc
}

/// Describes a broken line.
fn reason(r: &Row<'_>) -> String {
    let against = r.against();
    let over = if against.difference > 0.0 { "more than" } else { "less than" };
    let percent = against.percent.map_or(String::new(), |p| format!(" ({} %)", amount(p.abs())));
    let by = amount(against.difference.abs());
    let of = r.workload.map_or(String::new(), |workload| format!(" of {workload}"));
    let (name, is) = (&r.line.name, measured(r.measured));
    format!("{name}{of} is {is}: {by}{percent} {over} {}", against.bound)
}

/// A verdict for programs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Checked<'a> {
    /// Its file.
    budget: &'a str,
    /// The subject in words.
    title: &'a str,
    of: Of<'a>,
    holds: bool,
    /// Rows that do not hold.
    broken: usize,
    /// The checks of counts against each other that failed. Empty if all agree.
    audit: &'a [String],
    rows: Vec<CheckedRow<'a>>,
}

/// The origin of a run, or a served device and its bus.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Of<'a> {
    Run(&'a Provenance),
    Device { device: &'a str, bus: Option<&'a str> },
}

/// A line of a budget.
#[derive(Serialize, JsonSchema)]
struct CheckedRow<'a> {
    /// The number, or a sum of several.
    name: &'a str,
    /// The workload that it is of, where a guest has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<&'a str>,
    line: usize,
    allowed: Allowed,
    measured: f64,
    /// Measured minus the bound that it breaks, or comes closest to breaking.
    difference: f64,
    /// The difference in percent of the bound; null if that is 0.
    percent: Option<f64>,
    holds: bool,
}

/// The bounds of a line.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Allowed {
    Exactly {
        exact: f64,
    },
    Between {
        #[serde(skip_serializing_if = "Option::is_none")]
        min: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max: Option<f64>,
    },
}

pub(super) fn data<'a>(v: &'a Verdict<'_>) -> Checked<'a> {
    let row = |r: &'a Row<'_>| {
        let against = r.against();
        CheckedRow {
            name: &r.line.name,
            workload: r.workload,
            line: r.line.at,
            allowed: match r.line.bounds {
                Bounds::Exactly(exact) => Allowed::Exactly { exact },
                Bounds::Between { min, max } => Allowed::Between { min, max },
            },
            measured: r.measured,
            difference: against.difference,
            percent: against.percent,
            holds: r.holds(),
        }
    };
    Checked {
        budget: v.file,
        title: &v.title,
        of: v.measured.of(),
        holds: v.holds(),
        broken: v.broken(),
        audit: &v.measured.unsound,
        rows: v.rows.iter().map(row).collect(),
    }
}
