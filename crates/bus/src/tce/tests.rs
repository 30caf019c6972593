use super::*;
use proptest::prelude::*;

const US: Prices = Prices {
    put: Span::from_us(1),
    put_indirect: Span::from_us(2),
    stuff: Span::from_us(3),
    entry: Span::from_ns(10),
};

fn window(pages: u32, multi: bool) -> Window {
    Window { base: 0x8000_0000, pages, multi, prices: US }
}

const TO: Direction = Direction::ToDevice;

#[test]
fn a_frame_across_a_page_costs_two_entries_and_four_calls() {
    let mut t = Table::new(window(256, false));
    let (inside, one) = t.map(0x1_0000_0800, 1514, TO).unwrap();
    let (across, two) = t.map(0x1_0000_0E00, 1514, TO).unwrap();
    assert_eq!(one, Cost { entries: 1, calls: 1, time: Span::from_us(1) });
    assert_eq!(two, Cost { entries: 2, calls: 2, time: Span::from_us(2) });
    assert_eq!(inside, Iova(0x8000_0800));
    assert_eq!(across, Iova(0x8001_0E00), "the next line of the table");
    assert_eq!(t.unmap(inside, 1514), one);
    assert_eq!(t.unmap(across, 1514), two);
    assert_eq!(t.live(), 0);
}

#[test]
fn multi_tce_saves_calls_only_for_several_pages() {
    let mut t = Table::new(window(8192, true));
    let (one, cost) = t.map(0, 100, TO).unwrap();
    assert_eq!(cost, Cost { entries: 1, calls: 1, time: Span::from_us(1) }, "plain H_PUT_TCE");
    assert_eq!(t.unmap(one, 100), Cost { entries: 1, calls: 1, time: Span::from_ps(3_010_000) });
    let (many, cost) = t.map(0, 600 << 12, TO).unwrap();
    assert_eq!(cost, Cost { entries: 600, calls: 2, time: Span::from_us(10) });
    let cost = t.unmap(many, 600 << 12);
    assert_eq!(cost, Cost { entries: 600, calls: 2, time: Span::from_us(12) });
}

#[test]
fn each_page_has_its_own_real_address() {
    let mut t = Table::new(window(64, true));
    let (at, _) = t.map(0x5000_0FFC, 8, TO).unwrap();
    assert_eq!(t.translate(at, Direction::ToDevice), Ok((0x5000_0FFC, 4)));
    assert_eq!(t.translate(at + 4, Direction::ToDevice), Ok((0x5000_1000, 4096)));
    let fault = |at, kind| Err(DmaFault { at, kind });
    assert_eq!(t.translate(at, Direction::FromDevice), fault(at, DmaFaultKind::Direction));
    let run = |t: &Table, len| t.translate_run(at, len, Direction::ToDevice);
    assert_eq!([3, 8].map(|len| run(&t, len)), [Ok((0x5000_0FFC, 3)), Ok((0x5000_0FFC, 8))]);
    assert_eq!(run(&t, 9000), Ok((0x5000_0FFC, 4100)), "the entries end there");
    let (apart, _) = t.map(0x9000_0000, 4096, TO).unwrap();
    assert_eq!(apart.0 & !4095, (at.0 & !4095) + 16 * 4096, "the next line of the table");
    for outside in
        [Iova(at.0 + 4 + 4096), Iova(0), Iova(0x7FFF_FFFF), Iova(0x8004_0000), Iova(u64::MAX)]
    {
        assert_eq!(
            t.translate(outside, Direction::ToDevice),
            fault(outside, DmaFaultKind::Unmapped)
        );
    }
    t.unmap(at, 8);
    assert_eq!(t.translate(at, Direction::ToDevice), fault(at, DmaFaultKind::Unmapped));
}

#[test]
fn large_mappings_live_in_the_top_quarter() {
    let mut t = Table::new(window(1024, true));
    assert_eq!(t.map(0, 16 << 12, TO).unwrap().0, Iova(0x8000_0000 + 768 * 4096));
    assert_eq!(t.map(0, 15 << 12, TO).unwrap().0, Iova(0x8000_0000));
}

#[test]
fn what_was_freed_is_not_at_once_used_again() {
    let mut t = Table::new(window(64, false));
    let mut seen = vec![];
    for _ in 0..5 {
        let (at, _) = t.map(0, 64, TO).unwrap();
        seen.push((at.0 - 0x8000_0000) >> 12);
        t.unmap(at, 64);
    }
    assert_eq!(seen, [0, 16, 32, 48, 0]);
}

#[test]
fn a_window_ends_and_recovers() {
    let mut t = Table::new(window(20, false));
    let all: Vec<Iova> = (0..20).map(|_| t.map(0, 1, TO).unwrap().0).collect();
    assert_eq!(t.map(0, 1, TO), Err(MapFault::NoEntries));
    assert_eq!(t.live(), 20);
    t.unmap(all[7], 1);
    assert_eq!(t.map(0, 4097, TO), Err(MapFault::NoEntries), "no two in a row");
    assert_eq!(t.map(0, 1, TO).unwrap().0, all[7]);
    assert_eq!(Table::new(window(0, false)).map(0, 1, TO), Err(MapFault::NoEntries));
}

proptest! {
    /// No entry is in two mappings. After a refusal neither part has a free run of that length.
    #[test]
    fn mappings_never_overlap(
        pages in 1u32..400,
        steps in prop::collection::vec((0u32..80_000, any::<u16>()), 1..200),
    ) {
        let mut t = Table::new(window(pages, true));
        let mut live: Vec<(Iova, u32, u64)> = vec![];
        let mut used = vec![false; pages as usize];
        for (len, pick) in steps {
            if pick % 3 == 0 && !live.is_empty() {
                let (at, len, _) = live.swap_remove(usize::from(pick) % live.len());
                let first = ((at.0 - 0x8000_0000) >> 12) as usize;
                used[first..first + Table::pages(at.0, len) as usize].fill(false);
                t.unmap(at, len);
                continue;
            }
            let addr = u64::from(pick) << 8;
            let n = Table::pages(addr, len) as usize;
            match t.map(addr, len, TO) {
                Ok((at, _)) => {
                    let first = ((at.0 - 0x8000_0000) >> 12) as usize;
                    prop_assert!(used[first..first + n].iter().all(|u| !u));
                    used[first..first + n].fill(true);
                    live.push((at, len, addr));
                }
                Err(_) => {
                    let split = t.small.end as usize;
                    for part in [&used[..split], &used[split..]] {
                        prop_assert!(part.windows(n).all(|w| w.iter().any(|u| *u)));
                    }
                }
            }
        }
        for (at, len, addr) in &live {
            if *len > 0 {
                let last = u64::from(*len - 1);
                let (found, _) = t.translate(*at + last, Direction::ToDevice).unwrap();
                prop_assert_eq!(found, addr + last);
            }
        }
        prop_assert_eq!(t.live() as usize, used.iter().filter(|u| **u).count());
    }
}

#[test]
fn guest_writes_entries_that_the_device_sees() {
    let mut t = Table::new(Window { base: 0, ..window(64, true) });
    let one = t.write(0x1000, &[0x5000_0001], Written::Put);
    assert_eq!(one, Some(Cost { entries: 1, calls: 1, time: Span::from_us(1) }));
    let list = t.write(0x2000, &[0x7000_0002, 0x9000_0003], Written::List);
    assert_eq!(list, Some(Cost { entries: 2, calls: 1, time: Span::from_ps(2_020_000) }));
    assert_eq!(t.live(), 3);
    let to = |t: &Table, at, dir| t.translate(Iova(at), dir).ok();
    assert_eq!(to(&t, 0x1010, TO), Some((0x5000_0010, 0xff0)));
    assert_eq!(to(&t, 0x1010, Direction::FromDevice), None);
    assert_eq!(
        to(&t, 0x2010, Direction::Both),
        Some((0x7000_0010, 0xff0)),
        "a write allows a read"
    );
    assert_eq!(t.entry(0x3fff), Some(0x9000_0003));
    // Rights of none map nothing.
    let cleared = t.write(0x1000, &[0x5000_0000; 3], Written::Stuffed);
    assert_eq!(cleared, Some(Cost { entries: 3, calls: 1, time: Span::from_ps(3_030_000) }));
    assert_eq!((t.live(), to(&t, 0x1010, TO), t.entry(0x1000)), (0, None, Some(0)));
    // All or none.
    assert_eq!(t.write(63 << 12, &[3, 3], Written::List), None);
    assert_eq!(
        (t.write(u64::MAX, &[3], Written::Put), t.entry(64 << 12), t.live()),
        (None, None, 0)
    );
}
