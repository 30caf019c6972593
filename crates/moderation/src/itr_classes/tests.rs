use super::Class::{BulkLatency as Bulk, LowLatency as Low, LowestLatency as Lowest};
use super::*;

#[test]
fn classes_change_at_the_drivers_thresholds() {
    for (from, packets, bytes, to) in [
        // No packets say nothing.
        (Bulk, 0, 0, Bulk),
        (Lowest, 1, 8_001, Bulk),
        (Lowest, 1, 8_000, Low),
        (Lowest, 4, 513, Low),
        (Lowest, 4, 512, Lowest),
        (Lowest, 5, 5_000, Lowest),
        // More than 10000 bytes.
        (Low, 9, 10_001, Bulk),
        (Low, 10, 12_009, Low),
        (Low, 10, 12_010, Bulk),
        (Low, 36, 10_001, Lowest),
        (Low, 35, 10_001, Low),
        (Low, 36, 43_236, Bulk),
        // No more than 10000 bytes: the packet counts above do not apply.
        (Low, 9, 10_000, Low),
        (Low, 36, 10_000, Low),
        (Low, 4, 8_004, Bulk),
        (Low, 4, 8_000, Low),
        (Low, 2, 511, Lowest),
        (Low, 2, 512, Low),
        (Low, 3, 180, Low),
        (Bulk, 36, 25_001, Low),
        (Bulk, 35, 25_001, Bulk),
        (Bulk, 36, 25_000, Bulk),
        (Bulk, 1, 5_999, Low),
        (Bulk, 1, 6_000, Bulk),
    ] {
        assert_eq!(from.after(packets, bytes), to, "{from:?}, {packets} packets, {bytes} bytes");
    }
}

/// Adds `rx` and `tx` (packets, bytes) to the counters and samples.
fn step(c: &mut ItrClasses, at: &mut Sample, rx: (u64, u64), tx: (u64, u64)) -> Option<Setting> {
    at.rx = Flow { packets: at.rx.packets + rx.0, bytes: at.rx.bytes + rx.1 };
    at.tx = Flow { packets: at.tx.packets + tx.0, bytes: at.tx.bytes + tx.1 };
    c.sample(at)
}

const BULK: (u64, u64) = (20, 30_000);
const ONE_SMALL: (u64, u64) = (1, 60);

#[test]
fn the_rate_falls_at_once_and_rises_by_quarters() {
    let mut at = Sample::default();
    let mut c = ItrClasses::new(ItrMode::Dynamic, 1_000, &at);
    let rates = |c: &mut ItrClasses, at: &mut Sample, flow, n: usize| -> [u32; 7] {
        let mut out = [0; 7];
        for r in out.iter_mut().take(n) {
            step(c, at, flow, (0, 0));
            *r = c.rate();
        }
        out
    };
    // From lowest (the start) to low to bulk takes two samples.
    assert_eq!(rates(&mut c, &mut at, (4, 6_000), 1)[..1], [20_000]);
    assert_eq!(rates(&mut c, &mut at, BULK, 1)[..1], [4_000]);
    assert_eq!(rates(&mut c, &mut at, ONE_SMALL, 5)[..5], [9_000, 26_500, 44_000, 61_500, 70_000]);
}

#[test]
fn conservative_never_goes_beyond_20000() {
    let mut at = Sample::default();
    let mut c = ItrClasses::new(ItrMode::Conservative, 1_000, &at);
    for _ in 0..10 {
        assert_eq!(step(&mut c, &mut at, ONE_SMALL, ONE_SMALL), None);
    }
    assert_eq!((c.rate(), c.classes()), (20_000, (Low, Low)));
}

#[test]
fn the_busier_direction_rules() {
    let mut at = Sample::default();
    let mut c = ItrClasses::new(ItrMode::Conservative, 1_000, &at);
    step(&mut c, &mut at, ONE_SMALL, ONE_SMALL);
    assert!(step(&mut c, &mut at, ONE_SMALL, BULK).is_some());
    assert_eq!((c.classes(), c.rate()), ((Low, Bulk), 4_000));
}

#[test]
fn below_a_gigabit_the_rate_is_4000_and_classes_rest() {
    let mut at = Sample::default();
    let mut c = ItrClasses::new(ItrMode::Dynamic, 100, &at);
    assert_eq!(step(&mut c, &mut at, ONE_SMALL, (0, 0)).map(|s| s.delay_ns), Some(250_000));
    assert_eq!(step(&mut c, &mut at, (2, 18_000), (2, 18_000)), None);
    assert_eq!(c.classes(), (Lowest, Lowest));
    // What was counted at the slow speed is not held against the fast one.
    c.set_speed(1_000);
    step(&mut c, &mut at, ONE_SMALL, (0, 0));
    assert_eq!(c.classes(), (Lowest, Lowest));
}

#[test]
fn the_register_is_the_delay_in_256_ns() {
    for rate in [4_000u32, 9_000, 20_000, 26_500, 44_000, 61_500, 70_000] {
        let c = ItrClasses { rate, ..ItrClasses::new(ItrMode::Dynamic, 1_000, &Sample::default()) };
        assert_eq!(c.setting().delay_ns / 256, 1_000_000_000 / (rate * 256));
    }
}

#[test]
fn counters_that_stand_high_at_the_start_are_no_burst() {
    let flow = Flow { packets: u64::MAX - 1, bytes: u64::MAX - 100 };
    let start = Sample { rx: flow, tx: flow, ..Sample::default() };
    let mut c = ItrClasses::new(ItrMode::Dynamic, 1_000, &start);
    let rx = Flow { packets: 3, bytes: 139 };
    c.sample(&Sample { rx, ..start });
    assert_eq!(c.classes(), (Lowest, Lowest), "5 packets of 240 bytes, over the wrap");
}

#[test]
fn a_start_class_holds_without_packets() {
    let mut at = Sample::default();
    let mut c = ItrClasses::new(ItrMode::Dynamic, 1_000, &at).starting_at(Bulk);
    assert_eq!(step(&mut c, &mut at, (0, 0), (0, 0)).map(|_| c.rate()), Some(4_000));
    assert_eq!(c.classes(), (Bulk, Bulk));
}
