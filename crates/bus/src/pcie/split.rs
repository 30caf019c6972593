//! Cutting a transfer into packets, one by one and in closed form.

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
}

impl Iterator for Pieces {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.left == 0 {
            return None;
        }
        let to_boundary = self.window - (self.addr as u32 & (self.window - 1));
        let to_limit = self.limit - (self.addr as u32 & 3);
        let piece = Piece { addr: self.addr, len: self.left.min(to_boundary).min(to_limit) };
        self.addr = self.addr.wrapping_add(piece.len.into());
        self.left -= piece.len;
        Some(piece)
    }
}

/// The packets and bytes that a read by the device puts on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadCost {
    /// MRd packets, toward the host.
    pub requests: u64,
    /// Their bytes on the wire.
    pub request_bytes: u64,
    /// CplD packets, toward the device.
    pub completions: u64,
    /// Their bytes on the wire.
    pub completion_bytes: u64,
}

/// The packets and bytes that a write puts on the link, all in the direction of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteCost {
    /// MWr packets.
    pub requests: u64,
    /// Their bytes on the wire.
    pub request_bytes: u64,
}

/// Returns the number of windows of `1 << shift` bytes that the range touches. `len` is not zero.
#[inline]
const fn windows(addr: u64, len: u64, shift: u32) -> u64 {
    let mask = (1 << shift) - 1;
    ((addr & mask) + len + mask) >> shift
}

/// Bytes up to the next multiple of 4 GiB if the range goes beyond it. Header sizes change at the
/// first one and addresses wrap at the last; both are too rare to burden the cost.
#[inline]
const fn crosses_4_gib(addr: u64, len: u32) -> bool {
    (addr & (FOUR_GIB - 1)) + len as u64 > FOUR_GIB
}

const fn to_4_gib(addr: u64) -> u32 {
    // Not zero and not 2^32: the range, shorter than 2^32, crosses, so it does not start there.
    (FOUR_GIB - (addr & (FOUR_GIB - 1))) as u32
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

    /// Packets and bytes of a read by the device: the sums over [`Rules::split_read`] and
    /// [`Rules::split_completions`] of each, without walking them.
    #[inline(always)]
    pub const fn read_cost(&self, addr: u64, len: u32) -> ReadCost {
        // Short reads mostly lie between two boundaries.
        let finer = 1 << self.finer_shift;
        let span = double_words(addr, len as u64);
        if len == 0 || (addr & !3 & (finer - 1)) + span > finer {
            return self.read_cost_of_many(addr, len);
        }
        ReadCost {
            requests: 1,
            request_bytes: (self.request_bytes + wide_address(addr)) as u64,
            completions: 1,
            completion_bytes: self.completion_bytes as u64 + span,
        }
    }

    #[inline(never)]
    const fn read_cost_of_many(&self, addr: u64, len: u32) -> ReadCost {
        if len == 0 {
            return ReadCost { requests: 0, request_bytes: 0, completions: 0, completion_bytes: 0 };
        }
        if crosses_4_gib(addr, len) {
            return self.read_cost_in_two(addr, len);
        }
        // In whole double words: MRRS counts them, and every cut lies between them.
        let start = addr & !3;
        let span = double_words(addr, len as u64);
        // Up to the first page boundary requests keep the phase of their start. From there on they
        // lie on multiples of MRRS, and page boundaries are among those.
        let to_page = (1 << PAGE_SHIFT) - (start & ((1 << PAGE_SHIFT) - 1));
        let head = if span < to_page { span } else { to_page };
        let rest = span - head;
        let mrrs_mask = (1 << self.mrrs_shift) - 1;
        let head_requests = (head + mrrs_mask) >> self.mrrs_shift;
        let requests = head_requests + ((rest + mrrs_mask) >> self.mrrs_shift);

        // A request is one completion, and one more for every window boundary inside it. If the
        // start lies on a multiple of the smaller of MRRS and window, the boundaries of the one
        // kind fall on those of the other and are not inside.
        let boundaries = windows(start, head, self.completion_shift) - 1;
        let cuts = head_requests - 1;
        let finer_mask = (1 << self.finer_shift) - 1;
        let in_phase = ((start & finer_mask == 0) as u64).wrapping_neg();
        let common = (if boundaries < cuts { boundaries } else { cuts }) & in_phase;
        let completions =
            head_requests + boundaries - common + ((rest + finer_mask) >> self.finer_shift);

        ReadCost {
            requests,
            request_bytes: requests * (self.request_bytes + wide_address(addr)) as u64,
            completions,
            completion_bytes: completions * self.completion_bytes as u64 + span,
        }
    }

    /// Packets and bytes of a write: the sums over [`Rules::split_write`], without walking it.
    #[inline]
    pub const fn write_cost(&self, addr: u64, len: u32) -> WriteCost {
        if len == 0 {
            return WriteCost { requests: 0, request_bytes: 0 };
        }
        if crosses_4_gib(addr, len) {
            return self.write_cost_in_two(addr, len);
        }
        let requests = windows(addr, len as u64, self.mps_shift);
        let headers = requests * (self.request_bytes + wide_address(addr)) as u64;
        WriteCost { requests, request_bytes: headers + double_words(addr, len as u64) }
    }

    #[cold]
    const fn read_cost_in_two(&self, addr: u64, len: u32) -> ReadCost {
        let low = to_4_gib(addr);
        let a = self.read_cost(addr, low);
        let b = self.read_cost(addr.wrapping_add(low as u64), len - low);
        ReadCost {
            requests: a.requests + b.requests,
            request_bytes: a.request_bytes + b.request_bytes,
            completions: a.completions + b.completions,
            completion_bytes: a.completion_bytes + b.completion_bytes,
        }
    }

    #[cold]
    const fn write_cost_in_two(&self, addr: u64, len: u32) -> WriteCost {
        let low = to_4_gib(addr);
        let a = self.write_cost(addr, low);
        let b = self.write_cost(addr.wrapping_add(low as u64), len - low);
        WriteCost {
            requests: a.requests + b.requests,
            request_bytes: a.request_bytes + b.request_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
