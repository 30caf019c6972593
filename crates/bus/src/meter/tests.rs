use super::*;
use crate::pcie::{DllpRule, Rules, Settings};
use crate::{Bus, Latencies, Pcie, Platform, ProtectionGranularity};
use doorbell_hal::{Alignment, Direction, Iova, Port};

/// The bus in time and the meter count the same accesses alike.
#[test]
fn the_bus_in_time_counts_as_the_meter() {
    let settings = Settings { dllp: DllpRule::PerRequest, ..Settings::link(3, 16) };
    let rules = Rules::new(settings).unwrap();
    let mut platform = Platform::new(1 << 32, 1 << 20, ProtectionGranularity::Page);
    let buffer = platform.memory.buffer(4096, Alignment::ANY).unwrap();
    for dir in [Direction::ToDevice, Direction::FromDevice] {
        platform.memory.map(Iova(buffer.addr()), 4096, dir);
    }
    let latencies = Latencies { link: Span::ZERO, memory: Span::ZERO };
    let mut bus = Pcie::new(platform, rules, latencies, REGISTERS);
    let (at, from) = (Time::ZERO, buffer.addr() + 2);
    bus.read(at, Iova(from), &mut [0; 1514]).unwrap();
    bus.write(at, Iova(from), &[0; 600]).unwrap();
    let asked = bus.register_read(at, 4);
    bus.register_answer(asked, 4);
    bus.register_write(at, 8);

    let mut metered = Ledger::default();
    let mut meter = Meter::Pcie(rules, Box::new(DllpState::new(&rules)));
    let accesses = [
        Access::Read(from, 1514),
        Access::Write(from, 600),
        Access::RegisterRead(4),
        Access::RegisterWrite(8),
    ];
    accesses.into_iter().for_each(|a| meter.count(&mut metered, at, a));
    // The CPU's side counts its accesses itself.
    let cpu = Ledger { mmio_reads: 1, mmio_writes: 1, ..Ledger::default() };
    assert_eq!(metered, bus.ledger().plus(&cpu));
    assert!(metered.pcie_cpld_down > 0 && metered.pcie_up_dllp_bytes > 0);
}
