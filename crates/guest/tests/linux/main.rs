//! Linux's own drivers on our devices: what a guest sees, what the ledger counted, and what was on
//! the wire must agree. `tools/test-guest.sh` builds what it needs and runs it.
//!
//! Drivers and devices are checked in virtual time, where the counts of two boots are equal. What a
//! check leaves there stands in the file `words/counts` of its logs. Servers are checked on the
//! machine's clock.
//!
//! Environment: `CLOCK="virtual wall"`, `DEVICES="mlx5 ..."`, `CHECKS="probe ping ..."` and
//! `CPUS="1 2"`, of a guest on a server, choose;
//! `TIER=long` does more of each; `RELEASE` is the program of the checks that compare rates. Logs
//! are in target/test-guest.
//!
//! Some parts run at a time, each in a process with a network of its own: this program once more,
//! with the part's name. What a part says is printed when it has ended.

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
use doorbell_host_io::child::ChildGuard;
use harness::{Check, Part};
use std::collections::VecDeque;
use std::io::{Read, pipe};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

const DEVICES: &str = "vnic veth mlx5 e1000 axi-ethernet e1000-82544gc e1000-82545em";
const CLOCKS: &str = "virtual wall";
/// The argument before a part's name.
const PART: &str = "--part";
/// Parts that run at a time. A guest waits for more than half of its time, so that three use two
/// cores.
const AT_A_TIME: usize = 3;

/// Returns the words of a variable, or of a default if it is empty.
fn words(variable: &str, default: &str) -> Vec<String> {
    let set = std::env::var(variable).unwrap_or_default();
    let text = if set.trim().is_empty() { default } else { &set };
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the checks of a device in one guest, in their order: in virtual time, and on a server.
fn checks(device: &Device) -> [&'static [Check]; 2] {
    match device.name {
        "mlx5" => [mlx5::CHECKS, mlx5::SERVED],
        "axi-ethernet" => [axienet::CHECKS, axienet::SERVED],
        "vnic" => [vnic::CHECKS, vnic::SERVED],
        "veth" => [veth::CHECKS, veth::SERVED],
        // Another card of the family has the same server.
        "e1000-82544gc" | "e1000-82545em" if !long() => [e1000::CHECKS, &[]],
        _ => [e1000::CHECKS, e1000::SERVED],
    }
}

/// Returns all that is to be run on these devices, what takes long first: at the end there is less
/// to wait for.
fn parts(devices: &[Device], asked: &[String], clocks: &[String]) -> Vec<Part> {
    let part = |name: String, device: &Device, cpus: Option<u32>, checks: &'static [Check]| {
        let chosen = |c: &&Check| asked.is_empty() || asked.iter().any(|n| n == c.name);
        Part { name, device: *device, cpus, checks: checks.iter().filter(chosen).collect() }
    };
    let mut parts = Vec::new();
    for device in devices {
        let name = format!("{}, virtual time", device.name);
        parts.push(part(name, device, None, checks(device)[0]));
    }
    for cpus in words("CPUS", if long() { "1 2" } else { "1" }) {
        let cpus = cpus.parse().expect("CPUS: numbers");
        for device in devices {
            let name = format!("{}, {cpus} CPU", device.name);
            parts.push(part(name, device, Some(cpus), checks(device)[1]));
        }
    }
    let express = Device::find("mlx5").expect("a device");
    if devices.contains(&express) {
        parts.push(part("mlx5 beside others".to_owned(), &express, Some(1), mlx5::APART));
    }
    parts.push(part("doorbell pages".to_owned(), &express, Some(1), bell::CHECKS));
    for device in devices.iter().filter(|d| d.driver == "e1000") {
        parts.push(part(format!("iPXE on {}", device.name), device, Some(1), ipxe::CHECKS));
    }
    let on = |p: &Part| if p.cpus.is_some() { "wall" } else { "virtual" };
    parts.retain(|p| !p.checks.is_empty() && clocks.iter().any(|clock| clock == on(p)));
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
    let clocks = words("CLOCK", CLOCKS);
    if let Some(unknown) = clocks.iter().find(|c| !CLOCKS.split(' ').any(|k| k == **c)) {
        eprintln!("CLOCK: `{unknown}` is none of: {CLOCKS}");
        return ExitCode::from(2);
    }
    let parts = parts(&devices, &asked, &clocks);
    let known = |name: &&String| parts.iter().flat_map(|p| &p.checks).any(|c| c.name == **name);
    if let Some(unknown) = asked.iter().find(|n| !known(n)) {
        eprintln!("CHECKS: there is no check `{unknown}` of {}", names.join(" "));
        return ExitCode::from(2);
    }
    let mut arguments = std::env::args().skip_while(|a| a != PART);
    let done = match arguments.nth(1) {
        Some(name) => Bench::set_up(&parts, true).map(|()| {
            let own = parts.iter().filter(|p| p.name == name);
            own.flat_map(harness::judged).collect()
        }),
        None => Bench::set_up(&parts, false).map(|()| side_by_side(&parts)),
    };
    match done {
        Ok(wrong) => told(&wrong),
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what does not hold.
fn told(wrong: &[String]) -> ExitCode {
    for what in wrong {
        println!("FAILED  {what}");
    }
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs parts in processes of their own. Returns what does not hold.
fn side_by_side(parts: &[Part]) -> Vec<String> {
    let (left, wrong) = (Mutex::new(VecDeque::from_iter(parts)), Mutex::new(Vec::new()));
    let next = || left.lock().expect("never poisoned").pop_front();
    std::thread::scope(|s| {
        for _ in 0..AT_A_TIME {
            s.spawn(|| {
                while let Some(part) = next() {
                    println!("{} begins", part.name);
                    let said =
                        apart(part).unwrap_or_else(|e| format!("FAILED  {}: {e}\n", part.name));
                    print!("{said}");
                    let found = said.lines().filter_map(|l| l.strip_prefix("FAILED  "));
                    wrong.lock().expect("never poisoned").extend(found.map(str::to_owned));
                }
            });
        }
    });
    wrong.into_inner().expect("never poisoned")
}

/// Runs a part in a process of its own. Returns what it says.
fn apart(part: &Part) -> std::io::Result<String> {
    let (mut reader, writer) = pipe()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--ignored", PART, &part.name]).stdin(Stdio::null());
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = ChildGuard::spawn(&part.name, &mut command)?;
    // Its ends of the pipe are the last ones.
    drop(command);
    let mut said = Vec::new();
    reader.read_to_end(&mut said)?;
    let mut said = String::from_utf8_lossy(&said).into_owned();
    let status = child.wait(host::PATIENCE)?;
    if !status.success() && !said.contains("\nFAILED  ") {
        said += &format!("FAILED  {}: it ended with {status}\n", part.name);
    }
    Ok(said)
}
