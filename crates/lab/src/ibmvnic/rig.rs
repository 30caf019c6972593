//! ibmvnic as the command line sees it.

use super::Outcome;
use super::settings::{self, CPU, DRIVER, HYPERVISOR, NIC, TRAFFIC};
use crate::fault;
use crate::key::Values;
use crate::result::{Cost, Count, CountsOf, Failure, Group, Measured, Rate};
use crate::rig::{self, Rig, Transactions};
use crate::traffic::Frames;
use crate::watch::Watch;
use crate::{paced, papr};
use doorbell_bus::pcie::Operation;
use std::sync::Arc;

/// A virtual NIC under PowerVM.
pub static RIG: Rig = Rig {
    name: "ibmvnic",
    about: "IBM virtual NIC: a descriptor in registers or an array with headers, and the checksum that buys the former",
    devices: &["vnic"],
    platform_keys: &[&CPU, &papr::KEYS, &HYPERVISOR, &NIC],
    run_keys: &[&TRAFFIC, &paced::KEYS, &DRIVER, &rig::RUN],
    run,
    transfer,
    port_rate: |v| (v.number("link.rate") * 1e9) as u64,
};

fn run(v: &Values, _: Option<&Arc<Frames>>, watch: &mut dyn Watch) -> Result<Measured, Failure> {
    let setup = settings::setup(v);
    if v.word("traffic.kind") == paced::KIND {
        let load = paced::Load::of(v, setup.driver.mtu, "driver.mtu").map_err(Failure::Input)?;
        return Ok(super::at_a_pace(&setup, &load, watch)?.measured(v.number("cpu.frequency")));
    }
    let load = settings::load(v, &setup).map_err(Failure::Input)?;
    let outcome = super::run(&setup, &load, watch)?;
    Ok(measured(v, outcome))
}

fn transfer(_: &Values, _: Operation, _: u64, _: u32) -> Result<Transactions, String> {
    Err("a virtual NIC has no bus: the hypervisor copies".to_owned())
}

/// The outcome, under the names of results.
fn measured(v: &Values, o: Outcome) -> Measured {
    let seconds = o.elapsed.as_secs_f64();
    let by_time = |n: f64| if seconds > 0.0 { n / seconds } else { 0.0 };
    let rate = |name, about: &'static str, value| Rate { name, about: about.into(), value };
    let of = |a: u64, b: u64| if b > 0 { a as f64 / b as f64 } else { 0.0 };
    let sent = o.counted(0, "tx_packets");
    let busy: f64 = o.busy.iter().map(|b| by_time(b.as_secs_f64())).sum();
    let rates = vec![
        rate("packets_per_s", "transactions, or frames sent", o.rate()),
        rate("payload_bits_per_s", "frames sent", by_time(8.0 * o.payload as f64)),
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
        rate("direct_share", "of the packets sent", of(o.counted(0, "tx_direct"), sent)),
        rate(
            "indirect_call_share",
            "arrays of packets, of the packets sent",
            of(o.counted(0, "tx_arrays"), sent),
        ),
        rate(
            "software_checksum_share",
            "of the packets sent",
            of(o.counted(0, "tx_csum_direct"), sent),
        ),
        rate(
            "received_per_replenish",
            "frames received for each array of buffers",
            of(o.counted(0, "rx_packets"), o.counted(0, "rx_add_arrays")),
        ),
        rate(
            "transmit_us",
            "in the driver's transmit, each packet",
            o.transmit.as_ns_f64() * 1e-3 / sent.max(1) as f64,
        ),
        rate(
            "break_even_bytes",
            "adaptive: bytes up to which a checksum is made, at the end; -1: none",
            o.break_even.map_or(-1.0, f64::from),
        ),
        rate("interrupts_per_s", "interrupts taken", by_time(o.interrupts as f64)),
        rate("polls_per_s", "polls made", by_time(o.polls as f64)),
        Rate::of_cores(
            match o.busy.len() {
                0..=1 => "of its one core".to_owned(),
                n => format!("of the {n} cores, one for each queue"),
            },
            busy / o.busy.len().max(1) as f64,
        ),
    ];
    let [driver, device] = o.counters;
    let mut counts = Count::of_ledger(&o.ledger);
    counts.extend(Count::of(Group::Driver, driver.into_iter()));
    counts.extend(Count::of(Group::Device, device.into_iter()));
    counts.extend(o.faults.iter().flat_map(fault::Report::counts));
    Measured {
        packets: o.packets,
        elapsed: o.elapsed,
        window: o.window,
        counts_of: CountsOf::Window,
        rates,
        counts,
        costs: Cost::of(&o.work, (o.ledger.fences, o.stalled), v.number("cpu.frequency")),
        series: o.series,
        latency_of: "from request to response",
        latency: o.latency,
        audit: o.audit,
    }
}
