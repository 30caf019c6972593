//! Frames that arrive at a partition, held against sums by hand: lone frames, cores and rings that
//! are full, and the share of each queue.

use crate::sound::{self, number};
use doorbell_hal::Span;
use doorbell_sim::traffic::Frames;
use doorbell_systems::DOORBELL;
use doorbell_systems::result::Measured;
use proptest::prelude::*;
use std::sync::Arc;

const SCENARIOS: [&str; 2] = ["ibmveth-arrivals", "ibmvnic-arrivals"];

fn run(scenario: &str, sets: &[&str]) -> Measured {
    sound::run(scenario, sets, None)
}

const LONE: [&str; 6] = [
    "traffic.pattern=bursts",
    "traffic.frames=1",
    "traffic.every=10000",
    "traffic.arrival_size=60",
    "traffic.warmup=0",
    "traffic.duration=400",
];

/// The hypervisor's work, its copy, handler and poll follow each other. Each of these two calls
/// once, and on ibmveth frames go through GRO, IP and UDP to an application.
#[test]
fn a_lone_frames_latency_is_the_sum_of_its_steps() {
    let calls = ["hypervisor.call", "hypervisor.call"];
    let polled = ["cpu.interrupt", "cpu.poll", "cpu.fence", "cpu.completion", "cpu.rx_packet"];
    let cases = [
        (
            "ibmveth-arrivals",
            &["hypervisor.interrupt", "hcall.vio_signal", "hcall.vio_signal"][..],
            &["cpu.tcp_gro", "cpu.tcp_receive"][..],
        ),
        ("ibmvnic-arrivals", &["serial.receive", "hcall.vioctl", "hcall.vioctl"], &[]),
    ];
    for (scenario, spans, above) in cases {
        let plan = DOORBELL.plan(scenario).unwrap();
        let v = |name: &&str| plan.values.number(name);
        let spans: f64 = spans.iter().chain(&calls).map(v).sum();
        let cycles: f64 = polled.iter().chain(above).map(v).sum();
        // The hypervisor's copy is a read and a write, and here the write. The driver copies, too.
        let copies = 60.0 * v(&"hypervisor.copy") / 1024.0 / 2.0;
        let by_hand = spans + copies + (cycles + 60.0 * v(&"cpu.copy")) / v(&"cpu.frequency");
        let m = run(scenario, &LONE);
        let measured = number(&m, "latency_ns.min");
        assert!((measured - by_hand).abs() < 1.0, "{scenario}: {by_hand}, {measured} measured");
        // Now and then one waits until buffers are given back.
        let median = number(&m, "latency_ns.p50");
        assert!((median / by_hand - 1.0).abs() < 0.005, "{scenario}: {by_hand}, {median}");
        assert_eq!(number(&m, "lost_share"), 0.0, "{scenario}");
        for name in ["packets_per_s", "interrupts_per_s"] {
            let rate = number(&m, name);
            assert!((rate - 100.0).abs() < 1e-6, "{scenario}: {name} {rate}");
        }
    }
}

/// The sizes of rings, and the key of each system.
fn ring(scenario: &str, size: u32) -> String {
    let key = if scenario.starts_with("ibmveth") { "pool_2k" } else { "rx_entries" };
    format!("driver.{key}={size}")
}

/// Offers a core more than it takes. Then it is busy all the time, and what it does not take finds
/// no buffer.
#[test]
fn an_overload_is_lost_in_the_ring_alone() {
    for scenario in SCENARIOS {
        for size in [64, 512, 2048] {
            let ring = ring(scenario, size);
            let of = |load: &str| {
                let one: &[&str] =
                    if scenario.starts_with("ibmvnic") { &["driver.queues=1"] } else { &[] };
                let sets = [
                    &ring,
                    load,
                    "traffic.pattern=even",
                    "traffic.warmup=20",
                    "traffic.duration=20",
                ];
                run(scenario, &[one, &sets, &["traffic.arrival_size=60"]].concat())
            };
            let (some, all) = (of("traffic.load=50"), of("traffic.load=100"));
            for m in [&some, &all] {
                let [lost, ring] = ["lost_share", "lost_ring_share"].map(|n| number(m, n));
                assert!(lost == ring && lost > 0.5, "{scenario} {size}: {lost} {ring}");
                assert!(number(m, "cpu_busy_share") > 0.99, "{scenario} {size}");
            }
            let more = all.packets_per_s() / some.packets_per_s();
            assert!((more - 1.0).abs() < 0.02, "{scenario} {size}: {more} of it with more load");
        }
    }
}

/// Of 512 buffers at least 256 are there when a burst comes: vNICs are given new ones below half.
#[test]
fn a_burst_that_fits_the_ring_is_not_lost() {
    for scenario in SCENARIOS {
        let of = |frames: u32| {
            let frames = format!("traffic.frames={frames}");
            let ring = ring(scenario, 512);
            let one: &[&str] =
                if scenario.starts_with("ibmvnic") { &["driver.queues=1"] } else { &[] };
            let sets = ["traffic.pattern=bursts", "traffic.every=20000", "traffic.warmup=0"];
            // Frames of more than 512 bytes take buffers of 2 KiB.
            let size = ["traffic.arrival_size=1514", "traffic.duration=200", &frames, &ring];
            number(&run(scenario, &[one, &sets, &size].concat()), "lost_ring_share")
        };
        assert_eq!(of(250), 0.0, "{scenario}");
        assert!(of(4000) > 0.2, "{scenario}: {}", of(4000));
    }
}

#[test]
fn the_servers_hash_spreads_flows_over_the_queues() {
    let rate = |queues: u32, flows: &str| {
        let sets = [
            &format!("driver.queues={queues}"),
            &format!("traffic.flows={flows}"),
            "traffic.load=40",
            "traffic.pattern=even",
            "traffic.arrival_size=60",
            // What the server does for all queues is free.
            "serial.receive=0",
            "serial.indirect=0",
            "serial.descriptor=0",
        ];
        let m = run("ibmvnic-arrivals", &sets);
        (m.packets_per_s(), number(&m, "cpu_busy_share"))
    };
    let (one, busy) = rate(1, "each_core");
    assert!(busy > 0.99);
    let (four, busy) = rate(4, "each_core");
    assert!((four / one - 4.0).abs() < 0.1 && busy > 0.99, "{four} of {one}, {busy}");
    // All frames of a flow go to one queue, so that three cores are idle.
    let (alone, busy) = rate(4, "1");
    assert!((alone / one - 1.0).abs() < 0.02 && (busy - 0.25).abs() < 0.01, "{alone} {busy}");
}

/// Frames of a capture, 40 us apart, of lengths that repeat.
fn capture() -> Arc<Frames> {
    let mut frames = Frames::default();
    for i in 0..60u16 {
        let mut frame = vec![0x11; [60, 590, 1514][usize::from(i % 3)]];
        frame[12..14].copy_from_slice(&[0x08, 0]);
        frames.push(Span::from_us(40 * u64::from(i)), &frame);
    }
    Arc::new(frames)
}

#[test]
fn a_capture_arrives_at_its_own_times() {
    for scenario in SCENARIOS {
        let sets = [
            "traffic.pattern=capture",
            "traffic.file=mine.pcap",
            "traffic.warmup=0",
            "traffic.duration=24",
        ];
        let m = sound::run(scenario, &sets, Some(&capture()));
        assert!((m.packets_per_s() / 25_000.0 - 1.0).abs() < 0.01, "{scenario}");
        let bits = 25_000.0 * 8.0 * f64::from(60 + 590 + 1514) / 3.0;
        let measured = number(&m, "payload_bits_per_s");
        assert!((measured / bits - 1.0).abs() < 0.01, "{scenario}: {measured} of {bits}");
        assert_eq!(number(&m, "lost_share"), 0.0, "{scenario}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Holds each frame that arrived against where it went, at any load, with faults and without.
    #[test]
    fn what_arrives_is_handed_up_or_lost_in_the_ring(
        vnic in any::<bool>(),
        queues in 1..5u32,
        size in prop::sample::select(vec![16u32, 64, 512]),
        other in prop::sample::select(vec!["below_half", "each_poll", "whole_arrays"]),
        copy in prop::sample::select(vec!["driver.transmit=copy", "driver.multi_buffer=on"]),
        load in 1..100u32,
        bytes in 60..1500u32,
        flows in prop::sample::select(vec!["each_core", "1", "100"]),
        pattern in prop::sample::select(
            vec!["even", "poisson", "bursts", "steps", "on_off", "random", "capture"]
        ),
        fault in prop::sample::select(vec![
            "", "", "lost-interrupt@every=9", "late-completion@every=20:100us",
            "poisoned-completion@every=50", "dma-fault@every=300", "link-flap@200us:300us",
        ]),
    ) {
        let scenario = SCENARIOS[usize::from(vnic)];
        let mut sets = vec![
            format!("traffic.pattern={pattern}"),
            ring(scenario, size),
            "traffic.warmup=0.2".to_owned(),
            "traffic.duration=2".to_owned(),
            "run.guard=byte".to_owned(),
        ];
        sets.push(match vnic {
            true => format!("driver.queues={queues}"),
            false => copy.to_owned(),
        });
        sets.extend(vnic.then(|| format!("driver.replenish={other}")));
        sets.push(format!("traffic.flows={flows}"));
        match pattern {
            "capture" => sets.push("traffic.file=mine.pcap".to_owned()),
            "random" => {}
            "bursts" => {
                sets.extend(["traffic.frames=700", "traffic.every=900"].map(str::to_owned));
            }
            "steps" | "on_off" => {
                sets.extend([format!("traffic.load={load}"), "traffic.hold=0.4".to_owned()]);
            }
            _ => sets.push(format!("traffic.load={load}")),
        }
        if !["capture", "random"].contains(&pattern) {
            sets.push(format!("traffic.arrival_size={bytes}"));
        }
        if !fault.is_empty() {
            sets.push(format!("run.fault={fault}"));
            sets.push("run.watchdog=1".to_owned());
        }
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let frames = (pattern == "capture").then(capture);
        let m = sound::run(scenario, &sets, frames.as_ref());
        let [lost, ring] = ["lost_share", "lost_ring_share"].map(|n| number(&m, n));
        prop_assert_eq!(lost, ring);
    }
}
