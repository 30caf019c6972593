//! The bill: every crossing between guest and device, in the ledger's words.
//!
//! The device's accesses to memory become the bus transactions that its rules say, by the
//! same arithmetic as in the lab; nothing has a time but for the trace and the capture.

use super::uplink::Uplink;
use crate::Error;
use crate::output::{Capture, plain};
use doorbell_attach::vfio_user::Watch;
use doorbell_bus::Ledger;
use doorbell_bus::pci;
use doorbell_seam::{DmaFault, Iova, Reg, Time};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// By which rules accesses become transactions.
#[derive(Debug)]
pub(super) enum Bus {
    /// Conventional PCI, or PCI-X.
    Pci(pci::Rules),
}

/// Counts, and keeps what was asked to be kept.
#[derive(Debug)]
pub(super) struct Bill {
    pub(super) ledger: Ledger,
    /// Frames that arrived for the guest, and their bytes, without FCS.
    pub(super) arrived: (u64, u64),
    bus: Bus,
    pub(super) uplink: Uplink,
    capture: Option<Capture>,
    trace: Option<Trace>,
    /// Why the capture or the trace could not be written on.
    pub(super) broken: Option<String>,
}

/// A PCI device's messages go to the interrupt controller's page.
const MESSAGE_ADDRESS: u64 = 0xfee0_0000;

impl Bill {
    pub(super) fn new(bus: Bus, uplink: Uplink, capture: Option<Capture>, trace: Option<Trace>) -> Bill {
        Bill { ledger: Ledger::default(), arrived: (0, 0), bus, uplink, capture, trace, broken: None }
    }

    /// A frame arrives for the guest.
    pub(super) fn arrives(&mut self, at: Time, frame: &[u8]) {
        self.arrived.0 += 1;
        self.arrived.1 += frame.len() as u64;
        self.keep(at, "frame in", frame);
    }

    fn keep(&mut self, at: Time, what: &'static str, frame: &[u8]) {
        if let Some(c) = &mut self.capture
            && frame.len() >= doorbell_attach::pcap::MIN_FRAME as usize
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
            t.finish().map_err(|e| Error::input(format!("{}: {}", path.display(), plain(&e))))?;
        }
        Ok(())
    }

    fn command(&mut self, t: pci::Transaction) {
        use pci::Command;
        let l = &mut self.ledger;
        let Bus::Pci(rules) = &self.bus;
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

    fn device_writes(&mut self, to: u64, len: u32) {
        let Bus::Pci(rules) = self.bus;
        for t in rules.writes(to, len) {
            self.ledger.pci_partial_lines += u64::from(t.partial_lines(rules.settings().line));
            self.command(t);
        }
        self.ledger.pci_write_bytes += u64::from(len);
    }
}

impl Watch for Bill {
    fn dma_read(&mut self, at: Time, from: Iova, len: u32) {
        let Bus::Pci(rules) = self.bus;
        let delayed = matches!(rules.settings().protocol, pci::Protocol::Conventional { delayed: true });
        for t in pci::transactions(&rules, pci::Operation::Read, from.0, len) {
            if delayed {
                self.ledger.pci_retries += 1;
                self.ledger.pci_clocks += rules.retry_clocks(&t);
            }
            self.command(t);
        }
        self.ledger.pci_read_bytes += u64::from(len);
        self.trace(at, "DMA read", format_args!("\"address\":\"{:#x}\",\"bytes\":{len}", from.0));
    }

    fn dma_write(&mut self, at: Time, to: Iova, len: u32) {
        self.device_writes(to.0, len);
        self.trace(at, "DMA write", format_args!("\"address\":\"{:#x}\",\"bytes\":{len}", to.0));
    }

    fn fault(&mut self, at: Time, fault: &DmaFault) {
        self.ledger.dma_faults += 1;
        self.trace(at, "DMA fault", format_args!("\"address\":\"{:#x}\",\"why\":\"{:?}\"", fault.at.0, fault.kind));
    }

    fn register_read(&mut self, at: Time, r: Reg, size: u8, v: u64) {
        self.ledger.mmio_reads += 1;
        self.trace(
            at,
            "register read",
            format_args!("\"at\":\"{}+{:#x}\",\"bytes\":{size},\"value\":\"{v:#x}\"", r.region, r.offset),
        );
    }

    fn register_write(&mut self, at: Time, r: Reg, size: u8, v: u64, _trapped: bool) {
        self.ledger.mmio_writes += 1;
        self.trace(
            at,
            "register write",
            format_args!("\"at\":\"{}+{:#x}\",\"bytes\":{size},\"value\":\"{v:#x}\"", r.region, r.offset),
        );
    }

    fn line(&mut self, at: Time, high: bool) {
        self.ledger.line_interrupts += u64::from(high);
        self.trace(at, "line", format_args!("\"high\":{high}"));
    }

    fn message(&mut self, at: Time, vector: u16) {
        self.ledger.messages += 1;
        self.device_writes(MESSAGE_ADDRESS, 4);
        self.trace(at, "message", format_args!("\"vector\":{vector}"));
    }

    fn frame(&mut self, at: Time, frame: &[u8]) {
        self.ledger.wire_frames += 1;
        self.ledger.wire_bytes += frame.len() as u64;
        self.keep(at, "frame out", frame);
        self.uplink.send(frame);
    }
}

/// Every crossing with its time, as Chrome's trace format has it (Perfetto reads it).
///
/// The array's closing bracket is optional there, so what a killed server leaves can be read.
#[derive(Debug)]
pub(super) struct Trace {
    out: BufWriter<File>,
    path: PathBuf,
    first: bool,
}

impl Trace {
    pub(super) fn create(path: &Path) -> Result<Trace, Error> {
        let told = |e: std::io::Error| Error::input(format!("{}: {}", path.display(), plain(&e)));
        let mut out = BufWriter::with_capacity(1 << 16, File::create(path).map_err(told)?);
        out.write_all(b"[").map_err(told)?;
        Ok(Trace { out, path: path.to_owned(), first: true })
    }

    /// An instant event; times are microseconds.
    fn event(&mut self, at: Time, what: &str, args: std::fmt::Arguments<'_>) -> std::io::Result<()> {
        let comma = if std::mem::take(&mut self.first) { "" } else { "," };
        let ns = at.ps() / 1000;
        writeln!(
            self.out,
            "{comma}\n{{\"name\":\"{what}\",\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":\"{what}\",\"ts\":{}.{:03},\"args\":{{{args}}}}}",
            ns / 1000,
            ns % 1000,
        )
    }

    fn finish(mut self) -> std::io::Result<()> {
        self.out.write_all(b"]\n")?;
        self.out.flush()
    }
}
