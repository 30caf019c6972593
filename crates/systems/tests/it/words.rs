//! Words of the trade, and the systems' own names that they lead to.

use doorbell_spec::key::find;
use doorbell_spec::trade::{NUMBERS, SETTINGS, word};
use doorbell_systems::DOORBELL;
use std::collections::BTreeSet;

fn key(system: &str, wanted: &str) -> String {
    let keys = DOORBELL.system(system).unwrap().keys();
    find(&keys, wanted).unwrap_err().to_string()
}

fn number(system: &str, wanted: &str) -> String {
    DOORBELL.system(system).unwrap().find_metric(wanted).unwrap_err().to_string()
}

#[test]
fn every_name_of_the_table_exists_somewhere() {
    let keys = DOORBELL.systems.iter().flat_map(|s| s.keys()).map(|k| k.name.to_owned());
    let numbers = DOORBELL.systems.iter().flat_map(|s| s.metrics()).map(|m| m.name.to_owned());
    let all: BTreeSet<String> = keys.chain(numbers).collect();
    for (words, names) in SETTINGS.iter().chain(NUMBERS) {
        for name in *names {
            assert!(all.contains(*name), "{words:?}: {name}");
        }
    }
}

#[test]
fn every_word_stands_once_and_as_it_is_looked_up() {
    let mut seen = BTreeSet::new();
    for w in SETTINGS.iter().chain(NUMBERS).flat_map(|(words, _)| *words) {
        assert_eq!(word(w), *w);
        assert!(seen.insert(w), "{w} stands twice");
    }
}

#[test]
fn words_of_the_trade_lead_to_the_systems_own_keys() {
    for (system, wanted, said) in [
        ("mlx5", "rxd", "`rxd` is `driver.rx_ring` here"),
        ("mlx5", "rx-usecs", "`rx_usecs` is `driver.rx_moderation_period` here"),
        ("ibmveth", "rx-usecs", "`rx_usecs` is not modelled here, see docs/limits.md"),
        ("mlx5", "driver.tx_usecs", "`tx_usecs` is `driver.moderation_period` here"),
        ("mlx5", "tso", "`tso` is `traffic.large_send` or `traffic.gso` here"),
        ("mlx5", "mpps", "`mpps` is `traffic.rate` here"),
        ("mlx5", "cqe_compression", "`cqe_compression` is not modelled here"),
        ("mlx5", "driver.cqe_compression", "`cqe_compression` is not modelled here"),
        ("mlx5", "numa", "`numa` is not modelled here"),
        ("mlx5", "adaptive-rx", "`adaptive_rx` is `driver.adaptive_rx` here"),
        ("e1000", "rx_usecs", "`rx_usecs` is `driver.throttle` or `driver.rx_delay` here"),
        ("e1000", "InterruptThrottleRate", "is `driver.throttle` here"),
        ("axienet", "rx-usecs", "`rx_usecs` is `driver.rx_usecs` here"),
        ("axienet", "adaptive-rx", "`adaptive_rx` is `driver.controller` here"),
        ("ibmveth", "tso", "`tso` is `driver.large_send` or `traffic.large_send` here"),
        ("ibmvnic", "combined", "`combined` is `driver.queues` here"),
    ] {
        let e = key(system, wanted);
        assert!(e.contains(&format!("no key is called `{wanted}`")), "{e}");
        assert!(e.contains(said), "{system} {wanted}: {e}");
    }
    assert!(key("mlx5", "driver.mpwq").ends_with("the nearest is `driver.mpwqe`"));
}

#[test]
fn words_of_the_trade_lead_to_numbers() {
    for (system, wanted, said) in [
        ("mlx5", "mpps", "`mpps` is `packets_per_s` here"),
        (
            "mlx5",
            "throughput",
            "`throughput` is `payload_bits_per_s`, `frame_bits_per_s` or `packets_per_s` here",
        ),
        ("e1000", "throughput", "`throughput` is `payload_bits_per_s` or `packets_per_s` here"),
        ("mlx5", "numa", "`numa` is not modelled here, see docs/limits.md"),
        ("axienet", "p99", "`p99` is `latency_ns.p99` here"),
    ] {
        let e = number(system, wanted);
        assert!(e.contains(said), "{system} {wanted}: {e}");
    }
    // A word for a setting is no number, and is modelled.
    assert!(!number("e1000", "rx_ring").contains("not modelled"));
}
