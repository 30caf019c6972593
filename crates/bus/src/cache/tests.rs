use super::*;
use proptest::prelude::*;
use proptest::sample::select;

/// Two ways of four sets in one slice, one of them for DMA; pages of 4 KiB.
const SMALL: Geometry = Geometry {
    ways: 2,
    sets: 4,
    slices: 1,
    dma_ways: 1,
    policy: Policy::Inclusive,
    page: 12,
    seed: 0,
    latency: Span::from_ns(70),
};

/// Returns addresses of one page whose lines are of one set of [`SMALL`].
fn of_one_set(n: u64) -> u64 {
    n * 4 * 64
}

#[test]
fn a_line_is_there_after_it_was_written() {
    let mut c = Cache::new(SMALL, 0, 1 << 12).unwrap();
    c.device_writes(0, 64);
    c.device_writes(10, 54);
    assert!(c.core_uses(0, 8) && c.device_reads(60, 4));
    assert!(!c.device_reads(60, 5), "a second line");
    let want = CacheCounts {
        llc_write_hits: 1,
        llc_write_misses: 1,
        llc_cpu_hits: 1,
        llc_read_hits: 2,
        llc_read_misses: 1,
        ..CacheCounts::default()
    };
    assert_eq!(c.counts, want);
}

#[test]
fn a_devices_write_takes_the_ways_for_dma_alone() {
    let mut c = Cache::new(SMALL, 0, 1 << 12).unwrap();
    c.core_uses(of_one_set(0), 8);
    for n in 1..8 {
        c.device_writes(of_one_set(n), 64);
    }
    assert!(c.core_uses(of_one_set(0), 8), "the other way is a core's");
    assert!(c.device_reads(of_one_set(7), 8) && !c.device_reads(of_one_set(6), 8));
}

#[test]
fn a_cores_line_takes_what_was_used_longest_ago() {
    let mut c = Cache::new(SMALL, 0, 1 << 12).unwrap();
    assert!(!c.core_uses(of_one_set(0), 8) && !c.core_uses(of_one_set(1), 8));
    assert!(c.core_uses(of_one_set(0), 8), "both are there");
    c.core_uses(of_one_set(2), 8);
    assert!(c.device_reads(of_one_set(0), 8) && !c.device_reads(of_one_set(1), 8));
}

#[test]
fn a_line_in_a_way_for_dma_stays_there_or_leaves_it() {
    for (policy, stays) in [(Policy::Inclusive, true), (Policy::Victim, false)] {
        let mut c = Cache::new(Geometry { policy, ..SMALL }, 0, 1 << 12).unwrap();
        c.device_writes(of_one_set(0), 64);
        assert!(c.core_uses(of_one_set(0), 8), "{policy:?}");
        c.device_writes(of_one_set(1), 64);
        assert_eq!(c.device_reads(of_one_set(0), 8), !stays, "{policy:?}");
    }
}

#[test]
fn without_ways_for_dma_writes_go_to_memory() {
    let mut c = Cache::new(Geometry { dma_ways: 0, ..SMALL }, 0, 1 << 12).unwrap();
    c.core_uses(of_one_set(0), 8);
    c.device_writes(of_one_set(0), 64);
    assert!(!c.core_uses(of_one_set(0), 8), "what it held is stale");
    assert!(c.core_uses(of_one_set(0), 8));
    assert_eq!((c.counts.llc_write_hits, c.counts.llc_write_misses), (0, 1));
}

/// Each page has a frame of its own, and the frames of many pages fill the sets at random: with a
/// mean of 10 lines a set, a share of e^-10 10^n / n! of the sets has n.
#[test]
fn frames_of_pages_fall_at_random() {
    let bits = FRAMES_SHIFT - 12;
    let mut all: Vec<u64> = (0..100_000).map(|page| frame(page, bits, 7)).collect();
    let sets = 2_000;
    let mut of = vec![0u32; sets];
    all[..20_000].iter().for_each(|f| of[(f % sets as u64) as usize] += 1);
    let share = |n: u32| of.iter().filter(|m| **m == n).count() as f64 / sets as f64;
    assert!((share(10) - 0.125).abs() < 0.025, "{}", share(10));
    assert!((share(5) - 0.038).abs() < 0.015, "{}", share(5));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 100_000);
    assert_ne!(frame(1, bits, 7), frame(1, bits, 8), "the seed draws them");
}

/// A cache of 6 x 2048 x 20 lines, written at one offset of each page: 192 sets. Beyond 3,840 pages
/// in turn nothing is ever found; half as many are nearly all found.
#[test]
fn packets_at_one_offset_of_their_pages_share_few_sets() {
    let e5 = Geometry { ways: 20, sets: 2048, slices: 6, dma_ways: 2, ..SMALL };
    let missed = |pages: u64| {
        let mut c = Cache::new(e5, 0, 8192 << 12).unwrap();
        for lap in 0..10 {
            if lap == 5 {
                c.counts = CacheCounts::default();
            }
            for page in 0..pages {
                c.device_writes(page * 4096 + 256, 64);
                // The packets of a full ring of 1024 come before it.
                c.core_uses((page + pages - 1023) % pages * 4096 + 256, 12);
            }
        }
        let all = c.counts.llc_write_hits + c.counts.llc_write_misses;
        c.counts.llc_write_misses as f64 / all as f64
    };
    // A line is gone if 20 others or more are of its set, of which the mean is 10 or 40.
    assert!(missed(1920) < 0.02, "{}", missed(1920));
    assert!(missed(7680) > 0.98, "{}", missed(7680));
}

/// The rules of the cache, in the plainest way: each set is a list of lines and of their last uses.
struct Plain {
    sets: Vec<Vec<(Option<u32>, u64)>>,
    now: u64,
    last: Option<u32>,
    counts: CacheCounts,
}

impl Plain {
    /// Puts a line into the place used longest ago, of these.
    fn insert(&mut self, set: usize, line: u32, among: Range<usize>) {
        self.now += 1;
        let places = &mut self.sets[set][among];
        if let Some(place) = places.iter_mut().min_by_key(|place| place.1) {
            *place = (Some(line), self.now);
        }
    }

    fn access(&mut self, set: usize, line: u32, g: Geometry, access: Access) {
        let (ways, dma) = (usize::from(g.ways), usize::from(g.dma_ways));
        let found = self.sets[set].iter().position(|place| place.0 == Some(line));
        let own = if g.policy == Policy::Victim && dma < ways { ways - dma } else { ways };
        let c = &mut self.counts;
        let (hits, misses) = match access {
            Access::Write => (&mut c.llc_write_hits, &mut c.llc_write_misses),
            Access::Read => (&mut c.llc_read_hits, &mut c.llc_read_misses),
            Access::Core if self.last.replace(line) == Some(line) => return,
            Access::Core => (&mut c.llc_cpu_hits, &mut c.llc_cpu_misses),
        };
        let hit = found.is_some() && !(access == Access::Write && dma == 0);
        *(if hit { hits } else { misses }) += 1;
        let stays = match access {
            Access::Write => dma > 0,
            Access::Read => return,
            Access::Core => g.policy == Policy::Inclusive || found.is_some_and(|way| way < own),
        };
        if let Some(way) = found {
            self.now += 1;
            self.sets[set][way].1 = self.now;
            if stays {
                return;
            }
            self.sets[set][way] = (None, 0);
        }
        match access {
            Access::Write => self.insert(set, line, ways - dma..ways),
            _ => self.insert(set, line, 0..own),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    Write,
    Read,
    Core,
}

proptest! {
    #[test]
    fn lines_are_where_the_plainest_cache_has_them(
        (ways, dma_ways) in (1u8..5).prop_flat_map(|ways| (Just(ways), 0..=ways)),
        is_victim in any::<bool>(),
        slices in 1u32..4,
        accesses in proptest::collection::vec(
            (select(vec![Access::Write, Access::Read, Access::Core]), 0u64..8000, 1usize..190),
            1..400,
        ),
    ) {
        let policy = if is_victim { Policy::Victim } else { Policy::Inclusive };
        let g = Geometry { ways, dma_ways, slices, policy, ..SMALL };
        let base = 1 << 20;
        let mut c = Cache::new(g, base, 2 << 12).unwrap();
        let mut plain = Plain {
            sets: vec![vec![(None, 0); ways.into()]; 4 * slices as usize],
            now: 0,
            last: None,
            counts: CacheCounts::default(),
        };
        for (access, at, len) in accesses {
            let len = len.min(8192 - at as usize);
            if access == Access::Write {
                plain.last = None;
            }
            for line in (at / 64) as u32..(at as usize + len).div_ceil(64) as u32 {
                let set = c.set(line) / u32::from(ways);
                plain.access(set as usize, line, g, access);
            }
            match access {
                Access::Write => c.device_writes(base + at, len),
                Access::Read => drop(c.device_reads(base + at, len)),
                Access::Core => drop(c.core_uses(base + at, len)),
            }
            prop_assert_eq!(c.counts, plain.counts);
        }
    }
}
