//! A driver in C is the whole command, with the counts of the same driver in Rust.

use crate::rust::REGISTRY;
use crate::{built, compiler, libraries, of_crate, ran};
use doorbell_conformance::full;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

pub(crate) const SOURCES: &[&str] = &["../../examples/c/mynic.c", "../../examples/c/main.c"];

#[test]
fn the_counts_are_those_of_the_driver_in_rust() {
    let dir = tempfile::tempdir().unwrap();
    let program = built(dir.path(), SOURCES);
    for line in [
        "run mynic-send",
        "run mynic-receive",
        "run mynic-receive --set traffic.load=100",
        "run mynic-tcp",
        "run mynic-tcp --set traffic.kind=send",
        "run mynic-send --set bus.kind=pcix --set iommu.kind=tce",
        "run mynic-send --fault dma-fault@900 --fault lost-interrupt@50",
    ] {
        counts_as_in_rust(&program, line);
    }
}

/// Runs a line with a driver in C, and with the same one in Rust. All but the drivers' own counters
/// has to be the same.
pub(crate) fn counts_as_in_rust(program: &Path, line: &str) {
    let args: Vec<&str> = line.split(' ').chain(["--no-limits", "--format", "json"]).collect();
    let of_c: Value = serde_json::from_slice(&ran(Command::new(program).args(&args)).stdout)
        .unwrap_or_else(|e| panic!("{line}: {e}"));
    let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
    let (code, text) = doorbell::call(&REGISTRY, &args, &Arc::default()).unwrap();
    assert_eq!(code, 0, "{line}: {text}");
    let of_rust: Value = serde_json::from_str(&text).unwrap();
    same_counts(&of_c, &of_rust, line);
    assert_eq!(of_c["ledger"]["driver_refused_calls"], 0, "{line}");
}

/// Compares results of a driver in C and in Rust, but for the drivers' own counters.
pub(crate) fn same_counts(of_c: &Value, of_rust: &Value, line: &str) {
    for part in ["packets", "ledger", "per_packet", "rates", "latency_ns", "audit"] {
        assert!(of_rust[part] != Value::Null, "{line}: {part}");
        assert_eq!(without_own(&of_c[part]), without_own(&of_rust[part]), "{line}: {part}");
    }
}

/// Returns a part of a result without the driver's own counters.
fn without_own(part: &Value) -> Value {
    match part {
        Value::Object(o) => {
            let all = o.iter().filter(|(name, _)| !name.starts_with("driver_"));
            Value::Object(all.map(|(k, v)| (k.clone(), v.clone())).collect())
        }
        other => other.clone(),
    }
}

/// The first lines of the guide's table are those that the program prints.
#[test]
fn the_guide_shows_what_it_prints() {
    let guide = std::fs::read_to_string(of_crate("../../docs/writing-a-driver.md")).unwrap();
    let (line, shown) = guide.split_once("\n./mynic ").unwrap().1.split_once('\n').unwrap();
    let shown = shown.split_once("```text\n").unwrap().1.split_once("```").unwrap().0;
    let dir = tempfile::tempdir().unwrap();
    let program = built(dir.path(), SOURCES);
    let line = format!("{} {line}", program.display());
    let printed = ran(Command::new("sh").args(["-c", &line])).stdout;
    assert_eq!(String::from_utf8(printed).unwrap(), shown);
}

#[test]
fn every_command_that_runs_a_system_takes_it() {
    let dir = tempfile::tempdir().unwrap();
    let program = built(dir.path(), SOURCES);
    for line in [
        "run mynic-send --out run",
        "run mynic-send --capture c.pcapng --trace t.json",
        "run mynic-send --no-limits --pcap c.pcapng",
        "compare mynic-send --with pcie.mps=256",
        // Several drivers at a time.
        "sweep mynic-send --set traffic.packets=500 --over run.seed=1,2,3,4 --jobs 4",
        "new budget --of mynic-send b.toml",
        "check b.toml",
        "report .",
        "list --keys mynic",
    ] {
        ran(Command::new(&program).args(line.split(' ')).current_dir(dir.path()));
    }
}

#[test]
fn the_static_library_has_all_that_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    ran(compiler()
        .args(SOURCES.iter().map(|source| of_crate(source)))
        .arg(libraries().join("libdoorbell_capi.a"))
        .args(["-lm", "-lpthread", "-ldl", "-o"])
        .arg(&program));
    ran(Command::new(&program).args(["run", "mynic-send", "--set", "traffic.packets=100"]));
}

/// Neither the driver nor the interface touches memory that is not its own, or loses any.
#[test]
fn valgrind_finds_nothing() {
    if !full("valgrind") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = built(dir.path(), SOURCES);
    for line in [
        "mynic-send --set traffic.packets=300 --fault dma-fault@300",
        "mynic-receive --set traffic.warmup=200us --set traffic.duration=2ms",
    ] {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
        valgrind.arg("--errors-for-leak-kinds=definite").arg(&program);
        ran(valgrind.args(["run", "--no-limits"]).args(line.split(' ')));
    }
}
