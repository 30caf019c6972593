//! Capture files: pcap and pcapng in, compressed or not; pcapng out.
//!
//! Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. The crate `pcap-parser` decodes
//! blocks; the framing is done here, so that a truncated file and a wrong block length are told
//! apart, carry a byte offset, and cost no memory.
//!
//! Invariants: a frame that was captured in part is refused or filled with zeros; of a file that is
//! cut short the frames before the cut are kept; packets of a link without Ethernet's header get
//! one; what cannot be sent is refused, or left out and counted; frames carry no FCS; times count
//! from the earliest frame; written bytes depend on frames and times alone. Written times are in
//! ns, since Wireshark 4.0 overflows on ps (1.234 s is shown as 1.013 s).
#![forbid(unsafe_code)]

mod error;
mod input;
mod legacy;
mod link;
mod ng;
mod packed;
mod write;

#[cfg(test)]
mod tests;

pub use error::{CaptureError, Fault};
pub use write::{InterfaceId, Writer};

use doorbell_hal::fail_if;
use input::Input;
use link::Link;
use std::collections::BTreeMap;
use std::{fmt, fs::File, io::Read, path::Path};

/// The longest frame that is read or written, in bytes: libpcap's limit (`MAXIMUM_SNAPLEN`).
pub const MAX_FRAME: u32 = 262_144;

/// The shortest frame in bytes: an Ethernet header.
pub const MIN_FRAME: u32 = 14;

/// The most bytes of frames in a capture, with 24 bytes for each; they stay in memory.
pub const MAX_BYTES: u64 = 8 << 30;

/// Length of Ethernet's frame check sequence.
const FCS: u32 = 4;

/// The frames of a capture file, in the file's order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capture {
    /// All frames without FCS, concatenated, so that a frame is a slice.
    pub bytes: Vec<u8>,
    /// Place in `bytes` and capture time of each frame.
    pub frames: Vec<Frame>,
    /// Frames that are earlier than their predecessor. They keep their place and time.
    pub backwards: u64,
    /// Frames without a time (pcapng simple packets). They take their predecessor's.
    pub untimed: u64,
    /// Frames that were captured in part and are filled with zeros.
    pub padded: u64,
    /// Linux cooked packets (`tcpdump -i any`), with made-up addresses of receivers.
    pub cooked: u64,
    /// Packets of another link without Ethernet's header, with made-up addresses.
    pub headed: u64,
    /// Number of packets in the file, of the interface that was asked for.
    pub packets: u64,
    /// Packets that were left out, by reason: `link_type`, `device_type`, `not_ip`,
    /// `captured_in_part`, `length`.
    pub skipped: BTreeMap<&'static str, u64>,
    /// The offset in bytes of the record in which the file ends, if it is cut short.
    pub cut_short: Option<u64>,
    /// The format, and the compression around it.
    pub format: Format,
}

/// The format of a capture file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Format {
    /// `pcap, microseconds`, `pcap, nanoseconds` or `pcapng`.
    pub name: &'static str,
    /// `gzip` or `zstd`.
    pub packing: Option<&'static str>,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.packing.into_iter().try_for_each(|p| write!(f, "{p}, "))?;
        f.write_str(self.name)
    }
}

/// One frame of a [`Capture`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Nanoseconds since the earliest frame of the capture.
    pub at_ns: u64,
    /// Its first byte in [`Capture::bytes`].
    pub start: usize,
    /// Its length in bytes, [`MIN_FRAME`] to [`MAX_FRAME`].
    pub len: u32,
    /// Its number in the file, from 1 as Wireshark counts.
    pub number: u32,
}

/// Options of the reading of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// Fills frames that were captured in part with zeros; else they are an error.
    pub pad: bool,
    /// Leaves out packets that are no frames; else they are an error.
    pub skip: bool,
    /// Reads the packets of this interface of pcapng alone, counted from 0 in each section.
    pub interface: Option<u32>,
}

impl Capture {
    /// Iterates over the frames in the file's order: nanoseconds since the earliest frame, bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, &[u8])> {
        self.frames.iter().map(|f| (f.at_ns, self.frame(f)))
    }

    /// Returns the bytes of one of this capture's frames.
    ///
    /// # Panics
    /// Panics if `f` comes from a longer capture.
    #[inline]
    pub fn frame(&self, f: &Frame) -> &[u8] {
        &self.bytes[f.start..f.start + f.len as usize]
    }
}

/// Reads the pcap or pcapng file at `path`; it may be in gzip or zstd.
///
/// # Errors
/// A [`Fault`] with the file, the byte offset and the packet.
pub fn read(path: impl AsRef<Path>) -> Result<Capture, CaptureError> {
    let path = path.as_ref();
    let fault = |e| CaptureError::new(path, 0, 0, Fault::Io(e));
    read_from(path, File::open(path).map_err(fault)?, Reading::default())
}

/// Reads a capture from `from`. Errors call it `name`.
///
/// # Errors
/// As [`read`].
pub fn read_from(
    name: impl AsRef<Path>,
    from: impl Read,
    how: Reading,
) -> Result<Capture, CaptureError> {
    read_within(name.as_ref(), from, how, MAX_BYTES)
}

/// Reads a capture with at most `limit` bytes of frames.
fn read_within(
    name: &Path,
    from: impl Read,
    how: Reading,
    limit: u64,
) -> Result<Capture, CaptureError> {
    let fault = |e| CaptureError::new(name, 0, 0, Fault::Io(e));
    let (from, packing) = packed::unpacked(from).map_err(fault)?;
    let mut input = Input::new(from);
    let mut arena = Arena::new(how, limit);
    arena.capture.format.packing = packing;
    match sort(&mut input, &mut arena) {
        Ok(()) => {}
        Err(Fault::Truncated { .. }) if !arena.capture.frames.is_empty() => {
            arena.capture.cut_short = Some(input.record());
        }
        Err(why) => {
            // From 1, as Wireshark counts.
            return Err(CaptureError::new(name, input.record(), arena.met + 1, why));
        }
    }
    Ok(arena.finish())
}

/// Reads a file in the format that its first four bytes name.
fn sort<R: Read>(input: &mut Input<R>, arena: &mut Arena) -> Result<(), Fault> {
    let magic = *input.peek4()?;
    let name = match magic {
        [0x0a, 0x0d, 0x0d, 0x0a] => "pcapng",
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xd4, 0xc3, 0xb2, 0xa1] => "pcap, microseconds",
        [0xa1, 0xb2, 0x3c, 0x4d] | [0x4d, 0x3c, 0xb2, 0xa1] => "pcap, nanoseconds",
        _ => return Err(Fault::NotACapture(magic)),
    };
    arena.capture.format.name = name;
    if name == "pcapng" {
        ng::read(input, arena)?;
    } else {
        legacy::read(input, arena)?;
    }
    let Arena { capture, known, how, met, .. } = &*arena;
    if !capture.frames.is_empty() {
        return Ok(());
    }
    Err(match how.interface {
        Some(id) if *met > 0 && capture.packets == 0 => Fault::NoInterface { id, known: *known },
        _ if capture.packets > 0 => {
            let each = capture.skipped.iter().map(|(why, n)| format!("{n} {why}"));
            let reasons = each.collect::<Vec<_>>().join(", ");
            Fault::AllSkipped { packets: capture.packets, reasons }
        }
        _ => Fault::Empty,
    })
}

/// A capture being filled.
///
/// Until the last frame is in, `at_ns` holds the (wrapped) difference to the *first* frame; the
/// earliest is known only then.
struct Arena {
    capture: Capture,
    how: Reading,
    limit: u64,
    /// Packets so far, of all interfaces.
    met: u64,
    /// The most interfaces that a section describes.
    known: u32,
    first_ns: Option<i128>,
    previous: i64,
    earliest: i64,
}

/// One packet as a file holds it.
struct Packet<'a> {
    /// Nanoseconds since the file's epoch, if it has a time.
    ns: Option<i128>,
    /// Captured bytes without padding.
    data: &'a [u8],
    /// Length in bytes on the wire.
    original: u32,
    link: u32,
    /// Bytes of `data` that are FCS.
    fcs: u32,
}

impl Arena {
    fn new(how: Reading, limit: u64) -> Arena {
        let capture = Capture::default();
        Arena { capture, how, limit, met: 0, known: 1, first_ns: None, previous: 0, earliest: 0 }
    }

    /// Adds the packet of an interface, or leaves it out.
    fn add(&mut self, interface: u32, p: Packet<'_>) -> Result<(), Fault> {
        if self.how.interface.is_none_or(|asked| asked == interface) {
            match self.keep(&p) {
                Ok(()) => {}
                Err(why) => match why.reason().filter(|_| self.how.skip) {
                    Some(reason) => *self.capture.skipped.entry(reason).or_default() += 1,
                    None => return Err(why),
                },
            }
            self.capture.packets += 1;
        }
        self.met += 1;
        Ok(())
    }

    fn keep(&mut self, p: &Packet<'_>) -> Result<(), Fault> {
        let captured = p.data.len() as u32;
        if captured > p.original {
            return Err(Fault::Malformed(
                "its captured length is more than its length on the wire",
            ));
        }
        let snapped = Fault::Snapped { captured, original: p.original };
        let link = Link::of(p.link)?;
        let Some((head, data)) = link::split(link, p.data, p.original)? else {
            return Err(if captured < p.original { snapped } else { Fault::Length(captured) });
        };
        if captured < p.original && (!self.how.pad || captured < MIN_FRAME) {
            return Err(snapped);
        }
        let head = head.as_ref().map_or(&[][..], |head| head);
        let whole = p.original - captured + (head.len() + data.len()) as u32;
        let len = whole.saturating_sub(p.fcs);
        fail_if(!(MIN_FRAME..=MAX_FRAME).contains(&len), Fault::Length(len))?;
        let start = self.capture.bytes.len();
        let index = (self.capture.frames.len() as u64 + 1) * size_of::<Frame>() as u64;
        fail_if(start as u64 + u64::from(len) + index > self.limit, Fault::TooBig(self.limit))?;
        let end = start + len as usize;
        let room =
            self.capture.bytes.try_reserve(len as usize).and(self.capture.frames.try_reserve(1));
        room.map_err(|_| Fault::Memory)?;
        let at = self.since_first(p.ns)?;
        self.capture.bytes.extend_from_slice(head);
        self.capture.bytes.extend_from_slice(&data[..data.len().min(len as usize - head.len())]);
        self.capture.bytes.resize(end, 0);
        let number = u32::try_from(self.met + 1).unwrap_or(u32::MAX);
        self.capture.frames.push(Frame { at_ns: at as u64, start, len, number });
        self.capture.padded += u64::from(captured < p.original);
        self.capture.cooked += u64::from(link.is_cooked());
        self.capture.headed += u64::from(!head.is_empty() && !link.is_cooked());
        Ok(())
    }

    fn since_first(&mut self, ns: Option<i128>) -> Result<i64, Fault> {
        let Some(ns) = ns else {
            self.capture.untimed += 1;
            return Ok(self.previous);
        };
        // Untimed packets before the first time are taken to be captured then.
        let first = *self.first_ns.get_or_insert(ns);
        let at = i64::try_from(ns - first)
            .map_err(|_| Fault::Malformed("its time is centuries away from the first's"))?;
        self.capture.backwards += u64::from(at < self.previous);
        self.earliest = self.earliest.min(at);
        self.previous = at;
        Ok(at)
    }

    fn finish(mut self) -> Capture {
        if self.earliest < 0 {
            for f in &mut self.capture.frames {
                f.at_ns = f.at_ns.wrapping_sub(self.earliest as u64);
            }
        }
        self.capture
    }
}
