//! Descriptors that another process has sent.
//!
//! Some make whoever uses or merely closes them wait for that process: a file of a file system in
//! user space (FUSE), a connection that lingers. So only two kinds are kept: eventfds, and memory,
//! which is a memfd or a file on tmpfs or hugetlbfs.

use rustix::fs::{fcntl_get_seals, readlink};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Appends descriptors to `kept`.
///
/// # Errors
/// If one is neither an eventfd nor memory. It is closed on a thread of its own.
pub fn keep_harmless(
    new: impl IntoIterator<Item = OwnedFd>,
    kept: &mut Vec<OwnedFd>,
) -> io::Result<()> {
    let (good, other): (Vec<_>, Vec<_>) = new.into_iter().partition(is_harmless);
    kept.extend(good);
    if other.is_empty() {
        return Ok(());
    }
    std::thread::Builder::new().spawn(move || drop(other))?;
    let why = "a descriptor that is neither an eventfd nor memory (a memfd, or a file on tmpfs or \
               hugetlbfs)";
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

fn is_harmless(fd: &OwnedFd) -> bool {
    // Only memory has seals. The name of an eventfd has no slash, as each path has.
    fcntl_get_seals(fd).is_ok()
        || readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())
            .is_ok_and(|name| name.as_bytes() == b"anon_inode:[eventfd]")
}
