//! Byte queue limits: the stack's limit of the bytes in a device's queue.
//!
//! Source: linux lib/dynamic_queue_limits.c, include/linux/netdevice.h, net/sched/sch_generic.c
//! (behaviour, 5.10). A driver reports the bytes that it queues and those that were sent; a stack
//! checks [`Bql::room`] before each batch.
//!
//! The limit is the smallest with which the queue does not run dry between two completions. It
//! grows when the queue was empty while the stack was held back, and shrinks by the least slack
//! seen after [`HOLD`] without growth. Counters are free running; only their differences mean
//! anything.

use doorbell_hal::{Span, Time};

/// Time of watching slack before the limit shrinks (`dql_init(dql, HZ)`).
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

/// Returns `a - b`, or 0 where `b` is ahead.
fn ahead(a: u32, b: u32) -> u32 {
    let d = a.wrapping_sub(b);
    if d as i32 > 0 { d } else { 0 }
}

impl Bql {
    /// Returns the limit of an empty queue: zero, which admits one packet; without `on`, no limit.
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

    /// Returns how many bytes may still be queued (`dql_avail`). Below zero the stack starts no
    /// batch; a batch that has begun goes over the limit by the rest of one packet at the most.
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
        // All that the queue held at the last completion has been sent, and so much more.
        let all_before = completed.wrapping_sub(self.before.queued) as i32 >= 0;
        let fresh = ahead(completed, self.before.queued);
        let mut limit = self.limit;
        if (over > 0 && left == 0) || (self.before.over > 0 && all_before) {
            // The queue ran dry while the stack was held back, or may have.
            limit = limit.wrapping_add(fresh).wrapping_add(self.before.over);
            self.watch_slack(now);
        } else if !all_before {
            // Busy all the time since: bytes that were never needed are slack.
            let unneeded = ahead(limit.wrapping_add(self.before.over), bytes.wrapping_mul(2));
            let rounding =
                if self.before.over > 0 { ahead(self.before.last, self.before.over) } else { 0 };
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

    /// Restarts with an empty queue (`dql_reset`).
    pub fn reset(&mut self, now: Time) {
        *self = Bql { slack_since: now, ..Bql::new(self.min == 0) };
    }
}

#[cfg(test)]
mod tests;
