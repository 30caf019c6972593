//! `doorbell repeat`: kept results, run again and compared with the new ones.
//!
//! A result of `run`, `sweep`, `rank` or `advise` has its whole origin and is compared by its
//! members. A record of a file has the settings of its columns and those of its origin ([`About`]),
//! and is compared by its columns. Those in an archive are taken out of it first, and their
//! captures with them.
//!
//! [`About`]: crate::record::About

mod records;

use crate::advise::Asked;
use crate::archive::{Opened, is_archive, opened};
use crate::args::Repeat;
use crate::observer::Observed;
use crate::point::{Runner, program};
use crate::record::{extension, kept};
use crate::{plan, run};
use doorbell_console::output::{print, text_of};
use doorbell_console::progress::Interrupt;
use doorbell_console::render::{json, of_this_schema};
use doorbell_console::{DONE, Error, MISSED, input};
use doorbell_study::point::Point;
use doorbell_study::rank::Ranked;
use doorbell_study::runs::same_capture;
use doorbell_study::sweep::{Row, Swept};
use doorbell_systems::result::Provenance;
use doorbell_systems::{Plan, Registry};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json as plain};
use std::path::{Path, PathBuf};

/// The most differences that are listed.
const LISTED: usize = 20;

pub(crate) fn repeat(registry: &'static Registry, args: &Repeat) -> Result<u8, Error> {
    let archives = args.file.iter().filter(|path| is_archive(path)).map(|path| opened(path));
    let archives = archives.collect::<Result<Vec<_>, _>>()?;
    let (mut all, mut archive) = (Vec::new(), archives.iter());
    for path in &args.file {
        let from = if is_archive(path) { archive.next() } else { None };
        let path = from.map_or(path.clone(), Opened::results);
        let inside = if path.is_dir() { kept::inside(&path)? } else { vec![path] };
        all.extend(inside.into_iter().map(|path| (path, from)));
    }
    let (records, results): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(p, _)| kept::FORMATS.contains(&extension(p)));
    // All are read first: a wrong one is known before anything has run.
    let results = results.iter().map(|(p, from)| Kept::read(registry, p, *from, args));
    let results = results.collect::<Result<Vec<_>, _>>()?;
    let kept = |(p, from): &(PathBuf, _)| records::Kept::read(registry, p, *from, args.sample);
    let records = records.iter().map(kept).collect::<Result<Vec<_>, _>>()?;
    let mut same = true;
    for kept in results {
        same &= kept.again()?;
    }
    for kept in records {
        same &= kept.again(|what| Runner::plain(what, args.jobs, args.quiet))?;
    }
    Ok(if same { DONE } else { MISSED })
}

/// Returns the places of a sample that is spread over so many rows, of this percentage of them.
fn sample(rows: usize, percent: f64) -> Vec<usize> {
    let wanted = (rows as f64 * percent / 100.0).ceil().max(1.0) as usize;
    (0..wanted.min(rows)).map(|i| i * rows / wanted).collect()
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

/// Returns the name of a result in messages: its path, or its file's name in an archive.
fn named(path: &Path, from: Option<&Opened>) -> String {
    let within = Path::new(path.file_name().unwrap_or_default());
    if from.is_some() { within } else { path }.display().to_string()
}

/// A result that was kept, and what makes it again.
struct Kept<'a> {
    name: String,
    then: Value,
    /// The part of it that is compared, in words.
    of: String,
    now: Box<dyn FnOnce() -> Result<Value, Error> + 'a>,
}

impl<'a> Kept<'a> {
    /// Reads a result; `-` is stdin.
    fn read(
        registry: &'a Registry,
        path: &Path,
        from: Option<&Opened>,
        args: &'a Repeat,
    ) -> Result<Kept<'a>, Error> {
        let name = named(path, from);
        let text = text_of(&name, path)?;
        let mut then: Value =
            serde_json::from_str(&text).map_err(|e| input!("{name}: it is not JSON: {e}"))?;
        of_this_schema(&name, &then)?;
        if let Some(archive) = from {
            archive.relocate(&mut then);
        }
        match then["kind"].as_str() {
            Some("run") => Kept::run(registry, name, then, args),
            Some("sweep") => Kept::sweep(registry, name, then, args),
            Some("rank") => Kept::rank(registry, name, then, args),
            Some("advise") => Kept::advise(registry, name, then, args),
            _ => Err(input!(
                "{name}: it is no result of `run`, `sweep`, `rank` or `advise`\n  of `point`, \
                 .parquet, .ndjson and .csv files of --out can be repeated"
            )),
        }
    }

    fn run(
        registry: &'a Registry,
        name: String,
        then: Value,
        args: &'a Repeat,
    ) -> Result<Kept<'a>, Error> {
        let of: Provenance = parsed(&name, &then)?;
        let plan = registry.again(&name, &of)?;
        same(&name, &plan, &of)?;
        let [limits, registers] = ["limit", "registers"].map(|name| then.get(name).is_some());
        let now = move || {
            let (observed, all) =
                (Observed { registers, ..Observed::default() }, Interrupt::ignored());
            let mut result = plan::execute_with(&plan, observed, &all, args.quiet)?;
            if limits {
                run::find_limit(&plan, &mut result, &all)?;
            }
            result.of.profile_sha256 = of.profile_sha256;
            Ok(value("run", &result))
        };
        Ok(Kept { name, then, of: "result".to_owned(), now: Box::new(now) })
    }

    /// Repeats rows of a sweep, or a sample of them.
    fn sweep(
        registry: &Registry,
        name: String,
        mut then: Value,
        args: &'a Repeat,
    ) -> Result<Kept<'a>, Error> {
        let swept: Swept = parsed(&name, &then)?;
        let all = swept.rows.len();
        let chosen = sample(all, args.sample);
        let rows: Vec<Row> = chosen.iter().map(|i| swept.rows[*i].clone()).collect();
        let points = swept.points(registry, &program(), &name, &rows)?;
        let Some(first) = points.first().map(|p| p.plan.capture().map(str::to_owned)) else {
            return Err(input!("{name}: there is no row in it"));
        };
        // The origin has the hash of one capture. Of others no hash is known.
        let point = |point: Point| match point.plan.capture() == first.as_deref() {
            true => same(&name, &point.plan, &swept.of).map(|()| point),
            false => plan::sha256(&point.plan).map(|now| point.on(now)),
        };
        let points = points.into_iter().map(point).collect::<Result<Vec<_>, _>>()?;
        let of = match rows.len() {
            some if some < all => format!("{some} of {all} rows"),
            _ => "result".to_owned(),
        };
        // Rows have their places in the whole.
        let keyed = move |rows: &[Row]| -> Value {
            chosen.iter().zip(rows).map(|(i, row)| (i.to_string(), plain!(row))).collect()
        };
        then["rows"] = keyed(&rows);
        let runner = Runner::plain(&name, args.jobs, args.quiet);
        let now = move || {
            let outcomes = runner.run(&points)?;
            let lose_frames = match rows.len() == all {
                true => outcomes.iter().filter(|o| o.loses_frames()).count(),
                false => swept.lose_frames,
            };
            let rows = swept.again(&rows, &points, &outcomes)?;
            let kept = keyed(&rows);
            let mut now = value("sweep", &Swept { rows: Vec::new(), lose_frames, ..swept });
            now["rows"] = kept;
            Ok(now)
        };
        Ok(Kept { name, then, of, now: Box::new(now) })
    }

    fn rank(
        registry: &Registry,
        name: String,
        then: Value,
        args: &'a Repeat,
    ) -> Result<Kept<'a>, Error> {
        let ranked: Ranked = parsed(&name, &then)?;
        let scenarios: Vec<String> = ranked.of.iter().map(|of| of.scenario.clone()).collect();
        let show = ranked.shown();
        let plan = |scenario: &str, sets: &_| ranked.plan(registry, &name, scenario, sets);
        let plans = ranked.contest(&scenarios, &show)?.plans(plan)?;
        if plans.is_empty() {
            return Err(input!("{name}: there is no scenario or no side in it"));
        }
        for (plans, of) in plans.chunks(plans.len() / scenarios.len()).zip(&ranked.of) {
            same(&name, &plans[0], of)?;
        }
        let runner = Runner::plain(&name, args.jobs, args.quiet);
        let now = move || {
            let contest = ranked.contest(&scenarios, &show)?;
            let mut now = contest.rank(&runner, &plans, &contest.shown(&plans)?)?;
            for (now, then) in now.of.iter_mut().zip(&ranked.of) {
                now.profile_sha256.clone_from(&then.profile_sha256);
            }
            Ok(value("rank", &now))
        };
        Ok(Kept { name, then, of: "result".to_owned(), now: Box::new(now) })
    }

    fn advise(
        registry: &Registry,
        name: String,
        then: Value,
        args: &'a Repeat,
    ) -> Result<Kept<'a>, Error> {
        let asked = Asked::again(registry, &name, &then)?;
        let of: Provenance = parsed(&name, &then["of"])?;
        same(&name, asked.plan(), &of)?;
        let now = move || {
            let advice = asked.answer(args.quiet)?;
            let mut now = value("advise", &asked.data(&advice)?);
            now["of"]["profile_sha256"] = of.profile_sha256.into();
            Ok(now)
        };
        Ok(Kept { name, then, of: "result".to_owned(), now: Box::new(now) })
    }

    /// Runs it again, and says what differs. Returns whether it is the same.
    fn again(self) -> Result<bool, Error> {
        let now = (self.now)()?;
        let mut found = Vec::new();
        differences("", &self.then, &now, &mut found);
        let (tool, rest): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|d| d.starts_with("doorbell."));
        verdict(&self.name, &self.of, &tool, &rest)
    }
}

/// Reads a part of a result.
fn parsed<T: DeserializeOwned>(name: &str, value: &Value) -> Result<T, Error> {
    T::deserialize(value).map_err(|e| input!("{name}: {e}"))
}

/// Returns a result as it is read from a file.
fn value(kind: &str, data: &impl Serialize) -> Value {
    serde_json::from_str(&json(kind, data)).unwrap_or_default()
}

/// Refuses a plan whose capture is not that of its origin.
fn same(name: &str, plan: &Plan, of: &Provenance) -> Result<(), Error> {
    Ok(same_capture(name, plan::sha256(plan)?.as_deref(), of.capture_sha256.as_deref())?)
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
