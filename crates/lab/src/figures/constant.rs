//! Constants: a number, its unit, and where it comes from.
//!
//! A [`Constants`] is the ordered set that one system computes with. The order is the author's; it is the order in which
//! fits are solved and tables are printed.

use crate::input::nearest;
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
            Source::Fit { row, low, high } => write!(f, "fit to {row}, searched in {low} to {high}"),
            Source::Set { instead_of } => match &**instead_of {
                Source::Fit { row, .. } => write!(f, "set by hand; not fitted to {row}"),
                other => write!(f, "set by hand; instead of: {other}"),
            },
        }
    }
}

/// How far the sensitivity run moves a constant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Nudge {
    /// By this share of its value.
    Rel(f64),
    /// By this much: for a constant that is zero, or that only takes certain values (a payload size, a count).
    Abs(f64),
}

impl Nudge {
    /// `value`, moved.
    pub fn apply(self, value: f64) -> f64 {
        match self {
            Nudge::Rel(share) => value * (1.0 + share),
            Nudge::Abs(by) => value + by,
        }
    }
}

impl fmt::Display for Nudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nudge::Rel(share) => write!(f, "{:+} %", share * 100.0),
            Nudge::Abs(by) => write!(f, "{by:+}"),
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
    pub nudge: Nudge,
}

impl Constant {
    /// A constant that a URL or data sheet gives.
    pub fn cited(key: &str, value: f64, unit: &str, source: &str) -> Constant {
        Constant {
            key: key.into(),
            value,
            unit: unit.into(),
            source: Source::Cited(source.into()),
            nudge: Nudge::Rel(0.01),
        }
    }

    /// A constant to be solved for within `low..=high`, so that `row` comes out as published. `start` is the first guess.
    pub fn fitted(key: &str, start: f64, unit: &str, row: &str, (low, high): (f64, f64)) -> Constant {
        Constant {
            key: key.into(),
            value: start,
            unit: unit.into(),
            source: Source::Fit { row: row.into(), low, high },
            nudge: Nudge::Rel(0.01),
        }
    }

    /// The same constant, moved by `nudge` in the sensitivity run.
    pub fn nudged(mut self, nudge: Nudge) -> Constant {
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

/// The constants of one system, in their author's order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Constants(Vec<Constant>);

impl Constants {
    /// The constants, in this order. [`super::Sheet`] refuses duplicates.
    pub fn new(constants: Vec<Constant>) -> Constants {
        Constants(constants)
    }

    /// The value of `key`. An error is a fault of the system's author, and is reported as such.
    pub fn get(&self, key: &str) -> Result<f64, UnknownConstant> {
        match self.position(key) {
            Some(at) => Ok(self.0[at].value),
            None => Err(UnknownConstant { key: key.into(), nearest: self.nearest(key).map(str::to_owned) }),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Constant> {
        self.0.iter()
    }

    /// Only the constants named, in the order of `self`. A run that is cached by these alone cannot read another.
    pub fn only(&self, keys: &[&str]) -> Result<Constants, UnknownConstant> {
        for key in keys {
            self.get(key)?;
        }
        Ok(Constants(self.0.iter().filter(|c| keys.contains(&c.key.as_str())).cloned().collect()))
    }

    /// The values' bits: equal exactly when the same system would compute the same.
    pub fn fingerprint(&self) -> Vec<u64> {
        self.0.iter().map(|c| c.value.to_bits()).collect()
    }

    /// Overrides a constant by hand. A fitted constant is no longer fitted.
    pub fn set(&mut self, key: &str, value: f64) -> Result<(), UnknownConstant> {
        self.get(key)?;
        for c in self.0.iter_mut().filter(|c| c.key == key) {
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
        nearest(key, self.0.iter().map(|c| c.key.as_str()))
    }

    pub(super) fn position(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|c| c.key == key)
    }

    pub(super) fn at(&self, index: usize) -> &Constant {
        &self.0[index]
    }

    pub(super) fn put(&mut self, index: usize, value: f64) {
        self.0[index].value = value;
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Constant> {
        self.0.iter_mut()
    }
}

/// A key that no constant has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownConstant {
    /// What was asked for.
    pub key: String,
    /// The closest key that exists.
    pub nearest: Option<String>,
}

impl fmt::Display for UnknownConstant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no constant is called `{}`", self.key)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; the nearest is `{nearest}`"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownConstant {}

/// One `--set key=value`.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// The constant's key.
    pub key: String,
    /// Its new value.
    pub value: f64,
}

impl std::str::FromStr for Setting {
    type Err = SetError;

    fn from_str(text: &str) -> Result<Setting, SetError> {
        let (key, value) = text.split_once('=').ok_or_else(|| SetError::NotKeyValue(text.into()))?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() {
            return Err(SetError::NotKeyValue(text.into()));
        }
        match value.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Setting { key: key.into(), value: number }),
            _ => Err(SetError::NotANumber { key: key.into(), value: value.into() }),
        }
    }
}

/// Why a `--set` was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SetError {
    /// Not of the form `key=value`.
    NotKeyValue(String),
    /// The value is not a finite number.
    NotANumber {
        /// The key.
        key: String,
        /// What stood behind the `=`.
        value: String,
    },
    /// None of the systems in the run has this constant.
    Unknown(UnknownConstant),
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::NotKeyValue(text) => write!(f, "--set {text}: expected key=value, such as pcie.usable_share=0.9"),
            SetError::NotANumber { key, value } => write!(f, "--set {key}: `{value}` is not a finite number"),
            SetError::Unknown(unknown) => write!(f, "--set {}: {unknown}", unknown.key),
        }
    }
}

impl std::error::Error for SetError {}
