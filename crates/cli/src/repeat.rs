//! `doorbell repeat`: kept results, run again and compared with the new ones.
//!
//! A result of `run` has its whole origin and is compared by its members. A record of a file has
//! the settings of its columns and those of its origin ([`About`]), and is compared by its columns.

mod records;

use crate::args::Repeat;
use crate::output::{print, text_of};
use crate::point::Runner;
use crate::progress::Interrupt;
use crate::record::extension;
use crate::render::{json, of_this_schema};
use crate::{DONE, Error, MISSED, input, plan, run};
use doorbell_study::runs::same_capture;
use doorbell_systems::Registry;
use doorbell_systems::result::Provenance;
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The most differences that are listed.
const LISTED: usize = 20;

pub(crate) fn repeat(registry: &'static Registry, args: &Repeat) -> Result<u8, Error> {
    let mut all = Vec::new();
    for path in &args.file {
        if path.is_dir() { all.extend(records::inside(path)?) } else { all.push(path.clone()) }
    }
    let (records, results): (Vec<PathBuf>, Vec<PathBuf>) =
        all.into_iter().partition(|p| records::FORMATS.contains(&extension(p)));
    // All are read first: a wrong one is known before anything has run.
    let results = results.iter().map(|p| Kept::read(p)).collect::<Result<Vec<_>, _>>()?;
    let records = records.iter().map(|p| records::Kept::read(registry, p, args.sample));
    let records = records.collect::<Result<Vec<_>, _>>()?;
    let mut same = true;
    for kept in results {
        same &= kept.again(registry, args.quiet)?;
    }
    for kept in records {
        same &= kept.again(|what| Runner::plain(what, args.jobs, args.quiet))?;
    }
    Ok(if same { DONE } else { MISSED })
}

/// Prints whether a result is the same again, or what differs: of the program that made it, and of
/// the rest. Returns whether the rest is the same.
fn verdict(name: &str, of: &str, tool: &[String], rest: &[String]) -> Result<bool, Error> {
    if rest.is_empty() {
        let but = if tool.is_empty() { "" } else { " but for the program: " };
        print(&format!("{name}: the same {of}{but}{}\n", tool.join(", ")))?;
        return Ok(true);
    }
    let listed = tool.iter().chain(rest).take(LISTED).map(|d| format!("\n  {d}"));
    let listed: String = listed.collect();
    let more = (tool.len() + rest.len()).saturating_sub(LISTED);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    print(&format!("{name}: not the same {of}{listed}{more}\n"))?;
    Ok(false)
}

/// A result that was kept.
struct Kept {
    name: String,
    result: Value,
    of: Provenance,
}

impl Kept {
    /// Reads a result of `run`; `-` is stdin.
    fn read(path: &Path) -> Result<Kept, Error> {
        let name = path.display().to_string();
        let text = text_of(&name, path)?;
        let result: Value =
            serde_json::from_str(&text).map_err(|e| input!("{name}: it is not JSON: {e}"))?;
        of_this_schema(&name, &result)?;
        if result["kind"] != "run" {
            return Err(input!(
                "{name}: it is no result of `run`\n  of `sweep` and `point`, .parquet and .ndjson \
                 files of --out can be repeated"
            ));
        }
        let of = Provenance::deserialize(&result).map_err(|e| input!("{name}: {e}"))?;
        Ok(Kept { name, result, of })
    }

    /// Runs it again, and says what differs. Returns whether it is the same.
    fn again(&self, registry: &Registry, quiet: bool) -> Result<bool, Error> {
        let plan = registry.again(&self.name, &self.of)?;
        let now = plan::sha256(&plan)?;
        same_capture(&self.name, now.as_deref(), self.of.capture_sha256.as_deref())?;
        let mut result = plan::execute(&plan, quiet)?;
        if self.result.get("limit").is_some() {
            run::find_limit(&plan, &mut result, &Interrupt::ignored())?;
        }
        // The content of the profile is that of then.
        result.of.profile_sha256.clone_from(&self.of.profile_sha256);
        let again = serde_json::from_str(&json("run", &result)).unwrap_or_default();
        let mut found = Vec::new();
        differences("", &self.result, &again, &mut found);
        let (tool, rest): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|d| d.starts_with("doorbell."));
        verdict(&self.name, "result", &tool, &rest)
    }
}

/// Lists members whose values differ, by their dotted names.
fn differences(name: &str, then: &Value, now: &Value, found: &mut Vec<String>) {
    let inner = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match (then, now) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                differences(&inner(key), value, b.get(key).unwrap_or(&Value::Null), found);
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                differences(&inner(key), &Value::Null, value, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&inner(&i.to_string()), a, b, found);
            }
        }
        (a, b) if a != b => found.push(format!("{name} was {a}, and is {b}")),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
