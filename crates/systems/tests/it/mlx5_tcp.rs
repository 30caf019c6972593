//! TCP on mlx5, held against sums by hand: a full link, a transaction, and losses.

use crate::sound::{number, plan, run, run_of};
use doorbell_systems::Plan;
use proptest::prelude::*;

/// Makes the CPU's work free.
fn with_a_free_cpu(mut plan: Plan) -> Plan {
    let work = |name: &str| {
        let kept = ["cpu.frequency", "cpu.cores", "cpu.memory", "cpu.relax"];
        name.starts_with("cpu.") && !kept.contains(&name)
    };
    let keys = plan.system.platform().into_iter().filter(|k| work(k.name));
    let sets: Vec<String> = keys.map(|k| format!("{}=0", k.name)).collect();
    for s in &sets {
        // A few have no effect on this load.
        let _ = plan.set(s);
    }
    plan
}

/// Of 1538 bytes of a full segment on the wire 1448 are payload.
#[test]
fn tcp_fills_the_link_but_for_its_headers() {
    for scenario in ["mlx5-send", "mlx5-receive-tcp"] {
        for set in [
            &["traffic.large_send=off"][..],
            &["traffic.large_send=auto"],
            &["traffic.large_send=off", "traffic.scatter=off"],
        ] {
            // Gen3 is not enough for sends at this rate: its symbol times are all taken.
            let sets = ["pcie.generation=4", "traffic.window=8192", "traffic.duration=10"];
            let plan = with_a_free_cpu(plan(scenario, &[&sets[..], set].concat()));
            let m = run_of(&plan, None);
            let by_hand = plan.values.number("nic.port_rate") * 1e9 * 1448.0 / 1538.0;
            let measured = number(&m, "payload_bits_per_s");
            let off = measured / by_hand - 1.0;
            assert!(off.abs() < 0.002, "{scenario} {set:?}: {measured}, by hand {by_hand}");
            assert_eq!(number(&m, "lost_share"), 0.0, "{scenario} {set:?}");
        }
    }
}

/// A request and its answer of one byte each, with the options of a segment 67 bytes long.
const LONE: [&str; 5] = [
    "driver.rx_moderation_period=0",
    "driver.rx_moderation_count=0",
    "traffic.scatter=off",
    "traffic.warmup=1",
    "traffic.duration=2",
];

#[test]
fn a_transactions_latency_is_the_sum_of_its_steps() {
    let plan = plan("mlx5-transactions", &LONE);
    let v = |name: &&str| plan.values.number(name);
    let sum = |names: &[&str]| names.iter().map(v).sum::<f64>();
    let cycles = |names: &[&str]| sum(names) / v(&"cpu.frequency");
    // Gen3 x16: 16 bytes in 1.016 ns.
    let tlp = |bytes: f64| (bytes / 16.0).ceil() * 1.015625;
    let (link, memory) = (v(&"pcie.link_latency"), v(&"pcie.memory_latency"));
    let read = |bytes: f64| tlp(24.0) + link + memory + tlp(20.0 + bytes) + link;
    // With preamble and FCS.
    let wire = v(&"link.delay") + (67.0 + 12.0) * 8.0 / v(&"nic.port_rate");
    // The frame to the end of its second line, CQE, EQE and message, one behind the other.
    let came = tlp(24.0 + 128.0) + 2.0 * tlp(24.0 + 64.0) + tlp(24.0 + 4.0) + link;
    let device = v(&"nic.pipeline_delay") + came;
    // The poll also takes the completion of the answer before. Then it arms the EQ and five CQs.
    let handler = cycles(&["cpu.interrupt", "cpu.fence"]);
    let sent = cycles(&["cpu.completion", "cpu.tx_done_packet", "cpu.fence", "cpu.fence"]);
    let poll = cycles(&["cpu.poll", "cpu.completion", "cpu.rx_packet", "cpu.fence", "cpu.fence"]);
    let arming = 5.0 * v(&"cpu.mmio_write_spacing") + cycles(&["cpu.mmio_write"]);
    let up = cycles(&["cpu.tcp_gro", "cpu.tcp_receive", "cpu.tcp_wake"]);
    // One call reads the byte of the request, and another writes that of the answer.
    let calls = 2.0 * cycles(&["cpu.call", "cpu.call_byte"]);
    // The doorbell leaves as the core begins to write it.
    let down = cycles(&["cpu.tcp_send", "cpu.stack", "cpu.tx_shared", "cpu.tx_session"])
        + cycles(&["cpu.tx_notify", "cpu.fence", "cpu.fence"]);
    let doorbell = tlp(24.0 + 8.0) + link;
    let fetched = doorbell + read(64.0) + read(67.0) + v(&"nic.pipeline_delay");
    let by_hand =
        wire + device + handler + poll + sent + arming + up + calls + down + fetched + wire;
    let measured = number(&run_of(&plan, None), "latency_ns.min");
    assert!((measured - by_hand).abs() < 1.0, "{by_hand} by hand, {measured} measured");
}

#[test]
fn a_transaction_goes_over_the_link_twice() {
    let of = |delay: &str| {
        number(&run("mlx5-transactions", &[&LONE[..], &[delay]].concat(), None), "latency_ns.min")
    };
    let (near, far) = (of("link.delay=1000"), of("link.delay=3000"));
    assert!((far - near - 2.0 * 2000.0).abs() < 1.0, "{near} {far}");
}

/// A queue of 64 WQEs and a core that is slow lose segments. They are sent again, and each loss is
/// at a place that is named.
#[test]
fn losses_are_mended_and_named() {
    let sets = ["driver.rx_ring=64", "traffic.connections=8", "cpu.rx_packet=3000"];
    let times = ["traffic.warmup=0", "traffic.duration=300"];
    let m = run("mlx5-receive-tcp", &[&sets[..], &times].concat(), None);
    let [lost, ring] = ["lost_share", "lost_ring_share"].map(|n| number(&m, n));
    assert!(lost > 0.0 && lost == ring, "{lost} {ring}");
    assert!(number(&m, "payload_bits_per_s") > 1e7);
    assert_eq!(m.verdict.unfinished, [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 12,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Carries TCP of any shape, with faults and without. What is lost is named, and connections
    /// end.
    #[test]
    fn tcp_of_any_shape_is_audited(
        kind in prop::sample::select(vec!["send", "receive", "transactions"]),
        connections in 1..8u32,
        mss in prop::sample::select(vec![64u32, 536, 1448]),
        large in prop::sample::select(vec!["off", "auto", "20000"]),
        scatter in prop::sample::select(vec!["on", "off"]),
        checksum in any::<bool>(),
        application in prop::sample::select(vec!["same_core", "own_core"]),
        mpwqe in prop::sample::select(vec!["on", "off"]),
        ring in prop::sample::select(vec![64u32, 1024]),
        fault in prop::sample::select(vec![
            "", "lost-interrupt@every=40", "late-completion@every=50:100us",
            "poisoned-completion@every=300", "dma-fault@every=2000", "link-flap@500us:300us",
        ]),
    ) {
        let mut sets = vec![
            format!("traffic.kind={kind}"),
            format!("traffic.connections={connections}"),
            format!("traffic.mss={mss}"),
            format!("traffic.scatter={scatter}"),
            format!("run.application={application}"),
            format!("driver.mpwqe={mpwqe}"),
            format!("driver.rx_ring={ring}"),
            "traffic.window=128".to_owned(),
            "traffic.warmup=0.2".to_owned(),
            "traffic.duration=1".to_owned(),
            "run.guard=byte".to_owned(),
        ];
        // A large send leaves its checksums to the device.
        let checksum = checksum || large != "off";
        sets.push(format!("traffic.tx_checksum={}", if checksum { "on" } else { "off" }));
        sets.push(format!("traffic.large_send={large}"));
        if !fault.is_empty() {
            sets.push(format!("run.fault={fault}"));
            sets.push("run.watchdog=1".to_owned());
        }
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let m = run("mlx5-receive-tcp", &sets, None);
        let [lost, fifo, ring] =
            ["lost_share", "lost_fifo_share", "lost_ring_share"].map(|n| number(&m, n));
        prop_assert!((lost - fifo - ring).abs() < 1e-9);
        if fault.is_empty() {
            prop_assert!(m.verdict.unfinished.is_empty(), "{:?}: {:?}", sets, m.verdict.unfinished);
        }
    }
}
