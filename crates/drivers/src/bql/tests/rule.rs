//! The rule of `dql_completed`, restated with counts that never wrap, beside the limit.

use super::*;

/// The queue at a completion, in bytes since the beginning.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    queued: i64,
    sent: i64,
    limit: i64,
    /// At the completion before: bytes queued, those over the limit, and the last packet.
    queued_before: i64,
    over_before: i64,
    packet_before: i64,
    packet: i64,
    least_slack: Option<i64>,
    /// Microseconds.
    watched_since: u64,
}

impl Account {
    fn complete(&mut self, now: u64, bytes: i64) {
        if bytes == 0 {
            return;
        }
        let sent = self.sent + bytes;
        let mut over = (self.queued - self.sent - self.limit).max(0);
        // All that was there at the last completion is sent.
        let caught_up = sent >= self.queued_before;
        let ran_dry = over > 0 && sent == self.queued;
        let mut limit = self.limit;
        if ran_dry || self.over_before > 0 && caught_up {
            limit += (sent - self.queued_before).max(0) + self.over_before;
            (self.watched_since, self.least_slack) = (now, None);
        } else if sent < self.queued && !caught_up {
            // Twice what an interval sends is the most that was needed.
            let slack = (limit + self.over_before - 2 * bytes).max(0);
            let one_packet = match self.over_before {
                0 => 0,
                over => (self.packet_before - over).max(0),
            };
            let slack = slack.max(one_packet);
            let least = self.least_slack.map_or(slack, |s| s.min(slack));
            self.least_slack = Some(least);
            if now > self.watched_since + 1_000_000 {
                limit = (limit - least).max(0);
                (self.watched_since, self.least_slack) = (now, None);
            }
        }
        if limit != self.limit {
            (self.limit, over) = (limit, 0);
        }
        (self.queued_before, self.over_before, self.packet_before) =
            (self.queued, over, self.packet);
        self.sent = sent;
    }

    /// Bytes that may still be queued.
    fn room(&self) -> i64 {
        self.sent + self.limit - self.queued
    }
}

/// Sends packets: of these bytes, or nothing while the stack is held back; and completes so many of
/// those under way, so long after the last time.
fn compare(steps: &[(u16, u8, u32)]) {
    let (mut q, mut a) = (Bql::new(true), Account::default());
    let mut now = 0;
    let mut waiting: Vec<i64> = Vec::new();
    for (i, (bytes, completed, wait)) in steps.iter().enumerate() {
        // The room is that of the last completion: the account's, until then.
        if !q.is_over() && *bytes > 0 {
            let bytes = u32::from(*bytes);
            q.queue(bytes);
            (a.queued, a.packet) = (a.queued + i64::from(bytes), bytes.into());
            waiting.push(bytes.into());
        }
        now += u64::from(*wait);
        let done = usize::from(*completed).min(waiting.len());
        let sent: i64 = waiting.drain(..done).sum();
        q.complete(at(now), sent as u32);
        a.complete(now, sent);
        assert_eq!((i64::from(q.limit), i64::from(q.room())), (a.limit, a.room()), "step {i}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_limit_follows_its_rule(
        steps in proptest::collection::vec(
            (
                // No packet, or one of a few sizes: sums that are equal happen.
                prop::sample::select(alloc::vec![0u16, 60, 60, 1000, 1514, 2000, 3000]),
                prop::sample::select(alloc::vec![0u8, 0, 0, 1, 1, 2, 3, 9]),
                prop::sample::select(alloc::vec![0u32, 1, 1000, 400_000, 1_000_000, 1_000_001]),
            ),
            0..400,
        ),
    ) {
        compare(&steps);
    }
}

#[test]
fn what_was_sent_exactly_up_to_the_last_completion_counts_as_all() {
    let mut q = Bql::new(true);
    // Two packets at first: the second is over the limit. One is sent, and the queue is full.
    q.queue(1000);
    q.complete(at(1), 1000);
    assert_eq!(q.limit, 1000);
    q.queue(800);
    q.queue(800);
    q.complete(at(2), 800);
    assert_eq!((q.limit, q.room()), (1000, 200));
    // All of that is sent, and no more: the stack may have been late with what came since.
    q.queue(300);
    q.complete(at(3), 800);
    assert_eq!(q.limit, 1600, "by the 600 that were over it");
}
