//! An allocator of guest memory: first fit, lowest address first.

use std::collections::BTreeMap;
use std::ops::Range;

/// Allocates pieces of a range of addresses.
#[derive(Debug)]
pub(super) struct Heap {
    /// Start and length of each free piece; no two touch.
    free: BTreeMap<u64, u64>,
}

impl Heap {
    pub(super) fn new(range: Range<u64>) -> Heap {
        Heap { free: BTreeMap::from([(range.start, range.end - range.start)]) }
    }

    /// Allocates the lowest `len` free bytes at an address that is `offset` modulo `align`.
    pub(super) fn take(&mut self, len: u64, align: u64, offset: u64) -> Option<u64> {
        let (start, size, at) = self.free.iter().find_map(|(start, size)| {
            let at = start + offset.wrapping_sub(*start) % align;
            (at + len <= start + size).then_some((*start, *size, at))
        })?;
        self.free.remove(&start);
        for (from, to) in [(start, at), (at + len, start + size)] {
            if from < to {
                self.free.insert(from, to - from);
            }
        }
        Some(at)
    }

    /// Frees an allocation of `take`.
    pub(super) fn give(&mut self, at: u64, len: u64) {
        let (mut start, mut end) = (at, at + len);
        if let Some((before, size)) = self.free.range(..at).next_back().map(|(s, n)| (*s, *n))
            && before + size == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(size) = self.free.remove(&end) {
            end += size;
        }
        self.free.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests;
