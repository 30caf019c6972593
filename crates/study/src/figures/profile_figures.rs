//! The published figures of a built-in system: its profile, its file of rows, and code for the
//! figures that are no number of a run.

use super::platform::{self, choice, with};
use super::published::{Sheet, parse};
use super::{Constant, Constants, FigureSet, Models, Number};
use doorbell_sim::Unwatched;
use doorbell_spec::InputError;
use doorbell_spec::key::Values;
use doorbell_systems::published::{MeasureError, Measuring, SystemFigures};
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
    let profile = registry.profile(of.profile)?;
    let file = format!("published/{}.toml", of.name);
    let sheet: Sheet = parse(registry, &file, of.rows, &profile)?;
    let mut constants = platform::constants(&profile);
    constants.retain(|c| !of.left_out.iter().any(|letters| c.key.starts_with(letters)));
    let others = of.constants.iter();
    constants.extend(others.map(|c| Constant::cited(c.key, c.value, c.unit, c.source)));
    let choices = of.choices.iter().map(|c| choice(&profile, c)).collect();
    let (known_misses, swapped_misses) = (sheet.known_misses(false), sheet.known_misses(true));
    let models = Arc::new(Models::new(sheet.runs));
    let runs = Arc::clone(&models);
    let measure = move |constants: &Constants, figure: &str| {
        let name = figure.split_once('.').map_or(figure, |(_, name)| name);
        (of.measure)(&At { models: &runs, profile: &profile, constants }, name)
    };
    let set = FigureSet::new(of.name, constants, sheet.rows, measure);
    Ok(FigureSet {
        about: sheet.about,
        constants: set.constants.choosing(choices),
        known_misses,
        swapped_misses,
        jitter: sheet.jitter,
        precision: sheet.precision,
        headline: of.headline,
        models,
        ..set
    })
}

/// The models at these constants.
struct At<'a> {
    models: &'a Models,
    profile: &'a Profile,
    constants: &'a Constants,
}

impl Measuring for At<'_> {
    fn number(&self, run: &str, metric: &str) -> Result<f64, MeasureError> {
        let lacks = || MeasureError::new(format!("the file of rows has no run `{run}`"));
        let run = self.models.runs.iter().position(|r| r.name == run).ok_or_else(lacks)?;
        let metric = self.profile.system.sum(metric).map_err(MeasureError::new)?;
        let number = Number { run, metric, per: None, factor: 1.0 };
        self.models.measure(self.constants, &number, &mut Unwatched)
    }

    fn values(&self) -> Values {
        with(self.profile, self.constants)
    }

    fn constant(&self, key: &str) -> Result<f64, MeasureError> {
        Ok(self.constants.get(key)?)
    }
}

#[cfg(test)]
mod tests;
