//! Interrupts to another process: eventfds, as VFIO and vfio-user hand them out.
//!
//! An eventfd carries an edge, and two things here are levels. A PCI interrupt
//! line stays high until the driver has dealt with the cause, so it is signalled
//! again when the client unmasks it while it is still high; without that a
//! receive ring dies under load. And a message sent while its vector has no
//! eventfd (masked) is kept as a pending bit, and sent when it gets one (PCI
//! local bus specification 3.0, section 6.8.2.9).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Takes the interrupts that a device raises.
pub trait Interrupts {
    /// Interrupt line `n` goes high or low.
    fn set_irq_line(&mut self, n: u16, high: bool);
    /// Message-signalled interrupt `vector` is sent.
    fn message(&mut self, vector: u16);
}

/// One PCI function's interrupts: one line, and some message vectors.
#[derive(Debug, Default)]
pub struct EventFds {
    line: Option<EventFd>,
    high: bool,
    vectors: Vec<Vector>,
    lost: u64,
}

#[derive(Debug, Default)]
struct Vector {
    fd: Option<EventFd>,
    pending: bool,
}

impl EventFds {
    /// A function with a line and `vectors` message vectors, none connected.
    pub fn new(vectors: u16) -> EventFds {
        EventFds {
            vectors: (0..vectors).map(|_| Vector::default()).collect(),
            ..EventFds::default()
        }
    }

    /// Connects the line, or disconnects it. A line that is high is signalled
    /// at once.
    pub fn connect_line(&mut self, fd: Option<EventFd>) {
        self.line = fd;
        self.unmask_line();
    }

    /// The client has dealt with the line's last signal. If the line is still
    /// high, there is another.
    pub fn unmask_line(&mut self) {
        if let (true, Some(fd)) = (self.high, &self.line) {
            fd.signal();
        }
    }

    /// Connects message vector `n`, or disconnects it (masks it). A message that
    /// is pending is sent at once. Whether there is such a vector.
    pub fn connect(&mut self, n: u16, fd: Option<EventFd>) -> bool {
        let Some(vector) = self.vectors.get_mut(usize::from(n)) else { return false };
        vector.fd = fd;
        if let Some(fd) = vector.fd.as_ref().filter(|_| vector.pending) {
            fd.signal();
            vector.pending = false;
        }
        true
    }

    /// Disconnects everything and forgets what is pending, as on a reset.
    pub fn reset(&mut self) {
        *self = EventFds { lost: self.lost, ..EventFds::new(self.vectors.len() as u16) };
    }

    /// Interrupts on lines and vectors that this function does not have.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

impl Interrupts for EventFds {
    fn set_irq_line(&mut self, n: u16, high: bool) {
        if n != 0 {
            self.lost += u64::from(high);
            return;
        }
        let rises = high && !self.high;
        self.high = high;
        if rises {
            self.unmask_line();
        }
    }

    fn message(&mut self, vector: u16) {
        match self.vectors.get_mut(usize::from(vector)) {
            Some(Vector { fd: Some(fd), .. }) => fd.signal(),
            Some(masked) => masked.pending = true,
            None => self.lost += 1,
        }
    }
}

/// A counter that one process adds to and another waits for (`eventfd(2)`).
#[derive(Debug)]
pub struct EventFd(File);

impl EventFd {
    /// A new one, at zero.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn new() -> io::Result<EventFd> {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made the descriptor, and nobody else has it.
        Ok(EventFd(unsafe { File::from_raw_fd(fd) }))
    }

    /// Another descriptor for the same counter.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn try_clone(&self) -> io::Result<EventFd> {
        Ok(EventFd(self.0.try_clone()?))
    }

    /// Adds one.
    pub fn signal(&self) {
        // It fails when the counter is full, and then the other side has not
        // looked since 2^64 - 2 signals: one more tells it nothing. It also fails
        // on a descriptor that is no eventfd, which is its sender's loss.
        let _ = (&self.0).write_all(&1u64.to_ne_bytes());
    }

    /// How many signals there were since the last call. Does not wait.
    pub fn take(&self) -> u64 {
        let mut count = [0; 8];
        match (&self.0).read_exact(&mut count) {
            Ok(()) => u64::from_ne_bytes(count),
            Err(_) => 0,
        }
    }
}

/// One that another process has sent. It is made non-blocking, for both: a signal must
/// not wait, whatever the descriptor is.
impl From<OwnedFd> for EventFd {
    fn from(fd: OwnedFd) -> EventFd {
        // SAFETY: both calls take plain values and a descriptor that `fd` holds open.
        unsafe {
            let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
            libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
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

#[cfg(test)]
mod tests;
