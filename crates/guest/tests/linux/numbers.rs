//! Counters by name.

use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Index;

/// Counters of a server, of a driver, of a report; or differences of them.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Numbers(BTreeMap<String, i64>);

impl Index<&str> for Numbers {
    type Output = i64;

    #[track_caller]
    fn index(&self, name: &str) -> &i64 {
        match self.0.get(name) {
            Some(value) => value,
            None => panic!("there is no counter `{name}`"),
        }
    }
}

impl<K: Into<String>> FromIterator<(K, i64)> for Numbers {
    fn from_iter<I: IntoIterator<Item = (K, i64)>>(all: I) -> Numbers {
        Numbers(all.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }
}

impl Numbers {
    /// Parses a server's page: `doorbell_NAME_total{device="…"} COUNT`.
    pub(crate) fn of_page(page: &str) -> Numbers {
        let count = |line: &str| {
            let (name, rest) = line.strip_prefix("doorbell_")?.split_once('{')?;
            let name = name.strip_suffix("_total").unwrap_or(name);
            Some((name.to_owned(), rest.split_once("} ")?.1.parse().ok()?))
        };
        page.lines().filter_map(count).collect()
    }

    /// Parses the counts of a machine in virtual time, under the names that a server's have.
    pub(crate) fn of_machine(text: &str) -> Numbers {
        let count = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            let name = match (name.strip_prefix("ledger."), name.strip_prefix("device.")) {
                (Some(name), _) => name.to_owned(),
                (_, Some(name)) => format!("device_{name}"),
                _ if name == "offered.frames" => "arrived_frames".to_owned(),
                _ if name == "sent_again" => "peer_sent_again".to_owned(),
                _ => return None,
            };
            Some((name, value.parse().ok()?))
        };
        text.lines().filter_map(count).collect()
    }

    /// Parses `ethtool -S`.
    pub(crate) fn of_ethtool(text: &str) -> Numbers {
        let count = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_owned(), value.trim().parse().ok()?))
        };
        text.lines().filter_map(count).collect()
    }

    /// Takes the counters of an object.
    #[track_caller]
    pub(crate) fn of_json(object: &Value) -> Numbers {
        let all = object.as_object().expect("an object");
        all.iter().filter_map(|(k, v)| Some((k, v.as_i64()?))).collect()
    }

    /// Returns a counter, or 0 if there is none.
    pub(crate) fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Returns the sum of counters.
    #[track_caller]
    pub(crate) fn sum(&self, names: &[&str]) -> i64 {
        names.iter().map(|n| self[n]).sum()
    }

    /// Returns what was added since `earlier`.
    pub(crate) fn since(&self, earlier: &Numbers) -> Numbers {
        self.iter().map(|(k, v)| (k, v - earlier.get(k))).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(k, v)| (&**k, *v))
    }

    /// Prints what a frame cost.
    pub(crate) fn print_a_frame(&self, frames: i64, names: &[&str]) {
        let each = |n: &&str| format!("{n} {:.3} a frame", self[n] as f64 / frames as f64);
        println!("      {}", names.iter().map(each).collect::<Vec<_>>().join("; "));
    }
}
