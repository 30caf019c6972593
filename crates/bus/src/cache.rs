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

use crate::memory::zeroed;
use core::ops::Range;
use doorbell_hal::{OutOfMemory, Span};
use zerocopy::FromZeros;

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

/// A line of memory. All zeroes at first, so that those that are not used are never touched.
#[derive(Clone, Copy, Default, FromZeros, Debug)]
struct Line {
    /// Its way among those of all sets, plus one; 0 if it is not here.
    way: u32,
    /// The first way of its set, plus one; 0 until it is asked for.
    set: u32,
}

/// A line of the cache.
#[derive(Clone, Copy, Default, FromZeros, Debug)]
struct Way {
    /// The time of its last use, in accesses; 0 if it is empty.
    used: u64,
    /// The number of the line in it, plus one; 0 if it is empty.
    line: u32,
}

/// A last-level cache.
#[derive(Debug)]
pub struct Cache {
    geometry: Geometry,
    /// The address of the first line of memory, and all of its lines.
    base: u64,
    lines: Vec<Line>,
    ways: Vec<Way>,
    /// The ways of a set that a device's write may take, and those that a core's lines may.
    for_dma: Range<u32>,
    for_cores: Range<u32>,
    /// The time, in accesses.
    now: u64,
    /// The line that a core used last, if no other access came between.
    last: u32,
    /// The counts.
    pub counts: CacheCounts,
}

impl Cache {
    /// Makes an empty cache of `bytes` of memory at physical address `base`.
    ///
    /// # Errors
    /// The host has no room for what is known of each line.
    ///
    /// # Panics
    /// Panics if it has no ways, more for DMA than it has, or no sets.
    pub fn new(geometry: Geometry, base: u64, bytes: usize) -> Result<Cache, OutOfMemory> {
        let Geometry { ways, sets, slices, dma_ways, page, policy, .. } = geometry;
        assert!(ways > 0 && dma_ways <= ways && sets > 0 && slices > 0, "{geometry:?}");
        assert!((12..=30).contains(&page), "{geometry:?}");
        let all = usize::from(ways) * sets as usize * slices as usize;
        let (ways, others) = (u32::from(ways), u32::from(ways - dma_ways));
        let apart = policy == Policy::Victim && others > 0;
        Ok(Cache {
            geometry,
            base,
            lines: zeroed(bytes.div_ceil(1 << LINE_SHIFT))?,
            ways: zeroed(all)?,
            for_dma: others..ways,
            for_cores: 0..if apart { others } else { ways },
            now: 0,
            last: NONE,
            counts: CacheCounts::default(),
        })
    }

    /// Returns the time that an access to memory takes beyond one to this cache.
    pub const fn latency(&self) -> Span {
        self.geometry.latency
    }

    /// Takes a device's write of `len` bytes at physical address `at`.
    #[inline(always)]
    pub fn device_writes(&mut self, at: u64, len: usize) {
        self.last = NONE;
        let lines = self.lines_of(at, len);
        // Mostly one line.
        if lines.end.wrapping_sub(lines.start) != 1 {
            self.device_writes_lines(lines);
        } else if !self.writes(lines.start) {
            self.fetch_written(lines.start);
        }
    }

    #[inline(never)]
    fn device_writes_lines(&mut self, lines: Range<u32>) {
        for line in lines {
            if !self.writes(line) {
                self.fetch_written(line);
            }
        }
    }

    /// Writes a line that is not here, or does not stay.
    #[inline(never)]
    fn fetch_written(&mut self, line: u32) {
        self.counts.llc_write_misses += 1;
        if self.for_dma.is_empty() {
            self.empty(self.find(line));
        } else {
            self.insert(line, self.for_dma.clone());
        }
    }

    /// Writes a line if it is here and stays where it is. Returns whether it did.
    #[inline(always)]
    fn writes(&mut self, line: u32) -> bool {
        let writes = !self.for_dma.is_empty() && self.touch(self.find(line));
        self.counts.llc_write_hits += u64::from(writes);
        writes
    }

    /// Takes a device's read of `len` bytes at physical address `at`. Returns whether all of them
    /// were here.
    pub fn device_reads(&mut self, at: u64, len: usize) -> bool {
        let before = self.counts.llc_read_misses;
        for line in self.lines_of(at, len) {
            let hit = self.find(line) != NONE;
            self.counts.llc_read_hits += u64::from(hit);
            self.counts.llc_read_misses += u64::from(!hit);
        }
        self.counts.llc_read_misses == before
    }

    /// Returns true if a core used all of `len` bytes at physical address `at` last, which are in
    /// its own cache then.
    #[inline(always)]
    pub(crate) fn was_last(&self, at: u64, len: usize) -> bool {
        let lines = self.lines_of(at, len);
        lines.start == self.last && lines.end == self.last.wrapping_add(1)
    }

    /// Takes a core's load or store of `len` bytes at physical address `at`. Returns whether all of
    /// them were here. A line that it used last is in its own cache.
    #[inline(always)]
    pub fn core_uses(&mut self, at: u64, len: usize) -> bool {
        let lines = self.lines_of(at, len);
        // Mostly one line, which is here.
        let line = lines.start;
        if lines.end.wrapping_sub(line) == 1 && line != self.last && self.core_touches(line) {
            self.last = line;
            return true;
        }
        self.core_uses_lines(lines)
    }

    #[inline(never)]
    fn core_uses_lines(&mut self, lines: Range<u32>) -> bool {
        let mut all = true;
        for line in lines {
            if line != self.last {
                self.last = line;
                all &= self.core_touches(line) || self.move_to_core(line);
            }
        }
        all
    }

    /// Uses a line if it is here and stays where it is. Returns whether it did.
    #[inline(always)]
    fn core_touches(&mut self, line: u32) -> bool {
        let stays = self.geometry.policy == Policy::Inclusive;
        let uses = stays && self.touch(self.find(line));
        self.counts.llc_cpu_hits += u64::from(uses);
        uses
    }

    /// Puts a line where a core's lines go. Returns whether it was here.
    fn move_to_core(&mut self, line: u32) -> bool {
        let found = self.find(line);
        if found == NONE {
            self.counts.llc_cpu_misses += 1;
        } else {
            self.counts.llc_cpu_hits += 1;
            if found % u32::from(self.geometry.ways) < self.for_cores.end {
                return self.touch(found);
            }
            self.empty(found);
        }
        self.insert(line, self.for_cores.clone());
        found != NONE
    }

    /// Returns the first way of the set of a line, which follows from its page's frame.
    #[cold]
    fn set(&self, line: u32) -> u32 {
        let Geometry { ways, sets, slices, page, seed, .. } = self.geometry;
        let (line, in_page) = (u64::from(line), u32::from(page) - LINE_SHIFT);
        let frame = frame(line >> in_page, FRAMES_SHIFT - u32::from(page), seed);
        let line = frame << in_page | line & ((1 << in_page) - 1);
        // The hash over slices is not public.
        let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let slice = (hash * u64::from(slices)) >> 32;
        let set = slice * u64::from(sets) + line % u64::from(sets);
        set as u32 * u32::from(ways)
    }

    /// Returns the way of a line, or [`NONE`].
    #[inline(always)]
    fn find(&self, line: u32) -> u32 {
        self.lines.get(line as usize).map_or(0, |line| line.way).wrapping_sub(1)
    }

    /// Empties a way.
    fn empty(&mut self, way: u32) {
        if let Some(way) = self.ways.get_mut(way as usize) {
            let line = core::mem::take(way).line;
            self.lines[line as usize - 1].way = 0;
        }
    }

    /// Notes the use of a way. Returns false if there is no such way.
    #[inline(always)]
    fn touch(&mut self, way: u32) -> bool {
        let Some(way) = self.ways.get_mut(way as usize) else { return false };
        self.now += 1;
        way.used = self.now;
        true
    }

    /// Puts a line into the way used longest ago, of these of its set.
    #[inline(always)]
    fn insert(&mut self, line: u32, among: Range<u32>) {
        let Some(place) = self.lines.get(line as usize) else { return };
        let set = place.set.checked_sub(1).unwrap_or_else(|| self.set(line));
        let first = set + among.start;
        let (mut way, mut oldest) = (first, u64::MAX);
        for (at, w) in (first..).zip(&self.ways[first as usize..(set + among.end) as usize]) {
            if w.used < oldest {
                (way, oldest) = (at, w.used);
            }
        }
        self.now += 1;
        let new = Way { used: self.now, line: line + 1 };
        let old = core::mem::replace(&mut self.ways[way as usize], new);
        if let Some(old) = self.lines.get_mut(old.line.wrapping_sub(1) as usize) {
            old.way = 0;
        }
        self.lines[line as usize] = Line { way: way + 1, set: set + 1 };
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
