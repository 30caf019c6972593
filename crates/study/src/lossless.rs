//! The greatest load of arriving frames that loses no more than a given share of them.
//!
//! A binary search over `traffic.load`. That a greater load loses more is assumed; what a short run
//! does not lose yet, because a ring or a FIFO still fills, it does not see.

use doorbell_sim::watch::While;
use doorbell_spec::SettingError;
use doorbell_spec::key::{Key, Kind, Value, Values};
use doorbell_spec::number::significant;
use doorbell_systems::metrics::LOST_SHARE;
use doorbell_systems::system::System;
use doorbell_systems::{RunError, arrivals};

/// The key that is searched, a share of the link in percent.
pub const LOAD: &str = "traffic.load";
/// The width of the search, as a share of the load found.
pub const WIDTH: f64 = 1e-3;
/// The digits of a load.
const DIGITS: u32 = 5;

/// Returns the key of the load, if these values have frames arrive at one.
///
/// # Errors
/// They do not. The error says why.
fn key(values: &Values) -> Result<(&'static Key, f64), SettingError> {
    let known = values.find(LOAD).filter(|_| values.word("traffic.kind") == arrivals::KIND);
    let Some((key, Value::Number(load))) = known else {
        return Err(SettingError(format!(
            "frames that arrive at a share of the link are needed: set `traffic.kind` to \
             \"{}\"",
            arrivals::KIND
        )));
    };
    match values.idle(key) {
        None => Ok((key, *load)),
        Some(why) => Err(SettingError(format!("`{LOAD}` has no effect: {why}"))),
    }
}

/// Finds the greatest load, up to that of these values, that loses at most the share `most`, within
/// [`WIDTH`] of it. `None` if the least load loses more.
///
/// # Errors
/// The values have no such load, or a run of them has no result. Ends early when `stop` says so.
pub fn find(
    system: &System,
    values: &Values,
    most: f64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<f64>, RunError> {
    let (key, asked) = key(values)?;
    let Kind::Number { min: least, .. } = key.kind else { return Ok(None) };
    let loses = |load: f64| {
        let mut v = values.clone();
        v.put(key, Value::Number(load));
        let run = system.run(&v, None, &mut While(&|| !stop()))?;
        Ok::<bool, RunError>(run.number(LOST_SHARE.name).is_some_and(|share| share > most))
    };
    if !loses(asked)? {
        return Ok(Some(asked));
    }
    if loses(least)? {
        return Ok(None);
    }
    let (mut kept, mut lost) = (least, asked);
    while lost - kept > WIDTH * lost {
        // The mean of the logarithms: a load may be found anywhere between a millionth and all.
        let middle = if kept * 4.0 < lost { (kept * lost).sqrt() } else { (kept + lost) / 2.0 };
        let load = significant(middle, DIGITS);
        if load <= kept || load >= lost {
            break;
        }
        if loses(load)? { lost = load } else { kept = load }
    }
    Ok(Some(kept))
}

#[cfg(test)]
mod tests;
