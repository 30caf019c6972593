//! Long-term buffers: memory, divided into slots, that stays mapped while the adapter is open.
//!
//! Source: ibmvnic.c `alloc_long_term_buff`, `alloc_ltb_set`, `map_rxpool_buf_to_ltb`.
//!
//! A buffer is contiguous, of at most 8 MiB, rounded down to whole slots. A set of them makes a
//! pool. The server knows a buffer by its map id, 1 to 254, and a slot by its address in it.

use super::ring::coherent;
use crate::{OpenError, Opened};
use alloc::vec::Vec;
use doorbell_hal::{Coherent, Host};
use doorbell_layout::ibmvnic::{MAX_LTB, MAX_MAP_ID};

/// Most bytes of a pool (`IBMVNIC_LTB_SET_SIZE`).
const MAX_SET: u64 = 38 << 20;
/// Slots begin on a cache line of the platform.
const LINE: u32 = 128;

#[derive(Debug)]
pub(super) struct MapIds([u64; 4]);

impl MapIds {
    /// Returns all ids as free, but for 0 and 255, which are reserved.
    pub(super) const fn new() -> MapIds {
        MapIds([1, 0, 0, 1 << 63])
    }
    fn take(&mut self) -> Option<u8> {
        let id = (1..=MAX_MAP_ID).find(|i| self.0[usize::from(i / 64)] & 1 << (i % 64) == 0)?;
        self.0[usize::from(id / 64)] |= 1 << (id % 64);
        Some(id)
    }
    fn free(&mut self, id: u8) {
        self.0[usize::from(id / 64)] &= !(1 << (id % 64));
    }
}

/// A long-term buffer.
#[derive(Debug)]
pub(super) struct Ltb {
    pub(super) area: Coherent,
    pub(super) id: u8,
    /// The server has it.
    pub(super) mapped: bool,
}

/// The buffers of a pool.
#[derive(Debug)]
pub(super) struct LtbSet {
    pub(super) ltbs: Vec<Ltb>,
    /// Slots in each, except the last.
    per: u32,
    pub(super) slot: u32,
    pub(super) count: u32,
}

impl LtbSet {
    /// Allocates `count` slots of `slot` bytes, rounded up to a line. Fails when memory or ids run
    /// out, or a pool would have more than 38 MiB.
    pub(super) fn allocate<H: Host>(
        h: &mut H,
        ids: &mut MapIds,
        count: u32,
        slot: u32,
    ) -> Opened<LtbSet> {
        let slot = slot.next_multiple_of(LINE);
        if u64::from(count) * u64::from(slot) > MAX_SET || slot > MAX_LTB {
            return Err(OpenError::OutOfMemory);
        }
        let per = (MAX_LTB / slot).min(count);
        let mut set = LtbSet { ltbs: Vec::new(), per, slot, count };
        let mut left = count;
        while left > 0 {
            let n = left.min(per);
            let made = match ids.take() {
                None => Err(OpenError::OutOfMemory),
                Some(id) => {
                    coherent(h, n * slot, 4096).inspect_err(|_| ids.free(id)).map(|area| (id, area))
                }
            };
            match made {
                Ok((id, area)) => set.ltbs.push(Ltb { area, id, mapped: false }),
                Err(e) => {
                    set.release(h, ids);
                    return Err(e);
                }
            }
            left -= n;
        }
        Ok(set)
    }

    pub(super) fn release<H: Host>(self, h: &mut H, ids: &mut MapIds) {
        for l in self.ltbs {
            ids.free(l.id);
            h.release_coherent(l.area);
        }
    }

    /// Returns whether the set is what would be allocated for these.
    pub(super) fn fits(&self, count: u32, slot: u32) -> bool {
        (self.count, self.slot) == (count, slot.next_multiple_of(LINE))
    }

    /// Returns the buffer of slot `index`, and the offset in it.
    #[inline]
    pub(super) fn at(&self, index: u32) -> (&Ltb, u32) {
        (&self.ltbs[(index / self.per) as usize], index % self.per * self.slot)
    }
}

#[cfg(test)]
mod tests;
