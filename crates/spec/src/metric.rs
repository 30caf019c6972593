//! The declaration of a number of a result: name, unit, direction, meaning, and the place where it
//! is counted.

use doorbell_hal::Unit;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// The part of a result that a number is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A rate, a share or a mean over the window of the rates.
    Rate,
    /// A latency.
    Latency,
    /// CPU time of a packet.
    Cycles,
    /// A count: by packet under its name, and in all in `ledger`.
    Count,
}

/// The direction in which a number is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// More is better.
    More,
    /// Less is better.
    Less,
    /// Neither by itself: it may be high for a good reason. Where a direction is needed, less.
    Neither,
}

/// The use of a resource that a rate tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// It is the share that was used.
    Share,
    /// It is carried by the port, whose share has this name.
    Port(&'static str),
    /// It goes through the device's pipeline, whose share has this name.
    Pipeline(&'static str),
}

/// The declaration of a number of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The unit; empty for a count.
    #[serde(serialize_with = "named")]
    #[schemars(with = "str")]
    pub unit: Unit,
    /// The part of a result that it is in.
    #[serde(skip)]
    pub kind: Kind,
    /// The direction.
    #[serde(skip)]
    pub better: Better,
    /// The resource that it uses, if it tells.
    #[serde(skip)]
    pub uses: Option<Use>,
    /// The place where it is counted, or its origin.
    pub counted: &'static str,
    /// The meaning.
    pub about: &'static str,
}

fn named<S: Serializer>(unit: &Unit, s: S) -> Result<S::Ok, S::Error> {
    unit.name().serialize(s)
}

impl Metric {
    /// Declares a rate or a share.
    pub const fn rate(name: &'static str, unit: Unit, about: &'static str) -> Metric {
        let better = match unit {
            Unit::PacketsPerSecond | Unit::BitsPerSecond => Better::More,
            _ => Better::Neither,
        };
        let counted = "over the window of the rates";
        Metric { name, unit, kind: Kind::Rate, better, uses: None, counted, about }
    }

    /// Declares a share of a resource's time.
    pub const fn busy(name: &'static str, about: &'static str) -> Metric {
        Metric { uses: Some(Use::Share), ..Metric::rate(name, Unit::Share, about) }
    }

    /// Declares bits that the port carries.
    pub const fn carried(name: &'static str, share: &'static str, about: &'static str) -> Metric {
        Metric { uses: Some(Use::Port(share)), ..Metric::rate(name, Unit::BitsPerSecond, about) }
    }

    /// Declares a latency.
    pub const fn latency(name: &'static str, about: &'static str) -> Metric {
        Metric {
            kind: Kind::Latency,
            better: Better::Less,
            counted: "each packet or transaction; quantiles within 0.2 %",
            ..Metric::rate(name, Unit::Nanoseconds, about)
        }
    }

    /// Declares CPU time of a packet.
    pub const fn cycles(name: &'static str, about: &'static str) -> Metric {
        Metric {
            kind: Kind::Cycles,
            better: Better::Less,
            counted: "times the work was done, at the profile's prices",
            ..Metric::rate(name, Unit::Cycles, about)
        }
    }

    /// Declares a count.
    pub fn count(
        name: &'static str,
        unit: Unit,
        counted: &'static str,
        about: &'static str,
    ) -> Metric {
        let about = about.trim_end_matches('.');
        Metric { kind: Kind::Count, counted, ..Metric::rate(name, unit, about) }
    }

    /// Returns true if more is better, false if less is: the one rule of all commands.
    pub const fn is_better_high(&self) -> bool {
        matches!(self.better, Better::More)
    }

    /// Returns true if it is a number of each packet.
    pub const fn is_by_packet(&self) -> bool {
        matches!(self.kind, Kind::Count | Kind::Cycles)
    }
}
