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
pub(super) struct Run {
    /// Their number, never zero.
    pub(super) bursts: u64,
    /// The time of the first one's data.
    pub(super) first: Span,
    /// The time of a full one's data.
    pub(super) full: Span,
    /// The time of all data.
    pub(super) total: Span,
}

impl Rules {
    /// Returns the number of bursts of `len` bytes at `addr`.
    #[inline]
    pub(crate) fn count(&self, addr: u64, len: u32) -> u64 {
        let (boundary, end) = (self.boundary, self.end(addr, len));
        if len == 0 { 0 } else { (end + u64::from(boundary - 1)) >> boundary.trailing_zeros() }
    }

    /// Returns the end of `len` bytes at `addr`, counted from the boundary before their first.
    #[inline]
    fn end(&self, addr: u64, len: u32) -> u64 {
        (addr & u64::from(self.boundary - 1)) + u64::from(len)
    }

    /// The bursts of `len` bytes at `addr` as a whole, if there are any.
    #[inline(always)]
    pub(super) fn run(&self, addr: u64, len: u32) -> Option<Run> {
        let bursts = self.count(addr, len);
        let boundary = u64::from(self.boundary);
        let time = |bytes: u64| {
            if bytes == boundary { self.full } else { self.clocks(self.beats(0, bytes as u32)) }
        };
        let full = self.full;
        if bursts < 2 {
            let first = self.clocks(self.beats(addr, len));
            return (bursts > 0).then_some(Run { bursts, first, full, total: first });
        }
        // The first ends on a boundary, the last begins on one, so either has whole beats there.
        let first = time(boundary - (addr & (boundary - 1)));
        let last = time(self.end(addr, len) - (bursts - 1) * boundary);
        Some(Run { bursts, first, full, total: first + full * (bursts - 2) + last })
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
