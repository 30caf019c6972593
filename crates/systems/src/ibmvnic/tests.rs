//! Runs of every kind are sound and repeatable, and match the source's three cases.

use super::settings::{load, setup};
use super::*;
use crate::DOORBELL;
use crate::Unwatched;
use crate::tests::plan;

const SHORT: [&str; 5] = [
    "traffic.warmup=1",
    "traffic.duration=3",
    "driver.queues=4",
    "traffic.peers=96",
    "driver.tx_entries=128",
];

fn unaudited(scenario: &str, sets: &[&str]) -> RunStats {
    let plan = plan(scenario, &[&SHORT[..], sets].concat());
    let s = setup(&plan.values);
    let l = load(&plan.values, &s).unwrap();
    run(&s, &l, &mut Unwatched).unwrap_or_else(|e| panic!("{scenario} {sets:?}: {e}"))
}

fn outcome(scenario: &str, sets: &[&str]) -> RunStats {
    let o = unaudited(scenario, sets);
    assert!(o.verdict.audit.is_empty(), "{scenario} {sets:?}: {:?}", o.verdict.audit);
    o
}

#[test]
fn every_state_carries_every_kind_of_traffic() {
    for direct in ["never", "ignore_headers", "software_checksum", "inspect", "adaptive"] {
        let d = format!("driver.direct={direct}");
        for kind in ["traffic.kind=transactions", "traffic.kind=bulk"] {
            for sets in [
                &["nic.headers=checksum"][..],
                &["nic.headers=never"],
                &["traffic.other=66", "traffic.other_share=40"],
            ] {
                let o = outcome("ibmvnic-transactions", &[&[&d[..], kind], sets].concat());
                assert!(o.counts.packets > 300, "{direct} {kind} {sets:?}: {}", o.counts.packets);
            }
        }
    }
}

#[test]
fn the_three_cases_count_as_the_source_says() {
    // All queues, or their cores would be what limits.
    let all = ["driver.queues=16", "traffic.peers=512"];
    let case = |direct| {
        let direct = format!("driver.direct={direct}");
        outcome("ibmvnic-transactions", &[all[0], all[1], "driver.replenish=whole_arrays", &direct])
    };
    let of = |o: &RunStats, name: &str| o.counts.counter(0, name);
    let [one, two, three] = ["never", "ignore_headers", "software_checksum"].map(case);
    assert_eq!((of(&one, "tx_direct"), of(&one, "tx_csum_direct")), (0, 0));
    assert_eq!(of(&one, "tx_csum"), of(&one, "tx_packets"), "all are left to the server");
    assert_eq!(of(&two, "tx_csum"), of(&two, "tx_packets"));
    assert_eq!(of(&two, "tx_csum_direct"), 0);
    assert_eq!(of(&three, "tx_csum_direct"), of(&three, "tx_direct"), "one for each direct send");
    for o in [&one, &two, &three] {
        // One call for sixteen buffers, whatever is sent how.
        assert!(
            of(o, "rx_packets").abs_diff(16 * of(o, "rx_add_arrays")) <= 16 * 16,
            "{:?}",
            o.counts.counters[0]
        );
        let calls = of(o, "tx_direct") + of(o, "tx_arrays") + of(o, "rx_add_arrays");
        let made = o.counts.counter(2, "hcall_send_sub_crq")
            + o.counts.counter(2, "hcall_send_sub_crq_indirect");
        assert_eq!(calls, made, "the hypervisor saw as many");
    }
    assert!(
        two.counts.rate() > 1.2 * one.counts.rate()
            && (three.counts.rate() / two.counts.rate() - 1.0).abs() < 0.03
    );
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let once = |seed: &str| {
        let o = outcome("ibmvnic-transactions", &["driver.direct=adaptive", seed]);
        (o.counts.packets, o.counts.counters, o.latency.max())
    };
    assert_eq!(once("run.seed=1"), once("run.seed=1"));
    assert_ne!(once("run.seed=1"), once("run.seed=2"), "what goes out together is drawn");
}

#[test]
fn ignoring_what_a_server_needs_shows_in_the_audit() {
    let o = unaudited(
        "ibmvnic-transactions",
        &["driver.direct=ignore_headers", "nic.needs_headers=on"],
    );
    assert!(!o.verdict.audit.is_empty());
    outcome("ibmvnic-transactions", &["driver.direct=inspect", "nic.needs_headers=on"]);
}

#[test]
fn a_slow_checksum_moves_the_break_even() {
    let found = |sum: &str| {
        let sets = [
            "driver.queues=1",
            "traffic.peers=64",
            "traffic.warmup=800",
            "traffic.duration=10",
            sum,
        ];
        outcome("ibmvnic-break-even", &sets).totals.break_even.unwrap_or(0)
    };
    let (fast, slow) = (found("cpu.sum=0.2"), found("cpu.sum=8"));
    assert!(fast > 3 * slow, "{fast} {slow}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |sets: &[&str]| {
        let mut plan = DOORBELL.plan("ibmvnic-transactions").unwrap();
        sets.iter().for_each(|s| plan.set(s).unwrap());
        load(&plan.values, &setup(&plan.values)).unwrap_err()
    };
    insta::assert_snapshot!(
        refused(&["driver.mtu=1500"]),
        @"`traffic.request` is 9014 B, but `driver.mtu` allows 1514"
    );
}

#[test]
fn a_pool_is_refilled_by_its_rule() {
    let filled = |rule: &str, entries: &str| {
        let sets = ["driver.queues=1", "traffic.peers=32", "traffic.duration=12", rule, entries];
        let o = outcome("ibmvnic-transactions", &sets);
        (
            o.counts.counter(0, "rx_added"),
            o.counts.counter(0, "rx_add_arrays"),
            o.counts.counter(0, "rx_packets"),
        )
    };
    // Filled up below half: 257 buffers in 17 arrays, or none.
    let (added, arrays, _) = filled("driver.replenish=below_half", "driver.rx_entries=512");
    assert!(added > 0 && added % 257 == 0 && arrays == added / 257 * 17, "{added} {arrays}");
    let (added, arrays, packets) = filled("driver.replenish=each_poll", "driver.rx_entries=512");
    assert!(added.abs_diff(packets) < 64 && added < 2 * arrays, "{added} {arrays} {packets}");
    let (added, arrays, _) = filled("driver.replenish=whole_arrays", "driver.rx_entries=512");
    assert_eq!(added, 16 * arrays);
}

#[test]
fn an_array_costs_by_its_descriptors() {
    let (price, each) = (700 + 300, 50);
    let sets =
        ["hcall.send_sub_crq_indirect=700", "hcall.indirect_descriptor=50", "hypervisor.copy=0"];
    for direct in ["driver.direct=never", "driver.direct=ignore_headers"] {
        let o = outcome("ibmvnic-transactions", &[&sets[..], &[direct]].concat());
        let n = |name: &str| o.counts.counter(0, name);
        let arrays = n("tx_arrays") + n("rx_add_arrays");
        let descriptors = n("tx_descriptors") - n("tx_direct") + n("rx_added");
        assert_eq!(o.counts.counter(2, "hcall_send_sub_crq_indirect"), arrays);
        assert_eq!(
            o.totals.indirect,
            Span::from_ns(price * arrays + each * descriptors),
            "{direct}"
        );
    }
}

#[test]
fn bursts_go_out_together() {
    let direct = |burst: &str| {
        let o = outcome(
            "ibmvnic-transactions",
            &["driver.direct=ignore_headers", "host.together=40", burst],
        );
        let batched = o.counts.counter(0, "tx_batched") as f64;
        (
            batched / o.counts.counter(0, "tx_packets") as f64,
            batched / o.counts.counter(0, "tx_arrays").max(1) as f64,
        )
    };
    let [one, two, four] = ["traffic.burst=1", "traffic.burst=2", "traffic.burst=4"].map(direct);
    assert_eq!(one, (0.0, 0.0));
    for ((share, each), burst) in [(two, 2.0), (four, 4.0)] {
        assert!(
            (share - 0.4).abs() < 0.05 && (each - burst).abs() < 0.1,
            "{burst}: {share} {each}"
        );
    }
}

#[test]
fn the_byte_limit_ends_batches_of_a_stack() {
    let bulk = |bql| {
        let o = outcome("ibmvnic-bulk", &["driver.direct=never", "nic.headers=never", bql]);
        o.counts.counter(0, "tx_packets") as f64 / o.counts.counter(0, "tx_arrays") as f64
    };
    let (on, off) = (bulk("stack.bql=on"), bulk("stack.bql=off"));
    assert!(off > 15.9 && on < 12.0, "{on} packets an array, {off} without a limit");
}

#[test]
fn a_watchdog_sees_a_queue_over_its_byte_limit() {
    // The limit of an empty queue admits one packet, and nobody hears of its completion.
    let sets = ["driver.queues=1", "run.fault=lost-interrupt@1", "run.watchdog=0.5"];
    let o = outcome("ibmvnic-bulk", &sets);
    assert!(o.counts.packets > 300, "{}", o.counts.packets);
    assert_eq!(o.faults.unwrap().alarms.timeouts, 1);
    assert_eq!(o.counts.counter(0, "tx_stopped"), 0);
}
