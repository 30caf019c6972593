//! Large sends over several turns of the port, and the counts of those that fail.

use super::super::super::receive::tests::{BUFFERS, Bench};
use super::super::super::tests::frames::{Frame, Transport, tcp, udp};
use alloc::vec::Vec;
use doorbell_hal::{Device, EventSource};
use doorbell_layout::mlx5::{EthSeg, SqState, opcode};
use doorbell_packet::headers::Layers;
use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::U16;

/// Payload of the large sends here, and their segments.
const PAYLOAD: usize = 50;
const MSS: u16 = 7;
const SEGMENTS: u64 = 8;

/// Rings for a large send of `f`, in two pieces. With `bad`, the second has no such key.
fn begin(f: &Frame, mss: u16, bad: bool) -> Bench {
    let mut b = Bench::plain();
    let f = f.build();
    let (head, payload) = f.split_at(Layers::of(&f).unwrap().end.into());
    b.put(BUFFERS, payload);
    let eth = EthSeg {
        mss: U16::new(mss),
        inline_hdr_sz: U16::new(head.len() as u16),
        inline_hdr_start: [head[0], head[1]],
        ..EthSeg::default()
    };
    let mut rest = [eth.as_bytes(), &head[2..]].concat();
    rest.resize(rest.len().next_multiple_of(16), 0);
    let first = payload.len() / 3;
    rest.extend(b.data(BUFFERS, first));
    let mut second = b.data(BUFFERS + first as u64, payload.len() - first);
    second[4] ^= u8::from(bad);
    rest.extend(second);
    b.send(opcode::LSO, &rest);
    b
}

/// One turn of at most so many frames. Returns the number of frames sent.
fn turn(b: &mut Bench, most: usize) -> usize {
    let before = b.p.frames.len();
    b.p.most_frames = before + most;
    let due = b.d.next_due().expect("something to do");
    b.d.advance(&mut b.p, due);
    b.p.frames.len() - before
}

/// TCP with the flags that not every segment has: CWR, ACK, PSH and FIN.
fn flagged() -> Transport {
    match tcp(PAYLOAD) {
        Transport::Tcp { sport, dport, payload, .. } => {
            Transport::Tcp { sport, dport, flags: 0x99, payload }
        }
        other => other,
    }
}

#[test]
fn a_large_send_of_tiny_segments_yields_each_turn() {
    let mut b = begin(&Frame::v4(tcp(1000)), 1, false);
    for n in 1..=10 {
        assert_eq!(turn(&mut b, 100), 100, "turn {n}");
    }
    assert!(b.poll().is_none(), "its completion is due with the last frame");
    b.p.most_frames = usize::MAX;
    b.settle();
    assert_eq!((b.d.counters.packets, b.d.counters.lso, b.d.counters.wqes), (1000, 1, 1));
    assert_eq!(b.poll().map(|c| c.op_own >> 4), Some(0));
}

#[test]
fn turns_change_nothing_in_a_large_send() {
    for f in [
        Frame::v4(flagged()),
        Frame::v6(flagged()),
        Frame::v4(udp(PAYLOAD)),
        Frame::v6(udp(PAYLOAD)),
    ] {
        let mut whole = begin(&f, MSS, false);
        assert_eq!(turn(&mut whole, usize::MAX / 2) as u64, SEGMENTS);
        for most in 1..SEGMENTS as usize {
            let mut b = begin(&f, MSS, false);
            let turns: Vec<usize> =
                (0..SEGMENTS.div_ceil(most as u64)).map(|_| turn(&mut b, most)).collect();
            assert!(turns.iter().rev().skip(1).all(|n| *n == most), "{turns:?}");
            assert_eq!(b.p.frames, whole.p.frames, "the same bytes at the same times");
            let counts = |b: &Bench| b.d.counters.entries().collect::<Vec<_>>();
            assert_eq!(counts(&b), counts(&whole));
        }
    }
}

#[test]
fn a_large_send_that_fails_in_a_later_turn_discards_the_rest() {
    // Two segments are in the first piece.
    let mut b = begin(&Frame::v4(tcp(PAYLOAD)), MSS, true);
    assert_eq!(turn(&mut b, 1), 1);
    b.p.most_frames = usize::MAX;
    b.settle();
    let c = b.d.counters;
    assert_eq!((c.packets, c.discarded, c.errors, c.lso), (2, SEGMENTS - 2, 1, 0));
}

#[test]
fn a_large_send_flushed_between_turns_discards_the_rest() {
    let mut b = begin(&Frame::v4(tcp(PAYLOAD)), MSS, false);
    assert_eq!(turn(&mut b, 3), 3);
    b.d.sqs.iter_mut().for_each(|(_, sq)| sq.state = SqState::Error);
    b.p.most_frames = usize::MAX;
    b.settle();
    let c = b.d.counters;
    assert_eq!((c.packets, c.discarded, c.wqes), (3, SEGMENTS - 3, 1));
}

#[test]
fn a_port_that_is_down_discards_each_segment_once() {
    for bad in [false, true] {
        let mut b = begin(&Frame::v4(tcp(PAYLOAD)), MSS, bad);
        b.d.pipe.link_up = false;
        b.settle();
        let c = b.d.counters;
        assert_eq!((c.packets, c.discarded, c.errors), (0, SEGMENTS, u64::from(bad)));
    }
}
