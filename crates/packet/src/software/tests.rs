use super::*;
use crate::NonLinear;
use crate::headers::prepare_partial;
use crate::segment::{Segments, prepare_gso};
use crate::tests::{Bare, Frame, any_frame};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::WorkKind;
use proptest::prelude::*;

/// The frame in pieces, the first of which has at least `head` bytes, with some room before each.
fn scattered(h: &mut Bare, frame: &[u8], head: usize, cuts: &[usize]) -> Packet {
    let mut at: Vec<usize> = cuts.iter().map(|c| head + c % (frame.len() - head + 1)).collect();
    at.push(frame.len());
    at.sort_unstable();
    let mut from = 0;
    let mut pieces: Vec<Fragment> = Vec::new();
    for to in at {
        let room = pieces.len() * 3;
        let bytes = [&vec![0x55; room], &frame[from..to]].concat();
        pieces.push(Fragment { buf: h.buf(&bytes), start: room as u32, len: (to - from) as u32 });
        from = to;
    }
    let mut pieces = pieces.into_iter();
    let head = pieces.next().unwrap();
    let mut more = NonLinear::default();
    for (i, p) in pieces.enumerate() {
        if i < 2 { &mut more.frags } else { &mut more.list }.push(p);
    }
    let more = (!more.frags.is_empty()).then(|| Box::new(more));
    Packet { head, todo: OffloadRequest::NONE, more, cookie: 7 }
}

fn bytes(h: &mut Bare, p: &Packet) -> Vec<u8> {
    let mut all = Vec::new();
    copy(h, p, 0, p.len(), |_, at, block| {
        assert_eq!(at as usize, all.len());
        all.extend_from_slice(block);
    });
    all
}

#[test]
fn linearising_a_linear_packet_costs_nothing() {
    let mut h = Bare::default();
    let p = Packet::linear(Fragment::whole(h.buf(&[1; 60])));
    let p = p.linearise(&mut h, Alignment::ANY).unwrap();
    assert_eq!((p.head.buf.token(), h.worked(WorkKind::Copy)), (0, 0));
}

#[test]
fn without_memory_the_packet_comes_back_as_it_was() {
    let mut h = Bare::default();
    let mut frame = Frame::tcp4(500).build();
    let todo = prepare_gso(&mut frame, 100).unwrap();
    let mut p = scattered(&mut h, &frame, 60, &[100, 300]);
    p.todo = todo;
    h.left = Some(0);
    let NoBuffer(p) = p.linearise(&mut h, Alignment::ANY).unwrap_err();
    h.left = Some(2);
    let mut segments = Vec::new();
    let e = p.segment(&mut h, Alignment::ANY, |_, s| segments.push(s)).unwrap_err();
    assert_eq!((e.why, e.given, segments.len()), (WhyUnsegmented::OutOfMemory, 2, 2));
    assert_eq!(e.packet.todo, todo);
    assert_eq!(bytes(&mut h, &e.packet), frame);
}

#[test]
fn a_tunnel_without_a_tunnel_is_not_cut() {
    let mut h = Bare::default();
    let mut frame = Frame::tcp4(500).build();
    let mut p = Packet::linear(Fragment::whole(h.buf(&frame)));
    p.todo = OffloadRequest { encapsulated: true, ..prepare_gso(&mut frame, 100).unwrap() };
    let e = p.segment(&mut h, Alignment::ANY, |_, _| panic!("a segment")).unwrap_err();
    assert_eq!(e.why, WhyUnsegmented::Invalid(SegmentError::Headers));
    let e = Packet { todo: OffloadRequest::NONE, ..e.packet }.segment(
        &mut h,
        Alignment::ANY,
        |_, _| panic!("a segment"),
    );
    assert_eq!(e.unwrap_err().why, WhyUnsegmented::NotLarge);
}

#[test]
fn a_checksum_field_outside_the_head_is_refused() {
    let mut h = Bare::default();
    let f = Frame::tcp4(100).build();
    let partial = prepare_partial(&mut f.clone()).unwrap();
    let head = partial.field() + 2;
    for (len, result) in [(head, Ok(())), (head - 1, Err(OutOfFrame)), (head - 4, Err(OutOfFrame))]
    {
        let mut p = scattered(&mut h, &f, len, &[0]);
        p.head.len = len as u32;
        p.todo.checksum = Some(partial);
        assert_eq!(p.complete_checksum(&mut h), result, "{len}");
        p.release(&mut h);
    }
}

#[test]
fn a_tag_with_four_bytes_of_room_moves_sixteen() {
    for (room, copied) in [(4, 16), (3, 16 + 64)] {
        let mut h = Bare::default();
        let buf = h.buf(&[0; 72]);
        let mut p = Packet::linear(Fragment { buf, start: room, len: 64 });
        p.todo.vlan = Some(1);
        p.insert_tag(&mut h, Alignment::ANY).unwrap();
        assert_eq!(h.worked(WorkKind::Copy), copied, "{room} bytes of room");
    }
}

#[test]
fn a_tag_moves_the_inner_network_header() {
    for (before, after) in [(0, 0), (50, 54)] {
        let mut h = Bare::default();
        let mut p = Packet::linear(Fragment::whole(h.buf(&[0; 64])));
        p.todo = OffloadRequest {
            vlan: Some(1),
            encapsulated: true,
            inner_network: before,
            ..OffloadRequest::NONE
        };
        let p = p.insert_tag(&mut h, Alignment::ANY).unwrap();
        assert_eq!(p.todo.inner_network, after);
    }
}

#[test]
fn cutting_declares_the_bytes_that_it_sums() {
    let mut h = Bare::default();
    let mut f = Frame::tcp4(250).build();
    let todo = prepare_gso(&mut f, 100).unwrap();
    let p = Packet { todo, ..Packet::linear(Fragment::whole(h.buf(&f))) };
    assert_eq!(p.segment(&mut h, Alignment::ANY, |_, _| ()), Ok(3));
    // Of each segment TCP's header of 20 bytes and the payload.
    assert_eq!(h.worked(WorkKind::Sum), 3 * 20 + 250);
}

#[test]
fn only_a_packet_without_bytes_is_empty() {
    let mut h = Bare::default();
    assert!(Packet::linear(Fragment::whole(h.buf(&[]))).is_empty());
    assert!(!Packet::linear(Fragment::whole(h.buf(&[0]))).is_empty());
}

proptest! {
    #[test]
    fn linearising_keeps_the_bytes_and_declares_them(
        frame in any_frame(0..5000),
        cuts in prop::collection::vec(any::<usize>(), 1..6),
    ) {
        let mut h = Bare::default();
        let frame = frame.build();
        let p = scattered(&mut h, &frame, 14, &cuts);
        let p = p.linearise(&mut h, Alignment::ANY).unwrap();
        prop_assert!(p.is_linear());
        prop_assert_eq!(bytes(&mut h, &p), frame.clone());
        prop_assert_eq!((h.live(), h.worked(WorkKind::Copy), p.cookie), (1, frame.len() as u64, 7));
    }

    #[test]
    fn a_checksum_completed_across_pieces_is_the_one_it_had(
        frame in any_frame(0..400),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let mut h = Bare::default();
        let whole = frame.build();
        let mut f = whole.clone();
        let partial = prepare_partial(&mut f).unwrap();
        let mut p = scattered(&mut h, &f, partial.field() + 2, &cuts);
        p.todo.checksum = Some(partial);
        p.complete_checksum(&mut h).unwrap();
        prop_assert_eq!(bytes(&mut h, &p), whole.clone());
        prop_assert_eq!(p.todo, OffloadRequest::NONE);
        prop_assert_eq!(h.worked(WorkKind::Sum), (whole.len() - partial.start as usize) as u64);
    }

    #[test]
    fn a_tag_goes_in_with_and_without_room(
        frame in any_frame(2..300),
        room in 0u32..8,
        tci in any::<u16>(),
    ) {
        let mut h = Bare::default();
        let whole = Frame { tags: frame.tags.min(1), ..frame }.build();
        let mut f = whole.clone();
        let todo = prepare_gso(&mut f, 1).unwrap();
        let buf = h.buf(&[&vec![0; room as usize], &f[..]].concat());
        let mut p = Packet::linear(Fragment { buf, start: room, len: f.len() as u32 });
        p.todo = OffloadRequest { vlan: Some(tci), ..todo };
        let mut p = p.insert_tag(&mut h, Alignment::ANY).unwrap();
        let mut tagged = vec![0; whole.len() + 4];
        vlan::insert_into(&mut tagged, &whole, tci);
        let mut again = tagged.clone();
        prop_assert_eq!(p.todo, prepare_gso(&mut again, 1).unwrap());
        p.complete_checksum(&mut h).unwrap();
        prop_assert_eq!(bytes(&mut h, &p), tagged);
        prop_assert_eq!(h.live(), 1);
    }

    #[test]
    fn segments_from_host_memory_are_those_of_the_linear_frame(
        frame in any_frame(2..6000),
        size in any::<u16>(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let len = frame.payload.len() as u16;
        let size = (1 + size % (len - 1)).max(len / 100);
        let mut h = Bare::default();
        let mut f = frame.build();
        let todo = prepare_gso(&mut f, size).unwrap();
        let gso = todo.gso.unwrap();
        let mut p = scattered(&mut h, &f, gso.header as usize, &cuts);
        p.todo = OffloadRequest { vlan: Some(5), ..todo };
        let mut got = Vec::new();
        let n = p.segment(&mut h, Alignment::ANY, |_, s| got.push(s)).unwrap();
        prop_assert_eq!((n as usize, h.live()), (got.len(), got.len()));
        let mut want = Segments::new(&f, gso).unwrap();
        let (mut out, mut copied) = (vec![0; want.plan().longest()], 0);
        for s in &got {
            let n = want.next_into(&mut out).unwrap();
            prop_assert_eq!(&bytes(&mut h, s), &out[..n]);
            prop_assert_eq!(
                (s.todo, s.cookie),
                (OffloadRequest { vlan: Some(5), ..OffloadRequest::NONE }, 7)
            );
            copied += n as u64;
        }
        prop_assert_eq!(want.next_into(&mut out), None);
        prop_assert_eq!(h.worked(WorkKind::Copy), copied);
    }
}

#[test]
fn a_segmentation_that_waits_gives_the_same_segments() {
    let mut h = Bare::default();
    let mut frame = Frame::tcp6(1050).build();
    let todo = OffloadRequest { vlan: Some(5), ..prepare_gso(&mut frame, 100).unwrap() };
    let packet = |h: &mut Bare| Packet { todo, ..scattered(h, &frame, 80, &[100, 300, 900]) };
    let (p, q) = (packet(&mut h), packet(&mut h));
    let mut whole = Vec::new();
    let given =
        p.segment(&mut h, Alignment::ANY, |h, s| whole.push((bytes(h, &s), s.todo, s.cookie)));
    assert_eq!(given, Ok(11));
    let mut waiting = Segmentation::new(&mut h, q).unwrap();
    let mut single = Vec::new();
    for left in (1..=11).rev() {
        assert_eq!(waiting.left(), left);
        h.left = Some(0);
        assert_eq!(waiting.next(&mut h, Alignment::ANY), Err(OutOfMemory));
        h.left = None;
        let s = waiting.next(&mut h, Alignment::ANY).unwrap().unwrap();
        single.push((bytes(&mut h, &s), s.todo, s.cookie));
    }
    assert_eq!(waiting.next(&mut h, Alignment::ANY), Ok(None));
    assert_eq!(single, whole);
    let p = waiting.into_packet();
    assert_eq!((p.todo, bytes(&mut h, &p)), (todo, frame));
}
