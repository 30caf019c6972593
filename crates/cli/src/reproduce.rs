//! `doorbell reproduce`: the published figures.

use crate::args::{Format, Reproduce};
use crate::output::print;
use crate::progress::Progress;
use crate::{DONE, Error, MISSED};
use doorbell_lab::figures::{self, Doing, Options, SetError, Setting, System, Verdict};
use doorbell_lab::key::{Value, parse_setting};
use doorbell_lab::rig::RIGS;

pub(crate) fn reproduce(args: &Reproduce) -> Result<u8, Error> {
    let mut systems = chosen(doorbell_lab::systems()?, &args.systems)?;
    let set = args.sets.iter().map(|s| setting(s)).collect::<Result<Vec<_>, _>>()?;
    let options = Options { swap: args.swap, sensitivity: args.sensitivity, set };
    let progress = Progress::new("", args.quiet);
    let report = figures::reproduce(&mut systems, &options, &mut |p| {
        progress.doing(p.to_string());
        match p.doing {
            Doing::Row { done, total, .. } | Doing::Sensitivity { done, total, .. } => {
                progress.at(done as u64, total as u64);
            }
            Doing::Fit { .. } => {}
        }
    });
    drop(progress);
    let report = report.map_err(|e| Error::input(e.to_string()))?;
    print(&match args.format {
        Format::Json => report.to_json() + "\n",
        Format::Table => report.to_table(),
    })?;
    // A miss that is listed with its explanation is a finding, and is printed as a miss; any other is a failure.
    Ok(match report.verdict() {
        Verdict::AllHold => DONE,
        Verdict::Misses { unknown, failed_fits, .. } if unknown.is_empty() && failed_fits.is_empty() => DONE,
        Verdict::Misses { .. } => MISSED,
    })
}

/// One `--set`: in any unit that fits where the constant is a key of a profile, else a bare number.
fn setting(text: &str) -> Result<Setting, Error> {
    let keys = RIGS.iter().flat_map(|r| r.platform()).collect::<Vec<_>>();
    let name = text.split('=').next().unwrap_or("").trim();
    if keys.iter().any(|k| k.name == name) {
        return match parse_setting(&keys, text)? {
            (key, Value::Number(value)) => Ok(Setting { key: key.name.to_owned(), value }),
            (key, _) => {
                Err(Error::input(format!("--set {text}: `{}` chooses between models; it is no constant", key.name)))
            }
        };
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
