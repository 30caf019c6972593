//! The published rows: quotations in TOML, one file a system, built into the binary.
//!
//! A file begins with `about` (the measured setup, in one line) and optional `jitter` and
//! `precision` ([`FigureSet`](super::FigureSet)). `[documents]` names each source.
//!
//! A `[run.NAME]` has `scenario` and `set` (a list of `key=value`), as a row of a measurement file
//! has; a `set` at the head of the file is for all runs. A run takes all constants and choices, or
//! of the constants those of a list `constants`. They replace what the scenario sets, and `set`
//! replaces them.
//!
//! A `[[row]]` has `figure` (a stable name), `unit`, `published`, `role` (`exact`, `predicted`,
//! `at_or_below`, `at_or_above`, `definition`, `fit` or `shown`), `document` and `passage`.
//! It is measured by `number` ([`RunNumber`]: `{ run, metric }`, optionally with `per` and
//! `factor`), computed by `derived` (`{ rule, from }`: the `difference`, `ratio` or `sum` of two
//! figures), or else by code. Optional are `spread` (± in the row's unit), `tolerance` (`{ rel }`
//! or `{ abs }`: predicted rows need one, exact rows and definitions may have one), `note`, `swap`
//! (a figure), `inputs` (the constants and choices that move the row by more than the jitter when
//! moved by 1 %, or by their next step; `--sensitivity` reports errors in them) and `alone`
//! ([`Row::alone`]). A `[[known_miss]]` has `figure`, `why`, and `swapped` if another figure misses
//! under `--swap`; empty, none does.

use super::row::RunNumber;
use super::{Constants, KnownMiss, MIN_EFFECT, MeasureError, Row, fit, platform};
use doorbell_hal::Unit;
use doorbell_spec::InputError;
use doorbell_spec::error::line_at;
use doorbell_spec::key::{Key, Values};
use doorbell_systems::system::System;
use doorbell_systems::{Plan, Profile, Registry, Setting};
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
    runs: BTreeMap<String, Run>,
    misses: Vec<FileMiss>,
}

/// A run that rows are measured of.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The scenario on the profile.
    plan: Plan,
    /// The settings on top of the constants.
    set: Vec<Setting>,
    /// The constants that it takes, if not all.
    constants: Option<Vec<String>>,
}

impl Run {
    /// Returns the values of the run with these constants. A key without effect has the profile's
    /// value, so that equal values mean equal results.
    pub(super) fn values(&self, c: &Constants) -> Result<Values, MeasureError> {
        let mut plan = self.plan.clone();
        match &self.constants {
            None => platform::apply(c, &mut plan.values),
            Some(keys) => {
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                platform::apply(&c.only(&keys)?, &mut plan.values);
            }
        }
        plan.lay(&self.set)?;
        let mut values = plan.values;
        let idle = |key: &&'static Key| values.idle(key).is_some();
        for key in values.keys().into_iter().filter(idle).collect::<Vec<_>>() {
            values.put(key, self.plan.values.get(key.name).clone());
        }
        Ok(values)
    }
}

impl Sheet {
    /// Returns a run by its name.
    pub(super) fn run(&self, name: &str) -> Result<&Run, MeasureError> {
        let lacks = || MeasureError::new(format!("the file of rows has no run `{name}`"));
        self.runs.get(name).ok_or_else(lacks)
    }

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
    run: BTreeMap<String, FileRun>,
    row: Vec<Spanned<Row>>,
    #[serde(default)]
    known_miss: Vec<FileMiss>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRun {
    scenario: Spanned<String>,
    #[serde(default)]
    set: Vec<Spanned<String>>,
    constants: Option<Vec<String>>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
struct FileMiss {
    figure: String,
    swapped: Option<String>,
    why: String,
}

/// A file being read.
struct Reader<'t> {
    name: &'t str,
    text: &'t str,
    profile: &'t Profile,
    registry: &'t Registry,
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
    let r = Reader { name, text, profile, registry };
    let file: File = toml::from_str(text).map_err(|e| match e.span() {
        Some(span) => r.error(span.start, e.message()),
        None => InputError::new(name, e.message()),
    })?;
    let common = r.settings(&file.set);
    let runs = file.run.into_iter().map(|(name, run)| Ok((name, r.run(run, &common)?)));
    let runs = runs.collect::<Result<BTreeMap<_, _>, InputError>>()?;
    let row = |spanned: Spanned<Row>| {
        let at = spanned.span().start;
        r.row(spanned.into_inner(), &file.documents, &runs).map_err(|what| r.error(at, what))
    };
    Ok(Sheet {
        about: file.about,
        jitter: file.jitter.unwrap_or(MIN_EFFECT),
        precision: file.precision.unwrap_or(fit::RESIDUAL),
        rows: file.row.into_iter().map(row).collect::<Result<_, _>>()?,
        runs,
        misses: file.known_miss,
    })
}

impl Reader<'_> {
    fn place(&self, at: usize) -> String {
        format!("{}:{}", self.name, line_at(self.text, at))
    }

    fn error(&self, at: usize, what: impl Into<String>) -> InputError {
        InputError::new(self.place(at), what)
    }

    fn settings(&self, set: &[Spanned<String>]) -> Vec<Setting> {
        set.iter().map(|s| Setting::at(self.place(s.span().start), s.get_ref())).collect()
    }

    fn run(&self, run: FileRun, common: &[Setting]) -> Result<Run, InputError> {
        let at = run.scenario.span().start;
        let scenario = self.registry.scenario(run.scenario.get_ref());
        let plan = scenario.and_then(|s| s.plan_on(self.profile));
        let plan = plan.map_err(|e| self.error(at, e.what))?;
        let set = [common, &self.settings(&run.set)].concat();
        plan.clone().layer(&set)?;
        Ok(Run { plan, set, constants: run.constants })
    }

    fn row(
        &self,
        mut row: Row,
        documents: &BTreeMap<String, String>,
        runs: &BTreeMap<String, Run>,
    ) -> Result<Row, String> {
        let Some(document) = documents.get(&row.document) else {
            return Err(unknown("document", &row.document, documents.keys()));
        };
        row.document.clone_from(document);
        if row.number.is_some() && row.derived.is_some() {
            return Err("a row has `number` or `derived`".to_owned());
        }
        if let Some(number) = &mut row.number {
            if !runs.contains_key(&number.run) {
                return Err(unknown("run", &number.run, runs.keys()));
            }
            number.factor = Some(factor(number, self.profile.system, &row.unit)?);
        }
        Ok(row)
    }
}

fn unknown<'n>(what: &str, given: &str, all: impl Iterator<Item = &'n String>) -> String {
    let all = all.map(String::as_str).collect::<Vec<_>>().join(", ");
    format!("no {what} is called `{given}`; there are: {all}")
}

/// Returns the factor of a number for a row in this unit.
fn factor(number: &RunNumber, system: &System, unit: &str) -> Result<f64, String> {
    let metric = system.sum(&number.metric)?;
    if let Some(per) = &number.per {
        system.sum(per)?;
    }
    match number.factor {
        Some(factor) => Ok(factor),
        // A quotient, or a count of what the unit names.
        None if number.per.is_some() || metric.unit() == Unit::Count => Ok(1.0),
        None => {
            let unit =
                unit.strip_suffix("/packet").filter(|_| metric.is_by_packet()).unwrap_or(unit);
            metric.size_of(Some(unit)).map(|size| 1.0 / size)
        }
    }
}
