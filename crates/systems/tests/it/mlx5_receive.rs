//! Frames that arrive on mlx5, held against sums by hand: lone frames, a port that is full, and
//! cores that are.

use crate::sound::{self, number};
use doorbell_systems::Plan;
use doorbell_systems::result::Measured;
use proptest::prelude::*;

fn plan(sets: &[&str]) -> Plan {
    sound::plan("mlx5-receive", sets)
}

fn run(sets: &[&str]) -> Measured {
    sound::run_of(&plan(sets), None)
}

const LONE: [&str; 6] = [
    "traffic.pattern=bursts",
    "traffic.frames=1",
    "traffic.every=1000",
    "traffic.warmup=0",
    "traffic.duration=40",
    "run.cores=1",
];

/// Data, CQE, EQE and message follow each other on the link; then the handler and the poll run.
#[test]
fn a_lone_frames_latency_is_the_sum_of_its_steps() {
    let now = ["driver.rx_moderation_period=0", "driver.rx_moderation_count=0"];
    let m = run(&[&LONE[..], &now].concat());
    let plan = plan(&[]);
    let v = |name: &str| plan.values.number(name);
    let cycles = |names: &[&str]| names.iter().map(|n| v(n)).sum::<f64>() / v("cpu.frequency");
    // Padded to the symbol time of 16 lanes: data, CQE and EQE of 64 bytes, a message of 4 without
    // the upper half of its address.
    let bytes_per_ns = 16.0 * 8.0 / 8.0 * 128.0 / 130.0;
    let tlps = (96.0 + 96.0 + 96.0 + 32.0) / bytes_per_ns;
    let device = v("nic.pipeline_delay") + tlps + v("pcie.link_latency");
    // The event is read and its entry's fence passed, and so is the CQE's; one frame is no bulk of
    // buffers. The EQ and five CQs are armed behind the poll, before the frame is handed up.
    let handler = cycles(&["cpu.interrupt", "cpu.fence"]);
    let poll = cycles(&["cpu.poll", "cpu.fence", "cpu.completion", "cpu.rx_packet", "cpu.fence"]);
    let arming = 5.0 * v("cpu.mmio_write_spacing") + cycles(&["cpu.mmio_write"]);
    let by_hand = device + handler + poll + arming;
    let measured = number(&m, "latency_ns.min");
    assert!((measured - by_hand).abs() < 1.0, "{by_hand} by hand, {measured} measured");
    assert_eq!(number(&m, "lost_share"), 0.0);
    assert_eq!(number(&m, "interrupts_per_s"), 1000.0);
}

#[test]
fn moderation_holds_a_lone_frame_for_its_period() {
    let of = |us: &str| {
        let period = format!("driver.rx_moderation_period={us}");
        number(&run(&[&LONE[..], &[&period]].concat()), "latency_ns.p50")
    };
    let (eight, none) = (of("8"), of("0"));
    assert!((of("64") - eight - 56_000.0).abs() < 200.0, "{eight}");
    assert!((eight - none - 8_000.0).abs() < 200.0, "{eight} {none}");
}

/// With a frame each 4 us, an event has 3 frames after 8 us, 1 after 1 us, 17, 33 and 65 after 64,
/// 128 and 256 us. net_dim looks at each 64 events behind one. It begins with 8 us, tries 1 us,
/// which is worse, and goes on until there is no longer period: after 195, 260, 455, 1,560 and
/// 3,705 frames, which is 14.8 ms.
#[test]
fn adaptive_moderation_climbs_as_net_dim_does() {
    let every = ["traffic.every=4", "driver.adaptive_rx=on", "traffic.duration=15"];
    let m = run(&[&LONE[..], &every].concat());
    let changes = |m: &Measured| number(m, "driver_rx_moderated") * m.packets as f64;
    assert_eq!(changes(&m).round(), 5.0);
    let later = ["traffic.every=4", "driver.adaptive_rx=on", "traffic.warmup=16"];
    let m = run(&[&LONE[..], &later].concat());
    assert_eq!(changes(&m), 0.0, "it stays where it is best");
    // The frame that comes while the CQ is armed again is the next event's first: 66 frames.
    let per_s = number(&m, "interrupts_per_s");
    assert!((per_s - 1e6 / 264.0).abs() < 0.02 * per_s, "{per_s}");
    let wait = number(&m, "latency_ns.max");
    assert!((256_000.0..261_000.0).contains(&wait), "{wait}");
}

#[test]
fn adaptive_moderation_begins_with_eight_microseconds() {
    let p50 = |more: &[&str]| number(&run(&[&LONE[..], more].concat()), "latency_ns.p50");
    let fixed = p50(&["driver.rx_moderation_period=8", "driver.rx_moderation_count=256"]);
    assert_eq!(p50(&["driver.adaptive_rx=on"]), fixed, "before 64 events nothing is decided");
}

/// Bytes toward the host: data and CQE of a line each, and nothing of the frame twice.
#[test]
fn a_frame_costs_its_lines_and_a_cqe() {
    for (size, padding, lines) in
        [(60, "on", 64), (60, "off", 60), (65, "on", 128), (512, "on", 512)]
    {
        let sets = [format!("traffic.arrival_size={size}"), format!("driver.rx_padding={padding}")];
        let m = run(&[&LONE[..], &[&sets[0], &sets[1]]].concat());
        // With an EQE and a message.
        assert_eq!(number(&m, "pcie_write_bytes"), f64::from(lines + 64 + 64 + 4), "{size}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Holds each frame that arrived against where it went, at any load.
    #[test]
    fn what_arrives_is_taken_or_lost_at_a_place_that_is_named(
        cores in 1..5u32,
        ring in prop::sample::select(vec![64u32, 256, 1024]),
        load in 5..100u32,
        size in 60..600u32,
        fifo in prop::sample::select(vec![16u32, 512]),
        lanes in prop::sample::select(vec![1u32, 4, 16]),
        pattern in prop::sample::select(vec!["even", "poisson"]),
        xdp in prop::sample::select(vec!["off", "drop", "read", "tx", "redirect"]),
        ways in prop::sample::select(vec![0u32, 1, 11, 20]),
        policy in prop::sample::select(vec!["inclusive", "victim"]),
        striding in prop::sample::select(vec!["off", "on"]),
        compression in prop::sample::select(vec!["off", "basic", "enhanced"]),
    ) {
        let sets = [
            format!("nic.striding={striding}"),
            format!("nic.cqe_compression={compression}"),
            format!("run.cores={cores}"),
            format!("driver.rx_ring={ring}"),
            format!("traffic.load={load}"),
            format!("traffic.arrival_size={size}"),
            format!("nic.rx_fifo={fifo}"),
            format!("pcie.lanes={lanes}"),
            format!("traffic.pattern={pattern}"),
            format!("driver.xdp={xdp}"),
            format!("memory.ways={ways}"),
            format!("memory.policy={policy}"),
            "memory.latency=80".to_owned(),
            "traffic.duration=0.3".to_owned(),
        ];
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let m = run(&sets);
        let [lost, fifo, ring] =
            ["lost_share", "lost_fifo_share", "lost_ring_share"].map(|n| number(&m, n));
        prop_assert!((lost - fifo - ring).abs() < 1e-9);
    }
}

/// UMRs, their NOPs and their doorbells are counted on both sides, which the audit compares. A UMR
/// is for 64 pages: 128 frames of an MTU of 1500, or 64 under XDP.
#[test]
fn a_umr_is_for_as_many_frames_as_its_pages_hold() {
    let umrs = |kind: &str, xdp: &str| {
        let (kind, xdp) = (format!("traffic.kind={kind}"), format!("driver.xdp={xdp}"));
        let mut sets = vec![&*kind, "nic.striding=on", "traffic.warmup=1", "traffic.duration=3"];
        if !xdp.ends_with("off") {
            sets.push(&xdp);
        }
        number(&run(&sets), "driver_rx_umrs")
    };
    for (kind, xdp, frames) in
        [("arrivals", "off", 128.0), ("arrivals", "drop", 64.0), ("receive", "off", 128.0)]
    {
        let got = umrs(kind, xdp) * frames;
        assert!((got - 1.0).abs() < 0.02, "{kind} {xdp}: {got}");
    }
    for kind in ["send", "transactions"] {
        assert!(umrs(kind, "off") < 1.0 / 128.0, "{kind}");
    }
}

const CACHE: [&str; 3] = ["memory.ways=20", "memory.slices=6", "memory.latency=70"];

/// A lone frame under XDP_TX: the sum of the steps on its way to the program.
#[test]
fn a_lone_frame_is_sent_back_from_its_page() {
    let m = run(&[&LONE[..], &["driver.xdp=tx"]].concat());
    // Data and CQE of the frame, its CQE when it is sent, and two EQEs and messages or one of both.
    let written = number(&m, "pcie_write_bytes");
    assert!(
        [64.0 + 64.0 + 64.0 + 68.0, 64.0 + 64.0 + 64.0 + 136.0].contains(&written),
        "{written}"
    );
    assert_eq!(number(&m, "wire_frames"), 1.0);
    let mapped = (number(&m, "maps") * 40.0, number(&m, "unmaps"));
    assert!(mapped.0 <= 1.0 && mapped.1 == 0.0, "pages stay mapped: {mapped:?}");
    let more = number(&m, "mmio_writes") - number(&run(&LONE), "mmio_writes");
    assert_eq!(more, 7.0, "a doorbell; the EQ and five CQs are armed again behind its completion");
}

/// One frame each millisecond finds all of its lines in the cache: the device has just written
/// them.
/// Without latency, or without a cache, times are the same to the picosecond.
#[test]
fn a_lone_frame_misses_nothing() {
    let tx = [&LONE[..], &["driver.xdp=tx"]].concat();
    let (plain, cached) = (run(&tx), run(&[&tx[..], &CACHE].concat()));
    let misses = number(&cached, "llc_cpu_misses");
    assert!((misses - 1.0).abs() < 0.1, "blocks of the send queue are new: {misses}");
    assert!(number(&cached, "llc_cpu_hits") >= 3.0, "two CQEs and the frame");
    assert_eq!(plain.latency_ns(), cached.latency_ns());
    assert_eq!(number(&cached, "cycles_memory"), 0.0);
    assert!(plain.number("llc_cpu_hits").is_none(), "nothing is counted without a cache");
}

/// With more frames than the cache has lines for, each waits for one line of its own: the whole of
/// the time of a miss, and no more.
#[test]
fn frames_beyond_the_cache_cost_a_miss_each() {
    let small = ["memory.ways=2", "memory.sets=16", "memory.dma_ways=1"];
    let full = ["driver.xdp=read", "run.cores=1", "memory.latency=70"];
    let m = run(&[&full[..], &small].concat());
    let misses = number(&m, "llc_cpu_misses");
    let ghz = plan(&[]).values.number("cpu.frequency");
    assert!((1.9..3.0).contains(&misses), "the frame, its CQE and a record: {misses}");
    let loads = number(&m, "cycles_memory") / (70.0 * ghz);
    assert!(loads <= misses && loads > 1.9, "{loads} of {misses}");
}

/// The ways for DMA decide nothing where frames of a full ring lie at one offset of their pages:
/// what a core has missed lies in any way.
#[test]
fn ways_for_dma_do_not_move_the_curve_of_a_full_ring() {
    let of = |ways: &str| {
        let ways = format!("memory.dma_ways={ways}");
        let sets = ["driver.xdp=tx", "run.cores=4", "traffic.warmup=0.5", "pcie.tags=256", &ways];
        number(&run(&[&sets[..], &CACHE].concat()), "packets_per_s")
    };
    let (one, two, all) = (of("1"), of("2"), of("20"));
    assert!((one / two - 1.0).abs() < 0.03 && (all / two - 1.0).abs() < 0.03, "{one} {two} {all}");
}

/// Two seeds draw other frames of pages, and results that differ by little; one seed draws one.
#[test]
fn the_seed_draws_the_pages() {
    let of = |seed: &str| {
        let seed = format!("run.seed={seed}");
        let sets = ["driver.xdp=tx", "run.cores=3", "pcie.tags=256", &seed];
        number(&run(&[&sets[..], &CACHE].concat()), "llc_cpu_misses")
    };
    assert_eq!(of("1"), of("1"));
    assert_ne!(of("1"), of("2"));
}
