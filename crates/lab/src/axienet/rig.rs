//! axienet as the command line sees it.

use super::settings::{self, ARRIVALS, BUS, CPU, DRIVER, KIND, NIC};
use super::{Outcome, Setup};
use crate::fault;
use crate::key::Values;
use crate::result::{Cost, Count, CountsOf, Failure, Group, HANDED, Measured, Rate};
use crate::rig::{self, Rig, Transactions};
use crate::traffic::Frames;
use crate::watch::Watch;
use crate::{closed, cpu, open, paced};
use doorbell_bus::axi::Rules;
use doorbell_bus::pcie::Operation;
use std::sync::Arc;

/// AXI Ethernet with AXI DMA.
pub static RIG: Rig = Rig {
    name: "axienet",
    about: "AXI Ethernet with AXI DMA: interrupts coalesced by a controller, or not",
    devices: &["axi-ethernet"],
    platform_keys: &[&CPU, &cpu::TCP, &BUS, &NIC],
    run_keys: &[&KIND, &closed::KEYS, &ARRIVALS, &open::KEYS, &paced::KEYS, &DRIVER, &rig::RUN],
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
    if v.word("traffic.kind") == paced::KIND {
        let load = paced::Load::of(v, setup.driver.mtu, "driver.mtu").map_err(Failure::Input)?;
        return Ok(super::at_a_pace(&setup, &load, watch)?.measured(v.number("cpu.frequency")));
    }
    let load = settings::load(v, &setup, frames).map_err(Failure::Input)?;
    let outcome = super::run(&setup, &load, watch)?;
    Ok(measured(&setup, v, outcome))
}

fn transfer(v: &Values, what: Operation, at: u64, bytes: u32) -> Result<Transactions, String> {
    let rules = Rules::new(settings::axi(v)).map_err(|e| e.to_string())?;
    let command = if what == Operation::Read { "AR" } else { "AW" };
    let row = move |b: doorbell_bus::axi::Burst| rig::Transaction {
        addr: b.addr,
        command,
        bytes: b.bytes,
        packet: None,
    };
    Ok(Box::new(rules.bursts(at, bytes).map(row)))
}

/// The outcome, under the names of results.
fn measured(setup: &Setup, v: &Values, o: Outcome) -> Measured {
    let s = &o.steady;
    let by_time = |n: f64| s.by_time(n);
    let rate = |name, about: &'static str, value| Rate { name, about: about.into(), value };
    let busy = s.busy.map(|b| by_time(b.as_secs_f64()));
    let rates = vec![
        rate("packets_per_s", "frames received or sent, or transactions", s.window.rate()),
        rate("payload_bits_per_s", "TCP payload, or frames", by_time(8.0 * s.payload as f64)),
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
        rate("rx_interrupts_per_s", "interrupts of reception", by_time(s.interrupts[0] as f64)),
        rate("tx_interrupts_per_s", "interrupts of transmission", by_time(s.interrupts[1] as f64)),
        rate("polls_per_s", "polls made", by_time(s.polls as f64)),
        Rate::of_cores(
            format!("of the platform's {} cores", setup.cores),
            s.busy_share() / setup.cores as f64,
        ),
        rate("irq_core_busy_share", "of the core with interrupts and softirq", busy[0]),
        rate("app_core_busy_share", "of the core with applications", busy[1]),
        rate("read_bus_busy_share", "of the clocks of read data", o.bus_share[0]),
        rate("write_bus_busy_share", "of the clocks of write data", o.bus_share[1]),
    ];
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
        counts_of: match v.word("traffic.kind") {
            "pktgen" | "pcap" => CountsOf::Run,
            _ => CountsOf::Window,
        },
        rates,
        counts,
        costs: Cost::of(&o.work, (stores, o.stalled), v.number("cpu.frequency")),
        series: o.series,
        latency_of: match v.word("traffic.kind") {
            "arrivals" => "from a frame's last bit to its being handed up",
            "pktgen" | "pcap" => HANDED,
            _ => "from request to response",
        },
        latency: o.latency,
        audit: o.audit,
    }
}
