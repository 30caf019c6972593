use super::*;
use doorbell_devices::veth;
use doorbell_hal::DmaFaultKind;

#[test]
fn a_mapping_lets_the_hypervisor_in_and_its_end_keeps_it_out() {
    let mut lan = Veth::new(veth::Config::new(vec![]));
    let mut partitions = [(); 2].map(|()| Partition::new().unwrap());
    let mut cpu = Cpu { lan: &mut lan, partitions: &mut partitions, me: 0 };
    let b = cpu.buffer(9000, Alignment { align: 4096, offset: 4000 }).unwrap();
    cpu.bytes_mut(&b, 0..9000, |b| b.iter_mut().enumerate().for_each(|(i, b)| *b = i as u8));
    let m = cpu.map(b, 0..9000, Direction::ToDevice).unwrap();
    let (at, mut into) = (m.iova(), [0; 9000]);
    partitions[0].read(Time::ZERO, at, &mut into).unwrap();
    assert!(into.iter().enumerate().all(|(i, b)| *b == i as u8), "over four pages");
    let kind = |r: Result<Time, DmaFault>| r.unwrap_err().kind;
    assert_eq!(kind(partitions[0].write(Time::ZERO, at, &[1])), DmaFaultKind::Direction);
    assert_eq!(
        kind(partitions[1].read(Time::ZERO, at, &mut [0])),
        DmaFaultKind::Unmapped,
        "another's"
    );
    assert_eq!(partitions[0].live_entries(), 4);
    let mut cpu = Cpu { lan: &mut lan, partitions: &mut partitions, me: 0 };
    let b = cpu.unmap(m);
    cpu.release(b);
    assert_eq!(kind(partitions[0].read(Time::ZERO, at, &mut into)), DmaFaultKind::Unmapped);
    let Ledger { bus, hypervisor_read_bytes, .. } = &partitions[0].ledger;
    let counts = (bus.tce_puts, bus.tce_hcalls, bus.dma_faults, *hypervisor_read_bytes);
    assert_eq!(counts, (8, 2, 2, 9000));
}
