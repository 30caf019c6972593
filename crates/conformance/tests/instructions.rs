//! The recorded instructions of our own driver are those that Callgrind counts.
//!
//! The record is what prices the CPU in the mlx5 profiles and what `doorbell
//! reproduce mlx5` holds against the published number, so it must not go stale.
//! Needs valgrind and cargo, and builds a bench with full optimisation, so it runs
//! with DOORBELL_FULL=1 alone.

use doorbell_conformance::full;
use doorbell_lab::mlx5::{MPWQE_INSTRUCTIONS, SEND_INSTRUCTIONS};
use std::process::Command;

/// The bench's number for `mode` at a burst of 32: its third column.
fn counted(table: &str, mode: &str) -> f64 {
    let row = table.lines().find_map(|l| l.strip_prefix(mode)).unwrap_or_else(|| panic!("no row {mode} in:\n{table}"));
    let column = row.split_whitespace().nth(2).and_then(|c| c.parse().ok());
    column.unwrap_or_else(|| panic!("no burst of 32 in:\n{table}"))
}

#[test]
fn recorded_instructions_are_those_of_the_bench_within_2_percent() {
    if !full("valgrind, and builds a bench") {
        return;
    }
    let done = Command::new(env!("CARGO"))
        .args(["bench", "--locked", "-p", "doorbell-drivers", "--bench", "instructions"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo runs");
    let table = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{table}{}", String::from_utf8_lossy(&done.stderr));
    for (mode, recorded) in [("SEND", SEND_INSTRUCTIONS), ("MPWQE", MPWQE_INSTRUCTIONS)] {
        let counted = counted(&table, mode);
        assert!((counted / recorded - 1.0).abs() < 0.02, "{mode}: {counted} counted, {recorded} recorded");
    }
}
