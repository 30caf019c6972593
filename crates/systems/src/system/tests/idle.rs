//! Checks that a key declared without effect has none on any result of a run.

use crate::DOORBELL;
use crate::key::Key;
use crate::profile::Profile;
use crate::result::Measured;
use crate::templates;
use crate::tests::others;
use crate::{Plan, Unwatched};
use doorbell_hal::Span;
use doorbell_sim::traffic::Frames;
use std::sync::Arc;

/// Loads of every kind on every bus, each a few milliseconds long.
fn plans() -> Vec<Plan> {
    let mut all = Vec::new();
    let short = [
        "traffic.packets=200",
        "traffic.duration=2",
        "traffic.warmup=1",
        "paced.bursts=10",
        "run.cores=2",
        "pci.clock=66",
    ];
    for system in DOORBELL.systems {
        let of = |p: &Profile| p.system.name == system.name;
        let profile =
            DOORBELL.profile_names().map(|name| DOORBELL.profile(name).unwrap()).find(of).unwrap();
        let started = DOORBELL
            .parse_scenario("x", &templates::scenario(system, ("x", "x"), &profile.name, &[]))
            .unwrap()
            .plan(&DOORBELL)
            .unwrap();
        let kinds = system.keys().into_iter().find(|k| k.name == "traffic.kind").unwrap().words;
        let mut states: Vec<Vec<String>> =
            kinds.iter().map(|k| vec![format!("traffic.kind={k}")]).collect();
        // Other settings that decide which keys have an effect.
        for (name, words) in [
            ("bus.kind", &["pci", "pcix", "pcie"][..]),
            ("iommu.kind", &["tce"]),
            ("driver.mpwqe", &["off"]),
            ("traffic.pattern", &["poisson", "bursts", "steps", "on_off", "random"]),
            ("driver.controller", &["fixed", "classes"]),
            ("driver.transmit", &["copy"]),
            ("traffic.spread", &["on"]),
            ("traffic.times", &["own"]),
            ("paced.way", &["receive", "answer"]),
        ] {
            let more = |w| {
                kinds.iter().map(move |k| vec![format!("traffic.kind={k}"), format!("{name}={w}")])
            };
            states.extend(words.iter().flat_map(more));
        }
        for sets in states {
            let mut plan = started.clone();
            for s in short {
                // Not every system has all of them.
                let _ = plan.set(s);
            }
            plan.set.clear();
            let sets: Vec<crate::Setting> =
                sets.iter().map(|s| crate::Setting::given("", s)).collect();
            // A refused setting is no setup to check.
            if plan.layer(&sets).is_ok() {
                all.push(plan);
            }
        }
    }
    all
}

fn measured(plan: &Plan, frames: &Arc<Frames>) -> Option<Measured> {
    plan.system.run(&plan.values, Some(frames), &mut Unwatched).ok()
}

#[test]
fn a_key_without_effect_changes_nothing() {
    let mut frames = Frames::default();
    for i in 0..50u64 {
        frames.push(Span::from_us(20 * i), &vec![0x5a; 60 + 20 * i as usize]);
    }
    let frames = Arc::new(frames);
    let plans = plans();
    assert!(plans.len() > 40, "{}", plans.len());
    let (mut tried, mut wrong) = (0, Vec::new());
    for base in &plans {
        let before = measured(base, &frames).unwrap_or_else(|| panic!("{:?}", base.set));
        let idle = |key: &&Key| base.values.idle(key).is_some() && key.name != "traffic.file";
        let other = |key: &'static Key| {
            let allowed = others(key).into_iter().rev().find(|text| key.parse(text).is_ok())?;
            Some(format!("{}={allowed}", key.name))
        };
        let others: Vec<String> =
            base.values.keys().into_iter().filter(idle).filter_map(other).collect();
        let after = |sets: &[String]| {
            let mut plan = base.clone();
            sets.iter().for_each(|s| plan.set(s).unwrap_or_else(|e| panic!("{e}")));
            measured(&plan, &frames)
        };
        tried += others.len();
        // All keys at once. If the result differs or is refused, one by one.
        if after(&others).as_ref() != Some(&before) {
            let moves = |s: &&String| after(std::slice::from_ref(*s)).is_none_or(|m| m != before);
            wrong.extend(
                others
                    .iter()
                    .filter(moves)
                    .map(|s| format!("{} {:?}: {s}", base.system.name, base.set)),
            );
        }
    }
    assert!(tried > 500, "{tried}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
