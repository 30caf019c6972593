//! Runs of every kind are sound and repeatable, and the switches have their effects.

use super::settings::{arriving, load, setup};
use super::*;
use crate::tests::{CAPTURE_FILE, every_key_moves, frames, plan};
use crate::{Plan, Unwatched};

fn outcome(scenario: &str, sets: &[&str]) -> RunStats {
    let plan = plan(scenario, sets);
    let s = setup(&plan.values).unwrap();
    let l = load(&plan.values, &s).unwrap();
    let o = run(&s, &l, &mut Unwatched).unwrap_or_else(|e| panic!("{scenario} {sets:?}: {e}"));
    assert!(o.verdict.audit.is_empty(), "{scenario} {sets:?}: {:#?}", o.verdict.audit);
    o
}

const SHORT: [&str; 3] = ["traffic.warmup=3", "traffic.duration=5", "traffic.packets=5"];

#[test]
fn every_setting_carries_every_kind_of_traffic() {
    for kind in ["send", "receive", "transactions", "packets"] {
        for sets in [
            &["driver.trunk_offload=on"][..],
            &["driver.trunk_offload=off"],
            &["driver.fraglist=off"],
            &["driver.large_send=old"],
            &["driver.large_send=off", "driver.checksum=off"],
            &["driver.transmit=copy", "driver.multi_buffer=on"],
            &["driver.multi_buffer=on", "port.gro=off", "port.tso=off", "port.checksum=off"],
            &["hypervisor.slice=4", "hcall.send_serial=300"],
            &["driver.pool_64k=16", "driver.pool_2k=64", "tce.multi=off"],
            &["traffic.scatter=off", "traffic.connections=3", "run.application=own_core"],
            &["run.guard=byte", "driver.rx_copybreak=2000", "driver.copybreak=1600"],
        ] {
            let kind = format!("traffic.kind={kind}");
            let sets = [&[&kind[..]], &SHORT[..], sets].concat();
            assert!(outcome("ibmveth-send-trunk", &sets).counts.packets > 4, "{sets:?}");
        }
    }
}

#[test]
fn every_form_of_a_large_send_arrives_whole() {
    for form in ["scatter", "linearise", "segment", "copy"] {
        for pieces in ["1", "5", "6", "40"] {
            for size in ["100", "1448", "1449", "65160"] {
                let sets = [
                    &format!("traffic.form={form}")[..],
                    &format!("traffic.pieces={pieces}"),
                    &format!("traffic.size={size}"),
                    "traffic.packets=3",
                ];
                let o = outcome("ibmveth-packets", &sets);
                let large = size == "1449" || size == "65160";
                let server = &o.totals.drivers[SERVER];
                assert_eq!(
                    server.tx_segmented,
                    if form == "segment" && large { 3 } else { 0 },
                    "{sets:?}"
                );
                let few = pieces == "1" || pieces == "5";
                let scattered = form == "scatter" && few;
                let descriptors = server.tx_descriptors / server.tx_packets;
                let wanted = if scattered { pieces.parse::<u64>().unwrap() + 1 } else { 1 };
                assert_eq!(descriptors, wanted, "{sets:?}");
            }
        }
    }
}

#[test]
fn the_same_plan_gives_the_same_counts() {
    for scenario in [
        "ibmveth-send",
        "ibmveth-send-trunk",
        "ibmveth-receive",
        "ibmveth-receive-fraglist",
        "ibmveth-transactions",
    ] {
        let once = || {
            let o = outcome(scenario, &SHORT);
            (o.counts.ledger, o.counts.counters, o.counts.elapsed, o.counts.busy, o.counts.payload)
        };
        assert_eq!(once(), once());
    }
}

/// The note's conclusion: the places where a large send stays whole and where it is cut.
#[test]
fn a_large_send_is_cut_where_the_next_port_does_not_take_it() {
    // The hypervisor cuts for a trunk that has agreed to nothing.
    let o = outcome("ibmveth-send", &SHORT);
    assert!(o.totals.adapters[SERVER].rx_segments > 0);
    assert_eq!((o.totals.port.tx_large, o.totals.port_driver.tx_segmented), (0, 0));
    // The port cuts.
    let o = outcome("ibmveth-send-trunk", &SHORT);
    assert_eq!((o.totals.adapters[SERVER].rx_segments, o.totals.port_driver.tx_segmented), (0, 0));
    assert!(o.totals.port.tx_large > 0 && o.totals.adapters[SERVER].rx_large > 0);
    // A port that cannot: the bridge's side does it, with the CPU.
    let o = outcome("ibmveth-send-trunk", &[&SHORT[..], &["port.tso=off"]].concat());
    assert!(o.totals.port.tx_large == 0 && o.totals.port_driver.tx_segmented > 0);
    // The trunk's driver cuts what it does not take, or linearises it.
    let o = outcome("ibmveth-receive", &SHORT);
    assert!(
        o.totals.drivers[SERVER].tx_segmented > 0 && o.totals.drivers[SERVER].tx_linearized == 0
    );
    let o = outcome("ibmveth-receive-fraglist", &SHORT);
    assert_eq!(
        (o.totals.drivers[SERVER].tx_segmented, o.totals.drivers[SERVER].tx_linearized),
        (0, o.totals.bridge.merged)
    );
}

/// The note's conclusion from its curves: scatter, linearise or segment.
#[test]
fn which_form_is_better_when() {
    let cost = |form: &str, pieces: u32, size: u32| {
        let sets = [
            format!("traffic.form={form}"),
            format!("traffic.pieces={pieces}"),
            format!("traffic.size={size}"),
            "traffic.packets=8".to_owned(),
        ];
        let o = outcome("ibmveth-packets", &sets.iter().map(String::as_str).collect::<Vec<_>>());
        o.counts.busy[SERVER].as_ns_f64() / o.counts.packets as f64
    };
    // One piece: a second mapping against a copy.
    assert!(cost("linearise", 1, 4_096) < cost("scatter", 1, 4_096));
    assert!(cost("linearise", 1, 49_152) > cost("scatter", 1, 49_152));
    assert!(cost("linearise", 2, 40_960) < cost("scatter", 2, 40_960));
    assert!(cost("linearise", 2, 49_152) > cost("scatter", 2, 49_152));
    assert!(cost("linearise", 3, 65_160) < cost("scatter", 3, 65_160));
    // Five: the copy, whatever the size.
    assert!(cost("linearise", 5, 65_160) < cost("scatter", 5, 65_160));
    // Beyond the descriptors both are the same.
    assert_eq!(cost("linearise", 17, 65_160), cost("scatter", 17, 65_160));
    // A frame of one segment is not cut; from two on segments cost more than all else.
    assert_eq!(cost("segment", 5, 1_448), cost("linearise", 5, 1_448));
    for form in ["linearise", "copy"] {
        assert!(cost("segment", 5, 1_449) > cost(form, 5, 1_449), "{form}");
    }
    // Scatter and segment: a mapping for each piece against all that a segment costs.
    for (pieces, worse, better) in
        [(1, 1_448, 2_896), (2, 1_449, 2_896), (3, 2_896, 4_344), (5, 2_896, 5_792)]
    {
        assert!(cost("scatter", pieces, worse) > cost("segment", pieces, worse), "{pieces} pieces");
        assert!(
            cost("scatter", pieces, better) < cost("segment", pieces, better),
            "{pieces} pieces"
        );
    }
    assert!(cost("copy", 5, 65_160) < cost("linearise", 5, 65_160), "a mapping less");
}

#[test]
fn every_key_but_a_few_changes_the_setup_or_the_load() {
    let fingerprint = |plan: &Plan| {
        let s = setup(&plan.values)?;
        let paced = crate::fixed_rate::Load::within(&plan.values, s.drivers[0].mtu, "");
        if plan.values.word("traffic.kind") == arrivals::KIND {
            let frames = frames(2, 60);
            return arriving(&plan.values, &s, Some(&frames)).map(|l| format!("{s:?} {l:?}"));
        }
        load(&plan.values, &s).map(|l| format!("{s:?} {l:?} {paced:?}"))
    };
    let large = [
        ("send", "auto"),
        ("send", "off"),
        ("receive", "off"),
        ("transactions", "off"),
        ("packets", "off"),
    ];
    let bases: Vec<Plan> = large
        .iter()
        .map(|(kind, large)| {
            let (kind, large) =
                (format!("traffic.kind={kind}"), format!("traffic.large_send={large}"));
            let faults = if kind == "traffic.kind=packets" {
                "run.fault="
            } else {
                "run.fault=lost-interrupt@1"
            };
            let sets = [&kind[..], &large, "traffic.mss=1000", "traffic.offset=1", faults];
            plan("ibmveth-send", &sets)
        })
        .chain(["even", "bursts", "steps", arrivals::CAPTURE].map(|pattern| {
            let (pattern, size) =
                (format!("traffic.pattern={pattern}"), "traffic.arrival_size=100");
            plan("ibmveth-arrivals", &["run.fault=lost-interrupt@1", &pattern, size])
        }))
        .collect();
    every_key_moves(&bases, &CAPTURE_FILE, fingerprint);
}

#[test]
fn values_that_do_not_go_together_are_refused() {
    let refused = |sets: &[&str]| {
        let plan = plan("ibmveth-send", sets);
        match setup(&plan.values) {
            Err(e) => e,
            Ok(s) => load(&plan.values, &s).unwrap_err(),
        }
    };
    insta::assert_snapshot!(
        refused(&["traffic.kind=packets", "traffic.size=5", "traffic.pieces=6"]),
        @"`traffic.pieces` is 6, but there are only 5 bytes (`traffic.size`)"
    );
    insta::assert_snapshot!(
        refused(&["traffic.mss=1461", "traffic.timestamps=off"]),
        @"`traffic.mss` is 1461 B, but the device's longest frame holds 1460"
    );
}
