use super::*;
use crate::profiles::{AXIENET_USEC, axienet};

const WIDE: Limits = Limits { usec: 65_535, packets: u16::MAX };

const fn link(mbit_s: u32, mtu: u32) -> Link {
    Link { mbit_s, mtu }
}

#[test]
fn a_gigabit_of_1500_byte_packets_gives_axienets_table() {
    assert_eq!(link(1_000, 1_500).packet_ns(), Some(12_304));
    assert_eq!(
        link(1_000, 1_500).profiles(Period::Completion, Limits::AXIENET),
        axienet(AXIENET_USEC)
    );
}

#[test]
fn a_jumbo_packet_fits_its_own_timer_and_not_axienets() {
    let packet = link(1_000, 9_000).packet_ns().unwrap();
    assert_eq!(packet, 72_304);
    assert!(axienet(AXIENET_USEC).iter().all(|s| u64::from(s.delay_ns) < packet));
    let table = link(1_000, 9_000).profiles(Period::Completion, Limits::AXIENET);
    assert_eq!(table.map(|s| s.usec()), [0, 91, 91, 91, 91]);
}

#[test]
fn times_follow_the_speed() {
    let usec = |mbit| link(mbit, 1_500).profiles(Period::Completion, WIDE)[1].usec();
    assert_eq!([10, 100, 1_000, 10_000, 25_000, 100_000].map(usec), [1_538, 154, 16, 2, 1, 1]);
}

#[test]
fn a_timer_from_the_event_lasts_as_long_as_the_count() {
    let table = link(1_000, 1_500).profiles(Period::Event, WIDE);
    assert_eq!(
        table.map(|s| (s.usec(), s.packets)),
        [(0, 1), (62, 4), (247, 16), (985, 64), (3_938, 256)]
    );
}

#[test]
fn a_time_beyond_the_timer_is_cut_to_it() {
    let table = link(1_000, 1_500).profiles(Period::Interval, Limits { usec: 200, packets: 64 });
    assert_eq!(
        table.map(|s| (s.usec(), s.packets)),
        [(0, 1), (62, 4), (200, 16), (200, 64), (200, 64)]
    );
}

#[test]
fn a_link_too_slow_for_the_timer_or_down_does_not_wait() {
    for slow in [link(10, 1_500), link(0, 1_500)] {
        for period in [Period::Event, Period::Completion, Period::Interval] {
            let table = slow.profiles(period, Limits::AXIENET);
            assert!(table.iter().all(|s| (s.delay_ns, s.packets, s.period) == (0, 1, period)));
        }
    }
}

#[test]
fn extremes_neither_overflow_nor_leave_the_limits() {
    for mbit in [0, 1, 7, u32::MAX] {
        for mtu in [0, 46, 65_535, u32::MAX] {
            for limits in
                [WIDE, Limits { usec: 0, packets: 0 }, Limits { usec: u32::MAX, packets: u16::MAX }]
            {
                for period in [Period::Event, Period::Completion] {
                    for s in link(mbit, mtu).profiles(period, limits) {
                        assert!(
                            s.usec() <= limits.usec
                                && s.packets <= limits.packets.max(1)
                                && s.packets > 0
                        );
                    }
                }
            }
        }
    }
}
