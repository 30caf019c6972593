//! No access to memory after the command that ends it.

use super::*;

#[test]
fn a_busy_device_would_touch_memory() {
    let (mut s, _) = busy();
    s.c.settle();
    let all = touched(&mut s.c);
    assert!(
        all.iter().any(|a| matches!(a, Access::Frame(..)))
            && all.iter().any(|a| matches!(a, Access::Write(..)))
    );
}

#[test]
fn no_dma_after_destroy_sq() {
    let mut s = sending();
    assert_eq!(s.c.about(op::DESTROY_SQ, s.sqn), None);
    quiet(&mut s.c);
    s.ring();
    s.c.settle();
    assert_eq!(touched(&mut s.c), []);
}

#[test]
fn no_dma_after_a_send_queue_is_reset() {
    let mut s = sending();
    assert_eq!(s.c.modify_sq(s.sqn, 1, 0), None);
    quiet(&mut s.c);
}

#[test]
fn what_is_due_after_a_command_does_not_happen_before_it() {
    let mut s = sending();
    let mut m = Numbered::ZERO;
    m.set(Numbered::NUMBER, s.sqn);
    let w = s.c.compose(&CommandHarness::input(op::DESTROY_SQ, 0, &m, &[]), 16);
    s.c.put(0, &w);
    s.c.now += Span::from_ns(50);
    s.c.register(init_segment::DOORBELL, 1);
    // One long step, in which the commands are in the middle.
    s.c.now += Span::from_ms(1);
    let now = s.c.now;
    s.c.device.advance(&mut s.c.port, now);
    assert_eq!(s.c.entry(0).output[0], 0);
    let sent = s.frames().len();
    assert!((1..40).contains(&sent), "{sent} frames: some before, none after");
    quiet(&mut s.c);
}

#[test]
fn no_dma_after_destroy_rq() {
    // Linux points its RQT elsewhere first, so that frames may still be on their way.
    let mut s = Sender::new(6, &[page(2)]);
    let (rqn, rqt) = receiver(&mut s, true);
    let other = s.c.rq(&s.o, 4, DBR + 128, &[page(6)]);
    let mut m = RqtIn::ZERO;
    m.set(RqtIn::RQTN, rqt).set_quad(RqtIn::FIELDS, 1).set(RqtIn::ACTUAL_SIZE, 1);
    assert_eq!(s.c.receive(&[0xff; 100]), RxVerdict::Yes);
    assert_eq!(s.c.about(op::DESTROY_RQ, rqn), IN_USE, "something leads there");
    s.c.ok(op::MODIFY_RQT, 0, &m, &other.number().to_be_bytes());
    assert_eq!(s.c.about(op::DESTROY_RQ, rqn), None);
    // Its number is used again at once: what was on its way is not the new one's.
    let again = s.c.rq(&s.o, 4, DBR + 128, &[page(6)]).number();
    assert_eq!((again, s.c.modify_rq(again, 0, 1)), (rqn, None));
    quiet(&mut s.c);
    assert_ne!(s.c.receive(&[0xff; 100]), RxVerdict::Yes);
    s.c.settle();
    assert_eq!(touched(&mut s.c), []);
}

#[test]
fn no_dma_after_a_receive_queue_is_reset() {
    let (mut s, rqn) = busy();
    assert_eq!(s.c.about(op::DESTROY_SQ, s.sqn), None);
    assert_eq!(s.c.modify_rq(rqn, 1, 0), None);
    quiet(&mut s.c);
}

#[test]
fn no_dma_after_destroy_cq_and_eq() {
    let mut s = sending();
    for (opcode, n) in [(op::DESTROY_SQ, s.sqn), (op::DESTROY_CQ, s.o.cq), (op::DESTROY_EQ, s.o.eq)]
    {
        assert_eq!(s.c.about(opcode, n), None);
        quiet(&mut s.c);
    }
    let page = s.o.uar * uar::PAGE;
    for (offset, size, v) in
        [(uar::CQ_ARM, 8, u64::from(s.o.cq)), (uar::EQ_ARM, 4, u64::from(s.o.eq) << 24)]
    {
        let v = if size == 8 { v.swap_bytes() } else { u64::from((v as u32).swap_bytes()) };
        s.c.device.mmio_write(&mut s.c.port, s.c.now, Reg::at(page + offset), size, v);
    }
    s.c.settle();
    assert_eq!(touched(&mut s.c), []);
}

#[test]
fn no_dma_through_a_destroyed_key() {
    let (mut s, _) = busy();
    s.c.settle();
    assert_eq!(s.c.about(op::DESTROY_MKEY, s.o.mkey), None);
    s.c.port.log.clear();
    assert_eq!(s.send(DATA, 60), Vec::<Vec<u8>>::new());
    s.c.receive(&[0xff; 100]);
    s.c.settle();
    let data = DATA..DATA + 0x1_0000;
    let through = |a: &Access| match a {
        Access::Read(_, at, _) | Access::Write(_, at, _) => data.contains(at),
        _ => false,
    };
    assert!(!s.c.port.log.iter().any(through));
}

#[test]
fn no_dma_after_teardown() {
    let (mut s, _) = busy();
    s.c.ok(op::TEARDOWN_HCA, 0, &Numbered::ZERO, &[]);
    quiet(&mut s.c);
    s.ring();
    s.c.receive(&[0xff; 100]);
    s.c.settle();
    assert_eq!(touched(&mut s.c), []);
}

#[test]
fn no_dma_after_disable() {
    let (mut s, _) = busy();
    s.c.ok(op::DISABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    quiet(&mut s.c);
    assert_eq!(s.c.device.pages_held(), 0);
}

#[test]
fn no_dma_after_a_function_reset() {
    let (mut s, _) = busy();
    // A command rung for is forgotten, too.
    let w = s.c.compose(&CommandHarness::input(op::ALLOC_PD, 0, &Numbered::ZERO, &[]), 16);
    s.c.put(0, &w);
    s.c.register(init_segment::DOORBELL, 1);
    let now = s.c.now;
    s.c.device.reset(&mut s.c.port, now);
    s.c.port.forbidden = true;
    s.c.settle();
    s.ring();
    s.c.register(init_segment::DOORBELL, 1);
    s.c.receive(&[0xff; 100]);
    s.c.settle();
    s.c.port.forbidden = false;
    // And it comes up again as after power-on.
    s.c.register(init_segment::CMDQ_LO, CommandHarness::CMDQ as u32);
    s.c.bring_up();
    s.c.common();
}
