//! The profile that a fit writes.

use super::measurements::Measurements;
use super::outcome::{Calibration, Solved, State};
use doorbell_spec::key::Value;
use doorbell_systems::profile::Source;
use doorbell_systems::result::significant;
use doorbell_systems::templates;

/// Returns the profile that the fit began with, under this name, with the solved values. Each cites
/// the rows that it rests on.
pub fn profile(of: &Measurements, fit: &Calibration, name: &str) -> String {
    let mut new = of.profile.clone();
    name.clone_into(&mut new.name);
    new.about = format!("{}, fitted to {}", of.profile.about, of.name);
    for (i, constant) in fit.constants.iter().enumerate() {
        let key = of.profile.values.find(&of.solved_for(i).key);
        if let (Some((key, _)), Some(source)) = (key, source(of, i, constant)) {
            new.cite(key, Value::Number(significant(constant.value, 6)), source);
        }
    }
    let opening = format!(
        "# A profile: `profile = \"this file\"` in a scenario beside it. Begun as {}; `measured:` \
         is what\n# `doorbell fit` solved for.\n",
        of.profile.name
    );
    templates::written(&new, &opening)
}

/// Returns the source of a value, or `None` if the one of the profile stays.
fn source(of: &Measurements, i: usize, constant: &Solved) -> Option<Source> {
    let (name, unit) = (&of.name, &of.solved_for(i).unit);
    let rows = numbers(&constant.rows);
    let names = |others: &[usize]| {
        let names: Vec<&str> = others.iter().map(|i| &*of.solved_for(*i).key).collect();
        names.join(", ")
    };
    Some(match &constant.state {
        State::Unused => return None,
        State::Determined(Some((low, high))) => {
            let (low, high) = (significant(*low, 4), significant(*high, 4));
            let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
            Source::Cited(format!("measured: {name}, {rows}; {low} to {high}{unit} with 95 %"))
        }
        State::Determined(None) => Source::Cited(format!("measured: {name}, {rows}")),
        State::AtBound => {
            Source::Cited(format!("measured: {name}, {rows}; at the bound of its range"))
        }
        State::Undetermined(others) if others.is_empty() => return None,
        State::Undetermined(others) => Source::Assumed(format!(
            "with {} it fits {name}, {rows}, which do not determine it alone",
            names(others)
        )),
    })
}

/// Returns `row 2`, or `rows 1 to 3, 5`, of indices in order.
fn numbers(rows: &[usize]) -> String {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for n in rows.iter().map(|i| i + 1) {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => spans.push((n, n)),
        }
    }
    let span = |(a, b): &(usize, usize)| match b - a {
        0 => a.to_string(),
        1 => format!("{a}, {b}"),
        _ => format!("{a} to {b}"),
    };
    let all: Vec<String> = spans.iter().map(span).collect();
    format!("{} {}", if rows.len() == 1 { "row" } else { "rows" }, all.join(", "))
}
