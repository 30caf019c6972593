//! A profile as constants and choices of a reproduction.

use super::{Choice, Constant, Constants, Perturbation, Source};
use doorbell_spec::key::{Key, Kind, Value, Values};
use doorbell_systems::profile::Profile;
use doorbell_systems::published::ModelChoice;

/// Returns the values of a profile with these constants.
pub(super) fn with(profile: &Profile, constants: &Constants) -> Values {
    let mut all = profile.all_values();
    apply(constants.choices().iter(), constants.iter(), &mut all);
    all
}

/// Returns a declared choice, with its value.
///
/// # Panics
/// Panics if the choice is of a key that the system does not have: a fault of its author.
pub(super) fn choice(profile: &Profile, c: &ModelChoice) -> Choice {
    if let Some((value, source)) = c.taken {
        return Choice::new(c.key, value, c.alternatives, source, c.rows).unit(c.unit);
    }
    let all = profile.all_values();
    let unit = all.keys().iter().find(|k| k.name == c.key).map_or("", |k| k.unit());
    let source = profile.source(c.key).map_or("default".to_owned(), Source::to_string);
    Choice::new(c.key, &all.get(c.key).to_string(), c.alternatives, &source, c.rows).unit(unit)
}

/// Returns the numbers of a profile as constants of a reproduction, in the system's order. Words
/// are not constants: they choose between models.
pub(crate) fn constants(profile: &Profile) -> Vec<Constant> {
    let numbers = profile.values.iter().filter_map(|(k, v)| match v {
        Value::Number(n) => Some((k, *n)),
        Value::Word(_) | Value::Text(_) => None,
    });
    let constants = numbers.map(|(key, value)| Constant {
        key: key.name.to_owned(),
        value,
        unit: key.unit().to_owned(),
        source: profile.source(key.name).cloned().unwrap_or(Source::Cited("default".to_owned())),
        by_hand: false,
        nudge: nudge(key, value),
    });
    constants.collect()
}

/// Returns the step of a value of this key in a sensitivity run: 1 %, or to the next allowed value.
fn nudge(key: &Key, value: f64) -> Perturbation {
    use Perturbation::{Abs, Rel};
    match key.kind {
        Kind::Among { values, .. } => {
            let at = values.iter().position(|v| *v == value).unwrap_or(0);
            let next = values.get(at + 1).or_else(|| values.get(at.wrapping_sub(1)));
            Abs(next.map_or(0.0, |n| n - value))
        }
        Kind::Number { max, step, .. } if step > 0.0 => {
            Abs(if value + step <= max { step } else { -step })
        }
        Kind::Number { min, max, .. } if value == 0.0 => Abs(((max - min) * 0.01).min(1.0)),
        Kind::Number { max, .. } if value * 1.01 > max => Rel(-0.01),
        _ => Rel(0.01),
    }
}

/// Sets every key that has a constant or a choice. Unlike a user, a solver or a sensitivity run may
/// leave the steps of a key. Panics if the alternative of a choice is not allowed: a fault of its
/// author.
pub(super) fn apply<'a>(
    choices: impl Iterator<Item = &'a Choice>,
    numbers: impl Iterator<Item = &'a Constant>,
    values: &mut Values,
) {
    for choice in choices {
        if let Some((key, v)) = values.find_mut(&choice.key) {
            *v = key.parse(choice.value()).unwrap_or_else(|e| panic!("{e}"));
        }
    }
    for c in numbers {
        if let Some((_, v)) = values.find_mut(&c.key) {
            *v = Value::Number(c.value);
        }
    }
}

#[cfg(test)]
mod tests;
