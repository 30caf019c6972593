//! Memory that another process, or a guest, writes at the same time.
//!
//! Rust's references promise that nobody else writes what they point at, so there are none:
//! [`Window`] copies in and out with atomic accesses of up to 8 bytes. An aligned 1-, 2-, 4- or
//! 8-byte field is therefore read and written whole, as a descriptor's status has to be. Each write
//! is released and each read acquired: writes are seen in their order, as a device's posted writes
//! are on a bus. The file may shrink, or the system run out of memory: see [`Guard`](super::Guard).

use super::guard::Registered;
#[cfg(not(miri))]
use super::guard::page_of;
#[cfg(miri)]
use super::miri::*;
#[cfg(not(miri))]
use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};
#[cfg(not(miri))]
use rustix::fs::{fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::param::page_size;
use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence, fence,
};
use std::{ffi::CStr, fs::File, io};

/// A mapped part of a file that other processes have mapped too.
#[derive(Debug)]
pub struct Window {
    // Dropped first, while the addresses are mapped.
    registered: Registered,
    memory: MmapRaw,
    writable: bool,
}

impl Window {
    /// Maps `len` bytes of `file` from `offset` on. The file is not sealed: adding a seal waits for
    /// whoever changes the file's size or allocates its pages, for as long as they like.
    ///
    /// # Errors
    /// If the file ends before that, if a part of a huge page is meant, or if the system refuses.
    pub fn map(file: &File, offset: u64, len: usize, writable: bool) -> io::Result<Window> {
        let wrong = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let end = offset.checked_add(len as u64);
        let size = file.metadata()?.len();
        if end.is_none_or(|end| end > size) {
            return wrong(format!(
                "{len:#x} bytes from {offset:#x} on are not inside a file of {size:#x}"
            ));
        }
        let page = page_of(file)?;
        if page > page_size() && !(offset | len as u64).is_multiple_of(page as u64) {
            return wrong(format!("{len:#x} bytes from {offset:#x} on are not whole huge pages"));
        }
        let mut options = MmapOptions::new();
        options.offset(offset).len(len);
        let memory =
            if writable { options.map_raw(file)? } else { options.map_raw_read_only(file)? };
        let registered = Registered::new(memory.as_ptr(), len, page)?;
        Ok(Window { registered, memory, writable })
    }

    /// Makes the system allocate all its memory now.
    ///
    /// # Errors
    /// If there is not enough.
    pub fn populate(&self) -> io::Result<()> {
        let how = if self.writable { Advice::PopulateWrite } else { Advice::PopulateRead };
        self.memory.advise(how)
    }

    /// Returns true once an access has found a page without memory: the file was truncated, or the
    /// system has no memory left for it.
    pub fn lost(&self) -> bool {
        self.registered.lost()
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

    /// Copies `into.len()` bytes from `offset` on into `into`. Returns false if the window is
    /// [lost](Window::lost), and the bytes are therefore not those of the file.
    ///
    /// # Panics
    /// Panics if they are not inside the window; the caller must check.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        self.inside(offset, into.len());
        let mut done = 0;
        while done < into.len() {
            let from = self.memory.as_ptr().wrapping_add(offset + done);
            let run = run(from.addr(), into.len() - done);
            let to = &mut into[done..done + run];
            // SAFETY: `inside` has checked that the `run` bytes at `from` are in the mapping, which
            // lives as long as `self`; they are accesses of a width that divides the address, so
            // each is aligned; others may write meanwhile, which atomic accesses allow. A relaxed
            // load of at most 8 bytes is fine on a read-only mapping.
            unsafe {
                match to {
                    [v] => *v = (*from.cast::<AtomicU8>()).load(Ordering::Relaxed),
                    [a, b] => {
                        [*a, *b] =
                            (*from.cast::<AtomicU16>()).load(Ordering::Relaxed).to_ne_bytes();
                    }
                    [a, b, c, d] => {
                        [*a, *b, *c, *d] =
                            (*from.cast::<AtomicU32>()).load(Ordering::Relaxed).to_ne_bytes();
                    }
                    _ => {
                        for (n, to) in to.as_chunks_mut().0.iter_mut().enumerate() {
                            let from = from.cast::<AtomicU64>().wrapping_add(n);
                            *to = (*from).load(Ordering::Relaxed).to_ne_bytes();
                        }
                    }
                }
            }
            done += run;
        }
        fence(Ordering::Acquire);
        !self.lost()
    }

    /// Copies `from` to `offset`. Returns false if the window is [lost](Window::lost), and the
    /// bytes are therefore not in the file.
    ///
    /// # Panics
    /// Panics if it does not fit inside the window, or the window is read-only; the caller must
    /// check.
    pub fn write(&self, offset: usize, from: &[u8]) -> bool {
        self.inside(offset, from.len());
        assert!(self.writable, "write to a window mapped for reading");
        fence(Ordering::Release);
        let mut done = 0;
        while done < from.len() {
            let to = self.memory.as_mut_ptr().wrapping_add(offset + done);
            let run = run(to.addr(), from.len() - done);
            // SAFETY: as in `read`, and the mapping is writable.
            unsafe {
                match from[done..done + run] {
                    [v] => (*to.cast::<AtomicU8>()).store(v, Ordering::Relaxed),
                    [a, b] => (*to.cast::<AtomicU16>())
                        .store(u16::from_ne_bytes([a, b]), Ordering::Relaxed),
                    [a, b, c, d] => (*to.cast::<AtomicU32>())
                        .store(u32::from_ne_bytes([a, b, c, d]), Ordering::Relaxed),
                    ref words => {
                        for (n, v) in words.as_chunks().0.iter().enumerate() {
                            let to = to.cast::<AtomicU64>().wrapping_add(n);
                            (*to).store(u64::from_ne_bytes(*v), Ordering::Relaxed);
                        }
                    }
                }
            }
            done += run;
        }
        // The handler of SIGBUS runs on this thread.
        compiler_fence(Ordering::SeqCst);
        !self.lost()
    }

    /// Returns the aligned 8-byte word at `offset`.
    ///
    /// # Panics
    /// Panics if it is not inside the window or not aligned, or the window is read-only.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        self.inside(offset, 8);
        assert!(
            self.writable && offset.is_multiple_of(8),
            "word of a window mapped for reading, or unaligned"
        );
        let at = self.memory.as_mut_ptr().wrapping_add(offset).cast::<AtomicU64>();
        // SAFETY: as in `write`: the 8 bytes are in the mapping, which begins on a page, and
        // aligned; they live as long as `self`.
        unsafe { &*at }
    }

    /// Returns the aligned 4-byte word at `offset`.
    ///
    /// # Panics
    /// Panics as [`Window::word`] does.
    pub fn half_word(&self, offset: usize) -> &AtomicU32 {
        self.inside(offset, 4);
        assert!(
            self.writable && offset.is_multiple_of(4),
            "word of a window mapped for reading, or unaligned"
        );
        let at = self.memory.as_mut_ptr().wrapping_add(offset).cast::<AtomicU32>();
        // SAFETY: as in `word`.
        unsafe { &*at }
    }

    /// Returns `n` aligned 4-byte words, at `offset` and every `stride` bytes from there on.
    ///
    /// # Panics
    /// Panics as [`Window::word`] does.
    pub fn half_words(
        &self,
        offset: usize,
        stride: usize,
        n: usize,
    ) -> impl Iterator<Item = &AtomicU32> {
        self.inside(offset, n.saturating_sub(1).saturating_mul(stride).saturating_add(4));
        assert!(
            self.writable && (offset | stride).is_multiple_of(4),
            "words of a window mapped for reading, or unaligned"
        );
        let first = self.memory.as_mut_ptr().wrapping_add(offset);
        // SAFETY: as in `word`, from the first to the last.
        (0..n).map(move |i| unsafe { &*first.wrapping_add(i * stride).cast() })
    }

    /// Swaps an aligned 8-byte word with zero and returns it.
    ///
    /// # Panics
    /// Panics if it is not inside the window or not aligned, or the window is read-only.
    pub fn take_u64(&self, offset: usize) -> u64 {
        let word = self.word(offset);
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

/// Returns the number of bytes at `address` that accesses of one [`width`] cover: of all 8-byte
/// words, or one access.
pub(super) fn run(address: usize, left: usize) -> usize {
    let width = width(address, left);
    if width == 8 { left & !7 } else { width }
}

/// Returns true if the file is memory that is sealed against shrinking.
pub fn cannot_shrink(file: &File) -> bool {
    fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// Creates a memory file of `len` zero bytes, to be shared with another process, which cannot
/// change its length. `name` appears in /proc.
///
/// # Errors
/// If the system has no memory or descriptors left.
pub fn memfd(name: &CStr, len: u64) -> io::Result<File> {
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.set_len(len)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
