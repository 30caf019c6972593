//! The published rows, as data.
//!
//! They live in TOML, one file a system, and not in Rust: they are quotations, to be held against
//! their sources by people who need not read the model, and a change to one should show in a
//! history as a change to a figure and not to code. The file is part of the binary. It says nothing
//! of a system's constants: a system adds with [`find`] what its model knows, such as a row's
//! inputs.
//!
//! ```toml
//! [documents]
//! mpwqe = "where the figures come from, so that it can be found"
//!
//! [[row]]
//! figure = "mlx5.rate_gen2_on"      # stable
//! unit = "Mpps"
//! published = 49.0
//! spread = 0.3                      # optional: as published, ± in the row's unit
//! role = "predicted"                # exact, predicted, at_or_below, at_or_above, definition, fit, shown
//! tolerance = { rel = 0.06 }        # or { abs = 1.0 }; predicted rows need one, exact rows and definitions may have one
//! document = "mpwqe"
//! passage = "the sentence"
//! note = "what a reader should know"               # optional
//! swap = "mlx5.rate_gen2_off"                      # optional
//! derived = { rule = "difference", from = ["mlx5.a", "mlx5.b"] }   # optional; or "ratio"
//! ```

use super::{Citation, Derived, Published, Role, Row, Rule, Side, Tolerance};
use std::collections::BTreeMap;

/// The rows of the mlx5 experiment: Enhanced TX MPWQE, off and on.
///
/// # Errors
/// None as the file stands; a test sees to it.
pub fn mlx5() -> Result<Vec<Row>, PublishedError> {
    parse("published/mlx5.toml", include_str!("published/mlx5.toml"))
}

/// The rows of the e1000 experiment: frames copied to aligned buffers on POWER4.
///
/// # Errors
/// None as the file stands; a test sees to it.
pub fn e1000() -> Result<Vec<Row>, PublishedError> {
    parse("published/e1000.toml", include_str!("published/e1000.toml"))
}

/// The rows of the axienet experiment: adaptive interrupt coalescing.
///
/// # Errors
/// None as the file stands; a test sees to it.
pub fn axienet() -> Result<Vec<Row>, PublishedError> {
    parse("published/axienet.toml", include_str!("published/axienet.toml"))
}

/// The rows of the ibmveth experiment: large send and checksums through a trunk.
///
/// # Errors
/// None as the file stands; a test sees to it.
pub fn ibmveth() -> Result<Vec<Row>, PublishedError> {
    parse("published/ibmveth.toml", include_str!("published/ibmveth.toml"))
}

/// The rows of the ibmvnic experiment: checksums made in the driver for direct sends.
///
/// # Errors
/// None as the file stands; a test sees to it.
pub fn ibmvnic() -> Result<Vec<Row>, PublishedError> {
    parse("published/ibmvnic.toml", include_str!("published/ibmvnic.toml"))
}

/// The row called `figure`, to be completed by the system that measures it.
pub fn find<'a>(rows: &'a mut [Row], figure: &str) -> Option<&'a mut Row> {
    rows.iter_mut().find(|row| row.figure == figure)
}

/// A file of published rows that cannot be used: where, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}{}: {what}", line.map_or(String::new(), |line| format!(":{line}")))]
pub struct PublishedError {
    /// The file.
    pub file: String,
    /// Line, from 1; `None` if the parser names none.
    pub line: Option<usize>,
    /// What is wrong, and what is allowed.
    pub what: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    documents: BTreeMap<String, String>,
    row: Vec<toml::Spanned<FileRow>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRow {
    figure: String,
    unit: String,
    published: f64,
    spread: Option<f64>,
    role: FileRole,
    tolerance: Option<Tolerance>,
    document: String,
    passage: String,
    #[serde(default)]
    note: String,
    swap: Option<String>,
    derived: Option<FileDerived>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum FileRole {
    Exact,
    Predicted,
    AtOrBelow,
    AtOrAbove,
    Definition,
    Fit,
    Shown,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FileDerived {
    rule: Rule,
    from: [String; 2],
}

/// Reads a file of published rows. `name` is for messages. What the rows say is checked by
/// [`super::FigureSet`].
///
/// # Errors
/// The first thing that is not as the module describes, with its line.
pub fn parse(name: &str, text: &str) -> Result<Vec<Row>, PublishedError> {
    let at_line = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
    let file: File = toml::from_str(text).map_err(|e| PublishedError {
        file: name.into(),
        line: e.span().map(|span| at_line(span.start)),
        what: e.message().into(),
    })?;
    file.row
        .into_iter()
        .map(|spanned| {
            let line = at_line(spanned.span().start);
            let row = spanned.into_inner();
            let Some(document) = file.documents.get(&row.document) else {
                let allowed: Vec<&str> = file.documents.keys().map(String::as_str).collect();
                let what = format!(
                    "no document is called `{}`; there are: {}",
                    row.document,
                    allowed.join(", ")
                );
                return Err(PublishedError { file: name.into(), line: Some(line), what });
            };
            Ok(Row {
                figure: row.figure,
                unit: row.unit,
                published: Published { value: row.published, spread: row.spread },
                role: match row.role {
                    FileRole::Exact => Role::Exact,
                    FileRole::Predicted => Role::Predicted,
                    FileRole::AtOrBelow => Role::Bound(Side::AtOrBelow),
                    FileRole::AtOrAbove => Role::Bound(Side::AtOrAbove),
                    FileRole::Definition => Role::Definition,
                    FileRole::Fit => Role::Fit,
                    FileRole::Shown => Role::Shown,
                },
                tolerance: row.tolerance,
                source: Citation { document: document.clone(), passage: row.passage },
                note: row.note,
                inputs: None,
                alone: false,
                derived: row.derived.map(|d| Derived { rule: d.rule, from: d.from }),
                swap: row.swap,
            })
        })
        .collect()
}
