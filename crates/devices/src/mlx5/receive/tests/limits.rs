//! Frames, rings and queues that stand exactly on a limit, and lengths that disagree.

use super::super::super::tests::frames::tcp;
use super::*;
use doorbell_hal::DropReason;
use doorbell_layout::mlx5::receive::{L2_OK, L3_OK, L4_OK};
use doorbell_packet::checksum::Sum;
use doorbell_packet::headers::{Check, verify};

/// Receives one frame. Returns the checks that its completion says it passed.
fn checks(f: &[u8]) -> u8 {
    let mut b = Bench::plain();
    b.post(1);
    assert_eq!(b.receive_bytes(f), RxVerdict::Yes);
    b.settle();
    b.poll().expect("a completion").hds_ip_ext
}

/// A UDP frame whose datagram has `payload` bytes, and whose UDP header says `says`. Its checksum
/// is that of `summed` bytes of UDP.
fn udp(src: [u8; 4], dst: [u8; 4], payload: usize, says: u16, summed: usize) -> Vec<u8> {
    let mut f = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &[8, 0, 0x45, 0]].concat();
    f.extend(((28 + payload) as u16).to_be_bytes());
    f.extend([0, 1, 0, 0, 64, 17, 0, 0]);
    f.extend(src.into_iter().chain(dst));
    let check = Sum::of(&f[14..34]).checksum();
    f[24..26].copy_from_slice(&check.to_be_bytes());
    f.extend([0x12, 0x34, 0x56, 0x78]);
    f.extend(says.to_be_bytes());
    f.extend([0, 0]);
    f.extend((0..payload).map(|i| (i * 7 + 1) as u8));
    let pseudo = Sum::of(&src).plus(Sum::of(&dst)).plus_be16(17).plus_be16(summed as u16);
    let check = pseudo.plus(Sum::of(&f[34..34 + summed])).udp_checksum();
    f[40..42].copy_from_slice(&check.to_be_bytes());
    f
}

/// UDP's length may be less than the datagram's: the rest is not summed.
#[test]
fn a_checksum_is_over_what_udp_says() {
    let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let all = L2_OK | L3_OK | L4_OK;
    // All of it, a part of it, and a part that is its length divided by the header's place.
    for (payload, says) in [(100, 108), (100, 58), (960, 968 / 34), (264, 16)] {
        let f = udp(src, dst, payload, says, says.into());
        assert_eq!(verify(&f).transport, Check::Good);
        assert_eq!(checks(&f), all, "{says} of {payload}");
    }
    // The addresses before the header happen to be the datagram's length.
    let f = udp(src, [1, 0, 0, 2], 264, 0x0010, 16);
    assert_eq!(checks(&f), all);
    let f = udp([10, 0, 0, 0x6c], dst, 100, 58, 58);
    assert_eq!(checks(&f), all);
    // More than there is has no checksum, whatever a sum over the datagram would be.
    let f = udp(src, dst, 100, 108 + 34, 108);
    assert_eq!(checks(&f) & L4_OK, 0);
    let mut f = udp(src, dst, 100, 142, 108);
    let pseudo = Sum::of(&f[26..34]).plus_be16(17).plus_be16(108);
    f[40..42].fill(0);
    let check = pseudo.plus(Sum::of(&f[34..])).udp_checksum();
    f[40..42].copy_from_slice(&check.to_be_bytes());
    assert_eq!(checks(&f) & L4_OK, 0);
}

#[test]
fn a_source_routed_packet_has_another_pseudo_header() {
    // TCP behind a routing header with a segment left, with the checksum of the addresses as they
    // stand: what its sender summed is the last address.
    let mut f = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    f.extend([0, 44, 43, 64]);
    f.extend([[0xfd; 16], [0xfc; 16]].concat());
    f.extend([6, 2, 0, 1, 0, 0, 0, 0]);
    f.extend([0xfb; 16]);
    f.extend([0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0x10, 0, 0, 0, 0, 0]);
    let sum = Sum::of(&f[22..54]).plus_be16(6).plus_be16(20).plus(Sum::of(&f[78..]));
    f[94..96].copy_from_slice(&sum.checksum().to_be_bytes());
    let verdict = verify(&f).transport;
    assert_ne!(verdict, Check::Bad, "nobody can tell");
    let passed = matches!(verdict, Check::Good | Check::Absent);
    assert_eq!(checks(&f) & L4_OK != 0, passed);
    // The same bytes with another checksum.
    f[94] ^= 1;
    let verdict = verify(&f).transport;
    let passed = matches!(verdict, Check::Good | Check::Absent);
    assert_eq!(checks(&f) & L4_OK != 0, passed);
}

#[test]
fn a_frame_of_a_header_is_received() {
    let mut b = Bench::plain();
    b.post(2);
    let f = Frame::v4(tcp(0)).build();
    assert_eq!(b.receive_bytes(&f[..14]), RxVerdict::Yes);
    assert_ne!(b.receive_bytes(&f[..13]), RxVerdict::Yes);
    assert_eq!((b.d.received().arrived, b.d.received().bad_length), (2, 1));
}

#[test]
fn walks_that_branch_too_often_are_counted() {
    let mut b = Bench::plain();
    let s = &mut b.d.rx.paths.change().steering;
    let mut next = None;
    for level in (0..8).rev() {
        let t = Table { kind: NIC_RX, level, log_size: 0, miss: Miss::Default };
        let t = s.create_table(t).unwrap();
        let group = s.create_group(t, Group { start: 0, end: 0, criteria: Criteria::ANY }).unwrap();
        if let Some(next) = next {
            let destinations = vec![Destination::Table(next); 4];
            let action = flow_action::FORWARD;
            let e = Entry { group, flow_tag: 0, action, value: Match::EMPTY, destinations };
            s.set_entry(t, 0, e).unwrap();
        }
        next = Some(t);
    }
    s.set_root(next.unwrap()).unwrap();
    let f = Frame::v4(tcp(0));
    for n in 1..=2 {
        assert_eq!(b.receive(&f), RxVerdict::Dropped(DropReason::Filter));
        assert_eq!(b.d.received().endless_walks, n);
    }
}

#[test]
fn wqes_are_fetched_in_chunks_and_known_before_the_last_half() {
    // Chunks of 256 bytes: sixteen WQEs.
    let mut b = Bench::new(Config::CONNECTX, RqContext { log_size: 6, ..PLAIN });
    let f = Frame::v4(tcp(0));
    b.post(16);
    let mut seen = Vec::new();
    for _ in 0..9 {
        assert_eq!(b.receive(&f), RxVerdict::Yes);
        let c = b.d.received();
        seen.push((c.record_reads, c.fetches, c.fetched_bytes));
    }
    // From the eighth on, each looks for more.
    let mut expected = vec![(1, 1, 256); 7];
    expected.extend([(2, 1, 256), (3, 1, 256)]);
    assert_eq!(seen, expected);
}

#[test]
fn more_wqes_than_the_ring_has_count_as_a_ring() {
    let mut b = Bench::plain();
    b.post(16);
    b.posted = 100;
    b.record();
    let f = Frame::v4(tcp(0));
    for n in 1..=8 {
        assert_eq!(b.receive(&f), RxVerdict::Yes);
        let expected = if n < 8 { (1, 256) } else { (2, 256 + 128) };
        let c = b.d.received();
        assert_eq!((c.fetches, c.fetched_bytes), expected, "frame {n}: eight are on chip");
    }
}

#[test]
fn so_many_writes_are_on_their_way_at_the_most() {
    let cfg = Config {
        writes_outstanding: 2,
        packet_time: Span::ZERO,
        pipeline_delay: Span::ZERO,
        ..Config::CONNECTX
    };
    let mut b = Bench::new(cfg, PLAIN);
    b.p.write_time = Span::from_us(1);
    b.post(6);
    let f = Frame::v4(tcp(0));
    for _ in 0..5 {
        assert_eq!(b.receive(&f), RxVerdict::Yes);
    }
    b.settle();
    let data = BUFFERS..END;
    let times: Vec<Time> = b.p.writes.iter().filter(|w| data.contains(&w.1)).map(|w| w.0).collect();
    assert_eq!(times, [0, 0, 1000, 1000, 2000].map(ns));
}

#[test]
fn frames_are_a_packet_time_apart_at_the_least() {
    let (packet_time, pipeline_delay) = (Span::from_ns(40), Span::ZERO);
    let mut b = Bench::new(Config { packet_time, pipeline_delay, ..Config::CONNECTX }, PLAIN);
    b.post(4);
    for _ in 0..3 {
        assert_eq!(b.receive(&Frame::v4(tcp(0))), RxVerdict::Yes);
    }
    b.settle();
    let data = BUFFERS..END;
    let times: Vec<Time> = b.p.writes.iter().filter(|w| data.contains(&w.1)).map(|w| w.0).collect();
    assert_eq!(times, [0, 40, 80].map(ns));
}

#[test]
fn a_reset_queue_has_no_error_left_and_others_keep_theirs() {
    for (own, events) in [(true, 0), (false, 1)] {
        let mut b = Bench::plain();
        let other = b.d.create_rq(&RqContext { cqn: b.cqn, ..PLAIN }).unwrap();
        b.post(1);
        b.p.hole = RQ..RQ + 16;
        let f = Frame::v4(tcp(0));
        assert_ne!(b.receive(&f), RxVerdict::Yes, "its WQE cannot be read");
        if own {
            b.d.modify_rq(b.now, b.rqn, RqState::Error, RqState::Reset).unwrap();
        } else {
            b.d.modify_rq(b.now, other, RqState::Reset, RqState::Ready).unwrap();
            b.d.modify_rq(b.now, other, RqState::Ready, RqState::Reset).unwrap();
        }
        b.settle();
        let seen = b.p.writes.iter().filter(|w| (EQ..EQ + 1024).contains(&w.1)).count();
        assert_eq!(seen, events, "its own: {own}");
    }
}
