use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_bucket_holds_its_values_and_is_narrow(ps in 0u64..u64::MAX / 2) {
        let top = upper(bucket(ps));
        prop_assert!(ps <= top && top - ps <= ps / 256);
        prop_assert!(bucket(top) == bucket(ps) && bucket(top + 1) == bucket(ps) + 1);
        let (low, middle) = (lower(bucket(ps)), middle(bucket(ps)));
        prop_assert!(low <= ps && bucket(low) == bucket(ps));
        prop_assert!(low <= middle && middle <= top && middle.abs_diff(ps) <= ps / 511);
    }

    #[test]
    fn a_quantile_is_near_its_span_and_within_all(
        mut ps in proptest::collection::vec(0u64..10_000_000_000, 1..200),
        per_mille in 0u64..=1000,
    ) {
        let mut h = Histogram::default();
        ps.iter().for_each(|ps| h.record(Span::from_ps(*ps)));
        ps.sort_unstable();
        let rank = (ps.len() as u64 * per_mille).div_ceil(1000).max(1);
        let exact = ps[rank as usize - 1];
        let q = h.quantile(per_mille).unwrap().ps();
        prop_assert!(q.abs_diff(exact) <= exact / 511, "{} for {}", q, exact);
        prop_assert!(ps[0] <= q && q <= ps[ps.len() - 1]);
        let (low, high) = h.interval(per_mille, 0.0).unwrap();
        prop_assert!(low.ps() <= exact && exact <= high.ps());
        let [below, upto] = h.around(Span::from_ps(exact));
        prop_assert!(below < rank && rank <= upto);
    }

    #[test]
    fn counts_do_not_depend_on_the_order(
        mut ps in proptest::collection::vec(0u64..u64::MAX, 1..50),
        cut in 0usize..50,
    ) {
        let of = |all: &[u64]| {
            let mut h = Histogram::default();
            all.iter().for_each(|ps| h.record(Span::from_ps(*ps)));
            h
        };
        let (a, b) = ps.split_at(cut.min(ps.len()));
        let mut both = of(a);
        both.add(&of(b));
        ps.sort_unstable();
        prop_assert_eq!(both, of(&ps));
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
        assert!((q / ns - 1.0).abs() < 0.002, "{per_mille}: {q}");
    };
    near(500, 500.0);
    near(990, 990.0);
    assert_eq!(h.quantile(1000), Some(Span::from_ns(1000)));
    assert_eq!(h.buckets().map(|(_, n)| n).sum::<u64>(), 1000);
    assert_eq!(h.buckets().last().map(|(upto, _)| upto), Some(Span::from_ns(1000)));
    assert_eq!(h.min(), Some(Span::from_ns(1)));
    assert_eq!(Histogram::default().quantile(500), None);
    assert_eq!(Histogram::default().interval(500, 0.0), None);
}

#[test]
fn an_interval_is_that_of_ranks_and_of_buckets() {
    let mut h = Histogram::default();
    (1..=1000).for_each(|ns| h.record(Span::from_ns(ns)));
    let (low, high) = h.interval(500, 0.031).unwrap();
    let near = |s: Span, ns: f64| assert!((s.as_ns_f64() / ns - 1.0).abs() < 0.006, "{s:?}");
    near(low, 469.0);
    near(high, 531.0);
    assert!(low.as_ns_f64() <= 469.0 && high.as_ns_f64() >= 531.0);
    assert_eq!(h.interval(990, 0.011), None);
    assert_eq!(h.interval(10, 0.011), None);
    let mut same = Histogram::default();
    (0..1000).for_each(|_| same.record(Span::from_ns(700)));
    assert_eq!(same.interval(990, 0.01), Some((Span::from_ns(700), Span::from_ns(700))));
}

#[test]
fn equal_spans_have_an_exact_quantile() {
    let mut h = Histogram::default();
    (0..10).for_each(|_| h.record(Span::from_ps(1_234_567)));
    assert_eq!(h.quantile(500), Some(Span::from_ps(1_234_567)));
}

#[test]
fn a_cleared_histogram_is_a_new_one() {
    let mut h = Histogram::default();
    [1, 40, 40_000].iter().for_each(|ps| h.record(Span::from_ps(*ps)));
    h.clear();
    assert_eq!(h, Histogram::default());
}
