//! Causes, mask, throttling, and the timers that delay a cause.
//!
//! The line is high while an unmasked cause is set. ITR holds back its rise to so many times 256 ns
//! after the rise before. A delay is a pair of timers in units of 1.024 us: one that each packet
//! restarts (RDTR, TIDV), and one from the first packet that caps the wait (RADV, TADV). The first
//! to end stops both. A running timer keeps the value that it was started with.
//!
//! Source: SDM 3.2.7 and 13.4.17 to 13.4.33.

use doorbell_hal::{Span, Time};
use doorbell_layout::e1000::TIMER_FPD;

const ITR_UNIT: Span = Span::from_ns(256);
/// Unit of the delay timers.
const DELAY_UNIT: Span = Span::from_ns(1024);
/// Bits of a timer register that are the time.
pub(super) const TIMER: u32 = !TIMER_FPD & 0xffff;

/// Cause and mask registers, and the line that follows from them.
#[derive(Clone, Debug)]
pub(super) struct Interrupts {
    pub(super) causes: u32,
    pub(super) mask: u32,
    pub(super) itr: u32,
    /// The line is high.
    pub(super) high: bool,
    /// Time of its last rise.
    rose: Option<Time>,
    /// Time from which it should be high, but for throttling.
    pub(super) wanted: Time,
    /// Time at which it is to rise.
    due: Time,
}

impl Interrupts {
    pub(super) const fn new() -> Interrupts {
        let wanted = Time::NEVER;
        Interrupts { causes: 0, mask: 0, itr: 0, high: false, rose: None, wanted, due: wanted }
    }

    /// Returns the time at which the line is to rise.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Lets the line rise at `at`, or when ITR allows it.
    pub(super) fn want(&mut self, at: Time) {
        self.wanted = at;
        self.due = self.rose.map_or(at, |rose| at.max(rose + ITR_UNIT * u64::from(self.itr)));
    }

    pub(super) fn raise(&mut self, at: Time, causes: u32) {
        self.causes |= causes;
        self.consider(at);
    }

    /// Follows changed causes or mask. Returns true if the line falls at once.
    pub(super) fn consider(&mut self, at: Time) -> bool {
        if self.causes & self.mask == 0 {
            self.want(Time::NEVER);
            return core::mem::take(&mut self.high);
        }
        if !self.high && self.wanted == Time::NEVER {
            self.want(at);
        }
        false
    }

    /// The line rises.
    pub(super) fn rise(&mut self, at: Time) {
        self.high = true;
        self.rose = Some(at);
        self.want(Time::NEVER);
    }
}

/// A pair of delay timers.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    packet: Time,
    absolute: Time,
}

impl Default for Delay {
    fn default() -> Delay {
        Delay { packet: Time::NEVER, absolute: Time::NEVER }
    }
}

impl Delay {
    /// Returns the end of the first of them.
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
        *self = Delay::default();
    }
}

#[cfg(test)]
mod tests;
