//! Frames of TCP over IPv4 over Ethernet (RFC 9293, 3.1), with window scale and timestamps (RFC
//! 7323) in Linux's option layout.
//!
//! The payload is a fixed pattern of the stream's offset, so a receiver notices a device that cuts
//! or places it wrongly.

use doorbell_packet::checksum::Sum;
pub use doorbell_packet::headers::tcp::{ACK, FIN, PSH, SYN};
use std::{ops::Range, sync::LazyLock};

/// Offset of the TCP header.
pub const TCP: usize = 34;
/// Length of the longest headers, those of a SYN.
pub const LONGEST: usize = TCP + 40;
/// Window scale announced by both ends: windows up to 64 MiB less 1 KiB.
pub const SCALE: u8 = 10;

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketAddress {
    /// Ethernet address.
    pub mac: [u8; 6],
    /// IPv4 address.
    pub ip: [u8; 4],
    /// TCP port.
    pub port: u16,
}

/// The fields of a TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Flags.
    pub flags: u8,
    /// The window field.
    pub window: u16,
    /// The largest segment, in a SYN only.
    pub mss: Option<u16>,
    /// Timestamp and echo.
    pub timestamps: Option<(u32, u32)>,
}

impl Header {
    /// Returns the length of all headers.
    pub fn length(&self) -> usize {
        let options = if self.flags & SYN != 0 { 8 } else { 0 }
            + if self.timestamps.is_some() { 12 } else { 0 };
        TCP + 20 + options
    }

    /// Returns whether only ACK and perhaps PSH are set, as merging requires.
    pub fn is_plain(&self) -> bool {
        self.flags & !PSH == ACK
    }

    /// Writes all headers for `payload` bytes. The TCP checksum field holds the pseudo-header's
    /// sum.
    ///
    /// # Panics
    /// Panics if `out` is shorter than [`Header::length`].
    pub fn write(
        &self,
        from: &SocketAddress,
        to: &SocketAddress,
        id: u16,
        payload: u32,
        out: &mut [u8],
    ) {
        let len = self.length();
        let out = &mut out[..len];
        out[..6].copy_from_slice(&to.mac);
        out[6..12].copy_from_slice(&from.mac);
        out[12..14].copy_from_slice(&[8, 0]);
        let tcp_len = (len - TCP) as u32 + payload;
        let ip = &mut out[14..TCP];
        ip.copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        ip[2..4].copy_from_slice(&((20 + tcp_len) as u16).to_be_bytes());
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        ip[12..16].copy_from_slice(&from.ip);
        ip[16..20].copy_from_slice(&to.ip);
        let check = Sum::of(ip).checksum();
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        let tcp = &mut out[TCP..];
        tcp[..2].copy_from_slice(&from.port.to_be_bytes());
        tcp[2..4].copy_from_slice(&to.port.to_be_bytes());
        tcp[4..8].copy_from_slice(&self.seq.to_be_bytes());
        tcp[8..12].copy_from_slice(&self.ack.to_be_bytes());
        tcp[12] = (((len - TCP) / 4) << 4) as u8;
        tcp[13] = self.flags;
        tcp[14..16].copy_from_slice(&self.window.to_be_bytes());
        tcp[16..18]
            .copy_from_slice(&Sum::pseudo_v4(from.ip, to.ip, 6, tcp_len).value().to_be_bytes());
        tcp[18..20].fill(0);
        let mut at = 20;
        if self.flags & SYN != 0 {
            let [hi, lo] = self.mss.unwrap_or(536).to_be_bytes();
            tcp[at..at + 8].copy_from_slice(&[2, 4, hi, lo, 1, 3, 3, SCALE]);
            at += 8;
        }
        if let Some((value, echo)) = self.timestamps {
            tcp[at..at + 4].copy_from_slice(&[1, 1, 8, 10]);
            tcp[at + 4..at + 8].copy_from_slice(&value.to_be_bytes());
            tcp[at + 8..at + 12].copy_from_slice(&echo.to_be_bytes());
        }
    }
}

/// The headers of a TCP frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// TCP header.
    pub header: Header,
    /// Range of the payload. It may end past the bytes read, if the rest is in other pieces.
    pub payload: Range<usize>,
}

impl Read {
    /// Returns whether the checksums of IPv4 and TCP in `b`, the bytes that were read, are right
    /// for a payload with this sum.
    pub fn is_intact(&self, b: &[u8], payload: Sum) -> bool {
        let segment = (self.payload.end - TCP) as u32;
        let pseudo = Sum::of(&b[26..TCP]).plus_be16(6).plus_be32(segment);
        let header = Sum::of(&b[TCP..self.payload.start]);
        Sum::of(&b[14..TCP]).is_intact() && pseudo.plus(header).plus(payload).is_intact()
    }
}

/// Reads the headers in `b`, the start of a frame. Returns `None` unless it is TCP over IPv4
/// without a tag. Checksums are not verified.
pub fn read(b: &[u8]) -> Option<Read> {
    let be16 = |at: usize| Some(u16::from_be_bytes(b.get(at..at + 2)?.try_into().ok()?));
    let be32 = |at: usize| Some(u32::from_be_bytes(b.get(at..at + 4)?.try_into().ok()?));
    if be16(12)? != 0x0800 || *b.get(14)? != 0x45 || *b.get(23)? != 6 || be16(20)? & 0x3fff != 0 {
        return None;
    }
    let offset = usize::from(*b.get(TCP + 12)? >> 4) * 4;
    let (start, end) = (TCP + offset, 14 + usize::from(be16(16)?));
    if offset < 20 || start > b.len() || start > end {
        return None;
    }
    let mut header = Header {
        seq: be32(TCP + 4)?,
        ack: be32(TCP + 8)?,
        flags: b[TCP + 13],
        window: be16(TCP + 14)?,
        mss: None,
        timestamps: None,
    };
    let mut at = TCP + 20;
    while at < start {
        let len = match b[at] {
            0 => break,
            1 => 1,
            _ => usize::from(*b.get(at + 1)?).max(2),
        };
        match (b[at], len) {
            (2, 4) => header.mss = be16(at + 2),
            (8, 10) => header.timestamps = Some((be32(at + 2)?, be32(at + 6)?)),
            _ => {}
        }
        at += len;
    }
    Some(Read {
        source_port: be16(TCP)?,
        destination_port: be16(TCP + 2)?,
        header,
        payload: start..end,
    })
}

/// Period of the payload's pattern, a prime, so that no power of two of bytes repeats it.
const PERIOD: usize = 251;
/// Bytes that are copied or compared at once: whole periods, which stay in a cache.
const BLOCK: usize = 8 * PERIOD;
/// The pattern, long enough for a block from any phase.
static PATTERN: LazyLock<[u8; BLOCK + PERIOD]> =
    LazyLock::new(|| std::array::from_fn(|i| (i % PERIOD) as u8));

/// The sums, as 16-bit words from its first byte on, of all starts of the pattern.
static SUMS: LazyLock<[u32; BLOCK + PERIOD + 1]> = LazyLock::new(|| {
    let mut sums = [0; BLOCK + PERIOD + 1];
    for (i, b) in PATTERN.iter().enumerate() {
        sums[i + 1] = sums[i] + (u32::from(*b) << if i % 2 == 0 { 8 } else { 0 });
    }
    sums
});

/// Returns the sum of `len` bytes of payload from the stream's byte `offset`, without reading them.
pub fn payload_sum(offset: u64, len: usize) -> Sum {
    let phase = (offset % PERIOD as u64) as usize;
    let block = |at| SUMS[phase + BLOCK.min(len - at)] - SUMS[phase];
    let blocks = (0..len).step_by(BLOCK);
    Sum::ZERO.plus_at(phase, blocks.fold(Sum::ZERO, |sum, at| sum.plus_be32(block(at))))
}

/// Returns `len` bytes of payload from the stream's byte `offset`, in blocks.
pub fn payload(offset: u64, len: usize) -> impl Iterator<Item = &'static [u8]> {
    let phase = (offset % PERIOD as u64) as usize;
    (0..len).step_by(BLOCK).map(move |at| &PATTERN[phase..phase + BLOCK.min(len - at)])
}

/// Fills `out` with payload from the stream's byte `offset`.
pub fn fill(offset: u64, out: &mut [u8]) {
    let blocks = payload(offset, out.len());
    out.chunks_mut(BLOCK).zip(blocks).for_each(|(to, block)| to.copy_from_slice(block));
}

/// Returns true if `bytes` are the payload from the stream's byte `offset`.
pub fn is_payload(offset: u64, bytes: &[u8]) -> bool {
    bytes.chunks(BLOCK).eq(payload(offset, bytes.len()))
}

#[cfg(test)]
mod tests;
