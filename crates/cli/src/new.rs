//! `doorbell new`: files and crates to start from.

mod package;

use crate::args::{Changes, New};
use crate::plan;
use doorbell_console::output::{begun_beside, print};
use doorbell_console::{DONE, Error, failed, input};
use doorbell_spec::key::{Kind, Value};
use doorbell_systems::Registry;
use doorbell_systems::result::{Group, RunResult, rounded};

use doorbell_systems::templates;
use std::{io, path::Path};

/// The profile of a scenario that is begun without one.
const PROFILE: &str = "mlx5-gen3";

pub(crate) fn new(registry: &'static Registry, args: &New) -> Result<u8, Error> {
    let (file, text) = match args {
        New::Scenario { file, on, from } => {
            let from = from.as_ref().map(|from| registry.scenario(from)).transpose()?;
            let on = on.as_deref().or(from.as_ref().map(|s| &*s.profile)).unwrap_or(PROFILE);
            let profile = registry.profile(on)?;
            if let Some(scenario) = &from {
                scenario.plan_on(&profile)?;
            }
            let name = name(file.as_deref(), "my-scenario")?;
            let about = from.as_ref().map_or("one line of what it shows", |s| &*s.about);
            let mut settings = from.as_ref().map_or_else(Vec::new, |s| s.settings.clone());
            for (key, value) in &mut settings {
                if let (Kind::File, Value::Text(path)) = (key.kind, value) {
                    *path = elsewhere(file.as_deref(), path);
                }
            }
            let on = beside(file.as_deref(), on);
            (file, templates::scenario(profile.system, (&name, about), &on, &settings))
        }
        New::Budget { file, of, .. } => {
            name(file.as_deref(), "")?;
            let of = beside(file.as_deref(), of);
            let plan = plan::plan(registry, &of, &Changes::default())?;
            (file, budget(&of, &plan::execute(&plan, true)?)?)
        }
        New::Measurements { file, of } => {
            let name = name(file.as_deref(), "my-measurements")?;
            let of = beside(file.as_deref(), of);
            let on = beside(file.as_deref(), &registry.scenario(&of)?.profile);
            let plan = plan::plan(registry, &of, &Changes::default())?;
            let measured = plan::execute(&plan, true)?.measured;
            (file, templates::measurements(&name, (&of, &on), plan.system, &measured))
        }
        New::Profile { file, from } => {
            let from = registry.profile(from)?;
            (file, templates::profile(&from, &name(file.as_deref(), "my-profile")?))
        }
        New::Driver { dir, card, doorbell } => {
            package::driver(dir, *card, doorbell.as_deref())?;
            return Ok(DONE);
        }
        New::Device { dir, doorbell } => {
            package::device(dir, doorbell.as_deref())?;
            return Ok(DONE);
        }
        New::Header { file } => (file, doorbell_c_driver::HEADER.to_owned()),
        New::Plugin { file } => {
            write(file, doorbell_guest::PLUGIN)?;
            return Ok(DONE);
        }
    };
    match file {
        None => print(&text)?,
        Some(path) => write(path, text.as_bytes())?,
    }
    Ok(DONE)
}

/// Returns the name of a file without `.toml`, which it must end in.
pub(crate) fn name(file: Option<&Path>, otherwise: &str) -> Result<String, Error> {
    let Some(path) = file else { return Ok(otherwise.to_owned()) };
    let is_toml = path.extension().is_some_and(|e| e == "toml");
    let stem = path.file_stem().and_then(|s| s.to_str()).filter(|_| is_toml);
    let stem = stem.ok_or_else(|| input!("{}: the name has to end in .toml", path.display()))?;
    Ok(stem.to_owned())
}

/// Renders a budget of every count of the crossings, and of the cycles with 1 % of room.
fn budget(of: &str, result: &RunResult) -> Result<String, Error> {
    let m = &result.measured;
    if let Some(why) = m.verdict.audit.first() {
        return Err(failed!("{of}: the audit failed, so there are no numbers to keep: {why}"));
    }
    let of = toml_edit::Value::from(of);
    let mut text = format!(
        "# A budget: `doorbell check FILE` ends with 1 if a count of a packet is another, or if\n\
         # its cycles are over 1 % more.\n\
         # A number alone is a ceiling; the other forms are {{ min = N }}, {{ exact = N }} and\n\
         # {{ min = N, max = M }}. After an intended change: `doorbell check FILE --update`.\n\
         scenario = {}\n\n[budget]\n",
        of.to_string().trim()
    );
    let each = m.per_packet();
    let of_packet = |name: &str| each.iter().find(|(n, _)| n == name).map_or(0.0, |(_, v)| *v);
    for c in m.counts.iter().filter(|c| [Group::Bus, Group::Cpu].contains(&c.group) && c.value > 0)
    {
        let (about, name, n) = (c.about, &c.name, of_packet(&c.name));
        text += &format!("# {about}\n{name} = {{ exact = {n} }}\n");
    }
    let cycles = of_packet("cycles");
    if cycles > 0.0 {
        text +=
            &format!("# CPU time, by the profile's prices\ncycles = {}\n", rounded(cycles * 1.01));
    }
    Ok(text)
}

/// Returns what names a scenario or profile, as the new file has to name it.
fn beside(file: Option<&Path>, given: &str) -> String {
    if given.ends_with(".toml") { elsewhere(file, given) } else { given.to_owned() }
}

/// Returns a path as the new file has to name it, from its own directory.
fn elsewhere(file: Option<&Path>, given: &str) -> String {
    let moved = file.and_then(Path::parent).is_some_and(|dir| !dir.as_os_str().is_empty());
    match std::path::absolute(given) {
        Ok(path) if moved => path.display().to_string(),
        _ => given.to_owned(),
    }
}

/// Writes a new file as a whole or not at all.
fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    let file = begun_beside(path, content).map_err(Error::at(path.display()))?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(input!("{}: it exists already, and is left as it is", path.display()))
        }
        Err(e) => Err(Error::at(path.display())(e.error)),
    }
}
