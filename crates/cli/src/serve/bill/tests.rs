use super::super::devices::Platform;
use super::*;

fn counted(name: &str) -> Vec<(&'static str, u64)> {
    let bus = Platform::find(name).expect("a bus").rules();
    let mut b = Bill::new(bus, Uplink::open("none").expect("no uplink"), None, None);
    b.crossed(Time::ZERO, Crossing::RegisterWrite(Reg::at(0), 4, 1, true));
    b.crossed(Time::ZERO, Crossing::DmaRead(Iova(0x10002), 1514));
    b.crossed(Time::ZERO, Crossing::DmaWrite(Iova(0x2000), 64));
    b.ledger.entries().filter(|(_, v)| *v != 0).collect()
}

/// The same accesses by each bus's rules, which the lab's own tests hold to the documents.
#[test]
fn a_frame_read_and_a_line_written() {
    insta::assert_debug_snapshot!(counted("pci32"));
    insta::assert_debug_snapshot!(counted("pcix"));
    insta::assert_debug_snapshot!(counted("pcie3x16"));
}
