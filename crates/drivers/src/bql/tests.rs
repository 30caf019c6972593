mod rule;

use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

const PACKET: u32 = 1514;

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

/// Fills the queue as a stack does that always has packets: up to the limit, and over it by less
/// than one packet. Returns how many bytes it holds.
fn fill(q: &mut Bql) -> u32 {
    while !q.is_over() {
        q.queue(PACKET);
    }
    q.queued.wrapping_sub(q.completed)
}

#[test]
fn an_empty_queue_admits_one_packet() {
    let mut q = Bql::new(true);
    assert_eq!(q.room(), 0);
    assert_eq!(fill(&mut q), PACKET);
    assert!(q.is_over());
    q.complete(at(1), PACKET);
    assert!(!q.is_over());
}

#[test]
fn a_starved_queue_gets_what_it_sent() {
    let mut q = Bql::new(true);
    let held = fill(&mut q);
    q.complete(at(1), held);
    assert_eq!(q.limit, PACKET, "all of it was queued and sent since");
    let held = fill(&mut q);
    assert_eq!(held, 2 * PACKET);
    q.complete(at(2), held);
    assert_eq!(q.limit, 3 * PACKET);
}

#[test]
fn a_stack_that_was_not_held_back_raises_nothing() {
    let mut q = Bql::new(true);
    let held = fill(&mut q);
    q.complete(at(1), held);
    for i in 0..100 {
        q.queue(60);
        q.complete(at(2 + i), 60);
    }
    assert_eq!(q.limit, PACKET);
}

/// A link that sends `bytes` between two completions, and a stack that always has more.
fn steady(q: &mut Bql, from_us: u64, rounds: u64, every_us: u64, bytes: u32) -> u32 {
    let mut dry = 0;
    for i in 1..=rounds {
        let held = fill(q);
        dry = if held < bytes { i as u32 } else { dry };
        q.complete(at(from_us + i * every_us), held.min(bytes));
    }
    dry
}

#[test]
fn the_limit_ends_between_one_and_two_intervals() {
    // What a link sends in an interval is the least that keeps it busy; twice that is the
    // algorithm's own bound (the comment on slack in dynamic_queue_limits.c).
    for interval in [3_000, 12_500, 125_000] {
        let mut q = Bql::new(true);
        let last_dry = steady(&mut q, 0, 3000, 1000, interval);
        assert!(last_dry < 100, "still dry in interval {last_dry}");
        assert!(q.limit + PACKET >= interval, "{} for {interval}", q.limit);
        assert!(q.limit <= 2 * interval + PACKET, "{} for {interval}", q.limit);
    }
}

#[test]
fn slack_is_kept_for_a_second_then_given_up() {
    let mut q = Bql::new(true);
    steady(&mut q, 0, 100, 1000, 125_000);
    let high = q.limit;
    // A link a tenth as fast, from 100 ms on.
    steady(&mut q, 100_000, 850, 1000, 12_500);
    assert_eq!(q.limit, high, "less than a second after it grew");
    steady(&mut q, 950_000, 3000, 1000, 12_500);
    assert!(q.limit < high / 4, "{} of {high}", q.limit);
}

#[test]
fn off_never_holds_back() {
    let mut q = Bql::new(false);
    for i in 0..1000 {
        q.queue(1 << 20);
        assert!(!q.is_over());
        if i % 3 == 0 {
            let held = q.queued.wrapping_sub(q.completed);
            q.complete(at(i * 700_000), held / 2);
        }
    }
}

#[test]
fn a_reset_queue_is_as_new() {
    let mut q = Bql::new(true);
    steady(&mut q, 0, 50, 1000, 125_000);
    fill(&mut q);
    q.reset(at(60_000));
    assert_eq!((q.room(), q.limit, q.queued()), (0, 0, 0));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Queue(u32),
    /// Of what is held, in 1/255.
    Complete(u8),
    Wait(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (60u32..65_536).prop_map(Step::Queue),
        3 => any::<u8>().prop_map(Step::Complete),
        1 => (0u32..2_000_000).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..200)
}

/// Runs the steps; a stack that is held back queues nothing. After each: room, limit.
fn play(mut q: Bql, steps: &[Step]) -> Vec<(i32, u32)> {
    let mut now = 0;
    let mut seen = Vec::new();
    for s in steps {
        match *s {
            Step::Queue(bytes) if !q.is_over() => q.queue(bytes),
            Step::Queue(_) => {}
            Step::Complete(share) => {
                let held = u64::from(q.queued.wrapping_sub(q.completed));
                q.complete(at(now), (held * u64::from(share) / 255) as u32);
            }
            Step::Wait(us) => now += u64::from(us),
        }
        seen.push((q.room(), q.limit));
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Nobody waits for a completion that cannot come.
    #[test]
    fn a_queue_that_was_emptied_admits_a_packet(steps in steps()) {
        let mut q = Bql::new(true);
        let mut now = 0;
        for s in steps {
            match s {
                Step::Queue(bytes) if !q.is_over() => q.queue(bytes),
                Step::Complete(_) => {
                    q.complete_to(at(now), q.queued());
                    prop_assert!(!q.is_over());
                }
                Step::Wait(us) => now += u64::from(us),
                Step::Queue(_) => {}
            }
            // The last packet alone is over the limit.
            prop_assert!(q.room() >= -(q.last as i32), "{q:?}");
        }
    }

    #[test]
    fn only_differences_of_counters_matter(steps in steps(), from in any::<u32>()) {
        let far = Bql {
            queued: from,
            completed: from,
            bound: from,
            before: Before { queued: from, over: 0, last: 0 },
            ..Bql::new(true)
        };
        prop_assert_eq!(play(far, &steps), play(Bql::new(true), &steps));
    }

    #[test]
    fn nothing_shrinks_within_a_second_of_growth(steps in steps()) {
        let quick: Vec<Step> = steps.into_iter().filter(|s| !matches!(s, Step::Wait(_))).collect();
        let limits = play(Bql::new(true), &quick);
        prop_assert!(limits.windows(2).all(|w| w[0].1 <= w[1].1));
    }
}
