//! The recorded instructions of our own driver are those that Callgrind counts, and
//! our own controller takes no more of them than Linux's.
//!
//! The record is what prices the CPU in the mlx5 profiles and what `doorbell
//! reproduce mlx5` holds against the published number, so it must not go stale.
//! Needs valgrind and cargo, and builds benches with full optimisation, so it runs
//! with DOORBELL_FULL=1 alone.
//!
//! A program of its own: beside cargo's builds, tests that wait for the kernel would time out.

use doorbell_conformance::full;
use doorbell_systems::mlx5::{MPWQE_INSTRUCTIONS, SEND_INSTRUCTIONS};
use std::process::Command;

/// Returns the output of the bench `instructions` of a package.
fn bench(package: &str) -> String {
    let done = Command::new(env!("CARGO"))
        .args(["bench", "--locked", "-p", package, "--bench", "instructions"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        // Another way to compile is other instructions.
        .env("CARGO_INCREMENTAL", "0")
        // tools/times.py sets it for libtest.
        .env_remove("RUSTC_BOOTSTRAP")
        .output()
        .expect("cargo runs");
    let table = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{table}{}", String::from_utf8_lossy(&done.stderr));
    table
}

/// Column `n` of the row `mode`.
fn counted(table: &str, mode: &str, n: usize) -> f64 {
    let row = table
        .lines()
        .find_map(|l| l.strip_prefix(mode))
        .unwrap_or_else(|| panic!("no row {mode} in:\n{table}"));
    let column = row.split_whitespace().nth(n).and_then(|c| c.parse().ok());
    column.unwrap_or_else(|| panic!("no column {n} in:\n{table}"))
}

#[test]
fn recorded_instructions_are_those_of_the_bench_within_2_percent() {
    if !full("valgrind, and builds a bench") {
        return;
    }
    let table = bench("doorbell-drivers");
    for (mode, recorded) in [("SEND", SEND_INSTRUCTIONS), ("MPWQE", MPWQE_INSTRUCTIONS)] {
        // A burst of 32.
        let counted = counted(&table, mode, 2);
        assert!(
            (counted / recorded - 1.0).abs() < 0.02,
            "{mode}: {counted} counted, {recorded} recorded"
        );
    }
}

/// The same samples, of traffic of all kinds; and the worst sample against net_dim's decision.
#[test]
fn our_controller_takes_no_more_instructions_a_sample_than_net_dim() {
    if !full("valgrind, and builds a bench") {
        return;
    }
    let table = bench("doorbell-moderation");
    let of = |mode| counted(&table, mode, 0);
    assert!(of("trains mixed") <= of("net_dim mixed"), "{table}");
    assert!(of("trains turning") <= of("net_dim deciding"), "{table}");
}
