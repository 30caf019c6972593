//! Event file descriptors, as VFIO and vfio-user pass them.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::ioctl_fionbio;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

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

    /// Adds one to the counter.
    pub fn signal(&self) {
        // A full counter has signalled already; a descriptor that is no eventfd is its sender's
        // mistake. Neither needs a report.
        let _ = (&self.0).write_all(&1u64.to_ne_bytes());
    }

    /// Returns the number of signals since the last call, without waiting.
    pub fn take(&self) -> u64 {
        let mut count = [0; 8];
        match (&self.0).read_exact(&mut count) {
            Ok(()) => u64::from_ne_bytes(count),
            Err(_) => 0,
        }
    }
}

/// Takes a descriptor that another process has sent and makes it non-blocking, so that a signal
/// never waits.
impl From<OwnedFd> for EventFd {
    fn from(fd: OwnedFd) -> EventFd {
        // A descriptor that refuses is no eventfd; signals to it are lost.
        let _ = ioctl_fionbio(&fd, true);
        EventFd(File::from(fd))
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
