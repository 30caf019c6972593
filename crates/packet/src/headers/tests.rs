use super::*;
use crate::tests::{Frame, any_frame};
use alloc::vec::Vec;
use proptest::prelude::*;

#[test]
fn a_plain_tcp_frame_has_its_headers_where_they_are() {
    let f = Frame::tcp4(100).build();
    let l = Layers::of(&f).unwrap();
    assert_eq!((l.l3, l.l4, l.end, l.transport), (14, 34, 54, Some(Transport::Tcp)));
    assert_eq!(l.partial(), Some(CsumPartial { start: 34, offset: 16 }));
    assert_eq!(verify(&f), Verdict { ip: Check::Good, transport: Check::Good });
}

#[test]
fn tags_options_and_extension_headers_move_the_transport() {
    let f = Frame { tags: 2, ip_options: 8, tcp_options: 12, ..Frame::tcp4(5) }.build();
    let l = Layers::of(&f).unwrap();
    assert_eq!((l.l3, l.l4, l.end), (22, 50, 82));
    let f = Frame { tags: 1, extensions: 2, ..Frame::udp6(5) }.build();
    let l = Layers::of(&f).unwrap();
    assert_eq!(
        (l.l3, l.l4, l.end, l.transport),
        (18, 18 + 40 + 16, 18 + 40 + 16 + 8, Some(Transport::Udp))
    );
}

#[test]
fn four_tags_are_not_looked_through() {
    assert_eq!(Layers::of(&Frame { tags: 4, ..Frame::tcp4(5) }.build()), Err(ParseError::NotIp));
}

#[test]
fn a_fragment_has_no_checksum_of_its_own() {
    let mut f = Frame::udp4(64).build();
    f[14 + 6] |= 0x20;
    assert!(Layers::of(&f).unwrap().fragment);
    assert_eq!(verify(&f).transport, Check::NotApplicable);
    assert_eq!(prepare_partial(&mut f), None);

    // The same over IPv6: a later fragment, whose bytes are no header.
    let mut f = Frame { extensions: 1, ..Frame::udp6(64) }.build();
    f[14 + 6] = 44;
    f[14 + 40..14 + 48].copy_from_slice(&[0, 0, 0x00, 0x08, 1, 2, 3, 4]);
    let l = Layers::of(&f).unwrap();
    assert!(l.fragment && l.transport.is_none());
    assert_eq!(verify(&f).transport, Check::NotApplicable);
}

#[test]
fn an_atomic_fragment_is_a_whole_packet() {
    let mut f = Frame { extensions: 1, ..Frame::udp6(64) }.build();
    f[14 + 6] = 44;
    f[14 + 41..14 + 48].copy_from_slice(&[0, 0, 0, 1, 2, 3, 4]);
    assert!(!Layers::of(&f).unwrap().fragment);
    assert_eq!(verify(&f).transport, Check::Good);
}

#[test]
fn udp_without_a_checksum_is_absent_over_ipv4_and_bad_over_ipv6() {
    let mut f = Frame::udp4(20).build();
    f[14 + 20 + 6..14 + 20 + 8].fill(0);
    assert_eq!(verify(&f).transport, Check::Absent);
    assert_eq!(prepare_partial(&mut f), None);
    let mut f = Frame::udp6(20).build();
    f[14 + 40 + 6..14 + 40 + 8].fill(0);
    assert_eq!(verify(&f).transport, Check::Bad);
}

#[test]
fn padding_is_outside_the_checksum() {
    let mut f = Frame::udp4(1).build();
    f.resize(60, 0);
    assert_eq!(verify(&f).transport, Check::Good);
    let p = prepare_partial(&mut f).unwrap();
    p.complete(&mut f).unwrap();
    assert_eq!(verify(&f).transport, Check::Good);
    f[59] = 1;
    assert_eq!(verify(&f).transport, Check::Good);
    assert_eq!(prepare_partial(&mut f), None, "the padding would be summed");
}

#[test]
fn segments_left_in_a_routing_header_hide_the_destination() {
    let mut f = Frame { extensions: 1, ..Frame::tcp6(20) }.build();
    f[14 + 6] = 43;
    f[14 + 40 + 3] = 1;
    assert!(Layers::of(&f).unwrap().source_routed);
    assert_eq!(verify(&f).transport, Check::NotApplicable);
    assert_eq!(prepare_partial(&mut f), None);
}

#[test]
fn an_authentication_header_is_walked_over() {
    let plain = Frame::udp6(20).build();
    // RFC 4302, 2: next header, words less two, reserved, SPI, sequence number, 12 bytes of ICV.
    let mut ah = [0; 24];
    ah[..2].copy_from_slice(&[17, 4]);
    let mut f = [&plain[..54], &ah, &plain[54..]].concat();
    f[20] = 51;
    put16(&mut f, 18, (plain.len() - 54 + 24) as u16);
    let l = Layers::of(&f).unwrap();
    assert_eq!((l.l4, l.end, l.transport), (78, 86, Some(Transport::Udp)));
    assert_eq!(verify(&f).transport, Check::Good);
}

#[test]
fn a_datagram_shorter_than_its_headers_is_none() {
    let mut f = Frame::tcp4(100).build();
    let l = Layers::of(&f).unwrap();
    assert_eq!(l.datagram(&f), Some(14..154));
    put16(&mut f, 16, 39);
    assert_eq!(l.datagram(&f), None);
    put16(&mut f, 16, 40);
    assert_eq!(l.datagram(&f), Some(14..54));
}

#[test]
fn the_protocol_numbers_are_iana_s() {
    assert_eq!((Transport::Tcp.protocol(), Transport::Udp.protocol()), (6, 17));
}

proptest! {
    #[test]
    fn preparing_and_completing_gives_the_frame_back(frame in any_frame(0..200)) {
        let whole = frame.build();
        let mut f = whole.clone();
        let p = prepare_partial(&mut f).unwrap();
        prop_assert_eq!(p.complete(&mut f).unwrap() as usize, whole.len() - p.start as usize);
        prop_assert_eq!(f, whole);
    }

    #[test]
    fn a_flipped_bit_in_what_is_covered_is_found(
        frame in any_frame(1..200),
        at in any::<prop::sample::Index>(),
        bit in 0..8,
    ) {
        let mut f = frame.build();
        let l = Layers::of(&f).unwrap();
        let len = f.len() - l.end as usize;
        f[l.end as usize + at.index(len)] ^= 1u8 << bit;
        prop_assert_eq!(verify(&f).transport, Check::Bad);
    }

    #[test]
    fn any_bytes_are_looked_at_without_harm(
        mut f in prop::collection::vec(any::<u8>(), 0..120),
        kind in 0..3,
        cut in any::<prop::sample::Index>(),
        frame in any_frame(0..60),
        flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4),
    ) {
        match kind {
            0 if f.len() > 14 => f[12..14].copy_from_slice(&[8, 0]),
            1 => {
                f = frame.build();
                for (i, v) in &flips {
                    let i = i.index(f.len());
                    f[i] = *v;
                }
            }
            _ => {}
        }
        f.truncate(cut.index(f.len() + 1));
        let before: Vec<u8> = f.clone();
        verify(&f);
        if prepare_partial(&mut f).is_none() {
            prop_assert_eq!(f, before);
        }
    }
}
