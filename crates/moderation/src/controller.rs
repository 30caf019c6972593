//! The interface of all controllers.
//!
//! A driver has one controller per interrupt vector. At the end of a poll that found nothing more
//! to do (`napi_complete_done`), before it arms the interrupt, it calls [`Controller::sample`] with
//! its free-running 64-bit counters of both directions. It writes a returned [`Setting`] to the
//! device, perhaps later and from another context, and then calls [`Controller::applied`].
//!
//! A controller drops the upper bits of a counter that Linux keeps in 32 or 16 bits. Times
//! are in nanoseconds, because e1000's shortest interval, 1/70000 s, is not a whole microsecond.

/// Traffic of one direction since a fixed point in the past.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    /// Packets, counted up from any start.
    pub packets: u64,
    /// Bytes of these packets, as in the driver's statistics.
    pub bytes: u64,
}

/// The counters of one interrupt vector, read at the end of a poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// Time of reading, in nanoseconds of a monotonic clock.
    pub time_ns: u64,
    /// Interrupts taken (not polls), counted up from any start.
    pub events: u64,
    /// Traffic received.
    pub rx: Flow,
    /// Traffic sent, with its completion seen.
    pub tx: Flow,
    /// Entries taken from the completion queue, counted up from any start. Used by
    /// [`RdmaDim`](crate::RdmaDim) alone.
    pub completions: u64,
}

/// The half of a sample that a controller for one direction uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Reception.
    Rx,
    /// Transmission.
    Tx,
}

impl Sample {
    /// Returns the traffic of `direction`.
    #[inline]
    pub const fn flow(&self, direction: Direction) -> Flow {
        match direction {
            Direction::Rx => self.rx,
            Direction::Tx => self.tx,
        }
    }
}

/// The interval that the device's moderation timer measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Period {
    /// From the first completion after an interrupt: the longest wait of a packet (Linux:
    /// `DIM_CQ_PERIOD_MODE_START_FROM_EQE`).
    #[default]
    Event,
    /// From the latest completion: the silence that ends a burst
    /// (`DIM_CQ_PERIOD_MODE_START_FROM_CQE`).
    Completion,
    /// From the last interrupt: the shortest interval between two, as e1000's ITR.
    Interval,
}

/// The moderation of a device: it interrupts when the time is over or the number of packets is
/// reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Setting {
    /// The timer, in nanoseconds; 0: no wait.
    pub delay_ns: u32,
    /// The number of packets (or completions); 0: no limit, 1: an interrupt for each.
    pub packets: u16,
    /// The interval of the timer.
    pub period: Period,
}

impl Setting {
    /// An immediate interrupt for every packet.
    pub const IMMEDIATE: Setting = Setting { delay_ns: 0, packets: 1, period: Period::Event };

    /// Returns a setting in the units of `ethtool -C`: microseconds and packets.
    pub const fn usecs(usec: u16, packets: u16, period: Period) -> Setting {
        Setting { delay_ns: usec as u32 * 1_000, packets, period }
    }

    /// Returns the timer in whole microseconds, rounded up so that a short one does not become
    /// zero.
    pub const fn usec(&self) -> u32 {
        self.delay_ns.div_ceil(1_000)
    }
}

/// Decides on a vector's moderation from its counters.
pub trait Controller {
    /// Takes the current counters. Returns the new setting if it should change. Counters and time
    /// that go back only lead to a poor decision.
    fn sample(&mut self, sample: &Sample) -> Option<Setting>;

    /// Reports that the device has taken the last setting, or that the driver has given up on it. A
    /// controller may decide nothing before, so this must follow on every path, errors included.
    fn applied(&mut self) {}

    /// Returns the setting that the device should have now: at open, and after a reset.
    fn setting(&self) -> Setting;
}

/// A setting that does not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fixed(pub Setting);

impl Controller for Fixed {
    #[inline]
    fn sample(&mut self, _: &Sample) -> Option<Setting> {
        None
    }
    fn setting(&self) -> Setting {
        self.0
    }
}

#[cfg(test)]
mod tests;
