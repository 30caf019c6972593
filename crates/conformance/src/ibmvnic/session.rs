//! Bringing it up: what the sheet says of order, partial success, and addresses.

use super::harness::{Harness, Model, small};
use crate::frames;
use doorbell_devices::vnic::{Config, Server};
use doorbell_drivers::ibmvnic::{Config as Driver, Ibmvnic};
use doorbell_drivers::{Filter, OpenError};
use doorbell_hal::Span;
use doorbell_layout::ibmvnic::{self as l, cap, cmd, hcall, status};
use doorbell_packet::OffloadRequest;

const PVM: Config = Config::POWERVM;

/// Command bytes of the messages sent, and words.
pub(super) fn commands<M: Model>(b: &mut Harness<M>) -> Vec<(u8, u64, u64)> {
    let sent = b.spy().called(hcall::SEND_CRQ);
    sent.iter().filter(|a| a[1] >> 56 == 0x80).map(|a| ((a[1] >> 48) as u8, a[1], a[2])).collect()
}

/// Requests to unmap.
pub(super) fn unmaps<M: Model>(b: &mut Harness<M>) -> usize {
    commands(b).iter().filter(|c| c.0 == cmd::REQUEST_UNMAP).count()
}

/// Handshake, version, 25 queries at once in Linux's order, seven requests, offloads, login, VPD,
/// maps, link.
pub fn bring_up_in_order<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let all = commands(&mut b);
    assert_eq!(
        (all[0].1, b.nic.negotiated().version),
        (0x8001_0001_0000_0000, 1),
        "version 1 is offered"
    );
    let queries: Vec<u16> =
        all.iter().filter(|c| c.0 == cmd::QUERY_CAPABILITY).map(|c| (c.1 >> 32) as u16).collect();
    assert_eq!(queries, cap::QUERIES);
    let requests: Vec<u16> =
        all.iter().filter(|c| c.0 == cmd::REQUEST_CAPABILITY).map(|c| (c.1 >> 32) as u16).collect();
    assert_eq!(requests, cap::REQUESTS);
    let mut kinds: Vec<u8> = all.iter().map(|c| c.0).collect();
    kinds.dedup();
    use cmd::*;
    assert_eq!(
        kinds,
        [
            VERSION_EXCHANGE,
            QUERY_CAPABILITY,
            REQUEST_CAPABILITY,
            QUERY_IP_OFFLOAD,
            CONTROL_IP_OFFLOAD,
            LOGIN,
            GET_VPD_SIZE,
            GET_VPD,
            QUERY_MAP,
            REQUEST_MAP,
            LOGICAL_LINK_STATE
        ]
    );
    let calls: Vec<u64> = b.spy().calls.iter().map(|c| c.0).collect();
    let queues = calls.iter().position(|c| *c == hcall::REG_SUB_CRQ).unwrap();
    let login = b
        .spy()
        .calls
        .iter()
        .position(|c| c.0 == hcall::SEND_CRQ && c.1[1] >> 48 == 0x8004)
        .unwrap();
    assert!(queues < login, "completion queues are registered before the login that names them");
    b.close();
}

/// All queries are sent before the first is answered, and requests too. Any other command waits for
/// the answer to the one before it.
pub fn queries_are_pipelined_and_all_else_waits<M: Model>(make: impl Fn(Config) -> M) {
    let command = Span::from_us(100);
    let mut b = Harness::new(make(Config { command, ..PVM }), &small());
    b.wait(Span::from_ms(1));
    assert!(b.nic.is_running());
    let sent = b.spy().calls.iter().filter(|c| c.0 == hcall::SEND_CRQ && c.1[1] >> 56 == 0x80);
    let sent: Vec<_> = sent.map(|c| ((c.1[1] >> 48) as u8, c.3)).collect();
    assert!(sent.iter().filter(|c| c.0 == cmd::REQUEST_MAP).count() > 2);
    for w in sent.windows(2) {
        let pipelined =
            w[0].0 == w[1].0 && [cmd::QUERY_CAPABILITY, cmd::REQUEST_CAPABILITY].contains(&w[0].0);
        let gap = w[1].1.since(w[0].1);
        assert_eq!(gap < Span::from_us(10), pipelined, "{w:?}");
        assert_eq!(gap >= command, !pipelined, "{w:?}");
    }
    let all = |c| sent.iter().filter(move |s| s.0 == c).map(|s| s.1);
    let answered = all(cmd::REQUEST_CAPABILITY)
        .next()
        .unwrap()
        .since(all(cmd::QUERY_CAPABILITY).next().unwrap());
    assert!(answered >= command * 25, "requests wait for every query: {answered}");
    b.close();
}

/// Promiscuous reception is requested with 0 or 1, and not at all where it is wanted and cannot be
/// had.
pub fn promiscuous_is_not_requested_where_it_cannot_be_had<M: Model>(make: impl Fn(Config) -> M) {
    for (promisc, wanted, expected) in [
        (true, true, Some(1)),
        (true, false, Some(0)),
        (false, false, Some(0)),
        (false, true, None),
    ] {
        let server = Server { promisc, ..Server::POWERVM };
        let mut b = Harness::up(
            &make,
            Config { servers: [server; 2], ..PVM },
            &Driver { promisc: wanted, ..small() },
        );
        let is = |c: &(u8, u64, u64)| c.0 == cmd::REQUEST_CAPABILITY && c.1 >> 32 & 0xffff == 17;
        let asked = commands(&mut b).into_iter().find(is).map(|c| (c.1 << 32) | c.2 >> 32);
        assert_eq!((asked, b.nic.stats().partial_requests), (expected, 0));
        let taken = b.inject(&frames::ip([2, 0, 0, 0, 0, 0x55], true, false, 10));
        assert_eq!(taken == doorbell_hal::RxVerdict::Yes, asked == Some(1));
        b.close();
    }
}

/// INIT may take 20 s to be answered and any other command 10 s; then it is given up, and nothing
/// is left.
pub fn a_silent_server_is_given_up<M: Model>(make: impl Fn(Config) -> M) {
    let (init, command) = (Span::from_ms(2), Span::from_ms(1));
    let linux = Driver::new(PVM.unit_address, PVM.mac);
    assert_eq!((linux.init_timeout, linux.command_timeout), (init * 10_000, command * 10_000));
    let c = Driver { init_timeout: init, command_timeout: command, ..small() };
    for (message, name, limit) in [(0xc001u64, "INIT", init), (0x8004, "LOGIN", command)] {
        let mut h = make(PVM);
        h.system().device.0.refuse.push((hcall::SEND_CRQ, Some(message << 48), status::SUCCESS, 1));
        assert_eq!(Ibmvnic::open(&mut h, &c).unwrap_err(), OpenError::Timeout(name));
        let calls = &h.system().device.0.calls;
        let at = calls.iter().rposition(|c| c.1[1] == message << 48).unwrap();
        let waited = calls[at + 1].3.since(calls[at].3);
        assert!(waited >= limit && waited < limit + Span::from_us(50), "{name} {waited}");
        let p = h.system();
        p.flush_posted();
        assert_eq!(doorbell_bus::Bus::platform(&p.bus).memory.mapped(), (0, 0));
    }
}

/// H_FREE_CRQ is repeated while it is busy, and after a long busy's time.
pub fn a_busy_hypervisor_is_asked_again<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let answers = [status::BUSY, status::IN_PROGRESS, status::LONG_BUSY_1_MS + 1, status::SUCCESS];
    b.spy().refuse.extend(answers[..3].iter().map(|a| (hcall::FREE_CRQ, None, *a, 1)));
    b.spy().calls.clear();
    b.nic.close(&mut b.h);
    let calls = &b.h.system().device.0.calls;
    let freed: Vec<_> = calls.iter().filter(|c| c.0 == hcall::FREE_CRQ).collect();
    assert_eq!(freed.iter().map(|c| c.2).collect::<Vec<_>>(), answers);
    let waited = freed[3].3.since(freed[2].3);
    assert!(waited >= Span::from_ms(10) && waited < Span::from_ms(11), "{waited}");
}

/// A pool has 38 MiB at the most: what would need more is refused, and nothing is left.
pub fn a_pool_has_38_mib_at_the_most<M: Model>(make: impl Fn(Config) -> M) {
    let server = Server { mtu: (60, 40_014), ..Server::POWERVM };
    let cfg = Config { servers: [server; 2], ..PVM };
    // 40 000 bytes and 500 more, in lines: 982 of them are 39 845 632 bytes, and 38 MiB 39 845 888.
    let c = Driver { mtu: 40_000, tx_entries: 982, ..small() };
    Harness::up(&make, cfg, &c).close();
    let mut h = make(cfg);
    assert_eq!(
        Ibmvnic::open(&mut h, &Driver { tx_entries: 983, ..c }).unwrap_err(),
        OpenError::OutOfMemory
    );
    let p = h.system();
    p.flush_posted();
    assert_eq!(doorbell_bus::Bus::platform(&p.bus).memory.mapped(), (0, 0));
}

/// Query has length and address, control address and length; the server took both.
pub fn ip_offload_has_both_orders<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let all = commands(&mut b);
    let of = |c: u8| *all.iter().find(|m| m.0 == c).unwrap();
    let (query, control) = (of(cmd::QUERY_IP_OFFLOAD), of(cmd::CONTROL_IP_OFFLOAD));
    assert_eq!(query.1 as u32, 256, "length first");
    assert_eq!((control.2 >> 32) as u32, 136, "length behind the address");
    assert_eq!((query.2 >> 32) as u32, control.1 as u32, "the same buffer");
    assert_eq!(b.nic.negotiated().offloads, [true; 8]);
    b.close();
}

/// The driver adopts partial grants and requests all capabilities again; the MTU is restored.
pub fn partial_success_asks_for_all_again<M: Model>(make: impl Fn(Config) -> M) {
    let server = Server { mtu: (60, 4014), ..Server::POWERVM };
    let mut b =
        Harness::up(make, Config { servers: [server; 2], ..PVM }, &Driver { mtu: 9000, ..small() });
    assert_eq!(b.nic.negotiated().mtu(), 4000, "as offered, for there was none before");
    assert_eq!(b.nic.stats().partial_requests, 1);
    let requests = commands(&mut b).iter().filter(|c| c.0 == cmd::REQUEST_CAPABILITY).count();
    assert_eq!(requests, 14, "all of them again");
    b.nic.set_mtu(&mut b.h, 2000).unwrap();
    b.settle();
    assert_eq!(b.nic.negotiated().mtu(), 2000);
    b.nic.set_mtu(&mut b.h, 8000).unwrap();
    b.settle();
    assert_eq!(b.nic.negotiated().mtu(), 2000, "the one before");
    let frame = frames::ip([2; 6], true, false, 1900);
    assert_eq!(b.send(&frame, OffloadRequest::NONE), [frame]);
    b.close();
}

/// The MTU of capabilities counts the Ethernet header.
pub fn mtu_counts_the_ethernet_header<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &Driver { mtu: 3000, ..small() });
    let mtu = commands(&mut b)
        .into_iter()
        .find(|c| c.0 == cmd::REQUEST_CAPABILITY && c.1 >> 32 & 0xffff == 21);
    let mtu = mtu.map(|c| (c.1 << 32) | c.2 >> 32);
    assert_eq!(mtu, Some(3014));
    let longest = frames::ip([2; 6], true, false, 2960);
    assert_eq!(b.send(&longest, OffloadRequest::NONE).len(), 1);
    b.refused(&frames::ip([2; 6], true, false, 2961), OffloadRequest::NONE);
    b.close();
}

/// A login for more queues than there are left: its queues are given back, capabilities asked for
/// again, and a login made with fewer. Handles are whatever the server says.
pub fn login_with_fewer_queues<M: Model>(make: impl Fn(Config) -> M) {
    let mut h = make(PVM);
    // The queues go between request and login.
    h.system().device.0.limit_at = Some((hcall::REG_SUB_CRQ, 2));
    let mut b = Harness::new(h, &Driver { queues: 4, ..small() });
    assert_eq!((b.nic.stats().login_retries, b.nic.negotiated().tx_queues), (1, 2));
    let (made, freed) =
        (b.spy().called(hcall::REG_SUB_CRQ).len(), b.spy().called(hcall::FREE_SUB_CRQ).len());
    assert_eq!((made, freed), (8 + 4, 8));
    let frame = frames::ip([2; 6], true, false, 100);
    for q in 0..4 {
        let p = b.packet(&frame, &[], OffloadRequest::NONE, 1);
        assert_eq!(b.nic.transmit_on(&mut b.h, q, p, false), doorbell_drivers::Tx::Ok);
    }
    b.settle();
    assert_eq!(b.wire().len(), 4, "what was for queues that are gone goes on the others");
    b.close();
}

/// The partner may come up later; H_CLOSED of the registration is no error, INIT is tried again,
/// and the server may be the first to say it.
pub fn partner_comes_up_later<M: Model>(make: impl Fn(Config) -> M) {
    let cfg = Config { failover: Span::from_ms(180), ..PVM };
    let mut h = make(cfg);
    h.system().outside(|d, _, at| d.0.server.fail_over(0, at));
    h.delay(Span::from_us(1));
    let mut b = Harness::new(h, &small());
    let registered = b.spy().calls.iter().find(|c| c.0 == hcall::REG_CRQ).unwrap().2;
    assert_eq!(registered, status::CLOSED);
    assert_eq!(b.nic.stats().init_retries, 4, "50 ms apart");
    let last = b.spy().called(hcall::SEND_CRQ).into_iter().rfind(|a| a[1] >> 56 == 0xc0).unwrap();
    assert_eq!(last[1] >> 48, 0xc002, "INIT_COMPLETE, for the server said INIT");
    assert!(b.nic.is_running());
    b.close();
}

/// A server that never comes up is given up, and nothing is left.
pub fn partner_never_comes<M: Model>(make: impl Fn(Config) -> M) {
    let mut h = make(Config { failover: Span::from_ms(1_000_000), ..PVM });
    let now = h.now();
    h.system().outside(|d, _, at| d.0.server.fail_over(0, at));
    h.delay(Span::from_us(1));
    assert_eq!(Ibmvnic::open(&mut h, &small()).unwrap_err(), OpenError::Timeout("INIT"));
    let waited = h.now().since(now);
    assert!(waited > Span::from_ms(4_900), "a hundred times 50 ms: {waited}");
    let p = h.system();
    p.flush_posted();
    assert_eq!(doorbell_bus::Bus::platform(&p.bus).memory.mapped(), (0, 0));
}

/// Messages of 16 bytes, descriptors of 32: both wrap, and byte 0 is all that says what is new.
pub fn rings_wrap<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    // The CRQ goes on where it was after a migration, so some of those make it wrap.
    for _ in 0..8 {
        b.event(|s, now| s.migrate(0, now));
        b.wait(Span::from_us(600));
        assert!(b.nic.is_running());
    }
    assert!(b.nic.stats().messages > 256, "{}", b.nic.stats().messages);
    let frame = frames::ip([2; 6], true, false, 10);
    for _ in 0..600 {
        assert_eq!(b.transmit(&frame, OffloadRequest::NONE, false), doorbell_drivers::Tx::Ok);
        b.inject(&frames::ip(b.nic.config().mac, true, false, 10));
        b.wait(Span::from_us(5));
    }
    b.settle();
    let q = b.nic.totals();
    assert_eq!((q.tx_completed, q.rx_packets), (600, 600));
    assert!(q.tx_comp_messages > 512, "{}", q.tx_comp_messages);
    b.close();
}

/// Long-term buffers have 8 MiB at the most, whole slots, and ids from 1 on; what the second one
/// holds is found too.
pub fn long_term_buffers<M: Model>(make: impl Fn(Config) -> M) {
    let c = Driver { mtu: 9000, tx_entries: 1024, rx_entries: 1024, ..small() };
    let mut b = Harness::up(make, PVM, &c);
    let maps: Vec<_> = commands(&mut b).into_iter().filter(|c| c.0 == cmd::REQUEST_MAP).collect();
    let ids: Vec<u8> = maps.iter().map(|m| (m.1 >> 32) as u8).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5], "two for packets, one for large sends, two to receive");
    let lens: Vec<u64> = maps.iter().map(|m| m.2 >> 32).collect();
    assert!(lens.iter().all(|n| *n <= 8 << 20) && lens[0].is_multiple_of(9600), "{lens:?}");
    b.spy().keep = false;
    for i in 0..1030u32 {
        let frame = frames::ip([2; 6], true, false, 200 + i as usize);
        assert_eq!(b.transmit(&frame, OffloadRequest::NONE, false), doorbell_drivers::Tx::Ok);
        b.wait(Span::from_us(5));
        b.reclaim();
        assert_eq!(b.wire(), [frame], "from its slot of its buffer");
    }
    for i in 0..1030usize {
        let frame = frames::ip(b.nic.config().mac, true, true, 200 + i);
        b.inject(&frame);
        b.wait(Span::from_us(5));
        let came = b.came();
        assert_eq!(came.len(), 1);
        assert!(came[0].bytes == frame);
    }
    b.close();
}

/// Without memory or mappings opening is an error, and leaves nothing.
pub fn a_refusal_leaves_nothing<M: Model>(make: impl Fn(Config) -> M) {
    let few = Server { map_pages: 10, ..Server::POWERVM };
    let mut h = make(Config { servers: [few; 2], ..PVM });
    assert_eq!(
        Ibmvnic::open(&mut h, &small()).unwrap_err(),
        OpenError::Refused("REQUEST_MAP", l::rc::NO_MEMORY)
    );
    let mut h2 = make(PVM);
    h2.system().device.0.refuse.push((hcall::REG_SUB_CRQ, None, status::RESOURCE, 1));
    let e = Ibmvnic::open(&mut h2, &small()).unwrap_err();
    assert_eq!(e, OpenError::Call("H_REG_SUB_CRQ", status::RESOURCE));
    for h in [&mut h, &mut h2] {
        let m = h.system();
        m.flush_posted();
        assert_eq!(doorbell_bus::Bus::platform(&m.bus).memory.mapped(), (0, 0));
    }
}

/// Statistics, address and filter are commands too; filter and address outlive a failover.
pub fn address_filter_and_statistics<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let mac = [2, 0, 0, 0, 0, 0x77];
    b.nic.set_mac(&mut b.h, mac).unwrap();
    assert_eq!(b.receive(&frames::ip(mac, true, false, 10)).len(), 1);
    let group = [0x01, 0, 0x5e, 0, 0, 5];
    assert_ne!(b.inject(&frames::ip(group, true, true, 10)), doorbell_hal::RxVerdict::Yes);
    let f = Filter { multicast: vec![group], ..Filter::default() };
    b.nic.set_filter(&mut b.h, &f).unwrap();
    assert_eq!(b.receive(&frames::ip(group, true, true, 10)).len(), 1);
    b.event(|s, now| s.fail_over(0, now));
    b.wait(Span::from_ms(3));
    assert_eq!(b.receive(&frames::ip(group, true, true, 10)).len(), 1, "after a failover too");
    assert_eq!(b.nic.server_statistics(&mut b.h).unwrap().rx_packets.get(), 3);
    b.close();
}
