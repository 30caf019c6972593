//! The bill: every crossing between guest and device, in the ledger's counters.
//!
//! The bus's [`Meter`] counts each access by the rules of the bus. Nothing has a time but for the
//! trace and the capture.

use super::uplink::Uplink;
use crate::chrome::{Lane, Writer};
use crate::output::{Capture, OWN};
use crate::{Error, error::plain};
use doorbell_bus::{Access, Ledger, Meter};
use doorbell_hal::{DmaFault, Iova, Reg, Time};
use doorbell_host_io::records::Records;
use doorbell_packet::ethernet::pause_quanta;
use doorbell_vfio_user::{Crossing, Observer};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{fmt::Arguments, fs::File, io};

/// The BAR with the bus of the AXI cores, and the first offset beyond the cores.
pub(super) const AXI_BUS: u8 = 1;
pub(super) const AXI_BRIDGE: u32 = 0x10_8000;

/// Returns true for a register of the AXI cores, false for one of the bridge to PCI.
pub(super) fn is_core(r: Reg) -> bool {
    r.region == AXI_BUS && r.offset < AXI_BRIDGE
}

/// Counts, and keeps what was asked to be kept.
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
    meter: Meter,
    pub(super) uplink: Uplink,
    capture: Option<Capture>,
    trace: Option<Trace>,
    /// Messages about a capture or a trace that could not be written on.
    pub(super) failures: Vec<String>,
    /// The capture or the trace is not complete.
    cut: bool,
}

/// Messages go to the interrupt controller's page.
const MESSAGE_ADDRESS: u64 = 0xfee0_0000;

impl Bill {
    pub(super) fn new(
        meter: Meter,
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
            meter,
            uplink,
            capture,
            trace,
            failures: Vec::new(),
            cut: false,
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
            && let Err(e) = c.frame(at, frame)
        {
            self.end_capture(&e);
        }
        self.trace(at, what, format_args!("\"bytes\":{}", frame.len()));
    }

    /// Ends the capture with the frames that were written. The device goes on without it.
    #[cold]
    fn end_capture(&mut self, e: &io::Error) {
        self.cut = true;
        self.failures.push(format!("the capture ends here: {}", plain(e)));
        if let Some(Err(e)) = self.capture.take().map(Capture::finish_short) {
            self.failures.push(e.to_string());
        }
    }

    fn trace(&mut self, at: Time, what: &'static str, args: std::fmt::Arguments<'_>) {
        if let Some(t) = &mut self.trace
            && let Err(e) = t.event(at, what, args)
        {
            self.end_trace(&e);
        }
    }

    /// Ends the trace with the events that were written.
    #[cold]
    fn end_trace(&mut self, e: &io::Error) {
        self.cut = true;
        if let Some(t) = self.trace.take() {
            self.failures.push(format!("{}: the trace ends here: {}", t.path.display(), plain(e)));
            // Readable without the closing bracket.
            let _ = t.out.finish();
        }
    }

    fn trace_register(&mut self, at: Time, what: &'static str, r: Reg, size: u8, v: u64) {
        let Reg { region, offset } = r;
        let place = format_args!("\"at\":\"{region}+{offset:#x}\",\"bytes\":{size}");
        self.trace(at, what, format_args!("{place},\"value\":\"{v:#x}\""));
    }

    /// Puts the files in their places. Returns true if they are complete.
    pub(super) fn finish(&mut self) -> Result<bool, Error> {
        if let Some(Err(e)) = self.capture.as_mut().map(Capture::save) {
            self.end_capture(&e);
        }
        if let Some(Err(e)) = self.trace.as_mut().map(|t| t.out.file().save()) {
            self.end_trace(&e);
        }
        if let Some(c) = self.capture.take() {
            c.finish()?;
        }
        if let Some(t) = self.trace.take() {
            t.out.finish().map_err(Error::at(t.path.display()))?;
        }
        Ok(!self.cut)
    }

    /// Passes a frame of the guest on. The partner at the other end obeys a pause frame, and passes
    /// it on to nobody.
    fn departs(&mut self, frame: &[u8]) {
        match pause_quanta(frame) {
            Some(quanta) => self.pause = Some(quanta),
            None => self.uplink.send(frame),
        }
    }

    /// Counts an access to a register. On AXI the bridge's own registers are not on the bus.
    fn register(&mut self, r: Reg, access: Access) {
        if !matches!(self.meter, Meter::Axi(_)) || is_core(r) {
            self.meter.count(&mut self.ledger, access);
        }
    }
}

impl Observer for Bill {
    fn crossed(&mut self, at: Time, what: Crossing<'_>) {
        match what {
            Crossing::DmaRead(Iova(from), len) => {
                self.meter.count(&mut self.ledger, Access::Read(from, len));
                self.trace(
                    at,
                    "DMA read",
                    format_args!("\"address\":\"{from:#x}\",\"bytes\":{len}"),
                );
            }
            Crossing::DmaWrite(Iova(to), len) => {
                self.meter.count(&mut self.ledger, Access::Write(to, len));
                self.trace(
                    at,
                    "DMA write",
                    format_args!("\"address\":\"{to:#x}\",\"bytes\":{len}"),
                );
            }
            Crossing::Fault(DmaFault { at: Iova(address), kind }) => {
                self.ledger.dma_faults += 1;
                let args = format_args!("\"address\":\"{address:#x}\",\"why\":\"{kind:?}\"");
                self.trace(at, "DMA fault", args);
            }
            Crossing::RegisterRead(r, size, v) => {
                self.register(r, Access::RegisterRead(size));
                self.trace_register(at, "register read", r, size, v);
            }
            Crossing::RegisterWrite(r, size, v, trapped) => {
                self.register(r, Access::RegisterWrite(size));
                self.trapped += u64::from(trapped);
                self.trace_register(at, "register write", r, size, v);
            }
            Crossing::Line(high) => {
                self.ledger.line_interrupts += u64::from(high);
                self.trace(at, "line", format_args!("\"high\":{high}"));
            }
            Crossing::Message(vector) => {
                self.ledger.messages += 1;
                // On AXI it is the bridge's: the cores have lines.
                if !matches!(self.meter, Meter::Axi(_)) {
                    self.meter.count(&mut self.ledger, Access::Write(MESSAGE_ADDRESS, 4));
                }
                self.trace(at, "message", format_args!("\"vector\":{vector}"));
            }
            Crossing::Frame(frame) => {
                self.ledger.wire_frames += 1;
                self.ledger.wire_bytes += frame.len() as u64;
                self.keep(at, "frame out", frame);
                self.departs(frame);
            }
        }
    }
}

/// Every crossing with its time, for Perfetto.
pub(super) struct Trace {
    out: Writer<Records<File>>,
    path: PathBuf,
}

/// The trace's lanes, from above.
const LANES: [&str; 4] = ["registers", "DMA", "interrupts", "wire"];

impl Trace {
    pub(super) fn create(path: &Path) -> Result<Trace, Error> {
        let begin = || {
            let mut create = File::options();
            create.write(true).create(true).truncate(true).mode(OWN);
            let mut out = Writer::begin(Records::new(create.open(path)?))?;
            for (n, name) in LANES.iter().enumerate() {
                out.lane(Lane { group: 1, number: n + 1 }, name)?;
            }
            out.file().save()?;
            Ok(Trace { out, path: path.to_owned() })
        };
        begin().map_err(Error::at(path.display()))
    }

    fn event(&mut self, at: Time, what: &str, args: Arguments<'_>) -> std::io::Result<()> {
        let number = match what.split(' ').next() {
            Some("register") => 1,
            Some("DMA") => 2,
            Some("frame") => 4,
            _ => 3,
        };
        self.out.instant(Lane { group: 1, number }, at.ps() / 1000, what, args)?;
        self.out.file().end_record()
    }
}

#[cfg(test)]
mod tests;
