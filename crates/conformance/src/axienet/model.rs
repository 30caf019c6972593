//! Our own AXI Ethernet and AXI DMA on an AXI bus.

use doorbell_bus::axi::{Latencies, Rules, Settings};
use doorbell_bus::{Axi, Bus, Costs, Machine, Platform, ProtectionGranularity};
use doorbell_devices::axi_ethernet as device;

/// A machine with the device.
pub type System = Machine<Axi, device::AxiEthernet>;

/// Creates a machine with a core of so many address bits, and `memory` bytes: above 4 GiB if it can
/// reach them.
pub fn system(address_bits: u32, core: device::Config, memory: usize) -> System {
    let base = if address_bits > 32 { 5 << 30 } else { 64 << 20 };
    let platform = Platform::new(base, memory, ProtectionGranularity::Byte);
    let mut bus = Axi::new(platform, Rules::new(Settings::ZYNQMP).unwrap(), Latencies::ZYNQMP);
    bus.sink_mut().start();
    let core = device::Config { address_bits, ..core };
    Machine::new(bus, device::AxiEthernet::new(core), Costs::FREE, 1)
}
