//! The device's port: the client's memory, its interrupts, and an observer.
//!
//! Memory with a descriptor is mapped ([`Regions`]), and a DMA is a copy; other memory is reached
//! by messages. An access may span both kinds. It is checked as a whole before any of it is made,
//! except that a message can fail halfway.
//!
//! Without bus mastering, in D3hot or without a client each access is a [`DmaFault`], as for an
//! unmapped address.

use super::{channel::Channel, irq::Irqs, message::Errno};
use doorbell_hal::{DmaFault, DmaFaultKind, Iova, Port, Reg, Time, fail_if};
use doorbell_host_io::shared::{Access, RegionError, Regions, Window};
use std::{fs::File, os::fd::OwnedFd};

/// Observes every crossing between guest and device, and takes the frames. Times are those of the
/// server's clock.
pub trait Observer {
    /// The device has read `len` bytes of guest memory.
    fn dma_read(&mut self, at: Time, from: Iova, len: u32);
    /// The device has written `len` bytes of guest memory.
    fn dma_write(&mut self, at: Time, to: Iova, len: u32);
    /// An access of the device has failed.
    fn fault(&mut self, at: Time, fault: &DmaFault);
    /// The guest has read `v` from a register.
    fn register_read(&mut self, at: Time, r: Reg, size: u8, v: u64);
    /// The guest has written a register, with a VM exit (`trapped`) or in a polled page.
    fn register_write(&mut self, at: Time, r: Reg, size: u8, v: u64, trapped: bool);
    /// The interrupt line was raised or lowered.
    fn line(&mut self, at: Time, high: bool);
    /// A message-signalled interrupt was sent.
    fn raise_msi(&mut self, at: Time, vector: u16);
    /// The device has sent a frame, without FCS.
    fn frame(&mut self, at: Time, frame: &[u8]);
}

/// Memory that is reached by messages.
#[derive(Debug)]
struct Remote {
    first: u64,
    /// Inclusive.
    last: u64,
    access: Access,
}

/// The most mappings of one client, the protocol's default.
const MAX_MAPS: usize = 65535;

/// A served device's port.
#[derive(Debug)]
pub struct GuestPort<W> {
    memory: Regions,
    remote: Vec<Remote>,
    pub(super) channel: Option<Channel>,
    pub(super) irqs: Irqs,
    /// Bus mastering is on, and the function is in D0.
    pub(super) bus_master: bool,
    /// Observes every crossing.
    pub observer: W,
}

/// A part of an access, in memory of one kind.
struct Part {
    at: u64,
    bytes: core::ops::Range<usize>,
    remote: bool,
}

const fn unmapped(at: Iova) -> DmaFault {
    DmaFault { at, kind: DmaFaultKind::Unmapped }
}

impl<W: Observer> GuestPort<W> {
    pub(super) fn new(irqs: Irqs, observer: W) -> GuestPort<W> {
        let (memory, remote) = (Regions::new(), Vec::new());
        GuestPort { memory, remote, channel: None, irqs, bus_master: false, observer }
    }

    /// Reads memory as the device would, but unobserved. Returns true if the device could read it.
    pub fn peek(&mut self, from: Iova, into: &mut [u8]) -> bool {
        self.fetch(from, into).is_ok()
    }

    fn fetch(&mut self, from: Iova, into: &mut [u8]) -> Result<(), DmaFault> {
        self.check_bus_master(from)?;
        match self.memory.read(from, into) {
            Err(_) if !self.remote.is_empty() => self.read_in_parts(from, into),
            other => other,
        }
    }

    /// Returns the number of the client's mappings.
    pub fn maps(&self) -> usize {
        self.memory.len() + self.remote.len()
    }

    /// Drops the client with its memory and eventfds.
    pub(super) fn disconnect(&mut self) {
        self.memory.clear();
        self.remote.clear();
        self.channel = None;
        self.irqs.disconnect();
        self.bus_master = false;
    }

    pub(super) fn map(
        &mut self,
        at: u64,
        size: u64,
        access: Access,
        fd: Option<OwnedFd>,
        offset: u64,
    ) -> Result<(), Errno> {
        let last = size.checked_sub(1).and_then(|n| at.checked_add(n)).ok_or(libc::EINVAL)?;
        let len = usize::try_from(size).map_err(|_| libc::EINVAL)?;
        fail_if(self.maps() >= MAX_MAPS, libc::ENOSPC)?;
        fail_if(self.remote.iter().any(|r| r.first <= last && at <= r.last), libc::EEXIST)?;
        let Some(fd) = fd else {
            fail_if(self.memory.touches(Iova(at), size), libc::EEXIST)?;
            self.remote.push(Remote { first: at, last, access });
            return Ok(());
        };
        let window = Window::map(&File::from(fd), offset, len, access.write)
            .map_err(|e| e.raw_os_error().unwrap_or(libc::EINVAL))?;
        self.memory.map(Iova(at), window, access).map_err(|e| match e {
            RegionError::Overlaps => libc::EEXIST,
            _ => libc::EINVAL,
        })
    }

    /// Removes the mappings that make up a range.
    pub(super) fn unmap(&mut self, at: u64, size: u64) -> Result<(), Errno> {
        let last = size.checked_sub(1).and_then(|n| at.checked_add(n)).ok_or(libc::EINVAL)?;
        let touched = |r: &Remote| r.first <= last && at <= r.last;
        if self.remote.iter().any(|r| touched(r) && (r.first < at || r.last > last)) {
            return Err(libc::EINVAL);
        }
        let mapped = match self.memory.unmap(Iova(at), size) {
            Ok(_) => true,
            Err(RegionError::NotMapped) => false,
            Err(_) => return Err(libc::EINVAL),
        };
        let before = self.remote.len();
        self.remote.retain(|r| !touched(r));
        if mapped || self.remote.len() < before { Ok(()) } else { Err(libc::ENOENT) }
    }

    pub(super) fn unmap_all(&mut self) {
        self.memory.clear();
        self.remote.clear();
    }

    fn check_bus_master(&self, at: Iova) -> Result<(), DmaFault> {
        if self.bus_master { Ok(()) } else { Err(unmapped(at)) }
    }

    /// Splits an access at the borders between mapped and remote memory.
    #[cold]
    fn parts(&self, at: Iova, len: usize, write: bool) -> Result<Vec<Part>, DmaFault> {
        let mut parts = Vec::new();
        let mut done = 0;
        while done < len {
            let here = Iova(at.0.wrapping_add(done as u64));
            let fault = match self.memory.check_access(here, len - done, write) {
                Ok(()) => {
                    parts.push(Part { at: here.0, bytes: done..len, remote: false });
                    break;
                }
                Err(fault) => fault,
            };
            let reached = (fault.at.0 - here.0) as usize;
            if reached > 0 {
                parts.push(Part { at: here.0, bytes: done..done + reached, remote: false });
                done += reached;
            }
            let next = fault.at.0;
            let r = self.remote.iter().find(|r| r.first <= next && next <= r.last).ok_or(fault)?;
            if !(if write { r.access.write } else { r.access.read }) {
                return Err(DmaFault { at: fault.at, kind: DmaFaultKind::Direction });
            }
            let n = ((len - done - 1) as u64).min(r.last - next) as usize + 1;
            parts.push(Part { at: next, bytes: done..done + n, remote: true });
            done += n;
            // An access does not wrap.
            if done < len && next.checked_add(n as u64).is_none() {
                return Err(unmapped(Iova(0)));
            }
        }
        Ok(parts)
    }

    #[cold]
    fn read_in_parts(&mut self, at: Iova, into: &mut [u8]) -> Result<(), DmaFault> {
        self.parts(at, into.len(), false)?.into_iter().try_for_each(|p| {
            let done = match &mut self.channel {
                _ if !p.remote => self.memory.read(Iova(p.at), &mut into[p.bytes]).is_ok(),
                Some(c) => c.dma_read(p.at, &mut into[p.bytes]),
                None => false,
            };
            done.then_some(()).ok_or(unmapped(Iova(p.at)))
        })
    }

    #[cold]
    fn write_in_parts(&mut self, at: Iova, from: &[u8]) -> Result<(), DmaFault> {
        self.parts(at, from.len(), true)?.into_iter().try_for_each(|p| {
            let done = match &mut self.channel {
                _ if !p.remote => self.memory.write(Iova(p.at), &from[p.bytes]).is_ok(),
                Some(c) => c.dma_write(p.at, &from[p.bytes]),
                None => false,
            };
            done.then_some(()).ok_or(unmapped(Iova(p.at)))
        })
    }
}

impl<W: Observer> Port for GuestPort<W> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        let done = self.fetch(from, into);
        match &done {
            Ok(()) => self.observer.dma_read(at, from, into.len() as u32),
            Err(fault) => self.observer.fault(at, fault),
        }
        done.map(|()| at)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let done = self.check_bus_master(to).and_then(|()| match self.memory.write(to, from) {
            Err(_) if !self.remote.is_empty() => self.write_in_parts(to, from),
            other => other,
        });
        match &done {
            Ok(()) => self.observer.dma_write(at, to, from.len() as u32),
            Err(fault) => self.observer.fault(at, fault),
        }
        done.map(|()| at)
    }

    fn set_irq_line(&mut self, at: Time, n: u16, high: bool) {
        if n != 0 {
            self.irqs.lost += u64::from(high);
            return;
        }
        self.observer.line(at, high);
        self.irqs.set_irq_line(high);
    }

    fn raise_msi(&mut self, at: Time, vector: u16) {
        // An MSI is a memory write and needs bus mastering.
        if self.bus_master {
            self.observer.raise_msi(at, vector);
            self.irqs.raise_msi(vector);
        }
    }

    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.observer.frame(at, frame);
    }
}
