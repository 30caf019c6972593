//! `doorbell list`.

use crate::args::List;
use doorbell_console::render::{Format, flat, json, records};
use doorbell_console::{DONE, Error, input, output::print};
use doorbell_guest::Workload;
use doorbell_systems::Registry;
use doorbell_systems::Scenario;
use doorbell_systems::metrics::Metric;
use doorbell_systems::system::System;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
pub(crate) struct All {
    systems: Vec<&'static str>,
    scenarios: Vec<Named>,
    profiles: Vec<String>,
    devices: Vec<&'static str>,
    /// With `--keys`.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<Vec<Setting>>,
    /// With `--metrics`: the numbers of a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Vec<Number>>,
    /// With `--workloads`: those of `guest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    workloads: Option<Vec<Load>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedLoad")]
struct Load {
    workload: String,
    about: String,
    variables: Vec<LoadVariable>,
}

#[derive(Serialize, JsonSchema)]
struct LoadVariable {
    name: String,
    default: String,
    about: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedNamed")]
struct Named {
    name: String,
    system: &'static str,
    profile: String,
    about: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedSetting")]
struct Setting {
    system: &'static str,
    key: &'static str,
    /// `scenario` or `profile`.
    of: &'static str,
    allowed: String,
    default: Option<&'static str>,
    /// Conditions under which it has an effect; left out where it always has.
    #[serde(skip_serializing_if = "String::is_empty")]
    needs: String,
    about: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedNumber")]
struct Number {
    system: &'static str,
    #[serde(flatten)]
    metric: Metric,
}

/// Keeps what has a word in its name or description, in any case.
///
/// # Errors
/// Nothing has it.
fn with_word<T>(all: Vec<T>, word: &str, texts: impl Fn(&T) -> [&str; 2]) -> Result<Vec<T>, Error> {
    let low = word.to_lowercase();
    let has = |t: &T| texts(t).iter().any(|text| text.to_lowercase().contains(&low));
    let found: Vec<T> = all.into_iter().filter(has).collect();
    match found.is_empty() {
        true => Err(input!("nothing has `{word}` in its name or description")),
        false => Ok(found),
    }
}

pub(crate) fn list(registry: &'static Registry, args: &List) -> Result<u8, Error> {
    let of = match &args.system {
        None => registry.systems.to_vec(),
        Some(name) => vec![registry.system(name).map_err(|e| input!("{e}"))?],
    };
    let place = |system: &System| of.iter().position(|s| *s == system);
    let mut scenarios = registry
        .scenario_names()
        .map(|name| registry.scenario(name))
        .collect::<Result<Vec<_>, _>>()?;
    scenarios.retain(|s| place(s.system).is_some());
    scenarios.sort_by_key(|s| place(s.system));
    let mut profiles = registry
        .profile_names()
        .map(|name| registry.profile(name))
        .collect::<Result<Vec<_>, _>>()?;
    profiles.retain(|p| place(p.system).is_some());
    profiles.sort_by_key(|p| place(p.system));
    let devices = of.iter().flat_map(|r| r.devices.iter().map(|d| (*d, r.name)));
    let word = args.word.as_deref().unwrap_or_default();
    let keys = || with_word(settings(&of).collect(), word, |s: &Setting| [s.key, s.about]);
    let numbers = || {
        let each = |s: &&'static System| {
            let system = s.name;
            s.metrics().iter().map(move |metric| Number { system, metric: *metric })
        };
        let all: Vec<Number> = of.iter().flat_map(each).collect();
        with_word(all, word, |n| [n.metric.name, n.metric.about])
    };
    let named = |s: Scenario| {
        let Scenario { name, profile, about, .. } = s;
        Named { name, system: s.system.name, profile, about }
    };
    let format = args.output.format;
    print(&if format == Format::Json {
        json(
            "list",
            &All {
                systems: of.iter().map(|r| r.name).collect(),
                scenarios: scenarios.into_iter().map(named).collect(),
                profiles: profiles.into_iter().map(|p| p.name).collect(),
                devices: devices.map(|d| d.0).collect(),
                keys: args.keys.then(keys).transpose()?,
                metrics: args.metrics.then(numbers).transpose()?,
                workloads: args.workloads.then(|| loads().collect()),
            },
        )
    } else if args.workloads {
        if format == Format::Table { described(loads()) } else { records(format, &flat(loads())) }
    } else if args.keys {
        let keys = keys()?;
        if format == Format::Table { shown(&keys) } else { records(format, &flat(keys)) }
    } else if args.metrics {
        let numbers = numbers()?;
        if format == Format::Table { counted(&numbers) } else { records(format, &flat(numbers)) }
    } else if format != Format::Table {
        records(format, &flat(scenarios.into_iter().map(named)))
    } else {
        let row = |name: &str, about: &str| format!(" {name:<22} {about}\n");
        heading("systems")
            + &of.iter().map(|r| row(r.name, r.about)).collect::<String>()
            + &heading("scenarios")
            + &scenarios.iter().map(|s| row(&s.name, &s.about)).collect::<String>()
            + &heading("profiles")
            + &profiles.iter().map(|p| row(&p.name, &p.about)).collect::<String>()
            + &heading("devices")
            + &devices.map(|(name, of)| row(name, &format!("of {of}"))).collect::<String>()
    })?;
    Ok(DONE)
}

/// Returns the workloads of `guest`.
fn loads() -> impl Iterator<Item = Load> {
    let variable = |v: doorbell_guest::Variable| LoadVariable {
        name: v.name,
        default: v.default,
        about: v.about,
    };
    Workload::built_in().map(move |w| Load {
        workload: w.name,
        about: w.about,
        variables: w.variables.into_iter().map(variable).collect(),
    })
}

/// Renders each workload with its variables.
fn described(loads: impl Iterator<Item = Load>) -> String {
    let mut text = heading("workloads");
    for load in loads {
        text += &format!(" {:<22} {}\n", load.workload, load.about);
        for v in load.variables {
            text += &format!("   {:<20} {}\n", format!("{}={}", v.name, v.default), v.about);
        }
    }
    text
}

fn heading(title: &str) -> String {
    format!("\n {title}\n {}\n", "─".repeat(title.len()))
}

/// Returns the keys of systems.
fn settings(of: &[&'static System]) -> impl Iterator<Item = Setting> {
    let each = |keys: Vec<&'static doorbell_spec::key::Key>, of, system: &'static System| {
        let all = system.keys();
        keys.into_iter().map(move |k| Setting {
            system: system.name,
            key: k.name,
            of,
            allowed: k.allowed(),
            default: k.default.filter(|d| !d.is_empty()),
            needs: k.conditions(&all),
            about: k.about,
        })
    };
    of.iter().flat_map(move |r| {
        each(r.scenario(), "scenario", r).chain(each(r.platform(), "profile", r))
    })
}

/// Renders two lines a key, with a third for its conditions.
fn shown(keys: &[Setting]) -> String {
    let (mut text, mut section) = (String::new(), ("", ""));
    for k in keys {
        if section != (k.system, k.of) {
            section = (k.system, k.of);
            text += &heading(&format!("{}: keys of a {}", k.system, k.of));
        }
        let default = k.default.map_or(String::new(), |d| format!(" (default {d})"));
        text += &format!(" {:<25} {}\n {:25} {}{default}\n", k.key, k.about, "", k.allowed);
        if !k.needs.is_empty() {
            text += &format!(" {:25} where {}\n", "", k.needs);
        }
    }
    text
}

/// Renders two lines a metric.
fn counted(numbers: &[Number]) -> String {
    let (mut text, mut section) = (String::new(), "");
    for Number { system, metric: m } in numbers {
        if section != *system {
            section = system;
            text += &heading(&format!("{system}: metrics"));
        }
        let unit = match m.unit.name() {
            "" => "counted".to_owned(),
            unit => format!("{unit}, counted"),
        };
        text += &format!(" {:<33} {}\n {:33} {unit} {}\n", m.name, m.about, "", m.counted);
    }
    text
}
