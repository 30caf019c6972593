//! The rates of `doorbell live`, with their judgement: printed, never asserted.
//!
//! Each direction runs three times, ten rounds each. A round is one second through ibmveth beside
//! one second bare, so its ratio has little of what else the machine does. What is judged is the
//! median of all thirty. The ratio that each state has to reach is the command's own
//! (`least_ratio`).

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use serde_json::Value;
use std::process::{Command, Stdio};

const RUNS: usize = 3;

/// One run as JSON, or its words where there is none.
fn run(direction: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command
        .args(["live", "--seconds", "10", "--urgent", "--quiet", "--format", "json"])
        .args(direction);
    let output = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    let said = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
    serde_json::from_slice(&output.stdout).map_err(|_| said())
}

/// Least, median and greatest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => [f64::NAN; 3],
        n => [values[0], values[n / 2], values[n - 1]],
    }
}

fn main() {
    println!("doorbell live, {RUNS} runs of ten rounds each way: ibmveth over the bare pair");
    for direction in [&[][..], &["--reverse"]] {
        let mut ratios = [vec![], vec![]];
        let mut gains = vec![];
        let (mut least, mut name) = (f64::NAN, String::new());
        for _ in 0..RUNS {
            let v = match run(direction) {
                Ok(v) => v,
                Err(said) => {
                    println!("  skipped: {said}");
                    return;
                }
            };
            least = v["least_ratio"].as_f64().unwrap_or(f64::NAN);
            name = v["direction"].as_str().unwrap_or_default().to_owned();
            gains.extend(v["gain"]["ibmveth"].as_f64());
            for (state, ratios) in v["states"].as_array().into_iter().flatten().zip(&mut ratios) {
                let rounds = state["rounds_bits_per_s"].as_array().into_iter().flatten();
                ratios.extend(rounds.filter_map(|r| Some(r[0].as_f64()? / r[1].as_f64()?)));
            }
        }
        for (state, ratios) in ["off", "on"].iter().zip(ratios) {
            let [low, median, high] = spread(ratios);
            let verdict = if median >= least { "holds" } else { "does not hold" };
            println!(
                "  {name}, offloads {state:3}  median {median:.2} ({low:.2} to {high:.2}), at \
                 least {least}: {verdict}"
            );
        }
        let [low, median, high] = spread(gains);
        println!("  {name}, on over off    median {median:.2} ({low:.2} to {high:.2})");
    }
}
