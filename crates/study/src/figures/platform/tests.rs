use super::*;
use doorbell_systems::DOORBELL;

const LATENCY: Key = Key::number("pcie.memory_latency", "ns", 0.0, 1e5, "");
const MPS: Key = Key::among("pcie.mps", "B", &[128.0, 256.0, 512.0], "");
const CHUNK: Key = Key::steps("nic.fetch_chunk", "B", (64.0, 4096.0, 64.0), "");
const SHARE: Key = Key::number("pcie.speed", "", 0.01, 1.0, "");

#[test]
fn a_nudged_value_is_allowed_again() {
    for (key, value) in [
        (LATENCY, 250.0),
        (LATENCY, 0.0),
        (MPS, 256.0),
        (MPS, 512.0),
        (SHARE, 1.0),
        (CHUNK, 4096.0),
    ] {
        let moved = nudge(&key, value).apply(value);
        assert!(
            moved != value && key.quantity(moved, key.unit()).is_ok(),
            "{}: {value} -> {moved}",
            key.name
        );
    }
}

#[test]
fn constants_reach_the_setup() {
    let profile = DOORBELL.profile("mlx5-gen2").unwrap();
    let mut all = Constants::new(constants(&profile));
    all.set("pcie.memory_latency", &70.0.into()).unwrap();
    let setup = doorbell_systems::mlx5::settings::setup(&with(&profile, &all)).unwrap();
    assert_eq!(setup.latencies.memory, doorbell_hal::Span::from_ns(70));
}
