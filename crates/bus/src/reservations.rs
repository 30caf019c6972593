//! The reservations of a shared resource: a link direction, a bus, a wire, a core.
//!
//! A booking takes the first gap that holds it at or after its time and is contiguous. Nothing is
//! booked before the floor ([`Reservations::retire_before`]), and what ends before it is forgotten.
//! The order of calls never changes the total.
//!
//! Most bookings extend or follow the last interval, which lives in two fields. The others are a
//! sorted list in leaves of a few dozen, found just after the last booking or by bisection. A leaf
//! knows a bound on its gaps, so a search passes by full ones. Leaves are reused.

use doorbell_hal::{Span, Time};

/// A busy interval from `start` up to `end`, the first free instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// First busy picosecond.
    pub start: Time,
    /// First free picosecond after it.
    pub end: Time,
}

/// The reservations of a resource.
#[derive(Clone, Debug)]
pub struct Reservations {
    floor: Time,
    /// The latest interval, empty at zero before the first booking.
    last: Interval,
    /// All intervals before `last`. No two touch.
    older: Sorted,
    busy: Span,
}

impl Default for Reservations {
    fn default() -> Reservations {
        Reservations::new()
    }
}

impl Reservations {
    /// Creates a resource that is free from the start of the run.
    pub const fn new() -> Reservations {
        Reservations {
            floor: Time::ZERO,
            last: Interval { start: Time::ZERO, end: Time::ZERO },
            older: Sorted {
                leaves: Vec::new(),
                finger: Place { leaf: 0, item: 0 },
                spare: Vec::new(),
            },
            busy: Span::ZERO,
        }
    }

    /// Books `duration` in the first gap that holds it at or after `at` and the floor. Returns its
    /// start. An empty booking takes no gap.
    #[inline(always)]
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

    /// Forgets intervals that end at or before `floor`, and books nothing before it any more. A
    /// floor below the current one changes nothing.
    #[inline]
    pub fn retire_before(&mut self, floor: Time) {
        self.floor = self.floor.max(floor);
        self.older.forget(self.floor);
    }

    /// Returns the time before which nothing is booked any more.
    pub fn floor(&self) -> Time {
        self.floor
    }

    /// Returns the time booked since the start, forgotten intervals included.
    #[inline]
    pub fn busy(&self) -> Span {
        self.busy
    }

    /// Returns the end of the last interval, after which all is free.
    #[inline]
    pub fn horizon(&self) -> Time {
        self.last.end
    }

    /// Returns the time booked after `at`, which is not before the floor.
    pub fn busy_after(&self, at: Time) -> Span {
        let all = self.intervals().filter(|i| i.end > at);
        all.fold(Span::ZERO, |sum, i| sum + i.end.since(i.start.max(at)))
    }

    /// Iterates over the intervals not yet forgotten, in order, touching ones merged.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> + '_ {
        let last = (self.last.start < self.last.end).then_some(self.last);
        self.older.leaves.iter().flat_map(|leaf| leaf.items.iter().copied()).chain(last)
    }

    /// Books the intervals of `pattern`, `busy` in all, whose times count from the first's start.
    /// Returns its start, at or after `at`, when all is free, or `None` where something is booked
    /// after `at`: there each part takes the first gap that holds it.
    #[inline(always)]
    pub(crate) fn append(
        &mut self,
        at: Time,
        pattern: impl Iterator<Item = Interval>,
        busy: Span,
    ) -> Option<Time> {
        let at = at.max(self.floor);
        if at < self.last.start {
            return None;
        }
        let start = at.max(self.last.end);
        let later = start.since(Time::ZERO);
        let mut last = self.last;
        for part in pattern {
            let next = Interval { start: part.start + later, end: part.end + later };
            if next.start == last.end {
                last.end = next.end;
                continue;
            }
            if last.end > self.floor {
                self.older.push(last);
            }
            last = next;
        }
        self.last = last;
        self.busy += busy;
        Some(start)
    }

    #[inline(never)]
    fn follow_last(&mut self, next: Interval) {
        // No search meets an interval that ends at the floor. Also drops the empty first one.
        if self.last.end > self.floor {
            self.older.push(self.last);
        }
        self.last = next;
    }

    fn book_before_last(&mut self, at: Time, duration: Span) -> Time {
        if duration == Span::ZERO {
            return at;
        }
        self.busy += duration;
        // Often busy before the last gap, which it does not fill up.
        if let Some(leaf) = self.older.leaves.last_mut()
            && let Some(newest) = leaf.items.last_mut()
            && (newest.start..=newest.end).contains(&at)
            && newest.end + duration < self.last.start
        {
            let start = newest.end;
            newest.end += duration;
            leaf.end = newest.end;
            return start;
        }
        let (start, place) = self.older.first_fit(at, duration);
        let next = self.older.get(place).unwrap_or(self.last);
        let end = start + duration;
        if end > next.start {
            // Only `last` can still be in the way, and after it all is free.
            self.last.end += duration;
            return next.end;
        }
        // Join the neighbours that it touches.
        let previous = self.older.preceding(place).filter(|(_, before)| before.end == start);
        let from = previous.map_or(start, |(_, before)| before.start);
        let next_is_last = place.leaf == self.older.leaves.len();
        match (previous, end == next.start) {
            (None, false) => self.older.insert(place, Interval { start, end }),
            (Some((p, _)), false) => self.older.set(p, Interval { start: from, end }),
            (None, true) if next_is_last => self.last.start = from,
            (None, true) => self.older.set(place, Interval { start: from, end: next.end }),
            (Some((p, _)), true) if next_is_last => {
                self.last.start = from;
                self.older.remove(p);
            }
            (Some((p, _)), true) => {
                // The later one goes: the gap before the earlier is known to its own leaf.
                self.older.set(p, Interval { start: from, end: next.end });
                self.older.remove(place);
            }
        }
        start
    }
}

/// Largest number of intervals in a leaf, which an insertion moves. Measured: 32 and 64 are alike.
const LEAF: usize = 32;

/// The intervals after the finger that are tried before bisecting.
const NEAR: usize = 6;

/// One or more intervals in order.
#[derive(Clone, Debug)]
struct Leaf {
    /// End of the last interval, for the bisection.
    end: Time,
    /// Upper bound of the gaps before its intervals. Gaps only shrink, so it stays valid. A search
    /// that finds no gap lowers it, and later ones skip the leaf.
    gap: Span,
    items: Vec<Interval>,
}

/// The place of an interval, or with `leaf` one past the leaves, the place after all of them.
#[derive(Clone, Copy, Debug)]
struct Place {
    leaf: usize,
    item: usize,
}

/// Disjoint intervals in order.
#[derive(Clone, Debug)]
struct Sorted {
    leaves: Vec<Leaf>,
    /// Place of the last booking, often just before the next. A hint, checked before use.
    finger: Place,
    /// Empty vectors of dropped leaves, for reuse.
    spare: Vec<Vec<Interval>>,
}

impl Sorted {
    fn get(&self, place: Place) -> Option<Interval> {
        Some(self.leaves.get(place.leaf)?.items[place.item])
    }

    /// Returns the first interval that ends after `at`.
    #[inline]
    fn ends_after(&self, at: Time) -> Place {
        if let Some(leaf) = self.leaves.get(self.finger.leaf)
            && at < leaf.end
            && let Some(near) = leaf.items.get(self.finger.item..)
            && near.first().is_some_and(|interval| interval.end <= at)
            && let Some(i) = near.iter().take(NEAR).position(|interval| interval.end > at)
        {
            return Place { item: self.finger.item + i, ..self.finger };
        }
        let leaf = self.leaves.partition_point(|leaf| leaf.end <= at);
        let item =
            self.leaves.get(leaf).map_or(0, |leaf| leaf.items.partition_point(|i| i.end <= at));
        Place { leaf, item }
    }

    /// Returns the start of a booking of `duration` at or after `at`, and the interval behind it.
    /// Returns the earliest start after the last interval if no gap before it fits.
    fn first_fit(&mut self, at: Time, duration: Span) -> (Time, Place) {
        let Place { leaf: first, item: from } = self.ends_after(at);
        let mut start = at;
        for (i, leaf) in self.leaves[first..].iter_mut().enumerate() {
            if duration <= leaf.gap {
                // `at` lies in or before the first leaf; the others are searched from their start.
                let from = if i == 0 { from } else { 0 };
                for (item, interval) in leaf.items[from..].iter().enumerate() {
                    if start + duration <= interval.start {
                        return (start, Place { leaf: first + i, item: from + item });
                    }
                    start = interval.end;
                }
                if i > 0 {
                    leaf.gap = duration - Span::from_ps(1);
                }
            }
            start = leaf.end;
        }
        (start, Place { leaf: self.leaves.len(), item: 0 })
    }

    fn preceding(&self, Place { leaf, item }: Place) -> Option<(Place, Interval)> {
        let leaf = if item > 0 { leaf } else { leaf.checked_sub(1)? };
        let item = if item > 0 { item } else { self.leaves[leaf].items.len() } - 1;
        Some((Place { leaf, item }, self.leaves[leaf].items[item]))
    }

    fn set(&mut self, place: Place, interval: Interval) {
        self.finger = place;
        let leaf = &mut self.leaves[place.leaf];
        leaf.items[place.item] = interval;
        if place.item + 1 == leaf.items.len() {
            leaf.end = interval.end;
        }
    }

    #[inline]
    fn push(&mut self, interval: Interval) {
        match self.leaves.last_mut() {
            Some(leaf) if leaf.items.len() < LEAF => {
                leaf.gap = leaf.gap.max(interval.start.since(leaf.end));
                leaf.end = interval.end;
                leaf.items.push(interval);
            }
            _ => self.push_leaf(interval),
        }
    }

    #[cold]
    #[inline(never)]
    fn push_leaf(&mut self, interval: Interval) {
        let gap = interval.start.since(self.leaves.last().map_or(Time::ZERO, |leaf| leaf.end));
        let mut items = self.empty_leaf();
        items.push(interval);
        self.leaves.push(Leaf { end: interval.end, gap, items });
    }

    fn insert(&mut self, mut place: Place, interval: Interval) {
        if place.leaf == self.leaves.len() {
            return self.push(interval);
        }
        if self.leaves[place.leaf].items.len() == LEAF {
            let mut items = self.empty_leaf();
            let full = &mut self.leaves[place.leaf];
            items.extend(full.items.drain(LEAF / 2..));
            let upper = Leaf { end: full.end, gap: full.gap, items };
            full.end = full.items[LEAF / 2 - 1].end;
            self.leaves.insert(place.leaf + 1, upper);
            if place.item >= LEAF / 2 {
                place = Place { leaf: place.leaf + 1, item: place.item - LEAF / 2 };
            }
        }
        // Before an interval that exists, so the leaf's end stays.
        self.finger = place;
        self.leaves[place.leaf].items.insert(place.item, interval);
    }

    fn remove(&mut self, place: Place) {
        let leaf = &mut self.leaves[place.leaf];
        leaf.items.remove(place.item);
        match leaf.items.last() {
            Some(last) => leaf.end = last.end,
            None => self.drop_leaf(place.leaf),
        }
    }

    /// Drops the leaves that end at or before the floor. A leaf goes as a whole.
    #[inline]
    fn forget(&mut self, floor: Time) {
        while self.leaves.first().is_some_and(|leaf| leaf.end <= floor) {
            self.drop_leaf(0);
        }
    }

    fn drop_leaf(&mut self, i: usize) {
        let Leaf { mut items, .. } = self.leaves.remove(i);
        items.clear();
        self.spare.push(items);
    }

    fn empty_leaf(&mut self) -> Vec<Interval> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(LEAF))
    }
}

#[cfg(test)]
mod tests;
