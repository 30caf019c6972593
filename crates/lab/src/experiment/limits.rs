//! The limit of a run: the share of each resource that was used, and the resource that binds.
//!
//! A share alone does not tell what limits: a core that polls is always busy, and a link may be
//! full of what a wider one would not carry. So each [`Resource`] of the system is made wider by
//! [`STEP`], one at a time, and the run repeated. The one whose widening gains most is the limit. A
//! resource that cannot be made wider is taken for the limit if it is used up and no other gains.

use crate::config::key::{Key, Kind, Value, Values};
use crate::experiment::metrics::Use;
use crate::experiment::result::{Measured, Rate, rounded};
use crate::experiment::{in_parallel, system::System};
use doorbell_sim::{traffic::Frames, watch::While};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use std::convert::Infallible;
use std::sync::Arc;

/// The share by which a resource is made wider, where its key takes any number.
pub const STEP: f64 = 0.1;
/// The least gain of a limit, as a share of its widening.
const BINDS: f64 = 0.1;
/// The share from which a resource is used up.
const FULL: f64 = 0.97;

/// The rounding of a quotient.
const ROUNDING: f64 = 1e-9;

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
pub(crate) const RINGS: Resource = Resource {
    name: "rings",
    shares: &[],
    keys: &[("driver.tx_ring", Wider::More), ("driver.rx_ring", Wider::More)],
};
/// The way to the peer and back.
pub(crate) const NETWORK: Resource =
    Resource { name: "network delay", shares: &[], keys: &[("link.delay", Wider::Less)] };

impl Resource {
    /// Returns the values with this resource wider, the keys that changed, and the greatest share
    /// by which one did. `None` if no key that has an effect can be moved. Keys with a list of
    /// values are moved only if `listed`.
    fn widened(&self, values: &Values, listed: bool) -> Option<(Values, Vec<Change>, f64)> {
        let (mut wide, mut changes, mut most) = (values.clone(), Vec::new(), 0.0_f64);
        for (name, way) in self.keys {
            let Some((key, Value::Number(from))) = values.find(name) else { continue };
            let (from, to) = (*from, moved(key, *from, *way));
            let left_out = !listed && matches!(key.kind, Kind::Among { .. });
            if to == from || left_out || values.idle(key).is_some() {
                continue;
            }
            let factor = if *way == Wider::More { to / from } else { from / to };
            most = most.max(factor - 1.0);
            wide.put(key, Value::Number(to));
            changes.push(Change { key: key.name, unit: key.unit(), from, to });
        }
        (!changes.is_empty()).then_some((wide, changes, most))
    }
}

/// Returns a number of `key` that is wider by [`STEP`], or by the least step that the key has; the
/// same number if there is none. A number without steps may leave the key's range, which is for
/// people.
fn moved(key: &Key, from: f64, way: Wider) -> f64 {
    let ideal = if way == Wider::More { from * (1.0 + STEP) } else { from / (1.0 + STEP) };
    match (key.kind, way) {
        (Kind::Number { step: 0.0, .. }, _) => ideal,
        (Kind::Number { max, step, .. }, Wider::More) => {
            ((ideal / step - ROUNDING).ceil() * step).min((max / step).floor() * step).max(from)
        }
        (Kind::Number { min, step, .. }, Wider::Less) => {
            ((ideal / step + ROUNDING).floor() * step).max((min / step).ceil() * step).min(from)
        }
        (Kind::Among { values, .. }, Wider::More) => {
            values.iter().copied().find(|v| *v > from).unwrap_or(from)
        }
        (Kind::Among { values, .. }, Wider::Less) => {
            values.iter().copied().rfind(|v| *v < from).unwrap_or(from)
        }
        (Kind::Choice | Kind::File | Kind::Faults(_) | Kind::Mix, _) => from,
    }
}

/// A key's number before and after its resource was made wider.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
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
#[derive(Clone, PartialEq, Debug, Serialize)]
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

/// The limits of a run.
#[derive(Clone, PartialEq, Default, Debug)]
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

impl Serialize for Limits {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut out = s.serialize_struct("Limits", 3)?;
        out.serialize_field("binds", &self.binds)?;
        out.serialize_field("said", &self.said())?;
        out.serialize_field("resources", &self.resources)?;
        out.end()
    }
}

/// Returns the share of each resource that was used over the window, 1 at its limit, the most used
/// first: cores, buses, links of what they carry at most, the port, and the device's pipeline.
pub fn shares(of: &System, values: &Values, m: &Measured) -> Vec<(String, f64)> {
    let port = values.bits_per_second(of.port_rate) as f64;
    let packet_time = values.number_if_any("nic.packet_time").unwrap_or(0.0) * 1e-9;
    let share = |rate: &Rate| match rate.metric.uses? {
        Use::Share => Some((rate.metric.name, rate.value)),
        Use::Port(name) => Some((name, rate.value / port)),
        Use::Pipeline(name) => (packet_time > 0.0).then_some((name, rate.value * packet_time)),
    };
    let mut all: Vec<_> = m.rates.iter().filter_map(share).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.into_iter().map(|(name, share)| (name.to_owned(), rounded(share))).collect()
}

/// Finds what limits a run of these values that measured `m`: repeats it on all cores with each
/// resource wider. Ends early, with what is known so far, when `stop` says so.
pub fn find(
    system: &System,
    values: &Values,
    frames: Option<&Arc<Frames>>,
    m: &Measured,
    stop: &(dyn Fn() -> bool + Sync),
) -> Limits {
    let (shares, rate) = (shares(system, values, m), m.packets_per_s());
    let judge = |_: usize, resource: &Resource| -> Result<(Limit, f64), Infallible> {
        let used = shares.iter().filter(|(name, _)| resource.shares.contains(&&**name));
        let share = used.map(|(_, share)| *share).reduce(f64::max);
        let none = Limit { resource: resource.name, share, gain: None, wider: Vec::new() };
        let mut found = (none, 0.0);
        // The next value of a list may not go with the others: PCI has no clock of 100 MHz.
        for listed in [true, false] {
            let Some((wide, wider, factor)) = resource.widened(values, listed) else { continue };
            if wider == found.0.wider {
                break;
            }
            let run = system.run(&wide, frames, &mut While(&|| !stop()));
            let gain = run.ok().filter(|_| rate > 0.0).map(|r| r.packets_per_s() / rate - 1.0);
            let share = gain.unwrap_or(0.0) / factor;
            found = (Limit { gain: gain.map(rounded), wider, ..found.0 }, share);
            if gain.is_some() {
                break;
            }
        }
        Ok(found)
    };
    let Ok(mut all) = in_parallel(system.resources, judge);
    all.retain(|(l, _)| l.share.is_some() || l.gain.is_some());
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let gains = |(_, by): &&(Limit, f64)| *by >= BINDS;
    let used_up = |(l, _): &&(Limit, f64)| l.gain.is_none() && l.share.is_some_and(|s| s >= FULL);
    let binds = all.first().filter(gains).or_else(|| all.iter().find(used_up));
    let binds = binds.map(|(l, _)| l.resource);
    Limits { resources: all.into_iter().map(|(l, _)| l).collect(), binds }
}

#[cfg(test)]
mod tests;
