//! `doorbell sweep`: one scenario over all combinations of some keys' values.
//!
//! Each combination of the `--over` keys is a row. With `--across` one more key's
//! values stand side by side in a row; two of them also with their difference. What
//! is shown is any number of a run's result, or a sum of such.

use crate::args::{Sweep, SweepFormat};
use crate::output::print;
use crate::progress::Progress;
use crate::text::amount;
use crate::{DONE, Error, MISSED, plan};
use doorbell_lab::nearest;
use doorbell_lab::result::{Measured, rounded};
use serde_json::{Map, Value, json};

/// A key and the values that it takes.
struct Axis {
    key: String,
    values: Vec<String>,
}

impl Axis {
    fn parse(text: &str) -> Result<Axis, Error> {
        let wrong = || Error::input(format!("`{text}`: expected key=value,value,… such as pcie.mps=128,256"));
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(Axis { key: key.trim().to_owned(), values })
    }

    /// The key without its table, for a column's head.
    fn short(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(&self.key)
    }
}

/// What is shown of a run: the sum of these.
struct Shown<'a> {
    text: &'a str,
    names: Vec<&'a str>,
}

impl Shown<'_> {
    fn of(&self, m: &Measured) -> Result<f64, Error> {
        let numbers = numbers(m);
        let mut sum = 0.0;
        for name in &self.names {
            let Some((_, value)) = numbers.iter().find(|(n, _)| n == name) else {
                let all = numbers.iter().map(|(n, _)| n.as_str());
                let hint = nearest(name, all).map_or(String::new(), |n| format!("; the nearest is `{n}`"));
                return Err(Error::input(format!("--show {}: a run has no number `{name}`{hint}", self.text)));
            };
            sum += value;
        }
        Ok(rounded(sum))
    }
}

/// All numbers of a run, as `run --format json` names them; those of a packet by their bare names.
fn numbers(m: &Measured) -> Vec<(String, f64)> {
    let rates = m.rates.iter().map(|r| (r.name.to_owned(), rounded(r.value)));
    let latencies = m.latency_ns().into_iter().map(|(n, v)| (format!("latency_ns.{n}"), v));
    m.per_packet().into_iter().chain(rates).chain(latencies).collect()
}

/// Every combination, the last axis fastest.
fn combinations(axes: &[Axis]) -> Vec<Vec<&str>> {
    let mut all = vec![Vec::new()];
    for axis in axes {
        all = all.iter().flat_map(|c| axis.values.iter().map(|v| [c.as_slice(), &[v.as_str()]].concat())).collect();
    }
    all
}

pub(crate) fn sweep(args: &Sweep) -> Result<u8, Error> {
    let over = args.over.iter().map(|t| Axis::parse(t)).collect::<Result<Vec<_>, _>>()?;
    let across = args.across.as_deref().map(Axis::parse).transpose()?;
    let shown: Vec<Shown<'_>> =
        args.show.iter().map(|text| Shown { text, names: text.split('+').map(str::trim).collect() }).collect();
    let rows = combinations(&over);
    let columns = across.as_ref().map_or(vec![None], |a| a.values.iter().map(|v| Some((&a.key, v))).collect());
    let (mut done, total) = (0, (rows.len() * columns.len()) as u64);

    // All plans first: a wrong value in the last combination is known before the first has run.
    let mut plans = Vec::new();
    for row in &rows {
        for column in &columns {
            let mut sets: Vec<String> = over.iter().zip(row).map(|(a, v)| format!("{}={v}", a.key)).collect();
            sets.extend(column.iter().map(|(k, v)| format!("{k}={v}")));
            plans.push(plan::plan(&args.scenario, &args.changes, &sets)?);
        }
    }
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

    let cells =
        |row: usize, s: usize| -> Vec<f64> { (0..columns.len()).map(|c| table[row * columns.len() + c][s]).collect() };
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
                                None => json!(cells(i, s)[0]),
                                Some(a) => {
                                    a.values.iter().cloned().zip(cells(i, s).into_iter().map(|x| json!(x))).collect()
                                }
                            };
                            (what.text.to_owned(), value)
                        })
                        .collect();
                    json!({ "keys": keys, "values": values })
                })
                .collect();
            let all = json!({ "scenario": args.scenario, "rows": rows });
            serde_json::to_string_pretty(&all).unwrap_or_else(|e| unreachable!("plain numbers serialise: {e}")) + "\n"
        }
        SweepFormat::Table | SweepFormat::Markdown => {
            let mut heads: Vec<String> = over.iter().map(|a| a.short().to_owned()).collect();
            for what in &shown {
                match &across {
                    None => heads.push(what.text.to_owned()),
                    Some(a) => {
                        let label = |v: &str| {
                            if shown.len() == 1 { format!("{} {v}", a.short()) } else { format!("{} {v}", what.text) }
                        };
                        heads.extend(a.values.iter().map(|v| label(v)));
                        if a.values.len() == 2 {
                            heads.push("difference".to_owned());
                        }
                    }
                }
            }
            let lines = rows.iter().enumerate().map(|(i, row)| {
                let mut line: Vec<String> = row.iter().map(|v| (*v).to_owned()).collect();
                for s in 0..shown.len() {
                    let values = cells(i, s);
                    line.extend(values.iter().map(|x| amount(*x)));
                    if let ([a, b], Some(_)) = (values.as_slice(), &across) {
                        line.push(amount(rounded(a - b)));
                    }
                }
                line
            });
            render(&heads, over.len(), lines.collect(), args.format == SweepFormat::Markdown)
        }
    };
    print(&text)?;
    Ok(if sound { DONE } else { MISSED })
}

/// Columns as wide as they need to be; keys to the left, numbers to the right.
fn render(heads: &[String], keys: usize, rows: Vec<Vec<String>>, markdown: bool) -> String {
    let cells = |i: usize| rows.iter().map(move |r| r[i].chars().count());
    let widths: Vec<usize> =
        heads.iter().enumerate().map(|(i, h)| cells(i).chain([h.chars().count()]).max().unwrap_or(0)).collect();
    let line = |cells: &[String]| -> String {
        let aligned = cells.iter().zip(&widths).enumerate();
        let cells: Vec<String> =
            aligned.map(|(i, (c, w))| if i < keys { format!("{c:<w$}") } else { format!("{c:>w$}") }).collect();
        if markdown { format!("| {} |\n", cells.join(" | ")) } else { format!(" {}\n", cells.join("  ").trim_end()) }
    };
    let mut text = line(heads);
    if markdown {
        let rule =
            widths.iter().enumerate().map(|(i, w)| if i < keys { "-".repeat(*w) } else { "-".repeat(w - 1) + ":" });
        text += &format!("| {} |\n", rule.collect::<Vec<_>>().join(" | "));
    } else {
        text += &format!(" {}\n", "─".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1)));
    }
    rows.iter().for_each(|r| text += &line(r));
    text
}
