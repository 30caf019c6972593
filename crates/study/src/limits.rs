//! The limit of a run: the share of each resource that was used, and the resource that binds.
//!
//! A share alone does not tell what limits: a core that polls is always busy, and a link may be
//! full of what a wider one would not carry. So each [`Resource`] of the system is made wider by
//! [`STEP`], one at a time, and the run repeated. The one whose widening gains most is the limit. A
//! resource that cannot be made wider is taken for the limit if it is used up and no other gains.

use doorbell_sim::{traffic::Frames, watch::While};
use doorbell_spec::key::{Key, Kind, Value, Values};
use doorbell_systems::in_parallel;
use doorbell_systems::limits::{Change, Limit, Limits, Resource, Wider, shares};
use doorbell_systems::result::{Measured, rounded};
use doorbell_systems::system::System;
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

/// Returns the values with the resource wider, the keys that changed, and the greatest share
/// by which one did. `None` if no key that has an effect can be moved. Keys with a list of
/// values are moved only if `listed`.
fn widened(
    resource: &Resource,
    values: &Values,
    listed: bool,
) -> Option<(Values, Vec<Change>, f64)> {
    let (mut wide, mut changes, mut most) = (values.clone(), Vec::new(), 0.0_f64);
    for (name, way) in resource.keys {
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
            let Some((wide, wider, factor)) = widened(resource, values, listed) else { continue };
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
