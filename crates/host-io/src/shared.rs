//! Memory that another process owns, and signals to it.
//!
//! A client (a virtual machine monitor, QEMU's plug-in) passes file descriptors of the guest's
//! memory. [`Regions`] maps them by I/O virtual address and checks each access as a whole, so
//! that a fault transfers nothing. The guest runs meanwhile: memory is copied, never borrowed
//! ([`Window`]). Remote regions have no descriptor. [`EventFd`] carries the interrupts. [`Guard`]
//! protects the server from what a client does to either, and
//! [`reaper`] from what they leave behind.

mod eventfd;
mod guard;
#[cfg(miri)]
mod miri;
#[cfg(kani)]
mod proofs;
pub mod reaper;
mod received;
mod window;

pub use eventfd::EventFd;
pub use guard::Guard;
pub use received::{Received, keep_harmless};
pub use window::{Window, cannot_shrink, memfd, width};

use doorbell_hal::{DmaFault, DmaFaultKind, Iova, fail_if};
use std::ops::Range;

/// The directions in which a device may access a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Read it (transmit).
    pub read: bool,
    /// Write it (receive).
    pub write: bool,
}

impl Access {
    /// Both directions.
    pub const READ_WRITE: Access = Access { read: true, write: true };
    /// Reads only: a ROM, or memory mapped for transmission.
    pub const READ: Access = Access { read: true, write: false };
    /// Writes only: memory mapped for reception.
    pub const WRITE: Access = Access { read: false, write: true };
}

/// The regions of a client's memory that the device can reach, by address.
#[derive(Debug, Default)]
pub struct Regions {
    /// Sorted by address; no two overlap.
    by_address: Vec<Region>,
    /// Bytes of the windows.
    mapped: u64,
}

#[derive(Debug)]
struct Region {
    first: u64,
    /// Inclusive, so that a region may end where the address space does.
    last: u64,
    access: Access,
    /// `None` for a remote region.
    window: Option<Window>,
}

impl Regions {
    /// Creates an empty table.
    pub const fn new() -> Regions {
        Regions { by_address: Vec::new(), mapped: 0 }
    }

    /// Makes `window` reachable at `iova`.
    ///
    /// # Errors
    /// When the window is empty, runs past the end of the address space, is
    /// mapped without the right to write that `access` grants, or overlaps a
    /// region that is there.
    pub fn map(&mut self, iova: Iova, window: Window, access: Access) -> Result<(), RegionError> {
        fail_if(access.write && !window.writable(), RegionError::ReadOnlyWindow)?;
        self.insert(iova, window.len() as u64, Some(window), access)
    }

    /// Makes `len` bytes at `iova` reachable that only their owner can read and write.
    ///
    /// # Errors
    /// As [`Regions::map`].
    pub fn map_remote(&mut self, iova: Iova, len: u64, access: Access) -> Result<(), RegionError> {
        self.insert(iova, len, None, access)
    }

    fn insert(
        &mut self,
        iova: Iova,
        len: u64,
        window: Option<Window>,
        access: Access,
    ) -> Result<(), RegionError> {
        let last = last(iova, len)?;
        let at = self.by_address.partition_point(|r| r.last < iova.0);
        fail_if(self.by_address.get(at).is_some_and(|r| r.first <= last), RegionError::Overlaps)?;
        self.mapped += window.as_ref().map_or(0, |w| w.len() as u64);
        self.by_address.insert(at, Region { first: iova.0, last, access, window });
        Ok(())
    }

    /// Removes the regions that make up the `len` bytes at `iova`. Returns how many.
    ///
    /// # Errors
    /// When no region is there, or the range covers part of a region only. Nothing is unmapped
    /// then.
    pub fn unmap(&mut self, iova: Iova, len: u64) -> Result<usize, RegionError> {
        let last = last(iova, len)?;
        let from = self.by_address.partition_point(|r| r.last < iova.0);
        let to = self.by_address.partition_point(|r| r.first <= last);
        let hit = &self.by_address[from..to];
        fail_if(hit.is_empty(), RegionError::NotMapped)?;
        fail_if(hit[0].first < iova.0 || hit[hit.len() - 1].last > last, RegionError::Cuts)?;
        let windows = self.by_address.drain(from..to).filter_map(|r| r.window);
        self.mapped -= windows.map(|w| w.len() as u64).sum::<u64>();
        Ok(to - from)
    }

    /// Removes all regions.
    pub fn clear(&mut self) {
        self.by_address.clear();
        self.mapped = 0;
    }

    /// Returns the bytes of all windows, which take as much of the process's address space.
    pub const fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Returns the number of regions.
    pub fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Returns true without regions.
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// Passes a read, or a write, of `len` bytes to `f` region by region: the address, the window
    /// with the offset in it unless the region is remote, and the range of the access. `f` returns
    /// false if it fails.
    ///
    /// # Errors
    /// The fault of the first address out of reach, before `f` is called; or that of a part that
    /// failed.
    pub fn access<F>(&self, at: Iova, len: usize, write: bool, mut f: F) -> Result<(), DmaFault>
    where
        F: FnMut(Iova, Option<(&Window, usize)>, Range<usize>) -> bool,
    {
        let first = self.check(at, len, write)?;
        let mut done = 0;
        for region in &self.by_address[first..] {
            if done == len {
                break;
            }
            let here = at + done as u64;
            let end = done + ((len - done - 1) as u64).min(region.last - here.0) as usize + 1;
            let memory = region.window.as_ref().map(|w| (w, (here.0 - region.first) as usize));
            let failed = DmaFault { at: here, kind: DmaFaultKind::Unmapped };
            fail_if(!f(here, memory, done..end), failed)?;
            done = end;
        }
        Ok(())
    }

    /// Checks a whole access. Returns the index of the region that it starts in.
    fn check(&self, at: Iova, len: usize, write: bool) -> Result<usize, DmaFault> {
        let first = self.by_address.partition_point(|r| r.last < at.0);
        let mut next = at.0;
        let mut left = len as u64;
        for region in &self.by_address[first..] {
            if left == 0 || region.first > next {
                break;
            }
            if !(if write { region.access.write } else { region.access.read }) {
                return Err(DmaFault { at: Iova(next), kind: DmaFaultKind::Direction });
            }
            left -= left.min((region.last - next).saturating_add(1));
            // An access does not wrap: past the last address there is no region.
            next = region.last.wrapping_add(1);
        }
        let unmapped = DmaFault { at: Iova(next), kind: DmaFaultKind::Unmapped };
        if left == 0 { Ok(first) } else { Err(unmapped) }
    }
}

/// Returns the last address of `len` bytes at `iova`.
fn last(iova: Iova, len: u64) -> Result<u64, RegionError> {
    let behind_first = len.checked_sub(1).ok_or(RegionError::Empty)?;
    iova.0.checked_add(behind_first).ok_or(RegionError::PastTheEnd)
}

/// A mapping or unmapping that is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegionError {
    /// It has no bytes.
    #[error("a region of no bytes")]
    Empty,
    /// It runs past the last 64-bit address.
    #[error("a region that runs past the last 64-bit address")]
    PastTheEnd,
    /// It overlaps a mapped region.
    #[error("a region that overlaps another")]
    Overlaps,
    /// The device may write it, but the window is mapped for reading.
    #[error("a region for writing on memory mapped for reading")]
    ReadOnlyWindow,
    /// No region is mapped there.
    #[error("no region there")]
    NotMapped,
    /// The range covers only part of a region.
    #[error("a range that covers only part of a region")]
    Cuts,
}

#[cfg(test)]
mod tests;
