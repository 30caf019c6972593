//! The report of a run: every row with its verdict, the constants it rests on, and the degrees of
//! freedom.

use super::{Combinations, Constants, FigureSet, Fit, MeasureError, Role, Row, Sensitivity};

/// What a run found, system by system.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// In the order asked for.
    pub systems: Vec<SystemReport>,
}

/// What a run found for one system.
#[derive(Clone, PartialEq, Debug)]
pub struct SystemReport {
    /// The system's name.
    pub name: String,
    /// What was measured, on what.
    pub about: String,
    /// How many fits were made on the swap partners; `None` if that was not asked for.
    pub swapped: Option<usize>,
    /// The rows, in the sheet's order.
    pub rows: Vec<Outcome>,
    /// The constants as the rows were computed with: fitted, or set by hand, where they were.
    pub constants: Constants,
    /// Predicted rows against fitted constants and choices.
    pub freedom: DegreesOfFreedom,
    /// How many combinations of the choices do as well; `None` without choices.
    pub combinations: Option<Combinations>,
    /// How each fit went.
    pub fits: Vec<Fit>,
    /// The sensitivity run, if it was asked for.
    pub sensitivity: Option<Sensitivity>,
}

/// One row, measured and judged.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The row, with its role in this run (after `--swap` and `--set`).
    pub row: Row,
    /// What was computed, rounded as it is printed.
    pub measured: Result<f64, MeasureError>,
    /// Whether it holds; `None` for definitions, fitted and shown rows.
    pub holds: Option<bool>,
    /// For a miss that has one: the explanation.
    pub known_miss: Option<String>,
    /// Constants and choices that it depends on directly: found, if there was a sensitivity run;
    /// else as declared.
    pub inputs: Vec<String>,
    /// What else must be said beside it.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Distance of the measured from the published value, relative to the latter; `None` where
    /// there is none.
    pub fn off_by(&self) -> Option<f64> {
        let published = self.row.published.value;
        let measured = *self.measured.as_ref().ok()?;
        (published != 0.0).then(|| (measured - published) / published.abs())
    }

    /// Whether it is a definition that came out otherwise, or did not come out at all.
    pub fn is_broken(&self) -> bool {
        self.row.role == Role::Definition
            && self.measured.as_ref().map_or(true, |m| self.row.departs(*m))
    }

    /// The row's own note, the explanation of a miss, and all remarks of the run: sentence after
    /// sentence.
    pub fn remarks(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(why) = &self.known_miss {
            all.push(format!("known miss: {why}"));
        }
        all.extend(self.notes.iter().cloned());
        if let Some(spread) = self.row.published.spread {
            all.push(format!("published with a spread of ±{spread}"));
        }
        if !self.row.note.is_empty() {
            all.push(self.row.note.clone());
        }
        all
    }
}

/// How much a system predicts, and with how much freedom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DegreesOfFreedom {
    /// Predicted rows.
    pub predicted: usize,
    /// How many of these are only arithmetic on other rows: no evidence of their own.
    pub derived: usize,
    /// How many of the others were looked at when a choice was made.
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
        let looked_at =
            |r: &&Row| r.derived.is_none() && choices.clone().any(|c| c.rows.contains(&r.figure));
        DegreesOfFreedom {
            predicted: predicted.clone().count(),
            derived: predicted.clone().filter(|r| r.derived.is_some()).count(),
            looked_at: predicted.filter(looked_at).count(),
            fitted: sheet.fits().len(),
            choices: choices.clone().count(),
        }
    }
}

/// The end of a run, for its exit code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every exact, predicted and bounded row holds, every definition is kept, and every fit was
    /// found.
    AllHold,
    /// Something does not.
    Misses {
        /// Rows that miss and have an explanation.
        known: Vec<String>,
        /// Rows that miss and have none.
        unknown: Vec<String>,
        /// Definitions that came out otherwise.
        broken: Vec<String>,
        /// Rows that a fit should have reproduced, but could not.
        failed_fits: Vec<String>,
    },
}

impl Report {
    /// Whether everything holds that should.
    pub fn verdict(&self) -> Verdict {
        let missed = |explained: bool| -> Vec<String> {
            let rows = self.systems.iter().flat_map(|s| &s.rows).filter(|r| r.holds == Some(false));
            rows.filter(|r| r.known_miss.is_some() == explained)
                .map(|r| r.row.figure.clone())
                .collect()
        };
        let rows = self.systems.iter().flat_map(|s| &s.rows);
        let broken: Vec<String> =
            rows.filter(|r| r.is_broken()).map(|r| r.row.figure.clone()).collect();
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

/// A measured value as it is judged and printed: six significant digits, so that the last bits of a
/// platform's `libm` do not show; what must be exact keeps twelve, and all of them if it is whole.
pub(super) fn settle(measured: f64, role: Role) -> f64 {
    if matches!(role, Role::Exact | Role::Definition) && measured.fract() == 0.0 {
        return measured;
    }
    round_significant(measured, if role == Role::Exact { 12 } else { 6 })
}

/// `x` to so many significant digits. Through text, because that rounds correctly and ends at the
/// shortest number.
pub(super) fn round_significant(x: f64, digits: usize) -> f64 {
    format!("{x:.*e}", digits - 1)
        .parse()
        .map_or(x, |rounded: f64| if rounded == 0.0 { 0.0 } else { rounded })
}
