//! Measurement files: rows measured on a machine, and the constants of a profile to solve for.
//!
//! The head has `name`, `about` and `profile`, a name or the path of a .toml file beside this one.
//! A `[[constant]]` has `key`, and may have `range` with its `unit`. Runs and rows are those of
//! [`file`]. `[[counters]]` makes rows of the files of other tools ([`readers`](super::readers)):
//! it has run, `spread` and `role` as a row, `format`, `file` or `before` and `after`, `packets` (a
//! number, or a counter) and `seconds`, and `[counters.metrics]` names the metric of each counter.

mod counters;

use crate::figures::file::{self, Reader, RowEntry, RunEntry, placed};
use crate::figures::{
    Constant, Constants, FigureSet, MeasureError, Models, Role, Row, Run, platform, row_faults,
};
use crate::paths::named_beside;
use counters::CountersEntry;
use doorbell_host_io::files;
use doorbell_spec::InputError;
use doorbell_spec::error::line_at;
use doorbell_spec::key::{Key, Kind, Value, find, units};
use doorbell_systems::profile::Source;
use doorbell_systems::system::System;
use doorbell_systems::{Plan, Profile, Registry};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;

/// The distance of two values, or of a residual from zero, that spreads do not explain: in standard
/// deviations.
pub(crate) const BEYOND: f64 = 5.0;

/// A constant to solve for.
#[derive(Clone, PartialEq, Debug)]
pub struct Unknown {
    /// Its index among the constants.
    pub at: usize,
    /// The range of the search, in the key's unit.
    pub range: (f64, f64),
}

/// The content of a measurement file.
#[derive(Clone, PartialEq, Debug)]
pub struct Measurements {
    /// Its name.
    pub name: String,
    /// Description.
    pub about: String,
    /// The file, as named in messages.
    pub file: String,
    /// The profile to start from.
    pub profile: Profile,
    /// The numbers of the profile.
    pub constants: Constants,
    /// Those of them to solve for.
    pub unknowns: Vec<Unknown>,
    /// The distinct runs.
    pub runs: Vec<Run>,
    /// The rows: those of the file, then those of counters.
    pub rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    about: Spanned<String>,
    profile: Spanned<String>,
    #[serde(default)]
    set: Vec<Spanned<String>>,
    #[serde(default)]
    constant: Vec<ConstantEntry>,
    #[serde(default)]
    run: BTreeMap<String, RunEntry>,
    #[serde(default)]
    row: Vec<Spanned<RowEntry>>,
    #[serde(default)]
    counters: Vec<Spanned<CountersEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstantEntry {
    key: Spanned<String>,
    range: Option<Spanned<[f64; 2]>>,
    unit: Option<Spanned<String>>,
}

impl Measurements {
    /// Loads the file at this path. Paths in it are relative to it.
    ///
    /// # Errors
    /// Returns the error with file and line.
    pub fn load(registry: &Registry, file: &str) -> Result<Measurements, InputError> {
        let text = files::text(Path::new(file));
        let text = text.map_err(|e| InputError::new(file, e.to_string()))?;
        Measurements::parse(registry, file, &text)
    }

    /// Parses a file. `file` is its path, for messages and for paths in it.
    ///
    /// # Errors
    /// Returns the error with file and line.
    pub(crate) fn parse(
        registry: &Registry,
        file: &str,
        text: &str,
    ) -> Result<Measurements, InputError> {
        let entries: File = file::parse(file, text)?;
        let profile = registry.profile(&named_beside(file, entries.profile.get_ref()));
        let place = format!("{file}:{}", line_at(text, entries.profile.span().start));
        let profile = profile.map_err(|e| placed(e, &place))?;
        let mut r = Reader::new(registry, (file, text), &profile, None);
        for (name, head) in [("name", &entries.name), ("about", &entries.about)] {
            if head.get_ref().trim().is_empty() {
                return Err(r.error(head, format!("`{name}` says nothing")));
            }
        }
        let constants = Constants::new(platform::constants(&profile));
        let mut unknowns = Vec::new();
        for entry in &entries.constant {
            unknowns.push(unknown(&r, &constants, &unknowns, entry)?);
        }
        r.runs(&entries.set, &entries.run)?;
        let mut rows = Vec::new();
        for entry in &entries.row {
            rows.push(r.row(entry)?);
        }
        for entry in &entries.counters {
            rows.extend(counters::rows(&mut r, entry)?);
        }
        let found = Measurements {
            name: entries.name.into_inner(),
            about: entries.about.into_inner(),
            file: file.to_owned(),
            runs: r.runs,
            profile,
            constants,
            unknowns,
            rows,
        };
        found.complete()?;
        found.consistent()?;
        Ok(found)
    }

    /// Returns the system of the profile.
    pub fn system(&self) -> &'static System {
        self.profile.system
    }

    /// Returns scenario and settings of a row's run, for people. A row that is computed from others
    /// has none.
    pub fn run_of(&self, row: &Row) -> Option<&Plan> {
        row.number.as_ref().map(|number| &self.runs[number.run].plan)
    }

    /// Returns a constant to solve for, by its index among these, as the profile has it.
    pub fn solved_for(&self, unknown: usize) -> &Constant {
        &self.constants.numbers[self.unknowns[unknown].at]
    }

    /// Returns the rows and their runs, to be measured.
    pub(crate) fn sheet(&self) -> FigureSet {
        let unknown = |_: &Constants, figure: &str| Err(MeasureError::unknown_figure(figure));
        let constants = self.constants.numbers.clone();
        let mut set = FigureSet::new(&self.name, constants, self.rows.clone(), unknown);
        set.models = Arc::new(Models::new(self.runs.clone()));
        set
    }

    /// Checks that there is something to solve for, and to solve it by.
    fn complete(&self) -> Result<(), InputError> {
        let lacks = |what: &str| Err(InputError::new(&*self.file, what));
        if self.unknowns.is_empty() {
            return lacks("no constant to solve for: `[[constant]]` with `key = \"…\"` is missing");
        }
        if !self.rows.iter().any(|r| r.role == Role::Fit) {
            return lacks("no row to fit: `[[row]]` or `[[counters]]` with role `fit` is missing");
        }
        let judged = self.rows.iter().filter(|r| r.is_within_its_spread());
        let (told, untold): (Vec<&Row>, Vec<_>) = judged.partition(|r| r.spread.is_some());
        match (told.first(), untold.first()) {
            (Some(with), Some(without)) => Err(InputError::new(
                &*without.place,
                format!("it has no spread, but that at {} has one; give all, or none", with.place),
            )),
            _ => Ok(()),
        }
    }

    /// Checks rows against each other, and that those of the same number of the same run agree.
    fn consistent(&self) -> Result<(), InputError> {
        for (i, b) in self.rows.iter().enumerate() {
            if let Some(fault) = row_faults(&self.rows, i).into_iter().next() {
                return Err(InputError::new(&*b.place, fault));
            }
            let same = |a: &&Row| a.number.is_some() && a.number == b.number;
            for a in self.rows[..i].iter().filter(same) {
                let (Some(sa), Some(sb)) = (a.spread, b.spread) else { continue };
                let spreads = (a.value - b.value).abs() / libm::hypot(sa, sb);
                if spreads > BEYOND {
                    let (name, at) = (b.computed_from(), &a.place);
                    let what = format!(
                        "`{name}` is {} here and {} at {at}, of the same run: {spreads:.0} times \
                         the spread of their difference",
                        b.value, a.value
                    );
                    return Err(InputError::new(&*b.place, what));
                }
            }
        }
        Ok(())
    }
}

/// Reads a constant. Without a range of its own it has that of the profile, or the key's.
fn unknown(
    r: &Reader<'_>,
    constants: &Constants,
    others: &[Unknown],
    entry: &ConstantEntry,
) -> Result<Unknown, InputError> {
    let wrong = |what: String| r.error(&entry.key, what);
    let keys = r.profile.system.platform();
    let key = find(&keys, entry.key.get_ref()).map_err(|e| wrong(e.to_string()))?;
    let (name, allowed) = (key.name, key.allowed());
    let (Kind::Number { min, max, step: 0.0, .. }, Some(at)) = (key.kind, constants.position(name))
    else {
        return Err(wrong(format!(
            "`{name}` cannot be solved for, because its values are in steps or words; allowed: \
             {allowed}"
        )));
    };
    if others.iter().any(|u| u.at == at) {
        return Err(wrong(format!("`{name}` is there twice")));
    }
    let range = match (&entry.range, r.profile.source(name)) {
        (Some(given), _) => range(r, key, given, entry.unit.as_ref())?,
        (None, Some(Source::Fit { range, .. })) => *range,
        (None, _) => (min, max),
    };
    Ok(Unknown { at, range })
}

fn range(
    r: &Reader<'_>,
    key: &Key,
    range: &Spanned<[f64; 2]>,
    unit: Option<&Spanned<String>>,
) -> Result<(f64, f64), InputError> {
    if unit.is_none() && !key.unit().is_empty() {
        let (name, units) = (key.name, units(key.unit()).join(", "));
        let what = format!("the range of `{name}` needs a unit; allowed units: {units}");
        return Err(r.error(range, what));
    }
    let unit = unit.map_or("", |u| u.get_ref());
    let ends = range.get_ref().map(|end| key.quantity(end, unit));
    match ends {
        [Ok(Value::Number(low)), Ok(Value::Number(high))] if low < high => Ok((low, high)),
        [Err(e), _] | [_, Err(e)] => Err(r.error(range, e.to_string())),
        _ => Err(r.error(range, "a range is [low, high]")),
    }
}

#[cfg(test)]
mod tests;
