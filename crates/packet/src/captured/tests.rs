use super::*;
use crate::headers::{Check, verify};
use crate::segment::SegmentPlan;
use crate::tests::{Frame, any_frame};
use crate::tunnel::tests::{KINDS, Kind, inners, outer_is_right, wrap};
use crate::tunnel::verify_inner;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// The tunnels that a receiver recognises, over both versions of IP.
fn known() -> impl Iterator<Item = (Kind, bool)> {
    let known = KINDS.into_iter().filter(|k| !matches!(k, Kind::Vxlan { port: 5555, .. }));
    known.flat_map(|k| [(k, false), (k, true)])
}

/// The segments of a prepared large send.
fn cut(frame: &[u8], todo: &OffloadRequest) -> Vec<Vec<u8>> {
    let (header, payload) = frame.split_at(todo.gso.unwrap().header.into());
    let mut plan = SegmentPlan::of(header, payload.len() as u32, todo).unwrap();
    let mut all = Vec::new();
    let mut out = vec![0; header.len()];
    while let Some(segment) = plan.next_header(&mut out) {
        let bytes = &payload[segment.payload.start as usize..segment.payload.end as usize];
        segment.finish(&mut out, Sum::of(bytes));
        all.push([&out, bytes].concat());
    }
    all
}

#[test]
fn a_completed_inner_checksum_gives_the_packet_back() {
    for (kind, v6) in known() {
        for inner in inners() {
            let (packet, at) = wrap(kind, v6, &inner);
            let mut frame = packet.clone();
            let todo = prepare_checksum(&mut frame);
            assert_eq!((todo.encapsulated, todo.inner_network), (true, at as u16), "{kind:?}");
            assert_ne!(frame, packet);
            todo.checksum.unwrap().complete(&mut frame).unwrap();
            assert_eq!(frame, packet, "{kind:?} {inner:?}");
        }
    }
}

/// A host's capture has the inner checksum as the stack left it.
#[test]
fn the_outer_checksum_is_right_when_the_inner_one_was_not() {
    for (kind, v6) in known() {
        let (packet, at) = wrap(kind, v6, &Frame::tcp4(300));
        let mut frame = packet.clone();
        frame[at + 20 + 16] ^= 0x55;
        let todo = prepare_checksum(&mut frame);
        todo.checksum.unwrap().complete(&mut frame).unwrap();
        assert_eq!(frame, packet, "{kind:?}");
    }
}

#[test]
fn a_large_send_in_a_tunnel_is_cut_with_all_headers() {
    for (kind, v6) in known() {
        for inner in inners() {
            let (mut frame, at) = wrap(kind, v6, &inner);
            let todo = prepare_large(&mut frame, 300).unwrap();
            assert_eq!((todo.encapsulated, todo.inner_network), (true, at as u16), "{kind:?}");
            let segments = cut(&frame, &todo);
            assert_eq!(segments.len(), inner.payload.len().div_ceil(300));
            for segment in &segments {
                assert!(outer_is_right(kind, segment), "{kind:?}");
                assert_eq!(verify_inner(segment).transport, Check::Good);
            }
            let header = usize::from(todo.gso.unwrap().header);
            let payload: Vec<u8> = segments.iter().flat_map(|s| s[header..].to_vec()).collect();
            assert_eq!(payload, inner.payload);
        }
    }
}

#[test]
fn the_payload_of_a_tunnel_is_not_cut_as_that_of_udp() {
    let vxlan = Kind::Vxlan { port: 8472, checksum: false };
    let (packet, at) = wrap(vxlan, false, &Frame::tcp4(1000));
    for (offset, byte) in [(34 + 8, 0), (at - 2, 0x12), (at, 0x10)] {
        let mut frame = packet.clone();
        frame[offset] = byte;
        let before = frame.clone();
        assert_eq!(prepare_large(&mut frame, 300), None, "{offset}");
        assert_eq!(frame, before);
    }
    let elsewhere = Kind::Vxlan { port: 5555, checksum: false };
    let (mut packet, _) = wrap(elsewhere, false, &Frame::tcp4(1000));
    let todo = prepare_large(&mut packet, 300).unwrap();
    assert!(!todo.encapsulated, "a port of no tunnel is a datagram's");
}

#[test]
fn a_tunnel_without_transport_leaves_its_own_checksum() {
    let vxlan = Kind::Vxlan { port: 4789, checksum: true };
    let (mut packet, at) = wrap(vxlan, false, &Frame::tcp4(100));
    // The inner packet is ICMP.
    packet[at + 9] = 1;
    let todo = prepare_checksum(&mut packet);
    assert!(!todo.encapsulated);
    assert_eq!(todo.checksum.unwrap().start, 34);
}

/// A frame whose IP length is 0, with a hop-by-hop header over IPv6 as Linux makes it.
fn big_tcp(v6: bool, tags: usize) -> (Vec<u8>, Frame) {
    let of = Frame { v6, tags, ..Frame::tcp4(80_000) };
    let mut frame = of.build();
    let l3 = vlan::header(&frame);
    if v6 {
        let len = (frame.len() - l3 - IPV6 + JUMBO) as u32;
        let [a, b, c, d] = len.to_be_bytes();
        frame.splice(l3 + IPV6..l3 + IPV6, [6, 0, 0xc2, 4, a, b, c, d]);
        frame[l3 + 4..l3 + 7].fill(0);
    } else {
        frame[l3 + 2..l3 + 4].fill(0);
    }
    (frame, of)
}

#[test]
fn big_tcp_is_one_large_send() {
    for (v6, tags) in [(false, 0), (true, 0), (false, 1), (true, 2)] {
        let (mut frame, of) = big_tcp(v6, tags);
        let len = remove_jumbo_header(&mut frame);
        assert_eq!(frame.len() - len, if v6 { 8 } else { 0 });
        frame.truncate(len);
        let todo = prepare_large(&mut frame, 1400).unwrap();
        let segments = cut(&frame, &todo);
        assert_eq!(segments.len(), 80_000usize.div_ceil(1400));
        for segment in &segments {
            assert_eq!(verify(segment).transport, Check::Good);
        }
        let header = usize::from(todo.gso.unwrap().header);
        let payload: Vec<u8> = segments.iter().flat_map(|s| s[header..].to_vec()).collect();
        assert_eq!(payload, of.payload);
    }
}

#[test]
fn a_jumbogram_that_is_not_all_there_stays() {
    let (whole, _) = big_tcp(true, 0);
    for (offset, byte) in [(18, 1), (20, 6), (55, 1), (56, 5), (57, 3), (61, 0x11)] {
        let mut frame = whole.clone();
        frame[offset] = byte;
        let before = frame.clone();
        assert_eq!(remove_jumbo_header(&mut frame), before.len(), "{offset}");
        assert_eq!(frame, before);
    }
}

#[test]
fn segments_fill_the_longest_frame() {
    for (kind, v6) in known() {
        let (mut frame, _) = wrap(kind, v6, &Frame::tcp4(1001));
        let size = largest_payload(&frame, 400).unwrap();
        let todo = prepare_large(&mut frame, size).unwrap();
        let longest = cut(&frame, &todo).iter().map(Vec::len).max();
        assert_eq!(longest, Some(400), "{kind:?}");
        assert_eq!(largest_payload(&frame, todo.gso.unwrap().header.into()), None);
    }
}

#[test]
fn a_syn_announces_a_segment_size() {
    let build = |flags, options: &[u8]| {
        let mut f = Frame { flags, tcp_options: options.len(), ..Frame::tcp4(30) }.build();
        f[54..54 + options.len()].copy_from_slice(options);
        Seen::of(&f).unwrap()
    };
    let seen = build(2, &[1, 3, 3, 7, 2, 4, 5, 0xb4]);
    assert_eq!((seen.announced, seen.options, seen.payload), (Some(1460), 8, 30));
    for options in [&[0, 0, 2, 4, 5, 0xb4, 0, 0][..], &[3, 1, 2, 4], &[3, 9, 2, 4], &[2, 4]] {
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), 0);
        let announced = build(2, &options).announced;
        assert_eq!(announced, (options == [2, 4, 0, 0]).then_some(0), "{options:?}");
    }
    assert_eq!(build(0x10, &[2, 4, 5, 0xb4]).announced, None, "no SYN");
}

#[test]
fn both_directions_of_a_tunnelled_flow_are_known() {
    for (kind, v6) in known() {
        for inner in inners() {
            let (outside, inside) = (wrap(kind, v6, &inner).0, inner.build());
            let [seen, plain] = [outside, inside.clone()].map(|f| Seen::of(&f).unwrap());
            assert_eq!((seen, seen.payload as usize), (plain, inner.payload.len()));
            let mut back = inside;
            let (l3, len) = (vlan::header(&back), if inner.v6 { 16 } else { 4 });
            let at = l3 + if inner.v6 { 8 } else { 12 };
            let l4 = usize::from(Layers::of(&back).unwrap().l4);
            back[at..at + 2 * len].rotate_left(len);
            back[l4..l4 + 4].rotate_left(2);
            assert_eq!(Seen::of(&back).unwrap().flow, plain.flow.reversed());
            assert_ne!(plain.flow, plain.flow.reversed());
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        inner in any_frame(0..200),
        kind in prop::sample::select(KINDS.to_vec()),
        v6: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        end in any::<prop::sample::Index>(),
        size: u16,
    ) {
        let (mut frame, _) = wrap(kind, v6, &inner);
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        frame.truncate(end.index(frame.len()) + 1);
        let _ = (largest_payload(&frame, size.into()), Seen::of(&frame));
        let before = frame.clone();
        if prepare_large(&mut frame, size).is_none() {
            prop_assert_eq!(&frame, &before);
        }
        let mut frame = before.clone();
        if prepare_checksum(&mut frame) == OffloadRequest::NONE {
            prop_assert_eq!(&frame, &before);
        }
        prop_assert!(remove_jumbo_header(&mut frame) <= before.len());
    }
}
