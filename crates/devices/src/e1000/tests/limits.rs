//! FIFOs, frames and switches that stand exactly on a limit, and one beyond it.

use super::super::Config;
use super::offloads::{context, data, ip, large_send};
use super::{BUFFERS, Bench, RX_RING, TX_RING, frame, ns};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::{Device, DmaFaultKind, DropReason, EventSource, RxVerdict, Span};
use doorbell_layout::e1000::tx_word::{DEXT, EOP, IDE, IFCS, RPS, RS, TCP, TSE};
use doorbell_layout::e1000::*;
use doorbell_packet::checksum::Sum;

const AT: u64 = 0x8000;

fn set(b: &mut Bench, registers: &[(u32, u32)]) {
    registers.iter().for_each(|(r, v)| b.write(*r, *v));
}

/// A frame with a tag.
fn tagged(tci: u16) -> Vec<u8> {
    let mut f = frame(100);
    f[12..14].copy_from_slice(&[0x81, 0]);
    f[14..16].copy_from_slice(&tci.to_be_bytes());
    f
}

fn pause(quanta: u16) -> Vec<u8> {
    let mut f = frame(60);
    f[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 1]);
    f[12..16].copy_from_slice(&[0x88, 0x08, 0, 1]);
    f[16..18].copy_from_slice(&quanta.to_be_bytes());
    f
}

/// The registers by which pause frames are known.
const PAUSES: [(u32, u32); 3] = [(reg::FCAL, 0x00c2_8001), (reg::FCAH, 0x0100), (reg::FCT, 0x8808)];

// ---- arrival ----

#[test]
fn a_card_without_a_link_or_in_loopback_receives_nothing() {
    let mut b = Bench::up(Config::I82540EM);
    assert_eq!(b.receive(&frame(60)), RxVerdict::Yes);
    let rctl = b.read(reg::RCTL);
    b.write(reg::RCTL, rctl | 3 << 6);
    assert_eq!(b.receive(&frame(60)), RxVerdict::Dropped(DropReason::Off), "loopback");
    b.write(reg::RCTL, rctl);
    b.write(reg::CTRL, 0);
    assert_eq!(b.receive(&frame(60)), RxVerdict::Dropped(DropReason::Off), "no link");
    assert_eq!((b.d.counters.rx_dropped, b.read(reg::stat::TPR)), (2, 1));
}

#[test]
fn a_frame_has_a_header_and_its_length_one_counter() {
    let mut b = Bench::up(Config::I82540EM);
    for (len, verdict) in [
        (14, RxVerdict::Yes),
        (13, RxVerdict::Dropped(DropReason::Malformed)),
        (1518, RxVerdict::Yes),
        (1519, RxVerdict::Dropped(DropReason::Malformed)),
    ] {
        assert_eq!(b.receive(&frame(len)), verdict, "{len}");
    }
    assert_eq!([reg::stat::RUC, reg::stat::ROC].map(|r| b.read(r)), [1, 1]);
}

#[test]
fn the_receive_fifo_holds_exactly_what_it_has() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::PBA, 4);
    let rctl = b.read(reg::RCTL);
    // The FCS is kept: four frames of 1024 bytes.
    b.write(reg::RCTL, rctl & !RCTL_SECRC);
    for _ in 0..4 {
        assert_eq!(b.receive(&frame(1020)), RxVerdict::Yes);
    }
    assert_eq!(b.receive(&frame(60)), RxVerdict::Dropped(DropReason::Fifo));
}

#[test]
fn a_tag_passes_by_its_identifier_and_its_canonical_form() {
    for (cfien, cfi, tagged_cfi, passes) in [
        (false, false, false, true),
        (false, false, true, true),
        (false, true, false, true),
        (true, false, false, true),
        (true, false, true, false),
        (true, true, false, false),
        (true, true, true, true),
    ] {
        let mut b = Bench::up(Config::I82540EM);
        let rctl = b.read(reg::RCTL);
        let bit = |on, bit| if on { bit } else { 0 };
        let v = rctl | RCTL_VFE | bit(cfien, RCTL_CFIEN) | bit(cfi, RCTL_CFI);
        set(&mut b, &[(reg::VET, 0x8100), (reg::VFTA, 1 << 5), (reg::RCTL, v)]);
        let verdict = b.receive(&tagged(if tagged_cfi { 0xf005 } else { 0xe005 }));
        assert_eq!(verdict == RxVerdict::Yes, passes, "{cfien} {cfi} {tagged_cfi}");
        assert_ne!(b.receive(&tagged(6)), RxVerdict::Yes, "not in the table");
    }
}

#[test]
fn each_checksum_switch_is_for_its_layer() {
    let good = ip(false, false, 100);
    let mut bad = good.clone();
    (bad[24], bad[60]) = (bad[24] ^ 1, bad[60] ^ 1);
    let ipx = frame(100);
    let (ipc, tcp, both) = (Rx::IPCS, Rx::TCPCS, Rx::IPCS | Rx::TCPCS);
    for (switches, f, status, errors) in [
        (0, &good, Rx::IXSM, 0),
        (RXCSUM_IPOFL, &good, ipc, 0),
        (RXCSUM_TUOFL, &good, tcp, 0),
        (RXCSUM_IPOFL | RXCSUM_TUOFL, &good, both, 0),
        (RXCSUM_IPOFL, &bad, ipc, Rx::IPE),
        (RXCSUM_TUOFL, &bad, tcp, Rx::TCPE),
        (RXCSUM_IPOFL | RXCSUM_TUOFL, &bad, both, Rx::IPE | Rx::TCPE),
        (RXCSUM_IPOFL, &ipx, Rx::IXSM, 0),
        (RXCSUM_TUOFL, &ipx, Rx::IXSM, 0),
        (RXCSUM_IPOFL | RXCSUM_TUOFL, &ip(true, true, 100), tcp | Rx::UDPCS, 0),
    ] {
        let mut b = Bench::up(Config::I82540EM);
        b.post(4);
        b.write(reg::RXCSUM, switches | 14);
        assert_eq!(b.receive(f), RxVerdict::Yes);
        b.settle();
        let d = b.rx(0);
        let expected = (Rx::DD | Rx::EOP | status, errors);
        assert_eq!((d.status & !Rx::PIF, d.errors), expected, "{switches:#x}");
        assert_eq!(d.checksum.get(), Sum::of(&f[14..]).value(), "the sum from PCSS on");
    }
}

#[test]
fn a_buffer_across_64_kib_is_counted_on_the_part_that_fails_there() {
    for (cfg, at, crossed) in [
        (Config::I82545EM, 0x1ff80, 1),
        (Config::I82545EM, 0x1ff9c, 0),
        (Config::I82540EM, 0x1ff80, 0),
    ] {
        let mut b = Bench::up(cfg);
        b.post(4);
        b.put(RX_RING, &u64::to_le_bytes(at));
        // 200 bytes from the first address end beyond the boundary; 100 from the second end at it.
        let len = if at == 0x1ff9c { 100 } else { 200 };
        b.receive(&frame(len));
        b.settle();
        assert_eq!((b.d.counters.crossed_64k, b.d.counters.rx_packets), (crossed, 1), "{at:#x}");
    }
}

#[test]
fn a_small_frame_interrupts_at_once_where_rsrpd_says_so() {
    for (cfg, rsrpd, len, small) in [
        (Config::I82540EM, 0, 60, false),
        (Config::I82540EM, 100, 100, true),
        (Config::I82540EM, 100, 101, false),
        (Config::I82544GC, 100, 60, false),
    ] {
        let mut b = Bench::up(cfg);
        b.post(4);
        set(&mut b, &[(reg::RSRPD, rsrpd), (reg::RDTR, 1000)]);
        b.receive(&frame(len));
        b.at(ns(100));
        assert_eq!(b.read(reg::ICR), if small { INT_SRPD } else { 0 }, "{rsrpd}, {len} bytes");
    }
}

#[test]
fn without_the_receiver_no_descriptor_is_fetched() {
    let mut b = Bench::up(Config::I82540EM);
    let rctl = b.read(reg::RCTL);
    b.write(reg::RCTL, rctl & !RCTL_EN);
    b.post(8);
    b.settle();
    assert_eq!(b.p.reads, []);
    b.write(reg::RCTL, RCTL_EN);
    b.settle();
    assert_eq!(b.p.reads, [(ns(0), RX_RING, 7 * 16)]);
}

#[test]
fn a_ring_that_moves_takes_its_descriptors_off_the_chip() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    b.settle();
    // The same indices elsewhere, with other buffers.
    let (ring, buffer) = (0x6000u64, 0x30000u64);
    b.put(ring, &buffer.to_le_bytes());
    set(&mut b, &[(reg::RDBAL, ring as u32), (reg::RDH, 0), (reg::RDT, 1)]);
    b.receive(&frame(100));
    b.settle();
    assert_eq!(b.p.memory[buffer as usize..][..100], frame(100));
    assert_eq!(b.p.memory[BUFFERS as usize..][..100], [0; 100]);
    assert_eq!((b.p.memory[ring as usize + 12] & Rx::DD, b.rx(0).status), (Rx::DD, 0));
}

#[test]
fn at_most_two_buffers_are_on_their_way() {
    let mut b = Bench::up(Config::I82540EM);
    b.p.write_time = Span::from_us(1);
    b.post(8);
    for _ in 0..5 {
        b.receive(&frame(100));
    }
    b.settle();
    let times: Vec<_> = b.p.writes.iter().filter(|w| w.1 >= BUFFERS).map(|w| w.0).collect();
    assert_eq!(times, [ns(0), ns(0), ns(1000), ns(1000), ns(2000)]);
}

#[test]
fn after_a_fault_a_timers_end_writes_nothing_back() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::TXDCTL, DCTL_GRAN | 8 << DCTL_WTHRESH_SHIFT);
    b.write(reg::TIDV, 8);
    b.send(AT, &frame(60), RS | IDE);
    b.kick();
    b.at(ns(4000));
    b.p.trap = Some((AT, DmaFaultKind::Unmapped));
    b.send(AT, &frame(60), RS | IDE);
    b.kick();
    b.settle();
    assert!(b.now >= ns(8192) && b.d.counters.dma_faults == 1);
    assert!(b.p.writes.is_empty() && !b.tx_done(0));
}

#[test]
fn after_a_fault_nothing_more_is_read_or_written() {
    // The second frame's buffer is nowhere, while the first one's write is under way.
    let mut b = Bench::up(Config::I82540EM);
    b.p.write_time = Span::from_us(1);
    b.post(8);
    b.p.trap = Some((BUFFERS + 2048, DmaFaultKind::Unmapped));
    b.p.read_time = Span::from_us(1);
    b.send(AT, &frame(1000), RS);
    b.kick();
    b.at(ns(1000));
    for _ in 0..4 {
        b.receive(&frame(100));
    }
    b.settle();
    let written: Vec<_> = b.p.writes.iter().map(|w| w.1).collect();
    assert_eq!((b.d.counters.dma_faults, written), (1, vec![BUFFERS]), "no report of either");
    assert_eq!((b.sent().len(), b.d.counters.rx_packets), (0, 0), "nor the frame being read");
    let reads = b.p.reads.len();
    b.kick();
    b.post(8);
    b.settle();
    assert_eq!(b.p.reads.len(), reads);
}

#[test]
fn only_frames_that_ended_are_unreported() {
    let mut b = Bench::up(Config::I82540EM);
    set(&mut b, &[(reg::RDTR, 1000), (reg::RXDCTL, DCTL_GRAN | 8 << DCTL_WTHRESH_SHIFT)]);
    let rctl = b.read(reg::RCTL);
    b.write(reg::RCTL, rctl | RCTL_LPE);
    b.post(8);
    b.receive(&frame(5000));
    b.receive(&frame(100));
    b.at(ns(100));
    b.write(reg::CTRL, CTRL_RST);
    assert_eq!((b.d.counters.rx_unreported, b.d.counters.rx_lost), (2, 0), "of four descriptors");
}

#[test]
fn the_end_of_a_timer_without_work_is_no_interrupt() {
    let mut b = Bench::up(Config::I82540EM);
    set(&mut b, &[(reg::RDTR, TIMER_FPD), (reg::TIDV, TIMER_FPD)]);
    b.settle();
    assert_eq!(b.read(reg::ICR), 0);
    // With a frame that waits for it, it is.
    set(&mut b, &[(reg::RDTR, 1000), (reg::RXDCTL, DCTL_GRAN | 8 << DCTL_WTHRESH_SHIFT)]);
    b.post(4);
    b.receive(&frame(60));
    b.at(ns(100));
    b.write(reg::RDTR, TIMER_FPD | 1000);
    b.at(ns(100));
    assert_eq!((b.read(reg::ICR), b.rx(0).status & Rx::DD), (INT_RXT0, Rx::DD));
}

#[test]
fn work_comes_before_descriptors_in_advance() {
    // A prefetch of receive descriptors and a frame to be read, at one time.
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::RXDCTL, DCTL_GRAN | 1 << DCTL_HTHRESH_SHIFT | 63);
    b.post(4);
    b.settle();
    b.p.read_time = Span::from_ns(500);
    b.send(AT, &frame(100), RS);
    b.kick();
    b.at(ns(0));
    b.write(reg::RDT, 8);
    b.p.reads.clear();
    b.settle();
    let order: Vec<_> = b.p.reads.iter().map(|r| r.1).collect();
    assert_eq!(order, [AT, RX_RING + 3 * 16]);
}

// ---- pauses ----

#[test]
fn a_pause_frame_stops_the_sender_that_obeys_it() {
    for (ctrl, xoff, begins) in [(CTRL_SLU | CTRL_RFCE, 1, 10 * 512), (CTRL_SLU, 0, 0)] {
        let mut b = Bench::up(Config::I82540EM);
        set(&mut b, &PAUSES);
        b.write(reg::CTRL, ctrl);
        assert_eq!(b.receive(&pause(10)), RxVerdict::Yes);
        b.send(AT, &frame(60), RS);
        b.kick();
        b.settle();
        assert_eq!([reg::stat::XOFFRXC, reg::stat::XONRXC].map(|r| b.read(r)), [xoff, 0]);
        assert_eq!(b.p.frames[0].0, ns(begins));
    }
}

#[test]
fn pause_frames_are_passed_on_unless_dpf_discards_them() {
    for (dpf, passed) in [(0, 1), (RCTL_DPF, 0)] {
        let mut b = Bench::up(Config::I82540EM);
        set(&mut b, &PAUSES);
        b.post(4);
        let rctl = b.read(reg::RCTL);
        b.write(reg::RCTL, rctl | RCTL_MPE | dpf);
        assert_eq!(b.receive(&pause(10)), RxVerdict::Yes);
        b.settle();
        assert_eq!(b.d.counters.rx_packets, passed);
    }
}

#[test]
fn xoff_is_sent_above_fcrth_and_xon_at_fcrtl_if_wanted() {
    const XONE: u32 = 1 << 31;
    let case = |ctrl: u32, high: u32, low: u32, len: usize| {
        let mut b = Bench::up(Config::I82540EM);
        set(&mut b, &PAUSES);
        set(&mut b, &[(reg::FCTTV, 100), (reg::FCRTH, high), (reg::FCRTL, low), (reg::CTRL, ctrl)]);
        // Two frames; the first leaves the FIFO, then the second.
        b.receive(&frame(len / 2));
        b.receive(&frame(len / 2));
        b.settle();
        let xoff = b.p.frames.len();
        b.post(2);
        b.settle();
        let half = b.p.frames.len();
        b.write(reg::RDT, 3);
        b.settle();
        let counted = [reg::stat::XOFFTXC, reg::stat::XONTXC].map(|r| b.read(r));
        assert_eq!(counted.iter().sum::<u32>() as usize, b.p.frames.len());
        (xoff, half - xoff, counted)
    };
    let on = CTRL_SLU | CTRL_TFCE;
    assert_eq!(case(on, 1024, XONE | 512, 1024), (0, 0, [0, 0]), "not above");
    assert_eq!(case(on, 1024, XONE | 512, 1026), (1, 0, [1, 1]), "513 is not down to 512");
    assert_eq!(case(on, 1016, XONE | 512, 1024), (1, 1, [1, 1]), "512 is");
    assert_eq!(case(on, 1024, 512, 1200), (1, 0, [1, 0]), "no XON");
    assert_eq!(case(on, 0, XONE | 512, 1200), (0, 0, [0, 0]), "no threshold");
    assert_eq!(case(CTRL_SLU, 1024, XONE | 512, 1200), (0, 0, [0, 0]), "no flow control");
}

// ---- the wire ----

#[test]
fn a_frame_that_has_begun_keeps_the_wire_over_a_reset() {
    let mut b = Bench::up(Config::I82540EM);
    b.send(AT, &frame(1514), RS);
    b.kick();
    b.at(ns(100));
    b.write(reg::CTRL, CTRL_RST);
    b.bring_up();
    b.send(AT, &frame(60), RS);
    b.kick();
    b.settle();
    let times: Vec<_> = b.p.frames.iter().map(|f| f.0).collect();
    assert_eq!(times, [ns(0), ns(1538 * 8)]);
    // The power-on state has no wire.
    let mut b = Bench::up(Config::I82540EM);
    b.send(AT, &frame(1514), RS);
    b.kick();
    b.at(ns(100));
    b.d.reset(&mut b.p, ns(100));
    b.bring_up();
    b.send(AT, &frame(60), RS);
    b.kick();
    b.settle();
    assert_eq!(b.p.frames.last().unwrap().0, ns(100));
}

#[test]
fn sizes_are_counted_with_the_fcs() {
    let mut b = Bench::up(Config::I82540EM);
    for len in [60, 61, 123, 124] {
        b.send(AT, &frame(len), RS);
        b.kick();
        b.settle();
    }
    let classes = [0, 4, 8].map(|n| b.read(reg::stat::PTC64 + n));
    assert_eq!(classes, [1, 2, 1], "64, up to 127, up to 255");
}

// ---- transmission ----

#[test]
fn the_transmit_fifo_holds_exactly_what_it_has() {
    for (len, sent) in [(1024, 1), (1025, 0)] {
        let mut b = Bench::up(Config::I82540EM);
        b.write(reg::PBA, 63);
        b.send(AT, &frame(len), RS);
        b.kick();
        b.settle();
        assert_eq!((b.sent().len(), b.d.counters.hangs), (sent, 1 - sent as u64), "{len}");
    }
}

#[test]
fn a_read_of_a_large_send_ends_where_the_fifo_does() {
    for (read_across, expected) in [(true, 1054 + 2000), (false, 1054)] {
        let mut b = Bench::up(Config { read_across, ..Config::I82540EM });
        // 4 KiB: the first segment of 1054 bytes, and two more with their headers.
        b.write(reg::PBA, 60);
        let (c, f, popts) = large_send(&ip(false, false, 9000), 1000);
        b.desc(c.0, c.1);
        b.put(0x20000, &f);
        b.desc(0x20000, data(f.len(), TSE | IFCS | EOP | RS, popts));
        b.kick();
        b.settle();
        let first = b.p.reads.iter().find(|r| r.1 == 0x20000).unwrap();
        assert_eq!((first.2, b.sent().len()), (expected, 9));
    }
}

#[test]
fn a_data_descriptor_has_twenty_bits_of_length() {
    let mut b = Bench::up(Config::I82540EM);
    let payload = 80_000usize;
    let f = ip(false, false, 60_000);
    let (_, mut f, popts) = large_send(&f, 1000);
    f.resize(54 + payload, 7);
    let c = context(ContextTx {
        ipcss: 14,
        ipcso: 24,
        ipcse: 33.into(),
        tucss: 34,
        tucso: 50,
        tucse: 0.into(),
        word: (payload as u32 | DEXT | TSE | TCP | tx_word::IP).into(),
        status: 0,
        hdrlen: 54,
        mss: 1000.into(),
    });
    b.desc(c.0, c.1);
    b.put(0x20000, &f);
    b.desc(0x20000, data(f.len(), TSE | IFCS | EOP | RS, popts));
    b.kick();
    b.settle();
    let sent = b.sent();
    assert_eq!((sent.len(), b.d.counters.large_sends), (80, 1));
    assert!(sent.iter().all(|s| s.len() == 1054));
}

/// A large send of `len` bytes in all, whose context says this.
fn large(b: &mut Bench, f: &[u8], mss: u16, hdrlen: u8, payload: u32, pieces: &[usize]) {
    let c = context(ContextTx {
        ipcss: 14,
        ipcso: 24,
        ipcse: 33.into(),
        tucss: 34,
        tucso: 50,
        tucse: 0.into(),
        word: (payload | DEXT | TSE | TCP | tx_word::IP).into(),
        status: 0,
        hdrlen,
        mss: mss.into(),
    });
    b.desc(c.0, c.1);
    b.put(0x20000, f);
    let mut at = 0;
    for (i, n) in pieces.iter().enumerate() {
        let end = if i + 1 == pieces.len() { EOP | RS } else { 0 };
        b.desc(0x20000 + at as u64, data(*n, TSE | IFCS | end, DataTx::TXSM | DataTx::IXSM));
        at += n;
    }
    b.kick();
    b.settle();
}

#[test]
fn a_large_send_without_its_header_is_discarded_and_counted() {
    let f = ip(false, false, 3000);
    for (len, sent, discarded) in [(53, 0, 1), (54, 1, 0), (55, 1, 0)] {
        let mut b = Bench::up(Config::I82540EM);
        large(&mut b, &f, 1000, 54, 3000, &[len]);
        let failed = b.read(reg::stat::TSCTFC);
        assert_eq!((b.sent().len(), b.d.counters.tx_discarded), (sent, discarded), "{len} bytes");
        assert_eq!(u64::from(failed), discarded);
    }
    // Neither without a segment size or a header length, nor with segments beyond the longest
    // frame.
    let longest = LegacyTx::MAX as u16;
    for (mss, hdrlen, sent) in
        [(0, 54, 0), (1000, 0, 0), (longest - 54, 54, 1), (longest - 53, 54, 0)]
    {
        let mut b = Bench::up(Config::I82540EM);
        b.write(reg::PBA, 16);
        let mut f = f.clone();
        f.resize(54 + usize::from(longest) - 54, 7);
        let payload = f.len() as u32 - 54;
        large(&mut b, &f, mss, hdrlen, payload, &[f.len()]);
        assert_eq!((b.sent().len(), b.d.counters.tx_discarded), (sent, 1 - sent as u64), "{mss}");
    }
}

#[test]
fn a_large_send_that_ends_early_ends_with_its_data() {
    // PAYLEN promises more. FIN and PSH are of the last segment.
    let flags = |b: &Bench| b.sent().iter().map(|f| f[47]).collect::<Vec<_>>();
    let f = ip(false, false, 2000);
    for pieces in [&[2054][..], &[54, 2000], &[1054, 1000]] {
        let mut b = Bench::up(Config::I82540EM);
        large(&mut b, &f, 1000, 54, 5000, pieces);
        assert_eq!(flags(&b), [0x10, 0x19], "{pieces:?}");
    }
    // A last descriptor without bytes comes too late to tell: no segment is made of it.
    let mut b = Bench::up(Config::I82540EM);
    large(&mut b, &f, 1000, 54, 5000, &[2054, 0]);
    assert_eq!(flags(&b), [0x10, 0x10]);
}

#[test]
fn a_checksum_is_inserted_where_its_option_says_so() {
    let f = ip(false, false, 200);
    for (popts, changed) in
        [(0, vec![]), (DataTx::IXSM, vec![24, 25]), (DataTx::TXSM, vec![50, 51])]
    {
        let mut b = Bench::up(Config::I82540EM);
        let mut c = ContextTx {
            ipcss: 14,
            ipcso: 24,
            ipcse: 33.into(),
            tucss: 34,
            tucso: 50,
            ..ContextTx::default()
        };
        c.word = (DEXT | TCP).into();
        let c = context(c);
        b.desc(c.0, c.1);
        let mut sent = f.clone();
        for at in [24, 25, 50, 51] {
            sent[at] = 0x5a;
        }
        b.put(AT, &sent);
        b.desc(AT, data(f.len(), IFCS | EOP | RS, popts));
        b.kick();
        b.settle();
        let on_wire = &b.sent()[0];
        let differ: Vec<_> = (0..f.len()).filter(|i| on_wire[*i] != sent[*i]).collect();
        assert_eq!(differ, changed, "{popts}");
    }
}

#[test]
fn a_descriptor_of_no_kind_is_counted_and_passed_over() {
    let mut b = Bench::up(Config::I82540EM);
    b.desc(AT, u64::from(DEXT | 0x0020_0000 | RS));
    b.send(AT, &frame(60), RS);
    b.kick();
    b.settle();
    assert_eq!((b.d.counters.bad_descriptors, b.sent().len()), (1, 1));
    assert!(b.tx_done(0) && b.tx_done(1));
}

#[test]
fn an_fcs_alone_is_no_frame() {
    // The right one of no bytes, a wrong one, and less than one.
    for bytes in [&[0, 0, 0, 0][..], &[0, 0, 0, 1], &[0, 0, 0]] {
        for pad in [0, TCTL_PSP] {
            let mut b = Bench::up(Config::I82540EM);
            b.write(reg::TCTL, TCTL_EN | pad);
            b.put(AT, bytes);
            b.desc(AT, u64::from(bytes.len() as u32 | EOP | RS));
            b.kick();
            b.settle();
            assert_eq!((b.sent().len(), b.d.counters.tx_discarded), (0, 1));
            assert!(b.tx_done(0));
        }
    }
}

#[test]
fn only_the_end_of_a_frame_with_rps_waits_for_the_wire() {
    for (first, last, reports) in [
        (RS, RS, vec![(ns(0), 0), (ns(0), 1)]),
        (RS | RPS, RS, vec![(ns(0), 0), (ns(0), 1)]),
        (RS, RS | RPS, vec![(ns(0), 0), (ns(1538 * 8), 1)]),
    ] {
        let mut b = Bench::up(Config::I82544GC);
        b.put(AT, &frame(1514));
        b.desc(AT, u64::from(1000 | IFCS | first));
        b.desc(AT + 1000, u64::from(514 | IFCS | EOP | last));
        b.kick();
        b.settle();
        let written: Vec<_> = b.p.writes.iter().map(|w| (w.0, (w.1 - TX_RING) / 16)).collect();
        assert_eq!(written, reports);
    }
}

#[test]
fn rps_without_the_end_of_a_frame_does_not_wait_for_the_frame_before() {
    let mut b = Bench::up(Config::I82544GC);
    b.put(AT, &frame(1514));
    b.desc(AT, u64::from(1514 | IFCS | EOP | RS));
    b.desc(AT, u64::from(1000 | IFCS | RS | RPS));
    b.desc(AT + 1000, u64::from(514 | IFCS | EOP | RS));
    b.kick();
    b.settle();
    let written: Vec<_> = b.p.writes.iter().map(|w| (w.1 - TX_RING) / 16).collect();
    assert_eq!(written, [0, 1, 2]);
    let last = b.p.writes.last().map(|w| w.0);
    assert!(last < Some(ns(1538 * 8)), "the first frame is still on the wire");
}

#[test]
fn collected_reports_interrupt_once_and_count_each() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::TXDCTL, DCTL_GRAN | 3 << DCTL_WTHRESH_SHIFT);
    for i in 0..3 {
        assert_eq!(b.read(reg::ICR) & INT_TXDW, 0, "after {i}");
        b.send(AT, &frame(60), RS);
        b.kick();
        b.settle();
    }
    assert_eq!(b.read(reg::ICR) & INT_TXDW, INT_TXDW);
    assert_eq!((b.d.counters.write_backs, b.d.counters.written_descriptors), (1, 3));
}

#[test]
fn a_refused_write_back_counts_as_none() {
    let mut b = Bench::up(Config::I82540EM);
    b.p.read_time = Span::from_us(1);
    b.send(AT, &frame(60), RS);
    b.kick();
    b.at(ns(1500));
    assert_eq!(b.d.counters.data_reads, 1, "the descriptor has been read");
    b.p.trap = Some((TX_RING + 12, DmaFaultKind::Unmapped));
    b.settle();
    let c = b.d.counters;
    assert_eq!((c.dma_faults, c.write_backs, c.written_descriptors), (1, 0, 0));
}

#[test]
fn padded_segments_of_one_read_fit_the_fifo() {
    let mut b = Bench::up(Config::I82540EM);
    let (c, f, popts) = large_send(&ip(false, false, 2000), 1);
    b.desc(c.0, c.1);
    b.put(0x20000, &f);
    b.desc(0x20000, data(f.len(), TSE | EOP | IFCS | RS, popts));
    b.kick();
    while let Some(due) = b.d.next_due() {
        b.at(due.max(b.now));
        assert!(b.d.tx.used <= b.d.regs.tx_fifo(), "{} bytes", b.d.tx.used);
    }
    assert_eq!(b.sent().len(), 2000);
}
