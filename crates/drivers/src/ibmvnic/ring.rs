//! A queue that the hypervisor writes: the CRQ, and the sub-CRQs of completions.
//!
//! An entry is valid when its first byte is not zero. That byte is read alone, and the rest behind
//! a fence; clearing it frees the entry. There is no producer index.

use crate::Opened;
use crate::common::{self, within};
use doorbell_hal::{Coherent, Fence, Host};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The queue; `T` is an entry.
#[derive(Debug)]
pub(super) struct Ring<T> {
    area: Coherent,
    next: u32,
    entries: u32,
    _entry: core::marker::PhantomData<T>,
}

impl<T: FromBytes + IntoBytes + Immutable> Ring<T> {
    const SIZE: u32 = size_of::<T>() as u32;

    pub(super) fn allocate<H: Host>(h: &mut H, bytes: u32) -> Opened<Ring<T>> {
        let area = coherent(h, bytes, 4096)?;
        Ok(Ring { area, next: 0, entries: bytes / Self::SIZE, _entry: core::marker::PhantomData })
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        h.release_coherent(self.area);
    }

    pub(super) fn ioba(&self) -> u64 {
        self.area.iova().0
    }

    pub(super) fn bytes(&self) -> u32 {
        self.area.len()
    }

    /// Empties the queue before it is registered.
    pub(super) fn clear<H: Host>(&mut self, h: &mut H) {
        for i in 0..self.area.len() / 8 {
            h.store(&self.area, i * 8, 0u64);
        }
        h.fence(Fence::Write);
        self.next = 0;
    }

    /// Returns the entries of a lap, after which a reader does something else: who writes may go on
    /// for ever.
    pub(super) const fn lap(&self) -> u32 {
        self.entries
    }

    /// Returns whether there is an entry.
    pub(super) fn pending<H: Host>(&self, h: &mut H) -> bool {
        h.load::<u8>(&self.area, self.next * Self::SIZE) != 0
    }

    /// Takes the next entry, if there is one.
    #[inline]
    pub(super) fn next<H: Host>(&mut self, h: &mut H) -> Option<T> {
        if !self.pending(h) {
            return None;
        }
        h.fence(Fence::DmaRead);
        let at = self.next * Self::SIZE;
        let entry = h.load::<T>(&self.area, at);
        h.store(&self.area, at, 0u8);
        self.next = (self.next + 1) % self.entries;
        Some(entry)
    }
}

/// Allocates memory that both sides use, where a message can address it: below 4 GiB.
pub(super) fn coherent<H: Host>(h: &mut H, len: u32, align: u32) -> Opened<Coherent> {
    common::coherent(h, (len, align), |at, len| within(32, at, len))
}

#[cfg(test)]
mod tests;
