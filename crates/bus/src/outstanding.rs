//! The limit of outstanding transfers.

use doorbell_hal::{Span, Time};

/// The highest limit of any bus here: PCI-X knows 32.
const MOST: usize = 32;

/// Outstanding transfers, up to a limit. Each takes the slot that was taken longest ago.
#[derive(Clone, Debug)]
pub(crate) struct OutstandingRequests {
    /// End of the last transfer in each slot. The oldest is at `oldest`.
    over: [Time; MOST],
    oldest: usize,
    count: usize,
}

impl OutstandingRequests {
    /// Allows `count` transfers at a time, 1 to 32.
    pub(crate) fn new(count: u32) -> OutstandingRequests {
        OutstandingRequests {
            over: [Time::ZERO; MOST],
            oldest: 0,
            count: (count as usize).clamp(1, MOST),
        }
    }

    /// Returns when the next transfer can start, if it is wanted at `at`.
    #[inline]
    pub(crate) fn free(&self, at: Time) -> Time {
        at.max(self.over[self.oldest])
    }

    /// Returns the number of slots.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Gives the next slots, not more than there are, to `n` transfers. The first ends at `over`,
    /// each other `step` after the one before, and the last at `end`.
    #[inline(always)]
    pub(crate) fn take_run(&mut self, mut over: Time, step: Span, n: u64, end: Time) {
        if n == self.count as u64 {
            // No slot stays as it is.
            self.oldest = 0;
            let slots = &mut self.over[..self.count];
            for slot in &mut *slots {
                *slot = over;
                over += step;
            }
            slots[self.count - 1] = end;
            return;
        }
        for _ in 1..n {
            self.take(over);
            over += step;
        }
        self.take(end);
    }

    /// Gives the next slot to a transfer that ends at `over`.
    #[inline]
    pub(crate) fn take(&mut self, over: Time) {
        self.over[self.oldest] = over;
        self.oldest += 1;
        if self.oldest == self.count {
            self.oldest = 0;
        }
    }
}

#[cfg(test)]
mod tests;
