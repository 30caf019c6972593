//! The resources that may limit a run: the share of each that was used, and what was found to bind.

use crate::key::Values;
use crate::metrics::Use;
use crate::result::{Measured, Rate, rounded};
use crate::system::System;
use schemars::JsonSchema;
use serde::Serialize;

/// The way in which a key's value makes a resource wider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wider {
    /// A rate, a number of things: more of it.
    More,
    /// A time: less of it.
    Less,
}

/// A resource that may limit the runs of a system.
#[derive(Debug)]
pub struct Resource {
    /// Its name for people.
    pub name: &'static str,
    /// The names of its shares ([`shares`]), the most used of which counts.
    pub shares: &'static [&'static str],
    /// The keys that make it wider, all together.
    pub keys: &'static [(&'static str, Wider)],
}

impl Resource {
    /// Declares a resource whose use no number tells.
    pub(crate) const fn of(name: &'static str, keys: &'static [(&'static str, Wider)]) -> Resource {
        Resource { name, shares: &[], keys }
    }
}

/// The cores of a machine, which wait for their register writes.
pub(crate) const CORES: Resource = Resource {
    name: "cores",
    shares: &["cpu_busy_share"],
    keys: &[("cpu.frequency", Wider::More), ("cpu.mmio_write_spacing", Wider::Less)],
};
/// The link of a card on PCI Express, in both directions.
pub(crate) const LINK: Resource = Resource {
    name: "link",
    shares: &["inbound_link_busy_share", "outbound_link_busy_share"],
    keys: &[("pcie.speed", Wider::More)],
};
/// A port whose link carries frames both ways.
pub(crate) const PORT: Resource = Resource {
    name: "port",
    shares: &["port_out_share", "port_in_share"],
    keys: &[("link.rate", Wider::More)],
};
/// The rings of a driver that has one each way.
pub(crate) const RINGS: Resource =
    Resource::of("rings", &[("driver.tx_ring", Wider::More), ("driver.rx_ring", Wider::More)]);
/// The way to the peer and back.
pub(crate) const NETWORK: Resource = Resource::of("network delay", &[("link.delay", Wider::Less)]);

/// A key's number before and after its resource was made wider.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "WiderKey")]
pub struct Change {
    /// The key.
    pub key: &'static str,
    /// Its unit.
    #[serde(skip)]
    pub unit: &'static str,
    /// The value of the run.
    pub from: f64,
    /// The wider value.
    pub to: f64,
}

/// A resource in a run.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Limit {
    /// The name of the resource.
    pub resource: &'static str,
    /// The share of it that was used, if it is known.
    pub share: Option<f64>,
    /// The change of the packet rate, relative to it, when the resource is wider. `None` if it
    /// cannot be made wider.
    pub gain: Option<f64>,
    /// The wider values.
    pub wider: Vec<Change>,
}

/// The limits of a run, found by running again with each resource wider.
#[derive(Clone, PartialEq, Default, Debug, Serialize, JsonSchema)]
#[serde(into = "Written")]
#[schemars(from = "Written")]
pub struct Limits {
    /// Every resource, the one that gains most first.
    pub resources: Vec<Limit>,
    /// The resource that limits the packet rate, if one does.
    pub binds: Option<&'static str>,
}

impl Limits {
    /// Returns a sentence about what limits.
    pub fn said(&self) -> String {
        let found = |name: &str| self.resources.iter().find(|l| l.resource == name);
        let Some(limit) = self.binds.and_then(found) else {
            return "no resource alone: none gains by itself, and none is used up".to_owned();
        };
        let name = limit.resource;
        match limit.gain {
            Some(gain) => {
                let wider: Vec<String> = limit.wider.iter().map(Change::said).collect();
                format!("{name}: {} gives {:+.1} % packets", wider.join(", "), gain * 100.0)
            }
            None => format!("{name}: it is used up, and there is no wider one to try"),
        }
    }
}

impl Change {
    /// Returns the change for people: `cpu.frequency 2.5 -> 2.75 GHz`.
    pub fn said(&self) -> String {
        let shown = |n: f64| super::result::significant(n, 6);
        let text = format!("{} {} -> {} {}", self.key, shown(self.from), shown(self.to), self.unit);
        text.trim_end().to_owned()
    }
}

/// Limits as programs read them.
#[derive(Serialize, JsonSchema)]
struct Written {
    /// The resource that limits; null if none does alone.
    binds: Option<&'static str>,
    /// The same as a sentence.
    said: String,
    /// The one that gains most for its widening first.
    resources: Vec<Limit>,
}

impl From<Limits> for Written {
    fn from(limits: Limits) -> Written {
        Written { binds: limits.binds, said: limits.said(), resources: limits.resources }
    }
}

/// Returns the share of each resource that was used over the window, 1 at its limit, the most used
/// first: cores, buses, links of what they carry at most, the port, and the device's pipeline.
pub fn shares(of: &System, values: &Values, m: &Measured) -> Vec<(String, f64)> {
    let mut all: Vec<_> = m.rates.iter().filter_map(|rate| share(of, values, rate)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.into_iter().map(|(name, share)| (name.to_owned(), rounded(share))).collect()
}

/// Returns the name and the share of the resource that a rate uses, if it uses one.
pub(crate) fn share(of: &System, values: &Values, rate: &Rate) -> Option<(&'static str, f64)> {
    match rate.metric.uses? {
        Use::Share => Some((rate.metric.name, rate.value)),
        Use::Port(name) => Some((name, rate.value / values.bits_per_second(of.port_rate) as f64)),
        Use::Pipeline(name) => {
            let packet_time = values.number_if_any("nic.packet_time").unwrap_or(0.0) * 1e-9;
            (packet_time > 0.0).then_some((name, rate.value * packet_time))
        }
    }
}
