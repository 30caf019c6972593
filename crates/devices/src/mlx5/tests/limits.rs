//! WQEs, chunks and counts that stand exactly on a limit.

use super::*;

fn eth() -> EthSeg {
    EthSeg::default()
}

/// Writes a WQE of an Ethernet segment and the rest, which ends on 16 bytes, and settles. Returns
/// its syndrome, 0 if it succeeded.
fn run(b: &mut DeviceHarness, opcode: u8, eth: &EthSeg, rest: &[u8]) -> u8 {
    let all = [eth.as_bytes(), rest].concat();
    let ctrl = b.ctrl(opcode, 1 + all.len().div_ceil(16) as u32);
    b.put(&ctrl, &all);
    b.go();
    let cqe = b.cqes().pop().expect("a completion");
    if cqe.opcode() == 13 { cqe.syndrome() } else { 0 }
}

/// Inline data of `len` bytes, in whole segments.
fn inlined(len: u32) -> Vec<u8> {
    let mut s = inline(len).to_vec();
    s.resize((4 + len as usize).next_multiple_of(16), 0x77);
    s
}

#[test]
fn a_frame_is_as_long_as_the_longest_however_it_is_made() {
    let small = Config { max_frame: 200, ..NIC };
    for (len, failed) in [(200u32, 0), (201, syndrome::LOCAL_LENGTH)] {
        let sent = usize::from(failed == 0);
        let check = |what: &str, f: &dyn Fn(&mut DeviceHarness) -> u8| {
            let mut b = DeviceHarness::new(small);
            assert_eq!(f(&mut b), failed, "{what}: {len}");
            assert_eq!(
                (b.frames().len(), b.c.device.counters.packets),
                (sent, sent as u64),
                "{what}"
            );
            assert_eq!(b.c.device.counters.discarded, 1 - sent as u64);
        };
        check("data", &|b| {
            let d = b.data(0, len);
            run(b, SEND, &eth(), d.as_bytes())
        });
        check("two pieces", &|b| {
            let rest = [b.data(0, 150), b.data(500, len - 150)];
            run(b, SEND, &eth(), rest.as_bytes())
        });
        check("inline", &|b| run(b, SEND, &eth(), &inlined(len)));
        check("data and inline", &|b| {
            let rest = [b.data(0, 150).as_bytes(), &inlined(len - 150)].concat();
            run(b, SEND, &eth(), &rest)
        });
        check("header", &|b| {
            let e = EthSeg { inline_hdr_sz: U16::new(len as u16), ..eth() };
            run(b, SEND, &e, &vec![5; (len as usize - 2).next_multiple_of(16)])
        });
        check("session", &|b| {
            let d = b.data(0, len);
            run(b, MPSW, &eth(), d.as_bytes())
        });
        check("inline in a session", &|b| run(b, MPSW, &eth(), &inlined(len)));
        check("segment", &|b| {
            let e = EthSeg { inline_hdr_sz: U16::new(54), mss: U16::new(len as u16 - 54), ..eth() };
            let rest = [&tcp_header()[2..], &[0; 12]].concat();
            let rest = [&rest[..], b.data(0, 100).as_bytes()].concat();
            run(b, LSO, &EthSeg { inline_hdr_start: [2, 2], ..e }, &rest)
        });
    }
}

/// Ethernet, IPv4 and TCP of a large send.
fn tcp_header() -> Vec<u8> {
    let mut f = vec![2; 12];
    f.extend([8, 0, 0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    f.extend([0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0x10, 0, 0, 0, 0, 0]);
    f
}

/// A large send of these data segments.
fn large(b: &mut DeviceHarness, mss: u16, segments: &[DataSeg]) -> u8 {
    let header = tcp_header();
    let e = EthSeg {
        inline_hdr_sz: U16::new(54),
        inline_hdr_start: [2, 2],
        mss: U16::new(mss),
        ..eth()
    };
    let mut rest = header[2..].to_vec();
    rest.resize(64, 0);
    rest.extend_from_slice(segments.as_bytes());
    run(b, LSO, &e, &rest)
}

#[test]
fn a_large_send_has_as_much_as_its_capability_says() {
    let mut small = NIC;
    small.caps.log_max_lso = 10;
    for (len, failed) in [(1024, 0), (1025, syndrome::LOCAL_LENGTH)] {
        let mut b = DeviceHarness::new(small);
        let d = [b.data(0, 1000), b.data(2000, len - 1000)];
        assert_eq!(large(&mut b, 500, &d), failed, "{len}");
    }
}

#[test]
fn a_large_send_has_no_piece_that_is_empty_or_inline() {
    for count in [0, 1 << 31 | 4] {
        let mut b = DeviceHarness::new(NIC);
        let mut d = [b.data(0, 100), b.data(200, 100)];
        d[1].byte_count = U32::new(count);
        assert_eq!(large(&mut b, 100, &d), syndrome::LOCAL_LENGTH);
        assert_eq!((b.c.device.counters.discarded, b.frames().len()), (1, 0));
    }
}

#[test]
fn a_large_send_that_fails_on_its_way_discards_the_rest() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 60, false);
    b.go();
    // The second segment ends in a piece that may not be read. Three more were to come.
    let mut d = [b.data(0, 150), b.data(200, 250)];
    d[1].lkey = U32::new(0x77_7700);
    assert_eq!(large(&mut b, 100, &d), syndrome::LOCAL_PROT);
    let c = &b.c.device.counters;
    assert_eq!((c.packets, c.discarded, c.errors), (1 + 1, 3, 1));
}

#[test]
fn each_piece_of_a_large_send_is_read_once() {
    let mut b = DeviceHarness::new(NIC);
    let d = [b.data(0, 150), b.data(200, 250)];
    assert_eq!(large(&mut b, 100, &d), 0);
    let data = |a: &Access| match a {
        Access::Read(_, at, n) if *at >= DeviceHarness::DATA => {
            Some((at - DeviceHarness::DATA, *n))
        }
        _ => None,
    };
    let reads: Vec<_> = b.c.port.log.iter().filter_map(data).collect();
    assert_eq!(reads, [(0, 100), (100, 50), (200, 50), (250, 100), (350, 100)]);
}

#[test]
fn inline_data_may_end_with_the_wqe() {
    for (ds_less, failed) in [(0, 0), (1, syndrome::LOCAL_LENGTH)] {
        let mut b = DeviceHarness::new(NIC);
        // In the third segment: two of data, and two of 20 bytes inline.
        let rest = [b.data(0, 40).as_bytes(), &inlined(20)].concat();
        let all = [eth().as_bytes(), &rest].concat();
        let ctrl = b.ctrl(SEND, 1 + all.len() as u32 / 16 - ds_less);
        b.put(&ctrl, &all);
        b.go();
        let cqe = b.cqes().pop().unwrap();
        assert_eq!(if cqe.opcode() == 13 { cqe.syndrome() } else { 0 }, failed);
    }
}

#[test]
fn a_queue_that_wants_headers_wants_fourteen_bytes() {
    for (size, failed) in [(14, 0), (13, syndrome::LOCAL_QP_OP)] {
        let mut b = DeviceHarness::sized(NIC, 6, 4, 0, 0, 1);
        let e = EthSeg { inline_hdr_sz: U16::new(size), ..eth() };
        let rest = [&[7; 16][..], b.data(14, 60).as_bytes()].concat();
        assert_eq!(run(&mut b, SEND, &e, &rest), failed, "{size}");
    }
}

#[test]
fn a_session_that_fails_discards_each_packet_once() {
    let mut b = DeviceHarness::new(NIC);
    let mut bad = b.data(0, 60);
    bad.lkey = U32::new(0x77_7700);
    // A packet goes, one fails; two inline, of different length, and one more are left.
    let rest = [
        b.data(0, 60).as_bytes(),
        bad.as_bytes(),
        &inlined(20),
        &inlined(60),
        b.data(0, 60).as_bytes(),
    ]
    .concat();
    assert_eq!(run(&mut b, MPSW, &eth(), &rest), syndrome::LOCAL_PROT);
    let c = &b.c.device.counters;
    assert_eq!((c.packets, c.discarded, c.wqes), (1, 4, 1));
}

/// Rings with a control segment of one block, whatever the first WQE says.
fn announce_one_block(b: &mut DeviceHarness) {
    let ctrl = CtrlSeg::new(0, SEND, b.sqn, 3);
    let bytes = ctrl.as_bytes()[..8].try_into().expect("eight bytes");
    b.write(uar::SEND, 8, u64::from_le_bytes(bytes));
    b.settle();
}

#[test]
fn a_session_longer_than_what_was_announced_is_one_packet() {
    let mut b = DeviceHarness::new(NIC);
    let rest = [eth().as_bytes(), b.data(0, 60).as_bytes()].concat();
    let ctrl = b.ctrl(MPSW, 20);
    b.put(&ctrl, &rest);
    announce_one_block(&mut b);
    let c = &b.c.device.counters;
    assert_eq!((c.errors, c.discarded, c.packets, c.wqes), (1, 1, 0, 1));
}

#[test]
fn a_whole_ring_is_one_chunk() {
    let mut b = DeviceHarness::new(Config { fetch_chunk: 4096, ..NIC });
    for i in 0..64 {
        b.put_send(i * 64, 60, i == 63);
    }
    b.go();
    assert_eq!((b.fetches(), b.frames().len()), (vec![4096], 64));
    assert_eq!(b.cqes().len(), 1);
}

#[test]
fn wqes_that_end_with_their_chunk_are_not_read_again() {
    let mut b = DeviceHarness::new(Config { refetch: true, fetch_chunk: 128, ..NIC });
    for _ in 0..4 {
        b.put_send(0, 60, false);
    }
    b.go();
    assert_eq!((b.fetches(), b.frames().len()), (vec![128, 128], 4));
    // One that its length makes longer than all that was announced is read once.
    let mut b = DeviceHarness::new(Config { refetch: true, fetch_chunk: 64, ..NIC });
    let rest = [eth().as_bytes(), b.data(0, 60).as_bytes()].concat();
    let ctrl = b.ctrl(SEND, 8);
    b.put(&ctrl, &rest);
    announce_one_block(&mut b);
    assert_eq!((b.fetches(), b.c.device.counters.errors), (vec![64], 1));
}

#[test]
fn what_can_be_sent_goes_before_more_is_fetched() {
    // Blocks and data take no time to read; the pipe paces. All is announced at once.
    let mut b = DeviceHarness::new(Config {
        fetch_chunk: 64,
        packet_time: doorbell_hal::Span::ZERO,
        ..NIC
    });
    (0..4).for_each(|i| b.put_send(i * 64, 60, false));
    b.go();
    assert_eq!(order(&b, 0), "wdfwdfwdfwdf");
}

/// The accesses from the `first` on: WQEs and data read, frames sent.
fn order(b: &DeviceHarness, first: usize) -> String {
    let kind = |a: &Access| match a {
        Access::Read(_, at, _) if *at >= DeviceHarness::DATA => 'd',
        Access::Read(..) => 'w',
        Access::Frame(..) => 'f',
        _ => '-',
    };
    b.c.port.log[first..].iter().map(kind).collect()
}

#[test]
fn memory_on_chip_is_given_back_for_good() {
    let mut b = DeviceHarness::new(Config { fetch_chunk: 64, fetch_ahead: 192, ..NIC });
    let mut round = || {
        let first = b.c.port.log.len();
        (0..8).for_each(|_| b.put_send(0, 60, false));
        b.go();
        order(&b, first)
    };
    round();
    let steady = round();
    assert_ne!(steady, "wdf".repeat(8), "some are fetched in advance");
    for _ in 0..20 {
        assert_eq!(round(), steady);
    }
}

#[test]
fn a_ring_that_cannot_be_read_is_one_error_and_an_event() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 60, true);
    b.c.port.holes.push(DeviceHarness::SQ..DeviceHarness::SQ + 64);
    b.arm_eq(0);
    b.go();
    assert_eq!((b.c.device.counters.errors, b.frames().len()), (1, 0));
    assert_eq!(b.query_sq(), Ok(SqState::Error));
    let sqn = b.sqn;
    assert!(b.events().contains(&(event::WQ_CATAS, sqn)));
}

#[test]
fn a_transport_domain_with_an_interface_stays() {
    let mut b = DeviceHarness::new(NIC);
    b.command(|c| {
        let td = c.alloc(op::ALLOC_TRANSPORT_DOMAIN);
        let tis = c.tis(td).number();
        assert!(c.about(op::DEALLOC_TRANSPORT_DOMAIN, td).is_some(), "it is in use");
        assert_eq!(c.about(op::DESTROY_TIS, tis), None);
        assert_eq!(c.about(op::DEALLOC_TRANSPORT_DOMAIN, td), None);
    });
}
