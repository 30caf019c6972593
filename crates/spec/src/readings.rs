//! The numbers of a result that is read back: by the group that they are in, with their errors,
//! their ranges over several boots, and those over time.

use crate::number::{Number, Numbers};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Groups whose numbers are known by their own names. A budget of an older version names the group
/// too.
pub const NAMED: [&str; 2] = ["per_packet", "rates"];

/// Splits a name into such a group, if it begins with one, and the number's own name.
pub fn ungrouped(name: &str) -> (Option<&'static str>, &str) {
    let within = |g: &'static str| Some((Some(g), name.strip_prefix(g)?.strip_prefix('.')?));
    NAMED.iter().find_map(|g| within(g)).unwrap_or((None, name))
}

/// The numbers of a run, a served device or a workload in a guest, as its JSON has them. Checks,
/// pages and the tables of guests read them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Readings {
    /// In the order of the file. Members of no group are in the group without a name.
    groups: Vec<(String, Numbers)>,
    /// Pairs of time in ms and value, by name.
    series: Vec<(String, Vec<(f64, f64)>)>,
}

impl Readings {
    /// Takes the numbers of the members of a result. A function of a guest has its instructions a
    /// packet, all modules together.
    pub fn of(members: &Map<String, Value>) -> Readings {
        let mut all = Readings::default();
        let own = members.iter().filter(|(name, _)| *name != "schema");
        all.put("", own);
        for (group, inner) in members.iter().filter_map(|(g, v)| Some((g, v.as_object()?))) {
            all.put(group, inner.iter());
        }
        all.take_functions(members.get("functions"));
        all.take_errors();
        all.take_ranges(members.get("boots"));
        let series = members.get("series").and_then(Value::as_object).into_iter().flatten();
        let points = |(name, v): (&String, &Value)| {
            Some((name.clone(), serde_json::from_value(v.clone()).ok()?))
        };
        all.series = series.filter_map(points).collect();
        all
    }

    fn put<'v>(&mut self, group: &str, members: impl Iterator<Item = (&'v String, &'v Value)>) {
        let number = |(name, v): (&String, &Value)| Some(Number::new(name.clone(), v.as_f64()?));
        self.groups.push((group.to_owned(), Numbers(members.filter_map(number).collect())));
    }

    fn take_functions(&mut self, functions: Option<&Value>) {
        let mut all: BTreeMap<&str, f64> = BTreeMap::new();
        for f in functions.and_then(Value::as_array).into_iter().flatten() {
            if let (Some(name), Some(n)) = (f["function"].as_str(), f["per_packet"].as_f64()) {
                *all.entry(name).or_default() += n;
            }
        }
        let all = all.into_iter().map(|(name, n)| Number::new(name.to_owned(), n)).collect();
        self.groups.push(("functions".to_owned(), Numbers(all)));
    }

    /// Gives numbers the errors that are in groups of their own: `rates_error`.
    fn take_errors(&mut self) {
        for i in 0..self.groups.len() {
            let Some(of) = self.groups[i].0.strip_suffix("_error").map(str::to_owned) else {
                continue;
            };
            let errors = self.groups[i].1.clone();
            for number in self.groups.iter_mut().filter(|g| g.0 == of).flat_map(|g| &mut g.1.0) {
                number.error = errors.get(&number.name).map(|e| e.value);
            }
        }
    }

    /// Gives numbers of several boots their lowest and their highest value. Those that are not
    /// listed are the same in all.
    fn take_ranges(&mut self, boots: Option<&Value>) {
        if self.value("boots", "boots").is_none_or(|boots| boots < 2.0) {
            return;
        }
        let spread = boots.map_or(&Value::Null, |boots| &boots["spread"]);
        for (group, numbers) in &mut self.groups {
            for n in &mut numbers.0 {
                let listed = &spread[dotted(group, &n.name)];
                let range = [0, 1].map(|end| listed[end].as_f64().unwrap_or(n.value));
                n.range = Some(range);
            }
        }
    }

    /// Returns the numbers of a group in their order.
    pub fn group(&self, name: &str) -> &[Number] {
        self.groups.iter().find(|g| g.0 == name).map_or(&[], |g| &g.1.0)
    }

    /// Returns a number of a group.
    pub fn number(&self, group: &str, name: &str) -> Option<&Number> {
        self.group(group).iter().find(|n| n.name == name)
    }

    /// Returns the value of a number of a group.
    pub fn value(&self, group: &str, name: &str) -> Option<f64> {
        self.number(group, name).map(|n| n.value)
    }

    /// Returns a number by the name that all commands have for it: `latency_ns.p99`,
    /// `ledger.mmio_writes`, and without its group where that is one of [`NAMED`].
    pub fn named(&self, name: &str) -> Option<&Number> {
        let within = |group: &str| match group {
            "" => Some(name),
            group => name.strip_prefix(group)?.strip_prefix('.'),
        };
        let mut all = self.groups.iter().filter_map(|(group, all)| all.get(within(group)?));
        all.next().or_else(|| NAMED.iter().find_map(|group| self.number(group, name)))
    }

    /// Returns the names of the numbers over time.
    pub fn series(&self) -> impl Iterator<Item = &str> {
        self.series.iter().map(|(name, _)| name.as_str())
    }

    /// Returns pairs of time in ms and value.
    pub fn over_time(&self, name: &str) -> Option<&[(f64, f64)]> {
        self.series.iter().find(|s| s.0 == name).map(|s| &*s.1)
    }

    /// Returns all numbers with their groups.
    fn all(&self) -> impl Iterator<Item = (&str, &Number)> {
        self.groups.iter().flat_map(|(group, all)| all.0.iter().map(|n| (group.as_str(), n)))
    }

    /// Returns the values of all numbers by the names that they have with their groups.
    pub fn by_name(&self) -> BTreeMap<String, f64> {
        self.all().map(|(group, n)| (dotted(group, &n.name), n.value)).collect()
    }
}

/// Returns the name of a number with its group.
fn dotted(group: &str, name: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{group}.{name}") }
}

#[cfg(test)]
mod tests;
