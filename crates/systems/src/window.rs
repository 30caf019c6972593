//! The steady window of a run, and the errors of its numbers.
//!
//! Both kinds of load hand over [`Marks`]: instants, each with the packets until then.
//!
//! * Open loop: marks are departures. [`Window::found`] ends the window at the last departure
//!   before the first source ran dry, and starts it where MSER says (K. P. White, "An effective
//!   truncation heuristic", Simulation 69:6, 1997).
//! * Closed loop: marks are samples of the measured time. [`Window::given`] takes all of them.
//!
//! An error comes from batch means over 10 to 20 batches of the window: Student's t for 95 % times
//! the standard error of a ratio (`error_of`). It tells how far the number would move in a longer
//! run. Batches that depend on each other count as fewer. A load whose phases are about as long as
//! a batch has no errors (`Window::batched`).

use crate::Counts;
use crate::result::rounded;
use doorbell_hal::{Span, Time};
use schemars::JsonSchema;
use serde::Serialize;

/// Fewest batches that give an error, and most.
const FEWEST: usize = 10;
pub(crate) const MOST: usize = 20;
/// Blocks among which the end of the start is searched.
const BLOCKS: usize = 64;
/// Smallest difference of a block's time a packet, relative to the mean. Without it the start of a
/// generator that is exact to the picosecond would be cut at random.
const RESOLUTION: f64 = 1e-4;
/// The fewest independent batches that give an error.
const WORTH: usize = 4;
/// Phases of a load that a batch holds at least, if the load has any.
const PHASES: u64 = 2;
/// Student's t for 95 %, two-sided, of 3 to 19 degrees of freedom.
const T: [f64; MOST - WORTH + 1] = [
    3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093,
];

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
    /// The load's phases, or the swings of the rate, last longer than a batch.
    Phases,
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
            Lack::Phases => "too short for an error: the load changes more slowly",
        }
    }
}

/// The time over which rates are taken.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(into = "Written")]
#[schemars(from = "Written")]
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
        w.takes(errors(marks)?);
        if !settled {
            w.lacks = Some(Lack::Changing);
        }
        Some(w)
    }

    /// Returns the measured time of a scenario, `warm` if there was a warm-up before it.
    pub fn given(began: Time, marks: &[(Time, u64)], warm: bool) -> Window {
        let Some(mut w) = Window::between(began, marks) else {
            return Window::whole(Span::ZERO, 0);
        };
        match errors(marks) {
            Some(found) => {
                w.takes(found);
                if !warm {
                    w.lacks = Some(Lack::Start);
                }
            }
            None if w.packets == 0 => w.lacks = Some(Lack::Nothing),
            None => w.lacks = Some(if warm { Lack::Few } else { Lack::Start }),
        }
        w
    }

    /// Takes the error from these batches. Returns whether they give errors: `phases` is how often
    /// the load changes in the window, and each batch has to hold some of its phases.
    pub(crate) fn batched(&mut self, batches: &[Counts], phases: u64) -> bool {
        let independent = phases == 0 || phases >= PHASES * batches.len() as u64;
        let amounts = batches.iter().map(|c| (c.packets as f64, c.seconds()));
        let error = error_of(&amounts.collect::<Vec<_>>()).filter(|_| independent);
        self.error = error.map(|e| e / self.rate()).filter(|e| e.is_finite());
        self.batches = if self.error.is_some() { batches.len() } else { 0 };
        if self.error.is_none() && self.packets > 0 {
            self.lacks = self.lacks.or(Some(Lack::Phases));
        }
        independent
    }

    /// Takes an error of so many batches. Without one the batches depend on each other.
    fn takes(&mut self, (error, batches): (Option<f64>, usize)) {
        self.error = error;
        self.batches = if error.is_some() { batches } else { 0 };
        self.lacks = error.is_none().then_some(Lack::Phases);
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

    /// Returns why the rate is not that of a steady state, if it is not.
    pub fn lacks(&self) -> Option<&'static str> {
        self.lacks.map(|l| l.about())
    }
}

/// Formats an error, a share of its number, for people: `0.02 %`.
pub fn percent(error: f64) -> String {
    match error * 100.0 {
        0.0 => "0".to_owned(),
        percent if percent < 0.005 => "0.01 %".to_owned(),
        percent if percent < 0.995 => format!("{percent:.2} %"),
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// A window as programs read it.
#[derive(Serialize, JsonSchema)]
struct Written {
    start_ns: f64,
    end_ns: f64,
    packets: u64,
    /// Those that the error comes from; 0 without one.
    batches: usize,
    steady: bool,
    /// The lack of a window that is not steady.
    note: Option<&'static str>,
}

impl From<Window> for Written {
    fn from(w: Window) -> Written {
        Written {
            start_ns: rounded(w.start.as_ns_f64()),
            end_ns: rounded(w.end.as_ns_f64()),
            packets: w.packets,
            batches: w.batches,
            steady: w.is_steady(),
            note: w.lacks(),
        }
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

/// Returns the packet rate's relative error, if there is one, and the number of batches. `None` if
/// there are too few, or no packets.
fn errors(marks: &[(Time, u64)]) -> Option<(Option<f64>, usize)> {
    let edges = edges(marks.len())?;
    let edges: Vec<(Time, u64)> = edges.map(|i| marks[i]).collect();
    let batches: Vec<(f64, f64)> = edges.windows(2).map(|e| step(e[0], e[1])).collect();
    let packets: f64 = batches.iter().map(|b| b.1).sum();
    let time: f64 = batches.iter().map(|b| b.0).sum();
    let amounts: Vec<(f64, f64)> = batches.iter().map(|(t, n)| (*n, *t)).collect();
    let error = error_of(&amounts).map(|e| e * time / packets);
    (packets > 0.0).then_some((error, batches.len()))
}

/// Returns the edges of 10 to 20 batches among `marks` marks, or `None` if there are too few. Marks
/// that do not fill a batch are left out at the front, which is closer to the start.
pub(crate) fn edges(marks: usize) -> Option<impl Iterator<Item = usize>> {
    let steps = marks.checked_sub(1)?;
    let each = steps.div_ceil(MOST).max(1);
    let batches = steps / each;
    (batches >= FEWEST).then(|| (steps - batches * each..=steps).step_by(each))
}

/// Returns half of the 95 % interval of a ratio, given the amount and the divisor of each batch:
/// packets and time, or a count and packets. The error of a ratio holds for batches of equal
/// packets and of equal time alike.
///
/// It is the larger of the errors by these batches and by pairs of them: where a batch is too short
/// for the batches to be independent, the pairs tell. `None` if there are too few batches, nothing
/// to divide by, or if the batches depend on each other so much that they are worth less than
/// [`WORTH`] independent ones.
pub(crate) fn error_of(batches: &[(f64, f64)]) -> Option<f64> {
    let both = |pair: &[(f64, f64)]| (pair[0].0 + pair[1].0, pair[0].1 + pair[1].1);
    let pairs: Vec<(f64, f64)> = batches[batches.len() % 2..].chunks(2).map(both).collect();
    let plain = |all: &[(f64, f64)]| Some(spread(all)?.1);
    Some(corrected(batches)?.max(plain(&pairs)?))
}

/// Returns the correlation of neighbouring batches, and the error if there were none.
fn spread(batches: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (amount, by) = batches.iter().fold((0.0, 0.0), |(a, w), b| (a + b.0, w + b.1));
    if by <= 0.0 {
        return None;
    }
    let n = batches.len();
    let ratio = amount / by;
    let off: Vec<f64> = batches.iter().map(|(a, w)| a - ratio * w).collect();
    let squares: f64 = off.iter().map(|x| x * x).sum();
    let products: f64 = off.windows(2).map(|x| x[0] * x[1]).sum();
    // A generator that is exact to the picosecond has no correlation but that of its rounding.
    let even = (squares / n as f64).sqrt() <= RESOLUTION * (amount / n as f64).abs();
    let correlation = if even { 0.0 } else { products / squares };
    let deviation = (squares * n as f64 / (n as f64 - 1.0)).sqrt() / by;
    Some((correlation, student(n)? * deviation))
}

/// Returns the error of batches whose neighbours are correlated by r: n of them are worth
/// n (1 - r) / (1 + r) independent ones, as those of a first-order autoregressive process.
fn corrected(batches: &[(f64, f64)]) -> Option<f64> {
    let (correlation, error) = spread(batches)?;
    let n = batches.len();
    let share = (1.0 - correlation.max(0.0)) / (1.0 + correlation.max(0.0));
    let worth = n as f64 * share;
    if worth < WORTH as f64 {
        return None;
    }
    Some(error / student(n)? * student(worth as usize)? / share.sqrt())
}

/// Returns Student's t for 95 %, two-sided, of `n` independent batches.
fn student(n: usize) -> Option<f64> {
    T.get(n.checked_sub(WORTH)?.min(T.len() - 1)).copied()
}

#[cfg(test)]
mod tests;
