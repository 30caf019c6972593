//! Capture files: traffic that goes into a run, and the wire that comes out.
//!
//! [`read`] takes pcap and pcapng files of Ethernet frames and keeps them in
//! one arena, so that handing a frame to a driver is a slice and no more.
//! [`Writer`] makes the pcapng of a run's wire.
//!
//! Sources: draft-ietf-opsawg-pcap (the 24-byte header, its FCS bits) and
//! draft-ietf-opsawg-pcapng (blocks and options; sections named where used).
//! The blocks are decoded by the crate `pcap-parser`. The framing is done here:
//! a block is handed over whole, so that "the file ends here" and "the block
//! lies about its length" are told apart and both carry a byte offset, and so
//! that a lying length costs no memory.
//!
//! Decisions:
//!
//! * A frame is replayed whole or not at all. A capture made with a snap length shorter than its
//!   packets is refused, by the number of the first such packet; so is a link type other than
//!   Ethernet, but only once a packet uses it: an idle second interface does no harm.
//! * Frames carry no FCS beyond this module. Where the file says that one was captured (the pcap
//!   header, `if_fcslen`, `epb_flags`), it is stripped.
//! * Times count from the earliest frame. For almost every file this is the first one. Captures do
//!   step back in time (several queues, an adjusted clock); such frames keep their place and their
//!   time, and are counted in [`Capture::backwards`]. Simple packets have no time at all: they take
//!   that of the packet before, and are counted in [`Capture::untimed`].
//! * What the writer makes depends on the frames and their times alone: no clock, host name or
//!   version goes in. Times are nanoseconds. pcapng can say picoseconds, but Wireshark 4.0's
//!   conversion overflows there (1.234 s is shown as 1.013 s), and a file that common tools misread
//!   is of no use.
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
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The longest frame that is read or written, in bytes. libpcap's own limit
/// (`MAXIMUM_SNAPLEN`): a longer "packet" is a damaged length.
pub const MAX_FRAME: u32 = 262_144;

/// The shortest: an Ethernet header. What is shorter cannot be sent.
pub const MIN_FRAME: u32 = 14;

/// How many bytes of frames a capture may hold: they stay in memory.
pub const MAX_BYTES: u64 = 8 << 30;

/// Length of Ethernet's frame check sequence.
const FCS: u32 = 4;

/// The frames of a capture file, in the file's order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capture {
    /// All frames, one after the other, without FCS.
    pub bytes: Vec<u8>,
    /// Where each frame lies in `bytes`, and when it was captured.
    pub frames: Vec<Frame>,
    /// Frames that are earlier than the one before them.
    pub backwards: u64,
    /// Frames without a time of their own (pcapng simple packets).
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
    /// The frames in the file's order: nanoseconds since the earliest frame, and
    /// the bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, &[u8])> {
        self.frames.iter().map(|f| (f.at_ns, self.frame(f)))
    }

    /// The bytes of one of this capture's frames.
    ///
    /// # Panics
    /// When `f` comes from a longer capture.
    #[inline]
    pub fn frame(&self, f: &Frame) -> &[u8] {
        &self.bytes[f.start..f.start + f.len as usize]
    }
}

/// Reads the pcap or pcapng file at `path`.
///
/// # Errors
/// Each names the file, the byte offset and the packet, and what is allowed:
/// see [`Fault`].
pub fn read(path: impl AsRef<Path>) -> Result<Capture, CaptureError> {
    let path = path.as_ref();
    let fault = |e| CaptureError::new(path, 0, 0, Fault::Io(e));
    let file = File::open(path).map_err(fault)?;
    let about = file.metadata().map_err(fault)?.len();
    read_within(path, file, about, MAX_BYTES)
}

/// Reads a capture from `from`; `name` is what errors call it.
///
/// # Errors
/// As [`read`].
pub fn read_from(name: impl AsRef<Path>, from: impl Read) -> Result<Capture, CaptureError> {
    read_within(name.as_ref(), from, 0, MAX_BYTES)
}

/// `about` is how many bytes to expect (a hint), `limit` how many bytes of
/// frames are too many.
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

/// Finds out by the first four bytes what kind of file it is, and reads it.
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
/// Until the last frame is in, `at_ns` holds the (wrapped) difference to the
/// *first* frame; only then is it known which is the earliest.
struct Arena {
    capture: Capture,
    limit: u64,
    first_ns: Option<i128>,
    previous: i64,
    earliest: i64,
}

/// One packet as a file holds it.
struct Packet<'a> {
    /// Nanoseconds since the file's epoch; `None` if it has no time.
    ns: Option<i128>,
    /// What was captured, without padding.
    data: &'a [u8],
    /// How long it was on the wire.
    original: u32,
    link: u32,
    /// How many bytes of `data` are FCS.
    fcs: u32,
}

impl Arena {
    fn new(about: u64, limit: u64) -> Arena {
        let mut capture = Capture::default();
        // Only a hint: `add` reserves what is needed, and reports a failure.
        let _ = capture.bytes.try_reserve_exact(about as usize);
        Arena { capture, limit, first_ns: None, previous: 0, earliest: 0 }
    }

    /// The number of the packet to come, from 1 as Wireshark counts.
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
