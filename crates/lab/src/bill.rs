//! The bill: what a packet costs at each crossing, in five parts.
//!
//! Of all that a run counts, these add up: CPU cycles by cause, bytes on the bus by
//! kind, the transactions that carry them, calls out of the CPU (register accesses,
//! hypervisor calls), interrupts.
//! Where a link's own bytes are counted, the payload in them is not counted again;
//! translation calls are hypervisor calls, and not counted twice either.

/// A part of the bill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its name: `cycles`.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// What is counted.
    pub unit: &'static str,
    items: &'static [(&'static str, &'static str)],
}

/// Names of costs, as a result has them: `cycles_stack`.
const CYCLES: &str = "cycles_";

/// The parts, in the order of a bill.
pub static PARTS: [Part; 5] = [
    Part { name: "cycles", title: "CPU cycles", unit: "cycles", items: &[] },
    Part {
        name: "bytes",
        title: "Bytes on the bus",
        unit: "bytes",
        items: &[
            ("pcie_down_tlp_bytes", "TLPs to the device"),
            ("pcie_up_tlp_bytes", "TLPs to the host"),
            ("pcie_down_dllp_bytes", "DLLPs to the device"),
            ("pcie_up_dllp_bytes", "DLLPs to the host"),
            ("pci_read_bytes", "read by the device"),
            ("pci_write_bytes", "written by the device"),
            ("axi_read_bytes", "read by the device"),
            ("axi_write_bytes", "written by the device"),
        ],
    },
    Part {
        name: "transactions",
        title: "Transactions on the bus",
        unit: "transactions",
        items: &[
            ("pcie_mrd_up", "read requests"),
            ("pcie_cpld_down", "completions with data"),
            ("pcie_mwr_up", "writes by the device"),
            ("pcie_mwr_down", "writes by the CPU"),
            ("pcie_mrd_down", "reads by the CPU"),
            ("pcie_cpld_up", "completions to the CPU"),
            ("pci_mr", "Memory Read"),
            ("pci_mrl", "Memory Read Line"),
            ("pci_mrm", "Memory Read Multiple"),
            ("pci_mw", "Memory Write"),
            ("pci_mwi", "Memory Write and Invalidate"),
            ("pci_retries", "retried reads"),
            ("pcix_reads", "PCI-X reads"),
            ("pcix_writes", "PCI-X writes"),
            ("pcix_completions", "split completions"),
            ("axi_reads", "read bursts"),
            ("axi_writes", "write bursts"),
        ],
    },
    Part {
        name: "calls",
        title: "Calls out of the CPU",
        unit: "calls",
        items: &[
            ("mmio_writes", "register writes"),
            ("mmio_reads", "register reads"),
            ("hcalls", "hypervisor calls"),
        ],
    },
    Part {
        name: "interrupts",
        title: "Interrupts",
        unit: "interrupts",
        items: &[("messages", "messages"), ("line_interrupts", "line edges")],
    },
];

impl Part {
    /// What people call the number `name` of a packet, if it is an item of this part.
    pub fn item(&self, name: &str) -> Option<String> {
        if self.name == "cycles" {
            return name.strip_prefix(CYCLES).map(|cause| cause.replace('_', " "));
        }
        self.items.iter().find(|(n, _)| *n == name).map(|(_, title)| (*title).to_owned())
    }

    /// The items of a packet that are not nothing: name, title, how much.
    pub fn of(&self, per_packet: &[(String, f64)]) -> Vec<(String, String, f64)> {
        let all = per_packet.iter().filter(|(_, v)| *v != 0.0);
        all.filter_map(|(name, v)| Some((name.clone(), self.item(name)?, *v))).collect()
    }
}

#[cfg(test)]
mod tests;
