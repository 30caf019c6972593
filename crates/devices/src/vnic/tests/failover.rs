//! The end of a session: failover, migration, and what becomes of what was under way.

use super::super::{Config, Server};
use super::*;

fn slow() -> Config {
    let server = Server { queues: 2, ..Server::POWERVM };
    let wire_byte = Span::from_ns(8);
    Config { servers: [Server::POWERVM, server], wire_byte, ..Config::POWERVM }
}

#[test]
fn a_failover_is_an_event_then_h_closed_then_the_other_servers_init() {
    let mut b = Bench::up(slow(), 1);
    let token = |b: &mut Bench| b.call(hcall::VIOCTL, &[vioctl::GET_SESSION_TOKEN]).ret[0];
    let (handle, before) = (b.tx[0], token(&mut b));
    let d = b.desc(0, &tcp(100), 0);
    b.d.fail_over(0, b.now);
    b.at(b.now);
    let m = b.message().unwrap();
    assert_eq!((m[0], m[1]), (first::TRANSPORT, first::FAILOVER));
    assert_ne!(token(&mut b), before);
    assert_eq!(b.direct(handle, d.bytes()), status::CLOSED);
    assert_eq!(b.init(), status::CLOSED);
    assert_eq!(b.d.live_maps(0), 0, "unmapped without being asked");
    // It registers anew, and that is no error.
    b.call(hcall::FREE_CRQ, &[]);
    assert_eq!(b.reg_crq(), status::CLOSED);
    assert_eq!(b.message(), None);
    b.settle();
    let m = b.message().unwrap();
    assert_eq!((m[0], m[1]), (first::HANDSHAKE, first::INIT));
    b.bring_up(1);
    assert_eq!(b.query(cap::MAX_TX_QUEUES), 2u64.to_be_bytes(), "another server");
    assert_eq!(b.direct(handle, d.bytes()), status::PARAMETER);
    let handle = b.tx[0];
    assert_eq!(b.direct(handle, d.bytes()), status::SUCCESS);
    b.settle();
    b.audit();
}

#[test]
fn a_client_may_ask_for_a_failover_with_the_token_of_its_session() {
    let mut b = Bench::up(slow(), 1);
    let token = b.call(hcall::VIOCTL, &[vioctl::GET_SESSION_TOKEN]).ret[0];
    let ask = |b: &mut Bench, t| b.call(hcall::VIOCTL, &[vioctl::SESSION_ERR_DETECTED, t]).status;
    assert_eq!(ask(&mut b, token + 1), status::PARAMETER);
    assert_eq!(ask(&mut b, token), status::SUCCESS);
    assert_eq!(b.message().map(|m| (m[0], m[1])), Some((first::TRANSPORT, first::FAILOVER)));
    assert_eq!(ask(&mut b, token), status::PARAMETER, "it is another session's");
    assert_eq!(b.call(hcall::VIOCTL, &[0x77]).status, status::FUNCTION);
}

#[test]
fn after_a_migration_the_crq_is_off_until_it_is_enabled() {
    let mut b = Bench::up(slow(), 1);
    b.d.migrate(0, b.now);
    b.settle();
    assert_eq!(b.message().map(|m| (m[0], m[1])), Some((first::TRANSPORT, first::MIGRATED)));
    assert_eq!(b.d.live_maps(0), 0, "unmapped without being asked");
    assert_eq!(b.init(), status::CLOSED);
    assert_eq!(b.call(hcall::ENABLE_CRQ, &[]).status, status::SUCCESS);
    // The hypervisor kept the sub-CRQs.
    assert_eq!(b.call(hcall::FREE_SUB_CRQ, &[0]).status, status::SUCCESS);
    assert_eq!(b.call(hcall::FREE_SUB_CRQ, &[0]).status, status::PARAMETER);
    b.handshake();
}

#[test]
fn an_error_that_is_not_fatal_leaves_the_session() {
    let mut b = Bench::up(slow(), 1);
    b.d.report_error(0, b.now, cause::LOW_MEMORY, false);
    b.settle();
    let e = ErrorIndication::of(b.message().unwrap());
    assert_eq!((e.flags, e.error_id.get(), e.error_cause.get()), (0, 1, cause::LOW_MEMORY));
    let (handle, d) = (b.tx[0], b.desc(0, &tcp(100), 0));
    assert_eq!(b.direct(handle, d.bytes()), status::SUCCESS);
}

#[test]
fn a_failover_at_any_moment_loses_nothing_uncounted() {
    for us in 0..200 {
        let mut b = Bench::up(slow(), 1);
        let (handle, add) = (b.tx[0], b.rx[0]);
        b.post(add, 64, 4);
        let all: Vec<_> = (0..16).map(|i| b.desc(i, &tcp(1000), 0).bytes()).collect();
        assert_eq!(b.indirect(handle, &all), status::SUCCESS);
        b.receive(&tcp(10));
        b.d.fail_over(0, b.now + Span::from_us(us));
        b.settle();
        b.audit();
        let c = b.d.counters;
        assert_eq!((c.tx_sent + c.tx_lost, c.tx_sent), (16, b.p[0].frames.len() as u64), "{us} us");
        assert_eq!(c.completions + c.completions_lost, 16);
        assert_eq!(c.rx_offered, c.rx_packets + c.rx_lost);
        assert_eq!(c.rx_buffers, c.rx_packets + c.rx_buffers_lost);
        assert_eq!((c.maps, c.unmaps), (1, 1));
        assert!(b.p[0].frames.iter().all(|f| f.1 == tcp(1000)));
    }
}

#[test]
fn a_client_that_has_spent_its_turn_holds_up_no_other() {
    let mut d = VnicServer::new(Config::POWERVM, 3);
    let mut ports = [Partition::new(), Partition::new(), Partition::new()];
    ports[0].most_frames = 0;
    for client in 0..3 {
        d.fail_over(client, Time::ZERO);
    }
    d.advance(&mut ports, Time::ZERO + Span::from_us(1));
    assert_eq!(d.counters.failovers, 2);
    assert!(d.next_due().is_some_and(|t| t == Time::ZERO), "what is left is overdue");
    ports[0].most_frames = usize::MAX;
    d.advance(&mut ports, Time::ZERO + Span::from_us(1));
    assert_eq!(d.counters.failovers, 3);
}
