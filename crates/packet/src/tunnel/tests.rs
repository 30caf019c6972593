use super::*;
use crate::checksum::Sum;
use crate::headers::{Check, Ip, verify};
use crate::segment::{SegmentError, SegmentPlan, Segments};
use crate::tests::Frame;
use crate::{CsumPartial, Gso, GsoKind};
use alloc::vec;
use alloc::vec::Vec;

/// A tunnel of a test, with an outer checksum or without where it has a choice.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Ip,
    Gre { checksum: bool, key: bool, sequence: bool, bridged: bool },
    Vxlan { port: u16, checksum: bool },
    Geneve { options: usize, checksum: bool },
}

pub(crate) const KINDS: [Kind; 9] = [
    Kind::Ip,
    Kind::Gre { checksum: false, key: false, sequence: false, bridged: false },
    Kind::Gre { checksum: true, key: true, sequence: false, bridged: true },
    Kind::Vxlan { port: VXLAN_PORT, checksum: false },
    Kind::Vxlan { port: VXLAN_PORT, checksum: true },
    Kind::Vxlan { port: 8472, checksum: false },
    Kind::Vxlan { port: 5555, checksum: true },
    Kind::Geneve { options: 0, checksum: false },
    Kind::Geneve { options: 12, checksum: true },
];

/// Puts `inner`, an Ethernet frame, into a tunnel. Returns the packet and the offset of the inner
/// IP header.
pub(crate) fn wrap(kind: Kind, v6: bool, inner: &Frame) -> (Vec<u8>, usize) {
    let frame = inner.build();
    let (ethernet, l3) = (frame.as_slice(), HEADER + TAG * inner.tags);
    let ip_type = if inner.v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
    let (protocol, mut header, body) = match kind {
        Kind::Ip => (if inner.v6 { 41 } else { 4 }, vec![], &ethernet[l3..]),
        Kind::Gre { checksum, key, sequence, bridged } => {
            let flags = [(checksum, 0x80u8), (key, 0x20), (sequence, 0x10)];
            let first = flags.iter().filter(|f| f.0).map(|f| f.1).sum();
            let mut h = vec![first, 0];
            h.extend(if bridged { [0x65, 0x58] } else { ip_type });
            for (_, bit) in flags.iter().filter(|f| f.0) {
                h.extend([0, 0, 0, *bit]);
            }
            (47, h, if bridged { ethernet } else { &ethernet[l3..] })
        }
        Kind::Vxlan { port, .. } => {
            let [a, b] = port.to_be_bytes();
            (17, vec![0x30, 0x39, a, b, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 7, 0], ethernet)
        }
        Kind::Geneve { options, .. } => {
            let first = (options / 4) as u8;
            let mut h = vec![0x30, 0x39, 0x17, 0xc1, 0, 0, 0, 0, first, 0, 0x65, 0x58, 0, 0, 7, 0];
            h.extend(vec![9; options]);
            (17, h, ethernet)
        }
    };
    let len = header.len() + body.len();
    if protocol == 17 {
        header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    }
    let shell = Frame { v6, udp: true, ..Frame::udp4(0) }.build();
    let at = HEADER + if v6 { 40 } else { 20 };
    let mut packet = shell[..at].to_vec();
    if v6 {
        packet[18..20].copy_from_slice(&(len as u16).to_be_bytes());
        packet[20] = protocol;
    } else {
        packet[16..18].copy_from_slice(&((20 + len) as u16).to_be_bytes());
        packet[23] = protocol;
        crate::segment::write_ipv4_checksum(&mut packet, HEADER);
    }
    packet.extend(&header);
    packet.extend(body);
    let outer = Layers::of(&packet).unwrap();
    match kind {
        Kind::Gre { checksum: true, .. } => {
            let check = Sum::of(&packet[at..]).checksum();
            packet[at + 4..at + 6].copy_from_slice(&check.to_be_bytes());
        }
        Kind::Vxlan { checksum: true, .. } | Kind::Geneve { checksum: true, .. } => {
            let sum = outer.pseudo_header(&packet, len as u32).plus(Sum::of(&packet[at..]));
            packet[at + 6..at + 8].copy_from_slice(&sum.udp_checksum().to_be_bytes());
        }
        _ => {}
    }
    let bridged = body.len() == ethernet.len();
    let inner_network = at + header.len() + if bridged { l3 } else { 0 };
    (packet, inner_network)
}

/// The request for segments of `size`, or for a checksum alone with 0.
fn todo(inner: &Frame, at: usize, size: u16) -> OffloadRequest {
    let fixed = if inner.v6 { 40 + 8 * inner.extensions } else { 20 + inner.ip_options };
    let start = (at + fixed) as u16;
    let (offset, len) = if inner.udp { (6, 8) } else { (16, 20 + inner.tcp_options as u16) };
    let kind = match (inner.udp, inner.v6) {
        (false, false) => GsoKind::Tcp4,
        (false, true) => GsoKind::Tcp6,
        (true, false) => GsoKind::Udp4,
        (true, true) => GsoKind::Udp6,
    };
    let gso = (size > 0).then_some(Gso { kind, size, header: start + len });
    let checksum = Some(CsumPartial { start, offset });
    OffloadRequest { checksum, gso, encapsulated: true, ..OffloadRequest::NONE }
}

pub(crate) fn inners() -> [Frame; 4] {
    [
        Frame::tcp4(1001),
        Frame { tcp_options: 12, flags: 0xd9, ..Frame::tcp6(1000) },
        Frame { ip_options: 8, ..Frame::udp4(1000) },
        Frame { tags: 1, extensions: 1, ..Frame::udp6(999) },
    ]
}

/// The checksum of the outer header: right where there is one.
pub(crate) fn outer_is_right(kind: Kind, packet: &[u8]) -> bool {
    let outer = Layers::of(packet).unwrap();
    let (at, checks) = (outer.l4 as usize, verify(packet));
    let ip = if outer.ip == Ip::V4 { Check::Good } else { Check::NotApplicable };
    checks.ip == ip
        && match kind {
            Kind::Gre { checksum: true, .. } => Sum::of(&packet[at..]).is_intact(),
            Kind::Vxlan { checksum, .. } | Kind::Geneve { checksum, .. } => {
                assert_eq!(be16(packet, at + 4) as usize, packet.len() - at);
                checksum == (checks.transport == Check::Good)
                    && checksum == (be16(packet, at + 6) != 0)
            }
            _ => true,
        }
}

#[test]
fn the_inner_headers_are_found_with_and_without_help() {
    for (kind, v6) in KINDS.into_iter().flat_map(|k| [(k, false), (k, true)]) {
        for inner in inners() {
            let (packet, at) = wrap(kind, v6, &inner);
            let todo = todo(&inner, at, 100);
            for said in [0, at as u16] {
                let todo = OffloadRequest { inner_network: said, ..todo };
                let h = Headers::of(&packet, &todo).unwrap();
                assert_eq!(h.layers().l3 as usize, at, "{kind:?}");
                assert!(h.match_request(&todo), "{kind:?} {inner:?}");
                let carries_ip = matches!(kind, Kind::Ip | Kind::Gre { bridged: false, .. });
                assert_eq!(h.inner_untagged, carries_ip || inner.tags == 0);
                assert_eq!(h.cwr, !inner.udp && inner.flags & 0x80 != 0);
            }
            let plain = OffloadRequest { encapsulated: false, ..todo };
            let h = Headers::of(&packet, &plain).unwrap();
            assert!(h.inner.is_none() && !h.match_request(&plain));
            // Inside the outer headers there is no inner packet.
            let todo = OffloadRequest { inner_network: 16, ..todo };
            assert!(Headers::of(&packet, &todo).is_err());
            for end in 0..at + 8 {
                let _ = Headers::of(&packet[..end], &todo);
            }
        }
    }
}

#[test]
fn tags_are_counted_and_named() {
    for tags in 0..=2 {
        let frame = Frame { tags, ..Frame::tcp4(10) }.build();
        let h = Headers::of(&frame, &OffloadRequest::NONE).unwrap();
        let types = [[0, 0, 0], [0x8100, 0, 0], [0x88a8, 0x8100, 0]];
        assert_eq!((h.tags as usize, h.tag_types), (tags, types[tags]));
    }
}

#[test]
fn segments_of_a_tunnel_have_all_headers() {
    for (kind, v6) in KINDS.into_iter().flat_map(|k| [(k, false), (k, true)]) {
        for inner in inners() {
            let (packet, at) = wrap(kind, v6, &inner);
            assert!(outer_is_right(kind, &packet));
            let todo = todo(&inner, at, 300);
            let header = todo.gso.unwrap().header as usize;
            let payload = &packet[header..];
            let mut plan = SegmentPlan::of(&packet[..header], payload.len() as u32, &todo).unwrap();
            // The inner packets are those of the inner frame by itself.
            let frame = inner.build();
            let shift = header - (frame.len() - payload.len());
            let gso = Gso { header: (header - shift) as u16, ..todo.gso.unwrap() };
            let mut plain = Segments::new(&frame, gso).unwrap();
            let (mut id, mut expected) = (be16(&packet, HEADER + 4), vec![0; 2000]);
            while let Some(n) = plain.next_into(&mut expected) {
                let mut segment = vec![0; header];
                let s = plan.next_header(&mut segment).unwrap();
                let bytes = &payload[s.payload.start as usize..s.payload.end as usize];
                s.finish(&mut segment, Sum::of(bytes));
                segment.extend(bytes);
                assert_eq!(segment[at..], expected[at - shift..n], "{kind:?} {inner:?}");
                assert!(outer_is_right(kind, &segment), "{kind:?} {v6} {inner:?}");
                let outer = Layers::of(&segment).unwrap();
                assert_eq!(outer.datagram(&segment), Some(HEADER..segment.len()));
                if !v6 {
                    assert_eq!(be16(&segment, HEADER + 4), id);
                    id = id.wrapping_add(1);
                }
            }
            assert!(plan.next_header(&mut vec![0; header]).is_none());
        }
    }
}

#[test]
fn inner_checksums_are_verified() {
    for (kind, v6) in KINDS.into_iter().flat_map(|k| [(k, false), (k, true)]) {
        for inner in inners() {
            let (mut packet, at) = wrap(kind, v6, &inner);
            let partial = todo(&inner, at, 0).checksum.unwrap();
            let ip = if inner.v6 { Check::NotApplicable } else { Check::Good };
            let good = Verdict { ip, transport: Check::Good };
            assert_eq!(verify_inner(&packet), good, "{kind:?}");
            assert_eq!(verify_at(&packet, partial.start), good);
            assert_eq!(verify_at(&packet, partial.start + 2), Verdict::NONE);
            packet[partial.field()] ^= 1;
            let bad = Verdict { ip, transport: Check::Bad };
            assert_eq!((verify_inner(&packet), verify_at(&packet, partial.start)), (bad, bad));
        }
    }
    let plain = Frame::tcp4(100).build();
    assert_eq!(verify_inner(&plain), Verdict::NONE);
    assert_eq!(verify_at(&plain, 34), verify(&plain));
    assert_eq!(verify_at(&plain, 36), Verdict::NONE);
}

#[test]
fn a_tunnel_that_counts_packets_is_not_segmented() {
    let kind = Kind::Gre { checksum: false, key: false, sequence: true, bridged: false };
    let inner = Frame::tcp4(1000);
    let (packet, at) = wrap(kind, false, &inner);
    let todo = todo(&inner, at, 300);
    let header = todo.gso.unwrap().header as usize;
    let plan = SegmentPlan::of(&packet[..header], 1000, &todo);
    assert_eq!(plan.unwrap_err(), SegmentError::Headers);
}
