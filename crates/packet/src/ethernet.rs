//! Ethernet frames: sizes, destinations and the frame check sequence.
//!
//! Frames in this workspace begin with the destination address and end before the FCS.
//!
//! Source: IEEE 802.3, 3.1 to 3.2 and 4.4.2.

use doorbell_hal::Span;

/// Bytes of the two addresses.
pub const ADDRESSES: usize = 12;
/// Bytes of the header: two addresses and the type.
pub const HEADER: usize = ADDRESSES + 2;
/// A type that no kernel answers and no offload looks into (IEEE 802, local experimental).
pub const LOCAL_TYPE: [u8; 2] = [0x88, 0xb5];
/// Largest payload of a standard frame.
pub const MTU: usize = 1500;
/// Shortest frame, without FCS; senders pad to it (Linux's `ETH_ZLEN`).
pub const MIN_FRAME: usize = 60;
/// Longest standard frame, without FCS and tag (Linux's `ETH_FRAME_LEN`).
pub const MAX_FRAME: usize = HEADER + MTU;
/// Bytes of the frame check sequence.
pub const FCS: usize = 4;
/// Bytes of preamble and start delimiter, in front of a frame.
pub const PREAMBLE: usize = 8;
/// Bytes of the least gap between two frames.
pub const GAP: usize = 12;
/// Bytes of the wire that a frame takes beyond its own: preamble, FCS and gap.
pub const OVERHEAD: usize = PREAMBLE + FCS + GAP;

/// Returns the time in quanta of 512 bits of a PAUSE frame (IEEE 802.3, annex 31B), which a MAC
/// obeys and passes up to nobody.
pub const fn pause_quanta(frame: &[u8]) -> Option<u16> {
    match frame {
        [0x01, 0x80, 0xc2, 0, 0, 1, _, _, _, _, _, _, 0x88, 0x08, 0, 1, high, low, ..] => {
            Some(u16::from_be_bytes([*high, *low]))
        }
        _ => None,
    }
}

/// Speed of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speed {
    /// 10 Mbit/s.
    M10,
    /// 100 Mbit/s.
    M100,
    /// 1 Gbit/s.
    M1000,
}

impl Speed {
    /// Returns the speed in Mbit/s.
    pub const fn mbits(self) -> u32 {
        [10, 100, 1000][self as usize]
    }

    /// Returns the time of one byte on the wire.
    pub const fn byte(self) -> Span {
        Span::from_ns([800, 80, 8][self as usize])
    }
}

/// Kind of a destination address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cast {
    /// One station.
    Unicast,
    /// A group of stations.
    Multicast,
    /// All stations.
    Broadcast,
}

impl Cast {
    /// Returns the kind of a frame's destination, or of an address; unicast when there is none.
    #[inline]
    pub fn of(frame: &[u8]) -> Cast {
        match frame {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => Cast::Broadcast,
            [first, ..] if first & 1 == 1 => Cast::Multicast,
            _ => Cast::Unicast,
        }
    }
}

/// Returns the bytes of wire that `frames` frames of `bytes` bytes in all take, gaps included.
///
/// The frames are not padded here.
pub const fn wire_bytes(frames: u64, bytes: u64) -> u64 {
    bytes + OVERHEAD as u64 * frames
}

/// Returns the four bytes that follow `frame` on the wire: CRC-32, least significant byte first.
pub fn fcs(frame: &[u8]) -> [u8; FCS] {
    crc32fast::hash(frame).to_le_bytes()
}

#[cfg(test)]
mod tests;
