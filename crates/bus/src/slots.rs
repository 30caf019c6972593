//! How many transfers may be under way at a time.

use doorbell_hal::Time;

/// The most slots that any bus here has: PCI-X knows 32.
const MOST: usize = 32;

/// So many transfers at a time: each takes the slot that was taken longest ago.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    /// When the transfers that took a slot last are over; the oldest is at `oldest`.
    over: [Time; MOST],
    oldest: usize,
    count: usize,
}

impl Slots {
    /// `count` of them, 1 to 32.
    pub(crate) fn new(count: u32) -> Slots {
        Slots { over: [Time::ZERO; MOST], oldest: 0, count: (count as usize).clamp(1, MOST) }
    }

    /// When the next transfer can start, if it is wanted at `at`.
    #[inline]
    pub(crate) fn free(&self, at: Time) -> Time {
        at.max(self.over[self.oldest])
    }

    /// A transfer takes the next slot until `over`.
    #[inline]
    pub(crate) fn take(&mut self, over: Time) {
        self.over[self.oldest] = over;
        self.oldest = (self.oldest + 1) % self.count;
    }
}

#[cfg(test)]
mod tests;
