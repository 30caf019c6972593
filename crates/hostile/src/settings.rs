//! Any text as a scenario, a profile, settings of a run, a budget, or a range: an error with its
//! place, or values that are written and read again without a change.

use crate::fuzz::Seed;
use doorbell_spec::InputError;
use doorbell_study::axis::range;
use doorbell_study::budget::{Budget, Served};
use doorbell_systems::DOORBELL;
use doorbell_systems::system::System;
use doorbell_systems::{Plan, Profile, Scenario, Setting, templates};

/// Counts of what the texts were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Scenarios that were accepted.
    pub scenarios: u64,
    /// Profiles that were accepted.
    pub profiles: u64,
    /// Settings that were accepted.
    pub settings: u64,
    /// Budgets that were accepted.
    pub budgets: u64,
    /// Values of ranges.
    pub values: u64,
    /// Texts that were refused.
    pub refused: u64,
}

/// The name of the file that the text is of.
const FILE: &str = "fuzz.toml";

/// Checks that an error names the line of a text, if it is about something that is there.
fn refused(text: &str, e: &InputError) {
    if e.place == FILE && e.what.contains("missing") {
        return;
    }
    let line = e.place.strip_prefix(FILE).and_then(|p| p.strip_prefix(':'));
    let line: usize = line.and_then(|l| l.parse().ok()).unwrap_or_else(|| panic!("{e}: no line"));
    assert!((1..=text.lines().count() + 1).contains(&line), "{e}");
    assert!(!e.what.is_empty());
}

fn of(system: &System) -> Profile {
    let mut all =
        DOORBELL.profile_names().map(|p| DOORBELL.profile(p).expect("a built-in profile"));
    all.find(|p| p.system.name == system.name).expect("each system has a profile")
}

fn scenario(text: &str) -> Read {
    let s = match DOORBELL.parse_scenario(FILE, text) {
        Ok(s) => s,
        Err(e) => {
            refused(text, &e);
            return Read { refused: 1, ..Read::default() };
        }
    };
    // The last of several values of a key holds.
    let plan = |s: &Scenario| s.plan_on(&of(s.system)).map(|p| p.values);
    let whole = (s.name.as_str(), s.about.as_str());
    let written = templates::scenario(s.system, whole, &s.profile, &s.settings);
    let again =
        DOORBELL.parse_scenario(FILE, &written).unwrap_or_else(|e| panic!("{e}\n{written}"));
    assert_eq!((&again.name, &again.about, &again.profile), (&s.name, &s.about, &s.profile));
    for (key, value) in &s.settings {
        let last = s.settings.iter().rfind(|(k, _)| k.name == key.name).map(|(_, v)| v);
        let found = again.settings.iter().rfind(|(k, _)| k.name == key.name).map(|(_, v)| v);
        assert_eq!(found, last, "{} = {value}", key.name);
    }
    if let Err(e) = plan(&s) {
        assert!(e.place.starts_with(FILE), "{e}");
    }
    Read { scenarios: 1, ..Read::default() }
}

fn profile(text: &str) -> Read {
    let p = match DOORBELL.parse_profile(FILE, text) {
        Ok(p) => p,
        Err(e) => {
            refused(text, &e);
            return Read { refused: 1, ..Read::default() };
        }
    };
    let written = templates::written(&p, "# Written again.\n");
    let again = DOORBELL.parse_profile(FILE, &written).unwrap_or_else(|e| panic!("{e}\n{written}"));
    assert_eq!((&again.name, &again.about), (&p.name, &p.about));
    assert_eq!(again.values, p.values, "{written}");
    for (key, _) in p.values.iter() {
        assert_eq!(again.source(key.name), p.source(key.name), "{}", key.name);
    }
    Read { profiles: 1, ..Read::default() }
}

/// Lays lines of `key=value` on a run of a system.
fn settings(system: &System, text: &str) -> Read {
    let mut read = Read::default();
    let base = templates::scenario(system, ("fuzz", "all defaults"), &of(system).name, &[]);
    let base = DOORBELL.parse_scenario(FILE, &base).unwrap_or_else(|e| panic!("{e}"));
    let mut plan: Plan = base.plan_on(&of(system)).expect("the defaults are a run");
    for line in text.lines() {
        let given = Setting::given("--set", line);
        let before = plan.values.clone();
        if let Err(e) = plan.layer(std::slice::from_ref(&given)) {
            assert!(e.place == given.place && !e.what.is_empty(), "{e}");
            read.refused += 1;
            plan.values = before;
            continue;
        }
        read.settings += 1;
        for (key, value) in plan.values.iter() {
            let again = key.parse(&value.to_string()).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(&again, value, "{}", key.name);
        }
    }
    read
}

/// Reads a budget, and what it measures.
fn budget(text: &str) -> Read {
    // The bodies of targets know no server: each device and each bus is one.
    let served = Served { device: &|_| Ok(()), bus: |_| Ok("a bus") };
    let read = Budget::parse(&DOORBELL, &served, FILE, text.to_owned());
    match read.and_then(|b| if b.is_of_a_run() { b.plan().map(drop) } else { Ok(()) }) {
        Ok(()) => Read { budgets: 1, ..Read::default() },
        Err(e) => {
            assert!(e.place.starts_with(FILE) && !e.what.is_empty(), "{e}");
            Read { refused: 1, ..Read::default() }
        }
    }
}

/// Reads a range. Its values rise, and are at most as many as allowed.
fn range(text: &str) -> Read {
    let Ok(all) = range::values(text) else { return Read { refused: 1, ..Read::default() } };
    if !text.contains("..") {
        assert_eq!(all, [text]);
        return Read::default();
    }
    let digits = |v: &String| v.trim_end_matches(|c: char| !c.is_ascii_digit()).to_owned();
    let numbers: Vec<f64> =
        all.iter().map(|v| digits(v).parse().unwrap_or_else(|_| panic!("{text}: {v}"))).collect();
    assert!(numbers.is_sorted(), "{text}: {all:?}");
    Read { values: all.len() as u64, ..Read::default() }
}

/// Reads a text of the kind that the first byte names.
///
/// # Panics
/// Panics if a text that was accepted is not the same when it is written and read again, or a text
/// that was refused has no place.
pub fn attack(bytes: &[u8]) -> Read {
    let Some((kind, text)) = bytes.split_first() else { return Read::default() };
    let text = String::from_utf8_lossy(text);
    match kind % 10 {
        0 => scenario(&text),
        1 => profile(&text),
        8 => budget(&text),
        9 => range(&text),
        n => settings(DOORBELL.systems[usize::from(n) % DOORBELL.systems.len()], &text),
    }
}

/// Returns scenarios, a short one and one with all keys, a profile, and settings, of which some are
/// refused.
///
/// # Panics
/// Panics if a built-in profile is missing.
pub fn seeds() -> Vec<Seed> {
    let make = |kind: u8, text: &str| [&[kind], text.as_bytes()].concat();
    let short = "name = \"a\"\nabout = \"b\"\nsystem = \"axienet\"\n\
                 profile = \"axienet-zynqmp\"\n\n[traffic]\nkind = \"receive\"\nbeside = 4\n\
                 window = \"256 KiB\"\nduration = \"200 ms\"\n\n[driver]\n\
                 controller = \"dim\"\n\n[run]\nseed = 7\n\
                 fault = \"late-completion@every=5:3ms\"\n";
    let system = DOORBELL.systems[1];
    let all = templates::scenario(system, ("fuzz", "all keys"), &of(system).name, &[]);
    let profile =
        templates::written(&of(DOORBELL.systems[DOORBELL.systems.len() - 1]), "# Written.\n");
    let budget = "device = \"e1000\"\n[budget]\nmmio_reads = 0.8\n";
    let given = "run.seed=0x1f\nrun.fault=lost-interrupt@3,late-completion@every=5:3ms\n\
                 run.watchdog=1.5ms\nrun.guard=byte\nrun.seed=1_000\n\
                 no.key=1\nrun.seed\nrun.seed=1e400\nrun.watchdog=3parsecs\n";
    vec![
        ("scenario", make(0, short)),
        ("scenario_all_keys", make(0, &all)),
        ("scenario_refused", make(0, &short.replace("200 ms", "200 KiB"))),
        ("profile", make(1, &profile)),
        ("settings", make(2, given)),
        ("budget", make(8, budget)),
        ("budget_refused", make(8, &budget.replace("0.8", "much"))),
        ("range", make(9, "64..1500:64")),
        ("range_of_times", make(9, "1us..64us:x4")),
    ]
}
