//! Interrupt moderation of a channel: the threshold counter and the delay timer.
//!
//! The threshold counts packets down from CR to zero, then IOC is set and it restarts, as it does
//! at the end of the delay and with another threshold. The delay runs from the end of a packet in
//! units of 125 clocks; a packet that begins stops it.
//!
//! Sources: PG021; axi_dma_register.vhd of AXI DMA 7.1. The guide and QEMU's model restart the
//! threshold with any write of CR: see [`Config::reload_on_any_write`](super::Config).

use super::config::Config;
use doorbell_hal::{Span, Time};
use doorbell_layout::axienet::{COALESCE_MAX, cr, sr};

#[derive(Clone, Debug)]
pub(super) struct Coalescer {
    /// Packets left to the threshold.
    left: u32,
    /// Start of the delay, if it runs.
    since: Option<Time>,
    unit: Span,
    reload_on_any_write: bool,
}

const fn threshold(control: u32) -> u32 {
    control >> cr::THRESHOLD_SHIFT & COALESCE_MAX
}

/// The delay of a control word, in units.
const fn delay(control: u32) -> u64 {
    (control >> cr::DELAY_SHIFT) as u64
}

impl Coalescer {
    pub(super) fn new(cfg: &Config, control: u32) -> Coalescer {
        let Config { reload_on_any_write, .. } = *cfg;
        let (left, unit) = (threshold(control), cfg.delay_unit());
        Coalescer { left, since: None, unit, reload_on_any_write }
    }

    /// Returns the threshold and the delay of a control word.
    pub(super) fn setting(&self, control: u32) -> (u32, Span) {
        (threshold(control), self.unit * delay(control))
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

    /// Returns the end of the delay.
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
