//! The published rows: quotations in TOML, one file a system, built into the binary.
//!
//! A file begins with `about` (the measured setup, in one line) and optional `jitter` and
//! `precision` ([`PublishedFigures`](super::PublishedFigures)). `[documents]` names each source. A
//! `[[row]]` has `figure` (a stable name), `unit`, `published`, `role` (`exact`, `predicted`,
//! `at_or_below`, `at_or_above`, `definition`, `fit` or `shown`), `document` and `passage`.
//! Optional are `spread` (± in the row's unit), `tolerance` (`{ rel }` or `{ abs }`: predicted rows
//! need one, exact rows and definitions may have one), `note`, `swap` (a figure), `derived`
//! (`{ rule, from }`: the `difference` or `ratio` of two figures), `inputs` (the constants and
//! choices that move the row by more than the jitter when moved by 1 %, or by their next step;
//! `--sensitivity` reports errors in them) and `alone` ([`Row::alone`]). A `[[known_miss]]` has
//! `figure`, `why`, and `swapped` if another figure misses under `--swap`; empty, none does.

use super::{KnownMiss, MIN_EFFECT, Row, fit};
use crate::config::InputError;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A file of published rows.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// The measured setup, in one line.
    pub about: String,
    /// The largest relative change of a row that is jitter.
    pub jitter: f64,
    /// The residual of a fit, relative to the published value.
    pub precision: f64,
    /// The rows.
    pub rows: Vec<Row>,
    misses: Vec<FileMiss>,
}

impl Sheet {
    /// Returns the rows that are known to miss, in a `--swap` run if `swapped`.
    pub fn known_misses(&self, swapped: bool) -> Vec<KnownMiss> {
        let figure = |m: &FileMiss| match &m.swapped {
            Some(other) if swapped => other.clone(),
            _ => m.figure.clone(),
        };
        let all = self.misses.iter().map(|m| KnownMiss { figure: figure(m), why: m.why.clone() });
        all.filter(|m| !m.figure.is_empty()).collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    jitter: Option<f64>,
    precision: Option<f64>,
    documents: BTreeMap<String, String>,
    row: Vec<toml::Spanned<Row>>,
    #[serde(default)]
    known_miss: Vec<FileMiss>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
struct FileMiss {
    figure: String,
    swapped: Option<String>,
    why: String,
}

/// Reads a file of published rows. `name` is for messages. [`super::FigureSet`] checks the rows.
///
/// # Errors
/// The first violation of the format, with its line.
pub fn parse(name: &str, text: &str) -> Result<Sheet, InputError> {
    let wrong = |offset: Option<usize>, what: String| {
        let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        InputError::new(offset.map_or(name.into(), |at| format!("{name}:{}", line(at))), what)
    };
    let file: File = toml::from_str(text)
        .map_err(|e| wrong(e.span().map(|span| span.start), e.message().into()))?;
    let row = |spanned: toml::Spanned<Row>| {
        let (start, row) = (spanned.span().start, spanned.into_inner());
        let Some(document) = file.documents.get(&row.document) else {
            let allowed: Vec<&str> = file.documents.keys().map(String::as_str).collect();
            let (given, allowed) = (&row.document, allowed.join(", "));
            let what = format!("no document is called `{given}`; there are: {allowed}");
            return Err(wrong(Some(start), what));
        };
        Ok(Row { document: document.clone(), ..row })
    };
    Ok(Sheet {
        about: file.about,
        jitter: file.jitter.unwrap_or(MIN_EFFECT),
        precision: file.precision.unwrap_or(fit::RESIDUAL),
        rows: file.row.into_iter().map(row).collect::<Result<_, _>>()?,
        misses: file.known_miss,
    })
}
