use super::*;

fn error(change: impl FnOnce(&mut Settings)) -> String {
    let mut settings = Settings::ZYNQMP;
    change(&mut settings);
    Rules::new(settings).unwrap_err().to_string()
}

#[test]
fn a_wrong_setting_is_named_with_what_is_allowed() {
    insta::assert_snapshot!(
        error(|s| s.mhz = 0),
        @"mhz = 0 is not an AXI setting; allowed: 1 to 1000"
    );
    insta::assert_snapshot!(
        error(|s| s.bits = 48),
        @"bits = 48 is not an AXI setting; allowed: 32, 64, 128, 256, 512, 1024"
    );
    insta::assert_snapshot!(
        error(|s| s.beats = 512),
        @"beats = 512 is not an AXI setting; allowed: 2, 4, 8, 16, 32, 64, 128, 256"
    );
    insta::assert_snapshot!(
        error(|s| (s.protocol, s.beats) = (Protocol::Axi3, 32)),
        @"beats = 32 is not an AXI setting; allowed: 2, 4, 8, 16"
    );
    insta::assert_snapshot!(
        error(|s| s.reads = 33),
        @"reads = 33 is not an AXI setting; allowed: 1 to 32"
    );
    insta::assert_snapshot!(
        error(|s| s.writes = 0),
        @"writes = 0 is not an AXI setting; allowed: 1 to 32"
    );
    insta::assert_snapshot!(
        error(|s| s.lite_clocks = 256),
        @"lite_clocks = 256 is not an AXI setting; allowed: 1 to 255"
    );
}

#[test]
fn a_clock_that_does_not_divide_is_exact_over_many() {
    let rules = Rules::new(Settings { mhz: 333, ..Settings::ZYNQMP }).unwrap();
    assert_eq!(rules.clocks(1), Span::from_ps(3004));
    assert_eq!(rules.clocks(333_000), Span::from_ms(1));
}

#[test]
fn an_unaligned_start_takes_a_beat_more() {
    let rules = Rules::new(Settings::ZYNQMP).unwrap();
    assert_eq!(
        [rules.beats(0, 8), rules.beats(4, 8), rules.beats(7, 1), rules.beats(7, 2)],
        [1, 2, 1, 2]
    );
    assert_eq!(rules.beats(0, 0), 0);
}

#[test]
fn a_register_of_64_bits_is_two_accesses() {
    assert_eq!([1, 2, 4, 8].map(Rules::lite_accesses), [1, 1, 1, 2]);
}
