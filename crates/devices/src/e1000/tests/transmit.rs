use super::super::{Config, fcs};
use super::{Bench, TX_RING, frame, ns};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_layout::e1000::tx_word::{DEXT, DTYP_DATA, EOP, IDE, IFCS, IP, RPS, RS, TCP, TSE, VLE};
use doorbell_layout::e1000::*;
use doorbell_packet::checksum::Sum;
use doorbell_packet::headers::{Check, Layers, prepare_partial, verify};
use doorbell_packet::segment::{Segments, prepare_gso};
use doorbell_seam::{Span, Time, Timed};
use proptest::prelude::*;

const AT: u64 = 0x8000;

/// An IP frame with right checksums.
fn ip(v6: bool, udp: bool, payload: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let l4 = if udp { 8 } else { 20 };
    let len = (l4 + payload) as u16;
    let proto = if udp { 17 } else { 6 };
    if v6 {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend(len.to_be_bytes());
        f.extend([proto, 64]);
        f.extend([0x20; 16]);
        f.extend([0x30; 16]);
    } else {
        f.extend([0x08, 0, 0x45, 0]);
        f.extend((len + 20).to_be_bytes());
        f.extend([0xff, 0xfe, 0x40, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let check = Sum::of(&f[14..34]).checksum();
        f[24..26].copy_from_slice(&check.to_be_bytes());
    }
    let start = f.len();
    f.extend([0x12, 0x34, 0x56, 0x78]);
    if udp {
        f.extend(len.to_be_bytes());
        f.extend([0, 0]);
    } else {
        // FIN, PSH, ACK.
        f.extend([0xff, 0xff, 0xff, 0, 1, 2, 3, 4, 0x50, 0x19, 0x20, 0, 0, 0, 0, 0]);
    }
    f.extend((0..payload).map(|i| (i * 13 + i / 251) as u8));
    let field = start + if udp { 6 } else { 16 };
    let l = Layers::of(&f).unwrap();
    let sum = l.pseudo_header(&f, len.into()).plus(Sum::of(&f[start..]));
    let check = if udp { sum.udp_checksum() } else { sum.checksum() };
    f[field..field + 2].copy_from_slice(&check.to_be_bytes());
    assert_eq!(verify(&f).transport, Check::Good);
    f
}

/// A context: (low, high) quadwords.
fn context(c: ContextTx) -> (u64, u64) {
    use zerocopy::IntoBytes;
    let b: [u8; 16] = c.as_bytes().try_into().unwrap();
    let v = u128::from_le_bytes(b);
    (v as u64, (v >> 64) as u64)
}

fn data(len: usize, word: u32, popts: u8) -> u64 {
    u64::from(len as u32 | DEXT | DTYP_DATA | word) | u64::from(popts) << 40
}

/// The context and the frame that Linux's e1000_tso prepares.
fn large_send(f: &[u8], mss: u16) -> ((u64, u64), Vec<u8>, u8) {
    let mut f = f.to_vec();
    let l = Layers::of(&f).unwrap();
    let (l3, l4) = (l.l3 as usize, l.l4 as usize);
    let v4 = f[12] == 8;
    let tcp = l.protocol == 6;
    if v4 {
        f[l3 + 2..l3 + 4].fill(0);
        f[l3 + 10..l3 + 12].fill(0);
    } else {
        f[l3 + 4..l3 + 6].fill(0);
    }
    // The pseudo-header without length.
    let pseudo = l.pseudo_header(&f, 0).value();
    let field = l4 + if tcp { 16 } else { 6 };
    f[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
    let payload = (f.len() - l.end as usize) as u32;
    let word = payload | DEXT | TSE | if tcp { TCP } else { 0 } | if v4 { IP } else { 0 };
    let c = ContextTx {
        ipcss: l3 as u8,
        ipcso: if v4 { l3 as u8 + 10 } else { 0 },
        ipcse: if v4 { l4 as u16 - 1 } else { 0 }.into(),
        tucss: l4 as u8,
        tucso: field as u8,
        tucse: 0.into(),
        word: word.into(),
        status: 0,
        hdrlen: l.end as u8,
        mss: mss.into(),
    };
    (context(c), f, DataTx::TXSM | if v4 { DataTx::IXSM } else { 0 })
}

/// What the software of `packet` makes of it.
fn software(f: &[u8], mss: u16) -> Vec<Vec<u8>> {
    let mut f = f.to_vec();
    let gso = prepare_gso(&mut f, mss).unwrap().gso.unwrap();
    let mut s = Segments::new(&f, gso).unwrap();
    let mut out = vec![0; s.cut().longest()];
    let mut all = vec![];
    while let Some(n) = s.next_into(&mut out) {
        let mut one = out[..n].to_vec();
        one.resize(n.max(60), 0);
        all.push(one);
    }
    all
}

/// Sends it in pieces of these lengths, the last taking the rest.
fn send_large(b: &mut Bench, f: &[u8], mss: u16, pieces: &[usize]) {
    let (c, f, popts) = large_send(f, mss);
    b.desc(c.0, c.1);
    b.put(0x20000, &f);
    let mut at = 0;
    for &n in pieces.iter().chain([&usize::MAX]) {
        let n = n.min(f.len() - at);
        if n == 0 {
            continue;
        }
        let end = if at + n == f.len() { EOP | IFCS | RS } else { 0 };
        b.desc(0x20000 + at as u64, data(n, TSE | end, popts));
        at += n;
    }
    b.kick();
    b.settle();
}

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
    f.extend(fcs::of(&f));
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
fn legacy_checksums_go_from_css_to_the_end() {
    let mut b = Bench::up(Config::I82540EM);
    let mut f = ip(false, false, 101);
    let good = f.clone();
    prepare_partial(&mut f).unwrap();
    b.put(AT, &f);
    let word = f.len() as u32 | 50 << 16 | EOP | IFCS | TSE | RS;
    b.desc(AT, u64::from(word) | 34 << 40);
    b.kick();
    b.settle();
    assert_eq!(b.sent(), [good]);
}

#[test]
fn a_checksum_context_serves_many_packets() {
    for (v6, udp) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut b = Bench::up(Config::I82540EM);
        let good = ip(v6, udp, 333);
        let mut f = good.clone();
        let partial = prepare_partial(&mut f).unwrap();
        // e1000_tx_csum: only where to start and where to store.
        let word = DEXT | if udp { 0 } else { TCP };
        let c = ContextTx {
            tucss: partial.start as u8,
            tucso: partial.field() as u8,
            word: word.into(),
            ..ContextTx::default()
        };
        let (low, high) = context(c);
        b.desc(low, high);
        for i in 0..3 {
            b.put(AT + i * 2048, &f);
            b.desc(AT + i * 2048, data(f.len(), EOP | IFCS | RS, DataTx::TXSM));
        }
        b.kick();
        b.settle();
        assert_eq!(b.sent(), [good.clone(), good.clone(), good]);
        assert_eq!(b.d.counters.contexts, 1);
    }
}

#[test]
fn segments_are_those_of_the_software() {
    for (v6, udp) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut b = Bench::up(Config::I82540EM);
        let f = ip(v6, udp, 14_700);
        send_large(&mut b, &f, 1448, &[]);
        assert_eq!(b.sent(), software(&f, 1448), "v6 {v6} udp {udp}");
        assert_eq!(b.read(reg::stat::TSCTC), 1);
        assert_eq!(b.d.counters.large_sends, 1);
    }
}

#[test]
fn the_device_adds_the_length_that_the_pseudo_header_lacks() {
    let mut b = Bench::up(Config::I82540EM);
    send_large(&mut b, &ip(false, false, 3000), 1000, &[]);
    for f in b.sent() {
        assert_eq!(verify(&f).transport, Check::Good);
        assert_eq!(verify(&f).ip, Check::Good);
    }
}

#[test]
fn the_last_bytes_in_a_descriptor_of_their_own_change_nothing() {
    // The sentinel of the premature write-back erratum.
    let f = ip(false, false, 5000);
    let mut b = Bench::up(Config::I82540EM);
    send_large(&mut b, &f, 1448, &[f.len() - 4]);
    assert_eq!(b.sent(), software(&f, 1448));
}

#[test]
fn cwr_is_repeated_on_every_segment() {
    let mut f = ip(false, false, 3000);
    f[47] |= 0x80;
    let mut b = Bench::up(Config::I82540EM);
    send_large(&mut b, &f, 1000, &[]);
    assert!(b.sent().iter().all(|s| s[47] & 0x80 != 0));
    assert!(software(&f, 1000)[1..].iter().all(|s| s[47] & 0x80 == 0), "which is wrong");
}

#[test]
fn what_comes_after_paylen_is_not_sent() {
    let f = ip(false, false, 3000);
    let (c, g, popts) = large_send(&f, 1000);
    let mut b = Bench::up(Config::I82540EM);
    b.desc(c.0, c.1 - 1000);
    b.put(AT, &g);
    b.desc(AT, data(g.len(), TSE | EOP | IFCS | RS, popts));
    b.kick();
    b.settle();
    let sent = b.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!([sent[0][47], sent[1][47]], [0x10, 0x19], "and the last of PAYLEN is the last");
}

#[test]
fn a_context_that_cannot_be_fails_and_the_next_packet_is_sent() {
    let mut b = Bench::up(Config::I82540EM);
    let f = ip(false, false, 3000);
    let (c, g, popts) = large_send(&f, 0);
    b.desc(c.0, c.1);
    b.put(AT, &g);
    b.desc(AT, data(g.len(), TSE | EOP | IFCS | RS, popts));
    b.send(0x20000, &frame(60), RS);
    b.kick();
    b.settle();
    assert_eq!(b.sent(), [frame(60)]);
    assert!(b.tx_done(1));
    assert_eq!(b.read(reg::stat::TSCTFC), 1);
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
    for (r, v) in [(reg::CTRL, CTRL_SLU | CTRL_RFCE), (reg::FCAL, 0x00c2_8001), (reg::FCAH, 0x0100), (reg::FCT, 0x8808)]
    {
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
        b.desc(from, u64::from(n | if from + u64::from(n) == at + 3000 { EOP | IFCS | RS } else { 0 }));
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_large_send_in_any_pieces_is_cut_as_software_cuts_it(
        v6: bool, udp: bool, payload in 200usize..20_000, mss in 64u16..4000,
        pieces in prop::collection::vec(1usize..5000, 0..8),
    ) {
        prop_assume!(payload > usize::from(mss));
        let f = ip(v6, udp, payload);
        let mut b = Bench::up(Config { errata: false, ..Config::I82545EM });
        send_large(&mut b, &f, mss, &pieces);
        prop_assert_eq!(b.sent(), software(&f, mss));
    }
}
