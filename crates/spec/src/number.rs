//! Numbers of a result: values with their errors, and how they are rounded.

use crate::metric::Metric;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A rate or a share.
#[derive(Clone, PartialEq, Debug)]
pub struct Rate {
    /// The declaration.
    pub metric: Metric,
    /// The meaning in this run.
    pub about: Cow<'static, str>,
    /// The value in its unit.
    pub value: f64,
    /// The origin of its error.
    pub sampled: Sampled,
}

/// The origin of a rate's error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sampled {
    /// The batches of the window, each of which has a value.
    Batches,
    /// That of the window's packet rate, which it is.
    Window,
    /// None: it is known at the end of the run alone, or for the whole of it.
    Once,
}

impl Metric {
    /// Makes a rate of this value, of which each batch has one.
    pub const fn is(self, value: f64) -> Rate {
        let about = Cow::Borrowed(self.about);
        Rate { metric: self, about, value, sampled: Sampled::Batches }
    }
}

impl Rate {
    /// Gives it its meaning in this run.
    pub fn about(self, about: impl Into<Cow<'static, str>>) -> Rate {
        Rate { about: about.into(), ..self }
    }

    /// Gives it another origin of its error.
    pub const fn sampled(mut self, sampled: Sampled) -> Rate {
        self.sampled = sampled;
        self
    }
}

/// A number of a result by its name in `list --metrics`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Number {
    /// The name.
    pub name: String,
    /// The value, in the unit that is declared with the name.
    pub value: f64,
    /// Half of its 95 % interval, if the run can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The lowest and the highest of several boots of a guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

impl Number {
    /// Makes a number without an error.
    pub const fn new(name: String, value: f64) -> Number {
        Number { name, value, error: None, range: None }
    }
}

/// The numbers of a result: what tables, records, searches and fits read.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Numbers(pub Vec<Number>);

impl Numbers {
    /// Returns a number by its name.
    pub fn get(&self, name: &str) -> Option<&Number> {
        self.0.iter().find(|n| n.name == name)
    }
}

/// A number over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// The name, with the unit.
    pub name: &'static str,
    /// Pairs of time in ms and value.
    pub points: Vec<(f64, f64)>,
}

/// Names of the [`Series`] of a load in time. Settings are those of receive moderation.
pub mod series {
    /// Packets a second.
    pub const PACKETS: &str = "packets_per_s";
    /// Frames a second on the wire, both ways.
    pub const WIRE_FRAMES: &str = "wire_frames_per_s";
    /// Interrupts a second.
    pub const INTERRUPTS: &str = "interrupts_per_s";
    /// Packets that an interrupt waits for at most.
    pub const SETTING_PACKETS: &str = "setting_packets";
    /// The longest time for which an interrupt is held back, or apart from the one before, in
    /// microseconds.
    pub const SETTING_DELAY: &str = "setting_delay_us";
    /// All of them.
    pub const ALL: [&str; 5] = [PACKETS, WIRE_FRAMES, INTERRUPTS, SETTING_PACKETS, SETTING_DELAY];
}

/// Rounds to nine significant digits.
pub fn rounded(x: f64) -> f64 {
    significant(x, 9)
}

/// Rounds to 1 to 12 significant digits, as formatting and reading does.
///
/// Powers of ten up to 10^19 and whole numbers of 12 digits are exact in an `f64`, so the quotient
/// of two is rounded correctly. The logarithm only has to find the right digits mostly.
pub fn significant(x: f64, digits: u32) -> f64 {
    let power = |n: u32| 10u64.pow(n) as f64;
    let places = f64::from(digits) - 1.0 - libm::log10(x.abs()).floor();
    if places.abs() <= 19.0 {
        let (up, down) = (power(places.max(0.0) as u32), power((-places).max(0.0) as u32));
        let scaled = x * up / down;
        let whole = scaled.round();
        let near_middle = (scaled - whole).abs() > 0.499;
        if !near_middle && (power(digits - 1)..=power(digits)).contains(&scaled.abs()) {
            return whole / up * down;
        }
    }
    significant_by_text(x, digits)
}

/// Rounds to significant digits. Formatting as text rounds correctly.
fn significant_by_text(x: f64, digits: u32) -> f64 {
    format!("{x:.*e}", digits as usize - 1).parse().unwrap_or(x)
}

#[cfg(test)]
mod tests;
