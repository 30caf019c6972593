//! Injected faults between a device and its host.
//!
//! They occur in the [`Platform`](crate::Platform), so that each means the same on every bus: an
//! interrupt is lost, a completion is late or reports a failure, an access to memory fails. A line
//! whose rise was lost is seen when the device next completes something or drives it again. A late
//! write delays everything posted behind it, on PCI and PCI Express the answers to register reads,
//! and on PCI Express the device's reads.
//!
//! Each kind counts its own occasions: the nth, each nth, or one in n, drawn from a seed.

use crate::random::splitmix;
use doorbell_hal::{DmaFault, DmaFaultKind, Iova, Span, Time};

/// The kind of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An interrupt is lost.
    LostInterrupt,
    /// A completion is late by this time.
    LateCompletion(Span),
    /// A completion is spoiled.
    PoisonedCompletion,
    /// An access to memory fails.
    DmaFault,
}

/// The occasions at which a fault occurs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Occasion n, counted from 1.
    Nth(u64),
    /// Each n-th occasion.
    Every(u64),
    /// One in n at random.
    OneIn(u64),
}

/// A fault to inject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The fault.
    pub kind: Kind,
    /// Its occasions.
    pub when: When,
}

/// The faults that occurred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Interrupts lost.
    pub interrupts: u64,
    /// Completions that came late.
    pub late: u64,
    /// Completions spoiled.
    pub poisoned: u64,
    /// Accesses to memory that failed.
    pub dma: u64,
}

impl FaultCounts {
    /// Returns the faults of all kinds.
    pub fn total(&self) -> u64 {
        self.interrupts + self.late + self.poisoned + self.dma
    }
}

/// The faults of one platform.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
    draws: u64,
    /// Occasions so far: interrupts, completions, accesses.
    interrupts: u64,
    completions: u64,
    accesses: u64,
    /// The faults that occurred.
    pub struck: FaultCounts,
    /// The delay of the next write.
    late: Span,
    /// Lines whose rise was not seen.
    missed: Vec<u16>,
    /// Memory where no access fails.
    spared: Vec<(Iova, u32)>,
}

impl Faults {
    /// Creates the faults of `rules`, with random numbers from `seed`.
    pub fn new(rules: Vec<Rule>, seed: u64) -> Faults {
        Faults { rules, draws: seed, ..Faults::default() }
    }

    /// Exempts accesses to these areas. They are not counted.
    pub fn sparing(mut self, areas: Vec<(Iova, u32)>) -> Faults {
        self.spared = areas;
        self
    }

    /// Returns the fault of this kind that occurs at occasion `n`, if any.
    fn strikes(&mut self, n: u64, kind: impl Fn(Kind) -> bool) -> Option<Kind> {
        let mut found = None;
        for r in self.rules.iter().filter(|r| kind(r.kind)) {
            let now = match r.when {
                When::Nth(m) => n == m,
                When::Every(m) => n.is_multiple_of(m.max(1)),
                When::OneIn(m) => splitmix(&mut self.draws).is_multiple_of(m.max(1)),
            };
            found = found.or(now.then_some(r.kind));
        }
        found
    }

    fn loses_interrupt(&mut self) -> bool {
        self.interrupts += 1;
        let lost = self.strikes(self.interrupts, |k| k == Kind::LostInterrupt).is_some();
        self.struck.interrupts += u64::from(lost);
        lost
    }

    #[cold]
    pub(crate) fn loses_message(&mut self) -> bool {
        self.loses_interrupt()
    }

    /// Drives line `n` high, which was not seen high before. Returns true if that is not seen
    /// either.
    #[cold]
    pub(crate) fn misses_line(&mut self, n: u16) -> bool {
        if let Some(i) = self.missed.iter().position(|m| *m == n) {
            self.missed.swap_remove(i);
            return false;
        }
        let lost = self.loses_interrupt();
        if lost {
            self.missed.push(n);
        }
        lost
    }

    #[cold]
    pub(crate) fn line_is_low(&mut self, n: u16) {
        self.missed.retain(|m| *m != n);
    }

    /// The device reports something with its next write: the lines to be looked at again, and
    /// whether the report is spoiled.
    #[cold]
    pub(crate) fn begin_completion(&mut self) -> (Vec<u16>, bool) {
        self.completions += 1;
        let n = self.completions;
        if let Some(Kind::LateCompletion(by)) =
            self.strikes(n, |k| matches!(k, Kind::LateCompletion(_)))
        {
            self.late = by;
        }
        let spoiled = self.strikes(n, |k| k == Kind::PoisonedCompletion).is_some();
        self.struck.poisoned += u64::from(spoiled);
        (core::mem::take(&mut self.missed), spoiled)
    }

    /// Returns the arrival of a write that would have arrived at `arrival`.
    #[cold]
    pub(crate) fn delay(&mut self, arrival: Time) -> Time {
        let late = core::mem::take(&mut self.late);
        self.struck.late += u64::from(late > Span::ZERO);
        arrival + late
    }

    /// Ends a completion whose write was refused: the next write is another one.
    pub(crate) fn withdraw_completion(&mut self) {
        self.late = Span::ZERO;
    }

    /// Counts an access to memory, and fails it if a fault is due.
    #[cold]
    pub(crate) fn access(&mut self, at: Iova) -> Result<(), DmaFault> {
        if self.spared.iter().any(|&(a, len)| (a.0..a.0 + u64::from(len)).contains(&at.0)) {
            return Ok(());
        }
        self.accesses += 1;
        if self.strikes(self.accesses, |k| k == Kind::DmaFault).is_none() {
            return Ok(());
        }
        self.struck.dma += 1;
        Err(DmaFault { at, kind: DmaFaultKind::Injected })
    }
}

#[cfg(test)]
mod tests;
