//! Long-term buffers: memory that stays mapped, in slots, for as long as the adapter is open.
//!
//! Source: ibmvnic.c `alloc_long_term_buff`, `alloc_ltb_set`, `map_rxpool_buf_to_ltb`.
//!
//! One buffer is contiguous and has 8 MiB at most, rounded down to whole slots; a set of them
//! makes a pool. The server knows a buffer by its map id, 1 to 254, and a slot by
//! its address, which must lie in that buffer.

use super::config::OpenError;
use super::ring::coherent;
use alloc::vec::Vec;
use doorbell_hal::{Coherent, Host};
use doorbell_layout::ibmvnic::{MAX_LTB, MAX_MAP_ID};

/// Bytes of a pool at the most (`IBMVNIC_LTB_SET_SIZE`).
const MAX_SET: u64 = 38 << 20;
/// Slots begin on a cache line of the platform's.
const LINE: u32 = 128;

/// The map ids in use.
#[derive(Debug)]
pub(super) struct Ids([u64; 4]);

impl Ids {
    /// 0 and 255 are nobody's.
    pub(super) const fn new() -> Ids {
        Ids([1, 0, 0, 1 << 63])
    }
    fn take(&mut self) -> Option<u8> {
        let id = (1..=MAX_MAP_ID).find(|i| self.0[usize::from(i / 64)] & 1 << (i % 64) == 0)?;
        self.0[usize::from(id / 64)] |= 1 << (id % 64);
        Some(id)
    }
    fn give(&mut self, id: u8) {
        self.0[usize::from(id / 64)] &= !(1 << (id % 64));
    }
}

/// A buffer.
#[derive(Debug)]
pub(super) struct Ltb {
    pub(super) area: Coherent,
    pub(super) id: u8,
    /// The server has it.
    pub(super) mapped: bool,
}

/// The buffers of a pool.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) ltbs: Vec<Ltb>,
    /// Slots in each, the last excepted.
    per: u32,
    pub(super) slot: u32,
    pub(super) count: u32,
}

impl Set {
    /// `count` slots of `slot` bytes, rounded up to a line.
    ///
    /// # Errors
    /// When memory or ids run out, or a pool would have more than 38 MiB.
    pub(super) fn allocate<H: Host>(
        h: &mut H,
        ids: &mut Ids,
        count: u32,
        slot: u32,
    ) -> Result<Set, OpenError> {
        let slot = slot.next_multiple_of(LINE);
        if u64::from(count) * u64::from(slot) > MAX_SET || slot > MAX_LTB {
            return Err(OpenError::OutOfMemory);
        }
        let per = (MAX_LTB / slot).min(count);
        let mut set = Set { ltbs: Vec::new(), per, slot, count };
        let mut left = count;
        while left > 0 {
            let n = left.min(per);
            let made = match ids.take() {
                None => Err(OpenError::OutOfMemory),
                Some(id) => {
                    coherent(h, n * slot, 4096).inspect_err(|_| ids.give(id)).map(|area| (id, area))
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

    pub(super) fn release<H: Host>(self, h: &mut H, ids: &mut Ids) {
        for l in self.ltbs {
            ids.give(l.id);
            h.release_coherent(l.area);
        }
    }

    /// Whether it is what would be allocated for these.
    pub(super) fn fits(&self, count: u32, slot: u32) -> bool {
        (self.count, self.slot) == (count, slot.next_multiple_of(LINE))
    }

    /// Where slot `index` is: its buffer, and the offset in that.
    #[inline]
    pub(super) fn at(&self, index: u32) -> (&Ltb, u32) {
        (&self.ltbs[(index / self.per) as usize], index % self.per * self.slot)
    }
}

#[cfg(test)]
mod tests;
