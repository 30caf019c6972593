//! Linux's own drivers on served devices: what a guest sees, what the ledger counted, and what was
//! on the wire must agree. `tools/test-guest.sh` builds what it needs and runs it.
//!
//! Environment: `DEVICES="mlx5 ..."`, `CHECKS="probe ping ..."` and `CPUS="1 2"` choose;
//! `TIER=long` does more of each; `RELEASE` is the program of the checks that compare rates. Logs
//! are in target/test-guest.

// The others use its macro.
#[macro_use]
mod harness;

mod axienet;
mod bell;
mod bench;
mod beside;
mod capture;
mod e1000;
mod host;
mod ipxe;
mod mlx5;
mod numbers;
mod papr;
mod rig;
mod veth;
mod vnic;

use bench::{Bench, long};
use doorbell_guest::Device;
use harness::{Check, Part};
use std::process::ExitCode;

const DEVICES: &str = "e1000 e1000-82544gc e1000-82545em mlx5 axi-ethernet vnic veth";

/// Returns the words of a variable, or of a default if it is empty.
fn words(variable: &str, default: &str) -> Vec<String> {
    let set = std::env::var(variable).unwrap_or_default();
    let text = if set.trim().is_empty() { default } else { &set };
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the checks of a device in one guest, in their order.
fn checks(device: &Device, asked: bool) -> &'static [Check] {
    match device.name {
        "mlx5" => mlx5::CHECKS,
        "axi-ethernet" => axienet::CHECKS,
        "vnic" => vnic::CHECKS,
        "veth" => veth::CHECKS,
        "e1000-82544gc" | "e1000-82545em" if !long() && !asked => e1000::FEW,
        _ => e1000::CHECKS,
    }
}

/// Returns all that is to be run on these devices.
fn parts(devices: &[Device], asked: &[String]) -> Vec<Part> {
    let part = |name: String, device: &Device, cpus: u32, checks: &'static [Check]| {
        let chosen = |c: &&Check| asked.is_empty() || asked.iter().any(|n| n == c.name);
        Part { name, device: *device, cpus, checks: checks.iter().filter(chosen).collect() }
    };
    let mut parts = Vec::new();
    for device in devices.iter().filter(|d| d.driver == "e1000") {
        parts.push(part(format!("iPXE on {}", device.name), device, 1, ipxe::CHECKS));
    }
    let express = Device::find("mlx5").expect("a device");
    parts.push(part("doorbell pages".to_owned(), &express, 1, bell::CHECKS));
    if devices.contains(&express) {
        parts.push(part("mlx5 beside others".to_owned(), &express, 1, mlx5::APART));
    }
    for cpus in words("CPUS", if long() { "1 2" } else { "1" }) {
        let cpus = cpus.parse().expect("CPUS: numbers");
        for device in devices {
            let name = format!("{}, {cpus} CPU", device.name);
            parts.push(part(name, device, cpus, checks(device, !asked.is_empty())));
        }
    }
    parts.retain(|p| !p.checks.is_empty());
    parts
}

fn main() -> ExitCode {
    // As of libtest's ignored tests: these boot kernels, which are fetched.
    if !std::env::args().any(|a| a == "--ignored") {
        return ExitCode::SUCCESS;
    }
    let (names, asked) = (words("DEVICES", DEVICES), words("CHECKS", ""));
    let Some(devices) = names.iter().map(|n| Device::find(n)).collect::<Option<Vec<_>>>() else {
        eprintln!("DEVICES: there are: {DEVICES}");
        return ExitCode::from(2);
    };
    let parts = parts(&devices, &asked);
    let known = |name: &&String| parts.iter().flat_map(|p| &p.checks).any(|c| c.name == **name);
    if let Some(unknown) = asked.iter().find(|n| !known(n)) {
        eprintln!("CHECKS: there is no check `{unknown}` of {}", names.join(" "));
        return ExitCode::from(2);
    }
    if let Err(e) = Bench::set_up(&parts) {
        eprintln!("{e}");
        return ExitCode::FAILURE;
    }
    let wrong: Vec<String> = parts.iter().flat_map(harness::judged).collect();
    for what in &wrong {
        println!("FAILED  {what}");
    }
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
