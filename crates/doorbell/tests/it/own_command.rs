//! A driver of one's own has every command that runs a system.

use crate::one_page::{REGISTRY, own_driver};
use crate::{new_device, new_driver};
use doorbell::Registry;
use serde_json::Value;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::sync::Arc;

/// Runs a command. Returns its exit code and what it prints.
fn called(line: &str) -> (u8, String) {
    of_registry(&REGISTRY, line)
}

fn of_registry(registry: &'static Registry, line: &str) -> (u8, String) {
    let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
    doorbell::call(registry, &args, &Arc::default()).unwrap_or_else(|e| (e.code, e.what))
}

fn json(line: &str) -> Value {
    let (code, text) = called(&format!("{line} --format json"));
    assert_eq!(code, 0, "{line}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{line}: {e}: {text}"))
}

#[test]
fn a_result_names_the_system_and_has_the_counts_of_its_meter() {
    let run = json("run mine-send --no-limits");
    assert_eq!((&run["system"], &run["profile"]), (&"mine".into(), &"mine".into()));
    assert_eq!(run["audit"], Value::Array(vec![]), "{run}");
    let bill = own_driver::bill().unwrap();
    let metered = |name: &str| -> f64 {
        let line = bill.lines().find(|l| l.starts_with(&format!("{name} "))).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let per_packet = |name: &str| run["per_packet"][name].as_f64().unwrap();
    for name in ["mmio_reads", "mmio_writes", "pcie_read_bytes", "pcie_mwr_up", "line_interrupts"] {
        let (a, b) = (metered(name), per_packet(name));
        assert!((a - b).abs() < 0.01 * a, "{name}: {a} by the meter, {b} by the command");
    }
    assert_eq!(run["ledger"]["device_tx_packets"], 10_000);
}

#[test]
fn each_register_has_its_accesses() {
    let run = json("run mine-send --no-limits");
    let rows = run["registers"].as_array().unwrap();
    let of = |name: &str| rows.iter().find(|r| r["name"] == name).unwrap();
    // Each interrupt reads the causes, and nothing else reads. Nearly all the time is in that.
    assert_eq!(of("ICR")["reads"], run["ledger"]["mmio_reads"]);
    assert_eq!((&rows[0]["name"], &of("TDT")["reads"]), (&"ICR".into(), &0.into()));
    let writes: u64 = rows.iter().map(|r| r["writes"].as_u64().unwrap()).sum();
    assert_eq!(run["ledger"]["mmio_writes"], writes);
    let (_, text) = called("run mine-send --no-limits");
    let row = |name: &str| text.lines().any(|l| l.trim().starts_with(&format!("{name}  ")));
    assert!(row("ICR") && row("IMS") && !row("TDT"), "{text}");
}

#[test]
fn every_command_that_runs_a_system_takes_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let short = "--set traffic.packets=2000";
    let (capture, trace, out) = (at("c.pcapng"), at("t.json"), at("run"));
    let (budget, points) = (at("b.toml"), at("points.ndjson"));
    for line in [
        format!("run mine-send {short}"),
        format!("run mine-send {short} --capture {capture} --trace {trace} --out {out}"),
        format!("run mine-send --no-limits --pcap {capture}"),
        "run mine-send --no-limits --until 1%".to_owned(),
        format!("run mine-send {short} --no-limits --fault lost-interrupt@5 --fault dma-fault@900"),
        format!("compare mine-send {short} --with pcie.mps=256"),
        format!("sweep mine-send {short} --over traffic.burst=1,8 --out {points}"),
        format!("rank mine-send {short} --side pcie.mps=128 --side pcie.mps=256 --by mmio_writes"),
        format!("advise mine-send {short} --goal packets_per_s"),
        format!("new budget --of mine-send {budget}"),
        format!("check {budget}"),
        format!("repeat {points}"),
        format!("report {}", dir.path().display()),
        "transfer --profile mine --at 0x1000 --bytes 1514 --read".to_owned(),
        "list --keys mine".to_owned(),
        "list --metrics mine".to_owned(),
        "schema scenario".to_owned(),
    ] {
        let (code, text) = called(&line);
        assert_eq!(code, 0, "{line}: {text}");
    }
    assert!(Path::new(&trace).metadata().unwrap().len() > 1000);
}

#[test]
fn it_runs_on_each_bus_and_at_a_fixed_rate() {
    let on =
        |sets: &str| json(&format!("run mine-send --no-limits --set traffic.packets=500 {sets}"));
    for (sets, count) in [
        ("--set bus.kind=pci", "pci_mr"),
        ("--set bus.kind=pcix --set pci.clock=133", "pci_clocks"),
        ("--set bus.kind=pcie", "pcie_mrd_up"),
        ("--set iommu.kind=tce", "tce_puts"),
    ] {
        let run = on(sets);
        assert!(run["ledger"][count].as_u64() > Some(0), "{sets}: {count}");
    }
    // A frame each 10 ms: the latency is that of one alone.
    let paced = |every: &str| {
        let sets = "--set traffic.kind=paced --set paced.bursts=20";
        let run = json(&format!("run mine-send --no-limits {sets} --set paced.every={every}"));
        run["latency_ns"]["p50"].as_f64().unwrap()
    };
    assert_eq!(paced("10ms"), paced("3ms"));
}

/// The line of a device in programmable logic rises when its write has been answered; that of a PCI
/// card does not, and its driver's read pushes the write.
#[test]
fn a_device_runs_on_axi_and_a_pci_card_is_refused() {
    for scenario in ["mynic-send", "mynic-receive", "mynic-tcp"] {
        let line = format!("run {scenario} --set bus.kind=axi --no-limits --format json");
        let (code, text) = of_registry(&new_device::REGISTRY, &line);
        assert_eq!(code, 0, "{text}");
        let run: Value = serde_json::from_str(&text).unwrap();
        let count = |name: &str| run["ledger"][name].as_u64().unwrap();
        assert!(count("axi_read_beats") > 0 && count("axi_lite_writes") > 0, "{run}");
        assert!(run["rates"]["read_bus_busy_share"].as_f64() > Some(0.0), "{run}");
    }
    let line = "run mynic-send --set bus.kind=axi";
    let (code, text) = of_registry(&new_driver::REGISTRY, line);
    assert_eq!((code, text.contains("`bus.kind`: this card has no AXI")), (2, true), "{text}");
}

#[test]
fn a_fault_of_the_driver_is_named() {
    // It leaves checksums that it was asked for undone.
    let (code, text) = called("run mine-send --set traffic.kind=send --no-limits");
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("frames with a bad checksum were sent"), "{text}");
    let evidence = ["register: write TDT 0x", "register: read ICR 0x3 at", "DMA: write of 4 B"];
    evidence.iter().for_each(|told| assert!(text.contains(told), "{told}: {text}"));
    // It receives nothing.
    let received = "--set traffic.kind=paced --set paced.way=receive --set paced.bursts=20";
    let (code, text) = called(&format!("run mine-send --no-limits {received}"));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("peer sent 20, driver handed up or device lost 0"), "{text}");
    assert!(!text.contains("of 1 that there is"), "{text}");
    let (code, text) = called("run mine-send --set link.rate=10");
    assert_eq!((code, text.contains("this card has 1 Gbit/s")), (2, true), "{text}");
    let (code, text) = called("run mine-send --set traffic.size=2000");
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("the MTU of the driver"), "{text}");
    let (code, text) = called("run mlx5-full-rate");
    assert_eq!((code, text.contains("no scenario is called")), (2, true), "{text}");
}

#[test]
fn points_of_another_program_are_not_its_own() {
    let plan = |registry| {
        let args = "sweep mine-send --over run.seed=1,2 --plan".split(' ').map(str::to_owned);
        doorbell::call(registry, &args.collect::<Vec<_>>(), &Arc::default()).unwrap().1
    };
    let lines = plan(&REGISTRY);
    let line = serde_json::from_str::<Value>(lines.lines().next().unwrap()).unwrap();
    let mut own = DefaultHasher::new();
    own.write(&std::fs::read(std::env::current_exe().unwrap()).unwrap());
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(line["doorbell"], format!("{version}+{:016x}", own.finish()));
}
