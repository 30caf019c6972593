use super::*;

fn edge(time_ns: u64, packets: u32, bytes: u32, completions: u32) -> Edge {
    Edge { time_ns, packets, bytes, events: 0, completions }
}

#[test]
fn a_change_counts_from_eleven_percent_of_the_previous_rate() {
    assert_eq!(compare(1_109, 1_000), Ordering::Equal);
    assert_eq!(compare(1_110, 1_000), Ordering::Greater);
    assert_eq!(compare(891, 1_000), Ordering::Equal);
    assert_eq!(compare(890, 1_000), Ordering::Less);
    assert_eq!(compare(111, 100), Ordering::Greater);
    assert_eq!(compare(100, 111), Ordering::Equal, "measured against the previous rate");
}

#[test]
fn nothing_is_significant_measured_against_zero() {
    assert_eq!(compare(i32::MAX, 0), Ordering::Equal);
    assert_eq!(compare(0, 0), Ordering::Equal);
}

#[test]
fn rates_round_up() {
    let r = Rates::between(&edge(0, 0, 0, 0), &edge(3_000_999, 10, 1, 0)).unwrap();
    assert_eq!(
        (r.packets, r.bytes, r.events, r.completions),
        (4, 1, 22, 0),
        "3000 us: 3.3, 0.3, 21.3, 0"
    );
}

#[test]
fn counters_wrap_at_32_bits() {
    let start = edge(0, u32::MAX - 4, u32::MAX, u32::MAX - 9);
    let r = Rates::between(&start, &edge(1_000_000, 5, 1_999, 0)).unwrap();
    assert_eq!((r.packets, r.bytes, r.completions), (10, 2_000, 10));
}

#[test]
fn completions_per_event_round_down_and_use_64_events() {
    let r = Rates::between(&edge(0, 0, 0, 0), &edge(1_000_000, 0, 0, 99)).unwrap();
    assert_eq!(r.per_event, 154, "9900 / 64 is 154.7");
}

#[test]
fn an_epoch_shorter_than_a_microsecond_has_no_rates() {
    assert_eq!(Rates::between(&edge(500, 0, 0, 0), &edge(1_499, 9, 9, 9)), None);
    assert!(Rates::between(&edge(500, 0, 0, 0), &edge(1_500, 9, 9, 9)).is_some());
}

#[test]
fn an_epoch_of_71_minutes_wraps() {
    let wrap_ns = (1u64 << 32) * 1_000;
    assert_eq!(Rates::between(&edge(0, 0, 0, 0), &edge(wrap_ns, 9, 9, 9)), None);
    let short = Rates::between(&edge(0, 0, 0, 0), &edge(7_000, 9, 9, 9));
    assert_eq!(Rates::between(&edge(0, 0, 0, 0), &edge(wrap_ns + 7_000, 9, 9, 9)), short);
}

#[test]
fn the_largest_counts_in_the_shortest_epoch_do_not_panic() {
    let r = Rates::between(&edge(0, 0, 0, 0), &edge(1_000, u32::MAX, u32::MAX, u32::MAX)).unwrap();
    assert_eq!(r.bytes, -1_000, "4294967295000 does not fit 32 bits; Linux keeps the lower ones");
    // Linux's signed rates may be anything then; no pair of them divides by zero or overflows.
    for (a, b) in
        [(i32::MIN, i32::MAX), (i32::MAX, i32::MIN), (0, i32::MIN), (i32::MIN, 0), (i32::MIN, -1)]
    {
        compare(a, b);
    }
}
