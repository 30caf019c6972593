//! The cache of translations of an I/O MMU: the time that a device's access waits for one.
//!
//! Each page that an access touches has to be in the cache, of which the entry used longest ago
//! goes. One that is not is walked for, by one of a few walkers; accesses to the same page wait for
//! the same walk. Bytes do not change, and neither do the addresses that a device sees.
//!
//! Left out: invalidations, whose price the CPU pays when it unmaps; caches of the upper levels of
//! the tables; a cache in the device (ATS).

use doorbell_hal::{Span, Time};

/// Shape and price of a cache of translations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Pages that it holds.
    pub entries: u32,
    /// log2 of the bytes of a page.
    pub page: u8,
    /// Time of a walk.
    pub walk: Span,
    /// Walks that can be under way.
    pub walkers: u8,
}

doorbell_hal::counters! {
    /// Accesses by page.
    struct IotlbCounts;
    /// Pages of accesses of the device whose translation was in the I/O MMU's cache.
    iotlb_hits,
    /// Pages of accesses of the device whose translation was walked for.
    iotlb_misses,
}

/// A cache of translations.
#[derive(Debug)]
pub struct Iotlb {
    geometry: Geometry,
    entries: Vec<Entry>,
    /// The times at which walkers are free.
    walkers: Vec<Time>,
    now: u64,
    /// The counts.
    pub counts: IotlbCounts,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u64,
    /// The end of its walk.
    ready: Time,
    /// Its last use, in accesses.
    used: u64,
}

impl Iotlb {
    /// Makes an empty cache.
    ///
    /// # Panics
    /// Panics if it has no entries or no walkers.
    pub fn new(geometry: Geometry) -> Iotlb {
        let Geometry { entries, walkers, .. } = geometry;
        assert!(entries > 0 && walkers > 0, "{geometry:?}");
        Iotlb {
            geometry,
            entries: Vec::with_capacity(entries as usize),
            walkers: vec![Time::ZERO; walkers.into()],
            now: 0,
            counts: IotlbCounts::default(),
        }
    }

    /// Returns the time at which an access to `len` bytes at `addr`, which came at `at`, has the
    /// translations of all its pages.
    pub fn translate(&mut self, at: Time, addr: u64, len: usize) -> Time {
        let page = self.geometry.page;
        let last = addr.saturating_add((len as u64).saturating_sub(1)) >> page;
        (addr >> page..=last).fold(at, |ready, page| ready.max(self.page(at, page)))
    }

    fn page(&mut self, at: Time, page: u64) -> Time {
        self.now += 1;
        if let Some(entry) = self.entries.iter_mut().find(|e| e.page == page) {
            entry.used = self.now;
            self.counts.iotlb_hits += 1;
            return entry.ready;
        }
        self.counts.iotlb_misses += 1;
        let ready = match self.walkers.iter_mut().min() {
            Some(free) => {
                *free = at.max(*free) + self.geometry.walk;
                *free
            }
            None => at,
        };
        let new = Entry { page, ready, used: self.now };
        if self.entries.len() < self.geometry.entries as usize {
            self.entries.push(new);
        } else if let Some(oldest) = self.entries.iter_mut().min_by_key(|e| e.used) {
            *oldest = new;
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALK: Span = Span::from_ns(330);

    fn iotlb(entries: u32, walkers: u8) -> Iotlb {
        Iotlb::new(Geometry { entries, page: 12, walk: WALK, walkers })
    }

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    #[test]
    fn a_page_is_walked_for_once() {
        let mut t = iotlb(64, 1);
        assert_eq!(t.translate(at(100), 0x1000, 64), at(430));
        assert_eq!(t.translate(at(200), 0x1fc0, 64), at(430), "it waits for the walk under way");
        assert_eq!(t.translate(at(500), 0x1000, 4096), at(500));
        assert_eq!((t.counts.iotlb_hits, t.counts.iotlb_misses), (2, 1));
    }

    #[test]
    fn an_access_waits_for_each_of_its_pages() {
        let one = iotlb(64, 1).translate(at(0), 0x1ff0, 32);
        let two = iotlb(64, 2).translate(at(0), 0x1ff0, 32);
        assert_eq!((one, two), (at(660), at(330)));
    }

    #[test]
    fn the_page_used_longest_ago_goes() {
        let mut t = iotlb(2, 1);
        for page in [1, 2, 1, 3, 1, 2] {
            t.translate(at(0), page << 12, 1);
        }
        assert_eq!((t.counts.iotlb_hits, t.counts.iotlb_misses), (2, 4));
    }

    /// A window of as many pages as it holds always hits, and one of a page more never does.
    #[test]
    fn the_edge_is_its_size() {
        for (pages, misses) in [(64, 64), (65, 650)] {
            let mut t = iotlb(64, 6);
            (0..10).for_each(|_| (0..pages).for_each(|n| _ = t.translate(at(0), n << 12, 64)));
            assert_eq!(t.counts.iotlb_misses, misses, "{pages} pages");
        }
    }

    /// Walks by six at a time let through 6 accesses in each 330 ns, whatever comes.
    #[test]
    fn walkers_limit_the_rate() {
        let mut t = iotlb(64, 6);
        let last = (0..600).map(|n| t.translate(at(0), n << 12, 64)).max();
        assert_eq!(last, Some(at(100 * 330)));
    }
}
