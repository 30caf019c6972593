//! The last value on each side of a controller's thresholds.

use doorbell_moderation::{
    Controller, Direction, Flow, ItrClasses, ItrMode, Limits, Link, Period, Sample, Trains,
};

/// The silence that ends a train at 1 Gbit/s with a timer in microseconds.
const WAIT: u64 = 13_000;
/// The payment of one packet.
const PAID: u64 = 3 * WAIT;
/// The time that a load has to last before the count grows.
const HOLD: u64 = 3_072 * WAIT;
const BEGUN: u64 = 1 << 40;

/// A queue that waits for four packets since [`BEGUN`], when nine came at once.
struct Queue {
    controller: Trains,
    sample: Sample,
}

impl Queue {
    fn waiting() -> Queue {
        let link = Link { mbit_s: 1_000, mtu: 1_500 };
        let limits = Limits::AXIENET;
        let controller = Trains::new(Direction::Rx, link, Period::Completion, 1_000, limits);
        let mut q = Queue { controller, sample: Sample::default() };
        assert_eq!(q.sample(BEGUN, 9, 0), Some(4));
        q
    }
    /// Samples at a time after `packets` and `events` in all. Returns a new count.
    fn sample(&mut self, time_ns: u64, packets: u64, events: u64) -> Option<u16> {
        self.sample = Sample { time_ns, events, rx: Flow { packets, bytes: 0 }, ..self.sample };
        self.controller.sample(&self.sample).map(|s| s.packets)
    }
    /// Keeps the account full until just before `time_ns`, with too few packets to be judged.
    fn last_until(&mut self, time_ns: u64) {
        let mut packets = self.sample.rx.packets;
        while self.sample.time_ns + 12 * PAID < time_ns {
            packets += 10;
            let now = self.sample.time_ns + 10 * PAID;
            assert_eq!(self.sample(now, packets, self.sample.events), None);
        }
    }
}

#[test]
fn a_credit_runs_out_with_the_time() {
    let q = Queue::waiting();
    assert_eq!(q.controller.credit_ns(BEGUN), 9 * PAID);
    assert_eq!(q.controller.credit_ns(BEGUN + 9 * PAID - 1), 1);
    assert_eq!(q.controller.credit_ns(BEGUN + 9 * PAID), 0);
    assert_eq!(q.controller.credit_ns(BEGUN + 10 * PAID), 0);
}

#[test]
fn a_credit_of_two_packets_still_waits() {
    for (late, next) in [(0, None), (1, Some(1))] {
        let mut q = Queue::waiting();
        // One packet before the count is judged, with a full account.
        assert_eq!(q.sample(BEGUN, 9 + 1_024 + 4 * 8 - 1, 0), None);
        let two_left = BEGUN + (13 + 1 - 2) * PAID;
        assert_eq!(q.sample(two_left + late, 9 + 1_024 + 4 * 8, 0), next, "{late} ns late");
    }
}

#[test]
fn the_count_grows_when_it_has_held() {
    for (early, next) in [(1, None), (0, Some(16))] {
        let mut q = Queue::waiting();
        q.last_until(BEGUN + HOLD);
        assert_eq!(q.sample(BEGUN + HOLD - early, 1 << 20, 0), next, "{early} ns early");
    }
}

#[test]
fn a_count_is_judged_after_its_packets() {
    for (fewer, next) in [(1, None), (0, Some(4))] {
        let mut q = Queue::waiting();
        q.last_until(BEGUN + HOLD);
        assert_eq!(q.sample(BEGUN + HOLD, 1 << 20, 0), Some(16));
        let judged = (1 << 20) + 1_024 + 16 * 8;
        assert_eq!(q.sample(BEGUN + HOLD, judged - fewer, 1 << 20), next, "{fewer} fewer");
    }
}

#[test]
fn a_count_that_cannot_shrink_holds_once() {
    let mut q = Queue::waiting();
    // Each packet interrupts: four are too many to wait for, but no fewer are waited for.
    let judged = BEGUN + 10 * PAID;
    assert_eq!(q.sample(judged, 1 << 11, 1 << 11), None);
    q.last_until(judged + HOLD);
    assert_eq!(q.sample(judged + HOLD, 1 << 20, 1 << 11), Some(16));
}

#[test]
fn a_timer_as_short_as_a_packet_waits_for_none() {
    // 100 microseconds a packet.
    let link = Link { mbit_s: 8, mtu: 62 };
    assert_eq!(link.packet_ns(), Some(100_000));
    for (usec, waits) in [(100, false), (101, true)] {
        let table = link.profiles(Period::Completion, Limits { usec, packets: 255 });
        assert_eq!(table.iter().any(|s| s.packets > 1), waits, "{usec} us");
    }
}

#[test]
fn an_endless_timer_waits_for_slow_packets() {
    let limits = Limits { usec: u32::MAX, packets: 255 };
    let table = Link { mbit_s: 1, mtu: 1_500 }.profiles(Period::Completion, limits);
    assert_eq!(table.map(|s| (s.packets, s.usec())).last(), Some(&(255, 15_380)));
}

#[test]
fn a_short_payload_is_padded() {
    let packet_ns = |mtu| Link { mbit_s: 1_000, mtu }.packet_ns();
    assert_eq!((packet_ns(20), packet_ns(46)), (Some(672), Some(672)));
    assert_eq!(packet_ns(47), Some(680));
}

#[test]
fn classes_end_when_the_speed_falls() {
    let mut classes = ItrClasses::new(ItrMode::Dynamic, 1_000, &Sample::default());
    let small = |packets| Sample { rx: Flow { packets, bytes: 60 * packets }, ..Sample::default() };
    classes.sample(&small(1));
    assert_ne!(classes.rate(), 4_000);
    classes.set_speed(100);
    classes.sample(&small(2));
    assert_eq!(classes.rate(), 4_000);
}
