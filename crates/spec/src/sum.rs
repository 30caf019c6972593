//! Sums of numbers of a result, with units.

use crate::key::{convert, units};
use crate::metric::{Kind, Metric};
use crate::number::{Number, Numbers};
use crate::trade::hint_of_number;
use doorbell_hal::Unit;

/// A number of a result, or a sum of numbers of one unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sum {
    /// The names, with `+` between them.
    pub name: String,
    /// The numbers, at least one.
    pub metrics: Vec<Metric>,
}

impl Sum {
    /// Reads names with `+` between them: numbers of the `system`, which has these `metrics`.
    ///
    /// # Errors
    /// Returns an error with the nearest name if the system has no such number, or if they have
    /// different units.
    pub fn parse(system: &str, metrics: &[Metric], text: &str) -> Result<Sum, String> {
        let metric = |name: &str| {
            metrics.iter().find(|m| m.name == name).copied().ok_or_else(|| {
                let near = hint_of_number(name, metrics.iter().map(|m| m.name));
                let has = format!("`doorbell list --metrics {system}` has all");
                format!("no metric is called `{name}`{near}; {has}")
            })
        };
        let names = text.split('+').map(str::trim);
        let metrics = names.map(metric).collect::<Result<Vec<_>, _>>()?;
        if metrics.iter().any(|m| m.unit.name() != metrics[0].unit.name()) {
            return Err(format!("`{text}` adds numbers of different units"));
        }
        let names: Vec<&str> = metrics.iter().map(|m| m.name).collect();
        Ok(Sum { name: names.join("+"), metrics })
    }

    /// Returns the unit.
    pub fn unit(&self) -> Unit {
        self.metrics[0].unit
    }

    /// Returns the part of a result that all of its numbers are in, if it is one.
    pub fn kind(&self) -> Option<Kind> {
        let first = self.metrics[0].kind;
        self.metrics.iter().all(|m| m.kind == first).then_some(first)
    }

    /// Returns true if more is better, false if less is.
    pub fn is_better_high(&self) -> bool {
        self.metrics.iter().all(Metric::is_better_high)
    }

    /// Returns true if it is counted by packet.
    pub fn is_by_packet(&self) -> bool {
        self.metrics.iter().all(Metric::is_by_packet)
    }

    /// Returns true if it is a number a second.
    pub fn is_rate(&self) -> bool {
        matches!(self.unit(), Unit::PerSecond | Unit::PacketsPerSecond | Unit::BitsPerSecond)
    }

    /// Returns the size of a unit in its own.
    ///
    /// # Errors
    /// Returns an error with the units that are allowed.
    pub fn size_of(&self, unit: Option<&str>) -> Result<f64, String> {
        let own = self.unit().name();
        let size = match (self.unit(), unit) {
            (Unit::Count, None) => Some(1.0),
            (Unit::PerSecond | Unit::PacketsPerSecond, Some("1/s"))
            | (Unit::Share, Some("of 1")) => Some(1.0),
            (Unit::PerSecond | Unit::PacketsPerSecond, Some(other)) => convert(1.0, other, "pps"),
            (Unit::Share, Some("%")) => Some(0.01),
            (Unit::Count, Some(_)) => None,
            (_, Some(other)) => convert(1.0, other, own),
            (_, None) => None,
        };
        size.ok_or_else(|| {
            let name = &self.name;
            let allowed = match self.unit() {
                Unit::Count => return format!("`{name}` is a pure number; allowed: no unit"),
                Unit::PerSecond | Unit::PacketsPerSecond => {
                    format!("1/s, {}", units("pps").join(", "))
                }
                Unit::Share => "of 1, %".to_owned(),
                _ => units(own).join(", "),
            };
            match unit {
                None => format!("`{name}` needs a unit; allowed units: {allowed}"),
                Some(unit) => format!("`{name}` cannot be in `{unit}`; allowed units: {allowed}"),
            }
        })
    }

    /// Returns its value in a result, with half of its 95 % interval where all parts have one. The
    /// error is the name of a number that the result lacks.
    pub fn of(&self, numbers: &Numbers) -> Result<(f64, Option<f64>), &'static str> {
        let mut sum = (0.0, Some(0.0));
        for m in &self.metrics {
            let Number { value, error, .. } = numbers.get(m.name).ok_or(m.name)?;
            sum = (sum.0 + value, sum.1.zip(*error).map(|(a, b)| a + b));
        }
        Ok(sum)
    }
}
