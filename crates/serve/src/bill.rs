//! The bill: every crossing between guest and device, in the ledger's counters.
//!
//! The bus's [`Meter`] counts each access by the rules of the bus. Nothing has a time but for the
//! trace and the capture.

use super::outlet::{Lost, Outlet};
use super::uplink::Uplink;
use doorbell_bus::{Access, Ledger, Meter};
use doorbell_console::chrome::{END, Lane, Writer};
use doorbell_console::output::{Capture, OWN};
use doorbell_console::render::count;
use doorbell_console::{Error, plain};
use doorbell_devices::rp1;
use doorbell_hal::{DmaFault, Iova, Reg, Time};
use doorbell_host_io::records::Records;
use doorbell_packet::ethernet::pause_quanta;
use doorbell_vfio_user::{Crossing, Observer};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{fmt::Arguments, fs::File, io, time::Duration};

/// Returns true for a register of the AXI cores, false for one of the bridge to PCI.
pub(super) fn is_core(r: Reg) -> bool {
    r.region == rp1::BUS && r.offset < rp1::BRIDGE
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
    /// The most bytes of the capture.
    pub(super) capture_limit: u64,
    trace: Option<Trace>,
    /// Messages about a capture or a trace that has ended.
    pub(super) failures: Vec<String>,
    /// The capture or the trace is not complete.
    cut: bool,
}

/// Bytes that the capture has around a frame, at most.
const BLOCK: usize = 36;

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
            capture_limit: u64::MAX,
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
        {
            if c.bytes() + (frame.len() + BLOCK) as u64 > self.capture_limit {
                self.end_full_capture();
            } else if let Err(e) = c.frame(at, frame) {
                self.end_capture(&e);
            }
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

    /// Puts a capture that has reached its limit in its place.
    #[cold]
    fn end_full_capture(&mut self) {
        let mib = self.capture_limit >> 20;
        match self.capture.take().map_or(Ok(()), Capture::finish) {
            Ok(()) => self.failures.push(format!("the capture ends here: it has {mib} MiB")),
            Err(e) => {
                self.cut = true;
                self.failures.push(e.to_string());
            }
        }
    }

    /// Starts the thread that writes the trace.
    pub(super) fn start(&mut self) -> io::Result<()> {
        self.trace.as_mut().map_or(Ok(()), |t| t.outlet.start())
    }

    #[inline(always)]
    fn trace(&mut self, at: Time, what: &'static str, args: Arguments<'_>) {
        if self.trace.is_some() {
            self.trace_event(at, what, args);
        }
    }

    #[cold]
    fn trace_event(&mut self, at: Time, what: &'static str, args: Arguments<'_>) {
        if let Some(t) = &mut self.trace
            && let Some(why) = t.event(at, what, args)
        {
            self.cut |= t.is_cut;
            self.failures.push(why);
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
        if let Some(mut t) = self.trace.take() {
            self.failures.extend(t.finish());
            self.cut |= t.is_cut;
        }
        if let Some(c) = self.capture.take() {
            c.finish()?;
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

/// Every crossing with its time, for Perfetto. A thread writes it: its reader may be another
/// program, which does not hold up the guests. An own file is waited for.
pub(super) struct Trace {
    out: Writer<Vec<u8>>,
    outlet: Outlet,
    path: PathBuf,
    is_file: bool,
    /// The most bytes, and those that were passed on.
    limit: u64,
    bytes: u64,
    /// Events in `out`, and those that found the queue full.
    events: u64,
    lost: u64,
    has_ended: bool,
    /// Events are missing.
    is_cut: bool,
}

/// The trace's lanes, from above.
const LANES: [&str; 4] = ["registers", "DMA", "interrupts", "wire"];
/// Bytes that are passed on at a time, and how often that may wait for the writer.
const PIECE: usize = 1 << 16;
const PIECES: usize = 64;
/// Room for the last event, and for the end.
const LAST: u64 = 1024;
/// The time that the reader of a pipe has at the end.
const PATIENCE: Duration = Duration::from_millis(500);

impl Trace {
    pub(super) fn create(path: &Path, limit: u64) -> Result<Trace, Error> {
        let begin = || {
            let mut create = File::options();
            create.write(true).create(true).truncate(true).mode(OWN);
            let file = create.open(path)?;
            let is_file = file.metadata()?.is_file();
            let mut records = Records::new(file);
            let mut out = Writer::begin(Vec::with_capacity(2 * PIECE))?;
            for (n, name) in LANES.iter().enumerate() {
                out.lane(Lane { group: 1, number: n + 1 }, name)?;
            }
            let mut put = move |piece: &[u8]| {
                records.write_all(piece)?;
                let saved = records.save();
                if saved.is_err() {
                    // It ends behind a whole event, and there may be room for its end.
                    let _ = records.write_all(END).and_then(|()| records.save());
                }
                saved
            };
            // A file that ends early has its head at least.
            let head = std::mem::take(out.file());
            put(&head)?;
            Ok(Trace {
                out,
                outlet: Outlet::new("trace", PIECES, Box::new(put)),
                path: path.to_owned(),
                is_file,
                limit,
                bytes: head.len() as u64,
                events: 0,
                lost: 0,
                has_ended: false,
                is_cut: false,
            })
        };
        begin().map_err(Error::at(path.display()))
    }

    /// Adds an event. Returns why the trace ends with it, if it does.
    fn event(&mut self, at: Time, what: &str, args: Arguments<'_>) -> Option<String> {
        if self.has_ended {
            return None;
        }
        let number = match what.split(' ').next() {
            Some("register") => 1,
            Some("DMA") => 2,
            Some("frame") => 4,
            _ => 3,
        };
        // Memory takes all.
        let _ = self.out.instant(Lane { group: 1, number }, at.ps() / 1000, what, args);
        self.events += 1;
        let gathered = self.out.file().len();
        if self.bytes + gathered as u64 + LAST > self.limit {
            self.has_ended = true;
            let _ = self.out.end();
            let mib = self.limit >> 20;
            let why = format!("{}: the trace ends here: it has {mib} MiB", self.path.display());
            return Some(self.pass(self.is_file).unwrap_or(why));
        }
        if gathered < PIECE { None } else { self.pass(self.is_file) }
    }

    /// Passes the gathered events on. Returns why the trace ends here, if it does.
    fn pass(&mut self, wait: bool) -> Option<String> {
        let piece = std::mem::replace(self.out.file(), Vec::with_capacity(2 * PIECE));
        let (len, events) = (piece.len() as u64, std::mem::take(&mut self.events));
        match self.outlet.put(piece, wait) {
            Ok(()) => self.bytes += len,
            Err(Lost::Full) => self.lost += events,
            Err(Lost::Ended) => return self.failed(),
        }
        None
    }

    /// Returns why the writer has ended, if it failed.
    #[cold]
    fn failed(&mut self) -> Option<String> {
        let patience = (!self.is_file).then_some(PATIENCE);
        let e = self.outlet.finish(patience).err()?;
        (self.has_ended, self.is_cut) = (true, true);
        Some(format!("{}: the trace ends here: {}", self.path.display(), plain(&e)))
    }

    /// Writes what is left. Returns what went wrong.
    fn finish(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        if !self.has_ended {
            let _ = self.out.end();
            wrong.extend(self.pass(self.is_file));
        }
        if !self.is_cut {
            wrong.extend(self.failed());
        }
        if self.lost > 0 {
            self.is_cut = true;
            let (path, lost) = (self.path.display(), count(self.lost));
            wrong.push(format!("{path}: the trace lacks {lost} events: its reader was too slow"));
        }
        wrong
    }
}

#[cfg(test)]
mod tests;
