//! Sends, headers and completions.

use super::super::{Config, Serial, Server};
use super::*;
use doorbell_packet::headers::{Check, verify};
use doorbell_packet::vlan;

const CSUM: u8 = tx::CHKSUM_OFFLOAD | tx::PROT_IPV4 | tx::PROT_TCP;

fn one(b: &mut Bench, d: Tx) -> i64 {
    let handle = b.tx[0];
    let r = b.direct(handle, d.bytes());
    b.settle();
    r
}

#[test]
fn a_direct_send_reads_no_descriptor_and_an_indirect_one_reads_its_array() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let (handle, frame) = (b.tx[0], tcp(100));
    let d = b.desc(3, &frame, 0);
    b.p[0].touched.clear();
    assert_eq!(b.direct(handle, d.bytes()), status::SUCCESS);
    assert_eq!(b.p[0].touched, [], "it is in registers");
    b.settle();
    assert_eq!(b.indirect(handle, &[d.bytes(), d.bytes()]), status::SUCCESS);
    assert!(b.p[0].touched.contains(&(SCRATCH, 64)));
    b.settle();
    assert_eq!(b.p[0].frames.len(), 3);
    assert!(b.p[0].frames.iter().all(|f| f.1 == frame));
    assert_eq!(b.completions(0), [(3, 0); 3]);
    let c = b.d.counters;
    assert_eq!((c.direct_calls, c.indirect_calls, c.descriptors), (1, 1, 3));
    b.audit();
}

#[test]
fn bit_31_of_a_correlator_comes_back_as_it_was() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let mut d = b.desc(5, &tcp(100), 0);
    d.correlator = U32::new(5 | TSO_POOL);
    one(&mut b, d);
    assert_eq!(b.completions(0), [(5 | TSO_POOL, 0)]);
}

#[test]
fn completions_come_up_to_five_a_message() {
    let mut b = Bench::up(Config { completion_wait: Span::from_us(50), ..Config::POWERVM }, 1);
    let handle = b.tx[0];
    let all: Vec<_> = (0..7).map(|i| b.desc(i, &tcp(100), 0).bytes()).collect();
    b.indirect(handle, &all);
    b.settle();
    let counts: Vec<u8> = (0..2).map(|_| TxComp::of(b.entry(0).unwrap()).num_comps).collect();
    assert_eq!(counts, [5, 2]);
    assert_eq!((b.d.counters.completions, b.d.counters.completion_messages), (7, 2));
}

#[test]
fn a_descriptor_that_wants_no_completion_gets_none_and_its_room_back() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let mut d = b.desc(0, &tcp(100), 0);
    d.flags1 = 0;
    for _ in 0..200 {
        assert_eq!(one(&mut b, d), status::SUCCESS);
    }
    assert_eq!(b.completions(0), []);
}

#[test]
fn a_queue_takes_what_was_granted_and_one_array_more() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let handle = b.tx[0];
    let d = b.desc(0, &tcp(100), 0).bytes();
    for _ in 0..5 {
        assert_eq!(b.indirect(handle, &[d; 16]), status::SUCCESS);
    }
    assert_eq!(b.direct(handle, d), status::RESOURCE);
    b.settle();
    assert_eq!(b.direct(handle, d), status::SUCCESS);
    b.settle();
    b.audit();
}

#[test]
fn the_address_is_inside_the_long_term_buffer() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let good = b.desc(0, &tcp(100), 0);
    let last = LTB + u64::from(LTB_LEN) - 154;
    b.put(last, &tcp(100));
    let cases = [
        (last, 1, rc::SUCCESS),
        (last + 1, 1, rc::INVALID_IOBA),
        (LTB - 1, 1, rc::INVALID_IOBA),
        (0, 1, rc::INVALID_IOBA),
        (u64::MAX, 1, rc::INVALID_IOBA),
        (LTB, 2, rc::PARAMETER),
        (LTB, 257, rc::PARAMETER),
    ];
    b.p[0].touched.clear();
    for (ioba, map, expected) in cases {
        one(&mut b, Tx { ioba: U64::new(ioba), dma_reg: U16::new(map), ..good });
        assert_eq!(b.completions(0), [(0, expected.into())]);
    }
    let reads: Vec<_> = b.p[0].touched.iter().filter(|t| t.0 >= LTB).collect();
    assert_eq!(reads, [&(last, 154)]);
    b.p[0].holes.push(LTB);
    one(&mut b, good);
    assert_eq!(b.completions(0), [(0, rc::INVALID_IOBA.into())], "its TCE is gone");
    b.audit();
}

#[test]
fn an_array_of_the_wrong_shape_is_refused_whole() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let handle = b.tx[0];
    let d = b.desc(0, &tcp(100), 0);
    let h = headers(&tcp(100), 0xf0, [14, 20, 20]);
    let bad = [
        vec![Tx { n_crq_elem: 2, ..d }.bytes()],
        vec![d.bytes(), Tx { n_crq_elem: 0, ..d }.bytes()],
        vec![d.bytes(), Tx { first: 0, ..d }.bytes()],
        vec![d.bytes(), h[0]],
        vec![Tx { n_crq_elem: 2, ..d }.bytes(), h[1]],
        vec![Tx { n_crq_elem: 3, ..d }.bytes(), h[0], h[0]],
    ];
    for array in bad {
        assert_eq!(b.indirect(handle, &array), status::PARAMETER);
    }
    assert_eq!(b.direct(handle, Tx { n_crq_elem: 2, ..d }.bytes()), status::PARAMETER);
    assert_eq!(
        b.call(hcall::SEND_SUB_CRQ_INDIRECT, &[handle, SCRATCH, 17]).status,
        status::PARAMETER
    );
    assert_eq!(
        b.call(hcall::SEND_SUB_CRQ_INDIRECT, &[handle, SCRATCH, 0]).status,
        status::PARAMETER
    );
    assert_eq!(
        b.call(hcall::SEND_SUB_CRQ_INDIRECT, &[handle, MEMORY, 1]).status,
        status::PARAMETER
    );
    assert_eq!(b.direct(handle + 1, d.bytes()), status::PARAMETER);
    b.settle();
    assert_eq!((b.d.counters.tx_taken, b.p[0].frames.len()), (0, 0));
}

#[test]
fn checksums_are_completed_and_padding_is_not_summed() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let mut padded = partial(2);
    padded.resize(60, 0xee);
    for f in [partial(101), padded] {
        let d = b.desc(0, &f, CSUM);
        one(&mut b, d);
    }
    assert_eq!(b.completions(0), [(0, 0); 2]);
    assert_eq!(b.p[0].frames[0].1, tcp(101));
    assert_eq!(verify(&b.p[0].frames[1].1).transport, Check::Good);
    assert_eq!(b.d.counters.tx_checksums, 2);
    assert_eq!(b.d.counters.headers_missing, 2, "over-cautious: it worked without");
    let d = b.desc(0, &partial(9), tx::CHKSUM_OFFLOAD | tx::PROT_IPV6 | tx::PROT_TCP);
    one(&mut b, d);
    assert_eq!(b.completions(0), [(0, rc::PARAMETER.into())]);
}

#[test]
fn headers_are_compared_byte_for_byte() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let (handle, f) = (b.tx[0], partial(300));
    let good = headers(&f, 0xf0, [14, 20, 20]);
    assert_eq!(good.len(), 3, "54 bytes: 24, 29 and 1");
    let d = Tx { n_crq_elem: 4, ..b.desc(0, &f, CSUM) }.bytes();
    let mut wrong = good.clone();
    wrong[2][3] ^= 1;
    let mut flag = good.clone();
    flag[0][7] = 0xf0;
    let mut length = good.clone();
    length[0][3] = 18;
    for (h, expected) in
        [(good, 0), (wrong, rc::PARAMETER), (flag, rc::PARAMETER), (length, rc::PARAMETER)]
    {
        assert_eq!(b.indirect(handle, &[d, h[0], h[1], h[2]]), status::SUCCESS);
        b.settle();
        assert_eq!(b.completions(0), [(0, expected.into())]);
    }
    assert_eq!((b.d.counters.headers_bad, b.d.counters.headers_missing), (3, 0));
    assert_eq!((b.d.counters.header_bytes, b.p[0].frames.len()), (4 * 54, 1));
}

#[test]
fn each_kind_of_packet_has_its_own_byte_of_the_bitstring() {
    // Plain L2; checksum L2 and L3; large send L4 alone.
    let mut b = Bench::up(strict([0xc0, 0xff, 0xe0, 0xff, 0x90, 0xff, 0xff, 0xff]), 1);
    let handle = b.tx[0];
    let kinds = [
        (0, 0xc0, tcp(50), 0),
        (CSUM, 0xe0, partial(50), 0),
        (CSUM | tx::LSO, 0x90, partial(3000), 1000),
    ];
    for (flags, wanted, f, mss) in kinds {
        let h = headers(&f, wanted, [14, 20, 20]);
        let d = Tx { n_crq_elem: 1 + h.len() as u8, mss: U16::new(mss), ..b.desc(0, &f, flags) };
        let mut array = vec![d.bytes()];
        array.extend(h);
        assert_eq!(b.indirect(handle, &array), status::SUCCESS);
        b.settle();
        assert_eq!(b.completions(0), [(0, 0)], "{wanted:x}");
    }
    assert_eq!(b.d.counters.errors_reported, 0);
}

#[test]
fn a_backing_device_that_needs_headers_ends_the_session_without_them() {
    let mut b = Bench::up(strict(Server::POWERVM.desc_req), 1);
    let handle = b.tx[0];
    let plain = b.desc(0, &tcp(100), 0);
    assert_eq!(one(&mut b, plain), status::SUCCESS);
    assert_eq!(b.completions(0), [(0, 0)], "a plain packet needs none here");
    let d = b.desc(1, &partial(100), CSUM);
    assert_eq!(one(&mut b, d), status::SUCCESS);
    let e = ErrorIndication::of(b.message().unwrap());
    assert_eq!(
        (e.cmd, e.flags, e.error_cause.get()),
        (cmd::ERROR_INDICATION, ERROR_FATAL, cause::ADAPTER)
    );
    assert_eq!(b.direct(handle, d.bytes()), status::CLOSED);
    assert_eq!((b.completions(0), b.d.counters.tx_lost), (vec![], 1));
    b.audit();
    // The client begins again.
    assert_eq!(b.call(hcall::FREE_CRQ, &[]).status, status::SUCCESS);
    b.bring_up(1);
    assert_eq!(b.direct(handle, d.bytes()), status::PARAMETER, "a stale handle");
}

#[test]
fn a_bitstring_that_wants_headers_of_plain_packets_fails_a_direct_send_of_one() {
    let mut b = Bench::up(strict([0xc0, 0, 0xf0, 0, 0xf0, 0, 0, 0]), 1);
    let d = b.desc(0, &tcp(100), 0);
    one(&mut b, d);
    assert_eq!(b.message().map(|m| m[1]), Some(cmd::ERROR_INDICATION));
    assert_eq!(b.p[0].frames.len(), 0);
}

#[test]
fn a_large_send_is_cut_and_reported_once() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let d = Tx { mss: U16::new(1000), ..b.desc(0, &partial(3500), CSUM | tx::LSO) };
    one(&mut b, d);
    assert_eq!(b.completions(0), [(0, 0)]);
    let lengths: Vec<usize> = b.p[0].frames.iter().map(|f| f.1.len()).collect();
    assert_eq!(lengths, [1054, 1054, 1054, 554]);
    assert!(b.p[0].frames.iter().all(|f| verify(&f.1).transport == Check::Good));
    for mss in [0, 1, 63] {
        one(&mut b, Tx { mss: U16::new(mss), ..d });
        assert_eq!(b.completions(0), [(0, rc::PARAMETER.into())], "{mss}");
    }
    b.audit();
}

#[test]
fn a_small_mss_freezes_an_adapter_that_cannot_cut_it() {
    let mut cfg = Config::POWERVM;
    cfg.servers[0].min_lso_mss = 224;
    let mut b = Bench::up(cfg, 1);
    let d = Tx { mss: U16::new(224), ..b.desc(0, &partial(600), CSUM | tx::LSO) };
    one(&mut b, d);
    assert_eq!((b.p[0].frames.len(), b.d.counters.lso_freezes), (3, 0));
    // Everything behind it is lost too, and nobody says so.
    for mss in [223, 224] {
        let _ = b.completions(0);
        one(&mut b, Tx { mss: U16::new(mss), ..d });
        assert_eq!(b.completions(0), [(0, 0)]);
    }
    assert_eq!((b.p[0].frames.len(), b.d.counters.lso_freezes), (3, 1));
    assert_eq!(b.d.counters.tx_discarded, 2);
    b.audit();
}

#[test]
fn a_send_has_no_room_while_completions_wait_for_the_client() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let handle = b.tx[0];
    let room = |b: &Bench| b.d.open_queues(0).find(|q| q.handle == handle).unwrap().room;
    let d = b.desc(0, &tcp(100), 0).bytes();
    let all = room(&b);
    let mut sent = 0;
    while b.direct(handle, d) == status::SUCCESS {
        sent += 1;
        assert!(sent < 10_000, "nothing ends it");
        b.settle();
    }
    assert_eq!((room(&b), b.direct(handle, d)), (0, status::RESOURCE));
    assert!(b.d.has_waiting(0));
    // All that the ring holds, and what waits beside it.
    assert_eq!(b.completions(0).len() as u64 + all, sent);
    while b.d.has_waiting(0) {
        // Any call writes what waits.
        b.call(hcall::VIOCTL, &[vioctl::GET_SESSION_TOKEN]);
        assert!(!b.completions(0).is_empty());
    }
    assert_eq!((room(&b), b.direct(handle, d)), (all, status::SUCCESS));
    b.audit();
}

#[test]
fn what_a_turn_has_no_time_for_comes_in_the_next() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let handle = b.tx[0];
    let d = Tx { mss: U16::new(1000), ..b.desc(0, &partial(3500), CSUM | tx::LSO) };
    for _ in 0..10 {
        b.direct(handle, d.bytes());
    }
    let sent = |b: &Bench| b.p[0].frames.len();
    assert!(sent(&b) < 10);
    while sent(&b) < 37 {
        let before = sent(&b);
        b.p[0].most_frames = before + 3;
        b.at(b.now + Span::from_ms(1));
        assert_eq!(sent(&b), before + 3);
        assert!(b.d.next_due().unwrap() <= b.now);
    }
    b.p[0].most_frames = usize::MAX;
    b.settle();
    assert_eq!(b.completions(0), [(0, 0); 10]);
    assert!(b.p[0].frames.is_sorted_by_key(|f| f.0), "the wire's time does not go back");
    b.audit();
}

#[test]
fn offloads_that_were_not_switched_on_are_refused() {
    let mut b = Bench::up(Config::POWERVM, 1);
    b.control_offload([0; 8]);
    for flags in [CSUM, CSUM | tx::LSO] {
        let d = Tx { mss: U16::new(1000), ..b.desc(0, &partial(3500), flags) };
        one(&mut b, d);
        assert_eq!(b.completions(0), [(0, rc::UNSUPPORTED_OPTION.into())]);
    }
}

#[test]
fn a_tag_is_inserted() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let d = Tx { flags2: tx::VLAN_INSERT, vlan_id: U16::new(0x2005), ..b.desc(0, &tcp(80), 0) };
    one(&mut b, d);
    assert_eq!(vlan::tag(&b.p[0].frames[0].1), Some(0x2005));
    assert_eq!(b.p[0].frames[0].1[16..], tcp(80)[12..]);
}

#[test]
fn the_time_line_behind_the_calls_takes_calls_descriptors_and_header_bytes() {
    let serial = Serial {
        direct: Span::from_ns(1000),
        indirect: Span::from_ns(1500),
        descriptor: Span::from_ns(10),
        header_byte: Span::from_ns(1),
        receive: Span::ZERO,
    };
    let mut b = Bench::up(Config { serial, wire_byte: Span::ZERO, ..Config::POWERVM }, 1);
    let (handle, f) = (b.tx[0], partial(300));
    let h = headers(&f, 0xf0, [14, 20, 20]);
    let d = b.desc(0, &f, CSUM);
    let start = b.now;
    b.direct(handle, d.bytes());
    b.indirect(handle, &[Tx { n_crq_elem: 4, ..d }.bytes(), h[0], h[1], h[2], d.bytes()]);
    assert_eq!(b.now, start, "the caller does not wait");
    b.settle();
    let when: Vec<u64> = b.p[0].frames.iter().map(|f| f.0.since(start).ps() / 1000).collect();
    assert_eq!(when, [1010, 1010 + 1500 + 40 + 54, 1010 + 1500 + 40 + 54 + 10]);
}

#[test]
fn the_wire_is_one_frame_after_another() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let handle = b.tx[0];
    let all: Vec<_> = (0..16).map(|i| b.desc(i, &tcp(8000), 0).bytes()).collect();
    b.indirect(handle, &all);
    b.settle();
    let gaps: Vec<u64> = b.p[0].frames.windows(2).map(|w| w[1].0.since(w[0].0).ps()).collect();
    assert_eq!(gaps, vec![(8054 + 24) * 80; 15]);
}

#[test]
fn without_a_link_frames_are_thrown_away_and_reported() {
    let mut b = Bench::up(Config::POWERVM, 1);
    b.d.set_link(0, b.now, false);
    b.settle();
    let m = LinkStateIndication::of(b.message().unwrap());
    assert_eq!((m.phys_link_state, m.logical_link_state), (link::DOWN, link::UP));
    let d = b.desc(0, &tcp(100), 0);
    one(&mut b, d);
    assert_eq!((b.completions(0), b.d.counters.tx_discarded), (vec![(0, 0)], 1));
    let q = b.ask(b.plain(cmd::LOGICAL_LINK_STATE, |m| m[2] = link::QUERY));
    assert_eq!(q[2], link::DOWN);
    b.audit();
}
