use super::*;

fn us(n: u64) -> Time {
    Time::ZERO + Span::from_us(n)
}

/// Of a channel that runs.
fn control(threshold: u32, delay: u32) -> u32 {
    threshold << cr::THRESHOLD_SHIFT | delay << cr::DELAY_SHIFT | cr::RS
}

/// A unit is 1 us.
fn new(control: u32) -> Coalescer {
    Coalescer::new(&Config::ZYNQMP, control)
}

#[test]
fn the_threshold_reloads_when_it_is_reached() {
    let c = control(3, 0);
    let mut x = new(c);
    let set: [u32; 7] = core::array::from_fn(|i| x.packet_ends(us(i as u64), c, 0));
    assert_eq!(set, [0, 0, sr::IOC_IRQ, 0, 0, sr::IOC_IRQ, 0]);
    assert_eq!(x.status(us(9), c) >> sr::THRESHOLD_SHIFT & 255, 2);
}

#[test]
fn another_threshold_starts_the_count_anew_and_the_same_does_not() {
    let (two, three) = (control(2, 0), control(3, 0));
    let mut x = new(two);
    x.packet_ends(us(0), two, 0);
    x.written(us(0), two, two | cr::IOC_IRQ_EN);
    assert_eq!(x.packet_ends(us(1), two, 0), sr::IOC_IRQ);
    x.packet_ends(us(2), two, 0);
    x.written(us(2), two, three);
    assert_eq!([0; 3].map(|_| x.packet_ends(us(3), three, 0)), [0, 0, sr::IOC_IRQ]);
    let qemu = Config { reload_on_any_write: true, ..Config::ZYNQMP };
    let mut x = Coalescer::new(&qemu, two);
    x.packet_ends(us(0), two, 0);
    x.written(us(0), two, two);
    assert_eq!([0; 2].map(|_| x.packet_ends(us(1), two, 0)), [0, sr::IOC_IRQ]);
}

#[test]
fn the_delay_restarts_with_each_packet_and_stands_still_during_one() {
    let c = control(9, 10);
    let mut x = new(c);
    assert_eq!(x.due(c), Time::NEVER, "nothing before the first packet");
    x.packet_ends(us(0), c, 0);
    assert_eq!(x.due(c), us(10));
    x.packet_begins();
    assert_eq!(x.due(c), Time::NEVER);
    x.packet_ends(us(7), c, 0);
    assert_eq!(x.due(c), us(17));
    assert_eq!(x.status(us(11), c), control(7, 4) & !cr::RS);
    assert_eq!(x.expire(c), sr::DLY_IRQ);
    assert_eq!(x.due(c), Time::NEVER);
    assert_eq!(x.status(us(30), c), control(9, 0) & !cr::RS, "and the threshold is reloaded");
}

#[test]
fn another_delay_starts_a_running_timer_from_zero_and_the_same_does_not() {
    let (ten, four) = (control(9, 10), control(9, 4));
    let mut x = new(ten);
    x.packet_ends(us(0), ten, 0);
    x.written(us(3), ten, ten | cr::DLY_IRQ_EN);
    assert_eq!(x.due(ten), us(10));
    x.written(us(5), ten, four);
    assert_eq!(x.due(four), us(9));
    x.packet_begins();
    x.written(us(6), four, ten);
    assert_eq!(x.due(ten), Time::NEVER, "none runs");
}

#[test]
fn no_timer_with_a_delay_of_zero_without_rs_or_while_dly_is_set() {
    let c = control(9, 5);
    for (control, status) in [(control(9, 0), 0), (c & !cr::RS, 0), (c, sr::DLY_IRQ)] {
        let mut x = new(c);
        x.packet_ends(us(0), control, status);
        x.written(us(1), control, c);
        assert_eq!(x.due(c), Time::NEVER, "the packet is forgotten");
    }
    for off in [control(9, 0), c & !cr::RS] {
        let mut x = new(c);
        x.packet_ends(us(0), c, 0);
        x.written(us(1), c, off);
        x.written(us(2), off, c);
        assert_eq!(x.due(c), Time::NEVER);
    }
}
