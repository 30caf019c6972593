use super::*;

#[test]
fn a_watchdog_waits_for_its_time_and_then_as_long_again() {
    let ms = |n: u64| Time::ZERO + Span::from_ms(n);
    let mut w = Watchdog::new(Span::from_ms(10), Time::ZERO);
    assert_eq!(w.next, ms(5));
    w.sent = ms(2);
    assert_eq!(w.look(ms(5), true, 0), Alarm::Tick);
    assert_eq!(w.look(ms(10), true, 0), Alarm::Tick);
    assert_eq!(w.look(ms(15), true, 0), Alarm::TxTimeout);
    assert_eq!(w.look(ms(20), true, 0), Alarm::Tick);
    assert_eq!(w.look(ms(25), false, 2), Alarm::IoError);
    assert_eq!(w.look(ms(30), false, 2), Alarm::Tick);
    assert_eq!((w.next, w.alarms), (ms(35), WatchdogEvents { timeouts: 1, io_errors: 1 }));
}
