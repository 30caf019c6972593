//! Ranges of numbers in a list of values: `1..8`, `64..1500:64`, `1..64:x2`, `1us..64us:x4`.

use doorbell_spec::{SettingError, refuse};

/// The most values of a range.
const MOST: usize = 10_000;

/// A step from one value to the next.
enum Step {
    Plus(f64),
    Times(f64),
}

/// Returns the values of a range with the unit of its ends, or the text itself if it is none.
/// Refuses a range of words, and one of too many numbers.
pub fn values(text: &str) -> Result<Vec<String>, SettingError> {
    let Some((first, rest)) = text.split_once("..") else { return Ok(vec![text.to_owned()]) };
    let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
    let (Some((first, unit)), Some((last, of_last))) = (number(first), number(last)) else {
        return Err("a range is of numbers, such as 1..8 or 64..1500:64".into());
    };
    if !unit.is_empty() && unit != of_last {
        refuse!("the unit of one end is `{unit}`, that of the other `{of_last}`");
    }
    let (by, times) = step.strip_prefix('x').map_or((step, false), |s| (s, true));
    let step = match (by.parse::<f64>(), times) {
        (Ok(by), true) if by > 1.0 && by.is_finite() && first > 0.0 => Step::Times(by),
        (Ok(by), false) if by > 0.0 && by.is_finite() => Step::Plus(by),
        _ => refuse!("the step `{step}` is not a number over 0, nor x and a number over 1"),
    };
    if first > last {
        return Err("the first is more than the last".into());
    }
    // A sum of steps misses the last value by a rounding error at most.
    let room = last * (1.0 + 1e-12);
    let nth = |n: usize| match step {
        Step::Plus(by) => first + by * n as f64,
        Step::Times(by) => first * by.powi(n as i32),
    };
    let all: Vec<f64> = (0..=MOST).map(nth).take_while(|x| *x <= room).collect();
    if all.len() > MOST {
        refuse!("more than {MOST} values");
    }
    // Twelve digits: what is left of a rounding error goes.
    let shown = |x: f64| format!("{}{of_last}", format!("{x:.11e}").parse().unwrap_or(x));
    Ok(all.into_iter().map(shown).collect())
}

/// Splits a number from its unit, which has no digit: `1e3` is none.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let is_unit = !unit.contains(|c: char| c.is_ascii_digit() || c == '.');
    number.parse().ok().filter(|_| is_unit).map(|n| (n, unit))
}

#[cfg(test)]
mod tests;
