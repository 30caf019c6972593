mod idle;

use super::*;

fn rows<T: Into<Transaction>>(all: impl Iterator<Item = T>) -> Vec<(u64, &'static str, u32)> {
    all.map(Into::into).map(|t: Transaction| (t.addr, t.command, t.bytes)).collect()
}

/// Cuts the same transfer by each bus's own rules, into the same rows. The PCI rows are the trace
/// of the POWER4 note from 0x2012.
#[test]
fn rows_of_both_buses_read_alike() {
    let express = pcie::Rules::new(pcie::Settings::link(2, 8)).unwrap();
    assert_eq!(
        rows(pcie::transactions(&express, Operation::Write, 0x2012, 700)),
        [(0x2012, "MWr", 238), (0x2100, "MWr", 256), (0x2200, "MWr", 206)],
    );
    let parallel = pci::Rules::new(pci::Settings::POWER4).unwrap();
    assert_eq!(
        rows(pci::transactions(&parallel, Operation::Write, 0x2012, 1514)),
        [(0x2012, "MW", 494), (0x2200, "MW", 512), (0x2400, "MW", 508)],
    );
}

#[test]
fn only_a_packet_has_wire_bytes_and_a_direction() {
    let express = pcie::Rules::new(pcie::Settings::link(2, 8)).unwrap();
    let parallel = pci::Rules::new(pci::Settings::POWER4).unwrap();
    let read = |t: Transaction| t.packet;
    let packets: Vec<_> =
        pcie::transactions(&express, Operation::Read, 0, 64).map(Into::into).map(read).collect();
    assert_eq!(
        packets.iter().map(|p| p.unwrap().toward).collect::<Vec<_>>(),
        [LinkDirection::Upstream, LinkDirection::Downstream]
    );
    assert!(
        pci::transactions(&parallel, Operation::Read, 0, 64)
            .map(Into::into)
            .map(read)
            .all(|p| p.is_none())
    );
}

/// A port that is full carries no more than its rate, but a part of frames of mixed sizes may be
/// counted over a little less than the time that they took.
#[test]
fn a_full_port_of_mixed_sizes_is_no_fault_and_a_port_that_carries_more_is() {
    let run = |sets: &[&str]| {
        let mut all = vec!["bus.kind=pcie", "pcie.lanes=4", "traffic.packets=10000"];
        all.extend(sets);
        let plan = crate::tests::plan("e1000-pktgen", &all);
        plan.system.run(&plan.values, None, &mut doorbell_sim::Unwatched).unwrap()
    };
    let mixed = run(&["traffic.mix=60:1,1514:1"]);
    assert_eq!(mixed.verdict.audit, Vec::<String>::new());
    // A share that no error explains.
    static WRONG: OnceLock<System> = OnceLock::new();
    let wrong = WRONG.get_or_init(|| System {
        name: "wrong",
        about: "",
        devices: &[],
        platform_keys: crate::e1000::SYSTEM.platform_keys,
        run_keys: crate::e1000::SYSTEM.run_keys,
        runner: |v, frames, watch| {
            let mut m = (crate::e1000::SYSTEM.runner)(v, frames, watch)?;
            let wire = m.rates.iter_mut().find(|r| r.metric.name == "wire_out_bits_per_s");
            wire.unwrap().value *= 1.02;
            Ok(m)
        },
        transfer: crate::e1000::SYSTEM.transfer,
        port_rate: "link.rate",
        knobs: &[],
        conditions: &[],
        resources: &[],
        numbers: Numbers {
            buses: &[],
            rates: &[],
            counters: &[],
            calls: &[],
            cache: false,
            losses: &[],
        },
        declared: OnceLock::new(),
        figures: &[],
    });
    let plan = crate::tests::plan("e1000-pktgen", &["bus.kind=pcie", "pcie.lanes=4"]);
    let m = wrong.run(&plan.values, None, &mut doorbell_sim::Unwatched).unwrap();
    assert!(m.verdict.audit[0].starts_with("port_out_share: 1.0"), "{:?}", m.verdict.audit);
}
