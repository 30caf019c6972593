//! The published figures of a built-in system: its profile, its file of rows, and code for the
//! figures that are no number of a run.

use super::platform::{self, choice, with};
use super::published::{Sheet, parse};
use super::{Constant, Constants, FigureSet};
use crate::memo::Memo;
use doorbell_sim::Unwatched;
use doorbell_spec::InputError;
use doorbell_spec::key::Values;
use doorbell_systems::published::{MeasureError, Measuring, SystemFigures};
use doorbell_systems::result::{Measured, Numbers};
use doorbell_systems::{Profile, Registry};
use std::sync::Arc;

/// Opens the published figures of all systems that have any.
///
/// # Errors
/// A profile or a file of rows does not parse.
pub fn open_all(registry: &Registry) -> Result<Vec<FigureSet>, InputError> {
    registry.systems.iter().flat_map(|s| s.figures).map(|of| open(registry, of)).collect()
}

/// Opens the published figures that a system declares.
///
/// # Errors
/// The profile or the file of rows does not parse.
pub fn open(registry: &Registry, of: &'static SystemFigures) -> Result<FigureSet, InputError> {
    let figures = read(registry, of)?;
    let (sheet, profile) = (figures.sheet.clone(), &figures.profile);
    let mut constants = platform::constants(profile);
    constants.retain(|c| !of.left_out.iter().any(|letters| c.key.starts_with(letters)));
    let others = of.constants.iter();
    constants.extend(others.map(|c| Constant::cited(c.key, c.value, c.unit, c.source)));
    let choices = of.choices.iter().map(|c| choice(profile, c)).collect();
    let (known_misses, swapped_misses) = (sheet.known_misses(false), sheet.known_misses(true));
    let measure = move |c: &Constants, figure: &str| figures.measure(c, figure);
    let set = FigureSet::new(of.name, constants, sheet.rows, measure);
    Ok(FigureSet {
        about: sheet.about,
        constants: set.constants.choosing(choices),
        known_misses,
        swapped_misses,
        jitter: sheet.jitter,
        precision: sheet.precision,
        headline: of.headline,
        ..set
    })
}

fn read(registry: &Registry, of: &'static SystemFigures) -> Result<Figures, InputError> {
    let profile = registry.profile(of.profile)?;
    let file = format!("published/{}.toml", of.name);
    let sheet = parse(registry, &file, of.rows, &profile)?;
    Ok(Figures { of, sheet, profile, done: Memo::default() })
}

/// The published figures of a system on its profile, and the runs made so far.
#[derive(Debug)]
struct Figures {
    of: &'static SystemFigures,
    sheet: Sheet,
    profile: Profile,
    /// The numbers of runs, by the values that have an effect.
    done: Memo<Vec<String>, Result<Arc<Numbers>, MeasureError>>,
}

impl Figures {
    fn number(&self, c: &Constants, run: &str, metric: &str) -> Result<f64, MeasureError> {
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

    fn measure(&self, c: &Constants, figure: &str) -> Result<f64, MeasureError> {
        let row = self.sheet.rows.iter().find(|r| r.figure == figure);
        let Some(of) = row.and_then(|row| row.number.clone()) else {
            let name = figure.split_once('.').map_or(figure, |(_, name)| name);
            return (self.of.measure)(&At { figures: self, constants: c }, name);
        };
        let number = self.number(c, &of.run, &of.metric)?;
        let per = of.per.as_ref().map_or(Ok(1.0), |per| self.number(c, &of.run, per))?;
        let quotient = if number == 0.0 { 0.0 } else { number / per };
        Ok(quotient * of.factor.unwrap_or(1.0))
    }
}

/// The models at these constants.
struct At<'a> {
    figures: &'a Figures,
    constants: &'a Constants,
}

impl Measuring for At<'_> {
    fn number(&self, run: &str, metric: &str) -> Result<f64, MeasureError> {
        self.figures.number(self.constants, run, metric)
    }

    fn values(&self) -> Values {
        with(&self.figures.profile, self.constants)
    }

    fn constant(&self, key: &str) -> Result<f64, MeasureError> {
        Ok(self.constants.get(key)?)
    }
}

#[cfg(test)]
mod tests;
