//! A driver that knows only pointers: the same counts, and a store buffer that barriers empty.

use crate::command::counts_as_in_rust;
use crate::{built, ran};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(program: &Path, case: &str, line: &str) -> Output {
    Command::new(program).env("CASE", case).args(line.split(' ')).output().unwrap()
}

fn program(dir: &tempfile::TempDir) -> PathBuf {
    built(dir.path(), &["tests/it/pointers.c"])
}

#[test]
fn pointers_count_as_in_rust() {
    let dir = tempfile::tempdir().unwrap();
    let program = program(&dir);
    for line in [
        "run mynic-send --set traffic.packets=1000",
        "run mynic-receive --set traffic.warmup=200us --set traffic.duration=3ms",
        "run mynic-tcp --set traffic.warmup=1ms --set traffic.duration=3ms",
        "run mynic-send --set traffic.packets=1000 --set bus.kind=pcix",
        "run mynic-send --set traffic.packets=1000 --fault dma-fault@300",
    ] {
        counts_as_in_rust(&program, line);
    }
}

/// Each run has memory of its own, at addresses of its own.
#[test]
fn drivers_run_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let line = "sweep mynic-send --set traffic.packets=300 --over run.seed=1..8 --jobs 4 \
                --show mmio_writes --show cycles --format ndjson";
    let words: Vec<&str> = line.split_whitespace().collect();
    let out = ran(Command::new(program(&dir)).args(words)).stdout;
    let rows: Vec<Value> =
        out.split(|b| *b == b'\n').filter_map(|l| serde_json::from_slice(l).ok()).collect();
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row["mmio_writes"] == rows[0]["mmio_writes"]), "{rows:?}");
}

#[test]
fn a_missing_barrier_sends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let program = program(&dir);
    let line = "run mynic-send --set traffic.packets=100 --no-limits";
    let out = run(&program, "no barrier", line);
    let told = [out.stdout, out.stderr].map(|b| String::from_utf8(b).unwrap()).concat();
    assert_eq!(out.status.code(), Some(1), "{told}");
    assert!(told.contains("a write barrier is missing"), "{told}");
}

#[test]
fn every_instruction_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let program = program(&dir);
    let line = "run mynic-send --set traffic.packets=20 --no-limits";
    let out = run(&program, "odd", line);
    let told = String::from_utf8(out.stderr).unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    // The one write that the machine does not have is refused, and the audit says so.
    assert!(text.contains("calls that were refused: 1, the first of db_window"), "{text}{told}");
    assert!(!told.contains("expected"), "{told}");
}

/// A fault elsewhere ends the program as it would without this.
#[test]
fn a_wild_pointer_ends_the_program() {
    use std::os::unix::process::ExitStatusExt;
    let dir = tempfile::tempdir().unwrap();
    let out = run(&program(&dir), "wild", "run mynic-send --set traffic.packets=20 --no-limits");
    assert_eq!(out.status.signal(), Some(11), "{:?}", out.status);
}
