//! The bill: every crossing between guest and device, in the ledger's words.
//!
//! The device's accesses to memory become the bus transactions that its rules say, by the
//! same arithmetic as in the lab; nothing has a time but for the trace and the capture.

use super::axi::is_core;
use super::uplink::Uplink;
use crate::Error;
use crate::chrome::{Lane, Writer};
use crate::output::{Capture, plain};
use doorbell_bus::pcie::{self, Class, DllpState, Toward};
use doorbell_bus::{Ledger, axi, pci};
use doorbell_hal::{DmaFault, Iova, Reg, Time};
use doorbell_vfio_user::Watch;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// By which rules accesses become transactions.
#[derive(Debug)]
pub(super) enum Bus {
    /// Conventional PCI, or PCI-X.
    Pci(pci::Rules),
    /// PCI Express, with what its two ends owe each other in acknowledgements.
    Pcie(pcie::Rules, Box<DllpState>),
    /// AXI, of cores that are behind a PCI function only so that a guest reaches them.
    Axi(axi::Rules),
    /// None: the hypervisor works on the guest's memory itself.
    Calls,
}

/// Where registers are: below 4 GiB, where a request's header is short.
const REGISTERS: u64 = 0xfebc_0000;

/// Counts, and keeps what was asked to be kept.
#[derive(Debug)]
pub(super) struct Bill {
    pub(super) ledger: Ledger,
    /// Frames that arrived for the guest, and their bytes, without FCS.
    pub(super) arrived: (u64, u64),
    /// Register writes that left the guest's CPU.
    pub(super) trapped: u64,
    /// Frames that the device had no room for after a pause of its own had run out.
    pub(super) missed_after_pause: u64,
    /// A pause frame from the guest: for so many times 512 bits.
    pub(super) pause: Option<u16>,
    bus: Bus,
    pub(super) uplink: Uplink,
    capture: Option<Capture>,
    trace: Option<Trace>,
    /// Why the capture or the trace could not be written on.
    pub(super) broken: Option<String>,
}

/// Messages go to the interrupt controller's page.
const MESSAGE_ADDRESS: u64 = 0xfee0_0000;

impl Bill {
    pub(super) fn new(
        bus: Bus,
        uplink: Uplink,
        capture: Option<Capture>,
        trace: Option<Trace>,
    ) -> Bill {
        Bill {
            ledger: Ledger::default(),
            arrived: (0, 0),
            trapped: 0,
            missed_after_pause: 0,
            pause: None,
            bus,
            uplink,
            capture,
            trace,
            broken: None,
        }
    }

    /// A frame arrives for the guest.
    pub(super) fn arrives(&mut self, at: Time, frame: &[u8]) {
        self.arrived.0 += 1;
        self.arrived.1 += frame.len() as u64;
        self.keep(at, "frame in", frame);
    }

    fn keep(&mut self, at: Time, what: &'static str, frame: &[u8]) {
        if let Some(c) = &mut self.capture
            && frame.len() >= doorbell_host_io::pcap::MIN_FRAME as usize
            && let Err(e) = c.writer.frame(c.wire, at, frame)
        {
            self.broken = Some(format!("the capture cannot be written: {}", plain(&e)));
            self.capture = None;
        }
        self.trace(at, what, format_args!("\"bytes\":{}", frame.len()));
    }

    fn trace(&mut self, at: Time, what: &'static str, args: std::fmt::Arguments<'_>) {
        if let Some(t) = &mut self.trace
            && let Err(e) = t.event(at, what, args)
        {
            self.broken = Some(format!("{}: {}", t.path.display(), plain(&e)));
            self.trace = None;
        }
    }

    /// Puts the files in their places.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        if let Some(c) = self.capture.take() {
            c.writer.finish().map_err(|e| Error::input(plain(&e)))?;
        }
        if let Some(t) = self.trace.take() {
            let path = t.path.clone();
            t.out
                .finish()
                .map_err(|e| Error::input(format!("{}: {}", path.display(), plain(&e))))?;
        }
        Ok(())
    }

    /// The device reads.
    fn device_reads(&mut self, at: Time, from: u64, len: u32) {
        let l = &mut self.ledger;
        match &mut self.bus {
            Bus::Pci(rules) => {
                let delayed = matches!(
                    rules.settings().protocol,
                    pci::Protocol::Conventional { delayed: true }
                );
                for t in pci::transactions(rules, pci::Operation::Read, from, len) {
                    if delayed {
                        l.pci_retries += 1;
                        l.pci_clocks += rules.retry_clocks(&t);
                    }
                    command(l, rules, t);
                }
                l.pci_read_bytes += u64::from(len);
            }
            Bus::Pcie(rules, dllps) => {
                let bill = rules.read_bill(from, len);
                l.pcie_mrd_up += bill.requests;
                l.pcie_up_tlp_bytes += bill.request_bytes;
                l.pcie_cpld_down += bill.completions;
                l.pcie_down_tlp_bytes += bill.completion_bytes;
                l.pcie_read_bytes += u64::from(len);
                acknowledge(l, dllps, Toward::Host, Class::NonPosted, bill.requests, at);
                acknowledge(l, dllps, Toward::Device, Class::Completion, bill.completions, at);
            }
            Bus::Axi(rules) => {
                for burst in rules.bursts(from, len) {
                    l.axi_reads += 1;
                    l.axi_read_beats += u64::from(burst.beats);
                }
                l.axi_read_bytes += u64::from(len);
            }
            Bus::Calls => {}
        }
    }

    /// The device writes.
    fn device_writes(&mut self, at: Time, to: u64, len: u32) {
        let l = &mut self.ledger;
        match &mut self.bus {
            Bus::Pci(rules) => {
                for t in rules.writes(to, len) {
                    l.pci_partial_lines += u64::from(t.partial_lines(rules.settings().line));
                    command(l, rules, t);
                }
                l.pci_write_bytes += u64::from(len);
            }
            Bus::Pcie(rules, dllps) => {
                let bill = rules.write_bill(to, len);
                l.pcie_mwr_up += bill.requests;
                l.pcie_up_tlp_bytes += bill.request_bytes;
                l.pcie_write_bytes += u64::from(len);
                acknowledge(l, dllps, Toward::Host, Class::Posted, bill.requests, at);
            }
            Bus::Axi(rules) => {
                for burst in rules.bursts(to, len) {
                    l.axi_writes += 1;
                    l.axi_write_beats += u64::from(burst.beats);
                }
                l.axi_write_bytes += u64::from(len);
            }
            Bus::Calls => {}
        }
    }

    /// The guest reads a register.
    fn guest_reads(&mut self, at: Time, r: Reg, size: u8) {
        let l = &mut self.ledger;
        match &mut self.bus {
            Bus::Pci(_) | Bus::Calls => {}
            Bus::Pcie(rules, dllps) => {
                let bill = rules.read_bill(REGISTERS, size.into());
                l.pcie_mrd_down += bill.requests;
                l.pcie_down_tlp_bytes += bill.request_bytes;
                l.pcie_cpld_up += bill.completions;
                l.pcie_up_tlp_bytes += bill.completion_bytes;
                acknowledge(l, dllps, Toward::Device, Class::NonPosted, bill.requests, at);
                acknowledge(l, dllps, Toward::Host, Class::Completion, bill.completions, at);
            }
            Bus::Axi(_) if is_core(r) => l.axi_lite_reads += axi::Rules::lite_accesses(size),
            Bus::Axi(_) => return,
        }
        l.mmio_reads += 1;
    }

    /// The guest writes a register.
    fn guest_writes(&mut self, at: Time, r: Reg, size: u8) {
        let l = &mut self.ledger;
        match &mut self.bus {
            Bus::Pci(_) | Bus::Calls => {}
            Bus::Pcie(rules, dllps) => {
                let bill = rules.write_bill(REGISTERS, size.into());
                l.pcie_mwr_down += bill.requests;
                l.pcie_down_tlp_bytes += bill.request_bytes;
                acknowledge(l, dllps, Toward::Device, Class::Posted, bill.requests, at);
            }
            Bus::Axi(_) if is_core(r) => l.axi_lite_writes += axi::Rules::lite_accesses(size),
            Bus::Axi(_) => return,
        }
        l.mmio_writes += 1;
    }
}

/// A command of a device on PCI or PCI-X.
fn command(l: &mut Ledger, rules: &pci::Rules, t: pci::Transaction) {
    use pci::Command;
    l.pci_clocks += rules.clocks(&t);
    *match t.command {
        Command::Mr => &mut l.pci_mr,
        Command::Mrl => &mut l.pci_mrl,
        Command::Mrm => &mut l.pci_mrm,
        Command::Mw => &mut l.pci_mw,
        Command::Mwi => &mut l.pci_mwi,
        Command::MrDword | Command::MrBlock => &mut l.pcix_reads,
        Command::MwBlock => &mut l.pcix_writes,
        Command::SplitCompletion => &mut l.pcix_completions,
    } += 1;
}

/// The other end answers so many TLPs, by DLLPs that go the other way.
fn acknowledge(
    l: &mut Ledger,
    dllps: &mut DllpState,
    toward: Toward,
    class: Class,
    count: u64,
    at: Time,
) {
    let bytes = u64::from(dllps.tlps(toward, class, count as u32, at).bytes());
    *match toward {
        Toward::Host => &mut l.pcie_down_dllp_bytes,
        Toward::Device => &mut l.pcie_up_dllp_bytes,
    } += bytes;
}

impl Watch for Bill {
    fn dma_read(&mut self, at: Time, from: Iova, len: u32) {
        self.device_reads(at, from.0, len);
        self.trace(at, "DMA read", format_args!("\"address\":\"{:#x}\",\"bytes\":{len}", from.0));
    }

    fn dma_write(&mut self, at: Time, to: Iova, len: u32) {
        self.device_writes(at, to.0, len);
        self.trace(at, "DMA write", format_args!("\"address\":\"{:#x}\",\"bytes\":{len}", to.0));
    }

    fn fault(&mut self, at: Time, fault: &DmaFault) {
        self.ledger.dma_faults += 1;
        self.trace(
            at,
            "DMA fault",
            format_args!("\"address\":\"{:#x}\",\"why\":\"{:?}\"", fault.at.0, fault.kind),
        );
    }

    fn register_read(&mut self, at: Time, r: Reg, size: u8, v: u64) {
        self.guest_reads(at, r, size);
        self.trace(
            at,
            "register read",
            format_args!(
                "\"at\":\"{}+{:#x}\",\"bytes\":{size},\"value\":\"{v:#x}\"",
                r.region, r.offset
            ),
        );
    }

    fn register_write(&mut self, at: Time, r: Reg, size: u8, v: u64, trapped: bool) {
        self.guest_writes(at, r, size);
        self.trapped += u64::from(trapped);
        self.trace(
            at,
            "register write",
            format_args!(
                "\"at\":\"{}+{:#x}\",\"bytes\":{size},\"value\":\"{v:#x}\"",
                r.region, r.offset
            ),
        );
    }

    fn line(&mut self, at: Time, high: bool) {
        self.ledger.line_interrupts += u64::from(high);
        self.trace(at, "line", format_args!("\"high\":{high}"));
    }

    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.ledger.messages += 1;
        // On AXI it is the bridge's: the cores have lines.
        if !matches!(self.bus, Bus::Axi(_)) {
            self.device_writes(at, MESSAGE_ADDRESS, 4);
        }
        self.trace(at, "message", format_args!("\"vector\":{vector}"));
    }

    fn frame(&mut self, at: Time, frame: &[u8]) {
        self.ledger.wire_frames += 1;
        self.ledger.wire_bytes += frame.len() as u64;
        self.keep(at, "frame out", frame);
        // The partner at the other end obeys a pause frame, and passes it on to nobody.
        match frame {
            [0x01, 0x80, 0xc2, 0, 0, 1, _, _, _, _, _, _, 0x88, 0x08, 0, 1, high, low, ..] => {
                self.pause = Some(u16::from_be_bytes([*high, *low]));
            }
            _ => self.uplink.send(frame),
        }
    }
}

/// Every crossing with its time, for Perfetto.
#[derive(Debug)]
pub(super) struct Trace {
    out: Writer<BufWriter<File>>,
    path: PathBuf,
}

/// The trace's lanes, from above.
const LANES: [&str; 4] = ["registers", "DMA", "interrupts", "wire"];

impl Trace {
    pub(super) fn create(path: &Path) -> Result<Trace, Error> {
        let told = |e: std::io::Error| Error::input(format!("{}: {}", path.display(), plain(&e)));
        let file = File::create(path).map_err(told)?;
        let mut out = Writer::begin(BufWriter::with_capacity(1 << 16, file)).map_err(told)?;
        for (n, name) in LANES.iter().enumerate() {
            out.lane(Lane { group: 1, number: n + 1 }, name).map_err(told)?;
        }
        Ok(Trace { out, path: path.to_owned() })
    }

    fn event(
        &mut self,
        at: Time,
        what: &str,
        args: std::fmt::Arguments<'_>,
    ) -> std::io::Result<()> {
        let number = match what.split(' ').next() {
            Some("register") => 1,
            Some("DMA") => 2,
            Some("frame") => 4,
            _ => 3,
        };
        self.out.instant(Lane { group: 1, number }, at.ps() / 1000, what, args)
    }
}

#[cfg(test)]
mod tests;
