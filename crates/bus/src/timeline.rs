//! A shared resource as a line of busy intervals: a link direction, a bus, a
//! wire, a core, a pipeline stage.
//!
//! A booking takes the first gap that fits at or after the time it is wanted, so
//! that a completion booked far ahead does not delay a doorbell due now. It is
//! contiguous: a packet is not interrupted on a link. Whoever owns the rate
//! carries fractions of a picosecond ([`crate::pcie::ByteClock`]); a duration
//! here is whole.
//!
//! Nothing is booked before the *floor*, the earliest time that anybody may still
//! ask for (the slowest core's), and what ends before it is forgotten: the line
//! holds the stretch between floor and horizon, however long the run.
//!
//! # What the order of calls can change
//!
//! Never the total. With bookings of one length wanted at multiples of it
//! (slots), never the set of busy slots either, only whose is which: this is
//! linear probing. Off such a grid a gap too short for a booking may open or
//! close with the order, as on any bus that does not interrupt a transfer.
//!
//! # Structure
//!
//! Bookings come from two places at once: far ahead, appended to the last interval
//! or following it, and now, in the gaps before it. So the last interval lives in
//! two fields, and the others, touching ones merged, in two sorted rings with a
//! cursor between them where the last gap was filled. Both kinds of booking find
//! their place in a step or two, because both mostly move forward.

use doorbell_seam::{Span, Time};
use std::collections::VecDeque;

/// Busy from `start` up to `end`, which is the first free instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// First busy picosecond.
    pub start: Time,
    /// First free picosecond after it.
    pub end: Time,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct TimeLine {
    floor: Time,
    /// The latest interval; empty, at zero, before the first booking.
    last: Interval,
    /// The intervals before the cursor, in order. No two intervals of the line touch.
    before: VecDeque<Interval>,
    /// The intervals between the cursor and `last`, in order.
    after: VecDeque<Interval>,
    busy: Span,
}

impl Default for TimeLine {
    fn default() -> TimeLine {
        TimeLine::new()
    }
}

impl TimeLine {
    /// A resource that is free from the start of the run.
    pub const fn new() -> TimeLine {
        TimeLine {
            floor: Time::ZERO,
            last: Interval { start: Time::ZERO, end: Time::ZERO },
            before: VecDeque::new(),
            after: VecDeque::new(),
            busy: Span::ZERO,
        }
    }

    /// Books `duration` in the first gap that holds it at or after `at`, and answers its start.
    /// An empty booking takes no gap and starts at `at`; neither is before the floor.
    #[inline]
    pub fn book(&mut self, at: Time, duration: Span) -> Time {
        let at = at.max(self.floor);
        if at < self.last.start || duration == Span::ZERO {
            return self.book_before_last(at, duration);
        }
        self.busy += duration;
        let start = at.max(self.last.end);
        if start == self.last.end {
            self.last.end += duration;
        } else {
            self.follow_last(Interval { start, end: start + duration });
        }
        start
    }

    /// Forgets what ends at or before `floor` and books nothing before it from now on. A floor below
    /// the present one changes nothing.
    #[inline]
    pub fn set_floor(&mut self, floor: Time) {
        self.floor = self.floor.max(floor);
        for ring in [&mut self.before, &mut self.after] {
            while let Some(first) = ring.front() {
                if first.end > self.floor {
                    return;
                }
                ring.pop_front();
            }
        }
    }

    /// The time before which nothing is booked any more.
    pub fn floor(&self) -> Time {
        self.floor
    }

    /// All time booked since the start, forgotten intervals included.
    #[inline]
    pub fn busy(&self) -> Span {
        self.busy
    }

    /// The end of the last booking: free for ever from here on.
    #[inline]
    pub fn horizon(&self) -> Time {
        self.last.end
    }

    /// The busy intervals still remembered, in order, touching ones merged.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> + '_ {
        let last = (self.last.start < self.last.end).then_some(self.last);
        self.before.iter().chain(&self.after).copied().chain(last)
    }

    #[inline]
    fn follow_last(&mut self, next: Interval) {
        // What ends at the floor no gap search will meet; this also drops the empty first one.
        if self.last.end > self.floor {
            self.after.push_back(self.last);
        }
        self.last = next;
    }

    fn book_before_last(&mut self, at: Time, duration: Span) -> Time {
        if duration == Span::ZERO {
            return at;
        }
        self.busy += duration;
        // Bring the cursor to the first gap that fits: back to `at`, then over all that is in the way.
        while let Some(&interval) = self.before.back()
            && interval.end > at
        {
            self.before.pop_back();
            self.after.push_front(interval);
        }
        let mut start = at;
        while let Some(&interval) = self.after.front()
            && start + duration > interval.start
        {
            start = start.max(interval.end);
            self.after.pop_front();
            self.before.push_back(interval);
        }
        let end = start + duration;
        let next = self.after.front_mut().unwrap_or(&mut self.last);
        if end > next.start {
            // Only `last` can still be in the way, and after it all is free.
            let start = next.end;
            next.end += duration;
            return start;
        }
        // Join the neighbours that it touches.
        let from = match self.before.back() {
            Some(previous) if previous.end == start => {
                let from = previous.start;
                self.before.pop_back();
                from
            }
            _ => start,
        };
        if end == next.start {
            next.start = from;
        } else {
            self.before.push_back(Interval { start: from, end });
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ps(ps: u64) -> Time {
        Time::from_ps(ps)
    }

    fn book(line: &mut TimeLine, at: u64, duration: u64) -> u64 {
        line.book(ps(at), Span::from_ps(duration)).ps()
    }

    fn intervals(line: &TimeLine) -> Vec<(u64, u64)> {
        line.intervals().map(|i| (i.start.ps(), i.end.ps())).collect()
    }

    #[test]
    fn a_completion_booked_ahead_does_not_delay_a_doorbell_due_now() {
        let mut line = TimeLine::new();
        assert_eq!(book(&mut line, 1000, 84), 1000);
        assert_eq!(book(&mut line, 100, 28), 100);
        assert_eq!(book(&mut line, 990, 28), 1084, "does not fit before the completion");
        assert_eq!(book(&mut line, 972, 28), 972, "fits exactly");
        assert_eq!(intervals(&line), [(100, 128), (972, 1112)]);
        assert_eq!((line.busy().ps(), line.horizon()), (168, ps(1112)));
    }

    #[test]
    fn a_filled_gap_joins_its_neighbours() {
        let mut line = TimeLine::new();
        for at in [0, 20, 40, 60] {
            book(&mut line, at, 10);
        }
        assert_eq!(book(&mut line, 0, 10), 10);
        assert_eq!(intervals(&line), [(0, 30), (40, 50), (60, 70)]);
        assert_eq!(book(&mut line, 45, 10), 50);
        assert_eq!(intervals(&line), [(0, 30), (40, 70)]);
        assert_eq!(book(&mut line, 0, 10), 30);
        assert_eq!(intervals(&line), [(0, 70)]);
    }

    #[test]
    fn nothing_is_booked_before_the_floor_and_the_past_is_forgotten() {
        let mut line = TimeLine::new();
        for at in 0..1000 {
            book(&mut line, at * 10, 5);
            line.set_floor(ps((at * 10).saturating_sub(50)));
            assert!(line.intervals().count() <= 7);
        }
        assert_eq!(line.busy().ps(), 5000);
        line.set_floor(ps(20_000));
        assert_eq!(book(&mut line, 3, 5), 20_000);
        assert_eq!(intervals(&line), [(20_000, 20_005)]);
        line.set_floor(ps(0));
        assert_eq!(line.floor(), ps(20_000));
    }

    #[test]
    fn an_empty_booking_takes_no_gap() {
        let mut line = TimeLine::new();
        book(&mut line, 10, 10);
        assert_eq!(book(&mut line, 15, 0), 15);
        assert_eq!(book(&mut line, 90, 0), 90);
        assert_eq!(intervals(&line), [(10, 20)]);
    }
}
