//! Constants: a number, its unit, and where it comes from.
//!
//! A [`Constants`] is the ordered set that one system computes with, its choices between models
//! included. The order is the author's; it is the order in which fits are solved and tables are
//! printed.

use super::{Choice, NoAlternative};
use crate::config::nearest;
use std::fmt;

/// Where a constant's value comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// A URL or data sheet, with the figure that it gives.
    Cited(String),
    /// Solved for, so that one row comes out as published.
    Fit {
        /// The row that the fit consumes.
        row: String,
        /// Lower end of the search.
        low: f64,
        /// Upper end of the search.
        high: f64,
    },
    /// Set by the user, who thereby answers for it. Holds what it replaced.
    Set {
        /// The source that the constant had.
        instead_of: Box<Source>,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Cited(what) => f.write_str(what),
            Source::Fit { row, low, high } => {
                write!(f, "fit to {row}, searched in {low} to {high}")
            }
            Source::Set { instead_of } => match &**instead_of {
                Source::Fit { row, .. } => write!(f, "set by hand; not fitted to {row}"),
                other => write!(f, "set by hand; instead of: {other}"),
            },
        }
    }
}

/// How far the sensitivity run moves a constant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Perturbation {
    /// By this share of its value.
    Rel(f64),
    /// By this much: for a constant that is zero, or that only takes certain values (a payload
    /// size, a count).
    Abs(f64),
}

impl Perturbation {
    /// `value`, moved.
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
    /// Dotted name, such as `pcie.usable_share`.
    pub key: String,
    /// The value; for a fitted constant, where the search starts.
    pub value: f64,
    /// Unit, in words a reader knows (`ns`, `cycles/packet`); empty for a pure number.
    pub unit: String,
    /// Where the value comes from.
    pub source: Source,
    /// How far the sensitivity run moves it.
    pub nudge: Perturbation,
}

impl Constant {
    /// A constant that a URL or data sheet gives.
    pub fn cited(key: &str, value: f64, unit: &str, source: &str) -> Constant {
        Constant {
            key: key.into(),
            value,
            unit: unit.into(),
            source: Source::Cited(source.into()),
            nudge: Perturbation::Rel(0.01),
        }
    }

    /// A constant to be solved for within `low..=high`, so that `row` comes out as published.
    /// `start` is the first guess.
    pub fn fitted(
        key: &str,
        start: f64,
        unit: &str,
        row: &str,
        (low, high): (f64, f64),
    ) -> Constant {
        Constant {
            key: key.into(),
            value: start,
            unit: unit.into(),
            source: Source::Fit { row: row.into(), low, high },
            nudge: Perturbation::Rel(0.01),
        }
    }

    /// The same constant, moved by `nudge` in the sensitivity run.
    pub fn nudged(mut self, nudge: Perturbation) -> Constant {
        self.nudge = nudge;
        self
    }

    /// The row that this constant is fitted on, if it is fitted.
    pub fn fit_row(&self) -> Option<&str> {
        match &self.source {
            Source::Fit { row, .. } => Some(row),
            Source::Cited(_) | Source::Set { .. } => None,
        }
    }
}

/// The constants of one system, in their author's order, and its choices between models.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Constants {
    numbers: Vec<Constant>,
    choices: Vec<Choice>,
}

impl Constants {
    /// The constants, in this order. [`super::FigureSet`] refuses duplicates.
    pub fn new(constants: Vec<Constant>) -> Constants {
        Constants { numbers: constants, choices: Vec::new() }
    }

    /// The same with these choices. A constant of the same key is no constant then.
    pub fn choosing(mut self, choices: Vec<Choice>) -> Constants {
        self.numbers.retain(|c| choices.iter().all(|choice| choice.key != c.key));
        self.choices = choices;
        self
    }

    /// The value of the constant `key`. An error is a fault of the system's author, and is reported
    /// as such.
    pub fn get(&self, key: &str) -> Result<f64, UnknownConstant> {
        match self.position(key) {
            Some(at) => Ok(self.numbers[at].value),
            None => Err(self.unknown(key)),
        }
    }

    /// The alternative that the choice `key` takes. An error is a fault of the system's author.
    pub fn choice(&self, key: &str) -> Result<&str, UnknownConstant> {
        let choice = self.choices.iter().find(|c| c.key == key);
        choice.map(Choice::value).ok_or_else(|| self.unknown(key))
    }

    /// All constants, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Constant> {
        self.numbers.iter()
    }

    /// All choices, in order.
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// The keys of constants and choices, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|c| c.key.as_str()).chain(self.choices.iter().map(|c| c.key.as_str()))
    }

    /// Only the constants named, in the order of `self`, and all choices: every run is made by some
    /// model. A run that is cached by these alone cannot read another.
    pub fn only(&self, keys: &[&str]) -> Result<Constants, UnknownConstant> {
        for key in keys {
            self.known(key)?;
        }
        let numbers = self.iter().filter(|c| keys.contains(&c.key.as_str())).cloned().collect();
        Ok(Constants { numbers, choices: self.choices.clone() })
    }

    /// The same without these choices: for a run that they cannot reach.
    pub fn without(&self, choices: &[&str]) -> Constants {
        let mut rest = self.clone();
        rest.choices.retain(|c| !choices.contains(&c.key.as_str()));
        rest
    }

    /// The values' bits and the choices' alternatives: equal exactly when the same system would
    /// compute the same.
    pub fn fingerprint(&self) -> Vec<u64> {
        let taken = self.choices.iter().map(|c| c.taken() as u64);
        self.iter().map(|c| c.value.to_bits()).chain(taken).collect()
    }

    /// Overrides a constant or takes an alternative by hand. A fitted constant is no longer fitted,
    /// and a choice no longer chosen.
    ///
    /// # Errors
    /// No such key, or a value that it cannot have.
    pub fn set(&mut self, key: &str, given: &Given) -> Result<(), SetError> {
        self.known(key).map_err(SetError::Unknown)?;
        if let Some(choice) = self.choices.iter_mut().find(|c| c.key == key) {
            return choice.set(given).map_err(SetError::NoAlternative);
        }
        let Given::Number(value) = *given else {
            return Err(SetError::NotANumber { key: key.into(), value: given.to_string() });
        };
        for c in self.numbers.iter_mut().filter(|c| c.key == key) {
            c.value = value;
            // Setting it twice must not bury the source that the sheet gave.
            if !matches!(c.source, Source::Set { .. }) {
                let was = std::mem::replace(&mut c.source, Source::Cited(String::new()));
                c.source = Source::Set { instead_of: Box::new(was) };
            }
        }
        Ok(())
    }

    /// The key that `key` was most likely meant to be.
    pub fn nearest(&self, key: &str) -> Option<&str> {
        nearest(key, self.keys())
    }

    /// Whether `key` is a constant or a choice; the error says what it may have been meant to be.
    pub(super) fn known(&self, key: &str) -> Result<(), UnknownConstant> {
        if self.keys().any(|k| k == key) { Ok(()) } else { Err(self.unknown(key)) }
    }

    fn unknown(&self, key: &str) -> UnknownConstant {
        UnknownConstant { key: key.into(), nearest: self.nearest(key).map(str::to_owned) }
    }

    pub(super) fn position(&self, key: &str) -> Option<usize> {
        self.iter().position(|c| c.key == key)
    }

    pub(super) fn at(&self, index: usize) -> &Constant {
        &self.numbers[index]
    }

    pub(super) fn put(&mut self, index: usize, value: f64) {
        self.numbers[index].value = value;
    }

    /// Takes an alternative of a choice.
    pub(super) fn take(&mut self, choice: usize, alternative: usize) {
        self.choices[choice].take(alternative);
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Constant> {
        self.numbers.iter_mut()
    }
}

/// A key that is neither a constant nor a choice.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "no constant or choice is called `{key}`{}",
    nearest.as_ref().map_or(String::new(), |n| format!("; the nearest is `{n}`"))
)]
pub struct UnknownConstant {
    /// What was asked for.
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
        if key.is_empty() {
            return Err(SetError::NotKeyValue(text.into()));
        }
        match value.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                Ok(Setting { key: key.into(), value: number.into() })
            }
            _ => Err(SetError::NotANumber { key: key.into(), value: value.into() }),
        }
    }
}

/// Why a `--set` was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetError {
    /// Not of the form `key=value`.
    #[error("--set {0}: expected key=value, such as pcie.usable_share=0.9")]
    NotKeyValue(String),
    /// The value is not a finite number.
    #[error("--set {key}: `{value}` is not a finite number")]
    NotANumber {
        /// The key.
        key: String,
        /// What stood behind the `=`.
        value: String,
    },
    /// The value is none of a choice's alternatives.
    #[error("--set {key}={value}: {0}", key = .0.key, value = .0.value)]
    NoAlternative(NoAlternative),
    /// None of the systems in the run has this constant or choice.
    #[error("--set {key}: {0}", key = .0.key)]
    Unknown(UnknownConstant),
}
