//! Errors and recovery of a send queue.

use super::*;

#[test]
fn behind_an_error_only_those_that_ask_are_flushed_with_a_cqe() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 60, false);
    let ctrl = b.ctrl(0x0b, 3);
    b.put(&ctrl, &[0; 32]);
    b.put_send(0, 60, false);
    b.put_session(7, true);
    let mut nop = b.ctrl(opcode::NOP, 1);
    nop.fm_ce_se = 0;
    b.put(&nop, &[]);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.frames().len(), 1);
    assert_eq!(cqes(&mut b), [(QP_OP, 1), (FLUSH, 3), (FLUSH, 7)]);
    let c = b.c.device.counters;
    assert_eq!((c.wqes, c.packets, c.discarded, c.errors), (6, 1, 1 + 1 + 7 + 1, 1));
}

#[test]
fn an_error_is_not_reported_before_what_was_sent_before_it() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 9000, true);
    b.put_send(0, 0, true);
    b.go();
    assert_eq!(cqes(&mut b), [(0, 0), (LENGTH, 1)]);
    let times = b.cqe_times();
    assert_eq!(times[0], times[1]);
}

#[test]
fn an_error_cqe_says_which_wqe_of_which_queue() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 0, true);
    b.go();
    let cqe = b.cqes()[0];
    assert_eq!(cqe.op_own, 13 << 4);
    assert_eq!(cqe.syndrome(), LENGTH);
    assert_eq!(cqe.sop_drop_qpn.get(), u32::from(SEND) << 24 | b.sqn);
}

#[test]
fn a_session_that_fails_in_the_middle_has_sent_what_came_before() {
    let mut b = DeviceHarness::new(NIC);
    b.put_session(5, true);
    // The third data segment's length.
    b.c.port.memory[DeviceHarness::SQ as usize + 64..][..4].fill(0);
    b.go();
    assert_eq!(b.frames().len(), 2);
    assert_eq!(cqes(&mut b), [(LENGTH, 0)]);
    let c = b.c.device.counters;
    assert_eq!((c.packets, c.discarded, c.mpwqe_packets), (2, 3, 2));
}

#[test]
fn a_queue_taken_to_err_in_the_middle_of_a_session_counts_each_packet_once() {
    let mut b = DeviceHarness::new(NIC);
    b.put_session(20, true);
    b.ring();
    b.until(ps(4_000 * 7));
    let sent = b.c.device.counters.packets;
    assert!((1..20).contains(&sent), "{sent}");
    b.modify_sq(SqState::Ready, SqState::Error).unwrap();
    b.settle();
    let c = b.c.device.counters;
    assert_eq!((c.packets, c.discarded), (sent, 20 - sent));
    assert_eq!(cqes(&mut b), [(FLUSH, 0)]);
}

#[test]
fn through_rst_to_rdy_a_queue_counts_from_zero() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 60, true);
    b.put_send(0, 0, true);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(cqes(&mut b), [(0, 0), (LENGTH, 1), (FLUSH, 2)]);
    let modify = |b: &mut DeviceHarness, from, to| b.modify_sq(from, to);
    assert_eq!(modify(&mut b, SqState::Ready, SqState::Reset), Err(CmdStatus::BadResourceState));
    assert_eq!(modify(&mut b, SqState::Error, SqState::Ready), Err(CmdStatus::BadResourceState));
    assert_eq!(modify(&mut b, SqState::Error, SqState::Reset), Ok(()));
    assert_eq!(modify(&mut b, SqState::Reset, SqState::Ready), Ok(()));
    b.pc = 0;
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(cqes(&mut b), [(0, 0)]);
}

#[test]
fn a_queue_whose_ring_is_gone_says_so_by_an_event() {
    let mut b = DeviceHarness::new(NIC);
    b.c.port.holes.push(DeviceHarness::SQ..DeviceHarness::SQ + 4096);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.events(), [(event::WQ_CATAS, b.sqn)]);
    assert_eq!(b.query_sq(), Ok(SqState::Error));
    assert_eq!(b.cqes(), []);
}
