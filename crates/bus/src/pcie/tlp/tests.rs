use super::super::{Rules, Settings};
use super::*;

#[test]
fn link_overhead_is_eight_bytes_in_both_framings() {
    for generation in 1..=5 {
        assert_eq!(Framing::of(generation).bytes(), 8);
    }
}

/// facts: TLP size on the wire.
#[test]
fn header_sizes_are_those_of_the_table() {
    const LOW: u64 = 0xFFFF_F000;
    const HIGH: u64 = 0x1_0000_0000;
    for (ecrc, digest) in [(false, 0), (true, 4)] {
        for generation in 1..=5 {
            let rules = Rules::new(Settings { ecrc, ..Settings::link(generation, 8) }).unwrap();
            assert_eq!(rules.mrd_bytes(LOW), 20 + digest);
            assert_eq!(rules.mrd_bytes(HIGH), 24 + digest);
            assert_eq!(rules.mwr_bytes(LOW, 4), 24 + digest);
            assert_eq!(rules.mwr_bytes(HIGH, 4), 28 + digest, "MSI-X");
            assert_eq!(rules.cpld_bytes(HIGH, 64), 84 + digest);
            assert_eq!(rules.cpl_bytes(), 20 + digest);
            assert_eq!(rules.message_bytes(), 24 + digest);
        }
    }
}

#[test]
fn payload_is_whole_double_words_and_an_unaligned_start_adds_up_to_three_bytes() {
    let rules = Rules::new(Settings::link(3, 8)).unwrap();
    assert_eq!(rules.mwr_bytes(0, 1514), 20 + 1516);
    assert_eq!(rules.mwr_bytes(2, 1514), 20 + 1516);
    assert_eq!(rules.mwr_bytes(3, 1514), 20 + 1520);
    assert_eq!(rules.mwr_bytes(3, 1), 20 + 4);
    assert_eq!(rules.mwr_bytes(3, 2), 20 + 8);
}
