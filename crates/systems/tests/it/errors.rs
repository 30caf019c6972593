//! The intervals that a run states hold the mean of many runs about as often as they say.

use doorbell_sim::Unwatched;
use doorbell_systems::DOORBELL;
use doorbell_systems::in_parallel;
use doorbell_systems::result::Measured;

/// Runs that differ by the seed alone.
const SEEDS: u64 = 40;

/// Numbers of one kind each: packets, interrupts, time and a quantile.
const NAMES: [&str; 4] =
    ["packets_per_s", "rx_interrupts_per_s", "cpu_busy_share", "latency_ns.p99"];

fn runs(scenario: &str, sets: &[&str]) -> Vec<Measured> {
    let seeds: Vec<u64> = (1..=SEEDS).collect();
    let run = |_, seed: &u64| {
        let mut plan = DOORBELL.plan(scenario).unwrap();
        for set in sets.iter().map(|s| (*s).to_owned()).chain([format!("run.seed={seed}")]) {
            plan.set(&set).unwrap();
        }
        plan.system.run(&plan.values, None, &mut Unwatched)
    };
    in_parallel(&seeds, run).unwrap()
}

/// Returns how many runs state an interval for a number, and how many of those have the mean in it.
fn held(runs: &[Measured], name: &str) -> (usize, usize) {
    let values: Vec<f64> = runs.iter().map(|m| m.number(name).unwrap()).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let errors: Vec<Option<f64>> = runs.iter().map(|m| m.error(name)).collect();
    let held =
        values.iter().zip(&errors).filter(|(v, e)| e.is_some_and(|e| (*v - mean).abs() <= e));
    let held = held.count();
    let stated: Vec<f64> = errors.iter().flatten().copied().collect();
    let spread =
        1.96 * (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (SEEDS - 1) as f64).sqrt();
    eprintln!(
        "{name}: {held} of {}; stated {:.2} %, true {:.2} %",
        stated.len(),
        100.0 * stated.iter().sum::<f64>() / stated.len().max(1) as f64 / mean,
        100.0 * spread / mean
    );
    (stated.len(), held)
}

/// 95 of 100 are 38 of 40. The mean of the runs is itself known to a sixth of an interval.
#[test]
fn stated_intervals_hold_the_mean_of_forty_seeds() {
    for load in ["traffic.load=5", "traffic.load=50"] {
        let runs = runs("axienet-sporadic", &[load]);
        for name in NAMES {
            let (stated, held) = held(&runs, name);
            assert!(stated == 40 && (34..=40).contains(&held), "{load} {name}: {held} of {stated}");
        }
    }
}

/// An open loop has latencies of its own window too.
#[test]
fn latencies_of_packets_sent_at_random_have_an_interval() {
    let sets = [
        "traffic.arrivals=poisson",
        "traffic.burst=1",
        "traffic.rate=8",
        "run.cores=2",
        "traffic.packets=80000",
    ];
    let runs = runs("mlx5-pktgen-64", &sets);
    for name in ["packets_per_s", "latency_ns.p50", "latency_ns.p99"] {
        let (stated, held) = held(&runs, name);
        assert!(stated == 40 && (34..=40).contains(&held), "{name}: {held} of {stated}");
    }
}

/// A phase lasts 2 to 40 ms, and a batch 10 ms.
#[test]
fn a_load_of_long_phases_states_no_interval() {
    let runs = runs("axienet-random", &[]);
    for name in NAMES {
        assert_eq!(held(&runs, name).0, 0, "{name}");
    }
    assert_eq!(runs[0].error("axi_read_beats"), None);
}

#[test]
fn a_count_keeps_its_error_among_fewer() {
    let mut m = runs("axienet-sporadic", &["traffic.load=50"]).swap_remove(0);
    let before = m.error("axi_read_beats");
    assert!(before > Some(0.0), "{before:?}");
    m.retain_counts(|name| name.starts_with("axi_"));
    assert_eq!(m.error("axi_read_beats"), before);
    assert!(m.error("cycles") > Some(0.0));
}

/// Batches of 40.6 frames have 40 or 41.
#[test]
fn a_constant_rate_is_known_to_a_frame_a_batch() {
    let sets = ["traffic.pattern=even", "driver.controller=fixed", "traffic.warmup=10"];
    let m = &runs("axienet-sporadic", &sets)[0];
    for name in NAMES {
        let (value, error) = (m.number(name).unwrap(), m.error(name).unwrap());
        assert!(error <= value / 100.0, "{name}: {value} ± {error}");
    }
}
