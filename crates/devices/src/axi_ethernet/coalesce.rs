//! When a channel interrupts: the threshold counter and the delay timer.
//!
//! **The threshold** counts packets, not descriptors, down from CR to zero; then IOC is
//! set and it begins anew. It also does when the delay is over, and when another
//! threshold is written to CR. A threshold of 0 is one of 1.
//!
//! Does *any* write of CR begin anew? QEMU's model says so, and PG034 may be read so. The
//! source of AXI DMA 7.1 (axi_dma_register.vhd, as Vivado ships it) compares: the same
//! threshold again changes nothing. It matters, for a driver writes CR at the end of each
//! poll: with a new count, what came during the poll would be counted for nothing. The published
//! 316 interrupts a second at 938 Mbit/s, some 81,000 packets, are one for 256, so nothing is lost. The
//! source is followed; [`Config::reload_on_any_write`](super::Config) is for the other.
//!
//! **The delay** runs from the end of a packet. A packet that begins stops it, and its end starts
//! it from zero: steady traffic below the threshold postpones it for ever. It is
//! counted in units of 125 clocks; 0 is off. Another delay in CR starts a running one from
//! zero. It is off while RS is 0 and while DLY is set: the end of a packet then starts nothing.
//! DLY restarts the threshold, but IOC does not stop the delay (PG021: the timer "resets
//! with the receipt of a new packet or a timeout event").
//!
//! The guide has 125 clocks times the field; the core's source compares before it counts, which
//! would be one unit more. The guide is followed, as drivers do. QEMU's model restarts the
//! timer at each end but lets it run while a packet is in work, and its unit is one tick.

use super::config::Config;
use doorbell_layout::axienet::{COALESCE_MAX, cr, sr};
use doorbell_seam::{Span, Time};

#[derive(Clone, Debug)]
pub(super) struct Coalescer {
    /// Packets left to the threshold.
    left: u32,
    /// Since when the delay runs, if it does.
    since: Option<Time>,
    unit: Span,
    reload_on_any_write: bool,
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
    pub(super) fn new(cfg: &Config, control: u32) -> Coalescer {
        let reload_on_any_write = cfg.reload_on_any_write;
        Coalescer { left: threshold(control), since: None, unit: cfg.delay_unit(), reload_on_any_write }
    }

    /// CR was `old` and is `new`.
    pub(super) fn written(&mut self, at: Time, old: u32, new: u32) {
        if self.reload_on_any_write || threshold(new) != threshold(old) {
            self.left = threshold(new);
        }
        if new & cr::RS == 0 || delay(new) == 0 {
            self.since = None;
        } else if delay(new) != delay(old) {
            self.since = self.since.map(|_| at);
        }
    }

    /// A packet begins.
    pub(super) fn packet_begins(&mut self) {
        self.since = None;
    }

    /// A packet is done: which interrupt that sets in `status`.
    pub(super) fn packet_ends(&mut self, at: Time, control: u32, status: u32) -> u32 {
        let on = control & cr::RS != 0 && delay(control) > 0 && status & sr::DLY_IRQ == 0;
        self.since = on.then_some(at);
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return 0;
        }
        self.left = threshold(control);
        sr::IOC_IRQ
    }

    /// When the delay is over.
    pub(super) fn due(&self, control: u32) -> Time {
        self.since.map_or(Time::NEVER, |since| since + self.unit * delay(control))
    }

    /// It is: which interrupt that sets.
    pub(super) fn expire(&mut self, control: u32) -> u32 {
        self.since = None;
        self.left = threshold(control);
        sr::DLY_IRQ
    }

    /// The counters, as SR shows them.
    pub(super) fn status(&self, at: Time, control: u32) -> u32 {
        let ran = self.since.map_or(0, |since| at.since(since).ps() / self.unit.ps());
        self.left << sr::THRESHOLD_SHIFT | (ran.min(delay(control)) as u32) << sr::DELAY_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Time {
        Time::ZERO + Span::from_us(n)
    }

    /// Of a channel that runs.
    fn control(threshold: u32, delay: u32) -> u32 {
        threshold << cr::THRESHOLD_SHIFT | delay << cr::DELAY_SHIFT | cr::RS
    }

    /// A unit is 1 us.
    fn new(control: u32) -> Coalescer {
        Coalescer::new(&Config::ZYNQMP, control)
    }

    #[test]
    fn the_threshold_reloads_when_it_is_reached() {
        let c = control(3, 0);
        let mut x = new(c);
        let set: [u32; 7] = core::array::from_fn(|i| x.packet_ends(us(i as u64), c, 0));
        assert_eq!(set, [0, 0, sr::IOC_IRQ, 0, 0, sr::IOC_IRQ, 0]);
        assert_eq!(x.status(us(9), c) >> sr::THRESHOLD_SHIFT & 255, 2);
    }

    #[test]
    fn another_threshold_starts_the_count_anew_and_the_same_does_not() {
        let (two, three) = (control(2, 0), control(3, 0));
        let mut x = new(two);
        x.packet_ends(us(0), two, 0);
        x.written(us(0), two, two | cr::IOC_IRQ_EN);
        assert_eq!(x.packet_ends(us(1), two, 0), sr::IOC_IRQ);
        x.packet_ends(us(2), two, 0);
        x.written(us(2), two, three);
        assert_eq!([0; 3].map(|_| x.packet_ends(us(3), three, 0)), [0, 0, sr::IOC_IRQ]);
        let qemu = Config { reload_on_any_write: true, ..Config::ZYNQMP };
        let mut x = Coalescer::new(&qemu, two);
        x.packet_ends(us(0), two, 0);
        x.written(us(0), two, two);
        assert_eq!([0; 2].map(|_| x.packet_ends(us(1), two, 0)), [0, sr::IOC_IRQ]);
    }

    #[test]
    fn the_delay_restarts_with_each_packet_and_stands_still_during_one() {
        let c = control(9, 10);
        let mut x = new(c);
        assert_eq!(x.due(c), Time::NEVER, "nothing before the first packet");
        x.packet_ends(us(0), c, 0);
        assert_eq!(x.due(c), us(10));
        x.packet_begins();
        assert_eq!(x.due(c), Time::NEVER);
        x.packet_ends(us(7), c, 0);
        assert_eq!(x.due(c), us(17));
        assert_eq!(x.status(us(11), c), control(7, 4) & !cr::RS);
        assert_eq!(x.expire(c), sr::DLY_IRQ);
        assert_eq!(x.due(c), Time::NEVER);
        assert_eq!(x.status(us(30), c), control(9, 0) & !cr::RS, "and the threshold is reloaded");
    }

    #[test]
    fn another_delay_starts_a_running_timer_from_zero_and_the_same_does_not() {
        let (ten, four) = (control(9, 10), control(9, 4));
        let mut x = new(ten);
        x.packet_ends(us(0), ten, 0);
        x.written(us(3), ten, ten | cr::DLY_IRQ_EN);
        assert_eq!(x.due(ten), us(10));
        x.written(us(5), ten, four);
        assert_eq!(x.due(four), us(9));
        x.packet_begins();
        x.written(us(6), four, ten);
        assert_eq!(x.due(ten), Time::NEVER, "none runs");
    }

    #[test]
    fn no_timer_with_a_delay_of_zero_without_rs_or_while_dly_is_set() {
        let c = control(9, 5);
        for (control, status) in [(control(9, 0), 0), (c & !cr::RS, 0), (c, sr::DLY_IRQ)] {
            let mut x = new(c);
            x.packet_ends(us(0), control, status);
            x.written(us(1), control, c);
            assert_eq!(x.due(c), Time::NEVER, "the packet is forgotten");
        }
        for off in [control(9, 0), c & !cr::RS] {
            let mut x = new(c);
            x.packet_ends(us(0), c, 0);
            x.written(us(1), c, off);
            x.written(us(2), off, c);
            assert_eq!(x.due(c), Time::NEVER);
        }
    }
}
