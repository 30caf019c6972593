//! The published figures of a built-in system: its profile, its file of rows, and code for the
//! figures that are no number of a run.

use super::memo::Memo;
use super::published::{Sheet, parse};
use super::{
    Choice, Constant, Constants, Headline, KnownMiss, MeasureError, PublishedFigures, Row,
};
use crate::config::{InputError, Profile};
use crate::experiment::result::{Measured, Numbers};
use doorbell_sim::Unwatched;
use std::sync::Arc;

/// The part of a system's figures that is not in its file.
#[derive(Debug)]
pub struct SystemFigures {
    /// The built-in profile of the measured machine.
    pub profile: &'static str,
    /// The text of the file of published rows.
    pub rows: &'static str,
    /// The scenarios that show the switch best.
    pub headline: Headline,
    /// First letters of the profile's keys that are no constants here.
    pub left_out: &'static [&'static str],
    /// Returns constants that are not in the profile.
    pub other_constants: fn() -> Vec<Constant>,
    /// Returns the choices between models that were made by looking at rows.
    pub choices: fn(&Profile) -> Vec<Choice>,
    /// Returns the models' value for a figure that is no number of a run. The figure is named
    /// without the system.
    pub measure: fn(&Figures, &Constants, &str) -> Result<f64, MeasureError>,
}

impl SystemFigures {
    /// Opens the figures.
    ///
    /// # Errors
    /// The profile or the file of rows does not parse.
    pub fn open(&'static self) -> Result<Box<dyn PublishedFigures>, InputError> {
        Ok(Box::new(self.read()?))
    }

    fn read(&'static self) -> Result<Figures, InputError> {
        let profile = Profile::load(self.profile)?;
        let file = format!("published/{}.toml", profile.system.name);
        let sheet = parse(&file, self.rows, &profile)?;
        Ok(Figures { of: self, sheet, profile, done: Memo::default() })
    }
}

/// The published figures of a system on its profile, and the runs made so far.
#[derive(Debug)]
pub struct Figures {
    of: &'static SystemFigures,
    sheet: Sheet,
    /// The profile.
    pub profile: Profile,
    /// The numbers of runs, by the values that have an effect.
    done: Memo<Vec<String>, Result<Arc<Numbers>, MeasureError>>,
}

impl Figures {
    /// Returns a number of a run of the file with these constants, or a sum with `+`. The run is
    /// only made if there was none with the same values.
    ///
    /// # Errors
    /// The file has no such run, it fails, or it has no such number.
    pub fn number(&self, c: &Constants, run: &str, metric: &str) -> Result<f64, MeasureError> {
        let sum = self.profile.system.sum(metric).map_err(MeasureError)?;
        let lacks = |name| MeasureError(format!("the run {run} has no number `{name}`"));
        sum.of(&*self.run(c, run)?).map(|(value, _)| value).map_err(lacks)
    }

    fn run(&self, c: &Constants, name: &str) -> Result<Arc<Numbers>, MeasureError> {
        let values = self.sheet.run(name)?.values(c)?;
        let key = values.iter().map(|(_, value)| value.to_string()).collect();
        self.done.get(key, || {
            let run = self.profile.system.run(&values, None, &mut Unwatched);
            Ok(Arc::new(run.and_then(Measured::sound)?.numbers()))
        })
    }
}

impl PublishedFigures for Figures {
    fn name(&self) -> &str {
        self.profile.system.name
    }

    fn about(&self) -> &str {
        &self.sheet.about
    }

    fn constants(&self) -> Vec<Constant> {
        let mut all = self.profile.constants();
        all.retain(|c| !self.of.left_out.iter().any(|letters| c.key.starts_with(letters)));
        all.extend((self.of.other_constants)());
        all
    }

    fn choices(&self) -> Vec<Choice> {
        (self.of.choices)(&self.profile)
    }

    fn rows(&self) -> Vec<Row> {
        self.sheet.rows.clone()
    }

    fn measure(&self, c: &Constants, figure: &str) -> Result<f64, MeasureError> {
        let row = self.sheet.rows.iter().find(|r| r.figure == figure);
        let Some(of) = row.and_then(|row| row.number.clone()) else {
            let name = figure.split_once('.').map_or(figure, |(_, name)| name);
            return (self.of.measure)(self, c, name);
        };
        let number = self.number(c, &of.run, &of.metric)?;
        let per = of.per.as_ref().map_or(Ok(1.0), |per| self.number(c, &of.run, per))?;
        let quotient = if number == 0.0 { 0.0 } else { number / per };
        Ok(quotient * of.factor.unwrap_or(1.0))
    }

    fn jitter(&self) -> f64 {
        self.sheet.jitter
    }

    fn precision(&self) -> f64 {
        self.sheet.precision
    }

    fn headline(&self) -> Option<Headline> {
        Some(self.of.headline)
    }

    fn known_misses(&self, swapped: bool) -> Vec<KnownMiss> {
        self.sheet.known_misses(swapped)
    }
}

#[cfg(test)]
mod tests;
