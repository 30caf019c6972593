//! The ledger: one number for each kind of crossing, counted where it happens.
//!
//! "Up" is from the device toward host memory, "down" is toward the device (what
//! NIC counters call inbound). Bytes on a link include framing, header and
//! LCRC; DLLPs are apart.

use doorbell_hal::Unit;

/// A bus that a machine has or has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusKind {
    /// PCI Express.
    Pcie,
    /// Conventional PCI.
    Pci,
    /// PCI-X, beside what it counts as PCI.
    Pcix,
    /// AXI.
    Axi,
    /// Translation entries in a table of the hypervisor.
    Tce,
}

/// The group of counters that a table shows together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The bus and the platform.
    Bus,
    /// The CPU's own work.
    Cpu,
    /// The wire.
    Wire,
}

/// A part of what a packet costs; the counters of one part add up. Its name is their unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes on the bus. Where a link's own bytes are counted, their payload is not counted again.
    Bytes,
    /// Transactions on the bus.
    Transactions,
    /// Calls out of the CPU. Those for translations are hypervisor calls.
    Calls,
    /// Interrupts.
    Interrupts,
}

/// The declaration of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name in results.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The meaning of the count, in a sentence.
    pub about: &'static str,
    /// Its group.
    pub group: Group,
    /// The bus that a machine must have to count it; `None` for what every machine counts.
    pub bus: Option<BusKind>,
    /// The part of a packet's cost that it belongs to, and its title there.
    pub part: Option<(Part, &'static str)>,
}

macro_rules! part {
    () => {
        None
    };
    ($part:ident $title:literal) => {
        Some((Part::$part, $title))
    };
}

/// The group of a row of the ledger, which names it, or else a bus.
macro_rules! group {
    (Cpu) => {
        Group::Cpu
    };
    (Wire) => {
        Group::Wire
    };
    ($bus:ident) => {
        Group::Bus
    };
}

/// The bus that a row of the ledger is of, if it names one.
macro_rules! bus {
    (Bus) => {
        None
    };
    (Cpu) => {
        None
    };
    (Wire) => {
        None
    };
    ($bus:ident) => {
        Some(BusKind::$bus)
    };
}

macro_rules! ledger {
    ($($(#[doc = $doc:literal])+ $field:ident $(in $unit:ident)?:
        $place:ident $($part:ident $title:literal)?,)*) => {
        doorbell_hal::counters! {
            /// All counts of a run.
            struct Ledger; $($(#[doc = $doc])+ $field $(in $unit)?,)*
        }

        impl Ledger {
            /// The counters, in a fixed order.
            pub const COUNTERS: &[Counter] = &[$(Counter {
                name: stringify!($field),
                unit: doorbell_hal::unit!($($unit)?),
                about: concat!($($doc),+).trim_ascii_start(),
                group: group!($place),
                bus: bus!($place),
                part: part!($($part $title)?),
            }),*];

            /// Returns every counter with its value, in a fixed order.
            pub fn counters(&self) -> impl Iterator<Item = (&'static Counter, u64)> {
                Ledger::COUNTERS.iter().zip([$(self.$field),*])
            }
            /// Returns what was counted since `before`.
            pub fn since(&self, before: &Ledger) -> Ledger {
                Ledger { $($field: self.$field - before.$field,)* }
            }
        }
    };
}

ledger! {
    /// Bytes of TLPs toward the device, framing included.
    pcie_down_tlp_bytes in Bytes: Pcie Bytes "TLPs to the device",
    /// Bytes of TLPs toward the host, framing included.
    pcie_up_tlp_bytes in Bytes: Pcie Bytes "TLPs to the host",
    /// Bytes of padding behind TLPs toward the device, to the end of the symbol time.
    pcie_down_pad_bytes in Bytes: Pcie Bytes "padding to the device",
    /// Bytes of padding behind TLPs toward the host, to the end of the symbol time.
    pcie_up_pad_bytes in Bytes: Pcie Bytes "padding to the host",
    /// Bytes of busy symbol times toward the device without a TLP: DLLPs, or gaps.
    pcie_down_gap_bytes in Bytes: Pcie Bytes "gaps to the device",
    /// Bytes of busy symbol times toward the host without a TLP: DLLPs, or gaps.
    pcie_up_gap_bytes in Bytes: Pcie Bytes "gaps to the host",
    /// Memory read requests by the device.
    pcie_mrd_up: Pcie Transactions "read requests",
    /// Completions with data toward the device.
    pcie_cpld_down: Pcie Transactions "completions with data",
    /// Memory writes by the device.
    pcie_mwr_up: Pcie Transactions "writes by the device",
    /// Memory writes by the CPU: registers.
    pcie_mwr_down: Pcie Transactions "writes by the CPU",
    /// Memory reads by the CPU: registers.
    pcie_mrd_down: Pcie Transactions "reads by the CPU",
    /// Completions with data toward the CPU.
    pcie_cpld_up: Pcie Transactions "completions to the CPU",
    /// Payload bytes that the device read.
    pcie_read_bytes in Bytes: Pcie,
    /// Payload bytes that the device wrote.
    pcie_write_bytes in Bytes: Pcie,
    /// PCI Memory Read commands of the device.
    pci_mr: Pci Transactions "Memory Read",
    /// PCI Memory Read Line commands of the device.
    pci_mrl: Pci Transactions "Memory Read Line",
    /// PCI Memory Read Multiple commands of the device.
    pci_mrm: Pci Transactions "Memory Read Multiple",
    /// PCI Memory Write commands of the device.
    pci_mw: Pci Transactions "Memory Write",
    /// PCI Memory Write and Invalidate commands of the device.
    pci_mwi: Pci Transactions "Memory Write and Invalidate",
    /// PCI-X memory read requests of the device.
    pcix_reads: Pcix Transactions "PCI-X reads",
    /// PCI-X memory writes of the device.
    pcix_writes: Pcix Transactions "PCI-X writes",
    /// PCI-X split completions toward the device.
    pcix_completions: Pcix Transactions "split completions",
    /// Payload bytes that the device read over PCI.
    pci_read_bytes in Bytes: Pci Bytes "read by the device",
    /// Payload bytes that the device wrote over PCI.
    pci_write_bytes in Bytes: Pci Bytes "written by the device",
    /// Cache lines written in part: read-modify-writes of the memory controller.
    pci_partial_lines: Pci,
    /// First attempts of delayed reads, answered with Retry.
    pci_retries: Pci Transactions "retried reads",
    /// Clocks that the PCI bus was taken for.
    pci_clocks: Pci,
    /// AXI read bursts of the device.
    axi_reads: Axi Transactions "read bursts",
    /// Data beats of those.
    axi_read_beats: Axi,
    /// Bytes of those that were asked for.
    axi_read_bytes in Bytes: Axi Bytes "read by the device",
    /// AXI write bursts of the device.
    axi_writes: Axi Transactions "write bursts",
    /// Data beats of those.
    axi_write_beats: Axi,
    /// Bytes of those.
    axi_write_bytes in Bytes: Axi Bytes "written by the device",
    /// AXI4-Lite reads by the CPU: registers.
    axi_lite_reads: Axi,
    /// AXI4-Lite writes by the CPU: registers, a 64-bit store being two.
    axi_lite_writes: Axi,
    /// Register reads by the CPU.
    mmio_reads: Bus Calls "register reads",
    /// Register writes by the CPU.
    mmio_writes: Bus Calls "register writes",
    /// Buffers mapped for the device.
    maps: Bus,
    /// Mappings ended.
    unmaps: Bus,
    /// I/O translation entries written, cleared ones included.
    tce_puts: Tce,
    /// Hypervisor calls for that, which count as such too.
    tce_hcalls: Tce,
    /// Mappings refused for want of entries.
    tce_refused: Tce,
    /// Device accesses outside a live mapping.
    dma_faults: Bus,
    /// Message-signalled interrupts.
    messages: Bus Interrupts "messages",
    /// Rising edges of interrupt lines.
    line_interrupts: Bus Interrupts "line edges",
    /// Hypervisor calls.
    hcalls: Bus Calls "hypervisor calls",
    /// Fences executed by the driver.
    fences: Cpu,
    /// Bytes copied by the driver.
    copied_bytes in Bytes: Cpu,
    /// Bytes summed by the driver.
    summed_bytes in Bytes: Cpu,
    /// Frames that left on the wire.
    wire_frames: Wire,
    /// Bytes of those, without FCS.
    wire_bytes in Bytes: Wire,
    /// Buffers taken from the host's pool.
    buffers_taken: Cpu,
    /// Buffers given back to it.
    buffers_released: Cpu,
}

#[cfg(test)]
mod tests;
