//! Memory that another process owns, and signals to it.
//!
//! A client (a virtual machine monitor, QEMU's plug-in) passes file descriptors of the guest's
//! memory. [`Regions`] maps them by I/O virtual address and checks each access as a whole, so
//! that a fault transfers nothing. The guest runs meanwhile: memory is copied, never borrowed
//! ([`Window`]). [`EventFd`] carries the interrupts.

mod eventfd;
mod window;

pub use eventfd::EventFd;
pub use window::{Window, memfd};

use doorbell_hal::{DmaFault, DmaFaultKind, Iova, fail_if};

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
}

#[derive(Debug)]
struct Region {
    first: u64,
    /// Inclusive, so that a region may end where the address space does.
    last: u64,
    access: Access,
    window: Window,
}

impl Regions {
    /// Creates an empty table.
    pub const fn new() -> Regions {
        Regions { by_address: Vec::new() }
    }

    /// Makes `window` reachable at `iova`.
    ///
    /// # Errors
    /// When the window is empty, runs past the end of the address space, is
    /// mapped without the right to write that `access` grants, or overlaps a
    /// region that is there.
    pub fn map(&mut self, iova: Iova, window: Window, access: Access) -> Result<(), RegionError> {
        let len = window.len() as u64;
        fail_if(len == 0, RegionError::Empty)?;
        let last = iova.0.checked_add(len - 1).ok_or(RegionError::PastTheEnd)?;
        fail_if(access.write && !window.writable(), RegionError::ReadOnlyWindow)?;
        let at = self.by_address.partition_point(|r| r.last < iova.0);
        fail_if(self.by_address.get(at).is_some_and(|r| r.first <= last), RegionError::Overlaps)?;
        self.by_address.insert(at, Region { first: iova.0, last, access, window });
        Ok(())
    }

    /// Removes the regions that make up the `len` bytes at `iova`. Returns how many.
    ///
    /// # Errors
    /// When no region is there, or the range covers part of a region only. Nothing is unmapped
    /// then.
    pub fn unmap(&mut self, iova: Iova, len: u64) -> Result<usize, RegionError> {
        let last = iova
            .0
            .checked_add(len.checked_sub(1).ok_or(RegionError::Empty)?)
            .ok_or(RegionError::PastTheEnd)?;
        let from = self.by_address.partition_point(|r| r.last < iova.0);
        let to = self.by_address.partition_point(|r| r.first <= last);
        let hit = &self.by_address[from..to];
        fail_if(hit.is_empty(), RegionError::NotMapped)?;
        fail_if(hit[0].first < iova.0 || hit[hit.len() - 1].last > last, RegionError::Cuts)?;
        self.by_address.drain(from..to);
        Ok(to - from)
    }

    /// Removes all regions.
    pub fn clear(&mut self) {
        self.by_address.clear();
    }

    /// Returns the number of regions.
    pub fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Returns true without regions.
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// Reads `into.len()` bytes.
    ///
    /// # Errors
    /// The fault of the first address out of reach; nothing is read then.
    pub fn read(&self, from: Iova, into: &mut [u8]) -> Result<(), DmaFault> {
        let first = self.check(from, into.len(), |a| a.read)?;
        self.each_part(first, from, into.len(), |window, offset, part| {
            window.read(offset, &mut into[part]);
        });
        Ok(())
    }

    /// Writes `from`.
    ///
    /// # Errors
    /// The fault of the first address out of reach; nothing is written then.
    pub fn write(&self, to: Iova, from: &[u8]) -> Result<(), DmaFault> {
        let first = self.check(to, from.len(), |a| a.write)?;
        self.each_part(first, to, from.len(), |window, offset, part| {
            window.write(offset, &from[part]);
        });
        Ok(())
    }

    /// Checks a read, or a write, of `len` bytes at `at`.
    ///
    /// # Errors
    /// The fault of the first address out of reach.
    pub fn check_access(&self, at: Iova, len: usize, write: bool) -> Result<(), DmaFault> {
        self.check(at, len, |a| if write { a.write } else { a.read }).map(|_| ())
    }

    /// Returns true if a region overlaps the `len` bytes at `at`.
    pub fn touches(&self, at: Iova, len: u64) -> bool {
        let next = self.by_address.partition_point(|r| r.last < at.0);
        len > 0
            && self.by_address.get(next).is_some_and(|r| r.first <= at.0.saturating_add(len - 1))
    }

    /// Checks a whole access. Returns the index of the region that it starts in.
    fn check(&self, at: Iova, len: usize, may: impl Fn(Access) -> bool) -> Result<usize, DmaFault> {
        let first = self.by_address.partition_point(|r| r.last < at.0);
        let mut next = at.0;
        let mut left = len as u64;
        for region in &self.by_address[first..] {
            if left == 0 || region.first > next {
                break;
            }
            if !may(region.access) {
                return Err(DmaFault { at: Iova(next), kind: DmaFaultKind::Direction });
            }
            left -= left.min((region.last - next).saturating_add(1));
            // An access does not wrap: past the last address there is no region.
            next = region.last.wrapping_add(1);
        }
        let unmapped = DmaFault { at: Iova(next), kind: DmaFaultKind::Unmapped };
        if left == 0 { Ok(first) } else { Err(unmapped) }
    }

    /// Calls `f` for each region of a checked access: window, offset in it, range of the access.
    fn each_part(
        &self,
        first: usize,
        at: Iova,
        len: usize,
        mut f: impl FnMut(&Window, usize, core::ops::Range<usize>),
    ) {
        let mut done = 0;
        for region in &self.by_address[first..] {
            if done == len {
                return;
            }
            let offset = (at.0 + done as u64 - region.first) as usize;
            let part = (len - done).min(region.window.len() - offset);
            f(&region.window, offset, done..done + part);
            done += part;
        }
    }
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
