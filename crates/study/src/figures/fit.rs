//! Fits: constants solved for, one row each.
//!
//! All constants are solved for together, from the profile's values, by Newton steps, each of which
//! has to halve the worst residual. Where they do not end it, each constant is searched, in the
//! order of the sheet, for the value at which its row equals the published figure, while the others
//! stay; Newton steps follow. If that spoils a row fitted before, all are swept again
//! (Gauss-Seidel). A search begins in a bracket around the constant's present value: far from it a
//! machine may be overloaded, and no constant has any effect there. As long as others move, it is
//! only as sharp as they will leave it.
//!
//! Sweeps over the whole ranges follow where that fails. If no set of constants serves all rows,
//! the fit has failed. If several do, narrower bounds should leave one.
//!
//! A fit is done when its row is within [`RESIDUAL`] of the published value. If a simulation's
//! steps straddle that value by less than [`GRAIN`], the closer step is taken and its residual
//! reported.

use super::bench::{Bench, Stage};
use super::solve::{Found, Precision, linear, root};
use super::{Constants, MeasureError, Row, Source};

/// The residual at which a fit is done, relative to the published value, unless the system sets
/// [`precision`](super::FigureSet::precision).
pub(crate) const RESIDUAL: f64 = 1e-7;
/// The largest residual, relative to the published value, that the steps of a simulation may leave.
pub(crate) const GRAIN: f64 = 1e-3;
/// The most sweeps over all fits of a system.
pub(crate) const SWEEPS: u32 = 60;
/// The most of them that begin around the constants' present values.
const NEAR_SWEEPS: u32 = 10;
/// The residual of one search among several, as a share of what the sweep is to leave: finer, so
/// that the sweeps settle.
const FINER: f64 = 0.1;
/// The width within which a row may be taken for one that jumps, as a share of the bounds.
const NARROW: f64 = 1e-6;
/// The share of the worst residual that a search leaves while others still move.
const SHARPER: f64 = 1e-2;
/// The first step from a constant's present value, as a share of its bounds, and the least factor
/// between steps.
const NEAR: f64 = 1e-3;
const WIDER: f64 = 4.0;
/// Share of the way to where the last two values point, so that it ends behind it.
const BEYOND: f64 = 1.25;
/// Step of a Newton step's difference quotients, as a share of the bounds: wide enough to stand
/// above the rounding of a simulation to its clock.
const PROBE: f64 = 1e-4;

/// The result of fitting one constant.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// The constant.
    pub constant: String,
    /// The row that it consumed.
    pub row: String,
    /// The value found; for a failed fit, the last one tried.
    pub value: f64,
    /// The remaining difference from the published value, relative to it. `None` if the row could
    /// not be measured.
    pub residual: Option<f64>,
    /// Evaluations of the row, over all sweeps.
    pub evaluations: u32,
    /// Sweeps over all fits of the system.
    pub sweeps: u32,
    /// The reason for a failure.
    pub failed: Option<FitError>,
}

/// The reasons for a failed fit.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum FitError {
    /// No value within the bounds reaches the published figure.
    #[error(
        "not bracketed: published is {published}, but computed is {} at {} and {} at {}",
        short(low.1), short(low.0), short(high.1), short(high.0)
    )]
    NotBracketed {
        /// Lower bound, and the row's value there.
        low: (f64, f64),
        /// Upper bound, and the row's value there.
        high: (f64, f64),
        /// The published figure.
        published: f64,
    },
    /// The row jumps across the published figure.
    #[error("jumps from {} to {} at {}", short(*below), short(*above), short(*at))]
    Jumps {
        /// The value of the constant.
        at: f64,
        /// The row on the lower side of the jump.
        below: f64,
        /// The row on its upper side.
        above: f64,
    },
    /// In every sweep, fitting the others undid this one.
    #[error(
        "not converged after {sweeps} sweeps over all fits: {:+} % are left",
        short(residual * 100.0)
    )]
    NotConverged {
        /// Sweeps made.
        sweeps: u32,
        /// The residual left, relative to the published value.
        residual: f64,
    },
    /// The row could not be measured.
    #[error("not measured: {0}")]
    Measure(MeasureError),
}

/// Rounds to four significant digits, for a message.
fn short(x: f64) -> f64 {
    super::report::round_significant(x, 4)
}

/// Solves all fits of the bench's sheet. `constants` are left at the values found.
pub(super) fn solve(bench: &Bench<'_>, constants: &mut Constants) -> Vec<Fit> {
    solve_those(bench, constants, bench.sheet.precision, |_| true)
}

/// The rise of each fit's residual with each fit's constant.
pub(super) type Slopes = Vec<Vec<f64>>;

/// Returns the slopes of all fits where the constants are, for [`solve_again`].
pub(super) fn all_slopes(bench: &Bench<'_>, constants: &Constants) -> Option<Slopes> {
    let mut fits = searches(bench, constants, |_| true);
    look(&mut fits, bench, constants);
    slopes(&mut fits, bench, constants)
}

/// Solves all fits near a place with these slopes, which serve for all steps as long as each step
/// halves what is left.
pub(super) fn solve_again(
    bench: &Bench<'_>,
    constants: &mut Constants,
    slopes: Option<&Slopes>,
) -> Vec<Fit> {
    if slopes.is_some() {
        let mut fits = searches(bench, constants, |_| true);
        let worst = look(&mut fits, bench, constants);
        newton_steps(&mut fits, bench, constants, worst, bench.sheet.precision, slopes);
    }
    solve(bench, constants)
}

fn searches(
    bench: &Bench<'_>,
    constants: &Constants,
    wanted: impl Fn(&Row) -> bool,
) -> Vec<Search> {
    let rows = &bench.sheet.rows;
    let those = bench.sheet.fits().into_iter().filter(|(_, row)| wanted(&rows[*row]));
    those.filter_map(|fit| Search::new(fit, constants)).collect()
}

/// Solves the fits on the rows that `wanted` takes, to a residual of `enough`. The others'
/// constants stay where they are.
pub(super) fn solve_those(
    bench: &Bench<'_>,
    constants: &mut Constants,
    enough: f64,
    wanted: impl Fn(&Row) -> bool,
) -> Vec<Fit> {
    let mut fits = searches(bench, constants, wanted);
    let start = constants.clone();
    // Coupled constants have more than one solution, and those far away are not meant.
    let near = if fits.len() == 1 { Range::Ahead } else { Range::Near };
    let mut sweeps = sweep(&mut fits, bench, constants, enough, near, NEAR_SWEEPS);
    if residual(&fits) > GRAIN.max(enough) {
        *constants = start;
        sweeps = sweep(&mut fits, bench, constants, enough, Range::Whole, SWEEPS);
    }
    fits.into_iter().map(|fit| fit.finish(bench, constants, sweeps)).collect()
}

/// Parts of a constant's range, in which a search looks first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Range {
    /// First around its present value, in steps that widen.
    Near,
    /// The same, or beyond where the last two values point.
    Ahead,
    /// Between its bounds.
    Whole,
}

/// Sweeps over all fits, at most so often. Returns the sweeps made.
fn sweep(
    fits: &mut [Search],
    bench: &Bench<'_>,
    constants: &mut Constants,
    enough: f64,
    range: Range,
    most: u32,
) -> u32 {
    let mut worst = look(fits, bench, constants);
    if range != Range::Whole {
        worst = newton_steps(fits, bench, constants, worst, enough, None);
    }
    for sweeps in 1..=most {
        if worst <= enough || fits.is_empty() {
            return sweeps - 1;
        }
        let before = constants.clone();
        let alone = fits.len() == 1 || !worst.is_finite() || range == Range::Whole;
        let left = if alone { enough } else { enough.max(worst * SHARPER) };
        let each = if fits.len() == 1 { left } else { left * FINER };
        for fit in fits.iter_mut() {
            fit.search(bench, constants, each, range);
        }
        if let [Search { obstacle: Some(FitError::NotBracketed { .. }), .. }] = fits {
            return sweeps;
        }
        let last = worst;
        worst = look(fits, bench, constants);
        worst = newton_steps(fits, bench, constants, worst, enough, None);
        // Among the steps of a simulation there is always another one.
        let settled = worst <= GRAIN && worst > last / 2.0;
        if settled && worst > last {
            *constants = before.clone();
            worst = look(fits, bench, constants);
        }
        if left == enough && (settled || constants.fingerprint() == before.fingerprint()) {
            return sweeps;
        }
    }
    most
}

/// Makes steps on all constants by their slopes, those `known` or else those of each place, while
/// each at least halves the worst residual. Returns the residual that is left. For a lone constant
/// a search does better than slopes of each place.
fn newton_steps(
    fits: &mut [Search],
    bench: &Bench<'_>,
    constants: &mut Constants,
    mut worst: f64,
    enough: f64,
    known: Option<&Slopes>,
) -> f64 {
    while worst > enough && (known.is_some() || fits.len() > 1) {
        let before = constants.clone();
        let slopes = known.cloned().or_else(|| slopes(fits, bench, constants));
        let stepped = slopes.is_some_and(|slopes| step(fits, slopes, constants));
        match stepped.then(|| look(fits, bench, constants)) {
            Some(better) if better <= worst / 2.0 => worst = better,
            _ => {
                *constants = before;
                look(fits, bench, constants);
                break;
            }
        }
    }
    worst
}

/// Returns the worst residual with all constants in place. It is infinite if one cannot be
/// measured.
fn look(fits: &mut [Search], bench: &Bench<'_>, constants: &Constants) -> f64 {
    let here = each_residual(fits, bench, std::slice::from_ref(constants));
    for (fit, residual) in fits.iter_mut().zip(here.into_iter().flatten()) {
        fit.residual = residual;
    }
    residual(fits)
}

/// Returns the residuals of all fits at each place, measured on all cores.
fn each_residual(
    fits: &mut [Search],
    bench: &Bench<'_>,
    places: &[Constants],
) -> Vec<Vec<Result<f64, MeasureError>>> {
    let count = fits.len();
    let pairs: Vec<_> = places.iter().flat_map(|c| fits.iter().map(move |fit| (c, fit))).collect();
    let residuals = bench.each(&pairs, |_, (c, fit)| fit.residual_at(bench, c));
    fits.iter_mut().for_each(|fit| fit.evaluations += places.len() as u32);
    residuals.chunks(count.max(1)).map(<[_]>::to_vec).collect()
}

/// Returns the worst residual of those last measured.
fn residual(fits: &[Search]) -> f64 {
    fits.iter().map(|f| f.residual.as_ref().map_or(f64::INFINITY, |r| r.abs())).fold(0.0, f64::max)
}

/// Returns how much each row's residual rises with each constant, from residuals just measured.
/// `None` if one cannot be measured.
fn slopes(fits: &mut [Search], bench: &Bench<'_>, constants: &Constants) -> Option<Slopes> {
    let here: Option<Vec<f64>> = fits.iter().map(|fit| fit.residual.clone().ok()).collect();
    let here = here?;
    let step_of = |fit: &Search| {
        let ((low, high), value) = (fit.bounds, constants.numbers[fit.constant].value);
        (if value + PROBE * (high - low) <= high { PROBE } else { -PROBE }) * (high - low)
    };
    let steps: Vec<f64> = fits.iter().map(step_of).collect();
    let places = fits.iter().zip(&steps).map(|(fit, step)| {
        let mut place = constants.clone();
        place.numbers[fit.constant].value += step;
        place
    });
    let places: Vec<Constants> = places.collect();
    let moved = each_residual(fits, bench, &places);
    let mut slopes = vec![vec![0.0; fits.len()]; fits.len()];
    for (column, moved) in moved.into_iter().enumerate() {
        for (row, moved) in moved.into_iter().enumerate() {
            slopes[row][column] = (moved.ok()? - here[row]) / steps[column];
        }
    }
    Some(slopes)
}

/// Moves all fitted constants to where their rows would be as published by these slopes, from
/// residuals just measured. Returns whether there is such a place.
fn step(fits: &[Search], slopes: Slopes, constants: &mut Constants) -> bool {
    let downhill = fits.iter().map(|fit| fit.residual.clone().ok().map(|r| -r));
    let Some(downhill) = downhill.collect::<Option<Vec<f64>>>() else { return false };
    let Some(steps) = linear(slopes, downhill) else { return false };
    for (fit, step) in fits.iter().zip(steps) {
        let (low, high) = fit.bounds;
        let value = &mut constants.numbers[fit.constant].value;
        *value = (*value + step).clamp(low, high);
    }
    true
}

/// Returns two values around `start` between which `f` changes its sign: one of them `start` or
/// near it, the other a step away towards where `f` gets less. Steps widen, or go this share
/// `beyond` where the last two values point. `None` if there is none within the bounds on that
/// side, or if `f` cannot be measured.
fn bracket<E>(
    start: f64,
    (low, high): (f64, f64),
    beyond: f64,
    f: &mut impl FnMut(f64) -> Result<f64, E>,
) -> Option<(f64, f64)> {
    let mut f_at = |x: f64| f(x).ok();
    let first = NEAR * (high - low);
    let here = f_at(start)?;
    let sides = [(start + first).min(high), (start - first).max(low)];
    let other = if sides[0] > start { sides[0] } else { sides[1] };
    let there = f_at(other)?;
    let changes = |a: f64, b: f64| (a < 0.0) != (b < 0.0);
    let ordered = |a: f64, b: f64| (a.min(b), a.max(b));
    if changes(here, there) {
        return Some(ordered(start, other));
    }
    let up = (there.abs() < here.abs()) == (other > start);
    // The last two places, the nearer to the sign's change second, and the values there.
    let mut last = [(start, here), (other, there)];
    if up != (other > start) {
        last.reverse();
    }
    let mut step = first;
    while if up { last[1].0 < high } else { last[1].0 > low } {
        step *= WIDER;
        let [(before, f), (here, value)] = last;
        // Infinite where nothing moves: at a limit that this constant has no part in.
        let ahead = ((here - before) * value / (value - f)).abs() * beyond;
        let far = step.max((here - start).abs() + if ahead.is_nan() { 0.0 } else { ahead });
        let next = if up { (start + far).min(high) } else { (start - far).max(low) };
        let there = f_at(next)?;
        if changes(value, there) {
            return Some(ordered(here, next));
        }
        last = [last[1], (next, there)];
    }
    None
}

/// One fit, while the sweeps go on.
struct Search {
    constant: usize,
    row: usize,
    bounds: (f64, f64),
    evaluations: u32,
    residual: Result<f64, MeasureError>,
    obstacle: Option<FitError>,
}

impl Search {
    fn new((constant, row): (usize, usize), constants: &Constants) -> Option<Search> {
        let Source::Fit { range: (low, high), .. } = constants.numbers[constant].source else {
            return None;
        };
        let (bounds, residual) = ((low, high), Ok(f64::INFINITY));
        Some(Search { constant, row, bounds, evaluations: 0, residual, obstacle: None })
    }

    /// Returns the row's distance from its published value, relative to the latter.
    fn residual_at(&self, bench: &Bench<'_>, c: &Constants) -> Result<f64, MeasureError> {
        let constant = &c.numbers[self.constant].key;
        bench.tell(Stage::Fit { constant, evaluations: self.evaluations + 1 });
        let measured = bench.measure(c, self.row)?;
        let row = &bench.sheet.rows[self.row];
        Ok((measured - row.published) / row.scale())
    }

    /// Returns the same, and counts it.
    fn evaluate(&mut self, bench: &Bench<'_>, c: &Constants) -> Result<f64, MeasureError> {
        let residual = self.residual_at(bench, c);
        self.evaluations += 1;
        residual
    }

    /// Moves the constant to where its row leaves no more than `residual` of the published figure,
    /// or comes closest to it.
    fn search(
        &mut self,
        bench: &Bench<'_>,
        constants: &mut Constants,
        residual: f64,
        range: Range,
    ) {
        let (start, (low, high)) = (constants.numbers[self.constant].value, self.bounds);
        let precision = Precision { residual, width: NARROW * (high - low) };
        self.obstacle = None;
        if self.evaluate(bench, constants).is_ok_and(|r| r.abs() <= precision.residual) {
            return;
        }
        let mut at = |x: f64| {
            constants.numbers[self.constant].value = x;
            self.evaluate(bench, constants)
        };
        let beyond = if range == Range::Ahead { BEYOND } else { 0.0 };
        let near = (range != Range::Whole).then(|| bracket(start, (low, high), beyond, &mut at));
        let near = near.flatten();
        let (low, high) = near.unwrap_or((low, high));
        let found = root((low, high), precision, at);
        let row = &bench.sheet.rows[self.row];
        let value = |residual: f64| row.published + residual * row.scale();
        let (at, obstacle) = match found {
            Ok(Found::Root { at }) => (at, None),
            Ok(Found::Jump { at, below, above }) => {
                (at, Some(FitError::Jumps { at, below: value(below), above: value(above) }))
            }
            Ok(Found::NotBracketed { at_low, at_high }) => {
                let obstacle = FitError::NotBracketed {
                    low: (low, value(at_low)),
                    high: (high, value(at_high)),
                    published: row.published,
                };
                (if at_low.abs() <= at_high.abs() { low } else { high }, Some(obstacle))
            }
            Err(why) => (start, Some(FitError::Measure(why))),
        };
        constants.numbers[self.constant].value = at;
        self.obstacle = obstacle;
    }

    fn finish(self, bench: &Bench<'_>, constants: &Constants, sweeps: u32) -> Fit {
        let failed = match (&self.residual, self.obstacle) {
            (Err(why), _) => Some(FitError::Measure(why.clone())),
            (Ok(residual), _) if residual.abs() <= bench.sheet.precision => None,
            // Still moving: the last sweep only failed at the others' values of that time.
            (Ok(residual), _) if sweeps == SWEEPS => {
                Some(FitError::NotConverged { sweeps, residual: *residual })
            }
            // A step of this row, or of another's on which its own constant rests.
            (Ok(residual), None | Some(FitError::Jumps { .. })) if residual.abs() <= GRAIN => None,
            (Ok(residual), obstacle) => {
                Some(obstacle.unwrap_or(FitError::NotConverged { sweeps, residual: *residual }))
            }
        };
        let constant = &constants.numbers[self.constant];
        Fit {
            constant: constant.key.clone(),
            row: bench.sheet.rows[self.row].figure.clone(),
            value: constant.value,
            residual: self.residual.ok(),
            evaluations: self.evaluations,
            sweeps,
            failed,
        }
    }
}
