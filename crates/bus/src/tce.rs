//! POWER's I/O translation: a table of translation control entries (TCEs), one for each 4-KiB page.
//!
//! To map a buffer the operating system takes as many free entries in a row as the buffer touches
//! pages, and asks the hypervisor to fill them in. docs/buses.md has the calls and the search for
//! free entries. Without a long enough run a mapping fails with [`MapFault::NoEntries`]. The guard
//! of memory still holds behind an entry ([`ProtectionGranularity`](crate::ProtectionGranularity)).
//! Source: Linux, `arch/powerpc/platforms/pseries/iommu.c`.

use doorbell_hal::{Direction, DmaFault, DmaFaultKind, Iova, MapFault, Span, fail_if};

/// log2 of the page of an entry.
const PAGE_SHIFT: u32 = 12;
const PAGE: u64 = 1 << PAGE_SHIFT;
/// The device may read.
const READ: u64 = 1;
/// The device may write.
const WRITE: u64 = 2;
/// Entries in a 128-byte line of the table.
const LINE: u32 = 16;
/// Mappings of more pages are large.
const SMALL: u32 = 15;
/// Entries that H_PUT_TCE_INDIRECT and H_STUFF_TCE take: a page of them (PAPR 14.5.4.2).
const MOST: u32 = 512;

/// The prices of the hypervisor's calls, to the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// H_PUT_TCE.
    pub put: Span,
    /// H_PUT_TCE_INDIRECT.
    pub put_indirect: Span,
    /// H_STUFF_TCE.
    pub stuff: Span,
    /// Each entry of the latter two.
    pub entry: Span,
}

/// A window of I/O bus addresses, and the cost of its management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its first address, on a page.
    pub base: u64,
    /// Its pages.
    pub pages: u32,
    /// The hypervisor takes several entries in a call (FW_FEATURE_MULTITCE).
    pub multi: bool,
    /// The prices of calls.
    pub prices: Prices,
}

/// The cost of mapping or unmapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Entries written, cleared ones included.
    pub entries: u64,
    /// Calls.
    pub calls: u64,
    /// The caller's time.
    pub time: Span,
}

/// A call by which a guest writes entries itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// H_PUT_TCE: one entry.
    Put,
    /// H_PUT_TCE_INDIRECT: a list of them.
    List,
    /// H_STUFF_TCE: the same for several.
    Stuffed,
}

/// Entries `start..end`, searched from `hint`.
#[derive(Clone, Copy, Debug)]
struct Pool {
    start: u32,
    end: u32,
    hint: u32,
}

/// The translation table of one window.
#[derive(Debug)]
pub struct Table {
    window: Window,
    /// Real page address and permissions; zero: not mapped.
    entries: Vec<u64>,
    /// One bit an entry: taken.
    taken: Vec<u64>,
    small: Pool,
    large: Pool,
    live: u32,
}

impl Table {
    /// Creates a table without mappings.
    ///
    /// # Panics
    /// Panics if the window does not start on a page, or goes beyond 2^64.
    pub fn new(window: Window) -> Table {
        assert_eq!(window.base % PAGE, 0, "a window starts on a page");
        assert!(
            window.base.checked_add(u64::from(window.pages) << PAGE_SHIFT).is_some(),
            "a window ends below 2^64"
        );
        // Rounded to words of the bitmap; a tiny window is all small.
        let split = (window.pages - window.pages / 4).next_multiple_of(64).min(window.pages);
        Table {
            window,
            entries: vec![0; window.pages as usize],
            taken: vec![0; window.pages.div_ceil(64) as usize],
            small: Pool { start: 0, end: split, hint: 0 },
            large: Pool { start: split, end: window.pages, hint: split },
            live: 0,
        }
    }

    /// Returns the entries in use.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Returns the number of pages that `len` bytes at `addr` touch, at least one.
    fn pages(addr: u64, len: u32) -> u32 {
        (((addr & (PAGE - 1)) + u64::from(len.max(1))).div_ceil(PAGE)) as u32
    }

    /// Maps `len` bytes at real address `addr`. Returns the device's address and the cost.
    ///
    /// # Errors
    /// [`MapFault::NoEntries`]: no run of free entries is long enough.
    #[inline(always)]
    pub fn map(
        &mut self,
        addr: u64,
        len: u32,
        allows: Direction,
    ) -> Result<(Iova, Cost), MapFault> {
        let n = Table::pages(addr, len);
        let first = self.take(n).ok_or(MapFault::NoEntries)?;
        let write = if allows.is_written() { WRITE } else { 0 };
        for (i, entry) in (0u64..).zip(&mut self.entries[first as usize..(first + n) as usize]) {
            *entry = ((addr & !(PAGE - 1)) + i * PAGE) | READ | write;
        }
        self.live += n;
        let Window { base, multi, prices, .. } = self.window;
        let entries = u64::from(n);
        let cost = if multi && n > 1 {
            let calls = u64::from(n.div_ceil(MOST));
            Cost { entries, calls, time: prices.put_indirect * calls + prices.entry * entries }
        } else {
            Cost { entries, calls: entries, time: prices.put * entries }
        };
        Ok((Iova(base + (u64::from(first) << PAGE_SHIFT) + (addr & (PAGE - 1))), cost))
    }

    /// Ends a mapping that [`Table::map`] made.
    ///
    /// # Panics
    /// Panics if it is not one.
    #[inline]
    pub fn unmap(&mut self, at: Iova, len: u32) -> Cost {
        let n = Table::pages(at.0, len);
        let first = ((at.0 - self.window.base) >> PAGE_SHIFT) as u32;
        for i in first..first + n {
            assert_ne!(self.entries[i as usize], 0, "unmap of {at:?}, which is not mapped");
            self.entries[i as usize] = 0;
            self.taken[(i / 64) as usize] &= !(1 << (i % 64));
        }
        self.live -= n;
        let Window { multi, prices, .. } = self.window;
        let entries = u64::from(n);
        if multi {
            let calls = u64::from(n.div_ceil(MOST));
            Cost { entries, calls, time: prices.stuff * calls + prices.entry * entries }
        } else {
            Cost { entries, calls: entries, time: prices.put * entries }
        }
    }

    /// Writes entries from the page of `at` on, as a guest's own call asks for: each a real address
    /// with the bits of its rights. Returns the cost; `None` if they are not all in the window, and
    /// none is written.
    pub fn write(&mut self, at: u64, entries: &[u64], by: Written) -> Option<Cost> {
        let first = usize::try_from(self.place(at)?).ok()?;
        let places = self.entries.get_mut(first..first.checked_add(entries.len())?)?;
        for (place, entry) in places.iter_mut().zip(entries) {
            // What may be written may be read, and without a right nothing is mapped.
            let entry = match entry & (READ | WRITE) {
                0 => 0,
                rights => entry & !(PAGE - 1) | READ | rights & WRITE,
            };
            let before = std::mem::replace(place, entry);
            self.live = self.live + u32::from(entry != 0) - u32::from(before != 0);
        }
        let Prices { put, put_indirect, stuff, entry } = self.window.prices;
        let n = entries.len() as u64;
        let time = match by {
            Written::Put => put,
            Written::List => put_indirect + entry * n,
            Written::Stuffed => stuff + entry * n,
        };
        Some(Cost { entries: n, calls: 1, time })
    }

    /// Returns the entry of the page of `at`, if it is in the window.
    pub fn entry(&self, at: u64) -> Option<u64> {
        self.entries.get(usize::try_from(self.place(at)?).ok()?).copied()
    }

    /// Returns the number of the entry of `at`.
    fn place(&self, at: u64) -> Option<u64> {
        Some(at.checked_sub(self.window.base)? >> PAGE_SHIFT)
    }

    /// Returns the real address of `at`, and the bytes from there to the end of its page.
    ///
    /// # Errors
    /// [`DmaFaultKind::Unmapped`] outside the window or without an entry,
    /// [`DmaFaultKind::Direction`] if the entry does not allow it.
    pub fn translate(&self, at: Iova, dir: Direction) -> Result<(u64, usize), DmaFault> {
        let page = at.0.wrapping_sub(self.window.base) >> PAGE_SHIFT;
        let entry =
            usize::try_from(page).ok().and_then(|i| self.entries.get(i)).copied().unwrap_or(0);
        let needed = match dir {
            Direction::ToDevice => READ,
            Direction::FromDevice => WRITE,
            Direction::Both => READ | WRITE,
        };
        fail_if(entry == 0, DmaFault { at, kind: DmaFaultKind::Unmapped })?;
        fail_if(entry & needed != needed, DmaFault { at, kind: DmaFaultKind::Direction })?;
        let offset = at.0 & (PAGE - 1);
        Ok(((entry & !(PAGE - 1)) + offset, (PAGE - offset) as usize))
    }

    /// Returns the real address of `at`, and how many of `len` bytes from there lie in one piece.
    /// Fails as [`Table::translate`], for the first page.
    pub(crate) fn translate_run(
        &self,
        at: Iova,
        len: usize,
        dir: Direction,
    ) -> Result<(u64, usize), DmaFault> {
        let (physical, mut run) = self.translate(at, dir)?;
        let first = (at.0.wrapping_sub(self.window.base) >> PAGE_SHIFT) as usize;
        let mut pages = self.entries[first..].windows(2);
        while run < len && pages.next().is_some_and(|p| p[1] == p[0] + PAGE) {
            run += PAGE as usize;
        }
        Ok((physical, run.min(len)))
    }

    // ---- the bitmap ----

    #[inline]
    fn take(&mut self, n: u32) -> Option<u32> {
        let small = n <= SMALL;
        let first = if small {
            self.search(self.small, n).or_else(|| self.search(self.large, n))
        } else {
            self.search(self.large, n).or_else(|| self.search(self.small, n))
        }?;
        let pool = if first < self.small.end { &mut self.small } else { &mut self.large };
        let end = first + n;
        pool.hint = if small { end.next_multiple_of(LINE) } else { end };
        for i in first..end {
            self.taken[(i / 64) as usize] |= 1 << (i % 64);
        }
        Some(first)
    }

    /// `n` free entries in a row in `pool`, from its hint on or else from its start.
    fn search(&self, pool: Pool, n: u32) -> Option<u32> {
        self.run(pool.hint, pool.end, n).or_else(|| self.run(pool.start, pool.end, n))
    }

    /// The first `n` free entries in a row in `from..to`.
    fn run(&self, from: u32, to: u32, n: u32) -> Option<u32> {
        let mut start = from;
        while start.checked_add(n)? <= to {
            // The first taken entry of the run, if any; the search goes on behind it.
            match self.next(start, start + n, true) {
                None => return Some(start),
                Some(taken) => start = self.next(taken, to, false)?,
            }
        }
        None
    }

    /// The first entry in `from..to` that is taken, or is not.
    fn next(&self, from: u32, to: u32, taken: bool) -> Option<u32> {
        let mut i = from;
        while i < to {
            let word = self.taken[(i / 64) as usize] ^ if taken { 0 } else { u64::MAX };
            let rest = word >> (i % 64);
            if rest != 0 {
                let found = i + rest.trailing_zeros();
                return (found < to).then_some(found);
            }
            i = (i / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests;
