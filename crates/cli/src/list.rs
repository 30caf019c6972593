//! `doorbell list`: what there is.

use crate::args::{Format, List};
use crate::output::print;
use crate::{DONE, Error};
use doorbell_lab::rig::{RIGS, Rig};
use doorbell_lab::{Profile, Scenario, profile, scenario};
use serde::Serialize;

#[derive(Serialize)]
struct All {
    systems: Vec<&'static str>,
    scenarios: Vec<Named>,
    profiles: Vec<String>,
    devices: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<Vec<Setting>>,
}

#[derive(Serialize)]
struct Named {
    name: String,
    system: &'static str,
    profile: String,
    about: String,
}

#[derive(Serialize)]
struct Setting {
    system: &'static str,
    key: &'static str,
    of: &'static str,
    allowed: String,
    default: Option<&'static str>,
    /// Under which conditions it has an effect.
    #[serde(skip_serializing_if = "String::is_empty")]
    needs: String,
    about: &'static str,
}

pub(crate) fn list(args: &List) -> Result<u8, Error> {
    let scenarios = scenario::builtin().map(Scenario::load).collect::<Result<Vec<_>, _>>()?;
    let profiles = profile::builtin().map(Profile::load).collect::<Result<Vec<_>, _>>()?;
    print(&match args.format {
        Format::Json => {
            let all = All {
                systems: RIGS.iter().map(|r| r.name).collect(),
                scenarios: scenarios
                    .into_iter()
                    .map(|s| Named {
                        name: s.name,
                        system: s.rig.name,
                        profile: s.profile,
                        about: s.about,
                    })
                    .collect(),
                profiles: profiles.into_iter().map(|p| p.name).collect(),
                devices: RIGS.iter().flat_map(|r| r.devices).copied().collect(),
                keys: args.keys.then(settings),
            };
            serde_json::to_string_pretty(&all)
                .unwrap_or_else(|e| unreachable!("plain names serialise: {e}"))
                + "\n"
        }
        Format::Table if args.keys => keys(),
        Format::Table => {
            let mut text = String::new();
            let mut block = |title: &str, rows: Vec<(String, String)>| {
                text += &format!("\n {title}\n {}\n", "─".repeat(title.len()));
                for (name, about) in rows {
                    text += &format!(" {name:<22} {about}\n");
                }
            };
            block(
                "systems",
                RIGS.iter().map(|r| (r.name.to_owned(), r.about.to_owned())).collect(),
            );
            block("scenarios", scenarios.into_iter().map(|s| (s.name, s.about)).collect());
            block("profiles", profiles.into_iter().map(|p| (p.name, p.about)).collect());
            let devices = RIGS.iter().flat_map(|r| {
                r.devices.iter().map(|d| ((*d).to_owned(), format!("of {}", r.name)))
            });
            block("devices", devices.collect());
            text
        }
    })?;
    Ok(DONE)
}

fn settings() -> Vec<Setting> {
    let of = |keys: Vec<&'static doorbell_lab::key::Key>, of, rig: &'static Rig| {
        let all = rig.keys();
        keys.into_iter().map(move |k| Setting {
            system: rig.name,
            key: k.name,
            of,
            allowed: k.allowed(),
            default: k.default.filter(|d| !d.is_empty()),
            needs: k.conditions(&all),
            about: k.about,
        })
    };
    RIGS.iter()
        .flat_map(|r| of(r.scenario(), "scenario", r).chain(of(r.platform(), "profile", r)))
        .collect()
}

/// Two lines a key: what it is, and what may stand there. A third, if it has an effect under
/// conditions only.
fn keys() -> String {
    let mut text = String::new();
    let mut section = ("", "");
    for k in settings() {
        if section != (k.system, k.of) {
            section = (k.system, k.of);
            let title = format!("{}: keys of a {}", k.system, k.of);
            text += &format!("\n {title}\n {}\n", "─".repeat(title.len()));
        }
        let default = k.default.map_or(String::new(), |d| format!(" (default {d})"));
        text += &format!(" {:<25} {}\n {:25} {}{default}\n", k.key, k.about, "", k.allowed);
        if !k.needs.is_empty() {
            text += &format!(" {:25} where {}\n", "", k.needs);
        }
    }
    text
}
