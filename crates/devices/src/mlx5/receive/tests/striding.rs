//! Striding queues: a linked list of WQEs that frames share.

use super::super::super::tests::frames::udp;
use super::*;
use doorbell_layout::mlx5::receive::{FILLER, STRIDE_BYTES, STRIDES_SHIFT, Strides};
use doorbell_layout::mlx5::syndrome;

/// Four WQEs of eight strides of 256 bytes.
const SHARED: RqContext = RqContext {
    log_size: 2,
    log_stride: 5,
    strides: Some(Strides { log_count: 3, log_size: 8 }),
    ..PLAIN
};
const WQE: u64 = 8 * 256;

/// Links WQE `n` to `next`, with memory of its own.
fn link(b: &mut Bench, n: u16, next: u16) {
    let at = b.rq.ring + u64::from(n) * 32;
    let data = b.data(BUFFERS + u64::from(n) * WQE, WQE as usize);
    b.put(at + 2, &next.to_be_bytes());
    b.put(at + 16, &data);
}

fn shared() -> Bench {
    let mut b = Bench::new(Config::CONNECTX, SHARED);
    (0..4).for_each(|n| link(&mut b, n, (n + 1) % 4));
    b
}

fn post(b: &mut Bench, n: u16) {
    b.posted += n;
    b.record();
}

/// Place of the WQE, first stride, strides, bytes; `None` for a filler's.
fn entry(b: &mut Bench) -> (u16, u16, u32, Option<u32>) {
    let cqe = b.poll().expect("an entry");
    let n = cqe.byte_cnt.get();
    let strides = (n & !FILLER) >> STRIDES_SHIFT;
    let bytes = (n & FILLER == 0).then_some(n & STRIDE_BYTES);
    (cqe.wqe_id.get(), cqe.wqe_counter.get(), strides, bytes)
}

fn frame(b: &mut Bench, len: usize) -> Vec<u8> {
    let f = Frame::v4(udp(len - 42)).build();
    b.receive_bytes(&f);
    b.settle();
    f
}

#[test]
fn frames_share_a_wqe_stride_by_stride() {
    let mut b = shared();
    post(&mut b, 2);
    let first = frame(&mut b, 100);
    let second = frame(&mut b, 257);
    let third = frame(&mut b, 256);
    assert_eq!(entry(&mut b), (0, 0, 1, Some(100)));
    assert_eq!(entry(&mut b), (0, 1, 2, Some(257)));
    assert_eq!(entry(&mut b), (0, 3, 1, Some(256)));
    assert_eq!(b.memory(BUFFERS, 100), first);
    assert_eq!(b.memory(BUFFERS + 256, 257), second);
    assert_eq!(b.memory(BUFFERS + 768, 256), third);
    assert_eq!(b.d.received().fetched_bytes, 64, "32 bytes a WQE, and one ahead");
}

#[test]
fn what_does_not_fit_leaves_a_filler() {
    let mut b = shared();
    post(&mut b, 2);
    frame(&mut b, 1500);
    let f = frame(&mut b, 600);
    assert_eq!(entry(&mut b), (0, 0, 6, Some(1500)));
    assert_eq!(entry(&mut b), (0, 6, 2, None));
    assert_eq!(entry(&mut b), (1, 0, 3, Some(600)));
    assert_eq!(b.memory(BUFFERS + WQE, 600), f);
    assert_eq!(b.d.received().fillers, 1);
    // Without a WQE more the rest stays, and a frame that fits gets it.
    frame(&mut b, 1500);
    assert_eq!(b.d.received().out_of_buffer, 1);
    frame(&mut b, 1280);
    assert_eq!(entry(&mut b), (1, 3, 5, Some(1280)));
    assert!(b.poll().is_none());
}

#[test]
fn capacity_is_wqes_times_strides() {
    let strides = Strides { log_count: 11, log_size: 6 };
    let rq = RqContext { log_size: 4, strides: Some(strides), ..SHARED };
    let mut b = Bench::new(Config::CONNECTX, rq);
    // All in one place: what is in it matters to none.
    for n in 0..16 {
        let data = b.data(BUFFERS, 2048 * 64);
        b.put(b.rq.ring + n * 32 + 2, &[0, (n + 1) as u8 % 16]);
        b.put(b.rq.ring + n * 32 + 16, &data);
    }
    post(&mut b, 16);
    let f = Frame::v4(udp(18)).build();
    for _ in 0..16 * 2048 + 100 {
        b.receive_bytes(&f);
        b.settle();
        while b.poll().is_some() {}
    }
    let c = b.d.received();
    assert_eq!((c.packets, c.out_of_buffer), (16 * 2048, 100));
}

#[test]
fn the_list_is_followed_where_it_leads() {
    let mut b = shared();
    for (n, next) in [(0, 3), (3, 1), (1, 2)] {
        link(&mut b, n, next);
    }
    post(&mut b, 4);
    for _ in 0..4 {
        frame(&mut b, 2048);
    }
    let places: Vec<u16> = (0..4).map(|_| entry(&mut b).0).collect();
    assert_eq!(places, [0, 3, 1, 2]);
}

#[test]
fn a_link_out_of_the_queue_ends_it() {
    let mut b = shared();
    link(&mut b, 0, 4);
    post(&mut b, 2);
    frame(&mut b, 2048);
    frame(&mut b, 2048);
    assert_eq!(b.d.query_rq(b.rqn), Ok(RqState::Error));
    assert_eq!(b.event(0).event_type, event::WQ_CATAS);
}

#[test]
fn a_frame_longer_than_a_wqe_is_an_error() {
    let mut b = shared();
    post(&mut b, 2);
    frame(&mut b, 3000);
    let cqe = b.poll().unwrap();
    assert_eq!((cqe.op_own >> 4, b.d.query_rq(b.rqn)), (14, Ok(RqState::Error)));
    assert_eq!(b.memory(CQ + 55, 1), [syndrome::LOCAL_LENGTH]);
}

#[test]
fn a_flush_begins_with_the_wqe_that_is_in_use() {
    let mut b = Bench::new(Config::CONNECTX, RqContext { flush_in_error: true, ..SHARED });
    (0..4).for_each(|n| link(&mut b, n, (n + 1) % 4));
    post(&mut b, 4);
    frame(&mut b, 2048);
    frame(&mut b, 100);
    assert_eq!((entry(&mut b).0, entry(&mut b).0), (0, 1));
    b.d.modify_rq(b.now, b.rqn, RqState::Ready, RqState::Error).unwrap();
    b.settle();
    let flushed: Vec<u16> = core::iter::from_fn(|| b.poll()).map(|c| c.wqe_counter.get()).collect();
    assert_eq!(flushed, [1, 2, 3]);
}
