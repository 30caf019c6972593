//! The statistics block, 0x4000 to 0x40FF (82574: 0x4127): reading a register clears it, and it
//! stays at all ones rather than wrap. Byte counts are pairs of 64 bits: reading the
//! high half clears both, so it is read last.
//!
//! Source: SDM 13.7. "Good octets" and "total octets" include the FCS; so do the
//! size classes.

use crate::common::size_class;
use doorbell_layout::e1000::reg::stat;

/// Low halves of pairs.
const PAIRS: [u32; 4] = [stat::GORCL, stat::GOTCL, stat::TORL, stat::TOTL];

/// The block; registers are named by their offsets.
#[derive(Clone, Debug)]
pub(super) struct Stats([u32; WORDS]);

/// Registers of the block.
const WORDS: usize = ((stat::ICRXOC - stat::FIRST) / 4 + 1) as usize;

const fn index(r: u32) -> usize {
    ((r - stat::FIRST) / 4) as usize % WORDS
}

impl Stats {
    pub(super) const fn new() -> Stats {
        Stats([0; WORDS])
    }

    pub(super) fn count(&mut self, r: u32) {
        let c = &mut self.0[index(r)];
        *c = c.saturating_add(1);
    }

    /// Counts `n` bytes in the pair that begins at `r`.
    pub(super) fn bytes(&mut self, r: u32, n: usize) {
        let (low, high) = (index(r), index(r + 4));
        let v = (u64::from(self.0[high]) << 32 | u64::from(self.0[low])).saturating_add(n as u64);
        (self.0[low], self.0[high]) = (v as u32, (v >> 32) as u32);
    }

    /// Counts a frame of `len` bytes with its FCS in the six size classes from `r` on.
    pub(super) fn size_class(&mut self, r: u32, len: usize) {
        self.count(r + 4 * size_class(len));
    }

    pub(super) fn read(&mut self, r: u32) -> u32 {
        let v = self.0[index(r)];
        if PAIRS.contains(&r) {
            return v;
        }
        self.0[index(r)] = 0;
        if PAIRS.contains(&r.wrapping_sub(4)) {
            self.0[index(r - 4)] = 0;
        }
        v
    }
}

#[cfg(test)]
mod tests;
