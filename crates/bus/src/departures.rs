//! Times at which frames leave, at equal numbers of frames.

use doorbell_hal::Time;

/// Marks at which every other goes and their distance doubles.
const MOST: usize = 256;

/// The times of every so many-th frame's departure: a run of any length in a few hundred marks.
#[derive(Debug)]
pub(crate) struct Departures {
    /// The frame whose departure is marked next.
    pub(crate) next: u64,
    stride: u64,
    /// Frames before the marks began.
    sent: u64,
    marks: Vec<(Time, u64)>,
}

impl Departures {
    /// No frame is marked.
    pub(crate) const fn none() -> Departures {
        Departures { next: u64::MAX, stride: 0, sent: 0, marks: Vec::new() }
    }

    /// Marks every `stride`-th frame after the first `sent`.
    pub(crate) fn every(stride: u64, sent: u64) -> Departures {
        let stride = stride.max(1);
        Departures { next: sent + stride, stride, sent, marks: Vec::with_capacity(MOST) }
    }

    /// The times so far, each with the frames that had left since the marks began.
    pub(crate) fn marks(&self) -> Vec<(Time, u64)> {
        self.marks.iter().map(|(at, n)| (*at, n - self.sent)).collect()
    }

    /// The frame that is due leaves.
    #[cold]
    #[inline(never)]
    pub(crate) fn mark(&mut self, at: Time) {
        self.marks.push((at, self.next));
        if self.marks.len() == MOST {
            keep_every_other(&mut self.marks);
            self.stride *= 2;
        }
        self.next += self.stride;
    }
}

/// Keeps the second of all, the fourth, and so on: marks at twice the distance.
pub fn keep_every_other<T>(marks: &mut Vec<T>) {
    let mut odd = false;
    marks.retain(|_| {
        odd = !odd;
        !odd
    });
}

#[cfg(test)]
mod tests;
