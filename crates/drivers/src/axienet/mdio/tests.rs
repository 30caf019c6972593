use super::*;

#[test]
fn the_management_clock_is_never_faster_than_2_5_mhz() {
    assert_eq!(divisor(150_000_000), Some(29));
    assert_eq!(divisor(125_000_000), Some(24));
    assert_eq!(divisor(100_000_001), Some(20), "rounded to the slower side");
    assert_eq!(divisor(320_000_000), Some(63));
    assert_eq!(divisor(320_000_001), None);
    assert_eq!(divisor(0), None);
    for hz in (1..=320_000_000).step_by(999_983) {
        assert!(hz / (2 * (divisor(hz).unwrap() + 1)) <= mdio::MAX_HZ, "{hz}");
    }
}
