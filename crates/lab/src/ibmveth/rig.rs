//! ibmveth as the command line sees it.

use super::lan::{CLIENT, SERVER};
use super::settings::{self, CALLS, CPU, DRIVER, PORT, TRAFFIC};
use super::{BridgeCounters, Outcome, PortStats};
use crate::fault;
use crate::key::Values;
use crate::result::{Cost, Count, CountsOf, Failure, Group, Measured, Rate};
use crate::rig::{self, Rig, Transactions};
use crate::traffic::Frames;
use crate::watch::Watch;
use crate::{closed, cpu, paced, papr};
use doorbell_bus::pcie::Operation;
use doorbell_drivers::ibmveth::Stats;
use std::sync::Arc;

/// A partition that reaches the network through an I/O server.
pub static RIG: Rig = Rig {
    name: "ibmveth",
    about: "IBM logical LAN of POWER partitions: large send and checksums through a trunk and a bridge, or not",
    devices: &["veth"],
    platform_keys: &[&CPU, &cpu::TCP, &papr::KEYS, &CALLS, &PORT],
    run_keys: &[&TRAFFIC, &closed::KEYS, &closed::APPLICATION, &paced::KEYS, &DRIVER, &rig::RUN],
    run,
    transfer,
    port_rate: |v| (v.number("link.rate") * 1e9) as u64,
};

fn run(v: &Values, _: Option<&Arc<Frames>>, watch: &mut dyn Watch) -> Result<Measured, Failure> {
    let setup = settings::setup(v).map_err(Failure::Input)?;
    if v.word("traffic.kind") == paced::KIND {
        let load = paced::Load::of(v, setup.drivers[CLIENT].mtu, "the adapter's MTU")
            .map_err(Failure::Input)?;
        return Ok(super::at_a_pace(&setup, &load, watch)?.measured(v.number("cpu.frequency")));
    }
    let load = settings::load(v, &setup).map_err(Failure::Input)?;
    let outcome = super::run(&setup, &load, watch)?;
    Ok(measured(v.number("cpu.frequency"), outcome))
}

/// There is no bus: the hypervisor copies.
fn transfer(_: &Values, _: Operation, _: u64, _: u32) -> Result<Transactions, String> {
    Err("ibmveth has no bus: the hypervisor copies, and what that costs is `hypervisor.copy`"
        .to_owned())
}

/// The counts of `entries`, the first `n` of which are the client's, the next `n` the server's.
fn sides(group: Group, n: usize, entries: &[(&'static str, u64)]) -> impl Iterator<Item = Count> {
    let prefix = if group == Group::Driver { "driver" } else { "device" };
    let (of, others) = entries.split_at(2 * n);
    let of = of.iter().enumerate().map(move |(i, (name, value))| {
        let side = if i < n { "client" } else { "server" };
        Count { group, name: format!("{prefix}_{side}_{name}"), about: "", value: *value }
    });
    of.chain(Count::of(group, others.iter().copied()))
}

/// The outcome, under the names of results.
fn measured(ghz: f64, o: Outcome) -> Measured {
    let seconds = o.elapsed.as_secs_f64();
    let by_time = |n: f64| if seconds > 0.0 { n / seconds } else { 0.0 };
    let by_packet = |n: f64| if o.packets > 0 { n / o.packets as f64 } else { 0.0 };
    let rate = |name, about: &'static str, value| Rate { name, about: about.into(), value };
    let interrupts: u64 = o.interrupts.iter().sum();
    let rates = vec![
        rate(
            "packets_per_s",
            "frames with data on the wire, transactions, or large sends",
            by_time(o.packets as f64),
        ),
        rate("payload_bits_per_s", "TCP payload that arrived", by_time(8.0 * o.payload as f64)),
        rate(
            "wire_out_bits_per_s",
            "frames sent, with preamble, FCS and gap",
            by_time(8.0 * o.wire.0 as f64),
        ),
        rate(
            "wire_in_bits_per_s",
            "frames received, with preamble, FCS and gap",
            by_time(8.0 * o.wire.1 as f64),
        ),
        rate(
            "interrupts_per_s",
            "interrupts taken, of both partitions",
            by_time(interrupts as f64),
        ),
        rate("polls_per_s", "polls made", by_time(o.polls as f64)),
        rate(
            "client_busy_share",
            "of one core's time, of the client's one or two",
            by_time(o.busy[CLIENT].as_secs_f64()),
        ),
        rate("server_busy_share", "of its core's time", by_time(o.busy[SERVER].as_secs_f64())),
        rate(
            "client_ns_a_packet",
            "time of its cores, calls included",
            by_packet(o.busy[CLIENT].as_ns_f64()),
        ),
        rate(
            "server_ns_a_packet",
            "time of its core, calls included",
            by_packet(o.busy[SERVER].as_ns_f64()),
        ),
    ];
    let [drivers, devices] = &o.counters;
    let mut counts = Count::of_ledger(&o.ledger);
    let others = PortStats::default().entries().len() + BridgeCounters::default().entries().len();
    debug_assert_eq!(drivers.len(), 2 * Stats::default().entries().count() + others);
    counts.extend(sides(Group::Driver, (drivers.len() - others) / 2, drivers));
    let adapter = o.adapters[CLIENT].entries().count();
    counts.extend(sides(Group::Device, adapter, devices));
    counts.extend(o.faults.iter().flat_map(fault::Report::counts));
    Measured {
        packets: o.packets,
        elapsed: o.elapsed,
        window: o.window,
        counts_of: CountsOf::Window,
        rates,
        counts,
        costs: Cost::of(&o.work, (o.ledger.fences, o.stalled), ghz),
        series: o.series,
        latency_of: "from request to response",
        latency: o.latency,
        audit: o.audit,
    }
}
