//! The steady window of a run, and the error of its packet rate.
//!
//! Both kinds of load hand over [`Marks`]: instants, each with the packets until then.
//!
//! * Open loop: marks are departures. [`Window::found`] ends the window at the last departure
//!   before the first source ran dry, and starts it where MSER says (K. P. White, "An effective
//!   truncation heuristic", Simulation 69:6, 1997).
//! * Closed loop: marks are samples of the measured time. [`Window::given`] takes all of them.
//!
//! The error comes from batch means over 10 to 20 batches: Student's t for 95 % times the standard
//! error of packets over time. It tells how far the rate would move in a longer run.

use crate::experiment::result::rounded;
use doorbell_hal::{Span, Time};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Fewest batches that give an error, and most.
const FEWEST: usize = 10;
const MOST: usize = 20;
/// Blocks among which the end of the start is searched.
const BLOCKS: usize = 64;
/// Smallest difference of a block's time a packet, relative to the mean. Without it the start of a
/// generator that is exact to the picosecond would be cut at random.
const RESOLUTION: f64 = 1e-4;
/// Student's t for 95 %, two-sided, of 9 to 19 degrees of freedom.
const T: [f64; MOST - FEWEST + 1] =
    [2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093];

/// Instants of a run in order, each with the packets until then.
pub type Marks = Vec<(Time, u64)>;

/// Reasons why a rate is not that of a steady state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// No packet was counted.
    Nothing,
    /// Too few departures between start and end: the rate is that of the whole run.
    Short,
    /// The measured time has no warm-up in front of it.
    Start,
    /// The measured time holds too few looks or packets for an error.
    Few,
    /// The rate still changes in the latter half.
    Changing,
}

impl Lack {
    /// Returns the sentence for people.
    pub const fn about(self) -> &'static str {
        match self {
            Lack::Nothing => "no packets",
            Lack::Short => "too short: start and end are in the rates",
            Lack::Start => "no warm-up: the start is in the rates",
            Lack::Few => "too short for an error",
            Lack::Changing => "not steady: the rate still changes",
        }
    }
}

/// The time over which rates are taken.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// Start, relative to that of the traffic.
    pub start: Span,
    /// End, relative to the start of the traffic.
    pub end: Span,
    /// Packets between start and end.
    pub packets: u64,
    /// Batches that the error comes from; 0 without one.
    pub batches: usize,
    /// Half of the packet rate's 95 % interval, relative to the rate.
    pub error: Option<f64>,
    /// The reason why the rate is not a steady one, if it is not.
    pub lacks: Option<Lack>,
}

impl Window {
    /// Finds the steady part of a run whose traffic began at `began`. Marks after `dry` packets
    /// belong to the end of the run. Returns `None` if there is no steady part.
    pub fn found(began: Time, marks: &[(Time, u64)], dry: u64) -> Option<Window> {
        let marks = &marks[..marks.partition_point(|m| m.1 <= dry)];
        let (skipped, settled) = truncation(marks);
        let marks = &marks[skipped..];
        let mut w = Window::between(began, marks)?;
        let (error, batches) = errors(marks)?;
        (w.error, w.batches) = (Some(error), batches);
        w.lacks = (!settled).then_some(Lack::Changing);
        Some(w)
    }

    /// Returns the measured time of a scenario, `warm` if there was a warm-up before it.
    pub fn given(began: Time, marks: &[(Time, u64)], warm: bool) -> Window {
        let Some(mut w) = Window::between(began, marks) else {
            return Window::whole(Span::ZERO, 0);
        };
        match errors(marks) {
            Some((error, batches)) => {
                (w.error, w.batches) = (Some(error), batches);
                w.lacks = (!warm).then_some(Lack::Start);
            }
            None if w.packets == 0 => w.lacks = Some(Lack::Nothing),
            None => w.lacks = Some(if warm { Lack::Few } else { Lack::Start }),
        }
        w
    }

    /// Returns the whole of a run that is too short for a window.
    pub fn whole(elapsed: Span, packets: u64) -> Window {
        let lacks = Some(if packets > 0 { Lack::Short } else { Lack::Nothing });
        Window { start: Span::ZERO, end: elapsed, packets, batches: 0, error: None, lacks }
    }

    fn between(began: Time, marks: &[(Time, u64)]) -> Option<Window> {
        let (a, b) = (marks.first()?, marks.last()?);
        let (start, end) = (a.0.since(began), b.0.since(began));
        let packets = b.1 - a.1;
        let found = Window { start, end, packets, batches: 0, error: None, lacks: None };
        (end > start).then_some(found)
    }

    /// Returns packets a second.
    pub fn rate(&self) -> f64 {
        let seconds = self.length().as_secs_f64();
        if seconds > 0.0 { self.packets as f64 / seconds } else { 0.0 }
    }

    /// Returns the length of the window.
    pub fn length(&self) -> Span {
        Span::from_ps(self.end.ps() - self.start.ps())
    }

    /// Returns whether the rate is that of a steady state, with an error.
    pub fn is_steady(&self) -> bool {
        self.lacks.is_none()
    }

    /// Returns the packet rate's error for people: ±0.02 %, or the reason why there is none.
    pub fn certainty(&self) -> String {
        let error = self.error.map(|e| match e * 100.0 {
            percent if percent < 0.005 => "±0.01 %".to_owned(),
            percent if percent < 0.995 => format!("±{percent:.2} %"),
            percent if percent < 9.95 => format!("±{percent:.1} %"),
            percent => format!("±{percent:.0} %"),
        });
        let parts: Vec<String> =
            error.into_iter().chain(self.lacks.map(|l| l.about().to_owned())).collect();
        parts.join(", ")
    }
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut out = s.serialize_map(None)?;
        out.serialize_entry("start_ns", &rounded(self.start.as_ns_f64()))?;
        out.serialize_entry("end_ns", &rounded(self.end.as_ns_f64()))?;
        out.serialize_entry("packets", &self.packets)?;
        out.serialize_entry("batches", &self.batches)?;
        out.serialize_entry("steady", &self.is_steady())?;
        out.serialize_entry("note", &self.lacks.map(Lack::about))?;
        out.end()
    }
}

/// Returns time and packets from one mark to the next.
fn step(a: (Time, u64), b: (Time, u64)) -> (f64, f64) {
    (b.0.since(a.0).as_secs_f64(), (b.1 - a.1) as f64)
}

/// Finds the marks of the start by MSER: of all truncations in the first half, that with the least
/// standard error of the rest. Also returns whether the rate settles behind them, which it does not
/// if they reach the end of that half.
fn truncation(marks: &[(Time, u64)]) -> (usize, bool) {
    let each = marks.len().div_ceil(BLOCKS).max(1);
    let edges: Vec<(Time, u64)> = marks.iter().step_by(each).copied().collect();
    let rates: Vec<f64> =
        edges.windows(2).map(|e| step(e[0], e[1])).map(|(t, n)| n / t.max(1e-15)).collect();
    let half = rates.len() / 2;
    // From the back, so that one pass computes all sums.
    let (mut sum, mut squares, mut best) = (0.0, 0.0, (f64::INFINITY, 0));
    for (d, rate) in rates.iter().enumerate().rev() {
        sum += rate;
        squares += rate * rate;
        let n = (rates.len() - d) as f64;
        let mean = sum / n;
        let variance = (squares / n - mean * mean).max(0.0) + (RESOLUTION * mean).powi(2);
        if d <= half && variance / n <= best.0 {
            best = (variance / n, d);
        }
    }
    (best.1 * each, best.1 < half || half == 0)
}

/// Returns the packet rate's relative error by batch means, and the number of batches. `None` if
/// there are too few, or no packets.
fn errors(marks: &[(Time, u64)]) -> Option<(f64, usize)> {
    let steps = marks.len().checked_sub(1)?;
    let each = steps.div_ceil(MOST).max(1);
    let batches = steps / each;
    if batches < FEWEST {
        return None;
    }
    // Marks that do not fill a batch are left out at the front, which is closer to the start.
    let edges: Vec<(Time, u64)> =
        marks[steps - batches * each..].iter().step_by(each).copied().collect();
    let all: Vec<(f64, f64)> = edges.windows(2).map(|e| step(e[0], e[1])).collect();
    let (time, packets) = all.iter().fold((0.0, 0.0), |(t, n), b| (t + b.0, n + b.1));
    if packets == 0.0 || time == 0.0 {
        return None;
    }
    // Batches have equal packets or equal time: the error of a ratio holds for both.
    let rate = packets / time;
    let n = batches as f64;
    let squares: f64 = all.iter().map(|(t, packets)| (packets - rate * t).powi(2)).sum();
    Some((T[batches - FEWEST] * (squares * n / (n - 1.0)).sqrt() / packets, batches))
}

#[cfg(test)]
mod tests;
