//! `perf stat`: a table for people, lines with a separator (`-x`), or lines of JSON (`-j`), of one
//! run, the mean of several (`-r`), or intervals (`-I`), which are added up.

use super::{Kind, Misfit, Reading, Readings};
use serde_json::{Map, Value};

/// Beginnings of a value that was not counted.
const ABSENT: [&str; 2] = ["<not counted>", "<not supported>"];

/// The hint for counts of a part of a machine.
const PARTS: &str = "perf stat without -A and --per-* counts the whole";

/// A check that a file has intervals or none; a summary behind them would count everything twice.
#[derive(Default)]
struct Intervals(Option<bool>);

impl Intervals {
    fn take(&mut self, at: usize, interval: bool) -> Result<(), Misfit> {
        if *self.0.get_or_insert(interval) == interval {
            return Ok(());
        }
        let what = "intervals and a summary are in one file, which count the same; keep one";
        Err(Misfit::at(at + 1, what))
    }
}

pub(super) fn read(text: &str) -> Result<Readings, Misfit> {
    let mut all = Readings::default();
    let mut intervals = Intervals::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some((seconds, _)) = line.split_once(" seconds time elapsed") {
            let mean = seconds.split("+-").next().unwrap_or(seconds);
            all.seconds = Some(number(at, mean.trim())?);
            continue;
        }
        // What follows is computed from counters, or tells how long each was running.
        let counted = line.split(" #").next().unwrap_or(line).split("  (").next().unwrap_or(line);
        let (stamp, counted) = match counted.split_once(' ').map(|(t, c)| (t, c.trim_start())) {
            Some((stamp, rest)) if is_value(stamp) && is_value(rest) => (Some(stamp), rest),
            Some((stamp, rest)) if is_value(stamp) && is_part(rest) => {
                return Err(of_part(at, rest));
            }
            _ => (None, counted),
        };
        let (value, rest) = match ABSENT.iter().find_map(|a| counted.strip_prefix(a)) {
            Some(rest) => (None, rest),
            None if is_value(counted) => {
                let (value, rest) = counted.split_once(' ').unwrap_or((counted, ""));
                (Some(value), rest)
            }
            None if is_part(counted) => return Err(of_part(at, counted)),
            None => continue,
        };
        // A unit may stand in front of the name: `1,234.56 msec task-clock`.
        let Some(name) = rest.split_whitespace().next_back() else { continue };
        if ["user", "sys"].contains(&name) && rest.trim().starts_with("seconds") {
            continue;
        }
        intervals.take(at, stamp.is_some())?;
        if let Some(stamp) = stamp {
            all.seconds = Some(number(at, stamp)?);
        }
        let value = value.map(|v| number(at, v)).transpose()?;
        let percent = line.split_once("( +-").and_then(|(_, p)| p.split_once('%'));
        let percent = percent.and_then(|(p, _)| p.trim().parse().ok());
        put(&mut all, name, value, percent);
    }
    Ok(all)
}

/// Returns whether a text begins with a count, or with a word in place of one.
fn is_value(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) || ABSENT.iter().any(|a| text.starts_with(a))
}

/// Returns whether a line begins with a part of the machine: `CPU3`, `S0`, `S0-D0-C1`, `N1`.
fn is_part(line: &str) -> bool {
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let part = ["CPU", "S", "N"].iter().find_map(|p| first.strip_prefix(p));
    part.is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit())) && is_value(rest.trim_start())
}

fn of_part(at: usize, line: &str) -> Misfit {
    let part = line.split_whitespace().next().unwrap_or(line);
    Misfit::at(at + 1, format!("the counts are of `{part}`; {PARTS}"))
}

/// Members of a line of JSON that name a part of the machine.
const PART_MEMBERS: [&str; 9] =
    ["cpu", "core", "socket", "die", "node", "cluster", "cache", "thread", "aggregate-number"];

/// Reads lines of JSON, an object for each event. An object of metrics alone is computed from
/// counters.
pub(super) fn read_json(text: &str) -> Result<Readings, Misfit> {
    let mut all = Readings::default();
    let mut intervals = Intervals::default();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let event: Map<String, Value> = serde_json::from_str(line).map_err(|e| {
            Misfit::at(at + 1, format!("it is no JSON object, one a line as of perf stat -j: {e}"))
        })?;
        if let Some(part) = PART_MEMBERS.iter().find(|part| event.contains_key(**part)) {
            return Err(Misfit::at(at + 1, format!("the counts are of a `{part}`; {PARTS}")));
        }
        let text = |member: &str| event.get(member).and_then(Value::as_str);
        let (Some(name), Some(count)) = (text("event"), event.get("counter-value")) else {
            if event.contains_key("metric-value") {
                continue;
            }
            let what = "an event has no `event` or no `counter-value`";
            return Err(Misfit::at(at + 1, what));
        };
        let stamp = event.get("interval").map(value_of);
        intervals.take(at, stamp.is_some())?;
        if let Some(stamp) = stamp {
            let wrong = || Misfit::at(at + 1, "`interval` is no number");
            all.seconds = Some(stamp.ok_or_else(wrong)?);
        }
        let absent = count.as_str().is_some_and(|s| ABSENT.contains(&s));
        let value = value_of(count);
        if value.is_none() && !absent {
            return Err(Misfit::at(at + 1, format!("`{name}` is {count}, which is no number")));
        }
        put(&mut all, name, value, event.get("variance").and_then(value_of));
    }
    Ok(all)
}

/// Returns a number, which perf writes as text.
fn value_of(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.parse().ok()?,
        _ => value.as_f64()?,
    };
    Some(number).filter(|n: &f64| n.is_finite())
}

/// Returns a number with commas between groups of three digits.
fn number(at: usize, text: &str) -> Result<f64, Misfit> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let groups: Vec<&str> = whole.split(',').collect();
    let grouped = groups[1..].iter().all(|g| g.len() == 3) && groups[0].len() <= 3;
    let plain = groups.concat();
    let is_number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    match plain.parse::<f64>() {
        Ok(_) if (grouped || groups.len() == 1) && is_number(&plain) && is_number(fraction) => {
            Ok(format!("{plain}.{fraction}").parse().unwrap_or_default())
        }
        _ => Err(Misfit::at(
            at + 1,
            format!("`{text}` is no number of the C locale; run perf with LC_ALL=C"),
        )),
    }
}

/// Adds a counter. Those of the same name, one for each part of a machine, are added up.
fn put(all: &mut Readings, name: &str, value: Option<f64>, percent: Option<f64>) {
    let spread = percent.zip(value).map(|(p, v): (f64, f64)| p / 100.0 * v);
    let new = Reading { value, kind: Kind::Total, spread };
    let old = all.counters.entry(name.to_owned());
    old.and_modify(|old| {
        old.value = old.value.zip(value).map(|(a, b)| a + b);
        old.spread = old.spread.zip(spread).map(|(a, b)| libm::hypot(a, b));
    })
    .or_insert(new);
}

/// Reads lines of value, unit, name, spread with `-r`, running time and share, and metrics; behind
/// a time with `-I`.
pub(super) fn read_csv(text: &str) -> Result<Readings, Misfit> {
    let mut all = Readings::default();
    let mut intervals = Intervals::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let absent = ABSENT.iter().find(|a| line.starts_with(**a));
        let digits = line.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(line.len());
        let (first, rest) = line.split_at(absent.map_or(digits, |a| a.len()));
        let Some(separator) = rest.chars().next() else { continue };
        let fields: Vec<&str> = rest.split(separator).skip(1).collect();
        // A line of metrics alone begins with separators.
        if first.is_empty() && line.starts_with(separator) && fields.len() > 2 {
            continue;
        }
        let second = fields.first().copied().unwrap_or_default();
        let interval = absent.is_none() && !first.is_empty() && is_value(second);
        let (value, fields) = if interval { (second, &fields[1..]) } else { (first, &fields[..]) };
        // An interval's line of metrics alone.
        if fields.len() > 2 && fields[..2].iter().all(|f| f.is_empty()) && second.is_empty() {
            continue;
        }
        let ([_, name, ..], false) = (fields, value.is_empty()) else {
            return Err(misfit(at, line));
        };
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(misfit(at, line));
        }
        intervals.take(at, interval)?;
        if interval {
            all.seconds = Some(first.parse().map_err(|_| misfit(at, line))?);
        }
        let percent = fields.get(2).and_then(|p| p.strip_suffix('%')).and_then(|p| p.parse().ok());
        let absent = ABSENT.iter().any(|a| value.starts_with(a));
        let value = if absent { None } else { Some(value.parse().map_err(|_| misfit(at, line))?) };
        put(&mut all, name, value, percent);
    }
    Ok(all)
}

fn misfit(at: usize, line: &str) -> Misfit {
    let what = "is no line of value, unit and event; perf stat -x without -A and --per-* has one \
                for each event";
    Misfit::at(at + 1, format!("`{}` {what}", line.chars().take(40).collect::<String>()))
}
