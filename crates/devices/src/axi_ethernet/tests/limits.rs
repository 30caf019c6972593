//! Work under way, memories and frames that stand exactly on a limit, and one beyond it.

use super::*;
use doorbell_hal::{DropReason, Fact};
use doorbell_packet::ethernet::fcs;

/// Without statistics or anything that takes time.
const QUICK: Config = Config { phy_reset: Span::ZERO, ..Config::ZYNQMP };

fn sizes(b: &mut Bench, first: u32) -> [u32; 2] {
    [0, 8].map(|n| b.get_mac(first + n))
}

// ---- channels ----

#[test]
fn a_standstill_is_told_by_register() {
    let mut b = Bench::up(QUICK);
    b.post(0, 3, 1600);
    b.send(&frame(60));
    b.settle();
    let mut told = Vec::new();
    b.d.diagnose(&mut |name, fact| told.push((name, fact)));
    let mut expected = vec![("link up", Fact::State(true))];
    for (ch, names) in [
        (MM2S, ["MM2S_DMACR", "MM2S_DMASR", "MM2S_CURDESC", "MM2S_TAILDESC"]),
        (S2MM, ["S2MM_DMACR", "S2MM_DMASR", "S2MM_CURDESC", "S2MM_TAILDESC"]),
    ] {
        for (name, r) in names.into_iter().zip([dma::CR, dma::SR, dma::CURDESC, dma::TAILDESC]) {
            // Bit 1 of CR reads as one, and is not kept.
            let v = b.get(ch + r) & if r == dma::CR { !2 } else { !0 };
            expected.push((name, Fact::Bits(v.into())));
        }
    }
    assert_eq!(told, expected);
}

#[test]
fn a_channel_in_error_keeps_all_of_cr_but_run() {
    let mut b = Bench::up(QUICK);
    b.piece(0x8000, 0, Descriptor::SOF | Descriptor::EOF);
    b.kick();
    b.settle();
    assert_eq!(b.status(MM2S) & (sr::HALTED | sr::DMA_INT_ERR), sr::HALTED | sr::DMA_INT_ERR);
    for word in [run(7, 9), run(1, 0)] {
        b.put(MM2S + dma::CR, word);
        assert_eq!(b.get(MM2S + dma::CR), word & !cr::RS | 2);
    }
}

#[test]
fn a_second_tail_does_not_delay_the_first_fetch() {
    let mut b = Bench::up(QUICK);
    for i in 0..2 {
        b.queue_frame(0x8000 + i * 0x800, &frame(60), [0; 3]);
    }
    b.tail(MM2S, Bench::tx(0));
    b.after(Span::from_ns(40));
    b.tail(MM2S, Bench::tx(1));
    b.settle();
    // Ten clocks of 8 ns.
    assert_eq!((b.p.reads[0].0, b.sent().len()), (ns(80), 2));
}

#[test]
fn four_reports_are_on_their_way_at_the_most() {
    for ch in [MM2S, S2MM] {
        let mut b = Bench::up(QUICK);
        b.p.write_time = Span::from_ms(1);
        if ch == MM2S {
            (0..9).for_each(|_| {
                b.queue_frame(0x8000, &frame(60), [0; 3]);
            });
            b.kick();
            b.after(Span::from_us(900));
            assert_eq!(b.d.counters.tx_descriptors, 4);
        } else {
            // Two buffers at a time, and their reports behind them.
            b.post(0, 9, 1600);
            (0..9).for_each(|_| assert_eq!(b.receive(&frame(60)), RxVerdict::Yes));
            b.after(Span::from_us(900));
            assert_eq!((b.d.counters.rx_descriptors, b.d.counters.rx_completions), (2, 0));
            b.after(Span::from_us(1000));
            assert_eq!((b.d.counters.rx_descriptors, b.d.counters.rx_completions), (4, 0));
        }
        b.settle();
        let c = &b.d.counters;
        assert_eq!(c.tx_completions + c.rx_completions, 9);
    }
}

#[test]
fn a_reset_waits_for_the_reports() {
    let mut b = Bench::up(QUICK);
    b.p.write_time = Span::from_us(50);
    b.send(&frame(60));
    b.after(Span::from_us(10));
    b.put(MM2S + dma::CR, cr::RESET);
    b.after(Span::from_us(30));
    assert_eq!(b.get(MM2S + dma::CR) & cr::RESET, cr::RESET, "the report is not in memory");
    b.after(Span::from_us(20));
    assert_eq!(b.get(MM2S + dma::CR) & cr::RESET, 0);
}

#[test]
fn a_report_that_fails_halts_its_channel() {
    let mut b = Bench::up(QUICK);
    b.p.poisoned = true;
    let at = b.send(&frame(60));
    b.send(&frame(61));
    b.settle();
    let status = b.status_of(at);
    assert_eq!(status, Descriptor::CMPLT | Descriptor::SLV_ERR | 60);
    let error = sr::DMA_SLV_ERR | sr::HALTED | sr::ERR_IRQ;
    assert_eq!(b.status(MM2S) & !sr::IOC_IRQ, error);
    assert_eq!((b.d.counters.dma_errors, b.get(MM2S + dma::CURDESC)), (1, at as u32));
}

#[test]
fn a_report_that_fails_adds_its_error_to_that_of_the_data() {
    for (kind, error) in [
        (DmaFaultKind::Injected, Descriptor::SLV_ERR),
        (DmaFaultKind::Unmapped, Descriptor::DEC_ERR),
    ] {
        let mut b = Bench::up(QUICK);
        b.p.poisoned = true;
        b.p.trap = Some((0x8010, kind));
        let at = b.send(&frame(60));
        b.settle();
        let status = Descriptor::CMPLT | Descriptor::SLV_ERR | error;
        assert_eq!(b.status_of(at), status, "{kind:?}");
    }
}

#[test]
fn a_channel_is_halted_when_its_data_have_arrived() {
    let mut b = Bench::up(QUICK);
    b.p.write_time = Span::from_us(5);
    b.post(0, 4, 1600);
    assert_eq!(b.receive(&frame(100)), RxVerdict::Yes);
    b.after(Span::from_us(1));
    b.put(S2MM + dma::CR, 0);
    b.after(Span::from_us(3));
    assert_eq!(b.status(S2MM) & sr::HALTED, 0, "data are on their way");
    b.settle();
    assert_eq!(b.status(S2MM) & sr::HALTED, sr::HALTED);
    assert_eq!((b.received(0, 100), b.d.counters.rx_completions), (&frame(100)[..], 1));
}

// ---- reception ----

#[test]
fn a_bit_of_the_table_stays_set_when_it_is_set_again() {
    let mut b = Bench::new(Config { extended_multicast: true, ..QUICK });
    let at = mac::MULTICAST + 4 * 0x0505;
    for (v, bit) in [(1, 1), (1, 1), (0, 0), (0, 0), (1, 1)] {
        b.put_mac(at, v);
        assert_eq!(b.get_mac(at), bit);
    }
}

#[test]
fn a_reset_of_the_receiver_keeps_what_has_begun_to_leave() {
    let mut b = Bench::up(QUICK);
    b.p.write_time = Span::from_us(5);
    // One buffer of 64 bytes: the rest of the frame waits, and another frame behind it.
    b.post(0, 1, 64);
    assert_eq!(b.receive(&frame(1000)), RxVerdict::Yes);
    assert_eq!(b.receive(&frame(500)), RxVerdict::Yes);
    assert_eq!(b.d.rx.used(), 1500);
    b.after(Span::from_us(2));
    let rcw1 = b.get_mac(mac::RCW1);
    b.put_mac(mac::RCW1, rcw1 | rcw1::RESET);
    b.put_mac(mac::RCW1, rcw1 & !rcw1::RESET | rcw1::RX);
    assert_eq!(b.d.rx.used(), 1000, "64 bytes on their way, and 936");
    b.settle();
    assert_eq!(b.d.rx.used(), 936);
    b.post(1, 4, 1600);
    b.settle();
    assert_eq!((b.d.rx.used(), b.d.counters.rx_packets, b.d.counters.rx_completions), (0, 1, 1));
    assert_eq!(b.received(1, 936), &frame(1000)[64..]);
}

#[test]
fn a_frame_that_has_not_begun_survives_an_error() {
    let mut b = Bench::up(QUICK);
    assert_eq!(b.receive(&frame(100)), RxVerdict::Yes);
    // A descriptor without a length.
    b.post(0, 1, 0);
    b.settle();
    assert_eq!(b.status(S2MM) & sr::DMA_INT_ERR, sr::DMA_INT_ERR);
    assert_eq!((b.d.counters.rx_dropped, b.d.rx.used()), (0, 100));
}

#[test]
fn a_frame_whose_report_fails_is_unreported() {
    let mut b = Bench::up(QUICK);
    b.post(0, 4, 1600);
    b.settle();
    b.p.trap = Some((Bench::rx(0) + u64::from(Descriptor::STATUS_AT), DmaFaultKind::Unmapped));
    assert_eq!(b.receive(&frame(100)), RxVerdict::Yes);
    b.settle();
    let c = &b.d.counters;
    assert_eq!((c.rx_packets, c.rx_unreported, c.rx_completions, c.dma_errors), (1, 1, 0, 1));
}

#[test]
fn the_receive_memory_holds_exactly_what_it_has() {
    let mut b = Bench::up(Config { rx_memory: 2048, ..QUICK });
    for (len, verdict) in
        [(1000, RxVerdict::Yes), (1048, RxVerdict::Yes), (60, RxVerdict::Dropped(DropReason::Fifo))]
    {
        assert_eq!(b.receive(&frame(len)), verdict, "{len}");
    }
}

// ---- transmission ----

#[test]
fn a_descriptor_in_work_is_finished_after_a_stop() {
    // A frame is being sent; the next one's first piece is read, and the rest waits for room.
    let mut b = Bench::up(Config { tx_memory: 2048, ..QUICK });
    b.queue_frame(0x8000, &frame(1500), [0; 3]);
    let at = b.queue_frame(0x9fa0, &frame(1200), [0; 3]);
    b.kick();
    b.after(Span::from_us(5));
    assert_eq!((b.d.counters.tx_descriptors, b.d.counters.data_reads), (1, 2));
    b.put(MM2S + dma::CR, 0);
    b.settle();
    assert_eq!(b.status_of(at), Descriptor::CMPLT | 1200);
    assert_eq!(b.sent(), [frame(1500), frame(1200)]);
}

#[test]
fn a_packet_that_begins_in_another_is_counted() {
    let mut b = Bench::up(QUICK);
    b.fill(0x8000, &frame(120));
    b.piece(0x8000, 60, Descriptor::SOF);
    b.piece(0x803c, 60, Descriptor::SOF | Descriptor::EOF);
    b.kick();
    b.settle();
    assert_eq!((b.d.counters.bad_descriptors, b.sent()), (1, vec![frame(120)]));
}

#[test]
fn the_gap_is_the_registers_if_tc_says_so() {
    for (control, gap) in [(tc::TX, 12), (tc::TX | tc::IFG, 100)] {
        let mut b = Bench::up(QUICK);
        b.put_mac(mac::IFGP, 100);
        b.put_mac(mac::TC, control);
        for _ in 0..2 {
            b.queue_frame(0x8000, &frame(60), [0; 3]);
        }
        b.kick();
        b.settle();
        let apart = b.p.frames[1].0.since(b.p.frames[0].0);
        assert_eq!(apart, Span::from_ns((8 + 60 + 4 + gap) * 8));
    }
}

#[test]
fn a_frame_with_its_own_fcs_has_more_than_that() {
    for (body, sent) in [(0, 0), (1, 1), (60, 1)] {
        let mut b = Bench::up(QUICK);
        b.put_mac(mac::TC, tc::TX | tc::FCS);
        let mut f = frame(body);
        f.extend(fcs(&frame(body)));
        b.send(&f);
        b.settle();
        assert_eq!((b.sent().len(), b.d.counters.tx_discarded), (sent, 1 - sent as u64), "{body}");
        assert_eq!(b.d.tx.used, 0);
    }
}

#[test]
fn the_transmit_memory_is_empty_after_frames_of_all_kinds() {
    let mut b = Bench::up(QUICK);
    // Padded, whole, and too long.
    for len in [20, 60, 61, 123, 124, 1514, 1600] {
        b.queue_frame(0x8000, &frame(len), [0; 3]);
        b.kick();
        b.settle();
        assert_eq!(b.d.tx.used, 0, "{len}");
    }
    let lens: Vec<usize> = b.sent().iter().map(Vec::len).collect();
    assert_eq!(lens, [60, 60, 61, 123, 124, 1514]);
    assert_eq!((b.d.counters.tx_packets, b.d.counters.tx_discarded), (6, 1));
    // With the FCS: up to 64 bytes twice, up to 127 twice.
    assert_eq!(sizes(&mut b, stat::TX_64), [2, 2]);
}

#[test]
fn frames_at_another_speed_are_garbled() {
    use doorbell_layout::axienet::emmc;
    let mut b = Bench::up(QUICK);
    b.put_mac(mac::EMMC, emmc::SPEED_100);
    for n in 1..=2 {
        b.send(&frame(60));
        b.settle();
        assert_eq!((b.d.counters.tx_garbled, b.sent().len()), (n, 0));
    }
}
