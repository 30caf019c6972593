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
