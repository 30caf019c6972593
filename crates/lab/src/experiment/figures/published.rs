//! The published rows: quotations in TOML, one file a system, built into the binary.
//!
//! `[documents]` names each source. A `[[row]]` has `figure` (a stable name), `unit`, `published`,
//! `role` (`exact`, `predicted`, `at_or_below`, `at_or_above`, `definition`, `fit` or `shown`),
//! `document` and `passage`. Optional are `spread` (± in the row's unit), `tolerance` (`{ rel }` or
//! `{ abs }`: predicted rows need one, exact rows and definitions may have one), `note`, `swap` (a
//! figure) and `derived` (`{ rule, from }`: the `difference` or `ratio` of two figures).
//!
//! A system adds with [`find`] what its model knows, such as a row's inputs.

use super::{Citation, Derived, Published, Role, Row, Rule, Side, Tolerance};
use std::collections::BTreeMap;

macro_rules! systems {
    ($($system:ident: $rows:literal;)*) => {$(
        #[doc = concat!("Returns the rows of the ", stringify!($system), " experiment: ", $rows)]
        ///
        /// # Errors
        /// The built-in file is invalid, which a test excludes.
        pub fn $system() -> Result<Vec<Row>, PublishedError> {
            let text = include_str!(concat!("published/", stringify!($system), ".toml"));
            parse(concat!("published/", stringify!($system), ".toml"), text)
        }
    )*};
}

systems! {
    mlx5: "Enhanced TX MPWQE, off and on.";
    e1000: "frames copied to aligned buffers on POWER4.";
    axienet: "adaptive interrupt coalescing.";
    ibmveth: "large send and checksums through a trunk.";
    ibmvnic: "checksums made in the driver for direct sends.";
}

/// Returns the row called `figure`, to be completed by the system that measures it.
pub fn find<'a>(rows: &'a mut [Row], figure: &str) -> Option<&'a mut Row> {
    rows.iter_mut().find(|row| row.figure == figure)
}

/// A file of published rows that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}{}: {what}", line.map_or(String::new(), |line| format!(":{line}")))]
pub struct PublishedError {
    /// The file.
    pub file: String,
    /// Line, from 1; `None` if the parser names none.
    pub line: Option<usize>,
    /// The fault, and the allowed values.
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

/// Reads a file of published rows. `name` is for messages. [`super::FigureSet`] checks the rows.
///
/// # Errors
/// The first violation of the format, with its line.
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
