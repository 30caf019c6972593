//! The machine in QEMU as a driver sees it.

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
/// * Time is QEMU's virtual clock. It moves in [`Host::delay`], in [`Host::relax`] (by
///   [`QtestHost::set_turn`]'s span) and in [`QtestHost::step`], not otherwise: CPU work takes
///   none.
/// * The device reaches all of memory at its physical address, whether mapped or not. Mappings are
///   only counted ([`QtestHost::balance`]), and what a device does outside of them goes unnoticed
///   here.
/// * A QEMU that fails in the middle looks to the driver like a card that was pulled out: registers
///   read as ones, writes and stores go nowhere, and time still passes, so that a wait with a limit
///   ends. The error is kept, and [`QtestHost::finish`] gives it.
#[derive(Debug)]
pub struct QtestHost {
    remote: Remote,
    regions: Vec<Region>,
    line: u32,
    now: Time,
    turn: Span,
}

/// Where a register region is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Region {
    /// At a physical address.
    Memory(u64),
    /// At an x86 I/O port.
    Io(u16),
    /// The device has none of this number: reads are ones, writes are lost.
    Absent,
}

/// Where the device's interrupt comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Irq {
    /// The interrupt controller, in QEMU's object model.
    pub controller: &'static str,
    /// Its input.
    pub line: u32,
}

/// What a driver has taken and what it has given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Balance {
    /// Buffers handed out.
    pub buffers: u64,
    /// Buffers given back.
    pub released: u64,
    /// Mappings made.
    pub maps: u64,
    /// Mappings ended.
    pub unmaps: u64,
    /// Coherent areas handed out.
    pub coherent: u64,
    /// Coherent areas given back.
    pub coherent_released: u64,
}

impl Balance {
    /// Whether everything taken was given back.
    pub const fn is_even(&self) -> bool {
        self.buffers == self.released
            && self.maps == self.unmaps
            && self.coherent == self.coherent_released
    }
}

impl QtestHost {
    /// A host on a running QEMU, whose memory in the range `free` nobody else
    /// uses, and whose register regions are these.
    ///
    /// # Errors
    /// When QEMU has no such interrupt controller, or has ended.
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

    /// How much time one turn of a polling loop takes; a microsecond unless told.
    pub fn set_turn(&mut self, turn: Span) {
        self.turn = turn;
    }

    /// Lets time pass, as when the CPU has nothing to do.
    pub fn step(&mut self, by: Span) {
        // Also when QEMU is gone, time passes.
        let then = self.now + Span::from_ps(by.ps().next_multiple_of(1_000));
        self.now = self.remote.attempt(then, |qemu, _| qemu.step(by));
    }

    /// Lets QEMU take what is on the wire.
    pub fn settle(&mut self) {
        self.remote.attempt((), |qemu, _| qemu.settle());
    }

    /// Whether the device's interrupt line is high, frames on the wire considered.
    pub fn interrupt_pending(&mut self) -> bool {
        self.level(self.line)
    }

    /// Whether input `line` of the interrupt controller is high, frames on the wire
    /// considered: for a device with several.
    pub fn level(&mut self, line: u32) -> bool {
        self.settle();
        self.remote.qemu.level(line)
    }

    /// The next change of the device's interrupt line that has not been taken:
    /// whether it rose.
    pub fn take_interrupt(&mut self) -> Option<bool> {
        while let Some(IrqEvent { line, high }) = self.remote.qemu.take_event() {
            if line == self.line {
                return Some(high);
            }
        }
        None
    }

    /// What has been taken and given back so far.
    pub const fn balance(&self) -> Balance {
        self.remote.balance
    }

    /// The first thing that went wrong with QEMU, if anything has.
    pub const fn failed(&self) -> Option<&Error> {
        self.remote.failed.as_ref()
    }

    /// The QEMU itself, for what a driver does not do.
    pub fn qemu(&mut self) -> &mut Qemu {
        &mut self.remote.qemu
    }

    /// Ends QEMU.
    ///
    /// # Errors
    /// The first thing that went wrong with it.
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
