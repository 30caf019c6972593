//! Cost of the Internet checksum beside a copy of the same bytes.
//!
//! Times `memcpy`, the sum, and copy-and-sum alternately in one process on the
//! same bytes, and prints the best round of each and their ratio. Ratios are
//! what can be compared from machine to machine; nothing is asserted.
//!
//! With `count <sum|copy|copysum> <bytes> <times>` it only runs one of them, for
//! `valgrind --tool=callgrind` or `perf stat` to count: the difference of two
//! `times` is the cost without the process's own start.
#![allow(missing_docs, reason = "a program, not a library")]

use doorbell_packet::checksum::Sum;
use std::hint::black_box;
use std::time::Instant;

const SIZES: [usize; 5] = [64, 256, 1514, 9000, 65536];

#[inline(never)]
fn copy(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}
#[inline(never)]
fn sum(from: &[u8]) -> u16 {
    Sum::of(from).checksum()
}
#[inline(never)]
fn copy_and_sum(to: &mut [u8], from: &[u8]) -> u16 {
    Sum::copy(to, from).checksum()
}

fn run(what: &str, to: &mut [u8], from: &[u8], times: u32) {
    for _ in 0..times {
        match what {
            "copy" => copy(black_box(&mut *to), black_box(from)),
            "sum" => {
                black_box(sum(black_box(from)));
            }
            _ => {
                black_box(copy_and_sum(black_box(&mut *to), black_box(from)));
            }
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let bytes: Vec<u8> = (0..65536u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
    let mut to = vec![0; bytes.len()];
    if let [count, what, size, times] = &args[..]
        && count == "count"
    {
        let (size, times) = (size.parse::<usize>().expect("bytes"), times.parse().expect("times"));
        return run(what, &mut to[..size], &bytes[..size], times);
    }
    println!(
        "{:>6} {:>12} {:>12} {:>14} {:>10} {:>14}",
        "bytes", "memcpy GB/s", "sum GB/s", "copy+sum GB/s", "sum/memcpy", "copysum/memcpy"
    );
    for size in SIZES {
        let times = (16 << 20) / size as u32;
        let mut best = [f64::INFINITY; 3];
        for _ in 0..15 {
            for (what, best) in ["copy", "sum", "copysum"].iter().zip(&mut best) {
                let start = Instant::now();
                run(what, &mut to[..size], &bytes[..size], times);
                *best = best.min(start.elapsed().as_secs_f64());
            }
        }
        let rate = best.map(|t| size as f64 * f64::from(times) / t / 1e9);
        println!(
            "{size:>6} {:>12.1} {:>12.1} {:>14.1} {:>10.2} {:>14.2}",
            rate[0],
            rate[1],
            rate[2],
            best[1] / best[0],
            best[2] / best[0]
        );
    }
}
