//! Tests of device and driver. The audit of each run also names what the driver has not given back.

use super::device::Config;
use super::{MyCard, REGISTRY};
use doorbell::prelude::Span;
use doorbell::trial::{self, Order};
use std::sync::Arc;

/// One that reports each doorbell, on a link of 1 Gbit/s.
const GIGABIT: Config = Config { byte: Span::from_ns(8), each: false };

/// Runs a command. Returns its exit code and what it prints.
fn called(line: &str) -> (u8, String) {
    let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
    doorbell::call(&REGISTRY, &args, &Arc::default()).unwrap_or_else(|e| (e.code, e.what))
}

#[test]
fn traffic_goes_both_ways() {
    for scenario in ["mynic-send", "mynic-receive", "mynic-tcp"] {
        let (code, text) = called(&format!("run {scenario} --no-limits"));
        assert!(code == 0 && !text.contains("overloaded"), "{text}");
    }
}

#[test]
fn no_order_of_stores_breaks_it() {
    for order in [Order::Late, Order::Overtaken, Order::Random(1), Order::Random(2)] {
        assert_eq!(trial::reordered::<MyCard>(&GIGABIT, order, None), [""; 0], "{order:?}");
    }
}

#[test]
fn it_goes_on_after_faults() {
    for fault in ["lost-interrupt@5", "late-completion@5:1ms", "dma-fault@900", "link-flap@2ms:1ms"]
    {
        for scenario in ["mynic-send", "mynic-receive"] {
            let (code, text) = called(&format!("run {scenario} --no-limits --fault {fault}"));
            assert_eq!(code, 0, "{fault}: {text}");
        }
    }
}

#[test]
fn the_device_takes_any_input() {
    for seed in 0..64 {
        assert_eq!(trial::attacked::<MyCard>(&GIGABIT, seed), [""; 0], "seed {seed}");
    }
}

#[test]
fn a_device_that_lies_does_not_harm_it() {
    for seed in 0..64 {
        assert_eq!(trial::lied_to::<MyCard>(&GIGABIT, seed), [""; 0], "seed {seed}");
    }
}

#[test]
fn the_same_run_is_the_same_bytes() {
    let run = || called("run mynic-receive --format json --no-limits");
    let first = run();
    assert_eq!(first.0, 0, "{}", first.1);
    assert_eq!(first, run());
}
