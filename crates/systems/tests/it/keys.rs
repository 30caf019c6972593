//! Every key at its ends, in every scenario: the run is refused, or its audit holds.
//!
//! A fixed part of them; all with `DOORBELL_KEYS=all`.

use doorbell_sim::Unwatched;
use doorbell_spec::key::{Key, Kind};
use doorbell_systems::DOORBELL;
use doorbell_systems::in_parallel;
use std::convert::Infallible;

/// Scenarios, and the settings that make them short.
const SCENARIOS: [(&str, &[&str]); 24] = [
    ("mlx5-single-stream", &["traffic.packets=3000"]),
    ("mlx5-full-rate", &["traffic.packets=3000", "run.cores=2"]),
    ("mlx5-send", TIMED),
    ("mlx5-transactions", TIMED),
    ("e1000-send", TIMED),
    ("e1000-receive", TIMED),
    ("e1000-pktgen", &["traffic.packets=3000"]),
    ("e1000-transactions", TIMED),
    ("axienet-receive", TIMED),
    ("axienet-bursts", TIMED),
    ("axienet-paced", PACED),
    ("axienet-random", TIMED),
    ("axienet-beside", TIMED),
    ("ibmveth-send", TIMED),
    ("ibmveth-receive-fraglist", TIMED),
    ("ibmveth-packets", &[]),
    ("ibmveth-transactions", TIMED),
    ("ibmveth-paced", PACED),
    ("ibmveth-arrivals", TIMED),
    ("ibmvnic-arrivals", TIMED),
    ("ibmvnic-transactions", TIMED),
    ("ibmvnic-bulk", TIMED),
    ("ibmvnic-paced", PACED),
    ("ibmvnic-adaptive", TIMED),
];

const TIMED: &[&str] = &["traffic.duration=2ms", "traffic.warmup=1ms"];
const PACED: &[&str] = &["paced.bursts=20"];

/// Keys whose greatest value only makes a run long.
const LONG: [&str; 5] =
    ["traffic.packets", "traffic.duration", "traffic.warmup", "paced.bursts", "paced.every"];

/// One in so many of all runs is part of every test.
const SAMPLE: usize = 23;

/// Returns the least and greatest values of a key, their neighbours, and its words.
fn ends(key: &Key) -> Vec<String> {
    let mut all: Vec<String> = key.words.iter().map(|w| (*w).to_owned()).collect();
    match key.kind {
        Kind::Number { min, max, step, .. } => {
            all.push(min.to_string());
            if !LONG.contains(&key.name) {
                all.push(max.to_string());
            }
            if step > 0.0 && max - min > 4.0 * step {
                all.push((min + step).to_string());
                if !LONG.contains(&key.name) {
                    all.push((max - step).to_string());
                }
            }
        }
        Kind::Among { values, .. } => all.extend(values.iter().map(f64::to_string)),
        Kind::Choice | Kind::File | Kind::Faults(_) | Kind::Mix => {}
    }
    all
}

#[test]
fn no_documented_value_fails_an_audit() {
    let is_whole = std::env::var("DOORBELL_KEYS").is_ok_and(|v| v == "all");
    let mut runs = Vec::new();
    for (scenario, short) in SCENARIOS {
        let plan = DOORBELL.plan(scenario).unwrap();
        for key in plan.system.keys() {
            runs.extend(
                ends(key).into_iter().map(|v| (scenario, short, format!("{}={v}", key.name))),
            );
        }
    }
    if !is_whole {
        runs = runs.into_iter().step_by(SAMPLE).collect();
    }
    let run = |_: usize, (scenario, short, set): &(&str, &[&str], String)| {
        let mut plan = DOORBELL.plan(scenario).unwrap();
        short.iter().for_each(|s| plan.set(s).unwrap());
        let found = match plan.set(set) {
            Err(_) => None,
            Ok(()) => match plan.system.run(&plan.values, None, &mut Unwatched) {
                Ok(m) => m.verdict.audit.first().cloned(),
                Err(e) if e.is_input() => None,
                Err(e) => Some(e.to_string()),
            },
        };
        Ok::<_, Infallible>(found.map(|why| format!("{scenario} --set {set}: {why}")))
    };
    let Ok(found) = in_parallel(&runs, run);
    let found: Vec<String> = found.into_iter().flatten().collect();
    assert!(found.is_empty(), "{} of {} runs:\n{}", found.len(), runs.len(), found.join("\n"));
}
