//! Causes, mask, throttling, and the timers that delay a cause.
//!
//! The line is high while a cause is set that the mask lets through. Throttling
//! (ITR) holds back its *rise*: no earlier than so many times 256 ns after the rise
//! before. Causes are set meanwhile, and a driver that polls ICR sees them.
//!
//! A delay is a pair of timers, in units of 1.024 us: one that each packet starts
//! again (RDTR, TIDV), and one that only the first starts and that caps the wait
//! (RADV, TADV). Whichever ends first stops both: there is no second interrupt for
//! the same packets. A running timer keeps the value that it was started with.
//!
//! Source: SDM 3.2.7 and 13.4.17 to 13.4.33. QEMU's model has at least 128 us
//! between any two interrupts, throttles by a formula of its own, and has
//! neither RDTR nor TIDV; here the manual holds.

use doorbell_seam::{Span, Time};

/// Unit of ITR.
const ITR_UNIT: Span = Span::from_ns(256);
/// Unit of the delay timers.
const DELAY_UNIT: Span = Span::from_ns(1024);

/// Cause and mask registers, and the line that follows from them.
#[derive(Clone, Debug)]
pub(super) struct Interrupts {
    pub(super) causes: u32,
    pub(super) mask: u32,
    pub(super) itr: u32,
    /// The line is high.
    pub(super) high: bool,
    /// When it rose last.
    rose: Option<Time>,
    /// Since when it should be high, but for throttling.
    wanted: Time,
}

impl Interrupts {
    pub(super) const fn new() -> Interrupts {
        Interrupts { causes: 0, mask: 0, itr: 0, high: false, rose: None, wanted: Time::NEVER }
    }

    /// When the line is to rise.
    pub(super) fn due(&self) -> Time {
        match self.rose {
            Some(rose) if self.wanted < Time::NEVER => self.wanted.max(rose + ITR_UNIT * u64::from(self.itr)),
            _ => self.wanted,
        }
    }

    /// Sets causes.
    pub(super) fn raise(&mut self, at: Time, causes: u32) {
        self.causes |= causes;
        self.consider(at);
    }

    /// Causes or mask have changed. Whether the line falls at once.
    pub(super) fn consider(&mut self, at: Time) -> bool {
        if self.causes & self.mask == 0 {
            self.wanted = Time::NEVER;
            return core::mem::take(&mut self.high);
        }
        if !self.high && self.wanted == Time::NEVER {
            self.wanted = at;
        }
        false
    }

    /// The line rises.
    pub(super) fn rise(&mut self, at: Time) {
        self.high = true;
        self.rose = Some(at);
        self.wanted = Time::NEVER;
    }
}

/// A pair of delay timers.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    packet: Time,
    absolute: Time,
}

impl Delay {
    pub(super) const fn new() -> Delay {
        Delay { packet: Time::NEVER, absolute: Time::NEVER }
    }

    /// When the first of them ends.
    pub(super) fn due(&self) -> Time {
        self.packet.min(self.absolute)
    }

    /// A packet: `packet` units from now, at most `absolute` (0: no limit) from the first.
    pub(super) fn start(&mut self, at: Time, packet: u32, absolute: u32) {
        self.packet = at + DELAY_UNIT * u64::from(packet);
        if absolute != 0 && self.absolute == Time::NEVER {
            self.absolute = at + DELAY_UNIT * u64::from(absolute);
        }
    }

    /// Both end now, if either is running or there is something to flush.
    pub(super) fn expire(&mut self, at: Time, anything: bool) {
        if anything || self.due() < Time::NEVER {
            self.packet = at;
        }
    }

    pub(super) fn stop(&mut self) {
        *self = Delay::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(n: u64) -> Time {
        Time::ZERO + Span::from_ns(n)
    }

    #[test]
    fn the_first_interrupt_is_not_throttled_and_the_next_exactly_is() {
        let mut i = Interrupts { mask: 1, itr: 100, ..Interrupts::new() };
        i.raise(ns(10), 1);
        assert_eq!(i.due(), ns(10));
        i.rise(ns(10));
        i.causes = 0;
        assert!(i.consider(ns(20)), "falls");
        i.raise(ns(30), 1);
        assert_eq!(i.due(), ns(10 + 25_600));
        i.itr = 1;
        assert_eq!(i.due(), ns(10 + 256), "a new interval counts from the same rise");
        i.itr = 0;
        assert_eq!(i.due(), ns(30), "0 is off");
    }

    #[test]
    fn a_masked_cause_waits_for_its_mask() {
        let mut i = Interrupts::new();
        i.raise(ns(10), 0x80);
        assert_eq!(i.due(), Time::NEVER);
        i.mask = 0x80;
        i.consider(ns(50));
        assert_eq!(i.due(), ns(50));
        i.mask = 0;
        assert!(!i.consider(ns(60)), "it was never high");
        assert_eq!(i.due(), Time::NEVER);
    }

    #[test]
    fn the_packet_timer_starts_again_and_the_absolute_one_does_not() {
        let mut d = Delay::new();
        d.start(ns(0), 10, 25);
        assert_eq!(d.due(), ns(10_240));
        d.start(ns(10_000), 10, 25);
        assert_eq!(d.due(), ns(20_240));
        d.start(ns(20_000), 10, 25);
        assert_eq!(d.due(), ns(25_600));
        d.stop();
        assert_eq!(d.due(), Time::NEVER);
        d.start(ns(30_000), 10, 0);
        assert_eq!(d.due(), ns(40_240));
        d.expire(ns(31_000), false);
        assert_eq!(d.due(), ns(31_000));
    }
}
