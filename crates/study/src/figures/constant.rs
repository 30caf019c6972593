//! Constants: a number, its unit, and its source.
//!
//! [`Constants`] is the ordered set that one system computes with, its choices between models
//! included. Fits are solved and tables printed in this order.

use super::Choice;
use doorbell_hal::fail_if;
use doorbell_spec::nearest;
pub use doorbell_systems::profile::Source;
use std::fmt;

/// The step by which the sensitivity run moves a constant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Perturbation {
    /// By this share of its value.
    Rel(f64),
    /// By this amount, for a constant that is zero or only takes certain values (a payload size, a
    /// count).
    Abs(f64),
}

impl Perturbation {
    /// Returns `value` moved by the step.
    pub fn apply(self, value: f64) -> f64 {
        match self {
            Perturbation::Rel(share) => value * (1.0 + share),
            Perturbation::Abs(by) => value + by,
        }
    }
}

impl fmt::Display for Perturbation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Perturbation::Rel(share) => write!(f, "{:+} %", share * 100.0),
            Perturbation::Abs(by) => write!(f, "{by:+}"),
        }
    }
}

/// One constant of a system.
#[derive(Clone, PartialEq, Debug)]
pub struct Constant {
    /// Dotted name, such as `pcie.memory_latency`.
    pub key: String,
    /// The value; for a fitted constant, where the search starts.
    pub value: f64,
    /// Unit, in words a reader knows (`ns`, `cycles/packet`); empty for a pure number.
    pub unit: String,
    /// The source of the value. A fitted one is solved for so that the row equals the published
    /// figure.
    pub source: Source,
    /// The user has set the value, instead of the source.
    pub by_hand: bool,
    /// The step of the sensitivity run.
    pub nudge: Perturbation,
}

impl Constant {
    fn new(key: &str, value: f64, unit: &str, source: Source) -> Constant {
        let (key, unit) = (key.into(), unit.into());
        Constant { key, value, unit, source, by_hand: false, nudge: Perturbation::Rel(0.01) }
    }

    /// Makes a constant that a URL or data sheet gives.
    pub fn cited(key: &str, value: f64, unit: &str, source: &str) -> Constant {
        Constant::new(key, value, unit, Source::Cited(source.into()))
    }

    /// Makes a constant to be solved for between the two `ends`, so that `row` equals the published
    /// figure. `start` is the first guess.
    pub fn fitted(key: &str, start: f64, unit: &str, row: &str, ends: (f64, f64)) -> Constant {
        Constant::new(key, start, unit, Source::Fit { row: row.into(), range: ends })
    }

    /// Returns the source as tables print it.
    pub fn from(&self) -> String {
        match &self.source {
            Source::Fit { row, .. } if self.by_hand => format!("set by hand; not fitted to {row}"),
            other if self.by_hand => format!("set by hand; instead of: {other}"),
            Source::Fit { row, range: (low, high) } => {
                format!("fit to {row}, searched in {low} to {high}")
            }
            other => other.to_string(),
        }
    }

    /// Returns the row that this constant is fitted on, if it is fitted.
    pub fn fit_row(&self) -> Option<&str> {
        match &self.source {
            Source::Fit { row, .. } if !self.by_hand => Some(row),
            _ => None,
        }
    }
}

/// The constants of one system, in their author's order, and its choices between models.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Constants {
    pub(crate) numbers: Vec<Constant>,
    pub(super) choices: Vec<Choice>,
}

impl Constants {
    /// Makes the set in this order. [`super::FigureSet`] refuses duplicates.
    pub fn new(constants: Vec<Constant>) -> Constants {
        Constants { numbers: constants, choices: Vec::new() }
    }

    /// Returns the set with these choices. They replace constants of the same key.
    pub fn choosing(mut self, choices: Vec<Choice>) -> Constants {
        self.numbers.retain(|c| choices.iter().all(|choice| choice.key != c.key));
        self.choices = choices;
        self
    }

    /// Returns the value of the constant `key`. An error is a fault of the system's author.
    pub fn get(&self, key: &str) -> Result<f64, UnknownConstant> {
        match self.position(key) {
            Some(at) => Ok(self.numbers[at].value),
            None => Err(self.unknown(key)),
        }
    }

    /// Returns the alternative that the choice `key` takes. An error is a fault of the system's
    /// author.
    pub fn choice(&self, key: &str) -> Result<&str, UnknownConstant> {
        let choice = self.choices.iter().find(|c| c.key == key);
        choice.map(Choice::value).ok_or_else(|| self.unknown(key))
    }

    /// Returns all constants, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Constant> {
        self.numbers.iter()
    }

    /// Returns all choices, in order.
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// Returns the keys of constants and choices, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|c| c.key.as_str()).chain(self.choices.iter().map(|c| c.key.as_str()))
    }

    /// Returns the set with one constant moved by its step.
    pub(crate) fn moved(&self, at: usize) -> Constants {
        let mut moved = self.clone();
        let constant = &mut moved.numbers[at];
        constant.value = constant.nudge.apply(constant.value);
        moved
    }

    /// Returns the values' bits and the choices' alternatives. Two sets are equal exactly if the
    /// same system computes the same with both.
    pub(crate) fn fingerprint(&self) -> Vec<u64> {
        let taken = self.choices.iter().map(|c| c.taken as u64);
        self.iter().map(|c| c.value.to_bits()).chain(taken).collect()
    }

    /// Sets a constant or takes an alternative by hand. A constant is then no longer fitted, and a
    /// choice no longer the author's.
    ///
    /// # Errors
    /// There is no such key, or it cannot have this value.
    pub(crate) fn set(&mut self, key: &str, given: &Given) -> Result<(), SetError> {
        self.known(key).map_err(SetError::Unknown)?;
        if let Some(choice) = self.choices.iter_mut().find(|c| c.key == key) {
            return choice.set(given);
        }
        let Given::Number(value) = *given else {
            return Err(SetError::NotANumber { key: key.into(), value: given.to_string() });
        };
        for c in self.numbers.iter_mut().filter(|c| c.key == key) {
            (c.value, c.by_hand) = (value, true);
        }
        Ok(())
    }

    /// Checks that `key` is a constant or a choice. The error has the closest key.
    pub(super) fn known(&self, key: &str) -> Result<(), UnknownConstant> {
        if self.keys().any(|k| k == key) { Ok(()) } else { Err(self.unknown(key)) }
    }

    fn unknown(&self, key: &str) -> UnknownConstant {
        UnknownConstant { key: key.into(), nearest: nearest(key, self.keys()).map(str::to_owned) }
    }

    pub(crate) fn position(&self, key: &str) -> Option<usize> {
        self.iter().position(|c| c.key == key)
    }
}

/// A key that is neither a constant nor a choice.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "no constant or choice is called `{key}`{}",
    nearest.as_ref().map_or(String::new(), |n| format!("; the nearest is `{n}`"))
)]
pub struct UnknownConstant {
    /// The key asked for.
    pub key: String,
    /// The closest key that exists.
    pub nearest: Option<String>,
}

/// One `--set key=value`.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// The key of a constant or a choice.
    pub key: String,
    /// Its new value.
    pub value: Given,
}

/// The value of a [`Setting`].
#[derive(Clone, PartialEq, Debug)]
pub enum Given {
    /// A number in the constant's unit.
    Number(f64),
    /// An alternative that is no number.
    Word(String),
}

impl From<f64> for Given {
    fn from(number: f64) -> Given {
        Given::Number(number)
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Given::Number(number) => number.fmt(f),
            Given::Word(word) => f.write_str(word),
        }
    }
}

impl std::str::FromStr for Setting {
    type Err = SetError;

    fn from_str(text: &str) -> Result<Setting, SetError> {
        let (key, value) =
            text.split_once('=').ok_or_else(|| SetError::NotKeyValue(text.into()))?;
        let (key, value) = (key.trim(), value.trim());
        fail_if(key.is_empty(), SetError::NotKeyValue(text.into()))?;
        match value.parse::<f64>() {
            Ok(n) if n.is_finite() => Ok(Setting { key: key.into(), value: n.into() }),
            _ => Err(SetError::NotANumber { key: key.into(), value: value.into() }),
        }
    }
}

/// The reasons to refuse a `--set`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetError {
    /// Not of the form `key=value`.
    #[error("--set {0}: expected key=value, such as pcie.memory_latency=90")]
    NotKeyValue(String),
    /// The value is not a finite number.
    #[error("--set {key}: `{value}` is not a finite number")]
    NotANumber {
        /// The key.
        key: String,
        /// The text behind the `=`.
        value: String,
    },
    /// The value is none of a choice's alternatives.
    #[error("--set {key}={value}: `{key}` cannot be `{value}`; allowed: {}", allowed.join(", "))]
    NoAlternative {
        /// The choice's key.
        key: String,
        /// The value asked for.
        value: String,
        /// The alternatives.
        allowed: Vec<String>,
    },
    /// None of the systems in the run has this constant or choice.
    #[error("--set {key}: {0}", key = .0.key)]
    Unknown(UnknownConstant),
}
