//! Doorbell pages as memory: what a look finds in the doorbell records.

use super::super::super::tests::frames::Transport;
use super::*;
use doorbell_layout::mlx5::opcode;

const POLLED: Config = Config { polled_doorbells: true, ..Config::CONNECTX };

fn look(b: &mut Bench) -> u32 {
    let Bench { d, p, now, .. } = b;
    d.look_again(*now, |at| p.memory.get(at.0 as usize..)?.first_chunk().copied())
}

/// A ready send queue with a doorbell record of its own.
fn queue(b: &mut Bench, n: u64) -> (u32, u64, u64) {
    let (ring, dbr) = (SQ + n * 0x1000, RQ_DBR + 0x200 + n * 0x40);
    let sq = SqContext {
        log_size: 6,
        ring,
        dbr,
        cqn: b.cqn,
        uar: b.uar,
        min_inline: 0,
        internal: false,
        second_port: false,
    };
    let sqn = b.d.create_sq(&sq).unwrap();
    b.d.modify_sq(sqn, SqState::Reset, SqState::Ready).unwrap();
    (sqn, ring, dbr)
}

/// A NOP at `pc`, and the record behind it. Nobody rings.
fn nop(b: &mut Bench, (sqn, ring, dbr): (u32, u64, u64), pc: u16) {
    b.put(ring + u64::from(pc) * 64, CtrlSeg::new(pc, opcode::NOP, sqn, 1).as_bytes());
    b.put(dbr + 4, &u32::from(pc + 1).to_be_bytes());
}

#[test]
fn queues_that_share_a_doorbell_word_are_all_found() {
    let mut b = Bench::new(POLLED, PLAIN);
    look(&mut b);
    let queues = [0, 1, 2].map(|n| queue(&mut b, n));
    for q in queues {
        nop(&mut b, q, 0);
    }
    nop(&mut b, queues[1], 1);
    assert_eq!(look(&mut b), 3, "two rings of one queue that one look found are one");
    b.settle();
    assert_eq!((b.d.counters.nops, b.d.counters.doorbells), (4, 3));
    assert_eq!(look(&mut b), 0, "nothing is done twice");
    assert_eq!(b.d.counters.bad_doorbells, 0);
}

#[test]
fn a_record_left_over_from_before_a_reset_announces_nothing() {
    let mut b = Bench::new(POLLED, PLAIN);
    look(&mut b);
    let q = queue(&mut b, 0);
    nop(&mut b, q, 0);
    nop(&mut b, q, 1);
    assert_eq!(look(&mut b), 1);
    b.settle();
    b.d.modify_sq(q.0, SqState::Ready, SqState::Reset).unwrap();
    assert_eq!(look(&mut b), 0, "a queue that is reset");
    b.d.modify_sq(q.0, SqState::Reset, SqState::Ready).unwrap();
    assert_eq!(look(&mut b), 0, "the record says 2 as before");
    nop(&mut b, q, 0);
    assert_eq!(look(&mut b), 1);
    b.settle();
    assert_eq!((b.d.counters.nops, b.d.counters.bad_doorbells), (3, 0));
}

#[test]
fn a_cq_is_born_armed_and_an_arm_after_an_event_is_a_change() {
    let mut b = Bench::new(POLLED, PLAIN);
    // The first arm of all, number and counter zero, is what was there before.
    b.d.cqs.get_mut(b.cqn).unwrap().armed = None;
    let c = CqContext { dbr: CQ_DBR + 0x20, ..b.d.cqs.get_mut(b.cqn).unwrap().ctx };
    let other = b.d.create_cq(&c).unwrap();
    assert_eq!(b.d.cqs.get_mut(other).unwrap().armed.map(|a| a.0), Some(0));
    b.d.destroy_cq(other).unwrap();
    b.arm(0);
    b.post(3);
    b.receive(&Frame::v4(Transport::Other(253, vec![0; 40])));
    b.settle();
    assert_eq!(b.p.messages.len(), 1);
    b.receive(&Frame::v4(Transport::Other(253, vec![0; 40])));
    b.settle();
    assert_eq!((look(&mut b), b.p.messages.len()), (0, 1), "not armed since");
    b.put(CQ_DBR + 4, &(1u32 << 28 | 1).to_be_bytes());
    assert_eq!(look(&mut b), 1);
    b.settle();
    assert_eq!(
        b.p.messages.len(),
        2,
        "what came in between is told at once, though no arm of the EQ was seen"
    );
}

#[test]
fn what_was_rung_before_a_destruction_is_not_read_after_it() {
    let mut b = Bench::new(POLLED, PLAIN);
    look(&mut b);
    let q = queue(&mut b, 0);
    nop(&mut b, q, 0);
    b.d.destroy_sq(q.0).unwrap();
    b.p.reads.clear();
    assert_eq!(look(&mut b), 0);
    b.settle();
    assert!(b.p.reads.is_empty() && b.d.counters.nops == 0);
}

#[test]
fn the_port_counts_frames_that_are_steered_to_nobody_and_the_vport_does_not() {
    let mut b = Bench::plain();
    b.post(2);
    assert_eq!(b.receive(&Frame::v4(Transport::Other(253, vec![0; 40]))), RxVerdict::Yes);
    b.d.rx.paths.change().steering = super::super::super::steering::Steering::new();
    assert!(matches!(
        b.receive(&Frame::v4(Transport::Other(253, vec![0; 40]))),
        RxVerdict::Dropped(_)
    ));
    assert_eq!((b.d.rx_wire.packets(), b.d.rx_casts.packets()), (2, 1));
}
