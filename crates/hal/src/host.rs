//! The driver's side: one CPU's view of its machine.

use crate::{CpuWork, Iova, Reg, Span, Time};
use core::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// One CPU's view of the machine it belongs to, lent `&mut` to each driver call.
/// There are no globals: two machines in one process are two values.
///
/// A device that has gone away reads as all ones and takes no writes, and time
/// goes on; so every polling loop of a driver has a limit in [`Host::now`].
pub trait Host {
    /// Reads a 32-bit register: a full round trip, which the CPU waits for.
    fn read32(&mut self, r: Reg) -> u32;
    /// Writes a 32-bit register. Posted: the CPU does not wait.
    fn write32(&mut self, r: Reg, v: u32);
    /// Writes a 64-bit register as one access. Posted.
    fn write64(&mut self, r: Reg, v: u64);

    /// Allocates `len` bytes of host memory with an alignment. The content is undefined.
    fn buffer(&mut self, len: u32, place: Alignment) -> Result<Buf, OutOfMemory>;
    /// Releases a buffer.
    fn release(&mut self, b: Buf);
    /// Passes the bytes `range` of `b` to `f`.
    ///
    /// # Panics
    /// Panics if `range` is not inside the buffer, a caller's error.
    fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R;
    /// Passes the bytes `range` of `b` to `f` for changes. A host whose memory is elsewhere copies
    /// in and out.
    ///
    /// # Panics
    /// Panics as [`Host::bytes`] does.
    fn bytes_mut<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R;
    /// Declares that this CPU looks at the bytes `range` of `b`, for which it may have to wait: the
    /// headers of a received frame. Loads and stores of coherent areas, and copies, need no
    /// declaration. The default has no caches, and does nothing.
    fn look(&mut self, _b: &Buf, _range: Range<u32>) {}
    /// Copies the bytes `range` of `from` to a coherent area: a slot of a permanently mapped ring,
    /// an inline header. Declares no work: say `charge(CpuWork::Copy)` beside it. Ordered as
    /// [`Host::store`].
    ///
    /// # Panics
    /// Panics if either range is not inside its memory.
    fn copy(&mut self, from: &Buf, range: Range<u32>, to: &Coherent, offset: u32);

    /// Copies from a coherent area to the bytes `range` of `to`: a frame out of a slot of a
    /// permanently mapped ring. Declares no work, as [`Host::copy`]. Seen as [`Host::load`];
    /// what is copied has no order among itself.
    ///
    /// # Panics
    /// Panics if either range is not inside its memory.
    fn copy_out(&mut self, from: &Coherent, offset: u32, to: &Buf, range: Range<u32>) {
        const BLOCK: u32 = 128;
        let (mut at, end) = (offset, offset + (range.end - range.start));
        assert!(end <= from.len(), "{offset} to {end} of an area of {}", from.len());
        while at < end {
            // As many at once as the area's memory is sure to have.
            let (block, into) = (at / BLOCK * BLOCK, range.start + (at - offset));
            if block + BLOCK <= from.len() {
                let stop = (block + BLOCK).min(end);
                let bytes: [u8; BLOCK as usize] = self.load(from, block);
                let part = &bytes[(at - block) as usize..(stop - block) as usize];
                self.bytes_mut(to, into..into + (stop - at), |b| b.copy_from_slice(part));
                at = stop;
            } else {
                let byte: u8 = self.load(from, at);
                self.bytes_mut(to, into..into + 1, |b| b[0] = byte);
                at += 1;
            }
        }
    }

    /// Makes `range` of `b` reachable for the device, until `unmap`.
    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError>;
    /// Ends the device's access and returns the buffer.
    fn unmap(&mut self, m: Mapped) -> Buf;
    /// Passes bytes of a mapped buffer to `f` (`dma_sync_single_for_cpu`), for instance to copy a
    /// small frame while its buffer stays mapped. `range` is of the buffer, as [`Mapped::range`].
    /// The driver must have seen the descriptor done, since the device may write meanwhile.
    ///
    /// # Panics
    /// Panics as [`Host::bytes`] does.
    fn peek<R>(&mut self, m: &Mapped, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        self.bytes(m.buf(), range, f)
    }

    /// Allocates zeroed memory that CPU and device share: rings, doorbell records. `align` is a
    /// power of two.
    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, OutOfMemory>;
    /// Ends the device's access to a coherent area.
    fn release_coherent(&mut self, c: Coherent);
    /// Reads a `T` from a coherent area. A write of the device is visible from its arrival on. Only
    /// an aligned load of up to 8 bytes is atomic: load the ownership word alone, fence, then load
    /// the rest. Bytes outside the area are zero; a host with an audit counts such a load, and a
    /// test host may panic.
    fn load<T: FromBytes>(&mut self, at: &Coherent, offset: u32) -> T;
    /// Writes a `T` to a coherent area. The device sees it no later than the next fence that orders
    /// it; the bytes of one store have no order. A store outside the area is not made; a host with
    /// an audit counts it, and a test host may panic.
    fn store<T: IntoBytes + Immutable>(&mut self, at: &Coherent, offset: u32, v: T);
    /// Orders earlier against later accesses.
    fn fence(&mut self, f: Fence);

    /// Declares CPU work that the driver does beside this call.
    fn charge(&mut self, w: CpuWork);
    /// Takes the time of one turn of a polling loop.
    fn relax(&mut self);
    /// Waits for `d`.
    fn delay(&mut self, d: Span);
    /// Returns this CPU's time.
    fn now(&self) -> Time;
}

/// An owned piece of host memory. While it is mapped the driver does not have it.
///
/// It is not `Copy`, and cannot be split: a part of it is a range beside it.
/// Losing one is a leak, and the lab's audit finds it.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a buffer that is not released leaks"]
pub struct Buf {
    addr: u64,
    len: u32,
    token: u32,
}

impl Buf {
    /// For hosts: a buffer at an address of their own choosing; `token` is theirs.
    pub const fn from_parts(addr: u64, len: u32, token: u32) -> Buf {
        Buf { addr, len, token }
    }
    /// Returns the address for the CPU, which determines alignment.
    #[inline(always)]
    pub const fn addr(&self) -> u64 {
        self.addr
    }
    /// Returns the length in bytes.
    #[inline(always)]
    pub const fn len(&self) -> u32 {
        self.len
    }
    /// Returns true if it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the host's token.
    pub const fn token(&self) -> u32 {
        self.token
    }
}

/// The start of a buffer: an address that leaves `offset` when divided by `align`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alignment {
    /// A power of two. Another multiple of 64 is the size of a pool's objects, which lie next to
    /// each other where the host has pools.
    pub align: u32,
    /// Less than `align`.
    pub offset: u32,
}

impl Alignment {
    /// Anywhere: on a 64-byte line.
    pub const ANY: Alignment = Alignment { align: 64, offset: 0 };
}

/// The machine has no memory left of the kind that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

/// The direction in which a mapped buffer is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The device reads it (transmit).
    ToDevice = 1,
    /// The device writes it (receive).
    FromDevice = 2,
    /// The device does both, for as long as the mapping lasts: a page that is received into, and
    /// sent from or received into again.
    Both = 3,
}

impl Direction {
    /// Returns whether the device reads.
    #[inline(always)]
    pub const fn is_read(self) -> bool {
        self as u8 & Direction::ToDevice as u8 != 0
    }
    /// Returns whether the device writes.
    #[inline(always)]
    pub const fn is_written(self) -> bool {
        self as u8 & Direction::FromDevice as u8 != 0
    }
}

/// A buffer that is lent to the device.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a mapping that is not ended leaks"]
pub struct Mapped {
    buf: Buf,
    iova: Iova,
    /// First byte; in the two highest bits the direction: so the whole takes 32 bytes, and a driver
    /// holds one for each buffer in flight.
    start_dir: u32,
    len: u32,
}

/// Bits of a buffer's first byte.
const START_BITS: u32 = 30;

impl Mapped {
    /// For hosts: `buf`'s bytes `range`, in its first GiB, are reachable at `iova`.
    #[inline(always)]
    pub const fn new(buf: Buf, range: Range<u32>, iova: Iova, dir: Direction) -> Mapped {
        debug_assert!(range.start < 1 << START_BITS);
        let start_dir = range.start | (dir as u32) << START_BITS;
        Mapped { buf, iova, start_dir, len: range.end - range.start }
    }
    /// Returns the device's address of the first mapped byte.
    #[inline(always)]
    pub const fn iova(&self) -> Iova {
        self.iova
    }
    /// Returns the number of mapped bytes.
    #[inline(always)]
    pub const fn len(&self) -> u32 {
        self.len
    }
    /// Returns true if no byte is mapped.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the mapped bytes of the buffer.
    #[inline(always)]
    pub const fn range(&self) -> Range<u32> {
        let start = self.start_dir & ((1 << START_BITS) - 1);
        start..start + self.len
    }
    /// The direction.
    pub const fn direction(&self) -> Direction {
        match self.start_dir >> START_BITS {
            1 => Direction::ToDevice,
            2 => Direction::FromDevice,
            _ => Direction::Both,
        }
    }
    /// For hosts, when the mapping has ended.
    #[inline(always)]
    pub fn into_buf(self) -> Buf {
        self.buf
    }
    /// For hosts: the buffer beneath.
    pub const fn buf(&self) -> &Buf {
        &self.buf
    }
}

/// A mapping that could not be made, and the buffer it was asked for.
#[derive(PartialEq, Eq, Debug)]
pub struct MapError {
    /// Still the caller's.
    pub buf: Buf,
    /// Why.
    pub why: MapFault,
}

/// Why a mapping failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapFault {
    /// No translation entries left (H_NOT_ENOUGH_RESOURCES on POWER).
    NoEntries,
    /// The range is not inside the buffer.
    Range,
}

/// Memory that CPU and device share for as long as it lives.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a coherent area that is not released leaks"]
pub struct Coherent {
    addr: u64,
    iova: Iova,
    len: u32,
    token: u32,
}

impl Coherent {
    /// For hosts; `token` is theirs.
    pub const fn from_parts(addr: u64, iova: Iova, len: u32, token: u32) -> Coherent {
        Coherent { addr, iova, len, token }
    }
    /// Returns the host's token.
    pub const fn token(&self) -> u32 {
        self.token
    }
    /// The address as the CPU sees it.
    #[inline(always)]
    pub const fn addr(&self) -> u64 {
        self.addr
    }
    /// Returns the device's address of it.
    pub const fn iova(&self) -> Iova {
        self.iova
    }
    /// Returns the length in bytes.
    #[inline(always)]
    pub const fn len(&self) -> u32 {
        self.len
    }
    /// Returns true if it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The order that a fence makes. The names are Linux's, less the `b`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// Stores to coherent memory before it are seen by the device before stores
    /// after it (`dma_wmb`).
    DmaWrite,
    /// Loads of coherent memory before it are done before loads after it (`dma_rmb`).
    DmaRead,
    /// Stores to coherent memory before it are seen before register writes and
    /// stores after it (`wmb`).
    Write,
}
