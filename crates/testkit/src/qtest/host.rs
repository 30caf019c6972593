//! The machine in QEMU as a [`Host`].

use super::remote::{Remote, remote_memory};
use super::{Error, IrqEvent, Qemu, Ram};
use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Direction, Fence, Host, MapError, Mapped, OutOfMemory, Reg,
    Span, Time,
};
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A [`Host`] whose device and memory are in a QEMU under qtest.
///
/// * Time is QEMU's virtual clock, which advances only in [`Host::delay`], [`Host::relax`] (by the
///   span of [`QtestHost::set_turn`]) and [`QtestHost::step`].
/// * The device reaches all of memory at its physical address. Mappings are only counted
///   ([`QtestHost::balance`]), so accesses outside of them are not detected.
/// * A failed QEMU looks like a removed card: registers read as ones, writes are lost, and time
///   still passes, so that timeouts end. [`QtestHost::finish`] returns the error.
#[derive(Debug)]
pub struct QtestHost {
    remote: Remote,
    regions: Vec<Region>,
    line: u32,
    now: Time,
    turn: Span,
}

/// The place of a register region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Region {
    /// At a physical address.
    Memory(u64),
    /// At an x86 I/O port.
    Io(u16),
    /// No such region: reads are ones, writes are lost.
    Absent,
}

/// The interrupt input of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Irq {
    /// The interrupt controller, in QEMU's object model.
    pub controller: &'static str,
    /// The controller's input.
    pub line: u32,
}

/// Counts of a driver's allocations and mappings, and of their releases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Balance {
    /// Buffers allocated.
    pub buffers: u64,
    /// Buffers released.
    pub released: u64,
    /// Mappings made.
    pub maps: u64,
    /// Mappings ended.
    pub unmaps: u64,
    /// Coherent areas allocated.
    pub coherent: u64,
    /// Coherent areas released.
    pub coherent_released: u64,
}

impl Balance {
    /// Returns true if everything was released.
    pub const fn is_even(&self) -> bool {
        self.buffers == self.released
            && self.maps == self.unmaps
            && self.coherent == self.coherent_released
    }
}

impl QtestHost {
    /// Creates a host on a running QEMU that allocates memory in `free`.
    ///
    /// # Errors
    /// If QEMU has no such interrupt controller, or has ended.
    pub fn new(
        mut qemu: Qemu,
        ram: Ram,
        free: Range<u64>,
        regions: Vec<Region>,
        irq: Irq,
    ) -> Result<QtestHost, Error> {
        qemu.intercept(irq.controller)?;
        let now = qemu.step(Span::ZERO)?;
        let remote = Remote::new(qemu, ram, free);
        Ok(QtestHost { remote, regions, line: irq.line, now, turn: Span::from_us(1) })
    }

    /// Sets the time that one turn of a polling loop takes; the default is 1 us.
    pub fn set_turn(&mut self, turn: Span) {
        self.turn = turn;
    }

    /// Advances time, as an idle CPU does.
    pub fn step(&mut self, by: Span) {
        // Time passes without QEMU, too.
        let then = self.now + Span::from_ps(by.ps().next_multiple_of(1_000));
        self.now = self.remote.attempt(then, |qemu, _| qemu.step(by));
    }

    /// Lets QEMU receive the frames on the wire.
    pub fn settle(&mut self) {
        self.remote.attempt((), |qemu, _| qemu.settle());
    }

    /// Returns the level of the device's interrupt line after QEMU has received all frames.
    pub fn interrupt_pending(&mut self) -> bool {
        self.level(self.line)
    }

    /// Returns the level of input `line` of the interrupt controller after QEMU has received all
    /// frames.
    pub fn level(&mut self, line: u32) -> bool {
        self.settle();
        self.remote.qemu.level(line)
    }

    /// Takes the next queued change of the device's interrupt line and returns the new level.
    pub fn take_interrupt(&mut self) -> Option<bool> {
        while let Some(IrqEvent { line, high }) = self.remote.qemu.take_event() {
            if line == self.line {
                return Some(high);
            }
        }
        None
    }

    /// Returns the counts so far.
    pub const fn balance(&self) -> Balance {
        self.remote.balance
    }

    /// Returns the first error of QEMU, if there was one.
    pub const fn failed(&self) -> Option<&Error> {
        self.remote.failed.as_ref()
    }

    /// Returns the QEMU, for actions outside a driver.
    pub fn qemu(&mut self) -> &mut Qemu {
        &mut self.remote.qemu
    }

    /// Ends QEMU.
    ///
    /// # Errors
    /// Its first error.
    pub fn finish(self) -> Result<Balance, Error> {
        self.remote.finish()
    }

    fn region(&self, r: Reg) -> Region {
        match self.regions.get(usize::from(r.region)).copied().unwrap_or(Region::Absent) {
            Region::Memory(base) => Region::Memory(base + u64::from(r.offset)),
            Region::Io(base) => Region::Io(base.wrapping_add(r.offset as u16)),
            Region::Absent => Region::Absent,
        }
    }
}

impl Host for QtestHost {
    fn read32(&mut self, r: Reg) -> u32 {
        match self.region(r) {
            Region::Memory(at) => self.remote.attempt(!0, |qemu, _| qemu.read32(at)),
            Region::Io(at) => self.remote.attempt(!0, |qemu, _| qemu.in32(at)),
            Region::Absent => !0,
        }
    }

    fn write32(&mut self, r: Reg, v: u32) {
        match self.region(r) {
            Region::Memory(at) => self.remote.attempt((), |qemu, _| qemu.write32(at, v)),
            Region::Io(at) => self.remote.attempt((), |qemu, _| qemu.out32(at, v)),
            Region::Absent => {}
        }
    }

    fn write64(&mut self, r: Reg, v: u64) {
        match self.region(r) {
            Region::Memory(at) => self.remote.attempt((), |qemu, _| qemu.write64(at, v)),
            // There is no 64-bit I/O cycle.
            Region::Io(_) | Region::Absent => {}
        }
    }

    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError> {
        self.remote.map(b, range, dir)
    }

    fn unmap(&mut self, m: Mapped) -> Buf {
        self.remote.unmap(m)
    }

    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, OutOfMemory> {
        self.remote.coherent(len, align)
    }

    fn release_coherent(&mut self, c: Coherent) {
        self.remote.release_coherent(c);
    }

    fn relax(&mut self) {
        self.step(self.turn);
    }

    fn delay(&mut self, d: Span) {
        self.step(d);
    }

    remote_memory!();
}
