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
//! 316 interrupts a second at 938 Mbit/s, some 81,000 packets, are one for 256, so nothing is lost.
//! The source is followed; [`Config::reload_on_any_write`](super::Config) is for the other.
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
use doorbell_hal::{Span, Time};
use doorbell_layout::axienet::{COALESCE_MAX, cr, sr};

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
        Coalescer {
            left: threshold(control),
            since: None,
            unit: cfg.delay_unit(),
            reload_on_any_write,
        }
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
mod tests;
