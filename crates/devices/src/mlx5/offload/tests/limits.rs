//! Frames that end within their headers, and layers that a WQE names or does not.

use super::*;
use doorbell_packet::headers::{Check, verify};

/// Ethernet, IPv6, a destination option, UDP with a wrong checksum.
fn udp6() -> Vec<u8> {
    let mut f = alloc::vec![2u8; 12];
    f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 60, 64]);
    f.extend([[0xfd; 16], [0xfc; 16]].concat());
    f.extend([17, 0, 1, 4, 0, 0, 0, 0]);
    f.extend([0, 9, 0, 9, 0, 12, 0xbb, 0xbb, 1, 2, 3, 4]);
    f
}

#[test]
fn an_ipv6_frame_cut_anywhere_is_left_alone() {
    let f = udp6();
    for n in 0..f.len() {
        let mut cut = f[..n].to_vec();
        insert(&mut cut, 0xf0);
        assert_eq!(cut, f[..n], "{n}");
    }
    let mut whole = f;
    insert(&mut whole, cs_flags::L4);
    assert_eq!(verify(&whole).transport, Check::Good);
}

#[test]
fn an_option_that_runs_out_of_the_datagram_ends_the_search() {
    // The option is longer than the datagram; what would be behind it is padding.
    let mut f = udp6();
    f[55] = 3;
    f.resize(120, 0xbb);
    let before = f.clone();
    insert(&mut f, 0xf0);
    assert_eq!(f, before);
}

/// [`udp`] or [`udp6`] in GENEVE over IPv6: outer IP at 14, UDP at 54, inner Ethernet at 70.
fn over_ipv6(inner: &[u8]) -> Vec<u8> {
    let mut f = alloc::vec![2u8; 12];
    let len = (8 + 8 + inner.len()) as u8;
    f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, len, 17, 64]);
    f.extend([[0xfd; 16], [0xfc; 16]].concat());
    f.extend([0x99, 0x99, 0x17, 0xc1, 0, len, 0xcc, 0xcc, 0, 0, 0x65, 0x58, 0, 0, 1, 0]);
    f.extend(inner);
    f
}

#[test]
fn a_wqe_may_name_headers_of_ipv6() {
    let inner = udp6();
    let mut f = over_ipv6(&inner);
    let eth = EthSeg {
        swp_offsets: [54 / 2, 14 / 2, (70 + 62) / 2, (70 + 14) / 2],
        swp_flags: swp_flags::OUTER_L3_IPV6
            | swp_flags::OUTER_L4_UDP
            | swp_flags::INNER_L3_IPV6
            | swp_flags::INNER_L4_UDP,
        cs_flags: cs_flags::L4 | cs_flags::L4_INNER,
        ..ASKED
    };
    insert_checksums(&mut f, &eth, true);
    assert_eq!(verify(&f[70..]).transport, Check::Good);
    assert_eq!(verify(&f).transport, Check::Good, "the outer one, over the inner one");
}

#[test]
fn a_header_without_a_transport_is_its_addresses_alone() {
    // Offset 0 of a transport: the IP header has no options.
    let mut f = geneve();
    let mut eth = ASKED;
    eth.swp_offsets[2] = 0;
    insert_checksums(&mut f, &eth, true);
    let mut expected = udp();
    insert(&mut expected, cs_flags::L3);
    assert_eq!(f[58..], expected[..]);
}

#[test]
fn an_inner_header_that_the_wqe_does_not_name_is_not_touched() {
    let mut f = geneve();
    // Addresses that would do for an IP header of 40 bytes at offset 0.
    f[..12].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut eth = ASKED;
    (eth.swp_offsets[2], eth.swp_offsets[3]) = (0, 0);
    eth.cs_flags = cs_flags::L3_INNER | cs_flags::L4_INNER;
    let before = f.clone();
    insert_checksums(&mut f, &eth, true);
    assert_eq!(f, before);
}
