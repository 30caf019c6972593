mod selected;

use super::super::tests::frames::{Frame, Transport, tcp, udp};
use super::*;
use doorbell_layout::mlx5::receive::hash_field::*;
use doorbell_packet::toeplitz::MICROSOFT;
use proptest::prelude::*;

const ADDRESSES: u32 = SRC_IP | DST_IP;
const PORTS: u32 = L4_SPORT | L4_DPORT;

fn tir(fields: u32, symmetric: bool) -> Tir {
    let dispatch = Dispatch::Indirect(0);
    Tir::new(TirContext {
        function: HashFn::Toeplitz,
        fields,
        symmetric,
        key: MICROSOFT,
        dispatch,
        ..TirContext::direct(0)
    })
}

fn hash(f: &Frame, t: &Tir) -> Hash {
    select(t, &Fields::of(&f.build()))
}

fn ports(sport: u16, dport: u16) -> Transport {
    Transport::Tcp { sport, dport, flags: 0x10, payload: alloc::vec![1, 2, 3] }
}

#[test]
fn microsofts_ipv4_vectors() {
    let vectors = [
        ([161u8, 142, 100, 80], 1766, [66u8, 9, 149, 187], 2794, 0x323e_8fc2, 0x51cc_c178),
        ([65, 69, 140, 83], 4739, [199, 92, 111, 2], 14230, 0xd718_262a, 0xc626_b0ea),
        ([12, 22, 207, 184], 38024, [24, 19, 198, 95], 12898, 0xd2d0_a5de, 0x5c2b_394a),
        ([209, 142, 163, 6], 2217, [38, 27, 205, 30], 48228, 0x8298_9176, 0xafc7_327f),
        ([202, 188, 127, 2], 1303, [153, 39, 163, 191], 44251, 0x5d18_09c5, 0x10e8_28a2),
    ];
    for (dst, dport, src, sport, ip, all) in vectors {
        let f = Frame::ip(&src, &dst, ports(sport, dport));
        assert_eq!(hash(&f, &tir(ADDRESSES, false)), Hash { value: ip, kind: rss_type::IPV4 });
        let with_ports = Hash { value: all, kind: rss_type::IPV4 | rss_type::TCP };
        assert_eq!(hash(&f, &tir(ADDRESSES | PORTS, false)), with_ports);
    }
}

#[test]
fn microsofts_ipv6_vectors() {
    let address = |s: &str| s.parse::<core::net::Ipv6Addr>().unwrap().octets();
    let vectors = [
        ("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc1_8cd5, 0x4020_7d3d),
        ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c_461c, 0xdde5_1bbf),
        (
            "fe80::200:f8ff:fe21:67cf",
            38024,
            "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
            44251,
            0x4b61_e985,
            0x02d1_feef,
        ),
    ];
    for (dst, dport, src, sport, ip, all) in vectors {
        let f = Frame::ip(&address(src), &address(dst), ports(sport, dport));
        assert_eq!(
            hash(&f, &tir(IPV6 | ADDRESSES, false)),
            Hash { value: ip, kind: rss_type::IPV6 }
        );
        let with_ports = Hash { value: all, kind: rss_type::IPV6 | rss_type::TCP };
        assert_eq!(hash(&f, &tir(IPV6 | ADDRESSES | PORTS, false)), with_ports);
    }
}

#[test]
fn the_selected_transport_alone_has_its_ports_hashed() {
    let (t, u) = (Frame::v4(tcp(4)), Frame::v4(udp(4)));
    let for_tcp = tir(ADDRESSES | PORTS, false);
    let for_udp = tir(UDP | ADDRESSES | PORTS, false);
    assert_eq!(hash(&t, &for_tcp).kind, rss_type::IPV4 | rss_type::TCP);
    assert_eq!(hash(&u, &for_tcp).kind, rss_type::IPV4);
    assert_eq!(hash(&u, &for_udp).kind, rss_type::IPV4 | rss_type::UDP);
    assert_eq!(hash(&u, &for_udp).value, hash(&t, &for_tcp).value, "the same ports and addresses");
    assert_eq!(
        hash(&t, &tir(IPV6 | ADDRESSES, false)),
        Hash::default(),
        "not of that network layer"
    );
    assert_eq!(hash(&Frame::raw(0x0806, 46), &for_tcp), Hash::default());
}

#[test]
fn a_fragment_is_hashed_by_its_addresses() {
    let mut f = Frame::v4(udp(64)).build();
    f[14 + 6] |= 0x20;
    let h = select(&tir(UDP | ADDRESSES | PORTS, false), &Fields::of(&f));
    assert_eq!(h, Hash { value: 0x323e_8fc2, kind: rss_type::IPV4 });
}

#[test]
fn symmetric_is_or_then_xor_of_each_pair() {
    let f = Frame::ip(&[1, 2, 3, 4], &[0x11, 0x22, 0x33, 0x44], ports(0x1234, 0x4321));
    let input: [u8; 12] = [0x11, 0x22, 0x33, 0x44, 0x10, 0x20, 0x30, 0x40, 0x53, 0x35, 0x51, 0x15];
    assert_eq!(
        hash(&f, &tir(ADDRESSES | PORTS, true)).value,
        Toeplitz::new(&MICROSOFT).hash(&input)
    );
    let half = tir(SRC_IP | PORTS, true);
    let input: [u8; 8] = [1, 2, 3, 4, 0x53, 0x35, 0x51, 0x15];
    assert_eq!(
        hash(&f, &half).value,
        Toeplitz::new(&MICROSOFT).hash(&input),
        "half a pair stays as it is"
    );
}

#[test]
fn xor8_adds_all_bytes_and_looks_at_the_reversed_index() {
    let dispatch = Dispatch::Indirect(0);
    let ctx =
        TirContext { function: HashFn::InvertedXor8, fields: ADDRESSES, ..TirContext::direct(0) };
    let t = Tir::new(TirContext { dispatch, ..ctx });
    let h = hash(&Frame::ip(&[1, 0, 0, 0], &[0, 2, 0, 0x80], tcp(0)), &t);
    assert_eq!(h.value, 0x83);
    // mlx5e_bits_invert: what belongs to index 3 of 8 stands at 6.
    let rqt = Rqt { rqns: (0..8).collect() };
    assert_eq!(rqt.queue(HashFn::InvertedXor8, h), Some(6));
    assert_eq!(rqt.queue(HashFn::Toeplitz, h), Some(3));
    assert_eq!(Rqt { rqns: alloc::vec![9] }.queue(HashFn::InvertedXor8, h), Some(9));
}

#[test]
fn a_tir_without_a_hash_takes_the_first_queue_of_its_table() {
    let t = Tir::new(TirContext { dispatch: Dispatch::Indirect(0), ..TirContext::direct(0) });
    let h = hash(&Frame::v4(tcp(0)), &t);
    assert_eq!(h, Hash::default());
    assert_eq!(Rqt { rqns: alloc::vec![7, 8] }.queue(HashFn::None, h), Some(7));
}

proptest! {
    #[test]
    fn a_symmetric_hash_is_that_of_the_answer(
        v6 in any::<bool>(), src in any::<[u8; 16]>(), dst in any::<[u8; 16]>(),
        sport in any::<u16>(), dport in any::<u16>(),
    ) {
        let n = if v6 { 16 } else { 4 };
        let f = Frame::ip(&src[..n], &dst[..n], ports(sport, dport));
        let answer = Frame::ip(&dst[..n], &src[..n], ports(dport, sport));
        let t = tir(if v6 { IPV6 } else { 0 } | ADDRESSES | PORTS, true);
        prop_assert_eq!(hash(&f, &t), hash(&answer, &t));
    }

    #[test]
    fn every_hash_has_a_queue(
        rqns in prop::collection::vec(any::<u32>(), 1..70), value in any::<u32>(), function in 0..3,
    ) {
        let function = [HashFn::None, HashFn::InvertedXor8, HashFn::Toeplitz][function as usize];
        let rqt = Rqt { rqns };
        let hash = Hash { value, kind: 0 };
        prop_assert!(rqt.queue(function, hash).is_some());
    }
}
