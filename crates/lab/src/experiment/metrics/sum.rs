//! Sums of numbers of a result, with units.

use super::RATES;
use crate::config::hint_of_number;
use crate::config::key::{convert, units};
use crate::experiment::{result::Numbers, system::System};

/// A number of a result, or a sum of numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sum {
    /// The names, with `+` between them.
    pub name: String,
    /// The unit, if all have the same.
    pub unit: &'static str,
    /// True if it is counted by packet.
    pub by_packet: bool,
}

impl Sum {
    /// Reads names with `+` between them.
    ///
    /// # Errors
    /// Returns an error with the nearest name if the system has no such number.
    pub fn parse(system: &System, text: &str) -> Result<Sum, String> {
        let all = super::of(system);
        let (mut unit, mut by_packet) = (None, true);
        let names: Vec<&str> = text.split('+').map(str::trim).collect();
        for name in &names {
            let Some(metric) = all.iter().find(|m| m.name == *name) else {
                let near = hint_of_number(name, all.iter().map(|m| m.name.as_str()));
                let has = format!("`doorbell list --metrics {}` has all", system.name);
                return Err(format!("no metric is called `{name}`{near}; {has}"));
            };
            if *unit.get_or_insert(metric.unit) != metric.unit {
                return Err(format!("`{text}` adds numbers of different units"));
            }
            by_packet &= !is_of_window(system, name) && !name.starts_with("latency_ns.");
        }
        let unit = unit.unwrap_or_default();
        Ok(Sum { name: names.join("+"), unit, by_packet })
    }

    /// Returns whether it is a number a second.
    pub fn is_rate(&self) -> bool {
        self.unit.ends_with("/s")
    }

    /// Returns the size of a unit in its own.
    ///
    /// # Errors
    /// Returns an error with the units that are allowed.
    pub fn size_of(&self, unit: Option<&str>) -> Result<f64, String> {
        let own = self.unit;
        let size = match (own, unit) {
            ("", None) => Some(1.0),
            ("1/s", Some("1/s")) | ("of 1", Some("of 1")) => Some(1.0),
            ("1/s", Some(other)) => convert(1.0, other, "pps"),
            ("of 1", Some("%")) => Some(0.01),
            (own, Some(other)) if !own.is_empty() => convert(1.0, other, own),
            _ => None,
        };
        size.ok_or_else(|| {
            let name = &self.name;
            let allowed = match own {
                "" => return format!("`{name}` is a pure number; allowed: no unit"),
                "1/s" => format!("1/s, {}", units("pps").join(", ")),
                "of 1" => "of 1, %".to_owned(),
                own => units(own).join(", "),
            };
            match unit {
                None => format!("`{name}` needs a unit; allowed units: {allowed}"),
                Some(unit) => format!("`{name}` cannot be in `{unit}`; allowed units: {allowed}"),
            }
        })
    }

    /// Returns its value in a result, or the name that the result lacks.
    pub(crate) fn of(&self, numbers: &Numbers) -> Result<f64, String> {
        let mut sum = 0.0;
        for name in self.name.split('+') {
            sum += numbers.get(name).ok_or_else(|| name.to_owned())?;
        }
        Ok(sum)
    }
}

/// Returns whether the number is a rate, a share or a mean over the window of the rates.
fn is_of_window(system: &System, name: &str) -> bool {
    let all = RATES.iter().chain(system.numbers.rates.iter().copied().flatten());
    all.into_iter().any(|(rate, _)| *rate == name)
}
