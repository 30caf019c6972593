//! Runs of every kind are sound and repeatable, and every key has an effect.

use super::settings::{load, setup};
use super::*;
use crate::tests::{every_key_moves, frames, plan};
use crate::{Plan, Unwatched};
use doorbell_hal::WorkKind;

fn outcome(scenario: &str, sets: &[&str]) -> RunStats {
    let plan = plan(scenario, sets);
    let s = setup(&plan.values).unwrap();
    let l = load(&plan.values, &s, Some(&frames(40, 1000))).unwrap();
    let o = run(&s, &l, &mut Unwatched).unwrap_or_else(|e| panic!("{scenario} {sets:?}: {e}"));
    assert!(o.verdict.audit.is_empty(), "{scenario} {sets:?}: {:?}", o.verdict.audit);
    o
}

const SHORT: [&str; 3] = ["traffic.warmup=5", "traffic.duration=10", "traffic.packets=300"];

#[test]
fn every_controller_carries_every_kind_of_traffic() {
    for controller in ["fixed", "dim", "dim_cqe", "dim_link", "classes", "trains"] {
        for kind in ["receive", "send", "transactions", "pktgen", "pcap"] {
            let (c, k) =
                (format!("driver.controller={controller}"), format!("traffic.kind={kind}"));
            let sets = [&[&c[..], &k], &SHORT[..]].concat();
            assert!(outcome("axienet-receive", &sets).counts.packets > 30, "{sets:?}");
        }
        for pattern in ["even", "poisson", "bursts", "steps", "on_off", "random"] {
            let (c, p) =
                (format!("driver.controller={controller}"), format!("traffic.pattern={pattern}"));
            let sets = [
                &[&c[..], "traffic.kind=arrivals", &p, "traffic.hold=3", "traffic.every=300"],
                &SHORT[..],
            ]
            .concat();
            let o = outcome("axienet-receive", &sets);
            // With this seed the random phases begin with silence.
            assert!(
                (o.counts.packets > 10 || pattern == "random")
                    && o.latency.count() == o.counts.packets,
                "{sets:?}"
            );
        }
    }
}

#[test]
fn cores_of_every_build_are_sound() {
    for sets in [
        ["nic.rx_checksum=full", "nic.tx_checksum=full"],
        ["nic.rx_checksum=none", "nic.tx_checksum=none"],
        ["driver.mtu=8982", "traffic.mss=8930"],
        ["traffic.beside=8", "traffic.connections=3"],
        ["driver.rx_ring=16", "driver.tx_ring=18"],
        ["axi.protocol=axi3", "axi.width=32"],
    ] {
        outcome("axienet-receive", &[&sets[..], &SHORT[..], &["run.guard=byte"]].concat());
    }
}

#[test]
fn the_same_plan_gives_the_same_counts() {
    for sets in [
        &["traffic.kind=arrivals", "traffic.pattern=random", "run.seed=3"][..],
        &["traffic.kind=receive"],
        &["traffic.kind=transactions", "traffic.connections=5"],
    ] {
        let once = || {
            let o = outcome("axienet-receive", &[sets, &SHORT[..]].concat());
            (
                o.counts.ledger,
                o.counts.counters,
                o.counts.elapsed,
                o.counts.busy,
                o.counts.payload,
                o.series,
                o.latency,
            )
        };
        assert_eq!(once(), once());
    }
}

/// The buffer fills and the source sleeps until there is much room: it is not woken again and again
/// at one instant.
#[test]
fn a_source_that_would_write_more_than_the_link_carries_fills_the_link() {
    let packets = |rate: &str| {
        let sets = [
            "traffic.kind=receive",
            "traffic.window=256",
            "traffic.warmup=20",
            "traffic.duration=20",
            rate,
        ];
        outcome("axienet-receive", &sets).counts.packets
    };
    let free = packets("traffic.source_rate=full");
    for rate in ["traffic.source_rate=1000", "traffic.source_rate=10000"] {
        let n = packets(rate);
        assert!(n.abs_diff(free) * 50 <= free, "{rate}: {n}, and {free} without");
    }
}

/// Two NAPI instances that wait for one turn are both entered.
#[test]
fn a_turn_for_both_channels_is_two_polls() {
    let o = outcome(
        "axienet-receive",
        &[&SHORT[..], &["driver.controller=fixed", "driver.tx_frames=1"]].concat(),
    );
    let entered = o.counts.work.iter().find(|w| w.0 == WorkKind::Poll).unwrap().1.times;
    assert!(o.counts.interrupts[1] > 100);
    assert!(entered > o.counts.polls, "{entered} of {}", o.counts.polls);
}

#[test]
fn the_seed_decides_what_comes_at_random() {
    let packets = |seed: &str| {
        let sets =
            ["traffic.kind=arrivals", "traffic.pattern=random", "traffic.duration=200", seed];
        outcome("axienet-receive", &sets).counts.packets
    };
    assert_ne!(packets("run.seed=1"), packets("run.seed=2"));
}

#[test]
fn a_load_of_phases_ends_with_the_measured_time() {
    for pattern in ["steps", "on_off"] {
        let pattern = format!("traffic.pattern={pattern}");
        for ms in [1, 4, 7] {
            let duration = format!("traffic.duration={ms}");
            let sets = ["traffic.kind=arrivals", &pattern, "traffic.warmup=5", "traffic.hold=90"];
            let o = outcome("axienet-receive", &[&sets[..], &[&duration]].concat());
            assert!(o.verdict.audit.is_empty(), "{pattern} {ms} ms: {:?}", o.verdict.audit);
        }
    }
}

/// A lone frame is there after its transfer and one interrupt. The last of a burst below the
/// threshold waits for the silence.
#[test]
fn a_lone_frame_waits_for_the_silence_if_the_threshold_is_above_one() {
    let p50 = |frames: &str| {
        let sets = [
            "traffic.kind=arrivals",
            "traffic.pattern=even",
            "traffic.load=0.5",
            "driver.controller=fixed",
            "driver.rx_usecs=100",
            frames,
        ];
        outcome("axienet-receive", &sets).latency.quantile(500).unwrap().as_ns_f64() * 1e-3
    };
    let (one, many) = (p50("driver.rx_frames=1"), p50("driver.rx_frames=64"));
    assert!((95.0..105.0).contains(&(many - one)), "{one} {many} us");
}

#[test]
fn every_key_but_a_few_changes_the_setup_or_the_load() {
    let frames = frames(1, 60);
    let fingerprint = |plan: &Plan| {
        let s = setup(&plan.values)?;
        let paced = crate::fixed_rate::Load::within(&plan.values, s.driver.mtu, "");
        load(&plan.values, &s, Some(&frames)).map(|l| format!("{s:?} {l:?} {paced:?}"))
    };
    let kinds = ["send", "receive", "transactions", "pktgen", "pcap"]
        .map(|k| vec![format!("traffic.kind={k}")]);
    let patterns = ["even", "poisson", "bursts", "steps", "on_off", "random"]
        .map(|p| vec!["traffic.kind=arrivals".to_owned(), format!("traffic.pattern={p}")]);
    let bases: Vec<Plan> = kinds
        .iter()
        .chain(&patterns)
        .map(|sets| {
            let rest = [
                "traffic.mss=1000",
                "traffic.offset=1",
                "traffic.gso=500",
                "traffic.arrival_size=100",
                "traffic.arrivals=on_off",
                "run.fault=lost-interrupt@1",
            ];
            plan(
                "axienet-receive",
                &sets.iter().map(String::as_str).chain(rest).collect::<Vec<_>>(),
            )
        })
        // Frames at a pace are refused with faults.
        .chain([plan("axienet-receive", &[])])
        .collect();
    // They are those of the capture's reader, and of frames that cannot be sent.
    let silent = ["traffic.file", "traffic.pad", "traffic.interface", "traffic.skip"];
    every_key_moves(&bases, &silent, fingerprint);
}

#[test]
fn the_byte_limit_holds_a_stack_back_before_the_ring_is_full() {
    let run = |kind: &str, bql: &str| {
        let (kind, bql) = (format!("traffic.kind={kind}"), format!("stack.bql={bql}"));
        let sets = [&kind[..], &bql, "traffic.rounds=20", "traffic.size=1000"];
        let o = outcome("axienet-receive", &[&sets[..], &SHORT[..]].concat());
        (o.counts.counter(0, "tx_stopped"), o.counts.ledger)
    };
    assert!(run("pcap", "off").0 > 0);
    assert_eq!(run("pcap", "on").0, 0);
    let pktgen = run("pktgen", "on");
    assert!(pktgen.0 > 0, "the packet generator fills it");
    assert_eq!(pktgen, run("pktgen", "off"));
}
