use super::*;

/// Passes all segments from one end to the other. Returns their payload lengths.
fn pass(from: &mut Socket, to: &mut Socket) -> Vec<u32> {
    let mut lens = Vec::new();
    while let Some(s) = from.output(Time::ZERO) {
        to.segment(Time::ZERO, &s.header, s.len, 1);
        lens.push(s.len);
    }
    lens
}

/// Returns both ends of an open connection. The second acknowledges at once.
fn open(config: Config) -> (Socket, Socket) {
    let (mut a, mut b) = (Socket::connect(config, 7), Socket::listen(Config::LINUX, 9));
    for _ in 0..2 {
        pass(&mut a, &mut b);
        pass(&mut b, &mut a);
    }
    assert!(a.is_open() && b.is_open());
    (a, b)
}

#[test]
fn a_small_segment_waits_for_a_small_one_alone() {
    let fixed = LargeSend::Fixed(64 << 10);
    for (large_send, first, later) in
        [(LargeSend::Off, &[1448, 1448, 104][..], &[1448][..]), (fixed, &[3000][..], &[1448][..])]
    {
        let (mut a, mut b) = open(Config { large_send, ..Config::LINUX });
        // The tail goes out while the full segments before it are under way.
        a.write(3000);
        assert_eq!(pass(&mut a, &mut b), first);
        // The next one is held for that tail, full segments are not.
        a.write(1448 + 10);
        assert_eq!(pass(&mut a, &mut b), later);
        pass(&mut b, &mut a);
        assert_eq!(pass(&mut a, &mut b), [10]);
    }
}

#[test]
fn without_delay_each_small_segment_goes() {
    let (mut a, mut b) = open(Config { no_delay: true, ..Config::LINUX });
    for _ in 0..3 {
        a.write(10);
        assert_eq!(pass(&mut a, &mut b), [10]);
    }
}

#[test]
fn a_small_segment_is_sent_again_after_a_timeout() {
    let (mut a, mut b) = open(Config::LINUX);
    a.write(10);
    assert_eq!(a.output(Time::ZERO).map(|s| s.len), Some(10));
    a.tick(a.deadline().expect("a retransmission timer"));
    a.write(10);
    assert_eq!(pass(&mut a, &mut b), [20]);
}

/// Delivers `n` full segments of `from` to `to`, all before `to` may answer. Returns the offsets
/// that the answers acknowledge.
fn poll(from: &mut Socket, to: &mut Socket, n: u32) -> Vec<u64> {
    from.write(n * 1448);
    pass(from, to);
    acknowledgments(to)
}

/// Returns the offsets that a socket's next segments acknowledge.
fn acknowledgments(of: &mut Socket) -> Vec<u64> {
    let sent = std::iter::from_fn(|| of.output(Time::ZERO));
    sent.map(|s| u64::from(s.header.ack.wrapping_sub(8))).collect()
}

/// Returns an open connection whose second end has sent all of its quick acknowledgments, and whose
/// reader has read everything.
fn steady() -> (Socket, Socket) {
    let (mut a, mut b) = open(Config::LINUX);
    for _ in 0..QUICK {
        a.write(1448);
        pass(&mut a, &mut b);
        b.read(u32::MAX);
        pass(&mut b, &mut a);
    }
    (a, b)
}

#[test]
fn quick_acknowledgments_are_of_each_segment() {
    let (mut a, mut b) = open(Config::LINUX);
    assert_eq!(poll(&mut a, &mut b, 3), [1448, 2 * 1448, 3 * 1448]);
}

#[test]
fn every_second_segment_is_acknowledged_where_the_reader_keeps_up() {
    let (mut a, mut b) = steady();
    let before = b.counters.acks_sent;
    for _ in 0..10 {
        a.write(1448);
        pass(&mut a, &mut b);
        b.read(u32::MAX);
        pass(&mut b, &mut a);
    }
    assert_eq!(b.counters.acks_sent - before, 5);
}

#[test]
fn what_is_not_read_is_acknowledged_by_its_reader() {
    let (mut a, mut b) = steady();
    let start = b.received();
    // The window has got smaller than it was announced, so that no segment is acknowledged.
    assert_eq!(poll(&mut a, &mut b, 8), []);
    assert!(b.deadline().is_some(), "it is delayed");
    // The reader acknowledges all of it, once.
    b.read(1448);
    assert_eq!(acknowledgments(&mut b), [start + 8 * 1448]);
    // Seven were unread when the window was announced. They are read now, so that the next two
    // segments keep it, and later ones do not keep the one announced with these.
    a.una = a.max;
    b.read(u32::MAX);
    let start = b.received();
    assert_eq!(poll(&mut a, &mut b, 7), [start + 2 * 1448]);
}

#[test]
fn each_segment_out_of_order_is_answered() {
    let (mut a, mut b) = steady();
    let start = b.received();
    a.write(6 * 1448);
    let lost = a.output(Time::ZERO).expect("a segment");
    assert_eq!(lost.len, 1448);
    assert_eq!(pass(&mut a, &mut b), [1448; 5]);
    // The first opens the window by what was read. The third that says the same begins recovery.
    for (answer, recoveries) in [0, 0, 0, 1, 1].into_iter().enumerate() {
        let s = b.output(Time::ZERO).unwrap_or_else(|| panic!("answer {answer}"));
        assert_eq!(u64::from(s.header.ack.wrapping_sub(8)), start);
        a.segment(Time::ZERO, &s.header, 0, 1);
        assert_eq!(a.counters.recoveries, recoveries, "answer {answer}");
    }
    assert_eq!(b.output(Time::ZERO), None);
}

#[test]
fn data_carries_the_acknowledgment_of_what_came_before_it() {
    let (mut a, mut b) = steady();
    b.write(100);
    let start = b.received();
    assert_eq!(poll(&mut a, &mut b, 1), [start + 1448]);
    assert_eq!(b.output(Time::ZERO), None);
}
