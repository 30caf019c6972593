//! Failover, migration and errors of a session, also under load.

use super::harness::{Harness, Model, small};
use super::session::unmaps;
use crate::frames::{ip, partial};
use doorbell_devices::vnic::{Config, Serial};
use doorbell_drivers::Tx;
use doorbell_drivers::ibmvnic::{Config as Driver, Direct};
use doorbell_hal::{Iova, Port, Span, Time};
use doorbell_layout::ibmvnic::{cause, first, hcall};
use doorbell_packet::headers;
use doorbell_packet::{OffloadRequest, headers::Layers};

const PVM: Config = Config::POWERVM;
const TO: [u8; 6] = [2; 6];

/// Event, then H_CLOSED, then the other server's INIT on the same CRQ; the driver registers anew.
/// It asks for no unmapping, for the server has unmapped.
pub fn a_failover<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let frame = ip(TO, true, false, 100);
    b.send(&frame, OffloadRequest::NONE);
    b.spy().calls.clear();
    b.event(|s, now| s.fail_over(0, now));
    b.wait(Span::from_us(500));
    assert!(!b.nic.is_running() && b.nic.stopped_on(0));
    assert!(b.spy().called(hcall::FREE_CRQ).is_empty(), "it waits for the other server's INIT");
    b.refused(&frame, OffloadRequest::NONE);
    b.wait(Span::from_ms(2));
    assert!(b.nic.is_running());
    assert_eq!(b.spy().called(hcall::FREE_CRQ).len(), 1);
    assert_eq!(unmaps(&mut b), 0);
    assert_eq!(b.send(&frame, OffloadRequest::NONE), [frame]);
    let s = b.nic.stats();
    assert_eq!((s.failovers, s.resets), (1, 1));
    b.close();
}

/// Two failovers, the second before the first one's server is up.
pub fn a_failover_during_a_failover<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, Config { command: Span::from_us(10), ..PVM }, &small());
    let frame = ip(TO, true, false, 100);
    // At every stage of the bring-up of the other server.
    for after in (300..2400).step_by(50) {
        b.event(|s, now| s.fail_over(0, now));
        b.event(|s, now| s.fail_over(0, now + Span::from_us(after)));
        b.wait(Span::from_ms(6));
        assert!(b.nic.is_running(), "{after} {:?}", b.nic.failure());
        assert_eq!(b.send(&frame, OffloadRequest::NONE).len(), 1);
    }
    b.close();
}

/// A client may ask for a failover with the session's token.
pub fn a_failover_that_the_client_asked_for<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    for n in 1..4 {
        b.nic.fail_over(&mut b.h).unwrap();
        b.wait(Span::from_ms(3));
        assert!(b.nic.is_running());
        assert_eq!(b.counters().client_failovers, n);
    }
    b.close();
}

/// After a migration the CRQ is enabled, not registered; H_BUSY and long busy are waited for;
/// interrupts that were pending are ended.
pub fn a_migration<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, Config { busy_calls: 3, ..PVM }, &small());
    b.spy().calls.clear();
    b.spy().refuse.push((hcall::ENABLE_CRQ, None, 9901, 1));
    b.event(|s, now| s.migrate(0, now));
    b.wait(Span::from_ms(12));
    assert!(b.nic.is_running());
    assert_eq!(b.spy().called(hcall::ENABLE_CRQ).len(), 5, "long busy, three times busy, done");
    assert!(b.spy().called(hcall::REG_CRQ).is_empty());
    assert_eq!(b.spy().called(hcall::EOI).len(), 2, "what was pending on the other machine");
    assert_eq!(unmaps(&mut b), 0);
    let frame = ip(TO, true, false, 100);
    assert_eq!(b.send(&frame, OffloadRequest::NONE), std::slice::from_ref(&frame));
    assert_eq!(b.receive(&ip(b.nic.config().mac, true, false, 100)).len(), 1);
    b.close();
}

/// A fatal error is a reset, another one takes the link down and up.
pub fn errors<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let frame = ip(TO, true, false, 100);
    let sessions = b.counters().sessions;
    for (fatal, begun) in [(false, 0), (true, 1)] {
        b.event(|s, now| s.report_error(0, now, cause::FW, fatal));
        b.wait(Span::from_ms(2));
        assert!(b.nic.is_running());
        assert_eq!(b.counters().sessions - sessions, begun);
        assert_eq!(b.send(&frame, OffloadRequest::NONE).len(), 1);
    }
    b.close();
}

/// A transport event that is neither of two is fatal.
pub fn an_unknown_event_is_fatal<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let (sessions, taken) = (b.counters().sessions, b.nic.stats().messages);
    let at = Iova(b.spy().called(hcall::REG_CRQ)[0][1]) + taken % 256 * 16;
    let event = [first::TRANSPORT, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    b.h.system().outside(|_, bus, now| bus.ports[0].write(now, at, &event)).unwrap();
    b.h.delay(Span::from_us(1));
    b.poll();
    b.settle();
    assert_eq!((b.counters().sessions, b.nic.stats().resets), (sessions + 1, 1));
    let frame = ip(TO, true, false, 100);
    assert_eq!(b.send(&frame, OffloadRequest::NONE), [frame]);
    b.close();
}

/// An unsolicited indication comes on the same queue as an awaited answer, and before it.
pub fn an_indication_during_a_command_is_not_its_answer<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::new(make(Config { command: Span::from_us(50), ..PVM }), &small());
    b.wait(Span::from_ms(1));
    let frame = ip(TO, true, false, 100);
    assert_eq!(b.send(&frame, OffloadRequest::NONE), [frame]);
    for up in [false, true] {
        b.event(|s, now| s.set_link(0, now + Span::from_us(20), up));
        let s = b.nic.server_statistics(&mut b.h).unwrap();
        assert_eq!(s.tx_packets.get(), 1);
        b.poll();
        assert_eq!((b.nic.is_running(), b.nic.stats().stale_answers), (up, 0), "it is noted");
    }
    b.close();
}

/// Without a link nothing is sent, and with it again it is.
pub fn the_link<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let frame = ip(TO, true, false, 100);
    for up in [false, true] {
        b.event(|s, now| s.set_link(0, now, up));
        b.settle();
        assert_eq!(b.nic.is_running(), up);
        if !up {
            b.refused(&frame, OffloadRequest::NONE);
        }
    }
    assert_eq!(b.send(&frame, OffloadRequest::NONE).len(), 1);
    b.close();
}

/// A packet with a number, and a length and bytes that follow from it.
fn numbered(to: [u8; 6], n: u32) -> Vec<u8> {
    let mut f = ip(
        to,
        !n.is_multiple_of(3),
        n.is_multiple_of(2),
        4 + (n.wrapping_mul(2_654_435_761) >> 22) as usize,
    );
    let end = usize::from(Layers::of(&f).unwrap().end);
    f[end..end + 4].copy_from_slice(&n.to_be_bytes());
    for (i, b) in f[end + 4..].iter_mut().enumerate() {
        *b = (n as usize * 31 + i * 7) as u8;
    }
    headers::prepare_partial(&mut f).unwrap().complete(&mut f).unwrap();
    f
}

fn number(f: &[u8]) -> u32 {
    let end = usize::from(Layers::of(f).unwrap().end);
    u32::from_be_bytes(f[end..end + 4].try_into().unwrap())
}

/// A failover every 10 ms after link-up, under load in both directions, for so long: every packet
/// is delivered at most once and intact, every loss is counted, and no buffer and no map is left
/// over.
pub fn failover_under_load<M: Model>(make: impl Fn(Config) -> M, span: Span) {
    // A burst takes some 10 us to the wire and what comes some 4 us to memory, so that there is
    // something to be lost.
    let cfg = Config {
        command: Span::from_us(5),
        wire_byte: Span::from_ns(5),
        completion_wait: Span::from_us(3),
        serial: Serial { receive: Span::from_us(2), ..Serial::FREE },
        ..PVM
    };
    let c = Driver { direct: Direct::Inspect, tx_entries: 32, rx_entries: 32, ..small() };
    let mut b = Harness::up(make, cfg, &c);
    b.spy().keep = false;
    let to = b.nic.config().mac;
    let end = b.h.now() + span;
    let mut next_failover = b.h.now() + Span::from_ms(10);
    let (mut sent, mut injected, mut refused) = (0u32, 0u32, 0u64);
    let (mut on_wire, mut handed_up) = (vec![], vec![]);
    let mut dropped_by_server = 0u64;
    let mut was_up = true;
    while b.h.now() < end {
        if b.h.now() >= next_failover {
            // Before, in and after what is sent next.
            let after = Span::from_us(u64::from(sent) % 13);
            b.event(|s, now| s.fail_over(0, now + after));
            next_failover = Time::NEVER;
            was_up = false;
        }
        // Bursts of one to four, one of them just after the server has gone.
        for i in 0..1 + sent % 4 {
            let more = i < sent % 4;
            let whole = numbered(TO, sent);
            let (bytes, todo) = if sent.is_multiple_of(5) {
                (whole, OffloadRequest::NONE)
            } else {
                partial(&whole)
            };
            match b.transmit(&bytes, todo, more) {
                Tx::Ok => {}
                Tx::Busy(p) | Tx::Dropped(p) => {
                    refused += 1;
                    p.release(&mut b.h);
                }
            }
            sent += 1;
        }
        for _ in 0..2 {
            let f = numbered(to, injected);
            dropped_by_server += u64::from(b.inject(&f) != doorbell_hal::RxVerdict::Yes);
            injected += 1;
        }
        b.h.delay(Span::from_us(120));
        b.run();
        b.reclaim();
        if b.nic.is_running() && !was_up {
            was_up = true;
            next_failover = b.h.now() + Span::from_ms(10);
        }
        for f in b.wire() {
            let n = number(&f);
            let mut expected = numbered(TO, n);
            expected.resize(expected.len().max(60), 0);
            assert!(f == expected, "packet {n} is not what was sent");
            on_wire.push(n);
        }
        for f in b.came() {
            let n = number(&f.bytes);
            assert!(f.bytes == numbered(to, n), "packet {n} is not what was received");
            handed_up.push(n);
        }
    }
    b.wait(Span::from_ms(5));
    on_wire.extend(b.wire().iter().map(|f| number(f)));
    handed_up.extend(b.came().iter().map(|f| number(&f.bytes)));
    for all in [&on_wire, &handed_up] {
        assert!(all.is_sorted_by(|a, b| a < b), "in order, and none twice");
    }
    b.poll();
    b.reclaim();
    let (q, d, s) = (b.nic.totals(), b.counters(), b.nic.stats());
    println!(
        "{} failovers, {sent} packets offered, {} sent, {} lost with a session, {} dropped; \
         {injected} for it, {} received",
        s.failovers, d.tx_sent, q.tx_lost, q.tx_dropped, q.rx_packets
    );
    // Each failover takes a millisecond and the bring-up behind it.
    assert!(s.failovers >= span.ps() / Span::from_us(11_800).ps(), "{} failovers", s.failovers);
    assert_eq!(s.resets_failed, 0);
    assert!(q.tx_lost > s.failovers / 4 && q.tx_refused > 0 && d.rx_lost > 0, "{q:?}");
    // What was offered is sent, or counted as lost by those who had it.
    assert_eq!(u64::from(sent), q.tx_packets + refused + q.tx_refused + q.tx_batch_lost);
    assert_eq!(on_wire.len() as u64, d.tx_sent);
    assert_eq!(d.tx_taken, d.tx_sent + d.tx_lost + d.tx_errors + d.tx_discarded);
    assert_eq!((d.tx_errors, d.headers_bad, d.headers_missing), (0, 0, 0));
    assert_eq!(u64::from(injected), d.rx_packets + d.rx_lost + d.rx_faults + dropped_by_server);
    assert_eq!(handed_up.len() as u64, q.rx_packets);
    assert!(
        d.tx_sent > u64::from(sent) / 2 && q.rx_packets > u64::from(injected) / 2,
        "most arrive"
    );
    b.close();
}
