//! The published rows: quotations in TOML, one file a system, built into the binary.
//!
//! A file begins with `about` (the measured setup, in one line) and optional `jitter` and
//! `precision` ([`FigureSet`](super::FigureSet)). `[documents]` names each source. Runs and rows
//! are those of [`file`]. A row names its document with `source`. It has a `figure`, and a
//! `tolerance` if it is predicted. Without `metric` and `derived`, code computes it. Optional are
//! `swap` (a figure), `inputs` (the constants and choices that move the row by more than the jitter
//! when moved by 1 %, or by their next step; `--sensitivity` reports errors in them) and `alone`
//! ([`Row::alone`]). A `[[known_miss]]` has `figure`, `why`, and `swapped` if another figure misses
//! under `--swap`; empty, none does.

use super::file::{self, Reader, RowEntry, RunEntry};
use super::{KnownMiss, MIN_EFFECT, Row, Run, fit};
use doorbell_spec::InputError;
use doorbell_systems::{Profile, Registry};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// A file of published rows.
#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    /// The measured setup, in one line.
    pub about: String,
    /// The largest relative change of a row that is jitter.
    pub jitter: f64,
    /// The residual of a fit, relative to the published value.
    pub precision: f64,
    /// The rows.
    pub rows: Vec<Row>,
    /// The runs.
    pub runs: Vec<Run>,
    misses: Vec<FileMiss>,
}

impl Sheet {
    /// Returns the rows that are known to miss, in a `--swap` run if `swapped`.
    pub(crate) fn known_misses(&self, swapped: bool) -> Vec<KnownMiss> {
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
    #[serde(default)]
    set: Vec<Spanned<String>>,
    #[serde(default)]
    run: BTreeMap<String, RunEntry>,
    row: Vec<Spanned<RowEntry>>,
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

/// Reads a file of published rows on this profile. `name` is for messages. [`super::FigureSet`]
/// checks the rows.
///
/// # Errors
/// The first violation of the format, with its line.
pub(crate) fn parse(
    registry: &Registry,
    name: &str,
    text: &str,
    profile: &Profile,
) -> Result<Sheet, InputError> {
    let file: File = file::parse(name, text)?;
    let mut r = Reader::new(registry, (name, text), profile, Some(&file.documents));
    r.runs(&file.set, &file.run)?;
    let rows = file.row.iter().map(|row| r.row(row)).collect::<Result<_, _>>()?;
    Ok(Sheet {
        about: file.about,
        jitter: file.jitter.unwrap_or(MIN_EFFECT),
        precision: file.precision.unwrap_or(fit::RESIDUAL),
        rows,
        runs: r.runs,
        misses: file.known_miss,
    })
}
