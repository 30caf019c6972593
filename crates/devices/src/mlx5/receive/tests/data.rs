//! Frames, and what the CQE says of them.

use super::super::super::rss::{Dispatch, HashFn, TirContext};
use super::super::super::tests::frames::{Frame, Transport, tcp, udp};
use super::*;
use doorbell_hal::DropReason;
use doorbell_layout::mlx5::receive::{
    IP_FRAGMENT, L2_OK, L3_OK, L4_OK, TERMINATE_LKEY, VLAN_STRIPPED, hash_field, l3_type, l4_type,
    rss_type,
};
use doorbell_packet::checksum::Sum;
use doorbell_packet::toeplitz::KEY;

/// Receives one frame; its CQE and its bytes in memory.
fn one(b: &mut Bench, f: &[u8]) -> (RxCqe, Vec<u8>) {
    b.post(1);
    let to = b.buffer(b.posted.wrapping_sub(1));
    assert_eq!(b.receive_bytes(f), RxVerdict::Yes);
    b.settle();
    let cqe = b.poll().expect("a completion");
    let bytes = b.memory(to, cqe.byte_cnt.get() as usize).to_vec();
    (cqe, bytes)
}

#[test]
fn a_frame_goes_to_memory_then_its_cqe_then_its_event_then_the_interrupt() {
    let mut b = Bench::plain();
    b.post(3);
    let f = Frame::v4(tcp(100)).build();
    b.at(ns(1000));
    assert_eq!(b.receive_bytes(&f), RxVerdict::Yes);
    assert_eq!(b.p.writes, [], "nothing happens to the outside on arrival");
    b.settle();
    let to: Vec<(u64, usize)> = b.p.writes.iter().map(|w| (w.1, w.2)).collect();
    assert_eq!(to, [(BUFFERS, 154), (CQ, 64), (EQ, 64)]);
    assert_eq!(b.p.messages.len(), 1);
    assert_eq!(b.memory(BUFFERS, 154), f);
    let cqe = b.poll().unwrap();
    assert_eq!(cqe.op_own, 2 << 4);
    assert_eq!((cqe.byte_cnt.get(), cqe.wqe_counter.get(), cqe.flags_rqpn.get()), (154, 0, b.rqn));
    assert_eq!(cqe.sop_drop_qpn.get(), 0xabc, "the flow tag");
    assert_eq!(cqe.timestamp.get(), 1000);
    assert_eq!(cqe.hds_ip_ext, 7);
    assert_eq!(b.event(0).data[6].get(), b.cqn);
    assert_eq!(b.poll(), None);
}

#[test]
fn the_start_padding_flag_is_no_length() {
    let mut b = Bench::plain();
    b.post(1);
    assert_eq!(b.memory(RQ, 4), [0x80, 0, 0x05, 0xf2]);
    b.receive(&Frame::v4(tcp(1468)));
    b.settle();
    assert_eq!(b.poll().unwrap().byte_cnt.get(), 1522);
}

#[test]
fn counters_and_owner_bits_wrap() {
    let mut b = Bench::plain();
    for i in 0..300u32 {
        let (cqe, _) = one(&mut b, &Frame::v4(udp(i as usize)).build());
        assert_eq!(u32::from(cqe.wqe_counter.get()), i);
    }
    // From just before the 16-bit counter's end.
    for _ in 300..65_530u32 {
        one(&mut b, &Frame::raw(0x0806, 46).build());
    }
    for i in 65_530..65_550u32 {
        let (cqe, _) = one(&mut b, &Frame::raw(0x0806, 46).build());
        assert_eq!(cqe.wqe_counter.get(), i as u16);
    }
}

#[test]
fn a_short_frame_is_padded() {
    let mut b = Bench::plain();
    let f = Frame::raw(0x0806, 28).build();
    let (cqe, bytes) = one(&mut b, &f);
    assert_eq!(cqe.byte_cnt.get(), 60);
    assert_eq!(bytes[..42], f);
    assert!(bytes[42..].iter().all(|b| *b == 0));
}

#[test]
fn a_jumbo_frame_fills_several_segments() {
    // MTU 9000: stride 64, up to four segments; the list may end early.
    let mut b = Bench::new(Config::CONNECTX, RqContext { log_stride: 6, ..PLAIN });
    let l = b.lkey;
    let at = |n: u64| BUFFERS + n * 0x1000;
    b.wqe(0, &[(4096, l, at(0)), (4096, l, at(2)), (2048, l, at(4)), (0, TERMINATE_LKEY, 0)]);
    b.wqe(1, &[(256, l, at(6)), (256, l, at(8)), (0, TERMINATE_LKEY, 0), (4096, l, at(10))]);
    b.posted = 2;
    b.record();
    let f = Frame::v4(udp(8972)).build();
    b.receive_bytes(&f);
    b.settle();
    assert_eq!(b.poll().unwrap().byte_cnt.get(), 9014);
    assert_eq!(b.memory(at(0), 4096), &f[..4096]);
    assert_eq!(b.memory(at(2), 4096), &f[4096..8192]);
    assert_eq!(b.memory(at(4), 822), &f[8192..]);
    assert_eq!(b.memory(at(4) + 822, 8), [0; 8], "and no byte beyond it");
    b.receive(&Frame::v4(udp(300)));
    b.settle();
    assert_eq!(b.poll().unwrap().byte_cnt.get(), 342);
    b.wqe(2, &[(64, l, at(6)), (0, TERMINATE_LKEY, 0), (4096, l, at(10)), (4096, l, at(10))]);
    b.posted = 3;
    b.record();
    b.receive(&Frame::v4(udp(300)));
    b.settle();
    assert_eq!(
        b.poll().unwrap().op_own >> 4,
        14,
        "what is behind the end of the list is no buffer"
    );
}

fn types(cqe: &RxCqe) -> (u8, u8) {
    (cqe.l4_l3_hdr_type >> 2 & 3, cqe.l4_l3_hdr_type >> 4 & 7)
}

#[test]
fn layers_are_told() {
    let mut b = Bench::plain();
    let tcp_with = |flags, payload| {
        Frame::v4(Transport::Tcp { sport: 1, dport: 2, flags, payload: vec![0; payload] })
    };
    for (f, l3, l4, ok) in [
        (tcp_with(0x02, 0), l3_type::IPV4, l4_type::TCP_NO_ACK, L2_OK | L3_OK | L4_OK),
        (tcp_with(0x10, 0), l3_type::IPV4, l4_type::TCP_ACK, L2_OK | L3_OK | L4_OK),
        (tcp_with(0x18, 9), l3_type::IPV4, l4_type::TCP_ACK_DATA, L2_OK | L3_OK | L4_OK),
        (Frame::v6(tcp(9)), l3_type::IPV6, l4_type::TCP_ACK_DATA, L2_OK | L3_OK | L4_OK),
        (Frame::v6(udp(9)), l3_type::IPV6, l4_type::UDP, L2_OK | L3_OK | L4_OK),
        (
            Frame::v4(Transport::Other(1, vec![8, 0, 0, 0])),
            l3_type::IPV4,
            l4_type::NONE,
            L2_OK | L3_OK,
        ),
        (Frame::raw(0x0806, 46), l3_type::NONE, l4_type::NONE, L2_OK),
    ] {
        let (cqe, _) = one(&mut b, &f.build());
        assert_eq!((types(&cqe), cqe.hds_ip_ext), ((l3, l4), ok), "{f:?}");
    }
}

#[test]
fn wrong_checksums_are_told_and_the_frame_is_delivered() {
    let mut b = Bench::plain();
    let good = Frame::v4(udp(100)).build();
    let (cqe, _) = one(&mut b, &good);
    assert_eq!(cqe.hds_ip_ext, L2_OK | L3_OK | L4_OK);
    let mut ip = good.clone();
    ip[24] ^= 1;
    assert_eq!(one(&mut b, &ip).0.hds_ip_ext, L2_OK | L4_OK);
    let mut payload = good.clone();
    payload[80] ^= 1;
    assert_eq!(one(&mut b, &payload).0.hds_ip_ext, L2_OK | L3_OK);
    let mut absent = good.clone();
    absent[40..42].fill(0);
    assert_eq!(one(&mut b, &absent).0.hds_ip_ext, L2_OK | L3_OK | L4_OK, "UDP without a checksum");
    let mut fragment = good.clone();
    fragment[20] |= 0x20;
    let check = u16::from_be_bytes([fragment[24], fragment[25]]).wrapping_sub(0x2000);
    fragment[24..26].copy_from_slice(&check.to_be_bytes());
    let (cqe, _) = one(&mut b, &fragment);
    assert_eq!((cqe.hds_ip_ext, types(&cqe)), (L2_OK | L3_OK, (l3_type::IPV4, l4_type::NONE)));
    assert_ne!(cqe.l4_l3_hdr_type & IP_FRAGMENT, 0);
    let mut longer_udp = Frame::v4(udp(20)).build();
    longer_udp[39] += 1;
    assert_eq!(one(&mut b, &longer_udp).0.hds_ip_ext & L4_OK, 0, "a length beyond the datagram");
}

#[test]
fn the_sum_is_of_the_datagram_without_tags_and_padding() {
    let mut b = Bench::new(Config::CONNECTX, RqContext { keep_vlan: true, ..PLAIN });
    for payload in [0usize, 1, 7, 100, 101, 1400] {
        for f in [
            Frame::v4(tcp(payload)),
            Frame::v6(udp(payload)),
            Frame::v4(udp(payload)).tagged(0x8100, 9),
        ] {
            let mut bytes = f.build();
            let l3 = 14 + 4 * f.tags.len();
            let expected = Sum::of(&bytes[l3..]).value();
            assert_eq!(one(&mut b, &bytes).0.check_sum.get(), expected, "{f:?}");
            bytes.extend([0x12, 0x34, 0x56]);
            assert_eq!(one(&mut b, &bytes).0.check_sum.get(), expected, "padded {f:?}");
        }
    }
}

#[test]
fn with_checksum_full_the_sum_is_of_all_that_is_behind_the_ethernet_header() {
    let full = Config { checksum_full: true, ..Config::CONNECTX };
    for keep_vlan in [false, true] {
        let mut b = Bench::new(full, RqContext { keep_vlan, ..PLAIN });
        for f in
            [Frame::v4(udp(1)), Frame::v4(tcp(99)).tagged(0x8100, 0x1234), Frame::raw(0x0806, 46)]
        {
            let (cqe, bytes) = one(&mut b, &f.build());
            assert_eq!(cqe.check_sum.get(), Sum::of(&bytes[14..]).value(), "{f:?}");
        }
    }
}

#[test]
fn a_c_tag_is_taken_off_unless_it_is_kept() {
    let mut b = Bench::plain();
    let tagged = Frame::v4(tcp(100)).tagged(0x8100, 0x6123);
    let (cqe, bytes) = one(&mut b, &tagged.build());
    assert_eq!(bytes, Frame::v4(tcp(100)).build());
    assert_eq!((cqe.l4_l3_hdr_type & VLAN_STRIPPED, cqe.vlan_info.get()), (VLAN_STRIPPED, 0x6123));
    let (rqn, s_tag) = (b.rqn, Frame::v4(tcp(100)).tagged(0x88a8, 0x6123).build());
    let (cqe, bytes) = one(&mut b, &s_tag);
    assert_eq!((cqe.l4_l3_hdr_type & VLAN_STRIPPED, bytes), (0, s_tag), "an S-tag stays");
    b.d.rx.rqs.find_mut(rqn).unwrap().ctx.keep_vlan = true;
    let (cqe, bytes) = one(&mut b, &tagged.build());
    assert_eq!((cqe.l4_l3_hdr_type & VLAN_STRIPPED, bytes), (0, tagged.build()));
}

#[test]
fn the_hash_and_its_type_are_told() {
    let mut b = Bench::plain();
    let rqt = b.d.create_rqt(vec![b.rqn]).unwrap();
    let key: [u8; KEY] = core::array::from_fn(|i| (i * 37 + 11) as u8);
    let fields =
        hash_field::SRC_IP | hash_field::DST_IP | hash_field::L4_SPORT | hash_field::L4_DPORT;
    let dispatch = Dispatch::Indirect(rqt);
    let c = TirContext {
        dispatch,
        function: HashFn::Toeplitz,
        fields,
        symmetric: true,
        key,
        ..TirContext::direct(0)
    };
    let tirn = b.d.create_tir(c).unwrap();
    let table = &mut b.d.rx.paths.change().steering;
    let e = Entry {
        group: 1,
        flow_tag: 0,
        action: flow_action::FORWARD,
        value: Match::EMPTY,
        destinations: vec![Destination::Tir(tirn)],
    };
    table.set_entry(0x8000, 0, e).unwrap();
    let (cqe, _) = one(&mut b, &Frame::v4(tcp(1)).build());
    assert_eq!(cqe.rss_hash_type, rss_type::IPV4 | rss_type::TCP);
    assert_ne!(cqe.rss_hash_result.get(), 0);
    let (cqe, _) = one(&mut b, &Frame::raw(0x0806, 46).build());
    assert_eq!((cqe.rss_hash_type, cqe.rss_hash_result.get()), (0, 0));
}

#[test]
fn the_port_has_a_longest_frame_and_a_switch() {
    let mut b = Bench::plain();
    b.post(4);
    b.d.rx.port_mtu = 1522;
    assert_eq!(b.receive(&Frame::v4(udp(1518 - 42))), RxVerdict::Yes);
    assert_eq!(b.receive(&Frame::v4(udp(1519 - 42))), RxVerdict::Dropped(DropReason::Malformed));
    assert_eq!(b.receive_bytes(&[0; 13]), RxVerdict::Dropped(DropReason::Malformed));
    b.d.rx.port_up = false;
    assert_eq!(b.receive(&Frame::v4(udp(1))), RxVerdict::Dropped(DropReason::Off));
    let c = b.d.received();
    assert_eq!((c.arrived, c.bad_length, c.port_down), (4, 2, 1));
}
