use super::*;
use crate::pcie::{Gap, Rules, Settings};
use crate::{Bus, Latencies, Pcie, Platform, ProtectionGranularity};
use doorbell_hal::{Alignment, Direction, Iova, Port, Time};

/// The bus in time and the meter count the same accesses alike.
#[test]
fn the_bus_in_time_counts_as_the_meter() {
    for gap in [Gap::None, Gap::Dllp, Gap::Completion] {
        let rules = Rules::new(Settings { gap, ..Settings::link(3, 16) }).unwrap();
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

        let (mut metered, meter) = (Ledger::default(), Meter::Pcie(rules));
        let accesses = [
            Access::Read(from, 1514),
            Access::Write(from, 600),
            Access::RegisterRead(4),
            Access::RegisterWrite(8),
        ];
        accesses.into_iter().for_each(|a| meter.count(&mut metered, a));
        // The CPU's side counts its accesses itself.
        let cpu = Ledger { mmio_reads: 1, mmio_writes: 1, ..Ledger::default() };
        assert_eq!(metered, bus.ledger().plus(&cpu));
        // Three read requests, six completions and three writes of the device; a register read, its
        // answer and a register write.
        let gaps = match gap {
            Gap::None | Gap::Packed => [0, 0],
            Gap::Dllp => [2 * (3 + 3) + 1, 6 + 2 + 2],
            Gap::Completion => [2 * 6, 2],
        };
        let counted = [metered.pcie_down_gap_bytes, metered.pcie_up_gap_bytes];
        assert_eq!(counted, gaps.map(|symbols| symbols * 16), "{gap:?}");
    }
}
