//! A log of register accesses: counts by register, and the last events before a failure.
//!
//! The [`Platform`](crate::Platform) holds it, beside the [trace](crate::trace), and passes both
//! the same events. A run with a log makes the same accesses at the same times as one without. What
//! it keeps is bounded by the number of registers that are used.

use crate::trace::{CpuStep, EventKind};
use doorbell_hal::{Direction, Iova, Reg, Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// The accesses to one register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Reads by the CPU.
    pub reads: u64,
    /// Writes by the CPU.
    pub writes: u64,
    /// Time that cores waited for them.
    pub waited: Span,
}

impl Accesses {
    /// Adds those of another register.
    pub fn add(&mut self, other: Accesses) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.waited += other.waited;
    }

    /// Returns those since `before`.
    pub fn since(&self, before: Accesses) -> Accesses {
        Accesses {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            waited: self.waited - before.waited,
        }
    }
}

/// An access of the CPU to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterAccess {
    /// Its beginning.
    pub at: Time,
    /// The register.
    pub reg: Reg,
    /// It is written.
    pub write: bool,
    /// The value.
    pub value: u64,
}

/// An access of the device to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    /// Its beginning.
    pub at: Time,
    /// Its first byte.
    pub place: Iova,
    /// Its length in bytes.
    pub len: usize,
    /// The direction.
    pub dir: Direction,
}

/// The log of a platform.
#[derive(Debug)]
pub struct Log {
    /// By region and offset.
    registers: BTreeMap<(u8, u32), Accesses>,
    last: VecDeque<RegisterAccess>,
    dma: VecDeque<Dma>,
    /// The last events are those before a fault, and stay.
    frozen: bool,
}

/// Register accesses that are kept.
const LAST: usize = 12;
/// Accesses of the device that are kept.
const LAST_DMA: usize = 4;

impl Default for Log {
    fn default() -> Log {
        let (last, dma) = (VecDeque::with_capacity(LAST), VecDeque::with_capacity(LAST_DMA));
        Log { registers: BTreeMap::new(), last, dma, frozen: false }
    }
}

impl Log {
    /// Returns the registers that were accessed, in the order of their places.
    pub fn registers(&self) -> impl Iterator<Item = (Reg, Accesses)> {
        self.registers.iter().map(|(&(region, offset), n)| (Reg { region, offset }, *n))
    }

    /// Returns the last register accesses, the oldest first.
    pub fn last(&self) -> impl Iterator<Item = &RegisterAccess> {
        self.last.iter()
    }

    /// Returns the device's last accesses, the oldest first.
    pub fn dma(&self) -> impl Iterator<Item = &Dma> {
        self.dma.iter()
    }

    /// Keeps the last events as they are now. Counts go on.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Counts an event if it is a register access.
    pub(crate) fn add(&mut self, from: Time, until: Time, what: &EventKind) {
        let (reg, value, write) = match what {
            EventKind::Core(_, CpuStep::Read(reg, _, value)) => (*reg, *value, false),
            EventKind::Core(_, CpuStep::Write(reg, _, value)) => (*reg, *value, true),
            _ => return,
        };
        let (reads, writes) = (u64::from(!write), u64::from(write));
        let own = self.registers.entry((reg.region, reg.offset)).or_default();
        own.add(Accesses { reads, writes, waited: until.since(from) });
        if !self.frozen {
            push(&mut self.last, LAST, RegisterAccess { at: from, reg, write, value });
        }
    }

    /// Keeps an access of the device.
    pub(crate) fn transfer(&mut self, access: Dma) {
        if !self.frozen {
            push(&mut self.dma, LAST_DMA, access);
        }
    }
}

/// Formats a time so that accesses can be told apart.
pub fn moment(at: Time) -> String {
    format!("{:.3} us", at.since(Time::ZERO).as_ns_f64() / 1e3)
}

/// Adds an element in place of the oldest.
fn push<T>(to: &mut VecDeque<T>, most: usize, element: T) {
    if to.len() == most {
        to.pop_front();
    }
    to.push_back(element);
}

#[cfg(test)]
mod tests;
