//! A host that passes every access straight to the device: one array of bytes, without memory
//! protection, ledger or prices.
//!
//! An address is an index into the array, for CPU and device alike. A run on it consists of the
//! driver's own instructions (Callgrind benches) or shows its bytes (ring tests). Time advances
//! only in [`relax`](Host::relax), [`delay`](Host::delay) and [`DirectHost::settle`], in which the
//! device does its due work. [`NoDevice`] stands for a missing device and costs no instructions.

use core::hint::cold_path;
use core::ops::Range;
use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Device, Direction, DmaFault, DmaFaultKind, DropReason,
    EventSource, Fence, Host, Iova, MapError, MapFault, Mapped, OutOfMemory, Port, Reg, RxVerdict,
    Span, Time,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Memory, messages and wire of a direct host; its device's [`Port`].
#[derive(Debug)]
pub struct DirectPort {
    memory: Vec<u8>,
    /// First byte never allocated.
    fresh: usize,
    /// Freed pieces: start, length. They are few, so a list suffices.
    free: Vec<(u64, u32)>,
    /// Interrupt vectors raised, in order, for tests to take.
    pub messages: Vec<u16>,
    /// Frames that left on the wire.
    pub frames: u64,
    /// Bytes of those, without FCS.
    pub frame_bytes: u64,
    /// Recorded frames, if this is `Some`.
    pub wire: Option<Vec<Vec<u8>>>,
}

/// A host with a device `D` on the same memory.
#[derive(Debug)]
pub struct DirectHost<D> {
    /// The device's side.
    pub port: DirectPort,
    /// The device.
    pub device: D,
    now: Time,
}

/// The first allocated address, so that address zero is invalid.
const FIRST: usize = 4096;

impl<D> DirectHost<D> {
    /// Creates a host with `size` zeroed bytes of memory.
    ///
    /// # Panics
    /// Panics if `size` is 4 GiB or more.
    pub fn new(size: usize, device: D) -> DirectHost<D> {
        assert!(u32::try_from(size).is_ok(), "{size} bytes: less than 4 GiB");
        let port = DirectPort {
            memory: vec![0; size],
            fresh: FIRST,
            free: Vec::new(),
            messages: Vec::new(),
            frames: 0,
            frame_bytes: 0,
            wire: None,
        };
        DirectHost { port, device, now: Time::ZERO }
    }

    /// Advances time until the device has no more due work.
    pub fn settle(&mut self)
    where
        D: Device<DirectPort>,
    {
        while let Some(due) = self.device.next_due() {
            self.now = self.now.max(due);
            self.device.advance(&mut self.port, self.now);
        }
    }
}

impl DirectPort {
    /// Returns the `len` bytes at `addr`.
    ///
    /// # Panics
    /// Panics outside memory.
    #[inline(always)]
    pub fn at(&mut self, addr: u64, len: usize) -> &mut [u8] {
        debug_assert!(addr <= u64::from(u32::MAX), "no memory at {addr:#x}");
        // Memory ends below 4 GiB, so that the end cannot overflow and one
        // comparison does.
        let start = addr as u32 as usize;
        &mut self.memory[start..start + len]
    }

    fn take(&mut self, len: u32, place: Alignment) -> Result<u64, OutOfMemory> {
        let fits = |&(at, l): &(u64, u32)| {
            l == len && at % u64::from(place.align) == u64::from(place.offset)
        };
        if let Some(i) = self.free.iter().rposition(fits) {
            return Ok(self.free.swap_remove(i).0);
        }
        let start = self.fresh.next_multiple_of(place.align as usize) + place.offset as usize;
        let end = start
            .checked_add(len as usize)
            .filter(|&end| end <= self.memory.len())
            .ok_or(OutOfMemory)?;
        self.fresh = end;
        Ok(start as u64)
    }

    #[inline(always)]
    fn check(&self, at: Iova, len: usize) -> Result<usize, DmaFault> {
        let start = at.0 as usize;
        match start.checked_add(len) {
            Some(end) if start >= FIRST && end <= self.memory.len() => Ok(start),
            _ => Err(DmaFault { at, kind: DmaFaultKind::Unmapped }),
        }
    }
}

impl Port for DirectPort {
    #[inline(always)]
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        let start = self.check(from, into.len())?;
        into.copy_from_slice(&self.memory[start..start + into.len()]);
        Ok(at)
    }

    #[inline(always)]
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let start = self.check(to, from.len())?;
        self.memory[start..start + from.len()].copy_from_slice(from);
        Ok(at)
    }

    fn check_access(&mut self, at: Iova, len: u32, _: Direction) -> Result<(), DmaFault> {
        self.check(at, len as usize).map(|_| ())
    }

    fn set_irq_line(&mut self, _at: Time, _n: u16, _high: bool) {}

    fn raise_msi(&mut self, _at: Time, vector: u16) {
        self.messages.push(vector);
    }

    #[inline(always)]
    fn emit(&mut self, _at: Time, frame: &[u8]) {
        self.frames += 1;
        self.frame_bytes += frame.len() as u64;
        if let Some(wire) = &mut self.wire {
            wire.push(frame.to_vec());
        }
    }
}

impl<D: Device<DirectPort>> Host for DirectHost<D> {
    #[inline(always)]
    fn read32(&mut self, r: Reg) -> u32 {
        self.device.mmio_read(&mut self.port, self.now, r, 4) as u32
    }

    #[inline(always)]
    fn write32(&mut self, r: Reg, v: u32) {
        self.device.mmio_write(&mut self.port, self.now, r, 4, v.into());
    }

    #[inline(always)]
    fn write64(&mut self, r: Reg, v: u64) {
        self.device.mmio_write(&mut self.port, self.now, r, 8, v);
    }

    fn buffer(&mut self, len: u32, place: Alignment) -> Result<Buf, OutOfMemory> {
        Ok(Buf::from_parts(self.port.take(len, place)?, len, 0))
    }

    fn release(&mut self, b: Buf) {
        self.port.free.push((b.addr(), b.len()));
    }

    #[inline(always)]
    fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        self.bytes_mut(b, range, |bytes| f(bytes))
    }

    fn copy(&mut self, from: &Buf, range: Range<u32>, to: &Coherent, offset: u32) {
        assert!(
            range.start <= range.end && range.end <= from.len(),
            "{range:?} of a buffer of {} bytes",
            from.len()
        );
        let (from, len) =
            (from.addr() + u64::from(range.start), (range.end - range.start) as usize);
        assert!(
            offset as usize + len <= to.len() as usize,
            "{len} bytes to {offset} of an area of {}",
            to.len()
        );
        let (from, to) = (from as usize, to.addr() as usize + offset as usize);
        self.port.memory.copy_within(from..from + len, to);
    }

    #[inline(always)]
    fn bytes_mut<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(
            range.start <= range.end && range.end <= b.len(),
            "{range:?} of a buffer of {} bytes",
            b.len()
        );
        f(self.port.at(b.addr() + u64::from(range.start), (range.end - range.start) as usize))
    }

    #[inline(always)]
    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError> {
        // start <= end <= length, so that neither test has to look at an overflow.
        let len = range.end.wrapping_sub(range.start);
        if len > b.len() || range.start > b.len() - len {
            cold_path();
            return Err(MapError { buf: b, why: MapFault::Range });
        }
        let iova = Iova(b.addr() + u64::from(range.start));
        Ok(Mapped::new(b, range, iova, dir))
    }

    #[inline(always)]
    fn unmap(&mut self, m: Mapped) -> Buf {
        m.into_buf()
    }

    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, OutOfMemory> {
        let addr = self.port.take(len, Alignment { align, offset: 0 })?;
        self.port.at(addr, len as usize).fill(0);
        Ok(Coherent::from_parts(addr, Iova(addr), len, 0))
    }

    fn release_coherent(&mut self, c: Coherent) {
        self.port.free.push((c.addr(), c.len()));
    }

    #[inline(always)]
    fn load<T: FromBytes>(&mut self, at: &Coherent, offset: u32) -> T {
        // In release builds it counts a driver's instructions, and these are not a driver's.
        debug_assert!(
            u64::from(offset) + size_of::<T>() as u64 <= u64::from(at.len()),
            "load outside the area"
        );
        let bytes = self.port.at(at.addr() + u64::from(offset), size_of::<T>());
        match T::read_from_bytes(bytes) {
            Ok(v) => v,
            Err(_) => unreachable!("the slice has the size of T"),
        }
    }

    #[inline(always)]
    fn store<T: IntoBytes + Immutable>(&mut self, at: &Coherent, offset: u32, v: T) {
        debug_assert!(
            u64::from(offset) + size_of::<T>() as u64 <= u64::from(at.len()),
            "store outside the area"
        );
        self.port.at(at.addr() + u64::from(offset), size_of::<T>()).copy_from_slice(v.as_bytes());
    }

    #[inline(always)]
    fn fence(&mut self, _f: Fence) {}

    #[inline(always)]
    fn charge(&mut self, _w: CpuWork) {}

    fn relax(&mut self) {
        self.delay(Span::from_ns(100));
    }

    fn delay(&mut self, d: Span) {
        self.now += d;
        self.device.advance(&mut self.port, self.now);
    }

    #[inline(always)]
    fn now(&self) -> Time {
        self.now
    }
}

/// No device: registers read as all ones, as where nothing answers, and writes
/// are lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDevice;

impl EventSource for NoDevice {
    #[inline(always)]
    fn next_due(&self) -> Option<Time> {
        None
    }
}

impl<P: Port> Device<P> for NoDevice {
    #[inline(always)]
    fn mmio_read(&mut self, _p: &mut P, _at: Time, _r: Reg, _size: u8) -> u64 {
        u64::MAX
    }
    #[inline(always)]
    fn mmio_write(&mut self, _p: &mut P, _at: Time, _r: Reg, _size: u8, _v: u64) {}
    fn receive(&mut self, _p: &mut P, _at: Time, _frame: &[u8]) -> RxVerdict {
        RxVerdict::Dropped(DropReason::Off)
    }
    #[inline(always)]
    fn advance(&mut self, _p: &mut P, _until: Time) {}
    fn reset(&mut self, _p: &mut P, _at: Time) {}
}

#[cfg(test)]
mod tests;
