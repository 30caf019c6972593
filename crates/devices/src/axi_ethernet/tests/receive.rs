//! From frames to buffers.

use super::*;
use doorbell_hal::DropReason;
use doorbell_layout::axienet::raf;
use doorbell_packet::ethernet::fcs;

#[test]
fn a_frame_goes_into_its_buffer_with_its_length_in_app4() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.post(0, 4, 1600);
    assert_eq!(b.receive(&frame(300)), RxVerdict::Yes);
    b.settle();
    assert_eq!(b.received(0, 300), frame(300));
    let d = b.desc(Bench::rx(0));
    assert_eq!(
        d.status.get(),
        Descriptor::CMPLT | Descriptor::SOF | Descriptor::EOF | 300,
        "no FCS"
    );
    assert_eq!(d.app[4].get(), 300);
    assert_eq!(b.d.rx_memory_used(), 0);
}

#[test]
fn a_long_frame_takes_several_buffers_and_the_last_has_the_words() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.post(0, 8, 128);
    b.receive(&frame(300));
    b.receive(&frame(60));
    b.settle();
    let status: Vec<u32> = (0..4).map(|i| b.status_of(Bench::rx(i)) & !Descriptor::CMPLT).collect();
    assert_eq!(
        status,
        [Descriptor::SOF | 128, 128, Descriptor::EOF | 44, Descriptor::SOF | Descriptor::EOF | 60]
    );
    assert_eq!([0, 1, 2, 3].map(|i| b.desc(Bench::rx(i)).app[4].get()), [0, 0, 300, 60]);
    let got = [b.received(0, 128), b.received(1, 128), b.received(2, 44)].concat();
    assert_eq!(got, frame(300));
    let order: Vec<_> = b.p.writes.iter().filter(|w| w.1 < BUFFERS).map(|w| (w.1, w.2)).collect();
    assert_eq!(order, [(0, 4), (1, 4), (2, 24), (3, 24)].map(|(i, n)| (Bench::rx(i) + 0x1c, n)));
}

#[test]
fn reception_takes_the_length_of_a_control_word_and_nothing_else() {
    let mut b = Bench::up(Config::ZYNQMP);
    // What a transmit descriptor would have there.
    b.post(0, 4, 128 | Descriptor::SOF | Descriptor::EOF | 7 << 23);
    b.receive(&frame(200));
    b.settle();
    let status = [0, 1].map(|i| b.status_of(Bench::rx(i)) & !Descriptor::CMPLT);
    assert_eq!(status, [Descriptor::SOF | 128, Descriptor::EOF | 72]);
    assert_eq!(b.d.counters.rx_completions, 1);
}

#[test]
fn status_follows_the_data_and_the_interrupt_follows_the_status() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.p.write_time = Span::from_ns(500);
    b.post(0, 4, 1600);
    b.settle();
    b.at(us(10)).receive(&frame(300));
    b.settle();
    let data = us(10) + Span::from_ns(39 * 8);
    assert_eq!(
        b.p.writes.iter().map(|w| w.0).collect::<Vec<_>>(),
        [data, data + Span::from_ns(500)]
    );
    assert_eq!(b.rises(line::RX), [data + Span::from_ns(1000)]);
}

#[test]
fn a_short_frame_is_padded_as_a_sender_would_have() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.post(0, 4, 1600);
    b.receive(&frame(20));
    b.settle();
    let mut padded = frame(20);
    padded.resize(60, 0);
    assert_eq!(b.received(0, 60), padded);
    assert_eq!(b.desc(Bench::rx(0)).app[4].get(), 60);
}

#[test]
fn the_fcs_is_passed_up_when_asked_for() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.post(0, 4, 1600);
    b.put_mac(mac::RCW1, rcw1::RX | rcw1::FCS);
    b.receive(&frame(100));
    b.settle();
    assert_eq!(b.received(0, 104)[100..], fcs(&frame(100)));
    let d = b.desc(Bench::rx(0));
    assert_eq!(d.app[4].get(), 104, "the exact byte count");
    assert_eq!(
        d.status.get(),
        Descriptor::CMPLT | Descriptor::SOF | Descriptor::EOF | 104,
        "and so has the status"
    );
}

#[test]
fn an_engine_without_descriptors_holds_frames_in_the_macs_memory() {
    let mut b = Bench::up(Config { rx_memory: 4096, ..Config::ZYNQMP });
    b.put_mac(mac::IE, int::RX_FIFO_OVERFLOW);
    b.post(0, 1, 1600);
    let send = |b: &mut Bench, n: u8| {
        let mut f = frame(1000);
        f[20] = n;
        b.receive(&f)
    };
    assert_eq!(send(&mut b, 0), RxVerdict::Yes);
    b.settle();
    assert_eq!(b.status(S2MM) & sr::IDLE, sr::IDLE);
    assert_eq!([1, 2, 3, 4].map(|n| send(&mut b, n)), [RxVerdict::Yes; 4], "4096 bytes hold four");
    assert!(!b.d.line(line::MAC));
    assert_eq!([5, 6].map(|n| send(&mut b, n)), [RxVerdict::Dropped(DropReason::Fifo); 2]);
    b.settle();
    assert!(b.d.line(line::MAC));
    assert_eq!(b.get_mac(mac::IS) & int::RX_REJECT, int::RX_REJECT);
    assert_eq!((b.d.counters.rx_missed, b.d.rx_memory_used()), (2, 4000));
    assert_eq!(b.get_mac(stat::RX_GOOD), 7, "the MAC did receive them");
    b.put_mac(mac::IS, int::RX_FIFO_OVERFLOW);
    assert!(!b.d.line(line::MAC));
    b.post(1, 9, 1600);
    b.settle();
    assert_eq!(
        [1, 2, 3, 4].map(|i| b.received(i, 21)[20]),
        [1, 2, 3, 4],
        "in order, the first ones"
    );
    assert_eq!((b.d.counters.rx_packets, b.d.rx_memory_used()), (5, 0));
}

#[test]
fn a_frame_waits_for_the_rest_of_its_buffers() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.post(0, 2, 100);
    b.receive(&frame(250));
    b.settle();
    assert_eq!(
        (b.status(S2MM), b.d.rx_memory_used()),
        (sr::IDLE, 50),
        "no interrupt: the packet has not ended"
    );
    b.post(2, 4, 100);
    b.settle();
    assert_eq!(b.status_of(Bench::rx(2)), Descriptor::CMPLT | Descriptor::EOF | 50);
    assert_eq!(b.status(S2MM), sr::IOC_IRQ);
}

#[test]
fn lengths_that_are_taken() {
    let mut tagged = frame(1518);
    tagged[12..14].copy_from_slice(&[0x81, 0]);
    let mut lies = frame(100);
    lies[12..14].copy_from_slice(&[0, 90]);
    let mut short = frame(60);
    short[12..14].copy_from_slice(&[0, 10]);
    let rx = rcw1::RX;
    for (f, options, raf_word, taken) in [
        (&frame(1514), rx, 0, true),
        (&frame(1515), rx, 0, false),
        (&frame(1515), rx, raf::RX_BAD, true),
        (&tagged, rx, 0, false),
        (&tagged, rx | rcw1::VLAN, 0, true),
        (&frame(9018), rx | rcw1::JUMBO, 0, true),
        (&frame(13), rx, 0, false),
        (&lies, rx, 0, false),
        (&lies, rx | rcw1::LENGTH_TYPE_DISABLE, 0, true),
        (&short, rx, 0, true),
    ] {
        let mut b = Bench::up(Config::ZYNQMP);
        b.post(0, 60, 1600);
        b.put_mac(mac::RCW1, options);
        b.put_mac(mac::RAF, raf_word);
        let expected =
            if taken { RxVerdict::Yes } else { RxVerdict::Dropped(DropReason::Malformed) };
        assert_eq!(b.receive(f), expected, "{} {options:#x} {raf_word:#x}", f.len());
        assert_eq!(b.get_mac(mac::IS) & int::RX_REJECT != 0, !taken);
    }
}

#[test]
fn receiver_off_or_filtered_or_at_the_wrong_speed() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.post(0, 4, 1600);
    b.put_mac(mac::RCW1, 0);
    assert_eq!(b.receive(&frame(60)), RxVerdict::Dropped(DropReason::Off));
    b.put_mac(mac::RCW1, rcw1::RX);
    b.put_mac(mac::EMMC, 1 << 30);
    assert_eq!(
        b.receive(&frame(60)),
        RxVerdict::Dropped(DropReason::Off),
        "100 Mbit/s on a link of 1 Gbit/s"
    );
    b.put_mac(mac::EMMC, 2 << 30);
    b.put_mac(mac::FMI, 0);
    b.put_mac(mac::RAF, raf::BCAST_REJECT);
    assert_eq!(b.receive(&frame(60)), RxVerdict::Dropped(DropReason::Filter));
    assert_eq!(b.get_mac(mac::IS) & int::RX_REJECT, int::RX_REJECT);
    b.put_mac(mac::RAF, 0);
    assert_eq!(b.receive(&frame(60)), RxVerdict::Yes);
    let c = b.d.counters;
    assert_eq!((c.rx_dropped, c.rx_filtered), (2, 1));
}

#[test]
fn statistics_of_what_was_received() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.post(0, 10, 1600);
    let mut multicast = frame(300);
    multicast[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 1]);
    let mut tagged = frame(1000);
    tagged[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    tagged[12..14].copy_from_slice(&[0x81, 0]);
    for f in [&frame(60), &multicast, &tagged] {
        b.receive(f);
    }
    for (r, n) in [
        (stat::RX_BYTES, 64 + 304 + 1004),
        (stat::RX_BYTES + 4, 0),
        (stat::RX_GOOD, 3),
        (stat::RX_BROADCAST, 1),
        (stat::RX_MULTICAST, 1),
        (stat::RX_VLAN, 1),
        (stat::RX_64, 1),
        (stat::RX_256_511, 1),
        (stat::RX_512_1023, 1),
    ] {
        assert_eq!(b.get_mac(r), n, "{r:#x}");
    }
    b.put_mac(mac::RAF, raf::STATS_RESET);
    assert_eq!((b.get_mac(stat::RX_GOOD), b.get_mac(mac::RAF)), (0, 0));
    let mut without = Bench::up(Config { statistics: false, ..Config::ZYNQMP });
    without.receive(&frame(60));
    assert_eq!(without.get_mac(stat::RX_GOOD), 0);
    assert_eq!(without.get_mac(mac::ABILITY) & 1 << 8, 0);
}

#[test]
fn a_reset_of_the_receiver_empties_its_memory() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.receive(&frame(100));
    b.put_mac(mac::RCW1, rcw1::RESET | rcw1::RX);
    assert_eq!((b.get_mac(mac::RCW1), b.d.rx_memory_used()), (rcw1::RX, 0));
    b.post(0, 4, 1600);
    b.receive(&frame(70));
    b.settle();
    assert_eq!(b.received(0, 70), frame(70));
}

#[test]
fn an_interrupt_of_the_mac_rises_in_advance_and_not_on_arrival() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.put_mac(mac::IE, int::RX_COMPLETE);
    b.at(us(5)).receive(&frame(60));
    assert!(b.rises(line::MAC).is_empty());
    assert_eq!(b.d.next_due(), Some(us(5)));
    b.at(us(6));
    assert_eq!(b.rises(line::MAC), [us(5)]);
    assert_eq!(b.get_mac(mac::IP), int::RX_COMPLETE);
}
