//! Texts of scenarios, profiles and settings, whole and damaged.

use doorbell_hostile::settings::{Read, attack};
use doorbell_spec::key::in_unit;
use doorbell_systems::DOORBELL;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::RefCell;
use std::path::Path;

fn texts(folder: &str, names: impl Iterator<Item = &'static str>) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    names.map(|n| std::fs::read_to_string(root.join(format!("{n}.toml"))).unwrap()).collect()
}

fn add(sum: &mut Read, r: Read) {
    sum.scenarios += r.scenarios;
    sum.profiles += r.profiles;
    sum.settings += r.settings;
    sum.refused += r.refused;
}

#[test]
fn built_in_files_are_written_as_they_are() {
    let mut sum = Read::default();
    for text in texts("scenarios", DOORBELL.scenario_names()) {
        add(&mut sum, attack(&[&[0], text.as_bytes()].concat()));
    }
    for text in texts("profiles", DOORBELL.profile_names()) {
        add(&mut sum, attack(&[&[1], text.as_bytes()].concat()));
    }
    let (s, p) =
        (DOORBELL.scenario_names().count() as u64, DOORBELL.profile_names().count() as u64);
    assert_eq!(sum, Read { scenarios: s, profiles: p, ..Read::default() });
}

#[test]
fn damaged_files_are_refused_with_their_place() {
    let all = [
        texts("scenarios", DOORBELL.scenario_names())
            .into_iter()
            .map(|t| (0, t))
            .collect::<Vec<_>>(),
        texts("profiles", DOORBELL.profile_names()).into_iter().map(|t| (1, t)).collect(),
    ]
    .concat();
    let sum = RefCell::new(Read::default());
    let config = Config { cases: 400, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    let input = (any::<prop::sample::Index>(), damage);
    let ran = TestRunner::new_with_rng(config, rng).run(&input, |(which, damage)| {
        let (kind, text) = which.get(&all);
        let mut bytes = text.clone().into_bytes();
        for (at, with) in damage {
            let at = at.index(bytes.len());
            bytes[at] =
                if with & 1 == 0 { with >> 1 } else { bytes[usize::from(with) % bytes.len()] };
        }
        add(&mut sum.borrow_mut(), attack(&[&[*kind], &bytes[..]].concat()));
        Ok(())
    });
    ran.unwrap_or_else(|e| panic!("{e}"));
    let sum = sum.into_inner();
    println!("{sum:?}");
    assert!(sum.refused > 100 && sum.scenarios > 30 && sum.profiles > 5);
}

#[test]
fn settings_are_read_again_as_they_are_written() {
    let lines = "run.seed=0x1f\nrun.fault=lost-interrupt@3,late-completion@every=5:3ms\n\
                 run.watchdog=1.5ms\nrun.guard=byte\nrun.seed=1e400\nrun.seed=1_000\n\
                 no.key=1\nrun.seed";
    for kind in 2..8 {
        let read = attack(&[&[kind], lines.as_bytes()].concat());
        assert_eq!((read.settings, read.refused), (5, 3), "system {kind}");
    }
}

#[test]
fn keys_of_the_dictionary_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let text = std::fs::read_to_string(root.join("dictionaries/settings.dict")).unwrap();
    let words = text.lines().filter_map(|l| l.strip_prefix('"')?.strip_suffix('"'));
    let words = words.filter(|w| {
        w.contains('.') && w.bytes().all(|b| b.is_ascii_lowercase() || b"._".contains(&b))
    });
    let keys: Vec<_> = DOORBELL.systems.iter().flat_map(|s| s.keys()).map(|k| k.name).collect();
    let mut n = 0;
    for word in words {
        assert!(keys.contains(&word), "{word}: no key");
        n += 1;
    }
    assert!(n > 10, "{n} keys");
}

#[test]
fn a_long_number_is_read_once() {
    // Each start of it was tried, a copy of it each time: hours.
    let text = format!("1{}", "e1".repeat(2 << 20));
    assert!(in_unit(&text, "ns").is_err());
    assert_eq!(in_unit("12_5.5e-1us", "ns"), Ok(12_550.0));
    assert_eq!(in_unit("1.", "ns"), Ok(1.0));
    assert_eq!(in_unit("-.5us", "ns"), Ok(-500.0));
    assert_eq!(in_unit("3e", "e").map_err(|_| ()), Ok(3.0));
    assert!(in_unit("1e400", "").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_range_is_taken_for_another(
        text in "\\x09[0-9.]{1,6}[a-z]{0,2}\\.\\.[0-9.]{1,9}[a-z]{0,2}(:x?[0-9.]{1,5})?"
    ) {
        attack(text.as_bytes());
    }
}
