//! A system's part in a reproduction: its constants, its rows, and their measurement.

use super::{Choice, Constant, Constants, MIN_EFFECT, Row, UnknownConstant};
use doorbell_systems::published::{Headline, MeasureError};

/// A system whose published figures can be reproduced.
///
/// The order of constants and rows is the order of the tables. Figures are measured by several
/// threads at a time.
///
/// ```
/// use doorbell_study::figures::*;
///
/// struct Ferry;
///
/// impl PublishedFigures for Ferry {
///     fn name(&self) -> &str {
///         "ferry"
///     }
///     fn about(&self) -> &str {
///         "one boat, full or half full"
///     }
///     fn constants(&self) -> Vec<Constant> {
///         vec![
///             Constant::cited("boat.seats", 20.0, "seats", "plate on the bridge"),
///             Constant::fitted("boat.crossing", 10.0, "minutes", "ferry.half_full", (1.0, 60.0)),
///         ]
///     }
///     fn rows(&self) -> Vec<Row> {
///         vec![
///             Row::new("ferry.half_full", 40.0, "passengers/hour", Role::Fit),
///             Row::new("ferry.full", 78.0, "passengers/hour", Role::Predicted)
///                 .within(Tolerance::Rel(0.05)),
///         ]
///     }
///     fn measure(&self, constants: &Constants, figure: &str) -> Result<f64, MeasureError> {
///         let on_board = match figure {
///             "ferry.half_full" => constants.get("boat.seats")? / 2.0,
///             "ferry.full" => constants.get("boat.seats")?,
///             other => return Err(MeasureError::unknown_figure(other)),
///         };
///         Ok(on_board * 60.0 / constants.get("boat.crossing")?)
///     }
/// }
///
/// let report = reproduce(&[Box::new(Ferry)], &Options::default(), &mut |_| true, &mut |_| ())?;
/// assert_eq!(report.systems[0].rows[1].measured, Ok(80.0));
/// assert_eq!(report.verdict(), Verdict::AllHold);
/// # Ok::<(), Refused>(())
/// ```
pub trait PublishedFigures: Sync {
    /// Short name, the first part of each figure's name: `mlx5`.
    fn name(&self) -> &str;

    /// The measured setup, in one line.
    fn about(&self) -> &str;

    /// The constants that [`PublishedFigures::measure`] reads.
    fn constants(&self) -> Vec<Constant>;

    /// The choices between models that were made by looking at rows. They replace constants of the
    /// same key.
    fn choices(&self) -> Vec<Choice> {
        Vec::new()
    }

    /// The published figures.
    fn rows(&self) -> Vec<Row>;

    /// Returns the models' value for `figure`, in the row's unit, at these constants.
    ///
    /// It may be a whole simulation, and the same constants give the same number. No figure is
    /// asked for twice at the same constants, and no derived row at all.
    ///
    /// # Errors
    /// The figure cannot be measured. The row is reported as such; a judged one misses.
    fn measure(&self, constants: &Constants, figure: &str) -> Result<f64, MeasureError>;

    /// The largest relative change of a row that is jitter: a simulation reacts a little to any
    /// change of a time. A row rests on the constants that move it by more.
    fn jitter(&self) -> f64 {
        MIN_EFFECT
    }

    /// The residual of a fit, relative to the published value. A simulation of whole packets in a
    /// short time means nothing below it, and each step closer is a run.
    fn precision(&self) -> f64 {
        super::fit::RESIDUAL
    }

    /// The scenarios that show the switch best, if there are any.
    fn headline(&self) -> Option<Headline> {
        None
    }

    /// Rows that are known to miss, with the reasons. `swapped` asks for those of a `--swap` run,
    /// which predicts other rows.
    fn known_misses(&self, swapped: bool) -> Vec<KnownMiss> {
        let _ = swapped;
        Vec::new()
    }
}

/// A miss with an explanation. It remains a miss.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownMiss {
    /// The row.
    pub figure: String,
    /// The best explanation known.
    pub why: String,
}

impl KnownMiss {
    /// Makes the explanation of `figure`'s miss.
    pub fn new(figure: &str, why: &str) -> KnownMiss {
        KnownMiss { figure: figure.into(), why: why.into() }
    }
}

impl From<UnknownConstant> for MeasureError {
    fn from(e: UnknownConstant) -> MeasureError {
        MeasureError(e.to_string())
    }
}
