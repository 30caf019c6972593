//! The counters of the device: which ones an event raises, and by how much.

use super::*;

/// Returns the counters that `act` and what follows raise, each with its difference.
fn raised(b: &mut Bench, act: impl FnOnce(&mut Bench)) -> Vec<(&'static str, u64)> {
    let before: Vec<_> = b.d.counters.entries().collect();
    act(b);
    b.settle();
    let pairs = before.into_iter().zip(b.d.counters.entries());
    pairs.filter(|(was, is)| was != is).map(|((name, was), (_, is))| (name, is - was)).collect()
}

#[test]
fn a_frame_sent_counts_its_descriptors_and_bytes() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.fill(0x8000, &frame(100));
    let seen = raised(&mut b, |b| {
        b.piece(0x8000, 40, Descriptor::SOF);
        b.piece(0x8028, 60, Descriptor::EOF);
        b.kick();
    });
    assert_eq!(
        seen,
        [
            ("tx_packets", 1),
            ("tx_bytes", 100),
            ("tx_descriptors", 2),
            ("tx_completions", 1),
            ("tx_doorbells", 1),
            ("tx_fetches", 2),
            ("data_reads", 2),
            ("data_read_bytes", 100),
            ("tx_interrupts", 1),
        ]
    );
}

#[test]
fn a_frame_received_counts_its_buffers_and_bytes() {
    let mut b = Bench::up(Config::ZYNQMP);
    let seen = raised(&mut b, |b| {
        b.post(0, 3, 64);
        b.receive(&frame(100));
    });
    assert_eq!(
        seen,
        [
            ("rx_doorbells", 1),
            ("rx_packets", 1),
            ("rx_bytes", 100),
            ("rx_descriptors", 2),
            ("rx_completions", 1),
            ("rx_fetches", 3),
            ("data_writes", 2),
            ("data_write_bytes", 100),
            ("rx_interrupts", 1),
        ]
    );
}

#[test]
fn each_refused_frame_counts_once() {
    let receive = |b: &mut Bench, len| {
        raised(b, |b| {
            b.receive(&frame(len));
        })
    };
    let mut b = Bench::up(Config { rx_memory: 2048, ..Config::ZYNQMP });
    assert_eq!(receive(&mut b, 13), [("rx_dropped", 1)]);
    assert_eq!(receive(&mut b, 1515), [("rx_dropped", 1)]);
    assert_eq!(receive(&mut b, 1514), []);
    assert_eq!(receive(&mut b, 535), [("rx_missed", 1)]);
    assert_eq!(receive(&mut b, 534), []);
    b.put_mac(mac::RCW1, 0);
    assert_eq!(receive(&mut b, 60), [("rx_dropped", 1)]);
    let mut b = Bench::new(Config::ZYNQMP);
    b.put_mac(mac::RAF, doorbell_layout::axienet::raf::BCAST_REJECT);
    assert_eq!(receive(&mut b, 60), [("rx_filtered", 1)]);
}

/// Returns a device with three frames under way in each direction: the first one sent on the wire,
/// the first one received in the memory.
fn three_each_way() -> Bench {
    let mut b = Bench::up(Config::ZYNQMP);
    b.p.write_time = Span::from_us(100);
    b.post(0, 1, 1600);
    for i in 0..3 {
        b.queue_frame(0x8000 + 0x800 * i, &frame(1500), [0; 3]);
    }
    b.kick();
    for _ in 0..3 {
        b.receive(&frame(200));
    }
    b.after(Span::from_us(12));
    b
}

#[test]
fn a_reset_counts_what_it_loses() {
    let mut b = three_each_way();
    let before = b.d.counters;
    b.put(MM2S + dma::CR, cr::RESET);
    let c = b.d.counters;
    assert_eq!((c.tx_packets, c.tx_bytes, c.tx_lost), (before.tx_packets + 1, 1500, 2));
    assert_eq!((c.rx_lost, c.rx_unreported, c.resets), (2, 1, before.resets + 1));
}

#[test]
fn a_reset_of_the_mac_counts_what_it_loses() {
    let mut b = three_each_way();
    b.put_mac(mac::TC, tc::RESET | tc::TX);
    b.put_mac(mac::RCW1, rcw1::RESET | rcw1::RX);
    let c = b.d.counters;
    assert_eq!((c.tx_lost, c.rx_lost, c.resets), (2, 2, 0));
    b.settle();
    let c = b.d.counters;
    assert_eq!((c.tx_packets + c.tx_lost, c.rx_packets + c.rx_lost), (3, 3));
}

#[test]
fn a_tail_for_a_stopped_channel_counts_as_lost() {
    let mut b = Bench::new(Config::ZYNQMP);
    let tx = raised(&mut b, |b| b.tail(MM2S, TX_RING));
    assert_eq!(tx, [("tx_doorbells", 1), ("lost_doorbells", 1)]);
    let rx = raised(&mut b, |b| b.tail(S2MM, RX_RING));
    assert_eq!(rx, [("rx_doorbells", 1), ("lost_doorbells", 1)]);
    let mut b = Bench::up(Config::ZYNQMP);
    b.tail(MM2S, TX_RING);
    assert_eq!(b.d.counters.lost_doorbells, 0);
}

#[test]
fn a_buffer_that_cannot_be_reached_counts_one_error() {
    let mut b = Bench::up(Config::ZYNQMP);
    let seen = raised(&mut b, |b| {
        b.piece(MEMORY as u64, 60, Descriptor::SOF | Descriptor::EOF);
        b.kick();
    });
    assert!(seen.contains(&("dma_errors", 1)), "{seen:?}");
    let mut b = Bench::up(Config::ZYNQMP);
    let seen = raised(&mut b, |b| {
        b.post(0, 1, 1600);
        let mut d = b.desc(Bench::rx(0));
        d.buffer.set(MEMORY as u32);
        b.set(Bench::rx(0), d);
        b.receive(&frame(60));
    });
    assert!(seen.contains(&("dma_errors", 1)), "{seen:?}");
}

#[test]
fn a_write_to_nothing_counts_as_ignored() {
    let mut b = Bench::new(Config::ZYNQMP);
    assert_eq!(raised(&mut b, |b| b.put(0x800, 1)), [("ignored_writes", 1)]);
    assert_eq!(raised(&mut b, |b| b.put_mac(mac::ID, 1)), [("ignored_writes", 1)]);
    assert_eq!(raised(&mut b, |b| b.put_mac(mac::TPF, 1)), []);
}
