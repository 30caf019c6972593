//! Frames on each side of a limit.

use super::*;
use doorbell_layout::axienet::emmc;

/// Returns true if a frame of `len` bytes is taken with `field` at byte `at`.
fn takes(len: usize, at: usize, field: u16) -> bool {
    let mut b = Bench::up(Config::ZYNQMP);
    let mut f = frame(len);
    if at == 16 {
        f[12..14].copy_from_slice(&[0x81, 0]);
    }
    f[at..at + 2].copy_from_slice(&field.to_be_bytes());
    b.receive(&f) == RxVerdict::Yes
}

#[test]
fn a_length_field_must_be_the_payload_s() {
    for (len, field, taken) in [
        (114, 100, true),
        (113, 100, false),
        (115, 100, false),
        (1514, 1500, true),
        (1000, 1500, false),
        (1000, 1501, true),
        // The rest of a short frame is padding.
        (60, 46, true),
        (60, 1, true),
        (60, 47, false),
        (61, 46, false),
    ] {
        assert_eq!(takes(len, 12, field), taken, "{len} bytes, field {field}");
    }
    // Behind a tag.
    for (len, taken) in [(118, true), (117, false), (119, false)] {
        assert_eq!(takes(len, 16, 100), taken, "{len} bytes with a tag");
    }
}

#[test]
fn the_mac_carries_frames_at_the_link_s_speed_alone() {
    let told = [emmc::SPEED_10, emmc::SPEED_100, emmc::SPEED_1000];
    for (link, speed) in [Speed::M10, Speed::M100, Speed::M1000].into_iter().enumerate() {
        for (i, mode) in told.into_iter().enumerate() {
            let mut b = Bench::up(Config { speed, ..Config::ZYNQMP });
            b.put_mac(mac::EMMC, mode);
            assert_eq!(b.receive(&frame(60)) == RxVerdict::Yes, i == link, "{speed:?} {mode:#x}");
        }
    }
}

#[test]
fn a_header_alone_is_a_frame() {
    assert!(takes(14, 12, 0x88b5));
    let mut b = Bench::up(Config::ZYNQMP);
    assert!(matches!(b.receive(&frame(13)), RxVerdict::Dropped(_)));
    assert_eq!((b.get_mac(stat::RX_UNDERSIZE), b.get_mac(stat::RX_GOOD)), (1, 0));
    b.receive(&frame(1515));
    assert_eq!((b.get_mac(stat::RX_OVERSIZE), b.get_mac(stat::RX_GOOD)), (1, 0));
}
