//! What can be wrong with a capture file, said to the person who gave it.

use super::{MAX_FRAME, MIN_FRAME};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// LINKTYPE_ETHERNET.
pub(super) const ETHERNET: u32 = 1;

/// A capture file that cannot be used, and where the fault lies.
#[derive(Debug)]
pub struct CaptureError {
    /// The file.
    pub file: PathBuf,
    /// The byte at which the faulty header, block or packet record starts.
    pub offset: u64,
    /// The packet being read, or the next one, from 1 as Wireshark counts; 0 if
    /// the file could not even be opened.
    pub packet: u64,
    /// What is wrong.
    pub why: Fault,
}

/// What is wrong with a capture file.
#[derive(Debug)]
pub enum Fault {
    /// It cannot be read.
    Io(io::Error),
    /// It is compressed.
    Gzip,
    /// It starts with bytes of no kind of capture file.
    NotACapture([u8; 4]),
    /// A version of the format that is not read: major, minor.
    Version(u16, u16),
    /// It ends early: bytes that the record or block needs, bytes that are there.
    Truncated {
        /// How many bytes the record or block has.
        need: u64,
        /// How many of them are in the file.
        have: u64,
    },
    /// A packet of a link type that is not Ethernet.
    LinkType(u32),
    /// A packet was not captured whole.
    Snapped {
        /// Bytes in the file.
        captured: u32,
        /// Bytes on the wire.
        original: u32,
    },
    /// A frame that is too short or too long, in bytes without FCS.
    Length(u32),
    /// A length of the frame check sequence that Ethernet does not have, with
    /// its unit.
    FcsLength(u8, &'static str),
    /// A packet names an interface that its section has not described.
    Interface {
        /// The interface it names.
        id: u32,
        /// How many there are.
        known: u32,
    },
    /// A time resolution (`if_tsresol`) that is not read.
    Resolution(u8),
    /// More bytes of frames than this limit.
    TooBig(u64),
    /// The frames do not fit in memory.
    Memory,
    /// The file contradicts itself.
    Malformed(&'static str),
    /// No packet in it.
    Empty,
}

impl CaptureError {
    pub(super) fn new(file: &Path, offset: u64, packet: u64, why: Fault) -> CaptureError {
        CaptureError { file: file.to_owned(), offset, packet, why }
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        match self.why {
            // Faults of the file as a whole.
            Fault::Io(_) if self.packet == 0 => {}
            Fault::Gzip | Fault::NotACapture(_) | Fault::Empty => {}
            _ => write!(f, "byte {}, packet {}: ", self.offset, self.packet)?,
        }
        self.why.fmt(f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(e) => e.fmt(f),
            Fault::Gzip => f.write_str(
                "the file is gzip-compressed, which is not read: unpack it with gunzip first",
            ),
            Fault::NotACapture([a, b, c, d]) => write!(
                f,
                "not a capture file: it starts with {a:02x} {b:02x} {c:02x} {d:02x}; allowed are pcap (microseconds or \
                 nanoseconds) and pcapng"
            ),
            Fault::Version(major, minor) => {
                write!(f, "format version {major}.{minor}; allowed are pcap 2.4 and pcapng 1.x")
            }
            Fault::Truncated { need, have } => {
                write!(f, "the file is cut short: {have} bytes are left of {need}")
            }
            Fault::LinkType(n) => {
                write!(f, "link type {n}")?;
                if let Some(name) = link_name(*n) {
                    write!(f, " ({name})")?;
                }
                write!(f, " cannot be replayed; allowed is {ETHERNET} (Ethernet)")
            }
            Fault::Snapped { captured, original } => write!(
                f,
                "only {captured} of the packet's {original} bytes were captured, so it cannot be replayed; capture \
                 with a larger snap length (tcpdump -s 0)"
            ),
            Fault::Length(n) => {
                write!(
                    f,
                    "a frame of {n} bytes without FCS; allowed are {MIN_FRAME} to {MAX_FRAME}"
                )
            }
            Fault::FcsLength(n, unit) => {
                write!(
                    f,
                    "frame check sequences of {n} {unit}; Ethernet has none captured, or 4 bytes"
                )
            }
            Fault::Interface { id, known } => {
                write!(
                    f,
                    "the packet is of interface {id}, but its section describes {known}, counted from 0"
                )
            }
            Fault::Resolution(n) => write!(
                f,
                "time resolution {n:#04x} (if_tsresol); allowed are 0x00 to 0x13 (powers of ten) and 0x80 to 0xbf \
                 (powers of two)"
            ),
            Fault::TooBig(limit) => {
                write!(
                    f,
                    "more than {limit} bytes of frames; take a part of the file with editcap -r"
                )
            }
            Fault::Memory => f.write_str(
                "the frames do not fit in memory; take a part of the file with editcap -r",
            ),
            Fault::Malformed(what) => write!(f, "the file is damaged: {what}"),
            Fault::Empty => f.write_str("the capture has no packets"),
        }
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.why {
            Fault::Io(e) => Some(e),
            _ => None,
        }
    }
}

/// The link types that people meet instead of Ethernet (tcpdump.org/linktypes.html).
fn link_name(n: u32) -> Option<&'static str> {
    Some(match n {
        0 => "BSD loopback",
        9 => "PPP",
        101 => "raw IP",
        105 => "IEEE 802.11",
        108 => "OpenBSD loopback",
        113 => "Linux cooked, as of tcpdump -i any",
        127 => "IEEE 802.11 with radiotap",
        220 => "Linux USB",
        228 => "raw IPv4",
        229 => "raw IPv6",
        239 => "NFLOG",
        247 => "InfiniBand",
        252 => "Wireshark upper PDU",
        276 => "Linux cooked v2, as of tcpdump -i any",
        _ => return None,
    })
}
