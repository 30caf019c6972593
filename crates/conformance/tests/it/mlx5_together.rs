//! The mlx5 driver and device together, on every backend, and the device under attack.

use doorbell_bus::ProtectionGranularity;
use doorbell_conformance::mlx5::cases::{Came, recovers, sends};
use doorbell_conformance::mlx5::traffic::{Offload, Spec, any_spec};
use doorbell_conformance::mlx5::{direct, machine};
use doorbell_devices::mlx5::Config as Nic;
use doorbell_drivers::mlx5::{Config, Sizing};
use doorbell_layout::mlx5::Caps;
use proptest::prelude::*;

const SMALL: Spec = Spec {
    v6: false,
    tcp: false,
    payload: 18,
    offload: Offload::None,
    vlan: None,
    head: u16::MAX,
    fragment: 1000,
    start: 0,
    more: true,
};

fn expected(specs: &[Spec]) -> Vec<Vec<u8>> {
    specs.iter().flat_map(Spec::expected).collect()
}

/// The first frame that differs, said shortly.
fn assert_frames(came: &Came, expected: &[Vec<u8>], what: &str) {
    let differs = came.frames.iter().zip(expected).position(|(a, b)| a != b);
    if let Some(i) = differs {
        panic!("{what}: frame {i}\n{:02x?}\n{:02x?}", came.frames[i], expected[i]);
    }
    assert_eq!(came.frames.len(), expected.len(), "{what}: frames");
}

/// Every way to send that must not differ on the wire.
fn ways() -> Vec<(&'static str, Config)> {
    let small = Config { log_sq: 7, log_cq: 6, ..Config::DEFAULT };
    vec![
        ("off", Config { mpwqe: false, ..Config::DEFAULT }),
        ("padded", Config::DEFAULT),
        ("fit", Config { sizing: Sizing::Fit, ..Config::DEFAULT }),
        ("off, small ring", Config { mpwqe: false, ..small }),
        ("padded, small ring", small),
        ("fit, small ring", Config { sizing: Sizing::Fit, ..small }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_wire_is_the_same_with_and_without_sessions(
        specs in prop::collection::vec(any_spec(), 1..300),
    ) {
        let expected = expected(&specs);
        for (what, config) in ways() {
            let came = sends(direct(Nic::CONNECTX), config, &specs);
            assert_frames(&came, &expected, what);
            prop_assert_eq!(came.driver.mpwqe_blks > 0, config.mpwqe && came.driver.mpwqe_pkts > 0);
        }
    }

    #[test]
    fn the_lab_machine_sends_the_same(specs in prop::collection::vec(any_spec(), 1..120)) {
        let expected = expected(&specs);
        for guard in [ProtectionGranularity::Page, ProtectionGranularity::Byte] {
            for (what, config) in ways() {
                let came = sends(machine(Nic::CONNECTX, guard), config, &specs);
                assert_frames(&came, &expected, what);
            }
        }
    }

    #[test]
    fn devices_that_differ_inside_send_the_same(
        specs in prop::collection::vec(any_spec(), 1..120),
        min_inline in 0..4u8,
        chunk in 0..5u32,
        refetch: bool,
        period in 0..20u16,
    ) {
        let caps = Caps { min_inline, ..Nic::CONNECTX.caps };
        let nic = Nic {
            caps,
            fetch_chunk: 64 << chunk,
            fetch_ahead: 2048,
            refetch,
            ..Nic::CONNECTX
        };
        let config = Config { cq_period_us: period, cq_max_count: 5, ..Config::DEFAULT };
        let came = sends(machine(nic, ProtectionGranularity::Byte), config, &specs);
        assert_frames(&came, &expected(&specs), "inside");
    }

    #[test]
    fn a_refused_packet_costs_no_buffer(specs in prop::collection::vec(any_spec(), 3..100)) {
        for (_, config) in ways() {
            recovers(direct(Nic::CONNECTX), config, &specs);
            recovers(machine(Nic::CONNECTX, ProtectionGranularity::Byte), config, &specs);
        }
    }
}

#[test]
fn a_long_run_wraps_every_counter() {
    // 16-bit producer counters and both owner bits, several times.
    let specs: Vec<Spec> = (0..150_000).map(|i| Spec { more: i % 32 != 31, ..SMALL }).collect();
    let config = Config { log_sq: 8, log_cq: 4, ..Config::DEFAULT };
    for mpwqe in [false, true] {
        let came = sends(direct(Nic::CONNECTX), Config { mpwqe, ..config }, &specs);
        assert_eq!(came.frames.len(), specs.len());
    }
}
