//! The bench: a system, its sheet, and the measurements made so far.

use super::cores::{Cores, Rank};
use super::{Constants, FigureSet, MeasureError};
use crate::memo::Memo;
use doorbell_systems::on_threads;
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

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
        /// Evaluations of its row so far.
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

/// A system on the bench, for several threads at a time. It remembers every measurement, so that
/// nothing is simulated twice.
pub(super) struct Bench<'a> {
    pub(super) sheet: &'a FigureSet,
    /// The cores that it shares with the other systems, and its rank among them.
    pub(super) cores: &'a Cores,
    pub(super) rank: Rank,
    pub(super) progress: &'a (dyn Fn(Progress<'_>) -> bool + Sync),
    /// Whoever hears of the progress wants no more.
    pub(super) stopped: AtomicBool,
    pub(super) done: Memo<(usize, Vec<u64>), Result<f64, MeasureError>>,
}

impl Bench<'_> {
    pub(super) fn tell(&self, doing: Stage<'_>) {
        if !(self.progress)(Progress { system: &self.sheet.system, doing }) {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Applies `f` to each item with its index, on all cores. Returns the results in order.
    pub(super) fn each<I: Sync, T: Send>(
        &self,
        items: &[I],
        f: impl Fn(usize, &I) -> T + Sync,
    ) -> Vec<T> {
        let Ok(all) =
            on_threads(self.cores.all, items, |at, item| Ok::<_, Infallible>(f(at, item)));
        all
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns the value of a row, measured or derived. It is always finite.
    pub(super) fn measure(&self, c: &Constants, row: usize) -> Result<f64, MeasureError> {
        if self.is_stopped() {
            return Err(MeasureError::new("stopped"));
        }
        self.done.get((row, c.fingerprint()), || {
            let row = &self.sheet.rows[row];
            let value = match &row.derived {
                None => {
                    let _core = self.cores.take(self.rank);
                    (self.sheet.measure)(c, &row.figure)?
                }
                Some(derived) => {
                    let part = |parent: &String| {
                        let at = self.sheet.index(parent);
                        self.measure(c, at.ok_or_else(|| MeasureError::unknown_figure(parent))?)
                    };
                    let [a, b] = &derived.from;
                    derived.rule.apply(part(a)?, part(b)?)
                }
            };
            let wrong = || MeasureError::new(format!("{} came out as {value}", row.figure));
            value.is_finite().then_some(value).ok_or_else(wrong)
        })
    }
}
