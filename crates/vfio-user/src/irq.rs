//! Interrupts: the eventfds that a client hands out, and what may hold them back.
//!
//! A **line** is a level, and VFIO makes edges of it: it is signalled when it rises,
//! is then masked by itself, and is signalled again at unmask if it is still high.
//! QEMU unmasks at the guest's next access to a BAR. The disable bit of the command
//! register holds it back too. A **message** to a vector that is masked is one pending
//! bit, sent at unmask; one to a vector that nobody has connected is dropped and
//! counted, for there the guest has not enabled it.
//!
//! MSI and MSI-X are never both in use: messages go where anything is connected.

use super::message::{Errno, SetIrqs, irq_set};
use doorbell_host_io::shared::EventFd;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// VFIO's indices of interrupt kinds.
const INTX: u32 = 0;
const MSI: u32 = 1;
const MSIX: u32 = 2;
/// Reports of bus errors. There are none here; that they do not exist is what the kernel says too
/// of a device without them, and QEMU warns of any other answer.
pub(super) const ERRORS: u32 = 3;
/// How many kinds a PCI function has; the last are requests to let go.
pub(super) const KINDS: u32 = 5;

/// Flags of `struct vfio_irq_info`.
const INFO_EVENTFD: u32 = 1;
const INFO_MASKABLE: u32 = 2;
const INFO_AUTOMASKED: u32 = 4;
const INFO_NORESIZE: u32 = 8;

#[derive(Debug, Default)]
struct Vector {
    fd: Option<EventFd>,
    masked: bool,
    pending: bool,
}

impl Vector {
    /// What is pending goes out, if it may.
    fn settle(&mut self) -> bool {
        match &self.fd {
            Some(fd) if self.pending && !self.masked => {
                fd.signal();
                self.pending = false;
                true
            }
            _ => false,
        }
    }
}

/// All interrupts of a function.
#[derive(Debug)]
pub(super) struct Irqs {
    line: Vector,
    has_line: bool,
    high: bool,
    /// The command register's disable bit.
    line_disabled: bool,
    /// Rings when the client has unmasked the line.
    unmask: Option<EventFd>,
    msi: Vec<Vector>,
    msix: Vec<Vector>,
    /// Interrupts that nobody has asked for.
    pub(super) lost: u64,
}

fn vectors(n: u16) -> Vec<Vector> {
    (0..n).map(|_| Vector::default()).collect()
}

impl Irqs {
    pub(super) fn new(has_line: bool, (msi, msix): (u16, u16)) -> Irqs {
        Irqs {
            line: Vector::default(),
            has_line,
            high: false,
            line_disabled: false,
            unmask: None,
            msi: vectors(msi),
            msix: vectors(msix),
            lost: 0,
        }
    }

    /// Flags and count of kind `index`.
    pub(super) fn info(&self, index: u32) -> (u32, u32) {
        match index {
            INTX => (INFO_EVENTFD | INFO_MASKABLE | INFO_AUTOMASKED, self.has_line.into()),
            MSI => (INFO_EVENTFD | INFO_MASKABLE | INFO_NORESIZE, self.msi.len() as u32),
            MSIX => (INFO_EVENTFD | INFO_MASKABLE | INFO_NORESIZE, self.msix.len() as u32),
            _ => (INFO_EVENTFD, 0),
        }
    }

    /// Nobody is connected any more, and nothing is pending.
    pub(super) fn disconnect(&mut self) {
        let lost = self.lost;
        *self = Irqs::new(self.has_line, (self.msi.len() as u16, self.msix.len() as u16));
        self.lost = lost;
    }

    /// The device was reset: its line is low and nothing is pending. Connections stay.
    pub(super) fn forget(&mut self) {
        self.high = false;
        for v in self.msi.iter_mut().chain(&mut self.msix).chain([&mut self.line]) {
            v.pending = false;
        }
    }

    /// The line, as the device has it.
    pub(super) fn is_high(&self) -> bool {
        self.high
    }

    /// Whether the guest was told.
    pub(super) fn set_irq_line(&mut self, high: bool) -> bool {
        if !self.has_line {
            self.lost += u64::from(high);
            return false;
        }
        self.high = high;
        self.show_line()
    }

    pub(super) fn disable_line(&mut self, disabled: bool) {
        self.line_disabled = disabled;
        self.show_line();
    }

    /// Signals the line if it is high and may be.
    fn show_line(&mut self) -> bool {
        if !self.high || self.line_disabled || self.line.masked {
            return false;
        }
        let Some(fd) = &self.line.fd else { return false };
        fd.signal();
        self.line.masked = true;
        true
    }

    /// Whether the guest was told.
    pub(super) fn message(&mut self, vector: u16) -> bool {
        let in_use = |v: &[Vector]| v.iter().any(|v| v.fd.is_some());
        let of = if in_use(&self.msix) { &mut self.msix } else { &mut self.msi };
        match of.get_mut(usize::from(vector)) {
            Some(v) if v.fd.is_some() => {
                v.pending = true;
                v.settle()
            }
            _ => {
                self.lost += 1;
                false
            }
        }
    }

    /// The descriptor that rings when the client unmasks the line.
    pub(super) fn unmask_fd(&self) -> Option<BorrowedFd<'_>> {
        self.unmask.as_ref().map(AsFd::as_fd)
    }

    /// It rang, perhaps.
    pub(super) fn unmasked(&mut self) {
        if self.unmask.as_ref().is_some_and(|fd| fd.take() > 0) {
            self.line.masked = false;
            self.show_line();
        }
    }

    /// Does what the client asks.
    ///
    /// # Errors
    /// EINVAL for a kind or range that does not exist, or flags that contradict each other.
    pub(super) fn set(
        &mut self,
        ask: &SetIrqs,
        data: &[u8],
        mut fds: Vec<OwnedFd>,
    ) -> Result<(), Errno> {
        let (flags, index) = (ask.flags.get(), ask.index.get());
        let (start, count) = (ask.start.get(), ask.count.get());
        let (_, there) = self.info(index);
        let what = flags & (irq_set::DATA_NONE | irq_set::DATA_BOOL | irq_set::DATA_EVENTFD);
        let action = flags & (irq_set::MASK | irq_set::UNMASK | irq_set::TRIGGER);
        let inside = start.checked_add(count).is_some_and(|end| end <= there);
        let fds_fit =
            fds.is_empty() || (what == irq_set::DATA_EVENTFD && fds.len() == count as usize);
        if index >= KINDS
            || !inside
            || what.count_ones() != 1
            || action.count_ones() != 1
            || !fds_fit
        {
            return Err(libc::EINVAL);
        }
        let range = start as usize..(start + count) as usize;
        let of: &mut [Vector] = match index {
            INTX => std::slice::from_mut(&mut self.line),
            MSI => &mut self.msi,
            MSIX => &mut self.msix,
            _ => return Ok(()),
        };
        // All of a kind go at once.
        if what == irq_set::DATA_NONE && action == irq_set::TRIGGER && count == 0 {
            of.fill_with(Vector::default);
            if index == INTX {
                self.unmask = None;
            }
            return Ok(());
        }
        let Some(chosen) = of.get_mut(range) else { return Err(libc::EINVAL) };
        match (what, action) {
            (irq_set::DATA_EVENTFD, irq_set::TRIGGER) => {
                let mut fds = fds.drain(..);
                for v in chosen {
                    v.fd = fds.next().map(EventFd::from);
                    if index == INTX {
                        v.masked = false;
                    } else {
                        v.settle();
                    }
                }
            }
            // The line's unmask may be rung; nothing else is announced by descriptors.
            (irq_set::DATA_EVENTFD, irq_set::UNMASK) if index == INTX => {
                self.unmask = fds.pop().map(EventFd::from);
            }
            (irq_set::DATA_EVENTFD, _) => return Err(libc::EINVAL),
            (_, action) => {
                let wanted = |i: usize| what == irq_set::DATA_NONE || data[i] != 0;
                for v in chosen.iter_mut().enumerate().filter(|(i, _)| wanted(*i)).map(|(_, v)| v) {
                    match action {
                        irq_set::MASK => v.masked = true,
                        irq_set::UNMASK => {
                            v.masked = false;
                            v.settle();
                        }
                        _ => {
                            if let Some(fd) = &v.fd {
                                fd.signal();
                            }
                        }
                    }
                }
            }
        }
        if index == INTX {
            self.show_line();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
