//! Virtual time, in picoseconds since the start of the run.
//!
//! A `u64` of picoseconds lasts 213 days. Rates that do not divide (a byte on a
//! Gen3 x16 link takes 63.477 ps) are accumulated with their remainders by
//! whoever owns the rate; a `Time` is always whole picoseconds.

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub};

/// A point in virtual time, in picoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Time(u64);

/// A length of virtual time, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Span(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than any event: "not due".
    pub const NEVER: Time = Time(u64::MAX);

    /// Creates a time from picoseconds since the start.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }
    /// Picoseconds since the start.
    pub const fn ps(self) -> u64 {
        self.0
    }
    /// Seconds since the start, for printing.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-12
    }
    /// Returns the time since `earlier`; zero if this is not after it.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// Creates a span from picoseconds.
    pub const fn from_ps(ps: u64) -> Span {
        Span(ps)
    }
    /// Creates a span from nanoseconds.
    pub const fn from_ns(ns: u64) -> Span {
        Span(ns * 1_000)
    }
    /// Creates a span from microseconds.
    pub const fn from_us(us: u64) -> Span {
        Span(us * 1_000_000)
    }
    /// Creates a span from milliseconds.
    pub const fn from_ms(ms: u64) -> Span {
        Span(ms * 1_000_000_000)
    }
    /// Picoseconds.
    pub const fn ps(self) -> u64 {
        self.0
    }
    /// Nanoseconds, for printing.
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 * 1e-3
    }
    /// Seconds, for printing.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-12
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}
impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}
impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}
impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}
impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, times: u64) -> Span {
        Span(self.0.saturating_mul(times))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Span(self.0), f)
    }
}
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000_000 => write!(f, "{}.{:03} ns", self.0 / 1_000, self.0 % 1_000),
            1_000_000..1_000_000_000 => {
                write!(f, "{}.{:03} us", self.0 / 1_000_000, self.0 / 1_000 % 1_000)
            }
            _ => write!(f, "{}.{:03} ms", self.0 / 1_000_000_000, self.0 / 1_000_000 % 1_000),
        }
    }
}

#[cfg(test)]
mod tests;
