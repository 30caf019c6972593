//! Completion and event queues.

use super::*;

#[test]
fn the_owner_bit_flips_each_time_round() {
    let mut b = DeviceHarness::new(NIC);
    for i in 0..40u32 {
        b.put_send(0, 60, true);
        b.c.port.memory[DeviceHarness::DBR as usize + 64..][..4].copy_from_slice(&i.to_be_bytes());
        b.go();
        let cqe = b.cqes();
        assert_eq!(cqe.len(), 1, "entry {i}");
        assert_eq!(u32::from(cqe[0].op_own & 1), i >> 4 & 1);
    }
    assert_eq!(b.events(), []);
}

#[test]
fn a_cq_that_overruns_dies_and_says_so() {
    let mut b = DeviceHarness::new(NIC);
    for _ in 0..18 {
        b.put_send(0, 60, true);
    }
    b.go();
    assert_eq!(b.frames().len(), 18);
    assert_eq!(b.cqes().len(), 16);
    assert_eq!(b.events(), [(event::CQ_ERROR, b.cqn)]);
    assert_eq!(b.c.device.counters.lost_entries, 2);
    // Reading it now helps no more.
    b.arm_cq(16);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!((b.cqes(), b.events()), (vec![], vec![]));
}

#[test]
fn a_cq_that_is_not_there_dies_and_says_so() {
    let mut b = DeviceHarness::new(NIC);
    b.c.port.holes.push(DeviceHarness::CQ..DeviceHarness::CQ + 64);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.events(), [(event::CQ_ERROR, b.cqn)]);
}

#[test]
fn one_arm_gives_one_event() {
    let mut b = DeviceHarness::new(NIC);
    for _ in 0..3 {
        b.put_send(0, 60, true);
        b.go();
    }
    assert_eq!(b.events(), [], "it was never armed");
    b.arm_cq(3);
    b.settle();
    assert_eq!(b.events(), [], "nothing is new");
    for _ in 0..3 {
        b.put_send(0, 60, true);
        b.go();
    }
    assert_eq!(b.events(), [(event::COMPLETION, b.cqn)]);
    b.arm_cq(6);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.events(), [(event::COMPLETION, b.cqn)]);
}

#[test]
fn a_cq_armed_behind_its_entries_has_its_event_at_once() {
    for (period, count) in [(0, 0), (16, 32)] {
        let mut b = DeviceHarness::sized(NIC, 6, 4, period, count, 0);
        b.arm_cq(0);
        b.put_send(0, 60, true);
        b.put_send(0, 60, true);
        b.go();
        assert_eq!(b.events().len(), 1);
        // One of the two was read. The event of both has gone by.
        b.until(us(50));
        b.c.port.log.clear();
        b.arm_cq(1);
        b.settle();
        assert_eq!(b.events(), [(event::COMPLETION, b.cqn)], "period {period}");
        assert_eq!(b.event_times(), [us(50)]);
        b.arm_cq(2);
        b.settle();
        assert_eq!(b.events(), []);
    }
}

#[test]
fn an_entry_that_no_event_spoke_of_is_reported_after_its_moderation() {
    let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 32, 0);
    b.put_send(0, 60, true);
    b.ring();
    b.until(us(10));
    b.arm_cq(0);
    b.settle();
    assert_eq!(b.event_times(), [ps(LEFT) + Span::from_us(16)]);
    let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 32, 0);
    b.put_send(0, 60, true);
    b.ring();
    b.until(us(40));
    b.arm_cq(0);
    b.settle();
    assert_eq!(b.event_times(), [us(40)], "its time was over when the CQ was armed");
}

#[test]
fn an_event_comes_a_period_after_the_first_entry() {
    let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 32, 0);
    b.arm_cq(0);
    for _ in 0..5 {
        b.put_send(0, 60, true);
    }
    b.ring();
    b.until(us(1000));
    assert_eq!(b.event_times(), [ps(LEFT) + Span::from_us(16)]);
    assert_eq!(b.messages(), b.event_times());
}

#[test]
fn an_event_comes_with_the_entry_that_makes_the_count() {
    let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 4, 0);
    b.arm_cq(0);
    for _ in 0..6 {
        b.put_send(0, 60, true);
    }
    b.ring();
    b.until(us(1000));
    assert_eq!(b.event_times(), [ps(LEFT + 3 * NEXT)], "not when the first was written");
    assert_eq!(b.cqe_times()[3], ps(LEFT + 3 * NEXT));
}

#[test]
fn entries_and_events_are_written_in_the_order_of_their_times() {
    // However far the device is moved at once.
    let run = |steps: &[u64]| {
        let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 32, 0);
        b.arm_cq(0);
        for at in [0, 20, 40] {
            b.c.now = us(at);
            b.put_send(0, 60, true);
            b.ring();
        }
        for &t in steps {
            b.until(us(t));
        }
        let writes =
            b.c.port
                .log
                .into_iter()
                .filter(|a| matches!(a, Access::Write(..) | Access::Message(..)));
        writes.collect::<Vec<_>>()
    };
    let at_once = run(&[1000]);
    let times: Vec<Time> = at_once
        .iter()
        .map(
            |a| if let Access::Write(t, ..) | Access::Message(t, _) = a { *t } else { Time::NEVER },
        )
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(times[1], ps(LEFT) + Span::from_us(16), "the event precedes the second entry");
}

#[test]
fn an_eq_armed_behind_its_entries_interrupts_at_once() {
    let mut b = DeviceHarness::new(NIC);
    b.arm_cq(0);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.messages().len(), 1, "EQs are created armed");
    b.arm_cq(1);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.events().len(), 2);
    assert_eq!(b.messages().len(), 1, "not armed");
    b.c.now = us(7);
    b.arm_eq(1);
    assert_eq!(b.messages()[1], us(7));
    b.arm_eq(2);
    b.arm_cq(2);
    b.settle();
    assert_eq!(b.messages().len(), 2);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.messages().len(), 3);
}

#[test]
fn an_eq_that_is_only_updated_stays_as_it_was() {
    let mut b = DeviceHarness::new(NIC);
    b.arm_cq(0);
    b.put_send(0, 60, true);
    b.go();
    let v = u64::from((b.eqn << 24 | 1).swap_bytes());
    b.write(uar::EQ_UPDATE, 4, v);
    b.arm_cq(1);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!((b.events().len(), b.messages().len()), (2, 1));
}

#[test]
fn an_interrupt_is_not_older_than_the_arm_that_asked_for_it() {
    let mut b = DeviceHarness::new(NIC);
    b.arm_cq(0);
    b.put_send(0, 60, true);
    b.go();
    b.arm_cq(1);
    b.put_send(0, 60, true);
    b.ring();
    let rung = b.c.now;
    // The event is due about 107 ns from here; the EQ is armed later than that, before
    // anybody moved the device.
    b.c.now = us(3);
    b.arm_eq(1);
    b.settle();
    assert!(b.event_times()[1] > rung);
    assert_eq!(b.messages()[1], us(3));
}

#[test]
fn one_wqe_in_so_many_fails_when_that_is_asked_for() {
    let mut b = DeviceHarness::new(Config { fail_every: 3, ..NIC });
    b.put_send(0, 60, true);
    b.put_send(0, 60, true);
    b.put_session(5, true);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(cqes(&mut b), [(0, 0), (0, 1), (QP_OP, 2), (FLUSH, 4)]);
    assert_eq!((b.frames().len(), b.c.device.counters.discarded), (2, 6));
    b.modify_sq(SqState::Error, SqState::Reset).unwrap();
    b.modify_sq(SqState::Reset, SqState::Ready).unwrap();
    b.pc = 0;
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.frames().len(), 3, "and the queue recovers");
}
