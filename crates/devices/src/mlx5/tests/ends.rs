//! The end of a queue in the middle of its work.

use super::*;

/// A device in the middle of everything: WQEs announced, fetched, executed, CQEs
/// and events on their way.
fn busy() -> DeviceHarness {
    let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 32, 0);
    b.arm_cq(0);
    for i in 0..4 {
        b.put_session(20, i % 2 == 0);
        b.ring();
    }
    b.until(ps(LEFT + 25 * NEXT));
    assert!((1..80).contains(&b.frames().len()));
    b.cqes();
    b.c.port.log.clear();
    b.c.port.forbidden = true;
    b
}

#[test]
fn after_a_reset_of_the_queue_nothing_of_it_is_touched() {
    let mut b = busy();
    b.modify_sq(SqState::Ready, SqState::Reset).unwrap();
    b.c.port.forbidden = false;
    // One entry was written before; its event is the CQ's business.
    b.settle();
    assert_eq!((b.cqes().len(), b.frames().len(), b.events().len()), (0, 0, 1));
    assert!(!b.c.port.log.iter().any(|a| matches!(a, Access::Read(..))));
}

#[test]
fn after_destruction_nothing_is_touched() {
    let mut b = busy();
    let (sqn, cqn, eqn, mkey) = (b.sqn, b.cqn, b.eqn, b.lkey >> 8);
    assert_eq!(b.about(op::DESTROY_EQ, eqn), Err(CmdStatus::BadResourceState));
    assert_eq!(b.about(op::DESTROY_CQ, cqn), Err(CmdStatus::BadResourceState));
    let all = [
        (op::DESTROY_SQ, sqn),
        (op::DESTROY_CQ, cqn),
        (op::DESTROY_EQ, eqn),
        (op::DESTROY_MKEY, mkey),
    ];
    for (destroy, n) in all {
        b.about(destroy, n).unwrap();
    }
    b.until(us(1000));
    assert_eq!(b.c.device.next_due(), None);
    for (destroy, n) in all {
        assert_eq!(b.about(destroy, n), Err(CmdStatus::BadResource));
    }
    b.ring();
    b.arm_cq(0);
    b.arm_eq(0);
    b.until(us(2000));
}

#[test]
fn after_a_function_reset_nothing_is_touched() {
    let mut b = busy();
    let counted = b.c.device.counters;
    b.c.device.reset(&mut b.c.port, b.c.now);
    b.until(us(1000));
    b.ring();
    b.arm_cq(0);
    b.arm_eq(0);
    b.until(us(2000));
    assert_eq!(b.c.device.counters.packets, counted.packets, "counters stay");
}

#[test]
fn a_destroyed_cq_with_an_event_pending_is_forgotten() {
    let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 32, 0);
    b.arm_cq(0);
    b.put_send(0, 60, true);
    b.ring();
    b.until(us(1));
    b.c.port.forbidden = true;
    let (sqn, cqn) = (b.sqn, b.cqn);
    b.about(op::DESTROY_SQ, sqn).unwrap();
    b.about(op::DESTROY_CQ, cqn).unwrap();
    b.until(us(100));
}

#[test]
fn the_end_of_time_is_reached() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 60, true);
    b.ring();
    b.c.device.advance(&mut b.c.port, Time::NEVER);
    assert_eq!(b.frames().len(), 1);
}
