use super::Class::{Bulk, Low, Lowest};
use super::*;
use alloc::vec::Vec;

#[test]
fn classes_change_as_the_table_says() {
    for (from, packets, bytes, to) in [
        (Lowest, 0, 0, Lowest),
        (Lowest, 1, 8001, Bulk),
        (Lowest, 1, 8000, Low),
        (Lowest, 4, 513, Low),
        (Lowest, 4, 512, Lowest),
        (Lowest, 5, 5000, Lowest),
        (Low, 2, 16_002, Bulk),
        (Low, 9, 10_001, Bulk),
        (Low, 10, 10_001, Low),
        (Low, 10, 12_010, Bulk),
        (Low, 36, 36_000, Lowest),
        (Low, 35, 35_000, Low),
        (Low, 1, 2001, Bulk),
        (Low, 2, 511, Lowest),
        (Low, 3, 300, Low),
        (Low, 2, 512, Low),
        (Bulk, 36, 25_001, Low),
        (Bulk, 35, 25_001, Bulk),
        (Bulk, 36, 25_000, Bulk),
        (Bulk, 4, 5999, Low),
        (Bulk, 4, 6000, Bulk),
    ] {
        assert_eq!(from.next(packets, bytes), to, "{from:?} {packets} {bytes}");
    }
}

#[test]
fn a_rate_rises_in_steps_and_falls_at_once() {
    let mut d = Dynamic::new(false);
    assert_eq!(d.update(true, (10, 15_000), (0, 0)), Some(4_000));
    assert_eq!(d.update(true, (1, 100), (0, 0)), Some(9_000));
    let rates: Vec<_> = (0..6).map(|_| d.update(true, (1, 100), (1, 60))).collect();
    assert_eq!(rates[0], Some(26_500), "lowest wanted: 9000 + 70000/4");
    assert_eq!(rates[3..], [Some(70_000), None, None]);
}

#[test]
fn the_slower_direction_counts_and_mode_3_has_no_lowest_class() {
    let mut d = Dynamic::new(true);
    assert_eq!(d.update(true, (1, 100), (1, 100)), None);
    let mut d = Dynamic::new(false);
    assert_eq!(d.update(true, (1, 100), (10, 15_000)), Some(4_000));
}

#[test]
fn below_a_gigabit_the_rate_is_4000() {
    assert_eq!(Dynamic::new(false).update(false, (1, 100), (1, 100)), Some(4_000));
}

#[test]
fn intervals_are_in_256_ns() {
    assert_eq!([0, 4_000, 20_000, 70_000, 1].map(interval), [0, 976, 195, 55, 0xffff]);
}
