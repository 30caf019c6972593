//! mlx5 as the command line sees it.

use super::settings::{self, KIND, PLATFORM, RUN};
use super::{Outcome, RunError, Setup};
use crate::fault;
use crate::key::Values;
use crate::open;
use crate::result::{Cost, Count, CountsOf, Failure, Group, HANDED, Measured, Rate};
use crate::rig::{self, Rig, Transactions};
use crate::traffic::Frames;
use crate::watch::Watch;
use doorbell_bus::pcie::{Operation, Rules, transactions};
use std::sync::Arc;

/// ConnectX on PCI Express.
pub static RIG: Rig = Rig {
    name: "mlx5",
    about: "ConnectX-5 and later on PCI Express: Enhanced TX MPWQE on and off",
    devices: &["mlx5"],
    platform_keys: &[&PLATFORM],
    run_keys: &[&KIND, &open::KEYS, &RUN, &rig::RUN],
    run,
    transfer,
    port_rate: |v| (v.number("nic.port_rate") * 1e9) as u64,
};

fn run(
    v: &Values,
    frames: Option<&Arc<Frames>>,
    watch: &mut dyn Watch,
) -> Result<Measured, Failure> {
    let setup = settings::setup(v).map_err(Failure::Input)?;
    let load = settings::load(v, &setup, frames).map_err(Failure::Input)?;
    match super::run(&setup, &load, watch) {
        Ok(outcome) => Ok(measured(&setup, v.number("cpu.frequency"), outcome)),
        Err(e @ (RunError::Stuck(_) | RunError::Stopped)) => Err(Failure::Run(e.to_string())),
        Err(e) => Err(Failure::Input(e.to_string())),
    }
}

fn transfer(v: &Values, what: Operation, at: u64, bytes: u32) -> Result<Transactions, String> {
    let rules = Rules::new(settings::pcie(v)).map_err(|e| e.to_string())?;
    Ok(Box::new(transactions(&rules, what, at, bytes).map(Into::into)))
}

/// The outcome, under the names of results.
fn measured(setup: &Setup, ghz: f64, o: Outcome) -> Measured {
    let s = &o.steady;
    let by_time = |n: f64| s.by_time(n);
    let rate = |name, about: &'static str, value| Rate { name, about: about.into(), value };
    let whose = match setup.cores {
        0..=1 => "of the one core that sends".to_owned(),
        n => format!("of the {n} cores that send"),
    };
    let rates = vec![
        rate("packets_per_s", "packets sent", s.window.rate()),
        rate("frame_bits_per_s", "frames, without FCS", by_time(8.0 * s.ledger.wire_bytes as f64)),
        rate(
            "wire_bits_per_s",
            "frames with preamble, FCS and gap",
            by_time(8.0 * s.wire.0 as f64),
        ),
        rate("inbound_link_share", "bus toward the device, of the raw link", o.link_share.0),
        rate("outbound_link_share", "bus toward the host, of the raw link", o.link_share.1),
        Rate::of_cores(whose, s.busy_share() / f64::from(setup.cores.max(1))),
    ];

    let mut counts = Count::of_ledger(&o.ledger);
    counts.extend(Count::of(Group::Driver, o.driver.entries()));
    counts.extend(Count::of(Group::Device, o.device.entries()));
    let stores = o.ledger.mmio_writes + o.ledger.mmio_reads + o.ledger.fences;
    let costs = Cost::of(&o.work, (stores, o.stalled), ghz);
    counts.extend(o.faults.iter().flat_map(fault::Report::counts));
    Measured {
        packets: o.packets,
        elapsed: o.elapsed,
        window: o.steady.window,
        counts_of: CountsOf::Run,
        rates,
        counts,
        costs,
        latency: o.latency,
        series: Vec::new(),
        latency_of: HANDED,
        audit: o.audit,
    }
}
