//! `doorbell reproduce`: the published figures, then each system's bill before and after.
//!
//! Systems are measured in parallel, with a bar of progress each; so are their headlines. With
//! `--out` there are more runs (curves, series, latencies), and a page shows all of it.

use crate::args::{Format, Reproduce};
use crate::headline::{self, Sides};
use crate::output::{Folder, print};
use crate::progress::Progress;
use crate::{DONE, Error, MISSED, report};
use doorbell_lab::figures::{self, Doing, Given, Options, SetError, Setting, System, Verdict};
use doorbell_lab::key::{Value, parse_setting};
use doorbell_lab::rig::RIGS;

pub(crate) fn reproduce(args: &Reproduce) -> Result<u8, Error> {
    let mut systems = chosen(doorbell_lab::systems()?, &args.systems)?;
    let set = args.sets.iter().map(|s| setting(s)).collect::<Result<Vec<_>, _>>()?;
    let options = Options { swap: args.swap, sensitivity: args.sensitivity, set };
    let folder = args.out.as_deref().map(Folder::open).transpose()?;
    let lines = Progress::lines(systems.iter().map(|s| s.name()), args.quiet);
    let names: Vec<String> = systems.iter().map(|s| s.name().to_owned()).collect();
    let found = figures::reproduce(&mut systems, &options, &mut |p| {
        let Some(line) = names.iter().position(|n| n == p.system).and_then(|at| lines.get(at))
        else {
            return;
        };
        line.doing(p.to_string());
        match p.doing {
            Doing::Row { done, total, .. }
            | Doing::Combination { done, total }
            | Doing::Sensitivity { done, total, .. } => {
                line.at(done as u64, total as u64);
            }
            Doing::Fit { .. } => {}
        }
    });
    let found = found.map_err(|e| Error::input(e.to_string()))?;
    let sides = if folder.is_some() || args.format == Format::Table {
        headlines(&systems, &lines, &options.set, folder.is_some())?
    } else {
        systems.iter().map(|_| None).collect()
    };
    drop(lines);

    if let Some(folder) = folder {
        let data = report::of_reproduction(&found, &sides);
        let page = report::page(&data);
        folder.write(&[("reproduce.json", &report::pretty(&data)), (report::PAGE, &page)])?;
    }
    print(&match args.format {
        Format::Json => found.to_json() + "\n",
        Format::Table => {
            let bills = names
                .iter()
                .zip(&sides)
                .filter_map(|(name, sides)| Some(sides.as_ref()?.table(name)));
            found.to_table() + &bills.collect::<String>()
        }
    })?;
    if let Some(why) = sides.iter().flatten().find_map(Sides::unsound) {
        return Err(Error { code: MISSED, what: why });
    }
    // A miss that is listed with its explanation is a finding, and is printed as a miss; any other
    // is a failure.
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

/// Each system's headline, if it has one, all at once.
fn headlines(
    systems: &[Box<dyn System>],
    lines: &[Progress],
    set: &[Setting],
    all: bool,
) -> Result<Vec<Option<Sides>>, Error> {
    let headlines: Vec<_> = systems.iter().map(|s| (s.name(), s.headline())).collect();
    std::thread::scope(|threads| {
        let begin = |((name, headline), line): (&(&str, Option<figures::Headline>), _)| {
            let (what, headline) = (format!("{name}: before and after"), *headline);
            threads.spawn(move || {
                let line: &Progress = line;
                line.doing(what);
                headline.map(|h| headline::run(h, set, all, line)).transpose()
            })
        };
        let runs: Vec<_> = headlines.iter().zip(lines).map(begin).collect();
        runs.into_iter()
            .map(|r| r.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// One `--set`: in any unit that fits where the constant or choice is a key of a system, else a
/// bare number.
fn setting(text: &str) -> Result<Setting, Error> {
    let keys = RIGS.iter().flat_map(|r| r.keys()).collect::<Vec<_>>();
    let name = text.split('=').next().unwrap_or("").trim();
    if keys.iter().any(|k| k.name == name) {
        let (key, value) = parse_setting(&keys, text)?;
        let value = match value {
            Value::Number(number) => Given::Number(number),
            word => Given::Word(word.to_string()),
        };
        return Ok(Setting { key: key.name.to_owned(), value });
    }
    text.parse().map_err(|e: SetError| Error::input(e.to_string()))
}

/// The systems named, in that order; all, if none is.
fn chosen(mut all: Vec<Box<dyn System>>, names: &[String]) -> Result<Vec<Box<dyn System>>, Error> {
    let there = all.iter().map(|s| s.name().to_owned()).collect::<Vec<_>>();
    if there.is_empty() {
        return Err(Error::input("no system has published figures yet"));
    }
    if names.is_empty() {
        return Ok(all);
    }
    let mut chosen = Vec::new();
    for name in names {
        match all.iter().position(|s| s.name() == name) {
            Some(at) => chosen.push(all.remove(at)),
            // Named twice is meant once.
            None if there.contains(name) => {}
            None => {
                let what = format!("no system is called `{name}`; there are: {}", there.join(", "));
                return Err(Error::input(what));
            }
        }
    }
    Ok(chosen)
}
