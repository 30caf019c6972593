//! From registration to login.

use super::super::{Config, Server};
use super::*;

#[test]
fn queries_come_back_in_order_and_the_bitstring_is_bytes_not_a_number() {
    let server = Server { desc_req: [1, 2, 3, 4, 5, 6, 7, 8], ..Server::POWERVM };
    let mut b = Bench::new(Config { servers: [server; 2], ..Config::POWERVM });
    b.reg_crq();
    b.handshake();
    assert_eq!(b.version(), 1, "the client offered 7");
    // Pipelined.
    for id in cap::QUERIES {
        let q =
            Capability { first: 0x80, cmd: 2, capability: U16::new(id), ..Capability::default() };
        assert_eq!(b.send(q.bytes()), status::SUCCESS);
    }
    b.settle();
    for id in cap::QUERIES {
        let m = Capability::of(b.message().unwrap());
        assert_eq!((m.cmd, m.capability.get(), m.rc.code), (0x82, id, 0));
    }
    assert_eq!(b.query(cap::TX_RX_DESC_REQ), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(b.query(cap::MAX_MTU), 9014u64.to_be_bytes(), "Ethernet header included");
}

#[test]
fn what_cannot_be_granted_is_a_partial_success_with_what_can() {
    let mut b = Bench::new(Config::POWERVM);
    b.reg_crq();
    b.handshake();
    b.version();
    assert_eq!(b.request(cap::REQ_TX_QUEUES, 99), (16, rc::PARTIAL_SUCCESS));
    assert_eq!(b.request(cap::REQ_MTU, 10_000), (9014, rc::PARTIAL_SUCCESS));
    assert_eq!(b.request(cap::REQ_TX_ENTRIES, 1), (16, rc::PARTIAL_SUCCESS));
    assert_eq!(b.request(cap::REQ_TX_QUEUES, 16), (16, rc::SUCCESS), "all requests are sent again");
    assert_eq!(b.request(cap::MAX_MTU, 1).1, rc::PARAMETER);
    assert_eq!(b.request(4711, 1).1, rc::PARAMETER);
}

#[test]
fn ip_offload_query_and_control_have_address_and_length_in_opposite_order() {
    let mut b = Bench::new(Config::POWERVM);
    b.reg_crq();
    b.handshake();
    b.version();
    let (len, ioba) = (U32::new(256), U32::new(SCRATCH as u32));
    let q = LengthAddress {
        first: 0x80,
        cmd: cmd::QUERY_IP_OFFLOAD,
        len,
        ioba,
        ..LengthAddress::default()
    };
    assert_eq!(code(b.ask(q.bytes())), rc::SUCCESS);
    assert_eq!(b.p[0].memory[SCRATCH as usize + 8..][..10], [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
    assert_eq!(b.p[0].memory[SCRATCH as usize + 40..][..4], 65_535u32.to_be_bytes());
    // The other way round it is an address of 256 and a length too large to matter.
    let wrong = AddressLength {
        first: 0x80,
        cmd: cmd::QUERY_IP_OFFLOAD,
        ioba,
        len,
        ..AddressLength::default()
    };
    b.put(SCRATCH, &[0xee; 64]);
    b.ask(wrong.bytes());
    assert_eq!(b.p[0].memory[SCRATCH as usize..][..64], [0xee; 64]);
    assert_eq!(b.control_offload([1; 8]), rc::SUCCESS);
}

#[test]
fn offloads_that_are_not_offered_cannot_be_switched_on() {
    let server = Server {
        offloads: [true, true, true, true, true, true, false, false, false, false],
        ..Server::POWERVM
    };
    let mut b = Bench::new(Config { servers: [server; 2], ..Config::POWERVM });
    b.reg_crq();
    b.handshake();
    b.version();
    assert_eq!(b.control_offload([1; 8]), rc::UNSUPPORTED_OPTION);
    assert_eq!(b.control_offload([1, 1, 1, 1, 1, 1, 0, 0]), rc::SUCCESS);
}

#[test]
fn login_returns_a_handle_for_each_queue() {
    let b = Bench::up(Config::POWERVM, 3);
    assert_eq!((b.tx.len(), b.rx.len()), (3, 3));
    let mut all: Vec<u64> = b.tx.iter().chain(&b.rx).copied().collect();
    all.sort_unstable();
    let apart = |w: &[u64]| w[1] > w[0] + 1;
    assert!(
        all.windows(2).all(apart) && all.iter().all(|h| h >> 32 > 0),
        "nothing follows from one: {all:x?}"
    );
    let at = SCRATCH as usize + 4096;
    let r = LoginResponse::of(b.p[0].memory[at..at + 36].try_into().unwrap());
    let size = &b.p[0].memory[at + r.off_rxadd_buff_size.get() as usize..][..8];
    assert_eq!(u64::from_be_bytes(size.try_into().unwrap()), 9088, "9018 in lines");
    assert_eq!(b.p[0].memory[at + r.off_supp_tx_desc.get() as usize], 1);
}

#[test]
fn login_with_more_queues_than_are_left_is_a_partial_success_and_may_be_tried_again() {
    let mut b = Bench::new(Config::POWERVM);
    b.reg_crq();
    b.handshake();
    b.negotiate(2);
    b.d.limit_queues(0, 1);
    assert_eq!(b.login(2), rc::PARTIAL_SUCCESS);
    assert_eq!(b.request(cap::REQ_TX_QUEUES, 2), (1, rc::PARTIAL_SUCCESS));
    assert_eq!(b.request(cap::REQ_RX_QUEUES, 1), (1, rc::SUCCESS));
    assert_eq!(b.login_with(&[0], &[2]), rc::SUCCESS);
    assert_eq!((b.tx.len(), b.rx.len()), (1, 1));
    assert_eq!(b.login_with(&[0], &[2]), rc::INVALID_STATE);
}

#[test]
fn login_names_registered_queues_once_each() {
    let mut b = Bench::new(Config::POWERVM);
    b.reg_crq();
    b.handshake();
    b.negotiate(1);
    b.rings(1);
    for (tx, rx) in [(0, 0), (0, 7), (u64::MAX, 1)] {
        assert_eq!(b.login_with(&[tx], &[rx]), rc::PARAMETER);
    }
    assert_eq!(b.login_with(&[0, 1], &[]), rc::PARAMETER, "one each was granted");
    assert_eq!(b.login_with(&[0], &[1]), rc::SUCCESS);
}

#[test]
fn what_comes_out_of_order_is_answered_so() {
    let mut b = Bench::new(Config::POWERVM);
    b.reg_crq();
    let version = b.plain(cmd::VERSION_EXCHANGE, |m| m[3] = 1);
    assert_eq!(code(b.ask(version)), rc::INVALID_STATE);
    b.handshake();
    let map = b.plain(cmd::QUERY_MAP, |_| ());
    assert_eq!(code(b.ask(map)), rc::INVALID_STATE);
    b.version();
    let unknown = b.plain(0x7e, |_| ());
    assert_eq!(code(b.ask(unknown)), rc::UNKNOWN_COMMAND);
    let vlan = b.plain(cmd::VLAN_CTRL, |_| ());
    assert_eq!(code(b.ask(vlan)), rc::UNKNOWN_COMMAND);
}

#[test]
fn a_queue_is_registered_without_being_read() {
    let mut b = Bench::new(Config::POWERVM);
    assert_eq!(b.reg_crq(), status::SUCCESS);
    let last = RINGS + 3 * 4096;
    b.p[0].holes.push(last);
    assert_eq!(b.call(hcall::REG_SUB_CRQ, &[RINGS, 4 * 4096]).status, status::PARAMETER);
    b.p[0].holes.clear();
    assert_eq!(b.call(hcall::REG_SUB_CRQ, &[RINGS, 4 * 4096]).status, status::SUCCESS);
    assert_eq!(b.p[0].touched, []);
}

#[test]
fn a_crq_is_registered_once_and_on_a_page() {
    let mut b = Bench::new(Config::POWERVM);
    assert_eq!(b.call(hcall::REG_CRQ, &[CRQ + 16, CRQ_BYTES]).status, status::PARAMETER);
    // Whole pages of 4 KiB, up to the 64 KiB of a kernel with large pages.
    for bytes in [0, 100, 4097, 17 * 4096] {
        assert_eq!(b.call(hcall::REG_CRQ, &[CRQ, bytes]).status, status::PARAMETER, "{bytes}");
    }
    b.p[0].holes.push(CRQ);
    assert_eq!(b.call(hcall::REG_CRQ, &[CRQ, CRQ_BYTES]).status, status::PARAMETER);
    b.p[0].holes.clear();
    assert_eq!(b.init(), status::CLOSED);
    assert_eq!(b.reg_crq(), status::SUCCESS);
    assert_eq!(b.reg_crq(), status::RESOURCE);
    assert_eq!(b.call(0xdead, &[]).status, status::FUNCTION);
    let (r, _) =
        b.d.hcall(&mut b.p, 0, b.now, Hcall(hcall::REG_CRQ), &[1, CRQ, 4096, 0, 0, 0, 0, 0, 0]);
    assert_eq!(r.status, status::PARAMETER, "another unit address");
}

#[test]
fn free_and_enable_may_be_busy_first() {
    let mut b = Bench::new(Config { busy_calls: 2, ..Config::POWERVM });
    b.reg_crq();
    let free: Vec<i64> = (0..3).map(|_| b.call(hcall::FREE_CRQ, &[]).status).collect();
    assert_eq!(free, [status::BUSY, status::BUSY, status::SUCCESS]);
    assert_eq!(b.reg_crq(), status::SUCCESS);
}

#[test]
fn an_interrupt_while_it_is_off_is_remembered() {
    let mut b = Bench::new(Config::POWERVM);
    b.reg_crq();
    b.handshake();
    assert_eq!(b.p[0].messages, []);
    b.call(hcall::VIO_SIGNAL, &[1]);
    assert_eq!(b.p[0].messages.len(), 1);
    b.version();
    assert_eq!(b.p[0].messages.len(), 2);
}

/// Nothing else says that there is an entry.
#[test]
fn the_first_byte_of_an_entry_is_written_last() {
    let mut b = Bench::up(Config::POWERVM, 1);
    b.p[0].touched.clear();
    let (handle, d) = (b.tx[0], b.desc(0, &tcp(100), 0));
    b.direct(handle, d.bytes());
    b.d.report_error(0, b.now, cause::FW, false);
    b.settle();
    let crq = CRQ + b.crq_next * 16;
    for (entry, len) in [(RINGS, 32), (crq, 16)] {
        let touched: Vec<_> = b.p[0]
            .touched
            .iter()
            .filter(|t| (entry..entry + len).contains(&t.0))
            .copied()
            .collect();
        assert_eq!(
            touched,
            [(entry, 1), (entry + 1, len as usize - 1), (entry, 1)],
            "looked at, the rest, the first"
        );
    }
}

#[test]
fn a_long_term_buffer_is_walked_page_by_page() {
    let mut b = Bench::up(Config::POWERVM, 1);
    b.p[0].holes.push(LTB + 3 * 4096);
    assert_eq!(b.map(2, LTB as u32 + 100, 3 * 4096), rc::INVALID_IOBA);
    assert_eq!(b.map(2, LTB as u32 + 100, 2 * 4096), rc::SUCCESS);
    assert_eq!(b.map(0, LTB as u32, 4096), rc::PARAMETER);
    assert_eq!(b.map(255, LTB as u32, 4096), rc::PARAMETER);
    assert_eq!(b.map(3, LTB as u32, 0), rc::INVALID_LENGTH);
    let q = b.plain(cmd::QUERY_MAP, |_| ());
    let q = QueryMap::of(b.ask(q));
    assert_eq!((q.page_size, q.tot_pages.get(), q.free_pages.get()), (12, 65_536, 65_536 - 64 - 3));
    let unmap = |b: &mut Bench, id| code(b.ask(b.plain(cmd::REQUEST_UNMAP, |m| m[3] = id)));
    assert_eq!((unmap(&mut b, 2), unmap(&mut b, 2)), (rc::SUCCESS, rc::PARAMETER));
    assert_eq!(b.d.live_maps(0), 1);
}

#[test]
fn vpd_statistics_and_addresses_are_answered() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let size = b.plain(cmd::GET_VPD_SIZE, |_| ());
    assert_eq!(VpdSize::of(b.ask(size)).len.get(), 64);
    let at = |len: u32| (U32::new(SCRATCH as u32), U32::new(len));
    let (ioba, len) = at(64);
    let vpd =
        AddressLength { first: 0x80, cmd: cmd::GET_VPD, ioba, len, ..AddressLength::default() };
    assert_eq!(code(b.ask(vpd.bytes())), rc::SUCCESS);
    assert_eq!(&b.p[0].memory[SCRATCH as usize + 3..][..6], b"RM\x08DBV");
    let d = b.desc(0, &tcp(100), 0);
    let handle = b.tx[0];
    b.direct(handle, d.bytes());
    b.settle();
    for (n, expected) in [(255, rc::INVALID_LENGTH), (256, rc::SUCCESS)] {
        let (ioba, len) = at(n);
        let s = RequestStatistics {
            first: 0x80,
            cmd: cmd::REQUEST_STATISTICS,
            ioba,
            len,
            ..RequestStatistics::default()
        };
        assert_eq!(code(b.ask(s.bytes())), expected);
    }
    let s = Statistics::of(b.p[0].memory[SCRATCH as usize..][..256].try_into().unwrap());
    assert_eq!((s.tx_packets.get(), s.tx_bytes.get(), s.ucast_tx_packets.get()), (1, 154, 1));
    let mac = |m: [u8; 6]| ChangeMac {
        first: 0x80,
        cmd: cmd::CHANGE_MAC_ADDR,
        mac_addr: m,
        ..ChangeMac::default()
    };
    assert_eq!(code(b.ask(mac([1, 0, 0, 0, 0, 0]).bytes())), rc::PARAMETER);
    let answer = b.ask(mac([2, 9, 9, 9, 9, 9]).bytes());
    assert_eq!((code(answer), ChangeMac::of(answer).mac_addr), (rc::SUCCESS, [2, 9, 9, 9, 9, 9]));
}

#[test]
fn a_full_crq_keeps_its_answers_until_there_is_room() {
    let mut b = Bench::new(Config::POWERVM);
    b.reg_crq();
    b.handshake();
    let mut sent = 0;
    while b.send(b.plain(0x7e, |_| ())) == status::SUCCESS {
        b.settle();
        sent += 1;
        assert!(sent < 1000);
    }
    assert_eq!(sent, 256 + 256, "a queue, and what the server keeps");
    let mut got = 0;
    while b.message().is_some() {
        got += 1;
        if got % 100 == 0 {
            b.call(hcall::VIO_SIGNAL, &[0]);
        }
    }
    b.call(hcall::VIO_SIGNAL, &[0]);
    while b.message().is_some() {
        got += 1;
    }
    assert_eq!(got, sent);
}
