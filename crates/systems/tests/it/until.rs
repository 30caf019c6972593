//! Runs that end when their packet rate stands.

use crate::sound::{number, run};
use doorbell_systems::result::Measured;

/// Runs a scenario until its packet rate has this error, in percent.
fn until(scenario: &str, percent: &str, sets: &[&str]) -> Measured {
    let until = format!("run.until={percent}");
    let m = run(scenario, &[&[until.as_str()], sets].concat(), None);
    let (error, asked) = (m.window.error.unwrap_or(1.0), percent.parse::<f64>().unwrap() / 100.0);
    assert!(error <= asked && m.window.is_steady(), "{scenario}: {error} of {asked}");
    m
}

/// Generators, TCP, transactions, frames that arrive; runs that get shorter by it, and longer.
#[test]
fn the_rate_is_that_of_a_longer_run_within_the_errors() {
    for scenario in [
        "mlx5-full-rate",
        "mlx5-receive-tcp",
        "e1000-send",
        "e1000-transactions",
        "axienet-receive-fixed",
        "ibmveth-send",
        "ibmvnic-bulk",
    ] {
        let [soon, late] = ["1", "0.3"].map(|e| until(scenario, e, &[]));
        let off = soon.packets_per_s() / late.packets_per_s() - 1.0;
        assert!(off.abs() <= 0.013, "{scenario}: {off}");
        assert!(soon.window.length() < late.window.length(), "{scenario}");
    }
}

/// One packet each millisecond is 1000 a second, and as exact as that after few.
#[test]
fn an_even_pace_stands_at_the_second_question() {
    let even = ["traffic.rate=0.001", "traffic.burst=1", "run.cores=1"];
    let m = until("mlx5-pktgen-64", "0.001", &even);
    assert!((m.packets_per_s() / 1000.0 - 1.0).abs() < 1e-9, "{}", m.packets_per_s());
    // It was asked at 16 looks and at 24, and a burst was under way then.
    assert!((24..=26).contains(&m.packets), "{}", m.packets);
}

/// A capture ends with a round.
#[test]
fn a_captures_rounds_are_whole() {
    let mut frames = doorbell_sim::traffic::Frames::default();
    (0..50).for_each(|i| frames.push(doorbell_hal::Span::from_us(i), &[0x55; 200]));
    let frames = std::sync::Arc::new(frames);
    let sets = ["traffic.file=some.pcap", "run.until=1", "traffic.rounds=2"];
    let m = run("mlx5-replay", &sets, Some(&frames));
    assert!(m.packets.is_multiple_of(50) && m.packets > 100, "{}", m.packets);
    assert!(m.window.error.is_some_and(|e| e <= 0.01), "{:?}", m.window);
}

/// A bound out of reach ends a run at 1000 times its length.
#[test]
fn no_run_is_longer_than_a_thousand_of_its_own() {
    let sets = ["run.until=0.001", "traffic.duration=0.1", "traffic.warmup=0.1"];
    let m = run("ibmvnic-arrivals", &sets, None);
    assert_eq!(m.window.length().as_ns_f64(), 100e6);
    assert!(number(&m, "packets_per_s") > 0.0);
}
