//! The numbers of a result, as `run --format json` and `serve --format json` print it.

use super::budget::{Budget, Line, Of};
use crate::output::plain;
use crate::text::count;
use crate::{Error, MISSED, plan};
use doorbell_lab::result::rounded;
use doorbell_lab::{Plan, hint};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// A result.
#[derive(Debug)]
pub(super) struct Measured {
    /// What messages call it.
    from: String,
    /// What it is of, in words.
    pub(super) title: String,
    /// Name of its scenario, or of its device.
    of: String,
    is_run: bool,
    bus: Option<String>,
    /// Its profile, and the value of every key.
    profile: Option<String>,
    settings: Option<BTreeMap<String, String>>,
    capture: Option<String>,
    /// `frames`, `ledger.mmio_writes`.
    numbers: BTreeMap<String, f64>,
    /// Why it is not to be trusted.
    pub(super) unsound: Vec<String>,
}

impl Measured {
    /// Reads a report; `-` is stdin.
    pub(super) fn read(path: &Path) -> Result<Measured, Error> {
        let name = path.display().to_string();
        let told = |e: std::io::Error| Error::input(format!("--report {name}: {}", plain(&e)));
        let mut text = String::new();
        if name == "-" {
            std::io::stdin().read_to_string(&mut text).map_err(told)?;
        } else {
            text = std::fs::read_to_string(path).map_err(told)?;
        }
        Measured::parse(&format!("--report {name}"), &text)
    }

    /// Understands one. A server prints one on each SIGUSR1, and the last is the whole.
    pub(super) fn parse(from: &str, text: &str) -> Result<Measured, Error> {
        let wrong = |what: String| Error::input(format!("{from}: {what}"));
        let all = serde_json::Deserializer::from_str(text)
            .into_iter::<Value>()
            .collect::<Result<Vec<_>, _>>();
        let all = all.map_err(|e| wrong(format!("it is not JSON: {e}")))?;
        let last = all
            .last()
            .and_then(Value::as_object)
            .ok_or_else(|| wrong("it holds no report".to_owned()))?;
        let word = |name: &str| last.get(name).and_then(Value::as_str).map(str::to_owned);
        let (scenario, device) = (word("scenario"), word("device"));
        if (scenario.is_none() && device.is_none()) || !last.contains_key("ledger") {
            let what = "it is not what `run --format json` or `serve --format json` prints";
            return Err(wrong(what.to_owned()));
        }
        let mut numbers = BTreeMap::new();
        for (name, value) in last {
            if let Some(n) = value.as_f64() {
                numbers.insert(name.clone(), n);
            }
            for (inner, value) in value.as_object().into_iter().flatten() {
                if let Some(n) = value.as_f64() {
                    numbers.insert(format!("{name}.{inner}"), n);
                }
            }
        }
        let audit = match last.get("audit") {
            Some(Value::Array(why)) => {
                why.iter().map(|w| w.as_str().unwrap_or("?").to_owned()).collect()
            }
            _ => Vec::new(),
        };
        let of = scenario.clone().or(device).unwrap_or_default();
        let packets = numbers.get("packets").or(numbers.get("frames")).map_or(0, |n| *n as u64);
        if packets == 0 {
            let what = format!("{from}: no packet was counted, so nothing can be held against it");
            return Err(Error { code: MISSED, what });
        }
        let title = match &scenario {
            Some(_) => format!("{of}, {} packets", count(packets)),
            None => format!("{of} in a guest, {} frames", count(packets)),
        };
        Ok(Measured {
            from: from.to_owned(),
            title,
            of,
            is_run: scenario.is_some(),
            bus: word("bus"),
            profile: word("profile"),
            settings: last.get("settings").and_then(Value::as_object).map(|all| {
                all.iter()
                    .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
                    .collect()
            }),
            capture: word("capture_sha256"),
            numbers,
            unsound: audit,
        })
    }

    /// Whether it is a result of what the budget is about.
    pub(super) fn is_about(&self, budget: &Budget) -> Result<(), Error> {
        let of = &self.of;
        let wrong = |what: String| Err(Error::input(format!("{}: {what}", self.from)));
        match &budget.of {
            Of::Scenario { scenario, .. } if !self.is_run || *of != scenario.name => {
                wrong(format!("it is of {of}, but {} is about {}", budget.file, scenario.name))
            }
            Of::Device { device, .. } if self.is_run || of != device => {
                wrong(format!("it is of {of}, but {} is about {device}", budget.file))
            }
            Of::Device { bus: Some(bus), .. } if self.bus.as_deref() != Some(*bus) => {
                let counted = self.bus.as_deref().unwrap_or("nothing");
                wrong(format!(
                    "it was counted by the rules of {counted}; {} wants those of {bus}",
                    budget.file
                ))
            }
            _ => Ok(()),
        }
    }

    /// Whether it is a result of a run of this plan, which is the budget's.
    pub(super) fn is_of(&self, plan: &Plan, budget: &str) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::input(format!("{}: {what}", self.from)));
        if self.profile.as_ref() != Some(&plan.profile) {
            let profile = self.profile.as_deref().unwrap_or("no profile");
            return wrong(format!(
                "it is of a run on {profile}, but {budget} is about {}",
                plan.profile
            ));
        }
        let Some(settings) = &self.settings else {
            return wrong("it does not say with which settings it ran; make it anew".to_owned());
        };
        let none = "no value".to_owned();
        for (key, ours) in plan::values(plan) {
            // Of a capture its content counts, and not where it lies.
            let theirs = settings.get(key).unwrap_or(&none);
            if *theirs != ours && key != "traffic.file" {
                return wrong(format!(
                    "`{key}` was {theirs}, but {budget} is about a run with {ours}"
                ));
            }
        }
        let capture = plan::capture_sha256(plan)?;
        if self.capture != capture {
            let said = |hash: &Option<String>| {
                hash.as_ref().map_or("none".to_owned(), |h| format!("SHA-256 {h}"))
            };
            let (theirs, ours) = (said(&self.capture), said(&capture));
            return wrong(format!(
                "its capture is another: {theirs}, but that of {budget} is {ours}"
            ));
        }
        Ok(())
    }

    /// The number that a line of the budget names, or the sum of those that it names.
    ///
    /// # Errors
    /// File and line of the name that there is not, and the nearest that there is.
    pub(super) fn number(&self, file: &str, line: &Line) -> Result<f64, String> {
        let group = line.name.split_once('.').map_or("", |(group, _)| group);
        let mut sum = 0.0;
        for (n, part) in line.name.split('+').enumerate() {
            // A sum's later names may leave the part of the result away.
            let whole = if n == 0 || part.contains('.') {
                part.to_owned()
            } else {
                format!("{group}.{part}")
            };
            let Some(v) = self.numbers.get(&whole) else {
                // Most likely only the part is missing.
                let bare = self
                    .numbers
                    .get_key_value(&format!("per_packet.{whole}"))
                    .map(|(name, _)| name.as_str());
                let near = match bare {
                    Some(name) => format!("; the nearest is `{name}`"),
                    None => hint(&whole, self.numbers.keys().map(String::as_str)),
                };
                let of = &self.of;
                return Err(format!(
                    "{file}:{}: a result of {of} has no number `{whole}`{near}",
                    line.at
                ));
            };
            sum += v;
        }
        Ok(rounded(sum))
    }
}
