//! The bill: the cost of a packet at each crossing, in five parts.
//!
//! The parts are CPU cycles by cause, and those that the ledger declares with its counters
//! ([`ledger::Part`]).

use doorbell_bus::{Ledger, ledger};

/// A part of the bill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The name: `cycles`.
    pub name: &'static str,
    /// The heading that people read.
    pub title: &'static str,
    /// The unit of its items.
    pub unit: &'static str,
    /// The part of the ledger; `None` for cycles.
    counters: Option<ledger::Part>,
}

/// The prefix of costs in a result: `cycles_stack`.
const CYCLES: &str = "cycles_";

const fn part(name: &'static str, title: &'static str, counters: Option<ledger::Part>) -> Part {
    Part { name, title, unit: name, counters }
}

/// The parts, in the order of a bill.
pub static PARTS: [Part; 5] = [
    part("cycles", "CPU cycles", None),
    part("bytes", "Bytes on the bus", Some(ledger::Part::Bytes)),
    part("transactions", "Transactions on the bus", Some(ledger::Part::Transactions)),
    part("calls", "Calls out of the CPU", Some(ledger::Part::Calls)),
    part("interrupts", "Interrupts", Some(ledger::Part::Interrupts)),
];

impl Part {
    /// Returns the title of the number `name` of a packet, if it is an item of this part.
    pub fn item(&self, name: &str) -> Option<String> {
        let Some(part) = self.counters else {
            return name.strip_prefix(CYCLES).map(|cause| cause.replace('_', " "));
        };
        let counter = Ledger::COUNTERS.iter().find(|c| c.name == name)?;
        counter.part.filter(|p| p.0 == part).map(|(_, title)| title.to_owned())
    }

    /// Returns name, title and value of each item of a packet that is not zero.
    pub fn of(&self, per_packet: &[(String, f64)]) -> Vec<(String, String, f64)> {
        let all = per_packet.iter().filter(|(_, v)| *v != 0.0);
        all.filter_map(|(name, v)| Some((name.clone(), self.item(name)?, *v))).collect()
    }
}

#[cfg(test)]
mod tests;
