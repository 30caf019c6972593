//! rdma_dim, one fact at a time.

use doorbell_moderation::Tune::{GoingLeft, GoingRight};
use doorbell_moderation::{Controller, Flow, Period, RdmaDim, Sample, Setting, State, Tune};

struct Queue {
    dim: RdmaDim,
    at: Sample,
}

impl Queue {
    fn new() -> Queue {
        let mut q = Queue { dim: RdmaDim::new(), at: Sample::default() };
        assert_eq!(q.poll(0, 0), None);
        q
    }

    fn poll(&mut self, us: u64, completions: u64) -> Option<Setting> {
        self.at.time_ns += us * 1_000;
        self.at.completions += completions;
        self.dim.sample(&self.at)
    }

    /// 64 polls of `us` microseconds and `completions` each; a new profile is applied
    /// at once and the next epoch opened.
    fn epoch(&mut self, us: u64, completions: u64) -> (u8, Tune) {
        for _ in 0..63 {
            assert_eq!(self.poll(us, completions), None);
        }
        if self.poll(us, completions).is_some() {
            self.dim.applied();
            assert_eq!(self.poll(0, 0), None);
        }
        assert_eq!(self.dim.state(), State::MeasureInProgress);
        (self.dim.index(), self.dim.tune())
    }
}

#[test]
fn the_table_is_linuxs() {
    let rows = RdmaDim::PROFILES.map(|s| (s.usec(), s.packets));
    assert_eq!(
        rows,
        [(1, 1), (1, 4), (2, 4), (2, 8), (4, 8), (16, 8), (16, 16), (32, 16), (32, 32)]
    );
    assert!(RdmaDim::PROFILES.iter().all(|s| s.period == Period::Event));
    assert_eq!(RdmaDim::new().setting(), Setting::usecs(1, 1, Period::Event));
}

#[test]
fn the_first_epoch_compares_with_nothing() {
    let mut q = Queue::new();
    assert_eq!(q.epoch(100, 10), (0, GoingRight));
    assert_eq!(q.epoch(100, 12), (1, GoingRight), "20 percent more completions");
}

#[test]
fn it_climbs_while_better_and_turns_at_the_end_of_the_table() {
    let mut q = Queue::new();
    let mut n = 100;
    q.epoch(100, n);
    for index in 1..=8 {
        n = n * 6 / 5;
        assert_eq!(q.epoch(100, n), (index, GoingRight));
    }
    n = n * 6 / 5;
    assert_eq!(q.epoch(100, n), (8, GoingLeft), "at the end it turns, and stays");
    n = n * 6 / 5;
    assert_eq!(q.epoch(100, n), (7, GoingLeft), "better goes on, now to the left");
}

#[test]
fn worse_turns_and_steps() {
    let mut q = Queue::new();
    q.epoch(100, 1_000);
    assert_eq!(q.epoch(100, 1_200), (1, GoingRight));
    assert_eq!(q.epoch(100, 1_440), (2, GoingRight));
    assert_eq!(q.epoch(100, 1_000), (1, GoingLeft));
    assert_eq!(q.epoch(100, 800), (2, GoingRight));
}

#[test]
fn the_same_with_few_completions_an_event_falls_to_zero() {
    // At index 2 the limit is one completion an event.
    for (completions, index) in [(1, 0), (2, 2)] {
        let mut q = Queue::new();
        q.epoch(200, completions);
        q.epoch(160, completions);
        assert_eq!(q.epoch(120, completions).0, 2, "two epochs with a higher rate");
        assert_eq!(q.epoch(120, completions).0, index, "{completions} a poll");
    }
}

#[test]
fn completions_an_event_decide_when_their_rate_does_not() {
    let mut q = Queue::new();
    q.epoch(500, 10);
    assert_eq!(q.epoch(400, 10), (1, GoingRight));
    // The same rate of completions in half the events: twice as many an event.
    assert_eq!(q.epoch(800, 20), (2, GoingRight));
    // And in twice the events.
    assert_eq!(q.epoch(400, 10), (1, GoingLeft));
}

/// Unlike net_dim's parked baseline.
#[test]
fn drift_is_never_seen_for_each_epoch_is_measured_by_the_one_before() {
    let mut q = Queue::new();
    q.epoch(100, 1_000);
    assert_eq!(q.epoch(100, 1_200).0, 1);
    let mut n = 1_200;
    for _ in 0..10 {
        n += n / 12;
        assert_eq!(q.epoch(100, n), (1, GoingRight), "{n}: eight percent more");
    }
    assert!(n > 2 * 1_200);
}

#[test]
fn it_never_parks_nor_tires() {
    let mut q = Queue::new();
    q.epoch(100, 1_000);
    for n in 0..100u64 {
        let before = q.dim.index();
        let (index, tune) = q.epoch(100, if n % 2 == 0 { 2_000 } else { 1_000 });
        assert!(matches!(tune, GoingLeft | GoingRight));
        assert!(
            index != before || index == 0 || index == 8,
            "a step in every epoch but at the ends"
        );
    }
}

#[test]
fn polls_are_the_events_and_the_rest_of_a_sample_does_not_matter() {
    let (mut a, mut b) = (RdmaDim::new(), RdmaDim::new());
    for n in 0..10_000u64 {
        let bare =
            Sample { time_ns: n * 50_000, completions: n * (1 + n / 700 % 3), ..Sample::default() };
        let flow = Flow { packets: n * n, bytes: n * 1_500 };
        let full = Sample { events: n / 3, rx: flow, tx: flow, ..bare };
        let told = a.sample(&bare);
        assert_eq!(told, b.sample(&full));
        assert_eq!(a.state() == State::ApplyNewProfile, told.is_some());
        a.applied();
        b.applied();
    }
}

#[test]
fn the_epoch_over_the_wrap_of_the_event_counter_is_short() {
    // Poll n has event counter n mod 2^16; one epoch opens at poll 1, the next at 65...
    let mut q = Queue::new();
    let steady = |q: &mut Queue| q.poll(100, 10);
    for _ in 1..65_535 {
        assert_eq!(steady(&mut q), None);
    }
    // Poll 1 + 64 * 1023 = 65473 opened the epoch; poll 65536 is event 0, and ends it
    // after 63. 630 completions in 6300 us are the same rate as ever.
    assert_eq!(steady(&mut q), None);
    // The epochs now open at 0, so 64 polls later one ends; double the rate shows when.
    for _ in 0..63 {
        assert_eq!(q.poll(100, 20), None);
    }
    assert!(q.poll(100, 20).is_some(), "at event 64, where without the short epoch it would be 65");
}
