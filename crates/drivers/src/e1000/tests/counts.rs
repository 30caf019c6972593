//! All counters of the driver over traffic of every kind, with the numbers that follow from it.

use super::*;
use crate::e1000::Stats;
use doorbell_bus::{Bus as _, Costs, Machine, Platform, ProtectionGranularity};
use doorbell_hal::{Host as _, Span, WorkKind};
use doorbell_testkit::ConstantLatencyBus;

#[test]
fn every_frame_sent_is_in_one_counter() {
    let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| {
        (c.tx_ring, c.copy_align, c.max_frame, c.bql) = (48, true, 9014, false);
    });
    let mut up = Up::default();
    let send = |h: &mut Host, nic: &mut E1000, bytes: &[u8], todo: OffloadRequest| {
        let p = Packet { todo, ..packet(h, bytes) };
        nic.transmit(h, p, false)
    };
    // Copied, the first two padded; mapped; with a checksum; a large send with its sentinel;
    // dropped.
    for len in [20, 59, 60, 2048] {
        assert_eq!(send(&mut h, &mut nic, &vec![7; len], OffloadRequest::NONE), Tx::Ok);
    }
    assert_eq!(send(&mut h, &mut nic, &[7; 2049], OffloadRequest::NONE), Tx::Ok);
    let checksum = Some(CsumPartial { start: 34, offset: 16 });
    let sum = OffloadRequest { checksum, ..OffloadRequest::NONE };
    assert_eq!(send(&mut h, &mut nic, &[7; 100], sum), Tx::Ok);
    let gso = Some(Gso { kind: GsoKind::Tcp4, size: 1460, header: 54 });
    let large = OffloadRequest { gso, ..sum };
    assert_eq!(send(&mut h, &mut nic, &tcp(3000), large), Tx::Ok);
    assert!(matches!(send(&mut h, &mut nic, &[7; 9023], OffloadRequest::NONE), Tx::Dropped(_)));
    let descriptors = 5 + 2 + 3;
    assert_eq!(h.device.last(reg::TDT), Some(descriptors));
    // The frame after a large send is cut in two. 47 are usable, and below 24 the queue stops.
    let mut singles = 0;
    while !Driver::<Host>::stopped(&nic) {
        assert_eq!(send(&mut h, &mut nic, &[7; 100], OffloadRequest::NONE), Tx::Ok);
        singles += 1;
    }
    assert_eq!(singles, 13);
    for _ in 0..2 {
        assert!(matches!(send(&mut h, &mut nic, &[7; 100], OffloadRequest::NONE), Tx::Busy(_)));
    }
    (0..24).for_each(|i| done(&mut h, i));
    let _ = nic.poll(&mut h, 64, &mut up);
    assert_eq!((Driver::<Host>::stopped(&nic), nic.is_drained(), up.sent.len()), (false, true, 20));
    let expected = Stats {
        tx_queued: 7 + 13,
        tx_descriptors: 10 + 14,
        tx_contexts: 2,
        tx_tso: 1,
        tx_csum: 1,
        tx_copied: 4 + 1 + 13,
        tx_padded: 2,
        tx_tail: 7 + 13,
        tx_busy: 2,
        tx_stopped: 1,
        tx_restart_queue: 1,
        tx_dropped: 1,
        ..Stats::default()
    };
    assert_eq!(Stats { rx_tail: 0, itr_writes: 0, ..nic.stats() }, expected);
}

#[test]
fn each_short_frame_counts_as_padded() {
    // In its buffer, and in another one.
    let (mut h, mut nic) = open();
    for (n, room) in [(1, 80), (2, 20)] {
        let mut p = packet(&mut h, &vec![7; room]);
        p.head.len = 20;
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        assert_eq!((nic.stats().tx_padded, nic.stats().tx_copied), (n, 0));
    }
}

/// Only a packet larger than all that the ring has free finds a queue full that is not stopped.
#[test]
fn a_packet_without_room_stops_the_queue_and_is_counted() {
    let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| (c.tx_ring, c.bql) = (64, false));
    for _ in 0..7 {
        let p = packet(&mut h, &[1; 100]);
        assert_eq!(nic.transmit(&mut h, p, true), Tx::Ok);
    }
    let frags = (0..17).map(|_| packet(&mut h, &[1; 80]).head).collect();
    let mut p = packet(&mut h, &[1; 80]);
    p.more = Some(Box::new(NonLinear { frags, list: Vec::new() }));
    for busy in [1, 2] {
        let Tx::Busy(back) = nic.transmit(&mut h, p, false) else { panic!("57 are needed") };
        assert_eq!((nic.stats().tx_busy, nic.stats().tx_stopped), (busy, 1));
        p = back;
    }
    p.release(&mut h);
    assert_eq!(nic.stats().tx_tail, 1, "what was queued is announced");
}

#[test]
fn every_frame_received_is_in_one_counter() {
    let (mut h, mut nic) = open();
    let mut up = Up::default();
    let good = l::Rx::EOP | l::Rx::TCPCS;
    for (i, len, status, errors) in [
        (0, 300 + 4, good, 0),
        (1, 100 + 4, good, 0),
        (2, 400 + 4, good, l::Rx::TCPE),
        (3, 500 + 4, good | l::Rx::IXSM, l::Rx::TCPE),
        (4, 600 + 4, l::Rx::EOP, l::Rx::SE),
        (5, 4, good, 0),
        (6, 2048, 0, 0),
        (7, 452 + 4, good, 0),
    ] {
        arrive(&mut h, i, len, status, errors);
    }
    let _ = nic.poll(&mut h, 64, &mut up);
    let lens: Vec<u32> = up.received.iter().map(|(p, _)| p.len()).collect();
    assert_eq!(lens, [300, 100, 400, 500, 2500]);
    // A frame to be copied, for which there is no memory, is lost, and its buffer used again. There
    // is none for the next descriptor either.
    let mut hoard = Vec::new();
    for len in [2048, 64] {
        while let Ok(b) = h.buffer(len, Alignment { align: 128, offset: 2 }) {
            hoard.push(b);
        }
    }
    arrive(&mut h, 8, 255 + 4, good, 0);
    let _ = nic.poll(&mut h, 64, &mut up);
    let expected = Stats {
        rx_packets: 5,
        rx_bytes: 300 + 100 + 400 + 500 + 2500,
        rx_copybreak: 1,
        rx_errors: 1,
        rx_malformed: 1,
        alloc_rx_buff_failed: 2,
        rx_csum_offload_good: 3,
        rx_csum_offload_errors: 1,
        rx_tail: 2,
        ..Stats::default()
    };
    assert_eq!((Stats { itr_writes: 0, ..nic.stats() }, up.received.len()), (expected, 5));
}

#[test]
fn a_poll_that_finds_nothing_sent_charges_nothing() {
    let platform = Platform::new(64 << 20, 16 << 20, ProtectionGranularity::Byte);
    let mut h =
        Machine::new(ConstantLatencyBus::new(platform, Span::ZERO), Board::new(), Costs::FREE, 1);
    let c = Config { eeprom: Eeprom::Eerd, ..Config::new(Part::I82540, Bus::Pci) };
    let mut nic = E1000::open(&mut h, &c).unwrap();
    for (polls, packets) in [(1, 3), (2, 0)] {
        for _ in 0..packets {
            let b = h.buffer(100, Alignment::ANY).unwrap();
            assert_eq!(nic.transmit(&mut h, Packet::linear(Fragment::whole(b)), false), Tx::Ok);
        }
        let at = u64::from(h.device.last(reg::TDBAL).unwrap());
        let memory = &mut h.bus.platform_mut().memory;
        (0..packets).for_each(|i| memory.cpu(at + i * 16 + 12, 1)[0] |= l::DD);
        let mut up = Up::default();
        for _ in 0..polls {
            let _ = nic.poll(&mut h, 64, &mut up);
        }
        up.sent.into_iter().for_each(|s| h.release(s.0));
        let done = h.done(WorkKind::TxDone);
        assert_eq!((done.times, done.units), (1, 3));
    }
    nic.close(&mut h);
}

/// The class of the sent traffic goes by bytes a packet.
#[test]
fn long_frames_sent_make_the_traffic_bulk() {
    let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| {
        (c.throttle, c.max_frame) = (Throttle::Dynamic, 9014);
    });
    let p = packet(&mut h, &[7; 9000]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    (0..3).for_each(|i| done(&mut h, i));
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    assert_eq!(h.device.last(reg::ITR), Some(interval(4000)));
}
