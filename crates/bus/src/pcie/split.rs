//! Cutting a transfer into packets, one by one, and the sums of their bytes.

use super::Rules;
use super::tlp::{double_words, wide_address};

/// A request must not cross a multiple of this (base specification 2.2.7).
const PAGE_SHIFT: u32 = 12;

/// The first address that needs a header of 4 double words.
const FOUR_GIB: u64 = 1 << 32;

/// The range of one packet: `len` bytes at `addr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First byte.
    pub addr: u64,
    /// Bytes, never zero.
    pub len: u32,
}

/// The pieces of a range in address order. An empty range has none.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    addr: u64,
    left: u32,
    /// The most double words of a piece, as bytes.
    limit: u32,
    /// A piece ends at every multiple of this power of two.
    window: u32,
}

impl Pieces {
    pub(super) const EMPTY: Pieces = Pieces { addr: 0, left: 0, limit: 0, window: 1 };

    /// [`Iterator::next`], for constants too.
    #[inline]
    const fn cut(&mut self) -> Option<Piece> {
        if self.left == 0 {
            return None;
        }
        let to_boundary = self.window - (self.addr as u32 & (self.window - 1));
        let to_limit = self.limit - (self.addr as u32 & 3);
        let most = if to_boundary < to_limit { to_boundary } else { to_limit };
        let piece = Piece { addr: self.addr, len: if self.left < most { self.left } else { most } };
        self.addr = self.addr.wrapping_add(piece.len as u64);
        self.left -= piece.len;
        Some(piece)
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        self.cut()
    }
}

/// The packets and bytes that a read by the device puts on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadCost {
    /// MRd packets, toward the host.
    pub requests: u64,
    /// Their bytes on the wire.
    pub request_bytes: u64,
    /// Padding behind them, in bytes.
    pub request_pad: u64,
    /// CplD packets, toward the device.
    pub completions: u64,
    /// Their bytes on the wire.
    pub completion_bytes: u64,
    /// Padding behind them, in bytes.
    pub completion_pad: u64,
}

/// The packets and bytes that a write puts on the link, all in the direction of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteCost {
    /// MWr packets.
    pub requests: u64,
    /// Their bytes on the wire.
    pub request_bytes: u64,
    /// Padding behind them, in bytes.
    pub request_pad: u64,
}

/// Returns the number of windows of `1 << shift` bytes that the range touches. `len` is not zero.
#[inline]
const fn windows(addr: u64, len: u64, shift: u32) -> u64 {
    let mask = (1 << shift) - 1;
    ((addr & mask) + len + mask) >> shift
}

/// Returns whether the range goes beyond a multiple of 4 GiB. Header sizes change at the first one
/// and addresses wrap at the last.
#[inline]
const fn crosses_4_gib(addr: u64, len: u32) -> bool {
    (addr & (FOUR_GIB - 1)) + len as u64 > FOUR_GIB
}

impl Rules {
    /// The MRd packets of a read by the device.
    #[inline]
    pub const fn split_read(&self, addr: u64, len: u32) -> Pieces {
        Pieces { addr, left: len, limit: 1 << self.mrrs_shift, window: 1 << PAGE_SHIFT }
    }

    /// The CplD packets that answer one MRd.
    #[inline]
    pub const fn split_completions(&self, addr: u64, len: u32) -> Pieces {
        let window = 1 << self.completion_shift;
        Pieces { addr, left: len, limit: window, window }
    }

    /// The MWr packets of a write.
    #[inline]
    pub const fn split_write(&self, addr: u64, len: u32) -> Pieces {
        let window = 1 << self.mps_shift;
        Pieces { addr, left: len, limit: window, window }
    }

    /// Returns packets and bytes of a read by the device: the sums over [`Rules::split_read`] and
    /// [`Rules::split_completions`] of each.
    #[inline(always)]
    pub const fn read_cost(&self, addr: u64, len: u32) -> ReadCost {
        // Short reads mostly lie between two boundaries.
        let finer = 1 << self.finer_shift;
        if len != 0 && (addr & !3 & (finer - 1)) + double_words(addr, len as u64) <= finer {
            return self.request_cost(addr, len);
        }
        self.read_cost_of_many(addr, len)
    }

    #[inline(never)]
    const fn read_cost_of_many(&self, addr: u64, len: u32) -> ReadCost {
        let mut all = ReadCost {
            requests: 0,
            request_bytes: 0,
            request_pad: 0,
            completions: 0,
            completion_bytes: 0,
            completion_pad: 0,
        };
        let mut requests = self.split_read(addr, len);
        while let Some(r) = requests.cut() {
            let one = self.request_cost(r.addr, r.len);
            all.requests += one.requests;
            all.request_bytes += one.request_bytes;
            all.request_pad += one.request_pad;
            all.completions += one.completions;
            all.completion_bytes += one.completion_bytes;
            all.completion_pad += one.completion_pad;
        }
        all
    }

    /// Returns packets and bytes of one read request of [`Rules::split_read`].
    #[inline(always)]
    pub(super) const fn request_cost(&self, addr: u64, len: u32) -> ReadCost {
        let request_bytes = (self.request_bytes + wide_address(addr)) as u64;
        let (completions, completion_bytes, completion_pad) =
            self.packets(addr, len, self.completion_shift, self.completion_bytes as u64);
        ReadCost {
            requests: 1,
            request_bytes,
            request_pad: self.pad(request_bytes),
            completions,
            completion_bytes,
            completion_pad,
        }
    }

    /// Returns the packets of a range, which is not empty, their bytes, and their padding: cut at
    /// each multiple of `1 << shift`, with a `header` each.
    #[inline(always)]
    const fn packets(&self, addr: u64, len: u32, shift: u32, header: u64) -> (u64, u64, u64) {
        let count = windows(addr, len as u64, shift);
        let bytes = count * header + double_words(addr, len as u64);
        if count == 1 {
            return (1, bytes, self.pad(bytes));
        }
        // The first ends at a boundary, the last starts at one, and those between are alike.
        let (window, mask) = (1 << shift, (1 << shift) - 1);
        let first = window - (addr & mask & !3);
        let last = (((addr & mask) + len as u64 - 1) & mask) / 4 * 4 + 4;
        let pad = self.pad(header + first)
            + (count - 2) * self.pad(header + window)
            + self.pad(header + last);
        (count, bytes, pad)
    }

    /// Returns packets and bytes of a write: the sums over [`Rules::split_write`].
    #[inline]
    pub const fn write_cost(&self, addr: u64, len: u32) -> WriteCost {
        if len == 0 || crosses_4_gib(addr, len) {
            return self.write_cost_one_by_one(addr, len);
        }
        let header = (self.request_bytes + wide_address(addr)) as u64;
        let (requests, request_bytes, request_pad) =
            self.packets(addr, len, self.mps_shift, header);
        WriteCost { requests, request_bytes, request_pad }
    }

    #[cold]
    const fn write_cost_one_by_one(&self, addr: u64, len: u32) -> WriteCost {
        let mut all = WriteCost { requests: 0, request_bytes: 0, request_pad: 0 };
        let mut pieces = self.split_write(addr, len);
        while let Some(w) = pieces.cut() {
            let bytes = self.mwr_bytes(w.addr, w.len) as u64;
            all.requests += 1;
            all.request_bytes += bytes;
            all.request_pad += self.pad(bytes);
        }
        all
    }
}

#[cfg(test)]
mod tests;
