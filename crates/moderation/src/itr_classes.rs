//! Three traffic classes, each an interrupt rate: e1000's dynamic ITR.
//!
//! Source of the behaviour: Linux e1000 `e1000_update_itr` and `e1000_set_itr`
//! (82540 and later). Each direction is in a class, judged by the packets and bytes
//! since the last sample; the interrupt is shared, so the busier class rules:
//!
//! | class | interrupts/s | leaves for |
//! |---|---|---|
//! | lowest latency | 70000 | bulk: packets above 8000 bytes; low: fewer than 5 packets, above 512 bytes in all |
//! | low latency | 20000 | bulk: above 10000 bytes in fewer than 10 packets, or packets above 1200 bytes; or packets above 2000 bytes; lowest: above 10000 bytes in more than 35 smaller packets, or at most 2 packets and below 512 bytes |
//! | bulk | 4000 | low: above 25000 bytes in more than 35 packets, or below 6000 bytes |
//!
//! - Slowing down is at once; speeding up goes by a quarter of the new rate a sample,
//!   which leans towards bulk.
//! - Below 1 Gbit/s the rate is always 4000 (by the same steps), and no class moves.
//! - The conservative mode, the driver's default, knows no lowest class.
//!
//! Decisions: the driver zeroes its sums in the interrupt handler and decides once the
//! poll is done; here the sums are differences between two samples, the same numbers
//! when there is one sample for each interrupt. The rate goes out as the shortest
//! interval between interrupts, `delay_ns`, rounded down; the driver's register value
//! 10^9 / (rate * 256) is exactly `delay_ns / 256`. The setting is in force as soon as
//! it is returned: a register write cannot be late, so `applied` has nothing to do.

use crate::controller::{Controller, Flow, Period, Sample, Setting};

/// How busy one direction is. The order matters: the greater one rules.
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
    /// Interrupts per second.
    pub const fn rate(self) -> u32 {
        match self {
            Class::LowestLatency => 70_000,
            Class::LowLatency => 20_000,
            Class::BulkLatency => 4_000,
        }
    }

    /// The class after `packets` of together `bytes`.
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

/// Which classes there are (e1000's parameter `InterruptThrottleRate`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ItrMode {
    /// All three (1).
    Dynamic,
    /// Never the lowest latency (3, the driver's default).
    #[default]
    Conservative,
}

/// The rate a driver starts with, in interrupts per second.
const START_RATE: u32 = 20_000;
/// The only speed at which classes rule, in Mbit/s.
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

    /// The link has come up at `mbit_s`.
    pub const fn set_speed(&mut self, mbit_s: u32) {
        self.mbit_s = mbit_s;
    }
    /// The classes of reception and transmission.
    pub const fn classes(&self) -> (Class, Class) {
        (self.rx, self.tx)
    }
    /// The rate in force, in interrupts per second.
    pub const fn rate(&self) -> u32 {
        self.rate
    }

    fn class(&self, class: Class, before: Flow, now: Flow) -> Class {
        let (packets, bytes) = (now.packets.wrapping_sub(before.packets), now.bytes.wrapping_sub(before.bytes));
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
mod tests {
    use super::Class::{BulkLatency as Bulk, LowLatency as Low, LowestLatency as Lowest};
    use super::*;

    #[test]
    fn classes_change_at_the_drivers_thresholds() {
        for (from, packets, bytes, to) in [
            // No packets say nothing.
            (Bulk, 0, 0, Bulk),
            (Lowest, 1, 8_001, Bulk),
            (Lowest, 1, 8_000, Low),
            (Lowest, 4, 513, Low),
            (Lowest, 4, 512, Lowest),
            (Lowest, 5, 5_000, Lowest),
            // More than 10000 bytes.
            (Low, 9, 10_001, Bulk),
            (Low, 10, 12_009, Low),
            (Low, 10, 12_010, Bulk),
            (Low, 36, 10_001, Lowest),
            (Low, 35, 10_001, Low),
            (Low, 36, 43_236, Bulk),
            // No more than 10000 bytes: the packet counts above do not apply.
            (Low, 9, 10_000, Low),
            (Low, 36, 10_000, Low),
            (Low, 4, 8_004, Bulk),
            (Low, 4, 8_000, Low),
            (Low, 2, 511, Lowest),
            (Low, 2, 512, Low),
            (Low, 3, 180, Low),
            (Bulk, 36, 25_001, Low),
            (Bulk, 35, 25_001, Bulk),
            (Bulk, 36, 25_000, Bulk),
            (Bulk, 1, 5_999, Low),
            (Bulk, 1, 6_000, Bulk),
        ] {
            assert_eq!(from.after(packets, bytes), to, "{from:?}, {packets} packets, {bytes} bytes");
        }
    }

    /// Adds `rx` and `tx` (packets, bytes) to the counters and samples.
    fn step(c: &mut ItrClasses, at: &mut Sample, rx: (u64, u64), tx: (u64, u64)) -> Option<Setting> {
        at.rx = Flow { packets: at.rx.packets + rx.0, bytes: at.rx.bytes + rx.1 };
        at.tx = Flow { packets: at.tx.packets + tx.0, bytes: at.tx.bytes + tx.1 };
        c.sample(at)
    }

    const BULK: (u64, u64) = (20, 30_000);
    const ONE_SMALL: (u64, u64) = (1, 60);

    #[test]
    fn the_rate_falls_at_once_and_rises_by_quarters() {
        let mut at = Sample::default();
        let mut c = ItrClasses::new(ItrMode::Dynamic, 1_000, &at);
        let rates = |c: &mut ItrClasses, at: &mut Sample, flow, n: usize| -> [u32; 7] {
            let mut out = [0; 7];
            for r in out.iter_mut().take(n) {
                step(c, at, flow, (0, 0));
                *r = c.rate();
            }
            out
        };
        // From lowest (the start) to low to bulk takes two samples.
        assert_eq!(rates(&mut c, &mut at, (4, 6_000), 1)[..1], [20_000]);
        assert_eq!(rates(&mut c, &mut at, BULK, 1)[..1], [4_000]);
        assert_eq!(rates(&mut c, &mut at, ONE_SMALL, 5)[..5], [9_000, 26_500, 44_000, 61_500, 70_000]);
    }

    #[test]
    fn conservative_never_goes_beyond_20000() {
        let mut at = Sample::default();
        let mut c = ItrClasses::new(ItrMode::Conservative, 1_000, &at);
        for _ in 0..10 {
            assert_eq!(step(&mut c, &mut at, ONE_SMALL, ONE_SMALL), None);
        }
        assert_eq!((c.rate(), c.classes()), (20_000, (Low, Low)));
    }

    #[test]
    fn the_busier_direction_rules() {
        let mut at = Sample::default();
        let mut c = ItrClasses::new(ItrMode::Conservative, 1_000, &at);
        step(&mut c, &mut at, ONE_SMALL, ONE_SMALL);
        assert!(step(&mut c, &mut at, ONE_SMALL, BULK).is_some());
        assert_eq!((c.classes(), c.rate()), ((Low, Bulk), 4_000));
    }

    #[test]
    fn below_a_gigabit_the_rate_is_4000_and_classes_rest() {
        let mut at = Sample::default();
        let mut c = ItrClasses::new(ItrMode::Dynamic, 100, &at);
        assert_eq!(step(&mut c, &mut at, ONE_SMALL, (0, 0)).map(|s| s.delay_ns), Some(250_000));
        assert_eq!(step(&mut c, &mut at, (2, 18_000), (2, 18_000)), None);
        assert_eq!(c.classes(), (Lowest, Lowest));
        // What was counted at the slow speed is not held against the fast one.
        c.set_speed(1_000);
        step(&mut c, &mut at, ONE_SMALL, (0, 0));
        assert_eq!(c.classes(), (Lowest, Lowest));
    }

    #[test]
    fn the_register_is_the_delay_in_256_ns() {
        for rate in [4_000u32, 9_000, 20_000, 26_500, 44_000, 61_500, 70_000] {
            let c = ItrClasses { rate, ..ItrClasses::new(ItrMode::Dynamic, 1_000, &Sample::default()) };
            assert_eq!(c.setting().delay_ns / 256, 1_000_000_000 / (rate * 256));
        }
    }

    #[test]
    fn counters_that_stand_high_at_the_start_are_no_burst() {
        let flow = Flow { packets: u64::MAX - 1, bytes: u64::MAX - 100 };
        let start = Sample { rx: flow, tx: flow, ..Sample::default() };
        let mut c = ItrClasses::new(ItrMode::Dynamic, 1_000, &start);
        let rx = Flow { packets: 3, bytes: 139 };
        c.sample(&Sample { rx, ..start });
        assert_eq!(c.classes(), (Lowest, Lowest), "5 packets of 240 bytes, over the wrap");
    }
}
