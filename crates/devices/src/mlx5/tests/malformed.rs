//! Malformed WQEs.

use super::*;

/// Returns the CQE opcode of a WQE in a queue of its own, between two good ones.
fn ends_in(nic: Config, min_inline: u8, put: impl FnOnce(&mut DeviceHarness)) -> u8 {
    let mut b = DeviceHarness::sized(nic, 6, 4, 0, 0, min_inline);
    b.c.port.holes.push(DeviceHarness::DATA + 0x1_0000..DeviceHarness::DATA + 0x1_1000);
    put(&mut b);
    let blocks = b.pc;
    b.go();
    assert_eq!(b.frames().len(), 0, "nothing of it is sent");
    let c = b.c.device.counters;
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
    b.c.port.memory[DeviceHarness::SQ as usize + 2] = 1;
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
    b.c.port.memory[DeviceHarness::SQ as usize + 7] = 10;
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
