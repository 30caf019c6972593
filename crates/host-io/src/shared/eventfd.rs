//! Event file descriptors, as VFIO and vfio-user pass them.
//!
//! The other process may change the flags of a description that it shares. No call here relies on
//! O_NONBLOCK.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::readlink;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A counter that one process adds to and another waits for (`eventfd(2)`).
#[derive(Debug)]
pub struct EventFd(File);

impl EventFd {
    /// Creates a counter at zero.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<EventFd> {
        Ok(EventFd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?.into()))
    }

    /// Duplicates the descriptor; both share one counter.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn try_clone(&self) -> io::Result<EventFd> {
        Ok(EventFd(self.0.try_clone()?))
    }

    /// Takes a descriptor that another process has sent, or returns it if it is of another kind.
    pub(super) fn received(fd: OwnedFd) -> Result<EventFd, OwnedFd> {
        // The name of an eventfd has no slash, as each path has.
        let name = readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new());
        let is_eventfd = name.is_ok_and(|name| name.as_bytes() == b"anon_inode:[eventfd]");
        if is_eventfd { Ok(EventFd(fd.into())) } else { Err(fd) }
    }

    /// Adds one to the counter. Returns false if that had to wait, and a signal has ended the wait:
    /// the counter is full, and its owner has made the description blocking.
    pub fn signal(&self) -> bool {
        // A full counter has signalled already, which is no failure.
        rustix::io::write(&self.0, &1u64.to_ne_bytes()) != Err(Errno::INTR)
    }

    /// Sets a full counter to zero, so that [`EventFd::signal`] does not wait, and a thread that
    /// waits there goes on. Another count stays.
    pub fn empty_if_full(&self) {
        let room = &mut [PollFd::new(&self.0, PollFlags::OUT)];
        let polled = poll(room, Some(&Timespec::default()));
        if polled.is_ok() && !room[0].revents().contains(PollFlags::OUT) {
            self.take();
        }
    }

    /// Returns the number of signals since the last call, without waiting.
    pub fn take(&self) -> u64 {
        let mut count = [0; 8];
        let all = &mut [IoSliceMut::new(&mut count)];
        match preadv2(&self.0, all, u64::MAX, ReadWriteFlags::NOWAIT) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }
}

impl From<EventFd> for OwnedFd {
    fn from(fd: EventFd) -> OwnedFd {
        fd.0.into()
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
