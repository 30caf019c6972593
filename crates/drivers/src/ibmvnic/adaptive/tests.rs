mod rule;

use super::*;
use alloc::vec::Vec;

/// Packets of these sizes in turn, each of which takes so long, by its size and whether it goes
/// directly.
fn learn(
    a: &mut AdaptiveDirect,
    sizes: &[u32],
    packets: u64,
    cost: impl Fn(u32, bool) -> u64,
) -> u64 {
    let (mut now, start) = (Time::ZERO, a.now.ps());
    now += Span::from_ps(start);
    for i in 0..packets {
        let size = sizes[(i % sizes.len() as u64) as usize];
        let direct = a.goes_directly(size);
        let began = now;
        now += Span::from_ns(cost(size, direct));
        a.packet(began, now, 8);
    }
    now.since(Time::from_ps(start)).ps() / packets
}

#[test]
fn the_break_even_is_where_the_checksum_costs_what_the_call_saves() {
    let sizes: Vec<u32> = (1..=16).map(|i| i * 560).collect();
    for (per_kb, bound) in [(100, 9000), (250, 8000), (500, 4000), (1000, 2000), (4000, 500)] {
        let mut a = AdaptiveDirect::new(9000);
        // A direct call saves 2000 ns.
        let cost =
            |size: u32, direct| if direct { 3000 + u64::from(size) * per_kb / 1000 } else { 5000 };
        learn(&mut a, &sizes, 200_000, cost);
        let found = a.break_even().unwrap();
        assert!(found.abs_diff(bound) <= 600, "{per_kb} ns/kB: {found}, not {bound}");
    }
}

#[test]
fn one_size_goes_all_one_way_and_trials_become_rare() {
    for (direct, indirect) in [(3000, 5000), (5000, 3000), (4000, 4100)] {
        let mut a = AdaptiveDirect::new(9000);
        learn(&mut a, &[8960], 30_000, |_, d| if d { direct } else { indirect });
        let each = learn(&mut a, &[8960], 200_000, |_, d| if d { direct } else { indirect });
        let best = direct.min(indirect) * 1000;
        assert!(each * 100 <= best * 101, "{each} ps for {best}");
        assert!(a.trials <= 8, "{}", a.trials);
    }
}

#[test]
fn where_the_time_is_the_same_the_cpu_decides() {
    let mut a = AdaptiveDirect::new(9000);
    let mut now = Time::ZERO;
    for _ in 0..20_000 {
        let direct = a.goes_directly(1000);
        let began = now;
        now += Span::from_ns(10_000);
        // The rest of the time is somebody else's.
        let cpu = Span::from_ns(if direct { 3000 } else { 2000 });
        a.packet(began, began + cpu, 8);
    }
    assert_eq!(a.break_even(), Some(563), "not these, but smaller ones might");
}

#[test]
fn other_traffic_is_looked_at_soon() {
    let mut a = AdaptiveDirect::new(9000);
    let cost = |size: u32, direct| if direct { 3000 + u64::from(size) / 2 } else { 5000 };
    learn(&mut a, &[8960], 150_000, cost);
    assert!(!a.goes_directly(8960));
    learn(&mut a, &[560], 30_000, cost);
    assert!(a.goes_directly(560), "{:?}", a.break_even());
}
