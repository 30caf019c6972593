//! The conclusions of `docs/e1000.md`: gains and break-even points of the copy to aligned slots,
//! and the answers to the other questions of 2003. A change of the models that makes a sentence of
//! the document wrong fails here. Runs are short, so limits have a margin.

use doorbell_bus::pci::{Protocol, Rules, Settings};
use doorbell_hal::WorkKind;
use doorbell_sim::Unwatched;
use doorbell_systems::DOORBELL;
use doorbell_systems::card::{load, run, setup};
use doorbell_systems::e1000::{E1000, RunStats};

/// Offset of the trace's frame within the bridge's 512 bytes.
const TRACE: u64 = 0xa8;
/// Duration of runs in which 64 descriptors more or less at either end would show.
const LONG: &str = "traffic.duration=50";
/// The same path on PCI-X, which has no wait states between the data phases of a write.
const PCI_X: [&str; 3] = ["bus.kind=pcix", "pci.clock=133", "pci.write_byte=0"];
/// Headers before the payload: Ethernet, IP, TCP.
const HEADERS: u32 = 54;

fn outcome(scenario: &str, sets: &[&str]) -> RunStats {
    let mut plan = DOORBELL.plan(scenario).unwrap();
    for s in ["traffic.duration=20"].iter().chain(sets) {
        plan.set(s).unwrap_or_else(|e| panic!("{e}"));
    }
    let setup = setup::<E1000>(&plan.values).unwrap();
    let load = load::<E1000>(&plan.values, &setup, None).unwrap();
    let o = run::<E1000>(&setup, &load, &mut Unwatched).unwrap_or_else(|e| panic!("{sets:?}: {e}"));
    assert!(o.verdict.audit.is_empty(), "{sets:?}: {:?}", o.verdict.audit);
    o
}

/// Runs the sending scenario with the copy and without.
fn both(sets: &[&str]) -> [RunStats; 2] {
    ["on", "off"].map(|copy| {
        outcome("e1000-send", &[sets, &[&format!("driver.copy_align={copy}")]].concat())
    })
}

fn mbit(o: &RunStats) -> f64 {
    8.0 * o.counts.payload as f64 / o.counts.elapsed.as_secs_f64() * 1e-6
}

fn each(o: &RunStats, n: u64) -> f64 {
    n as f64 / o.counts.packets as f64
}

/// Returns read commands on PCI for each packet.
fn reads(o: &RunStats) -> f64 {
    each(o, o.counts.ledger.pci_mr + o.counts.ledger.pci_mrl + o.counts.ledger.pci_mrm)
}

fn device(o: &RunStats, name: &str) -> f64 {
    each(
        o,
        o.counts.counters[1].iter().find(|c| c.0 == name).unwrap_or_else(|| panic!("no {name}")).1,
    )
}

/// Returns nanoseconds of one kind of work for each packet.
fn spent(o: &RunStats, kind: WorkKind) -> f64 {
    o.counts.work.iter().filter(|w| w.0 == kind).map(|w| w.2.as_ns_f64()).sum::<f64>()
        / o.counts.packets as f64
}

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance
}

/// Returns the commands for a frame of `len` bytes at offset `at` within the bridge's 512 bytes.
fn commands(at: u64, len: u32) -> i64 {
    Rules::new(Settings::POWER4).unwrap().reads(at, len).count() as i64
}

#[test]
fn of_a_full_frame_the_copy_saves_two_commands_and_a_tenth_of_the_time() {
    let [on, off] = both(&[]);
    assert!(near(reads(&off) - reads(&on), 2.0, 0.02));
    assert!(near(mbit(&on) / mbit(&off), 1.11, 0.01), "{} {}", mbit(&on), mbit(&off));
    // Two waits and their clocks are 1.5 us. Amid the commands of a longer packet, more of the
    // writes arrive in memory before a read waits for them.
    let time = |o: &RunStats| o.counts.elapsed.as_ns_f64() / o.counts.packets as f64;
    assert!(near(time(&off) - time(&on), 1400.0, 60.0), "{}", time(&off) - time(&on));
}

#[test]
fn the_copy_saves_up_to_two_commands_or_costs_one_by_frame_size() {
    let saved = |len| commands(TRACE, len) - commands(0, len);
    for (what, ranges) in
        [(2, &[473..=512, 985..=1024, 1497..=1514][..]), (-1, &[217..=256, 641..=768, 1153..=1280])]
    {
        let all: Vec<u32> = (60..=1514).filter(|len| saved(*len) == what).collect();
        assert_eq!(all, ranges.iter().cloned().flatten().collect::<Vec<u32>>(), "{what}");
    }
    let mean = (60..=1514).map(saved).sum::<i64>() as f64 / 1455.0;
    assert!(near(mean, 1.0 / 3.0, 0.02), "{mean}");
}

#[test]
fn where_the_copy_costs_a_command_it_costs_rate() {
    for (mss, saved) in [(186u32, -1), (446, 2), (566, 0), (646, -1), (946, 2), (1146, -1)] {
        assert_eq!(commands(TRACE, mss + HEADERS) - commands(0, mss + HEADERS), saved);
        let [on, off] = both(&[&format!("traffic.mss={mss}")]);
        assert!(near(reads(&off) - reads(&on), saved as f64, 0.05), "{mss}");
        let gain = mbit(&on) - mbit(&off);
        match saved {
            0 => assert!(gain.abs() < 5.0, "{mss}: {gain}"),
            n => assert!(gain * n as f64 > 30.0, "{mss}: {gain}"),
        }
    }
}

#[test]
fn copying_is_cheaper_than_mapping_up_to_500_bytes() {
    let dearer = |mss: &str| {
        let [on, off] = both(&[mss]);
        let work = |o: &RunStats| spent(o, WorkKind::Copy) + spent(o, WorkKind::Map);
        work(&on) - work(&off)
    };
    assert!(dearer("traffic.mss=400") < 0.0 && dearer("traffic.mss=500") > 0.0);
}

#[test]
fn a_bridge_that_reads_twice_as_far_ahead_leaves_nothing_to_save() {
    let [on, off] = both(&["pci.boundary=1024"]);
    assert!(near(reads(&on), reads(&off), 0.01) && near(mbit(&on), mbit(&off), 3.0));
    let [copied, _] = both(&[]);
    assert!(mbit(&off) > mbit(&copied) + 30.0, "more than the copy brings");
    // The old firmware's.
    let [on, off] = both(&["pci.boundary=256"]);
    assert!(near(reads(&off) - reads(&on), 1.0, 0.02));
}

#[test]
fn a_bridge_as_fast_as_the_bus_leaves_the_wire_as_the_limit() {
    let [on, off] = both(&["pci.clock=66", "pci.read_byte=0", "pci.read_command=1000"]);
    assert!(near(mbit(&on), mbit(&off), 2.0) && mbit(&off) > 945.0);
}

#[test]
fn on_pci_x_the_copy_saves_completions_and_no_request() {
    for (mmrbc, requests) in [(512, 3.0), (1024, 2.0), (2048, 1.0), (4096, 1.0)] {
        let [on, off] = both(&[&PCI_X[..], &[LONG, &format!("pci.mmrbc={mmrbc}")]].concat());
        let asked = |o: &RunStats| each(o, o.counts.ledger.pcix_reads);
        assert!(near(asked(&on), requests, 0.1) && near(asked(&on), asked(&off), 0.01), "{mmrbc}");
        let answers = each(&off, off.counts.ledger.pcix_completions)
            - each(&on, on.counts.ledger.pcix_completions);
        assert!(near(answers, requests, 0.02), "{mmrbc}: {answers}");
        let clocks =
            each(&off, off.counts.ledger.pci_clocks) - each(&on, on.counts.ledger.pci_clocks);
        assert!(near(clocks, 5.0 * requests, 0.3), "{mmrbc}: {clocks}");
        assert!(near(mbit(&on), mbit(&off), 3.0) && mbit(&on) > 945.0, "the wire is full");
    }
    // Where the wire is not full, and pieces of 512 bytes wait until the bridge has all of them, it
    // costs.
    let [on, off] = both(
        &[
            &PCI_X[..],
            &[
                "pci.mmrbc=512",
                "pci.read_command=605",
                "pci.read_byte=4.97",
                "traffic.mss=512",
                "cpu.frequency=10",
            ],
        ]
        .concat(),
    );
    assert!(near(mbit(&on) / mbit(&off), 0.945, 0.02), "{} {}", mbit(&on), mbit(&off));
    // By the rules, whatever begins where.
    let protocol = Protocol::X { mmrbc: 2048, outstanding: 1 };
    let x = Rules::new(Settings { protocol, mhz: 133, ..Settings::POWER4 }).unwrap();
    assert!((0..512).all(|at| x.reads(at, 1514).count() == 1));
}

#[test]
fn on_pci_express_the_copy_saves_a_completion_a_request() {
    let [on, off] = both(&["bus.kind=pcie"]);
    let answers =
        each(&off, off.counts.ledger.pcie_cpld_down) - each(&on, on.counts.ledger.pcie_cpld_down);
    assert!(near(answers, 3.0, 0.05), "{answers}");
    assert!(near(mbit(&on), mbit(&off), 3.0) && mbit(&on) > 945.0, "the wire is full");
}

/// The fix that was proposed: a line of 128 bytes.
#[test]
fn alignment_to_a_line_gives_half_of_the_copys_gain() {
    let [on, off] = both(&[]);
    let whole = mbit(&on) - mbit(&off);
    let at = |offset: u32| {
        let sets = ["traffic.align=512", &format!("traffic.offset={offset}")];
        (mbit(&outcome("e1000-send", &sets)) - mbit(&off)) / whole
    };
    let shares = [0, 128, 256, 384].map(at);
    for (share, expected) in shares.iter().zip([1.0, 0.47, 0.0, 0.47]) {
        assert!(near(*share, expected, 0.05), "{shares:?}");
    }
    assert!(near(shares.iter().sum::<f64>() / 4.0, 0.48, 0.03), "{shares:?}");
    // Not the line's doing: any even address is nearly as good on average.
    let mean = |step: usize| {
        let all: Vec<i64> = (0..512).step_by(step).map(|at| commands(at, 1514)).collect();
        all.iter().sum::<i64>() as f64 / all.len() as f64
    };
    assert!(near(mean(2), 4.2, 0.05) && mean(128) == 4.0, "{} {}", mean(2), mean(128));
    let steps: Vec<u64> =
        (2..512).step_by(2).filter(|at| commands(*at, 1514) != commands(at - 2, 1514)).collect();
    assert_eq!(steps, [0x18, 0x98, 0x118]);
}

/// Feldman's question.
#[test]
fn unaligned_dma_costs_rate_and_translation_costs_cycles() {
    let [copied, unaligned] = both(&[]);
    let aligned =
        |call: u32| outcome("e1000-send", &["traffic.offset=0", &format!("iommu.call={call}")]);
    // Aligned and mapped each time is as fast as copied, and stays so until the CPU is full.
    for call in [0, 1000, 3000] {
        assert!(near(mbit(&aligned(call)), mbit(&copied), 4.0), "{call}");
    }
    assert!(mbit(&aligned(6000)) < mbit(&unaligned) - 20.0);
    // The copy's cycles are those of mapping and two calls at 270 ns.
    let dearer = spent(&copied, WorkKind::Copy)
        - spent(&unaligned, WorkKind::Copy)
        - spent(&unaligned, WorkKind::Map);
    let calls = each(&unaligned, unaligned.counts.ledger.tce_hcalls);
    assert!(near(dearer / calls, 270.0, 5.0), "{}", dearer / calls);
}

#[test]
fn a_large_send_is_not_copied_and_better_than_the_copy() {
    let [on, off] = both(&["traffic.large_send=64240"]);
    let [copied, _] = both(&[]);
    // What is left at the end of the window may be short.
    let copies = |o: &RunStats| spent(o, WorkKind::Copy);
    assert!(on.totals.driver.tx_tso > 0, "large sends");
    assert!(near(copies(&on), copies(&off), 0.01 * copies(&copied)));
    assert!(mbit(&on) > mbit(&copied) + 60.0);
    // Checksums stay the card's when frames are copied.
    assert!(
        copied.totals.driver.tx_copied > 0
            && copied.totals.driver.tx_csum >= copied.totals.driver.tx_copied
    );
}

#[test]
fn a_receive_buffer_on_a_line_halves_the_partial_lines_for_a_command() {
    let at = |align: u32, offset: u32| {
        let sets =
            [format!("driver.rx_align={align}"), format!("driver.rx_buffer_offset={offset}")];
        let o = outcome("e1000-receive", &["traffic.mss=1456", &sets[0], &sets[1]]);
        // What else is written are descriptors, each a partial line.
        let reports = device(&o, "write_backs");
        [
            each(&o, o.counts.ledger.pci_mw + o.counts.ledger.pci_mwi),
            each(&o, o.counts.ledger.pci_partial_lines),
        ]
        .map(|n| n - reports)
    };
    for ((align, offset), [commands, partial]) in
        [((0, 0), [4.0, 1.0]), ((0, 16), [3.0, 2.0]), ((2, 0), [3.0, 2.0]), ((2, 16), [3.0, 2.0])]
    {
        let got = at(align, offset);
        assert!(
            // The source's application writes what there is room for, so that some are short.
            near(got[0], commands, 0.02 * commands) && near(got[1], partial, 0.02),
            "{align} {offset}: {got:?}"
        );
    }
}

/// The note's third point.
#[test]
fn a_prefetch_threshold_near_the_chips_size_makes_traffic_and_large_fetches_do_not() {
    let fetches = |more: &[&str]| {
        let o = outcome("e1000-send", &[more, &[LONG]].concat());
        assert!(near(device(&o, "fetched_descriptors"), 2.5, 0.02), "nothing is fetched twice");
        device(&o, "fetches")
    };
    assert!(fetches(&[&PCI_X[..], &["driver.tx_prefetch=0"]].concat()) < 0.05);
    assert!(near(fetches(&[&PCI_X[..], &["driver.tx_prefetch=63"]].concat()), 1.0, 0.02));
    // On the slow bus there is always something else to be read first.
    assert_eq!(fetches(&["driver.tx_prefetch=0"]), fetches(&["driver.tx_prefetch=63"]));

    let received = |set: &str| outcome("e1000-receive", &[set]);
    let (large, line, each_packet) = (
        received("driver.rx_prefetch=0"),
        received("driver.rx_prefetch=56"),
        received("driver.rx_prefetch=63"),
    );
    // Acknowledgements fetch as often in all of them.
    let more = |o: &RunStats| reads(o) - reads(&large);
    assert!(near(more(&line), 0.1, 0.02) && near(more(&each_packet), 0.47, 0.03));
    let clocks = each(&each_packet, each_packet.counts.ledger.pci_clocks)
        / each(&large, large.counts.ledger.pci_clocks);
    assert!(near(clocks, 1.02, 0.003), "{clocks}");
    // In a short ring the host threshold holds small fetches back.
    let short = |host: &str| {
        let o = outcome("e1000-receive", &["driver.rx_ring=48", "driver.rx_prefetch=63", host]);
        device(&o, "fetches")
    };
    assert!(short("driver.rx_host=0") > 1.4 * short("driver.rx_host=32"));
}
