use super::*;
use crate::OpenError;

#[test]
fn a_delay_is_rounded_to_units_of_125_clocks_and_cut_to_255() {
    for (mhz, usecs, units) in
        [(125, 16, 16), (125, 50, 50), (100, 50, 40), (250, 200, 255), (100, 1, 1), (50, 2, 1)]
    {
        assert_eq!(delay_units(usecs * 1_000, mhz * 1_000_000), units, "{usecs} us at {mhz} MHz");
    }
    assert_eq!(delay_units(600, 125_000_000), 1, "to the nearest");
    assert_eq!(delay_units(1_499, 125_000_000), 1);
    assert_eq!(delay_units(1_500, 125_000_000), 2);
    assert_eq!(delay_units(u64::from(u32::MAX) * 1_000, u32::MAX), 255);
}

#[test]
fn a_delay_that_was_asked_for_never_becomes_none() {
    assert_eq!(delay_units(1_000, 10_000_000), 1);
    assert_eq!(delay_units(0, 10_000_000), 0);
}

#[test]
fn the_control_word_of_threshold_64_and_50_us() {
    assert_eq!(control(64, 50_000, 125_000_000) | cr::RS, 0x3240_7001);
}

#[test]
fn threshold_one_has_no_delay_and_no_delay_interrupt() {
    assert_eq!(control(1, 16_000, 125_000_000) | cr::RS, 0x0001_5001);
    assert_eq!(
        control(0, 16_000, 125_000_000),
        control(1, 0, 1),
        "zero is illegal, and becomes one"
    );
}

#[test]
fn what_is_read_back_is_what_the_register_holds() {
    let back = |frames, usecs: u64, mhz: u32| {
        thresholds(control(frames, usecs * 1_000, mhz * 1_000_000), mhz * 1_000_000)
    };
    assert_eq!(back(16, 40, 125), (16, 40));
    assert_eq!(back(16, 1_000, 125), (16, 255), "cut to 255 units of a microsecond");
    assert_eq!(back(16, 7, 100), (16, 8), "six units of 1.25 us, to the nearest");
    assert_eq!(back(1, 50, 125), (1, 0), "a count of one has no delay");
}

#[test]
fn user_settings_are_checked_as_the_driver_does() {
    let ok = Coalesce { adaptive_rx: Adaptive::Off, ..Coalesce::LINUX };
    assert_eq!(Coalesce::LINUX.check(), Ok(()));
    for good in [
        Coalesce { rx_frames: 255, tx_frames: 255, ..ok },
        Coalesce { rx_frames: 1, rx_usecs: 0, tx_frames: 1, tx_usecs: 0, ..ok },
    ] {
        assert_eq!(good.check(), Ok(()), "{good:?}");
    }
    for (bad, why) in [
        (Coalesce { rx_frames: 256, ..ok }, "frames: less than 256"),
        (Coalesce { tx_frames: 256, ..ok }, "frames: less than 256"),
        (Coalesce { rx_frames: 0, ..ok }, "frames: not zero"),
        (Coalesce { tx_frames: 0, ..ok }, "frames: not zero"),
        (
            Coalesce { rx_frames: 2, rx_usecs: 0, ..ok },
            "usecs: not zero when frames is more than one or adaptive",
        ),
        (
            Coalesce { tx_frames: 2, tx_usecs: 0, ..ok },
            "usecs: not zero when frames is more than one or adaptive",
        ),
        (
            Coalesce { rx_frames: 1, rx_usecs: 0, adaptive_rx: Adaptive::Count, ..ok },
            "usecs: not zero when frames is more than one or adaptive",
        ),
    ] {
        assert_eq!(bad.check(), Err(OpenError::Setting(why)), "{bad:?}");
    }
}
