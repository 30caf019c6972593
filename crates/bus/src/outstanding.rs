//! The limit of outstanding transfers.

use doorbell_hal::Time;

/// The highest limit of any bus here: PCI-X knows 32.
const MOST: usize = 32;

/// Outstanding transfers, up to a limit. Each takes the slot that was taken longest ago.
#[derive(Clone, Debug)]
pub(crate) struct OutstandingRequests {
    /// End of the last transfer in each slot. The oldest is at `oldest`.
    over: [Time; MOST],
    /// The latest end of all.
    all_over: Time,
    oldest: usize,
    count: usize,
}

impl OutstandingRequests {
    /// Allows `count` transfers at a time, 1 to 32.
    pub(crate) fn new(count: u32) -> OutstandingRequests {
        OutstandingRequests {
            over: [Time::ZERO; MOST],
            all_over: Time::ZERO,
            oldest: 0,
            count: (count as usize).clamp(1, MOST),
        }
    }

    /// Returns when the next transfer can start, if it is wanted at `at`.
    #[inline]
    pub(crate) fn free(&self, at: Time) -> Time {
        at.max(self.over[self.oldest])
    }

    /// Returns the end of all transfers, when every slot is free.
    #[inline]
    pub(crate) fn all_over(&self) -> Time {
        self.all_over
    }

    /// Returns the number of slots.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Passes by the slots of those of `transfers` transfers that later ones of them take again.
    /// Returns the number of those.
    #[inline]
    pub(crate) fn skip_reused(&mut self, transfers: u64) -> u64 {
        let reused = transfers.saturating_sub(self.count as u64);
        self.oldest = (self.oldest + reused as usize) % self.count;
        reused
    }

    /// Gives the next slot to a transfer that ends at `over`.
    #[inline]
    pub(crate) fn take(&mut self, over: Time) {
        self.over[self.oldest] = over;
        self.all_over = self.all_over.max(over);
        self.oldest += 1;
        if self.oldest == self.count {
            self.oldest = 0;
        }
    }
}

#[cfg(test)]
mod tests;
