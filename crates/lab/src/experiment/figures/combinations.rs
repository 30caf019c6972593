//! Combinations of choices: how many of them do as well as the one that was chosen.
//!
//! A combination does as well if every row that holds with the chosen one holds with it too. Rows
//! that the chosen one misses are not asked for. The fits are solved again for each combination, as
//! its author would have done; a row that rests on a fit that fails does not hold.
//!
//! Every combination is tried. What keeps that short is that a combination is given up at its first
//! row that does not hold. Rows that declare no fitted constant among their inputs come first,
//! before anything is fitted; then rows that depend on their inputs alone
//! ([`Row::alone`](super::Row::alone)), with the fits on such rows; among equals, the row that gave
//! up a combination before. The order decides how long it takes and not what is counted.

use super::bench::{Bench, Stage};
use super::reproduce::judge;
use super::{Constants, FigureSet, Outcome, fit};

/// How many combinations of a system's choices hold what the chosen one holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Combinations {
    /// Combinations under which every row holds that holds with the chosen one, which is one of
    /// them.
    pub hold: usize,
    /// Combinations there are.
    pub of: usize,
}

/// Rows that are looked at together.
struct FitGroup {
    fits: Fits,
    rows: Vec<usize>,
}

/// The fits that are solved before.
#[derive(Clone, Copy, PartialEq)]
enum Fits {
    None,
    /// Those on rows that depend on their inputs alone.
    Alone,
    All,
}

/// Tries every combination of the choices that are not set by hand. `None` if there is no choice,
/// or if nothing holds.
pub(super) fn count(
    bench: &mut Bench<'_>,
    base: &Constants,
    rows: &[Outcome],
) -> Option<Combinations> {
    let free = base.choices().iter().enumerate().filter(|(_, c)| c.is_free());
    let choices: Vec<(usize, usize)> = free.map(|(at, c)| (at, c.alternatives.len())).collect();
    let mut stages = stages(bench.sheet, rows);
    if choices.is_empty() || stages.is_empty() {
        return None;
    }
    let of: usize = choices.iter().map(|(_, alternatives)| alternatives).product();
    let mut hold = 0;
    for combination in 0..of {
        bench.tell(Stage::Combination { done: combination, total: of });
        let mut constants = base.clone();
        let mut rest = combination;
        for (choice, alternatives) in &choices {
            constants.take(*choice, rest % alternatives);
            rest /= alternatives;
        }
        let chosen = constants.fingerprint() == base.fingerprint();
        hold += usize::from(
            chosen || stages.iter_mut().all(|stage| stage.holds(bench, &mut constants)),
        );
    }
    Some(Combinations { hold, of })
}

/// The rows that hold: those that rest on no fit, those that depend on their inputs alone, then the
/// others. An input is what moves a row when it moves a little; a fit may move its constant far, so
/// the others wait for all fits.
fn stages(sheet: &FigureSet, rows: &[Outcome]) -> Vec<FitGroup> {
    let held = (0..rows.len()).filter(|at| rows[*at].holds == Some(true));
    let needs = |at: &usize| match &sheet.rows[*at] {
        row if !sheet.rests_on_a_fit(row) => Fits::None,
        row if row.alone => Fits::Alone,
        _ => Fits::All,
    };
    let held: Vec<usize> = held.collect();
    let stage = |fits| FitGroup {
        fits,
        rows: held.iter().copied().filter(|at| needs(at) == fits).collect(),
    };
    [Fits::None, Fits::Alone, Fits::All]
        .map(stage)
        .into_iter()
        .filter(|stage| !stage.rows.is_empty())
        .collect()
}

impl FitGroup {
    /// Whether all its rows hold, its fits solved. The first that does not comes to the front: it
    /// is likely to fail the next combination too.
    fn holds(&mut self, bench: &mut Bench<'_>, constants: &mut Constants) -> bool {
        let sheet = bench.sheet;
        let fits = match self.fits {
            Fits::None => Vec::new(),
            Fits::Alone => fit::solve_those(bench, constants, |row| row.alone),
            Fits::All => fit::solve(bench, constants),
        };
        let failed = self.rows.iter().position(|row| {
            let measured = bench.measure(constants, *row);
            judge(sheet, *row, measured, sheet.declared_inputs(&sheet.rows[*row]), &fits).holds
                != Some(true)
        });
        if let Some(at) = failed {
            self.rows[..=at].rotate_right(1);
        }
        failed.is_none()
    }
}
