//! Errors of the send queue.

use super::queue::fill;
use super::*;

#[test]
fn an_error_cqe_leads_through_err_and_rst_to_rdy_and_traffic_goes_on() {
    let mut d = DriverHarness::default_channel();
    d.batch(2);
    d.batch(3);
    let open = d.packet(60);
    d.send(open, true);
    let wqes = d.announced();
    d.set_state(SqState::Error);
    d.complete(wqes[0].pc, 4);
    assert_eq!(d.poll(), Poll::Work);
    d.work();
    assert_eq!(d.stats().recover, 0, "the second batch is not flushed yet");
    let p = d.packet(60);
    let Tx::Busy(p) = d.offer(p, false) else { panic!("the queue is in error") };
    p.release(&mut d.host);
    d.complete(wqes[1].pc, 5);
    assert_eq!(d.poll(), Poll::Work);
    d.work();
    assert_eq!(d.states(), [SqState::Ready, SqState::Error, SqState::Reset, SqState::Ready]);
    let s = d.stats();
    assert_eq!((s.cqe_err, s.recover, s.dropped), (2, 1, 1));
    // What was queued and never announced comes back too.
    assert_eq!(d.returned.packets(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(d.record(), 3, "the record keeps its old value");
    d.restarted();
    d.batch(1);
    let w = d.announced();
    assert_eq!((w[0].pc, d.record()), (0, 1));
    d.complete(0, 0);
    assert_eq!(d.poll(), Poll::Idle);
    d.close();
}

#[test]
fn a_stopped_queue_wakes_after_recovery() {
    let mut d = DriverHarness::without_mpwqe();
    fill(&mut d, false);
    let wqes = d.announced();
    d.set_state(SqState::Error);
    d.complete(wqes[0].pc, 2);
    for w in &wqes[1..] {
        d.complete(w.pc, 5);
    }
    while d.poll() == Poll::Again {}
    assert!(d.stopped());
    d.work();
    assert!(!d.stopped());
    assert_eq!((d.stats().wake, d.stats().recover), (1, 1));
}

#[test]
fn a_queue_that_somebody_else_moved_is_left_alone() {
    let mut d = DriverHarness::default_channel();
    d.batch(1);
    d.complete(0, 4);
    assert_eq!(d.poll(), Poll::Work);
    d.work();
    assert_eq!(d.states(), [SqState::Ready], "it was not in ERR");
    assert_eq!(d.stats().recover, 0);
}
