//! Byte queue limits: how many bytes a stack lets the queue of a device hold.
//!
//! Source: linux lib/dynamic_queue_limits.c, include/linux/netdevice.h, net/sched/sch_generic.c
//! (behaviour, 5.10). The limit belongs to the stack. A driver reports to it what it queues and what has
//! been sent; a stack looks at [`Bql::room`] before it hands over a batch.
//!
//! The limit is the smallest with which the queue does not run dry between two completions. It grows as
//! soon as the queue was found empty while the stack had been held back. It shrinks by the least slack
//! seen, after [`HOLD`] without growth.
//!
//! Counters are free running and wrap, so only differences mean anything.

use doorbell_seam::{Span, Time};

/// How long slack is watched before the limit shrinks (`dql_init(dql, HZ)`).
const HOLD: Span = Span::from_ms(1000);
/// The largest limit (`DQL_MAX_LIMIT`), low enough for [`Bql::room`] to be a signed number.
const MAX_LIMIT: u32 = u32::MAX / 2 - 1;

/// The byte limit of one transmit queue.
#[derive(Clone, Copy, Debug)]
pub struct Bql {
    /// Bytes queued so far (`num_queued`).
    queued: u32,
    /// Bytes of the last packet queued (`last_obj_cnt`).
    last: u32,
    /// Bytes sent so far (`num_completed`).
    completed: u32,
    limit: u32,
    /// Bytes queued at which the limit is reached (`adj_limit`).
    bound: u32,
    /// At the completion before this one: `queued`, bytes over the limit, and `last`.
    before: Before,
    lowest_slack: u32,
    slack_since: Time,
    /// The least limit. [`MAX_LIMIT`] switches the limit off, as it does in Linux.
    min: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Before {
    queued: u32,
    over: u32,
    last: u32,
}

/// `a - b`, or 0 where `b` is ahead.
fn ahead(a: u32, b: u32) -> u32 {
    let d = a.wrapping_sub(b);
    if d as i32 > 0 { d } else { 0 }
}

impl Bql {
    /// An empty queue's limit: zero, which admits one packet. Without `on` there is none.
    pub const fn new(on: bool) -> Bql {
        let min = if on { 0 } else { MAX_LIMIT };
        Bql {
            queued: 0,
            last: 0,
            completed: 0,
            limit: min,
            bound: min,
            before: Before { queued: 0, over: 0, last: 0 },
            lowest_slack: u32::MAX,
            slack_since: Time::ZERO,
            min,
        }
    }

    /// Reports `bytes` more in the queue (`dql_queued`).
    #[inline(always)]
    pub fn queue(&mut self, bytes: u32) {
        self.queued = self.queued.wrapping_add(bytes);
        self.last = bytes;
    }

    /// Returns how many bytes were queued so far, modulo 2^32.
    #[inline(always)]
    pub fn queued(&self) -> u32 {
        self.queued
    }

    /// Returns how many bytes may still be queued (`dql_avail`). Below zero the stack starts no batch;
    /// a batch that has begun goes over the limit by the rest of one packet at the most.
    #[inline(always)]
    pub fn room(&self) -> i32 {
        self.bound.wrapping_sub(self.queued) as i32
    }

    /// Returns whether the stack is held back (`__QUEUE_STATE_STACK_XOFF`).
    #[inline(always)]
    pub fn is_over(&self) -> bool {
        self.room() < 0
    }

    /// Reports that all bytes up to a value of [`Bql::queued`] were sent.
    pub fn complete_to(&mut self, now: Time, queued: u32) {
        self.complete(now, queued.wrapping_sub(self.completed));
    }

    /// Reports that `bytes` more were sent, and adapts the limit (`dql_completed`). Once a poll.
    pub fn complete(&mut self, now: Time, bytes: u32) {
        if bytes == 0 {
            return;
        }
        let held = self.queued.wrapping_sub(self.completed);
        debug_assert!(bytes <= held, "{bytes} bytes sent of {held}");
        let bytes = bytes.min(held);
        let completed = self.completed.wrapping_add(bytes);
        let mut over = ahead(held, self.limit);
        let left = held - bytes;
        let left_before = self.before.queued.wrapping_sub(self.completed);
        // Sent of what was queued since the last completion.
        let fresh = ahead(completed, self.before.queued);
        let mut limit = self.limit;
        if (over > 0 && left == 0) || (self.before.over > 0 && fresh > 0) {
            // The queue ran dry while the stack was held back, or may have.
            limit = limit.wrapping_add(fresh).wrapping_add(self.before.over);
            self.watch_slack(now);
        } else if left > 0 && left_before > 0 && fresh == 0 {
            // Busy all the time since: what was never needed is slack.
            let unneeded = ahead(limit.wrapping_add(self.before.over), bytes.wrapping_mul(2));
            let rounding = if self.before.over > 0 { ahead(self.before.last, self.before.over) } else { 0 };
            self.lowest_slack = self.lowest_slack.min(unneeded.max(rounding));
            if now > self.slack_since + HOLD {
                limit = ahead(limit, self.lowest_slack);
                self.watch_slack(now);
            }
        }
        limit = limit.clamp(self.min, MAX_LIMIT);
        if limit != self.limit {
            self.limit = limit;
            over = 0;
        }
        self.bound = limit.wrapping_add(completed);
        self.before = Before { queued: self.queued, over, last: self.last };
        self.completed = completed;
    }

    fn watch_slack(&mut self, now: Time) {
        self.slack_since = now;
        self.lowest_slack = u32::MAX;
    }

    /// Forgets everything: the queue starts again, empty (`dql_reset`).
    pub fn reset(&mut self, now: Time) {
        *self = Bql { slack_since: now, ..Bql::new(self.min == 0) };
    }
}

#[cfg(test)]
mod tests {
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
            let quick: Vec<Step> =
                steps.into_iter().filter(|s| !matches!(s, Step::Wait(_))).collect();
            let limits = play(Bql::new(true), &quick);
            prop_assert!(limits.windows(2).all(|w| w[0].1 <= w[1].1));
        }
    }
}
