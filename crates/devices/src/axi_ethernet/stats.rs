//! The MAC's statistics: 64 bits each, which reading does not clear. Reading the low
//! half keeps the high one for the read that follows, so that the two belong together.
//!
//! Source: PG138 and PG051, "Statistics Counters". Bytes and size classes count the FCS.

use crate::common::size_class;
use doorbell_layout::axienet::stat;

const COUNT: usize = ((stat::LAST - stat::FIRST) / 8 + 1) as usize;

/// The block; a counter is named by the offset of its low half.
#[derive(Clone, Debug)]
pub(super) struct Stats {
    counts: [u64; COUNT],
    high: u32,
}

pub(super) const fn is_statistic(r: u32) -> bool {
    r >= stat::FIRST && r <= stat::LAST + 4
}

const fn index(r: u32) -> usize {
    (r - stat::FIRST) as usize / 8 % COUNT
}

impl Stats {
    pub(super) const fn new() -> Stats {
        Stats { counts: [0; COUNT], high: 0 }
    }

    pub(super) fn add(&mut self, r: u32, n: usize) {
        let c = &mut self.counts[index(r)];
        *c = c.wrapping_add(n as u64);
    }

    /// Counts a frame of `len` bytes with its FCS in the six size classes from `r` on.
    pub(super) fn size_class(&mut self, r: u32, len: usize) {
        self.add(r + 8 * size_class(len), 1);
    }

    pub(super) fn read(&mut self, r: u32) -> u32 {
        if r & 4 != 0 {
            return self.high;
        }
        let v = self.counts[index(r)];
        self.high = (v >> 32) as u32;
        v as u32
    }
}

#[cfg(test)]
mod tests;
