//! The states of a channel: TAILDESC, CURDESC, run, stop, idle, halt, reset.

use super::*;

/// Without statistics or anything that takes time.
const QUICK: Config = Config { phy_reset: Span::ZERO, ..Config::ZYNQMP };

#[test]
fn after_a_reset_channels_are_halted_with_threshold_one() {
    let mut b = Bench::new(QUICK);
    for ch in [MM2S, S2MM] {
        assert_eq!(b.get(ch + dma::CR), 0x0001_0002, "bit 1 reads as one");
        assert_eq!(b.get(ch + dma::SR), 0x0001_0009, "halted, scatter-gather, one to go");
    }
}

#[test]
fn work_goes_up_to_and_with_the_descriptor_at_taildesc() {
    let mut b = Bench::up(QUICK);
    for i in 0..4 {
        b.queue_frame(0x8000 + i * 0x800, &frame(60 + i as usize), [0; 3]);
    }
    b.tail(MM2S, Bench::tx(1));
    b.settle();
    assert_eq!(b.sent().len(), 2);
    assert_eq!([0, 1, 2].map(|i| b.status_of(Bench::tx(i)) >> 31), [1, 1, 0]);
    assert_eq!(b.status(MM2S) & (sr::IDLE | sr::HALTED), sr::IDLE);
    assert_eq!(b.get(MM2S + dma::CURDESC), Bench::tx(2) as u32, "the next one");
}

#[test]
fn idle_is_the_normal_no_work_state_and_a_tail_clears_it() {
    let mut b = Bench::up(QUICK);
    assert_eq!(b.status(MM2S) & (sr::IDLE | sr::HALTED), 0, "waiting for the first tail");
    b.send(&frame(60));
    b.settle();
    assert_eq!(b.status(MM2S) & (sr::IDLE | sr::HALTED), sr::IDLE);
    b.send(&frame(60));
    assert_eq!(b.status(MM2S) & (sr::IDLE | sr::HALTED), 0);
    b.settle();
    assert_eq!((b.status(MM2S) & sr::IDLE, b.sent().len()), (sr::IDLE, 2));
}

/// As at the end of each poll. QEMU's model takes Idle away.
#[test]
fn a_control_word_written_to_an_idle_channel_leaves_it_idle() {
    let mut b = Bench::up(QUICK);
    b.send(&frame(60));
    b.settle();
    b.put(MM2S + dma::SR, sr::IRQ_ALL);
    let fetched = b.d.counters.tx_fetches;
    for word in [run(1, 0) & !(cr::IOC_IRQ_EN | cr::DLY_IRQ_EN), run(1, 0), run(24, 50)] {
        b.put(MM2S + dma::CR, word);
        b.after(Span::from_us(100));
        assert_eq!((b.status(MM2S), b.d.counters.tx_fetches), (sr::IDLE, fetched), "{word:#x}");
    }
    b.send(&frame(61));
    b.settle();
    assert_eq!(b.sent(), [frame(60), frame(61)]);
}

#[test]
fn a_tail_written_to_a_halted_channel_starts_nothing() {
    let mut b = Bench::new(QUICK);
    b.rings();
    b.put(MM2S + dma::CURDESC, TX_RING as u32);
    b.send(&frame(60));
    assert_eq!(b.status(MM2S), sr::HALTED, "nor does it take Halted away");
    b.put(MM2S + dma::CR, run(1, 0));
    b.settle();
    assert_eq!((b.p.reads.len(), b.d.counters.lost_doorbells), (0, 1));
    assert_eq!(b.get(MM2S + dma::TAILDESC), TX_RING as u32, "but it is kept");
    b.tail(MM2S, Bench::tx(0));
    b.settle();
    assert_eq!(b.sent(), [frame(60)]);
}

#[test]
fn curdesc_latches_only_while_halted() {
    let mut b = Bench::up(QUICK);
    b.put(MM2S + dma::CURDESC, 0x7000);
    assert_eq!(b.get(MM2S + dma::CURDESC), TX_RING as u32);
    b.put(MM2S + dma::CR, 0);
    b.put(MM2S + dma::CURDESC, 0x7013);
    assert_eq!(b.get(MM2S + dma::CURDESC), 0x7000, "descriptors are 64 bytes apart");
}

/// It is the descriptor whose status is not in memory yet, whatever was fetched and worked on
/// behind it.
#[test]
fn curdesc_moves_with_the_status_and_not_with_the_work() {
    let mut b = Bench::up(QUICK);
    b.p.write_time = Span::from_us(5);
    for i in 0..3 {
        b.queue_frame(0x8000 + i * 0x100, &frame(60), [0; 3]);
    }
    b.kick();
    b.after(Span::from_us(4));
    assert_eq!((b.d.counters.tx_descriptors, b.get(MM2S + dma::CURDESC)), (3, Bench::tx(0) as u32));
    b.settle();
    assert_eq!(b.get(MM2S + dma::CURDESC), Bench::tx(3) as u32);
}

#[test]
fn a_later_tail_moves_the_point_and_work_goes_on() {
    let mut b = Bench::up(QUICK);
    b.p.read_time = Span::from_us(1);
    b.send(&frame(60));
    b.after(Span::from_ns(1500));
    b.send(&frame(61));
    b.settle();
    assert_eq!(b.sent().len(), 2);
    assert_eq!(b.get(MM2S + dma::CURDESC), Bench::tx(2) as u32);
}

#[test]
fn the_same_tail_again_does_nothing_while_its_descriptor_is_on_its_way() {
    let mut b = Bench::up(QUICK);
    b.p.read_time = Span::from_us(1);
    b.send(&frame(60));
    b.after(Span::from_ns(500));
    b.kick();
    b.settle();
    assert_eq!((b.sent().len(), b.status(MM2S) & sr::ERRORS), (1, 0));
    assert_eq!(b.d.counters.tx_fetches, 1);
}

/// As in axi_sg_ftch_pntr.vhd, and not as the guide says.
#[test]
fn the_same_tail_again_while_its_data_are_in_work_runs_past_it() {
    let mut b = Bench::up(QUICK);
    b.p.read_time = Span::from_us(1);
    b.send(&frame(60));
    b.after(Span::from_ns(1500));
    b.kick();
    b.settle();
    assert_eq!(
        b.status(MM2S) & (sr::ERRORS | sr::HALTED),
        sr::DMA_INT_ERR | sr::HALTED,
        "an empty one"
    );
    assert_eq!(b.get(MM2S + dma::CURDESC), Bench::tx(1) as u32);
}

/// A driver writes the descriptor that it has just refilled. The engine, which serves transmission,
/// has fetched none behind it.
#[test]
fn a_ring_refilled_while_nothing_is_fetched_ahead_goes_on() {
    let mut b = Bench::up(QUICK);
    b.p.read_time = Span::from_us(10);
    b.post(0, RING, 1600);
    b.send(&frame(60));
    b.at(us(5)).receive(&frame(61));
    b.at(us(15));
    assert_eq!(b.status_of(Bench::rx(0)) >> 31, 1, "done");
    let fetched: Vec<u64> = b.p.reads.iter().map(|r| r.1).collect();
    assert_eq!(fetched, [Bench::rx(0), Bench::tx(0)]);
    b.post(0, 1, 1600);
    for i in 1..2 * RING {
        b.receive(&frame(61));
        b.settle();
        assert_eq!(b.status_of(Bench::rx(i)) >> 31, 1, "{i}");
        b.post(i, i + 1, 1600);
    }
}

#[test]
fn the_same_tail_again_after_idle_runs_around_the_ring_into_what_is_done() {
    let mut b = Bench::up(QUICK);
    for i in 0..RING {
        b.queue_frame(0x8000, &frame(60), [0; 3]);
        if i % 16 == 15 {
            b.kick();
            b.settle();
        }
    }
    b.put(MM2S + dma::SR, sr::IRQ_ALL);
    b.kick();
    b.settle();
    assert_eq!(b.status(MM2S), sr::SG_INT_ERR | sr::HALTED | sr::ERR_IRQ);
    assert_eq!(b.get(MM2S + dma::CURDESC), TX_RING as u32, "where the error is");
}

#[test]
fn the_upper_half_of_taildesc_starts_a_channel_of_64_bits() {
    let mut b = Bench::up(QUICK);
    b.queue_frame(0x8000, &frame(60), [0; 3]);
    b.put(MM2S + dma::TAILDESC, TX_RING as u32);
    b.after(Span::from_us(100));
    assert_eq!(b.p.reads.len(), 0, "mandatory, even if it is 0");
    b.put(MM2S + dma::TAILDESC_MSB, 0);
    b.settle();
    assert_eq!(b.sent().len(), 1);
    let at = b.queue_frame(0x8000, &frame(60), [0; 3]);
    b.d.mmio_write(&mut b.p, b.now, Reg { region: DMA, offset: MM2S + dma::TAILDESC }, 8, at);
    b.settle();
    assert_eq!(b.sent().len(), 2, "both halves in one access");
}

#[test]
fn a_channel_of_32_bits_has_no_upper_halves() {
    let mut b = Bench::up(Config { address_bits: 32, ..QUICK });
    for r in [dma::CURDESC_MSB, dma::TAILDESC_MSB] {
        b.put(MM2S + r, !0);
        assert_eq!(b.get(MM2S + r), 0, "which is how a driver finds out");
    }
    let at = b.piece(0x8000 | 7 << 32, 60, Descriptor::SOF | Descriptor::EOF);
    assert_eq!(b.desc(at).buffer_msb.get(), 7);
    b.kick();
    b.settle();
    assert_eq!(b.sent().len(), 1, "nor do descriptors");
}

#[test]
fn up_to_four_descriptors_are_fetched_ahead_and_never_past_the_tail() {
    let mut b = Bench::up(QUICK);
    b.post(0, 9, 1600);
    b.settle();
    let fetched: Vec<u64> = b.p.reads.iter().map(|r| r.1).collect();
    assert_eq!(fetched, [0, 1, 2, 3].map(Bench::rx));
    assert!(b.p.reads.iter().all(|r| r.2 == 32), "the words before the application's");
    for _ in 0..9 {
        b.receive(&frame(60));
    }
    b.settle();
    assert_eq!(b.p.reads.len(), 9);
}

#[test]
fn both_channels_share_one_fetch_engine() {
    let mut b = Bench::up(QUICK);
    b.p.read_time = Span::from_ns(300);
    b.post(0, 4, 1600);
    b.send(&frame(60));
    b.settle();
    let fetches: Vec<Time> = b.p.reads.iter().filter(|r| r.1 < 0x8000).map(|r| r.0).collect();
    assert_eq!(fetches.len(), 5);
    assert!(fetches.windows(2).all(|w| w[1] >= w[0] + Span::from_ns(300)), "{fetches:?}");
}

#[test]
fn latencies_are_those_of_the_product_guide() {
    let mut b = Bench::up(QUICK);
    b.post(0, 2, 1600);
    b.settle();
    assert_eq!(b.p.reads[0].0, ns(10 * 8), "tail to fetch: 10 clocks");
    b.at(us(1)).receive(&frame(60));
    b.settle();
    assert_eq!(b.p.writes[0].0, us(1) + Span::from_ns(39 * 8), "stream to data: 39");
    let start = b.now;
    b.send(&frame(60));
    b.settle();
    let data = b.p.reads.iter().find(|r| r.1 == 0x8000).unwrap().0;
    assert_eq!(data, start + Span::from_ns((10 + 10) * 8));
    assert_eq!(b.p.frames[0].0, data + Span::from_ns(6 * 8), "data to stream: 6");
}

#[test]
fn stop_finishes_the_descriptor_in_work_and_then_halts() {
    let mut b = Bench::up(QUICK);
    b.p.read_time = Span::from_us(1);
    b.queue_frame(0x8000, &frame(60), [0; 3]);
    b.queue_frame(0x8000, &frame(61), [0; 3]);
    b.kick();
    b.at(us(2));
    b.put(MM2S + dma::CR, 0);
    assert_eq!(b.status(MM2S) & sr::HALTED, 0, "not yet");
    b.put(MM2S + dma::CURDESC, 0x7000);
    assert_eq!(b.get(MM2S + dma::CURDESC), TX_RING as u32, "and until then CURDESC is its own");
    b.settle();
    assert_eq!(b.status(MM2S) & (sr::HALTED | sr::IDLE), sr::HALTED);
    assert_eq!(b.sent().len(), 1);
    assert_eq!(b.get(MM2S + dma::CURDESC), Bench::tx(1) as u32);
    b.put(MM2S + dma::CR, run(1, 0));
    b.kick();
    b.settle();
    assert_eq!(b.sent().len(), 2, "and goes on where it stopped");
}

#[test]
fn run_again_before_it_has_halted_does_nothing_twice() {
    let mut b = Bench::up(QUICK);
    b.p.read_time = Span::from_us(1);
    b.queue_frame(0x8000, &frame(60), [0; 3]);
    b.queue_frame(0x8100, &frame(61), [0; 3]);
    b.kick();
    b.at(us(2));
    b.put(MM2S + dma::CR, 0);
    b.put(MM2S + dma::CR, run(1, 0));
    b.kick();
    b.settle();
    assert_eq!(b.sent(), [frame(60), frame(61)]);
    assert_eq!(b.status(MM2S) & (sr::ERRORS | sr::IDLE), sr::IDLE);
}

#[test]
fn stop_in_the_middle_of_a_packet_loses_it() {
    let mut b = Bench::up(QUICK);
    b.piece(0x8000, 100, Descriptor::SOF);
    b.kick();
    b.settle();
    b.put(MM2S + dma::CR, 0);
    assert_eq!(b.status(MM2S) & sr::HALTED, sr::HALTED);
    b.put(MM2S + dma::CR, run(1, 0));
    b.send(&frame(70));
    b.settle();
    assert_eq!((b.sent(), b.d.counters.tx_discarded), (vec![frame(70)], 1));
}

#[test]
fn stop_in_the_middle_of_a_received_frame_loses_the_rest() {
    let mut b = Bench::up(QUICK);
    b.post(0, 1, 64);
    b.receive(&frame(100));
    b.settle();
    assert_eq!(b.status_of(Bench::rx(0)), Descriptor::CMPLT | Descriptor::SOF | 64);
    b.put(S2MM + dma::CR, 0);
    b.put(S2MM + dma::CR, run(1, 0));
    b.post(1, 3, 1600);
    b.receive(&frame(80));
    b.settle();
    assert_eq!(
        b.status_of(Bench::rx(1)),
        Descriptor::CMPLT | Descriptor::SOF | Descriptor::EOF | 80
    );
    assert_eq!((b.d.counters.rx_dropped, b.d.rx_memory_used()), (1, 0));
}

#[test]
fn a_reset_of_either_channel_resets_both_and_the_mac() {
    for ch in [MM2S, S2MM] {
        let mut b = Bench::up(Config { phy_reset: Span::from_us(100), ..Config::ZYNQMP });
        b.post(0, 4, 1600);
        b.put_mac(mac::UAW0, 0x1234_5678);
        b.put_mac(mac::IE, !0);
        b.send(&frame(1000));
        b.receive(&frame(60));
        b.after(Span::from_us(1));
        b.put(ch + dma::CR, cr::RESET);
        assert_eq!(b.get(ch + dma::CR) & cr::RESET, cr::RESET);
        assert_eq!((0..3).map(|n| b.d.line(n)).collect::<Vec<_>>(), [false; 3]);
        b.after(Span::from_us(1));
        for c in [MM2S, S2MM] {
            assert_eq!(
                (b.get(c + dma::CR), b.get(c + dma::SR)),
                (0x0001_0002, 0x0001_0009),
                "clears itself"
            );
            assert_eq!(b.get(c + dma::CURDESC), 0);
        }
        assert_eq!((b.get_mac(mac::UAW0), b.get_mac(mac::FMI), b.get_mac(mac::IE)), (0, 0, 0));
        assert_eq!(b.get_mac(mac::IS) & int::PHY_RESET_COMPLETE, 0);
        b.after(Span::from_us(100));
        assert_ne!(b.get_mac(mac::IS) & int::PHY_RESET_COMPLETE, 0);
        let (reads, writes) = (b.p.reads.len(), b.p.writes.len());
        b.settle();
        assert_eq!((b.p.reads.len(), b.p.writes.len()), (reads, writes), "no DMA");
    }
}

#[test]
fn registers_take_nothing_while_the_engine_is_reset() {
    let mut b = Bench::new(QUICK);
    b.put(MM2S + dma::CR, cr::RESET);
    b.put(S2MM + dma::CURDESC, 0x4000);
    b.after(Span::from_ns(16 * 8));
    assert_eq!((b.get(S2MM + dma::CURDESC), b.get(MM2S + dma::CR) & cr::RESET), (0, 0));
    b.put(S2MM + dma::CURDESC, 0x4000);
    assert_eq!(b.get(S2MM + dma::CURDESC), 0x4000);
}

#[test]
fn a_cyclic_channel_takes_descriptors_that_are_done() {
    let mut b = Bench::up(QUICK);
    b.put(MM2S + dma::CR, run(1, 0) | cr::CYCLIC);
    b.send(&frame(60));
    b.settle();
    // The tail is out of reach: it goes around.
    for i in 1..RING {
        b.queue_frame(0x8000 + i, &frame(60), [0; 3]);
    }
    b.tail(MM2S, 0x9_0000);
    b.after(Span::from_ms(1));
    assert_eq!(b.status(MM2S) & sr::ERRORS, 0);
    assert!(b.sent().len() > 2 * RING as usize);
}
