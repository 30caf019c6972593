//! The 82574: its second queues, and the hash that spreads frames over them.

use super::super::Config;
use super::{BUFFERS, Bench, RX_RING, TX_RING, frame, ns};
use alloc::vec::Vec;
use doorbell_hal::{EventSource, Span};
use doorbell_layout::e1000::*;
use doorbell_packet::headers::Layers;
use doorbell_packet::toeplitz::{MICROSOFT, Toeplitz};

/// Rings of queue 1.
const TX_RING_1: u64 = 0x2000;
const RX_RING_1: u64 = 0x5000;
const BUFFERS_1: u64 = 0x40000;
/// The causes of both transmit queues.
const BOTH_TX: u32 = 3 * INT_TXQ0;
/// All frames that can be hashed.
const ALL: u32 = MRQC_TCP_IPV4 | MRQC_IPV4 | MRQC_TCP_IPV6 | MRQC_IPV6_EX | MRQC_IPV6;

/// A card with two queues of each direction, and frames that are spread by these bits of MRQC.
fn up(mrqc: u32) -> Bench {
    let mut b = Bench::up(Config::I82574L);
    for (r, v) in [
        (reg::RFCTL, RFCTL_EXTEN),
        (reg::RXCSUM, RXCSUM_PCSD),
        (reg::TDBAL1, TX_RING_1 as u32),
        (reg::TDLEN1, 64 * 16),
        (reg::RDBAL1, RX_RING_1 as u32),
        (reg::RDLEN1, 64 * 16),
        (reg::MRQC, mrqc),
    ] {
        b.write(r, v);
    }
    for (i, word) in MICROSOFT.as_chunks::<4>().0.iter().enumerate() {
        b.write(reg::RSSRK + 4 * i as u32, u32::from_le_bytes(*word));
    }
    // Odd hashes to queue 1.
    for i in 0..reg::RETA_LEN {
        b.write(reg::RETA + 4 * i, RETA_QUEUE << 8 | RETA_QUEUE << 24);
    }
    for i in 0..8 {
        b.put(RX_RING_1 + i * 16, &(BUFFERS_1 + i * 2048).to_le_bytes());
    }
    b.write(reg::RDT1, 7);
    b.post(8);
    b
}

/// A frame of IPv4 or IPv6 with this protocol and last byte of its source.
fn ip(v6: bool, protocol: u8, source: u8) -> Vec<u8> {
    let mut f = frame(90);
    if v6 {
        f[12..14].copy_from_slice(&[0x86, 0xdd]);
        f[14..20].copy_from_slice(&[0x60, 0, 0, 0, 0, 36]);
        f[20] = protocol;
        f[37] = source;
        f[54 + 12] = 0x50;
    } else {
        f[12..14].copy_from_slice(&[8, 0]);
        f[14..24].copy_from_slice(&[0x45, 0, 0, 76, 0, 0, 0, 0, 64, protocol]);
        f[29] = source;
        f[34 + 12] = 0x50;
    }
    f
}

fn written(b: &Bench, ring: u64, i: u64) -> RxExtended {
    let at = (ring + i * 16) as usize;
    RxExtended::of(b.p.memory[at..at + 16].try_into().unwrap())
}

/// Receives a frame. Returns its descriptor, which says which ring it is in.
fn received(mrqc: u32, f: &[u8]) -> RxExtended {
    let mut b = up(mrqc);
    b.receive(f);
    b.settle();
    let both = [RX_RING, RX_RING_1].map(|ring| written(&b, ring, 0));
    let done = both.map(|d| d.status.get() & u32::from(Rx::DD) != 0);
    assert_ne!(done[0], done[1], "one queue has it");
    let queue = usize::from(done[1]);
    assert_eq!(both[queue].queue.get() >> RxExtended::QUEUE_SHIFT, queue as u32);
    let buffer = [BUFFERS, BUFFERS_1][queue] as usize;
    assert_eq!(b.p.memory[buffer..][..f.len()], *f);
    both[queue]
}

#[test]
fn mrqc_selects_what_is_hashed() {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    type E = RxExtended;
    let key = Toeplitz::new(&MICROSOFT);
    for (v6, protocol, mrqc, kind) in [
        (false, TCP, ALL, E::RSS_TCP_IPV4),
        (false, UDP, ALL, E::RSS_IPV4),
        (false, TCP, MRQC_IPV4, E::RSS_IPV4),
        (false, UDP, ALL & !MRQC_IPV4, 0),
        (true, TCP, ALL, E::RSS_TCP_IPV6),
        (true, UDP, ALL, E::RSS_IPV6_EX),
        (true, TCP, MRQC_IPV6, E::RSS_IPV6),
        (true, UDP, MRQC_IPV4, 0),
    ] {
        for source in [1, 2, 3, 4] {
            let f = ip(v6, protocol, source);
            let d = received(mrqc | MRQC_RSS, &f);
            let layers = Layers::of(&f).unwrap();
            let ports = matches!(kind, E::RSS_TCP_IPV4 | E::RSS_TCP_IPV6);
            let hash = if kind == 0 { 0 } else { key.of(&f, &layers, ports) };
            assert_eq!((d.queue.get() & E::RSS_TYPE, d.hash.get()), (kind, hash));
            assert_eq!(d.queue.get() >> E::QUEUE_SHIFT, hash & 1);
            let packet = d.status.get() >> E::PACKET_SHIFT & 0xf;
            assert_eq!(
                packet,
                if v6 { E::PACKET_IPV6_TRANSPORT } else { E::PACKET_IPV4_TRANSPORT }
            );
        }
    }
}

#[test]
fn without_several_queues_the_hash_is_told_alone() {
    for source in [1, 2, 3, 4] {
        let f = ip(false, 17, source);
        let d = received(ALL, &f);
        assert_eq!(d.queue.get(), RxExtended::RSS_IPV4, "queue 0");
        assert_ne!(d.hash.get(), 0);
    }
}

#[test]
fn legacy_descriptors_and_those_without_hash_are_of_queue_0() {
    for (rfctl, rxcsum) in [(0, RXCSUM_PCSD), (RFCTL_EXTEN, 0)] {
        let mut b = up(ALL | MRQC_RSS);
        b.write(reg::RFCTL, rfctl);
        b.write(reg::RXCSUM, rxcsum);
        for source in 1..5 {
            b.receive(&ip(false, 17, source));
        }
        b.settle();
        assert_eq!((b.read(reg::RDH), b.read(reg::RDH1)), (4, 0));
    }
}

#[test]
fn each_receive_queue_has_its_vector() {
    let entry = |vector, at: u32| (IVAR_VALID | vector) << at;
    for source in [1, 2, 3, 4] {
        let mut b = up(ALL | MRQC_RSS);
        b.write(reg::IVAR, entry(0, IVAR_RXQ0) | entry(1, IVAR_RXQ0 + 4));
        b.write(reg::IMS, INT_RXQ0 | INT_RXQ0 << 1);
        b.receive(&ip(false, 17, source));
        b.settle();
        let queue = b.read(reg::RDH1);
        let vectors: Vec<u16> = b.p.messages.iter().map(|m| m.1).collect();
        assert_eq!(vectors, [queue as u16]);
    }
}

#[test]
fn one_delay_is_that_of_both_receive_queues() {
    let mut b = up(ALL | MRQC_RSS);
    b.write(reg::RXDCTL, 8 << DCTL_WTHRESH_SHIFT | DCTL_GRAN);
    b.write(reg::RXDCTL1, 8 << DCTL_WTHRESH_SHIFT | DCTL_GRAN);
    b.write(reg::RDTR, 20);
    (1..5).for_each(|source| _ = b.receive(&ip(false, 17, source)));
    let until = b.now + Span::from_us(10);
    b.at(until);
    assert_eq!(b.read(reg::ICR) & (INT_RXQ0 | INT_RXQ0 << 1), 0);
    b.settle();
    let both = INT_RXQ0 | INT_RXQ0 << 1;
    assert_eq!(b.read(reg::ICR) & both, both);
    assert_eq!(b.read(reg::RDH) + b.read(reg::RDH1), 4);
    for ring in [RX_RING, RX_RING_1] {
        assert_eq!(written(&b, ring, 0).status.get() & 1, 1, "written back");
    }
}

#[test]
fn a_queue_without_descriptors_holds_up_the_other() {
    let mut b = up(ALL | MRQC_RSS);
    b.write(reg::RDH1, 7);
    let queue_of = |source| {
        let f = ip(false, 17, source);
        Toeplitz::new(&MICROSOFT).of(&f, &Layers::of(&f).unwrap(), false) & 1
    };
    let of = |queue| (1..).find(|source| queue_of(*source) == queue).unwrap();
    b.receive(&ip(false, 17, of(1)));
    b.receive(&ip(false, 17, of(0)));
    b.settle();
    assert_eq!((b.read(reg::RDH), b.d.counters.rx_waited), (0, 1));
    b.write(reg::RDT1, 3);
    b.settle();
    assert_eq!((b.read(reg::RDH), b.read(reg::RDH1)), (1, 8), "both have landed");
}

/// Puts frames of these lengths to a transmit ring, and announces them.
fn send(b: &mut Bench, queue: u32, lengths: &[usize]) {
    let ring = [TX_RING, TX_RING_1][queue as usize];
    for (i, len) in (0..).zip(lengths) {
        let data = 0x8000 + (u64::from(queue) * 8 + i) * 512;
        b.put(data, &frame(*len));
        b.put(ring + i * 16, &data.to_le_bytes());
        b.put(ring + i * 16 + 8, &(*len as u64 | 0x0b00_0000).to_le_bytes());
    }
    b.write(reg::TDT + queue * reg::QUEUE, lengths.len() as u32);
}

#[test]
fn transmit_queues_take_turns_by_their_counts() {
    for (counts, order) in [
        ([3, 3], [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]),
        ([2, 1], [0, 0, 1, 0, 0, 1, 0, 0, 1, 1, 1, 1]),
        ([1, 0], [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]),
    ] {
        let mut b = up(0);
        b.write(reg::TARC0, TARC_ENABLE | counts[0]);
        b.write(reg::TARC1, TARC_ENABLE | counts[1]);
        b.p.read_time = Span::from_ns(500);
        b.write(reg::TCTL, 0);
        send(&mut b, 0, &[100; 6]);
        send(&mut b, 1, &[101; 6]);
        b.write(reg::TCTL, TCTL_EN | TCTL_PSP);
        b.settle();
        let sent: Vec<usize> = b.sent().iter().map(|f| f.len() - 100).collect();
        assert_eq!(sent, order);
    }
}

#[test]
fn a_transmit_queue_that_is_off_waits() {
    let mut b = up(0);
    b.write(reg::TARC1, 0);
    send(&mut b, 1, &[101]);
    b.settle();
    assert!(b.sent().is_empty());
    b.write(reg::TARC1, TARC_ENABLE);
    b.settle();
    assert_eq!(b.sent().len(), 1);
}

#[test]
fn each_transmit_queue_has_its_cause_and_its_contexts() {
    let mut b = up(0);
    // A context of queue 1, between two halves of a packet of queue 0.
    b.put(0x8000, &frame(100));
    b.desc(0x8000, 60 | 0x0200_0000);
    b.kick();
    b.settle();
    send(&mut b, 1, &[200]);
    b.settle();
    assert!(b.sent().is_empty(), "a packet is read whole before one of the other queue");
    b.desc(0x8000 + 60, 40 | 0x0b00_0000);
    b.kick();
    b.settle();
    assert_eq!(b.sent(), [frame(100), frame(200)]);
    assert_eq!(b.read(reg::ICR) & BOTH_TX, BOTH_TX);
    let at = b.now + Span::from_us(1);
    b.at(at);
    send(&mut b, 1, &[200]);
    assert_eq!(b.read(reg::ICR) & BOTH_TX, 0);
}

#[test]
fn a_late_delay_of_one_transmit_queue_survives_the_other() {
    let mut b = up(0);
    b.write(reg::TIDV, 50);
    b.write(reg::TXDCTL, 8 << DCTL_WTHRESH_SHIFT | DCTL_GRAN);
    b.send(0x8000, &frame(60), 1 << 27 | 1 << 31);
    b.kick();
    let until = ns(10_000);
    b.at(until);
    send(&mut b, 1, &[60]);
    let until = ns(30_000);
    b.at(until);
    assert_eq!(b.read(reg::ICR) & BOTH_TX, INT_TXQ0 << 1);
    assert!(!b.tx_done(0));
    b.settle();
    assert!(b.tx_done(0), "written back at the end of its delay");
    assert_eq!(b.read(reg::ICR) & BOTH_TX, INT_TXQ0);
    assert_eq!(b.d.next_due(), None);
}

#[test]
fn the_older_parts_have_one_queue() {
    let mut b = Bench::up(Config::I82540EM);
    for r in [reg::RDBAL1, reg::RDT1, reg::TDBAL1, reg::TDT1, reg::MRQC, reg::RETA, reg::RSSRK] {
        let ignored = b.d.counters.ignored_writes;
        b.write(r, 0x80);
        assert_eq!((b.read(r), b.d.counters.ignored_writes), (0, ignored + 1), "{r:#x}");
    }
    let mut b = Bench::up(Config::I82574L);
    for (r, v, has) in [(reg::RDT1, 5, 5), (reg::TDBAL1, !0, !0xf), (reg::MRQC, !0, 0x003f_0003)] {
        b.write(r, v);
        assert_eq!(b.read(r), has, "{r:#x}");
    }
    assert_eq!([reg::TARC0, reg::TARC1].map(|r| b.read(r)), [TARC_RESET; 2]);
    assert_eq!(b.read(reg::PSRCTL), PSRCTL_RESET);
}
