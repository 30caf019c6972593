//! Input files (profiles, scenarios) and errors in them.
//!
//! Both kinds of file have a head of strings (`name`, `about`, …) and tables of keys. [`Document`]
//! reads them and keeps line numbers, so that a message can begin with `profiles/x.toml:12:`.

use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// An error in a file or an option.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{what}", if place.is_empty() { String::new() } else { format!("{place}: ") })]
pub struct InputError {
    /// `profiles/x.toml:12`, a file, or an option such as `--set pcie.mps=3`.
    pub place: String,
    /// The error, and what is allowed.
    pub what: String,
}

/// A setting, or a combination of settings, that is not allowed. The text names what is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingError(pub String);

impl From<String> for SettingError {
    fn from(what: String) -> SettingError {
        SettingError(what)
    }
}
impl From<&str> for SettingError {
    fn from(what: &str) -> SettingError {
        SettingError(what.to_owned())
    }
}
impl From<SettingError> for String {
    fn from(e: SettingError) -> String {
        e.0
    }
}

/// Returns a [`SettingError`] with this text.
#[macro_export]
macro_rules! refuse {
    ($($text:tt)*) => {
        return Err($crate::SettingError(format!($($text)*)))
    };
}

impl InputError {
    /// Creates an error at this place.
    pub fn new(place: impl Into<String>, what: impl Into<String>) -> InputError {
        InputError { place: place.into(), what: what.into() }
    }
}

/// Returns the name most similar to `wanted`: one that contains it, else the one with the smallest
/// edit distance among those with at most a third of the letters wrong or a Jaro-Winkler similarity
/// of at least 0.8. The first of equals wins.
pub fn nearest<'a>(wanted: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &str| {
        let edits = strsim::damerau_levenshtein(wanted, name);
        let is_part = wanted.chars().count() > 2 && name.contains(wanted);
        let letters = wanted.chars().count().max(name.chars().count());
        let is_similar = 3 * edits <= letters || strsim::jaro_winkler(wanted, name) >= 0.8;
        (is_part || is_similar).then_some((!is_part, edits))
    };
    among.filter_map(|name| Some((distance(name)?, name))).min_by_key(|(d, _)| *d).map(|n| n.1)
}

/// Returns ``; the nearest is `x` ``, or nothing without a similar name.
pub fn hint<'a>(wanted: &str, among: impl Iterator<Item = &'a str>) -> String {
    nearest(wanted, among).map_or(String::new(), |n| format!("; the nearest is `{n}`"))
}

/// Returns the number of the line at this position of a text.
pub fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

/// A parsed file.
pub struct Document<'t> {
    file: String,
    text: &'t str,
    root: DeTable<'t>,
}

/// A key, as `table.key`, with its position and value.
pub struct Field<'d, 't> {
    /// The name, `table.key`.
    pub name: String,
    /// The position.
    pub span: Range<usize>,
    /// The value.
    pub value: &'d Spanned<DeValue<'t>>,
}

impl<'t> Document<'t> {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// It is no TOML. The error has the line.
    pub fn parse(file: &str, text: &'t str) -> Result<Document<'t>, InputError> {
        match DeTable::parse(text) {
            Ok(root) => Ok(Document { file: file.to_owned(), text, root: root.into_inner() }),
            Err(e) => {
                let empty = Document { file: file.to_owned(), text, root: DeTable::new() };
                Err(empty.error(e.span().unwrap_or(0..0), e.message().to_owned()))
            }
        }
    }

    /// Creates an error at this position of the text.
    pub fn error(&self, at: Range<usize>, what: impl Into<String>) -> InputError {
        InputError::new(format!("{}:{}", self.file, line_at(self.text, at.start)), what)
    }

    /// Creates an error of the file as a whole.
    pub fn missing(&self, what: impl Into<String>) -> InputError {
        InputError::new(self.file.clone(), what)
    }

    /// Returns a string of the head.
    ///
    /// # Errors
    /// It is missing, or says nothing.
    pub fn head(&self, name: &str) -> Result<String, InputError> {
        let Some(value) = self.root.get(name) else {
            return Err(self.missing(format!("`{name} = \"…\"` is missing")));
        };
        match value.get_ref().as_str() {
            Some(s) if !s.trim().is_empty() => Ok(s.to_owned()),
            _ => {
                let what = format!("`{name}` must be a string that says something");
                Err(self.error(value.span(), what))
            }
        }
    }

    /// Returns the position of a string of the head.
    pub fn head_span(&self, name: &str) -> Range<usize> {
        self.root.get(name).map_or(0..0, Spanned::span)
    }

    /// Returns the fields of all tables in the file's order. `heads` are the strings allowed in the
    /// head.
    pub fn fields(&self, heads: &[&str]) -> Result<Vec<Field<'_, 't>>, InputError> {
        let mut fields = Vec::new();
        let mut stray: Option<(Range<usize>, String)> = None;
        for (name, value) in &self.root {
            let DeValue::Table(table) = value.get_ref() else {
                if !heads.contains(&name.get_ref().as_ref()) {
                    let what = format!(
                        "`{}` is not allowed here; allowed: {}, and tables",
                        name.get_ref(),
                        heads.join(", ")
                    );
                    if stray.as_ref().is_none_or(|(at, _)| name.span().start < at.start) {
                        stray = Some((name.span(), what));
                    }
                }
                continue;
            };
            fields.extend(table.iter().map(|(key, value)| Field {
                name: format!("{}.{}", name.get_ref(), key.get_ref()),
                span: key.span(),
                value,
            }));
        }
        if let Some((at, what)) = stray {
            return Err(self.error(at, what));
        }
        fields.sort_by_key(|f| f.span.start);
        Ok(fields)
    }
}

/// Returns a number, whole or not, that is finite.
pub fn number(v: &DeValue<'_>) -> Option<f64> {
    match v {
        DeValue::Integer(i) => {
            i64::from_str_radix(&i.as_str().replace('_', ""), i.radix()).ok().map(|n| n as f64)
        }
        DeValue::Float(f) => {
            f.as_str().replace('_', "").parse().ok().filter(|x: &f64| x.is_finite())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
