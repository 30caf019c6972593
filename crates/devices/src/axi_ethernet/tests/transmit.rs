//! From descriptors to frames.

use super::*;
use doorbell_packet::ethernet::fcs;

#[test]
fn every_descriptor_of_a_packet_is_done_in_order_with_its_length() {
    let mut b = Bench::up(Config::ZYNQMP);
    let f = frame(700);
    let mut at = 0x8001;
    let lengths = [1, 99, 14, 86, 200, 150, 150];
    let mut start = 0;
    for (i, len) in lengths.into_iter().enumerate() {
        b.fill(at, &f[start..start + len]);
        let flags = [(0, Descriptor::SOF), (6, Descriptor::EOF)]
            .iter()
            .find(|x| x.0 == i)
            .map_or(0, |x| x.1);
        b.piece(at, len, flags);
        (at, start) = (at + 0x333, start + len);
    }
    b.kick();
    b.settle();
    assert_eq!(b.sent(), [f]);
    for (i, len) in lengths.into_iter().enumerate() {
        assert_eq!(
            b.status_of(Bench::tx(i as u64)),
            Descriptor::CMPLT | len as u32,
            "not only the last"
        );
    }
    let order: Vec<u64> = b.p.writes.iter().map(|w| w.1).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6].map(|i| Bench::tx(i) + 0x1c));
    assert!(b.p.writes.iter().all(|w| w.2 == 4), "the status word alone");
    assert_eq!((b.d.counters.tx_completions, b.d.counters.tx_descriptors), (1, 7));
}

#[test]
fn a_short_frame_is_padded_and_a_long_one_needs_jumbo() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.send(&frame(20));
    b.settle();
    let mut padded = frame(20);
    padded.resize(60, 0);
    assert_eq!(b.sent(), [padded]);
    let mut tagged = frame(1518);
    tagged[12..14].copy_from_slice(&[0x81, 0]);
    for (f, options, sent) in [
        (frame(1514), tc::TX, true),
        (frame(1515), tc::TX, false),
        (tagged.clone(), tc::TX, false),
        (tagged.clone(), tc::TX | tc::VLAN, true),
        (frame(1518), tc::TX | tc::VLAN, false),
        (frame(9018), tc::TX | tc::JUMBO, true),
    ] {
        let before = b.sent().len();
        b.put_mac(mac::TC, options);
        b.fill(0x8000, &f);
        b.piece(0x8000, f.len(), Descriptor::SOF | Descriptor::EOF);
        b.kick();
        b.settle();
        assert_eq!(b.sent().len() - before, usize::from(sent), "{} {options:#x}", f.len());
    }
    assert_eq!((b.get_mac(stat::TX_OVERSIZE), b.d.counters.tx_discarded), (3, 3));
}

#[test]
fn a_frame_with_its_own_fcs() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.put_mac(mac::TC, tc::TX | tc::FCS);
    let mut f = frame(64);
    let sum = fcs(&f);
    f.extend_from_slice(&sum);
    b.send(&f);
    b.settle();
    assert_eq!(b.sent(), [frame(64)], "frames of the port have none");
    f[20] ^= 1;
    b.send(&f);
    b.settle();
    assert_eq!((b.sent().len(), b.d.counters.tx_discarded), (1, 1));
}

#[test]
fn a_packet_without_sof_has_no_control_words_and_stops_transmission() {
    let mut b = Bench::up(Config { phy_reset: Span::ZERO, ..Config::ZYNQMP });
    b.fill(0x8000, &frame(100));
    b.piece(0x8000, 100, Descriptor::EOF);
    b.kick();
    b.settle();
    assert_eq!(
        (b.sent().len(), b.d.counters.hangs, b.status(MM2S)),
        (0, 1, 0),
        "not idle, not halted"
    );
    b.put(MM2S + dma::CR, cr::RESET);
    b.after(Span::from_us(1));
    b.bring_up(run(1, 0), run(1, 0));
    b.send(&frame(100));
    b.settle();
    assert_eq!(b.sent().len(), 1);
}

#[test]
fn with_no_room_the_engine_waits() {
    let mut b = Bench::up(Config { tx_memory: 4096, ..Config::ZYNQMP });
    for i in 0..6 {
        b.queue_frame(0x8000 + i * 0x800, &frame(1514), [0; 3]);
    }
    b.kick();
    b.after(Span::from_us(10));
    assert_eq!(b.d.counters.data_reads, 2, "two fit, and the first is on the wire");
    b.after(Span::from_us(5));
    assert_eq!(b.d.counters.data_reads, 3);
    b.settle();
    assert_eq!((b.sent().len(), b.d.counters.tx_discarded), (6, 0));
}

#[test]
fn a_packet_that_can_never_fit_is_dropped_and_the_next_is_sent() {
    let mut b = Bench::up(Config { tx_memory: 2048, ..Config::ZYNQMP });
    b.put_mac(mac::TC, tc::TX | tc::JUMBO);
    b.queue_frame(0x8000, &frame(1000), [0; 3]);
    b.queue_frame(0xa000, &frame(9000), [0; 3]);
    b.queue_frame(0x8000, &frame(1000), [0; 3]);
    b.kick();
    b.settle();
    assert_eq!((b.sent().len(), b.d.counters.tx_discarded), (2, 1));
    assert_eq!(b.status_of(Bench::tx(1)), Descriptor::CMPLT | 9000, "it was read");
}

#[test]
fn data_are_read_in_pieces_that_end_with_a_page() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.put_mac(mac::TC, tc::TX | tc::JUMBO);
    b.queue_frame(0x8f00, &frame(9000), [0; 3]);
    b.kick();
    b.settle();
    let data: Vec<_> = b.p.reads.iter().filter(|r| r.2 != 52).map(|r| (r.1, r.2)).collect();
    assert_eq!(data, [(0x8f00, 256), (0x9000, 4096), (0xa000, 4096), (0xb000, 552)]);
}

#[test]
fn frames_follow_one_another_at_the_rate_of_the_link() {
    let mut b = Bench::up(Config::ZYNQMP);
    for _ in 0..4 {
        b.queue_frame(0x8000, &frame(1514), [0; 3]);
    }
    b.kick();
    b.settle();
    let gaps: Vec<_> = b.p.frames.windows(2).map(|w| w[1].0.since(w[0].0)).collect();
    assert_eq!(gaps, [Span::from_ns(1538 * 8); 3], "12.3 us");
    b.put_mac(mac::TC, tc::TX | tc::IFG);
    b.put_mac(mac::IFGP, 40);
    b.queue_frame(0x8000, &frame(1514), [0; 3]);
    b.queue_frame(0x8000, &frame(1514), [0; 3]);
    b.kick();
    b.settle();
    let [.., x, y] = &b.p.frames[..] else { panic!() };
    assert_eq!(y.0.since(x.0), Span::from_ns((1538 + 28) * 8));
}

#[test]
fn transmitter_off_holds_frames_back() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.put_mac(mac::TC, 0);
    let at = b.send(&frame(100));
    b.settle();
    assert_eq!(
        (b.sent().len(), b.status_of(at)),
        (0, Descriptor::CMPLT | 100),
        "done, for the engine"
    );
    b.put_mac(mac::TC, tc::TX);
    b.settle();
    assert_eq!(b.sent().len(), 1);
    b.put_mac(mac::TC, 0);
    b.send(&frame(100));
    b.settle();
    b.put_mac(mac::TC, tc::RESET | tc::TX);
    b.settle();
    assert_eq!(
        (b.sent().len(), b.get_mac(mac::TC)),
        (1, tc::TX),
        "a reset of the transmitter empties it"
    );
}

#[test]
fn a_frame_on_the_wire_is_not_called_back_by_a_reset() {
    let mut b = Bench::up(Config { phy_reset: Span::ZERO, ..Config::ZYNQMP });
    b.send(&frame(1514));
    b.after(Span::from_us(2));
    b.put(MM2S + dma::CR, cr::RESET);
    b.after(Span::from_us(1));
    b.bring_up(run(1, 0), run(1, 0));
    b.send(&frame(60));
    b.settle();
    assert_eq!(b.p.frames[1].0.since(b.p.frames[0].0), Span::from_ns(1538 * 8));
}

#[test]
fn statistics_of_what_was_sent() {
    let mut b = Bench::up(Config::ZYNQMP);
    let mut multicast = frame(300);
    multicast[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 1]);
    let mut unicast = frame(1514);
    unicast[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    for f in [&frame(60), &multicast, &unicast] {
        b.send(f);
        b.settle();
    }
    for (r, n) in [
        (stat::TX_BYTES, 64 + 304 + 1518),
        (stat::TX_GOOD, 3),
        (stat::TX_BROADCAST, 1),
        (stat::TX_MULTICAST, 1),
        (stat::TX_64, 1),
        (stat::TX_256_511, 1),
        (stat::TX_1024_MAX, 1),
        (stat::TX_SINGLE_COLLISION, 0),
    ] {
        assert_eq!(b.get_mac(r), n, "{r:#x}");
    }
    assert_ne!(b.get_mac(mac::IS) & int::TX_COMPLETE, 0);
}
