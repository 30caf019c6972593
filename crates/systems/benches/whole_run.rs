//! Simulated packets a second of a whole run (driver, guard, ledger, link, device, wire) on one
//! core. Printed, not asserted. Compare rows of one invocation only.
//!
//! `cargo bench -p doorbell-systems --bench whole_run [-- count]`.
//! `count` makes one small run per row
//! without timing, for Callgrind.

use doorbell_bus::pcie::Settings;
use doorbell_bus::{Costs, Latencies};
use doorbell_devices::mlx5::Config as Nic;
use doorbell_drivers::mlx5::Config;
use doorbell_hal::{Span, WorkKind};
use doorbell_sim::Unwatched;
use doorbell_systems::host::HostConfig;
use doorbell_systems::mlx5::{Load, Setup, run};
use std::time::Instant;

fn setup(cores: u16, mpwqe: bool) -> Setup {
    let mut costs = Costs::FREE;
    costs.work[WorkKind::Stack as usize].each = Span::from_ns(50);
    Setup {
        host: HostConfig::new(costs),
        cores,
        pcie: Settings::link(2, 16),
        latencies: Latencies { link: Span::from_ns(150), memory: Span::from_ns(250) },
        bar: 0x3c_0000_0000,
        memory_base: 1 << 32,
        nic: Nic::CONNECTX,
        driver: Config { mpwqe, ..Config::DEFAULT },
    }
}

fn main() {
    let count = std::env::args().any(|a| a == "count");
    let (packets, rounds) = if count { (200_000, 1) } else { (4_000_000, 3) };
    println!(
        "whole run, 64-byte packets in bursts of 32; \
        millions of simulated packets a second, best of {rounds}"
    );
    for (cores, rate, what) in [
        (1, None, "1 queue, full speed"),
        (24, Some(36.864e6), "24 queues, fixed rate"),
        (24, None, "24 queues, full speed"),
    ] {
        for mpwqe in [false, true] {
            let load = Load::pktgen(64, 32, packets).at(rate);
            let mut best: f64 = 0.0;
            for _ in 0..rounds {
                let start = Instant::now();
                let outcome = match run(&setup(cores, mpwqe), &load, &mut Unwatched) {
                    Ok(outcome) => outcome,
                    Err(e) => return eprintln!("{what}: {e}"),
                };
                best =
                    best.max(outcome.counts.packets as f64 / start.elapsed().as_secs_f64() / 1e6);
                if !outcome.verdict.audit.is_empty() {
                    return eprintln!("{what}: {:?}", outcome.verdict.audit);
                }
            }
            let switch = if mpwqe { "MPWQE" } else { "SEND " };
            if count {
                println!("{what:<24} {switch}");
            } else {
                println!("{what:<24} {switch} {best:6.2}");
            }
        }
    }
}
