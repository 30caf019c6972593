//! Sensitivity: what follows the constants that were not solved for.
//!
//! Each is moved by its step, and the rows are computed again: first with all others held, which
//! finds those that no row depends on, then with the constants solved again, as if the profile had
//! said so. Changes within the grain of the runs count as none, and so do those that no table
//! shows.

use super::measurements::Measurements;
use super::outcome::{ERRORS, FitError};
use crate::figures::bench::{Rows, Stage};
use crate::figures::{MeasureError, Perturbation, change};
use crate::solve::{Derivatives, Search, Solution};

/// A relative change that is 0.00 %.
const UNSEEN: f64 = 5e-5;

/// The effect of a constant that was not solved for.
#[derive(Clone, PartialEq, Debug)]
pub struct Moved {
    /// Its key.
    pub key: String,
    /// The step by which it was moved.
    pub nudge: Perturbation,
    /// The relative change of each solved constant and of each row, in the order of the file, with
    /// the constants solved again; `None` if no row depends on it.
    pub follows: Option<(Vec<f64>, Vec<f64>)>,
}

/// Moves each constant from the solution. `grain` is the scatter of each row.
pub(super) fn measure(
    of: &Measurements,
    (search, solution, slopes): (&Search<'_>, &Solution, &Derivatives),
    grain: &[f64],
    rows: &mut Rows<'_, impl Fn(usize, MeasureError) -> Result<f64, FitError>>,
) -> Result<Vec<Moved>, FitError> {
    let solved = rows.at(&solution.at);
    let others = (0..solved.numbers.len()).filter(|i| of.unknowns.iter().all(|u| u.at != *i));
    let others: Vec<usize> = others.collect();
    let moved: Vec<_> = others.iter().map(|i| solved.moved(*i)).collect();
    // All at once, so that all cores have something to do.
    let alone = rows.of_places(&moved)?;
    let mut all = Vec::new();
    for (done, ((i, place), alone)) in others.iter().zip(moved).zip(alone).enumerate() {
        let (key, nudge) = (solved.numbers[*i].key.clone(), solved.numbers[*i].nudge);
        rows.bench.tell(Stage::Sensitivity { constant: &key, done, total: others.len() });
        let beyond = |((a, b), grain): ((&f64, &f64), &f64)| {
            (a - b).abs() > (ERRORS * grain).max(UNSEEN * b.abs())
        };
        let moves = alone.iter().zip(&solution.values).zip(grain).any(beyond);
        rows.base = place;
        let found = moves.then(|| search.solve_again(rows, solution, slopes)).transpose()?;
        let follows = found.map(|found| {
            (changes(&solution.at, &found.at), changes(&solution.values, &found.values))
        });
        all.push(Moved { key, nudge, follows });
    }
    Ok(all)
}

/// Returns relative changes.
fn changes(from: &[f64], to: &[f64]) -> Vec<f64> {
    from.iter().zip(to).map(|(a, b)| change(*a, *b)).collect()
}
