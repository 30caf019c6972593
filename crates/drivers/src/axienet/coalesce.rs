//! Interrupt coalescing of the channels: the user's settings and the control word.
//!
//! Source: xilinx_axienet_main.c `axienet_calc_cr`, `axienet_ethtools_set_coalesce`.

use crate::{Opened, check};
use doorbell_layout::axienet::{COALESCE_MAX, DELAY_UNIT_CLOCKS, cr};

/// The settings of the receive channel that a controller may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adaptive {
    /// None: it is not asked.
    Off,
    /// The number of packets; the delay is the user's (Linux's `adaptive-rx`).
    Count,
    /// The number of packets, and the delay.
    CountAndDelay,
}

/// The settings of `ethtool -C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// Received packets an interrupt, 1 to 255. With a controller, its last decision; a value
    /// set here is then ignored.
    pub rx_frames: u32,
    /// Silence that ends the wait, in microseconds; capped at the core's limit.
    pub rx_usecs: u32,
    /// Sent packets an interrupt, 1 to 255.
    pub tx_frames: u32,
    /// As `rx_usecs`.
    pub tx_usecs: u32,
    /// Settings of reception that a controller decides.
    pub adaptive_rx: Adaptive,
}

impl Coalesce {
    /// Linux's defaults.
    pub const LINUX: Coalesce = Coalesce {
        rx_frames: 1,
        rx_usecs: 16,
        tx_frames: 24,
        tx_usecs: 50,
        adaptive_rx: Adaptive::Count,
    };

    /// Checks the ranges. The counts are checked even when a controller decides, as in Linux.
    pub(super) fn check(&self) -> Opened {
        let counts = [self.rx_frames, self.tx_frames];
        check(counts.iter().all(|n| *n <= COALESCE_MAX), "frames: less than 256")?;
        check(counts.iter().all(|n| *n > 0), "frames: not zero")?;
        let rx_waits = self.rx_frames > 1 || self.adaptive_rx != Adaptive::Off;
        let timed = (!rx_waits || self.rx_usecs > 0) && (self.tx_frames == 1 || self.tx_usecs > 0);
        check(timed, "usecs: not zero when frames is more than one or adaptive")
    }
}

/// Returns a delay in the device's units of [`DELAY_UNIT_CLOCKS`]: the nearest, at most 255, and
/// at least one unless the delay is zero.
pub(super) const fn delay_units(delay_ns: u64, clock_hz: u32) -> u32 {
    if delay_ns == 0 {
        return 0;
    }
    let unit = DELAY_UNIT_CLOCKS as u128 * 1_000_000_000;
    let n = (delay_ns as u128 * clock_hz as u128 + unit / 2) / unit;
    match n {
        0 => 1,
        n if n > COALESCE_MAX as u128 => COALESCE_MAX,
        n => n as u32,
    }
}

/// Returns the control register of a channel that is not running: an interrupt after `frames`
/// packets (clamped to 1 to 255), after `delay_ns` without one, and on errors. A count of one
/// needs no delay.
pub(super) const fn control(frames: u32, delay_ns: u64, clock_hz: u32) -> u32 {
    let frames = clamp(frames);
    let word = frames << cr::THRESHOLD_SHIFT | cr::IOC_IRQ_EN | cr::ERR_IRQ_EN;
    if frames == 1 {
        return word;
    }
    word | delay_units(delay_ns, clock_hz) << cr::DELAY_SHIFT | cr::DLY_IRQ_EN
}

/// Returns the packets and the nearest microseconds that a control register waits for, as
/// `ethtool -c` shows them (`axienet_coalesce_params`).
pub(super) const fn thresholds(control: u32, clock_hz: u32) -> (u32, u32) {
    let units = ((control & cr::DELAY) >> cr::DELAY_SHIFT) as u64;
    let usecs =
        (units * DELAY_UNIT_CLOCKS as u64 * 1_000_000 + clock_hz as u64 / 2) / clock_hz as u64;
    ((control & cr::THRESHOLD) >> cr::THRESHOLD_SHIFT, usecs as u32)
}

/// Clamps a number of packets to what the register takes.
pub(super) const fn clamp(frames: u32) -> u32 {
    match frames {
        0 => 1,
        n if n > COALESCE_MAX => COALESCE_MAX,
        n => n,
    }
}

#[cfg(test)]
mod tests;
