//! Choices: one model among several, taken with published figures in view.
//!
//! A rule of a bus or a driver that nobody published is a degree of freedom, like a fitted
//! constant. A system declares it with its alternatives and with the rows that were looked at when
//! it was chosen. A run counts it, and tries every combination of the alternatives: the number that
//! do as well shows how much the rows say about the choice.

use super::{Given, SetError};

/// A choice between models.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The key that takes the alternatives: `pcie.completions`.
    pub key: String,
    /// The possible values, as written with `--set`.
    pub alternatives: Vec<String>,
    /// The index of the alternative taken.
    pub(super) taken: usize,
    /// Unit of alternatives that are numbers; empty for others.
    pub unit: String,
    /// The reason for this one.
    pub source: String,
    /// The rows that were looked at when it was chosen.
    pub rows: Vec<String>,
    /// The value before the user set it by hand.
    pub set_from: Option<String>,
}

impl Choice {
    /// Makes the choice of `chosen` out of `among`, taken with `rows` in view. A value that
    /// is not among them is added in front.
    pub fn new(key: &str, chosen: &str, among: &[&str], source: &str, rows: &[&str]) -> Choice {
        let mut all: Vec<String> = among.iter().map(|a| (*a).to_owned()).collect();
        let taken = all.iter().position(|a| a == chosen).unwrap_or_else(|| {
            all.insert(0, chosen.to_owned());
            0
        });
        Choice {
            key: key.into(),
            alternatives: all,
            taken,
            unit: String::new(),
            source: source.into(),
            rows: rows.iter().map(|r| (*r).to_owned()).collect(),
            set_from: None,
        }
    }

    /// Returns the choice with a unit.
    pub(crate) fn unit(mut self, unit: &str) -> Choice {
        self.unit = unit.into();
        self
    }

    /// Returns the alternative that is taken.
    pub fn value(&self) -> &str {
        &self.alternatives[self.taken]
    }

    /// Returns the alternatives that are not taken.
    pub(crate) fn others(&self) -> impl Iterator<Item = &str> {
        self.alternatives.iter().enumerate().filter(|a| a.0 != self.taken).map(|a| a.1.as_str())
    }

    /// Returns whether the author made the choice, that is, it was not set by hand.
    pub fn is_free(&self) -> bool {
        self.set_from.is_none()
    }

    /// Returns the source as tables print it.
    pub fn from(&self) -> String {
        match &self.set_from {
            Some(was) => format!("set by hand; instead of {was}: {}", self.source),
            None => self.source.clone(),
        }
    }

    /// Takes the user's value. It must be among the alternatives, except for a number if these are
    /// numbers.
    pub(super) fn set(&mut self, given: &Given) -> Result<(), SetError> {
        let text = given.to_string();
        let same = |a: &String| match given {
            Given::Number(n) => a.parse() == Ok(*n),
            Given::Word(word) => a == word,
        };
        let number = matches!(given, Given::Number(_))
            && self.alternatives.iter().any(|a| a.parse::<f64>().is_ok());
        let at = match self.alternatives.iter().position(same) {
            Some(at) => at,
            None if number => {
                self.alternatives.push(text);
                self.alternatives.len() - 1
            }
            None => {
                let (key, allowed) = (self.key.clone(), self.alternatives.clone());
                return Err(SetError::NoAlternative { key, value: text, allowed });
            }
        };
        let was = self.value().to_owned();
        self.taken = at;
        self.set_from.get_or_insert(was);
        Ok(())
    }
}
