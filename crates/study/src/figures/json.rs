//! The rows of a report, as other programs read them.

use super::{
    Choice, Combinations, Outcome, Report, Sensitivity, SystemReport, Tolerance, sensitivity::Moved,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A row for other programs.
#[derive(Serialize, JsonSchema, Debug)]
#[schemars(rename = "ReproducedRow")]
pub struct JsonRow<'a> {
    system: &'a str,
    figure: &'a str,
    unit: &'a str,
    published: f64,
    /// Null if it could not be measured.
    measured: Option<f64>,
    /// `exact`, `predicted`, `bound`, `definition`, `fit`, or `shown`.
    role: &'static str,
    tolerance: Option<Tolerance>,
    /// Null where nothing is judged.
    holds: Option<bool>,
    source: String,
    /// Constants and choices that the number rests on.
    inputs: &'a [String],
    /// Choices of the system between models.
    choices: Vec<JsonChoice<'a>>,
    /// Combinations of the choices under which all rows of the system hold.
    combinations: Option<Combinations>,
    note: String,
    /// With `--sensitivity`: the row's relative change when a constant is moved and the fits are
    /// made again, or for `choice=alternative` when that is taken; null if a fit is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<BTreeMap<String, Option<f64>>>,
}

/// A choice of the row's system.
#[derive(Serialize, JsonSchema, Debug)]
#[schemars(rename = "ChosenModel")]
struct JsonChoice<'a> {
    key: &'a str,
    value: &'a str,
    alternatives: &'a [String],
    /// Figures that rest on it.
    rows: &'a [String],
    source: String,
    /// By `--set`.
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
    /// Returns the rows for other programs.
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
        published: outcome.row.value,
        measured: outcome.measured.as_ref().ok().copied(),
        role: outcome.row.role.name(),
        tolerance: outcome.row.tolerance,
        holds: outcome.holds,
        source: outcome.row.published_in(),
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
