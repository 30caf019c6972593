use super::*;
use crate::controller::Flow;

const GIGABIT: Link = Link { mbit_s: 1_000, mtu: 1_500 };
const UNIT: u32 = 1_000;

/// A controller, and the samples so far.
struct Run(Trains, Sample);

impl Run {
    fn new() -> Run {
        let c = Trains::new(Direction::Rx, GIGABIT, Period::Completion, UNIT, Limits::AXIENET);
        Run(c, Sample { time_ns: 1 << 40, ..Sample::default() })
    }
    /// So many packets after so many nanoseconds; what is waited for then.
    fn after(&mut self, ns: u64, packets: u64) -> u16 {
        self.1.time_ns += ns;
        self.1.events += 1;
        self.1.rx = Flow { packets: self.1.rx.packets + packets, bytes: 0 };
        self.0.sample(&self.1);
        self.0.setting().packets
    }
    /// A saturated link for so many packets.
    fn saturate(&mut self, packets: u64) -> u16 {
        let end = self.1.rx.packets + packets;
        while self.1.rx.packets < end {
            let n = u64::from(self.0.setting().packets);
            self.after(12_304 * n, n);
        }
        self.0.setting().packets
    }
}

#[test]
fn nine_packets_close_together_begin_it_and_a_silence_ends_it() {
    let mut r = Run::new();
    for i in 1..=9 {
        assert_eq!(r.after(0, 1) > 1, i == 9, "packet {i}");
    }
    // The first packet pays in too, so the account has to be down to less than one more than the
    // rest of two.
    assert_eq!(r.after(300_000, 1), INITIAL_COUNT);
    assert_eq!(r.after(100_000, 1), 1);
}

#[test]
fn a_load_drop_is_answered_with_the_first_packet_behind_a_silence() {
    for gap_us in [507, 1_000, 100_000, 5_000_000] {
        let mut r = Run::new();
        assert_eq!(r.saturate(100_000), 255);
        assert_eq!(
            r.after(gap_us * 1_000, 1),
            1,
            "one packet, whatever the interrupt rate: {gap_us} us"
        );
    }
}

#[test]
fn at_ten_packets_a_millisecond_it_is_back_within_one() {
    let mut r = Run::new();
    r.saturate(100_000);
    let samples = (1..).find(|_| r.after(100_000, 1) == 1).unwrap();
    assert!(samples <= 10, "{samples}");
}

#[test]
fn bursts_are_remembered_over_the_silence_between_them() {
    let mut r = Run::new();
    r.after(0, 32);
    for _ in 0..100 {
        r.after(10_000_000, 4);
        assert_eq!(r.after(20_000, 2), INITIAL_COUNT);
    }
}

#[test]
fn saturation_ends_with_all_that_the_device_counts() {
    let mut r = Run::new();
    // Each count holds for 40 ms, 3250 packets, and until it is judged.
    for (packets, count) in
        [(3_200, INITIAL_COUNT), (1_200, 16), (2_000, 16), (2_500, 64), (500, 64), (4_500, 255)]
    {
        assert_eq!(r.saturate(packets), count);
    }
    assert_eq!(r.saturate(1_000_000), 255);
}

#[test]
fn waits_that_the_timer_ends_are_for_too_many() {
    let mut r = Run::new();
    assert_eq!(r.saturate(20_000), 255);
    // As many as a sender has under way.
    let samples = (1..).find(|_| r.after(181 * 12_304 + 13_000, 181) == 64).unwrap();
    assert!(samples <= 24, "{samples}");
    // And not again soon.
    assert_eq!(r.saturate(12_000), 64);
    assert_eq!(r.saturate(3_000), 255);
}

#[test]
fn a_timer_too_short_for_the_link_is_not_used() {
    for link in [Link { mbit_s: 10, mtu: 1_500 }, Link { mbit_s: 0, mtu: 1_500 }] {
        let mut c = Trains::new(Direction::Rx, link, Period::Completion, UNIT, Limits::AXIENET);
        for i in 1..1_000 {
            let rx = Flow { packets: i * 100, bytes: 0 };
            assert_eq!(c.sample(&Sample { time_ns: i, rx, ..Sample::default() }), None);
        }
    }
}

#[test]
fn a_timer_that_starts_once_gets_the_time_of_all_its_packets() {
    let mut c = Trains::new(Direction::Rx, GIGABIT, Period::Event, UNIT, Limits::AXIENET);
    let burst =
        Sample { time_ns: 1_000_000, rx: Flow { packets: 32, bytes: 0 }, ..Sample::default() };
    assert_eq!(
        c.sample(&burst).map(|s| (s.packets, s.delay_ns)),
        Some((INITIAL_COUNT, 4 * 13_000))
    );
}

#[test]
fn an_interrupt_without_packets_says_nothing() {
    let mut r = Run::new();
    r.saturate(1_000);
    let before = r.0.clone();
    r.after(10_000, 0);
    assert_eq!(r.0, before);
}
