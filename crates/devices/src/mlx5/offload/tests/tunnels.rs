//! Headers that the pipe has to find for itself: tunnels, extension headers, and none.

use super::*;
use doorbell_packet::headers::{Check, verify};

const INNER: u8 = cs_flags::L3_INNER | cs_flags::L4_INNER;

/// A UDP datagram over IPv6, with wrong checksum, behind the extension headers `between`.
fn udp6(first: u8, between: &[u8]) -> Vec<u8> {
    let mut f = alloc::vec![0u8; 12];
    f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, between.len() as u8 + 12, first, 64]);
    f.extend([0x21; 16]);
    f.extend([0x37; 16]);
    f.extend(between);
    f.extend([0, 9, 0, 9, 0, 12, 0xbb, 0xbb, 1, 2, 3, 4]);
    f
}

/// `inside` behind the bytes `between` in an IPv4 packet of `protocol`.
fn tunnel(protocol: u8, between: &[u8], inside: &[u8]) -> Vec<u8> {
    let mut f = alloc::vec![0u8; 12];
    let len = (20 + between.len() + inside.len()) as u8;
    f.extend([0x08, 0x00, 0x45, 0, 0, len, 0, 1, 0, 0, 64, protocol]);
    f.extend([0, 0, 10, 0, 0, 3, 10, 0, 0, 4]);
    f.extend(between);
    f.extend(inside);
    f
}

fn right(mut frame: Vec<u8>) -> Vec<u8> {
    insert(&mut frame, cs_flags::L3 | cs_flags::L4);
    assert_eq!(verify(&frame).transport, Check::Good);
    frame
}

#[test]
fn packets_in_ip_and_gre_are_found() {
    let (v4, v6) = (udp(), udp6(17, &[]));
    let (right4, right6) = (right(v4.clone()), right(v6.clone()));
    let options = [9; 12];
    for (protocol, between, inside, expected) in [
        (4, &[][..], &v4[14..], &right4[14..]),
        (41, &[], &v6[14..], &right6[14..]),
        (47, &[0, 0, 0x08, 0x00], &v4[14..], &right4[14..]),
        (47, &[0, 0, 0x86, 0xdd], &v6[14..], &right6[14..]),
        (47, &[0, 0, 0x65, 0x58], &v4, &right4),
        // A key; and a checksum, a key and a sequence number.
        (47, &[&[0x20, 0, 0x08, 0x00], &options[..4]].concat(), &v4[14..], &right4[14..]),
        (47, &[&[0xb0, 0, 0x08, 0x00], &options[..]].concat(), &v4[14..], &right4[14..]),
    ] {
        let mut f = tunnel(protocol, between, inside);
        let outer = f[..34].to_vec();
        insert(&mut f, INNER);
        assert_eq!(f[34 + between.len()..], *expected, "protocol {protocol}, {between:x?}");
        assert_eq!(f[..34], outer, "the outer header was not asked for");
    }
}

#[test]
fn a_datagram_on_another_port_is_no_tunnel() {
    let header = [0x99, 0x99, 0x12, 0xb6, 0, 16 + 46, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0];
    let mut f = tunnel(17, &header, &udp());
    let before = f.clone();
    insert(&mut f, INNER);
    assert_eq!(f, before);
}

#[test]
fn each_inner_checksum_is_made_alone() {
    let expected = right(udp());
    for (flag, at) in [(cs_flags::L3_INNER, 24), (cs_flags::L4_INNER, 40)] {
        let mut f = tunnel(4, &[], &udp()[14..]);
        let mut alone = f.clone();
        insert(&mut f, flag);
        // The inner packet is 20 bytes further on than in a frame of its own.
        alone[at + 20..at + 22].copy_from_slice(&expected[at..at + 2]);
        assert_eq!(f, alone);
    }
}

#[test]
fn the_transport_behind_ipv6_extension_headers_is_found() {
    // Eight bytes hop by hop, then sixteen of destination options.
    let mut extensions = alloc::vec![60, 0, 1, 4, 0, 0, 0, 0, 17, 1, 1, 12];
    extensions.resize(24, 0);
    right(udp6(0, &extensions));
    right(udp6(60, &extensions[8..]));
}

#[test]
fn a_datagram_without_payload_has_a_checksum() {
    let mut f = udp();
    f.truncate(42);
    (f[17], f[39]) = (28, 8);
    right(f);
}

#[test]
fn a_header_that_cannot_be_is_left_alone() {
    // An IHL of 4, and a length beyond the frame.
    for (at, v) in [(14, 0x44), (17, 33)] {
        let mut f = udp();
        f[at] = v;
        let before = f.clone();
        insert(&mut f, cs_flags::L3 | cs_flags::L4);
        assert_eq!(f, before);
    }
}

#[test]
fn a_tag_needs_a_header_and_room() {
    for (len, room, expected) in [(14, 18, 18), (13, 18, 13), (14, 17, 14), (60, 64, 64)] {
        let mut f: Vec<u8> = (0..room).collect();
        assert_eq!(insert_vlan(&mut f, len, C_TAG, [0x60, 7]), expected);
        let tagged = expected != len;
        assert_eq!(f[12..16] == [0x81, 0, 0x60, 7], tagged, "{len} of {room}");
    }
}
