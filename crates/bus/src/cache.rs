//! The last-level cache between CPU, memory and devices: which accesses find their line in it.
//!
//! A cache has slices of sets of ways. A device's write goes to the line that is there, or takes
//! one of the ways for DMA; a device's read takes none. What a core loads or stores takes any way
//! ([`Policy::Inclusive`]), or leaves the ways for DMA ([`Policy::Victim`]). Among the ways that
//! an access may take, the one used longest ago is.
//!
//! The operating system hands out pages in no order, and a line's set follows from its address. So
//! each page of host memory has a frame of its own, drawn from 64 GiB by the seed: packets that all
//! begin at the same offset of a page share few sets. Addresses that a device sees stay as they
//! are.
//!
//! Left out: the caches of a core, so that it is charged for a line that is not here alone; what
//! writes back to memory take; prefetching.

use core::ops::Range;
use doorbell_hal::Span;

/// The place of a line that a core uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The cache holds what the cores' own caches do, and a line stays where it is: Intel's server
    /// CPUs up to Broadwell.
    Inclusive,
    /// The line goes to the core's own cache, and comes back to a way that is not for DMA: Intel's
    /// server CPUs since Skylake.
    Victim,
}

/// Shape and price of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Lines of a set.
    pub ways: u8,
    /// Sets of a slice.
    pub sets: u32,
    /// Slices, over which a hash of the address spreads the lines.
    pub slices: u32,
    /// Ways that a device's write may take. With none it goes to memory, and the line from here.
    pub dma_ways: u8,
    /// The place of a core's lines.
    pub policy: Policy,
    /// log2 of the bytes of a page: 12, or more where buffers lie in huge pages.
    pub page: u8,
    /// Seed of the frames of pages.
    pub seed: u64,
    /// Time that an access to memory takes beyond one to this cache.
    pub latency: Span,
}

doorbell_hal::counters! {
    /// Accesses by line.
    struct CacheCounts;
    /// Lines that the device wrote and that were in the last-level cache.
    llc_write_hits,
    /// Lines that the device wrote and that were not.
    llc_write_misses,
    /// Lines that the device read and that were in the last-level cache.
    llc_read_hits,
    /// Lines that the device read from memory.
    llc_read_misses,
    /// Lines that cores loaded or stored, and that were in the last-level cache.
    llc_cpu_hits,
    /// Lines that cores loaded or stored, and that were not.
    llc_cpu_misses,
}

const LINE_SHIFT: u32 = 6;
/// log2 of the bytes that frames are drawn from.
const FRAMES_SHIFT: u32 = 36;
/// A number that no line has.
const NONE: u32 = u32::MAX;

/// A last-level cache.
#[derive(Debug)]
pub struct Cache {
    geometry: Geometry,
    /// The address of the first line of memory, and for each line its way among those of all sets,
    /// plus one; 0 if it is not here.
    base: u64,
    ways: Vec<u32>,
    /// The number of the line in each way.
    lines: Vec<u32>,
    /// The time of its last use, in accesses.
    used: Vec<u64>,
    now: u64,
    /// The line that a core used last, if no other access came between.
    last: u32,
    /// The counts.
    pub counts: CacheCounts,
}

impl Cache {
    /// Makes an empty cache of `bytes` of memory at physical address `base`.
    ///
    /// # Panics
    /// Panics if it has no ways, more for DMA than it has, or no sets.
    pub fn new(geometry: Geometry, base: u64, bytes: usize) -> Cache {
        let Geometry { ways, sets, slices, dma_ways, page, .. } = geometry;
        assert!(ways > 0 && dma_ways <= ways && sets > 0 && slices > 0, "{geometry:?}");
        assert!((12..=30).contains(&page), "{geometry:?}");
        let all = usize::from(ways) * sets as usize * slices as usize;
        Cache {
            geometry,
            base,
            ways: vec![0; bytes.div_ceil(1 << LINE_SHIFT)],
            lines: vec![NONE; all],
            used: vec![0; all],
            now: 0,
            last: NONE,
            counts: CacheCounts::default(),
        }
    }

    /// Returns the time that an access to memory takes beyond one to this cache.
    pub const fn latency(&self) -> Span {
        self.geometry.latency
    }

    /// Takes a device's write of `len` bytes at physical address `at`.
    pub fn device_writes(&mut self, at: u64, len: usize) {
        self.last = NONE;
        let Geometry { ways, dma_ways, .. } = self.geometry;
        for line in self.lines_of(at, len) {
            if dma_ways == 0 {
                self.counts.llc_write_misses += 1;
                self.drop_line(line);
            } else if let Some(way) = self.find(line) {
                self.counts.llc_write_hits += 1;
                self.touch(way);
            } else {
                self.counts.llc_write_misses += 1;
                self.insert(line, ways - dma_ways..ways);
            }
        }
    }

    /// Takes a device's read of `len` bytes at physical address `at`. Returns whether all of them
    /// were here.
    pub fn device_reads(&mut self, at: u64, len: usize) -> bool {
        let before = self.counts.llc_read_misses;
        for line in self.lines_of(at, len) {
            let hit = self.find(line).is_some();
            self.counts.llc_read_hits += u64::from(hit);
            self.counts.llc_read_misses += u64::from(!hit);
        }
        self.counts.llc_read_misses == before
    }

    /// Takes a core's load or store of `len` bytes at physical address `at`. Returns whether all of
    /// them were here. A line that it used last is in its own cache.
    pub fn core_uses(&mut self, at: u64, len: usize) -> bool {
        let before = self.counts.llc_cpu_misses;
        for line in self.lines_of(at, len) {
            if line != self.last {
                self.last = line;
                self.core_uses_line(line);
            }
        }
        self.counts.llc_cpu_misses == before
    }

    #[inline(always)]
    fn core_uses_line(&mut self, line: u32) {
        match self.find(line) {
            Some(way) if self.geometry.policy == Policy::Inclusive => {
                self.counts.llc_cpu_hits += 1;
                self.touch(way);
            }
            found => self.move_to_core(line, found),
        }
    }

    /// Puts a line where a core's lines go.
    #[inline(never)]
    fn move_to_core(&mut self, line: u32, found: Option<usize>) {
        let Geometry { ways, dma_ways, policy, .. } = self.geometry;
        let own = if policy == Policy::Victim && dma_ways < ways { ways - dma_ways } else { ways };
        match found {
            Some(way) => {
                self.counts.llc_cpu_hits += 1;
                if way % usize::from(ways) < usize::from(own) {
                    return self.touch(way);
                }
                self.lines[way] = NONE;
                self.used[way] = 0;
            }
            None => self.counts.llc_cpu_misses += 1,
        }
        self.insert(line, 0..own);
    }

    /// Returns the first way of the set of a line, which follows from its page's frame.
    fn set(&self, line: u32) -> usize {
        let Geometry { ways, sets, slices, page, seed, .. } = self.geometry;
        let (line, in_page) = (u64::from(line), u32::from(page) - LINE_SHIFT);
        let frame = frame(line >> in_page, FRAMES_SHIFT - u32::from(page), seed);
        let line = frame << in_page | line & ((1 << in_page) - 1);
        // The hash over slices is not public.
        let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let slice = (hash * u64::from(slices)) >> 32;
        let set = slice * u64::from(sets) + line % u64::from(sets);
        set as usize * usize::from(ways)
    }

    /// Returns the way of a line.
    #[inline(always)]
    fn find(&self, line: u32) -> Option<usize> {
        (self.ways.get(line as usize).copied().unwrap_or(0) as usize).checked_sub(1)
    }

    #[cold]
    fn drop_line(&mut self, line: u32) {
        if let Some(way) = self.find(line) {
            (self.lines[way], self.used[way], self.ways[line as usize]) = (NONE, 0, 0);
        }
    }

    #[inline(always)]
    fn touch(&mut self, way: usize) {
        self.now += 1;
        self.used[way] = self.now;
    }

    /// Puts a line into the way used longest ago, of these of its set.
    #[inline(never)]
    fn insert(&mut self, line: u32, ways: Range<u8>) {
        let set = self.set(line);
        let ways = ways.map(|way| set + usize::from(way));
        let Some(way) = ways.min_by_key(|way| self.used[*way]) else { return };
        if let Some(old) = self.ways.get_mut(self.lines[way] as usize) {
            *old = 0;
        }
        if let Some(new) = self.ways.get_mut(line as usize) {
            *new = way as u32 + 1;
        }
        self.lines[way] = line;
        self.touch(way);
    }

    /// Returns the numbers of the lines of `len` bytes at `at`.
    #[inline(always)]
    fn lines_of(&self, at: u64, len: usize) -> Range<u32> {
        let start = at.wrapping_sub(self.base);
        let end = start.wrapping_add(len as u64 + (1 << LINE_SHIFT) - 1);
        (start >> LINE_SHIFT) as u32..(end >> LINE_SHIFT) as u32
    }
}

/// Returns the frame of a page, one of `1 << bits`: a permutation, so that no two pages share one.
#[inline(always)]
fn frame(page: u64, bits: u32, seed: u64) -> u64 {
    let mask = (1 << bits) - 1;
    let mut x = (page ^ seed) & mask;
    // Each step can be undone: a shift of the upper bits into the lower ones, and an odd factor.
    for factor in [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb_u64] {
        x ^= x >> bits.div_ceil(2);
        x = x.wrapping_mul(factor) & mask;
    }
    x ^ x >> bits.div_ceil(2)
}

#[cfg(test)]
mod tests;
