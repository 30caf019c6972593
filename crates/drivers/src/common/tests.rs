use super::*;

#[test]
fn ring_indices_wrap_both_ways() {
    assert_eq!([next(0, 3), next(2, 3), next(0, 1)], [1, 0, 0]);
    assert_eq!([previous(0, 3), previous(2, 3), previous(0, 1)], [2, 1, 0]);
}

#[test]
fn memory_within_an_address_space_ends_in_it() {
    assert!(within(32, (1 << 32) - 16, 16) && !within(32, (1 << 32) - 16, 17));
    assert!(within(64, u64::MAX - 16, 16) && !within(64, u64::MAX - 16, 17));
}

#[test]
fn counters_add_and_name_each_field() {
    let mut sum = crate::mlx5::Stats { packets: 1, ..Default::default() };
    sum.add(&crate::mlx5::Stats { packets: 2, eqes: 3, ..Default::default() });
    let counted: Vec<_> = sum.entries().filter(|(_, n)| *n > 0).collect();
    assert_eq!(counted, [("packets", 3), ("eqes", 3)]);
}
