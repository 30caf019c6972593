//! Numbers of runs that an option names.

use doorbell_spec::{InputError, Sum};
use doorbell_systems::result::{Numbers, rounded};
use doorbell_systems::system::System;
use indexmap::IndexMap;

/// A number, and half of its 95 % interval if the run can tell.
pub(crate) type Estimate = (f64, Option<f64>);

/// A number of a run, or a sum of them, that an option names.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown<'a> {
    option: &'static str,
    /// The names as they were given.
    pub text: &'a str,
    /// The sum.
    pub sum: Sum,
}

impl<'a> Shown<'a> {
    /// Parses names of numbers with `+` between them, which have one unit.
    pub fn parse(
        option: &'static str,
        text: &'a str,
        system: &System,
    ) -> Result<Shown<'a>, InputError> {
        let wrong = |what| InputError::new(format!("{option} {text}"), what);
        Ok(Shown { option, text, sum: system.sum(text).map_err(wrong)? })
    }

    /// Refuses another system whose runs have no such number.
    pub(crate) fn known(&self, system: &System) -> Result<(), InputError> {
        Shown::parse(self.option, self.text, system).map(drop)
    }

    /// Returns its value in a run that has it.
    pub fn of(&self, numbers: &Numbers) -> Result<Estimate, InputError> {
        let lacks = |name| {
            let place = format!("{} {}", self.option, self.text);
            InputError::new(place, format!("this run has no number `{name}`"))
        };
        let (value, error) = self.sum.of(numbers).map_err(lacks)?;
        Ok((rounded(value), error))
    }
}

/// Returns the names of units for programs, of those numbers that have one.
pub(crate) fn units(shown: &[Shown<'_>]) -> IndexMap<String, String> {
    let all = shown.iter().map(|s| (s.text.to_owned(), s.sum.unit().name().to_owned()));
    all.filter(|(_, unit)| !unit.is_empty()).collect()
}
