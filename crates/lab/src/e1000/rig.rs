//! e1000 as the command line sees it.

use super::settings::{self, BUS, CPU, DRIVER, KIND, NIC};
use super::{Outcome, Setup, Slot};
use crate::fault;
use crate::key::Values;
use crate::result::{Cost, Count, CountsOf, Failure, Group, HANDED, Measured, Rate};
use crate::rig::{self, Rig, Transactions};
use crate::traffic::Frames;
use crate::watch::Watch;
use crate::{closed, cpu, mlx5, open};
use doorbell_bus::pcie::Operation;
use doorbell_bus::{pci, pcie};
use std::sync::Arc;

/// A gigabit controller on PCI, PCI-X or PCI Express.
pub static RIG: Rig = Rig {
    name: "e1000",
    about: "Intel 8254x on PCI, PCI-X or PCI Express: frames copied to aligned buffers, or not",
    devices: &["e1000", "e1000-82544gc", "e1000-82545em"],
    platform_keys: &[&CPU, &cpu::TCP, &BUS, &NIC],
    run_keys: &[&KIND, &closed::KEYS, &closed::APPLICATION, &open::KEYS, &DRIVER, &rig::RUN],
    run,
    transfer,
    port_rate: |v| (v.number("link.rate") * 1e6) as u64,
};

fn run(
    v: &Values,
    frames: Option<&Arc<Frames>>,
    watch: &mut dyn Watch,
) -> Result<Measured, Failure> {
    let setup = settings::setup(v).map_err(Failure::Input)?;
    let load = settings::load(v, &setup, frames).map_err(Failure::Input)?;
    let outcome = super::run(&setup, &load, watch)?;
    Ok(measured(&setup, v.number("cpu.frequency"), outcome))
}

fn transfer(v: &Values, what: Operation, at: u64, bytes: u32) -> Result<Transactions, String> {
    if v.word("bus.kind") == "pcie" {
        let rules = pcie::Rules::new(mlx5::settings::pcie(v)).map_err(|e| e.to_string())?;
        return Ok(Box::new(pcie::transactions(&rules, what, at, bytes).map(Into::into)));
    }
    let rules = pci::Rules::new(settings::pci(v)).map_err(|e| e.to_string())?;
    Ok(Box::new(pci::transactions(&rules, what, at, bytes).map(Into::into)))
}

/// The outcome, under the names of results.
fn measured(setup: &Setup, ghz: f64, o: Outcome) -> Measured {
    let s = &o.steady;
    let by_time = |n: f64| s.by_time(n);
    let rate = |name, about: &'static str, value| Rate { name, about: about.into(), value };
    let what = if o.payload > 0 { "frames with data, or transactions" } else { "packets sent" };
    let mut rates = vec![
        rate("packets_per_s", what, s.window.rate()),
        rate("payload_bits_per_s", "TCP payload that arrived", by_time(8.0 * s.payload as f64)),
        rate(
            "wire_out_bits_per_s",
            "frames sent, with preamble, FCS and gap",
            by_time(8.0 * s.wire.0 as f64),
        ),
        rate(
            "wire_in_bits_per_s",
            "frames received, with preamble, FCS and gap",
            by_time(8.0 * s.wire.1 as f64),
        ),
        rate("interrupts_per_s", "interrupts taken", by_time(s.interrupts[0] as f64)),
        rate("polls_per_s", "polls made", by_time(s.polls as f64)),
        Rate::of_cores(
            if o.cores > 1 {
                "of the core with interrupts and that with applications"
            } else {
                "of its one core"
            },
            s.busy_share() / o.cores as f64,
        ),
    ];
    match (&setup.slot, &o.bus_share[..]) {
        (Slot::Express(..), [down, up]) => {
            rates.push(rate("inbound_link_share", "link toward the device", *down));
            rates.push(rate("outbound_link_share", "link toward the host", *up));
        }
        (_, shares) => {
            rates.extend(shares.iter().map(|s| rate("bus_busy_share", "of the bus's clocks", *s)));
        }
    }
    let [driver, device] = o.counters;
    let mut counts = Count::of_ledger(&o.ledger);
    counts.extend(Count::of(Group::Driver, driver.into_iter()));
    counts.extend(Count::of(Group::Device, device.into_iter()));
    let stores = o.ledger.mmio_writes + o.ledger.mmio_reads + o.ledger.fences;
    counts.extend(o.faults.iter().flat_map(fault::Report::counts));
    Measured {
        packets: o.packets,
        elapsed: o.elapsed,
        window: o.steady.window,
        // A load of packets is counted from its first to its last.
        counts_of: if o.payload > 0 { CountsOf::Window } else { CountsOf::Run },
        rates,
        counts,
        costs: Cost::of(&o.work, (stores, o.stalled), ghz),
        series: o.series,
        latency_of: if o.payload > 0 { "from request to response" } else { HANDED },
        latency: o.latency,
        audit: o.audit,
    }
}
