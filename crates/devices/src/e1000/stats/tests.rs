use super::*;

impl Stats {
    fn set(&mut self, r: u32, v: u32) {
        self.0[index(r)] = v;
    }
}

#[test]
fn reading_clears() {
    let mut s = Stats::new();
    s.count(stat::GPRC);
    s.count(stat::GPRC);
    assert_eq!([s.read(stat::GPRC), s.read(stat::GPRC)], [2, 0]);
}

#[test]
fn counters_stick_at_all_ones() {
    let mut s = Stats::new();
    s.set(stat::MPC, u32::MAX);
    s.count(stat::MPC);
    assert_eq!(s.read(stat::MPC), u32::MAX);
    s.set(stat::TOTL, u32::MAX - 1);
    s.set(stat::TOTH, u32::MAX);
    s.bytes(stat::TOTL, 100);
    assert_eq!([s.read(stat::TOTL), s.read(stat::TOTH)], [u32::MAX; 2]);
}

#[test]
fn reading_the_high_half_clears_both() {
    let mut s = Stats::new();
    s.set(stat::GOTCL, u32::MAX);
    s.bytes(stat::GOTCL, 2);
    assert_eq!([s.read(stat::GOTCL), s.read(stat::GOTCL), s.read(stat::GOTCH)], [1, 1, 1]);
    assert_eq!([s.read(stat::GOTCL), s.read(stat::GOTCH)], [0, 0]);
}

#[test]
fn size_classes_count_the_fcs() {
    let mut s = Stats::new();
    for len in [64, 65, 127, 128, 1518, 9000] {
        s.size_class(stat::PRC64, len);
    }
    let classes: [u32; 6] = core::array::from_fn(|i| s.read(stat::PRC64 + 4 * i as u32));
    assert_eq!(classes, [1, 2, 1, 0, 0, 2]);
}
