//! Capture files: pcap and pcapng in, pcapng out.
//!
//! Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. The crate `pcap-parser` decodes
//! blocks; the framing is done here, so that a truncated file and a wrong block length are told
//! apart, carry a byte offset, and cost no memory.
//!
//! Invariants: a frame is kept whole or the file is refused (snap length, link type of a packet);
//! frames carry no FCS; times count from the earliest frame; written bytes depend on frames and
//! times alone. Written times are in ns, since Wireshark 4.0 overflows on ps (1.234 s is shown as
//! 1.013 s).
#![forbid(unsafe_code)]

mod error;
mod input;
mod legacy;
mod ng;
mod write;

#[cfg(test)]
mod tests;

pub use error::{CaptureError, Fault};
pub use write::{InterfaceId, Writer};

use input::Input;
use std::{fs::File, io::Read, path::Path};

/// The longest frame that is read or written, in bytes: libpcap's limit (`MAXIMUM_SNAPLEN`).
pub const MAX_FRAME: u32 = 262_144;

/// The shortest frame in bytes: an Ethernet header.
pub const MIN_FRAME: u32 = 14;

/// The most bytes of frames in a capture; they stay in memory.
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
}

impl Capture {
    /// Iterates over the frames in the file's order: nanoseconds since the earliest frame, bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, &[u8])> {
        self.frames.iter().map(|f| (f.at_ns, self.frame(f)))
    }

    /// Returns the bytes of one of this capture's frames.
    ///
    /// # Panics
    /// If `f` comes from a longer capture.
    #[inline]
    pub fn frame(&self, f: &Frame) -> &[u8] {
        &self.bytes[f.start..f.start + f.len as usize]
    }
}

/// Reads the pcap or pcapng file at `path`.
///
/// # Errors
/// A [`Fault`] with the file, the byte offset and the packet.
pub fn read(path: impl AsRef<Path>) -> Result<Capture, CaptureError> {
    let path = path.as_ref();
    let fault = |e| CaptureError::new(path, 0, 0, Fault::Io(e));
    let file = File::open(path).map_err(fault)?;
    let about = file.metadata().map_err(fault)?.len();
    read_within(path, file, about, MAX_BYTES)
}

/// Reads a capture from `from`. Errors call it `name`.
///
/// # Errors
/// As [`read`].
pub fn read_from(name: impl AsRef<Path>, from: impl Read) -> Result<Capture, CaptureError> {
    read_within(name.as_ref(), from, 0, MAX_BYTES)
}

/// Reads a capture of about `about` bytes (a hint) with at most `limit` bytes of frames.
fn read_within(
    name: &Path,
    from: impl Read,
    about: u64,
    limit: u64,
) -> Result<Capture, CaptureError> {
    let mut input = Input::new(from);
    let mut arena = Arena::new(about.min(limit), limit);
    match sort(&mut input, &mut arena) {
        Ok(()) => Ok(arena.finish()),
        Err(why) => Err(CaptureError::new(name, input.record(), arena.next_packet(), why)),
    }
}

/// Reads a file in the format that its first four bytes name.
fn sort<R: Read>(input: &mut Input<R>, arena: &mut Arena) -> Result<(), Fault> {
    let magic = *input.peek4()?;
    match magic {
        [0x1f, 0x8b, ..] => return Err(Fault::Gzip),
        [0x0a, 0x0d, 0x0d, 0x0a] => ng::read(input, arena)?,
        [0xa1, 0xb2, 0xc3, 0xd4]
        | [0xd4, 0xc3, 0xb2, 0xa1]
        | [0xa1, 0xb2, 0x3c, 0x4d]
        | [0x4d, 0x3c, 0xb2, 0xa1] => {
            legacy::read(input, arena)?;
        }
        _ => return Err(Fault::NotACapture(magic)),
    }
    if arena.capture.frames.is_empty() {
        return Err(Fault::Empty);
    }
    Ok(())
}

/// A capture being filled.
///
/// Until the last frame is in, `at_ns` holds the (wrapped) difference to the *first* frame; the
/// earliest is known only then.
struct Arena {
    capture: Capture,
    limit: u64,
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
    fn new(about: u64, limit: u64) -> Arena {
        let mut capture = Capture::default();
        // Only a hint: `add` reserves what is needed, and reports a failure.
        let _ = capture.bytes.try_reserve_exact(about as usize);
        Arena { capture, limit, first_ns: None, previous: 0, earliest: 0 }
    }

    /// Returns the number of the next packet, from 1 as Wireshark counts.
    fn next_packet(&self) -> u64 {
        self.capture.frames.len() as u64 + 1
    }

    fn add(&mut self, p: Packet<'_>) -> Result<(), Fault> {
        if p.link != error::ETHERNET {
            return Err(Fault::LinkType(p.link));
        }
        let captured = p.data.len() as u32;
        if captured < p.original {
            return Err(Fault::Snapped { captured, original: p.original });
        }
        if captured > p.original {
            return Err(Fault::Malformed(
                "its captured length is more than its length on the wire",
            ));
        }
        let len = captured.saturating_sub(p.fcs);
        if !(MIN_FRAME..=MAX_FRAME).contains(&len) {
            return Err(Fault::Length(len));
        }
        let start = self.capture.bytes.len();
        if start as u64 + u64::from(len) > self.limit {
            return Err(Fault::TooBig(self.limit));
        }
        let room =
            self.capture.bytes.try_reserve(len as usize).and(self.capture.frames.try_reserve(1));
        room.map_err(|_| Fault::Memory)?;
        let at = self.since_first(p.ns)?;
        self.capture.bytes.extend_from_slice(&p.data[..len as usize]);
        self.capture.frames.push(Frame { at_ns: at as u64, start, len });
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
