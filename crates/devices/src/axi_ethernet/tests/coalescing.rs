//! Threshold and delay on the whole device.

use super::*;

/// A bench whose receive channel has this control word, with 60 buffers.
fn bench(control: u32) -> Bench {
    let mut b = Bench::new(Config::ZYNQMP);
    b.bring_up(run(1, 0), control);
    b.post(0, 60, 1600);
    b.after(Span::from_us(1));
    b
}

/// `n` frames, one each 2 us, the last of them done on return.
fn frames(b: &mut Bench, n: usize) -> Time {
    for _ in 0..n {
        b.after(Span::from_us(2));
        b.receive(&frame(60));
    }
    // 39 clocks to the data; nothing else takes time on this port.
    let done = b.now + Span::from_ns(39 * 8);
    b.at(done);
    done
}

#[test]
fn the_threshold_counts_packets_not_descriptors() {
    let mut b = Bench::new(Config::ZYNQMP);
    b.bring_up(run(3, 0), run(3, 0));
    b.post(0, 60, 64);
    for i in 1..=7 {
        b.receive(&frame(200));
        b.settle();
        assert_eq!(b.d.counters.rx_interrupts, u64::from(i >= 3), "frame {i}");
    }
    assert_eq!(b.d.counters.rx_descriptors, 7 * 4);
    for i in 1..=4 {
        b.fill(0x8000, &frame(200));
        for (k, flags) in [Descriptor::SOF, 0, Descriptor::EOF].into_iter().enumerate() {
            b.piece(0x8000 + k as u64 * 64, 64, flags);
        }
        b.kick();
        b.settle();
        assert_eq!(b.d.counters.tx_interrupts, u64::from(i >= 3), "packet {i}");
    }
}

#[test]
fn the_counter_in_sr_goes_down_and_reloads() {
    let mut b = bench(run(3, 0));
    let left: Vec<u32> = (0..4)
        .map(|_| {
            frames(&mut b, 1);
            b.get(S2MM + dma::SR) >> sr::THRESHOLD_SHIFT & 255
        })
        .collect();
    assert_eq!(left, [2, 1, 3, 2]);
}

#[test]
fn the_end_of_a_poll_writes_the_same_cr_and_loses_no_count() {
    let mut b = bench(run(3, 0));
    frames(&mut b, 2);
    b.put(S2MM + dma::CR, run(3, 0) & !cr::IOC_IRQ_EN);
    b.put(S2MM + dma::CR, run(3, 0));
    let done = frames(&mut b, 1);
    assert_eq!(b.rises(line::RX), [done]);
}

#[test]
fn another_threshold_reloads_the_counter() {
    let mut b = bench(run(3, 0));
    frames(&mut b, 2);
    b.put(S2MM + dma::CR, run(2, 0));
    frames(&mut b, 1);
    assert!(b.rises(line::RX).is_empty());
    let done = frames(&mut b, 1);
    assert_eq!(b.rises(line::RX), [done]);
}

#[test]
fn a_core_may_be_told_to_reload_with_any_write() {
    let mut b = Bench::new(Config { reload_on_any_write: true, ..Config::ZYNQMP });
    b.bring_up(run(1, 0), run(3, 0));
    b.post(0, 60, 1600);
    frames(&mut b, 2);
    b.put(S2MM + dma::CR, run(3, 0));
    frames(&mut b, 2);
    assert!(b.rises(line::RX).is_empty());
    let done = frames(&mut b, 1);
    assert_eq!(b.rises(line::RX), [done]);
}

#[test]
fn a_threshold_of_zero_is_one() {
    let mut b = bench(run(3, 0));
    b.put(S2MM + dma::CR, run(0, 0));
    assert_eq!(b.get(S2MM + dma::CR) & cr::THRESHOLD, 1 << cr::THRESHOLD_SHIFT);
    let done = frames(&mut b, 1);
    assert_eq!(b.rises(line::RX), [done]);
}

#[test]
fn a_packet_that_ends_while_dly_is_set_starts_no_delay() {
    let mut b = bench(run(PATIENT, 5));
    frames(&mut b, 1);
    b.after(Span::from_us(10));
    assert_eq!(b.status(S2MM) & sr::IRQ_ALL, sr::DLY_IRQ);
    frames(&mut b, 1);
    b.put(S2MM + dma::SR, sr::DLY_IRQ);
    b.after(Span::from_us(50));
    assert_eq!(
        b.status(S2MM) & sr::IRQ_ALL,
        0,
        "the driver finds it in the poll that it owes for the first"
    );
    frames(&mut b, 1);
    b.after(Span::from_us(10));
    assert_eq!(b.status(S2MM) & sr::IRQ_ALL, sr::DLY_IRQ);
}

#[test]
fn the_delay_is_125_clocks_a_unit() {
    // The sheet's table: clock, field, time.
    for (mhz, field, time) in
        [(125, 16, 16_000), (125, 50, 50_000), (100, 40, 50_000), (250, 255, 127_500)]
    {
        let mut b = Bench::new(Config { clock_mhz: mhz, ..Config::ZYNQMP });
        b.bring_up(run(1, 0), run(PATIENT, field));
        b.post(0, 4, 1600);
        b.after(Span::from_us(1));
        b.receive(&frame(60));
        let done = b.now + Span::from_ns(39_000 / u64::from(mhz));
        b.at(us(300));
        assert_eq!(b.rises(line::RX), [done + Span::from_ns(time)], "{mhz} MHz, {field}");
        assert_eq!(b.status(S2MM) & sr::IRQ_ALL, sr::DLY_IRQ);
    }
}

/// C_DLYTMR_RESOLUTION. Drivers count on 125.
#[test]
fn a_core_may_be_built_with_another_unit_of_the_delay() {
    for (clocks, time) in [(1, 400), (125, 50_000), (1000, 400_000)] {
        let mut b = Bench::new(Config { delay_clocks: clocks, ..Config::ZYNQMP });
        b.bring_up(run(1, 0), run(PATIENT, 50));
        b.post(0, 4, 1600);
        b.after(Span::from_us(1));
        let done = frames(&mut b, 1);
        b.after(Span::from_ms(1));
        assert_eq!(b.rises(line::RX), [done + Span::from_ns(time)], "{clocks}");
    }
}

#[test]
fn the_delay_restarts_with_each_packet_so_steady_traffic_postpones_it() {
    let mut b = bench(run(20, 5));
    let done = frames(&mut b, 19);
    assert!(b.rises(line::RX).is_empty(), "38 us of traffic");
    b.after(Span::from_us(50));
    assert_eq!(b.rises(line::RX), [done + Span::from_us(5)]);
    assert_eq!(
        b.get(S2MM + dma::SR) >> sr::THRESHOLD_SHIFT & 255,
        20,
        "and the threshold is reloaded"
    );
}

#[test]
fn traffic_meets_the_threshold_before_the_delay() {
    let mut b = bench(run(20, 5));
    let done = frames(&mut b, 20);
    assert_eq!(b.rises(line::RX), [done]);
    assert_eq!(b.status(S2MM) & sr::IRQ_ALL, sr::IOC_IRQ);
}

#[test]
fn the_delay_stands_still_while_a_packet_is_in_work() {
    let mut b = bench(run(PATIENT, 5));
    let done = frames(&mut b, 1);
    b.p.write_time = Span::from_us(30);
    b.at(done + Span::from_us(4));
    b.receive(&frame(60));
    b.after(Span::from_us(40));
    assert!(b.rises(line::RX).is_empty(), "data and status take 60 us");
    let second = done + Span::from_us(4) + Span::from_ns(39 * 8) + Span::from_us(60);
    b.after(Span::from_us(100));
    assert_eq!(b.rises(line::RX), [second + Span::from_us(5)]);
}

#[test]
fn of_packets_that_overlap_the_last_end_counts() {
    let mut b = bench(run(PATIENT, 5));
    b.p.write_time = Span::from_us(2);
    let start = b.now + Span::from_ns(39 * 8);
    b.receive(&frame(60));
    b.after(Span::from_us(1));
    b.receive(&frame(60));
    b.after(Span::from_us(50));
    // Data and status take 2 us each; the second begins 1 us behind, before the first has ended.
    assert_eq!(b.rises(line::RX), [start + Span::from_us(1 + 4 + 5)]);
}

#[test]
fn no_delay_without_a_packet_and_none_when_it_is_zero() {
    let mut b = bench(run(PATIENT, 5));
    b.after(Span::from_ms(1));
    assert!(b.rises(line::RX).is_empty());
    let mut b = bench(run(PATIENT, 0));
    frames(&mut b, 3);
    b.after(Span::from_ms(1));
    assert!(b.rises(line::RX).is_empty());
    assert_eq!(b.status(S2MM) & sr::IRQ_ALL, 0);
}

#[test]
fn ioc_does_not_stop_the_delay() {
    let mut b = bench(run(1, 5));
    let done = frames(&mut b, 1);
    assert_eq!(b.status(S2MM) & sr::IRQ_ALL, sr::IOC_IRQ);
    b.put(S2MM + dma::SR, sr::IOC_IRQ);
    assert!(!b.d.line(line::RX));
    b.after(Span::from_us(10));
    assert_eq!(b.rises(line::RX), [done, done + Span::from_us(5)], "one for nothing new");
    assert_eq!(b.status(S2MM) & sr::IRQ_ALL, sr::DLY_IRQ);
}

#[test]
fn sr_shows_the_delay_running() {
    let mut b = bench(run(PATIENT, 10));
    let done = frames(&mut b, 1);
    b.at(done + Span::from_ns(3500));
    assert_eq!(b.get(S2MM + dma::SR) >> sr::DELAY_SHIFT, 3);
}

#[test]
fn status_bits_latch_though_disabled_and_the_line_is_a_level() {
    let mut b = bench(run(1, 0) & !cr::IRQ_ALL);
    frames(&mut b, 1);
    assert_eq!((b.status(S2MM) & sr::IRQ_ALL, b.d.line(line::RX)), (sr::IOC_IRQ, false));
    // The end of a poll: what was latched meanwhile interrupts at once.
    b.put(S2MM + dma::CR, run(1, 0));
    assert!(b.d.line(line::RX));
    b.put(S2MM + dma::SR, sr::DLY_IRQ);
    assert!(b.d.line(line::RX), "another's bit");
    b.put(S2MM + dma::SR, 0);
    assert!(b.d.line(line::RX), "ones clear");
    b.put(S2MM + dma::SR, sr::IOC_IRQ);
    assert!(!b.d.line(line::RX));
    assert_eq!(b.d.counters.rx_interrupts, 1);
}

#[test]
fn the_channels_count_apart() {
    let mut b = Bench::new(Config::ZYNQMP);
    b.bring_up(run(2, 0), run(1, 0));
    b.post(0, 10, 1600);
    b.send(&frame(60));
    b.receive(&frame(60));
    b.settle();
    assert_eq!([line::TX, line::RX, line::MAC].map(|n| b.d.line(n)), [false, true, false]);
    b.send(&frame(60));
    b.settle();
    assert_eq!([line::TX, line::RX, line::MAC].map(|n| b.d.line(n)), [true, true, false]);
}

#[test]
fn a_control_word_of_the_sheet_reads_back() {
    let mut b = bench(0x3240_7001);
    assert_eq!(b.get(S2MM + dma::CR), 0x3240_7001 | 2, "64 packets, 50 us at 125 MHz");
    b.put(S2MM + dma::CR, 0x0001_5001);
    assert_eq!(b.get(S2MM + dma::CR), 0x0001_5001 | 2);
}
