//! Which parts of guest memory are in use: first fit, lowest address first.

use std::collections::BTreeMap;
use std::ops::Range;

/// Hands out pieces of a range of addresses.
#[derive(Debug)]
pub(super) struct Heap {
    /// Start and length of each free piece; no two touch.
    free: BTreeMap<u64, u64>,
}

impl Heap {
    pub(super) fn new(range: Range<u64>) -> Heap {
        Heap { free: BTreeMap::from([(range.start, range.end - range.start)]) }
    }

    /// The lowest `len` free bytes that start at an address which leaves `offset`
    /// when divided by `align`.
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

    /// Takes back what `take` gave.
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_are_placed_as_asked_never_overlap_and_all_come_back(
            wants in proptest::collection::vec((1..5000u64, 0..13u32, any::<u64>(), any::<bool>()), 1..80),
        ) {
            let whole = 0x10_0000..0x14_0000;
            let mut heap = Heap::new(whole.clone());
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (len, shift, offset, gives) in wants {
                let align = 1 << shift;
                if let Some(at) = heap.take(len, align, offset % align) {
                    prop_assert_eq!(at % align, offset % align);
                    prop_assert!(whole.start <= at && at + len <= whole.end);
                    prop_assert!(live.iter().all(|(a, n)| at + len <= *a || a + n <= at));
                    live.push((at, len));
                }
                if gives && !live.is_empty() {
                    let (at, len) = live.swap_remove(offset as usize % live.len());
                    heap.give(at, len);
                }
            }
            for (at, len) in live {
                heap.give(at, len);
            }
            prop_assert_eq!(heap.free, BTreeMap::from([(whole.start, whole.end - whole.start)]));
        }
    }
}
