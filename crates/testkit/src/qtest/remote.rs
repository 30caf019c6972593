//! Memory of a QEMU and a driver's use of it, shared by the hosts on any of its machines.
//!
//! Memory is accessed by copies. A failed QEMU looks to the driver like a removed card; the first
//! error is kept for [`Remote::finish`].

use super::heap::Heap;
use super::{Balance, Error, Qemu, Ram};
use doorbell_hal::{
    Alignment, Buf, Coherent, Direction, Iova, MapError, MapFault, Mapped, OutOfMemory,
};
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A running QEMU, its memory, and the allocations in it.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) qemu: Qemu,
    ram: Ram,
    pub(super) heap: Heap,
    pub(super) balance: Balance,
    /// Buffer for copies out.
    scratch: Vec<u8>,
    pub(super) failed: Option<Error>,
}

impl Remote {
    /// Wraps a running QEMU and allocates its memory in `free`.
    pub(super) fn new(qemu: Qemu, ram: Ram, free: Range<u64>) -> Remote {
        let (balance, scratch) = (Balance::default(), Vec::new());
        Remote { qemu, ram, heap: Heap::new(free), balance, scratch, failed: None }
    }

    /// Ends QEMU.
    ///
    /// # Errors
    /// Its first error.
    pub(super) fn finish(self) -> Result<Balance, Error> {
        self.failed.map_or(Ok(self.balance), Err)
    }

    /// Calls `f` unless QEMU has failed. Returns `otherwise`, the value of a missing machine, on
    /// failure.
    pub(super) fn attempt<T>(
        &mut self,
        otherwise: T,
        f: impl FnOnce(&mut Qemu, &Ram) -> Result<T, Error>,
    ) -> T {
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

    /// Returns a copy of memory, whose buffer must go back to [`Remote::copied`].
    pub(super) fn copy_out(&mut self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        bytes.resize(len, 0);
        self.attempt((), |qemu, ram| ram.read(qemu, at, &mut bytes));
        bytes
    }

    fn copied(&mut self, bytes: Vec<u8>) {
        self.scratch = bytes;
    }

    pub(super) fn copy_in(&mut self, at: u64, from: &[u8]) {
        self.attempt((), |qemu, ram| ram.write(qemu, at, from));
    }

    pub(super) fn buffer(&mut self, len: u32, place: Alignment) -> Result<Buf, OutOfMemory> {
        // An empty buffer too needs an address of its own.
        let at = self
            .heap
            .take(len.max(1).into(), place.align.into(), place.offset.into())
            .ok_or(OutOfMemory)?;
        self.balance.buffers += 1;
        Ok(Buf::from_parts(at, len, 0))
    }

    pub(super) fn release(&mut self, b: Buf) {
        self.heap.give(b.addr(), b.len().max(1).into());
        self.balance.released += 1;
    }

    pub(super) fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        assert!(
            range.start <= range.end && range.end <= b.len(),
            "{range:?} of a buffer of {} bytes",
            b.len()
        );
        let bytes = self.copy_out(b.addr() + u64::from(range.start), range.len());
        let result = f(&bytes);
        self.copied(bytes);
        result
    }

    pub(super) fn bytes_mut<R>(
        &mut self,
        b: &Buf,
        range: Range<u32>,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        assert!(
            range.start <= range.end && range.end <= b.len(),
            "{range:?} of a buffer of {} bytes",
            b.len()
        );
        let at = b.addr() + u64::from(range.start);
        let mut bytes = self.copy_out(at, range.len());
        let result = f(&mut bytes);
        self.copy_in(at, &bytes);
        self.copied(bytes);
        result
    }

    pub(super) fn copy(&mut self, from: &Buf, range: Range<u32>, to: &Coherent, offset: u32) {
        assert!(
            range.start <= range.end && range.end <= from.len(),
            "{range:?} of a buffer of {} bytes",
            from.len()
        );
        assert!(
            u64::from(offset) + range.len() as u64 <= to.len().into(),
            "{range:?} to {offset} of {}",
            to.len()
        );
        let bytes = self.copy_out(from.addr() + u64::from(range.start), range.len());
        self.copy_in(to.addr() + u64::from(offset), &bytes);
        self.copied(bytes);
    }

    /// A mapping at the physical address; whether the device can use it is the machine's affair.
    pub(super) fn map(
        &mut self,
        b: Buf,
        range: Range<u32>,
        dir: Direction,
    ) -> Result<Mapped, MapError> {
        if range.start > range.end || range.end > b.len() {
            return Err(MapError { buf: b, why: MapFault::Range });
        }
        self.balance.maps += 1;
        let iova = Iova(b.addr()) + u64::from(range.start);
        Ok(Mapped::new(b, range, iova, dir))
    }

    pub(super) fn unmap(&mut self, m: Mapped) -> Buf {
        self.balance.unmaps += 1;
        m.into_buf()
    }

    pub(super) fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, OutOfMemory> {
        let at = self.heap.take(len.max(1).into(), align.into(), 0).ok_or(OutOfMemory)?;
        self.copy_in(at, &vec![0; len as usize]);
        self.balance.coherent += 1;
        Ok(Coherent::from_parts(at, Iova(at), len, 0))
    }

    pub(super) fn release_coherent(&mut self, c: Coherent) {
        self.heap.give(c.addr(), c.len().max(1).into());
        self.balance.coherent_released += 1;
    }

    pub(super) fn load<T: FromBytes>(&mut self, at: &Coherent, offset: u32) -> T {
        let size = size_of::<T>();
        assert!(
            offset as usize + size <= at.len() as usize,
            "load at {offset} of {} bytes",
            at.len()
        );
        let bytes = self.copy_out(at.addr() + u64::from(offset), size);
        let v =
            T::read_from_bytes(&bytes).unwrap_or_else(|_| unreachable!("as many bytes as T has"));
        self.copied(bytes);
        v
    }

    pub(super) fn store<T: IntoBytes + Immutable>(&mut self, at: &Coherent, offset: u32, v: T) {
        let bytes = v.as_bytes();
        assert!(
            offset as usize + bytes.len() <= at.len() as usize,
            "store at {offset} of {} bytes",
            at.len()
        );
        self.copy_in(at.addr() + u64::from(offset), bytes);
    }
}

/// The part of a [`Host`](doorbell_hal::Host) that is a [`Remote`]'s, for a host that has one
/// called `remote`.
macro_rules! remote_memory {
    () => {
        fn buffer(&mut self, len: u32, place: Alignment) -> Result<Buf, OutOfMemory> {
            self.remote.buffer(len, place)
        }
        fn release(&mut self, b: Buf) {
            self.remote.release(b);
        }
        fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
            self.remote.bytes(b, range, f)
        }
        fn bytes_mut<R>(
            &mut self,
            b: &Buf,
            range: Range<u32>,
            f: impl FnOnce(&mut [u8]) -> R,
        ) -> R {
            self.remote.bytes_mut(b, range, f)
        }
        fn copy(&mut self, from: &Buf, range: Range<u32>, to: &Coherent, offset: u32) {
            self.remote.copy(from, range, to, offset);
        }
        fn load<T: FromBytes>(&mut self, at: &Coherent, offset: u32) -> T {
            self.remote.load(at, offset)
        }
        fn store<T: IntoBytes + Immutable>(&mut self, at: &Coherent, offset: u32, v: T) {
            self.remote.store(at, offset, v);
        }
        /// QEMU accesses memory from another process.
        fn fence(&mut self, _: Fence) {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        }
        fn charge(&mut self, _: CpuWork) {}
        fn now(&self) -> Time {
            self.now
        }
    };
}
pub(super) use remote_memory;
