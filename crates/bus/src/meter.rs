//! The cost of an access, in the counters of the [`Ledger`].
//!
//! The rules of a bus say which transactions an access becomes. Each kind of transaction is counted
//! by one function here. The buses in time call it when they book the transaction; a [`Meter`]
//! counts whole accesses for callers that have no time.

use crate::pcie::{Command, LinkDirection, Tlps};
use crate::{Ledger, axi, pci, pcie, tce};
use doorbell_hal::Span;

impl Ledger {
    /// Counts TLPs, their padding, and the payload that the device moves with them. Returns the
    /// symbol times that pass without a TLP because of them, in bytes: toward the device, and
    /// toward the host.
    #[inline(always)]
    pub(crate) fn count_tlps(&mut self, rules: &pcie::Rules, t: &Tlps) -> [u64; 2] {
        let (bytes, pad) = match t.toward {
            LinkDirection::Upstream => (&mut self.pcie_up_tlp_bytes, &mut self.pcie_up_pad_bytes),
            LinkDirection::Downstream => {
                (&mut self.pcie_down_tlp_bytes, &mut self.pcie_down_pad_bytes)
            }
        };
        *bytes += t.bytes;
        *pad += t.pad;
        *match (t.command, t.toward) {
            (Command::MRd, LinkDirection::Upstream) => &mut self.pcie_mrd_up,
            (Command::MRd, LinkDirection::Downstream) => &mut self.pcie_mrd_down,
            (Command::MWr, LinkDirection::Upstream) => {
                self.pcie_write_bytes += t.payload;
                &mut self.pcie_mwr_up
            }
            (Command::MWr, LinkDirection::Downstream) => &mut self.pcie_mwr_down,
            (Command::CplD, LinkDirection::Upstream) => &mut self.pcie_cpld_up,
            (Command::CplD, LinkDirection::Downstream) => {
                self.pcie_read_bytes += t.payload;
                &mut self.pcie_cpld_down
            }
        } += t.count;
        let gaps = rules.gaps(t);
        self.pcie_down_gap_bytes += gaps[0];
        self.pcie_up_gap_bytes += gaps[1];
        gaps
    }

    /// Counts `n` commands of the device on PCI or PCI-X. The clocks are counted apart.
    #[inline]
    pub(crate) fn count_commands(&mut self, command: pci::Command, n: u64) {
        use pci::Command;
        *match command {
            Command::Mr => &mut self.pci_mr,
            Command::Mrl => &mut self.pci_mrl,
            Command::Mrm => &mut self.pci_mrm,
            Command::Mw => &mut self.pci_mw,
            Command::Mwi => &mut self.pci_mwi,
            Command::MrDword | Command::MrBlock => &mut self.pcix_reads,
            Command::MwBlock => &mut self.pcix_writes,
            Command::SplitCompletion => &mut self.pcix_completions,
        } += n;
    }

    /// Counts the payload of writes of the device to memory on PCI or PCI-X.
    #[inline]
    pub(crate) fn count_pci_payload(&mut self, bytes: u64, partial_lines: u64) {
        self.pci_write_bytes += bytes;
        self.pci_partial_lines += partial_lines;
    }

    /// Counts the bursts of a read of the device.
    #[inline]
    pub(crate) fn count_axi_read(&mut self, run: &axi::Run, len: u32) {
        self.axi_reads += run.bursts;
        self.axi_read_beats += run.beats;
        self.axi_read_bytes += u64::from(len);
    }

    /// Counts the bursts of a write of the device.
    #[inline]
    pub(crate) fn count_axi_write(&mut self, run: &axi::Run, len: u32) {
        self.axi_writes += run.bursts;
        self.axi_write_beats += run.beats;
        self.axi_write_bytes += u64::from(len);
    }

    /// Counts the entries and calls that a mapping took. Returns the caller's time.
    pub fn count_tce(&mut self, cost: tce::Cost) -> Span {
        self.tce_puts += cost.entries;
        self.tce_hcalls += cost.calls;
        self.hcalls += cost.calls;
        cost.time
    }
}

/// An access between CPU, device and memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The device reads `len` bytes of memory at an address.
    Read(u64, u32),
    /// The device writes `len` bytes of memory at an address.
    Write(u64, u32),
    /// The CPU reads a register of so many bytes.
    RegisterRead(u8),
    /// The CPU writes a register of so many bytes.
    RegisterWrite(u8),
}

/// Counts accesses by the rules of a bus.
#[derive(Debug)]
pub enum Meter {
    /// Conventional PCI, or PCI-X. Transactions of the device alone are counted.
    Pci(pci::Rules),
    /// PCI Express.
    Pcie(pcie::Rules),
    /// AXI.
    Axi(axi::Rules),
    /// No bus: the hypervisor works on memory itself.
    Hypervisor,
}

/// The address of registers: below 4 GiB, where a request's header is short.
const REGISTERS: u64 = 0xfebc_0000;

impl Meter {
    /// Counts an access.
    pub fn count(&self, l: &mut Ledger, access: Access) {
        match access {
            Access::RegisterRead(_) => l.mmio_reads += 1,
            Access::RegisterWrite(_) => l.mmio_writes += 1,
            Access::Read(..) | Access::Write(..) => {}
        }
        match self {
            Meter::Pci(rules) => count_pci(rules, l, access),
            Meter::Pcie(rules) => {
                let [first, answer] = match access {
                    Access::Read(from, len) => rules.device_read(from, len).map(Some),
                    Access::Write(to, len) => [Some(rules.device_write(to, len)), None],
                    Access::RegisterRead(size) => rules.cpu_read(REGISTERS, size).map(Some),
                    Access::RegisterWrite(size) => [Some(rules.cpu_write(REGISTERS, size)), None],
                };
                for t in [first, answer].iter().flatten() {
                    l.count_tlps(rules, t);
                }
            }
            Meter::Axi(rules) => match access {
                Access::Read(from, len) => l.count_axi_read(&rules.run(from, len), len),
                Access::Write(to, len) => l.count_axi_write(&rules.run(to, len), len),
                Access::RegisterRead(size) => l.axi_lite_reads += axi::Rules::lite_accesses(size),
                Access::RegisterWrite(size) => l.axi_lite_writes += axi::Rules::lite_accesses(size),
            },
            Meter::Hypervisor => {}
        }
    }
}

fn count_pci(rules: &pci::Rules, l: &mut Ledger, access: Access) {
    match access {
        Access::Read(from, len) => {
            let delayed = rules.delays_reads();
            for t in pci::transactions(rules, pci::Operation::Read, from, len) {
                if delayed {
                    l.pci_retries += 1;
                    l.pci_clocks += rules.retry_clocks(&t);
                }
                l.count_commands(t.command, 1);
                l.pci_clocks += rules.clocks(&t);
            }
            l.pci_read_bytes += u64::from(len);
        }
        Access::Write(to, len) => {
            for t in rules.writes(to, len) {
                l.count_commands(t.command, 1);
                l.count_pci_payload(t.bytes.into(), t.partial_lines(rules.settings().line).into());
                l.pci_clocks += rules.clocks(&t);
            }
        }
        Access::RegisterRead(_) | Access::RegisterWrite(_) => {}
    }
}

#[cfg(test)]
mod tests;
