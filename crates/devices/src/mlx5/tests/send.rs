//! Frames of valid WQEs.

use super::*;

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
    assert_eq!((b.c.device.counters.packets, b.c.device.counters.bytes), (1, 60));
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
    assert_eq!(b.c.device.counters.bytes, 1500 + 14 + 60 + 59, "padding is not counted");
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
    assert_eq!(b.c.device.counters.mpwqe_packets, 2);
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
    b.c.port.memory[DeviceHarness::DATA as usize..][..f.len()].copy_from_slice(&f);
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
    assert_eq!((b.c.device.counters.nops, b.c.device.counters.wqes), (4, 4));
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
        b.c.port.log.clear();
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
    b.c.port.log.clear();
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
