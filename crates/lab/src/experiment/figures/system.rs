//! A system's part in a reproduction: its constants, its rows, and their measurement.

use super::published::{Sheet, parse};
use super::{Choice, Constant, Constants, Headline, MIN_EFFECT, Row, UnknownConstant};
use crate::config::{InputError, SettingError, key::Values, profile::Profile};
use crate::experiment::RunError;
use doorbell_bus::RulesError;
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
///             Row::new("ferry.full", 78.0, "passengers/hour", Role::Predicted)
///                 .within(Tolerance::Rel(0.05)),
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
    /// asked for twice at the same constants, and no derived row at all. Figures of one run share
    /// it through [`Runs`].
    ///
    /// # Errors
    /// The figure cannot be measured. The row is reported as such; a judged one misses.
    fn measure(&mut self, constants: &Constants, figure: &str) -> Result<f64, MeasureError>;

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

/// The reason why a figure could not be measured.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct MeasureError(pub String);

impl MeasureError {
    /// Makes the error with this explanation.
    pub fn new(why: impl Into<String>) -> MeasureError {
        MeasureError(why.into())
    }

    /// Makes the error for the last arm of a system's `match figure`.
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
measure_errors!(UnknownConstant InputError SettingError RunError RulesError);

/// Finished runs, so that the figures of one run cost one run.
///
/// A run is identified by its name, by the values of the constants that it reads, and by all
/// choices. Moving a constant that it does not read does not repeat it, and it cannot see such
/// constants. Results live as long as the system, so `T` should only hold what the figures need.
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
    /// Returns the result of `run`, which only starts if it was not yet done with these values of
    /// the constants it `reads`.
    ///
    /// # Errors
    /// A constant in `reads` is unknown, or `run` fails. Failures are not kept.
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

/// The published figures of a system, a profile, and the finished runs on it.
#[derive(Debug)]
pub(crate) struct ProfileRuns<T> {
    sheet: Sheet,
    pub(crate) profile: Profile,
    pub(crate) runs: Runs<T>,
}

/// The part of a system's figures that is not in its file of published rows.
pub(crate) trait SystemFigures {
    /// The built-in profile of the measured machine.
    const PROFILE: &str;
    /// The text of the file of published rows.
    const ROWS: &str;
    /// The scenarios that show the switch best.
    const HEADLINE: Headline;
    /// First letters of the profile's keys that are no constants here.
    const LEFT_OUT: &[&str] = &[];

    /// Returns constants that are not in the profile.
    fn other_constants(&self) -> Vec<Constant> {
        Vec::new()
    }

    /// Returns the choices between models that were made by looking at rows.
    fn choices(&self) -> Vec<Choice> {
        Vec::new()
    }

    /// Returns the models' value for a figure, which is named without the system.
    fn measure(&mut self, c: &Constants, figure: &str) -> Result<f64, MeasureError>;
}

impl<T: Send> PublishedFigures for ProfileRuns<T>
where
    ProfileRuns<T>: SystemFigures,
{
    fn name(&self) -> &str {
        self.profile.system.name
    }

    fn about(&self) -> &str {
        &self.sheet.about
    }

    fn constants(&self) -> Vec<Constant> {
        let mut all = self.profile.constants();
        all.retain(|c| !Self::LEFT_OUT.iter().any(|letters| c.key.starts_with(letters)));
        all.extend(self.other_constants());
        all
    }

    fn choices(&self) -> Vec<Choice> {
        SystemFigures::choices(self)
    }

    fn rows(&self) -> Vec<Row> {
        self.sheet.rows.clone()
    }

    fn measure(&mut self, c: &Constants, figure: &str) -> Result<f64, MeasureError> {
        let name = figure.split_once('.').map_or(figure, |(_, name)| name);
        SystemFigures::measure(self, c, name)
    }

    fn jitter(&self) -> f64 {
        self.sheet.jitter
    }

    fn precision(&self) -> f64 {
        self.sheet.precision
    }

    fn headline(&self) -> Option<Headline> {
        Some(Self::HEADLINE)
    }

    fn known_misses(&self, swapped: bool) -> Vec<KnownMiss> {
        self.sheet.known_misses(swapped)
    }
}

impl<T: Copy + Send + 'static> ProfileRuns<T>
where
    ProfileRuns<T>: SystemFigures,
{
    pub(crate) fn open() -> Result<Box<dyn PublishedFigures>, InputError> {
        let profile = Profile::load(Self::PROFILE)?;
        let sheet = parse(&format!("published/{}.toml", profile.system.name), Self::ROWS)?;
        Ok(Box::new(ProfileRuns { sheet, profile, runs: Runs::default() }))
    }

    /// Returns the result of `measure` for the run called `name`: the profile with these constants
    /// and settings.
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
