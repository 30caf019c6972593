//! The pace of a source: the times at which its bursts are due.

use super::arrivals::Rng;
use doorbell_hal::{Span, Time};

/// The distribution of bursts in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As fast as the queue takes packets.
    Full,
    /// One burst in each interval.
    Burst(Span),
    /// Poisson arrivals of bursts with this mean interval.
    Poisson(Span),
    /// One burst in each interval while on; then none while off, which adds nothing to an
    /// interval. Phases are those of the traffic, so that all sources are on and off together.
    OnOff {
        /// The interval, in time that is on.
        every: Span,
        /// Duration of a phase with bursts.
        on: Span,
        /// Duration of a phase without.
        off: Span,
    },
}

/// A source's clock.
#[derive(Clone, Debug)]
pub struct Pace {
    rate: Rate,
    /// Time from the start of the traffic to the first burst; of phases, only that which is on.
    first: Span,
    /// Time that is on, from the start of the traffic to the next burst, of phases.
    busy: Span,
    began: Time,
    next: Time,
    /// Time at which the burst that began last was due.
    due: Time,
    draw: Rng,
}

impl Pace {
    /// Creates a pace whose first burst is due so long after the start. Poisson arrivals are drawn
    /// from `seed`.
    pub fn new(rate: Rate, first: Span, seed: u64) -> Pace {
        let draw = Rng::new(seed);
        let next = Time::ZERO + first;
        Pace { rate, first, busy: first, began: Time::ZERO, next, due: Time::NEVER, draw }
    }

    /// Starts the traffic at `at`.
    pub fn start(&mut self, at: Time) {
        (self.began, self.busy) = (at, self.first);
        self.next = match self.rate {
            Rate::Full | Rate::Burst(_) => at + self.first,
            Rate::Poisson(mean) => at + self.first + self.draw.exponential(mean),
            Rate::OnOff { on, off, .. } => at + with_silences(self.busy, on, off),
        };
    }

    /// Begins a burst, or returns the time until which to wait.
    #[inline(always)]
    pub fn begin(&mut self, now: Time) -> Result<(), Time> {
        if self.rate == Rate::Full {
            return Ok(());
        }
        if now < self.next {
            return Err(self.next);
        }
        self.due = self.next;
        self.advance();
        Ok(())
    }

    /// Returns the time at which a packet of the burst that has begun was due: at full speed `now`.
    #[inline(always)]
    pub fn due(&self, now: Time) -> Time {
        self.due.min(now)
    }

    fn advance(&mut self) {
        match self.rate {
            Rate::Full => {}
            Rate::Burst(every) => self.next += every,
            Rate::Poisson(mean) => self.next += self.draw.exponential(mean),
            Rate::OnOff { every, on, off } => {
                self.busy += every;
                self.next = self.began + with_silences(self.busy, on, off);
            }
        }
    }
}

/// Returns the time from the start of the traffic when phases of `on` have lasted `busy`.
fn with_silences(busy: Span, on: Span, off: Span) -> Span {
    busy + off * (busy.ps() / on.ps().max(1))
}

#[cfg(test)]
mod tests;
