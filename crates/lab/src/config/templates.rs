//! Templates of scenarios and profiles, with description, allowed values and default of each key.
//!
//! A scenario sets its kind of traffic and has all other keys as comments. A profile is a copy of
//! an existing one with its sources.

use crate::config::key::{Key, Value};
use crate::config::profile::{Profile, Source};
use crate::experiment::system::System;
use std::fmt::Write;

/// Returns a scenario of this system on this profile that runs as it is.
pub fn scenario(system: &System, name: &str, profile: &str) -> String {
    let mut text = format!(
        "# A scenario: doorbell run FILE. A line such as `# burst = 32` says what holds without \
         it; take the `# ` away to\n\
         # change it. A number with a unit is a string, in any unit of its kind; a count is a \
         number. What the profile says\n\
         # of the platform may be set here too, in its own tables ([cpu], …): \
         doorbell list --keys.\n\n\
         name = {}\nabout = \"one line of what it shows\"\nsystem = \"{}\"\nprofile = {}\n",
        quoted(name),
        system.name,
        quoted(profile)
    );
    tables(&mut text, &system.scenario(), |text, key| {
        let value = key.default.unwrap_or(key.words.first().copied().unwrap_or("0"));
        // The kind of traffic is set, all else is a comment.
        let hidden = if key.name == "traffic.kind" { "" } else { "# " };
        _ = writeln!(text, "{hidden}{} = {}", own_name(key), literal(key, value));
    });
    text
}

/// Returns a copy of `from` with the name `name`.
pub fn profile(from: &Profile, name: &str) -> String {
    let mut text = format!(
        "# A profile: `profile = \"this file\"` in a scenario beside it. Begun as {}; \
         change a value together with its source,\n\
         # which is a URL or data sheet with its figure, `assumed: why`, or `fit:ROW` with a \
         range.\n\n\
         name = {}\nsystem = \"{}\"\nabout = \"one line of what it is\"\n",
        from.name,
        quoted(name),
        from.system.name
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
fn literal(key: &Key, value: &str) -> String {
    match key.parse(value) {
        Ok(Value::Number(n)) if key.unit().is_empty() || key.is_count() => n.to_string(),
        Ok(Value::Number(n)) => quoted(&format!("{n} {}", key.unit())),
        _ => quoted(value),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests;
