use super::*;
use doorbell_hal::{Alignment, DmaFaultKind, Host};

#[test]
fn a_mapping_lets_the_hypervisor_in_and_its_end_keeps_it_out() {
    let mut m = machine(veth::Config::new(vec![])).unwrap();
    let b = m.buffer(9000, Alignment { align: 4096, offset: 4000 }).unwrap();
    m.bytes_mut(&b, 0..9000, |b| b.iter_mut().enumerate().for_each(|(i, b)| *b = i as u8));
    let mapped = m.map(b, 0..9000, Direction::ToDevice).unwrap();
    let (at, mut into) = (mapped.iova(), [0; 9000]);
    let ports = &mut m.bus.ports;
    ports[VM].read(Time::ZERO, at, &mut into).unwrap();
    assert!(into.iter().enumerate().all(|(i, b)| *b == i as u8), "over four pages");
    let kind = |r: Result<Time, DmaFault>| r.unwrap_err().kind;
    assert_eq!(kind(ports[VM].write(Time::ZERO, at, &[1])), DmaFaultKind::Direction);
    let other = kind(ports[TRUNK].read(Time::ZERO, at, &mut [0]));
    assert_eq!(other, DmaFaultKind::Unmapped, "another's");
    assert_eq!(ports[VM].platform().live_entries(), 4);
    let b = m.unmap(mapped);
    m.release(b);
    let port = &mut m.bus.ports[VM];
    assert_eq!(kind(port.read(Time::ZERO, at, &mut into)), DmaFaultKind::Unmapped);
    let bus = port.platform().ledger;
    let counts = (bus.tce_puts, bus.tce_hcalls, bus.dma_faults, port.read_bytes);
    assert_eq!(counts, (8, 2, 2, 9000));
}
