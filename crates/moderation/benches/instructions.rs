//! The instructions of one `sample`, counted by Callgrind.
//!
//! Callgrind counts only inside `counted_*`, and each number is the difference of two runs with
//! different numbers of samples. The caller's costs are included: the call, and the test of its
//! result. The rows, in [`main`]: a floor that decides nothing; net_dim within an epoch, deciding
//! at every sample, and applying; rdma_dim; alternating traffic for e1000's classes and for trains;
//! and six kinds of traffic for net_dim and trains ([`mixed`]).
//!
//! `cargo bench -p doorbell-moderation --bench instructions` runs itself under valgrind.

use doorbell_moderation::{
    Controller, Direction, Fixed, Flow, ItrClasses, ItrMode, Limits, Link, NetDim, Period, RdmaDim,
    Sample, Setting, Trains, profiles,
};
use std::hint::black_box;
use std::process::Command;

const MODES: [&str; 9] = [
    "fixed",
    "net_dim in an epoch",
    "net_dim deciding",
    "net_dim applying",
    "rdma_dim",
    "e1000 classes",
    "trains turning",
    "net_dim mixed",
    "trains mixed",
];

#[inline(never)]
fn counted_sample<C: Controller>(c: &mut C, s: &Sample, apply: bool) -> bool {
    let told = c.sample(s).is_some();
    if told && apply {
        c.applied();
    }
    // Or the call is folded away where nothing can come of it.
    black_box(told)
}

/// Takes `n` samples of `events` events each; returns how many settings came out.
fn take<C: Controller>(mut c: C, n: u64, events: u64, apply: bool) -> u64 {
    let mut at = Sample::default();
    let mut changes = 0;
    for i in 0..n {
        // The load changes every 64 samples, so that there is something to follow.
        let load = 5 + i / 64 % 4;
        let (packets, bytes) = if i % 2 == 0 { (20 * load, 30_000 * load) } else { (1, 600) };
        at.time_ns += 50_000 * events;
        at.events += events;
        at.rx = Flow { packets: at.rx.packets + packets, bytes: at.rx.bytes + bytes };
        at.completions += packets;
        changes += u64::from(counted_sample(black_box(&mut c), black_box(&at), apply));
    }
    changes
}

/// Samples as a driver would take them, an interrupt each: so many packets after so many
/// nanoseconds.
///
/// Saturated by full frames, at 64 packets an interrupt and at four; bursts of 32 each
/// millisecond; lone packets at random, one a millisecond; one each 60 us, as of requests; and
/// small frames that come while others are polled.
fn mixed(i: u64) -> (u64, u64) {
    // Any odd number does: the upper bits are as good as random.
    let draw = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
    match i / 1_000 % 6 {
        0 => (787_456, 64),
        1 => (49_216, 4),
        2 => (if i.is_multiple_of(2) { 800_000 } else { 200_000 }, 16),
        3 => (2 * draw, 1),
        4 => (60_000, 1),
        _ => (40_000 + draw / 100, 10 + draw % 20),
    }
}

fn take_mixed<C: Controller>(mut c: C, n: u64) -> u64 {
    let mut at = Sample::default();
    let mut changes = 0;
    for i in 0..n {
        let (ns, packets) = mixed(i);
        at.time_ns += ns;
        at.events += 1;
        at.rx = Flow { packets: at.rx.packets + packets, bytes: at.rx.bytes + packets * 1_514 };
        changes += u64::from(counted_sample(black_box(&mut c), black_box(&at), true));
    }
    changes
}

/// A silence and eleven packets that came at once, by turns.
fn take_turns(mut c: Trains, n: u64) -> u64 {
    let mut at = Sample::default();
    let mut changes = 0;
    for i in 0..n {
        let packets = if i % 2 == 0 { 11 } else { 1 };
        at.time_ns += 1_000_000;
        at.rx.packets += packets;
        changes += u64::from(counted_sample(black_box(&mut c), black_box(&at), true));
    }
    changes
}

fn trains() -> Trains {
    let link = Link { mbit_s: 1_000, mtu: 1_500 };
    Trains::new(Direction::Rx, link, Period::Completion, 1_000, Limits::AXIENET)
}

fn run(mode: &str, n: u64) -> u64 {
    let dim = NetDim::new(profiles::linux(Direction::Rx, Period::Event), Direction::Rx);
    match mode {
        "fixed" => take(Fixed(Setting::usecs(50, 24, Period::Event)), n, 1, true),
        "net_dim in an epoch" => take(dim, n, 1, true),
        "net_dim deciding" => take(dim, n, 64, true),
        "net_dim applying" => take(dim, n, 64, false),
        "rdma_dim" => take(RdmaDim::new(), n, 1, true),
        "trains turning" => take_turns(trains(), n),
        "net_dim mixed" => take_mixed(dim, n),
        "trains mixed" => take_mixed(trains(), n),
        _ => take(ItrClasses::new(ItrMode::Dynamic, 1_000, &Sample::default()), n, 1, true),
    }
}

/// Instructions that Callgrind counts for a run of this program, and the settings that came out.
fn count(mode: &str, n: u64) -> Result<(u64, u64), String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*counted_*"])
        .arg(me)
        .args(["child", mode, &n.to_string()])
        .output()
        .map_err(|e| format!("valgrind does not start ({e}); install it to count instructions"))?;
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    let collected = text.lines().find_map(|l| l.split("Collected :").nth(1)?.trim().parse().ok());
    let changes = String::from_utf8_lossy(&out.stdout).trim().parse().ok();
    collected.zip(changes).filter(|_| out.status.success()).ok_or(text)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, word, mode, n] = args.as_slice()
        && word == "child"
        && let Ok(n) = n.parse()
    {
        println!("{}", run(mode, n));
        return;
    }
    let (few, many) = (6_000u64, 66_000u64);
    println!("moderation: instructions a sample, and settings that came of {} samples", many - few);
    for mode in MODES {
        match (count(mode, few), count(mode, many)) {
            (Ok(a), Ok(b)) => {
                println!(
                    "{mode:<20} {:>8.1} {:>8}",
                    (b.0 - a.0) as f64 / (many - few) as f64,
                    b.1 - a.1
                );
            }
            (Err(why), _) | (_, Err(why)) => return println!("{mode}: {why}"),
        }
    }
}
