//! The report of a run: every row with its verdict, the constants it rests on, and the degrees of
//! freedom.

use super::{Combinations, Constants, FigureSet, Fit, MeasureError, Role, Row, Sensitivity};
use doorbell_systems::result::significant;

/// The results of a run, by system.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The systems in the order asked for.
    pub systems: Vec<SystemReport>,
}

/// The results of one system.
#[derive(Clone, PartialEq, Debug)]
pub struct SystemReport {
    /// The system's name.
    pub name: String,
    /// The measured setup, in one line.
    pub about: String,
    /// The number of fits made on swap partners; `None` without `--swap`.
    pub swapped: Option<usize>,
    /// The rows, in the sheet's order.
    pub rows: Vec<Outcome>,
    /// The final constants: fitted or set by hand, if they were.
    pub constants: Constants,
    /// Predicted rows against fitted constants and choices.
    pub freedom: DegreesOfFreedom,
    /// The combinations of choices that do as well; `None` without choices.
    pub combinations: Option<Combinations>,
    /// The result of each fit.
    pub fits: Vec<Fit>,
    /// The sensitivity run, if it was asked for.
    pub sensitivity: Option<Sensitivity>,
}

/// One row, measured and judged.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The row, with its role in this run (after `--swap` and `--set`).
    pub row: Row,
    /// The computed value, rounded as it is printed.
    pub measured: Result<f64, MeasureError>,
    /// The verdict; `None` for definitions, fitted and shown rows.
    pub holds: Option<bool>,
    /// The explanation of a miss, if there is one.
    pub known_miss: Option<String>,
    /// Constants and choices that it depends on directly: found by a sensitivity run, or else as
    /// declared.
    pub inputs: Vec<String>,
    /// Further remarks.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Returns the distance from the published value, relative to it; `None` if there is none.
    pub fn off_by(&self) -> Option<f64> {
        let published = self.row.value;
        let measured = *self.measured.as_ref().ok()?;
        (published != 0.0).then(|| (measured - published) / published.abs())
    }

    /// Returns whether it is a definition that was not met or not measured.
    pub fn is_broken(&self) -> bool {
        self.row.role == Role::Definition
            && self.measured.as_ref().map_or(true, |m| self.row.departs(*m))
    }

    /// Returns the row's own note, the explanation of a miss, and all remarks of the run, a
    /// sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(why) = &self.known_miss {
            all.push(format!("known miss: {why}"));
        }
        all.extend(self.notes.iter().cloned());
        if let Some(spread) = self.row.spread {
            all.push(format!("published with a spread of ±{spread}"));
        }
        if !self.row.note.is_empty() {
            all.push(self.row.note.clone());
        }
        all
    }
}

/// The degrees of freedom of a system, against its predictions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct DegreesOfFreedom {
    /// Predicted rows.
    pub predicted: usize,
    /// Those that are only arithmetic on other rows and no evidence of their own.
    pub derived: usize,
    /// Those of the others that were looked at for a choice.
    pub looked_at: usize,
    /// Constants that were fitted.
    pub fitted: usize,
    /// Choices between models, those set by hand left out.
    pub choices: usize,
}

impl DegreesOfFreedom {
    pub(super) fn of(sheet: &FigureSet) -> DegreesOfFreedom {
        let predicted = sheet.rows.iter().filter(|r| r.role == Role::Predicted);
        let choices = sheet.constants.choices().iter().filter(|c| c.is_free());
        let looked_at = |r: &&Row| r.derived.is_none() && sheet.chosen_by(r).next().is_some();
        DegreesOfFreedom {
            predicted: predicted.clone().count(),
            derived: predicted.clone().filter(|r| r.derived.is_some()).count(),
            looked_at: predicted.filter(looked_at).count(),
            fitted: sheet.fits().len(),
            choices: choices.count(),
        }
    }
}

/// The outcome of a run, for its exit code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every exact, predicted and bounded row holds, every definition is met, and every fit was
    /// found.
    AllHold,
    /// Something misses.
    Misses {
        /// Rows that miss and have an explanation.
        known: Vec<String>,
        /// Rows that miss and have none.
        unknown: Vec<String>,
        /// Definitions that were not met.
        broken: Vec<String>,
        /// Rows that a fit failed to reproduce.
        failed_fits: Vec<String>,
    },
}

impl Report {
    /// Returns the outcome over all systems.
    pub fn verdict(&self) -> Verdict {
        let name = |r: &Outcome| r.row.figure.clone();
        let missed = |explained: bool| -> Vec<String> {
            let rows = self.systems.iter().flat_map(|s| &s.rows).filter(|r| r.holds == Some(false));
            rows.filter(|r| r.known_miss.is_some() == explained).map(name).collect()
        };
        let rows = self.systems.iter().flat_map(|s| &s.rows);
        let broken: Vec<String> = rows.filter(|r| r.is_broken()).map(name).collect();
        let fits = self.systems.iter().flat_map(|s| &s.fits).filter(|f| f.failed.is_some());
        let (known, unknown, failed_fits) =
            (missed(true), missed(false), fits.map(|f| f.row.clone()).collect::<Vec<_>>());
        if [&known, &unknown, &broken, &failed_fits].iter().all(|rows| rows.is_empty()) {
            Verdict::AllHold
        } else {
            Verdict::Misses { known, unknown, broken, failed_fits }
        }
    }
}

/// Rounds a measured value as it is judged and printed: to six significant digits, which hides the
/// last bits of a platform's `libm`. Exact rows keep twelve, or all digits of a whole number.
pub(crate) fn settle(measured: f64, role: Role) -> f64 {
    if matches!(role, Role::Exact | Role::Definition) && measured.fract() == 0.0 {
        return measured;
    }
    round_significant(measured, if role == Role::Exact { 12 } else { 6 })
}

/// Rounds `x` to significant digits. Zero has no sign.
pub(super) fn round_significant(x: f64, digits: u32) -> f64 {
    significant(x, digits) + 0.0
}
