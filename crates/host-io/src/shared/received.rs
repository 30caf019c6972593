//! Descriptors that another process has sent.
//!
//! Some make whoever uses or merely closes them wait for that process: a file of a file system in
//! user space (FUSE), a connection that lingers. So only two kinds are kept: eventfds, and memory,
//! which is a memfd or a file on tmpfs or hugetlbfs; the [reaper] closes the others. Each is used
//! as its own kind alone: a write to memory waits for whoever allocates it.

use super::EventFd;
use super::reaper::{self, Reaped};
use rustix::fs::fcntl_get_seals;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// A descriptor that another process has sent.
#[derive(Debug)]
pub enum Received {
    /// A counter.
    EventFd(EventFd),
    /// Memory to map.
    Memory(Reaped<File>),
}

impl Received {
    /// Takes a descriptor, or returns it if it is of neither kind.
    fn new(fd: OwnedFd) -> Result<Received, OwnedFd> {
        // Only memory has seals.
        if fcntl_get_seals(&fd).is_ok() {
            return Ok(Received::Memory(Reaped::memory(fd.into())));
        }
        EventFd::received(fd).map(Received::EventFd)
    }

    /// Returns the eventfd.
    ///
    /// # Errors
    /// If it is memory.
    pub fn eventfd(self) -> io::Result<EventFd> {
        match self {
            Received::EventFd(fd) => Ok(fd),
            Received::Memory(_) => Err(wrong("memory in the place of an eventfd")),
        }
    }

    /// Returns the memory.
    ///
    /// # Errors
    /// If it is an eventfd.
    pub fn memory(self) -> io::Result<Reaped<File>> {
        match self {
            Received::Memory(file) => Ok(file),
            Received::EventFd(_) => Err(wrong("an eventfd in the place of memory")),
        }
    }
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Appends descriptors to `kept`.
///
/// # Errors
/// If one is neither an eventfd nor memory.
pub fn keep_harmless(
    new: impl IntoIterator<Item = OwnedFd>,
    kept: &mut Vec<Received>,
) -> io::Result<()> {
    let mut other = false;
    for fd in new {
        match Received::new(fd) {
            Ok(fd) => kept.push(fd),
            Err(fd) => {
                other = true;
                reaper::close(fd);
            }
        }
    }
    let why = "a descriptor that is neither an eventfd nor memory (a memfd, or a file on tmpfs or \
               hugetlbfs)";
    if other { Err(wrong(why)) } else { Ok(()) }
}
