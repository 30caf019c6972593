//! A device's port on memory that another process owns.
//!
//! A vfio-user client (a virtual machine monitor) tells the device's server
//! which pieces of guest memory it may reach: each is an I/O virtual address, a
//! length, a direction, and a file descriptor with an offset (`VFIO_USER_DMA_MAP`
//! in the vfio-user specification). The server maps the files, and from then on
//! a DMA is a copy and an interrupt is a write to an eventfd. [`SharedPort`] is
//! that server's [`Port`]; the protocol itself is elsewhere.
//!
//! Decisions:
//!
//! * An access may span several maps that touch: a guest with an I/O MMU maps page by page. It is
//!   checked as a whole first, so a fault transfers nothing.
//! * There is no virtual time here. What the device does takes effect at once, and every access
//!   answers the `at` it was given. Whoever owns the device calls `advance` with its own clock.
//! * A map that the client gave no file descriptor for (it would take messages to reach) cannot be
//!   added, so it faults like any address outside.
//! * The guest runs meanwhile, so memory is only ever copied, never borrowed: see [`Window`].

mod interrupts;
mod window;

pub use interrupts::{EventFd, EventFds, Interrupts};
pub use window::{Window, memfd};

use doorbell_hal::{DmaFault, DmaFaultKind, Iova, Port, Time};
use std::fmt;

/// A port on mapped memory: `I` takes the interrupts, `W` the frames.
#[derive(Debug)]
pub struct SharedPort<I, W> {
    /// What the device can reach.
    pub memory: Regions,
    /// Where its interrupts go.
    pub interrupts: I,
    /// Where its frames go.
    pub wire: W,
}

impl<I: Interrupts, W: FrameSink> SharedPort<I, W> {
    /// A port that reaches no memory yet.
    pub const fn new(interrupts: I, wire: W) -> SharedPort<I, W> {
        SharedPort { memory: Regions::new(), interrupts, wire }
    }
}

/// Takes the frames that a device emits.
pub trait FrameSink {
    /// One frame, without FCS.
    fn frame(&mut self, frame: &[u8]);
}

impl FrameSink for Vec<Vec<u8>> {
    fn frame(&mut self, frame: &[u8]) {
        self.push(frame.to_vec());
    }
}

impl<I: Interrupts, W: FrameSink> Port for SharedPort<I, W> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.memory.read(from, into).map(|()| at)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        self.memory.write(to, from).map(|()| at)
    }

    fn set_irq_line(&mut self, _: Time, n: u16, high: bool) {
        self.interrupts.set_irq_line(n, high);
    }

    fn raise_msi(&mut self, _: Time, vector: u16) {
        self.interrupts.message(vector);
    }

    fn emit(&mut self, _: Time, frame: &[u8]) {
        self.wire.frame(frame);
    }
}

/// What the device may do with a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Read it (transmit).
    pub read: bool,
    /// Write it (receive).
    pub write: bool,
}

impl Access {
    /// Both.
    pub const READ_WRITE: Access = Access { read: true, write: true };
    /// Reading alone: a ROM, or memory mapped for transmission.
    pub const READ: Access = Access { read: true, write: false };
    /// Writing alone: memory mapped for reception.
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
    /// No regions.
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
        if len == 0 {
            return Err(RegionError::Empty);
        }
        let last = iova.0.checked_add(len - 1).ok_or(RegionError::PastTheEnd)?;
        if access.write && !window.writable() {
            return Err(RegionError::ReadOnlyWindow);
        }
        let at = self.by_address.partition_point(|r| r.last < iova.0);
        if self.by_address.get(at).is_some_and(|r| r.first <= last) {
            return Err(RegionError::Overlaps);
        }
        self.by_address.insert(at, Region { first: iova.0, last, access, window });
        Ok(())
    }

    /// Ends the device's access to the `len` bytes at `iova`, which must be one
    /// or more whole regions. Says how many.
    ///
    /// # Errors
    /// When no region is there, or the range would cut one in two. Nothing is
    /// unmapped then.
    pub fn unmap(&mut self, iova: Iova, len: u64) -> Result<usize, RegionError> {
        let last = iova
            .0
            .checked_add(len.checked_sub(1).ok_or(RegionError::Empty)?)
            .ok_or(RegionError::PastTheEnd)?;
        let from = self.by_address.partition_point(|r| r.last < iova.0);
        let to = self.by_address.partition_point(|r| r.first <= last);
        let hit = &self.by_address[from..to];
        if hit.is_empty() {
            return Err(RegionError::NotMapped);
        }
        if hit[0].first < iova.0 || hit[hit.len() - 1].last > last {
            return Err(RegionError::Cuts);
        }
        self.by_address.drain(from..to);
        Ok(to - from)
    }

    /// Ends all access, as when the client goes away.
    pub fn clear(&mut self) {
        self.by_address.clear();
    }

    /// How many regions there are.
    pub fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Whether the device can reach nothing.
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// Reads, as the device may.
    ///
    /// # Errors
    /// A fault, and then nothing is read.
    pub fn read(&self, from: Iova, into: &mut [u8]) -> Result<(), DmaFault> {
        let first = self.check(from, into.len(), |a| a.read)?;
        self.each_part(first, from, into.len(), |window, offset, part| {
            window.read(offset, &mut into[part]);
        });
        Ok(())
    }

    /// Writes, as the device may.
    ///
    /// # Errors
    /// A fault, and then nothing is written.
    pub fn write(&self, to: Iova, from: &[u8]) -> Result<(), DmaFault> {
        let first = self.check(to, from.len(), |a| a.write)?;
        self.each_part(first, to, from.len(), |window, offset, part| {
            window.write(offset, &from[part]);
        });
        Ok(())
    }

    /// Whether the device may read, or write, all of `len` bytes at `at`.
    ///
    /// # Errors
    /// The fault that it would get, with the first address that cannot be reached.
    pub fn check_access(&self, at: Iova, len: usize, write: bool) -> Result<(), DmaFault> {
        self.check(at, len, |a| if write { a.write } else { a.read }).map(|_| ())
    }

    /// Whether any region has one of the `len` bytes at `at`.
    pub fn touches(&self, at: Iova, len: u64) -> bool {
        let next = self.by_address.partition_point(|r| r.last < at.0);
        len > 0
            && self.by_address.get(next).is_some_and(|r| r.first <= at.0.saturating_add(len - 1))
    }

    /// Checks all of an access before any of it is made; gives the index of the
    /// region it starts in.
    fn check(
        &self,
        at: Iova,
        len: usize,
        allowed: impl Fn(Access) -> bool,
    ) -> Result<usize, DmaFault> {
        let first = self.by_address.partition_point(|r| r.last < at.0);
        let mut next = at.0;
        let mut left = len as u64;
        for region in &self.by_address[first..] {
            if left == 0 || region.first > next {
                break;
            }
            if !allowed(region.access) {
                return Err(DmaFault { at: Iova(next), kind: DmaFaultKind::Direction });
            }
            left -= left.min((region.last - next).saturating_add(1));
            // An access does not wrap: past the last address there is no region.
            next = region.last.wrapping_add(1);
        }
        if left == 0 {
            Ok(first)
        } else {
            Err(DmaFault { at: Iova(next), kind: DmaFaultKind::Unmapped })
        }
    }

    /// Calls `f` with the window, the offset in it, and the range of the caller's
    /// bytes, for each region that a checked access touches.
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

/// Why a region could not be mapped or unmapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegionError {
    /// It has no bytes.
    Empty,
    /// It runs past the last 64-bit address.
    PastTheEnd,
    /// It overlaps a region that is there.
    Overlaps,
    /// The device may write it, but it was mapped for reading.
    ReadOnlyWindow,
    /// Nothing is mapped there.
    NotMapped,
    /// The range covers only part of a region.
    Cuts,
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RegionError::Empty => "a region of no bytes",
            RegionError::PastTheEnd => "a region that runs past the last 64-bit address",
            RegionError::Overlaps => "a region that overlaps another",
            RegionError::ReadOnlyWindow => "a region for writing on memory mapped for reading",
            RegionError::NotMapped => "no region there",
            RegionError::Cuts => "a range that covers only part of a region",
        })
    }
}

impl std::error::Error for RegionError {}

#[cfg(test)]
mod tests;
