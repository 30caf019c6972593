//! `perf stat`: a table for people, or lines with a separator (`-x`), of one run or the mean of
//! several (`-r`).

use super::{Kind, Misfit, Reading, Readings};

/// Beginnings of a value that was not counted.
const ABSENT: [&str; 2] = ["<not counted>", "<not supported>"];

pub(super) fn read(text: &str) -> Result<Readings, Misfit> {
    let mut all = Readings::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some((seconds, _)) = line.split_once(" seconds time elapsed") {
            let mean = seconds.split("+-").next().unwrap_or(seconds);
            all.seconds = Some(number(at, mean.trim())?);
            continue;
        }
        // What follows is computed from counters, or tells how long each was running.
        let counted = line.split(" #").next().unwrap_or(line).split("  (").next().unwrap_or(line);
        let (value, rest) = match ABSENT.iter().find_map(|a| counted.strip_prefix(a)) {
            Some(rest) => (None, rest),
            None if counted.starts_with(|c: char| c.is_ascii_digit()) => {
                let (value, rest) = counted.split_once(' ').unwrap_or((counted, ""));
                (Some(value), rest)
            }
            None => continue,
        };
        // A unit may stand in front of the name: `1,234.56 msec task-clock`.
        let Some(name) = rest.split_whitespace().next_back() else { continue };
        if ["user", "sys"].contains(&name) && rest.trim().starts_with("seconds") {
            continue;
        }
        let value = value.map(|v| number(at, v)).transpose()?;
        let percent = line.split_once("( +-").and_then(|(_, p)| p.split_once('%'));
        let percent = percent.and_then(|(p, _)| p.trim().parse().ok());
        put(&mut all, name, value, percent);
    }
    Ok(all)
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

/// Reads lines of value, unit, name, spread with `-r`, running time and share, and metrics.
pub(super) fn read_csv(text: &str) -> Result<Readings, Misfit> {
    let mut all = Readings::default();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let absent = ABSENT.iter().find(|a| line.starts_with(**a));
        let digits = line.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(line.len());
        let (value, rest) = line.split_at(absent.map_or(digits, |a| a.len()));
        let Some(separator) = rest.chars().next() else { continue };
        let fields: Vec<&str> = rest.split(separator).collect();
        // A line of metrics alone begins with separators.
        if value.is_empty() && line.starts_with(separator) && fields.len() > 3 {
            continue;
        }
        let ([_, _, name, ..], false) = (&fields[..], value.is_empty()) else {
            return Err(misfit(at, line));
        };
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(misfit(at, line));
        }
        let percent = fields.get(3).and_then(|p| p.strip_suffix('%')).and_then(|p| p.parse().ok());
        put(&mut all, name, value.parse().ok(), percent);
    }
    Ok(all)
}

fn misfit(at: usize, line: &str) -> Misfit {
    let what = "is no line of value, unit and event; perf stat -x without -I, -A and --per-* has \
                one for each event";
    Misfit::at(at + 1, format!("`{}` {what}", line.chars().take(40).collect::<String>()))
}
