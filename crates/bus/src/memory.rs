//! Host memory, and the guard that lets a device reach only mapped bytes.
//!
//! Memory is one array at a physical address of its own. Buffers are power-of-two blocks, aligned
//! to their size and reused last in, first out; those of a pool lie next to each other. The guard
//! counts mappings per 4-KiB page, as an I/O MMU knows them, or per byte. Its addresses are
//! physical: the platform translates others first ([`Mapping`](crate::Mapping)).

use core::ops::Range;
use doorbell_hal::{
    Alignment, Buf, Coherent, Direction, DmaFault, DmaFaultKind, Iova, OutOfMemory,
};
use memmap2::MmapMut;
use zerocopy::FromZeros;

/// The granularity at which device accesses are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectionGranularity {
    /// By 4-KiB page.
    Page,
    /// By byte. Costs memory and time in proportion to what is mapped.
    Byte,
}

/// log2 of the smallest block.
const MIN_CLASS: u32 = 6;
/// log2 of the largest block: 64 MiB.
const MAX_CLASS: u32 = 26;
/// log2 of the blocks that pools are made of.
const POOL_CLASS: u32 = 21;

/// Bytes of the large pages of most hosts.
const LARGE_PAGE: usize = 2 << 20;

/// log2 of the bytes of a page.
const PAGE_SHIFT: u32 = 12;
/// log2 of the bytes of a line in which posted writes are counted: a frame has a few, a ring many.
const LINE_SHIFT: u32 = 8;

/// The bits of a granule's mappings that the device reads.
const READ: u32 = 0xffff;

/// Returns a mapping in this direction, as a granule counts it.
#[inline(always)]
const fn one_of(dir: Direction) -> u32 {
    dir.is_read() as u32 | (dir.is_written() as u32) << 16
}

/// Bytes that are copied at once: longer copies take longer a byte.
pub(crate) const COPY: usize = 4096;

/// Host memory.
#[derive(Debug)]
pub struct Memory {
    base: u64,
    bytes: MmapMut,
    /// log2 of the guard's granule, and its last offset.
    shift: u32,
    mask: usize,
    /// Live mappings per granule: those read by the device in the lower 16 bits, those written by
    /// it in the upper ones.
    live: Vec<u32>,
    /// Posted writes that have not arrived, per line of 256 bytes.
    posted: Vec<u16>,
    /// First byte that was never allocated.
    fresh: usize,
    free: [Vec<u64>; (MAX_CLASS + 1) as usize],
    pools: Vec<Pool>,
}

/// Objects of one size, at multiples of it from the start of memory.
#[derive(Debug)]
struct Pool {
    size: u32,
    /// Those that were never handed out, up to the end of a block.
    fresh: Range<u64>,
    free: Vec<u64>,
}

impl Memory {
    /// Creates `size` bytes of zeroes at physical address `base`.
    ///
    /// # Errors
    /// The system refuses so much address space. What is not used takes no more than that.
    ///
    /// # Panics
    /// Panics if `base` is not on a 64-MiB boundary.
    pub fn new(
        base: u64,
        size: usize,
        guard: ProtectionGranularity,
    ) -> Result<Memory, OutOfMemory> {
        Memory::over(base, anonymous(size)?, guard)
    }

    /// Takes zeroed bytes for the memory at physical address `base`.
    ///
    /// # Errors
    /// As of [`Memory::new`].
    ///
    /// # Panics
    /// Panics as [`Memory::new`] does.
    pub fn over(
        base: u64,
        bytes: MmapMut,
        guard: ProtectionGranularity,
    ) -> Result<Memory, OutOfMemory> {
        assert_eq!(base % (1 << MAX_CLASS), 0, "memory starts on a 64-MiB boundary");
        let size = bytes.len();
        let shift = match guard {
            ProtectionGranularity::Page => PAGE_SHIFT,
            ProtectionGranularity::Byte => 0,
        };
        Ok(Memory {
            base,
            bytes,
            shift,
            mask: (1 << shift) - 1,
            live: zeroed(size.div_ceil(1 << shift))?,
            posted: zeroed(size.div_ceil(1 << LINE_SHIFT))?,
            fresh: 0,
            free: [const { Vec::new() }; (MAX_CLASS + 1) as usize],
            pools: Vec::new(),
        })
    }

    /// Takes the memory of a guest at physical address `base`. The guest allocates: nothing is
    /// allocated or mapped here, and the device may use all of it ([`Memory::allow_all`]).
    pub fn of_guest(base: u64, bytes: MmapMut) -> Memory {
        let size = bytes.len();
        Memory {
            base,
            bytes,
            shift: PAGE_SHIFT,
            mask: (1 << PAGE_SHIFT) - 1,
            live: vec![one_of(Direction::Both); size.div_ceil(1 << PAGE_SHIFT)],
            posted: vec![0; size.div_ceil(1 << LINE_SHIFT)],
            fresh: size,
            free: [const { Vec::new() }; (MAX_CLASS + 1) as usize],
            pools: Vec::new(),
        }
    }

    /// Maps all of a guest's memory for the device, in both directions, or nothing of it.
    pub fn allow_all(&mut self, allowed: bool) {
        self.live.fill(if allowed { one_of(Direction::Both) } else { 0 });
    }

    // ---- allocation ----

    fn block(&mut self, class: u32) -> Result<u64, OutOfMemory> {
        if let Some(addr) = self.free[class as usize].pop() {
            return Ok(addr);
        }
        // A larger free block is split; its upper parts stay free.
        if let Some(larger) = (class + 1..=MAX_CLASS).find(|&c| !self.free[c as usize].is_empty()) {
            let addr = self.free[larger as usize].pop().ok_or(OutOfMemory)?;
            for c in class..larger {
                self.free[c as usize].push(addr + (1 << c));
            }
            return Ok(addr);
        }
        let size = 1usize << class;
        let start = self.fresh.next_multiple_of(size);
        if start + size > self.bytes.len() {
            return Err(OutOfMemory);
        }
        // The space that alignment skips becomes smaller free blocks.
        let mut gap = self.fresh;
        while gap < start {
            let class = gap.trailing_zeros().min(MAX_CLASS);
            self.free[class as usize].push(self.base + gap as u64);
            gap += 1 << class;
        }
        self.fresh = start + size;
        Ok(self.base + start as u64)
    }

    fn class(bytes: u32, align: u32) -> Result<u32, OutOfMemory> {
        let size =
            bytes.max(align).max(1 << MIN_CLASS).checked_next_power_of_two().ok_or(OutOfMemory)?;
        let class = size.trailing_zeros();
        if class > MAX_CLASS { Err(OutOfMemory) } else { Ok(class) }
    }

    /// Allocates a buffer; see [`Host::buffer`](doorbell_hal::Host::buffer).
    pub fn buffer(&mut self, len: u32, place: Alignment) -> Result<Buf, OutOfMemory> {
        if !place.align.is_power_of_two() {
            return self.object(len, place);
        }
        let class = Memory::class(len.checked_add(place.offset).ok_or(OutOfMemory)?, place.align)?;
        let block = self.block(class)?;
        Ok(Buf::from_parts(block + u64::from(place.offset), len, class))
    }

    /// Returns a buffer in an object of the pool of its size, which is larger than any class.
    fn object(&mut self, len: u32, place: Alignment) -> Result<Buf, OutOfMemory> {
        let size = place.align;
        if size <= MAX_CLASS || len.checked_add(place.offset).is_none_or(|all| all > size) {
            return Err(OutOfMemory);
        }
        let at = self.pools.iter().position(|pool| pool.size == size).unwrap_or_else(|| {
            self.pools.push(Pool { size, fresh: 0..0, free: Vec::new() });
            self.pools.len() - 1
        });
        let step = u64::from(size);
        let object = match self.pools[at].free.pop() {
            Some(object) => object,
            None => {
                let mut fresh = self.pools[at].fresh.clone();
                if fresh.start + step > fresh.end {
                    let class = POOL_CLASS.max(Memory::class(size, 1)? + 1);
                    let block = self.block(class)?;
                    let skipped = (block - self.base).next_multiple_of(step);
                    fresh = self.base + skipped..block + (1 << class);
                }
                self.pools[at].fresh = fresh.start + step..fresh.end;
                fresh.start
            }
        };
        Ok(Buf::from_parts(object + u64::from(place.offset), len, size))
    }

    /// Takes a buffer back.
    pub fn release(&mut self, b: Buf) {
        let class = b.token();
        if let Some(pool) = self.pools.iter_mut().find(|pool| pool.size == class) {
            pool.free.push(b.addr() - (b.addr() - self.base) % u64::from(class));
            return;
        }
        let block = b.addr() & !((1u64 << class) - 1);
        self.free[class as usize].push(block);
    }

    /// Allocates zeroed memory that the device may use until it is released.
    pub fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, OutOfMemory> {
        let class = Memory::class(len, align)?;
        let fresh = self.fresh;
        let addr = self.block(class)?;
        let at = self.index(addr);
        // New pages are zero. A device that could write one part of a page may have written the
        // whole page.
        if at < fresh || class < PAGE_SHIFT {
            self.bytes[at..at + len as usize].fill(0);
        }
        self.map(Iova(addr), len, Direction::ToDevice);
        self.map(Iova(addr), len, Direction::FromDevice);
        Ok(Coherent::from_parts(addr, Iova(addr), len, class))
    }

    /// Takes coherent memory back.
    pub fn release_coherent(&mut self, c: Coherent) {
        self.unmap(Iova(c.addr()), c.len(), Direction::ToDevice);
        self.unmap(Iova(c.addr()), c.len(), Direction::FromDevice);
        self.free[c.token() as usize].push(c.addr());
    }

    // ---- the CPU's accesses ----

    #[inline(always)]
    fn index(&self, addr: u64) -> usize {
        addr.wrapping_sub(self.base) as usize
    }

    /// Returns the bytes at `addr`, for the CPU.
    ///
    /// # Panics
    /// Panics outside memory, where no `Buf` or `Coherent` lies.
    #[inline(always)]
    pub fn cpu(&mut self, addr: u64, len: usize) -> &mut [u8] {
        let at = self.index(addr);
        &mut self.bytes[at..at + len]
    }

    /// Returns the bytes at `addr`, for the CPU to read.
    ///
    /// # Panics
    /// Panics as [`Memory::cpu`] does.
    #[inline(always)]
    pub fn peek(&self, addr: u64, len: usize) -> &[u8] {
        let at = self.index(addr);
        &self.bytes[at..at + len]
    }

    /// Copies within memory, for the CPU.
    ///
    /// # Panics
    /// Panics as [`Memory::cpu`] does.
    pub fn cpu_copy(&mut self, from: u64, to: u64, len: usize) {
        let (from, to) = (self.index(from), self.index(to));
        self.bytes.copy_within(from..from + len, to);
    }

    // ---- the guard ----

    /// Returns the granules of `len` bytes from `start` on.
    #[inline(always)]
    fn granules(&self, start: usize, len: usize) -> Range<usize> {
        start >> self.shift..(start + len + self.mask) >> self.shift
    }

    /// Maps bytes for the device.
    #[inline(always)]
    pub fn map(&mut self, at: Iova, len: u32, dir: Direction) {
        self.each_granule(at, len, |g| *g += one_of(dir));
    }

    /// Ends a mapping.
    #[inline(always)]
    pub fn unmap(&mut self, at: Iova, len: u32, dir: Direction) {
        self.each_granule(at, len, |g| *g -= one_of(dir));
    }

    #[inline(always)]
    fn each_granule(&mut self, at: Iova, len: u32, count: impl FnMut(&mut u32)) {
        let Range { start, end } = self.granules(self.index(at.0), len as usize);
        each(&mut self.live[start..end], count);
    }

    /// Returns the place in memory of `len` bytes of which `allowed` allows each granule.
    #[inline(always)]
    fn check(
        &self,
        at: Iova,
        len: usize,
        allowed: impl Fn(u32) -> bool,
    ) -> Result<usize, DmaFault> {
        let start = self.index(at.0);
        let end = start.checked_add(len);
        if end.is_none_or(|end| end > self.bytes.len()) {
            return Err(DmaFault { at, kind: DmaFaultKind::Unmapped });
        }
        let granules = self.granules(start, len);
        for (i, g) in self.live[granules].iter().enumerate() {
            if !allowed(*g) {
                return Err(self.fault(start, i, *g));
            }
        }
        Ok(start)
    }

    #[cold]
    fn fault(&self, start: usize, granule: usize, g: u32) -> DmaFault {
        let at = ((start >> self.shift) + granule) << self.shift;
        let kind = if g == 0 { DmaFaultKind::Unmapped } else { DmaFaultKind::Direction };
        DmaFault { at: Iova(self.base + at.max(start) as u64), kind }
    }

    /// Reads for the device, which looks at the first `seen` bytes: the others stay as they are.
    #[inline(always)]
    pub fn device_read(&self, from: Iova, into: &mut [u8], seen: usize) -> Result<(), DmaFault> {
        let at = self.check(from, into.len(), |g| g & READ != 0)?;
        let seen = seen.min(into.len());
        into[..seen].copy_from_slice(&self.bytes[at..at + seen]);
        Ok(())
    }

    /// Reads for a hypervisor, which may read whatever is mapped, in either direction: a
    /// POWER table entry never forbids reading.
    pub fn hypervisor_read(&self, from: Iova, into: &mut [u8]) -> Result<(), DmaFault> {
        let at = self.check_mapped(from, into.len())?;
        into.copy_from_slice(&self.bytes[at..at + into.len()]);
        Ok(())
    }

    /// Returns the place in memory of `len` mapped bytes.
    pub(crate) fn check_mapped(&self, at: Iova, len: usize) -> Result<usize, DmaFault> {
        self.check(at, len, |g| g != 0)
    }

    /// Checks that the device may write there.
    #[inline(always)]
    pub fn device_may_write(&self, to: Iova, len: usize) -> Result<(), DmaFault> {
        self.check(to, len, |g| g & !READ != 0).map(|_| ())
    }

    /// Notes a write of the device that is posted. The right to write was checked before.
    #[inline(always)]
    pub(crate) fn post(&mut self, to: Iova, len: usize) {
        self.each_line(to, len, |n| *n = n.wrapping_add(1));
    }

    /// Completes a posted write.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, to: Iova, bytes: &[u8]) {
        self.each_line(to, bytes.len(), |n| *n = n.wrapping_sub(1));
        let at = self.index(to.0);
        let to = &mut self.bytes[at..at + bytes.len()];
        if bytes.len() <= COPY { to.copy_from_slice(bytes) } else { copy_long(to, bytes) }
    }

    #[inline(always)]
    fn each_line(&mut self, to: Iova, len: usize, count: impl FnMut(&mut u16)) {
        let lines = self.lines(to, len);
        each(&mut self.posted[lines], count);
    }

    /// Returns true if a posted write that has not arrived may touch these bytes. Lines are
    /// counted, so one beside them may be meant.
    #[inline(always)]
    pub(crate) fn may_be_posted(&self, at: Iova, len: usize) -> bool {
        self.posted_to(at, len).iter().fold(0, |all, n| all | n) != 0
    }

    /// Returns the counts of posted writes of the lines of these bytes, those outside memory left
    /// out.
    #[inline(always)]
    fn posted_to(&self, at: Iova, len: usize) -> &[u16] {
        let lines = self.lines(at, len);
        let (start, end) = (lines.start.min(self.posted.len()), lines.end.min(self.posted.len()));
        &self.posted[start..end.max(start)]
    }

    /// Returns the sum, over the lines of these bytes, of the posted writes that have not arrived.
    pub(crate) fn posted_to_lines(&self, at: Iova, len: usize) -> usize {
        self.posted_to(at, len).iter().map(|n| usize::from(*n)).sum()
    }

    /// Returns the lines that two ranges have in common.
    pub(crate) fn lines_in_common(&self, a: (Iova, usize), b: (Iova, usize)) -> usize {
        let (a, b) = (self.lines(a.0, a.1), self.lines(b.0, b.1));
        a.end.min(b.end).saturating_sub(a.start.max(b.start))
    }

    #[inline(always)]
    fn lines(&self, at: Iova, len: usize) -> Range<usize> {
        let start = self.index(at.0);
        start >> LINE_SHIFT..start.saturating_add(len).div_ceil(1 << LINE_SHIFT)
    }

    /// Returns its physical address, and its length in bytes.
    pub(crate) fn extent(&self) -> (u64, usize) {
        (self.base, self.bytes.len())
    }

    /// Returns true if nothing was ever allocated, and so nothing mapped.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh == 0
    }

    /// Returns the granules that are still mapped: (read by the device, written by it).
    pub fn mapped(&self) -> (usize, usize) {
        let count = |bits: u32| self.live.iter().filter(|g| **g & bits > 0).count();
        (count(READ), count(!READ))
    }
}

/// Maps `size` bytes of zeroes, in large pages where the system has them: rings and buffers of a
/// machine are most of what is touched first, and each fault costs as much as a packet.
///
/// # Errors
/// The system refuses so much address space.
pub fn anonymous(size: usize) -> Result<MmapMut, OutOfMemory> {
    let bytes = MmapMut::map_anon(size).map_err(|_| OutOfMemory)?;
    #[cfg(all(target_os = "linux", not(miri)))]
    if size >= LARGE_PAGE {
        // A kernel without them refuses, and gives small ones.
        let _ = bytes.advise(memmap2::Advice::HugePage);
    }
    Ok(bytes)
}

/// Returns `n` zeroes in pages that the system makes when they are first touched.
pub(crate) fn zeroed<T: FromZeros>(n: usize) -> Result<Vec<T>, OutOfMemory> {
    T::new_vec_zeroed(n).map_err(|_| OutOfMemory)
}

/// Calls `f` for each item, of which there is mostly one.
#[inline(always)]
fn each<T>(items: &mut [T], mut f: impl FnMut(&mut T)) {
    match items {
        [one] => f(one),
        several => several.iter_mut().for_each(f),
    }
}

#[cold]
#[inline(never)]
fn copy_long(to: &mut [u8], from: &[u8]) {
    to.chunks_mut(COPY).zip(from.chunks(COPY)).for_each(|(to, from)| to.copy_from_slice(from));
}

#[cfg(test)]
mod tests;
