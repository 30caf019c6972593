//! Budget files: a subject (`scenario` or `device`), settings, and under `[budget]` numbers of a
//! result with their bounds, such as `maps = 2` or `"ledger.hcalls" = { exact = 0 }`.
//! A dotted key may also be a table (`[budget.ledger]`); names joined by `+` are a sum.
//! `doorbell new budget` writes one. `--update` changes the numbers in place and keeps comments.

use crate::paths::named_beside;
use doorbell_host_io::files;
use doorbell_spec::error::line_at;
use doorbell_spec::readings::ungrouped;
use doorbell_spec::{InputError, hint};
use doorbell_systems::Registry;
use doorbell_systems::result::rounded;
use doorbell_systems::{Plan, Scenario, Setting};
use indexmap::IndexSet;
use std::{ops::Range, path::Path};
use toml_edit::{Document, Item, TableLike, Value};

/// Groups of numbers in a result.
pub const GROUPS: [&str; 8] = [
    "per_packet",
    "ledger",
    "rates",
    "limits",
    "latency_ns",
    "device_counters",
    "instructions",
    "functions",
];

/// Keys at the head of a budget, with descriptions.
pub const HEADS: [(&str, &str); 9] = [
    ("about", "One line"),
    ("scenario", "The scenario to run: a name, or a .toml file beside this one"),
    ("device", "Or the device, served or in a guest, whose report is checked"),
    ("profile", "Instead of the scenario's own: a name, or a .toml file beside this one"),
    ("bus", "The bus by whose rules the served device was counted"),
    ("seed", "As --seed"),
    ("set", "As --set; later ones win"),
    ("budget", "Numbers of the result, with their bounds; of a guest, in each of its workloads"),
    ("workload", "Of a device in a guest, tables named by a workload, with numbers of it alone"),
];

/// The forms of a bound, with descriptions. A number alone is the first.
pub const FORMS: [(&str, &str); 3] =
    [("max", "At the most"), ("min", "At least"), ("exact", "This and no other, on nine digits")];

/// The allowed values of a number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bounds {
    /// One value.
    Exactly(f64),
    /// At least `min` and at most `max`; one of the two is there.
    Between {
        /// The floor.
        min: Option<f64>,
        /// The ceiling.
        max: Option<f64>,
    },
}

/// A line of a budget: a number of a result, and its bounds.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// `pcie_read_bytes`; a sum has more names after it, with `+` between.
    pub name: String,
    /// The group that an older version wanted before it.
    pub old: Option<&'static str>,
    /// Its line in the file.
    pub at: usize,
    /// The workload that it is about, of a guest; by default, all.
    pub workload: Option<String>,
    /// Keys that lead to it, from the file's own.
    pub path: Vec<String>,
    /// The allowed values.
    pub bounds: Bounds,
}

/// The subject of a budget.
#[derive(Clone, PartialEq, Debug)]
pub enum Subject {
    /// A run of a scenario.
    Scenario {
        /// The scenario.
        scenario: Box<Scenario>,
        /// The profile in place of its own, with its line.
        profile: Option<(String, usize)>,
        /// Settings on top, with their lines.
        set: Vec<(String, usize)>,
    },
    /// A device, served or in a guest.
    Device {
        /// Its name.
        device: String,
        /// The bus by whose rules it is counted, in words.
        bus: Option<&'static str>,
    },
}

/// A budget file.
#[derive(Debug)]
pub struct Budget {
    /// The systems that scenarios are of.
    pub registry: &'static Registry,
    /// The file, as named in messages.
    pub file: String,
    text: String,
    /// The subject.
    pub of: Subject,
    /// The lines of `[budget]`, in order.
    pub lines: Vec<Line>,
}

/// The devices that can be served, and the buses by whose rules they are counted.
#[derive(Clone, Copy)]
pub struct Served<'a> {
    /// Fails unless there is a device of this name.
    pub device: &'a dyn Fn(&str) -> Result<(), String>,
    /// Returns the description of the bus of this name.
    pub bus: fn(&str) -> Result<&'static str, String>,
}

/// The text being read, for messages with line numbers.
struct Reader<'t> {
    file: &'t str,
    text: &'t str,
}

impl Reader<'_> {
    fn line(&self, at: Option<Range<usize>>) -> usize {
        line_at(self.text, at.map_or(0, |r| r.start))
    }
    fn error(&self, line: usize, what: impl Into<String>) -> InputError {
        InputError::new(format!("{}:{line}", self.file), what)
    }
    fn key_line(&self, table: &dyn TableLike, key: &str) -> usize {
        self.line(table.key(key).and_then(|k| k.span()))
    }
}

impl Budget {
    /// Reads the file at this path.
    ///
    /// # Errors
    /// Returns the error with file and line.
    pub fn read(
        registry: &'static Registry,
        served: &Served<'_>,
        file: &str,
    ) -> Result<Budget, InputError> {
        let text = files::text(Path::new(file));
        Budget::parse(
            registry,
            served,
            file,
            text.map_err(|e| InputError::new(file, e.to_string()))?,
        )
    }

    /// Parses a budget. `file` is its path, for messages and for paths in it.
    ///
    /// # Errors
    /// Returns the error with file and line.
    pub fn parse(
        registry: &'static Registry,
        served: &Served<'_>,
        file: &str,
        text: String,
    ) -> Result<Budget, InputError> {
        let heads = HEADS.map(|(name, _)| name);
        let r = Reader { file, text: &text };
        let d =
            Document::parse(text.as_str()).map_err(|e| r.error(r.line(e.span()), e.message()))?;
        for (name, _) in d.iter() {
            if !heads.contains(&name) {
                let near = hint(name, heads.into_iter());
                let what =
                    format!("`{name}` is not allowed here{near}; allowed: {}", heads.join(", "));
                return Err(r.error(r.key_line(d.as_table(), name), what));
            }
        }
        let head = |name: &str| -> Result<Option<(String, usize)>, InputError> {
            let Some(item) = d.get(name) else { return Ok(None) };
            let line = r.key_line(d.as_table(), name);
            match item.as_str() {
                Some(s) if !s.trim().is_empty() => Ok(Some((s.to_owned(), line))),
                _ => Err(r.error(line, format!("`{name}` must be a string that is not empty"))),
            }
        };
        head("about")?;
        let not_with = |names: &[&str], with: &str| match names.iter().find(|n| d.contains_key(n)) {
            Some(n) => Err(
                r.error(r.key_line(d.as_table(), n), format!("`{n}` cannot stand beside `{with}`"))
            ),
            None => Ok(()),
        };
        let of = match (head("scenario")?, head("device")?) {
            (Some((given, line)), None) => {
                not_with(&["bus", "workload"], "scenario")?;
                let scenario = registry
                    .scenario(&named_beside(file, &given))
                    .map_err(|e| if e.place.is_empty() { r.error(line, e.what) } else { e })?;
                let profile =
                    head("profile")?.map(|(name, line)| (named_beside(file, &name), line));
                let set = settings(&r, d.as_table())?;
                Subject::Scenario { scenario: Box::new(scenario), profile, set }
            }
            (None, Some((device, line))) => {
                not_with(&["profile", "seed", "set"], "device")?;
                (served.device)(&device).map_err(|e| r.error(line, e))?;
                let bus = head("bus")?
                    .map(|(bus, line)| (served.bus)(&bus).map_err(|e| r.error(line, e)));
                Subject::Device { device, bus: bus.transpose()? }
            }
            _ => {
                let what = "either `scenario = \"…\"` or `device = \"…\"` must name the subject";
                return Err(InputError::new(file, what));
            }
        };
        let lines = lines(&r, &d)?;
        Ok(Budget { registry, file: file.to_owned(), of, lines, text })
    }

    /// Returns whether it is about a run of a scenario.
    pub fn is_of_a_run(&self) -> bool {
        matches!(self.of, Subject::Scenario { .. })
    }

    /// Returns the scenario with the budget's profile and settings.
    pub fn plan(&self) -> Result<Plan, InputError> {
        let Subject::Scenario { scenario, profile, set } = &self.of else {
            return Err(InputError::new(&*self.file, "it is about no scenario"));
        };
        let here = |line: usize| {
            move |what: String| InputError::new(format!("{}:{line}", self.file), what)
        };
        let mut plan = match profile {
            None => scenario.plan(self.registry)?,
            Some((name, line)) => {
                let plan = self.registry.profile(name).and_then(|p| scenario.plan_on(&p));
                let is_ours = |e: &InputError| e.place.is_empty() || e.place == scenario.file;
                plan.map_err(|e| if is_ours(&e) { here(*line)(e.what) } else { e })?
            }
        };
        let set: Vec<Setting> =
            set.iter().map(|(text, n)| Setting::at(format!("{}:{n}", self.file), text)).collect();
        plan.layer(&set)?;
        Ok(plan)
    }

    /// Returns the workloads that have numbers of their own, in their order.
    pub fn workloads(&self) -> Vec<&str> {
        let names = self.lines.iter().filter_map(|line| line.workload.as_deref());
        names.collect::<IndexSet<_>>().into_iter().collect()
    }

    /// Returns its text with the measured numbers in place of the allowed ones: the lowest and the
    /// highest for each line. Floors and ceilings get `room`, a share of the number.
    pub fn updated(&self, measured: &[[f64; 2]], room: f64) -> String {
        let Ok(d) = Document::parse(self.text.as_str()) else {
            unreachable!("the text of a budget was parsed")
        };
        let mut d = d.into_mut();
        let mut put = |path: &[String], v: f64| {
            let (root, path) = path.split_first().map_or(("", path), |(r, path)| (&**r, path));
            let mut item = d.get_mut(root);
            for key in path {
                item = item.and_then(|i| i.as_table_like_mut()).and_then(|t| t.get_mut(key));
            }
            // Not the table that a bound stands in.
            if let Some(old) =
                item.and_then(Item::as_value_mut).filter(|v| v.is_integer() || v.is_float())
            {
                let mut new = number(rounded(v));
                *new.decor_mut() = old.decor().clone();
                *old = new;
            }
        };
        for (line, &[low, high]) in self.lines.iter().zip(measured) {
            let slack = |m: f64| m.abs() * room;
            let part = |name: &str| [&line.path[..], &[name.to_owned()]].concat();
            match line.bounds {
                Bounds::Exactly(_) => put(&part("exact"), high),
                Bounds::Between { min, max } => {
                    if min.is_some() {
                        put(&part("min"), low - slack(low));
                    }
                    if max.is_some() {
                        // A ceiling is a table's, or stands alone.
                        put(&part("max"), high + slack(high));
                        put(&line.path, high + slack(high));
                    }
                }
            }
        }
        d.to_string()
    }
}

/// Returns a TOML number, without a point if it is whole.
fn number(v: f64) -> Value {
    if v.fract() == 0.0 && v.abs() < 9e15 { Value::from(v as i64) } else { Value::from(v) }
}

fn as_number(item: &Item) -> Option<f64> {
    item.as_integer().map(|n| n as f64).or(item.as_float()).filter(|n| n.is_finite())
}

/// Returns `seed` and each `key=value` of `[set]`, with their lines.
fn settings(r: &Reader<'_>, root: &dyn TableLike) -> Result<Vec<(String, usize)>, InputError> {
    let mut all = Vec::new();
    if let Some(seed) = root.get("seed") {
        let line = r.key_line(root, "seed");
        match seed.as_integer() {
            Some(n) if n >= 0 => all.push((format!("run.seed={n}"), line)),
            _ => return Err(r.error(line, "`seed` must be a whole number")),
        }
    }
    let Some(set) = root.get("set") else { return Ok(all) };
    let Some(table) = set.as_table_like() else {
        return Err(r.error(r.key_line(root, "set"), "`set` must be a table of keys and values"));
    };
    let mut found = Vec::new();
    flatten(r, table, "", &mut found)?;
    // Settings apply in the order of the file.
    found.sort_by_key(|&(_, line)| line);
    all.extend(found);
    Ok(all)
}

fn flatten(
    r: &Reader<'_>,
    t: &dyn TableLike,
    before: &str,
    to: &mut Vec<(String, usize)>,
) -> Result<(), InputError> {
    for (key, item) in t.iter() {
        let name = if before.is_empty() { key.to_owned() } else { format!("{before}.{key}") };
        let line = r.key_line(t, key);
        let value = match item {
            Item::Value(Value::String(s)) => s.value().clone(),
            Item::Value(Value::Boolean(b)) => if *b.value() { "on" } else { "off" }.to_owned(),
            _ => match (item.as_table_like(), as_number(item)) {
                (Some(inner), _) => {
                    flatten(r, inner, &name, to)?;
                    continue;
                }
                (None, Some(n)) => n.to_string(),
                (None, None) => {
                    return Err(r.error(line, format!("`{name}` cannot be a {}", item.type_name())));
                }
            },
        };
        to.push((format!("{name}={value}"), line));
    }
    Ok(())
}

/// Returns the lines of `[budget]` and of each `[workload.NAME]`, in order.
fn lines(r: &Reader<'_>, d: &Document<&str>) -> Result<Vec<Line>, InputError> {
    let nothing = || {
        let what = "`[budget]` must name a number, such as pcie_read_bytes = 128";
        InputError::new(r.file, what)
    };
    let mut all = Vec::new();
    if let Some(budget) = d.get("budget") {
        section(r, budget.as_table_like().ok_or_else(nothing)?, None, &mut all)?;
    }
    if let Some(workloads) = d.get("workload") {
        let named = |line: usize| {
            let what = "a workload has a table of numbers, such as [workload.pktgen]";
            r.error(line, what)
        };
        let here = r.key_line(d.as_table(), "workload");
        let workloads = workloads.as_table_like().ok_or_else(|| named(here))?;
        for (name, item) in workloads.iter() {
            let table = item.as_table_like().ok_or_else(|| named(r.key_line(workloads, name)))?;
            section(r, table, Some(name), &mut all)?;
        }
    }
    if all.is_empty() {
        return Err(nothing());
    }
    all.sort_by_key(|l| l.at);
    let again = |l: &Line, m: &Line| m.name == l.name && m.workload == l.workload && m.at < l.at;
    if let Some(w) = all.iter().find(|l| all.iter().any(|m| again(l, m))) {
        return Err(r.error(w.at, format!("`{}` is there twice", w.name)));
    }
    Ok(all)
}

/// Adds the lines of a table.
fn section(
    r: &Reader<'_>,
    table: &dyn TableLike,
    workload: Option<&str>,
    to: &mut Vec<Line>,
) -> Result<(), InputError> {
    for (key, item) in table.iter() {
        // A group as a table: its keys are names.
        if let (true, Some(group)) = (GROUPS.contains(&key), item.as_table_like()) {
            for (name, item) in group.iter() {
                to.push(line(r, group, (Some(key), name), item, workload)?);
            }
        } else {
            to.push(line(r, table, (None, key), item, workload)?);
        }
    }
    Ok(())
}

fn line(
    r: &Reader<'_>,
    of: &dyn TableLike,
    (group, key): (Option<&str>, &str),
    item: &Item,
    workload: Option<&str>,
) -> Result<Line, InputError> {
    let forms = FORMS.map(|(name, _)| name);
    let at = r.key_line(of, key);
    let own: Vec<&str> = group.into_iter().chain([key]).collect();
    let whole = own.join(".");
    let root = workload.map_or(vec!["budget"], |name| vec!["workload", name]);
    let path = root.into_iter().chain(own).map(str::to_owned).collect();
    let workload = workload.map(str::to_owned);
    let old = ungrouped(whole.trim()).0;
    let name = whole.split('+').map(|n| ungrouped(n.trim()).1).collect::<Vec<_>>().join("+");
    let wrong = |what: String| r.error(at, format!("`{name}` {what}"));
    let form = "must be a number (a ceiling) or { max = N }, { min = N }, { min = N, max = M }, \
                { exact = N }";
    let bounds = match (as_number(item), item.as_table_like()) {
        (Some(max), _) => Bounds::Between { min: None, max: Some(max) },
        (None, None) => return Err(wrong(form.to_owned())),
        (None, Some(parts)) => {
            if let Some((odd, _)) = parts.iter().find(|(k, _)| !forms.contains(k)) {
                let near = hint(odd, forms.into_iter());
                return Err(wrong(format!("has `{odd}`{near}; allowed: {}", forms.join(", "))));
            }
            let part = |k: &str| match parts.get(k) {
                None => Ok(None),
                Some(i) => as_number(i)
                    .map(Some)
                    .ok_or_else(|| wrong(format!("has a `{k}` that is not a number"))),
            };
            match (part("exact")?, part("min")?, part("max")?) {
                (Some(n), None, None) => Bounds::Exactly(n),
                (Some(_), ..) => return Err(wrong("has `exact` beside another bound".to_owned())),
                (None, None, None) => return Err(wrong(form.to_owned())),
                (None, Some(min), Some(max)) if min > max => {
                    return Err(wrong(format!("has min {min}, which is more than max {max}")));
                }
                (None, min, max) => Bounds::Between { min, max },
            }
        }
    };
    Ok(Line { name, old, at, workload, path, bounds })
}
