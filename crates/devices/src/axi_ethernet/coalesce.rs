//! When a channel interrupts: the threshold counter and the delay timer.
//!
//! **The threshold** counts packets, not descriptors, down from CR to zero; then IOC is
//! set and it begins anew. It also does when CR is written and when the delay is over.
//! A threshold of 0 is not taken (PG021).
//!
//! **The delay** runs from the end of a packet. A packet that begins stops it, and its end starts
//! it from zero: steady traffic below the threshold postpones it for ever. It is
//! counted in units of 125 clocks; 0 is off. The two know of each other in one
//! direction only: DLY restarts the threshold, IOC does not stop the delay (PG021: the timer
//! "resets with the receipt of a new packet or a timeout event").
//!
//! QEMU's model restarts the timer at each end but lets it run while a packet is in
//! work, and its unit is one tick.

use doorbell_layout::axienet::{COALESCE_MAX, cr, sr};
use doorbell_seam::{Span, Time};

#[derive(Clone, Debug)]
pub(super) struct Coalescer {
    /// Packets left to the threshold.
    left: u32,
    /// Since when the delay runs, if it does.
    since: Option<Time>,
    unit: Span,
}

/// The threshold of a control word.
const fn threshold(control: u32) -> u32 {
    control >> cr::THRESHOLD_SHIFT & COALESCE_MAX
}

/// The delay of a control word, in units.
const fn delay(control: u32) -> u64 {
    (control >> cr::DELAY_SHIFT) as u64
}

impl Coalescer {
    pub(super) fn new(unit: Span, control: u32) -> Coalescer {
        Coalescer { left: threshold(control), since: None, unit }
    }

    /// CR was written.
    pub(super) fn reload(&mut self, control: u32) {
        self.left = threshold(control);
    }

    /// A packet begins.
    pub(super) fn packet_begins(&mut self) {
        self.since = None;
    }

    /// A packet is done: which interrupt that sets.
    pub(super) fn packet_ends(&mut self, at: Time, control: u32) -> u32 {
        self.since = Some(at);
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return 0;
        }
        self.reload(control);
        sr::IOC_IRQ
    }

    /// When the delay is over.
    pub(super) fn due(&self, control: u32) -> Time {
        match (self.since, delay(control)) {
            (Some(since), units) if units > 0 => since + self.unit * units,
            _ => Time::NEVER,
        }
    }

    /// It is: which interrupt that sets.
    pub(super) fn expire(&mut self, control: u32) -> u32 {
        self.since = None;
        self.reload(control);
        sr::DLY_IRQ
    }

    /// The counters, as SR shows them.
    pub(super) fn status(&self, at: Time, control: u32) -> u32 {
        let ran = match self.since {
            Some(since) if delay(control) > 0 => at.since(since).ps() / self.unit.ps(),
            _ => 0,
        };
        self.left << sr::THRESHOLD_SHIFT | (ran.min(delay(control)) as u32) << sr::DELAY_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Span = Span::from_us(1);

    fn us(n: u64) -> Time {
        Time::ZERO + Span::from_us(n)
    }

    fn control(threshold: u32, delay: u32) -> u32 {
        threshold << cr::THRESHOLD_SHIFT | delay << cr::DELAY_SHIFT
    }

    #[test]
    fn the_threshold_reloads_when_it_is_reached() {
        let c = control(3, 0);
        let mut x = Coalescer::new(UNIT, c);
        let set: [u32; 7] = core::array::from_fn(|i| x.packet_ends(us(i as u64), c));
        assert_eq!(set, [0, 0, sr::IOC_IRQ, 0, 0, sr::IOC_IRQ, 0]);
        assert_eq!(x.status(us(9), c) >> sr::THRESHOLD_SHIFT & 255, 2);
    }

    #[test]
    fn a_write_to_cr_starts_the_count_anew() {
        let c = control(2, 0);
        let mut x = Coalescer::new(UNIT, c);
        assert_eq!(x.packet_ends(us(0), c), 0);
        x.reload(c);
        assert_eq!([x.packet_ends(us(1), c), x.packet_ends(us(2), c)], [0, sr::IOC_IRQ]);
    }

    #[test]
    fn the_delay_restarts_with_each_packet_and_stands_still_during_one() {
        let c = control(9, 10);
        let mut x = Coalescer::new(UNIT, c);
        assert_eq!(x.due(c), Time::NEVER, "nothing before the first packet");
        x.packet_ends(us(0), c);
        assert_eq!(x.due(c), us(10));
        x.packet_begins();
        assert_eq!(x.due(c), Time::NEVER);
        x.packet_ends(us(7), c);
        assert_eq!(x.due(c), us(17));
        assert_eq!(x.status(us(11), c), control(7, 4));
        assert_eq!(x.expire(c), sr::DLY_IRQ);
        assert_eq!(x.due(c), Time::NEVER);
        assert_eq!(x.status(us(30), c), control(9, 0), "and the threshold is reloaded");
    }

    #[test]
    fn a_delay_of_zero_is_none() {
        let c = control(9, 0);
        let mut x = Coalescer::new(UNIT, c);
        x.packet_ends(us(0), c);
        assert_eq!(x.due(c), Time::NEVER);
        assert_eq!(x.due(control(9, 1)), us(1), "a running timer follows CR");
    }
}
