use super::*;

fn ns(n: u64) -> Time {
    Time::ZERO + Span::from_ns(n)
}

#[test]
fn the_first_interrupt_is_not_throttled_and_the_next_exactly_is() {
    let mut i = Interrupts { mask: 1, ..Interrupts::new(Variant::I82540Em) };
    i.set_itr(100);
    i.raise(ns(10), 1);
    assert_eq!(i.due(), ns(10));
    i.rise(ns(10));
    i.causes = 0;
    assert!(i.consider(ns(20)), "falls");
    i.raise(ns(30), 1);
    assert_eq!(i.due(), ns(10 + 25_600));
    i.set_itr(1);
    assert_eq!(i.due(), ns(10 + 256), "a new interval counts from the same rise");
    i.set_itr(0);
    assert_eq!(i.due(), ns(30), "0 is off");
}

#[test]
fn a_masked_cause_waits_for_its_mask() {
    let mut i = Interrupts::new(Variant::I82540Em);
    i.raise(ns(10), 0x80);
    assert_eq!(i.due(), Time::NEVER);
    i.mask = 0x80;
    i.consider(ns(50));
    assert_eq!(i.due(), ns(50));
    i.mask = 0;
    assert!(!i.consider(ns(60)), "it was never high");
    assert_eq!(i.due(), Time::NEVER);
}

#[test]
fn the_packet_timer_starts_again_and_the_absolute_one_does_not() {
    let mut d = Delay::default();
    d.start(ns(0), 0, 10, 25);
    assert_eq!(d.due(), ns(10_240));
    d.start(ns(10_000), 0, 10, 25);
    assert_eq!(d.due(), ns(20_240));
    d.start(ns(20_000), 0, 10, 25);
    assert_eq!(d.due(), ns(25_600));
    d.stop(0);
    assert_eq!(d.due(), Time::NEVER);
    d.start(ns(30_000), 0, 10, 0);
    assert_eq!(d.due(), ns(40_240));
    d.expire(ns(31_000), false);
    assert_eq!(d.due(), ns(31_000));
}

#[test]
fn a_queue_that_is_done_leaves_the_delay_of_others() {
    let mut d = Delay::default();
    d.start(ns(0), 0, 10, 0);
    d.start(ns(0), 1, 10, 0);
    d.stop(0);
    assert_eq!((d.due(), d.end()), (ns(10_240), 2));
    assert_eq!((d.due(), d.end()), (Time::NEVER, 1), "what waits without a packet is of the first");
}
