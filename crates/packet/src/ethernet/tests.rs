use super::*;

#[test]
fn fcs_has_the_standard_check_value() {
    assert_eq!(fcs(b"123456789"), 0xcbf4_3926u32.to_le_bytes());
}

/// CRC-32 of IEEE 802.3, 3.2.9, a bit at a time.
#[test]
fn fcs_is_the_standard_polynomial() {
    let frame: [u8; 61] = core::array::from_fn(|i| (i * 37) as u8);
    for n in 0..frame.len() {
        let crc = frame[..n].iter().fold(!0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |c, _| (c >> 1) ^ (0xedb8_8320 * (c & 1)))
        });
        assert_eq!(fcs(&frame[..n]), (!crc).to_le_bytes(), "{n} bytes");
    }
}

#[test]
fn first_bit_marks_a_group() {
    let kinds = [0xfe, 1, 0xff].map(|first| Cast::of(&[first, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xff]));
    assert_eq!(kinds, [Cast::Unicast, Cast::Multicast, Cast::Multicast]);
    assert_eq!(Cast::of(&[0xff; 60]), Cast::Broadcast);
    assert_eq!(Cast::of(&[0xff; 5]), Cast::Multicast, "no whole address");
}

#[test]
fn a_full_frame_takes_1538_bytes_of_wire() {
    assert_eq!((HEADER, MAX_FRAME, OVERHEAD), (14, 1514, 24));
    assert_eq!(wire_bytes(1, MAX_FRAME as u64), 1538);
    assert_eq!(wire_bytes(2, 2 * MIN_FRAME as u64), 168);
}
