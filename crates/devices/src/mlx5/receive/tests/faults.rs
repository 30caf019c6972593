//! Failed accesses and destroyed objects, after which nothing is written.

use super::super::super::tests::frames::{Frame, udp};
use super::*;
use doorbell_hal::DropReason;
use doorbell_layout::mlx5::{Cqe, EQE_ERROR_CQN, event, syndrome};

fn errors(b: &mut Bench) -> Vec<(u16, u8)> {
    let mut seen = vec![];
    while let Some(c) = b.poll() {
        let cqe: Cqe = zerocopy::transmute!(c);
        assert_eq!((cqe.opcode(), cqe.qpn()), (14, b.rqn));
        seen.push((cqe.wqe_counter.get(), cqe.syndrome()));
    }
    seen
}

#[test]
fn a_frame_longer_than_its_wqe_is_a_length_error() {
    let mut b = Bench::plain();
    b.post(4);
    b.receive(&Frame::v4(udp(1500)));
    b.settle();
    assert_eq!(errors(&mut b), [(0, syndrome::LOCAL_LENGTH)]);
    assert_eq!(b.memory(BUFFERS, 64), [0; 64], "nothing of it was written");
    assert_eq!(b.d.query_rq(b.rqn), Ok(RqState::Error));
    assert_eq!(b.receive(&Frame::v4(udp(1))), RxVerdict::Dropped(DropReason::Off));
}

#[test]
fn a_bad_key_or_address_is_a_protection_error() {
    for (lkey, addr) in
        [(0x1234, BUFFERS), (0, BUFFERS), (1, BUFFERS), (2, u64::MAX - 8), (2, MEMORY as u64)]
    {
        let mut b = Bench::plain();
        let lkey = match lkey {
            1 => b.lkey | 1,
            2 => b.lkey,
            other => other,
        };
        b.wqe(0, &[(1522, lkey, addr)]);
        b.posted = 1;
        b.record();
        b.receive(&Frame::v4(udp(100)));
        b.settle();
        assert_eq!(errors(&mut b), [(0, syndrome::LOCAL_PROT)]);
    }
}

#[test]
fn frames_behind_the_one_that_failed_are_given_up() {
    let mut b = Bench::plain();
    b.post(4);
    b.wqe(1, &[(1522, 0, 0)]);
    for _ in 0..4 {
        assert_eq!(b.receive(&Frame::v4(udp(100))), RxVerdict::Yes);
    }
    b.settle();
    assert_eq!(b.poll().unwrap().op_own >> 4, 2);
    assert_eq!(errors(&mut b), [(1, syndrome::LOCAL_PROT)]);
    let c = b.d.received();
    assert_eq!((c.packets, c.discarded, c.errors), (1, 3, 1));
    // Ethernet, IP, UDP and 100 bytes.
    assert_eq!(c.bytes, 14 + 20 + 8 + 100);
}

#[test]
fn a_queue_may_ask_for_what_is_posted_to_be_flushed() {
    let mut b = Bench::new(Config::CONNECTX, RqContext { flush_in_error: true, ..PLAIN });
    b.post(6);
    b.wqe(1, &[(1522, 0, 0)]);
    for _ in 0..3 {
        b.receive(&Frame::v4(udp(100)));
    }
    b.settle();
    b.poll().unwrap();
    let flushed = |n| (n, syndrome::WR_FLUSH);
    assert_eq!(
        errors(&mut b),
        [(1, syndrome::LOCAL_PROT), flushed(2), flushed(3), flushed(4), flushed(5)]
    );

    let mut b = Bench::new(Config::CONNECTX, RqContext { flush_in_error: true, ..PLAIN });
    b.post(3);
    b.receive(&Frame::v4(udp(100)));
    b.d.modify_rq(b.now, b.rqn, RqState::Ready, RqState::Error).unwrap();
    b.settle();
    assert_eq!(errors(&mut b), [flushed(0), flushed(1), flushed(2)]);
}

#[test]
fn a_long_queue_is_flushed_over_many_turns() {
    for most in [1, 60, 1000] {
        let mut b = Bench::new(Config::CONNECTX, RqContext { flush_in_error: true, ..PLAIN });
        b.post(16);
        b.d.modify_rq(b.now, b.rqn, RqState::Ready, RqState::Error).unwrap();
        let (mut seen, mut turns) = (Vec::new(), 0);
        while b.d.next_due().is_some() {
            b.p.most_work = b.p.work + most;
            b.settle_turn();
            seen.extend(errors(&mut b));
            turns += 1;
        }
        let all: Vec<_> = (0..16).map(|n| (n, syndrome::WR_FLUSH)).collect();
        assert_eq!(seen, all, "each once, in order");
        assert!((turns > 1) == (most < 1000), "{turns} turns of {most}");
    }
}

#[test]
fn what_is_flushed_is_not_written_before_the_command() {
    let mut b = Bench::new(Config::CONNECTX, RqContext { flush_in_error: true, ..PLAIN });
    let command = Time::ZERO + Span::from_us(5);
    b.post(3).at(command);
    b.d.modify_rq(command, b.rqn, RqState::Ready, RqState::Error).unwrap();
    b.settle();
    let times: Vec<_> = b.p.writes.iter().map(|w| w.0).collect();
    assert_eq!(times, [command; 4], "three CQEs and an event");
}

#[test]
fn a_queue_recovers_through_reset() {
    let mut b = Bench::plain();
    b.post(4);
    b.receive(&Frame::v4(udp(1500)));
    b.settle();
    b.poll().unwrap();
    b.d.modify_rq(b.now, b.rqn, RqState::Error, RqState::Reset).unwrap();
    b.posted = 0;
    b.post(4);
    assert_eq!(b.receive(&Frame::v4(udp(1))), RxVerdict::Dropped(DropReason::Off), "not ready yet");
    b.d.modify_rq(b.now, b.rqn, RqState::Reset, RqState::Ready).unwrap();
    assert_eq!(b.receive(&Frame::v4(udp(1))), RxVerdict::Yes);
    b.settle();
    assert_eq!(b.poll().unwrap().wqe_counter.get(), 0, "counters begin again");
}

#[test]
fn wqes_or_a_record_that_cannot_be_read_are_an_event() {
    for hole in [RQ..RQ + 16, RQ_DBR..RQ_DBR + 4] {
        let mut b = Bench::plain();
        b.post(4);
        b.p.hole = hole;
        assert_eq!(b.receive(&Frame::v4(udp(1))), RxVerdict::Dropped(DropReason::Dma));
        b.settle();
        assert_eq!(b.d.query_rq(b.rqn), Ok(RqState::Error));
        assert_eq!((b.event(0).event_type, b.event(0).data[6].get()), (event::WQ_CATAS, b.rqn));
        assert_eq!(b.poll(), None);
    }
}

#[test]
fn a_cq_that_overruns_dies_and_says_so() {
    let mut b = Bench::new(Config::CONNECTX, RqContext { log_size: 8, ..PLAIN });
    b.post(100);
    for _ in 0..70 {
        b.receive(&Frame::v4(udp(1)));
    }
    b.settle();
    let last = b.event(1);
    assert_eq!((last.event_type, last.data[EQE_ERROR_CQN].get()), (event::CQ_ERROR, b.cqn));
    assert_eq!(b.d.counters.cqes, 64);
}

/// A queue with two frames in the FIFO.
fn pending() -> Bench {
    let mut b = Bench::plain();
    b.post(8);
    b.receive(&Frame::v4(udp(100)));
    b.receive(&Frame::v4(udp(100)));
    assert_eq!(b.p.writes, []);
    b
}

#[test]
fn no_dma_after_the_queue_was_destroyed_or_reset() {
    let mut b = pending();
    b.destroy_queue();
    b.settle();
    assert_eq!(b.receive(&Frame::v4(udp(100))), RxVerdict::Dropped(DropReason::Off));
    b.p.reads.clear();
    b.settle();
    assert_eq!((&b.p.writes[..], &b.p.reads[..]), (&[][..], &[][..]));

    let mut b = pending();
    b.d.modify_rq(b.now, b.rqn, RqState::Ready, RqState::Reset).unwrap();
    b.settle();
    assert_eq!(b.p.writes, []);
    assert_eq!(b.d.received().discarded, 2);
}

#[test]
fn no_dma_after_the_function_was_reset() {
    let mut b = pending();
    let now = b.now;
    b.d.reset(&mut b.p, now);
    b.p.reads.clear();
    assert_eq!(b.d.next_due(), None);
    assert_eq!(
        b.receive(&Frame::v4(udp(100))),
        RxVerdict::Dropped(DropReason::Filter),
        "no tables are left"
    );
    b.settle();
    assert_eq!((&b.p.writes[..], &b.p.reads[..]), (&[][..], &[][..]));
    assert_eq!(b.d.received().arrived, 3, "what was counted stays");
}

#[test]
fn without_an_entry_a_frame_goes_nowhere() {
    let mut b = Bench::plain();
    b.post(8);
    b.d.rx.paths.change().steering.delete_entry((0x8000, 0)).unwrap();
    b.d.destroy_tir(0x2000).unwrap();
    assert_eq!(b.receive(&Frame::v4(udp(1))), RxVerdict::Dropped(DropReason::Filter));
    assert_eq!(b.d.received().not_steered, 1);
}
