//! What every controller takes and gives.
//!
//! A driver that serves one interrupt vector owns one controller. At the end of a
//! poll that found nothing more to do (`napi_complete_done`), and before it arms
//! the interrupt again, it calls [`Controller::sample`] with its counters as they
//! stand. When that returns a [`Setting`], the driver brings it to the device,
//! perhaps later and from another context (a firmware command may sleep), and then
//! calls [`Controller::applied`].
//!
//! Decisions:
//! - Counters run freely and are 64 bits wide, so that a controller may look back as far as it
//!   likes. Where Linux keeps 32 or 16 bits, its controller here drops the upper ones itself; a
//!   driver whose counters are as narrow as Linux's may pass them as they are to
//!   [`NetDim`](crate::NetDim) and to no other.
//! - One sample has both directions: a vector often serves both, and e1000's classes weigh one
//!   against the other.
//! - Times are nanoseconds. Linux's profiles are whole microseconds, but e1000's shortest interval,
//!   1/70000 s, is not.
//! - A sample carries the time. No controller reads a clock, so a simulated run and a real one
//!   decide alike.

/// What one direction has carried since some fixed point in the past.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    /// Packets, counted up from any start.
    pub packets: u64,
    /// Bytes of these packets, as the driver counts them in its statistics.
    pub bytes: u64,
}

/// The counters of one interrupt vector, read at the end of a poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// When they were read: nanoseconds of a clock that never steps back.
    pub time_ns: u64,
    /// Interrupts taken (not polls), counted up from any start.
    pub events: u64,
    /// What was received.
    pub rx: Flow,
    /// What was sent, and its completion seen.
    pub tx: Flow,
    /// Entries taken from the completion queue, counted up from any start. Only
    /// [`RdmaDim`](crate::RdmaDim) looks at them.
    pub completions: u64,
}

/// Which half of a sample a controller for one direction looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Reception.
    Rx,
    /// Transmission.
    Tx,
}

impl Sample {
    /// The half of `direction`.
    #[inline]
    pub const fn flow(&self, direction: Direction) -> Flow {
        match direction {
            Direction::Rx => self.rx,
            Direction::Tx => self.tx,
        }
    }
}

/// What the device's moderation timer measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Period {
    /// From the first completion after an interrupt: the longest that a packet
    /// waits (Linux: `DIM_CQ_PERIOD_MODE_START_FROM_EQE`).
    #[default]
    Event,
    /// From the latest completion; each new one restarts it: the silence that ends
    /// a burst (`DIM_CQ_PERIOD_MODE_START_FROM_CQE`).
    Completion,
    /// From the last interrupt: the shortest interval between two, as e1000's ITR.
    Interval,
}

/// What a device is told: interrupt when the time is over, or so many packets are
/// there, whichever is first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Setting {
    /// The timer, in nanoseconds; 0 is no wait at all.
    pub delay_ns: u32,
    /// The number of packets (or completions); 0 is no such limit, 1 an interrupt
    /// for each.
    pub packets: u16,
    /// What the timer measures.
    pub period: Period,
}

impl Setting {
    /// Every packet interrupts, at once.
    pub const IMMEDIATE: Setting = Setting { delay_ns: 0, packets: 1, period: Period::Event };

    /// A setting in the units of `ethtool -C`: microseconds and packets.
    pub const fn usecs(usec: u16, packets: u16, period: Period) -> Setting {
        Setting { delay_ns: usec as u32 * 1_000, packets, period }
    }

    /// The timer in whole microseconds, rounded up: a timer that was asked for
    /// never becomes none.
    pub const fn usec(&self) -> u32 {
        self.delay_ns.div_ceil(1_000)
    }
}

/// Decides on a vector's moderation from its counters.
pub trait Controller {
    /// Takes the counters as they stand, and returns the new setting if it should
    /// change. Counters and time must not go back between calls; if they do, the
    /// decision is a poor one and nothing worse.
    fn sample(&mut self, sample: &Sample) -> Option<Setting>;

    /// Says that the device has taken the last setting that was returned, or that
    /// the driver has given up on it. A controller may decide nothing until it
    /// hears this, so it must follow on every path, errors included.
    fn applied(&mut self) {}

    /// What the device should be set to now: at open, and after a reset.
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
