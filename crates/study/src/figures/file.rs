//! The format of runs and rows in files, published ones and one's own.
//!
//! A `[run.NAME]` has `scenario` (a name, or the path of a .toml file beside this one), `set` (a
//! list of `key=value`) and, unless it follows all constants ([`Run`]), a list `constants` of those
//! that it does. A `set` at the head of the file is for all runs.
//!
//! A `[[row]]` has `value` with its `unit`, `role` ([`Role`], by default `fit`) and `source`. It is
//! a number of a run: that called `run`, or one of its own by `scenario` and `set`; `metric` (a
//! number of a result, or a sum with `+`), with `per` (one to divide by) and `factor` where they
//! are needed. Or it is `derived` from two other rows (`{ rule, from }`: their `difference`,
//! `ratio` or `sum`). Optional are `figure` (its name), `spread` (one standard deviation, a number
//! in the unit or such as `"1 %"`), `tolerance` (`{ rel }` or `{ abs }`), `passage` and `note`.

use super::{Derived, Number, Role, Row, Run, Tolerance};
use crate::paths::named_beside;
use doorbell_hal::Unit;
use doorbell_spec::error::line_at;
use doorbell_spec::key::find;
use doorbell_spec::{InputError, Sum};
use doorbell_systems::{Profile, Registry, Scenario, Setting};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

/// A `[run.NAME]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunEntry {
    scenario: Spanned<String>,
    #[serde(default)]
    set: Vec<Spanned<String>>,
    constants: Option<Vec<Spanned<String>>>,
}

/// A `[[row]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowEntry {
    #[serde(default)]
    figure: String,
    run: Option<Spanned<String>>,
    scenario: Option<Spanned<String>>,
    #[serde(default)]
    set: Vec<Spanned<String>>,
    metric: Option<Spanned<String>>,
    per: Option<Spanned<String>>,
    factor: Option<Spanned<f64>>,
    derived: Option<Derived>,
    value: Spanned<f64>,
    unit: Option<Spanned<String>>,
    spread: Option<Spanned<SpreadEntry>>,
    role: Option<Role>,
    tolerance: Option<Tolerance>,
    source: Spanned<String>,
    #[serde(default)]
    passage: String,
    #[serde(default)]
    note: String,
    swap: Option<String>,
    inputs: Option<Vec<String>>,
    #[serde(default)]
    alone: bool,
}

/// One standard deviation: a number in the unit of its value, or a share such as `"1 %"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum SpreadEntry {
    Number(f64),
    Text(String),
}

/// A file being read.
pub(crate) struct Reader<'t> {
    registry: &'t Registry,
    pub(crate) file: &'t str,
    text: &'t str,
    pub(crate) profile: &'t Profile,
    /// Of a published file, the documents that its rows name.
    documents: Option<&'t BTreeMap<String, String>>,
    /// The settings of all runs.
    common: Vec<Setting>,
    scenarios: Vec<(String, Scenario)>,
    /// The runs: those that have a name, then those of rows.
    pub(crate) runs: Vec<Run>,
    named: usize,
}

/// Parses a file. `file` is for messages.
pub(crate) fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, InputError> {
    toml::from_str(text).map_err(|e| {
        let start = e.span().map_or(0, |span| span.start);
        InputError::new(format!("{file}:{}", line_at(text, start)), e.message())
    })
}

impl<'t> Reader<'t> {
    pub(crate) fn new(
        registry: &'t Registry,
        (file, text): (&'t str, &'t str),
        profile: &'t Profile,
        documents: Option<&'t BTreeMap<String, String>>,
    ) -> Reader<'t> {
        let (common, scenarios, runs) = (Vec::new(), Vec::new(), Vec::new());
        Reader { registry, file, text, profile, documents, common, scenarios, runs, named: 0 }
    }

    /// Reads the runs that a file names, with settings for all runs.
    pub(crate) fn runs(
        &mut self,
        set: &[Spanned<String>],
        runs: &BTreeMap<String, RunEntry>,
    ) -> Result<(), InputError> {
        self.common = self.settings(set);
        for (name, entry) in runs {
            let mut run = self.run(Some(name), &entry.scenario, &entry.set)?;
            if let Some(constants) = &entry.constants {
                let platform = self.profile.system.platform();
                let key = |name: &Spanned<String>| {
                    find(&platform, name.get_ref()).map_err(|e| self.error(name, e))
                };
                let keys = constants.iter().map(key).collect::<Result<Vec<_>, _>>()?;
                run.follows.retain(|name| keys.iter().any(|key| key.name == *name));
            }
            self.runs.push(run);
        }
        self.named = self.runs.len();
        Ok(())
    }

    pub(crate) fn place<T>(&self, of: &Spanned<T>) -> String {
        format!("{}:{}", self.file, line_at(self.text, of.span().start))
    }

    pub(crate) fn error<T>(&self, of: &Spanned<T>, what: impl Into<String>) -> InputError {
        InputError::new(self.place(of), what)
    }

    fn settings(&self, set: &[Spanned<String>]) -> Vec<Setting> {
        set.iter().map(|s| Setting::at(self.place(s), s.get_ref())).collect()
    }

    fn run(
        &mut self,
        name: Option<&str>,
        scenario: &Spanned<String>,
        set: &[Spanned<String>],
    ) -> Result<Run, InputError> {
        let place = self.place(scenario);
        let scenario = self.scenario(&place, scenario.get_ref())?;
        let plan = scenario.plan_on(self.profile);
        let mut plan = plan.map_err(|e| InputError::new(&*place, e.what))?;
        let settings = [&self.common[..], &self.settings(set)].concat();
        plan.layer(&settings)?;
        let keys = settings.iter().filter_map(|s| s.text.split('=').next());
        let set: BTreeSet<String> = keys.map(|key| key.trim().to_owned()).collect();
        let said = |name: &str| scenario.settings.iter().any(|(key, _)| key.name == name);
        let platform = self.profile.values.iter().map(|(key, _)| key.name);
        let follows = platform.filter(|name| !set.contains(*name) && !said(name)).collect();
        let name = name.unwrap_or(&scenario.name).to_owned();
        Ok(Run { name, plan, set, follows, frames: None })
    }

    fn scenario(&mut self, place: &str, given: &str) -> Result<Scenario, InputError> {
        if let Some((_, known)) = self.scenarios.iter().find(|(name, _)| name == given) {
            return Ok(known.clone());
        }
        let scenario = self.registry.scenario(&named_beside(self.file, given));
        let scenario = scenario.map_err(|e| placed(e, place))?;
        self.scenarios.push((given.to_owned(), scenario.clone()));
        Ok(scenario)
    }

    /// Returns the index of the run that an entry names, or of its own, which is a new one unless
    /// it is there already.
    pub(crate) fn run_of<T>(
        &mut self,
        entry: &Spanned<T>,
        name: Option<&Spanned<String>>,
        scenario: Option<&Spanned<String>>,
        set: &[Spanned<String>],
    ) -> Result<Option<usize>, InputError> {
        match (name, scenario) {
            (Some(name), None) if set.is_empty() => {
                let all = || self.runs[..self.named].iter().map(|run| &run.name);
                let at = all().position(|run| run == name.get_ref());
                let lacks = || self.error(name, unknown("run", name.get_ref(), all()));
                at.map(Some).ok_or_else(lacks)
            }
            (None, Some(scenario)) => {
                let run = self.run(None, scenario, set)?;
                let same = |r: &Run| r.plan.values == run.plan.values && r.follows == run.follows;
                let at = self.runs.iter().position(same);
                if at.is_none() {
                    self.runs.push(run);
                }
                Ok(at.or(Some(self.runs.len() - 1)))
            }
            (None, None) if set.is_empty() => Ok(None),
            _ => Err(self.error(entry, "allowed: `run`, or `scenario` and `set`")),
        }
    }

    /// Reads a row. One's own is in its metric's unit, a published one in the unit that it has.
    pub(crate) fn row(&mut self, entry: &Spanned<RowEntry>) -> Result<Row, InputError> {
        let (place, e) = (self.place(entry), entry.get_ref());
        let wrong = |what: String| InputError::new(&*place, what);
        let run = self.run_of(entry, e.run.as_ref(), e.scenario.as_ref(), &e.set)?;
        let metric = e.metric.as_ref().map(|name| self.metric(name)).transpose()?;
        let per = e.per.as_ref().map(|name| self.metric(name)).transpose()?;
        let (size, factor, unit) = self.scale(e, metric.as_ref())?;
        let given = *e.value.get_ref();
        if !given.is_finite() {
            return Err(self.error(&e.value, "the value is no number"));
        }
        let spread = self.spread(e.spread.as_ref(), given)?.map(|s| s * size);
        let number = match (run, metric) {
            (Some(run), Some(metric)) => Some(Number { run, metric, per, factor }),
            (Some(_), None) => return Err(wrong("missing field `metric`".to_owned())),
            (None, None) if e.derived.is_some() || self.documents.is_some() => None,
            (None, _) => return Err(wrong("missing field `run` or `scenario`".to_owned())),
        };
        if number.is_some() && e.derived.is_some() {
            return Err(wrong("a row has `metric` or `derived`".to_owned()));
        }
        let published =
            [("swap", e.swap.is_some()), ("inputs", e.inputs.is_some()), ("alone", e.alone)];
        match published.iter().find(|(_, there)| *there) {
            Some((name, _)) if self.documents.is_none() => {
                return Err(wrong(format!("`{name}` is of published rows")));
            }
            _ => {}
        }
        Ok(Row {
            figure: e.figure.clone(),
            value: given * size,
            unit,
            spread,
            role: e.role.unwrap_or_default(),
            tolerance: e.tolerance.map(|t| t.times(size)),
            source: self.source(&e.source)?,
            passage: e.passage.clone(),
            note: e.note.clone(),
            swap: e.swap.clone(),
            number,
            derived: e.derived.clone(),
            inputs: e.inputs.clone(),
            alone: e.alone,
            place,
        })
    }

    fn metric(&self, name: &Spanned<String>) -> Result<Sum, InputError> {
        self.profile.system.sum(name.get_ref()).map_err(|what| self.error(name, what))
    }

    /// Returns the factors from a row's unit to that of its number, and to it from that of the
    /// metric, and the unit of its number.
    fn scale(&self, e: &RowEntry, metric: Option<&Sum>) -> Result<(f64, f64, String), InputError> {
        let unit = e.unit.as_ref().map(|u| u.get_ref().as_str());
        let as_it_is = |factor| Ok((1.0, factor, unit.unwrap_or_default().to_owned()));
        let at = e.unit.as_ref().map_or(self.place(&e.value), |u| self.place(u));
        let wrong = |what| InputError::new(at, what);
        match (metric, e.factor.as_ref().map(|f| (f, *f.get_ref()))) {
            (_, Some((at, f))) if !f.is_finite() || f == 0.0 => {
                Err(self.error(at, format!("`factor` cannot be {f}; allowed: any number but 0")))
            }
            (_, Some((_, factor))) => as_it_is(factor),
            // A quotient, or arithmetic on other rows.
            (Some(_), None) if e.per.is_some() => as_it_is(1.0),
            (None, None) => as_it_is(1.0),
            (Some(metric), None) if self.documents.is_none() => {
                let size = metric.size_of(unit).map_err(wrong)?;
                Ok((size, 1.0, metric.unit().name().to_owned()))
            }
            // A count of what the unit names.
            (Some(metric), None) if metric.unit() == Unit::Count => as_it_is(1.0),
            (Some(metric), None) => {
                let suffix = if metric.is_by_packet() { "/packet" } else { "" };
                let unit = unit.map(|unit| unit.strip_suffix(suffix).unwrap_or(unit));
                as_it_is(1.0 / metric.size_of(unit).map_err(wrong)?)
            }
        }
    }

    /// Returns a spread in the unit of its value.
    pub(crate) fn spread(
        &self,
        entry: Option<&Spanned<SpreadEntry>>,
        value: f64,
    ) -> Result<Option<f64>, InputError> {
        let Some(entry) = entry else { return Ok(None) };
        let spread = match entry.get_ref() {
            SpreadEntry::Number(n) => Some(*n),
            SpreadEntry::Text(text) => {
                let percent = text.trim().strip_suffix('%').map(|n| n.trim().parse::<f64>());
                percent.and_then(Result::ok).map(|p| p / 100.0 * value.abs())
            }
        };
        match spread.filter(|s| s.is_finite() && *s > 0.0) {
            Some(spread) => Ok(Some(spread)),
            None => Err(self.error(
                entry,
                "a spread is one standard deviation above 0: a number in the value's unit, or \
                 such as \"1 %\" of a value that is not 0",
            )),
        }
    }

    /// Returns the origin of a row: of a published one, the document that it names.
    fn source(&self, given: &Spanned<String>) -> Result<String, InputError> {
        let name = given.get_ref();
        match self.documents {
            Some(all) => {
                let lacks = || self.error(given, unknown("document", name, all.keys()));
                all.get(name).cloned().ok_or_else(lacks)
            }
            None if name.trim().is_empty() => Err(self.error(given, "the source says nothing")),
            None => Ok(name.clone()),
        }
    }
}

fn unknown<'n>(what: &str, given: &str, all: impl Iterator<Item = &'n String>) -> String {
    let all = all.map(String::as_str).collect::<Vec<_>>().join(", ");
    format!("no {what} is called `{given}`; there are: {all}")
}

/// Returns the error at `place`, unless it has one in another file.
pub(crate) fn placed(e: InputError, place: &str) -> InputError {
    if e.place.is_empty() { InputError::new(place, e.what) } else { e }
}
