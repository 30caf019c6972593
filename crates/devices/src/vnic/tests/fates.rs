//! Frames, messages and buffers that their session, their queue or their memory does not see to the
//! end: each is counted once. And lengths that stand exactly on a limit.

use super::super::{Config, OpenQueue, Serial, Server};
use super::*;
use doorbell_hal::{DropReason, Fact};
use doorbell_packet::vlan;

const PVM: Config = Config::POWERVM;
const CSUM: u8 = tx::CHKSUM_OFFLOAD | tx::PROT_IPV4 | tx::PROT_TCP;

/// A server whose CRQ reports as fast as its client reads.
fn up() -> Bench {
    Bench::up(PVM, 1)
}

fn send(b: &mut Bench, d: Tx) {
    let handle = b.tx[0];
    assert_eq!(b.direct(handle, d.bytes()), status::SUCCESS);
}

/// Sends one and returns its code.
fn fate(b: &mut Bench, d: Tx) -> u16 {
    send(b, d);
    b.settle();
    b.completions(0)[0].1
}

/// A frame with a tag, to the adapter.
fn tagged(payload: usize) -> Vec<u8> {
    let whole = tcp(payload);
    let mut f = vec![0; whole.len() + vlan::TAG];
    vlan::insert_into(&mut f, &whole, 5);
    f
}

fn post_one(b: &mut Bench, len: u32) {
    let handle = b.rx[0];
    let entry = RxAdd::new(0, 1, LTB as u32, len).bytes();
    assert_eq!(b.indirect(handle, &[entry]), status::SUCCESS);
}

#[test]
fn a_frame_received_is_as_long_as_the_mtu_and_a_tag_longer_with_one() {
    for (frame, taken) in [
        (tcp(9014 - 54), true),
        (tcp(9014 - 53), false),
        (tagged(9014 - 54), true),
        (tagged(9014 - 53), false),
    ] {
        let mut b = up();
        post_one(&mut b, 10_000);
        let expected =
            if taken { RxVerdict::Yes } else { RxVerdict::Dropped(DropReason::Malformed) };
        assert_eq!(b.receive(&frame), expected, "{} bytes", frame.len());
    }
}

#[test]
fn a_frame_sent_is_as_long_as_the_mtu_and_a_tag_longer_with_one() {
    let (present, ok, wrong) =
        (tx::VLAN_PRESENT, u16::from(rc::SUCCESS), u16::from(rc::INVALID_LENGTH));
    for (frame, flags, code) in [
        (tcp(0)[..13].to_vec(), 0, wrong),
        (tcp(0)[..14].to_vec(), 0, ok),
        (tcp(9014 - 54), 0, ok),
        (tcp(9014 - 53), 0, wrong),
        (tagged(9014 - 54), present, ok),
        (tagged(9014 - 53), present, wrong),
        (tagged(9014 - 54), 0, wrong),
    ] {
        let mut b = up();
        let d = b.desc(0, &frame, flags);
        assert_eq!(fate(&mut b, d), code, "{} bytes, {flags:#x}", frame.len());
        assert_eq!(b.d.counters.tx_errors, u64::from(code != ok));
        b.audit();
    }
}

#[test]
fn a_segment_is_as_long_as_the_mtu_and_a_tag() {
    for (mss, code) in [(9014 + 4 - 54, rc::SUCCESS), (9014 + 5 - 54, rc::INVALID_LENGTH)] {
        let server = Server { desc_req: [0; 8], ..Server::POWERVM };
        let mut b = Bench::up(Config { servers: [server; 2], ..PVM }, 1);
        let d = b.desc(0, &partial(20_000), tx::LSO | CSUM);
        assert_eq!(fate(&mut b, Tx { mss: U16::new(mss), ..d }), u16::from(code));
        assert_eq!(b.d.counters.large_sends, u64::from(code == rc::SUCCESS));
    }
}

#[test]
fn headers_that_nobody_asked_for_are_counted() {
    let mut b = up();
    let (handle, frame) = (b.tx[0], tcp(100));
    let h = headers(&frame, 0xf0, [14, 20, 20]);
    let n_crq_elem = 1 + h.len() as u8;
    let d = Tx { n_crq_elem, ..b.desc(0, &frame, 0) };
    let all: Vec<_> = [d.bytes()].into_iter().chain(h).collect();
    for sent in 1..=2 {
        assert_eq!(b.indirect(handle, &all), status::SUCCESS);
        b.settle();
        let c = b.d.counters;
        assert_eq!((c.headers_unasked, c.headers_missing, c.tx_sent), (sent, 0, sent));
    }
}

#[test]
fn a_packet_that_ends_its_session_is_lost_with_its_report() {
    for (flags, reports) in [(tx::COMP_NEEDED, 1), (0, 0)] {
        let mut b = Bench::up(strict([0xf0; 8]), 1);
        let d = b.desc(0, &tcp(100), 0);
        send(&mut b, Tx { flags1: flags, ..d });
        b.settle();
        let c = b.d.counters;
        assert_eq!((c.headers_missing, c.tx_lost, c.completions_lost), (1, 1, reports));
        assert_eq!((c.errors_reported, c.sessions_ended), (1, 1));
        b.audit();
    }
}

#[test]
fn memory_that_cannot_be_reached_is_counted_where_it_was_needed() {
    let mut b = up();
    b.post(b.rx[0], 0, 8);
    b.settle();
    // The frame's memory, then each queue's.
    b.p[0].holes.push(LTB + 8192 * 2);
    let slot = b.desc(2, &tcp(100), 0);
    assert_eq!(fate(&mut b, slot), u16::from(rc::INVALID_IOBA));
    assert_eq!((b.d.counters.dma_faults, b.d.counters.queue_faults), (1, 0));
    b.p[0].holes = vec![RINGS];
    let d = b.desc(0, &tcp(100), 0);
    send(&mut b, d);
    b.settle();
    assert_eq!((b.d.counters.queue_faults, b.d.counters.completions), (1, 2));
    b.p[0].holes = vec![RINGS + 4096];
    assert_eq!(b.receive(&tcp(100)), RxVerdict::Yes);
    b.settle();
    assert_eq!((b.d.counters.queue_faults, b.d.counters.rx_packets), (2, 1));
    let down = b.plain(cmd::LOGICAL_LINK_STATE, |m| m[2] = link::DOWN);
    b.ask(down);
    b.settle();
    assert_eq!((b.d.counters.rx_buffers_returned, b.d.counters.queue_faults), (7, 2 + 7));
    b.p[0].holes = vec![CRQ];
    b.d.report_error(0, b.now, cause::ADAPTER, false);
    b.settle();
    assert_eq!((b.d.counters.errors_reported, b.d.counters.queue_faults), (1, 2 + 7 + 1));
}

#[test]
fn reports_to_a_queue_that_was_freed_are_lost() {
    let mut b = up();
    b.post(b.rx[0], 0, 3);
    for n in [0, 1] {
        assert_eq!(b.call(hcall::FREE_SUB_CRQ, &[n]).status, status::SUCCESS);
    }
    let d = b.desc(0, &tcp(100), 0);
    send(&mut b, d);
    b.settle();
    assert_eq!((b.d.counters.completions_lost, b.d.counters.completions), (1, 0));
    assert_eq!(b.receive(&tcp(100)), RxVerdict::Yes);
    b.settle();
    assert_eq!((b.d.counters.entries_lost, b.d.counters.rx_packets), (1, 1));
    let down = b.plain(cmd::LOGICAL_LINK_STATE, |m| m[2] = link::DOWN);
    b.ask(down);
    b.settle();
    assert_eq!((b.d.counters.rx_buffers_returned, b.d.counters.entries_lost), (2, 1 + 2));
}

#[test]
fn what_waits_for_room_is_lost_with_its_session() {
    let mut b = up();
    // Sub-CRQs have 128 entries, the CRQ 256; nobody reads them.
    let d = b.desc(0, &tcp(46), 0).bytes();
    let handle = b.tx[0];
    for _ in 0..131 {
        assert_eq!(b.direct(handle, d), status::SUCCESS);
        b.settle();
    }
    assert!(b.d.has_waiting(0), "three completions");
    b.completions(0);
    let none = [handle, SCRATCH, 0];
    assert_eq!(b.call(hcall::SEND_SUB_CRQ_INDIRECT, &none).status, status::PARAMETER);
    assert!(!b.d.has_waiting(0), "the next call has written them");
    b.completions(0);
    for _ in 0..260 {
        b.d.report_error(0, b.now, cause::ADAPTER, false);
    }
    b.settle();
    assert!(b.d.has_waiting(0), "four messages");
    for _ in 0..130 {
        assert_eq!(b.direct(handle, d), status::SUCCESS);
        b.settle();
    }
    assert_eq!(b.d.counters.entries_lost, 0);
    b.d.fail_over(0, b.now);
    b.at(b.now);
    assert_eq!(b.d.counters.entries_lost, 4 + 2);
    assert_eq!(b.d.counters.errors_reported, 260);
}

#[test]
fn completions_that_were_not_reported_are_lost_with_their_session() {
    let mut b = Bench::up(Config { completion_wait: Span::from_us(50), ..PVM }, 1);
    for i in 0..3 {
        let d = b.desc(i, &tcp(100), 0);
        send(&mut b, d);
    }
    b.at(b.now + Span::from_us(20));
    assert_eq!((b.d.counters.tx_sent, b.d.counters.completions), (3, 0));
    b.d.fail_over(0, b.now);
    b.settle();
    let c = b.d.counters;
    assert_eq!((c.completions_lost, c.completions, c.tx_lost), (3, 0, 0));
}

#[test]
fn frames_on_their_way_to_the_client_are_lost_with_their_buffers() {
    let serial = Serial { receive: Span::from_us(10), ..Serial::FREE };
    let mut b = Bench::up(Config { serial, ..PVM }, 1);
    b.post(b.rx[0], 0, 5);
    for _ in 0..3 {
        assert_eq!(b.receive(&tcp(100)), RxVerdict::Yes);
    }
    b.at(b.now + Span::from_us(15));
    b.d.fail_over(0, b.now);
    b.settle();
    let c = b.d.counters;
    assert_eq!((c.rx_packets, c.rx_lost, c.rx_buffers_lost), (1, 2, 2 + 2));
}

#[test]
fn an_answer_that_its_session_does_not_see_is_lost() {
    // The page walk takes a second, and the answer comes after it.
    for (fails, lost, answers) in [(true, 1, 0), (false, 0, 1)] {
        let mut b = Bench::up(Config { map_page: Span::from_ms(20), ..PVM }, 1);
        let before = b.d.counters.commands_lost;
        let (ioba, len) = (U32::new(LTB as u32), U32::new(LTB_LEN));
        let m = RequestMap {
            first: 0x80,
            cmd: cmd::REQUEST_MAP,
            map_id: 2,
            ioba,
            len,
            ..RequestMap::default()
        };
        assert_eq!(b.send(m.bytes()), status::SUCCESS);
        b.at(b.now + Span::from_ms(1));
        assert_eq!((b.message(), b.d.live_maps(0)), (None, 2), "done, and not answered");
        if fails {
            b.d.fail_over(0, b.now);
        }
        b.settle();
        let seen: Vec<_> = core::iter::from_fn(|| b.message()).collect();
        let to_map = seen.iter().filter(|m| m[1] == cmd::REQUEST_MAP | RESPONSE).count();
        assert_eq!((b.d.counters.commands_lost - before, to_map), (lost, answers));
    }
}

#[test]
fn a_client_that_has_migrated_hears_nothing_more() {
    let mut b = up();
    b.d.migrate(0, b.now);
    b.d.fail_over(0, b.now);
    b.settle();
    let m = b.message().unwrap();
    assert_eq!((m[0], m[1]), (first::TRANSPORT, first::MIGRATED));
    assert_eq!(b.message(), None);
    assert_eq!(b.d.counters.entries_lost, 1, "the failover; the server does not call then");
    // Nor one that has no CRQ.
    let mut b = Bench::new(PVM);
    b.d.fail_over(0, b.now);
    b.settle();
    assert_eq!((b.d.counters.entries_lost, b.d.counters.failovers), (1, 1));
}

#[test]
fn a_server_calls_a_client_that_has_not_shaken_hands() {
    let mut b = up();
    b.d.fail_over(0, b.now);
    b.settle();
    let calls: Vec<_> = core::iter::from_fn(|| b.message()).map(|m| (m[0], m[1])).collect();
    let failover = (first::TRANSPORT, first::FAILOVER);
    assert_eq!(calls, [failover, (first::HANDSHAKE, first::INIT)]);
}

#[test]
fn two_failovers_come_back_to_the_first_server() {
    let other = Server { speed: speed::G10, ..Server::POWERVM };
    let mut b = Bench::new(Config { servers: [Server::POWERVM, other], ..PVM });
    for (failovers, expected) in
        [speed::G100, speed::G10, speed::G100, speed::G10].iter().enumerate()
    {
        if failovers > 0 {
            b.d.fail_over(0, b.now);
            b.settle();
            while b.message().is_some() {}
        }
        b.reg_crq();
        b.handshake();
        b.version();
        let answer = b.ask(b.plain(cmd::QUERY_PHYS_PARMS, |_| ()));
        assert_eq!(PhysParms::of(answer).speed.get(), *expected, "{failovers} failovers");
    }
}

#[test]
fn events_of_one_time_happen_in_their_order() {
    let mut b = up();
    let at = b.now + Span::from_us(5);
    for cause in 1..=12 {
        b.d.report_error(0, at, cause, false);
    }
    b.settle();
    let causes: Vec<u16> = core::iter::from_fn(|| b.message())
        .map(|m| ErrorIndication::of(m).error_cause.get())
        .collect();
    assert_eq!(causes, (1..=12).collect::<Vec<u16>>());
}

#[test]
fn a_partition_without_a_port_has_no_events() {
    let mut d = VnicServer::new(PVM, 2);
    let mut p = Bench::new(PVM).p;
    d.fail_over(1, Time::ZERO);
    HcallDevice::<Partition>::advance(&mut d, &mut p, Time::ZERO + Span::from_ms(5));
    assert_eq!((d.counters.failovers, d.next_due()), (0, None));
}

#[test]
fn open_queues_have_what_was_granted_and_an_array() {
    let mut b = Bench::up(PVM, 2);
    b.post(b.rx[1], 0, 5);
    let d = b.desc(0, &tcp(100), 0).bytes();
    let handle = b.tx[0];
    assert_eq!(b.indirect(handle, &[d; 3]), status::SUCCESS);
    let queue = |handle, buffers, room| OpenQueue { handle, buffers, room };
    let expected = [
        queue(b.tx[0], false, 64 + 16 - 3),
        queue(b.tx[1], false, 64 + 16),
        queue(b.rx[0], true, 64),
        queue(b.rx[1], true, 64 - 5),
    ];
    assert_eq!(b.d.open_queues(0).collect::<Vec<_>>(), expected);
    b.d.fail_over(0, b.now);
    b.settle();
    assert_eq!(b.d.open_queues(0).count(), 0);
}

#[test]
fn a_standstill_is_told_in_its_sums() {
    let mut b = up();
    b.post(b.rx[0], 0, 5);
    let c = &mut b.d.counters;
    (c.queue_faults, c.entries_lost) = (3, 5);
    (c.refused_parameter, c.refused_closed, c.refused_resource) = (2, 7, 11);
    let mut told = Vec::new();
    b.d.diagnose(&mut |name, fact| told.push((name, fact)));
    let expected = [
        ("server ready", Fact::State(true)),
        ("carrier", Fact::State(true)),
        ("commands under way", Fact::Number(0)),
        ("frames taken and not fetched", Fact::Number(0)),
        ("frames leaving", Fact::Number(0)),
        ("receive buffers given", Fact::Number(5)),
        ("frames without a buffer", Fact::Number(0)),
        ("queue entries not written", Fact::Number(8)),
        ("calls refused", Fact::Number(20)),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_reset_loses_all_that_was_on_its_way() {
    // The first frame leaves, the second, the third, and the segments of the last.
    for us in [1, 250, 400, 1000] {
        let serial = Serial { receive: Span::from_us(10), ..Serial::FREE };
        let mut b = Bench::up(Config { serial, wire_byte: Span::from_us(1), ..PVM }, 1);
        b.post(b.rx[0], 0, 5);
        for i in 0..3 {
            let d = b.desc(i, &tcp(100), 0);
            send(&mut b, d);
            assert_eq!(b.receive(&tcp(100)), RxVerdict::Yes);
        }
        // Its segments are on their way together.
        let cut = Tx { mss: U16::new(1000), ..b.desc(3, &partial(3500), tx::LSO | CSUM) };
        send(&mut b, cut);
        b.at(b.now + Span::from_us(us));
        HcallDevice::<Partition>::reset(&mut b.d, &mut b.p, b.now);
        let c = b.d.counters;
        assert_eq!((c.tx_taken, c.tx_sent + c.tx_lost), (4, 4), "after {us} us");
        assert_eq!((c.rx_packets + c.rx_lost, b.d.next_due()), (3, None), "after {us} us");
        assert_eq!(c.rx_buffers, c.rx_packets + c.rx_buffers_lost, "after {us} us");
        assert_eq!(c.completions + c.completions_lost, 4, "after {us} us");
        assert_eq!((b.d.in_flight(0), b.d.live_maps(0), b.d.open_queues(0).count()), (0, 0, 0));
    }
}

#[test]
fn a_reset_loses_commands_that_were_on_their_way() {
    let mut b = Bench::up(Config { command: Span::from_us(10), ..PVM }, 1);
    let done = b.d.counters.commands;
    let query = b.plain(cmd::QUERY_PHYS_PARMS, |_| ());
    let m = [&query[..8], &query[8..]].map(|half| u64::from_be_bytes(half.try_into().unwrap()));
    for _ in 0..3 {
        assert_eq!(b.call(hcall::SEND_CRQ, &m).status, status::SUCCESS);
    }
    b.at(b.now + Span::from_us(10));
    HcallDevice::<Partition>::reset(&mut b.d, &mut b.p, b.now);
    assert_eq!((b.d.counters.commands - done, b.d.counters.commands_lost), (1, 2));
}

#[test]
fn a_completion_that_comes_after_its_session_is_lost() {
    let mut b = Bench::up(Config { wire_byte: Span::from_us(1), ..PVM }, 1);
    let d = b.desc(0, &tcp(100), 0);
    send(&mut b, d);
    b.at(b.now + Span::from_us(20));
    b.d.fail_over(0, b.now);
    b.settle();
    let c = b.d.counters;
    assert_eq!((c.tx_taken, c.completions_lost, c.completions), (1, 1, 0));
}

#[test]
fn a_session_does_not_report_when_the_one_before_would_have() {
    let wait = Span::from_ms(10_000);
    let mut b = Bench::up(Config { completion_wait: wait, ..PVM }, 1);
    let one = |b: &mut Bench| {
        let d = b.desc(0, &tcp(100), 0);
        send(b, d);
        b.at(b.now + Span::from_ms(1));
        assert_eq!((b.d.counters.tx_sent, b.d.counters.completions), (1, 0));
        b.now
    };
    let before = one(&mut b);
    b.d.fail_over(0, b.now);
    b.at(b.now);
    assert_eq!(b.message().map(|m| m[1]), Some(first::FAILOVER));
    b.call(hcall::FREE_CRQ, &[]);
    b.reg_crq();
    let init = loop {
        match b.message() {
            Some(m) => break m,
            None => b.now = b.d.next_due().expect("the other server's INIT"),
        }
        b.at(b.now);
    };
    assert_eq!((init[0], init[1]), (first::HANDSHAKE, first::INIT));
    b.bring_up(1);
    b.d.counters.tx_sent = 0;
    let after = one(&mut b);
    assert!(before < after && after < before + wait);
    b.at(before + wait);
    assert_eq!(b.d.counters.completions, 0);
    b.at(after + wait);
    assert_eq!(b.d.counters.completions, 1);
}

/// Frames that differ in an address or a port share two queues; others go to one.
#[test]
fn a_flow_is_its_addresses_and_ports() {
    let flows = |make: &dyn Fn(u8) -> Vec<u8>| {
        let mut b = Bench::up(PVM, 2);
        for (q, slot) in (0..2).flat_map(|q| [(q, 0), (q, 16)]) {
            assert_eq!(b.post(b.rx[q], slot, 16), status::SUCCESS);
        }
        for i in 0..32 {
            // Steps of eight: the lowest bits of the hash do not change.
            assert_eq!(b.receive(&make(8 * i)), RxVerdict::Yes);
        }
        b.settle();
        (2..4).filter(|n| core::iter::from_fn(|| b.entry(*n)).count() > 0).count()
    };
    let v4 = |at: usize| {
        move |n: u8| {
            let mut f = tcp(100);
            f[at] = n;
            f
        }
    };
    let v6 = |at: usize| {
        move |n: u8| {
            let mut f = PVM.mac.to_vec();
            f.extend([2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64]);
            f.resize(74, 0);
            f[66] = 0x50;
            f[at] = n;
            f
        }
    };
    // Addresses and ports, first byte and last.
    for at in [26, 29, 30, 33, 34, 35, 36, 37] {
        assert_eq!(flows(&v4(at)), 2, "IPv4, byte {at}");
    }
    for at in [22, 37, 38, 53, 54, 57] {
        assert_eq!(flows(&v6(at)), 2, "IPv6, byte {at}");
    }
    // Type of service, identification, time to live, sequence, window, data.
    for at in [15, 19, 22, 38, 48, 60] {
        assert_eq!(flows(&v4(at)), 1, "IPv4, byte {at}");
    }
    for at in [16, 17, 21, 58, 70] {
        assert_eq!(flows(&v6(at)), 1, "IPv6, byte {at}");
    }
}

#[test]
fn a_port_counts_the_frames_that_were_wrong_in_each_direction() {
    let mut b = up();
    let handle = b.rx[0];
    // No buffer; too long; a buffer whose memory is gone; and two sends that are too short.
    b.receive(&tcp(100));
    b.receive(&tcp(9014));
    b.post(handle, 0, 1);
    b.p[0].holes.push(LTB);
    assert_eq!(b.receive(&tcp(100)), RxVerdict::Yes);
    b.settle();
    b.p[0].holes.clear();
    for _ in 0..2 {
        let d = b.desc(0, &tcp(0)[..13], 0);
        assert_eq!(fate(&mut b, d), u16::from(rc::INVALID_LENGTH));
    }
    let m = RequestStatistics {
        first: 0x80,
        cmd: cmd::REQUEST_STATISTICS,
        ioba: U32::new(SCRATCH as u32),
        len: U32::new(size_of::<Statistics>() as u32),
        ..RequestStatistics::default()
    };
    assert_eq!(code(b.ask(m.bytes())), rc::SUCCESS);
    let all = &b.p[0].memory[SCRATCH as usize..][..size_of::<Statistics>()];
    let s = Statistics::of(all.try_into().unwrap());
    assert_eq!((s.internal_mac_rx_errors.get(), s.internal_mac_tx_errors.get()), (3, 2));
    assert_eq!((b.d.counters.rx_faults, b.d.counters.tx_errors), (1, 2));
}
