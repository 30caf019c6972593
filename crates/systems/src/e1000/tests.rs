//! Runs of every kind are sound and repeatable, with the transactions of the bus rules.

use super::*;
use crate::card::{load, run, setup};
use crate::tests::{every_key_moves, frames, plan};
use crate::{Plan, Unwatched};

fn outcome(scenario: &str, sets: &[&str]) -> RunStats {
    let plan = plan(scenario, sets);
    let s = setup::<E1000>(&plan.values).unwrap();
    let l = load::<E1000>(&plan.values, &s, Some(&frames(40, 1000))).unwrap();
    let o =
        run::<E1000>(&s, &l, &mut Unwatched).unwrap_or_else(|e| panic!("{scenario} {sets:?}: {e}"));
    assert!(o.verdict.audit.is_empty(), "{scenario} {sets:?}: {:?}", o.verdict.audit);
    o
}

const SHORT: &str = "traffic.duration=5";

#[test]
fn every_part_on_every_bus_carries_every_kind_of_traffic() {
    for part in ["82540em", "82544gc", "82545em"] {
        for bus in ["pci", "pcix", "pcie"] {
            for kind in ["send", "receive", "transactions", "pktgen", "pcap"] {
                for copy in ["off", "on"] {
                    let part = format!("nic.part={part}");
                    let (bus, kind) = (format!("bus.kind={bus}"), format!("traffic.kind={kind}"));
                    let copy = format!("driver.copy_align={copy}");
                    let sets = [
                        &part[..],
                        &bus,
                        &kind,
                        &copy,
                        "pci.clock=66",
                        "traffic.packets=200",
                        "traffic.warmup=5",
                        SHORT,
                        "run.guard=byte",
                    ];
                    assert!(outcome("e1000-send", &sets).counts.packets > 30, "{sets:?}");
                }
            }
        }
    }
}

#[test]
fn large_sends_scatter_and_small_rings_are_sound() {
    for sets in [
        ["traffic.large_send=64240", "driver.tx_ring=48"],
        ["traffic.large_send=auto", "traffic.scatter=on"],
        ["traffic.scatter=on", "driver.copy_align=on"],
        ["traffic.connections=30", "run.application=own_core"],
        ["traffic.tx_checksum=off", "driver.copybreak=0"],
    ] {
        outcome("e1000-send", &[&sets[..], &[SHORT]].concat());
        outcome(
            "e1000-send",
            &[&sets[..], &[SHORT, "nic.read_across=no", "iommu.kind=identity"]].concat(),
        );
    }
}

#[test]
fn the_same_plan_gives_the_same_counts() {
    for scenario in ["e1000-send", "e1000-receive", "e1000-transactions", "e1000-pktgen"] {
        let once = || {
            let o = outcome(scenario, &[SHORT, "traffic.packets=500"]);
            (o.counts.ledger, o.counts.counters, o.counts.elapsed, o.counts.busy, o.counts.payload)
        };
        assert_eq!(once(), once());
    }
}

/// The traces of the source come from driver and device, not from the rules alone.
#[test]
fn a_run_makes_the_transactions_of_the_traces() {
    let per_packet = |o: &RunStats, n: u64| n as f64 / o.counts.packets as f64;
    // From 0x…0A8: two of 512 and one shorter MRM, a line, a rest. A fetch of descriptors for some
    // fifty packets is MRM too.
    let o = outcome("e1000-send", &["traffic.duration=20"]);
    let l = &o.counts.ledger;
    let counts = [l.pci_mrm, l.pci_mrl, l.pci_mr].map(|n| per_packet(&o, n));
    assert!((3.0..3.1).contains(&counts[0]) && (0.99..1.01).contains(&counts[1]), "{counts:?}");
    assert!((0.99..1.05).contains(&counts[2]), "{counts:?}");
    // Copied to slots: three MRM.
    let o = outcome("e1000-send-aligned", &["traffic.duration=20"]);
    let l = &o.counts.ledger;
    let counts = [l.pci_mrm, l.pci_mrl, l.pci_mr].map(|n| per_packet(&o, n));
    assert!((3.0..3.1).contains(&counts[0]) && counts[1] < 0.05 && counts[2] < 0.05, "{counts:?}");
    assert_eq!((l.maps, l.unmaps, l.tce_puts), (0, 0, 0), "a slot is mapped for good");
    // Received at 0x…012 a line at either end is written in part, on a line only the last. A frame
    // comes with its FCS; four bytes fewer end where the trace's do. What else is written are
    // descriptors.
    let partial = |sets: &[&str]| {
        let o = outcome("e1000-receive", &[&["traffic.duration=20"], sets].concat());
        let counter = |name| o.counts.counters[1].iter().find(|c| c.0 == name).map_or(0, |c| c.1);
        per_packet(&o, o.counts.ledger.pci_partial_lines - counter("write_backs"))
    };
    assert!((1.98..2.02).contains(&partial(&["traffic.mss=1456"])));
    assert!((0.98..1.02).contains(&partial(&["driver.rx_align=0", "driver.rx_buffer_offset=0"])));
}

#[test]
fn every_key_but_a_few_changes_the_setup_or_the_load() {
    let frames = frames(1, 60);
    let fingerprint = |plan: &Plan| {
        let s = setup::<E1000>(&plan.values)?;
        load::<E1000>(&plan.values, &s, Some(&frames)).map(|l| format!("{s:?} {l:?}"))
    };
    let kinds = ["send", "receive", "transactions", "pktgen", "pcap"].map(|kind| (kind, "even"));
    let patterns = ["even", "bursts", "steps", "capture"].map(|pattern| ("arrivals", pattern));
    let slots = [("pci", "82545em"), ("pcix", "82545em"), ("pcie", "82545em"), ("pcie", "82574l")];
    let bases: Vec<Plan> = slots
        .iter()
        .flat_map(|slot| kinds.iter().chain(&patterns).map(move |kind| (slot, kind)))
        .map(|((bus, part), (kind, pattern))| {
            let sets = [
                &format!("bus.kind={bus}")[..],
                &format!("nic.part={part}"),
                "pci.clock=66",
                &format!("traffic.kind={kind}"),
                &format!("traffic.pattern={pattern}"),
                "traffic.arrival_size=100",
                "driver.rx_prefetch=1",
                "traffic.mss=1000",
                "traffic.offset=1",
                "driver.rx_buffer_offset=3",
                "traffic.gso=500",
                "traffic.arrivals=on_off",
                "run.fault=lost-interrupt@1",
            ];
            plan("e1000-send", &sets)
        })
        .collect();
    // Those of the capture's reader, and of frames that cannot be sent.
    let silent = ["traffic.file", "traffic.pad", "traffic.interface", "traffic.skip"];
    every_key_moves(&bases, &silent, fingerprint);
}

#[test]
fn values_that_do_not_go_together_are_refused() {
    let refused = |sets: &[&str]| {
        let plan = plan("e1000-send", sets);
        match setup::<E1000>(&plan.values) {
            Err(e) => e,
            Ok(s) => load::<E1000>(&plan.values, &s, None).unwrap_err(),
        }
    };
    insta::assert_snapshot!(
        refused(&["pci.clock=100"]),
        @"mhz = 100 is not a PCI setting; allowed: 33, 66 (66, 100, 133 on PCI-X)"
    );
    insta::assert_snapshot!(
        refused(&["nic.part=82574l"]),
        @"`nic.part` is 82574l, a part of PCI Express, and `bus.kind` is pci"
    );
    insta::assert_snapshot!(
        refused(&["driver.tx_ring=52"]),
        @"`driver.tx_ring` is 52; allowed: multiples of 8 from 48 to 4096"
    );
    insta::assert_snapshot!(
        refused(&["driver.rx_buffer_offset=2047", "driver.rx_buffer_align=2048"]),
        @"`driver.rx_buffer_offset` is 2047 B; with `driver.rx_align` it is to stay below \
          `driver.rx_buffer_align`, 2048"
    );
    insta::assert_snapshot!(
        refused(&["traffic.mss=1461"]),
        @"`traffic.mss` is 1461 B, but the device's longest frame holds 1460"
    );
    insta::assert_snapshot!(
        refused(&["traffic.kind=pcap"]),
        @"the traffic is a capture, but none is given: --pcap FILE, or `traffic.file`"
    );
    insta::assert_snapshot!(
        refused(&["traffic.connections=4096", "traffic.window=65536"]),
        @"2833609 MiB of simulated memory would be needed, and 3072 are the most; take fewer \
          connections (`traffic.connections`), a smaller window (`traffic.window`), shorter rings \
          or `run.guard=page`"
    );
}

/// Doorbells, stops and the ledger of 2000 frames of 1514 bytes at full speed, in bursts of 64.
fn at_full_speed(kind: &str, bql: &str) -> (u64, u64, doorbell_bus::Ledger) {
    let (kind, bql) = (format!("traffic.kind={kind}"), format!("stack.bql={bql}"));
    let plan = plan("e1000-pktgen", &[&kind, &bql, "traffic.packets=2000", "traffic.burst=64"]);
    let s = setup::<E1000>(&plan.values).unwrap();
    let l = load::<E1000>(&plan.values, &s, Some(&frames(2000, 1514))).unwrap();
    let o = run::<E1000>(&s, &l, &mut Unwatched).unwrap();
    assert_eq!((o.totals.driver.tx_queued, &o.verdict.audit[..]), (2000, &[][..]));
    (o.totals.driver.tx_tail, o.totals.driver.tx_stopped, o.counts.ledger)
}

#[test]
fn the_byte_limit_ends_batches_of_a_stack() {
    let (off, stopped, _) = at_full_speed("pcap", "off");
    assert!(stopped > 0, "the ring fills");
    let (on, stopped, _) = at_full_speed("pcap", "on");
    assert!(on > off, "{on} doorbells, {off} without a limit");
    assert_eq!(stopped, 0, "the limit holds the stack back before the ring is full");
}

#[test]
fn pktgen_does_not_look_at_the_byte_limit() {
    assert_eq!(at_full_speed("pktgen", "on"), at_full_speed("pktgen", "off"));
}

#[test]
fn what_the_limit_held_back_goes_in_batches() {
    let per_packet = |bql| {
        let d = outcome("e1000-send", &[SHORT, "traffic.warmup=20", bql]).totals.driver;
        (d.tx_tail as f64 / d.tx_queued as f64, d.tx_stopped)
    };
    let (tails, stopped) = per_packet("stack.bql=on");
    assert!(tails < 0.5 && stopped == 0, "{tails} doorbells a packet, stopped {stopped} times");
    assert!(per_packet("stack.bql=off").1 > 0);
}

const TWO: [&str; 4] =
    ["run.cores=2", "traffic.pattern=even", "traffic.load=60", "traffic.duration=20"];

#[test]
fn two_queues_of_an_82574l_share_what_arrives() {
    for size in ["traffic.arrival_size=60", "traffic.arrival_size=1514"] {
        let o = outcome("e1000e-82574l", &[&TWO[..], &[size]].concat());
        let (d, n) = (&o.totals.driver, &o.totals.device);
        assert_eq!((d.rx_packets, n.rx_missed), (n.rx_packets, 0));
        let [a, b] = o.counts.busy[..] else { panic!("two cores") };
        assert!(a.min(b) * 5 > a.max(b) * 4, "{a} and {b}");
        // By vector: those of queue 0, then those of queue 1.
        let [rx0, .., rx1, _] = o.counts.interrupts[..] else { panic!("five vectors") };
        assert!(rx0.min(rx1) > 100, "{:?}", o.counts.interrupts);
    }
}

#[test]
fn two_queues_of_an_82574l_send() {
    for kind in ["traffic.kind=pktgen", "traffic.kind=pcap"] {
        let sets = [kind, "run.cores=2", "traffic.packets=1000"];
        let o = outcome("e1000e-82574l", &sets);
        assert_eq!(o.totals.driver.tx_queued, o.totals.device.tx_packets);
        assert!(o.totals.device.tx_packets >= 40, "{kind}");
    }
}

#[test]
fn two_queues_of_an_82574l_outlive_faults() {
    for fault in ["dma-fault@2000", "lost-interrupt@every=3", "link-flap@2ms:1ms"] {
        let fault = format!("run.fault={fault}");
        let sets = [&TWO[..], &["traffic.duration=60", "run.watchdog=5", &fault]].concat();
        let o = outcome("e1000e-82574l", &sets);
        assert!(o.totals.driver.rx_packets > 500, "{fault}");
        let sets = ["traffic.kind=pktgen", "run.cores=2", "traffic.packets=2000", &fault];
        outcome("e1000e-82574l", &sets);
    }
}

#[test]
fn more_queues_are_refused_where_there_are_none() {
    let refused = |sets: &[&str]| setup::<E1000>(&plan("e1000e-82574l", sets).values).unwrap_err();
    insta::assert_snapshot!(
        refused(&["run.cores=2", "driver.interrupts=line"]),
        @"`run.cores` is 2, and `driver.interrupts` is not msix"
    );
    assert!(plan("e1000e-82574l", &[]).set("run.cores=3").is_err());
}
