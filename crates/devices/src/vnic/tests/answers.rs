//! The contents of the server's answers, and the limits of what it grants.

use super::super::{Config, Server, VnicServer};
use super::*;
use crate::Addresses;

fn with(server: Server) -> Config {
    Config { servers: [server; 2], ..Config::POWERVM }
}

/// Asks for a buffer to be filled at `SCRATCH`. Returns its first `len` bytes.
fn fetched(b: &mut Bench, c: u8, len: usize) -> Vec<u8> {
    b.put(SCRATCH, &[0xee; 512]);
    let (ioba, n) = (U32::new(SCRATCH as u32), U32::new(512));
    let m = match c {
        cmd::QUERY_IP_OFFLOAD => {
            LengthAddress { first: 0x80, cmd: c, len: n, ioba, ..LengthAddress::default() }.bytes()
        }
        cmd::REQUEST_STATISTICS => {
            RequestStatistics { first: 0x80, cmd: c, ioba, len: n, ..RequestStatistics::default() }
                .bytes()
        }
        _ => {
            AddressLength { first: 0x80, cmd: c, ioba, len: n, ..AddressLength::default() }.bytes()
        }
    };
    assert_eq!(code(b.ask(m)), rc::SUCCESS);
    b.p[0].memory[SCRATCH as usize..][..len].to_vec()
}

#[test]
fn physical_parameters_follow_port_link_and_promiscuity() {
    let mut b = Bench::new(Config::POWERVM);
    b.reg_crq();
    b.handshake();
    b.version();
    let ask = |b: &mut Bench, c| {
        let p = PhysParms::of(b.ask(b.plain(c, |_| ())));
        assert_eq!((p.speed.get(), p.rc.code), (Server::POWERVM.speed, rc::SUCCESS));
        (p.flags1, p.flags2, p.mtu.get())
    };
    let port = phys::FULL_DUPLEX | phys::LINK_ACTIVE;
    assert_eq!(ask(&mut b, cmd::QUERY_PHYS_PARMS).0, port);
    b.request(cap::REQ_MTU, 1514);
    b.request(cap::PROMISC_REQUESTED, 1);
    assert_eq!(ask(&mut b, cmd::QUERY_PHYS_PARMS), (port | phys::PROMISC, 0, 1514));
    b.d.set_link(0, b.now, false);
    b.settle();
    let off = phys::FULL_DUPLEX | phys::PROMISC;
    assert_eq!(ask(&mut b, cmd::QUERY_PHYS_CAPABILITIES), (off, 0, 1514));
    let mut b = Bench::up(Config::POWERVM, 1);
    assert_eq!(ask(&mut b, cmd::QUERY_PHYS_PARMS), (port, phys::LOGICAL_LINK_ACTIVE, 9014));
    assert_eq!(code(b.ask(b.plain(cmd::SET_PHYS_PARMS, |_| ()))), rc::PERMISSION);
}

#[test]
fn promiscuity_is_granted_where_it_is_supported() {
    for promisc in [false, true] {
        let mut b = Bench::new(with(Server { promisc, ..Server::POWERVM }));
        b.reg_crq();
        b.handshake();
        b.version();
        let code = if promisc { rc::SUCCESS } else { rc::PARTIAL_SUCCESS };
        assert_eq!(b.request(cap::PROMISC_REQUESTED, 1), (promisc.into(), code));
    }
}

#[test]
fn a_locked_address_can_be_set_to_itself_alone() {
    for locked in [false, true] {
        let mut b = Bench::up(with(Server { mac_locked: locked, ..Server::POWERVM }), 1);
        let acl = AclBuffer::of(
            fetched(&mut b, cmd::ACL_QUERY, size_of::<AclBuffer>()).try_into().unwrap(),
        );
        assert_eq!((acl.len.get() as usize, acl.version.get()), (size_of::<AclBuffer>(), 1));
        assert_eq!(acl.mac_acls_restrict, locked.into());
        let mut change = |mac_addr| {
            let m = ChangeMac {
                first: 0x80,
                cmd: cmd::CHANGE_MAC_ADDR,
                mac_addr,
                ..ChangeMac::default()
            };
            let answer = b.ask(m.bytes());
            (code(answer), ChangeMac::of(answer).mac_addr)
        };
        let (own, other) = (Config::POWERVM.mac, [2, 0, 0, 0, 0, 9]);
        assert_eq!(change(own), (rc::SUCCESS, own));
        let expected = if locked { (rc::PERMISSION, own) } else { (rc::SUCCESS, other) };
        assert_eq!(change(other), expected);
        let kept = expected.1;
        assert_eq!(change([0; 6]), (rc::PARAMETER, kept));
        assert_eq!(change([3, 0, 0, 0, 0, 9]), (rc::PARAMETER, kept));
    }
}

#[test]
fn the_offload_buffer_states_its_size_and_header_limits() {
    let mut offloads = Server::POWERVM.offloads;
    offloads[2] = false;
    let mut b = Bench::new(with(Server { offloads, ..Server::POWERVM }));
    b.reg_crq();
    b.handshake();
    b.version();
    const LEN: usize = size_of::<QueryIpOffload>();
    let q = QueryIpOffload::of(fetched(&mut b, cmd::QUERY_IP_OFFLOAD, LEN).try_into().unwrap());
    assert_eq!((q.len.get() as usize, q.version.get()), (LEN, 1));
    assert_eq!(q.can[..9], [1, 1, 0, 1, 1, 1, 1, 1, 0]);
    let limits = [q.max_ipv4_header_size, q.max_ipv6_header_size];
    assert_eq!(limits.map(U16::get), [60, 128]);
    let limits = [q.max_tcp_header_size, q.max_udp_header_size];
    assert_eq!(limits.map(U16::get), [60, 8]);
}

#[test]
fn statistics_count_each_kind_of_frame_in_each_direction() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let to = |first: u8, len: usize| {
        let mut f = tcp(len);
        f[0] = first;
        if first == 0xff {
            f[..6].fill(0xff);
        }
        f
    };
    assert_eq!(code(b.ask(b.plain(cmd::MULTICAST_CTRL, |m| m[8] = multicast::ENABLE_ALL))), 0);
    let (tx, rx) = (b.tx[0], b.rx[0]);
    b.post(rx, 0, 6);
    // Of 54 + n bytes. Received: one unicast, two multicast, three broadcast, one too long.
    for (first, len) in [(0x52, 0), (0x53, 10), (0x53, 20), (0xff, 1), (0xff, 2), (0xff, 3)] {
        assert_eq!(b.receive(&to(first, len)), RxVerdict::Yes);
    }
    b.receive(&to(0x52, 9000));
    // Sent: three unicast, two multicast, one broadcast.
    for (i, first) in [2, 2, 2, 3, 3, 0xff].into_iter().enumerate() {
        let d = b.desc(i as u32, &to(first, 100), 0).bytes();
        assert_eq!(b.direct(tx, d), status::SUCCESS);
    }
    b.settle();
    let all = fetched(&mut b, cmd::REQUEST_STATISTICS, size_of::<Statistics>());
    let s = Statistics::of(all.try_into().unwrap());
    assert_eq!((s.version.get(), s.promiscuous.get()), (1, 0));
    assert_eq!((s.rx_packets.get(), s.rx_bytes.get()), (6, 6 * 54 + 36));
    assert_eq!((s.tx_packets.get(), s.tx_bytes.get()), (6, 6 * 154));
    let received = [s.ucast_rx_packets, s.mcast_rx_packets, s.bcast_rx_packets].map(U64::get);
    let sent = [s.ucast_tx_packets, s.mcast_tx_packets, s.bcast_tx_packets].map(U64::get);
    assert_eq!((received, sent), ([1, 2, 3], [3, 2, 1]));
    assert_eq!((s.internal_mac_rx_errors.get(), s.internal_mac_tx_errors.get()), (1, 0));
}

#[test]
fn long_term_buffers_are_limited_in_number_length_and_pages() {
    let mut b = Bench::up(with(Server { map_pages: 100, ..Server::POWERVM }), 1);
    let at = LTB as u32;
    let free = |b: &mut Bench| {
        let q = QueryMap::of(b.ask(b.plain(cmd::QUERY_MAP, |_| ())));
        assert_eq!((q.page_size, q.tot_pages.get()), (12, 100));
        q.free_pages.get()
    };
    // The first has 64 pages.
    assert_eq!(free(&mut b), 36);
    assert_eq!(b.map(0, at, 4096), rc::PARAMETER);
    assert_eq!(b.map(MAX_MAP_ID, at, 4096), rc::SUCCESS);
    assert_eq!(b.map(MAX_MAP_ID + 1, at, 4096), rc::PARAMETER);
    assert_eq!(b.map(2, at, 0), rc::INVALID_LENGTH);
    // The last page of the address space has no TCE here; behind it there is none at all.
    assert_eq!(b.map(2, 0xffff_f000, 4096), rc::INVALID_IOBA);
    assert_eq!(b.map(2, 0xffff_f000, 4097), rc::INVALID_LENGTH);
    assert_eq!(free(&mut b), 35);
    // 36 pages by 35 pages' bytes from the middle of the first.
    assert_eq!(b.map(2, at + 2048, 35 * 4096), rc::NO_MEMORY);
    assert_eq!(b.map(2, at + 2048, 35 * 4096 - 2048), rc::SUCCESS);
    assert_eq!(free(&mut b), 0);
    // In its own place there is room for it.
    assert_eq!(b.map(2, at, 35 * 4096), rc::SUCCESS);
    assert_eq!(b.map(2, at, 35 * 4096 + 1), rc::NO_MEMORY);
    let unmap = |b: &mut Bench| code(b.ask(b.plain(cmd::REQUEST_UNMAP, |m| m[3] = 2)));
    assert_eq!((unmap(&mut b), unmap(&mut b)), (rc::SUCCESS, rc::PARAMETER));
    assert_eq!((free(&mut b), b.d.live_maps(0)), (35, 2));
}

#[test]
fn multicast_filters_are_limited_and_counted_once() {
    let mut b = Bench::up(with(Server { multicast_filters: 2, ..Server::POWERVM }), 1);
    let mut filter = |flags, last| {
        let mac_addr = [if last == 0 { 2 } else { 1 }, 0, 0x5e, 0, 0, last];
        let m = MulticastCtrl {
            first: 0x80,
            cmd: cmd::MULTICAST_CTRL,
            mac_addr,
            flags,
            ..MulticastCtrl::default()
        };
        code(b.ask(m.bytes()))
    };
    assert_eq!(filter(multicast::ENABLE, 0), rc::PARAMETER, "no group");
    assert_eq!([1, 1, 2].map(|n| filter(multicast::ENABLE, n)), [rc::SUCCESS; 3]);
    assert_eq!(filter(multicast::ENABLE, 3), rc::NO_MEMORY);
    assert_eq!(filter(multicast::ENABLE, 2), rc::SUCCESS);
    assert_eq!(filter(multicast::DISABLE, 3), rc::PARAMETER);
    assert_eq!(filter(multicast::DISABLE, 1), rc::SUCCESS);
    assert_eq!(filter(multicast::ENABLE, 3), rc::SUCCESS);
    assert_eq!(filter(multicast::DISABLE_ALL, 0), rc::SUCCESS);
    assert_eq!(filter(multicast::DISABLE, 2), rc::PARAMETER);
}

/// Has the guest of the bench ask for an address. Returns the answer's code, and its address.
fn change(b: &mut Bench, mac_addr: [u8; 6]) -> (u8, [u8; 6]) {
    let m = ChangeMac { first: 0x80, cmd: cmd::CHANGE_MAC_ADDR, mac_addr, ..ChangeMac::default() };
    let answer = b.ask(m.bytes());
    (code(answer), ChangeMac::of(answer).mac_addr)
}

#[test]
fn a_guest_keeps_the_first_address_that_it_takes() {
    const FIRST: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const SECOND: [u8; 6] = [2, 0, 0, 0, 0, 10];
    for (addresses, kept) in [(Addresses::Fixed, FIRST), (Addresses::Exclusive, SECOND)] {
        let mut b = Bench::up(Config { addresses, ..Config::POWERVM }, 1);
        assert_eq!(change(&mut b, FIRST), (rc::SUCCESS, FIRST));
        let expected = if kept == FIRST { rc::PERMISSION } else { rc::SUCCESS };
        assert_eq!(change(&mut b, SECOND), (expected, kept));
        assert_eq!(change(&mut b, kept), (rc::SUCCESS, kept));
        b.d.release_address(0);
        assert_eq!(b.d.clients[0].mac, Config::POWERVM.mac);
    }
}

#[test]
fn an_address_of_another_guest_is_refused() {
    const TAKEN: [u8; 6] = [2, 0, 0, 0, 0, 9];
    let first = Config::POWERVM.mac;
    let second = [first[0], first[1], first[2], first[3], first[4], first[5] + 1];
    for addresses in [Addresses::Fixed, Addresses::Exclusive] {
        // Client 0 uses the address that it was given; the others have no session.
        let mut b = Bench::up(Config { addresses, ..Config::POWERVM }, 1);
        let mut others = VnicServer::new(b.d.cfg, 3);
        b.d.clients.extend(others.clients.drain(1..));
        assert!(!b.d.take_mac(1, first), "in use");
        assert!(b.d.take_mac(1, TAKEN) && !b.d.take_mac(2, TAKEN) && !b.d.take_mac(0, TAKEN));
        // A guest may have been given what another one's would have been.
        assert!(b.d.take_mac(2, second) && b.d.clients[1].mac == TAKEN);
        b.d.release_address(1);
        assert_eq!(b.d.clients[1].mac, [0; 6], "its own is taken");
        assert!(b.d.take_mac(0, TAKEN));
    }
    let mut trusting = VnicServer::new(Config::POWERVM, 2);
    assert!(trusting.take_mac(0, TAKEN) && trusting.take_mac(1, TAKEN));
}

#[test]
fn an_address_that_was_given_is_its_partitions_alone() {
    const ONE: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const TWO: [u8; 6] = [2, 0, 0, 0, 0, 2];
    const THREE: [u8; 6] = [2, 0, 0, 0, 0, 3];
    for addresses in [Addresses::Fixed, Addresses::Exclusive] {
        let mut d = VnicServer::new(Config { addresses, ..Config::POWERVM }, 2);
        d.give_address(0, ONE);
        d.give_address(1, TWO);
        for _ in 0..2 {
            assert_eq!(d.clients[0].mac, ONE);
            assert!(d.take_mac(0, ONE) && !d.take_mac(0, TWO));
            assert_eq!(d.take_mac(0, THREE), addresses == Addresses::Exclusive);
            assert!(!d.take_mac(1, ONE), "not while its guest has another");
            // The next guest has the same.
            d.release_address(0);
        }
    }
}
