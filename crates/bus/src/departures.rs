//! Times at which frames leave, at equal numbers of frames.

use doorbell_hal::Time;

/// Largest number of marks. At that number every other one goes and the distance doubles.
const MOST: usize = 256;

/// Departure times of every `stride`-th frame: at most a few hundred marks for a run of any length.
#[derive(Debug)]
pub(crate) struct Departures {
    /// Number of the frame to mark next.
    pub(crate) next: u64,
    stride: u64,
    /// Frames before the first mark.
    sent: u64,
    marks: Vec<(Time, u64)>,
}

impl Departures {
    /// Creates a recorder that marks no frame.
    pub(crate) const fn none() -> Departures {
        Departures { next: u64::MAX, stride: 0, sent: 0, marks: Vec::new() }
    }

    /// Marks every `stride`-th frame after the first `sent`.
    pub(crate) fn every(stride: u64, sent: u64) -> Departures {
        let stride = stride.max(1);
        Departures { next: sent + stride, stride, sent, marks: Vec::with_capacity(MOST) }
    }

    /// Returns the marked times, each with the frames that had left since the marks began.
    pub(crate) fn marks(&self) -> Vec<(Time, u64)> {
        self.marks.iter().map(|(at, n)| (*at, n - self.sent)).collect()
    }

    /// Records the departure of the frame to mark.
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

/// Keeps every second mark.
pub fn keep_every_other<T>(marks: &mut Vec<T>) {
    let mut odd = false;
    marks.retain(|_| {
        odd = !odd;
        !odd
    });
}

#[cfg(test)]
mod tests;
