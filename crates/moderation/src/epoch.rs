//! An epoch: what DIM measures, and how it compares two measurements.
//!
//! Both DIM controllers cut time into epochs of at least 64 events and turn the
//! counters at an epoch's two ends into [`Rates`] (Linux: `dim_calc_stats`). The
//! widths are Linux's, since what a decision does at a wrap is part of the decision:
//! packets, bytes and completions are differences modulo 2^32, a rate is a 32-bit
//! signed number, and the length of an epoch is microseconds modulo 2^32 (71
//! minutes). The arithmetic between is that of a 64-bit kernel.
//!
//! Two traps live here. The event rate is computed from the constant 64 and not
//! from the events that came, so it says how long the epoch lasted and nothing else.
//! And a change is significant only if it is *more* than ten percent after an
//! integer division by the *previous* rate: 10.9 percent is nothing, and going up
//! from 100 to 111 is a change where coming down from 111 to 100 (9.9) is none.

use crate::controller::{Flow, Sample};

/// Events after which an epoch ends (`DIM_NEVENTS`).
pub const EVENTS_PER_EPOCH: u16 = 64;

/// Where a DIM controller stands between two decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum State {
    /// The next sample opens an epoch (`DIM_START_MEASURE`).
    #[default]
    StartMeasure = 0,
    /// An epoch is open (`DIM_MEASURE_IN_PROGRESS`).
    MeasureInProgress = 1,
    /// A new profile is on its way to the device; samples are ignored
    /// (`DIM_APPLY_NEW_PROFILE`).
    ApplyNewProfile = 2,
}

/// Where a DIM controller is heading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Tune {
    /// Content: stays until the rates change (`DIM_PARKING_ON_TOP`).
    #[default]
    ParkingOnTop = 0,
    /// Moved too often: stays for ten epochs whatever happens (`DIM_PARKING_TIRED`).
    ParkingTired = 1,
    /// Towards more moderation, a larger index (`DIM_GOING_RIGHT`).
    GoingRight = 2,
    /// Towards less moderation, a smaller index (`DIM_GOING_LEFT`).
    GoingLeft = 3,
}

/// Whether an epoch was better than the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Worse,
    Same,
    Better,
}

/// The counters at an edge of an epoch, as wide as Linux keeps them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Edge {
    pub(crate) time_ns: u64,
    packets: u32,
    bytes: u32,
    pub(crate) events: u16,
    completions: u32,
}

impl Edge {
    pub(crate) const ZERO: Edge =
        Edge { time_ns: 0, packets: 0, bytes: 0, events: 0, completions: 0 };

    #[inline]
    pub(crate) fn new(sample: &Sample, flow: Flow, events: u16) -> Edge {
        Edge {
            time_ns: sample.time_ns,
            packets: flow.packets as u32,
            bytes: flow.bytes as u32,
            events,
            completions: sample.completions as u32,
        }
    }
}

/// What happened in an epoch, per millisecond, rounded up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rates {
    pub(crate) packets: i32,
    pub(crate) bytes: i32,
    /// 64 over the epoch's length, whatever number of events it had.
    pub(crate) events: i32,
    pub(crate) completions: i32,
    /// Completions per event, times 100, rounded down.
    pub(crate) per_event: i32,
}

impl Rates {
    pub(crate) const ZERO: Rates =
        Rates { packets: 0, bytes: 0, events: 0, completions: 0, per_event: 0 };

    /// Between two edges; `None` if less than a microsecond lies between them.
    pub(crate) fn between(start: &Edge, end: &Edge) -> Option<Rates> {
        // A clock that stepped back gives a length of nearly 71 minutes, as in Linux.
        let micros = ((end.time_ns.wrapping_sub(start.time_ns) as i64) / 1_000) as u32;
        if micros == 0 {
            return None;
        }
        let per_ms = |n: u32| (u64::from(n) * 1_000).div_ceil(u64::from(micros)) as i32;
        let events = per_ms(u32::from(EVENTS_PER_EPOCH));
        let completions = per_ms(end.completions.wrapping_sub(start.completions));
        let per_event = match u64::from(events as u32) {
            0 => 0,
            e => (i64::from(completions.wrapping_mul(100)) as u64 / e) as i32,
        };
        Some(Rates {
            packets: per_ms(end.packets.wrapping_sub(start.packets)),
            bytes: per_ms(end.bytes.wrapping_sub(start.bytes)),
            events,
            completions,
            per_event,
        })
    }
}

/// `Same` if `now` is not significantly different from `before`
/// (`IS_SIGNIFICANT_DIFF`; nothing is, measured against zero), else `Better` if it
/// is higher.
pub(crate) fn higher_is_better(now: i32, before: i32) -> Verdict {
    let difference = i64::from(now.wrapping_sub(before).wrapping_abs()) as u64;
    let significant = before != 0 && difference.wrapping_mul(100) / (i64::from(before) as u64) > 10;
    match significant {
        false => Verdict::Same,
        true if now > before => Verdict::Better,
        true => Verdict::Worse,
    }
}

#[cfg(test)]
mod tests;
