use super::super::{Rules, Settings};
use super::*;
use proptest::prelude::*;

fn rules(change: impl FnOnce(&mut Settings), generation: u32, lanes: u32) -> Rules {
    let mut settings = Settings::link(generation, lanes);
    change(&mut settings);
    Rules::new(settings).unwrap()
}

fn picoseconds(byte: ByteTime) -> f64 {
    byte.0 as f64 / (1u64 << FRACTION) as f64
}

fn time(generation: u32, lanes: u32, bytes: u64) -> u64 {
    ByteClock::new(ByteTime::of_link(generation, lanes)).take(bytes).ps()
}

#[test]
fn a_byte_takes_125_ps_on_gen2_x16_and_63_477_on_gen3_x16() {
    assert_eq!(time(2, 16, 1), 125);
    assert_eq!(picoseconds(ByteTime::of_link(3, 16)), 63.476_562_5);
    assert_eq!(time(3, 16, 1_000_000), 63_476_562);
    // 8e9 and 15.754e9 bytes a second.
    assert_eq!(ByteTime::of_link(2, 16).capacity(Span::from_ms(1000)), 8_000_000_000);
    assert_eq!(ByteTime::of_link(3, 16).capacity(Span::from_ms(1000)), 15_753_846_153);
}

/// facts: PCI Express rates, MB/s a lane.
#[test]
fn lane_rates_are_those_of_the_table() {
    for (generation, mb) in [(1, 250.0), (2, 500.0), (3, 984.6), (4, 1969.0), (5, 3938.0)] {
        for lanes in [1, 2, 4, 8, 16, 32] {
            let rate = 1e6 / picoseconds(ByteTime::of_link(generation, lanes));
            let table = mb * f64::from(lanes);
            assert!((rate / table - 1.0).abs() < 3e-4, "gen{generation} x{lanes}: {rate} {table}");
        }
    }
}

#[test]
fn half_the_speed_takes_twice_the_time() {
    let half = rules(|s| s.speed_ppm = 500_000, 2, 16);
    assert_eq!(ByteClock::new(half.byte_time()).take(3).ps(), 750);
    let twice = rules(|s| s.speed_ppm = 2_000_000, 2, 16);
    assert_eq!(ByteClock::new(twice.byte_time()).take(6).ps(), 375);
}

proptest! {
    #[test]
    fn calls_add_up_to_the_picosecond(
        generation in 1u32..=5, lanes in 0u32..=5, ppm in 10_000u32..=10_000_000,
        calls in prop::collection::vec(0u64..70_000, 1..200),
    ) {
        let byte = rules(|s| s.speed_ppm = ppm, generation, 1 << lanes).byte_time();
        let mut clock = ByteClock::new(byte);
        let sum: u64 = calls.iter().map(|&n| clock.take(n).ps()).sum();
        let bytes: u64 = calls.iter().sum();
        prop_assert_eq!(sum, ByteClock::new(byte).take(bytes).ps());
        // Against the true rational: lane time in 2^-10 ps, times 10^6 / (lanes * ppm).
        let lane = [4_096_000u128, 2_048_000, 1_040_000, 520_000, 260_000][generation as usize - 1];
        let exact = u128::from(bytes) * lane * 1_000_000 / (u128::from(ppm) << (10 + lanes));
        prop_assert!(u128::from(sum).abs_diff(exact) <= 1);
    }
}
