//! The time line against the naive model, and the closed-form cost against walking the pieces:
//! ratios within one process, printed and never asserted.

#[path = "../tests/it/naive/mod.rs"]
mod naive;

use doorbell_bus::pcie::{Rules, Settings};
use doorbell_bus::reservations::Reservations;
use doorbell_hal::{Span, Time};
use naive::Naive;
use std::hint::black_box;
use std::time::Instant;

const BOOKINGS: usize = 200_000;

/// Returns nanoseconds for each of `count` operations, the best of five rounds.
fn best(count: usize, mut round: impl FnMut() -> u64) -> f64 {
    (0..5)
        .map(|_| {
            let start = Instant::now();
            black_box(round());
            start.elapsed().as_nanos() as f64 / count as f64
        })
        .fold(f64::INFINITY, f64::min)
}

/// Bookings of a link: one every `every` ps, each `ahead`-th about 500 ns ahead.
fn bookings(every: u64, ahead: usize) -> Vec<(u64, u64)> {
    let mut seed = 1u64;
    (0..BOOKINGS)
        .map(|i| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let noise = seed >> 50;
            let later = if i % ahead == 0 { 500_000 + noise } else { 0 };
            (i as u64 * every + later, 1_500 + noise % 4_000)
        })
        .collect()
}

/// Bookings of many cores: each runs a burst of 32 packets in turn, so that times sweep forward and
/// fall back. Each packet books now and 500 ns ahead.
fn bursts(cores: u64, every: u64) -> Vec<(u64, u64)> {
    let packets = BOOKINGS as u64 / 2;
    let mut all = Vec::new();
    for burst in 0..packets / 32 {
        let start = (burst / cores) * cores * 32 * every + burst % cores * 10_000;
        for packet in 0..32 {
            let at = start + packet * every * cores;
            all.extend([(at, 1_000), (at + 500_000, 5_000 + packet * 37 % 500)]);
        }
    }
    all
}

fn compare(name: &str, bookings: &[(u64, u64)], lag: u64) {
    let mut longest = 0;
    let line = best(bookings.len(), || {
        let mut line = Reservations::new();
        let mut sum = 0;
        for (i, &(at, duration)) in bookings.iter().enumerate() {
            sum += line.book(Time::from_ps(at), Span::from_ps(duration)).ps();
            if i % 64 == 0 {
                line.retire_before(Time::from_ps(at.saturating_sub(lag)));
                longest = longest.max(line.intervals().count());
            }
        }
        sum
    });
    let naive = best(bookings.len(), || {
        let mut line = Naive::default();
        let mut sum = 0;
        for (i, &(at, duration)) in bookings.iter().enumerate() {
            sum += line.book(at, duration);
            if i % 64 == 0 {
                line.retire_before(at.saturating_sub(lag));
            }
        }
        sum
    });
    println!(
        "{name:34} {line:7.2} ns a booking, naive {naive:9.2}, ratio {:7.1}; \
         {longest} intervals at most",
        naive / line
    );
}

fn costs() {
    let rules = black_box(Rules::new(Settings::link(3, 16)).unwrap());
    let ranges: Vec<(u64, u32)> = (0..1024u64)
        .map(|i| (0x1_0000_0000 + i * 0x942, [64, 256, 1514, 16][i as usize % 4]))
        .collect();
    let closed = best(ranges.len() * 100, || {
        let mut sum = 0;
        for _ in 0..100 {
            for &(addr, len) in black_box(&ranges) {
                let cost = rules.read_cost(addr, len);
                sum +=
                    cost.requests + cost.request_bytes + cost.completions + cost.completion_bytes;
            }
        }
        sum
    });
    let walked = best(ranges.len() * 100, || {
        let mut sum = 0;
        for _ in 0..100 {
            for &(addr, len) in black_box(&ranges) {
                for request in rules.split_read(addr, len) {
                    sum += 1 + u64::from(rules.mrd_bytes(request.addr));
                    for part in rules.split_completions(request.addr, request.len) {
                        sum += 1 + u64::from(rules.cpld_bytes(part.addr, part.len));
                    }
                }
            }
        }
        sum
    });
    println!(
        "{:34} {closed:7.2} ns a cost,    walked {walked:8.2}, ratio {:7.1}",
        "read_cost",
        walked / closed
    );
}

fn main() {
    compare("append, half busy", &bookings(7_000, usize::MAX), 1_000_000);
    compare("append, overloaded", &bookings(3_000, usize::MAX), 1_000_000);
    compare("each fourth ahead, half busy", &bookings(7_000, 4), 1_000_000);
    compare("each second ahead, 90 % busy", &bookings(3_900, 2), 5_000_000);
    compare("24 cores in bursts, 80 % busy", &bursts(24, 8_000), 8_000_000);
    compare("4 cores in bursts, 80 % busy", &bursts(4, 8_000), 2_000_000);
    costs();
}
