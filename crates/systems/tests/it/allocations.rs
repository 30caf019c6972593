//! The packet path does not allocate: ten times the packets make no more calls of the allocator, in
//! traffic, driver, bus, ledger, guard, device and wire together.
//!
//! The allocator is that of all tests here. It counts by thread, so tests beside this one do not
//! disturb it.
#![allow(
    unsafe_code,
    reason = "a global allocator is an unsafe trait; this one counts and passes on"
)]

use doorbell_sim::Unwatched;
use doorbell_systems::DOORBELL;
use doorbell_systems::mlx5::{Load, run};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter, and is not the one that counts.
    let _ = CALLS.try_with(|c| c.set(c.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract, and `at` came from the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `realloc`'s contract, and `at` came from the system's allocator.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of calls of the allocator in a run of `packets` packets.
fn calls(cores: u16, mpwqe: bool, rate: Option<f64>, packets: u64) -> u64 {
    let mut values = DOORBELL.plan("mlx5-pktgen-64").expect("sound").values;
    for set in
        [format!("run.cores={cores}"), format!("driver.mpwqe={}", if mpwqe { "on" } else { "off" })]
    {
        values.set(&set).expect("allowed");
    }
    let setup = doorbell_systems::mlx5::settings::setup(&values).expect("sound");
    let load = Load::pktgen(64, 32, packets).at(rate);
    let before = CALLS.get();
    let outcome = run(&setup, &load, &mut Unwatched).expect("runs");
    let calls = CALLS.get() - before;
    assert_eq!((outcome.counts.packets, outcome.verdict.audit), (packets, vec![]));
    calls
}

#[test]
fn ten_times_the_packets_make_no_more_allocations() {
    for (cores, rate) in [(1, None), (24, Some(36.864e6)), (24, None)] {
        for mpwqe in [false, true] {
            let few = calls(cores, mpwqe, rate, 76_800);
            let many = calls(cores, mpwqe, rate, 768_000);
            // A vector that doubles may do so once or twice more on every core, and a histogram
            // has a few more octaves. A run keeps at most 128 samples, each of six lists and a
            // histogram that may grow once, and takes some 110 more in ten times its length. A
            // burst of 32 packets that allocated would add 21,600.
            let slack = 16 + 16 * u64::from(cores) + 128 * 8;
            assert!(few > 0, "the allocator is counted");
            assert!(many <= few + slack, "{cores} cores, MPWQE {mpwqe}: {few} calls, then {many}");
            println!("{cores} cores, MPWQE {mpwqe}: {few} calls, then {many}");
        }
    }
}

/// Returns the page faults of this thread so far.
#[cfg(target_os = "linux")]
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The name ends with a parenthesis, and may have blanks and parentheses in it.
    let (_, numbers) = stat.rsplit_once(") ").unwrap();
    numbers.split(' ').nth(7).unwrap().parse().unwrap()
}

/// Pages that a run does not touch cost nothing, those of its last-level cache included. A memory
/// of 64 MiB and what is known of its lines are more than 16,384 pages of 4 KiB.
#[cfg(target_os = "linux")]
#[test]
fn a_short_run_does_not_touch_its_whole_memory() {
    const RUNS: u64 = 20;
    for (scenario, set) in [
        ("mlx5-single-stream", ["traffic.packets=240", "traffic.size=60"]),
        ("mlx5-receive", ["traffic.duration=0.01", "memory.ways=20"]),
    ] {
        let mut plan = DOORBELL.plan(scenario).unwrap();
        set.iter().for_each(|s| plan.set(s).unwrap());
        let run = || plan.system.run(&plan.values, None, &mut Unwatched).unwrap();
        drop(run());
        let before = page_faults();
        (0..RUNS).for_each(|_| drop(run()));
        let each = (page_faults() - before) / RUNS;
        assert!((1..2_000).contains(&each), "{scenario}: {each} page faults a run");
    }
}
