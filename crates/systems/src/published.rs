//! Declarations of a system's published figures: what is not in its file of rows.

use crate::RunError;
use doorbell_bus::RulesError;
use doorbell_spec::key::Values;
use doorbell_spec::{InputError, SettingError};

/// The part of a system's figures that is not in its file.
#[derive(Debug)]
pub struct SystemFigures {
    /// The name, with which its rows begin: that of the system, if it is the only one.
    pub name: &'static str,
    /// The built-in profile of the measured machine.
    pub profile: &'static str,
    /// The text of the file of published rows.
    pub rows: &'static str,
    /// The scenarios that show the switch best, if there is one.
    pub headline: Option<Headline>,
    /// First letters of the profile's keys that are no constants here.
    pub left_out: &'static [&'static str],
    /// Constants that are not in the profile.
    pub constants: &'static [OtherConstant],
    /// The choices between models that were made by looking at rows.
    pub choices: &'static [ModelChoice],
    /// Returns the models' value for a figure that is no number of a run. The figure is named
    /// without the system.
    pub measure: fn(&dyn Measuring, &str) -> Result<f64, MeasureError>,
}

/// A constant that is not in the profile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OtherConstant {
    /// Its key.
    pub key: &'static str,
    /// Its value, in the unit.
    pub value: f64,
    /// The unit.
    pub unit: &'static str,
    /// The origin of the value.
    pub source: &'static str,
}

/// A choice between models, made by looking at rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModelChoice {
    /// The key that takes the alternatives: a key of the profile, or of the file's runs.
    pub key: &'static str,
    /// The value taken and its origin; `None` for that of the profile.
    pub taken: Option<(&'static str, &'static str)>,
    /// The unit of alternatives that are numbers; that of the profile's key if it is one.
    pub unit: &'static str,
    /// The possible values, as written with `--set`.
    pub alternatives: &'static [&'static str],
    /// The rows that were looked at when it was chosen.
    pub rows: &'static [&'static str],
}

impl ModelChoice {
    /// Makes the choice of a profile's value.
    pub const fn of_profile(
        key: &'static str,
        alternatives: &'static [&'static str],
        rows: &'static [&'static str],
    ) -> ModelChoice {
        ModelChoice { key, taken: None, unit: "", alternatives, rows }
    }
}

/// The models at some constants: what a figure is computed from.
pub trait Measuring {
    /// Returns a number of a run of the file, or a sum with `+`. The run is only made if there was
    /// none with the same values.
    ///
    /// # Errors
    /// The file has no such run, it fails, or it has no such number.
    fn number(&self, run: &str, metric: &str) -> Result<f64, MeasureError>;

    /// Returns the values of the profile with the constants.
    fn values(&self) -> Values;

    /// Returns a constant by its key.
    ///
    /// # Errors
    /// There is none of this key.
    fn constant(&self, key: &str) -> Result<f64, MeasureError>;
}

/// The reason why a figure could not be measured.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MeasureError {
    /// A run has no result.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Any other.
    #[error("{0}")]
    Other(String),
}

impl MeasureError {
    /// Makes the error with this explanation.
    pub fn new(why: impl Into<String>) -> MeasureError {
        MeasureError::Other(why.into())
    }

    /// Makes the error for the last arm of a system's `match figure`.
    pub fn unknown_figure(figure: &str) -> MeasureError {
        MeasureError::new(format!("the system has a row `{figure}` but does not measure it"))
    }
}

macro_rules! measure_errors {
    ($($error:ty)*) => {$(
        impl From<$error> for MeasureError {
            fn from(e: $error) -> MeasureError {
                MeasureError::new(e.to_string())
            }
        }
    )*};
}
measure_errors!(InputError SettingError RulesError);

/// The scenarios and settings that show a system's switch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Headline {
    /// The scenario whose bill is shown.
    pub scenario: &'static str,
    /// The setting before.
    pub off: &'static str,
    /// The setting after.
    pub on: &'static str,
    /// The curve that shows where the switch begins to pay.
    pub curve: Option<Curve>,
    /// A scenario with series over time to show.
    pub moving: Option<&'static str>,
    /// A scenario with latencies to show.
    pub waiting: Option<&'static str>,
}

/// A number of both sides over the values of a key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Curve {
    /// The heading that people read: `bytes toward the device a packet`.
    pub title: &'static str,
    /// The scenario.
    pub scenario: &'static str,
    /// The key that changes.
    pub key: &'static str,
    /// Its values: numbers in the key's unit.
    pub values: &'static [f64],
    /// The number shown, or a sum, as `doorbell sweep --show` takes it.
    pub show: &'static str,
}

impl Headline {
    /// Makes the headline of a scenario, with one setting before and one after.
    pub(crate) const fn of(
        scenario: &'static str,
        off: &'static str,
        on: &'static str,
    ) -> Headline {
        Headline { scenario, off, on, curve: None, moving: None, waiting: None }
    }

    /// Returns it with a curve.
    pub(crate) const fn over(self, curve: Curve) -> Headline {
        Headline { curve: Some(curve), ..self }
    }

    /// Returns it with the series of this scenario.
    pub(crate) const fn moving(self, scenario: &'static str) -> Headline {
        Headline { moving: Some(scenario), ..self }
    }

    /// Returns it with the latencies of this scenario.
    pub(crate) const fn waiting(self, scenario: &'static str) -> Headline {
        Headline { waiting: Some(scenario), ..self }
    }

    /// Returns the settings before and after.
    pub const fn sides(&self) -> [&'static str; 2] {
        [self.off, self.on]
    }
}
