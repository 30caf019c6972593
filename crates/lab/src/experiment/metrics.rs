//! The numbers of a result: their names, units and meanings, and the place where each is counted.
//!
//! The names are those of `run --format json`, and those that options, budgets and sweeps take.

mod sum;

use crate::config::{SettingError, hint_of_number};
use crate::experiment::audit::FAULTS;
use crate::experiment::papr::Call;
use crate::experiment::system::System;
use doorbell_bus::{Ledger, ledger};
use doorbell_hal::WorkKind;
pub use sum::Sum;

/// A number of a result.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Metric {
    /// The name. Counts and cycles are by packet under this name, and in all in `ledger`.
    pub name: String,
    /// The unit.
    pub unit: &'static str,
    /// The place where it is counted, or its origin.
    pub counted: &'static str,
    /// The meaning.
    pub about: String,
}

/// The frames that find no buffer of the driver, counted under this name.
pub(crate) const fn no_buffer(counter: &'static str) -> Lost {
    Lost { counter, of: "received frames", want: "buffer of the driver" }
}

/// Names with their meanings.
pub type Named = &'static [(&'static str, &'static str)];

/// Numbers that not every system has.
#[derive(Debug)]
pub struct Numbers {
    /// The beginnings of the names of its buses' counts: `pcie_`.
    pub buses: &'static [&'static str],
    /// Rates and shares with their meanings, besides [`RATES`].
    pub rates: &'static [Named],
    /// Counters of driver and device: the beginning of their names, then names and sentences.
    pub counters: &'static [(&'static str, Named)],
    /// Its hypervisor calls.
    pub calls: &'static [Call],
    /// The counts of what is lost for want of something.
    pub losses: &'static [Lost],
}

/// A count of what is lost without a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The name of the count.
    pub counter: &'static str,
    /// The things that are lost: `received frames`.
    pub of: &'static str,
    /// The thing that they do not find: `room in the device`.
    pub want: &'static str,
}

/// The frames that a device has no room for.
pub(crate) const MISSED: Lost =
    Lost { counter: "device_rx_missed", of: "received frames", want: "room in the device" };

/// Rates that every system has.
pub const RATES: Named = &[
    ("packets_per_s", "packets sent, or received where the load is received"),
    ("cpu_busy_share", "time that the cores were busy"),
];

/// Rates of a system whose load goes both ways.
pub const BOTH_WAYS: Named = &[
    ("payload_bits_per_s", "payload that arrived"),
    ("wire_out_bits_per_s", "frames sent, with preamble, FCS and gap"),
    ("wire_in_bits_per_s", "frames received, with preamble, FCS and gap"),
    ("interrupts_per_s", "interrupts taken"),
    ("polls_per_s", "polls made"),
];

/// The share of received frames that a device had no room for, with its meaning.
pub const LOST_SHARE: (&str, &str) =
    ("lost_share", "of the frames that came, those that found no room in the device");

const LATENCIES: [(&str, &str); 6] = [
    ("min", "the least latency"),
    ("p50", "the median of the latencies"),
    ("p90", "the latency that 90 % do not exceed"),
    ("p99", "the latency that 99 % do not exceed"),
    ("p999", "the latency that 99.9 % do not exceed"),
    ("max", "the greatest latency"),
];

/// Buses, by how the names of their counts begin.
const BUSES: [&str; 5] = ["pcie_", "pci_", "pcix_", "axi_", "tce_"];

/// Returns the unit of a rate or share by the end of its name.
pub fn unit_of_rate(name: &str) -> &'static str {
    let ends = [
        ("bits_per_s", "bit/s"),
        ("_per_s", "1/s"),
        ("_share", "of 1"),
        ("_us", "us"),
        ("_ns_a_packet", "ns"),
        ("_bytes", "B"),
    ];
    ends.into_iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
}

fn unit_of_count(name: &str) -> &'static str {
    if name.ends_with("_bytes") { "B" } else { "" }
}

impl Numbers {
    /// Returns whether a system has this count of the ledger.
    pub fn has(&self, count: &str) -> bool {
        let bus = BUSES.iter().find(|b| count.starts_with(**b));
        bus.is_none_or(|b| self.buses.contains(b))
    }
}

/// Returns the numbers of a system's results, in the order of tables.
pub fn of(system: &System) -> Vec<Metric> {
    let n = &system.numbers;
    let metric = |name: &str, unit, counted, about: &str| Metric {
        name: name.to_owned(),
        unit,
        counted,
        about: about.trim_end_matches('.').to_owned(),
    };
    let rates = RATES.iter().chain(n.rates.iter().copied().flatten()).map(|(name, about)| {
        metric(name, unit_of_rate(name), "over the window of the rates", about)
    });
    let latencies = LATENCIES.iter().map(|(name, about)| {
        let counted = "each packet or transaction; quantiles within 0.2 %";
        metric(&format!("latency_ns.{name}"), "ns", counted, about)
    });
    let priced = "times the work was done, at the profile's prices";
    let works = WorkKind::ALL.iter().map(|w| (w.name(), format!("CPU time of {}", w.name())));
    let stalled = ("registers_and_fences", "time that cores waited for these".to_owned());
    let cycles = works.chain([stalled]).map(|(name, about)| {
        metric(&format!("cycles_{name}"), "cycles", priced, &about.replace('_', " "))
    });
    let all_cycles = metric("cycles", "cycles", priced, "CPU time in all");
    let ledger = Ledger::COUNTERS.iter().filter(|c| n.has(c.name)).map(|c| {
        let counted = match c.group {
            ledger::Group::Bus => "between CPU and device",
            ledger::Group::Cpu => "at the host interface of the driver",
            ledger::Group::Wire => "on the wire",
        };
        metric(c.name, unit_of_count(c.name), counted, c.about)
    });
    let calls = n.calls.iter().map(|c| {
        let about = format!("Calls of {}", c.name.trim_start_matches("hcall_").to_uppercase());
        metric(c.name, "", "between CPU and device", &about)
    });
    let counters = n.counters.iter().flat_map(|(begin, all)| {
        let counted = if begin.starts_with("driver") { "by the driver" } else { "by the device" };
        all.iter().map(move |(name, about)| {
            metric(&format!("{begin}{name}"), unit_of_count(name), counted, about)
        })
    });
    let faults = FAULTS.iter().map(|(name, about)| metric(name, "", "with run.fault", about));
    rates
        .chain(latencies)
        .chain([all_cycles])
        .chain(cycles)
        .chain(ledger)
        .chain(calls)
        .chain(counters)
        .chain(faults)
        .collect()
}

/// Finds a number of a system's results.
///
/// # Errors
/// There is none. The error has the nearest name.
pub fn find(system: &System, name: &str) -> Result<Metric, SettingError> {
    let all = of(system);
    if let Some(found) = all.iter().find(|m| m.name == name) {
        return Ok(found.clone());
    }
    let near = hint_of_number(name, all.iter().map(|m| m.name.as_str()));
    Err(SettingError(format!(
        "a run of {} has no number `{name}`{near}; `list --metrics {}` has all",
        system.name, system.name
    )))
}

/// Returns whether more of a number is better: packets and bits a second.
pub fn is_better_high(name: &str) -> bool {
    name == "packets_per_s" || name.ends_with("bits_per_s")
}

/// Returns the numbers that people look at first: rates, latencies, cycles, and what crosses the
/// bus.
pub fn main(system: &System) -> Vec<String> {
    let first = ["packets_per_s", "interrupts_per_s", "latency_ns.p50", "latency_ns.p99", "cycles"];
    let parts = Ledger::COUNTERS.iter().filter(|c| {
        c.part.is_some_and(|(part, _)| part != ledger::Part::Transactions)
            && system.numbers.has(c.name)
    });
    let calls = system.numbers.calls.iter().map(|c| c.name);
    let all = first.into_iter().chain(parts.map(|c| c.name)).chain(calls);
    all.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
