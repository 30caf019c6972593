//! `doorbell run --repeat`: a kept result, run again and compared with the new one.

use crate::output::{tell, text_of};
use crate::render::of_this_schema;
use crate::{Error, failed, input, plan};
use doorbell_lab::{Plan, result::Provenance};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// The most differences that are listed.
const LISTED: usize = 20;

/// A result that was kept.
pub(crate) struct Kept {
    name: String,
    result: Value,
    of: Provenance,
}

impl Kept {
    /// Reads a result of `run`; `-` is stdin.
    pub(crate) fn read(path: &Path) -> Result<Kept, Error> {
        let name = format!("--repeat {}", path.display());
        let text = text_of(&name, path)?;
        let result: Value =
            serde_json::from_str(&text).map_err(|e| input!("{name}: it is not JSON: {e}"))?;
        of_this_schema(&name, &result)?;
        if result["kind"] != "run" {
            return Err(input!("{name}: only results of `run` can be repeated"));
        }
        let of = Provenance::deserialize(&result).map_err(|e| input!("{name}: {e}"))?;
        Ok(Kept { name, result, of })
    }

    /// Returns whether it says what limits.
    pub(crate) fn has_limit(&self) -> bool {
        self.result.get("limit").is_some()
    }

    /// Returns its plan. Its capture must be the same file as then.
    pub(crate) fn plan(&self) -> Result<Plan, Error> {
        let plan = Plan::again(&self.name, &self.of)?;
        plan::same_capture(&self.name, &plan, self.of.capture_sha256.as_deref())?;
        Ok(plan)
    }

    /// Returns the origin of the new result. The content of the profile is that of then.
    pub(crate) fn origin(&self, again: Provenance) -> Provenance {
        Provenance { profile_sha256: self.of.profile_sha256.clone(), ..again }
    }

    /// Compares with the new result, and says on stderr that both are the same, or that another
    /// doorbell made the first.
    ///
    /// # Errors
    /// Lists what else differs.
    pub(crate) fn compare(&self, again: &str, quiet: bool) -> Result<(), Error> {
        let again = serde_json::from_str(again).unwrap_or_default();
        let mut found = Vec::new();
        differences("", &self.result, &again, &mut found);
        let (tool, rest): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|d| d.starts_with("doorbell."));
        let name = &self.name;
        if rest.is_empty() {
            let but = if tool.is_empty() { "" } else { " but for the program: " };
            if !quiet {
                let all = tool.join(", ");
                tell(format_args!("{name}: the same result{but}{all}"));
            }
            return Ok(());
        }
        let mut listed: Vec<String> = tool.into_iter().chain(rest).collect();
        let more = listed.len().saturating_sub(LISTED);
        listed.truncate(LISTED);
        listed.extend((more > 0).then(|| format!("and {more} more")));
        Err(failed!("{name}: the result differs\n  {}", listed.join("\n  ")))
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
