use super::*;

#[test]
fn the_low_half_keeps_the_high_one() {
    let mut s = Stats::new();
    s.add(stat::RX_BYTES, u32::MAX as usize);
    assert_eq!(s.read(stat::RX_BYTES), u32::MAX);
    s.add(stat::RX_BYTES, 1);
    assert_eq!(s.read(stat::RX_BYTES + 4), 0, "of before");
    assert_eq!([s.read(stat::RX_BYTES), s.read(stat::RX_BYTES + 4)], [0, 1]);
}

#[test]
fn size_classes_count_the_fcs() {
    let mut s = Stats::new();
    for len in [64, 65, 127, 128, 1518, 9000] {
        s.size_class(stat::RX_64, len);
    }
    let classes: [u32; 6] = core::array::from_fn(|i| s.read(stat::RX_64 + 8 * i as u32));
    assert_eq!(classes, [1, 2, 1, 0, 0, 2]);
}
