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
