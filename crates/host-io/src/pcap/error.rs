//! Errors of a capture file, worded for the person who gave it.

use super::{MAX_FRAME, MIN_FRAME};
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// A capture file that cannot be used, and the place of the fault.
#[derive(Debug)]
pub struct CaptureError {
    /// The file.
    pub file: PathBuf,
    /// The offset in bytes of the faulty header, block or packet record, in the unpacked file.
    pub offset: u64,
    /// The number of the packet being read, or of the next one, from 1 as Wireshark counts; 0 if
    /// the file could not be opened.
    pub packet: u64,
    /// The fault.
    pub why: Fault,
}

/// A fault of a capture file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It cannot be read.
    #[error("{0}")]
    Io(io::Error),
    /// It starts with bytes of no kind of capture file.
    #[error(
        "not a capture file: it starts with {:02x} {:02x} {:02x} {:02x}; \
         allowed are pcap (microseconds or nanoseconds) and pcapng, each also in gzip or zstd",
        .0[0], .0[1], .0[2], .0[3]
    )]
    NotACapture([u8; 4]),
    /// An unsupported version of the format: major, minor.
    #[error("format version {0}.{1}; allowed are pcap 2.4 and pcapng 1.x")]
    Version(u16, u16),
    /// It ends early.
    #[error("the file is cut short: {have} bytes are left of {need}")]
    Truncated {
        /// Bytes of the record or block.
        need: u64,
        /// Bytes of those that the file has.
        have: u64,
    },
    /// A packet of a link type that carries no Ethernet and no IP.
    #[error(
        "link type {0}{name} cannot be replayed; allowed are 1 (Ethernet), 113 and 276 (Linux \
         cooked), and with IP inside 101, 228 and 229 (raw), 0 and 108 (loopback), 9 and 50 (PPP), \
         104 (Cisco HDLC)",
        name = link_name(*.0)
    )]
    LinkType(u32),
    /// A Linux cooked packet of a device whose packets have no EtherType: its ARPHRD number.
    #[error(
        "a Linux cooked packet of a device of type {0} (ARPHRD) cannot be replayed; allowed are \
         1 (Ethernet), 772 (loopback), 65534 (none), and others with IP inside"
    )]
    Cooked(u16),
    /// A packet of a link without Ethernet's header that does not carry IP: the field that tells,
    /// and its value.
    #[error("{0} {1:#x}: of a link without Ethernet's header, IP and MPLS alone can be replayed")]
    NotIp(&'static str, u32),
    /// A packet was not captured whole.
    #[error(
        "only {captured} of the packet's {original} bytes were captured; fill it with zeros \
         (--pad), or capture with a larger snap length (tcpdump -s 0)"
    )]
    Snapped {
        /// Bytes in the file.
        captured: u32,
        /// Bytes on the wire.
        original: u32,
    },
    /// A frame that is too short or too long, in bytes without FCS.
    #[error("a frame of {0} bytes without FCS; allowed are {MIN_FRAME} to {MAX_FRAME}")]
    Length(u32),
    /// A length of the frame check sequence that Ethernet does not have, with its unit.
    #[error("frame check sequences of {0} {1}; Ethernet has none captured, or 4 bytes")]
    FcsLength(u8, &'static str),
    /// A packet names an interface that its section has not described.
    #[error("the packet is of interface {id}, but its section describes {known}, counted from 0")]
    Interface {
        /// The interface that it names.
        id: u32,
        /// The number of interfaces described.
        known: u32,
    },
    /// No packet is of the interface that was asked for.
    #[error("no packet is of interface {id}; a section describes {known}, counted from 0")]
    NoInterface {
        /// The interface that was asked for.
        id: u32,
        /// The most interfaces that a section describes.
        known: u32,
    },
    /// An unsupported time resolution (`if_tsresol`).
    #[error(
        "time resolution {0:#04x} (if_tsresol); allowed are 0x00 to 0x13 (powers of ten) and \
         0x80 to 0xbf (powers of two)"
    )]
    Resolution(u8),
    /// More bytes of frames than this limit.
    #[error("more than {0} bytes of frames; take a part of the file with editcap -r")]
    TooBig(u64),
    /// The frames do not fit in memory.
    #[error("the frames do not fit in memory; take a part of the file with editcap -r")]
    Memory,
    /// The file contradicts itself.
    #[error("the file is damaged: {0}")]
    Malformed(&'static str),
    /// It has no packets.
    #[error("the capture has no packets")]
    Empty,
    /// It has packets, all of which were left out.
    #[error("none of the capture's {packets} packets can be sent; left out are {reasons}")]
    AllSkipped {
        /// Number of packets.
        packets: u64,
        /// The reasons, each with a number of packets.
        reasons: String,
    },
}

impl Fault {
    /// Returns the reason for which a packet with this fault is left out, if it is a fault of the
    /// packet alone: the name in results.
    pub const fn reason(&self) -> Option<&'static str> {
        match self {
            Fault::LinkType(_) => Some("link_type"),
            Fault::Cooked(_) => Some("device_type"),
            Fault::NotIp(..) => Some("not_ip"),
            Fault::Snapped { .. } => Some("captured_in_part"),
            Fault::Length(_) => Some("length"),
            _ => None,
        }
    }
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
            Fault::NotACapture(_) | Fault::Empty => {}
            Fault::NoInterface { .. } | Fault::AllSkipped { .. } => {}
            _ => write!(f, "byte {}, packet {}: ", self.offset, self.packet)?,
        }
        self.why.fmt(f)
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

/// Returns the name, in brackets, of a link type that is often met instead of Ethernet
/// (tcpdump.org/linktypes.html).
fn link_name(n: u32) -> &'static str {
    match n {
        105 => " (IEEE 802.11)",
        127 => " (IEEE 802.11 with radiotap)",
        220 => " (Linux USB)",
        239 => " (NFLOG)",
        247 => " (InfiniBand)",
        252 => " (Wireshark upper PDU)",
        _ => "",
    }
}
