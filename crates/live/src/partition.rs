//! A partition in real time: memory in an array, a translation table, and counts.
//!
//! [`Cpu`] is the driver's side, [`Partition`] as a [`Port`] the hypervisor's. A call runs at once
//! on its caller's thread and has no price. The table guards memory by page as in the lab, so a
//! driver that forgets a mapping fails here too.

use super::ledger::Ledger;
use doorbell_bus::tce::{self, Table};
use doorbell_bus::{Memory, ProtectionGranularity};
use doorbell_devices::veth::Veth;
use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Direction, DmaFault, Fence, Hcall, HcallDevice, HcallReturn,
    Host, Hypervisor, Iova, MapError, MapFault, Mapped, OutOfMemory, Port, Reg, Span, Time,
};
use std::{hint, ops::Range, time::Instant};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Address and size of memory.
const BASE: u64 = 1 << 32;
const SIZE: usize = 48 << 20;
/// The table's window: 128 MiB of bus addresses.
const WINDOW: tce::Window =
    tce::Window { base: 0x1000_0000, pages: 32 << 10, multi: true, prices: FREE };
const ZERO: Span = Span::ZERO;
const FREE: tce::Prices = tce::Prices { put: ZERO, put_indirect: ZERO, stuff: ZERO, entry: ZERO };

/// One partition's memory and interrupt.
pub(super) struct Partition {
    pub(super) memory: Memory,
    table: Table,
    pub(super) ledger: Ledger,
    /// The adapter's interrupt is pending.
    pub(super) interrupt: bool,
    began: Instant,
}

impl Partition {
    pub(super) fn new() -> Result<Partition, OutOfMemory> {
        Ok(Partition {
            memory: Memory::new(BASE, SIZE, ProtectionGranularity::Page)?,
            table: Table::new(WINDOW),
            ledger: Ledger::default(),
            interrupt: false,
            began: Instant::now(),
        })
    }

    /// Returns the number of table entries in use.
    pub(super) fn live_entries(&self) -> u32 {
        self.table.live()
    }

    /// Checks access to `len` bytes.
    fn allowed(&self, at: Iova, len: usize, dir: Direction) -> Result<(), DmaFault> {
        let mut done = 0;
        while done < len {
            done += self.table.translate(at + done as u64, dir)?.1;
        }
        Ok(())
    }

    /// Checks an access, then calls `f` with the address and range of each part in memory.
    fn parts(
        &mut self,
        at: Iova,
        len: usize,
        dir: Direction,
        mut f: impl FnMut(&mut Memory, u64, Range<usize>),
    ) -> Result<(), DmaFault> {
        if let Err(e) = self.allowed(at, len, dir) {
            self.ledger.bus.dma_faults += 1;
            return Err(e);
        }
        let mut done = 0;
        while done < len {
            let (addr, room) = self.table.translate(at + done as u64, dir)?;
            let n = room.min(len - done);
            f(&mut self.memory, addr, done..done + n);
            done += n;
        }
        Ok(())
    }
}

impl Port for Partition {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.parts(from, into.len(), Direction::ToDevice, |m, addr, r| {
            let n = r.len();
            into[r].copy_from_slice(m.peek(addr, n));
        })?;
        self.ledger.hypervisor_read_bytes += into.len() as u64;
        Ok(at)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        self.parts(to, from.len(), Direction::FromDevice, |m, addr, r| {
            m.cpu(addr, r.len()).copy_from_slice(&from[r]);
        })?;
        self.ledger.hypervisor_write_bytes += from.len() as u64;
        Ok(at)
    }

    fn check_access(&mut self, at: Iova, len: u32, dir: Direction) -> Result<(), DmaFault> {
        self.allowed(at, len as usize, dir)
    }

    /// The adapter has no line.
    fn set_irq_line(&mut self, _: Time, _: u16, _: bool) {}

    fn raise_msi(&mut self, _: Time, _: u16) {
        self.interrupt = true;
    }

    /// A logical LAN without an uplink has no wire.
    fn emit(&mut self, _: Time, _: &[u8]) {}
}

/// Partition `me`'s CPU, under the hypervisor that holds the LAN and all partitions.
pub(super) struct Cpu<'a> {
    pub(super) lan: &'a mut Veth,
    pub(super) partitions: &'a mut [Partition],
    pub(super) me: usize,
}

impl Cpu<'_> {
    #[inline(always)]
    fn own(&mut self) -> &mut Partition {
        &mut self.partitions[self.me]
    }
}

fn inside(range: &Range<u32>, len: u32) -> bool {
    range.start <= range.end && range.end <= len
}

impl Host for Cpu<'_> {
    // No registers: reads are ones and writes are lost, as where no device answers.
    fn read32(&mut self, _: Reg) -> u32 {
        u32::MAX
    }
    fn write32(&mut self, _: Reg, _: u32) {}
    fn write64(&mut self, _: Reg, _: u64) {}

    fn buffer(&mut self, len: u32, place: Alignment) -> Result<Buf, OutOfMemory> {
        self.own().memory.buffer(len, place)
    }
    fn release(&mut self, b: Buf) {
        self.own().memory.release(b);
    }
    #[inline]
    fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        assert!(inside(&range, b.len()), "{range:?} of a buffer of {} bytes", b.len());
        f(self.own().memory.peek(b.addr() + u64::from(range.start), range.len()))
    }
    #[inline]
    fn bytes_mut<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(inside(&range, b.len()), "{range:?} of a buffer of {} bytes", b.len());
        f(self.own().memory.cpu(b.addr() + u64::from(range.start), range.len()))
    }
    fn copy(&mut self, from: &Buf, range: Range<u32>, to: &Coherent, offset: u32) {
        let fits = inside(&range, from.len()) && offset as usize + range.len() <= to.len() as usize;
        assert!(fits, "{range:?} of {} bytes to {offset} of {}", from.len(), to.len());
        let at = from.addr() + u64::from(range.start);
        self.own().memory.cpu_copy(at, to.addr() + u64::from(offset), range.len());
    }

    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError> {
        if !inside(&range, b.len()) {
            return Err(MapError { buf: b, why: MapFault::Range });
        }
        let p = self.own();
        match p.table.map(b.addr() + u64::from(range.start), range.len() as u32, dir) {
            Ok((iova, cost)) => {
                p.ledger.bus.count_tce(cost);
                p.ledger.bus.maps += 1;
                Ok(Mapped::new(b, range, iova, dir))
            }
            Err(why) => Err(MapError { buf: b, why }),
        }
    }
    fn unmap(&mut self, m: Mapped) -> Buf {
        let p = self.own();
        let cost = p.table.unmap(m.iova(), m.len());
        p.ledger.bus.count_tce(cost);
        p.ledger.bus.unmaps += 1;
        m.into_buf()
    }

    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, OutOfMemory> {
        let p = self.own();
        let c = p.memory.coherent(len, align)?;
        match p.table.map(c.addr(), len, Direction::Both) {
            Ok((iova, cost)) => {
                p.ledger.bus.count_tce(cost);
                Ok(Coherent::from_parts(c.addr(), iova, c.len(), c.token()))
            }
            Err(_) => {
                p.memory.release_coherent(c);
                Err(OutOfMemory)
            }
        }
    }
    fn release_coherent(&mut self, c: Coherent) {
        let p = self.own();
        let cost = p.table.unmap(c.iova(), c.len());
        p.ledger.bus.count_tce(cost);
        p.memory.release_coherent(c);
    }
    #[inline]
    fn load<T: FromBytes>(&mut self, at: &Coherent, offset: u32) -> T {
        let bytes = self.own().memory.peek(at.addr() + u64::from(offset), size_of::<T>());
        T::read_from_bytes(bytes).unwrap_or_else(|_| unreachable!("as many bytes as the type has"))
    }
    #[inline]
    fn store<T: IntoBytes + Immutable>(&mut self, at: &Coherent, offset: u32, v: T) {
        let v = v.as_bytes();
        self.own().memory.cpu(at.addr() + u64::from(offset), v.len()).copy_from_slice(v);
    }
    /// The hypervisor works on this very thread.
    fn fence(&mut self, _: Fence) {}

    #[inline]
    fn charge(&mut self, w: CpuWork) {
        self.own().ledger.work(w);
    }
    fn relax(&mut self) {
        hint::spin_loop();
    }
    fn delay(&mut self, d: Span) {
        std::thread::sleep(std::time::Duration::from_nanos(d.ps() / 1000));
    }
    fn now(&self) -> Time {
        Time::from_ps(self.partitions[self.me].began.elapsed().as_nanos() as u64 * 1000)
    }
}

impl Hypervisor for Cpu<'_> {
    #[inline]
    fn hcall(&mut self, call: Hcall, a: &[u64]) -> HcallReturn {
        let mut all = [0; 9];
        all[..a.len()].copy_from_slice(a);
        self.own().ledger.call(call);
        // Without delays of its own the LAN has no use for a time.
        self.lan.hcall(self.partitions, self.me, Time::ZERO, call, &all).0
    }
}

#[cfg(test)]
mod tests;
