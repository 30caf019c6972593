//! The size of a transaction layer packet on the wire.

use super::{Command, LinkDirection, Piece, ReadCost, Rules, WriteCost};

pub(super) const HEADER_3DW: u32 = 12;
pub(super) const HEADER_4DW: u32 = 16;
pub(super) const ECRC: u32 = 4;
/// Bytes of a DLLP with its framing, in every generation.
pub(super) const DLLP: u64 = 8;

/// The bytes that the link layer and the physical layer put around a TLP.
/// Base specification 3.0, 3.5.2 (sequence number, LCRC) and 4.2.1, 4.2.2 (framing).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    /// STP symbol (generations 1, 2) or STP token, which holds length and sequence number.
    pub start: u32,
    /// Sequence number where it is not part of the token.
    pub sequence: u32,
    /// Link CRC.
    pub lcrc: u32,
    /// END symbol.
    pub end: u32,
}

impl Framing {
    /// The framing of a generation, 1 to 5.
    pub const fn of(generation: u32) -> Framing {
        if generation <= 2 {
            Framing { start: 1, sequence: 2, lcrc: 4, end: 1 }
        } else {
            Framing { start: 4, sequence: 0, lcrc: 4, end: 0 }
        }
    }

    /// All of it: 8 in every generation.
    pub const fn bytes(self) -> u32 {
        self.start + self.sequence + self.lcrc + self.end
    }
}

/// Bytes of the whole double words that hold `len` bytes at `addr`; `len` is not zero.
#[inline]
pub(super) const fn double_words(addr: u64, len: u64) -> u64 {
    ((addr & 3) + len + 3) & !3
}

/// The fourth double word of a request header: an address above 4 GiB needs it, one below must
/// not have it (base specification 2.2.4.1).
#[inline]
pub(super) const fn wide_address(addr: u64) -> u32 {
    ((addr >> 32 != 0) as u32) << 2
}

/// TLPs of one kind that an access puts on the link together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tlps {
    /// The TLP.
    pub command: Command,
    /// The direction in which they travel.
    pub toward: LinkDirection,
    /// First byte that they ask for or carry.
    pub addr: u64,
    /// Packets.
    pub count: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Bytes of padding behind them, each up to the end of its symbol time.
    pub pad: u64,
    /// Bytes of memory or registers that they carry.
    pub payload: u64,
}

/// The TLPs of whole accesses, in the order in which they are sent.
impl Rules {
    /// Returns the requests of a read by the device, and their completions.
    #[inline(always)]
    pub const fn device_read(&self, from: u64, len: u32) -> [Tlps; 2] {
        self.read(from, len, LinkDirection::Upstream)
    }

    /// Returns the requests of a write by the device.
    #[inline(always)]
    pub const fn device_write(&self, to: u64, len: u32) -> Tlps {
        self.write(to, len, LinkDirection::Upstream)
    }

    /// Returns the request of a register read by the CPU, and its completion.
    #[inline(always)]
    pub const fn cpu_read(&self, from: u64, size: u8) -> [Tlps; 2] {
        self.read(from, size as u32, LinkDirection::Downstream)
    }

    /// Returns the request of a register write by the CPU.
    #[inline(always)]
    pub const fn cpu_write(&self, to: u64, size: u8) -> Tlps {
        self.write(to, size as u32, LinkDirection::Downstream)
    }

    #[inline(always)]
    const fn read(&self, addr: u64, len: u32, toward: LinkDirection) -> [Tlps; 2] {
        self.answered(self.read_cost(addr, len), addr, len, toward)
    }

    /// Returns a read request of [`Rules::split_read`], and its completions.
    #[inline(always)]
    pub(super) const fn request(&self, r: Piece) -> [Tlps; 2] {
        self.answered(self.request_cost(r.addr, r.len), r.addr, r.len, LinkDirection::Upstream)
    }

    #[inline(always)]
    const fn write(&self, addr: u64, len: u32, toward: LinkDirection) -> Tlps {
        let WriteCost { requests: count, request_bytes: bytes, request_pad: pad } =
            self.write_cost(addr, len);
        let pad = self.padded(pad, toward);
        Tlps { command: Command::MWr, toward, addr, count, bytes, pad, payload: len as u64 }
    }

    /// Returns the requests of a read of this cost, and their completions.
    #[inline(always)]
    const fn answered(&self, c: ReadCost, addr: u64, len: u32, toward: LinkDirection) -> [Tlps; 2] {
        let request = Tlps {
            command: Command::MRd,
            toward,
            addr,
            count: c.requests,
            bytes: c.request_bytes,
            pad: self.padded(c.request_pad, toward),
            payload: 0,
        };
        let answer = Tlps {
            command: Command::CplD,
            toward: toward.opposite(),
            addr,
            count: c.completions,
            bytes: c.completion_bytes,
            pad: self.padded(c.completion_pad, toward.opposite()),
            payload: len as u64,
        };
        [request, answer]
    }

    /// Returns the padding that counts in this direction.
    #[inline(always)]
    pub(super) const fn padded(&self, pad: u64, toward: LinkDirection) -> u64 {
        match toward {
            LinkDirection::Upstream if self.packs() => 0,
            _ => pad,
        }
    }
}

/// Sizes in bytes on the wire, link overhead included. One packet each: the caller has cut.
impl Rules {
    /// A memory read request. A host's register read is one, answered by [`Rules::cpld_bytes`].
    #[inline]
    pub const fn mrd_bytes(&self, addr: u64) -> u32 {
        self.request_bytes + wide_address(addr)
    }

    /// A memory write of `len` bytes: also a doorbell (4 or 8) and an MSI or MSI-X (4).
    #[inline]
    pub const fn mwr_bytes(&self, addr: u64, len: u32) -> u32 {
        self.mrd_bytes(addr) + double_words(addr, len as u64) as u32
    }

    /// A completion with `len` bytes of data that lie at `addr`.
    #[inline]
    pub const fn cpld_bytes(&self, addr: u64, len: u32) -> u32 {
        self.completion_bytes + double_words(addr, len as u64) as u32
    }

    /// A completion without data: an unsupported request, a configuration write.
    #[inline]
    pub const fn cpl_bytes(&self) -> u32 {
        self.completion_bytes
    }

    /// A message without data, such as Assert_INTA: its header is always 4 double words.
    #[inline]
    pub const fn message_bytes(&self) -> u32 {
        self.request_bytes - HEADER_3DW + HEADER_4DW
    }
}

#[cfg(test)]
mod tests;
