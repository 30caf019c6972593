use super::*;

#[test]
fn classes_become_counts_of_full_packets() {
    let c = Classes::new(12_304, 1000);
    let of = |rate: u32| {
        c.mapped(Setting { delay_ns: 1_000_000_000 / rate, packets: 0, period: Period::Interval })
    };
    assert_eq!([70_000, 20_000, 4_000].map(|r| of(r).packets), [1, 4, 20]);
    assert_eq!(of(4_000).delay_ns, 15_380);
}
