//! `doorbell sweep`: one scenario over all combinations of some keys' values.
//!
//! Each combination of the `--over` keys is a row. With `--across` one more key's
//! values stand side by side in a row; two of them also with their difference, the second less the
//! first as in `compare`. What is shown is any number of a run's result, or a sum of such. People
//! get rates in the units of `run`; programs get them as they are.

use crate::args::{Sweep, SweepFormat};
use crate::chart::{self, Chart, Line, Places};
use crate::output::print;
use crate::plan::{self, Plans};
use crate::progress::Progress;
use crate::text::{amount, people, rate_name};
use crate::{DONE, Error, MISSED};
use doorbell_lab::key::Value as Set;
use doorbell_lab::result::{Measured, rounded};
use doorbell_lab::{Plan, Setting, hint};
use serde_json::{Map, Value, json};

/// A key and the values that it takes.
struct Axis {
    /// How it was given.
    option: &'static str,
    key: String,
    values: Vec<String>,
}

impl Axis {
    fn parse(option: &'static str, text: &str) -> Result<Axis, Error> {
        let wrong = || {
            Error::input(format!(
                "{option} {text}: expected key=value,value,… such as pcie.mps=128,256"
            ))
        };
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(Axis { option, key: key.trim().to_owned(), values })
    }

    fn setting(&self, value: &str) -> Setting {
        Setting::given(self.option, &format!("{}={value}", self.key))
    }

    /// The key without its table, for a column's head.
    fn short(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(&self.key)
    }
}

/// A number of a run.
#[derive(Clone)]
pub(crate) struct Number {
    name: String,
    pub(crate) value: f64,
    /// For people, in their unit.
    pub(crate) shown: f64,
    unit: &'static str,
    /// What it is of.
    of: &'static str,
}

/// All numbers of a run, as `run --format json` names them; those of a packet by their bare names.
fn numbers(m: &Measured) -> Vec<Number> {
    let rates = m.rates.iter().map(|r| {
        let (shown, unit) = people(r.name, r.value);
        // As many digits as `run` shows: more are the measured time's.
        let digits = if unit == "%" { 1e2 } else { 1e3 };
        let shown =
            if unit.is_empty() { rounded(shown) } else { (shown * digits).round() / digits };
        Number { name: r.name.to_owned(), value: rounded(r.value), shown, unit, of: "" }
    });
    let plain =
        |(name, value): (String, f64), unit, of| Number { name, value, shown: value, unit, of };
    let latencies =
        m.latency_ns().into_iter().map(|(n, v)| plain((format!("latency_ns.{n}"), v), "ns", ""));
    m.per_packet()
        .into_iter()
        .map(|n| plain(n, "", " a packet"))
        .chain(rates)
        .chain(latencies)
        .collect()
}

/// What is shown of a run: the sum of these.
pub(crate) struct Shown<'a> {
    pub(crate) text: &'a str,
    names: Vec<&'a str>,
}

impl<'a> Shown<'a> {
    pub(crate) fn parse(text: &'a str) -> Shown<'a> {
        Shown { text, names: text.split('+').map(str::trim).collect() }
    }

    /// Whether it is a latency, of a run that has none.
    pub(crate) fn is_absent(&self, m: &Measured) -> bool {
        m.latency_ns().is_empty() && self.names.iter().any(|n| n.starts_with("latency_ns."))
    }

    pub(crate) fn of(&self, m: &Measured) -> Result<Number, Error> {
        let all = numbers(m);
        let mut sum: Option<Number> = None;
        for name in &self.names {
            let Some(n) = all.iter().find(|n| n.name == *name).cloned() else {
                let hint = hint(name, all.iter().map(|n| n.name.as_str()));
                return Err(Error::input(format!(
                    "--show {}: a run has no number `{name}`{hint}",
                    self.text
                )));
            };
            sum = Some(match sum {
                None => n,
                Some(s) => Number {
                    name: String::new(),
                    value: rounded(s.value + n.value),
                    shown: rounded(s.shown + n.shown),
                    unit: if s.unit == n.unit { s.unit } else { "" },
                    of: if s.of == n.of { s.of } else { "" },
                },
            });
        }
        sum.ok_or_else(|| Error::input("--show: nothing is named".to_owned()))
    }

    /// For a head: rates by the names that `run` gives them.
    fn name(&self, n: &Number) -> String {
        if n.unit.is_empty() || n.unit == "ns" {
            self.text.to_owned()
        } else {
            rate_name(self.text)
        }
    }

    /// With its unit.
    pub(crate) fn with_unit(&self, n: &Number, what: &str) -> String {
        let space = if what.is_empty() { "" } else { " " };
        let comma = if n.unit.is_empty() { "" } else { ", " };
        format!("{}{space}{what}{comma}{}", self.name(n), n.unit)
    }
}

/// Every combination, the last axis fastest.
fn combinations(axes: &[Axis]) -> Vec<Vec<&str>> {
    let mut all = vec![Vec::new()];
    for axis in axes {
        all = all
            .iter()
            .flat_map(|c| axis.values.iter().map(|v| [c.as_slice(), &[v.as_str()]].concat()))
            .collect();
    }
    all
}

pub(crate) fn sweep(args: &Sweep) -> Result<u8, Error> {
    let over = args.over.iter().map(|t| Axis::parse("--over", t)).collect::<Result<Vec<_>, _>>()?;
    let across = args.across.as_deref().map(|t| Axis::parse("--across", t)).transpose()?;
    once(over.iter().chain(&across), &args.changes.sets)?;
    let shown: Vec<Shown<'_>> = args.show.iter().map(|text| Shown::parse(text)).collect();
    let rows = combinations(&over);
    let columns =
        across.as_ref().map_or(vec![None], |a| a.values.iter().map(|v| Some((a, v))).collect());
    if args.format == SweepFormat::Svg {
        drawable(
            shown.len(),
            rows.len() / over.last().map_or(1, |a| a.values.len()) * columns.len(),
        )?;
    }
    let (mut done, total) = (0, (rows.len() * columns.len()) as u64);

    // All plans first: a wrong value in the last combination is known before the first has run.
    let mut plans = Plans::default();
    for row in &rows {
        for column in &columns {
            let mut sets: Vec<Setting> = over.iter().zip(row).map(|(a, v)| a.setting(v)).collect();
            sets.extend(column.iter().map(|(a, v)| a.setting(v)));
            plans.add(&args.scenario, &args.changes, &sets)?;
        }
    }
    let plans = plans.finish()?;
    let progress = Progress::new(&args.scenario, args.quiet);
    let mut sound = true;
    let mut table = Vec::new();
    for plan in &plans {
        progress.at(done, total);
        let result = plan::execute(plan, true)?;
        sound &= result.measured.is_sound();
        table.push(shown.iter().map(|s| s.of(&result.measured)).collect::<Result<Vec<_>, _>>()?);
        done += 1;
    }
    drop(progress);

    let cells = |row: usize, s: usize| -> Vec<&Number> {
        (0..columns.len()).map(|c| &table[row * columns.len() + c][s]).collect()
    };
    let text = match args.format {
        SweepFormat::Json => {
            let rows: Vec<Value> = rows
                .iter()
                .enumerate()
                .map(|(i, row)| {
                    let keys: Map<String, Value> =
                        over.iter().zip(row).map(|(a, v)| (a.key.clone(), json!(v))).collect();
                    let values: Map<String, Value> = shown
                        .iter()
                        .enumerate()
                        .map(|(s, what)| {
                            let value = match &across {
                                None => json!(cells(i, s)[0].value),
                                Some(a) => a
                                    .values
                                    .iter()
                                    .cloned()
                                    .zip(cells(i, s).into_iter().map(|n| json!(n.value)))
                                    .collect(),
                            };
                            (what.text.to_owned(), value)
                        })
                        .collect();
                    json!({ "keys": keys, "values": values })
                })
                .collect();
            let all = json!({ "scenario": args.scenario, "rows": rows });
            serde_json::to_string_pretty(&all)
                .unwrap_or_else(|e| unreachable!("plain numbers serialise: {e}"))
                + "\n"
        }
        SweepFormat::Table | SweepFormat::Markdown => {
            let mut heads: Vec<String> = over.iter().map(|a| a.short().to_owned()).collect();
            for (s, what) in shown.iter().enumerate() {
                let n = cells(0, s)[0];
                match &across {
                    None => heads.push(what.with_unit(n, "")),
                    Some(a) => {
                        let label = |v: &str| {
                            if shown.len() == 1 {
                                format!("{} {v}", a.short())
                            } else {
                                what.with_unit(n, v)
                            }
                        };
                        heads.extend(a.values.iter().map(|v| label(v)));
                        if let [first, second] = &a.values[..] {
                            heads.push(format!("{second} - {first}"));
                        }
                    }
                }
            }
            let lines = rows.iter().enumerate().map(|(i, row)| {
                let mut line: Vec<String> = row.iter().map(|v| (*v).to_owned()).collect();
                for s in 0..shown.len() {
                    let values = cells(i, s);
                    line.extend(values.iter().map(|n| amount(n.shown)));
                    if let ([a, b], Some(_)) = (values.as_slice(), &across) {
                        line.push(amount(rounded(b.shown - a.shown)));
                    }
                }
                line
            });
            render(&heads, over.len(), lines.collect(), args.format == SweepFormat::Markdown)
        }
        SweepFormat::Svg => {
            let n = cells(0, 0)[0];
            let y = format!("{}{}", shown[0].with_unit(n, ""), n.of);
            let lines = lines(&over, across.as_ref(), &rows, |row| {
                cells(row, 0).iter().map(|n| n.shown).collect()
            });
            picture(&plans, &args.changes.sets, &over, columns.len(), y, lines)?
        }
    };
    print(&text)?;
    Ok(if sound { DONE } else { MISSED })
}

/// A key that is set twice would have only its last value, and the table would name the others too.
fn once<'a>(axes: impl Iterator<Item = &'a Axis>, sets: &[String]) -> Result<(), Error> {
    let mut seen: Vec<&Axis> = Vec::new();
    for axis in axes {
        let key = &axis.key;
        if let Some(before) = seen.iter().find(|a| a.key == *key) {
            let what = format!("{} has it already, and a run has one value of it", before.option);
            return Err(Error::input(format!(
                "{} {key}={}: {what}",
                axis.option,
                axis.values.join(",")
            )));
        }
        if let Some(set) =
            sets.iter().find(|s| s.split_once('=').is_some_and(|(name, _)| name.trim() == key))
        {
            return Err(Error::input(format!(
                "--set {set}: {} gives every run a value of it",
                axis.option
            )));
        }
        seen.push(axis);
    }
    Ok(())
}

/// Whether a chart has room for so much.
fn drawable(shown: usize, lines: usize) -> Result<(), Error> {
    let most = chart::MOST;
    let what = match () {
        () if shown > 1 => {
            "a chart shows one number, but --show is given more than once".to_owned()
        }
        () if lines > most => {
            format!(
                "{lines} lines, but a chart has room for {most}; the last --over key is the horizontal axis"
            )
        }
        () => return Ok(()),
    };
    Err(Error::input(format!("--format svg: {what}")))
}

/// A chart's lines: one for each combination of the earlier axes and column.
fn lines(
    over: &[Axis],
    across: Option<&Axis>,
    rows: &[Vec<&str>],
    cells: impl Fn(usize) -> Vec<f64>,
) -> Vec<Line> {
    let points = over.last().map_or(1, |a| a.values.len());
    let mut lines = Vec::new();
    for first in (0..rows.len()).step_by(points) {
        let table: Vec<Vec<f64>> = (first..first + points).map(&cells).collect();
        let earlier = over
            .iter()
            .zip(&rows[first])
            .take(over.len() - 1)
            .map(|(a, v)| format!("{} {v}", a.short()));
        let earlier: Vec<String> = earlier.collect();
        for column in 0..table[0].len() {
            let across = across.map(|a| format!("{} {}", a.short(), a.values[column]));
            let label: Vec<String> = earlier.iter().cloned().chain(across).collect();
            lines.push(Line {
                label: label.join(", "),
                values: table.iter().map(|cells| cells[column]).collect(),
            });
        }
    }
    lines
}

/// The chart of a sweep.
fn picture(
    plans: &[Plan],
    sets: &[String],
    over: &[Axis],
    columns: usize,
    y: String,
    lines: Vec<Line>,
) -> Result<String, Error> {
    let (Some(axis), Some(plan)) = (over.last(), plans.first()) else {
        return Err(Error::input("--format svg: there is no --over key".to_owned()));
    };
    // The values as the system understood them: with `0.5 KiB` beside `1024`, both are bytes.
    let set =
        plans.iter().step_by(columns).take(axis.values.len()).map(|p| p.values.get(&axis.key));
    let numbers: Option<Vec<f64>> =
        set.map(|v| if let Set::Number(n) = v { Some(*n) } else { None }).collect();
    let unit = plan.values.iter().find(|(k, _)| k.name == axis.key).map_or("", |(k, _)| k.unit());
    let (places, unit) = match numbers {
        Some(n) => (Places::Numbers(n), unit),
        None => (Places::Words(axis.values.clone()), ""),
    };
    let x = if unit.is_empty() { axis.key.clone() } else { format!("{}, {unit}", axis.key) };
    // What is the same in all of it.
    let set = if sets.is_empty() { String::new() } else { format!(", {}", sets.join(", ")) };
    let title = format!("{} on {}{set}", plan.scenario, plan.profile);
    chart::svg(&Chart { title, x, y, places, lines }).map_err(|what| Error { code: MISSED, what })
}

/// Columns as wide as they need to be; keys to the left, numbers to the right.
pub(crate) fn render(
    heads: &[String],
    keys: usize,
    rows: Vec<Vec<String>>,
    markdown: bool,
) -> String {
    let cells = |i: usize| rows.iter().map(move |r| r[i].chars().count());
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(i, h)| cells(i).chain([h.chars().count()]).max().unwrap_or(0))
        .collect();
    let line = |cells: &[String]| -> String {
        let aligned = cells.iter().zip(&widths).enumerate();
        let cells: Vec<String> = aligned
            .map(|(i, (c, w))| if i < keys { format!("{c:<w$}") } else { format!("{c:>w$}") })
            .collect();
        if markdown {
            format!("| {} |\n", cells.join(" | "))
        } else {
            format!(" {}\n", cells.join("  ").trim_end())
        }
    };
    let mut text = line(heads);
    if markdown {
        let rule = widths
            .iter()
            .enumerate()
            .map(|(i, w)| if i < keys { "-".repeat(*w) } else { "-".repeat(w - 1) + ":" });
        text += &format!("| {} |\n", rule.collect::<Vec<_>>().join(" | "));
    } else {
        text +=
            &format!(" {}\n", "─".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1)));
    }
    rows.iter().for_each(|r| text += &line(r));
    text
}
