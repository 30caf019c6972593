//! `doorbell reproduce`: the published figures, then the cost of a packet before and after each
//! optimisation. A table is printed as soon as it and those before it are done, and its rows before
//! a sensitivity run is; JSON and records are printed as a whole. With `--out` there are more runs
//! (curves, series, latencies), and a page shows all of it.

use crate::summary::{self, Sides};
use crate::{args::Reproduce, report};
use doorbell_console::output::{Folder, print};
use doorbell_console::progress::{Interrupt, Progress};
use doorbell_console::render::{self, Format};
use doorbell_console::{DONE, Error, MISSED, failed, input};
use doorbell_spec::key::{Key, Value, parse_setting};
use doorbell_study::figures::{
    self, FigureSet, Given, JsonRow, Options, Refused, SetError, Setting, Stage, Verdict,
};
use doorbell_systems::Registry;
use doorbell_systems::published::Headline;
use doorbell_systems::system::System;
use schemars::JsonSchema;
use serde::Serialize;

/// Published figures beside those of a run, for programs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Reproduction<'a> {
    systems: &'a [String],
    set: &'a [String],
    rows: Vec<JsonRow<'a>>,
}

pub(crate) fn reproduce(registry: &'static Registry, args: &Reproduce) -> Result<u8, Error> {
    let systems = chosen(figures::open_all(registry)?, &args.systems)?;
    let set =
        args.sets.iter().map(|s| setting(registry, s, &systems)).collect::<Result<Vec<_>, _>>()?;
    let options = Options { swap: args.swap, sensitivity: args.sensitivity, set };
    let folder = args.out.as_deref().map(Folder::open).transpose()?;
    let lines = Progress::lines(systems.iter().map(|s| &*s.system), args.output.quiet);
    let interrupt = Interrupt::watched_for(folder.is_some())?;
    let names: Vec<String> = systems.iter().map(|s| s.system.clone()).collect();
    let mut progress = |p: figures::Progress<'_>| {
        let Some(line) = names.iter().position(|n| n == p.system).and_then(|at| lines.get(at))
        else {
            return true;
        };
        tell(line, &p);
        !interrupt.came()
    };
    let in_parts = !matches!(args.output.format, Format::Json | Format::Csv | Format::Ndjson);
    let mut printed = Ok(());
    let found = figures::reproduce(&systems, &options, &mut progress, &mut |part| {
        if in_parts && printed.is_ok() {
            printed = lines[0].aside(|| print(&part.to_table()));
        }
    });
    let found = found.map_err(|e| match e {
        Refused::Stopped => Error::Interrupted("nothing was written"),
        e => input!("{e}"),
    })?;
    printed?;
    let sides = if folder.is_some() || args.output.format == Format::Table {
        summaries(registry, &systems, &lines, &options.set, folder.is_some(), &interrupt)?
    } else {
        systems.iter().map(|_| None).collect()
    };
    drop(lines);

    if let Some(folder) = folder {
        let data = report::of_reproduction(&found, &sides);
        let page = report::page_of(&data);
        folder
            .write(&[("reproduce.json", &render::json("report", &data)), (report::PAGE, &page)])?;
    }
    let bills = || {
        let all = names.iter().zip(&sides);
        all.filter_map(|(name, sides)| Some(sides.as_ref()?.document(name).text()))
    };
    print(&match args.output.format {
        Format::Json => {
            let set = &args.sets;
            let rows = found.json_rows();
            render::json("reproduce", &Reproduction { systems: &names, set, rows })
        }
        format @ (Format::Csv | Format::Ndjson) => {
            render::records(format, &render::flat(found.json_rows()))
        }
        _ => found.closing() + &bills().collect::<String>(),
    })?;
    if let Some(why) = sides.iter().flatten().find_map(Sides::unsound) {
        return Err(failed!("{why}"));
    }
    // A miss with a listed explanation is a finding; any other is a failure.
    Ok(match found.verdict() {
        Verdict::AllHold => DONE,
        Verdict::Misses { unknown, broken, failed_fits, .. }
            if unknown.is_empty() && broken.is_empty() && failed_fits.is_empty() =>
        {
            DONE
        }
        Verdict::Misses { .. } => MISSED,
    })
}

/// Shows a stage of a study of rows.
pub(crate) fn tell(line: &Progress, p: &figures::Progress<'_>) {
    match p.doing {
        Stage::Run => return,
        Stage::Row { done, total, .. }
        | Stage::Combination { done, total }
        | Stage::Sensitivity { done, total, .. } => {
            line.at(done as u64, total as u64);
        }
        Stage::Fit { .. } => {}
    }
    line.doing(p.to_string());
}

/// Runs the summary of each system that has one, in parallel.
fn summaries(
    registry: &Registry,
    systems: &[FigureSet],
    lines: &[Progress],
    set: &[Setting],
    all: bool,
    interrupt: &Interrupt,
) -> Result<Vec<Option<Sides>>, Error> {
    let headlines: Vec<_> = systems.iter().map(|s| (&*s.system, s.headline)).collect();
    std::thread::scope(|threads| {
        let begin = |((name, headline), line): (&(&str, Option<Headline>), _)| {
            let (what, headline) = (format!("{name}: before and after"), *headline);
            threads.spawn(move || {
                let line: &Progress = line;
                line.doing(what);
                headline.map(|h| summary::run(registry, h, set, all, line, interrupt)).transpose()
            })
        };
        let runs: Vec<_> = headlines.iter().zip(lines).map(begin).collect();
        runs.into_iter()
            .map(|r| r.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Parses one `--set`: with a unit if the constant or choice is a key of one of these systems, or
/// of any system if of none of these; else a bare number.
fn setting(registry: &Registry, text: &str, systems: &[FigureSet]) -> Result<Setting, Error> {
    let name = text.split('=').next().unwrap_or("").trim();
    let has = |s: &&System| s.keys().iter().any(|k| k.name == name);
    let (ours, others): (Vec<_>, Vec<_>) = registry
        .systems
        .iter()
        .copied()
        .filter(has)
        .partition(|s| systems.iter().any(|c| c.system == s.name));
    let mut found: Vec<(&System, &Key, Value)> = Vec::new();
    for system in if ours.is_empty() { others } else { ours } {
        let (key, value) = parse_setting(&system.keys(), text)?;
        found.push((system, key, value));
    }
    let Some((system, key, value)) = found.first() else {
        return text.parse().map_err(|e: SetError| input!("{e}"));
    };
    if let Some((other, ..)) = found.iter().find(|(.., v)| v != value) {
        return Err(input!(
            "--set {text}: `{name}` has another unit for {} than for {}; name the systems that it \
             is for",
            other.name,
            system.name
        ));
    }
    let value = match value {
        Value::Number(number) => Given::Number(*number),
        word => Given::Word(word.to_string()),
    };
    Ok(Setting { key: key.name.to_owned(), value })
}

/// Returns the named systems in that order, or all.
fn chosen(mut all: Vec<FigureSet>, names: &[String]) -> Result<Vec<FigureSet>, Error> {
    let there = all.iter().map(|s| s.system.clone()).collect::<Vec<_>>();
    if there.is_empty() {
        return Err(input!("no system has published figures yet"));
    }
    if names.is_empty() {
        return Ok(all);
    }
    let mut chosen = Vec::new();
    for name in names {
        match all.iter().position(|s| s.system == *name) {
            Some(at) => chosen.push(all.remove(at)),
            // A name may be repeated.
            None if there.contains(name) => {}
            None => {
                return Err(input!(
                    "no published figures are called `{name}`; there are: {}",
                    there.join(", ")
                ));
            }
        }
    }
    Ok(chosen)
}
