//! The device's port: the client's memory, its interrupts, and an observer.
//!
//! Memory with a descriptor is mapped ([`Regions`]), and a DMA is a copy; other memory is remote,
//! reached by messages. An access may span both kinds. It is checked as a whole before any of it is
//! made, except that a message can fail halfway.
//!
//! Without bus mastering, in D3hot or without a client each access is a [`DmaFault`], as for an
//! unmapped address.

use super::channel::{Channel, ConnectionError};
use super::{irq::Irqs, message::Errno};
use doorbell_hal::{DmaFault, DmaFaultKind, Iova, Port, Reg, Time, fail_if, transfer_units};
use doorbell_host_io::shared::reaper::{Reaped, free};
use doorbell_host_io::shared::{Access, RegionError, Regions, Window};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{cell::RefCell, fs::File, io, rc::Rc, sync::Arc};

/// A crossing between guest and device.
#[derive(Clone, Copy, Debug)]
pub enum Crossing<'a> {
    /// The device has read so many bytes of guest memory.
    DmaRead(Iova, u32),
    /// The device has written so many bytes of guest memory.
    DmaWrite(Iova, u32),
    /// An access of the device has failed.
    Fault(DmaFault),
    /// The guest has read a register: its size and value.
    RegisterRead(Reg, u8, u64),
    /// The guest has written a register, with a VM exit (`true`) or in a polled page.
    RegisterWrite(Reg, u8, u64, bool),
    /// The interrupt line was raised or lowered.
    Line(bool),
    /// A message-signalled interrupt was sent.
    Message(u16),
    /// The device has sent a frame, without FCS.
    Frame(&'a [u8]),
}

/// Observes every crossing between guest and device, and takes the frames.
pub trait Observer {
    /// Something has crossed, at a time of the server's clock.
    fn crossed(&mut self, at: Time, what: Crossing<'_>);
}

impl<W: Observer> Observer for Rc<RefCell<W>> {
    fn crossed(&mut self, at: Time, what: Crossing<'_>) {
        self.borrow_mut().crossed(at, what);
    }
}

/// Returns the most mappings of one client: half of those that the system allows a process, so that
/// the server has room for its own memory.
fn max_maps() -> usize {
    let allowed = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    let allowed = allowed.and_then(|text| text.trim().parse().ok());
    (allowed.unwrap_or(DEFAULT_MAX_MAP_COUNT) / 2).min(MAX_MAPS)
}

/// Linux's default of `vm.max_map_count`.
const DEFAULT_MAX_MAP_COUNT: usize = 65_530;
/// The most bytes of a client's mappings. With those of former clients that are not yet freed they
/// leave the process half of its addresses. Sparse memory of any length costs its owner nothing.
const MAX_MAPPED: u64 = 1 << 42;
/// The most mappings even if the system allows more.
const MAX_MAPS: usize = 32_768;

/// The most mappings of a former client that are freed later.
const MAX_LEFT: usize = 256;

/// The work that a device may do for a guest in a turn of the server, so that the turn ends, in the
/// units of [`Port::charge`].
///
/// It is spent when it is used up. What was begun before ends beyond it; that is a debt, which the
/// next turns pay, so that over many turns no guest has more than its share. Writes to the guest's
/// memory cost nothing, since others cause them by their frames; the sender pays for those.
#[derive(Debug)]
pub struct Share {
    left: i64,
    /// All work so far.
    work: u64,
    /// Spends all shares, because the server stops.
    stop: Arc<AtomicBool>,
}

impl Share {
    /// Units of a device with one client: some milliseconds.
    pub const ALONE: u64 = 1 << 18;
    /// Units of all guests of a device together: some hundred microseconds.
    pub const TOGETHER: u64 = 1 << 15;
    /// Units of an access to a register.
    pub(super) const ACCESS: u64 = 16;

    /// Returns a share that lasts until the first turn begins. `stop` ends this one and all later.
    pub fn new(stop: Arc<AtomicBool>) -> Share {
        Share { left: i64::MAX, work: 0, stop }
    }

    /// Begins a turn with so many units, less those of a debt.
    pub fn begin_turn(&mut self, units: u64) {
        let units = units as i64;
        self.left = self.left.saturating_add(units).min(units);
    }

    /// Begins a turn of one of `guests` guests of a device.
    pub fn begin_turn_among(&mut self, guests: usize) {
        self.begin_turn((Share::TOGETHER / guests.max(1) as u64).max(1));
    }

    /// Takes units.
    #[inline(always)]
    pub fn charge(&mut self, units: u64) {
        self.work = self.work.wrapping_add(units);
        self.left = self.left.saturating_sub_unsigned(units);
    }

    /// Returns true if nothing is left, or the server stops.
    #[inline(always)]
    pub fn is_spent(&self) -> bool {
        self.left <= 0 || self.stop.load(Ordering::Relaxed)
    }

    /// Returns all work so far.
    pub fn work(&self) -> u64 {
        self.work
    }
}

/// A served device's port.
#[derive(Debug)]
pub struct GuestPort<W> {
    memory: Regions,
    pub(super) channel: Option<Channel>,
    pub(super) irqs: Irqs,
    /// Bus mastering is on, and the function is in D0.
    pub(super) bus_master: bool,
    /// Accesses that a client's device tried without it.
    pub(super) without_master: u64,
    /// The most mappings.
    pub(super) max_maps: usize,
    /// Memory is allocated when it is mapped.
    pub(super) populate: bool,
    pub(super) share: Share,
    /// Observes every crossing.
    pub observer: W,
}

impl<W: Observer> GuestPort<W> {
    pub(super) fn new(irqs: Irqs, observer: W) -> GuestPort<W> {
        GuestPort {
            memory: Regions::new(),
            channel: None,
            irqs,
            bus_master: false,
            without_master: 0,
            max_maps: max_maps(),
            populate: false,
            share: Share::new(Arc::default()),
            observer,
        }
    }

    /// Begins a turn, with a new share.
    pub(super) fn begin_turn(&mut self) {
        self.share.begin_turn(Share::ALONE);
    }

    /// Reads memory as the device would, but unobserved. Returns true if the device could read it.
    pub fn peek(&mut self, from: Iova, into: &mut [u8]) -> bool {
        self.share.charge(transfer_units(into.len()));
        self.fetch(from, into).is_ok()
    }

    fn fetch(&mut self, from: Iova, into: &mut [u8]) -> Result<(), DmaFault> {
        self.check_bus_master(from)?;
        let (channel, bus_master) = (&mut self.channel, &mut self.bus_master);
        self.memory.access(from, into.len(), false, |at, memory, part| {
            let into = &mut into[part];
            match memory {
                Some((window, offset)) => {
                    window.read(offset, into) || end_without_memory(channel, bus_master)
                }
                None => channel.as_mut().is_some_and(|c| c.dma_read(at.0, into)),
            }
        })
    }

    fn store(&mut self, to: Iova, from: &[u8]) -> Result<(), DmaFault> {
        self.check_bus_master(to)?;
        let (channel, bus_master) = (&mut self.channel, &mut self.bus_master);
        self.memory.access(to, from.len(), true, |at, memory, part| {
            let from = &from[part];
            match memory {
                Some((window, offset)) => {
                    window.write(offset, from) || end_without_memory(channel, bus_master)
                }
                None => channel.as_mut().is_some_and(|c| c.dma_write(at.0, from)),
            }
        })
    }

    /// Returns the work that was charged so far, in the units of [`Port::charge`].
    pub fn work(&self) -> u64 {
        self.share.work()
    }

    /// Returns the number of the client's mappings.
    pub fn maps(&self) -> usize {
        self.memory.len()
    }

    /// Drops the client with its memory and eventfds.
    pub(super) fn disconnect(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        // Few enough that a new client has room for its own.
        if (1..=MAX_LEFT).contains(&memory.len()) {
            free(memory);
        }
        self.channel = None;
        self.irqs.disconnect();
        self.bus_master = false;
    }

    pub(super) fn map(
        &mut self,
        at: u64,
        size: u64,
        access: Access,
        file: Option<Reaped<File>>,
        offset: u64,
    ) -> Result<(), Errno> {
        let len = usize::try_from(size).map_err(|_| libc::EINVAL)?;
        fail_if(self.maps() >= self.max_maps, libc::ENOSPC)?;
        let room = MAX_MAPPED.saturating_sub(self.memory.mapped());
        fail_if(file.is_some() && size > room, libc::ENOSPC)?;
        let done = match file {
            Some(file) => {
                let errno = |e: io::Error| e.raw_os_error().unwrap_or(libc::EINVAL);
                let window = Window::map(&file, offset, len, access.write).map_err(errno)?;
                if self.populate {
                    window.populate().map_err(errno)?;
                }
                self.memory.map(Iova(at), window, access)
            }
            None => self.memory.map_remote(Iova(at), size, access),
        };
        done.map_err(|e| if e == RegionError::Overlaps { libc::EEXIST } else { libc::EINVAL })
    }

    /// Removes the mappings that make up a range.
    pub(super) fn unmap(&mut self, at: u64, size: u64) -> Result<(), Errno> {
        match self.memory.unmap(Iova(at), size) {
            Ok(_) => Ok(()),
            Err(RegionError::NotMapped) => Err(libc::ENOENT),
            Err(_) => Err(libc::EINVAL),
        }
    }

    pub(super) fn unmap_all(&mut self) {
        self.memory.clear();
    }

    /// Counts an access that is tried without bus mastering.
    fn count_master(&mut self) {
        self.without_master += u64::from(!self.bus_master && self.channel.is_some());
    }

    fn check_bus_master(&self, at: Iova) -> Result<(), DmaFault> {
        fail_if(!self.bus_master, DmaFault { at, kind: DmaFaultKind::Unmapped })
    }
}

/// Ends a client whose memory is gone: no further access reaches it. Returns false.
#[cold]
fn end_without_memory(channel: &mut Option<Channel>, bus_master: &mut bool) -> bool {
    *bus_master = false;
    if let Some(c) = channel {
        c.broken.get_or_insert(ConnectionError::Memory);
    }
    false
}

impl<W: Observer> Port for GuestPort<W> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.share.charge(transfer_units(into.len()));
        self.count_master();
        let done = self.fetch(from, into);
        let read = |()| Crossing::DmaRead(from, into.len() as u32);
        self.observer.crossed(at, done.map_or_else(Crossing::Fault, read));
        done.map(|()| at)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        self.count_master();
        let done = self.store(to, from);
        let written = |()| Crossing::DmaWrite(to, from.len() as u32);
        self.observer.crossed(at, done.map_or_else(Crossing::Fault, written));
        done.map(|()| at)
    }

    #[inline(always)]
    fn charge(&mut self, units: u64) {
        self.share.charge(units);
    }

    #[inline(always)]
    fn is_spent(&self) -> bool {
        self.share.is_spent()
    }

    fn set_irq_line(&mut self, at: Time, n: u16, high: bool) {
        if n != 0 {
            self.irqs.lost += u64::from(high);
            return;
        }
        if self.irqs.line_is_message() {
            let was_high = core::mem::replace(&mut self.irqs.high, high);
            if high && !was_high {
                self.raise_msi(at, 0);
            }
            return;
        }
        self.observer.crossed(at, Crossing::Line(high));
        self.irqs.set_irq_line(high);
    }

    fn raise_msi(&mut self, at: Time, vector: u16) {
        // An MSI is a memory write and needs bus mastering.
        if self.bus_master {
            self.observer.crossed(at, Crossing::Message(vector));
            self.irqs.raise_msi(vector);
        }
    }

    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.observer.crossed(at, Crossing::Frame(frame));
    }
}
