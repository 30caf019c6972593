//! Memory that another process, or a guest, writes at the same time.
//!
//! Rust's references promise that nobody else writes what they point at, so there are none:
//! [`Window`] copies in and out with atomic accesses of up to 8 bytes. An aligned 1-, 2-, 4- or
//! 8-byte field is therefore read and written whole, as a descriptor's status has to be. Each write
//! is released and each read acquired: writes are seen in their order, as a device's posted writes
//! are on a bus.

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, memfd_create};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
use std::{ffi::CStr, fs::File, io};

/// A mapped part of a file that other processes have mapped too.
#[derive(Debug)]
pub struct Window {
    memory: MmapRaw,
    writable: bool,
}

impl Window {
    /// Maps `len` bytes of `file` from `offset` on.
    ///
    /// # Errors
    /// If the file ends before that, or the system refuses. Access to a file that is truncated
    /// later raises SIGBUS: take files only from trusted processes, or seal them.
    pub fn map(file: &File, offset: u64, len: usize, writable: bool) -> io::Result<Window> {
        let end = offset.checked_add(len as u64);
        let size = file.metadata()?.len();
        if end.is_none_or(|end| end > size) {
            let why =
                format!("{len:#x} bytes from {offset:#x} on are not inside a file of {size:#x}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut options = MmapOptions::new();
        options.offset(offset).len(len);
        let memory =
            if writable { options.map_raw(file)? } else { options.map_raw_read_only(file)? };
        Ok(Window { memory, writable })
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if [`Window::write`] is allowed.
    pub const fn writable(&self) -> bool {
        self.writable
    }

    /// Copies `into.len()` bytes from `offset` on into `into`.
    ///
    /// # Panics
    /// If they are not inside the window; the caller must check.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        self.inside(offset, into.len());
        let mut done = 0;
        while done < into.len() {
            let from = self.memory.as_ptr().wrapping_add(offset + done);
            let width = width(from.addr(), into.len() - done);
            let to = &mut into[done..done + width];
            // SAFETY: `inside` has checked that the `width` bytes at `from` are in the mapping,
            // which lives as long as `self`; `width` divides the address, so the access is aligned;
            // others may write meanwhile, which atomic accesses allow. A relaxed load of at most
            // 8 bytes is fine on a read-only mapping.
            unsafe {
                match width {
                    8 => to.copy_from_slice(
                        &(*from.cast::<AtomicU64>()).load(Ordering::Relaxed).to_ne_bytes(),
                    ),
                    4 => to.copy_from_slice(
                        &(*from.cast::<AtomicU32>()).load(Ordering::Relaxed).to_ne_bytes(),
                    ),
                    2 => to.copy_from_slice(
                        &(*from.cast::<AtomicU16>()).load(Ordering::Relaxed).to_ne_bytes(),
                    ),
                    _ => to[0] = (*from.cast::<AtomicU8>()).load(Ordering::Relaxed),
                }
            }
            done += width;
        }
        fence(Ordering::Acquire);
    }

    /// Copies `from` to `offset`.
    ///
    /// # Panics
    /// If it does not fit inside the window, or the window is read-only; the caller must check.
    pub fn write(&self, offset: usize, from: &[u8]) {
        self.inside(offset, from.len());
        assert!(self.writable, "write to a window mapped for reading");
        fence(Ordering::Release);
        let mut done = 0;
        while done < from.len() {
            let to = self.memory.as_mut_ptr().wrapping_add(offset + done);
            let width = width(to.addr(), from.len() - done);
            let v = &from[done..];
            // SAFETY: as in `read`, and the mapping is writable.
            unsafe {
                match *v {
                    [a, b, c, d, e, f, g, h, ..] if width == 8 => {
                        let v = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
                        (*to.cast::<AtomicU64>()).store(v, Ordering::Relaxed);
                    }
                    [a, b, c, d, ..] if width == 4 => {
                        (*to.cast::<AtomicU32>())
                            .store(u32::from_ne_bytes([a, b, c, d]), Ordering::Relaxed);
                    }
                    [a, b, ..] if width == 2 => {
                        (*to.cast::<AtomicU16>())
                            .store(u16::from_ne_bytes([a, b]), Ordering::Relaxed);
                    }
                    _ => (*to.cast::<AtomicU8>()).store(v[0], Ordering::Relaxed),
                }
            }
            done += width;
        }
    }

    /// Swaps an aligned 8-byte word with zero and returns it.
    ///
    /// # Panics
    /// If it is not inside the window or not aligned, or the window is read-only.
    pub fn take_u64(&self, offset: usize) -> u64 {
        self.inside(offset, 8);
        assert!(
            self.writable && offset.is_multiple_of(8),
            "take from a window mapped for reading, or unaligned"
        );
        let at = self.memory.as_mut_ptr().wrapping_add(offset).cast::<AtomicU64>();
        // SAFETY: as in `write`: the 8 bytes are in the mapping, which begins on a page, and
        // aligned.
        let word = unsafe { &*at };
        // Polled far more often than written: a load leaves the cache line with the writer.
        if word.load(Ordering::Relaxed) == 0 { 0 } else { word.swap(0, Ordering::AcqRel) }
    }

    fn inside(&self, offset: usize, len: usize) {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len());
        let own = self.len();
        assert!(inside, "{len:#x} bytes at {offset:#x} are not inside a window of {own:#x}");
    }
}

/// Returns the width of the widest access, up to 8 bytes, that is aligned at `address` and has at
/// most `left` bytes.
pub fn width(address: usize, left: usize) -> usize {
    let aligned = 1 << (address | 8).trailing_zeros();
    let fits = 1 << left.min(8).ilog2();
    usize::min(aligned, fits)
}

/// Creates a memory file of `len` zero bytes, to be shared with another process. `name` appears in
/// /proc.
///
/// # Errors
/// If the system has no memory or descriptors left.
pub fn memfd(name: &CStr, len: u64) -> io::Result<File> {
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.set_len(len)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
