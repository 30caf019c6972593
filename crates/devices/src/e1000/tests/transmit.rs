use super::super::Config;
use super::{Bench, TX_RING, frame, ns};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::{EventSource, Span, Time};
use doorbell_layout::e1000::tx_word::{EOP, IDE, IFCS, RPS, RS, VLE};
use doorbell_layout::e1000::*;
use doorbell_packet::ethernet::fcs;

const AT: u64 = 0x8000;

#[test]
fn legacy_frames_leave_padded_and_paced_by_the_wire() {
    let mut b = Bench::up(Config::I82540EM);
    b.send(AT, &frame(42), RS);
    b.send(AT + 100, &frame(1514), RS);
    b.send(AT + 2000, &frame(60), RS);
    b.kick();
    b.settle();
    let f: Vec<_> = b.p.frames.iter().map(|f| (f.0, f.1.len())).collect();
    assert_eq!(f, [(ns(0), 60), (ns(84 * 8), 1514), (ns((84 + 1538) * 8), 60)]);
    assert_eq!(b.p.frames[0].1[42..], [0; 18]);
    assert!((0..3).all(|i| b.tx_done(i)) && !b.tx_done(3));
    assert_eq!(b.read(reg::TDH), 3);
    assert_eq!(b.read(reg::ICR), INT_TXDW | INT_TXQE);
}

#[test]
fn without_psp_a_short_frame_leaves_short() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::TCTL, TCTL_EN);
    b.send(AT, &frame(42), RS);
    b.kick();
    b.settle();
    assert_eq!(b.p.frames[0].1.len(), 42);
}

#[test]
fn tail_is_one_past_the_last_and_equal_is_empty() {
    let mut b = Bench::up(Config::I82540EM);
    b.send(AT, &frame(60), RS);
    b.settle();
    assert!(b.p.reads.is_empty(), "nothing before the doorbell");
    b.write(reg::TDT, 0);
    b.settle();
    assert!(b.p.reads.is_empty());
    b.kick();
    b.settle();
    assert_eq!(b.p.reads, [(ns(0), TX_RING, 16), (ns(0), AT, 60)]);
}

#[test]
fn only_the_status_dword_is_written_with_wthresh_0_and_only_with_rs() {
    let mut b = Bench::up(Config::I82540EM);
    b.send(AT, &frame(60), 0);
    b.send(AT, &frame(60), RS);
    b.kick();
    b.settle();
    assert_eq!(b.p.writes, [(ns(0), TX_RING + 16 + 12, 4)]);
    assert!(!b.tx_done(0) && b.tx_done(1));
}

#[test]
fn done_is_when_the_data_are_on_the_chip_and_not_when_sent() {
    let mut b = Bench::up(Config::I82540EM);
    b.p.read_time = Span::from_us(1);
    b.send(AT, &frame(1514), RS);
    b.kick();
    b.settle();
    assert_eq!(b.p.writes[0].0, ns(2000), "two reads, one after the other");
    assert_eq!(b.p.frames[0].0, ns(2000));
}

#[test]
fn rps_reports_when_sent_on_the_82544_and_nothing_on_the_others() {
    let mut b = Bench::up(Config::I82544GC);
    b.send(AT, &frame(1514), RPS);
    b.kick();
    b.settle();
    assert_eq!(b.p.writes, [(ns(1538 * 8), TX_RING + 12, 4)]);
    let mut b = Bench::up(Config::I82540EM);
    b.send(AT, &frame(1514), RPS);
    b.kick();
    b.settle();
    assert!(b.p.writes.is_empty());
}

#[test]
fn rps_of_a_packet_that_is_not_sent_leaves_the_report_of_the_one_before() {
    let mut b = Bench::up(Config::I82544GC);
    b.send(AT, &frame(1514), RPS);
    b.desc(0, u64::from(60 | EOP | IFCS | RPS));
    b.kick();
    b.settle();
    assert!(b.tx_done(0) && b.tx_done(1));
}

#[test]
fn wthresh_collects_from_the_first_rs_and_writes_whole_descriptors() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::TXDCTL, DCTL_GRAN | 3 << DCTL_WTHRESH_SHIFT);
    b.send(AT, &frame(60), 0);
    b.send(AT, &frame(60), RS);
    b.send(AT, &frame(60), 0);
    b.kick();
    b.settle();
    assert!(b.p.writes.is_empty());
    b.send(AT, &frame(60), RS);
    b.kick();
    b.settle();
    assert_eq!(b.p.writes.iter().map(|w| (w.1, w.2)).collect::<Vec<_>>(), [(TX_RING + 16, 48)]);
    assert_eq!([0, 1, 2, 3].map(|i| b.tx_done(i)), [false, true, true, true]);
}

#[test]
fn wthresh_1_is_what_linux_uses_and_writes_at_once() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::TXDCTL, DCTL_GRAN | 1 << DCTL_WTHRESH_SHIFT);
    b.write(reg::TIDV, 8);
    b.send(AT, &frame(60), RS | IDE);
    b.kick();
    b.at(ns(0));
    assert!(b.tx_done(0));
    assert_eq!(b.read(reg::ICR), INT_TXQE, "the interrupt is delayed, the write-back is not");
    b.settle();
    assert_eq!(b.read(reg::ICR), INT_TXDW);
}

#[test]
fn the_end_of_tidv_writes_back_what_was_collected() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::TXDCTL, DCTL_GRAN | 8 << DCTL_WTHRESH_SHIFT);
    b.write(reg::TIDV, 8);
    b.send(AT, &frame(60), RS | IDE);
    b.send(AT, &frame(60), RS | IDE);
    b.kick();
    b.at(ns(8191));
    assert!(!b.tx_done(0));
    b.at(ns(8192));
    assert!(b.tx_done(0) && b.tx_done(1));
    assert_eq!(b.p.writes.len(), 1);
}

#[test]
fn txd_low_is_raised_when_the_ring_falls_to_the_threshold() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::TXDCTL, 1 << TXDCTL_LWTHRESH_SHIFT);
    b.p.read_time = Span::from_us(1);
    for _ in 0..10 {
        b.send(AT, &frame(60), 0);
    }
    b.kick();
    b.at(ns(2999));
    assert_eq!(b.read(reg::ICR) & INT_TXD_LOW, 0);
    b.at(ns(3000));
    assert_eq!(b.read(reg::ICR) & INT_TXD_LOW, INT_TXD_LOW);
}

#[test]
fn descriptors_without_length_or_address_send_nothing_but_are_done() {
    let mut b = Bench::up(Config::I82540EM);
    b.desc(AT, u64::from(EOP | IFCS | RS));
    b.desc(0, u64::from(60 | EOP | IFCS | RS));
    b.kick();
    b.settle();
    assert!(b.p.frames.is_empty() && b.tx_done(0) && b.tx_done(1));
    assert_eq!(b.p.reads.len(), 1, "descriptors alone");
}

#[test]
fn a_packet_may_be_in_many_buffers() {
    let mut b = Bench::up(Config::I82540EM);
    let f = frame(1000);
    b.put(AT, &f);
    b.desc(AT, 1);
    b.desc(AT + 1, 599);
    b.desc(AT + 600, u64::from(400 | EOP | IFCS | RS));
    b.kick();
    b.settle();
    assert_eq!(b.sent(), [f]);
    assert_eq!(b.p.reads[1..].iter().map(|r| r.2).collect::<Vec<_>>(), [1, 599, 400]);
}

#[test]
fn a_driver_that_sends_its_own_fcs_must_send_the_right_one() {
    let mut b = Bench::up(Config::I82540EM);
    let mut f = frame(100);
    f.extend(fcs(&f));
    b.put(AT, &f);
    b.desc(AT, u64::from(104 | EOP));
    b.desc(AT + 1, u64::from(103 | EOP));
    b.kick();
    b.settle();
    assert_eq!(b.sent(), [frame(100)]);
    assert_eq!(b.d.counters.tx_discarded, 1);
}

#[test]
fn the_longest_packet_is_16288_bytes() {
    let mut b = Bench::up(Config::I82540EM);
    b.put(0x20000, &frame(16289));
    b.desc(0x20000, u64::from(16288 | EOP | IFCS | RS));
    b.desc(0x20000, u64::from(16289 | EOP | IFCS | RS));
    b.kick();
    b.settle();
    assert_eq!(b.sent(), [frame(16288)]);
    assert_eq!(b.d.counters.tx_discarded, 1);
    assert!(b.tx_done(1));
}

#[test]
fn a_tag_is_inserted_when_vle_and_vme_say_so() {
    for (vme, vle) in [(false, true), (true, false), (true, true)] {
        let mut b = Bench::up(Config::I82540EM);
        b.write(reg::CTRL, CTRL_SLU | if vme { CTRL_VME } else { 0 });
        let f = frame(100);
        b.put(AT, &f);
        let word = 100 | EOP | IFCS | RS | if vle { VLE } else { 0 };
        b.desc(AT, u64::from(word) | 0x2005 << 48);
        b.kick();
        b.settle();
        let mut expected = f.clone();
        if vme && vle {
            expected.splice(12..12, [0x81, 0x00, 0x20, 0x05]);
        }
        assert_eq!(b.sent(), [expected]);
    }
}

#[test]
fn data_wait_until_the_fifo_has_room() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::PBA, 60);
    b.put(AT, &frame(1514));
    for _ in 0..6 {
        b.desc(AT, u64::from(1514 | EOP | IFCS | RS));
    }
    b.kick();
    b.at(ns(0));
    assert_eq!(b.d.counters.data_reads, 2, "4 KiB hold two");
    b.at(ns(1538 * 8));
    assert_eq!(b.d.counters.data_reads, 3, "and one more when one has left");
    b.settle();
    assert_eq!(b.p.frames.len(), 6);
}

#[test]
fn a_packet_that_never_fits_hangs_the_transmitter_until_reset() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::PBA, 63);
    b.send(AT, &frame(1514), RS);
    b.kick();
    b.settle();
    assert_eq!((b.d.counters.hangs, b.p.frames.len(), b.tx_done(0)), (1, 0, false));
    b.write(reg::CTRL, CTRL_RST);
    b.bring_up();
    b.send(AT, &frame(1514), RS);
    b.kick();
    b.settle();
    assert_eq!(b.p.frames.len(), 1);
}

#[test]
fn memory_that_is_not_there_stops_dma_until_reset() {
    let mut b = Bench::up(Config::I82540EM);
    b.desc(0xffff_0000, u64::from(60 | EOP | IFCS | RS));
    b.send(AT, &frame(60), RS);
    b.kick();
    b.settle();
    assert_eq!((b.d.counters.dma_faults, b.p.frames.len()), (1, 0));
    b.write(reg::CTRL, CTRL_RST);
    b.bring_up();
    b.send(AT, &frame(60), RS);
    b.kick();
    b.settle();
    assert_eq!(b.p.frames.len(), 1);
}

#[test]
fn up_to_64_descriptors_are_fetched_at_a_time() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::TDLEN, 128 * 16);
    for i in 0..100u64 {
        b.put(TX_RING + i * 16, &AT.to_le_bytes());
        b.put(TX_RING + i * 16 + 8, &u64::from(60 | EOP | IFCS).to_le_bytes());
    }
    b.write(reg::TDT, 100);
    b.settle();
    let fetches: Vec<_> = b.p.reads.iter().filter(|r| r.1 < AT).map(|r| (r.1, r.2)).collect();
    assert_eq!(fetches, [(TX_RING, 1024), (TX_RING + 1024, 576)]);
    assert_eq!((b.p.frames.len(), b.d.counters.fetched_descriptors), (100, 100));
}

#[test]
fn prefetch_thresholds_change_the_reads_and_not_the_frames() {
    let run = |dctl: u32| {
        let mut b = Bench::up(Config::I82540EM);
        b.write(reg::TXDCTL, DCTL_GRAN | dctl);
        b.put(AT, &frame(1514));
        for i in 0..48u64 {
            // The FIFO is full after ten; then descriptors wait on the chip.
            b.desc(AT, u64::from(1514 | EOP | IFCS | RS));
            b.kick();
            b.at(ns((i + 1) * 1000));
        }
        b.settle();
        assert_eq!(b.p.frames.len(), 48);
        b.d.counters.fetches
    };
    assert!(run(0) < run(32 | 1 << DCTL_HTHRESH_SHIFT), "prefetching makes more and shorter reads");
}

#[test]
fn a_pause_frame_stops_the_wire_for_its_quanta() {
    let mut b = Bench::up(Config::I82540EM);
    for (r, v) in [
        (reg::CTRL, CTRL_SLU | CTRL_RFCE),
        (reg::FCAL, 0x00c2_8001),
        (reg::FCAH, 0x0100),
        (reg::FCT, 0x8808),
    ] {
        b.write(r, v);
    }
    let mut pause = vec![0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0, 1, 0, 10];
    pause.resize(60, 0);
    b.receive(&pause);
    assert_eq!(b.read(reg::STATUS) & STATUS_TXOFF, STATUS_TXOFF);
    b.send(AT, &frame(60), RS);
    b.kick();
    b.settle();
    // 10 quanta of 512 bit times of 1 ns.
    assert_eq!(b.p.frames[0].0, ns(5120));
    assert_eq!((b.read(reg::stat::XOFFRXC), b.read(reg::STATUS) & STATUS_TXOFF), (1, 0));
    assert_eq!(b.d.counters.rx_packets, 0);
}

#[test]
fn loopback_receives_what_it_sends() {
    for by_phy in [false, true] {
        let mut b = Bench::up(Config::I82540EM);
        b.post(8);
        if by_phy {
            b.write(reg::MDIC, MDIC_OP_WRITE | 1 << MDIC_PHY_SHIFT | 0x4140);
        } else {
            let rctl = b.read(reg::RCTL);
            b.write(reg::RCTL, rctl | RCTL_LBM_MAC);
        }
        b.send(AT, &frame(1024), RS);
        b.kick();
        b.settle();
        assert!(b.p.frames.is_empty(), "nothing leaves");
        assert_eq!((b.rx(0).length.get(), b.rx(0).status & Rx::DD), (1024, Rx::DD));
        assert_eq!(b.p.memory[super::BUFFERS as usize..][..1024], frame(1024));
    }
}

/// Sends a frame of 3000 bytes in these pieces, at this address; whether it left.
fn leaves(cfg: Config, at: u64, pieces: &[u32]) -> bool {
    let mut b = Bench::up(cfg);
    b.put(at, &frame(3000));
    let mut from = at;
    for &n in pieces {
        b.desc(
            from,
            u64::from(n | if from + u64::from(n) == at + 3000 { EOP | IFCS | RS } else { 0 }),
        );
        from += u64::from(n);
    }
    assert_eq!(from, at + 3000);
    b.kick();
    b.settle();
    assert_eq!(b.p.frames.is_empty(), b.d.counters.hangs == 1);
    !b.p.frames.is_empty()
}

#[test]
fn in_pcix_a_first_buffer_over_2015_bytes_hangs() {
    assert!(leaves(Config::I82545EM, AT, &[2015, 985]));
    assert!(!leaves(Config::I82545EM, AT, &[2016, 984]));
    assert!(leaves(Config::I82545EM, AT, &[100, 2900]), "only the first");
    assert!(leaves(Config::I82540EM, AT, &[3000]), "only in PCI-X");
    assert!(leaves(Config { errata: false, ..Config::I82545EM }, AT, &[3000]));
}

#[test]
fn the_82544_in_pcix_hangs_on_a_buffer_that_ends_in_an_even_dword() {
    let cfg = Config { slot: Config::I82545EM.slot, ..Config::I82544GC };
    // Bit 2 of the last byte's address decides.
    assert!(leaves(cfg, AT, &[1000, 2000]));
    assert!(!leaves(cfg, AT, &[1004, 1996]));
    assert!(leaves(cfg, AT, &[1000, 4, 1996]), "but not one of four bytes");
    assert!(leaves(Config::I82544GC, AT, &[1004, 1996]), "only in PCI-X");
}

#[test]
fn tctl_off_finishes_the_frame_and_keeps_the_rest() {
    let mut b = Bench::up(Config::I82540EM);
    for i in 0..3 {
        b.send(AT + i * 2048, &frame(1514), RS);
    }
    b.kick();
    b.at(ns(100));
    b.write(reg::TCTL, 0);
    b.settle();
    assert_eq!(b.p.frames.len(), 1);
    b.write(reg::TCTL, TCTL_EN);
    b.settle();
    assert_eq!(b.p.frames.len(), 3);
}

#[test]
fn a_tail_before_link_and_enable_is_not_lost() {
    // The order of Linux's e1000 after a reset: rings first, then the link, and TCTL.EN when it is
    // up.
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::CTRL, CTRL_RST);
    b.d.set_cable(b.now, false);
    for (r, v) in
        [(reg::TDLEN, 64 * 16), (reg::TDBAL, TX_RING as u32), (reg::TDT, 0), (reg::TDH, 0)]
    {
        b.write(r, v);
    }
    b.write(reg::TCTL, TCTL_PSP);
    b.write(reg::CTRL, CTRL_SLU);
    b.send(AT, &frame(60), RS);
    b.kick();
    b.settle();
    b.d.set_cable(b.now, true);
    b.settle();
    assert_eq!((b.read(reg::TDH), b.read(reg::TDT), b.p.reads.len()), (0, 1, 0), "not enabled");
    b.write(reg::TCTL, TCTL_EN | TCTL_PSP);
    b.settle();
    assert_eq!((b.sent(), b.read(reg::TDH)), (vec![frame(60)], 1));
}

#[test]
fn moving_the_head_forgets_what_was_fetched() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::TCTL, 0);
    b.send(AT, &frame(60), RS);
    b.send(AT, &frame(61), RS);
    b.kick();
    b.write(reg::TDH, 1);
    b.write(reg::TCTL, TCTL_EN);
    b.settle();
    assert_eq!(b.sent(), [frame(61)]);
    assert_eq!(b.d.next_due(), None::<Time>);
}
