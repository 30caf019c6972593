//! The numbers of a result, each declared once: name, unit, direction, meaning, and the place where
//! it is counted.
//!
//! The names are those of `run --format json`, and those that options, budgets and sweeps take. A
//! system lists what only its runs have ([`Numbers`]); ledger, calls and counters of drivers and
//! devices bring their own declarations.

use crate::SettingError;
use crate::audit::FAULTS;
use crate::system::System;
use doorbell_bus::Ledger;
use doorbell_bus::cache::CacheCounts;
use doorbell_bus::iotlb::IotlbCounts;
use doorbell_bus::ledger::{self, BusKind};
use doorbell_hal::{Counter, Unit, WorkKind};
use doorbell_layout::Call;
pub use doorbell_spec::Sum;
pub use doorbell_spec::metric::{Better, Kind, Metric, Use};
use doorbell_spec::trade::hint_of_number;

/// The frames that find no buffer of the driver, counted under this name.
pub(crate) const fn no_buffer(counter: &'static str) -> Lost {
    Lost { counter, of: "received frames", want: "buffer of the driver" }
}

/// The party whose counters they are: the beginning of their names, and where they are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Party {
    /// The beginning of the names: `driver_`.
    pub prefix: &'static str,
    /// The place.
    pub counted: &'static str,
}

/// The driver.
pub const DRIVER: Party = Party { prefix: "driver_", counted: "by the driver" };
/// The device.
pub const DEVICE: Party = Party { prefix: "device_", counted: "by the device" };

/// Numbers that not every system has.
#[derive(Debug)]
pub struct Numbers {
    /// Its buses.
    pub buses: &'static [BusKind],
    /// Rates and shares, besides [`RATES`].
    pub rates: &'static [&'static [Metric]],
    /// Counters of drivers and devices.
    pub counters: &'static [(Party, &'static [Counter])],
    /// Its hypervisor calls.
    pub calls: &'static [Call],
    /// A last-level cache and an I/O MMU can stand in front of its memory.
    pub cache: bool,
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

/// The frames that find the FIFO full.
pub(crate) const FIFO_FULL: Lost =
    Lost { counter: "device_rx_fifo_full", of: "received frames", want: "room in the device" };
/// The frames that find no WQE.
pub(crate) const NO_WQE: Lost = no_buffer("device_rx_out_of_buffer");

/// The packet rate.
pub const PACKETS: Metric = Metric {
    uses: Some(Use::Pipeline("pipeline_share")),
    ..Metric::rate(
        "packets_per_s",
        Unit::PacketsPerSecond,
        "packets sent, or received where the load is received",
    )
};
/// The share of time that cores were busy.
pub const CPU_BUSY: Metric = Metric::busy("cpu_busy_share", "time that the cores were busy");

/// Rates that every system has.
pub const RATES: [Metric; 2] = [PACKETS, CPU_BUSY];

/// The payload that arrived.
pub const PAYLOAD: Metric =
    Metric::rate("payload_bits_per_s", Unit::BitsPerSecond, "payload that arrived");
/// The wire from the machine.
pub const WIRE_OUT: Metric = Metric::carried(
    "wire_out_bits_per_s",
    "port_out_share",
    "frames sent, with preamble, FCS and gap",
);
/// The wire to the machine.
pub const WIRE_IN: Metric = Metric::carried(
    "wire_in_bits_per_s",
    "port_in_share",
    "frames received, with preamble, FCS and gap",
);
/// The wire of a machine that only sends.
pub const WIRE: Metric =
    Metric::carried("wire_bits_per_s", "port_share", "frames with preamble, FCS and gap");
/// Interrupts.
pub const INTERRUPTS: Metric =
    Metric::rate("interrupts_per_s", Unit::PerSecond, "interrupts taken");
/// Polls.
pub const POLLS: Metric = Metric::rate("polls_per_s", Unit::PerSecond, "polls made");

/// Rates of a system whose load goes both ways.
pub const BOTH_WAYS: [Metric; 5] = [PAYLOAD, WIRE_OUT, WIRE_IN, INTERRUPTS, POLLS];

/// The share of received frames that a device had no room for.
pub const LOST_SHARE: Metric = Metric {
    better: Better::Less,
    ..Metric::rate(
        "lost_share",
        Unit::Share,
        "of the frames that came, those that found no room in the device",
    )
};

/// The share of received frames that a full FIFO lost.
pub const LOST_FIFO: Metric = Metric {
    better: Better::Less,
    ..Metric::rate(
        "lost_fifo_share",
        Unit::Share,
        "of the frames that came, those that found the device's FIFO full",
    )
};
/// The share of received frames that an empty ring lost.
pub const LOST_RING: Metric = Metric {
    better: Better::Less,
    ..Metric::rate(
        "lost_ring_share",
        Unit::Share,
        "of the frames that came, those that found no buffer of the driver in the ring",
    )
};

/// Symbol times of a PCI Express link with a TLP, down and up, and busy ones, down and up.
pub const LINK: [Metric; 4] = [
    Metric::rate("inbound_link_share", Unit::Share, "symbol times with a TLP, toward the device"),
    Metric::rate("outbound_link_share", Unit::Share, "symbol times with a TLP, toward the host"),
    Metric::busy("inbound_link_busy_share", "busy symbol times, toward the device"),
    Metric::busy("outbound_link_busy_share", "busy symbol times, toward the host"),
];

/// The median latency.
pub const MEDIAN: Metric = Metric::latency("latency_ns.p50", "the median of the latencies");
/// The latency of one packet in a hundred.
pub const P99: Metric = Metric::latency("latency_ns.p99", "the latency that 99 % do not exceed");
/// The latencies: the least, the quantiles, and the greatest.
pub const LATENCIES: [Metric; 6] = [
    Metric::latency("latency_ns.min", "the least latency"),
    MEDIAN,
    Metric::latency("latency_ns.p90", "the latency that 90 % do not exceed"),
    P99,
    Metric::latency("latency_ns.p999", "the latency that 99.9 % do not exceed"),
    Metric::latency("latency_ns.max", "the greatest latency"),
];

/// CPU time in all.
pub const CYCLES: Metric = Metric::cycles("cycles", "CPU time in all");

/// Keeps a name that is made of parts for as long as the program runs. Each system makes its names
/// once.
fn kept(name: String) -> &'static str {
    name.leak()
}

/// Makes the declarations of all numbers of a system's results, in the order of tables.
fn declared(n: &Numbers) -> Vec<Metric> {
    let rates = RATES.iter().chain(n.rates.iter().copied().flatten()).copied();
    let works = WorkKind::ALL.iter().map(|w| (w.name(), format!("CPU time of {}", w.name())));
    let stalled = (STALLED, "time that cores waited for these".to_owned());
    let lines = "time that cores waited for lines that were not in the last-level cache";
    let missed = n.cache.then(|| (MISSED_LINES, lines.to_owned()));
    let cycles = works.chain([stalled]).chain(missed).map(|(name, about)| {
        Metric::cycles(kept(format!("cycles_{name}")), kept(about.replace('_', " ")))
    });
    let on = |bus: &BusKind| n.buses.contains(bus);
    let ledger = Ledger::COUNTERS.iter().filter(|c| c.bus.as_ref().is_none_or(on)).map(|c| {
        let (counted, better) = match c.group {
            ledger::Group::Bus => (CROSSING, Better::Less),
            ledger::Group::Cpu => ("at the host interface of the driver", Better::Less),
            ledger::Group::Wire => ("on the wire", Better::Neither),
        };
        Metric { better, ..Metric::count(c.name, c.unit, counted, c.about) }
    });
    let calls = n.calls.iter().map(|c| Metric {
        better: Better::Less,
        ..Metric::count(c.name, Unit::Count, CROSSING, c.about)
    });
    let cached = |of: &'static [Counter], at| {
        let each = of.iter().filter(|_| n.cache);
        each.map(move |c| Metric::count(c.name, c.unit, at, c.about))
    };
    let translated = cached(IotlbCounts::DECLARED, "at the I/O MMU");
    let cached = cached(CacheCounts::DECLARED, "at the last-level cache");
    // Counters tell, they do not judge.
    let counters = n.counters.iter().flat_map(|(of, all)| {
        all.iter().map(|c| {
            let name = kept(format!("{}{}", of.prefix, c.name));
            Metric::count(name, c.unit, of.counted, c.about)
        })
    });
    let faults = FAULTS
        .iter()
        .map(|(name, about)| Metric::count(name, Unit::Count, "with run.fault", about));
    rates
        .chain(LATENCIES)
        .chain([CYCLES])
        .chain(cycles)
        .chain(ledger)
        .chain(calls)
        .chain(cached)
        .chain(translated)
        .chain(counters)
        .chain(faults)
        .collect()
}

/// The place of crossings.
const CROSSING: &str = "between CPU and device";

/// The cause of the time that cores waited for register accesses and fences.
pub(crate) const STALLED: &str = "registers_and_fences";
/// The cause of the time that they waited for lines that were not in the last-level cache.
pub(crate) const MISSED_LINES: &str = "memory";

impl System {
    /// Returns the numbers of its results, in the order of tables.
    pub fn metrics(&self) -> &[Metric] {
        self.declared.get_or_init(|| declared(&self.numbers))
    }

    /// Returns the number of this name, if there is one.
    pub fn metric(&self, name: &str) -> Option<Metric> {
        self.metrics().iter().find(|m| m.name == name).copied()
    }

    /// Reads names of numbers with `+` between them.
    ///
    /// # Errors
    /// Those of [`Sum::parse`].
    pub fn sum(&self, text: &str) -> Result<Sum, String> {
        Sum::parse(self.name, self.metrics(), text)
    }

    /// Finds a number of its results.
    ///
    /// # Errors
    /// There is none. The error has the nearest name.
    pub fn find_metric(&self, name: &str) -> Result<Metric, SettingError> {
        let of = self.name;
        self.metric(name).ok_or_else(|| {
            let near = hint_of_number(name, self.metrics().iter().map(|m| m.name));
            SettingError(format!(
                "a run of {of} has no number `{name}`{near}; `list --metrics {of}` has all"
            ))
        })
    }

    /// Returns the numbers that people look at first: rates, latencies, cycles, and what crosses
    /// the bus.
    pub fn main_metrics(&self) -> impl Iterator<Item = Metric> {
        let first = [PACKETS, INTERRUPTS, MEDIAN, P99, CYCLES].map(|m| m.name);
        let parts = Ledger::COUNTERS
            .iter()
            .filter(|c| c.part.is_some_and(|(part, _)| part != ledger::Part::Transactions));
        let calls = self.numbers.calls.iter().map(|c| c.name);
        let all = first.into_iter().chain(parts.map(|c| c.name)).chain(calls);
        all.filter_map(|name| self.metric(name))
    }
}

#[cfg(test)]
mod tests;
