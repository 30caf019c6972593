use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_bucket_holds_its_values_and_is_narrow(ps in 0u64..u64::MAX / 2) {
        let top = upper(bucket(ps));
        prop_assert!(ps <= top && top - ps <= ps / 31);
        prop_assert!(bucket(top) == bucket(ps) && bucket(top + 1) == bucket(ps) + 1);
    }
}

#[test]
fn quantiles_of_a_ramp() {
    let mut h = Histogram::default();
    for ns in 1..=1000 {
        h.record(Span::from_ns(ns));
    }
    let near = |per_mille, ns: f64| {
        let q = h.quantile(per_mille).unwrap().as_ns_f64();
        assert!((q / ns - 1.0).abs() < 0.04, "{per_mille}: {q}");
    };
    near(500, 500.0);
    near(990, 990.0);
    assert_eq!(h.quantile(1000), Some(Span::from_ns(1000)));
    assert_eq!(h.buckets().map(|(_, n)| n).sum::<u64>(), 1000);
    assert_eq!(h.buckets().last().map(|(upto, _)| upto), Some(Span::from_ns(1000)));
    assert_eq!(h.min(), Some(Span::from_ns(1)));
    assert_eq!(Histogram::default().quantile(500), None);
    assert_eq!(Histogram::default().interval(500), None);
}

/// Of 1,000 spans, the ranks of the median are 500 ± 1.96 · √250.
#[test]
fn an_interval_is_that_of_ranks_and_of_buckets() {
    let mut h = Histogram::default();
    (1..=1000).for_each(|ns| h.record(Span::from_ns(ns)));
    let (low, high) = h.interval(500).unwrap();
    let near = |s: Span, ns: f64| assert!((s.as_ns_f64() / ns - 1.0).abs() < 0.035, "{s:?}");
    near(low, 469.0);
    near(high, 531.0);
    assert!(low.as_ns_f64() <= 469.0 && high.as_ns_f64() >= 531.0);
    let mut same = Histogram::default();
    (0..1000).for_each(|_| same.record(Span::from_ns(700)));
    assert_eq!(same.interval(990), Some((Span::from_ns(700), Span::from_ns(700))));
    let mut one = Histogram::default();
    one.record(Span::from_ns(3));
    assert_eq!(one.interval(999), Some((Span::from_ns(3), Span::from_ns(3))));
}

#[test]
fn a_cleared_histogram_is_a_new_one() {
    let mut h = Histogram::default();
    [1, 40, 40_000].iter().for_each(|ps| h.record(Span::from_ps(*ps)));
    h.clear();
    assert_eq!(h, Histogram::default());
}
