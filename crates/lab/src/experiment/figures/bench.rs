//! The bench: a system, its sheet, and the measurements made so far.

use super::{Constants, FigureSet, MeasureError, PublishedFigures};
use std::{collections::BTreeMap, fmt};

/// The next step of a reproduction, for a progress bar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// The system.
    pub system: &'a str,
    /// The stage.
    pub doing: Stage<'a>,
}

/// A stage of a reproduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage<'a> {
    /// Solving for a constant. The number of evaluations is not known beforehand.
    Fit {
        /// The constant.
        constant: &'a str,
        /// Evaluations of its row so far, over all sweeps.
        evaluations: u32,
    },
    /// Measuring a row.
    Row {
        /// The row.
        figure: &'a str,
        /// Rows done.
        done: usize,
        /// Rows in all.
        total: usize,
    },
    /// Trying a combination of choices.
    Combination {
        /// Combinations done.
        done: usize,
        /// Combinations in all.
        total: usize,
    },
    /// Moving a constant.
    Sensitivity {
        /// The constant.
        constant: &'a str,
        /// Constants done.
        done: usize,
        /// Constants in all.
        total: usize,
    },
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.system)?;
        match self.doing {
            Stage::Fit { constant, evaluations } => {
                write!(f, "fitting {constant}, evaluation {evaluations}")
            }
            Stage::Row { figure, done, total } => {
                write!(f, "measuring {figure} ({} of {total})", done + 1)
            }
            Stage::Combination { done, total } => {
                write!(f, "trying combinations of choices ({} of {total})", done + 1)
            }
            Stage::Sensitivity { constant, done, total } => {
                write!(f, "moving {constant} ({} of {total})", done + 1)
            }
        }
    }
}

/// A system on the bench. It remembers every measurement, so that nothing is simulated twice.
pub(super) struct Bench<'a> {
    pub(super) sheet: &'a FigureSet,
    system: &'a mut dyn PublishedFigures,
    progress: &'a mut dyn FnMut(Progress<'_>) -> bool,
    /// Whoever hears of the progress wants no more.
    pub(super) stopped: bool,
    done: BTreeMap<(usize, Vec<u64>), Result<f64, MeasureError>>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        sheet: &'a FigureSet,
        system: &'a mut dyn PublishedFigures,
        progress: &'a mut dyn FnMut(Progress<'_>) -> bool,
    ) -> Bench<'a> {
        Bench { sheet, system, progress, stopped: false, done: BTreeMap::new() }
    }

    pub(super) fn tell(&mut self, doing: Stage<'_>) {
        self.stopped |= !(self.progress)(Progress { system: &self.sheet.system, doing });
    }

    /// Returns the value of a row, measured or derived. It is always finite.
    pub(super) fn measure(&mut self, c: &Constants, row: usize) -> Result<f64, MeasureError> {
        if self.stopped {
            return Err(MeasureError::new("stopped"));
        }
        let key = (row, c.fingerprint());
        if let Some(known) = self.done.get(&key) {
            return known.clone();
        }
        let sheet = self.sheet;
        let figure = &sheet.rows[row].figure;
        let value = match &sheet.rows[row].derived {
            None => self.system.measure(c, figure),
            Some(derived) => {
                let mut parts = [0.0; 2];
                for (part, parent) in parts.iter_mut().zip(&derived.from) {
                    let at =
                        sheet.index(parent).ok_or_else(|| MeasureError::unknown_figure(parent))?;
                    *part = self.measure(c, at)?;
                }
                Ok(derived.rule.apply(parts[0], parts[1]))
            }
        };
        let value = value.and_then(|v| {
            let wrong = || MeasureError::new(format!("{figure} came out as {v}"));
            v.is_finite().then_some(v).ok_or_else(wrong)
        });
        self.done.insert(key, value.clone());
        value
    }
}
