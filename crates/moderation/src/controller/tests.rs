use super::*;

#[test]
fn a_setting_never_rounds_down_to_no_wait() {
    assert_eq!(Setting { delay_ns: 1, ..Setting::default() }.usec(), 1);
    assert_eq!(Setting { delay_ns: 14_285, ..Setting::default() }.usec(), 15);
    assert_eq!(Setting::usecs(u16::MAX, 1, Period::Event).usec(), 65_535);
    assert_eq!(Setting::IMMEDIATE.usec(), 0);
}

#[test]
fn fixed_stays_whatever_it_sees() {
    let mut c = Fixed(Setting::usecs(50, 24, Period::Completion));
    for events in [0, 1, 64, u64::MAX] {
        let flow = Flow { packets: events, bytes: events };
        assert_eq!(
            c.sample(&Sample { time_ns: events, events, rx: flow, tx: flow, completions: events }),
            None
        );
    }
    assert_eq!(c.setting(), Setting::usecs(50, 24, Period::Completion));
}
