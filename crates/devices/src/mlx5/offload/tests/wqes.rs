//! Offloads of the send pipe, WQE by WQE: tags, checksums, large sends.

use super::super::super::receive::tests::{BUFFERS, Bench};
use super::super::super::tests::frames::{Body, Frame, Transport, tcp, udp};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_layout::mlx5::{
    Cqe, ETH_WQE_INSERT_VLAN, ETH_WQE_SVLAN, EthSeg, cs_flags, opcode, syndrome,
};
use doorbell_packet::headers::{Check, Layers, verify};
use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::U16;

/// Sends `frame` with its first `inline` bytes in the WQE and the rest in pieces
/// of `piece` bytes; the frames that left.
fn send(
    opcode: u8,
    mut eth: EthSeg,
    frame: &[u8],
    inline: usize,
    piece: usize,
) -> (Vec<Vec<u8>>, Cqe) {
    let mut b = Bench::plain();
    let (head, payload) = frame.split_at(inline);
    b.put(BUFFERS, payload);
    let mut rest = vec![];
    if inline > 0 {
        eth.inline_hdr_sz = U16::new(inline as u16);
        eth.inline_hdr_start = [head[0], head[1]];
    }
    rest.extend(eth.as_bytes());
    rest.extend(head.get(2..).unwrap_or(&[]));
    rest.resize(rest.len().next_multiple_of(16), 0);
    for (i, p) in payload.chunks(piece).enumerate() {
        rest.extend(b.data(BUFFERS + (i * piece) as u64, p.len()));
    }
    b.send(opcode, &rest);
    b.settle();
    let cqe = zerocopy::transmute!(b.poll().expect("a completion"));
    (b.p.frames.into_iter().map(|f| f.1).collect(), cqe)
}

fn eth(mss: u16, cs_flags: u8) -> EthSeg {
    EthSeg { mss: U16::new(mss), cs_flags, ..EthSeg::default() }
}

/// Wrong in both checksums.
fn spoilt(f: &Frame) -> Vec<u8> {
    let mut b = f.build();
    let h = Layers::of(&b).unwrap();
    let field = h.partial().unwrap().field();
    b[field..field + 2].copy_from_slice(&[0x12, 0x34]);
    if f.is_v4() {
        b[usize::from(h.l3) + 10] ^= 0xff;
    }
    b
}

impl Frame {
    fn is_v4(&self) -> bool {
        matches!(&self.body, Body::Ip { src, .. } if src.len() == 4)
    }
}

fn is_right(frame: &[u8], v4: bool) {
    let v = verify(frame);
    assert_eq!(v.ip, if v4 { Check::Good } else { Check::NotApplicable });
    assert_eq!(v.transport, Check::Good);
}

#[test]
fn a_tag_of_either_kind_is_inserted_and_the_checksums_are_behind_it() {
    for (bits, tpid) in
        [(ETH_WQE_INSERT_VLAN, [0x81, 0x00]), (ETH_WQE_INSERT_VLAN | ETH_WQE_SVLAN, [0x88, 0xa8])]
    {
        for f in [Frame::v4(tcp(200)), Frame::v6(udp(77))] {
            let e = EthSeg {
                inline_hdr_sz: U16::new(bits),
                inline_hdr_start: [0x60, 0x07],
                ..eth(0, cs_flags::L3 | cs_flags::L4)
            };
            let (left, _) = send(opcode::SEND, e, &spoilt(&f), 0, 100);
            let plain = f.build();
            assert_eq!(left, [[&plain[..12], &tpid, &[0x60, 0x07], &plain[12..]].concat()]);
        }
    }
}

#[test]
fn a_tag_that_the_driver_put_into_the_inline_header_is_seen_through() {
    // mlx5e_insert_vlan: at least 18 bytes inline, the tag among them.
    for f in [Frame::v4(udp(300)).tagged(0x8100, 0x2005), Frame::v6(tcp(300)).tagged(0x8100, 5)] {
        for inline in [18, 19, 34, 60] {
            let (left, _) =
                send(opcode::SEND, eth(0, cs_flags::L3 | cs_flags::L4), &spoilt(&f), inline, 4096);
            assert_eq!(left, [f.build()], "{inline} bytes inline");
        }
    }
}

#[test]
fn a_large_send_is_cut_behind_tags_and_over_ipv6() {
    let cases = [
        Frame::v4(tcp(4000)),
        Frame::v4(tcp(4000)).tagged(0x8100, 0x2005),
        Frame::v6(tcp(4000)),
        Frame::v6(tcp(4000)).tagged(0x8100, 0x2005),
        Frame::v6(tcp(4000)).tagged(0x88a8, 7).tagged(0x8100, 0x2005),
        Frame::v4(udp(4000)).tagged(0x8100, 1),
    ];
    for f in cases {
        let whole = f.build();
        let header = usize::from(Layers::of(&whole).unwrap().end);
        for (mss, piece) in [(1000u16, 4096), (1448, 777), (1, 4096), (4000, 4000)] {
            let sent = if mss == 1 { &whole[..header + 30] } else { &whole[..] };
            let flags = cs_flags::L3 | cs_flags::L4;
            let (left, cqe) = send(opcode::LSO, eth(mss, flags), sent, header, piece);
            assert_eq!(cqe.opcode(), 0, "{f:?}");
            assert_eq!(left.len(), (sent.len() - header).div_ceil(usize::from(mss)));
            let mut payload: Vec<u8> = vec![];
            for l in &left {
                // Ethernet's padding is not the datagram's.
                let h = Layers::of(l).unwrap();
                payload.extend(&l[header..h.datagram(l).unwrap().end]);
                assert_eq!(l[..12], whole[..12]);
                assert_eq!(
                    usize::from(h.end),
                    header,
                    "tags and extension headers are in every segment"
                );
                is_right(l, f.is_v4());
            }
            assert_eq!(payload, sent[header..]);
        }
    }
}

#[test]
fn checksums_inside_a_tunnel_are_inserted_and_large_sends_through_one_are_refused() {
    // VXLAN.
    let inner = Frame::v4(tcp(100));
    let mut around = vec![0x08, 0, 0, 0, 0, 0, 1, 0];
    around.extend(spoilt(&inner));
    let f = Frame::v4(Transport::Udp { sport: 5, dport: 4789, payload: around });
    let flags = cs_flags::L3 | cs_flags::L3_INNER | cs_flags::L4_INNER;
    let mut outer = f.build();
    outer[24] ^= 0xff;
    let (left, _) = send(opcode::SEND, eth(0, flags), &outer, 0, 4096);
    assert_eq!(left[0][50..], inner.build());
    assert_eq!(verify(&left[0]).ip, Check::Good);
    let header = 50 + 54;
    let (left, cqe) = send(opcode::LSO, eth(40, flags), &outer, header, 4096);
    assert_eq!((left.len(), cqe.opcode(), cqe.syndrome()), (0, 13, syndrome::LOCAL_LENGTH));
}

#[test]
fn without_flags_a_frame_leaves_as_it_is() {
    let f = spoilt(&Frame::v4(tcp(100)));
    assert_eq!(send(opcode::SEND, eth(0, 0), &f, 0, 4096).0, [f]);
}
