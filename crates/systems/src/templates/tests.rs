use super::*;
use crate::DOORBELL;

fn a_profile(system: &System) -> Profile {
    let mut all = DOORBELL.profile_names().map(|name| DOORBELL.profile(name).unwrap());
    all.find(|p| p.system.name == system.name).expect("each system has one")
}

#[test]
fn a_started_scenario_is_the_defaults_and_every_comment_is_understood() {
    for system in DOORBELL.systems {
        let profile = a_profile(system);
        let text = scenario(system, ("mine", "mine"), &profile.name, &[]);
        let plan = DOORBELL
            .parse_scenario("x.toml", &text)
            .unwrap_or_else(|e| panic!("{e}"))
            .plan(&DOORBELL)
            .unwrap();
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
        let set = DOORBELL.parse_scenario("x.toml", &all).unwrap_or_else(|e| panic!("{e}\n{all}"));
        assert_eq!(set.settings.len(), system.scenario().len(), "{}", system.name);
        for (key, value) in set.settings {
            assert_eq!(*plan.values.get(key.name), value, "{}", key.name);
        }
    }
}

#[test]
fn a_scenario_that_is_begun_as_another_runs_the_same() {
    for name in DOORBELL.scenario_names() {
        let from = DOORBELL.scenario(name).unwrap();
        let text = scenario(from.system, (name, &from.about), &from.profile, &from.settings);
        let mine =
            DOORBELL.parse_scenario("x.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!((&mine.name, &mine.about), (&from.name, &from.about));
        assert_eq!(
            mine.plan(&DOORBELL).unwrap().values,
            from.plan(&DOORBELL).unwrap().values,
            "{name}"
        );
    }
}

#[test]
fn a_started_profile_is_the_one_it_began_as() {
    for name in DOORBELL.profile_names() {
        let from = DOORBELL.profile(name).unwrap();
        let text = profile(&from, "mine \"quoted\"");
        let mine =
            DOORBELL.parse_profile("x.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(mine.values, from.values);
        assert_eq!(mine.name, "mine \"quoted\"");
        for key in from.system.platform() {
            assert_eq!(mine.source(key.name), from.source(key.name), "{}", key.name);
        }
    }
}
