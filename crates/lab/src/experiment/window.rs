//! The steady window of a run, and how sure its packet rate is.
//!
//! A rate is packets over time between two instants, with what begins and ends a run left out. Both
//! kinds of load hand over the same thing, [`Marks`]: instants, each with the packets until then.
//!
//! * An open-loop run has no warm-up of its own. Its marks are departures, and [`Window::found`]
//!   looks for the window: the end is the last departure before the first source ran dry, the start
//!   is what MSER finds (K. P. White, "An effective truncation heuristic", Simulation 69:6, 1997).
//! * A closed-loop run is measured between `traffic.warmup` and the end of `traffic.duration`. Its
//!   marks are looks at that time, and [`Window::given`] takes all of them: the warm-up is the
//!   asker's.
//!
//! The error comes from batch means: the window is cut into 10 to 20 batches, and the half width of
//! the 95 % interval is Student's t times the standard error of the ratio of packets to time. A run
//! is not sampled, so the interval says how far the rate would move with a longer run, and no more.

use crate::experiment::result::rounded;
use doorbell_hal::{Span, Time};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Batches of a window: fewest that carry an error, and most.
const FEWEST: usize = 10;
const MOST: usize = 20;
/// Blocks among which the end of the start is looked for.
const BLOCKS: usize = 64;
/// Differences of a block's time a packet that are none, relative to the mean. Without it a
/// generator that is exact to the picosecond would have its start cut at random.
const RESOLUTION: f64 = 1e-4;
/// Student's t for 95 %, two-sided, of 9 to 19 degrees of freedom.
const T: [f64; MOST - FEWEST + 1] =
    [2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093];

/// Instants of a run in order, each with the packets until then.
pub type Marks = Vec<(Time, u64)>;

/// Why a rate is not one of a steady state.
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
    /// The sentence for people.
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
    /// When it begins, since the traffic did.
    pub start: Span,
    /// When it ends.
    pub end: Span,
    /// Packets in it.
    pub packets: u64,
    /// Batches that its error comes from; 0 without one.
    pub batches: usize,
    /// Half of the packet rate's 95 % interval, relative to the rate.
    pub error: Option<f64>,
    /// Why the rate is not a steady one, if it is not.
    pub lacks: Option<Lack>,
}

impl Window {
    /// The steady part of a run whose traffic began at `began`. Marks after `dry` packets are the
    /// run's end. `None`: there is none.
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

    /// A time that was measured as the scenario says, after a warm-up if there was one.
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

    /// All of a run that is too short.
    pub fn whole(elapsed: Span, packets: u64) -> Window {
        let lacks = Some(if packets > 0 { Lack::Short } else { Lack::Nothing });
        Window { start: Span::ZERO, end: elapsed, packets, batches: 0, error: None, lacks }
    }

    fn between(began: Time, marks: &[(Time, u64)]) -> Option<Window> {
        let (a, b) = (marks.first()?, marks.last()?);
        let (start, end) = (a.0.since(began), b.0.since(began));
        (end > start).then(|| Window {
            start,
            end,
            packets: b.1 - a.1,
            batches: 0,
            error: None,
            lacks: None,
        })
    }

    /// Packets a second.
    pub fn rate(&self) -> f64 {
        let seconds = self.length().as_secs_f64();
        if seconds > 0.0 { self.packets as f64 / seconds } else { 0.0 }
    }

    /// How long it is.
    pub fn length(&self) -> Span {
        Span::from_ps(self.end.ps() - self.start.ps())
    }

    /// Whether its rate is that of a steady state, and carries an error.
    pub fn is_steady(&self) -> bool {
        self.lacks.is_none()
    }

    /// The packet rate's error for people: ±0.02 %, or why there is none.
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

/// Time and packets from one mark to the next.
fn step(a: (Time, u64), b: (Time, u64)) -> (f64, f64) {
    (b.0.since(a.0).as_secs_f64(), (b.1 - a.1) as f64)
}

/// The marks of the start, and whether the rate settles behind them, by MSER: of all truncations in
/// the first half that with the least standard error of what is left. At the end of that half
/// nothing has settled.
fn truncation(marks: &[(Time, u64)]) -> (usize, bool) {
    let each = marks.len().div_ceil(BLOCKS).max(1);
    let edges: Vec<(Time, u64)> = marks.iter().step_by(each).copied().collect();
    let rates: Vec<f64> =
        edges.windows(2).map(|e| step(e[0], e[1])).map(|(t, n)| n / t.max(1e-15)).collect();
    let half = rates.len() / 2;
    // From the back, so that one pass knows all sums.
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

/// The packet rate's relative error by batch means, and of how many batches. `None`: too few, or no
/// packets.
fn errors(marks: &[(Time, u64)]) -> Option<(f64, usize)> {
    let steps = marks.len().checked_sub(1)?;
    let each = steps.div_ceil(MOST).max(1);
    let batches = steps / each;
    if batches < FEWEST {
        return None;
    }
    // What does not fill a batch is left out at the front, where the start is nearer.
    let edges: Vec<(Time, u64)> =
        marks[steps - batches * each..].iter().step_by(each).copied().collect();
    let all: Vec<(f64, f64)> = edges.windows(2).map(|e| step(e[0], e[1])).collect();
    let (time, packets) = all.iter().fold((0.0, 0.0), |(t, n), b| (t + b.0, n + b.1));
    if packets == 0.0 || time == 0.0 {
        return None;
    }
    // Batches are of equal packets or of equal time: the error of a ratio holds for both.
    let rate = packets / time;
    let n = batches as f64;
    let squares: f64 = all.iter().map(|(t, packets)| (packets - rate * t).powi(2)).sum();
    Some((T[batches - FEWEST] * (squares * n / (n - 1.0)).sqrt() / packets, batches))
}

#[cfg(test)]
mod tests;
