//! The numbers of a result, as `run --format json` and `serve --format json` print it.

use super::show::Of;
use crate::plan;
use doorbell_console::render::{count, of_this_schema};
use doorbell_console::{Error, failed, input, output::text_of};
use doorbell_spec::hint;
use doorbell_study::budget::{Budget, Line, NAMED, Subject, ungrouped};
use doorbell_systems::Plan;
use doorbell_systems::result::{Provenance, rounded};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, path::Path};

/// A number that a result does not have: its name, and the nearest one.
#[derive(Debug, thiserror::Error)]
#[error("a result of {of} has no number `{name}`{near}{}", self.why())]
pub(super) struct NoNumber {
    of: String,
    name: String,
    near: String,
}

impl NoNumber {
    /// Returns the reason for which the right name of a function has no number.
    fn why(&self) -> &'static str {
        match self.is_of_code() {
            true => " (it did not run, or this kernel's compiler has inlined it)",
            false => "",
        }
    }

    /// Returns true if it is of a function or a module, of which another kernel has others.
    pub(super) fn is_of_code(&self) -> bool {
        ["functions.", "modules."].iter().any(|group| self.name.starts_with(group))
    }
}

pub(super) struct Measured {
    /// Its name in messages.
    from: String,
    /// Its subject in words.
    pub(super) title: String,
    /// Name of its scenario, or of its device.
    of: String,
    is_run: bool,
    bus: Option<String>,
    /// The origin of a run.
    origin: Option<Provenance>,
    /// `frames`, `ledger.mmio_writes`.
    numbers: BTreeMap<String, f64>,
    /// Reasons to distrust it.
    pub(super) unsound: Vec<String>,
}

impl Measured {
    /// Reads a report; `-` is stdin.
    pub(super) fn read(path: &Path) -> Result<Measured, Error> {
        let name = format!("--report {}", path.display());
        Measured::parse(&name, &text_of(&name, path)?)
    }

    /// Parses a report. A server prints one on each SIGUSR1; the last one counts.
    pub(super) fn parse(from: &str, text: &str) -> Result<Measured, Error> {
        let all: Result<Vec<Value>, _> =
            serde_json::Deserializer::from_str(text).into_iter().collect();
        let all = all.map_err(|e| input!("{from}: it is not JSON: {e}"))?;
        let last = all.last().and_then(Value::as_object);
        let last = last.ok_or_else(|| input!("{from}: it holds no report"))?;
        of_this_schema(from, all.last().unwrap_or(&Value::Null))?;
        let word = |name: &str| last.get(name).and_then(Value::as_str).map(str::to_owned);
        let (is_run, of) = match word("kind").as_deref() {
            Some("run") => (true, word("scenario")),
            Some("serve") => (false, word("device")),
            Some("guest") => return Measured::of_guest(from, last),
            _ => return Err(unknown(from)),
        };
        let Some(of) = of else { return Err(unknown(from)) };
        let origin = is_run.then(|| serde_json::from_value(Value::Object(last.clone())));
        let origin = origin.transpose().map_err(|e| input!("{from}: {e}"))?;
        let numbers = numbers(last);
        let packets = numbers.get("packets").or(numbers.get("frames")).map_or(0, |n| *n as u64);
        if packets == 0 {
            return Err(failed!("{from}: no packet was counted, so there is nothing to check"));
        }
        let title = match is_run {
            true => format!("{of}, {} packets", count(packets)),
            false => format!("{of} in a guest, {} frames", count(packets)),
        };
        let text = |v: &Value, otherwise: &str| v.as_str().unwrap_or(otherwise).to_owned();
        let audit = last.get("audit").and_then(Value::as_array).into_iter().flatten();
        Ok(Measured {
            from: from.to_owned(),
            title,
            of,
            is_run,
            bus: word("bus"),
            origin,
            numbers,
            unsound: audit.map(|why| text(why, "?")).collect(),
        })
    }

    /// Takes the only run of a result of `guest`, with a number for each function.
    fn of_guest(from: &str, result: &Map<String, Value>) -> Result<Measured, Error> {
        let runs = result.get("runs").and_then(Value::as_array).ok_or_else(|| unknown(from))?;
        let [Value::Object(run)] = &runs[..] else {
            let n = runs.len();
            return Err(input!(
                "{from}: it is of {n} runs; a budget is for one kernel and one workload"
            ));
        };
        let word = |of: &Map<String, Value>, name: &str| {
            of.get(name).and_then(Value::as_str).map(str::to_owned)
        };
        let (Some(of), Some(kernel), Some(workload)) =
            (word(result, "device"), word(run, "kernel"), word(run, "workload"))
        else {
            return Err(unknown(from));
        };
        let mut numbers = numbers(run);
        for f in run.get("functions").and_then(Value::as_array).into_iter().flatten() {
            if let (Some(name), Some(n)) = (f["function"].as_str(), f["per_packet"].as_f64()) {
                *numbers.entry(format!("functions.{name}")).or_default() += n;
            }
        }
        let packets = numbers.get("packets").map_or(0, |n| *n as u64);
        Ok(Measured {
            from: from.to_owned(),
            title: format!("{of}, {kernel}, {workload}, {} packets", count(packets)),
            of,
            is_run: false,
            bus: word(result, "bus"),
            origin: None,
            numbers,
            unsound: Vec::new(),
        })
    }

    /// Returns the origin of a run, or the served device and its bus.
    pub(super) fn of(&self) -> Of<'_> {
        match &self.origin {
            Some(of) => Of::Run(of),
            None => Of::Device { device: &self.of, bus: self.bus.as_deref() },
        }
    }

    /// Refuses a result of another subject than the budget's.
    pub(super) fn is_about(&self, budget: &Budget) -> Result<(), Error> {
        let (Measured { from, of, .. }, file) = (self, &budget.file);
        match &budget.of {
            Subject::Scenario { scenario, .. } if !self.is_run || *of != scenario.name => {
                Err(input!("{from}: it is of {of}, but {file} is about {}", scenario.name))
            }
            Subject::Device { device, .. } if self.is_run || of != device => {
                Err(input!("{from}: it is of {of}, but {file} is about {device}"))
            }
            Subject::Device { bus: Some(bus), .. } if self.bus.as_deref() != Some(*bus) => {
                let counted = self.bus.as_deref().unwrap_or("nothing");
                Err(input!(
                    "{from}: it was counted by the rules of {counted}; {file} wants those of {bus}"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a result of another run than that of this plan, which is the budget's.
    pub(super) fn is_of(&self, budget: &Budget, plan: &Plan) -> Result<(), Error> {
        let Some(of) = &self.origin else { return Err(unknown(&self.from)) };
        let (from, theirs) = (&self.from, budget.registry.again(&self.from, of)?);
        let budget = &budget.file;
        if of.profile != plan.profile {
            let (profile, ours) = (&of.profile, &plan.profile);
            return Err(input!(
                "{from}: it is of a run on {profile}, but {budget} is about {ours}"
            ));
        }
        for ((key, ours), (_, theirs)) in plan.values.iter().zip(theirs.values.iter()) {
            // The content of a capture counts, not its path.
            if theirs != ours && key.name != "traffic.file" {
                let (name, ours, theirs) = (key.name, key.said(ours), key.said(theirs));
                return Err(input!(
                    "{from}: `{name}` was {theirs}, but {budget} is about a run with {ours}"
                ));
            }
        }
        let capture = plan::sha256(plan)?;
        if of.capture_sha256 != capture {
            let named = |hash: &Option<String>| {
                hash.as_ref().map_or("none".to_owned(), |h| format!("SHA-256 {h}"))
            };
            let (theirs, ours) = (named(&of.capture_sha256), named(&capture));
            return Err(input!(
                "{from}: its capture is another: {theirs}, but that of {budget} is {ours}"
            ));
        }
        Ok(())
    }

    /// Returns a number by the name that all commands have for it, or in its group.
    fn find(&self, name: &str) -> Option<f64> {
        let within = |group: &&str| self.numbers.get(&format!("{group}.{name}"));
        self.numbers.get(name).or_else(|| NAMED.iter().find_map(within)).copied()
    }

    /// Returns the number that a line of the budget names, or the sum of several.
    pub(super) fn number(&self, line: &Line) -> Result<f64, NoNumber> {
        let group = line.name.split_once('.').map_or("", |(group, _)| group);
        let mut sum = 0.0;
        for (n, part) in line.name.split('+').enumerate() {
            // Later names of a sum may leave out the group.
            let whole = format!("{group}.{part}");
            let in_group = (n > 0).then(|| self.numbers.get(&whole).copied()).flatten();
            let Some(v) = in_group.or_else(|| self.find(part)) else {
                let (of, name) = (self.of.clone(), part.to_owned());
                let near = hint(part, self.numbers.keys().map(|n| ungrouped(n).1));
                return Err(NoNumber { of, name, near });
            };
            sum += v;
        }
        Ok(rounded(sum))
    }
}

fn unknown(from: &str) -> Error {
    input!("{from}: it is not an output of `run`, `serve` or `guest` with --format json")
}

/// Returns the numbers of an object and of the objects in it, by dotted names.
fn numbers(of: &Map<String, Value>) -> BTreeMap<String, f64> {
    let inner = of.iter().flat_map(|(group, value)| {
        let all = value.as_object().into_iter().flatten();
        all.map(move |(name, v)| (format!("{group}.{name}"), v))
    });
    let own = of.iter().filter(|(name, _)| *name != "schema");
    let all = own.map(|(name, v)| (name.clone(), v)).chain(inner);
    all.filter_map(|(name, v)| Some((name, v.as_f64()?))).collect()
}
