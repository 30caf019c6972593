//! The mlx5 device alone: valid and invalid WQEs, doorbells and rings.

use doorbell_conformance::mlx5::{Access, CommandHarness, Common, DeviceHarness};
use doorbell_devices::mlx5::{Config, Mlx5};
use doorbell_hal::{Device, EventSource, Reg, Span, Time};
use doorbell_layout::mlx5::command::{Numbered, op};
use doorbell_layout::mlx5::{
    Caps, CmdStatus, CtrlSeg, DataSeg, ETH_WQE_INSERT_VLAN, EthSeg, SqState, event, opcode,
    syndrome, uar,
};
use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::{U16, U32, U64};

const NIC: Config = Config::CONNECTX;
const SEND: u8 = opcode::SEND;
const MPSW: u8 = opcode::ENHANCED_MPSW;
const LSO: u8 = opcode::LSO;
const QP_OP: u8 = syndrome::LOCAL_QP_OP;
const LENGTH: u8 = syndrome::LOCAL_LENGTH;
const PROT: u8 = syndrome::LOCAL_PROT;
const FLUSH: u8 = syndrome::WR_FLUSH;
const NO_ETH: EthSeg = EthSeg {
    swp_offsets: [0; 4],
    cs_flags: 0,
    swp_flags: 0,
    mss: U16::ZERO,
    flow_table_metadata: U32::ZERO,
    inline_hdr_sz: U16::ZERO,
    inline_hdr_start: [0; 2],
};

fn ps(ps: u64) -> Time {
    Time::from_ps(ps)
}
fn us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}
/// End in ps of a lone packet of 60 bytes announced at zero: 100 ns of pipeline, and 84 byte times
/// of 80 ps.
const LEFT: u64 = 100_000 + 84 * 80;
/// Time in ps of a packet of 60 bytes at the wire's rate.
const NEXT: u64 = 84 * 80;

/// Syndromes and counters of the CQEs since the last call.
fn cqes(b: &mut DeviceHarness) -> Vec<(u8, u16)> {
    b.cqes()
        .iter()
        .map(|c| (if c.opcode() == 13 { c.syndrome() } else { 0 }, c.wqe_counter.get()))
        .collect()
}

/// An inline segment's first dword.
fn inline(len: u32) -> [u8; 4] {
    (len | 1 << 31).to_be_bytes()
}

// ---- what is sent ----

#[test]
fn a_send_becomes_a_frame_and_a_cqe() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.frames(), [b.payload(0, 60)]);
    assert_eq!(b.cqe_times(), [ps(LEFT)]);
    let cqe = b.cqes()[0];
    assert_eq!((cqe.opcode(), cqe.wqe_counter.get(), cqe.op_own & 1), (0, 0, 0));
    assert_eq!(cqe.sop_drop_qpn.get(), u32::from(SEND) << 24 | b.sqn);
    assert_eq!((b.device.counters.packets, b.device.counters.bytes), (1, 60));
}

#[test]
fn short_frames_are_padded_with_zeros_whatever_was_there_before() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 1500, true);
    b.put_send(0, 14, true);
    b.put_session(1, true);
    let mut rest = NO_ETH.as_bytes().to_vec();
    rest.extend_from_slice(b.data(9, 59).as_bytes());
    let ctrl = b.ctrl(MPSW, 3);
    b.put(&ctrl, &rest);
    b.go();
    let padded = |offset, n: usize| [b.payload(offset, n), &vec![0; 60 - n]].concat();
    assert_eq!(b.frames()[1..], [&padded(0, 14)[..], &padded(0, 60), &padded(9, 59)]);
    assert_eq!(b.device.counters.bytes, 1500 + 14 + 60 + 59, "padding is not counted");
}

#[test]
fn frames_leave_in_the_order_of_the_wqes_and_of_the_segments_in_them() {
    let mut b = DeviceHarness::new(NIC);
    b.put_session(5, false);
    b.put_send(1000, 100, false);
    b.put_session(2, true);
    b.go();
    let starts: Vec<&[u8]> =
        [0, 64, 128, 192, 256, 1000, 0, 64].iter().map(|&o| b.payload(o, 60)).collect();
    let frames: Vec<&[u8]> = b.frames().iter().map(|f| &f[..60]).collect();
    assert_eq!(frames, starts);
    assert_eq!(cqes(&mut b), [(0, 3)], "one CQE, for the WQE that asked");
}

#[test]
fn a_packet_is_gathered_from_its_segments() {
    let mut b = DeviceHarness::new(NIC);
    let eth = EthSeg { inline_hdr_sz: U16::new(20), inline_hdr_start: [1, 2], ..NO_ETH };
    let mut rest = eth.as_bytes().to_vec();
    rest.extend(3..21u8);
    rest.resize(48, 0);
    rest.extend_from_slice(b.data(100, 7).as_bytes());
    rest.extend(inline(5));
    rest.extend([9; 12]);
    rest.extend_from_slice(b.data(300, 50).as_bytes());
    let ctrl = b.ctrl(SEND, 7);
    b.put(&ctrl, &rest);
    b.go();
    let expected =
        [&(1..21u8).collect::<Vec<_>>()[..], b.payload(100, 7), &[9; 5], b.payload(300, 50)]
            .concat();
    assert_eq!(b.frames(), [&expected[..]]);
}

#[test]
fn a_session_may_have_packets_inline() {
    let mut b = DeviceHarness::new(NIC);
    let mut rest = NO_ETH.as_bytes().to_vec();
    rest.extend(inline(70));
    rest.extend([0x77; 76]);
    rest.extend_from_slice(b.data(0, 64).as_bytes());
    let ctrl = b.ctrl(MPSW, 2 + 5 + 1);
    b.put(&ctrl, &rest);
    b.go();
    assert_eq!(b.frames(), [&[0x77; 70][..], b.payload(0, 64)]);
    assert_eq!(b.device.counters.mpwqe_packets, 2);
}

#[test]
fn a_tag_is_inserted_behind_the_addresses() {
    let mut b = DeviceHarness::new(NIC);
    let eth = EthSeg {
        inline_hdr_sz: U16::new(ETH_WQE_INSERT_VLAN),
        inline_hdr_start: [0x20, 0x05],
        ..NO_ETH
    };
    let rest = [eth.as_bytes(), b.data(0, 60).as_bytes()].concat();
    let ctrl = b.ctrl(SEND, 3);
    b.put(&ctrl, &rest);
    b.go();
    let f = b.payload(0, 60);
    assert_eq!(b.frames(), [&[&f[..12], &[0x81, 0, 0x20, 5], &f[12..]].concat()[..]]);
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones() {
    let mut b = DeviceHarness::new(NIC);
    let mut f = vec![2; 12];
    f.extend([0x08, 0x00, 0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // Pseudo-header 17 + 10, length 10: with this payload the sum is 0xffff.
    f.extend([0, 0, 0, 0, 0, 10, 0xaa, 0xaa]);
    f.extend((0xffff - 17 - 10 - 10u16).to_be_bytes());
    b.port.memory[DeviceHarness::DATA as usize..][..f.len()].copy_from_slice(&f);
    let eth = EthSeg { cs_flags: 0xc0, ..NO_ETH };
    let rest = [eth.as_bytes(), b.data(0, f.len() as u32).as_bytes()].concat();
    let ctrl = b.ctrl(SEND, 3);
    b.put(&ctrl, &rest);
    b.go();
    assert_eq!(b.frames()[0][40..42], [0xff, 0xff]);
}

#[test]
fn nops_are_done_without_a_cqe_unless_one_is_asked_for() {
    let mut b = DeviceHarness::new(NIC);
    for ask in [false, false, true, false] {
        let mut c = CtrlSeg::new(b.pc, opcode::NOP, b.sqn, 1);
        c.fm_ce_se = if ask { 8 } else { 0 };
        b.put(&c, &[]);
    }
    b.go();
    assert_eq!(cqes(&mut b), [(0, 2)]);
    assert_eq!((b.device.counters.nops, b.device.counters.wqes), (4, 4));
    assert_eq!(b.frames().len(), 0);
}

#[test]
fn both_completion_modes_that_say_always_write_a_cqe() {
    // qp.h: 0 on error only, 1 on the first error, 2 always, 3 always and an event.
    for (ce, written) in [(0, false), (4, false), (8, true), (0xc, true)] {
        let mut b = DeviceHarness::new(NIC);
        let mut ctrl = b.ctrl(SEND, 3);
        ctrl.fm_ce_se = ce;
        let rest = [NO_ETH.as_bytes(), b.data(0, 60).as_bytes()].concat();
        b.put(&ctrl, &rest);
        b.go();
        assert_eq!(!b.cqes().is_empty(), written, "fm_ce_se {ce:#x}");
    }
}

#[test]
fn a_wqe_may_wrap_at_the_end_of_the_ring() {
    // Linux pads so that none does; the queue is cyclic all the same.
    for chunk in [64, 1024] {
        let mut b = DeviceHarness::new(Config { fetch_chunk: chunk, ..NIC });
        for _ in 0..60 {
            b.put_send(0, 60, false);
        }
        b.go();
        b.port.log.clear();
        b.put_session(58, true);
        b.go();
        let expected: Vec<&[u8]> = (0..58).map(|i| b.payload(i * 64, 60)).collect();
        assert!(b.frames() == expected, "{} frames", b.frames().len());
        assert_eq!(cqes(&mut b), [(0, 60)]);
    }
}

#[test]
fn inline_bytes_at_the_end_of_the_ring_are_no_way_out_of_it() {
    let mut b = DeviceHarness::new(NIC);
    for _ in 0..63 {
        b.put_send(0, 60, false);
    }
    b.go();
    b.port.log.clear();
    let mut rest = NO_ETH.as_bytes().to_vec();
    rest.extend(inline(200));
    rest.extend((0..252u32).map(|i| i as u8));
    let ctrl = b.ctrl(MPSW, 2 + 16 - 3);
    b.put(&ctrl, &rest[..14 * 16]);
    b.put_send(0, 60, true);
    b.go();
    let expected: Vec<u8> = (0..200).collect();
    assert_eq!(b.frames()[0], expected);
}

// ---- malformed WQEs ----

/// Returns the CQE opcode of a WQE in a queue of its own, between two good ones.
fn ends_in(nic: Config, min_inline: u8, put: impl FnOnce(&mut DeviceHarness)) -> u8 {
    let mut b = DeviceHarness::sized(nic, 6, 4, 0, 0, min_inline);
    b.port.holes.push(DeviceHarness::DATA + 0x1_0000..DeviceHarness::DATA + 0x1_1000);
    put(&mut b);
    let blocks = b.pc;
    b.go();
    assert_eq!(b.frames().len(), 0, "nothing of it is sent");
    let c = b.device.counters;
    assert_eq!((c.packets, c.errors, c.discarded), (0, 1, 1));
    assert_eq!(b.query_sq(), Ok(SqState::Error));
    let cqe = cqes(&mut b);
    assert_eq!(cqe.len(), 1);
    assert_eq!(cqe[0].1, 0);
    // The queue counts on: what comes later is flushed at its own counter.
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(cqes(&mut b), [(FLUSH, blocks)]);
    cqe[0].0
}

/// A WQE of `ds` data segments from `rest`.
fn wqe(
    opcode: u8,
    ds: u32,
    rest: impl FnOnce(&DeviceHarness) -> Vec<u8>,
) -> impl FnOnce(&mut DeviceHarness) {
    move |b| {
        let rest = rest(b);
        let ctrl = b.ctrl(opcode, ds);
        b.put(&ctrl, &rest);
    }
}

/// An Ethernet segment and one data segment.
fn one(
    eth: EthSeg,
    data: impl FnOnce(&DeviceHarness) -> DataSeg,
) -> impl FnOnce(&DeviceHarness) -> Vec<u8> {
    move |b| [eth.as_bytes(), data(b).as_bytes()].concat()
}

fn good(b: &DeviceHarness) -> DataSeg {
    b.data(0, 60)
}

#[test]
fn unknown_opcodes_are_refused() {
    for op in (0..=255u8).filter(|op| ![opcode::NOP, SEND, LSO, MPSW].contains(op)) {
        assert_eq!(ends_in(NIC, 0, wqe(op, 3, one(NO_ETH, good))), QP_OP, "{op:#x}");
    }
}

#[test]
fn an_opmod_is_refused() {
    let put = |b: &mut DeviceHarness| {
        let mut ctrl = b.ctrl(SEND, 3);
        ctrl.opmod_idx_opcode = U32::new(ctrl.opmod_idx_opcode.get() | 1 << 24);
        let rest = one(NO_ETH, good)(b);
        b.put(&ctrl, &rest);
    };
    assert_eq!(ends_in(NIC, 0, put), QP_OP);
}

#[test]
fn a_wrong_producer_counter_is_refused() {
    // The doorbell is right, the WQE in memory is not.
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 60, true);
    b.port.memory[DeviceHarness::SQ as usize + 2] = 1;
    b.go();
    assert_eq!(cqes(&mut b), [(QP_OP, 0)]);
}

#[test]
fn a_length_of_no_segments_is_refused() {
    for op in [opcode::NOP, SEND, MPSW, LSO] {
        let mut b = DeviceHarness::new(NIC);
        let ctrl = b.ctrl(op, 0);
        b.put(&ctrl, &[]);
        b.go();
        assert_eq!(cqes(&mut b), [(QP_OP, 0)], "opcode {op:#x}");
    }
}

#[test]
fn a_wqe_longer_than_what_was_announced_is_refused() {
    let mut b = DeviceHarness::new(NIC);
    b.put_session(6, true);
    // In memory it says three blocks; two were announced.
    b.port.memory[DeviceHarness::SQ as usize + 7] = 10;
    b.go();
    assert_eq!(cqes(&mut b), [(QP_OP, 0)]);
    assert_eq!(b.frames().len(), 0);
}

#[test]
fn sends_without_data_are_refused() {
    assert_eq!(ends_in(NIC, 0, wqe(SEND, 1, |_| vec![])), QP_OP);
    assert_eq!(ends_in(NIC, 0, wqe(SEND, 2, |_| NO_ETH.as_bytes().to_vec())), LENGTH);
    assert_eq!(ends_in(NIC, 0, wqe(MPSW, 1, |_| vec![])), QP_OP);
    assert_eq!(ends_in(NIC, 0, wqe(MPSW, 2, |_| NO_ETH.as_bytes().to_vec())), QP_OP);
}

#[test]
fn keys_that_do_not_exist_are_refused() {
    for op in [SEND, MPSW] {
        for key in [0, 1, 0xff, 0x10_0100, u32::MAX] {
            let seg = move |b: &DeviceHarness| DataSeg {
                lkey: U32::new(b.lkey ^ key ^ u32::from(key == 0)),
                ..b.data(0, 60)
            };
            assert_eq!(ends_in(NIC, 0, wqe(op, 3, one(NO_ETH, seg))), PROT, "key ^ {key:#x}");
        }
    }
}

#[test]
fn addresses_that_are_not_there_are_refused() {
    for op in [SEND, MPSW] {
        let hole = |b: &DeviceHarness| b.data(0x1_0000, 60);
        assert_eq!(ends_in(NIC, 0, wqe(op, 3, one(NO_ETH, hole))), PROT);
        let across = |b: &DeviceHarness| b.data(0x1_0000 - 59, 60);
        assert_eq!(ends_in(NIC, 0, wqe(op, 3, one(NO_ETH, across))), PROT);
        let nowhere =
            |b: &DeviceHarness| DataSeg { addr: U64::new(u64::MAX - 10), ..b.data(0, 60) };
        assert_eq!(ends_in(NIC, 0, wqe(op, 3, one(NO_ETH, nowhere))), PROT);
    }
}

#[test]
fn lengths_of_nothing_and_of_too_much_are_refused() {
    for op in [SEND, MPSW] {
        for len in [0, NIC.max_frame + 1, 0x7fff_ffff] {
            let seg = move |b: &DeviceHarness| b.data(0, len);
            assert_eq!(ends_in(NIC, 0, wqe(op, 3, one(NO_ETH, seg))), LENGTH, "{len} bytes");
        }
    }
    let two = |b: &DeviceHarness| {
        let half = b.data(0, NIC.max_frame / 2 + 1);
        [NO_ETH.as_bytes(), half.as_bytes(), half.as_bytes()].concat()
    };
    assert_eq!(ends_in(NIC, 0, wqe(SEND, 4, two)), LENGTH);
}

#[test]
fn inline_lengths_beyond_the_wqe_are_refused() {
    for n in [19, 100, 978, 0x7fff] {
        let eth = EthSeg { inline_hdr_sz: U16::new(n), ..NO_ETH };
        assert_eq!(
            ends_in(NIC, 0, wqe(SEND, 2, |_| eth.as_bytes().to_vec())),
            QP_OP,
            "header of {n}"
        );
    }
    for op in [SEND, MPSW] {
        for n in [13, 100, 0x3ff] {
            let seg = move |_: &DeviceHarness| [NO_ETH.as_bytes(), &inline(n), &[0; 12]].concat();
            assert_eq!(ends_in(NIC, 0, wqe(op, 3, seg)), LENGTH, "{n} bytes inline");
        }
    }
    let none = |_: &DeviceHarness| [NO_ETH.as_bytes(), &inline(0), &[0; 12]].concat();
    assert_eq!(ends_in(NIC, 0, wqe(MPSW, 3, none)), LENGTH);
}

#[test]
fn inline_bytes_longer_than_a_frame_are_refused() {
    let nic = Config { max_frame: 60, ..NIC };
    let eth = EthSeg { inline_hdr_sz: U16::new(200), ..NO_ETH };
    let header = move |_: &DeviceHarness| [eth.as_bytes(), &[0; 13 * 16]].concat();
    assert_eq!(ends_in(nic, 0, wqe(SEND, 15, header)), LENGTH);
    for op in [SEND, MPSW] {
        let seg = |_: &DeviceHarness| [NO_ETH.as_bytes(), &inline(200), &[0; 13 * 16 - 4]].concat();
        assert_eq!(ends_in(nic, 0, wqe(op, 15, seg)), LENGTH);
    }
}

#[test]
fn a_session_needs_the_capability() {
    let nic = Config { caps: Caps { enhanced_mpw: false, ..NIC.caps }, ..NIC };
    assert_eq!(ends_in(nic, 0, wqe(MPSW, 3, one(NO_ETH, good))), QP_OP);
}

#[test]
fn a_queue_that_wants_headers_inlined_gets_them() {
    for mode in 1..=3 {
        assert_eq!(ends_in(NIC, mode, wqe(SEND, 3, one(NO_ETH, good))), QP_OP);
        assert_eq!(
            ends_in(NIC, mode, wqe(MPSW, 3, one(NO_ETH, good))),
            QP_OP,
            "a session has no header to inline"
        );
    }
}

#[test]
fn large_sends_that_cannot_be_cut_are_refused() {
    let mut header = vec![2; 12];
    header.extend([0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    header.extend([0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    let large = |mss: u16, header: Vec<u8>, payload: u32| {
        move |b: &mut DeviceHarness| {
            let eth = EthSeg {
                mss: U16::new(mss),
                inline_hdr_sz: U16::new(header.len() as u16),
                inline_hdr_start: [
                    header.first().copied().unwrap_or(0),
                    header.get(1).copied().unwrap_or(0),
                ],
                ..NO_ETH
            };
            let mut rest = eth.as_bytes().to_vec();
            rest.extend(header.iter().skip(2));
            rest.resize(16 + header.len().saturating_sub(2).next_multiple_of(16), 0);
            let data = b.data(0, payload);
            if payload > 0 {
                rest.extend_from_slice(data.as_bytes());
            }
            let ctrl = b.ctrl(LSO, 1 + rest.len() as u32 / 16);
            b.put(&ctrl, &rest);
        }
    };
    let mut b = DeviceHarness::new(NIC);
    large(1000, header.clone(), 2500)(&mut b);
    b.go();
    assert_eq!(cqes(&mut b), [(0, 0)], "this one is good");
    let lengths: Vec<usize> = b.frames().iter().map(|f| f.len()).collect();
    assert_eq!(lengths, [1054, 1054, 554]);

    assert_eq!(ends_in(NIC, 0, large(0, header.clone(), 60)), LENGTH);
    assert_eq!(ends_in(NIC, 0, large(1000, header.clone(), 0)), LENGTH);
    assert_eq!(ends_in(NIC, 0, large(1000, vec![], 60)), QP_OP);
    assert_eq!(ends_in(NIC, 0, large(1000, vec![7; 54], 60)), QP_OP);
    assert_eq!(ends_in(NIC, 0, large(1000, header[..40].to_vec(), 60)), QP_OP);
    assert_eq!(ends_in(NIC, 0, large(9960, header.clone(), 60)), LENGTH);
    let without = Config { caps: Caps { log_max_lso: 0, ..NIC.caps }, ..NIC };
    assert_eq!(ends_in(without, 0, large(1000, header.clone(), 60)), QP_OP);
    let small = Config { caps: Caps { log_max_lso: 5, ..NIC.caps }, ..NIC };
    assert_eq!(ends_in(small, 0, large(1000, header.clone(), 33)), LENGTH);
    let absurd = Config { caps: Caps { log_max_lso: 255, ..NIC.caps }, ..NIC };
    assert_eq!(ends_in(absurd, 0, large(0, header, 60)), LENGTH);
}

// ---- errors and recovery ----

#[test]
fn behind_an_error_only_those_that_ask_are_flushed_with_a_cqe() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 60, false);
    let ctrl = b.ctrl(0x0b, 3);
    b.put(&ctrl, &[0; 32]);
    b.put_send(0, 60, false);
    b.put_session(7, true);
    let mut nop = b.ctrl(opcode::NOP, 1);
    nop.fm_ce_se = 0;
    b.put(&nop, &[]);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.frames().len(), 1);
    assert_eq!(cqes(&mut b), [(QP_OP, 1), (FLUSH, 3), (FLUSH, 7)]);
    let c = b.device.counters;
    assert_eq!((c.wqes, c.packets, c.discarded, c.errors), (6, 1, 1 + 1 + 7 + 1, 1));
}

#[test]
fn an_error_is_not_reported_before_what_was_sent_before_it() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 9000, true);
    b.put_send(0, 0, true);
    b.go();
    assert_eq!(cqes(&mut b), [(0, 0), (LENGTH, 1)]);
    let times = b.cqe_times();
    assert_eq!(times[0], times[1]);
}

#[test]
fn an_error_cqe_says_which_wqe_of_which_queue() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 0, true);
    b.go();
    let cqe = b.cqes()[0];
    assert_eq!(cqe.op_own, 13 << 4);
    assert_eq!(cqe.syndrome(), LENGTH);
    assert_eq!(cqe.sop_drop_qpn.get(), u32::from(SEND) << 24 | b.sqn);
}

#[test]
fn a_session_that_fails_in_the_middle_has_sent_what_came_before() {
    let mut b = DeviceHarness::new(NIC);
    b.put_session(5, true);
    // The third data segment's length.
    b.port.memory[DeviceHarness::SQ as usize + 64..][..4].fill(0);
    b.go();
    assert_eq!(b.frames().len(), 2);
    assert_eq!(cqes(&mut b), [(LENGTH, 0)]);
    let c = b.device.counters;
    assert_eq!((c.packets, c.discarded, c.mpwqe_packets), (2, 3, 2));
}

#[test]
fn a_queue_taken_to_err_in_the_middle_of_a_session_counts_each_packet_once() {
    let mut b = DeviceHarness::new(NIC);
    b.put_session(20, true);
    b.ring();
    b.until(ps(4_000 * 7));
    let sent = b.device.counters.packets;
    assert!((1..20).contains(&sent), "{sent}");
    b.modify_sq(SqState::Ready, SqState::Error).unwrap();
    b.settle();
    let c = b.device.counters;
    assert_eq!((c.packets, c.discarded), (sent, 20 - sent));
    assert_eq!(cqes(&mut b), [(FLUSH, 0)]);
}

#[test]
fn through_rst_to_rdy_a_queue_counts_from_zero() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 60, true);
    b.put_send(0, 0, true);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(cqes(&mut b), [(0, 0), (LENGTH, 1), (FLUSH, 2)]);
    let modify = |b: &mut DeviceHarness, from, to| b.modify_sq(from, to);
    assert_eq!(modify(&mut b, SqState::Ready, SqState::Reset), Err(CmdStatus::BadResourceState));
    assert_eq!(modify(&mut b, SqState::Error, SqState::Ready), Err(CmdStatus::BadResourceState));
    assert_eq!(modify(&mut b, SqState::Error, SqState::Reset), Ok(()));
    assert_eq!(modify(&mut b, SqState::Reset, SqState::Ready), Ok(()));
    b.pc = 0;
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(cqes(&mut b), [(0, 0)]);
}

#[test]
fn a_queue_whose_ring_is_gone_says_so_by_an_event() {
    let mut b = DeviceHarness::new(NIC);
    b.port.holes.push(DeviceHarness::SQ..DeviceHarness::SQ + 4096);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.events(), [(event::WQ_CATAS, b.sqn)]);
    assert_eq!(b.query_sq(), Ok(SqState::Error));
    assert_eq!(b.cqes(), []);
}

// ---- doorbells ----

#[test]
fn doorbells_in_rst_are_ignored() {
    let mut b = DeviceHarness::new(NIC);
    b.modify_sq(SqState::Ready, SqState::Reset).unwrap();
    b.put_send(0, 60, true);
    b.port.forbidden = true;
    b.go();
    assert_eq!(b.device.counters.bad_doorbells, 1);
    b.modify_sq(SqState::Reset, SqState::Ready).unwrap();
    b.settle();
    b.port.forbidden = false;
    b.go();
    assert_eq!(b.frames().len(), 1, "the next one counts");
}

#[test]
fn the_doorbell_record_is_not_read() {
    let mut b = DeviceHarness::new(NIC);
    b.port.holes.push(DeviceHarness::DBR..DeviceHarness::DBR + 8);
    b.port.memory[DeviceHarness::DBR as usize + 4..][..4].copy_from_slice(&9u32.to_be_bytes());
    b.put_send(0, 60, true);
    b.put_send(0, 60, true);
    b.pc = 1;
    let bell = b.ctrl(SEND, 3).as_bytes()[..8].try_into().unwrap();
    b.write(uar::SEND, 8, u64::from_le_bytes(bell));
    b.settle();
    assert_eq!(b.frames().len(), 2);
    let record = DeviceHarness::DBR..DeviceHarness::DBR + 64;
    let mut log = b.port.log.iter();
    assert!(!log.any(|a| matches!(a, Access::Read(_, at, _) if record.contains(at))));
}

#[test]
fn doorbells_that_make_no_sense_are_counted_and_do_nothing() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 60, true);
    b.go();
    b.port.forbidden = true;
    let bell = |pc: u16, sqn: u32, ds: u32| {
        u64::from_le_bytes(CtrlSeg::new(pc, SEND, sqn, ds).as_bytes()[..8].try_into().unwrap())
    };
    let (sqn, page) = (b.sqn, Mlx5::FIRST_UAR * uar::PAGE);
    let before = b.device.counters;
    // No such queue; nothing new; further than the ring is long; backwards.
    let senseless = [
        bell(1, sqn + 1, 3),
        bell(1, 0xff_ffff, 3),
        bell(0, sqn, 3),
        bell(65, sqn, 3),
        bell(65535, sqn, 3),
    ];
    for v in senseless {
        b.write(uar::SEND, 8, v);
    }
    let good = bell(1, sqn, 3);
    for (r, size) in [
        (Reg::at(page + uar::SEND), 4),
        (Reg::at(page + uar::SEND + 8), 8),
        (Reg::at(page + uar::SEND + uar::PAGE), 8),
        (Reg::at(uar::SEND), 8),
        (Reg { region: 2, offset: page + uar::SEND }, 8),
        (Reg::at(u32::MAX), 1),
    ] {
        b.device.mmio_write(&mut b.port, b.now, r, size, good);
    }
    b.write(uar::CQ_ARM, 8, 0);
    b.write(uar::EQ_ARM, 4, 0xff);
    b.settle();
    let after = b.device.counters;
    assert_eq!(after.doorbells, before.doorbells);
    assert_eq!(after.bad_doorbells, before.bad_doorbells + 5 + 6 + 2);
}

#[test]
fn a_doorbell_page_register_reads_as_zero() {
    let mut b = DeviceHarness::new(NIC);
    assert_eq!(
        b.device.mmio_read(
            &mut b.port,
            Time::ZERO,
            Reg::at(Mlx5::FIRST_UAR * uar::PAGE + uar::SEND),
            4
        ),
        0
    );
}

#[test]
fn many_doorbells_before_the_first_fetch_are_one() {
    let mut b = DeviceHarness::new(NIC);
    for _ in 0..8 {
        b.put_send(0, 60, true);
        b.ring();
    }
    b.settle();
    assert_eq!(b.fetches(), [512]);
    assert_eq!(b.device.counters.doorbells, 8);
    assert_eq!(cqes(&mut b).len(), 8);
}

// ---- fetch ----

#[test]
fn wqes_are_fetched_in_chunks_that_end_at_the_rings_end() {
    let fetched = |chunk: u32, refetch: bool| {
        let mut b = DeviceHarness::new(Config { fetch_chunk: chunk, refetch, ..NIC });
        for _ in 0..4 {
            b.put_session(58, false);
        }
        b.go();
        b.port.log.clear();
        // 15 blocks from block 60 on: the ring ends after 4.
        b.put_session(58, true);
        b.go();
        b.fetches()
    };
    assert_eq!(fetched(1024, false), [256, 704]);
    assert_eq!(fetched(256, false), [256, 256, 256, 192]);
    assert_eq!(fetched(64, false), vec![64; 15]);
}

#[test]
fn a_wqe_cut_by_a_chunks_end_is_fetched_again_from_its_start() {
    let run = |refetch: bool, chunk: u32| {
        let mut b = DeviceHarness::new(Config { fetch_chunk: chunk, refetch, ..NIC });
        // 9, 9 and 9 blocks.
        for i in 0..3 {
            b.put_session(32, i == 2);
        }
        b.go();
        assert_eq!(b.frames().len(), 96);
        let c = b.device.counters;
        assert_eq!(c.fetched_bytes, b.fetches().iter().sum::<usize>() as u64);
        assert_eq!(c.fetches, b.fetches().len() as u64);
        b.fetches()
    };
    assert_eq!(run(false, 1024), [1024, 704]);
    // 16 blocks: the first session whole, 7 of the second's 9 in vain.
    assert_eq!(run(true, 1024), [1024, 1024, 576]);
    // A chunk shorter than a WQE: read, found too short, read whole.
    assert_eq!(run(true, 256), [256, 576, 256, 576, 256, 576]);
}

#[test]
fn no_more_is_fetched_ahead_than_fits_on_chip() {
    let mut b = DeviceHarness::new(Config { fetch_chunk: 256, fetch_ahead: 512, ..NIC });
    for i in 0..40 {
        b.put_send(0, 60, i == 39);
    }
    b.ring();
    b.until(Time::ZERO);
    assert_eq!(b.fetches(), [256, 256], "the third waits until four packets have been executed");
    b.settle();
    assert_eq!(b.frames().len(), 40);
    assert_eq!(b.fetches().iter().sum::<usize>(), 40 * 64);
}

// ---- completion queues ----

#[test]
fn the_owner_bit_flips_each_time_round() {
    let mut b = DeviceHarness::new(NIC);
    for i in 0..40u32 {
        b.put_send(0, 60, true);
        b.port.memory[DeviceHarness::DBR as usize + 64..][..4].copy_from_slice(&i.to_be_bytes());
        b.go();
        let cqe = b.cqes();
        assert_eq!(cqe.len(), 1, "entry {i}");
        assert_eq!(u32::from(cqe[0].op_own & 1), i >> 4 & 1);
    }
    assert_eq!(b.events(), []);
}

#[test]
fn a_cq_that_overruns_dies_and_says_so() {
    let mut b = DeviceHarness::new(NIC);
    for _ in 0..18 {
        b.put_send(0, 60, true);
    }
    b.go();
    assert_eq!(b.frames().len(), 18);
    assert_eq!(b.cqes().len(), 16);
    assert_eq!(b.events(), [(event::CQ_ERROR, b.cqn)]);
    assert_eq!(b.device.counters.lost_entries, 2);
    // Reading it now helps no more.
    b.arm_cq(16);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!((b.cqes(), b.events()), (vec![], vec![]));
}

#[test]
fn a_cq_that_is_not_there_dies_and_says_so() {
    let mut b = DeviceHarness::new(NIC);
    b.port.holes.push(DeviceHarness::CQ..DeviceHarness::CQ + 64);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.events(), [(event::CQ_ERROR, b.cqn)]);
}

#[test]
fn one_arm_gives_one_event() {
    let mut b = DeviceHarness::new(NIC);
    for _ in 0..3 {
        b.put_send(0, 60, true);
        b.go();
    }
    assert_eq!(b.events(), [], "it was never armed");
    b.arm_cq(3);
    b.settle();
    assert_eq!(b.events(), [], "nothing is new");
    for _ in 0..3 {
        b.put_send(0, 60, true);
        b.go();
    }
    assert_eq!(b.events(), [(event::COMPLETION, b.cqn)]);
    b.arm_cq(6);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.events(), [(event::COMPLETION, b.cqn)]);
}

#[test]
fn a_cq_armed_behind_its_entries_has_its_event_at_once() {
    for (period, count) in [(0, 0), (16, 32)] {
        let mut b = DeviceHarness::sized(NIC, 6, 4, period, count, 0);
        b.arm_cq(0);
        b.put_send(0, 60, true);
        b.put_send(0, 60, true);
        b.go();
        assert_eq!(b.events().len(), 1);
        // One of the two was read. The event of both has gone by.
        b.until(us(50));
        b.port.log.clear();
        b.arm_cq(1);
        b.settle();
        assert_eq!(b.events(), [(event::COMPLETION, b.cqn)], "period {period}");
        assert_eq!(b.event_times(), [us(50)]);
        b.arm_cq(2);
        b.settle();
        assert_eq!(b.events(), []);
    }
}

#[test]
fn an_entry_that_no_event_spoke_of_is_reported_after_its_moderation() {
    let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 32, 0);
    b.put_send(0, 60, true);
    b.ring();
    b.until(us(10));
    b.arm_cq(0);
    b.settle();
    assert_eq!(b.event_times(), [ps(LEFT) + Span::from_us(16)]);
    let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 32, 0);
    b.put_send(0, 60, true);
    b.ring();
    b.until(us(40));
    b.arm_cq(0);
    b.settle();
    assert_eq!(b.event_times(), [us(40)], "its time was over when the CQ was armed");
}

#[test]
fn an_event_comes_a_period_after_the_first_entry() {
    let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 32, 0);
    b.arm_cq(0);
    for _ in 0..5 {
        b.put_send(0, 60, true);
    }
    b.ring();
    b.until(us(1000));
    assert_eq!(b.event_times(), [ps(LEFT) + Span::from_us(16)]);
    assert_eq!(b.messages(), b.event_times());
}

#[test]
fn an_event_comes_with_the_entry_that_makes_the_count() {
    let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 4, 0);
    b.arm_cq(0);
    for _ in 0..6 {
        b.put_send(0, 60, true);
    }
    b.ring();
    b.until(us(1000));
    assert_eq!(b.event_times(), [ps(LEFT + 3 * NEXT)], "not when the first was written");
    assert_eq!(b.cqe_times()[3], ps(LEFT + 3 * NEXT));
}

#[test]
fn entries_and_events_are_written_in_the_order_of_their_times() {
    // However far the device is moved at once.
    let run = |steps: &[u64]| {
        let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 32, 0);
        b.arm_cq(0);
        for at in [0, 20, 40] {
            b.now = us(at);
            b.put_send(0, 60, true);
            b.ring();
        }
        for &t in steps {
            b.until(us(t));
        }
        let writes =
            b.port.log.into_iter().filter(|a| matches!(a, Access::Write(..) | Access::Message(..)));
        writes.collect::<Vec<_>>()
    };
    let at_once = run(&[1000]);
    let times: Vec<Time> = at_once
        .iter()
        .map(
            |a| if let Access::Write(t, ..) | Access::Message(t, _) = a { *t } else { Time::NEVER },
        )
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(times[1], ps(LEFT) + Span::from_us(16), "the event precedes the second entry");
}

#[test]
fn an_eq_armed_behind_its_entries_interrupts_at_once() {
    let mut b = DeviceHarness::new(NIC);
    b.arm_cq(0);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.messages().len(), 1, "EQs are created armed");
    b.arm_cq(1);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.events().len(), 2);
    assert_eq!(b.messages().len(), 1, "not armed");
    b.now = us(7);
    b.arm_eq(1);
    assert_eq!(b.messages()[1], us(7));
    b.arm_eq(2);
    b.arm_cq(2);
    b.settle();
    assert_eq!(b.messages().len(), 2);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.messages().len(), 3);
}

#[test]
fn an_eq_that_is_only_updated_stays_as_it_was() {
    let mut b = DeviceHarness::new(NIC);
    b.arm_cq(0);
    b.put_send(0, 60, true);
    b.go();
    let v = u64::from((b.eqn << 24 | 1).swap_bytes());
    b.write(uar::EQ_UPDATE, 4, v);
    b.arm_cq(1);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!((b.events().len(), b.messages().len()), (2, 1));
}

#[test]
fn an_interrupt_is_not_older_than_the_arm_that_asked_for_it() {
    let mut b = DeviceHarness::new(NIC);
    b.arm_cq(0);
    b.put_send(0, 60, true);
    b.go();
    b.arm_cq(1);
    b.put_send(0, 60, true);
    b.ring();
    let rung = b.now;
    // The event is due about 107 ns from here; the EQ is armed later than that, before
    // anybody moved the device.
    b.now = us(3);
    b.arm_eq(1);
    b.settle();
    assert!(b.event_times()[1] > rung);
    assert_eq!(b.messages()[1], us(3));
}

#[test]
fn one_wqe_in_so_many_fails_when_that_is_asked_for() {
    let mut b = DeviceHarness::new(Config { fail_every: 3, ..NIC });
    b.put_send(0, 60, true);
    b.put_send(0, 60, true);
    b.put_session(5, true);
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(cqes(&mut b), [(0, 0), (0, 1), (QP_OP, 2), (FLUSH, 4)]);
    assert_eq!((b.frames().len(), b.device.counters.discarded), (2, 6));
    b.modify_sq(SqState::Error, SqState::Reset).unwrap();
    b.modify_sq(SqState::Reset, SqState::Ready).unwrap();
    b.pc = 0;
    b.put_send(0, 60, true);
    b.go();
    assert_eq!(b.frames().len(), 3, "and the queue recovers");
}

// ---- ends ----

/// A device in the middle of everything: WQEs announced, fetched, executed, CQEs
/// and events on their way.
fn busy() -> DeviceHarness {
    let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 32, 0);
    b.arm_cq(0);
    for i in 0..4 {
        b.put_session(20, i % 2 == 0);
        b.ring();
    }
    b.until(ps(LEFT + 25 * NEXT));
    assert!((1..80).contains(&b.frames().len()));
    b.cqes();
    b.port.log.clear();
    b.port.forbidden = true;
    b
}

#[test]
fn after_a_reset_of_the_queue_nothing_of_it_is_touched() {
    let mut b = busy();
    b.modify_sq(SqState::Ready, SqState::Reset).unwrap();
    b.port.forbidden = false;
    // One entry was written before; its event is the CQ's business.
    b.settle();
    assert_eq!((b.cqes().len(), b.frames().len(), b.events().len()), (0, 0, 1));
    assert!(!b.port.log.iter().any(|a| matches!(a, Access::Read(..))));
}

#[test]
fn after_destruction_nothing_is_touched() {
    let mut b = busy();
    let (sqn, cqn, eqn, mkey) = (b.sqn, b.cqn, b.eqn, b.lkey >> 8);
    assert_eq!(b.about(op::DESTROY_EQ, eqn), Err(CmdStatus::BadResourceState));
    assert_eq!(b.about(op::DESTROY_CQ, cqn), Err(CmdStatus::BadResourceState));
    let all = [
        (op::DESTROY_SQ, sqn),
        (op::DESTROY_CQ, cqn),
        (op::DESTROY_EQ, eqn),
        (op::DESTROY_MKEY, mkey),
    ];
    for (destroy, n) in all {
        b.about(destroy, n).unwrap();
    }
    b.until(us(1000));
    assert_eq!(b.device.next_due(), None);
    for (destroy, n) in all {
        assert_eq!(b.about(destroy, n), Err(CmdStatus::BadResource));
    }
    b.ring();
    b.arm_cq(0);
    b.arm_eq(0);
    b.until(us(2000));
}

#[test]
fn after_a_function_reset_nothing_is_touched() {
    let mut b = busy();
    let counted = b.device.counters;
    b.device.reset(&mut b.port, b.now);
    b.until(us(1000));
    b.ring();
    b.arm_cq(0);
    b.arm_eq(0);
    b.until(us(2000));
    assert_eq!(b.device.counters.packets, counted.packets, "counters stay");
}

#[test]
fn a_destroyed_cq_with_an_event_pending_is_forgotten() {
    let mut b = DeviceHarness::sized(NIC, 6, 4, 16, 32, 0);
    b.arm_cq(0);
    b.put_send(0, 60, true);
    b.ring();
    b.until(us(1));
    b.port.forbidden = true;
    let (sqn, cqn) = (b.sqn, b.cqn);
    b.about(op::DESTROY_SQ, sqn).unwrap();
    b.about(op::DESTROY_CQ, cqn).unwrap();
    b.until(us(100));
}

#[test]
fn the_end_of_time_is_reached() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 60, true);
    b.ring();
    b.device.advance(&mut b.port, Time::NEVER);
    assert_eq!(b.frames().len(), 1);
}

// ---- objects ----

#[test]
fn objects_need_what_they_name() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let page = CommandHarness::pas(&[CommandHarness::page(4)]);
    let cq = |c: &mut CommandHarness, o: &Common, log, dbr, list: &[u8]| {
        c.run(op::CREATE_CQ, 0, &CommandHarness::cq_message(o, log, dbr), list).status
    };
    let sq = |c: &mut CommandHarness, o: &Common, log, dbr, list: &[u8]| {
        c.run(op::CREATE_SQ, 0, &CommandHarness::sq_message(o, log, dbr), list).status
    };
    let (resource, wrong) = (Some(CmdStatus::BadResource), Some(CmdStatus::BadParam));
    assert_eq!((cq(&mut c, &o, 4, 0x40, &page), sq(&mut c, &o, 6, 0x40, &page)), (None, None));
    assert_eq!(cq(&mut c, &Common { eq: 200, ..o }, 4, 0x40, &page), resource);
    assert_eq!(sq(&mut c, &Common { cq: o.eq, ..o }, 6, 0x40, &page), resource);
    for (log_cq, log_sq, dbr) in [(4, 6, 4), (23, 16, 0x40)] {
        assert_eq!(
            (cq(&mut c, &o, log_cq, dbr, &page), sq(&mut c, &o, log_sq, dbr, &page)),
            (wrong, wrong)
        );
    }
    assert_eq!(c.about(op::DESTROY_MKEY, 77), resource);
}

#[test]
fn every_eq_can_be_armed_and_pages_end_with_the_bar() {
    let mut c = CommandHarness::running(NIC);
    let uar = c.alloc(op::ALLOC_UAR);
    let eqs: Vec<u32> = std::iter::from_fn(|| {
        let a = c.eq(uar, 0, 0, 0, &[CommandHarness::page(4)]);
        a.status.is_none().then(|| a.number())
    })
    .collect();
    assert!(eqs.len() >= 64);
    assert!(eqs.iter().all(|&n| n < 256), "an arm has eight bits for the number");
    let pages = std::iter::from_fn(|| {
        let a = c.run(op::ALLOC_UAR, 0, &Numbered::ZERO, &[]);
        a.status.is_none().then(|| a.number())
    });
    assert!(pages.take(1 << 14).last().unwrap() < 8192, "the BAR has 32 MiB");
}
