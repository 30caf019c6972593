//! Cutting a transfer into bursts, one by one or as a whole.

use super::Rules;
use doorbell_hal::Span;

/// One burst of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Burst {
    /// Address of its first byte; need not be aligned.
    pub addr: u64,
    /// Bytes, never zero.
    pub bytes: u32,
    /// Data beats.
    pub beats: u32,
}

/// The bursts of a range in address order. An empty range has none.
#[derive(Clone, Copy, Debug)]
pub struct Bursts {
    rules: Rules,
    addr: u64,
    left: u32,
}

/// All bursts of a range as a whole. Those between the first and the last are full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Their number.
    pub(crate) bursts: u64,
    /// Their data beats.
    pub(crate) beats: u64,
    /// The time of the first one's data.
    pub(super) first: Span,
    /// The time of a full one's data.
    pub(super) full: Span,
    /// The time of all data.
    pub(super) total: Span,
}

impl Rules {
    /// The bursts of `len` bytes at `addr` as a whole.
    #[inline(always)]
    pub(crate) fn run(&self, addr: u64, len: u32) -> Run {
        let (boundary, full) = (u64::from(self.boundary), self.full);
        let beats = self.beats(addr, len);
        // Counted from the boundary before the first byte.
        let start = addr & (boundary - 1);
        let end = start + u64::from(len);
        if end <= boundary {
            let first = self.clocks(beats);
            return Run { bursts: u64::from(len > 0), beats, first, full, total: first };
        }
        let bursts = (end + boundary - 1) >> boundary.trailing_zeros();
        let time = |bytes: u64| {
            if bytes == boundary { full } else { self.clocks(self.beats(0, bytes as u32)) }
        };
        // The first ends on a boundary, the last begins on one, so either has whole beats there.
        let (first, last) = (time(boundary - start), time(end - (bursts - 1) * boundary));
        Run { bursts, beats, first, full, total: first + full * (bursts - 2) + last }
    }

    /// The bursts of `len` bytes at `addr`. Reads and writes are cut alike.
    #[inline]
    pub fn bursts(&self, addr: u64, len: u32) -> Bursts {
        Bursts { rules: *self, addr, left: len }
    }
}

impl Iterator for Bursts {
    type Item = Burst;

    #[inline]
    fn next(&mut self) -> Option<Burst> {
        if self.left == 0 {
            return None;
        }
        let addr = self.addr;
        let boundary = self.rules.boundary;
        let bytes = self.left.min(boundary - (addr as u32 & (boundary - 1)));
        self.addr = addr.wrapping_add(bytes.into());
        self.left -= bytes;
        Some(Burst { addr, bytes, beats: self.rules.beats(addr, bytes) as u32 })
    }
}

#[cfg(test)]
mod tests;
