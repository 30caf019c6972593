//! The time line as one would write it first: every booking kept apart in a sorted list, every
//! search from its start. What `Reservations` must equal, and what its bench is held against.

/// (start, end) of every booking, in order.
#[derive(Clone, Default)]
pub(crate) struct Naive {
    pub(crate) floor: u64,
    pub(crate) bookings: Vec<(u64, u64)>,
    pub(crate) busy: u64,
}

impl Naive {
    pub(crate) fn book(&mut self, at: u64, duration: u64) -> u64 {
        let mut start = at.max(self.floor);
        if duration == 0 {
            return start;
        }
        let mut place = self.bookings.len();
        for (i, &(busy_from, busy_to)) in self.bookings.iter().enumerate() {
            if busy_to <= start {
                continue;
            }
            if start + duration <= busy_from {
                place = i;
                break;
            }
            start = busy_to;
        }
        self.bookings.insert(place, (start, start + duration));
        self.busy += duration;
        start
    }

    pub(crate) fn retire_before(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        let floor = self.floor;
        self.bookings.retain(|&(_, end)| end > floor);
    }
}
