//! e1000's dynamic ITR: three traffic classes, each with an interrupt rate.
//!
//! Source: Linux e1000 `e1000_update_itr` and `e1000_set_itr` (82540 and later). Each direction has
//! a class by its packets and bytes since the last sample; the class with the lower rate rules. A
//! lower rate takes effect at once, a higher one by a quarter of the new rate per sample. Below 1
//! Gbit/s the rate is always 4000. The conservative mode, the driver's default, has no lowest
//! class.
//!
//! `delay_ns / 256` is the register's value. A setting is in force when it is returned.

use crate::controller::{Controller, Flow, Period, Sample, Setting};

/// Traffic class of one direction. The greater of two rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Few and small packets: 70000 interrupts/s.
    LowestLatency,
    /// 20000 interrupts/s.
    LowLatency,
    /// Many bytes in large packets: 4000 interrupts/s.
    BulkLatency,
}

impl Class {
    /// Returns the interrupts per second.
    pub const fn rate(self) -> u32 {
        match self {
            Class::LowestLatency => 70_000,
            Class::LowLatency => 20_000,
            Class::BulkLatency => 4_000,
        }
    }

    /// Returns the class after `packets` of together `bytes`.
    #[must_use]
    pub const fn after(self, packets: u64, bytes: u64) -> Class {
        use Class::{BulkLatency, LowLatency, LowestLatency};
        if packets == 0 {
            return self;
        }
        let each = bytes / packets;
        match self {
            LowestLatency if each > 8_000 => BulkLatency,
            LowestLatency if packets < 5 && bytes > 512 => LowLatency,
            LowLatency if bytes > 10_000 && (packets < 10 || each > 1_200) => BulkLatency,
            LowLatency if bytes > 10_000 && packets > 35 => LowestLatency,
            LowLatency if bytes <= 10_000 && each > 2_000 => BulkLatency,
            LowLatency if bytes <= 10_000 && packets <= 2 && bytes < 512 => LowestLatency,
            BulkLatency if bytes > 25_000 && packets > 35 => LowLatency,
            BulkLatency if bytes < 6_000 => LowLatency,
            same => same,
        }
    }
}

/// The classes in use (e1000's parameter `InterruptThrottleRate`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ItrMode {
    /// All three (1).
    Dynamic,
    /// Never the lowest latency (3, the driver's default).
    #[default]
    Conservative,
}

/// Initial rate, in interrupts per second.
const START_RATE: u32 = 20_000;
/// The only speed at which classes apply, in Mbit/s.
const GIGABIT: u32 = 1_000;

/// e1000's dynamic interrupt throttling, for one interrupt with both directions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItrClasses {
    mode: ItrMode,
    mbit_s: u32,
    rx: Class,
    tx: Class,
    rate: u32,
    seen: (Flow, Flow),
}

impl ItrClasses {
    /// Starts at 20000 interrupts per second; `now` has the counters as they stand.
    pub const fn new(mode: ItrMode, mbit_s: u32, now: &Sample) -> ItrClasses {
        let (rx, tx) = (Class::LowestLatency, Class::LowestLatency);
        ItrClasses { mode, mbit_s, rx, tx, rate: START_RATE, seen: (now.rx, now.tx) }
    }

    /// Starts in `class` in both directions.
    #[must_use]
    pub const fn starting_at(self, class: Class) -> ItrClasses {
        ItrClasses { rx: class, tx: class, ..self }
    }
    /// Sets the speed of the link in Mbit/s.
    pub const fn set_speed(&mut self, mbit_s: u32) {
        self.mbit_s = mbit_s;
    }
    /// Returns the classes of reception and transmission.
    pub const fn classes(&self) -> (Class, Class) {
        (self.rx, self.tx)
    }
    /// Returns the rate in force, in interrupts per second.
    pub const fn rate(&self) -> u32 {
        self.rate
    }

    fn class(&self, class: Class, before: Flow, now: Flow) -> Class {
        let (packets, bytes) =
            (now.packets.wrapping_sub(before.packets), now.bytes.wrapping_sub(before.bytes));
        match class.after(packets, bytes) {
            Class::LowestLatency if self.mode == ItrMode::Conservative => Class::LowLatency,
            class => class,
        }
    }
}

impl Controller for ItrClasses {
    #[inline]
    fn sample(&mut self, sample: &Sample) -> Option<Setting> {
        let wanted = if self.mbit_s == GIGABIT {
            self.tx = self.class(self.tx, self.seen.1, sample.tx);
            self.rx = self.class(self.rx, self.seen.0, sample.rx);
            self.rx.max(self.tx).rate()
        } else {
            Class::BulkLatency.rate()
        };
        self.seen = (sample.rx, sample.tx);
        if wanted == self.rate {
            return None;
        }
        self.rate = wanted.min(self.rate + wanted / 4);
        Some(self.setting())
    }

    fn setting(&self) -> Setting {
        Setting { delay_ns: 1_000_000_000 / self.rate, packets: 0, period: Period::Interval }
    }
}

#[cfg(test)]
mod tests;
