//! The numbers of a result, as `run --format json` and `serve --format json` print it.

use super::Row;
use super::show::Of;
use crate::plan;
use doorbell_console::render::{count, of_this_schema};
use doorbell_console::{Error, failed, input, output::text_of};
use doorbell_spec::hint;
use doorbell_spec::readings::{Readings, ungrouped};
use doorbell_study::budget::{Budget, Line, Subject};
use doorbell_systems::Plan;
use doorbell_systems::result::{Provenance, rounded};
use serde_json::{Map, Value};
use std::path::Path;

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

/// A run, or a workload of a guest.
struct Part {
    /// The workload of a guest.
    workload: Option<String>,
    numbers: Readings,
}

/// The room that an update leaves: a share of the number, and so many times what boots differ by.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) share: f64,
    pub(super) spreads: f64,
}

/// The room for a guest in virtual time, where each boot is the same: what another compiler or
/// another text of the command moves.
const VIRTUAL: f64 = 0.005;

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
    /// One, but of a guest one for each workload.
    parts: Vec<Part>,
    /// Of a guest: its time is virtual.
    is_virtual: Option<bool>,
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
        let numbers = Readings::of(last);
        let packets = numbers.named("packets").or(numbers.named("frames"));
        let packets = packets.map_or(0, |n| n.value as u64);
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
            parts: vec![Part { workload: None, numbers }],
            is_virtual: None,
            unsound: audit.map(|why| text(why, "?")).collect(),
        })
    }

    /// Takes the runs of a result of `guest`, one for each workload of a kernel.
    fn of_guest(from: &str, result: &Map<String, Value>) -> Result<Measured, Error> {
        let runs = result.get("runs").and_then(Value::as_array).ok_or_else(|| unknown(from))?;
        let word = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
        let part = |run: &Value| {
            let workload = Some(word(run, "workload")?);
            Some(Part { workload, numbers: Readings::of(run.as_object()?) })
        };
        let parts: Option<Vec<Part>> = runs.iter().map(part).collect();
        let parts = parts.ok_or_else(|| unknown(from))?;
        let twice = |n: usize| parts[..n].iter().any(|p| p.workload == parts[n].workload);
        if parts.is_empty() || (0..parts.len()).any(twice) {
            let n = runs.len();
            return Err(input!(
                "{from}: it is of {n} runs; a budget is for one kernel and one run of each workload"
            ));
        }
        let of = result.get("device").and_then(Value::as_str).map(str::to_owned);
        let (Some(of), Some(kernel)) = (of, word(&runs[0], "kernel")) else {
            return Err(unknown(from));
        };
        let each = parts.iter().map(|part| {
            let packets = part.numbers.named("packets").map_or(0, |n| n.value as u64);
            format!("{}, {} packets", part.workload.as_deref().unwrap_or("?"), count(packets))
        });
        let title = format!("{of}, {kernel}, {}", each.collect::<Vec<_>>().join("; "));
        Ok(Measured {
            from: from.to_owned(),
            title,
            of,
            is_run: false,
            bus: result.get("bus").and_then(Value::as_str).map(str::to_owned),
            origin: None,
            parts,
            is_virtual: Some(result.get("profile").is_some_and(Value::is_string)),
            unsound: Vec::new(),
        })
    }

    /// Returns the room that an update leaves, if nobody names one.
    pub(super) fn room(&self) -> Result<Room, Error> {
        match self.is_virtual {
            None => Ok(Room { share: 0.0, spreads: 0.0 }),
            Some(true) => Ok(Room { share: VIRTUAL, spreads: 0.0 }),
            Some(false) if self.parts.iter().all(Part::has_boots) => {
                Ok(Room { share: 0.0, spreads: 1.0 })
            }
            Some(false) => Err(input!(
                "{}: boots on the machine's clock differ, and it is of one: `guest --repeat 3` \
                 measures by how much, or name a --room",
                self.from
            )),
        }
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

    /// Returns the rows of a line of the budget: one, but of a guest one for each workload, or that
    /// of the line's own.
    pub(super) fn rows<'b>(&'b self, line: &'b Line) -> Result<Vec<Row<'b>>, NoNumber> {
        let own = |part: &&Part| line.workload.is_none() || part.workload == line.workload;
        let several = self.parts.len() > 1 || line.workload.is_some();
        let row = |part: &'b Part| {
            let [measured, low, high] = part.number(line, &self.of)?;
            let workload = part.workload.as_deref().filter(|_| several);
            Ok(Row { line, workload, measured, range: [low, high] })
        };
        let rows: Vec<Row<'_>> =
            self.parts.iter().filter(own).map(row).collect::<Result<_, _>>()?;
        match (rows.is_empty(), &line.workload) {
            (true, Some(workload)) => {
                let all = self.parts.iter().filter_map(|part| part.workload.as_deref());
                let near = hint(workload, all);
                let name = format!("workload.{workload}");
                Err(NoNumber { of: self.of.clone(), name, near })
            }
            _ => Ok(rows),
        }
    }
}

impl Part {
    /// Returns true if it is of several boots, which differ by as much as is known.
    fn has_boots(&self) -> bool {
        self.numbers.value("boots", "boots").is_some_and(|boots| boots > 1.0)
    }

    /// Returns a number by the name that all commands have for it, with its lowest and its highest
    /// value of several boots.
    fn find(&self, name: &str) -> Option<[f64; 3]> {
        let number = self.numbers.named(name)?;
        let [low, high] = number.range.unwrap_or([number.value; 2]);
        Some([number.value, low, high])
    }

    /// Returns the number that a line of the budget names, or the sum of several.
    fn number(&self, line: &Line, of: &str) -> Result<[f64; 3], NoNumber> {
        let group = line.name.split_once('.').map_or("", |(group, _)| group);
        let mut sum = [0.0; 3];
        for (n, part) in line.name.split('+').enumerate() {
            // Later names of a sum may leave out the group.
            let whole = format!("{group}.{part}");
            let in_group = (n > 0).then(|| self.find(&whole)).flatten();
            let Some(v) = in_group.or_else(|| self.find(part)) else {
                let (of, name) = (of.to_owned(), part.to_owned());
                let near = hint(part, self.numbers.by_name().keys().map(|n| ungrouped(n).1));
                return Err(NoNumber { of, name, near });
            };
            sum.iter_mut().zip(v).for_each(|(sum, v)| *sum += v);
        }
        Ok(sum.map(rounded))
    }
}

fn unknown(from: &str) -> Error {
    input!("{from}: it is not an output of `run`, `serve` or `guest` with --format json")
}
