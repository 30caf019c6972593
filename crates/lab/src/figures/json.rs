//! The report as JSON: an array of rows, as other programs read them.

use super::sensitivity::Moved;
use super::{Outcome, Report, Sensitivity, Tolerance};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct JsonRow<'a> {
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
    note: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<BTreeMap<&'a str, Option<f64>>>,
}

impl Report {
    /// An array with one object a row:
    ///
    /// ```json
    /// {"system", "figure", "unit", "published", "measured", "role": "exact|predicted|bound|fit|shown",
    ///  "tolerance": {"rel": x} | {"abs": x} | null, "holds": bool | null, "source", "inputs": [constants], "note"}
    /// ```
    ///
    /// `measured` is null if the figure could not be measured. After a sensitivity run there is also `"sensitivity"`: for
    /// each constant the row's relative change when it is moved and the fits are re-run.
    pub fn to_json(&self) -> String {
        let rows: Vec<JsonRow<'_>> = self
            .systems
            .iter()
            .flat_map(|s| {
                let rows = s.rows.iter().enumerate();
                rows.map(|(at, row)| json_row(&s.name, row, s.sensitivity.as_ref().map(|found| column(found, at))))
            })
            .collect();
        // The only failures serde_json knows for plain structs are those of the writer; a String has none.
        serde_json::to_string_pretty(&rows).unwrap_or_else(|e| unreachable!("plain rows serialise: {e}"))
    }
}

fn json_row<'a>(
    system: &'a str,
    outcome: &'a Outcome,
    sensitivity: Option<BTreeMap<&'a str, Option<f64>>>,
) -> JsonRow<'a> {
    JsonRow {
        system,
        figure: &outcome.row.figure,
        unit: &outcome.row.unit,
        published: outcome.row.published.value,
        measured: outcome.measured.as_ref().ok().copied(),
        role: outcome.row.role.name(),
        tolerance: outcome.row.tolerance,
        holds: outcome.holds,
        source: outcome.row.source.to_string(),
        inputs: &outcome.inputs,
        note: outcome.remarks().join("; "),
        sensitivity,
    }
}

fn column(found: &Sensitivity, at: usize) -> BTreeMap<&str, Option<f64>> {
    let cell = |c: &Moved| match c.rests(at)? {
        true => Some(0.0),
        false => c.refitted[at].map(|change| super::report::round_significant(change, 4)),
    };
    found.constants.iter().map(|c| (c.key.as_str(), cell(c))).collect()
}
