use super::*;
use crate::DOORBELL;
use crate::Unwatched;

fn run(scenario: &str, sets: &[&str]) -> Measured {
    let mut plan = DOORBELL.plan(scenario).unwrap();
    for s in sets {
        plan.set(s).unwrap_or_else(|e| panic!("{e}"));
    }
    let m = plan
        .system
        .run(&plan.values, None, &mut Unwatched)
        .unwrap_or_else(|e| panic!("{scenario} {sets:?}: {e}"));
    assert!(m.verdict.audit.is_empty(), "{scenario} {sets:?}: {:?}", m.verdict.audit);
    m
}

fn count(m: &Measured, name: &str) -> u64 {
    m.counts.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("{name}")).value
}

#[test]
fn every_way_is_audited_on_every_system() {
    for scenario in ["ibmvnic-paced", "ibmveth-paced", "axienet-paced"] {
        for way in ["send", "receive", "answer"] {
            for (burst, size) in [(1, 60), (7, 1514), (40, 590)] {
                for checksum in ["on", "off"] {
                    let sets = [
                        format!("paced.way={way}"),
                        format!("paced.burst={burst}"),
                        format!("paced.size={size}"),
                        format!("paced.checksum={checksum}"),
                        "paced.bursts=20".to_owned(),
                        "run.guard=byte".to_owned(),
                    ];
                    let m = run(scenario, &sets.each_ref().map(String::as_str));
                    assert_eq!(m.packets, 20 * burst, "{scenario} {way}");
                    let sent = if way == "receive" { 0 } else { m.packets };
                    assert_eq!(count(&m, "wire_frames"), sent, "{scenario} {way}");
                }
            }
        }
    }
}

/// Same counts as of a guest's driver (docs/guests.md).
#[test]
fn what_a_frame_costs_is_known() {
    let vnic = |sets: &[&str], name| {
        count(&run("ibmvnic-paced", &[sets, &["paced.bursts=10"]].concat()), name)
    };
    assert_eq!(
        vnic(&["paced.checksum=on"], "hcall_send_sub_crq"),
        10,
        "alone: directly, with its checksum made"
    );
    assert_eq!(vnic(&["paced.checksum=on", "paced.burst=32"], "driver_tx_descriptors"), 3 * 320);
    assert_eq!(
        vnic(&["paced.checksum=on", "paced.burst=32"], "driver_tx_arrays"),
        10 * 7,
        "five fit an array"
    );
    assert_eq!(vnic(&["paced.burst=32"], "driver_tx_arrays"), 10 * 2, "sixteen do without headers");
    let veth = |way, name| {
        count(&run("ibmveth-paced", &[way, "paced.bursts=10", "paced.size=1514"]), name)
    };
    assert_eq!(veth("paced.way=send", "tce_puts"), 0);
    assert_eq!(veth("paced.way=send", "hcall_send"), 10);
    assert_eq!(veth("paced.way=receive", "hcall_send"), 0);
    let axi = |name| count(&run("axienet-paced", &["paced.bursts=10"]), name);
    assert_eq!((axi("device_tx_doorbells"), axi("device_tx_interrupts")), (10, 10));
}

/// Nor are those of pktgen. An answer comes down through the stack.
#[test]
fn a_burst_is_not_held_by_the_byte_limit() {
    for scenario in ["ibmvnic-paced", "axienet-paced"] {
        let of =
            |way: &str, bql: &str| run(scenario, &["paced.burst=40", "paced.bursts=10", way, bql]);
        let (send, answer) = ("paced.way=send", "paced.way=answer");
        assert_eq!(of(send, "stack.bql=on"), of(send, "stack.bql=off"), "{scenario}");
        assert_ne!(of(answer, "stack.bql=on"), of(answer, "stack.bql=off"), "{scenario}");
    }
}

#[test]
fn a_frame_over_the_mtu_is_refused() {
    let mut plan = DOORBELL.plan("ibmvnic-paced").unwrap();
    plan.set("paced.size=1515").unwrap();
    let e = plan.system.run(&plan.values, None, &mut Unwatched).unwrap_err();
    assert_eq!(e.to_string(), "`paced.size` is 1515 B, but `driver.mtu` allows 1514");
}
