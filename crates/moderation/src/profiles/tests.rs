use super::*;

#[test]
fn the_default_is_eight_microseconds_in_every_family() {
    for (direction, period, packets) in [
        (Direction::Rx, Period::Event, 256),
        (Direction::Rx, Period::Completion, 128),
        (Direction::Tx, Period::Event, 128),
        (Direction::Tx, Period::Completion, 64),
    ] {
        let want = Setting::usecs(8, packets, period);
        assert_eq!(default_moderation(direction, period), want);
        assert_eq!(moderation(direction, period, 1), Some(want));
    }
}

#[test]
fn there_is_no_sixth_profile() {
    assert!(moderation(Direction::Rx, Period::Event, 4).is_some());
    assert_eq!(moderation(Direction::Rx, Period::Event, 5), None);
    assert_eq!(moderation(Direction::Tx, Period::Completion, u8::MAX), None);
}

#[test]
fn the_four_tables_are_linuxs() {
    for (direction, period, rows) in [
        (Direction::Rx, Period::Event, [(1, 256), (8, 256), (64, 256), (128, 256), (256, 256)]),
        (Direction::Rx, Period::Completion, [(2, 256), (8, 128), (16, 64), (32, 64), (64, 64)]),
        (Direction::Tx, Period::Event, [(1, 128), (8, 128), (32, 128), (64, 128), (128, 128)]),
        (Direction::Tx, Period::Completion, [(5, 128), (8, 64), (16, 32), (32, 32), (64, 32)]),
    ] {
        assert_eq!(
            linux(direction, period).map(|s| (s.usec(), s.packets)),
            rows,
            "{direction:?} {period:?}"
        );
    }
    let interval = linux(Direction::Rx, Period::Interval).map(|s| s.usec());
    assert_eq!(interval, [1, 8, 64, 128, 256], "a timer of the third kind takes the first's");
}

#[test]
fn times_never_fall_with_the_index() {
    for direction in [Direction::Rx, Direction::Tx] {
        for period in [Period::Event, Period::Completion, Period::Interval] {
            let t = linux(direction, period);
            assert!(t.windows(2).all(|w| w[0].delay_ns < w[1].delay_ns), "{t:?}");
            assert!(t.iter().all(|s| s.period == period));
        }
    }
}

#[test]
fn linux_lowers_the_count_of_a_restarted_timer_and_axienet_raises_it() {
    let linux = linux(Direction::Rx, Period::Completion);
    assert_eq!(linux.map(|s| s.packets), [256, 128, 64, 64, 64]);
    assert_eq!(linux.map(|s| s.usec()), [2, 8, 16, 32, 64]);
    let axienet = axienet(AXIENET_USEC);
    assert_eq!(axienet.map(|s| s.packets), [1, 4, 16, 64, 255]);
    assert_eq!(axienet.map(|s| s.usec()), [0, 16, 16, 16, 16]);
}
