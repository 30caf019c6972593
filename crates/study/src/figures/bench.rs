//! The bench: a system, its sheet, and the measurements made so far.

use super::cores::{Cores, Rank};
use super::{Constants, FigureSet, MeasureError};
use crate::memo::Memo;
use crate::solve::Model;
use doorbell_sim::watch::While;
use doorbell_systems::{RunError, on_threads};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// The next step of a study of rows, for a progress bar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// The system, or the measurements.
    pub system: &'a str,
    /// The stage.
    pub doing: Stage<'a>,
}

/// A stage of a study of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage<'a> {
    /// Solving for constants. The number of evaluations is not known beforehand.
    Fit {
        /// Evaluations of the rows so far.
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
    /// Within a run, of whichever stage.
    Run,
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.system)?;
        match self.doing {
            Stage::Fit { evaluations } => write!(f, "fitting, evaluation {evaluations}"),
            Stage::Row { figure, done, total } => {
                write!(f, "measuring {figure} ({} of {total})", done + 1)
            }
            Stage::Combination { done, total } => {
                write!(f, "trying combinations of choices ({} of {total})", done + 1)
            }
            Stage::Sensitivity { constant, done, total } => {
                write!(f, "moving {constant} ({} of {total})", done + 1)
            }
            Stage::Run => f.write_str("running"),
        }
    }
}

/// A system on the bench, for several threads at a time. It remembers every row, so that nothing
/// is computed twice.
pub(crate) struct Bench<'a> {
    pub(crate) sheet: &'a FigureSet,
    /// The cores that it shares with the other systems, and its rank among them.
    pub(super) cores: &'a Cores,
    pub(super) rank: Rank,
    progress: &'a (dyn Fn(Progress<'_>) -> bool + Sync),
    /// Whoever hears of the progress wants no more.
    stopped: AtomicBool,
    done: Memo<(usize, Vec<u64>), Result<f64, MeasureError>>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(
        sheet: &'a FigureSet,
        (cores, rank): (&'a Cores, Rank),
        progress: &'a (dyn Fn(Progress<'_>) -> bool + Sync),
    ) -> Bench<'a> {
        let (stopped, done) = (AtomicBool::new(false), Memo::default());
        Bench { sheet, cores, rank, progress, stopped, done }
    }

    /// Tells of a stage. Returns whether to go on.
    pub(crate) fn tell(&self, doing: Stage<'_>) -> bool {
        if !(self.progress)(Progress { system: &self.sheet.system, doing }) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        !self.is_stopped()
    }

    /// Applies `f` to each item with its index, on all cores. Returns the results in order.
    pub(crate) fn each<I: Sync, T: Send>(
        &self,
        items: &[I],
        f: impl Fn(usize, &I) -> T + Sync,
    ) -> Vec<T> {
        let Ok(all) =
            on_threads(self.cores.all, items, |at, item| Ok::<_, Infallible>(f(at, item)));
        all
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns the value of a row, computed or derived. It is always finite.
    pub(crate) fn measure(&self, c: &Constants, row: usize) -> Result<f64, MeasureError> {
        if self.is_stopped() {
            return Err(RunError::Stopped.into());
        }
        self.done.get((row, c.fingerprint()), || {
            let row = &self.sheet.rows[row];
            let value = match (&row.derived, &row.number) {
                (None, Some(number)) => {
                    let _core = self.cores.take(self.rank);
                    let go_on = || self.tell(Stage::Run);
                    self.sheet.models.measure(c, number, &mut While(&go_on))?
                }
                (None, None) => {
                    let _core = self.cores.take(self.rank);
                    (self.sheet.measure)(c, &row.figure)?
                }
                (Some(derived), _) => {
                    let part = |parent: &String| {
                        let at = self.sheet.index(parent);
                        self.measure(c, at.ok_or_else(|| MeasureError::unknown_figure(parent))?)
                    };
                    let [a, b] = &derived.from;
                    derived.rule.apply(part(a)?, part(b)?)
                }
            };
            let wrong =
                || MeasureError::new(format!("{} came out as {value}", row.computed_from()));
            value.is_finite().then_some(value).ok_or_else(wrong)
        })
    }
}

/// Some rows as functions of some constants. `lost` makes what the search gets of a row that
/// cannot be computed.
pub(crate) struct Rows<'a, F> {
    pub(crate) bench: &'a Bench<'a>,
    /// The values of the other constants.
    pub(crate) base: Constants,
    /// The constants and the rows, by index.
    pub(crate) constants: Vec<usize>,
    pub(crate) rows: Vec<usize>,
    pub(crate) lost: F,
    /// Places at which the rows were computed.
    pub(crate) evaluations: u32,
}

impl<F> Rows<'_, F> {
    /// Returns all constants at a point.
    pub(crate) fn at(&self, point: &[f64]) -> Constants {
        let mut place = self.base.clone();
        for (constant, value) in self.constants.iter().zip(point) {
            place.numbers[*constant].value = *value;
        }
        place
    }

    /// Returns the rows at each place.
    ///
    /// # Errors
    /// The first that `lost` makes.
    pub(crate) fn of_places<E>(&mut self, places: &[Constants]) -> Result<Vec<Vec<f64>>, E>
    where
        F: Fn(usize, MeasureError) -> Result<f64, E>,
    {
        // The other rows of a run would wait for the first one.
        let mut begun = BTreeSet::new();
        let run = |row: &usize| self.bench.sheet.rows[*row].number.as_ref().map(|n| n.run);
        let first = |row: &&usize| run(row).is_none_or(|run| begun.insert(run));
        let firsts: Vec<usize> = self.rows.iter().filter(first).copied().collect();
        let of_place = |(n, c)| firsts.iter().map(move |row| (n, c, *row));
        let ahead: Vec<_> = (1u32..).zip(places).flat_map(of_place).collect();
        self.bench.each(&ahead, |_, (n, c, row)| {
            self.bench.tell(Stage::Fit { evaluations: self.evaluations + n });
            self.bench.measure(c, *row).is_ok()
        });
        self.evaluations += places.len() as u32;
        let value =
            |c, row: &usize| self.bench.measure(c, *row).or_else(|why| (self.lost)(*row, why));
        places.iter().map(|c| self.rows.iter().map(|row| value(c, row)).collect()).collect()
    }
}

impl<E, F: Fn(usize, MeasureError) -> Result<f64, E>> Model for Rows<'_, F> {
    type Error = E;

    fn values(&mut self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, E> {
        let places: Vec<Constants> = points.iter().map(|point| self.at(point)).collect();
        self.of_places(&places)
    }
}
