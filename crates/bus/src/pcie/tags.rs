//! The tags of a device's read requests, each of which names one outstanding request.

use doorbell_hal::Time;

/// The times at which the tags of a device are free: a ring in order of time.
#[derive(Clone, Debug)]
pub(super) struct Tags {
    free_at: Box<[Time]>,
    /// The one that is free first.
    first: usize,
}

impl Tags {
    /// Creates `count` free tags, at least one.
    pub(super) fn new(count: u32) -> Tags {
        Tags { free_at: vec![Time::ZERO; count.max(1) as usize].into(), first: 0 }
    }

    /// Returns the time at which a tag is free.
    #[inline(always)]
    pub(super) fn ready(&self) -> Time {
        self.free_at[self.first]
    }

    /// Gives the tag that is free first back to a request that has it until `done`, the arrival of
    /// its last completion.
    #[inline(always)]
    pub(super) fn hold(&mut self, done: Time) {
        let last = self.free_at.len() - 1;
        let mut i = self.first;
        self.first = if i == last { 0 } else { i + 1 };
        // The slot is the last of the ring now. Completions arrive nearly in order.
        while i != self.first {
            let before = if i == 0 { last } else { i - 1 };
            if self.free_at[before] <= done {
                break;
            }
            self.free_at[i] = self.free_at[before];
            i = before;
        }
        self.free_at[i] = done;
    }
}

#[cfg(test)]
mod tests;
