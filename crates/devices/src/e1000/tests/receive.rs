use super::super::Config;
use super::{BUFFERS, Bench, RX_RING, frame, ns};
use alloc::vec::Vec;
use doorbell_hal::{DropReason, EventSource, RxVerdict, Span};
use doorbell_layout::e1000::*;
use doorbell_packet::ethernet::fcs;

fn memory(b: &Bench, at: u64, len: usize) -> Vec<u8> {
    b.p.memory[at as usize..][..len].to_vec()
}

/// Sets bits of RCTL.
fn rctl(b: &mut Bench, set: u32, clear: u32) {
    let v = b.read(reg::RCTL);
    b.write(reg::RCTL, v & !clear | set);
}

#[test]
fn length_includes_the_fcs_unless_it_is_stripped() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    rctl(&mut b, 0, RCTL_SECRC);
    b.receive(&frame(100));
    b.settle();
    assert_eq!(b.rx(0).length.get(), 104);
    let mut expected = frame(100);
    expected.extend(fcs(&frame(100)));
    assert_eq!(memory(&b, BUFFERS, 104), expected);
    rctl(&mut b, RCTL_SECRC, 0);
    b.receive(&frame(100));
    b.settle();
    assert_eq!(b.rx(1).length.get(), 100);
    assert_eq!(b.rx(1).status, Rx::DD | Rx::EOP | Rx::IXSM);
}

#[test]
fn the_descriptor_at_the_tail_is_held_back_and_head_equal_tail_is_none() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(4);
    for _ in 0..4 {
        assert_eq!(b.receive(&frame(60)), RxVerdict::Yes);
    }
    b.settle();
    assert_eq!((b.read(reg::RDH), b.d.counters.rx_packets), (3, 3));
    assert_eq!(b.rx(3).status, 0);
    assert_eq!(b.d.next_due(), None);
}

#[test]
fn frames_without_descriptors_wait_and_count_rnbc() {
    let mut b = Bench::up(Config::I82540EM);
    assert_eq!(b.receive(&frame(60)), RxVerdict::Yes);
    b.settle();
    assert_eq!((b.read(reg::stat::RNBC), b.read(reg::stat::MPC), b.read(reg::ICR)), (1, 0, 0));
    b.post(4);
    b.settle();
    assert_eq!(b.d.counters.rx_packets, 1);
    assert_eq!(memory(&b, BUFFERS, 60), frame(60));
}

#[test]
fn a_full_fifo_misses_frames_and_raises_rxo() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::PBA, 4);
    let taken: Vec<_> = (0..3).map(|_| b.receive(&frame(1514))).collect();
    assert_eq!(taken, [RxVerdict::Yes, RxVerdict::Yes, RxVerdict::Dropped(DropReason::Fifo)]);
    assert_eq!(b.read(reg::stat::MPC), 1);
    assert_eq!(b.read(reg::ICR), INT_RXO);
    b.post(8);
    b.settle();
    assert_eq!(b.receive(&frame(1514)), RxVerdict::Yes, "room again");
}

#[test]
fn a_long_frame_takes_several_buffers_and_eop_is_on_the_last() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    rctl(&mut b, RCTL_LPE, RCTL_SECRC);
    let f = frame(5000);
    b.receive(&f);
    b.settle();
    let d: Vec<_> = (0..3).map(|i| (b.rx(i).length.get(), b.rx(i).status)).collect();
    assert_eq!(d, [(2048, Rx::DD), (2048, Rx::DD), (908, Rx::DD | Rx::EOP | Rx::IXSM)]);
    let got = [
        memory(&b, BUFFERS, 2048),
        memory(&b, BUFFERS + 2048, 2048),
        memory(&b, BUFFERS + 4096, 908),
    ]
    .concat();
    assert_eq!(got[..5000], f);
    assert_eq!(b.d.counters.rx_packets, 1);
}

#[test]
fn frames_over_1522_bytes_need_lpe() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    assert_eq!(b.receive(&frame(1518)), RxVerdict::Yes);
    assert_eq!(b.receive(&frame(1519)), RxVerdict::Dropped(DropReason::Malformed));
    assert_eq!(b.read(reg::stat::ROC), 1);
    rctl(&mut b, RCTL_LPE, 0);
    assert_eq!(b.receive(&frame(1519)), RxVerdict::Yes);
    assert_eq!(b.receive(&frame(16381)), RxVerdict::Dropped(DropReason::Malformed));
    assert_eq!(b.receive(&[0; 13]), RxVerdict::Dropped(DropReason::Malformed));
}

#[test]
fn a_frame_from_a_partner_that_does_not_pad_is_padded() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    b.p.memory[BUFFERS as usize..][..60].fill(0xee);
    b.receive(&frame(42));
    b.settle();
    assert_eq!(b.rx(0).length.get(), 60);
    assert_eq!(memory(&b, BUFFERS + 42, 18), [0; 18]);
}

#[test]
fn a_descriptor_with_address_0_is_passed_over_and_done() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(4);
    b.p.memory[RX_RING as usize..][..8].fill(0);
    b.receive(&frame(60));
    b.settle();
    assert_eq!((b.rx(0).status, b.rx(0).length.get()), (Rx::DD, 0));
    assert_eq!(b.rx(1).status & Rx::EOP, Rx::EOP);
}

#[test]
fn the_tag_goes_to_the_descriptor_in_vlan_mode() {
    let mut f = frame(100);
    f[12..16].copy_from_slice(&[0x81, 0x00, 0x20, 0x05]);
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    b.receive(&f);
    b.settle();
    assert_eq!((b.rx(0).length.get(), b.rx(0).special.get(), b.rx(0).status & Rx::VP), (100, 0, 0));
    b.write(reg::CTRL, CTRL_SLU | CTRL_VME);
    b.receive(&f);
    b.settle();
    assert_eq!(
        (b.rx(1).length.get(), b.rx(1).special.get(), b.rx(1).status & Rx::VP),
        (96, 0x2005, Rx::VP)
    );
    f.drain(12..16);
    assert_eq!(memory(&b, BUFFERS + 2048, 96), f);
}

#[test]
fn filters_drop_and_pif_marks_what_passed_inexactly() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    let mut f = frame(60);
    f[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    b.receive(&f);
    b.settle();
    assert_eq!(b.rx(0).status & Rx::PIF, Rx::PIF);
    rctl(&mut b, 0, RCTL_UPE);
    assert_eq!(b.receive(&f), RxVerdict::Dropped(DropReason::Filter));
    f[..6].copy_from_slice(&Config::I82540EM.mac);
    assert_eq!(b.receive(&f), RxVerdict::Yes);
    b.settle();
    assert_eq!(b.rx(1).status & Rx::PIF, 0);
}

/// Status and errors of a TCP or UDP frame, with these bytes changed.
fn checked(udp: bool, change: &[usize]) -> (u8, u8) {
    let mut f = alloc::vec![0xff; 6];
    f.extend([
        2,
        0,
        0,
        0,
        0,
        1,
        8,
        0,
        0x45,
        0,
        0,
        48,
        0,
        1,
        0x40,
        0,
        64,
        if udp { 17 } else { 6 },
        0,
        0,
    ]);
    f.extend([10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4]);
    f.extend(if udp { [0, 28, 0, 0] } else { [0, 0, 0, 0] });
    f.resize(62, 0);
    if !udp {
        f[46] = 0x50;
    }
    let check = doorbell_packet::checksum::Sum::of(&f[14..34]).checksum();
    f[24..26].copy_from_slice(&check.to_be_bytes());
    let l = doorbell_packet::headers::Layers::of(&f).unwrap();
    let sum =
        l.pseudo_header(&f, 28).plus(doorbell_packet::checksum::Sum::of(&f[34..62])).udp_checksum();
    let field = if udp { 40 } else { 50 };
    f[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    for &i in change {
        f[i] ^= 1;
    }
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    b.write(reg::RXCSUM, RXCSUM_IPOFL | RXCSUM_TUOFL);
    b.receive(&f);
    b.settle();
    (b.rx(0).status & !(Rx::DD | Rx::EOP), b.rx(0).errors)
}

#[test]
fn checksums_are_checked_and_errors_reported() {
    assert_eq!(checked(false, &[]), (Rx::IPCS | Rx::TCPCS, 0));
    assert_eq!(checked(true, &[]), (Rx::IPCS | Rx::TCPCS | Rx::UDPCS, 0));
    assert_eq!(checked(false, &[60]), (Rx::IPCS | Rx::TCPCS, Rx::TCPE));
    assert_eq!(checked(false, &[22]), (Rx::IPCS | Rx::TCPCS, Rx::IPE));
    assert_eq!(checked(false, &[20]), (Rx::IPCS, Rx::IPE), "a fragment's transport is not");
}

#[test]
fn rxdmt0_is_raised_when_free_descriptors_fall_to_the_fraction() {
    for (rdmts, free) in [(0, 32), (1, 16), (2, 8)] {
        let mut b = Bench::up(Config::I82540EM);
        b.post(64);
        rctl(&mut b, rdmts << RCTL_RDMTS_SHIFT, 0);
        for left in (0..63).rev() {
            b.receive(&frame(60));
            b.settle();
            assert_eq!(b.read(reg::ICR) & INT_RXDMT0 != 0, left == free, "{left} left");
        }
    }
}

#[test]
fn write_back_waits_for_wthresh_and_is_one_write() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(32);
    b.write(reg::RDTR, 100);
    b.write(reg::RXDCTL, DCTL_GRAN | 4 << DCTL_WTHRESH_SHIFT);
    for i in 0..4 {
        assert_eq!(b.rx(0).status, 0, "{i}");
        b.receive(&frame(60));
        b.at(ns(0));
    }
    assert_eq!(
        b.p.writes.iter().filter(|w| w.1 < BUFFERS).map(|w| (w.1, w.2)).collect::<Vec<_>>(),
        [(RX_RING, 64)]
    );
    assert!((0..4).all(|i| b.rx(i).status & Rx::DD != 0));
}

/// As after reset, WTHRESH is one line; 48 bytes are none that the chip knows.
#[test]
fn an_unsupported_cache_line_counts_as_32_bytes() {
    for (cache_line, waits_for) in [(48, 2), (0, 2), (32, 2), (64, 4), (256, 16)] {
        let mut b = Bench::up(Config { cache_line, ..Config::I82540EM });
        b.post(32);
        b.write(reg::RDTR, 0xffff);
        for _ in 0..waits_for {
            assert_eq!(b.rx(0).status, 0, "{cache_line}");
            b.receive(&frame(60));
            b.at(ns(0));
        }
        assert_ne!(b.rx(0).status & Rx::DD, 0, "{cache_line}");
    }
}

#[test]
fn done_comes_after_the_data_have_landed() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    b.p.write_time = Span::from_us(3);
    b.receive(&frame(1514));
    b.at(ns(2999));
    assert_eq!(b.rx(0).status, 0);
    b.at(ns(3000));
    assert_eq!(b.p.writes[1], (ns(3000), RX_RING + 8, 8));
    assert_eq!(b.read(reg::ICR) & INT_RXT0, INT_RXT0);
}

#[test]
fn receiver_off_drops_and_counts_in_tpr_alone() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    rctl(&mut b, 0, RCTL_EN);
    assert_eq!(b.receive(&frame(60)), RxVerdict::Dropped(DropReason::Off));
    assert_eq!((b.read(reg::stat::TPR), b.read(reg::stat::GPRC)), (1, 0));
}

#[test]
fn a_filling_fifo_sends_xoff_and_xon() {
    let mut b = Bench::up(Config::I82540EM);
    for (r, v) in [
        (reg::CTRL, CTRL_SLU | CTRL_TFCE),
        (reg::FCAL, 0x00c2_8001),
        (reg::FCAH, 0x0100),
        (reg::FCT, 0x8808),
        (reg::FCTTV, 0x680),
        (reg::FCRTH, 4000),
        (reg::FCRTL, 1 << 31 | 1600),
    ] {
        b.write(r, v);
    }
    for _ in 0..3 {
        b.receive(&frame(1514));
    }
    b.settle();
    assert_eq!(b.p.frames.len(), 1);
    assert_eq!(
        b.p.frames[0].1[..18],
        [1, 0x80, 0xc2, 0, 0, 1, 0, 0xe, 0xc, 0x82, 0x54, 1, 0x88, 8, 0, 1, 6, 0x80]
    );
    b.post(8);
    b.settle();
    assert_eq!(b.p.frames[1].1[14..18], [0, 1, 0, 0], "XON");
    assert_eq!((b.read(reg::stat::XOFFTXC), b.read(reg::stat::XONTXC)), (1, 1));
}

#[test]
fn the_ring_wraps() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(64);
    for i in 0..200u32 {
        b.receive(&frame(60 + i as usize));
        b.settle();
        let at = (i % 64) as usize;
        assert_eq!(b.rx(at).length.get() as u32, 60 + i);
        let place = RX_RING as usize + at * 16 + 8;
        b.p.memory[place..place + 8].fill(0);
        b.write(reg::RDT, at as u32);
    }
    assert_eq!(b.d.counters.rx_packets, 200);
}

#[test]
fn writes_across_64_kib_are_counted_on_the_82545() {
    for (cfg, count) in [(Config::I82545EM, 1), (Config::I82540EM, 0)] {
        let mut b = Bench::up(cfg);
        b.post(4);
        for i in 0..2 {
            b.put(RX_RING + 16 * i, &0x2_ff00u64.to_le_bytes());
        }
        b.receive(&frame(256));
        b.receive(&frame(257));
        b.settle();
        assert_eq!(b.d.counters.crossed_64k, count);
    }
}
