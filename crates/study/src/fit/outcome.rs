//! The constants that fit the rows best, how well the rows determine them, and predictions.
//!
//! Derivatives at the solution are taken over two steps. Their difference is an estimate of their
//! error, from the grain of the simulation and from curvature. A direction of the constants in
//! which the rows change by no more than twice that error is not determined (singular values of the
//! columns in spreads, scaled to unit length).
//!
//! Intervals are those of the linear model: from the spreads and the grain, or without spreads from
//! the residuals and Student's t. They are the extent of the joint region (Scheffé): they hold for
//! all constants together, and errors of predictions for all predicted rows.

use super::measurements::{BEYOND, Measurements};
use super::sensitivity::{self, Moved};
use super::student::half_width;
use crate::figures::bench::{Bench, Progress, Rows};
use crate::figures::cores::Cores;
use crate::figures::{MeasureError, Role, Row, settle};
use crate::solve::{Derivatives, Direction, Parameter, Scaled, Search, Solution, Target, norm};
use doorbell_systems::cores;

/// A relative residual after which a search begins again, if no spread tells.
const FAR: f64 = 0.05;
/// The change of rows along a direction, in errors of the derivatives, that determines it.
pub(super) const ERRORS: f64 = 2.0;
/// A singular value of unit columns that is zero but for rounding.
const ROUNDING: f64 = 1e-6;
/// The squared part of a constant in a direction below which it is not of it.
const PART: f64 = 0.01;

/// A fit that has no result.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum FitError {
    /// A row could not be computed.
    #[error("{place}: {run}{error}")]
    Unmeasured {
        /// File and line of the row.
        place: String,
        /// The run that failed, for people.
        run: String,
        /// The reason.
        error: MeasureError,
    },
    /// A row is far from all that the constants can reach.
    #[error(transparent)]
    Contradiction(Contradiction),
}

/// A row that the constants do not reach.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error(
    "{place}: `{metric}` is {measured}, but {computed} where all rows are met best, {spreads:.0} \
     spreads away{bounds}: the rows contradict each other or the model, or the spread leaves out \
     an error"
)]
pub struct Contradiction {
    /// File and line of the row.
    pub place: String,
    /// Its metric.
    pub metric: String,
    /// Its value.
    pub measured: f64,
    /// The value of the run.
    pub computed: f64,
    /// Their distance.
    pub spreads: f64,
    /// The constants at a bound, for people.
    pub bounds: String,
}

/// The result for a constant.
#[derive(Clone, PartialEq, Debug)]
pub struct Solved {
    /// The value that the rows were computed with.
    pub value: f64,
    /// The certainty of it.
    pub state: State,
    /// The rows to fit that depend on it, by index.
    pub rows: Vec<usize>,
}

/// The certainty of a constant.
#[derive(Clone, PartialEq, Debug)]
pub enum State {
    /// The rows determine it. The 95 % interval is missing without spreads and with as many
    /// constants as rows.
    Determined(Option<(f64, f64)>),
    /// The rows would have it beyond the bound where it is.
    AtBound,
    /// The rows only show it in combination with these others. Without any, they hardly depend on
    /// it: its effect is less than the grain of the runs, or its interval no narrower than its
    /// range.
    Undetermined(Vec<usize>),
    /// No row depends on it.
    Unused,
}

/// A row beside the value computed for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// The value of the run, in the unit of the metric.
    pub computed: f64,
    /// Computed minus measured.
    pub difference: f64,
    /// The difference in spreads, if there are spreads.
    pub spreads: Option<f64>,
    /// The 95 % error of the difference, of a predicted row without a tolerance. It is missing
    /// without spreads and with as many constants as rows, and if the row rests on an undetermined
    /// constant.
    pub error: Option<f64>,
    /// True if the row is within its error, or satisfies its claim; `None` without either.
    pub holds: Option<bool>,
    /// The constants on which a predicted row rests but no row to fit shows, by index.
    pub rests_on: Vec<usize>,
}

/// The result of a fit.
#[derive(Clone, PartialEq, Debug)]
pub struct Calibration {
    /// The constants, in the order of the file.
    pub constants: Vec<Solved>,
    /// The rows, in the order of the file.
    pub rows: Vec<Compared>,
    /// The sum of the squared residuals of rows to fit: in spreads, or relative.
    pub squares: f64,
    /// Rows to fit less determined directions.
    pub freedom: usize,
    /// Runs made.
    pub runs: usize,
    /// The effects of the constants that were not solved for, if they were asked for.
    pub sensitivity: Option<Vec<Moved>>,
}

/// Solves for the constants of a measurement file, and predicts its other rows. With `sensitivity`,
/// moves every other constant of the profile. `progress` returns whether to go on.
///
/// # Errors
/// A run fails, or a row is more than five spreads away from what the constants reach.
pub fn fit(
    of: &Measurements,
    progress: &(dyn Fn(Progress<'_>) -> bool + Sync),
    sensitivity: bool,
) -> Result<Calibration, FitError> {
    let (sheet, cores) = (of.sheet(), Cores::new(cores()));
    fit_on(of, &Bench::new(&sheet, (&cores, [0; 3]), progress), sensitivity)
}

/// Does the same on a bench with the same runs and rows.
pub(super) fn fit_on(
    of: &Measurements,
    bench: &Bench<'_>,
    sensitivity: bool,
) -> Result<Calibration, FitError> {
    let told = of.rows.iter().any(|r| r.spread.is_some());
    let targets = targets(of);
    // The profile's value may be outside of the range of a file.
    let parameter = |(i, range): (usize, (f64, f64))| Parameter {
        start: of.solved_for(i).value.clamp(range.0, range.1),
        range,
    };
    let parameters = of.unknowns.iter().map(|u| u.range).enumerate().map(parameter);
    let parameters: Vec<Parameter> = parameters.collect();
    let rows = &mut rows(of, bench);
    let mut search = Search::new(&parameters, &targets);
    let solution = search.solve(rows, if told { BEYOND } else { FAR })?;
    search.tune(rows, &solution.at)?;
    let slopes = search.derivatives(rows, &solution.at, 1.0)?;
    let halved = search.derivatives(rows, &solution.at, 0.5)?;
    let free = search.free(&solution, &slopes);
    let grain = search.grain(rows, &solution.at)?;
    let scatter = scatter(of, &grain);
    if told {
        met(of, &search, &solution, (&free, &scatter)).map_err(FitError::Contradiction)?;
    }
    let base = (&search, &solution, &slopes);
    let moved = sensitivity.then(|| sensitivity::measure(of, base, &grain, rows)).transpose()?;
    let analysis = Analysis::new(&search, &solution, (slopes, &halved), &free, scatter);
    let result = analysis.result(of, told, bench.sheet.models.made());
    Ok(Calibration { sensitivity: moved, ..result })
}

/// Returns the rows as functions of the constants to solve for.
pub(super) fn rows<'b>(
    of: &'b Measurements,
    bench: &'b Bench<'b>,
) -> Rows<'b, impl Fn(usize, MeasureError) -> Result<f64, FitError>> {
    let lost = |row: usize, error| {
        let (place, run) = (of.rows[row].place.clone(), of.run_of(&of.rows[row]));
        let failed = run.filter(|_| matches!(error, MeasureError::Run(_)));
        let run = failed.map_or(String::new(), |run| format!("{}: ", run.scenario));
        Err(FitError::Unmeasured { place, run, error })
    };
    Rows {
        bench,
        base: of.constants.clone(),
        constants: of.unknowns.iter().map(|u| u.at).collect(),
        rows: (0..of.rows.len()).collect(),
        lost,
        evaluations: 0,
    }
}

/// Returns the value of each row and its spread. Without spreads all rows weigh the same, relative
/// to their values.
fn targets(of: &Measurements) -> Vec<Target> {
    let target = |r: &Row| Target {
        value: r.value,
        spread: r.spread.unwrap_or(r.scale()),
        counts: r.role == Role::Fit,
    };
    of.rows.iter().map(target).collect()
}

/// Returns the variance of each row with the grain of its run, relative to that of its spread.
/// Without spreads the residuals have both.
fn scatter(of: &Measurements, grain: &[f64]) -> Vec<f64> {
    let each = of.rows.iter().zip(grain);
    each.map(|(row, g)| 1.0 + row.spread.map_or(0.0, |s| (g / s).powi(2))).collect()
}

/// Checks that no row is beyond its spread.
fn met(
    of: &Measurements,
    search: &Search<'_>,
    s: &Solution,
    (free, scatter): (&[bool], &[f64]),
) -> Result<(), Contradiction> {
    let residuals = search.residuals(s).into_iter().zip(scatter);
    let residuals = residuals.map(|(r, scatter)| r.abs() / scatter.sqrt()).enumerate();
    let Some((i, spreads)) = residuals.max_by(|a, b| a.1.total_cmp(&b.1)) else { return Ok(()) };
    if spreads <= BEYOND {
        return Ok(());
    }
    let bounds = s.at.iter().zip(free).enumerate().filter(|(_, (_, free))| !**free);
    let bounds =
        bounds.map(|(i, (at, _))| format!(", with `{}` at its bound {at}", of.solved_for(i).key));
    let row = &of.rows[i];
    Err(Contradiction {
        place: row.place.clone(),
        metric: row.computed_from(),
        measured: doorbell_systems::result::significant(row.value, 6),
        computed: doorbell_systems::result::significant(s.values[i], 6),
        spreads,
        bounds: bounds.collect(),
    })
}

/// The linear model around a solution.
struct Analysis<'a> {
    search: &'a Search<'a>,
    solution: &'a Solution,
    slopes: Derivatives,
    /// The errors of the derivatives, by constant and row.
    errors: Vec<Vec<f64>>,
    /// True for constants that some row to fit depends on.
    used: Vec<bool>,
    /// True for those of them whose effect is more than the grain.
    visible: Vec<bool>,
    /// The variance of each row, relative to that of its spread.
    scatter: Vec<f64>,
    /// Of visible constants that are not at a bound.
    scaled: Scaled,
    /// True for each direction that is determined.
    determined: Vec<bool>,
}

impl<'a> Analysis<'a> {
    fn new(
        search: &'a Search<'a>,
        solution: &'a Solution,
        (slopes, halved): (Derivatives, &Derivatives),
        free: &[bool],
        scatter: Vec<f64>,
    ) -> Analysis<'a> {
        let errors = slopes.errors(halved);
        let weighted = |columns: &[Vec<f64>]| -> Vec<Vec<f64>> {
            columns.iter().map(|c| search.weighted(c)).collect()
        };
        let (columns, wrong) = (weighted(&slopes.columns), weighted(&errors));
        let used: Vec<bool> = columns.iter().map(|c| norm(c) > 0.0).collect();
        let visible = search.visible().iter().zip(&used).map(|(a, b)| *a && *b);
        let visible: Vec<bool> = visible.collect();
        let taken: Vec<bool> = free.iter().zip(&visible).map(|(a, b)| *a && *b).collect();
        let scaled = Scaled::new(columns, &taken);
        let is_determined = |d: &Direction| {
            let mut error = vec![0.0; solution.values.len()];
            for (i, of) in scaled.of.iter().enumerate() {
                let by = d.right[i] / scaled.norms[i];
                error.iter_mut().zip(&wrong[*of]).for_each(|(sum, e)| *sum += by * e);
            }
            d.value > ROUNDING.max(ERRORS * norm(&error))
        };
        let determined = scaled.directions.iter().map(is_determined).collect();
        Analysis { search, solution, slopes, errors, used, visible, scatter, scaled, determined }
    }

    fn result(&self, of: &Measurements, told: bool, runs: usize) -> Calibration {
        let squares = self.search.squares(self.solution);
        let to_fit = of.rows.iter().filter(|r| r.role == Role::Fit).count();
        let rank = self.determined.iter().filter(|d| **d).count();
        let freedom = to_fit.saturating_sub(rank);
        // Variance of a residual whose spread is 1.
        let variance = match told {
            true => Some(1.0),
            false => (freedom > 0).then(|| squares / freedom as f64),
        };
        let known = (!told).then_some(freedom);
        let width = half_width(rank, known);
        let spread = variance.map(|v| width * v.sqrt());
        let constants = (0..of.unknowns.len()).map(|i| self.constant(of, i, spread));
        let is_check = |r: &&Row| r.role == Role::Predicted && r.tolerance.is_none();
        let checks = of.rows.iter().filter(is_check).count();
        let variance = variance.map(|v| half_width(checks, known).powi(2) * v);
        let rows = (0..of.rows.len()).map(|i| self.row(of, i, told, variance));
        let (constants, rows) = (constants.collect(), rows.collect());
        Calibration { constants, rows, squares, freedom, runs, sensitivity: None }
    }

    /// Returns the place of a constant among those that are free and used.
    fn place(&self, constant: usize) -> Option<usize> {
        self.scaled.of.iter().position(|of| *of == constant)
    }

    fn directions(&self, determined: bool) -> impl Iterator<Item = &Direction> {
        let each = self.scaled.directions.iter().zip(&self.determined);
        each.filter(move |(_, is)| **is == determined).map(|(d, _)| d)
    }

    /// Returns whether no undetermined direction has a part in this constant.
    fn is_sure(&self, at: usize) -> bool {
        self.directions(false).map(|d| d.right[at].powi(2)).sum::<f64>() <= PART
    }

    fn constant(&self, of: &Measurements, i: usize, spread: Option<f64>) -> Solved {
        let value = self.solution.at[i];
        let (column, error) = (&self.slopes.columns[i], &self.errors[i]);
        let depends =
            |row: &usize| of.rows[*row].role == Role::Fit && column[*row].abs() > error[*row].abs();
        let rows = (0..of.rows.len()).filter(depends).collect();
        let state = match self.place(i) {
            _ if !self.used[i] => State::Unused,
            _ if !self.visible[i] => State::Undetermined(Vec::new()),
            None => State::AtBound,
            Some(at) if !self.is_sure(at) => State::Undetermined(self.beside(at)),
            Some(at) => self.interval(at, value, of.unknowns[i].range, spread),
        };
        Solved { value, state, rows }
    }

    /// Returns the variance of a number that has these parts of the determined directions.
    fn variance(&self, part: impl Fn(&Direction) -> f64) -> f64 {
        let mut by_row = vec![0.0; self.scatter.len()];
        for d in self.directions(true) {
            let share = part(d) / (d.value * d.value);
            by_row.iter_mut().zip(&d.image).for_each(|(sum, image)| *sum += share * image);
        }
        by_row.iter().zip(&self.scatter).map(|(by, scatter)| by * by * scatter).sum()
    }

    /// Returns the interval of a constant within its range.
    fn interval(
        &self,
        at: usize,
        value: f64,
        (low, high): (f64, f64),
        spread: Option<f64>,
    ) -> State {
        let variance = self.variance(|d| d.right[at]);
        let half = spread.map(|s| s * variance.sqrt() / self.scaled.norms[at]);
        match half.map(|h| (value - h, value + h)) {
            Some((a, b)) if a <= low && b >= high => State::Undetermined(Vec::new()),
            interval => State::Determined(interval.map(|(a, b)| (a.max(low), b.min(high)))),
        }
    }

    /// Returns the other constants that share undetermined directions with one, directly or by
    /// others.
    fn beside(&self, at: usize) -> Vec<usize> {
        let mut members = vec![false; self.scaled.of.len()];
        members[at] = true;
        for _ in 0..members.len() {
            for d in self.directions(false) {
                let parts: Vec<bool> = d.right.iter().map(|x| x * x > PART).collect();
                if parts.iter().zip(&members).any(|(a, b)| *a && *b) {
                    members.iter_mut().zip(parts).for_each(|(m, part)| *m |= part);
                }
            }
        }
        let others = (0..members.len()).filter(|i| members[*i] && *i != at);
        let mut others: Vec<usize> = others.map(|i| self.scaled.of[i]).collect();
        others.sort_unstable();
        others
    }

    fn row(&self, of: &Measurements, i: usize, told: bool, variance: Option<f64>) -> Compared {
        let (row, computed) = (&of.rows[i], self.solution.values[i]);
        let difference = computed - row.value;
        let spreads = row.spread.filter(|_| told).map(|s| difference / s);
        let rests_on = if row.role == Role::Fit { Vec::new() } else { self.rests_on(i) };
        let model = self.variance(|d| self.along(&self.slopes.columns, i, d));
        let own = row.spread.unwrap_or(row.scale());
        let error = variance.map(|v| (v * (model + own * own * self.scatter[i])).sqrt());
        let judged_by_it = row.role == Role::Predicted && row.tolerance.is_none();
        let error = error.filter(|_| judged_by_it && rests_on.is_empty());
        let settled = settle(computed, row.role);
        let holds = match error {
            Some(error) => Some(difference.abs() <= error),
            None if judged_by_it => None,
            None if row.departs(settled) => Some(false),
            None => row.judge(settled),
        };
        Compared { computed, difference, spreads, error, holds, rests_on }
    }

    /// Returns the change of a row along a direction.
    fn along(&self, columns: &[Vec<f64>], row: usize, d: &Direction) -> f64 {
        let each = self.scaled.of.iter().zip(&self.scaled.norms).zip(&d.right);
        each.map(|((of, length), x)| columns[*of][row] * x / length).sum()
    }

    /// Returns the constants that move a row, but that no row to fit determines.
    fn rests_on(&self, row: usize) -> Vec<usize> {
        let is_moved = |change: f64, error: f64| {
            let size = self.solution.values[row].abs().max(f64::MIN_POSITIVE);
            change.abs() > (ERRORS * error.abs()).max(ROUNDING * size)
        };
        let mut all: Vec<usize> = (0..self.used.len())
            .filter(|i| !self.visible[*i])
            .filter(|i| {
                let scale = self.solution.at[*i].abs().max(1.0);
                is_moved(self.slopes.columns[*i][row] * scale, self.errors[*i][row] * scale)
            })
            .collect();
        for d in self.directions(false) {
            let (change, error) =
                (self.along(&self.slopes.columns, row, d), self.along(&self.errors, row, d));
            if is_moved(change, error) {
                let parts = d.right.iter().enumerate().filter(|(_, x)| *x * *x > PART);
                all.extend(parts.map(|(i, _)| self.scaled.of[i]));
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests;
