//! Measurement files: rows measured on a machine, and the constants of a profile to solve for.
//!
//! The head has `name`, `about` and `profile`, a name or the path of a .toml file beside this one.
//! A `[[constant]]` has `key`, and may have `range` with its `unit`. A `[[row]]` has `scenario`,
//! `set` (a list of `key=value`), `metric` (a number of a result, or a sum with `+`), `value` with
//! its `unit`, `spread` (one standard deviation, a number in that unit or `"1 %"`), `role` (`fit`,
//! or `predicted`, which may be written `check`) and `source`. `[[counters]]` makes rows of the
//! files of other tools ([`readers`](super::readers)): it has `scenario`, `set`, `spread` and
//! `role` as a row, `format`, `file` or `before` and `after`, `packets` (a number, or a counter)
//! and `seconds`, and `[counters.metrics]` names the metric of each counter.

mod counters;

use crate::figures::Role;
use crate::paths::named_beside;
use counters::CountersEntry;
use doorbell_host_io::files;
use doorbell_sim::traffic::Frames;
use doorbell_spec::InputError;
use doorbell_spec::error::line_at;
use doorbell_spec::key::{Key, Kind, Value, find, units};
use doorbell_systems::metrics::Sum;
use doorbell_systems::profile::Source;
use doorbell_systems::system::System;
use doorbell_systems::{Plan, Profile, Registry, Scenario, Setting};
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;

/// The distance of two values, or of a residual from zero, that spreads do not explain: in standard
/// deviations.
pub(crate) const BEYOND: f64 = 5.0;

/// A constant to solve for, or one that a sensitivity run moves.
#[derive(Clone, PartialEq, Debug)]
pub struct Unknown {
    /// The key.
    pub key: &'static Key,
    /// The value in the profile.
    pub start: f64,
    /// The range of the search, in the key's unit.
    pub range: (f64, f64),
}

/// A run that rows were measured of.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The scenario on the profile, with the settings of its rows.
    pub plan: Plan,
    /// For each constant to solve for and each other, whether it is left to the profile and has an
    /// effect.
    pub free: Vec<bool>,
    /// The frames of its capture.
    pub frames: Option<Arc<Frames>>,
}

/// A measured number.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// File and line.
    pub place: String,
    /// Its use.
    pub role: Role,
    /// The index of its run.
    pub run: usize,
    /// The number of a result that it measures.
    pub metric: Sum,
    /// The value, in the metric's unit.
    pub value: f64,
    /// One standard deviation, in that unit.
    pub spread: Option<f64>,
    /// The origin.
    pub source: String,
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
    /// The constants to solve for.
    pub unknowns: Vec<Unknown>,
    /// The other numbers of the profile.
    pub others: Vec<Unknown>,
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
    constant: Vec<ConstantEntry>,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowEntry {
    scenario: Spanned<String>,
    #[serde(default)]
    set: Vec<Spanned<String>>,
    metric: Spanned<String>,
    value: Spanned<f64>,
    unit: Option<Spanned<String>>,
    spread: Option<Spanned<SpreadEntry>>,
    role: Option<Spanned<Role>>,
    source: Spanned<String>,
}

/// One standard deviation: a number in the unit of its value, or a share such as `"1 %"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(untagged)]
enum SpreadEntry {
    Number(f64),
    Text(String),
}

/// A file being read.
struct Reader<'t> {
    registry: &'t Registry,
    file: &'t str,
    text: &'t str,
    profile: Profile,
    scenarios: Vec<(String, Scenario)>,
    unknowns: Vec<Unknown>,
    others: Vec<Unknown>,
    runs: Vec<Run>,
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
    pub fn parse(registry: &Registry, file: &str, text: &str) -> Result<Measurements, InputError> {
        let entries: File = toml::from_str(text).map_err(|e| {
            let start = e.span().map_or(0, |span| span.start);
            InputError::new(format!("{file}:{}", line_at(text, start)), e.message())
        })?;
        let mut r = Reader::open(registry, (file, text), &entries.profile)?;
        for (name, head) in [("name", &entries.name), ("about", &entries.about)] {
            if head.get_ref().trim().is_empty() {
                return Err(r.error(head, format!("`{name}` says nothing")));
            }
        }
        for entry in &entries.constant {
            let unknown = r.unknown(entry)?;
            r.unknowns.push(unknown);
        }
        r.others = r.others();
        let mut rows = Vec::new();
        for entry in entries.row {
            rows.push(r.row(entry)?);
        }
        for entry in entries.counters {
            rows.extend(r.counters(entry)?);
        }
        r.complete(&rows)?;
        r.consistent(&rows)?;
        Ok(Measurements {
            name: entries.name.into_inner(),
            about: entries.about.into_inner(),
            file: file.to_owned(),
            profile: r.profile,
            unknowns: r.unknowns,
            others: r.others,
            runs: r.runs,
            rows,
        })
    }

    /// Returns the system of the profile.
    pub fn system(&self) -> &'static System {
        self.profile.system
    }

    /// Returns scenario and settings of a row's run, for people.
    pub fn run_of(&self, row: &Row) -> &Plan {
        &self.runs[row.run].plan
    }
}

impl<'t> Reader<'t> {
    fn open(
        registry: &'t Registry,
        (file, text): (&'t str, &'t str),
        profile: &Spanned<String>,
    ) -> Result<Reader<'t>, InputError> {
        let place = format!("{file}:{}", line_at(text, profile.span().start));
        let profile = registry.profile(&named_beside(file, profile.get_ref()));
        let profile = profile.map_err(|e| placed(e, &place))?;
        let (scenarios, unknowns, others, runs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Reader { registry, file, text, profile, scenarios, unknowns, others, runs })
    }

    fn place<T>(&self, of: &Spanned<T>) -> String {
        format!("{}:{}", self.file, line_at(self.text, of.span().start))
    }

    fn error<T>(&self, of: &Spanned<T>, what: impl Into<String>) -> InputError {
        InputError::new(self.place(of), what)
    }

    /// Reads a constant. Without a range of its own it has that of the profile, or the key's.
    fn unknown(&self, entry: &ConstantEntry) -> Result<Unknown, InputError> {
        let wrong = |what: String| self.error(&entry.key, what);
        let keys = self.profile.system.platform();
        let key = find(&keys, entry.key.get_ref()).map_err(|e| wrong(e.to_string()))?;
        let (name, allowed) = (key.name, key.allowed());
        let (Kind::Number { min, max, step: 0.0, .. }, Value::Number(start)) =
            (key.kind, self.profile.values.get(key.name))
        else {
            return Err(wrong(format!(
                "`{name}` cannot be solved for, because its values are in steps or words; \
                 allowed: {allowed}"
            )));
        };
        if self.unknowns.iter().any(|u| u.key.name == name) {
            return Err(wrong(format!("`{name}` is there twice")));
        }
        let range = match (&entry.range, self.profile.source(name)) {
            (Some(range), _) => self.range(key, range, entry.unit.as_ref())?,
            (None, Some(Source::Fit { range, .. })) => *range,
            (None, _) => (min, max),
        };
        Ok(Unknown { key, start: *start, range })
    }

    /// Returns the numbers of the profile that are not solved for.
    fn others(&self) -> Vec<Unknown> {
        let solved = |key: &Key| self.unknowns.iter().any(|u| u.key.name == key.name);
        let all = self.profile.values.iter().filter(|(key, _)| !solved(key));
        let number = |(key, value): (&'static Key, &Value)| match (key.kind, value) {
            (Kind::Number { min, max, .. }, Value::Number(start)) => {
                Some(Unknown { key, start: *start, range: (min, max) })
            }
            (_, Value::Number(start)) => Some(Unknown { key, start: *start, range: (0.0, 0.0) }),
            _ => None,
        };
        all.filter_map(number).collect()
    }

    fn range(
        &self,
        key: &Key,
        range: &Spanned<[f64; 2]>,
        unit: Option<&Spanned<String>>,
    ) -> Result<(f64, f64), InputError> {
        if unit.is_none() && !key.unit().is_empty() {
            let (name, units) = (key.name, units(key.unit()).join(", "));
            let what = format!("the range of `{name}` needs a unit; allowed units: {units}");
            return Err(self.error(range, what));
        }
        let unit = unit.map_or("", |u| u.get_ref());
        let ends = range.get_ref().map(|end| key.quantity(end, unit));
        match ends {
            [Ok(Value::Number(low)), Ok(Value::Number(high))] if low < high => Ok((low, high)),
            [Err(e), _] | [_, Err(e)] => Err(self.error(range, e.to_string())),
            _ => Err(self.error(range, "a range is [low, high]")),
        }
    }

    fn row(&mut self, entry: Spanned<RowEntry>) -> Result<Row, InputError> {
        let place = self.place(&entry);
        let entry = entry.into_inner();
        let run = self.run(&entry.scenario, &entry.set)?;
        let metric = self.metric(&entry.metric)?;
        let unit = entry.unit.as_ref().map(|u| u.get_ref().as_str());
        let at = entry.unit.as_ref().map_or(self.place(&entry.value), |u| self.place(u));
        let size = metric.size_of(unit).map_err(|what| InputError::new(at, what))?;
        let given = *entry.value.get_ref();
        if !given.is_finite() {
            return Err(self.error(&entry.value, "the value is no number"));
        }
        let spread = self.spread(entry.spread.as_ref(), given)?.map(|s| s * size);
        if entry.source.get_ref().trim().is_empty() {
            return Err(self.error(&entry.source, "the source says nothing"));
        }
        let role = self.role(entry.role.as_ref())?;
        let (value, source) = (given * size, entry.source.into_inner());
        Ok(Row { place, role, run, metric, value, spread, source })
    }

    /// Returns a spread in the unit of its value.
    fn spread(
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

    /// Returns the role of a measured row. No other claim is judged by its error.
    fn role(&self, role: Option<&Spanned<Role>>) -> Result<Role, InputError> {
        match role.map(|r| (r, *r.get_ref())) {
            None => Ok(Role::default()),
            Some((_, role @ (Role::Fit | Role::Predicted))) => Ok(role),
            Some((at, other)) => {
                let name = other.name();
                let what = format!("a measured row cannot be `{name}`; allowed: fit, predicted");
                Err(self.error(at, what))
            }
        }
    }

    fn metric(&self, name: &Spanned<String>) -> Result<Sum, InputError> {
        self.profile.system.sum(name.get_ref()).map_err(|what| self.error(name, what))
    }

    /// Returns the index of the run of a scenario with these settings, which is a new one unless it
    /// is there already.
    fn run(
        &mut self,
        scenario: &Spanned<String>,
        set: &[Spanned<String>],
    ) -> Result<usize, InputError> {
        let place = self.place(scenario);
        let scenario = self.scenario(&place, scenario.get_ref())?;
        let plan = scenario.plan_on(&self.profile);
        let mut plan = plan.map_err(|e| InputError::new(&*place, e.what))?;
        let settings: Vec<Setting> =
            set.iter().map(|s| Setting::at(self.place(s), s.get_ref())).collect();
        plan.layer(&settings)?;
        let is_set = |name: &str| {
            let by_row = |s: &Setting| s.text.split('=').next().is_some_and(|k| k.trim() == name);
            scenario.settings.iter().any(|(k, _)| k.name == name) || settings.iter().any(by_row)
        };
        let idle = |key: &'static Key| plan.values.idle(key).is_some();
        let unknowns = self.unknowns.iter().map(|u| !is_set(u.key.name));
        let others = self.others.iter().map(|u| !is_set(u.key.name) && !idle(u.key));
        let free: Vec<bool> = unknowns.chain(others).collect();
        let same = |r: &Run| r.plan.values == plan.values && r.free == free;
        if let Some(at) = self.runs.iter().position(same) {
            return Ok(at);
        }
        self.runs.push(Run { plan, free, frames: None });
        Ok(self.runs.len() - 1)
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

    /// Checks that there is something to solve for, and to solve it by.
    fn complete(&self, rows: &[Row]) -> Result<(), InputError> {
        let lacks = |what: &str| Err(InputError::new(self.file, what));
        if self.unknowns.is_empty() {
            return lacks("no constant to solve for: `[[constant]]` with `key = \"…\"` is missing");
        }
        if !rows.iter().any(|r| r.role == Role::Fit) {
            return lacks("no row to fit: `[[row]]` or `[[counters]]` with role `fit` is missing");
        }
        let told = rows.iter().find(|r| r.spread.is_some());
        match (told, rows.iter().find(|r| r.spread.is_none())) {
            (Some(with), Some(without)) => Err(InputError::new(
                &*without.place,
                format!("it has no spread, but that at {} has one; give all, or none", with.place),
            )),
            _ => Ok(()),
        }
    }

    /// Checks that rows of the same number of the same run agree.
    fn consistent(&self, rows: &[Row]) -> Result<(), InputError> {
        for (i, b) in rows.iter().enumerate() {
            for a in rows[..i].iter().filter(|a| a.run == b.run && a.metric == b.metric) {
                let (Some(sa), Some(sb)) = (a.spread, b.spread) else { continue };
                let spreads = (a.value - b.value).abs() / libm::hypot(sa, sb);
                if spreads > BEYOND {
                    let (name, at) = (&b.metric.name, &a.place);
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

/// Returns the error at `place`, unless it has one in another file.
fn placed(e: InputError, place: &str) -> InputError {
    if e.place.is_empty() { InputError::new(place, e.what) } else { e }
}

#[cfg(test)]
mod tests;
