//! Templates of scenarios and profiles, with description, allowed values and default of each key,
//! and of measurements.
//!
//! A scenario sets its kind of traffic and has all other keys as comments. A profile is a copy of
//! an existing one with its sources. Measurements are the numbers of a run.

use crate::key::{Key, Kind, Value};
use crate::metrics;
use crate::profile::{Profile, Source};
use crate::result::{Measured, rounded};
use crate::system::System;
use std::fmt::Write;

/// Returns a scenario of this system on this profile that runs as it is, with these settings.
pub fn scenario(
    system: &System,
    (name, about): (&str, &str),
    profile: &str,
    settings: &[(&'static Key, Value)],
) -> String {
    let mut text = format!(
        "# A scenario: doorbell run FILE. A line such as `# burst = 32` says what holds without \
         it; take the `# ` away to\n\
         # change it. A number with a unit is a string, in any unit of its kind; a count is a \
         number. What the profile says\n\
         # of the platform may be set here too, in its own tables ([cpu], …): \
         doorbell list --keys.\n\n\
         name = {}\nabout = {}\nsystem = \"{}\"\nprofile = {}\n",
        quoted(name),
        quoted(about),
        system.name,
        quoted(profile)
    );
    let set = |key: &Key| settings.iter().rev().find(|(k, _)| k.name == key.name);
    let mut keys = system.scenario();
    keys.extend(system.platform().into_iter().filter(|key| set(key).is_some()));
    tables(&mut text, &keys, |text, key| {
        let given = set(key).map(|(_, value)| value.clone());
        // The kind of traffic is always set.
        let hidden = if given.is_some() || key.name == "traffic.kind" { "" } else { "# " };
        let value = given.unwrap_or_else(|| {
            let default = key.default.unwrap_or(key.words.first().copied().unwrap_or("0"));
            key.parse(default).unwrap_or_else(|_| Value::Text(default.to_owned()))
        });
        _ = writeln!(text, "{hidden}{} = {}", own_name(key), literal(key, &value));
    });
    text
}

/// Returns a copy of `from` with the name `name`.
pub fn profile(from: &Profile, name: &str) -> String {
    let opening = format!(
        "# A profile: `profile = \"this file\"` in a scenario beside it. Begun as {}; \
         change a value together with its source,\n\
         # which is a URL or data sheet with its figure, `assumed: why`, or `fit:ROW` with a \
         range.\n",
        from.name
    );
    let mut new = from.clone();
    name.clone_into(&mut new.name);
    "one line of what it is".clone_into(&mut new.about);
    written(&new, &opening)
}

/// Returns a profile as a file that begins with these comments.
pub fn written(from: &Profile, opening: &str) -> String {
    let mut text = format!(
        "{opening}\nname = {}\nsystem = \"{}\"\nabout = {}\n",
        quoted(&from.name),
        from.system.name,
        quoted(&from.about)
    );
    tables(&mut text, &from.system.platform(), |text, key| {
        let hidden = if from.source(key.name).is_some() { "" } else { "# " };
        let unit = key.unit_entry();
        let (value, unit) = match from.values.get(key.name) {
            Value::Number(n) => (n.to_string(), unit),
            other => (quoted(&other.to_string()), String::new()),
        };
        let (range, source) = match from.source(key.name) {
            Some(Source::Fit { row, range: (low, high) }) => {
                (format!(", range = [{low}, {high}]"), format!("fit:{row}"))
            }
            Some(other) => (String::new(), other.to_string()),
            None => (String::new(), "assumed: the default".to_owned()),
        };
        _ = writeln!(
            text,
            "{hidden}{} = {{ value = {value}{unit}{range}, source = {} }}",
            own_name(key),
            quoted(&source)
        );
    });
    text
}

/// Returns measurements of a scenario on a profile, both as they are named from the new file: the
/// numbers of a run, to be replaced by those of a machine.
pub fn measurements(
    name: &str,
    (scenario, profile): (&str, &str),
    system: &System,
    m: &Measured,
) -> String {
    let keys = system.platform();
    let is_solvable = |key: &&&Key| matches!(key.kind, Kind::Number { step: 0.0, .. });
    let stack = keys.iter().find(|key| key.name == "cpu.stack");
    let key = stack.or_else(|| keys.iter().find(is_solvable)).map_or("", |key| key.name);
    let mut text = format!(
        "# Measurements: `doorbell fit FILE` solves for the constants so that runs give the rows.\n\
         # The rows here are those of the model. Replace them by yours.\n\n\
         name = {}\nabout = \"one line of what was measured\"\nprofile = {}\n\n\
         # A constant to solve for: doorbell list --keys {}. Without a range the search goes over\n\
         # that of the profile, or of the key.\n\
         [[constant]]\nkey = \"{key}\"\n# range = [10, 500]\n# unit = \"cycles\"\n",
        quoted(name),
        quoted(profile),
        system.name
    );
    let rate = m.rates.iter().find(|r| r.metric == metrics::PACKETS).map(|r| r.value);
    let cycles = m.per_packet().into_iter().find(|(name, _)| name == "cycles").map(|(_, n)| n);
    for (metric, unit, value) in
        [(metrics::PACKETS.name, "1/s", rate), ("cycles", "cycles", cycles)]
    {
        let Some(value) = value else { continue };
        _ = write!(
            text,
            "\n[[row]]\nscenario = {}\nset = []                  # such as \"traffic.burst=8\"\n\
             metric = \"{metric}\"  # doorbell list --metrics {}\nvalue = {}\nunit = \"{unit}\"\n\
             spread = \"1 %\"            # one standard deviation\nrole = \"fit\"              \
             # or \"predicted\"\nsource = \"computed; replace by tool and date\"\n",
            quoted(scenario),
            system.name,
            rounded(value)
        );
    }
    text + "\n# Counters of other tools: ethtool, ethtool-rates, interrupts, perf, perf-csv,\n\
            # perf-json, pcm-pcie, pcm-iio, iperf3, mpstat.\n# [[counters]]\n\
            # scenario = \"...\"\n# format = \"ethtool\"\n# before = \"s0.txt\"\n\
            # after = \"s1.txt\"\n# packets = \"tx_packets\"\n# [counters.metrics]\n\
            # tx_bytes = \"wire_bytes\"\n"
}

/// Writes a table for each prefix of the keys, with a comment above each key.
fn tables(text: &mut String, keys: &[&'static Key], mut line: impl FnMut(&mut String, &Key)) {
    let mut seen: Vec<&str> = Vec::new();
    for table in keys.iter().map(|k| table_of(k)) {
        if seen.contains(&table) {
            continue;
        }
        seen.push(table);
        _ = write!(text, "\n[{table}]");
        for key in keys.iter().filter(|k| table_of(k) == table) {
            _ = writeln!(text, "\n# {}. Allowed: {}", key.about, key.allowed());
            line(text, key);
        }
    }
}

fn table_of(key: &Key) -> &'static str {
    key.name.split_once('.').map_or("", |(table, _)| table)
}

fn own_name(key: &Key) -> &'static str {
    key.name.split_once('.').map_or(key.name, |(_, name)| name)
}

/// Formats a value for a scenario: a count or pure number as a number, all else as a string.
fn literal(key: &Key, value: &Value) -> String {
    match value {
        Value::Number(n) if key.unit().is_empty() || key.is_count() => n.to_string(),
        Value::Number(n) => quoted(&format!("{n} {}", key.unit())),
        word => quoted(&word.to_string()),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests;
