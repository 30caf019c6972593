//! Memory files under Miri, which has neither memfds nor shared mappings.
//!
//! A file has a number. Its mappings share one allocation, which lives as long as one of them.

use rustix::fs::{MemfdFlags, SealFlags};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::{env, ffi::CStr, fs, fs::File, io, process};

static FILES: Mutex<BTreeMap<u64, Weak<[AtomicU64]>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

pub(super) fn memfd_create(_: &CStr, _: MemfdFlags) -> io::Result<File> {
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = env::temp_dir().join(format!("miri-{}-{n}", process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(path)?;
    file.write_all_at(&n.to_ne_bytes(), 0)?;
    Ok(file)
}

pub(super) fn fcntl_get_seals(_: &File) -> io::Result<SealFlags> {
    Ok(SealFlags::SHRINK)
}

pub(super) fn fcntl_add_seals(_: &File, _: SealFlags) -> io::Result<()> {
    Ok(())
}

pub(super) fn page_of(_: &File) -> io::Result<usize> {
    Ok(rustix::param::page_size())
}

pub(super) enum Advice {
    PopulateWrite,
    PopulateRead,
}

#[derive(Default)]
pub(super) struct MmapOptions {
    offset: usize,
    len: usize,
}

impl MmapOptions {
    pub(super) fn new() -> MmapOptions {
        MmapOptions::default()
    }

    pub(super) fn offset(&mut self, offset: u64) -> &mut MmapOptions {
        self.offset = offset as usize;
        self
    }

    pub(super) fn len(&mut self, len: usize) -> &mut MmapOptions {
        self.len = len;
        self
    }

    pub(super) fn map_raw(&self, file: &File) -> io::Result<MmapRaw> {
        let mut n = [0; 8];
        file.read_exact_at(&mut n, 0)?;
        let mut files = FILES.lock().expect("no panic while it is locked");
        let shared = files.entry(u64::from_ne_bytes(n)).or_insert_with(|| Weak::<[_; 0]>::new());
        let memory = match shared.upgrade() {
            Some(memory) => memory,
            None => {
                let words = file.metadata()?.len().div_ceil(8) as usize;
                // SAFETY: zero is a value of an atomic word.
                let new = unsafe { Arc::<[AtomicU64]>::new_zeroed_slice(words).assume_init() };
                *shared = Arc::downgrade(&new);
                new
            }
        };
        Ok(MmapRaw { memory, offset: self.offset, len: self.len })
    }

    pub(super) fn map_raw_read_only(&self, file: &File) -> io::Result<MmapRaw> {
        self.map_raw(file)
    }
}

#[derive(Debug)]
pub(super) struct MmapRaw {
    memory: Arc<[AtomicU64]>,
    offset: usize,
    len: usize,
}

impl MmapRaw {
    pub(super) fn as_mut_ptr(&self) -> *mut u8 {
        self.memory.as_ptr().cast_mut().cast::<u8>().wrapping_add(self.offset)
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.as_mut_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn advise(&self, _: Advice) -> io::Result<()> {
        Ok(())
    }
}
