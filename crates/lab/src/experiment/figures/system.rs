//! What a system brings: its constants, its rows, and the means to measure.

use super::{Choice, Constant, Constants, Headline, MIN_EFFECT, Row, UnknownConstant};
use crate::config::key::Values;
use crate::config::profile::Profile;
use crate::config::{InputError, SettingError};
use crate::experiment::RunError;
use doorbell_bus::{pci, pcie};
use std::collections::BTreeMap;

/// A system whose published figures can be reproduced.
///
/// The order of constants and rows is the order of the tables. Systems are measured in parallel,
/// each on a thread of its own.
///
/// ```
/// use doorbell_lab::figures::*;
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
///             Row::new("ferry.full", 78.0, "passengers/hour", Role::Predicted).within(Tolerance::Rel(0.05)),
///         ]
///     }
///     fn measure(&mut self, constants: &Constants, figure: &str) -> Result<f64, MeasureError> {
///         let on_board = match figure {
///             "ferry.half_full" => constants.get("boat.seats")? / 2.0,
///             "ferry.full" => constants.get("boat.seats")?,
///             other => return Err(MeasureError::unknown_figure(other)),
///         };
///         Ok(on_board * 60.0 / constants.get("boat.crossing")?)
///     }
/// }
///
/// let report = reproduce(&mut [Box::new(Ferry)], &Options::default(), &mut |_| {})?;
/// assert_eq!(report.systems[0].rows[1].measured, Ok(80.0));
/// assert_eq!(report.verdict(), Verdict::AllHold);
/// # Ok::<(), Refused>(())
/// ```
pub trait PublishedFigures: Send {
    /// Short name, the first part of each figure's name: `mlx5`.
    fn name(&self) -> &str;

    /// One line: what was measured, on what.
    fn about(&self) -> &str;

    /// The constants that [`PublishedFigures::measure`] reads.
    fn constants(&self) -> Vec<Constant>;

    /// The choices between models that were made by looking at rows. A constant of the same key is
    /// the choice's then.
    fn choices(&self) -> Vec<Choice> {
        Vec::new()
    }

    /// The published figures.
    fn rows(&self) -> Vec<Row>;

    /// What the models compute for `figure`, in the row's unit, at these constants.
    ///
    /// Deterministic: the same constants give the same number. It may be a whole simulation. The
    /// machine never asks twice for the same figure at the same constants; several figures of
    /// one run share it through a [`Runs`] in the system. Derived rows are not asked for.
    ///
    /// # Errors
    /// Whatever keeps the figure from being measured. The row is then reported as not measured; a
    /// judged one misses.
    fn measure(&mut self, constants: &Constants, figure: &str) -> Result<f64, MeasureError>;

    /// A relative change of a row of this size or below is the simulation's jitter: it answers to
    /// any change of any time a little. A row rests on the constants that move it by more.
    fn jitter(&self) -> f64 {
        MIN_EFFECT
    }

    /// How close a fit comes to the published value, relative to it. A simulation of whole packets
    /// in a short time has nothing to say below some part of it, and each step closer is a run.
    fn precision(&self) -> f64 {
        super::fit::RESIDUAL
    }

    /// What shows its switch best; `None` if there is no such scenario.
    fn headline(&self) -> Option<Headline> {
        None
    }

    /// Rows that are known to miss, and why. `swapped` asks for those of a `--swap` run, where
    /// other rows are predicted.
    fn known_misses(&self, swapped: bool) -> Vec<KnownMiss> {
        let _ = swapped;
        Vec::new()
    }
}

/// A miss that has an explanation. It remains a miss.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownMiss {
    /// The row.
    pub figure: String,
    /// The best explanation there is.
    pub why: String,
}

impl KnownMiss {
    /// `figure` misses, because.
    pub fn new(figure: &str, why: &str) -> KnownMiss {
        KnownMiss { figure: figure.into(), why: why.into() }
    }
}

/// Why a figure could not be measured.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct MeasureError(pub String);

impl MeasureError {
    /// With this explanation.
    pub fn new(why: impl Into<String>) -> MeasureError {
        MeasureError(why.into())
    }

    /// For the last arm of a system's `match figure`.
    pub fn unknown_figure(figure: &str) -> MeasureError {
        MeasureError(format!("the system has a row `{figure}` but does not measure it"))
    }
}

macro_rules! measure_errors {
    ($($error:ty)*) => {$(
        impl From<$error> for MeasureError {
            fn from(e: $error) -> MeasureError {
                MeasureError(e.to_string())
            }
        }
    )*};
}
measure_errors!(UnknownConstant InputError SettingError RunError pci::RulesError pcie::RulesError);

/// Finished runs, so that the figures of one run cost one run.
///
/// A run is known by its name, by the values of the constants that it reads, and by all choices.
/// Name only the constants that it reads: then moving another does not repeat the run. The run gets
/// to see no others, so the list cannot be too short unnoticed. Results are kept as long as the
/// system, so `T` should be what the figures need, not the whole run.
#[derive(Debug)]
pub struct Runs<T> {
    done: BTreeMap<(String, Vec<u64>), T>,
}

impl<T> Default for Runs<T> {
    fn default() -> Runs<T> {
        Runs { done: BTreeMap::new() }
    }
}

impl<T> Runs<T> {
    /// The result of `run`, which is started only if it was not yet done with these values of the
    /// constants it `reads`.
    ///
    /// # Errors
    /// An unknown constant in `reads`, or whatever `run` fails with. Failures are not kept.
    pub fn get(
        &mut self,
        name: &str,
        constants: &Constants,
        reads: &[&str],
        run: impl FnOnce(&Constants) -> Result<T, MeasureError>,
    ) -> Result<&T, MeasureError> {
        use std::collections::btree_map::Entry;
        let seen = constants.only(reads)?;
        match self.done.entry((name.to_owned(), seen.fingerprint())) {
            Entry::Occupied(done) => Ok(done.into_mut()),
            Entry::Vacant(free) => Ok(free.insert(run(&seen)?)),
        }
    }
}

/// A profile, and the finished runs on it.
#[derive(Debug)]
pub(crate) struct ProfileRuns<T> {
    pub(crate) profile: Profile,
    pub(crate) runs: Runs<T>,
}

impl<T: Copy> ProfileRuns<T> {
    /// Loads the built-in profile called `name`.
    pub(crate) fn new(name: &str) -> Result<ProfileRuns<T>, InputError> {
        Ok(ProfileRuns { profile: Profile::load(name)?, runs: Runs::default() })
    }

    /// Returns what `measure` makes of the run called `name`: the profile with these constants and
    /// settings.
    pub(crate) fn get(
        &mut self,
        c: &Constants,
        name: &str,
        sets: &[&[&str]],
        measure: impl FnOnce(&Values) -> Result<T, MeasureError>,
    ) -> Result<T, MeasureError> {
        let reads: Vec<&str> = c.iter().map(|c| c.key.as_str()).collect();
        let mut values = self.profile.with(c);
        let run = self.runs.get(name, c, &reads, |_| {
            sets.iter().copied().flatten().try_for_each(|s| values.set(s))?;
            measure(&values)
        });
        run.copied()
    }
}
