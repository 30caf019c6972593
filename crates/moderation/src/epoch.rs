//! Epochs: the rates that DIM measures, and their comparison.
//!
//! Both DIM controllers divide time into epochs of at least 64 events and turn the counters at an
//! epoch's ends into [`Rates`] (Linux: `dim_calc_stats`). The widths are Linux's, because wraps are
//! part of its decisions: packets, bytes and completions are differences modulo 2^32, a rate is a
//! signed 32-bit number, and the length of an epoch is microseconds modulo 2^32.
//!
//! The event rate is computed from the constant 64, so it measures only the length of the epoch. A
//! change is significant if it exceeds ten percent of the *previous* rate after integer division:
//! 10.9 percent is not, and 100 to 111 is a change where 111 to 100 is none.

use crate::controller::{Flow, Sample};
use core::cmp::Ordering;

/// Events after which an epoch ends (`DIM_NEVENTS`).
pub const EVENTS_PER_EPOCH: u16 = 64;

/// State of a DIM controller between two decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum State {
    /// The next sample opens an epoch (`DIM_START_MEASURE`).
    #[default]
    StartMeasure = 0,
    /// An epoch is open (`DIM_MEASURE_IN_PROGRESS`).
    MeasureInProgress = 1,
    /// A new profile is being applied; samples are ignored (`DIM_APPLY_NEW_PROFILE`).
    ApplyNewProfile = 2,
}

/// Direction of a DIM controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Tune {
    /// Stays until the rates change (`DIM_PARKING_ON_TOP`).
    #[default]
    ParkingOnTop = 0,
    /// Stays for ten epochs after too many moves (`DIM_PARKING_TIRED`).
    ParkingTired = 1,
    /// Moves towards more moderation, a larger index (`DIM_GOING_RIGHT`).
    GoingRight = 2,
    /// Moves towards less moderation, a smaller index (`DIM_GOING_LEFT`).
    GoingLeft = 3,
}

/// The counters at an edge of an epoch, in Linux's widths.
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

/// Rates of an epoch per millisecond, rounded up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rates {
    pub(crate) packets: i32,
    pub(crate) bytes: i32,
    /// 64 over the epoch's length, whatever its number of events.
    pub(crate) events: i32,
    pub(crate) completions: i32,
    /// Completions per event, times 100, rounded down.
    pub(crate) per_event: i32,
}

impl Rates {
    pub(crate) const ZERO: Rates =
        Rates { packets: 0, bytes: 0, events: 0, completions: 0, per_event: 0 };

    /// Returns the rates between two edges, or `None` if they are less than a microsecond apart.
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

/// Compares `now` with `before`: equal without a significant difference (`IS_SIGNIFICANT_DIFF`;
/// nothing differs from zero). Greater is better.
pub(crate) fn compare(now: i32, before: i32) -> Ordering {
    let difference = i64::from(now.wrapping_sub(before).wrapping_abs()) as u64;
    let significant = before != 0 && difference.wrapping_mul(100) / (i64::from(before) as u64) > 10;
    if significant { now.cmp(&before) } else { Ordering::Equal }
}

#[cfg(test)]
mod tests;
