//! The machine in QEMU as a driver sees it.

use super::heap::Heap;
use super::{Error, IrqEvent, Qemu, Ram};
use doorbell_seam::{
    Buf, Coherent, Direction, Exhausted, Fence, Host, Iova, MapError, MapFault, Mapped, Place, Reg, Span, Time, Work,
};
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A [`Host`] whose device and memory are in a QEMU under qtest.
///
/// * Time is QEMU's virtual clock. It moves in [`Host::delay`], in
///   [`Host::relax`] (by [`QtestHost::set_turn`]'s span) and in [`QtestHost::step`], not
///   otherwise: CPU work takes none.
/// * The device reaches all of memory at its physical address, whether mapped
///   or not. Mappings are only counted ([`QtestHost::balance`]), and what a device
///   does outside of them goes unnoticed here.
/// * A QEMU that fails in the middle looks to the driver like a card that was
///   pulled out: registers read as ones, writes and stores go nowhere, and time
///   still passes, so that a wait with a limit ends. The error is kept, and
///   [`QtestHost::finish`] gives it.
#[derive(Debug)]
pub struct QtestHost {
    qemu: Qemu,
    ram: Ram,
    heap: Heap,
    regions: Vec<Region>,
    line: u32,
    now: Time,
    turn: Span,
    balance: Balance,
    /// Serves `bytes`, `load` and `store`.
    scratch: Vec<u8>,
    failed: Option<Error>,
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
        self.buffers == self.released && self.maps == self.unmaps && self.coherent == self.coherent_released
    }
}

impl QtestHost {
    /// A host on a running QEMU, whose memory in the range `free` nobody else
    /// uses, and whose register regions are these.
    ///
    /// # Errors
    /// When QEMU has no such interrupt controller, or has ended.
    pub fn new(mut qemu: Qemu, ram: Ram, free: Range<u64>, regions: Vec<Region>, irq: Irq) -> Result<QtestHost, Error> {
        qemu.intercept(irq.controller)?;
        let now = qemu.step(Span::ZERO)?;
        Ok(QtestHost {
            qemu,
            ram,
            heap: Heap::new(free),
            regions,
            line: irq.line,
            now,
            turn: Span::from_us(1),
            balance: Balance::default(),
            scratch: Vec::new(),
            failed: None,
        })
    }

    /// How much time one turn of a polling loop takes; a microsecond unless told.
    pub fn set_turn(&mut self, turn: Span) {
        self.turn = turn;
    }

    /// Lets time pass, as when the CPU has nothing to do.
    pub fn step(&mut self, by: Span) {
        // Also when QEMU is gone, time passes.
        let then = self.now + Span::from_ps(by.ps().next_multiple_of(1_000));
        self.now = self.attempt(then, |qemu, _| qemu.step(by));
    }

    /// Lets QEMU take what is on the wire.
    pub fn settle(&mut self) {
        self.attempt((), |qemu, _| qemu.settle());
    }

    /// Whether the device's interrupt line is high, frames on the wire considered.
    pub fn interrupt_pending(&mut self) -> bool {
        self.level(self.line)
    }

    /// Whether input `line` of the interrupt controller is high, frames on the wire
    /// considered: for a device with several.
    pub fn level(&mut self, line: u32) -> bool {
        self.settle();
        self.qemu.level(line)
    }

    /// The next change of the device's interrupt line that has not been taken:
    /// whether it rose.
    pub fn take_interrupt(&mut self) -> Option<bool> {
        while let Some(IrqEvent { line, high }) = self.qemu.take_event() {
            if line == self.line {
                return Some(high);
            }
        }
        None
    }

    /// What has been taken and given back so far.
    pub const fn balance(&self) -> Balance {
        self.balance
    }

    /// The first thing that went wrong with QEMU, if anything has.
    pub const fn failed(&self) -> Option<&Error> {
        self.failed.as_ref()
    }

    /// The QEMU itself, for what a driver does not do.
    pub fn qemu(&mut self) -> &mut Qemu {
        &mut self.qemu
    }

    /// Ends QEMU.
    ///
    /// # Errors
    /// The first thing that went wrong with it.
    pub fn finish(self) -> Result<Balance, Error> {
        self.failed.map_or(Ok(self.balance), Err)
    }

    /// Does `f` unless QEMU has failed before; `otherwise` is what a driver gets
    /// from a machine that is not there.
    fn attempt<T>(&mut self, otherwise: T, f: impl FnOnce(&mut Qemu, &Ram) -> Result<T, Error>) -> T {
        if self.failed.is_some() {
            return otherwise;
        }
        match f(&mut self.qemu, &self.ram) {
            Ok(v) => v,
            Err(e) => {
                self.failed = Some(e);
                otherwise
            }
        }
    }

    fn region(&self, r: Reg) -> Region {
        match self.regions.get(usize::from(r.region)).copied().unwrap_or(Region::Absent) {
            Region::Memory(base) => Region::Memory(base + u64::from(r.offset)),
            Region::Io(base) => Region::Io(base.wrapping_add(r.offset as u16)),
            Region::Absent => Region::Absent,
        }
    }

    fn copy_out(&mut self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        bytes.resize(len, 0);
        self.attempt((), |qemu, ram| ram.read(qemu, at, &mut bytes));
        bytes
    }

    fn copy_in(&mut self, at: u64, from: &[u8]) {
        self.attempt((), |qemu, ram| ram.write(qemu, at, from));
    }
}

impl Host for QtestHost {
    fn read32(&mut self, r: Reg) -> u32 {
        match self.region(r) {
            Region::Memory(at) => self.attempt(!0, |qemu, _| qemu.read32(at)),
            Region::Io(at) => self.attempt(!0, |qemu, _| qemu.in32(at)),
            Region::Absent => !0,
        }
    }

    fn write32(&mut self, r: Reg, v: u32) {
        match self.region(r) {
            Region::Memory(at) => self.attempt((), |qemu, _| qemu.write32(at, v)),
            Region::Io(at) => self.attempt((), |qemu, _| qemu.out32(at, v)),
            Region::Absent => {}
        }
    }

    fn write64(&mut self, r: Reg, v: u64) {
        match self.region(r) {
            Region::Memory(at) => self.attempt((), |qemu, _| qemu.write64(at, v)),
            // There is no 64-bit I/O cycle.
            Region::Io(_) | Region::Absent => {}
        }
    }

    fn buffer(&mut self, len: u32, place: Place) -> Result<Buf, Exhausted> {
        // An empty buffer too needs an address of its own.
        let at = self.heap.take(len.max(1).into(), place.align.into(), place.offset.into()).ok_or(Exhausted)?;
        self.balance.buffers += 1;
        Ok(Buf::from_parts(at, len, 0))
    }

    fn release(&mut self, b: Buf) {
        self.heap.give(b.addr(), b.len().max(1).into());
        self.balance.released += 1;
    }

    fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        assert!(range.start <= range.end && range.end <= b.len(), "{range:?} of a buffer of {} bytes", b.len());
        let bytes = self.copy_out(b.addr() + u64::from(range.start), range.len());
        let result = f(&bytes);
        self.scratch = bytes;
        result
    }

    fn copy(&mut self, from: &Buf, range: Range<u32>, to: &Coherent, offset: u32) {
        assert!(range.start <= range.end && range.end <= from.len(), "{range:?} of a buffer of {} bytes", from.len());
        assert!(u64::from(offset) + range.len() as u64 <= to.len().into(), "{range:?} to {offset} of {}", to.len());
        let bytes = self.copy_out(from.addr() + u64::from(range.start), range.len());
        self.copy_in(to.addr() + u64::from(offset), &bytes);
        self.scratch = bytes;
    }

    fn bytes_mut<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(range.start <= range.end && range.end <= b.len(), "{range:?} of a buffer of {} bytes", b.len());
        // The memory is QEMU's as well, so the caller works on a copy.
        let at = b.addr() + u64::from(range.start);
        let mut bytes = self.copy_out(at, range.len());
        let result = f(&mut bytes);
        self.copy_in(at, &bytes);
        self.scratch = bytes;
        result
    }

    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError> {
        if range.start > range.end || range.end > b.len() {
            return Err(MapError { buf: b, why: MapFault::Range });
        }
        self.balance.maps += 1;
        let iova = Iova(b.addr()) + u64::from(range.start);
        Ok(Mapped::new(b, range, iova, dir))
    }

    fn unmap(&mut self, m: Mapped) -> Buf {
        self.balance.unmaps += 1;
        m.into_buf()
    }

    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, Exhausted> {
        let at = self.heap.take(len.max(1).into(), align.into(), 0).ok_or(Exhausted)?;
        self.copy_in(at, &vec![0; len as usize]);
        self.balance.coherent += 1;
        Ok(Coherent::from_parts(at, Iova(at), len, 0))
    }

    fn release_coherent(&mut self, c: Coherent) {
        self.heap.give(c.addr(), c.len().max(1).into());
        self.balance.coherent_released += 1;
    }

    fn load<T: FromBytes>(&mut self, at: &Coherent, offset: u32) -> T {
        let size = size_of::<T>();
        assert!(offset as usize + size <= at.len() as usize, "load at {offset} of {} bytes", at.len());
        let bytes = self.copy_out(at.addr() + u64::from(offset), size);
        let v = T::read_from_bytes(&bytes).unwrap_or_else(|_| unreachable!("as many bytes as T has"));
        self.scratch = bytes;
        v
    }

    fn store<T: IntoBytes + Immutable>(&mut self, at: &Coherent, offset: u32, v: T) {
        let bytes = v.as_bytes();
        assert!(offset as usize + bytes.len() <= at.len() as usize, "store at {offset} of {} bytes", at.len());
        self.copy_in(at.addr() + u64::from(offset), bytes);
    }

    fn fence(&mut self, _: Fence) {
        // QEMU looks at memory between two commands, and sending one orders more
        // than any fence; but a frame from the wire needs no command.
        fence(Ordering::SeqCst);
    }

    fn spend(&mut self, _: Work) {}

    fn relax(&mut self) {
        self.step(self.turn);
    }

    fn delay(&mut self, d: Span) {
        self.step(d);
    }

    fn now(&self) -> Time {
        self.now
    }
}
