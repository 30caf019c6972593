//! net_dim, one fact at a time.

use doorbell_moderation::Tune::{GoingLeft, GoingRight, ParkingOnTop, ParkingTired};
use doorbell_moderation::{
    Controller, Direction, Flow, NetDim, Period, Sample, Setting, State, profiles,
};

/// A queue whose epochs are written by hand.
struct Queue {
    dim: NetDim,
    at: Sample,
}

impl Queue {
    fn new(index: u8) -> Queue {
        let dim = NetDim::new(profiles::linux(Direction::Rx, Period::Event), Direction::Rx)
            .starting_at(index);
        let mut q = Queue { dim, at: Sample::default() };
        assert_eq!(q.call(0, 0, 0, 0), None);
        q
    }

    /// Moves the counters on and samples.
    fn call(&mut self, us: u64, events: u64, packets: u64, bytes: u64) -> Option<Setting> {
        self.at.time_ns += us * 1_000;
        self.at.events += events;
        self.at.rx =
            Flow { packets: self.at.rx.packets + packets, bytes: self.at.rx.bytes + bytes };
        self.dim.sample(&self.at)
    }

    /// A whole epoch of `ms` milliseconds at these rates per millisecond; a new
    /// profile is applied at once, and the next epoch opened.
    fn epoch(&mut self, ms: u64, packets: u64, bytes: u64) -> (u8, doorbell_moderation::Tune) {
        if self.call(ms * 1_000, 64, packets * ms, bytes * ms).is_some() {
            self.dim.applied();
            assert_eq!(self.call(0, 0, 0, 0), None);
        }
        assert_eq!(self.dim.state(), State::MeasureInProgress);
        (self.dim.index(), self.dim.tune())
    }
}

#[test]
fn an_epoch_ends_at_64_events_and_not_before() {
    let mut q = Queue::new(1);
    assert_eq!(q.call(1_000, 63, 1_000, 1_000_000), None);
    assert_eq!(q.dim.tune(), ParkingOnTop);
    assert_eq!(q.call(1_000, 1, 0, 0), Some(Setting::usecs(1, 256, Period::Event)));
    assert_eq!((q.dim.index(), q.dim.state()), (0, State::ApplyNewProfile));
}

#[test]
fn an_epoch_over_the_wrap_of_16_bits_has_64_events_too() {
    for start in [0xffff - 63, 0xffff - 62, 0xffff - 20, 0xffff] {
        let mut q = Queue::new(1);
        q.at.events = start;
        q.dim.restart();
        assert_eq!(q.call(0, 0, 0, 0), None);
        assert_eq!(q.call(1_000, 63, 1_000, 1_000_000), None, "{start}");
        assert_eq!((q.dim.index(), q.dim.tune()), (1, ParkingOnTop));
        assert_eq!(q.call(1_000, 1, 0, 0), Some(Setting::usecs(1, 256, Period::Event)), "{start}");
    }
}

#[test]
fn more_events_than_16_bits_hold_look_like_few() {
    let mut q = Queue::new(1);
    assert_eq!(q.call(1_000, 65_536 + 63, 1_000, 1_000_000), None);
    assert_eq!(q.call(1_000, 1, 0, 0), Some(Setting::usecs(1, 256, Period::Event)));
}

#[test]
fn polls_without_interrupts_never_end_an_epoch() {
    let mut q = Queue::new(1);
    for _ in 0..10_000 {
        assert_eq!(q.call(1_000, 0, 1_000, 1_000_000), None);
    }
    assert_eq!((q.dim.index(), q.dim.tune()), (1, ParkingOnTop));
}

#[test]
fn the_first_traffic_moves_left_and_right_only_from_the_edge() {
    assert_eq!(Queue::new(1).epoch(1, 100, 100_000), (0, GoingLeft));
    assert_eq!(Queue::new(4).epoch(1, 100, 100_000), (3, GoingLeft));
    assert_eq!(Queue::new(0).epoch(1, 100, 100_000), (1, GoingRight));
}

#[test]
fn an_idle_queue_stays_parked() {
    let mut q = Queue::new(3);
    for _ in 0..100 {
        assert_eq!(q.epoch(1, 0, 0), (3, ParkingOnTop));
    }
}

#[test]
fn better_goes_on_to_the_edge_and_parks_there() {
    let mut q = Queue::new(2);
    assert_eq!(q.epoch(1, 100, 100_000), (1, GoingLeft));
    assert_eq!(q.epoch(1, 100, 120_000), (0, GoingLeft));
    assert_eq!(q.epoch(1, 100, 140_000), (0, ParkingOnTop));
    assert_eq!((q.dim.steps_left(), q.dim.steps_right(), q.dim.tired()), (0, 0, 0));
}

#[test]
fn the_same_turns_as_worse_does() {
    let mut same = Queue::new(3);
    assert_eq!(same.epoch(1, 100, 100_000), (2, GoingLeft));
    assert_eq!(same.epoch(1, 100, 100_000), (3, GoingRight));
    let mut worse = Queue::new(3);
    assert_eq!(worse.epoch(1, 100, 100_000), (2, GoingLeft));
    assert_eq!(worse.epoch(1, 100, 50_000), (3, GoingRight));
}

/// Climbs from 4 to 1, where it turns: three steps left, one back.
fn overshot() -> Queue {
    let mut q = Queue::new(4);
    assert_eq!(q.epoch(1, 100, 100_000), (3, GoingLeft));
    assert_eq!(q.epoch(1, 100, 120_000), (2, GoingLeft));
    assert_eq!(q.epoch(1, 100, 144_000), (1, GoingLeft));
    assert_eq!(q.epoch(1, 100, 100_000), (2, GoingRight), "1 was too far");
    assert_eq!((q.dim.steps_left(), q.dim.steps_right()), (3, 1));
    q
}

#[test]
fn one_step_back_from_too_far_is_the_top() {
    let mut q = overshot();
    assert_eq!(q.epoch(1, 100, 144_000), (2, ParkingOnTop));
    assert_eq!((q.dim.steps_left(), q.dim.steps_right(), q.dim.tired()), (0, 0, 0));
}

#[test]
fn one_step_back_that_is_no_better_is_not_the_top() {
    let mut q = overshot();
    assert_eq!(
        q.epoch(1, 100, 100_000),
        (1, GoingLeft),
        "turned again, which forgets the steps left"
    );
    assert_eq!((q.dim.steps_left(), q.dim.steps_right()), (1, 1));
}

#[test]
fn one_step_back_after_a_single_step_is_not_the_top() {
    let mut q = Queue::new(3);
    assert_eq!(q.epoch(1, 100, 100_000), (2, GoingLeft));
    assert_eq!(q.epoch(1, 100, 80_000), (3, GoingRight));
    assert_eq!(q.epoch(1, 100, 100_000), (4, GoingRight));
}

#[test]
fn a_gain_of_nine_percent_is_no_gain() {
    let mut q = Queue::new(2);
    assert_eq!(q.epoch(1, 100, 100_000), (1, GoingLeft));
    assert_eq!(q.epoch(1, 109, 109_000), (2, GoingRight));
    assert_eq!(q.epoch(1, 119, 118_800), (1, GoingLeft));
    assert_eq!(q.epoch(1, 130, 129_500), (2, GoingRight), "30 percent in all, and never better");
}

#[test]
fn drift_adds_up_only_while_parked_on_top() {
    let mut q = Queue::new(1);
    assert_eq!(q.epoch(1, 100, 100_000), (0, GoingLeft));
    assert_eq!(q.epoch(1, 120, 120_000), (0, ParkingOnTop));
    assert_eq!(q.epoch(1, 127, 127_000), (0, ParkingOnTop));
    assert_eq!(
        q.epoch(1, 132, 132_000),
        (0, ParkingOnTop),
        "ten percent above what it parked with"
    );
    assert_eq!(
        q.epoch(1, 134, 134_000),
        (1, GoingRight),
        "eleven, though 1.5 above the epoch before"
    );
}

#[test]
fn bytes_rule_over_packets_and_packets_over_interrupts() {
    // More bytes in fewer packets and more interrupts a millisecond: better, goes on.
    let mut q = Queue::new(3);
    assert_eq!(q.epoch(4, 100, 100_000), (2, GoingLeft));
    assert_eq!(q.epoch(1, 50, 120_000), (1, GoingLeft));
    // Same bytes, more packets, more interrupts: better.
    let mut q = Queue::new(3);
    assert_eq!(q.epoch(4, 100, 100_000), (2, GoingLeft));
    assert_eq!(q.epoch(1, 120, 100_000), (1, GoingLeft));
    // Same bytes and packets: fewer interrupts a millisecond are better, more are worse.
    let mut q = Queue::new(3);
    assert_eq!(q.epoch(1, 100, 100_000), (2, GoingLeft));
    assert_eq!(q.epoch(4, 100, 100_000), (1, GoingLeft));
    assert_eq!(q.epoch(1, 100, 100_000), (2, GoingRight));
}

#[test]
fn the_first_of_bytes_and_the_first_of_packets_are_better_and_end_the_look() {
    // No bytes before: the packets are not looked at.
    let mut q = Queue::new(3);
    assert_eq!(q.epoch(1, 100, 0), (3, ParkingOnTop), "packets without bytes are no change");
    assert_eq!(q.epoch(1, 200, 0), (3, ParkingOnTop));
    assert_eq!(q.epoch(1, 0, 1), (2, GoingLeft), "bytes are");
    // No packets before: the interrupts are not looked at. Four times as many of them would be
    // worse.
    let mut q = Queue::new(3);
    assert_eq!(q.epoch(4, 0, 100_000), (2, GoingLeft));
    assert_eq!(q.epoch(1, 1, 100_000), (1, GoingLeft), "a packet is better than none");
    let mut q = Queue::new(3);
    assert_eq!(q.epoch(1, 0, 100_000), (2, GoingLeft));
    assert_eq!(
        q.epoch(4, 0, 100_000),
        (3, GoingRight),
        "a quarter of the interrupts, and it is the same"
    );
}

#[test]
fn the_event_rate_is_of_64_events_however_many_came() {
    // Twice the events in the same time: by the constant, the rate is the same.
    let mut q = Queue::new(1);
    assert_eq!(q.epoch(1, 100, 100_000), (0, GoingLeft));
    assert_eq!(q.epoch(1, 120, 120_000), (0, ParkingOnTop));
    assert_eq!(q.call(1_000, 640, 120, 120_000), None);
    assert_eq!(q.dim.tune(), ParkingOnTop);
}

#[test]
fn ten_steps_tire_it_and_ten_epochs_rest_it() {
    let mut q = Queue::new(2);
    for n in 0..10 {
        q.epoch(1, 100, 100_000);
        assert_eq!(q.dim.tired(), n + 1, "the same every time: back and forth");
    }
    let index = q.dim.index();
    assert_eq!(q.epoch(1, 100, 100_000), (index, ParkingTired));
    assert_eq!(q.dim.tired(), 10, "parking tired does not rest it");
    for n in (1..10).rev() {
        // Whatever happens now is not looked at.
        assert_eq!(q.epoch(1, 100 * n, 900_000 / n), (index, ParkingTired));
        assert_eq!(u64::from(q.dim.tired()), n);
    }
    assert_eq!(q.epoch(1, 100, 100_000), (index - 1, GoingLeft));
    assert_eq!(q.dim.tired(), 1);
}

/// Ten steps that end at index 0 on the way left: there, with more bytes, is the edge.
#[test]
fn at_the_edge_too_it_is_tired_first() {
    let mut q = Queue::new(2);
    for index in [1, 2, 1, 2, 1, 2, 1, 2, 1] {
        assert_eq!(q.epoch(1, 100, 100_000).0, index);
    }
    assert_eq!(q.epoch(1, 100, 120_000), (0, GoingLeft));
    assert_eq!(q.dim.tired(), 10);
    assert_eq!(q.epoch(1, 100, 144_000), (0, ParkingTired), "and not on top");
    assert_eq!((q.dim.tired(), q.dim.steps_left(), q.dim.steps_right()), (10, 0, 0));
    for _ in 0..9 {
        assert_eq!(q.epoch(1, 100, 144_000), (0, ParkingTired));
    }
    assert_eq!(q.epoch(1, 100, 144_000), (1, GoingRight), "from 0 there is one way");
}

#[test]
fn an_epoch_parked_tired_is_the_measure_of_the_next() {
    let tired = || {
        let mut q = Queue::new(2);
        for _ in 0..20 {
            q.epoch(1, 100, 100_000);
        }
        assert_eq!((q.dim.index(), q.dim.tune(), q.dim.tired()), (2, ParkingTired, 1));
        q
    };
    // It leaves with twice the bytes, and then they are the same, though twice those it parked
    // with.
    let mut q = tired();
    assert_eq!(q.epoch(1, 100, 200_000), (1, GoingLeft));
    assert_eq!(q.epoch(1, 100, 200_000), (2, GoingRight));
    // It leaves with half of them, and as many as it parked with are better.
    let mut q = tired();
    assert_eq!(q.epoch(1, 100, 50_000), (1, GoingLeft));
    assert_eq!(q.epoch(1, 100, 100_000), (0, GoingLeft));
}

#[test]
fn an_epoch_below_a_microsecond_stays_open() {
    let mut q = Queue::new(1);
    assert_eq!(q.call(0, 64, 100, 100_000), None);
    assert_eq!(
        (q.dim.tune(), q.dim.state(), q.dim.epoch_since_ns()),
        (ParkingOnTop, State::MeasureInProgress, Some(0))
    );
    assert!(q.call(1, 0, 0, 0).is_some(), "the same 64 events end it later");
}

#[test]
fn nothing_is_measured_until_the_profile_is_applied() {
    let mut q = Queue::new(2);
    assert!(q.call(1_000, 64, 100, 100_000).is_some());
    for _ in 0..100 {
        assert_eq!(q.call(1_000, 64, 1_000, 1_000_000), None);
        assert_eq!((q.dim.index(), q.dim.state()), (1, State::ApplyNewProfile));
    }
    q.dim.applied();
    // The hundred epochs above are in no rate: the next one is 20 percent better.
    assert_eq!(q.call(0, 0, 0, 0), None);
    assert_eq!(q.epoch(1, 100, 120_000), (0, GoingLeft));
}

#[test]
fn restart_drops_a_stale_epoch_but_no_profile_in_flight() {
    let mut q = Queue::new(2);
    assert_eq!(q.epoch(1, 100, 100_000), (1, GoingLeft));
    assert_eq!(q.call(5_000_000, 10, 10, 600), None, "five idle seconds");
    assert_eq!(q.dim.epoch_since_ns(), Some(1_000_000));
    q.dim.restart();
    assert_eq!(q.dim.epoch_since_ns(), None);
    assert_eq!(q.call(0, 0, 0, 0), None);
    assert_eq!(q.epoch(1, 100, 120_000), (0, GoingLeft), "the idle time counts for nothing");
    let mut q = Queue::new(2);
    assert!(q.call(1_000, 64, 100, 100_000).is_some());
    q.dim.restart();
    assert_eq!(q.dim.state(), State::ApplyNewProfile);
}

#[test]
fn a_queue_looks_at_its_own_direction_only() {
    let mut tx = NetDim::new(profiles::linux(Direction::Tx, Period::Event), Direction::Tx);
    let rx = |n: u64| Sample {
        time_ns: n * 1_000_000,
        events: n * 64,
        rx: Flow { packets: n * 100, bytes: n * 100_000 },
        ..Sample::default()
    };
    assert!((0..10).all(|n| tx.sample(&rx(n)).is_none()));
    assert_eq!((tx.index(), tx.tune()), (1, ParkingOnTop));
}

#[test]
fn a_new_table_keeps_the_place() {
    let mut q = Queue::new(3);
    assert_eq!(
        q.dim.set_profiles(profiles::axienet(16)),
        Setting::usecs(16, 64, Period::Completion)
    );
    assert_eq!(q.dim.index(), 3);
    assert_eq!(q.call(1_000, 64, 100, 100_000), Some(Setting::usecs(16, 16, Period::Completion)));
}

#[test]
fn a_start_beyond_the_table_is_its_end() {
    let dim = NetDim::new(profiles::axienet(16), Direction::Rx);
    assert_eq!([0, 4, 5, 255].map(|n| dim.clone().starting_at(n).index()), [0, 4, 4, 4]);
}
