use super::*;
use crate::system::SYSTEMS;
use crate::{Scenario, profile as profiles, scenario as scenarios};

fn a_profile(system: &System) -> Profile {
    let mut all = profiles::builtin().map(|name| Profile::load(name).unwrap());
    all.find(|p| p.system.name == system.name).expect("each system has one")
}

#[test]
fn a_started_scenario_is_the_defaults_and_every_comment_is_understood() {
    for system in SYSTEMS {
        let profile = a_profile(system);
        let text = scenario(system, ("mine", "mine"), &profile.name, &[]);
        let plan =
            Scenario::parse("x.toml", &text).unwrap_or_else(|e| panic!("{e}")).plan().unwrap();
        assert_eq!(plan.values, profile.all_values(), "{}", system.name);
        let all: String = text
            .lines()
            .map(|l| {
                l.strip_prefix("# ")
                    .filter(|l| l.contains(" = ") && !l.contains(". ") && !l.contains('`'))
                    .unwrap_or(l)
            })
            .map(|l| format!("{l}\n"))
            .collect();
        let set = Scenario::parse("x.toml", &all).unwrap_or_else(|e| panic!("{e}\n{all}"));
        assert_eq!(set.settings.len(), system.scenario().len(), "{}", system.name);
        for (key, value) in set.settings {
            assert_eq!(*plan.values.get(key.name), value, "{}", key.name);
        }
    }
}

#[test]
fn a_scenario_that_is_begun_as_another_runs_the_same() {
    for name in scenarios::builtin() {
        let from = Scenario::load(name).unwrap();
        let text = scenario(from.system, (name, &from.about), &from.profile, &from.settings);
        let mine = Scenario::parse("x.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!((&mine.name, &mine.about), (&from.name, &from.about));
        assert_eq!(mine.plan().unwrap().values, from.plan().unwrap().values, "{name}");
    }
}

#[test]
fn a_started_profile_is_the_one_it_began_as() {
    for name in profiles::builtin() {
        let from = Profile::load(name).unwrap();
        let text = profile(&from, "mine \"quoted\"");
        let mine = Profile::parse("x.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(mine.values, from.values);
        assert_eq!(mine.name, "mine \"quoted\"");
        for key in from.system.platform() {
            assert_eq!(mine.source(key.name), from.source(key.name), "{}", key.name);
        }
    }
}
