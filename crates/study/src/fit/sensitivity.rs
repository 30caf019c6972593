//! Sensitivity: what follows the constants that were not solved for.
//!
//! Each is moved by its step, and the rows are computed again: first with all others held, which
//! finds those that no row depends on, then with the constants solved again, as if the profile had
//! said so. Changes within the grain of the runs count as none, and so do those that no table
//! shows.

use super::measurements::{Measurements, Unknown};
use super::outcome::ERRORS;
use super::runs::{Runs, Unmeasured};
use crate::figures::Perturbation;
use crate::figures::platform::nudge;
use crate::solve::{Derivatives, Model, Search, Solution};

/// A relative change that is 0.00 %.
const UNSEEN: f64 = 5e-5;

/// The effect of a constant that was not solved for.
#[derive(Clone, PartialEq, Debug)]
pub struct Moved {
    /// Its key.
    pub key: &'static str,
    /// The step by which it was moved.
    pub nudge: Perturbation,
    /// The relative change of each solved constant and of each row, in the order of the file, with
    /// the constants solved again; `None` if no row depends on it.
    pub follows: Option<(Vec<f64>, Vec<f64>)>,
}

/// The rows, as functions of the constants to solve for, with another one moved.
struct With<'r, 'a> {
    runs: &'r mut Runs<'a>,
    others: Vec<f64>,
}

impl Model for With<'_, '_> {
    type Error = Unmeasured;

    fn values(&mut self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Unmeasured> {
        let all = points.iter().map(|point| [&point[..], &self.others].concat());
        self.runs.values(&all.collect::<Vec<_>>())
    }
}

/// Moves each constant from the solution. `grain` is the scatter of each row.
pub(super) fn measure(
    of: &Measurements,
    (search, solution, slopes): (&Search<'_>, &Solution, &Derivatives),
    grain: &[f64],
    runs: &mut Runs<'_>,
) -> Result<Vec<Moved>, Unmeasured> {
    let starts: Vec<f64> = of.others.iter().map(|u| u.start).collect();
    let moved = |(i, other): (usize, &Unknown)| {
        let step = nudge(other.key, other.start);
        let mut others = starts.clone();
        others[i] = step.apply(other.start);
        (other.key.name, step, others)
    };
    let moved: Vec<_> = of.others.iter().enumerate().map(moved).collect();
    // All at once, so that all cores have something to do.
    let alone: Vec<Vec<f64>> =
        moved.iter().map(|(_, _, others)| [&solution.at[..], others].concat()).collect();
    let alone = runs.values(&alone)?;
    let each = moved.into_iter().zip(alone).map(|((key, nudge, others), alone)| {
        let beyond = |((a, b), grain): ((&f64, &f64), &f64)| {
            (a - b).abs() > (ERRORS * grain).max(UNSEEN * b.abs())
        };
        let moves = alone.iter().zip(&solution.values).zip(grain).any(beyond);
        let found = moves.then(|| search.solve_again(&mut With { runs, others }, solution, slopes));
        let follows = found.transpose()?.map(|found| {
            (changes(&solution.at, &found.at), changes(&solution.values, &found.values))
        });
        Ok(Moved { key, nudge, follows })
    });
    each.collect()
}

/// Returns relative changes; the change itself of a number that was 0.
fn changes(from: &[f64], to: &[f64]) -> Vec<f64> {
    let change = |(a, b): (&f64, &f64)| if *a == 0.0 { *b } else { (b - a) / a.abs() };
    from.iter().zip(to).map(change).collect()
}
