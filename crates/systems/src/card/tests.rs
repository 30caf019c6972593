//! Sums by hand of a card that is small enough: its slots and its queues.

mod spread;

use super::*;
use crate::registry::Registry;
use crate::{Plan, Unwatched};
use doorbell_hal::WorkKind;
use spread::Spread;

static SYSTEM: System = system::<Spread>("spread", "up to four queues");
static REGISTRY: Registry = Registry {
    systems: &[&SYSTEM],
    profiles: &[(
        "spread",
        "name = \"spread\"\nsystem = \"spread\"\nabout = \"a card of queues\"\n\
         [bus]\nkind = { value = \"axi\", source = \"assumed: nobody has built it\" }\n",
    )],
    scenarios: &[(
        "spread",
        "name = \"spread\"\nsystem = \"spread\"\nprofile = \"spread\"\nabout = \"packets\"\n\
         [traffic]\nkind = \"pktgen\"\nsize = \"60 B\"\nburst = 8\npackets = 4000\n",
    )],
};

fn plan(sets: &[&str]) -> Plan {
    let mut plan = REGISTRY.plan("spread").unwrap();
    for s in sets {
        plan.set(s).unwrap_or_else(|e| panic!("{s}: {e}"));
    }
    plan
}

/// Runs the card on these values, soundly.
fn outcome(sets: &[&str]) -> RunStats<Spread> {
    let plan = plan(sets);
    let s = setup::<Spread>(&plan.values).unwrap();
    let l = load::<Spread>(&plan.values, &s, None).unwrap();
    let o = run::<Spread>(&s, &l, &mut Unwatched).unwrap_or_else(|e| panic!("{sets:?}: {e}"));
    assert_eq!(o.verdict.audit, [""; 0], "{sets:?}");
    o
}

#[test]
fn axi_without_values_is_that_of_a_zynqmp() {
    let plan = plan(&[]);
    let slot = Slot::Axi(axi::Settings::ZYNQMP, axi::Latencies::ZYNQMP);
    assert_eq!(Slot::of(&plan.values).unwrap(), (slot, None));
    for key in slot::AxiKeys::KEYS {
        let own = slot::AXI.iter().find(|k| k.name == key.name).unwrap();
        assert_eq!((own.about, own.kind), (key.about, key.kind));
    }
}

/// A doorbell takes 42 ns to the slave and four clocks of 8 ns there. Data come 200 ns after their
/// address, 8 bytes a clock, and a burst has 16 beats at most.
#[test]
fn a_packet_on_axi_takes_the_sum_of_its_accesses() {
    for (bytes, beats, bursts) in [(60, 8, 1), (1024, 128, 8), (1514, 190, 12)] {
        let size = format!("traffic.size={bytes}");
        let sets = [&size, "traffic.packets=1", "traffic.offset=0", "run.cores=1"];
        let o = outcome(&sets);
        let Totals { driver, device } = o.totals;
        assert_eq!(device.asked_ps - driver.wrote_ps, 42_000 + 4 * 8_000);
        assert_eq!(device.read_ps, 200_000 + beats * 8_000, "{bytes} B");
        let l = &o.counts.ledger;
        assert_eq!((l.axi_read_bytes, l.axi_read_beats), (bytes, beats));
        // The opening enabled the queue, and the interrupt asked what was sent.
        assert_eq!((l.axi_reads, l.axi_lite_writes, l.axi_lite_reads), (bursts, 1, 2));
    }
}

/// A queue has 1 us from packet to packet, and a link of 336 Mbit/s 2 us for frames of 60 bytes. On
/// top come the first packet's way to the device and the last one's report.
#[test]
fn two_queues_send_twice_as_much_until_the_link_is_full() {
    for bus in ["bus.kind=pcie", "bus.kind=axi"] {
        for (queues, rate, us) in [
            (1, "100", 3999),
            (2, "100", 1999),
            (4, "100", 999),
            (1, "0.336", 7998),
            (2, "0.336", 7998),
            (4, "0.336", 7998),
        ] {
            let (cores, rate) = (format!("run.cores={queues}"), format!("link.rate={rate}"));
            let o = outcome(&[&cores, &rate, bus, "pcie.generation=3", "pcie.lanes=16"]);
            assert_eq!(o.totals.driver.sent, 4000, "the sum of all queues");
            let over = o.counts.elapsed.as_ns_f64() * 1e-3 - f64::from(us);
            // Until then all queues have rung for a full ring, 32 ns each on AXI.
            let most = 4.0 + f64::from(queues) * 64.0 * 0.032;
            assert!((0.0..most).contains(&over), "{queues} queues, {rate}, {bus}: {over} us");
        }
    }
}

#[test]
fn frames_that_arrive_come_to_every_queue() {
    let arrive = ["traffic.kind=arrivals", "traffic.pattern=even", "traffic.duration=2"];
    let sets = [&arrive[..], &["traffic.load=10", "traffic.arrival_size=500"]];
    let o = outcome(&sets.concat());
    let landed = o.totals.device.landed;
    // 524 bytes at a tenth of 1 Gbit/s are 41.92 us: 12 ms have 287, and those measured 47.7.
    assert_eq!(landed, [72, 72, 72, 71]);
    assert_eq!((287, o.counts.busy.len()), (o.totals.driver.received, 4));
    assert!(o.counts.interrupts.iter().all(|n| (11..=12).contains(n)), "{:?}", o.counts.interrupts);
}

#[test]
fn a_load_of_one_stream_has_one_queue() {
    for kind in ["paced", "send", "receive", "transactions"] {
        let kind = format!("traffic.kind={kind}");
        assert_eq!(setup::<Spread>(&plan(&[&kind]).values).unwrap().queues, 1);
    }
    let all = setup::<Spread>(&plan(&[]).values).unwrap();
    assert_eq!(all.queues, 4);
    assert!(plan(&[]).set("run.cores=5").is_err());
}

/// The work of all cores is the work of one: no queue's costs are lost.
#[test]
fn the_costs_of_queues_add_up() {
    let spent = |cores| {
        let o = outcome(&["cpu.tx_descriptor=100", "link.rate=100", cores]);
        let times = |kind| o.counts.work.iter().find(|w| w.0 == kind).unwrap().1.times;
        (times(WorkKind::TxDescriptor), o.counts.ledger.maps, o.counts.ledger.wire_frames)
    };
    assert_eq!(spent("run.cores=1"), (4000, 4000, 4000));
    assert_eq!(spent("run.cores=4"), (4000, 4000, 4000));
}
