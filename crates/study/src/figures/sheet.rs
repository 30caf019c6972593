//! A system's constants and rows, checked against each other.
//!
//! Declarations that would flatter a model, or names that do not exist, are refused before anything
//! runs: a constant fitted on two rows or two on one, a tolerance on a fitted row, a derived row in
//! a circle.

use super::{
    Choice, Constant, Constants, Models, Role, Row, SetError, Setting, Source, UnknownConstant, fit,
};
use doorbell_spec::nearest;
use doorbell_systems::published::{Headline, MeasureError};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Returns the models' value for a figure that is no number of a run, in the row's unit, at these
/// constants.
///
/// It may be a whole simulation, and the same constants give the same number. Figures are measured
/// by several threads at a time. None is asked for twice at the same constants, and no derived row
/// at all. A judged row that cannot be measured misses.
pub type Measure = dyn Fn(&Constants, &str) -> Result<f64, MeasureError> + Send + Sync;

/// A system whose figures can be reproduced: its constants, its rows, and their measurement.
///
/// The order of constants and rows is the order of the tables.
///
/// ```
/// use doorbell_study::figures::*;
///
/// let constants = vec![
///     Constant::cited("boat.seats", 20.0, "seats", "plate on the bridge"),
///     Constant::fitted("boat.crossing", 10.0, "minutes", "ferry.half_full", (1.0, 60.0)),
/// ];
/// let rows = vec![
///     Row::new("ferry.half_full", 40.0, "passengers/hour", Role::Fit),
///     Row::new("ferry.full", 78.0, "passengers/hour", Role::Predicted)
///         .within(Tolerance::Rel(0.05)),
/// ];
/// let ferry = FigureSet::new("ferry", constants, rows, |constants, figure| {
///     let on_board = match figure {
///         "ferry.half_full" => constants.get("boat.seats")? / 2.0,
///         "ferry.full" => constants.get("boat.seats")?,
///         other => return Err(MeasureError::unknown_figure(other)),
///     };
///     Ok(on_board * 60.0 / constants.get("boat.crossing")?)
/// });
///
/// let report = reproduce(&[ferry], &Options::default(), &mut |_| true, &mut |_| ())?;
/// assert_eq!(report.systems[0].rows[1].measured, Ok(80.0));
/// assert_eq!(report.verdict(), Verdict::AllHold);
/// # Ok::<(), Refused>(())
/// ```
#[derive(Clone)]
pub struct FigureSet {
    /// Short name, the first part of each figure's name: `mlx5`.
    pub system: String,
    /// The measured setup, in one line.
    pub about: String,
    /// The constants that rows are measured with, and the choices between models that were made by
    /// looking at rows.
    pub constants: Constants,
    /// The published figures.
    pub rows: Vec<Row>,
    /// Rows that are known to miss, with the reasons.
    pub known_misses: Vec<KnownMiss>,
    /// Those of a `--swap` run, which predicts other rows.
    pub swapped_misses: Vec<KnownMiss>,
    /// The largest relative change of a row that is jitter: a simulation reacts a little to any
    /// change of a time. A row rests on the constants that move it by more.
    pub jitter: f64,
    /// The residual of a fit, relative to the published value. A simulation of whole packets in a
    /// short time means nothing below it, and each step closer is a run.
    pub precision: f64,
    /// The scenarios that show the switch best, if there are any.
    pub headline: Option<Headline>,
    /// The runs of rows.
    pub models: Arc<Models>,
    /// Measures the other rows.
    pub measure: Arc<Measure>,
    /// The changes by `--swap` and `--set`, by figure.
    pub(super) remarks: Vec<(String, String)>,
    /// The number of fits that `--swap` moved to the partner; `None` without it.
    pub(super) swapped: Option<usize>,
    pub(super) set_by_hand: bool,
}

impl fmt::Debug for FigureSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FigureSet").field("system", &self.system).finish_non_exhaustive()
    }
}

/// A miss with an explanation. It remains a miss.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownMiss {
    /// The row.
    pub figure: String,
    /// The best explanation known.
    pub why: String,
}

impl KnownMiss {
    /// Makes the explanation of `figure`'s miss.
    #[cfg(test)]
    pub(crate) fn new(figure: &str, why: &str) -> KnownMiss {
        KnownMiss { figure: figure.into(), why: why.into() }
    }
}

/// All faults of a system's declarations. Its author made them, not the user.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the sheet of {system} is inconsistent:\n  {}", faults.join("\n  "))]
pub struct FigureSetError {
    /// The system.
    pub system: String,
    /// One sentence each.
    pub faults: Vec<String>,
}

impl FigureSet {
    /// Makes the set of a system without choices, headline or known misses.
    pub fn new(
        system: &str,
        constants: Vec<Constant>,
        rows: Vec<Row>,
        measure: impl Fn(&Constants, &str) -> Result<f64, MeasureError> + Send + Sync + 'static,
    ) -> FigureSet {
        FigureSet {
            system: system.into(),
            about: String::new(),
            constants: Constants::new(constants),
            rows,
            known_misses: Vec::new(),
            swapped_misses: Vec::new(),
            jitter: super::MIN_EFFECT,
            precision: fit::RESIDUAL,
            headline: None,
            models: Arc::default(),
            measure: Arc::new(measure),
            remarks: Vec::new(),
            swapped: None,
            set_by_hand: false,
        }
    }

    /// Returns the row called `figure`.
    pub(super) fn row(&self, figure: &str) -> Option<&Row> {
        find(&self.rows, figure)
    }

    pub(super) fn index(&self, figure: &str) -> Option<usize> {
        self.rows.iter().position(|r| r.figure == figure)
    }

    /// Returns the constants to solve for, each with the row that its fit consumes: indices, in the
    /// constants' order.
    pub(super) fn fits(&self) -> Vec<(usize, usize)> {
        let fits = self.constants.iter().enumerate();
        fits.filter_map(|(c, constant)| Some((c, self.index(constant.fit_row()?)?))).collect()
    }

    /// Returns the constants and choices that a row declares to depend on: its own declaration, or
    /// that of the rows it is derived from. `None` if one of these declares nothing.
    pub(super) fn declared_inputs(&self, row: &Row) -> Option<Vec<String>> {
        if row.inputs.is_some() {
            return row.inputs.clone();
        }
        let mut keys = BTreeSet::new();
        for parent in &row.derived.as_ref()?.from {
            keys.extend(self.declared_inputs(self.row(parent)?)?);
        }
        Some(self.constants.keys().filter(|k| keys.contains(*k)).map(str::to_owned).collect())
    }

    /// Returns the choices, but those set by hand, that were made by looking at a row.
    pub(super) fn chosen_by<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = &'a Choice> {
        let choices = self.constants.choices().iter();
        choices.filter(|c| c.is_free() && c.rows.contains(&row.figure))
    }

    /// Returns whether a row declares a fitted constant among its inputs, or declares nothing.
    pub(super) fn rests_on_a_fit(&self, row: &Row) -> bool {
        let fits = self.fits();
        let fitted = |keys: Vec<String>| {
            fits.iter().any(|(c, _)| keys.contains(&self.constants.numbers[*c].key))
        };
        !fits.is_empty() && self.declared_inputs(row).is_none_or(fitted)
    }

    /// Exchanges fitted rows with their partners: the fit consumes the partner, and the fitted row
    /// is predicted with the partner's tolerance.
    pub(super) fn swap(&mut self) -> Result<(), FigureSetError> {
        let mut swapped = 0;
        for (constant, fitted) in self.fits() {
            let was = self.rows[fitted].figure.clone();
            let Some(partner) = self.partner(fitted) else {
                self.remarks.push((was, "not swapped: it names no partner".into()));
                continue;
            };
            let becomes = self.rows[partner].figure.clone();
            let role = self.rows[partner].role;
            if role != Role::Predicted {
                let why = format!("not swapped: {becomes} is {}, not predicted", role.name());
                self.remarks.push((was, why));
                continue;
            }
            (self.rows[fitted].role, self.rows[partner].role) = (Role::Predicted, Role::Fit);
            self.rows[fitted].tolerance = self.rows[partner].tolerance.take();
            self.remarks.push((was, format!("swapped: predicted, {becomes} is fitted")));
            if let Source::Fit { row, .. } = &mut self.constants.numbers[constant].source {
                *row = becomes;
            }
            swapped += 1;
        }
        self.swapped = Some(swapped);
        if swapped > 0 {
            self.known_misses.clone_from(&self.swapped_misses);
        }
        self.check()
    }

    /// Sets a constant or takes an alternative by hand. The row of its fit is then only shown.
    /// Fails if this system has no such key, or it cannot have the value.
    pub(super) fn set(&mut self, Setting { key, value }: &Setting) -> Result<(), SetError> {
        let constant = self.constants.iter().find(|c| c.key == *key);
        let row = constant.and_then(|c| c.fit_row().map(str::to_owned));
        self.constants.set(key, value)?;
        self.set_by_hand = true;
        if let Some(at) = row.and_then(|figure| self.index(&figure)) {
            self.rows[at].role = Role::Shown;
            let remark = format!("not fitted: {key} was set to {value} by hand");
            self.remarks.push((self.rows[at].figure.clone(), remark));
        }
        Ok(())
    }

    /// Returns the swap partner of a row, whichever of the two declares it.
    fn partner(&self, row: usize) -> Option<usize> {
        match &self.rows[row].swap {
            Some(figure) => self.index(figure),
            None => self.rows.iter().position(|r| r.swap.as_ref() == Some(&self.rows[row].figure)),
        }
    }

    /// Checks the declarations. The error has every inconsistency.
    pub(super) fn check(&self) -> Result<(), FigureSetError> {
        let mut faults = Vec::new();
        self.check_constants(&mut faults);
        self.check_choices(&mut faults);
        self.check_rows(&mut faults);
        self.check_references(&mut faults);
        let system = self.system.clone();
        if faults.is_empty() { Ok(()) } else { Err(FigureSetError { system, faults }) }
    }

    fn check_constants(&self, faults: &mut Vec<String>) {
        let mut keys = BTreeSet::new();
        let mut consumed = BTreeSet::new();
        for c in self.constants.iter() {
            let key = &c.key;
            if !keys.insert(key) {
                faults.push(format!("the constant {key} is declared twice"));
            }
            if !c.value.is_finite() {
                faults.push(format!("the constant {key} is {}: not a finite number", c.value));
            }
            match &c.source {
                Source::Cited(source) if source.trim().is_empty() => {
                    faults.push(format!("the constant {key} names no source"));
                }
                Source::Fit { row, range: (low, high) } if !c.by_hand => {
                    if !(low.is_finite()
                        && high.is_finite()
                        && low < high
                        && (*low..=*high).contains(&c.value))
                    {
                        faults.push(format!(
                            "the fit of {key} starts at {} and searches {low} to {high}: not \
                             inside a finite interval",
                            c.value
                        ));
                    }
                    if !consumed.insert(row) {
                        faults.push(format!(
                            "the row {row} is consumed by two fits, one of them that of {key}"
                        ));
                    }
                    match self.row(row) {
                        None => faults.push(format!("the fit of {key} {}", self.no_such_row(row))),
                        Some(r) if r.role != Role::Fit => faults.push(format!(
                            "the fit of {key} consumes {row}, which says it is {}: a row cannot \
                             calibrate and count",
                            r.role.name()
                        )),
                        Some(_) => {}
                    }
                }
                _ => {}
            }
        }
        let fits = self.rows.iter().filter(|r| r.role == Role::Fit).map(|r| &r.figure);
        for row in fits.filter(|row| !consumed.contains(row)) {
            faults.push(format!("the row {row} says it is a fit, but no constant is fitted on it"));
        }
    }

    fn check_choices(&self, faults: &mut Vec<String>) {
        let mut keys = BTreeSet::new();
        for choice in self.constants.choices() {
            let key = &choice.key;
            if !keys.insert(key) {
                faults.push(format!("the choice {key} is declared twice"));
            }
            if choice.source.trim().is_empty() {
                faults.push(format!("the choice {key} does not say why"));
            }
            let alternatives: BTreeSet<&String> = choice.alternatives.iter().collect();
            if alternatives.len() < 2 || alternatives.len() < choice.alternatives.len() {
                let all = choice.alternatives.join(", ");
                faults.push(format!("the choice {key} is between {all}"));
            }
            if choice.rows.is_empty() {
                faults.push(format!(
                    "the choice {key} was made by looking at no row: it is an assumption"
                ));
            }
            for row in choice.rows.iter().filter(|row| self.row(row).is_none()) {
                faults.push(format!("the choice {key} {}", self.no_such_row(row)));
            }
        }
    }

    fn check_rows(&self, faults: &mut Vec<String>) {
        for (at, row) in self.rows.iter().enumerate() {
            let figure = &row.figure;
            let own = figure.strip_prefix(&self.system).and_then(|rest| rest.strip_prefix('.'));
            if own.is_none_or(str::is_empty) {
                faults.push(format!("the row {figure} must be called {}.something", self.system));
            }
            if row.role == Role::Predicted && row.tolerance.is_none() {
                faults.push(format!("the row {figure} is predicted but has no tolerance"));
            }
            faults.extend(row_faults(&self.rows, at));
        }
    }

    fn check_references(&self, faults: &mut Vec<String>) {
        for row in &self.rows {
            let figure = &row.figure;
            if let Some(partner) = &row.swap {
                match self.row(partner) {
                    None => faults.push(format!("the row {figure} {}", self.no_such_row(partner))),
                    Some(p)
                        if p.swap.as_ref().is_some_and(|back| back != figure)
                            || partner == figure =>
                    {
                        faults.push(format!(
                            "the rows {figure} and {partner} do not agree to be swap partners"
                        ));
                    }
                    Some(_) => {}
                }
            }
            for key in row.inputs.iter().flatten() {
                if let Err(unknown) = self.constants.known(key) {
                    faults.push(format!("the row {figure}: {unknown}"));
                }
            }
        }
        for miss in &self.known_misses {
            match self.row(&miss.figure) {
                None => faults.push(format!("a known miss {}", self.no_such_row(&miss.figure))),
                Some(row) if !row.role.judged() => {
                    faults.push(format!("{} is {}: it cannot miss", miss.figure, row.role.name()));
                }
                Some(_) => {}
            }
        }
    }

    fn no_such_row(&self, figure: &str) -> String {
        no_such_row(&self.rows, figure)
    }
}

/// Returns what is wrong with a row among others, whoever measured them.
pub(crate) fn row_faults(rows: &[Row], at: usize) -> Vec<String> {
    let (row, mut faults) = (&rows[at], Vec::new());
    let figure = &row.figure;
    let named = if figure.is_empty() { "the row".to_owned() } else { format!("the row {figure}") };
    if !figure.is_empty() && rows[..at].iter().any(|other| other.figure == *figure) {
        faults.push(format!("{named} is declared twice"));
    }
    if !row.value.is_finite() {
        faults.push(format!("{named} has no finite value"));
    }
    match (row.role, row.tolerance) {
        (Role::AtOrBelow | Role::AtOrAbove | Role::Fit | Role::Shown, Some(_)) => {
            let role = row.role.name();
            faults.push(format!("{named} is {role}: it can have no tolerance"));
        }
        (_, Some(super::Tolerance::Rel(x) | super::Tolerance::Abs(x)))
            if !(x.is_finite() && x >= 0.0) =>
        {
            faults.push(format!("{named} has the tolerance {x}"));
        }
        _ => {}
    }
    let parents = row.derived.iter().flat_map(|d| &d.from);
    let unknown = parents.filter(|parent| find(rows, parent).is_none());
    faults.extend(unknown.map(|parent| format!("{named} {}", no_such_row(rows, parent))));
    if descends_from_itself(rows, row) {
        faults.push(format!("{named} is derived from itself"));
    }
    faults
}

fn find<'r>(rows: &'r [Row], figure: &str) -> Option<&'r Row> {
    rows.iter().find(|r| r.figure == figure)
}

fn descends_from_itself(rows: &[Row], row: &Row) -> bool {
    let mut open: Vec<&str> =
        row.derived.iter().flat_map(|d| &d.from).map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    while let Some(figure) = open.pop() {
        if figure == row.figure {
            return true;
        }
        if seen.insert(figure) {
            let parents = find(rows, figure).and_then(|r| r.derived.as_ref());
            open.extend(parents.iter().flat_map(|d| &d.from).map(String::as_str));
        }
    }
    false
}

fn no_such_row(rows: &[Row], figure: &str) -> String {
    match nearest(figure, rows.iter().map(|r| r.figure.as_str())) {
        Some(near) => {
            format!("names the row {figure}, which does not exist; the nearest is {near}")
        }
        None => format!("names the row {figure}, which does not exist"),
    }
}

impl From<UnknownConstant> for MeasureError {
    fn from(e: UnknownConstant) -> MeasureError {
        MeasureError::new(e.to_string())
    }
}
