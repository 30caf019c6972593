//! The ledger: one number for each kind of crossing, counted where it happens.
//!
//! "Up" is from the device toward host memory, "down" is toward the device (what
//! NIC counters call inbound). Bytes on a link include framing, header and
//! LCRC; DLLPs are apart.

macro_rules! ledger {
    ($($(#[doc = $doc:literal])+ $field:ident,)*) => {
        /// All counts of a run.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Ledger {
            $($(#[doc = $doc])+ pub $field: u64,)*
        }

        impl Ledger {
            /// Every count with its name, in a fixed order.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
            /// What each count is.
            pub fn about() -> impl Iterator<Item = (&'static str, &'static str)> {
                [$((stringify!($field), concat!($($doc),+).trim_ascii_start_())),*].into_iter()
            }
            /// This and another's together.
            pub fn plus(&self, other: &Ledger) -> Ledger {
                Ledger { $($field: self.$field + other.$field,)* }
            }
            /// What was counted since `before`.
            pub fn since(&self, before: &Ledger) -> Ledger {
                Ledger { $($field: self.$field - before.$field,)* }
            }
        }
    };
}

/// A doc comment's text begins with a space.
trait TrimDoc {
    fn trim_ascii_start_(&self) -> &str;
}
impl TrimDoc for str {
    fn trim_ascii_start_(&self) -> &str {
        self.trim_start()
    }
}

ledger! {
    /// Bytes of TLPs toward the device, framing included.
    pcie_down_tlp_bytes,
    /// Bytes of TLPs toward the host, framing included.
    pcie_up_tlp_bytes,
    /// Bytes of DLLPs toward the device.
    pcie_down_dllp_bytes,
    /// Bytes of DLLPs toward the host.
    pcie_up_dllp_bytes,
    /// Memory read requests by the device.
    pcie_mrd_up,
    /// Completions with data toward the device.
    pcie_cpld_down,
    /// Memory writes by the device.
    pcie_mwr_up,
    /// Memory writes by the CPU: registers.
    pcie_mwr_down,
    /// Memory reads by the CPU: registers.
    pcie_mrd_down,
    /// Completions with data toward the CPU.
    pcie_cpld_up,
    /// Payload bytes that the device read.
    pcie_read_bytes,
    /// Payload bytes that the device wrote.
    pcie_write_bytes,
    /// PCI Memory Read commands of the device.
    pci_mr,
    /// PCI Memory Read Line commands of the device.
    pci_mrl,
    /// PCI Memory Read Multiple commands of the device.
    pci_mrm,
    /// PCI Memory Write commands of the device.
    pci_mw,
    /// PCI Memory Write and Invalidate commands of the device.
    pci_mwi,
    /// PCI-X memory read requests of the device.
    pcix_reads,
    /// PCI-X memory writes of the device.
    pcix_writes,
    /// PCI-X split completions toward the device.
    pcix_completions,
    /// Payload bytes that the device read over PCI.
    pci_read_bytes,
    /// Payload bytes that the device wrote over PCI.
    pci_write_bytes,
    /// Cache lines written in part: read-modify-writes of the memory controller.
    pci_partial_lines,
    /// First attempts of delayed reads, answered with Retry.
    pci_retries,
    /// Clocks that the PCI bus was taken for.
    pci_clocks,
    /// AXI read bursts of the device.
    axi_reads,
    /// Data beats of those.
    axi_read_beats,
    /// Bytes of those that were asked for.
    axi_read_bytes,
    /// AXI write bursts of the device.
    axi_writes,
    /// Data beats of those.
    axi_write_beats,
    /// Bytes of those.
    axi_write_bytes,
    /// AXI4-Lite reads by the CPU: registers.
    axi_lite_reads,
    /// AXI4-Lite writes by the CPU: registers, a 64-bit store being two.
    axi_lite_writes,
    /// Register reads by the CPU.
    mmio_reads,
    /// Register writes by the CPU.
    mmio_writes,
    /// Buffers mapped for the device.
    maps,
    /// Mappings ended.
    unmaps,
    /// I/O translation entries written, cleared ones included.
    tce_puts,
    /// Hypervisor calls for that, which count as such too.
    tce_hcalls,
    /// Mappings refused for want of entries.
    tce_refused,
    /// Device accesses outside a live mapping.
    dma_faults,
    /// Message-signalled interrupts.
    messages,
    /// Rising edges of interrupt lines.
    line_interrupts,
    /// Hypervisor calls.
    hcalls,
    /// Fences executed by the driver.
    fences,
    /// Bytes copied by the driver.
    copied_bytes,
    /// Bytes summed by the driver.
    summed_bytes,
    /// Frames that left on the wire.
    wire_frames,
    /// Bytes of those, without FCS.
    wire_bytes,
    /// Buffers taken from the host's pool.
    buffers_taken,
    /// Buffers given back to it.
    buffers_released,
}

#[cfg(test)]
mod tests;
