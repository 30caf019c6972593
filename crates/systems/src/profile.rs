//! Profiles: descriptions of platforms. Each platform key has a value, a unit and a source:
//!
//! ```toml
//! [pcie]
//! mps = { value = 256, unit = "B", source = "assumed: …" }
//! memory_latency = { value = 110, unit = "ns", source = "fit:mlx5.rates_gen3" }
//! ```
//!
//! A source is a URL or data sheet with its figure, `measured:` with rows of a measurement file,
//! `assumed:` with the reason, or `fit:` with the published row that the constant is solved for.
//! `range` limits the search of a fit.

use crate::key::{Key, Kind, Value, Values, find, units};
use crate::registry::{Registry, open};
use crate::system::System;
use doorbell_spec::error::{Document, Field, InputError, SettingError, hint, number};
use std::fmt;
use toml::de::DeValue;

/// The source of a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// A URL or data sheet, with its figure.
    Cited(String),
    /// Assumed, with the reason.
    Assumed(String),
    /// Solved for a published row.
    Fit {
        /// The published row that it reproduces.
        row: String,
        /// Range of the search, in the key's unit.
        range: (f64, f64),
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Cited(what) => f.write_str(what),
            Source::Assumed(why) => write!(f, "assumed: {why}"),
            Source::Fit { row, .. } => write!(f, "fit:{row}"),
        }
    }
}

/// A platform.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Description.
    pub about: String,
    /// Its file, as named in messages.
    pub file: String,
    /// The system that it is for.
    pub system: &'static System,
    /// A value for each platform key.
    pub values: Values,
    sources: Vec<(&'static str, Source)>,
}

impl Registry {
    /// Returns the names of the profiles in the binary.
    pub fn profile_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.profiles.iter().map(|(name, _)| *name)
    }

    /// Loads the built-in profile of this name, or the file at this path if it ends in `.toml`.
    ///
    /// # Errors
    /// Returns the error with file and line.
    pub fn profile(&self, given: &str) -> Result<Profile, InputError> {
        let (file, text) = open(given, "profile", self.profiles)?;
        self.parse_profile(&file, &text)
    }

    /// Parses a profile. `file` is for messages.
    ///
    /// # Errors
    /// Returns the error with file and line.
    pub fn parse_profile(&self, file: &str, text: &str) -> Result<Profile, InputError> {
        const HEADS: [&str; 3] = ["name", "system", "about"];
        let d = Document::parse(file, text)?;
        let system =
            self.system(&d.head("system")?).map_err(|e| d.error(d.head_span("system"), e))?;
        let keys = system.platform();
        let mut profile = Profile {
            name: d.head("name")?,
            about: d.head("about")?,
            file: file.to_owned(),
            system,
            values: Values::defaults(&keys),
            sources: Vec::new(),
        };
        for field in d.fields(&HEADS)? {
            let key = find(&keys, &field.name).map_err(|e| d.error(field.span.clone(), e))?;
            let (value, source) = entry(&d, key, &field)?;
            profile.values.put(key, value);
            profile.sources.push((key.name, source));
        }
        let lacks = |k: &&&Key| k.default.is_none() && profile.source(k.name).is_none();
        let missing: Vec<&str> = keys.iter().filter(lacks).map(|k| k.name).collect();
        if !missing.is_empty() {
            let s = if missing.len() == 1 { "a key is" } else { "keys are" };
            return Err(d.missing(format!("{s} missing: {}", missing.join(", "))));
        }
        Ok(profile)
    }
}

impl Profile {
    /// Returns the source of a key's value, or `None` if the profile does not set the key.
    pub fn source(&self, key: &str) -> Option<&Source> {
        self.sources.iter().find(|(k, _)| *k == key).map(|(_, s)| s)
    }

    /// Replaces the value of a key and its source.
    pub fn cite(&mut self, key: &'static Key, value: Value, source: Source) {
        self.values.put(key, value);
        self.sources.retain(|(k, _)| *k != key.name);
        self.sources.push((key.name, source));
    }

    /// Returns the values of all keys of its system, those of scenarios at their defaults.
    pub fn all_values(&self) -> Values {
        let mut all = Values::defaults(&self.system.keys());
        for (key, value) in self.values.iter() {
            all.put(key, value.clone());
        }
        all
    }
}

/// Reads `{ value = …, unit = "…", source = "…", range = […] }`.
fn entry(
    d: &Document<'_>,
    key: &'static Key,
    field: &Field<'_, '_>,
) -> Result<(Value, Source), InputError> {
    const PARTS: [&str; 4] = ["value", "unit", "source", "range"];
    let name = key.name;
    let DeValue::Table(table) = field.value.get_ref() else {
        let unit = key.unit_entry();
        let what = format!("`{name}` needs a source: {{ value = …{unit}, source = \"…\" }}");
        return Err(d.error(field.span.clone(), what));
    };
    if let Some((part, _)) = table.iter().find(|(p, _)| !PARTS.contains(&p.get_ref().as_ref())) {
        let what = format!(
            "`{name}` has no `{}`{}; allowed: {}",
            part.get_ref(),
            hint(part.get_ref(), PARTS.into_iter()),
            PARTS.join(", ")
        );
        return Err(d.error(part.span(), what));
    }
    let Some(given) = table.get("value") else {
        return Err(d.error(field.span.clone(), format!("`{name}` has no value")));
    };
    let unit = table
        .get("unit")
        .map(|u| u.get_ref().as_str().ok_or_else(|| d.error(u.span(), "a unit is a string")));
    let unit = unit.transpose()?;
    let value = match (number(given.get_ref()), given.get_ref().as_str()) {
        (Some(_), _) if unit.is_none() && !key.unit().is_empty() => {
            let what =
                format!("`{name}` needs a unit; allowed units: {}", units(key.unit()).join(", "));
            return Err(d.error(field.span.clone(), what));
        }
        (Some(n), _) => key.quantity(n, unit.unwrap_or("")),
        (None, Some(word)) => key.parse(word),
        (None, None) => Err(SettingError(format!(
            "the value of `{name}` is a {}; allowed: {}",
            given.get_ref().type_str(),
            key.allowed()
        ))),
    };
    let value = value.map_err(|e| d.error(given.span(), e))?;
    let Some(said) = table.get("source") else {
        let what = format!(
            "`{name}` has no source; allowed: a URL or data sheet with its figure, `assumed: why`, \
            `fit:ROW`"
        );
        return Err(d.error(field.span.clone(), what));
    };
    let text = said.get_ref().as_str().unwrap_or("").trim();
    let source = if let Some(row) = text.strip_prefix("fit:") {
        let Kind::Number { min, max, .. } = key.kind else {
            let what = format!("`{name}` cannot be fitted: it is not a number of a range");
            return Err(d.error(said.span(), what));
        };
        let range = match table.get("range") {
            None => (min, max),
            Some(r) => {
                let given = r.get_ref().as_array().into_iter().flatten();
                let ends = given.filter_map(|v| {
                    match key.quantity(number(v.get_ref())?, unit.unwrap_or("")) {
                        Ok(Value::Number(n)) => Some(n),
                        _ => None,
                    }
                });
                match ends.collect::<Vec<_>>()[..] {
                    [low, high] if low < high => (low, high),
                    _ => {
                        let allowed = key.allowed();
                        let what =
                            format!("a range is [low, high] in the value's unit, within {allowed}");
                        return Err(d.error(r.span(), what));
                    }
                }
            }
        };
        Source::Fit { row: row.trim().to_owned(), range }
    } else if let Some(why) = text.strip_prefix("assumed:") {
        Source::Assumed(why.trim().to_owned())
    } else {
        Source::Cited(text.to_owned())
    };
    let empty = match &source {
        Source::Cited(s) => ["", "assumed", "fit"].contains(&s.as_str()),
        Source::Assumed(s) | Source::Fit { row: s, .. } => s.is_empty(),
    };
    if empty {
        return Err(d.error(said.span(), format!("the source of `{name}` says nothing")));
    }
    if let (Some(r), false) = (table.get("range"), matches!(source, Source::Fit { .. })) {
        return Err(d.error(r.span(), format!("`{name}` is not fitted, so it has no range")));
    }
    Ok((value, source))
}

#[cfg(test)]
mod tests;
