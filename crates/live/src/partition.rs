//! The machine of real traffic: that of the lab, two partitions under one hypervisor, at no price.
//!
//! A call runs at once on its caller's thread. So time stands still but for a driver's waits, and
//! no rate comes from it: those are iperf3's. The hypervisor's writes are posted as in the lab,
//! which copies their bytes once more than a hypervisor does. Each partition's table guards its
//! memory by page, so a driver that forgets a mapping fails here too.

use doorbell_bus::machine::Costs;
use doorbell_bus::tce::{self, Table};
use doorbell_bus::{
    Bus, Capture, FrameSink, HypervisorDevice, HypervisorPort, Machine, Mapping, Partitions,
    Platform, ProtectionGranularity,
};
use doorbell_devices::veth::{self, Veth};
use doorbell_hal::{Direction, DmaFault, Iova, OutOfMemory, Port, Span, Time};

/// The VM's partition, and the trunk's.
pub(super) const VM: usize = 0;
pub(super) const TRUNK: usize = 1;

/// Address and size of a partition's memory.
const BASE: u64 = 1 << 32;
const SIZE: usize = 48 << 20;
/// The table's window: 128 MiB of bus addresses.
const WINDOW: tce::Window =
    tce::Window { base: 0x1000_0000, pages: 32 << 10, multi: true, prices: FREE };
const ZERO: Span = Span::ZERO;
const FREE: tce::Prices = tce::Prices { put: ZERO, put_indirect: ZERO, stuff: ZERO, entry: ZERO };

/// Both partitions, and the LAN between them.
pub(super) type Lpars = Machine<Partitions<CountedPort>, HypervisorDevice<Veth>>;

/// Builds the machine. Each partition has one core.
pub(super) fn machine(lan: veth::Config) -> Result<Lpars, OutOfMemory> {
    let port = |()| {
        let platform = Platform::try_new(BASE, SIZE, ProtectionGranularity::Page)?;
        let table = Mapping::Tce(Box::new(Table::new(WINDOW)));
        let port = HypervisorPort::new(platform.with_mapping(table), ZERO);
        Ok(CountedPort { port, read_bytes: 0, written_bytes: 0 })
    };
    let ports = [(); 2].into_iter().map(port).collect::<Result<_, OutOfMemory>>()?;
    let partitions = Partitions::new(ports, vec![VM, TRUNK], ZERO);
    Ok(Machine::new(partitions, HypervisorDevice(Veth::new(lan)), Costs::FREE, 2))
}

/// The hypervisor's access to a partition's memory, which counts its bytes.
#[derive(Debug)]
pub(super) struct CountedPort<S = Capture> {
    port: HypervisorPort<S>,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

impl<S: FrameSink> Port for CountedPort<S> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        let until = self.port.read(at, from, into)?;
        self.read_bytes += into.len() as u64;
        Ok(until)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let arrival = self.port.write(at, to, from)?;
        self.written_bytes += from.len() as u64;
        Ok(arrival)
    }

    fn write_parts(
        &mut self,
        at: Time,
        to: Iova,
        parts: &[(u64, &[u8])],
    ) -> Result<Time, DmaFault> {
        let arrival = self.port.write_parts(at, to, parts)?;
        self.written_bytes += parts.iter().map(|part| part.1.len() as u64).sum::<u64>();
        Ok(arrival)
    }

    fn check_access(&mut self, at: Iova, len: u32, dir: Direction) -> Result<(), DmaFault> {
        self.port.check_access(at, len, dir)
    }

    fn set_irq_line(&mut self, at: Time, n: u16, high: bool) {
        self.port.set_irq_line(at, n, high);
    }

    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.port.raise_msi(at, vector);
    }

    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.port.emit(at, frame);
    }
}

impl<S: FrameSink> Bus for CountedPort<S> {
    type Sink = S;
    type With<T: FrameSink + Clone> = CountedPort<T>;

    fn with_sink<T: FrameSink + Clone>(self, sink: T) -> CountedPort<T> {
        let CountedPort { port, read_bytes, written_bytes } = self;
        CountedPort { port: port.with_sink(sink), read_bytes, written_bytes }
    }
    fn sink_mut(&mut self) -> &mut S {
        self.port.sink_mut()
    }
    fn platform(&self) -> &Platform {
        self.port.platform()
    }
    fn platform_mut(&mut self) -> &mut Platform {
        self.port.platform_mut()
    }
    fn register_write(&mut self, at: Time, size: u8) -> Time {
        self.port.register_write(at, size)
    }
    fn register_read(&mut self, at: Time, size: u8) -> Time {
        self.port.register_read(at, size)
    }
    fn register_answer(&mut self, at: Time, size: u8) -> Time {
        self.port.register_answer(at, size)
    }
    fn retire_before(&mut self, floor: Time) {
        self.port.retire_before(floor);
    }
}

#[cfg(test)]
mod tests;
