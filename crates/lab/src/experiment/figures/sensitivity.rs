//! Sensitivity: which rows follow which constants.
//!
//! Each constant is moved by its [`super::Perturbation`] (1 % unless it says otherwise), and every row is
//! measured again, twice:
//!
//! * **alone**: everything else held. This finds the constants that a row directly depends on, its
//!   *inputs*.
//! * **with the fits re-run**, for a constant that is not fitted: what the conclusion depends on. A
//!   fitted constant takes up part of the change, as it would have done had the cited value been
//!   another; the rows consumed by the fits stay put. A fitted constant cannot be moved that way
//!   (its fit would move it back), so it is moved alone.
//!
//! A fit on a simulation leaves a residual, and so moves the rows that rest on the fitted constant
//! a little, each in proportion to how it follows that constant. Below that a change with the fits
//! re-run says nothing. Rows that do not rest on a fitted constant have no such floor.
//!
//! A choice has no direction to be moved in. Each of its other alternatives is taken, alone, and
//! shows which rows it moves.
//!
//! The effects are local: a constant behind a limit that is not reached does not show.

use super::bench::{Bench, Stage};
use super::{Constants, FigureSet, Fit, Perturbation, Role, fit};

/// A relative change of this size or below, with everything else held, is rounding.
pub const MIN_EFFECT: f64 = 1e-9;

/// A relative change of this size or below, with the fits re-run, is no change.
const NEGLIGIBLE: f64 = 1e-6;
/// Rows follow a fitted constant in proportion only nearly, so the floor stands above what the
/// residual alone would do.
const MARGIN: f64 = 2.0;

/// What one constant does to the rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Moved {
    /// The constant.
    pub key: String,
    /// By how much it was moved.
    pub nudge: Perturbation,
    /// Whether it is a fitted one, which is moved alone.
    pub fitted: bool,
    /// Relative change of each row with everything else held, in the rows' order; `None` where it
    /// could not be measured.
    pub alone: Vec<Option<f64>>,
    /// Relative change of each row with the fits re-run; the same as `alone` for a fitted
    /// constant. `None` where it could not be measured or a fit was lost.
    pub refitted: Vec<Option<f64>>,
    /// A change in `refitted` of this size or below is what the fits leave: one a row.
    pub noise: Vec<f64>,
}

impl Moved {
    /// Whether row `at` rests, fits re-run; `None` where it could not be measured or a fit was
    /// lost.
    pub fn rests(&self, at: usize) -> Option<bool> {
        self.refitted[at].map(|change| change.abs() <= self.noise[at])
    }
}

/// What another alternative of a choice does to the rows, everything else held.
#[derive(Clone, PartialEq, Debug)]
pub struct Taken {
    /// The choice.
    pub key: String,
    /// The alternative.
    pub alternative: String,
    /// Relative change of each row, in the rows' order; `None` where it could not be measured.
    pub alone: Vec<Option<f64>>,
}

/// Rows against constants.
#[derive(Clone, PartialEq, Debug)]
pub struct Sensitivity {
    /// The rows' names.
    pub figures: Vec<String>,
    /// The constants, each with its effects.
    pub constants: Vec<Moved>,
    /// Each alternative of each choice that is not taken, with its effects.
    pub choices: Vec<Taken>,
    /// Rows that no constant moves though they should: constants in disguise.
    pub disguised: Vec<String>,
    declared: Vec<Option<Vec<String>>>,
    jitter: f64,
}

/// A row whose declared inputs are not those found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disagreement {
    /// The row.
    pub figure: String,
    /// Constants that it declares, but that do not move it.
    pub idle: Vec<String>,
    /// Constants that move it, but that it does not declare.
    pub undeclared: Vec<String>,
}

impl Sensitivity {
    /// Keys of the constants and choices that move row `at` directly.
    pub fn inputs(&self, at: usize) -> Vec<String> {
        let constants = self.constants.iter().map(|c| (&c.key, c.alone[at]));
        let moves = |change: Option<f64>| change.is_none_or(|change| change.abs() > self.jitter);
        let choices = self.choices.iter().map(|c| (&c.key, c.alone[at]));
        let movers = constants.chain(choices).filter(|(_, change)| moves(*change));
        let mut keys: Vec<String> = movers.map(|(key, _)| key.clone()).collect();
        keys.dedup();
        keys
    }

    /// Rows that declare other inputs than were found. Rows that say nothing are left out; so is a
    /// derived row that merely inherits, since what its two parts share may cancel.
    pub fn disagreements(&self) -> Vec<Disagreement> {
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
pub(super) fn measure(bench: &mut Bench<'_>, base: &Constants, fits: &[Fit]) -> Sensitivity {
    let sheet = bench.sheet;
    let rows = 0..sheet.rows.len();
    let still: Vec<Option<f64>> = rows.clone().map(|row| bench.measure(base, row).ok()).collect();
    let mut moved = Vec::new();
    let mut residuals = Vec::new();
    for at in 0..base.iter().len() {
        let constant = base.at(at);
        bench.tell(Stage::Sensitivity {
            constant: &constant.key,
            done: at,
            total: base.iter().len(),
        });
        let mut constants = base.clone();
        constants.put(at, constant.nudge.apply(constant.value));
        let changes = |bench: &mut Bench<'_>, constants: &Constants| -> Vec<Option<f64>> {
            let each = rows.clone().zip(&still);
            each.map(|(row, still)| change((*still)?, bench.measure(constants, row).ok()?))
                .collect()
        };
        let alone = changes(bench, &constants);
        let fitted = constant.fit_row().is_some();
        // What the fits leave, before and after.
        let mut left: Vec<f64> = fits.iter().map(residual).collect();
        let refitted = if fitted || fits.is_empty() {
            left.fill(0.0);
            alone.clone()
        } else {
            let refits = fit::solve(bench, &mut constants);
            if refits.iter().any(|fit| fit.failed.is_some()) {
                vec![None; alone.len()]
            } else {
                for (left, refit) in left.iter_mut().zip(&refits) {
                    *left += residual(refit);
                }
                changes(bench, &constants)
            }
        };
        let noise = Vec::new();
        moved.push(Moved {
            key: constant.key.clone(),
            nudge: constant.nudge,
            fitted,
            alone,
            refitted,
            noise,
        });
        residuals.push(left);
    }
    let mut choices = Vec::new();
    for (at, choice) in base.choices().iter().enumerate() {
        for (alternative, name) in
            choice.alternatives.iter().enumerate().filter(|(_, name)| *name != choice.value())
        {
            let mut constants = base.clone();
            constants.take(at, alternative);
            let each = rows.clone().zip(&still);
            let alone = each
                .map(|(row, still)| change((*still)?, bench.measure(&constants, row).ok()?))
                .collect();
            choices.push(Taken { key: choice.key.clone(), alternative: name.clone(), alone });
        }
    }
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
        // A shown row may be counted or measured natively, and says so by declaring that it has no
        // inputs.
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

fn change(from: f64, to: f64) -> Option<f64> {
    let relative = if from == 0.0 { to } else { (to - from) / from.abs() };
    relative.is_finite().then_some(relative)
}

/// What a fit left of its row, relative to the published value.
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
