//! Combinations of choices: the number that do as well as the chosen one.
//!
//! A combination does as well if every row that holds with the chosen one holds with it too. The
//! fits are solved again for each. A row that rests on a failed fit does not hold.
//!
//! Most combinations are far off, which a rough fit tells: the fits are made sharp for those whose
//! rows hold, or nearly, with a rough one.
//!
//! Each combination is given up at its first row that does not hold. Rows that a choice was made by
//! come first; then rows without a fitted constant among their inputs, then rows that depend on
//! their inputs alone ([`Row::alone`](super::Row::alone)), with their fits; among equals, the row
//! that last gave up a combination. The order affects the time and not the count.

use super::bench::{Bench, Stage};
use super::fit::{self, Fit, Slopes};
use super::{Constants, FigureSet, Outcome, reproduce::judge};
use std::sync::{Mutex, PoisonError};

/// The number of combinations of a system's choices that hold every row that the chosen one holds.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct Combinations {
    /// Combinations that do as well, the chosen one included.
    pub hold: usize,
    /// All combinations.
    pub of: usize,
}

/// Distance that a row may be outside of its tolerance with fits left at the grain, as a share of
/// its published value, in grains: ten times as far as that leaves the fitted row.
const NEARLY: f64 = 10.0;

/// Rows that are measured together.
struct FitGroup {
    fits: Fits,
    rows: Mutex<Vec<usize>>,
}

/// The fits that are solved before.
#[derive(Clone, Copy, PartialEq)]
enum Fits {
    None,
    /// Fits on rows that depend on their inputs alone.
    Alone,
    All,
}

/// Tries every combination of the choices that are not set by hand. Returns `None` if there is no
/// choice, or if no row holds. `slopes` are those of the chosen one.
pub(super) fn count(
    bench: &Bench<'_>,
    base: &Constants,
    slopes: &Slopes,
    rows: &[Outcome],
) -> Option<Combinations> {
    let free = base.choices().iter().enumerate().filter(|(_, c)| c.is_free());
    let choices: Vec<(usize, usize)> = free.map(|(at, c)| (at, c.alternatives.len())).collect();
    let stages = stages(bench.sheet, rows);
    if choices.is_empty() || stages.is_empty() {
        return None;
    }
    let of: usize = choices.iter().map(|(_, alternatives)| alternatives).product();
    let holds = bench.each(&vec![(); of], |combination, ()| {
        bench.tell(Stage::Combination { done: combination, total: of });
        let mut constants = base.clone();
        let mut rest = combination;
        for (choice, alternatives) in &choices {
            constants.choices[*choice].taken = rest % alternatives;
            rest /= alternatives;
        }
        let chosen = constants.fingerprint() == base.fingerprint();
        let mut slopes = slopes.clone();
        let holds = |stage: &FitGroup| stage.holds(bench, &mut constants, &mut slopes);
        chosen || stages.iter().all(holds)
    });
    Some(Combinations { hold: holds.into_iter().filter(|holds| *holds).count(), of })
}

/// Returns the rows that hold, in stages: those that a choice was made by, then the others; of
/// each, those that rest on no fit, those that depend on their inputs alone, then the others. A fit
/// may move its constant far beyond the small step that finds inputs, so the others wait for all
/// fits.
fn stages(sheet: &FigureSet, rows: &[Outcome]) -> Vec<FitGroup> {
    let held = (0..rows.len()).filter(|at| rows[*at].holds == Some(true));
    let needs = |at: usize| match &sheet.rows[at] {
        row if !sheet.rests_on_a_fit(row) => Fits::None,
        row if row.alone => Fits::Alone,
        _ => Fits::All,
    };
    let was_seen = |at: usize| sheet.chosen_by(&sheet.rows[at]).next().is_some();
    let fits = [Fits::None, Fits::Alone, Fits::All];
    let stages = [true, false].into_iter().flat_map(|seen| fits.map(|fits| (seen, fits)));
    let stages = stages.filter_map(|(seen, fits)| {
        let of = held.clone().filter(|at| was_seen(*at) == seen && needs(*at) == fits);
        let rows: Vec<usize> = of.collect();
        (!rows.is_empty()).then(|| FitGroup { fits, rows: Mutex::new(rows) })
    });
    stages.collect()
}

impl FitGroup {
    /// Solves the fits and returns whether all rows hold.
    fn holds(&self, bench: &Bench<'_>, constants: &mut Constants, slopes: &mut Slopes) -> bool {
        let (precision, grain) = (bench.sheet.precision, bench.sheet.grain());
        let rough = self.fits != Fits::None && precision < grain;
        let mut within = |enough, nearly| {
            let fits = match self.fits {
                Fits::None => Vec::new(),
                Fits::Alone => fit::solve_again(bench, constants, enough, slopes, |row| row.alone),
                Fits::All => fit::solve_again(bench, constants, enough, slopes, |_| true),
            };
            self.holds_within(bench, constants, &fits, nearly)
        };
        (!rough || within(grain, NEARLY * grain)) && within(precision, 0.0)
    }

    /// Returns whether all rows hold, or are no more than `nearly` of their published values
    /// outside. Moves the first row that does not to the front: it is likely to fail the next
    /// combination too.
    fn holds_within(
        &self,
        bench: &Bench<'_>,
        constants: &Constants,
        fits: &[Fit],
        nearly: f64,
    ) -> bool {
        let sheet = bench.sheet;
        let order = || self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = order().clone();
        let failed = rows.into_iter().find(|at| {
            let row = &sheet.rows[*at];
            let most = nearly * row.scale();
            let nearer = |m: f64| m + (row.value - m).clamp(-most, most);
            let measured = bench.measure(constants, *at).map(nearer);
            judge(sheet, *at, measured, sheet.declared_inputs(row), fits).holds != Some(true)
        });
        if let Some(row) = failed {
            order().sort_by_key(|other| *other != row);
        }
        failed.is_none()
    }
}
