//! `doorbell sweep`: one scenario over all combinations of the values of some keys.
//!
//! Each combination of the `--over` keys is a row. The values of the `--across` key stand side by
//! side; two values also with their difference, the second minus the first. People get rates in
//! the units of `run`, programs in units of one.

use crate::args::{Shard, Sweep};
use crate::chart::{self, Chart, Line, Plot};
use crate::output::print;
use crate::plan::{self, Plans};
use crate::point::{Point, Runner};
use crate::record::{self, About, Outcome, RecordFile, setting};
use crate::render::{Cell, Document, Format, Record, Table, amount, people};
use crate::{DONE, Error, MISSED, input, range, run::overloaded};
use doorbell_systems::Registry;
use doorbell_systems::metrics::{Kind, Sum};
use doorbell_systems::result::{Numbers, rounded};
use doorbell_systems::system::System;
use doorbell_systems::{Plan, Setting, cores, on_threads};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The most runs of a sweep, whose settings are held in memory: with all else about 2 GB.
pub(crate) const MOST: usize = 100_000;
/// Lines that `--plan` makes at a time.
const LINES: usize = 1024;

/// A key and its values.
pub(crate) struct Axis {
    option: &'static str,
    pub(crate) key: String,
    pub(crate) values: Vec<String>,
}

impl Axis {
    pub(crate) fn parse(option: &'static str, text: &str) -> Result<Axis, Error> {
        let wrong =
            || input!("{option} {text}: expected key=value,value,… such as pcie.mps=128,256");
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let mut all = Vec::new();
        for v in values.split(',') {
            all.extend(range::values(v.trim()).map_err(|e| input!("{option} {text}: {e}"))?);
            if all.len() > MOST {
                return Err(input!("{option} {key}: more than {MOST} values, the most there are"));
            }
        }
        let values = all;
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(Axis { option, key: key.trim().to_owned(), values })
    }

    fn setting(&self, value: &str) -> Setting {
        Setting::given(self.option, &format!("{}={value}", self.key))
    }

    /// Returns the key without its table, for the head of a column.
    fn short(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(&self.key)
    }
}

/// A sum of numbers of a run that an option names.
pub(crate) struct Shown<'a> {
    option: &'static str,
    pub(crate) text: &'a str,
    pub(crate) sum: Sum,
}

impl<'a> Shown<'a> {
    /// Parses names of numbers with `+` between them.
    pub(crate) fn parse(
        option: &'static str,
        text: &'a str,
        system: &System,
    ) -> Result<Shown<'a>, Error> {
        let sum = system.sum(text).map_err(|what| input!("{option} {text}: {what}"))?;
        Ok(Shown { option, text, sum })
    }

    /// Refuses another system whose runs have no such number.
    pub(crate) fn known(&self, system: &System) -> Result<(), Error> {
        Shown::parse(self.option, self.text, system).map(drop)
    }

    /// Returns the name of its unit for programs, if it has one.
    pub(crate) fn unit(&self) -> Option<(String, Value)> {
        let unit = self.sum.unit().name();
        (!unit.is_empty()).then(|| (self.text.to_owned(), unit.into()))
    }

    /// Returns its value in a run, with half of its 95 % interval if the run can tell.
    pub(crate) fn of(&self, numbers: &Numbers) -> Result<(f64, Option<f64>), Error> {
        let (value, error) = self.sum.of(numbers).map_err(|name| {
            input!("{} {}: this run has no number `{name}`", self.option, self.text)
        })?;
        Ok((rounded(value), error))
    }

    /// Returns a value of it in the unit for people.
    pub(crate) fn people(&self, value: f64) -> f64 {
        if self.sum.kind() != Some(Kind::Rate) {
            return value;
        }
        let (shown, unit) = people(self.sum.unit(), value);
        // As many digits as `run` shows, and more of a low rate. Further ones depend on the time.
        let digits = match unit {
            "" => return rounded(shown),
            "%" => 1e2,
            _ if shown.abs() < 0.01 => 1e6,
            _ => 1e3,
        };
        (shown * digits).round() / digits
    }

    /// Returns its name for a column with this label, with the unit for people.
    pub(crate) fn with_unit(&self, label: &str) -> String {
        let unit = match self.sum.kind() {
            Some(Kind::Rate) => people(self.sum.unit(), 0.0).1,
            Some(Kind::Latency) => self.sum.unit().name(),
            _ => "",
        };
        let space = if label.is_empty() { "" } else { " " };
        let comma = if unit.is_empty() { "" } else { ", " };
        format!("{}{space}{label}{comma}{unit}", self.text)
    }
}

/// Returns the units of all numbers and keys that have one.
pub(crate) fn units(plan: &Plan) -> Map<String, Value> {
    let metrics = plan.system.metrics().iter();
    let numbers = metrics.map(|m| (m.name.to_owned(), m.unit.name().into()));
    let keys = plan.values.iter().map(|(k, _)| (k.name.to_owned(), k.unit().into()));
    numbers.chain(keys).filter(|(_, unit): &(String, Value)| unit != "").collect()
}

/// Returns the number of combinations of the values of all axes.
///
/// # Errors
/// They are more than [`MOST`].
fn runs<'a>(axes: impl Iterator<Item = &'a Axis>) -> Result<usize, Error> {
    let all: u128 = axes.fold(1, |all, axis| all.saturating_mul(axis.values.len() as u128));
    if all <= MOST as u128 {
        return Ok(all as usize);
    }
    Err(input!(
        "--over: the values make {all} runs, and a sweep has {MOST} at most; give a part of the \
         values to each of several"
    ))
}

/// Returns the `n`th combination of values; the last axis changes fastest.
fn combination(axes: &[Axis], mut n: usize) -> Vec<&str> {
    let mut values: Vec<&str> = Vec::with_capacity(axes.len());
    for Axis { values: all, .. } in axes.iter().rev() {
        values.push(&all[n % all.len()]);
        n /= all.len();
    }
    values.reverse();
    values
}

pub(crate) fn sweep(registry: &'static Registry, args: &Sweep) -> Result<u8, Error> {
    let over = args.over.iter().map(|t| Axis::parse("--over", t)).collect::<Result<Vec<_>, _>>()?;
    let across = args.across.as_deref().map(|t| Axis::parse("--across", t)).transpose()?;
    once(over.iter().chain(&across), &args.changes.sets)?;
    let runs = runs(over.iter().chain(&across))?;
    let columns = across.as_ref().map_or(1, |a| a.values.len());
    if args.output.format == Format::Svg {
        let lines = runs / over.last().map_or(1, |a| a.values.len());
        drawable(args.show.len(), lines, args.shard.is_some())?;
    }
    let part = part(args.shard, runs / columns)?;
    let own_runs = part.start * columns..part.end * columns;
    let mut plans = Plans::of(registry);
    let sets = |n: usize| {
        let row = combination(&over, n / columns);
        let mut sets: Vec<Setting> = over.iter().zip(row).map(|(a, v)| a.setting(v)).collect();
        sets.extend(across.iter().map(|a| a.setting(&a.values[n % columns])));
        sets
    };

    // All plans first: a wrong value in the last combination is known before the first has run.
    let (mut own, mut typed) = (Vec::new(), Columns::of(over.iter().chain(&across)));
    let mut shown: Vec<Shown<'_>> = Vec::new();
    for n in 0..runs {
        let plan = plans.plan(&args.scenario, &args.changes, &sets(n))?;
        typed.see(&plan);
        if n == 0 {
            let all = args.show.iter().map(|text| Shown::parse("--show", text, plan.system));
            shown = all.collect::<Result<_, _>>()?;
        }
        if args.plan && plan.capture() == Some("-") {
            return Err(input!("--plan: a point that runs later cannot read stdin again"));
        }
        // A plan that is printed is made again, so that no more of them are held than one part.
        if own_runs.contains(&n) && !args.plan {
            own.push(plan);
        }
    }
    plans.check()?;
    // Hashing all values takes most of the time of a plan.
    let point = |_, plan: &Plan| Point::new(plan.clone(), typed.record(plan));
    if args.plan {
        let line = |n, plan: &Plan| point(n, plan)?.line();
        for begin in own_runs.clone().step_by(LINES) {
            let runs = begin..own_runs.end.min(begin + LINES);
            let plans = runs.map(|n| plans.plan(&args.scenario, &args.changes, &sets(n)));
            let plans = plans.collect::<Result<Vec<_>, _>>()?;
            print(&on_threads(cores(), &plans, line)?.concat())?;
        }
        return Ok(DONE);
    }
    let points = on_threads(cores(), &own, point)?;
    drop(own);
    let rows: Vec<Vec<&str>> = part.map(|n| combination(&over, n)).collect();
    let rows = &rows[..];
    let plans: Vec<&Plan> = points.iter().map(|point| &point.plan).collect();
    let runner = Runner::new(&args.points, args.out.is_some(), args.output.quiet)?;
    let file = args.out.as_deref();
    // Scenarios and profiles have another extension than records.
    let read = plans[0].capture().map(Path::new);
    let file = file.map(|path| RecordFile::begin(path, read.as_slice())).transpose()?;
    let outcomes = runner.run(&args.scenario, &points)?;
    let value = |o: &Outcome, s: &Shown<'_>| s.of(&o.numbers).map(|(value, _)| value);
    let of = |o: &Arc<Outcome>| shown.iter().map(|s| value(o, s)).collect::<Result<Vec<_>, _>>();
    let numbers = outcomes.iter().map(of).collect::<Result<Vec<_>, _>>()?;
    if let Some(file) = file {
        let records = points.iter().zip(&outcomes).map(|(point, o)| point.record(o));
        let of = plan::shared(plans[0], |key| typed.is_axis(key))?;
        let about = About::new(vec![of], units(plans[0]));
        let is_text = |column: &str| record::is_text(plans[0], column);
        file.write(&records.collect::<Vec<_>>(), &about, is_text)?;
    }
    let lossy = outcomes.iter().filter(|o| o.loses_frames()).count();
    let audits: Vec<Vec<String>> = outcomes.iter().map(|o| o.audit.clone()).collect();
    let sound = audits.iter().all(Vec::is_empty);
    let (over, across, shown) = (&over[..], across.as_ref(), &shown[..]);
    let swept = Swept { over, across, shown, rows, numbers, audits, lossy };
    print(&match args.output.format {
        Format::Svg => swept.picture(&plans, &args.changes.sets)?,
        format => swept.document(&plans).show(format, "sweep", &swept.data(&plans)?),
    })?;
    overloaded(outcomes.iter().filter(|o| o.is_overloaded()).count(), outcomes.len());
    Ok(if sound { DONE } else { MISSED })
}

/// Returns the rows of a shard.
fn part(shard: Option<Shard>, rows: usize) -> Result<Range<usize>, Error> {
    let part = shard.map_or(Some(0..rows), |shard| shard.rows(rows));
    part.ok_or_else(|| input!("--shard: there are {rows} rows, so at most as many parts"))
}

/// The settings of records, each of one type in all records of a sweep: a key that has numbers in
/// some and words in others is text.
struct Columns<'a> {
    axes: BTreeSet<&'a str>,
    words: BTreeSet<String>,
}

impl<'a> Columns<'a> {
    fn of(axes: impl Iterator<Item = &'a Axis>) -> Columns<'a> {
        Columns { axes: axes.map(|a| a.key.as_str()).collect(), words: BTreeSet::new() }
    }

    fn is_axis(&self, key: &str) -> bool {
        self.axes.contains(key)
    }

    fn settings(&self, plan: &Plan) -> Record {
        let axes = plan.values.iter().filter(|(key, _)| self.is_axis(key.name));
        axes.map(|(key, value)| (key.name.to_owned(), setting(key, value))).collect()
    }

    /// Takes note of the types of a plan's settings.
    fn see(&mut self, plan: &Plan) {
        let words = self.settings(plan).into_iter().filter(|(_, value)| !value.is_number());
        self.words.extend(words.map(|(name, _)| name));
    }

    /// Returns the settings of a plan for its record, once all plans were seen.
    fn record(&self, plan: &Plan) -> Record {
        let mut all = self.settings(plan);
        for (_, value) in all.iter_mut().filter(|(name, _)| self.words.contains(*name)) {
            if value.is_number() {
                *value = value.to_string().into();
            }
        }
        all
    }
}

/// The results of a sweep: numbers of each run, in the order of rows and columns.
struct Swept<'a> {
    over: &'a [Axis],
    across: Option<&'a Axis>,
    shown: &'a [Shown<'a>],
    rows: &'a [Vec<&'a str>],
    numbers: Vec<Vec<f64>>,
    /// The checks that failed, of each run.
    audits: Vec<Vec<String>>,
    /// Runs that lose frames.
    lossy: usize,
}

/// Returns a notice of the runs that lose frames, if any do. Their latencies are those of the
/// frames that were left.
pub(crate) fn lossy_line(lossy: usize, of: usize, what: &str) -> Option<String> {
    (lossy > 0).then(|| format!("{lossy} of {of} {what} lose frames: see lost_share"))
}

impl Swept<'_> {
    /// Returns the `s`th number of a row, for each column.
    fn cells(&self, row: usize, s: usize) -> Vec<f64> {
        let columns = self.across.map_or(1, |a| a.values.len());
        (0..columns).map(|c| self.numbers[row * columns + c][s]).collect()
    }

    /// Returns the rows, the values of the keys, and the origin that all runs share.
    fn data(&self, plans: &[&Plan]) -> Result<Value, Error> {
        let axes = || self.over.iter().chain(self.across);
        let of = plan::shared(plans[0], |key| axes().any(|a| a.key == key))?;
        let columns = plans.len() / self.rows.len();
        let value = |row: usize, s: usize| match self.across {
            None => json!(self.cells(row, s)[0]),
            Some(a) => {
                let values = self.cells(row, s).into_iter().map(|n| json!(n));
                a.values.iter().cloned().zip(values).collect()
            }
        };
        let row = |i: usize| {
            let given = |a: &Axis| plans[i * columns].values.iter().find(|(k, _)| k.name == a.key);
            let keys = self.over.iter().filter_map(|a| Some((a.key.clone(), given(a)?)));
            let keys = keys.map(|(name, (key, value))| (name, setting(key, value)));
            let names = self.shown.iter().map(|what| what.text.to_owned());
            let values = names.enumerate().map(|(s, name)| (name, value(i, s)));
            let audit = self.audits[i * columns..][..columns].concat();
            let (keys, values) = (keys.collect::<Value>(), values.collect::<Value>());
            json!({ "keys": keys, "values": values, "audit": audit })
        };
        let rows: Vec<Value> = (0..self.rows.len()).map(row).collect();
        let all = units(plans[0]);
        let shown = self.shown.iter().filter_map(Shown::unit);
        let keys = axes().filter_map(|a| Some((a.key.clone(), all.get(&a.key)?.clone())));
        let units: Map<String, Value> = keys.chain(shown).collect();
        let values = |a: &Axis| (a.key.clone(), json!(a.values));
        let over: Value = self.over.iter().map(values).collect();
        let across: Value = self.across.into_iter().map(values).collect();
        Ok(json!({
            "of": of, "over": over, "across": across, "units": units, "rows": rows,
            "lose_frames": self.lossy,
        }))
    }

    fn document(&self, plans: &[&Plan]) -> Document {
        let mut doc = Document::from(self.table(plans));
        if let Some(line) = lossy_line(self.lossy, self.audits.len(), "runs") {
            doc.gap();
            doc.line(line);
        }
        doc
    }

    fn table(&self, plans: &[&Plan]) -> Table {
        let keys = self.over.len();
        let mut heads: Vec<Cell> =
            self.over.iter().map(|a| Cell::exact(a.short(), a.key.as_str())).collect();
        for what in self.shown {
            let Some(a) = self.across else {
                heads.push(Cell::exact(what.with_unit(""), what.text));
                continue;
            };
            heads.extend(a.values.iter().map(|v| {
                let exact = format!("{} {}={v}", what.text, a.key);
                match self.shown.len() {
                    1 => Cell::exact(format!("{} {v}", a.short()), exact),
                    _ => Cell::exact(what.with_unit(v), exact),
                }
            }));
            if let [first, second] = &a.values[..] {
                let difference = format!("{second} - {first}");
                let exact = format!("{} {difference}", what.text);
                heads.push(Cell::exact(difference, exact));
            }
        }
        let mut table = Table::new(heads.clone()).right(keys..heads.len());
        for (i, row) in self.rows.iter().enumerate() {
            let values = &plans[i * (plans.len() / self.rows.len())].values;
            let key = |(a, shown): (&Axis, &&str)| {
                let value = values.iter().find(|(key, _)| key.name == a.key);
                Cell::exact(*shown, value.map(|(key, v)| setting(key, v)))
            };
            let mut line: Vec<Cell> = self.over.iter().zip(row).map(key).collect();
            for (s, what) in self.shown.iter().enumerate() {
                let values = self.cells(i, s);
                line.extend(values.iter().map(|n| Cell::exact(amount(what.people(*n)), *n)));
                if let ([a, b], Some(_)) = (values.as_slice(), self.across) {
                    let difference = amount(rounded(what.people(*b) - what.people(*a)));
                    line.push(Cell::exact(difference, rounded(b - a)));
                }
            }
            table.row(line);
        }
        table
    }

    /// Returns the lines of a chart, one for each combination of the earlier axes and column, over
    /// these places on its horizontal axis.
    fn lines(&self, places: &[f64]) -> Vec<Line> {
        let points = self.over.last().map_or(1, |a| a.values.len());
        let mut lines = Vec::new();
        for (n, rows) in self.rows.chunks(points).enumerate() {
            let cells = |row: usize| self.cells(n * points + row, 0);
            let earlier = self.over.iter().zip(&rows[0]).take(self.over.len() - 1);
            let earlier: Vec<String> = earlier.map(|(a, v)| format!("{} {v}", a.short())).collect();
            for column in 0..cells(0).len() {
                let across = self.across.map(|a| format!("{} {}", a.short(), a.values[column]));
                let label: Vec<String> = earlier.iter().cloned().chain(across).collect();
                let value = |row| self.shown[0].people(cells(row)[column]);
                let points = (0..rows.len()).map(|row| (places[row], value(row))).collect();
                lines.push(Line { label: label.join(", "), points });
            }
        }
        lines
    }

    fn picture(&self, plans: &[&Plan], sets: &[String]) -> Result<String, Error> {
        let (Some(axis), Some(plan)) = (self.over.last(), plans.first()) else {
            return Err(input!("--format svg: there is no --over key"));
        };
        let columns = self.cells(0, 0).len();
        let of = if self.shown[0].sum.is_by_packet() { " a packet" } else { "" };
        let y = format!("{}{of}", self.shown[0].with_unit(""));
        // The values as the system understood them: with `0.5 KiB` beside `1024`, both are bytes.
        let values = plans.iter().step_by(columns).take(axis.values.len());
        let number = |p: &&Plan| p.values.number_or_word(&axis.key);
        let numbers: Option<Vec<f64>> = values.map(number).collect();
        let unit = plan.values.iter().find(|(k, _)| k.name == axis.key).map(|(k, _)| k.unit());
        let (places, words, unit) = match numbers {
            Some(n) => (n, Vec::new(), unit.unwrap_or_default()),
            None => ((0..axis.values.len()).map(|i| i as f64).collect(), axis.values.clone(), ""),
        };
        let x = if unit.is_empty() { axis.key.clone() } else { format!("{}, {unit}", axis.key) };
        // The settings that all points share.
        let set = if sets.is_empty() { String::new() } else { format!(", {}", sets.join(", ")) };
        let title = format!("{} on {}{set}", plan.scenario, plan.profile);
        let (lines, units) = (self.lines(&places), (unit.to_owned(), String::new()));
        let plot = Plot { words, lines, units, ..Plot::default() };
        Ok(Chart { title, x, y, plot }.svg())
    }
}

/// Refuses a key that is set twice: a run would have only its last value.
fn once<'a>(axes: impl Iterator<Item = &'a Axis>, sets: &[String]) -> Result<(), Error> {
    let mut seen: Vec<&Axis> = Vec::new();
    for axis in axes {
        let (option, key) = (axis.option, &axis.key);
        if let Some(before) = seen.iter().find(|a| a.key == *key) {
            let (values, before) = (axis.values.join(","), before.option);
            let why = format!("{before} has it already, and a run has one value of it");
            return Err(input!("{option} {key}={values}: {why}"));
        }
        let is_key = |set: &&String| set.split_once('=').is_some_and(|(k, _)| k.trim() == key);
        if let Some(set) = sets.iter().find(is_key) {
            return Err(input!("--set {set}: {option} gives every run a value of it"));
        }
        seen.push(axis);
    }
    Ok(())
}

/// Refuses a chart that has no room for so much.
fn drawable(shown: usize, lines: usize, part: bool) -> Result<(), Error> {
    if part {
        return Err(input!(
            "--format svg: a chart shows all rows, but --shard runs a part of them"
        ));
    }
    if shown > 1 {
        return Err(input!(
            "--format svg: a chart shows one number, but --show is given more than once"
        ));
    }
    if lines > chart::MOST {
        return Err(input!(
            "--format svg: {lines} lines, but a chart has room for {}; the last --over key is the \
             horizontal axis",
            chart::MOST
        ));
    }
    Ok(())
}
