//! The rows of a report, as other programs read them.

use super::{
    Choice, Combinations, Outcome, Report, Sensitivity, SystemReport, Tolerance, sensitivity::Moved,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// A row for other programs.
#[derive(Serialize, Debug)]
pub struct JsonRow<'a> {
    system: &'a str,
    figure: &'a str,
    unit: &'a str,
    published: f64,
    measured: Option<f64>,
    role: &'static str,
    tolerance: Option<Tolerance>,
    holds: Option<bool>,
    source: String,
    inputs: &'a [String],
    choices: Vec<JsonChoice<'a>>,
    combinations: Option<Combinations>,
    note: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<BTreeMap<String, Option<f64>>>,
}

/// A choice of the row's system.
#[derive(Serialize, Debug)]
struct JsonChoice<'a> {
    key: &'a str,
    value: &'a str,
    alternatives: &'a [String],
    rows: &'a [String],
    source: String,
    set: bool,
}

impl<'a> JsonChoice<'a> {
    fn of(choice: &'a Choice) -> JsonChoice<'a> {
        JsonChoice {
            key: &choice.key,
            value: choice.value(),
            alternatives: &choice.alternatives,
            rows: &choice.rows,
            source: choice.from(),
            set: !choice.is_free(),
        }
    }
}

impl Report {
    /// Returns the rows, as `doorbell schema result` describes them.
    ///
    /// `choices` and `combinations` are those of the row's system. `measured` is null if the figure
    /// could not be measured. After a sensitivity run there is also `sensitivity`: for each
    /// constant the row's relative change when it is moved and the fits are re-run, and for each
    /// `choice=alternative` the change when that is taken.
    pub fn json_rows(&self) -> Vec<JsonRow<'_>> {
        let rows = self.systems.iter().flat_map(|s| {
            let rows = s.rows.iter().enumerate();
            rows.map(|(at, row)| json_row(s, row, s.sensitivity.as_ref().map(|f| column(f, at))))
        });
        rows.collect()
    }
}

fn json_row<'a>(
    system: &'a SystemReport,
    outcome: &'a Outcome,
    sensitivity: Option<BTreeMap<String, Option<f64>>>,
) -> JsonRow<'a> {
    JsonRow {
        system: &system.name,
        figure: &outcome.row.figure,
        unit: &outcome.row.unit,
        published: outcome.row.published,
        measured: outcome.measured.as_ref().ok().copied(),
        role: outcome.row.role.name(),
        tolerance: outcome.row.tolerance,
        holds: outcome.holds,
        source: outcome.row.place(),
        inputs: &outcome.inputs,
        choices: system.constants.choices().iter().map(JsonChoice::of).collect(),
        combinations: system.combinations,
        note: outcome.remarks().join("; "),
        sensitivity,
    }
}

fn column(found: &Sensitivity, at: usize) -> BTreeMap<String, Option<f64>> {
    let short = |change: f64| super::report::round_significant(change, 4);
    let cell = |c: &Moved| match c.rests(at)? {
        true => Some(0.0),
        false => c.refitted[at].map(short),
    };
    let constants = found.constants.iter().map(|c| (c.key.clone(), cell(c)));
    let choices = found.choices.iter();
    let choices = choices.map(|c| (format!("{}={}", c.key, c.alternative), c.alone[at].map(short)));
    constants.chain(choices).collect()
}
