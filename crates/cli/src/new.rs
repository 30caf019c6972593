//! `doorbell new` and `doorbell schema`: to write a file of one's own.

use crate::args::{Changes, New, Written};
use crate::output::{begun_beside, print, told};
use crate::{DONE, Error, MISSED, check, plan};
use doorbell_lab::result::{Group, RunResult, rounded};
use doorbell_lab::{Profile, schema as schemas, start};
use std::io;
use std::path::Path;

pub(crate) fn new(args: &New) -> Result<u8, Error> {
    let (file, text) = match args {
        New::Scenario { file, on } => {
            let profile = Profile::load(on)?;
            (
                file,
                start::scenario(
                    profile.rig,
                    &name(file.as_deref(), "my-scenario")?,
                    &beside(file.as_deref(), on),
                ),
            )
        }
        New::Budget { file, of } => {
            name(file.as_deref(), "")?;
            let of = beside(file.as_deref(), of);
            let plan = plan::plan(&of, &Changes::default())?;
            (file, budget(&of, &plan::execute(&plan, true)?)?)
        }
        New::Profile { file, from } => {
            let from = Profile::load(from)?;
            (file, start::profile(&from, &name(file.as_deref(), "my-profile")?))
        }
    };
    match file {
        None => print(&text)?,
        Some(path) => write(path, &text)?,
    }
    Ok(DONE)
}

pub(crate) fn schema(what: Written) -> Result<u8, Error> {
    let schema = match what {
        Written::Scenario => schemas::of_scenarios(),
        Written::Profile => schemas::of_profiles(),
        Written::Budget => check::schema(),
    };
    print(&format!("{schema:#}\n"))?;
    Ok(DONE)
}

/// What a file says of itself: its name without the ending, which has to be the one that is read as
/// a file.
fn name(file: Option<&Path>, otherwise: &str) -> Result<String, Error> {
    let Some(path) = file else { return Ok(otherwise.to_owned()) };
    let stem = path
        .file_stem()
        .and_then(|s| s.to_str())
        .filter(|_| path.extension().is_some_and(|e| e == "toml"));
    let wrong = || Error::input(format!("{}: the name has to end in .toml", path.display()));
    stem.map(str::to_owned).ok_or_else(wrong)
}

/// Every count of the crossings as it is now, and the cycles with a hundredth of room.
fn budget(of: &str, result: &RunResult) -> Result<String, Error> {
    let m = &result.measured;
    if let Some(why) = m.audit.first() {
        return Err(Error {
            code: MISSED,
            what: format!("{of}: the audit failed, so there is nothing to hold to: {why}"),
        });
    }
    let of = toml_edit::Value::from(of);
    let mut text = format!(
        "# A budget: doorbell check FILE ends with 1 where a packet costs anything else. A number alone is a ceiling;\n\
         # {{ min = N }}, {{ min = N, max = M }} and {{ exact = N }} are the other forms. After a change that was meant: --update.\n\
         scenario = {}\n\n[budget]\n",
        of.to_string().trim()
    );
    let each = m.per_packet();
    let of_packet = |name: &str| each.iter().find(|(n, _)| n == name).map_or(0.0, |(_, v)| *v);
    for c in m.counts.iter().filter(|c| [Group::Bus, Group::Cpu].contains(&c.group) && c.value > 0)
    {
        text += &format!(
            "# {}\n\"per_packet.{}\" = {{ exact = {} }}\n",
            c.about,
            c.name,
            of_packet(&c.name)
        );
    }
    let cycles = of_packet("cycles");
    if cycles > 0.0 {
        text += &format!(
            "# CPU time, by the profile's prices\n\"per_packet.cycles\" = {}\n",
            rounded(cycles * 1.01)
        );
    }
    Ok(text)
}

/// A path as the new file has to name it: from its own directory.
fn beside(file: Option<&Path>, given: &str) -> String {
    let elsewhere = file.and_then(Path::parent).is_some_and(|dir| !dir.as_os_str().is_empty());
    match std::path::absolute(given) {
        Ok(path) if elsewhere && given.ends_with(".toml") => path.display().to_string(),
        _ => given.to_owned(),
    }
}

/// All of it, or nothing; never over what is there.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let file = begun_beside(path, text).map_err(|e| told(path, &e))?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Err(Error::input(format!(
            "{}: it is there already, and is left as it is",
            path.display()
        ))),
        Err(e) => Err(told(path, &e.error)),
    }
}
