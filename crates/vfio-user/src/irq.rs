//! Interrupts: the client's eventfds, their masks and pending bits.
//!
//! VFIO signals the **line**, a level, as an edge: once when it rises, which masks it, and again at
//! unmask if it is still high. QEMU unmasks at the guest's next access to a BAR. The disable bit of
//! the command register holds it back too. An **MSI** to a masked vector sets its pending bit,
//! which is sent at unmask. One to a vector without an eventfd, which the guest has not enabled, is
//! dropped and counted. MSI and MSI-X are never both in use: the one with an eventfd is. While MSI
//! is in use a rise of the line is its message 0.

use super::message::{Errno, SetIrqs, irq_set};
use doorbell_hal::fail_if;
use doorbell_host_io::shared::EventFd;
use std::os::fd::{AsFd, BorrowedFd};

/// VFIO's indices of interrupt kinds.
const INTX: u32 = 0;
const MSI: u32 = 1;
const MSIX: u32 = 2;
/// Bus error reports, which this device does not have. The kernel answers EINVAL for such a device,
/// and QEMU warns of any other answer.
pub(super) const ERRORS: u32 = 3;
/// Kinds of interrupts of a PCI function; the last is a request to release the device.
pub(super) const KINDS: u32 = 5;

/// Flags of `struct vfio_irq_info`.
const INFO_EVENTFD: u32 = 1;
const INFO_MASKABLE: u32 = 2;
const INFO_AUTOMASKED: u32 = 4;
const INFO_NORESIZE: u32 = 8;

/// Signals a descriptor, unless an earlier one had to wait: its client is ended soon, and may have
/// as many of them as it has vectors.
fn signal(fd: &EventFd, stuck: &mut bool) {
    *stuck = *stuck || !fd.signal();
}

#[derive(Debug, Default)]
struct Vector {
    fd: Option<EventFd>,
    masked: bool,
    pending: bool,
}

impl Vector {
    /// Signals a pending interrupt unless it is masked. Returns true if it did.
    fn deliver(&mut self, stuck: &mut bool) -> bool {
        match &self.fd {
            Some(fd) if self.pending && !self.masked => {
                signal(fd, stuck);
                self.pending = false;
                true
            }
            _ => false,
        }
    }
}

/// All interrupts of a function.
#[derive(Debug, Default)]
pub(super) struct Irqs {
    line: Vector,
    has_line: bool,
    /// The level of the line.
    pub(super) high: bool,
    /// The command register's disable bit.
    line_disabled: bool,
    /// Signalled by the client to unmask the line.
    unmask: Option<EventFd>,
    msi: Vec<Vector>,
    msix: Vec<Vector>,
    /// Interrupts without an eventfd.
    pub(super) lost: u64,
    /// A signal had to wait for the client.
    pub(super) stuck: bool,
}

fn vectors(n: u16) -> Vec<Vector> {
    (0..n).map(|_| Vector::default()).collect()
}

impl Irqs {
    pub(super) fn new(has_line: bool, (msi, msix): (u16, u16)) -> Irqs {
        Irqs { has_line, msi: vectors(msi), msix: vectors(msix), ..Irqs::default() }
    }

    /// Returns flags and count of kind `index`.
    pub(super) fn info(&self, index: u32) -> (u32, u32) {
        match index {
            INTX => (INFO_EVENTFD | INFO_MASKABLE | INFO_AUTOMASKED, self.has_line.into()),
            MSI => (INFO_EVENTFD | INFO_MASKABLE | INFO_NORESIZE, self.msi.len() as u32),
            MSIX => (INFO_EVENTFD | INFO_MASKABLE | INFO_NORESIZE, self.msix.len() as u32),
            _ => (INFO_EVENTFD, 0),
        }
    }

    /// Drops all eventfds and pending interrupts.
    pub(super) fn disconnect(&mut self) {
        let vectors = (self.msi.len() as u16, self.msix.len() as u16);
        *self = Irqs { lost: self.lost, ..Irqs::new(self.has_line, vectors) };
    }

    /// Lowers the line and clears pending bits, as a device reset does. Eventfds stay.
    pub(super) fn clear_pending(&mut self) {
        self.high = false;
        for v in self.msi.iter_mut().chain(&mut self.msix).chain([&mut self.line]) {
            v.pending = false;
        }
    }

    /// Sets the level of the line. Returns true if that signalled the guest.
    pub(super) fn set_irq_line(&mut self, high: bool) -> bool {
        if !self.has_line {
            self.lost += u64::from(high);
            return false;
        }
        self.high = high;
        self.signal_line()
    }

    /// Returns true if a rise of the line is a message: MSI is in use.
    pub(super) fn line_is_message(&self) -> bool {
        self.has_line && self.msi.first().is_some_and(|v| v.fd.is_some())
    }

    pub(super) fn disable_line(&mut self, disabled: bool) {
        self.line_disabled = disabled;
        self.signal_line();
    }

    /// Signals and masks the line if it is high and neither disabled nor masked. Returns true if it
    /// did.
    fn signal_line(&mut self) -> bool {
        if !self.high || self.line_disabled || self.line.masked {
            return false;
        }
        let Some(fd) = &self.line.fd else { return false };
        signal(fd, &mut self.stuck);
        self.line.masked = true;
        true
    }

    /// Sends an MSI. Returns true if that signalled the guest.
    pub(super) fn raise_msi(&mut self, vector: u16) -> bool {
        let in_use = |v: &[Vector]| v.iter().any(|v| v.fd.is_some());
        let of = if in_use(&self.msix) { &mut self.msix } else { &mut self.msi };
        match of.get_mut(usize::from(vector)) {
            Some(v) if v.fd.is_some() => {
                v.pending = true;
                v.deliver(&mut self.stuck)
            }
            _ => {
                self.lost += 1;
                false
            }
        }
    }

    /// Returns the eventfd by which the client unmasks the line.
    pub(super) fn unmask_fd(&self) -> Option<BorrowedFd<'_>> {
        self.unmask.as_ref().map(AsFd::as_fd)
    }

    /// Unmasks the line if the client has signalled it.
    pub(super) fn check_unmask(&mut self) {
        if self.unmask.as_ref().is_some_and(|fd| fd.take() > 0) {
            self.line.masked = false;
            self.signal_line();
        }
    }

    /// Carries out a `SET_IRQS` request; EINVAL if the kind or range does not exist, or flags
    /// contradict each other.
    pub(super) fn set(
        &mut self,
        ask: &SetIrqs,
        data: &[u8],
        mut fds: Vec<EventFd>,
    ) -> Result<(), Errno> {
        let (flags, index) = (ask.flags.get(), ask.index.get());
        let (start, count) = (ask.start.get(), ask.count.get());
        let (_, there) = self.info(index);
        let what = flags & (irq_set::DATA_NONE | irq_set::DATA_BOOL | irq_set::DATA_EVENTFD);
        let action = flags & (irq_set::MASK | irq_set::UNMASK | irq_set::TRIGGER);
        let inside = start.checked_add(count).is_some_and(|end| end <= there);
        let fds_fit =
            fds.is_empty() || (what == irq_set::DATA_EVENTFD && fds.len() == count as usize);
        let sensible = what.count_ones() == 1 && action.count_ones() == 1;
        fail_if(index >= KINDS || !inside || !sensible || !fds_fit, libc::EINVAL)?;
        let range = start as usize..(start + count) as usize;
        let of: &mut [Vector] = match index {
            INTX => std::slice::from_mut(&mut self.line),
            MSI => &mut self.msi,
            MSIX => &mut self.msix,
            _ => return Ok(()),
        };
        // Disables all of a kind.
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
                    v.fd = fds.next();
                    if index == INTX {
                        v.masked = false;
                    } else {
                        v.deliver(&mut self.stuck);
                    }
                }
            }
            // Only the line's unmask has an eventfd besides triggers.
            (irq_set::DATA_EVENTFD, irq_set::UNMASK) if index == INTX => {
                self.unmask = fds.pop();
            }
            (irq_set::DATA_EVENTFD, _) => return Err(libc::EINVAL),
            (_, action) => {
                let wanted = |i: usize| what == irq_set::DATA_NONE || data[i] != 0;
                for v in chosen.iter_mut().enumerate().filter(|(i, _)| wanted(*i)).map(|(_, v)| v) {
                    match action {
                        irq_set::MASK => v.masked = true,
                        irq_set::UNMASK => {
                            v.masked = false;
                            v.deliver(&mut self.stuck);
                        }
                        _ => {
                            if let Some(fd) = &v.fd {
                                signal(fd, &mut self.stuck);
                            }
                        }
                    }
                }
            }
        }
        if index == INTX {
            self.signal_line();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
