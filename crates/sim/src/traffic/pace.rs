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
    /// One burst in each interval while on; then none while off. Phases are those of the traffic,
    /// so that all sources are on and off together.
    OnOff {
        /// The interval.
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
    /// Time from the start of the traffic to the first burst.
    first: Span,
    began: Time,
    next: Time,
    draw: Rng,
}

impl Pace {
    /// Creates a pace whose first burst is due so long after the start. Poisson arrivals are drawn
    /// from `seed`.
    pub fn new(rate: Rate, first: Span, seed: u64) -> Pace {
        let draw = Rng::new(seed);
        Pace { rate, first, began: Time::ZERO, next: Time::ZERO + first, draw }
    }

    /// Starts the traffic at `at`.
    pub fn start(&mut self, at: Time) {
        (self.began, self.next) = (at, at + self.first);
        if let Rate::Poisson(mean) = self.rate {
            self.next += self.draw.exponential(mean);
        }
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
        self.advance();
        Ok(())
    }

    fn advance(&mut self) {
        self.next += match self.rate {
            Rate::Full => Span::ZERO,
            Rate::Burst(every) => every,
            Rate::Poisson(mean) => self.draw.exponential(mean),
            Rate::OnOff { every, on, off } => {
                let cycle = on + off;
                let next = self.next + every;
                let into = next.since(self.began).ps() % cycle.ps().max(1);
                // A burst in a phase without any is that of the next phase.
                let wait = if into < on.ps() { 0 } else { cycle.ps() - into };
                every + Span::from_ps(wait)
            }
        };
    }
}

#[cfg(test)]
mod tests;
