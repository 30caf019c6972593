//! Sensitivity: the rows that follow each constant.
//!
//! Each constant is moved by its [`super::Perturbation`], and every row is measured again:
//! **alone**, with everything else held, which finds a row's direct *inputs*; and **with the fits
//! re-run**, which shows what the conclusion depends on. A fitted constant is only moved alone,
//! since its fit would move it back. For a choice, each other alternative is taken alone.
//!
//! Changes below the residuals that the fits leave say nothing; rows that do not rest on a fit have
//! no such floor. The effects are local: a constant behind a limit that is not reached has none.

use super::bench::{Bench, Stage};
use super::fit::{self, Slopes};
use super::{Constants, FigureSet, Fit, Perturbation, Role};

/// The largest relative change, with everything else held, that counts as rounding.
pub const MIN_EFFECT: f64 = 1e-9;

/// The largest relative change, with the fits re-run, that counts as none.
const NEGLIGIBLE: f64 = 1e-6;
/// Factor on the effect of the residual alone: rows follow a fitted constant in proportion only
/// nearly.
const MARGIN: f64 = 2.0;

/// The effect of one constant on the rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Moved {
    /// The constant.
    pub key: String,
    /// The step by which it was moved.
    pub nudge: Perturbation,
    /// The constant is fitted, so it is moved alone.
    pub fitted: bool,
    /// Relative change of each row with everything else held, in the rows' order; `None` where it
    /// could not be measured.
    pub alone: Vec<Option<f64>>,
    /// Relative change of each row with the fits re-run; the same as `alone` for a fitted
    /// constant. `None` where it could not be measured or a fit was lost.
    pub refitted: Vec<Option<f64>>,
    /// The largest change in `refitted` that the fits' residuals explain, for each row.
    pub noise: Vec<f64>,
}

impl Moved {
    /// Returns whether row `at` stays, fits re-run; `None` if it could not be measured or a fit was
    /// lost.
    pub fn rests(&self, at: usize) -> Option<bool> {
        self.refitted[at].map(|change| change.abs() <= self.noise[at])
    }
}

/// The effect of another alternative of a choice on the rows, everything else held.
#[derive(Clone, PartialEq, Debug)]
pub struct Taken {
    /// The choice.
    pub key: String,
    /// The alternative.
    pub alternative: String,
    /// Relative change of each row, in the rows' order; `None` where it could not be measured.
    pub alone: Vec<Option<f64>>,
}

/// The effects of all constants on all rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Sensitivity {
    /// The rows' names.
    pub figures: Vec<String>,
    /// The constants, each with its effects.
    pub constants: Vec<Moved>,
    /// Each alternative of each choice that is not taken, with its effects.
    pub choices: Vec<Taken>,
    /// Rows that no constant moves though one should: constants in disguise.
    pub disguised: Vec<String>,
    declared: Vec<Option<Vec<String>>>,
    jitter: f64,
}

/// A row whose declared inputs differ from those found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Disagreement {
    /// The row's name.
    pub figure: String,
    /// Declared constants that do not move it.
    pub idle: Vec<String>,
    /// Undeclared constants that move it.
    pub undeclared: Vec<String>,
}

impl Sensitivity {
    /// Returns keys of the constants and choices that move row `at` directly.
    pub(crate) fn inputs(&self, at: usize) -> Vec<String> {
        let constants = self.constants.iter().map(|c| (&c.key, c.alone[at]));
        let moves = |change: Option<f64>| change.is_none_or(|change| change.abs() > self.jitter);
        let choices = self.choices.iter().map(|c| (&c.key, c.alone[at]));
        let movers = constants.chain(choices).filter(|(_, change)| moves(*change));
        let mut keys: Vec<String> = movers.map(|(key, _)| key.clone()).collect();
        keys.dedup();
        keys
    }

    /// Returns the rows that declare other inputs than were found. Rows without a declaration are
    /// left out, and so are derived rows that inherit one, since the common inputs of their two
    /// parts may cancel.
    pub(crate) fn disagreements(&self) -> Vec<Disagreement> {
        let mut list = Vec::new();
        for (at, (figure, declared)) in self.figures.iter().zip(&self.declared).enumerate() {
            let Some(declared) = declared else { continue };
            let found = self.inputs(at);
            let idle: Vec<String> =
                declared.iter().filter(|k| !found.contains(k)).cloned().collect();
            let undeclared: Vec<String> =
                found.into_iter().filter(|k| !declared.contains(k)).collect();
            if !(idle.is_empty() && undeclared.is_empty()) {
                list.push(Disagreement { figure: figure.clone(), idle, undeclared });
            }
        }
        list
    }
}

/// Moves each constant from where the fits left it.
pub(super) fn measure(
    bench: &Bench<'_>,
    base: &Constants,
    fits: &[Fit],
    slopes: &Slopes,
) -> Sensitivity {
    let sheet = bench.sheet;
    let rows = 0..sheet.rows.len();
    let still: Vec<Option<f64>> = rows.clone().map(|row| bench.measure(base, row).ok()).collect();
    let changes = |constants: &Constants| -> Vec<Option<f64>> {
        let each = rows.clone().zip(&still);
        let finite = |change: f64| change.is_finite().then_some(change);
        each.map(|(row, still)| finite(change((*still)?, bench.measure(constants, row).ok()?)))
            .collect()
    };
    let moved = bench.each(&base.numbers, |at, constant| {
        let total = base.numbers.len();
        bench.tell(Stage::Sensitivity { constant: &constant.key, done: at, total });
        let mut constants = base.moved(at);
        let alone = changes(&constants);
        let fitted = constant.fit_row().is_some();
        // The residuals of the fits, before and after.
        let mut left: Vec<f64> = fits.iter().map(residual).collect();
        let refitted = if fitted || fits.is_empty() {
            left.fill(0.0);
            alone.clone()
        } else {
            let (enough, mut slopes) = (sheet.precision, slopes.clone());
            let refits = fit::solve_again(bench, &mut constants, enough, &mut slopes, |_| true);
            if refits.iter().any(|fit| fit.failed.is_some()) {
                vec![None; alone.len()]
            } else {
                for (left, refit) in left.iter_mut().zip(&refits) {
                    *left += residual(refit);
                }
                changes(&constants)
            }
        };
        let (key, nudge) = (constant.key.clone(), constant.nudge);
        let moved = Moved { key, nudge, fitted, alone, refitted, noise: Vec::new() };
        (moved, left)
    });
    let (mut moved, residuals): (Vec<Moved>, Vec<Vec<f64>>) = moved.into_iter().unzip();
    let mut others = Vec::new();
    for (at, choice) in base.choices().iter().enumerate() {
        let alternatives = 0..choice.alternatives.len();
        others.extend(alternatives.filter(|taken| *taken != choice.taken).map(|taken| (at, taken)));
    }
    let choices = bench.each(&others, |_, (at, taken)| {
        let mut constants = base.clone();
        let choice = &mut constants.choices[*at];
        choice.taken = *taken;
        let (key, alternative) = (choice.key.clone(), choice.value().to_owned());
        Taken { key, alternative, alone: changes(&constants) }
    });
    let follows: Vec<Vec<f64>> = fits.iter().map(|fit| following(sheet, fit, &moved)).collect();
    for (constant, left) in moved.iter_mut().zip(&residuals) {
        let floor =
            |at| follows.iter().zip(left).map(|(follows, left)| follows[at] * left).sum::<f64>();
        constant.noise = rows.clone().map(|at| NEGLIGIBLE.max(MARGIN * floor(at))).collect();
    }

    let motionless = |at: &usize| {
        let rests = |change: Option<f64>| change.is_some_and(|c| c.abs() <= MIN_EFFECT);
        let by_constants = moved.iter().all(|c| rests(c.alone[*at]) && c.rests(*at) == Some(true));
        by_constants && choices.iter().all(|c: &Taken| rests(c.alone[*at]))
    };
    let accountable = |at: &usize| {
        let row = &sheet.rows[*at];
        // A shown row that is counted or measured natively declares that it has no inputs.
        let counted = row.role == Role::Shown && row.inputs.as_ref().is_some_and(Vec::is_empty);
        !matches!(row.role, Role::Exact | Role::Definition) && row.derived.is_none() && !counted
    };
    let name = |at: usize| sheet.rows[at].figure.clone();
    let disguised = rows.clone().filter(accountable).filter(motionless).map(name).collect();
    Sensitivity {
        disguised,
        figures: rows.map(name).collect(),
        constants: moved,
        choices,
        declared: sheet.rows.iter().map(|row| row.inputs.clone()).collect(),
        jitter: sheet.jitter,
    }
}

/// Returns a relative change; the change itself of a number that was 0.
pub(crate) fn change(from: f64, to: f64) -> f64 {
    if from == 0.0 { to } else { (to - from) / from.abs() }
}

/// Returns the residual of a fit, relative to the published value.
fn residual(fit: &Fit) -> f64 {
    fit.residual.unwrap_or(0.0).abs()
}

/// By how much each row moves for each unit that a fit's own row moves, when its constant is what
/// moves both. One where that cannot be told.
fn following(sheet: &FigureSet, fit: &Fit, moved: &[Moved]) -> Vec<f64> {
    let own = sheet.rows.iter().position(|row| row.figure == fit.row);
    let constant = moved.iter().find(|c| c.key == fit.constant);
    let ratio = |at: usize| {
        let alone = &constant?.alone;
        let ratio = (alone[at]? / alone[own?]?).abs();
        ratio.is_finite().then_some(ratio)
    };
    (0..sheet.rows.len()).map(|at| ratio(at).unwrap_or(1.0)).collect()
}
