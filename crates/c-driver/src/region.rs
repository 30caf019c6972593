//! Memory for drivers that know only pointers: a driver's pointer is the device's address.
//!
//! The memory is a file without a name, mapped twice. The machine has one mapping. The driver has
//! the other, at the address that memory has in the machine: below 4 GiB, because such drivers
//! often give a card the lower half of an address, and on the first free multiple of 64 MiB, so
//! that runs agree. Pages of rings cannot be accessed there ([`crate::trap`]).

use doorbell_bus::{Memory, ProtectionGranularity};
use doorbell_hal::OutOfMemory;
use memmap2::MmapMut;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;

/// The first place of a region, and the end of all: the registers of the card come after it.
const FIRST: usize = 0x1000_0000;
const END: usize = 0xf000_0000;
const STEP: usize = 64 << 20;

/// A range of this process's addresses, which is given back.
#[derive(Debug)]
pub(crate) struct Region {
    start: usize,
    len: usize,
}

impl Region {
    /// Maps `size` bytes of memory for the driver, and returns the machine's side of them.
    pub(crate) fn new(
        size: usize,
        guard: ProtectionGranularity,
    ) -> Result<(Region, Memory), OutOfMemory> {
        // SAFETY: The name ends with a zero.
        let fd = unsafe { libc::memfd_create(c"doorbell".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(OutOfMemory);
        }
        // SAFETY: It was just made, and nobody else has it.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(size as u64).map_err(|_| OutOfMemory)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let mut places = (FIRST..END.saturating_sub(size)).step_by(STEP);
        let own = places.find_map(|at| Region::at(at, size, access, Some(&file)));
        let own = own.ok_or(OutOfMemory)?;
        // SAFETY: The file is nobody else's. The driver has the other mapping, and it runs only
        // while no reference into this one is in use, as a guest does.
        let bytes = unsafe { MmapMut::map_mut(&file) }.map_err(|_| OutOfMemory)?;
        let memory = Memory::over(own.start as u64, bytes, guard)?;
        Ok((own, memory))
    }

    /// Reserves `len` bytes of addresses that cannot be accessed.
    pub(crate) fn reserved(len: usize) -> Option<Region> {
        Region::at(0, len, libc::PROT_NONE, None)
    }

    /// Maps bytes at an address that is free, or anywhere for 0.
    fn at(at: usize, len: usize, access: i32, file: Option<&File>) -> Option<Region> {
        let kind = match file {
            Some(_) => libc::MAP_SHARED,
            None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        };
        let place = if at > 0 { libc::MAP_FIXED_NOREPLACE } else { 0 };
        let fd = file.map_or(-1, File::as_raw_fd);
        // SAFETY: It replaces no mapping.
        let start = unsafe {
            libc::mmap(ptr::without_provenance_mut(at), len, access, kind | place, fd, 0)
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let region = Region { start: start as usize, len };
        // A kernel that does not know the flag takes the address for a hint.
        (at == 0 || region.start == at).then_some(region)
    }

    /// Returns the first address.
    pub(crate) fn start(&self) -> usize {
        self.start
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: It is this region's, and the driver is closed.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(self.start), self.len) };
    }
}
