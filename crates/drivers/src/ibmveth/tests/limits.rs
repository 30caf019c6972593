//! Frames, buffers and sends that stand exactly on a limit, and one beyond it.

use super::*;
use doorbell_hal::WorkKind;
use doorbell_packet::segment::prepare_gso;
use doorbell_packet::{Gso, GsoKind};

const MAP: Transmit = Transmit::Map { copybreak: 128 };

/// A machine whose memory begins 64 MiB below 4 GiB and ends above.
fn across_4_gib() -> Host {
    let from = (1u64 << 32) - (64 << 20);
    let vio =
        HypervisorPort::new(Platform::new(from, 80 << 20, ProtectionGranularity::Byte), Span::ZERO);
    Machine::new(
        Partitions::new(vec![vio], vec![0], Span::from_ns(300)),
        HypervisorDevice(Firmware { attributes: Some(ALL), ..Firmware::default() }),
        Costs::FREE,
        1,
    )
}

/// Takes buffers until one is above 4 GiB. Returns that one last.
fn hoard(h: &mut Host, len: u32) -> Vec<Buf> {
    let mut all: Vec<Buf> = Vec::new();
    while all.last().is_none_or(|b| b.addr() >> 32 == 0) {
        all.push(h.buffer(len, Alignment::ANY).unwrap());
    }
    all
}

/// Returns the mappings that are live.
fn live(h: &mut Host) -> u64 {
    let l = &h.bus.ports[0].platform().ledger;
    l.maps - l.unmaps
}

#[test]
fn a_frame_has_a_header_of_fourteen_bytes() {
    let (mut h, mut nic) = open();
    arrive(&mut h, &[7; 14], 0, None);
    let up = poll(&mut h, &mut nic);
    assert_eq!((up.received.len(), nic.stats().rx_malformed), (1, 0));
    for (len, queued) in [(14, true), (13, false)] {
        let p = packet(&mut h, &[7; 60], &[len], 0, OffloadRequest::NONE);
        assert_eq!(nic.transmit(&mut h, p, false) == Tx::Ok, queued, "a head of {len}");
    }
}

#[test]
fn a_send_has_less_than_16_mib() {
    let most = Descriptor::LENGTH_MAX as usize;
    let platform = Platform::new(0x1000_0000, 96 << 20, ProtectionGranularity::Byte);
    let mut h = host(Some(ALL));
    h.bus.ports[0] = HypervisorPort::new(platform, Span::ZERO);
    let mut nic = Ibmveth::open(&mut h, &Config { transmit: MAP, ..config() }).unwrap();
    for (len, queued) in [(most, true), (most + 1, false), (most + 2, false)] {
        let p = packet(&mut h, &vec![7; len], &[60], 0, OffloadRequest::NONE);
        assert_eq!(nic.transmit(&mut h, p, false) == Tx::Ok, queued, "{len}");
    }
    assert_eq!((nic.stats().tx_packets, nic.stats().tx_bytes), (1, most as u64));
}

#[test]
fn copies_of_more_than_one_block_are_whole() {
    let (mut h, mut nic) = open_with(Some(ALL), |c| c.rx_copybreak = 1000);
    for len in [255, 256, 257, 300, 513, 999] {
        let frame: Vec<u8> = (0..len).map(|i| (i * 7 + i / 256) as u8).collect();
        arrive(&mut h, &frame, 0, None);
        let (p, _) = poll(&mut h, &mut nic).received.pop().unwrap();
        assert_eq!(contents(&mut h, &p), frame, "{len}");
        p.release(&mut h);
    }
    assert_eq!((nic.stats().rx_copied, nic.stats().rx_packets), (6, 6));
}

#[test]
fn a_large_packet_of_one_segment_is_not_segmented() {
    let frame = ip(true, false, 1000);
    for (mss, gso) in [(0, None), (999, Some(999)), (1000, None), (1001, None)] {
        let (mut h, mut nic) = open();
        arrive(&mut h, &frame, Entry::CSUM_GOOD, Some(mss));
        let (p, _) = poll(&mut h, &mut nic).received.pop().unwrap();
        let expected = gso.map(|size| Gso { kind: GsoKind::Tcp4, size, header: 54 });
        assert_eq!(p.todo.gso, expected, "MSS {mss}");
    }
}

#[test]
fn only_tcp_is_given_its_checksum_back() {
    let (mut h, mut nic) = open();
    // Where TCP's checksum would be there are zeros.
    let mut udp = ip(true, true, 100);
    udp[42..].fill(0);
    arrive(&mut h, &udp, Entry::CSUM_GOOD, None);
    let (p, verified) = poll(&mut h, &mut nic).received.pop().unwrap();
    assert_eq!((contents(&mut h, &p), verified), (udp, true));
    assert_eq!((p.todo, nic.stats().rx_csum_partial), (OffloadRequest::NONE, 0));
}

#[test]
fn an_old_large_packet_costs_the_sum_of_its_ip_header() {
    let (mut h, mut nic) = open();
    let mut frame = ip(true, false, 3000);
    frame[24..26].copy_from_slice(&[0xff, 0xff]);
    frame[50..52].copy_from_slice(&1400u16.to_be_bytes());
    arrive(&mut h, &frame, Entry::CSUM_GOOD, None);
    let _ = poll(&mut h, &mut nic);
    let sum = h.done(WorkKind::Sum);
    assert_eq!((sum.times, sum.units, nic.stats().rx_large_packets), (1, 20, 1));
}

#[test]
fn what_was_sent_is_done_when_a_poll_has_taken_it() {
    let (mut h, mut nic) = open();
    assert!(nic.is_drained());
    for _ in 0..3 {
        let p = packet(&mut h, &[7; 60], &[20], 0, OffloadRequest::NONE);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    }
    assert!(!nic.is_drained());
    for _ in 0..2 {
        let _ = poll(&mut h, &mut nic);
        let done = h.done(WorkKind::TxDone);
        assert_eq!((done.times, done.units, nic.is_drained()), (1, 3, true));
    }
}

#[test]
fn a_segment_that_is_refused_is_dropped_and_the_others_go() {
    let mut frame = ip(true, false, 20_000);
    let todo = prepare_gso(&mut frame, 1400).unwrap();
    let (mut h, mut nic) = open_with(Some(ALL), |c| c.large_send = LargeSend::Off);
    firmware(&mut h).refuse.push((l::H_SEND_LOGICAL_LAN, status::H_PARAMETER, 2));
    let p = packet(&mut h, &frame, &[], 0, todo);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    let s = nic.stats();
    assert_eq!((s.tx_segmented, s.tx_segments, s.tx_dropped, s.tx_send_failed), (1, 13, 2, 2));
    assert_eq!((firmware(&mut h).sent.len(), s.tx_packets), (13, 13));
}

/// Each address family has an attribute of its own.
#[test]
fn checksums_are_left_out_for_the_family_that_the_firmware_takes() {
    for (frozen, v4) in [(attribute::IPV6_TCP_CSUM, true), (attribute::IPV4_TCP_CSUM, false)] {
        let mut h = host(Some(ALL));
        firmware(&mut h).frozen = frozen;
        let mut nic = Ibmveth::open(&mut h, &config()).unwrap();
        for family in [true, false] {
            let mut frame = ip(family, false, 100);
            let todo = prepare_gso(&mut frame, 1400).unwrap();
            let p = packet(&mut h, &frame, &[], 0, todo);
            assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
            let omitted = firmware(&mut h).sent.pop().unwrap().descriptors[0].0;
            assert_eq!(omitted & Descriptor::NO_CSUM != 0, family == v4);
        }
        assert_eq!((nic.stats().tx_csum, nic.stats().tx_csum_software), (1, 1));
    }
}

/// A descriptor has 32 bits of address.
#[test]
fn what_is_above_4_gib_is_copied_and_not_mapped() {
    let mut h = across_4_gib();
    let c = Config { transmit: MAP, ..config() };
    let mut nic = Ibmveth::open(&mut h, &c).unwrap();
    let mut low = hoard(&mut h, 4096);
    let far = low.pop().unwrap();
    let before = live(&mut h);
    let head = Fragment { buf: low.pop().unwrap(), start: 0, len: 1000 };
    let frags = vec![Fragment { buf: far, start: 0, len: 1000 }];
    for (f, byte) in [(&head, 1u8), (&frags[0], 2)] {
        h.bytes_mut(&f.buf, 0..1000, |b| b.fill(byte));
    }
    let more = Some(Box::new(NonLinear { frags, list: Vec::new() }));
    assert_eq!(nic.transmit(&mut h, Packet { more, ..Packet::linear(head) }, false), Tx::Ok);
    let s = nic.stats();
    assert_eq!((s.tx_map_failed, s.tx_copied, s.tx_packets), (1, 1, 1));
    assert_eq!(firmware(&mut h).sent[0].bytes, [[1; 1000], [2; 1000]].concat());
    assert_eq!(live(&mut h), before, "what was mapped is not any more");
}

#[test]
fn no_buffer_above_4_gib_is_lent() {
    let mut h = across_4_gib();
    let mut nic = Ibmveth::open(&mut h, &config()).unwrap();
    let lent = nic.lent();
    let hoarded = hoard(&mut h, 4096);
    let before = (live(&mut h), nic.stats().replenish_add_buff_success);
    for _ in 0..3 {
        arrive(&mut h, &[7; 300], 0, None);
        let _ = poll(&mut h, &mut nic);
    }
    let (now, s) = (live(&mut h), nic.stats());
    assert_eq!((now + 3, s.replenish_add_buff_success), before, "three are gone, and none new");
    assert_eq!((nic.lent()[0] + 3, s.replenish_no_mem > 0), (lent[0], true));
    assert!(hoarded.len() > 1);
}

#[test]
fn a_buffer_that_is_refused_is_unmapped_and_counted() {
    let (mut h, mut nic) = open_with(Some(0), |c| {
        c.pools.iter_mut().for_each(|p| p.active = false);
        c.pools[1] = Pool { active: true, ..c.pools[1] };
    });
    let s = nic.stats();
    assert_eq!((s.replenish_task_cycles, s.replenish_add_buff_success, live(&mut h)), (1, 8, 8));
    // Also by an answer that says that the call is not there; it is tried again at the next walk.
    for (i, answer) in [status::H_PARAMETER, status::H_FUNCTION].into_iter().enumerate() {
        let i = i as u64;
        arrive(&mut h, &[7; 300], 0, None);
        arrive(&mut h, &[7; 300], 0, None);
        firmware(&mut h).refuse.push((l::H_ADD_LOGICAL_LAN_BUFFER, answer, 1));
        let up = poll(&mut h, &mut nic);
        assert_eq!(up.received.len(), 2);
        let s = nic.stats();
        assert_eq!((s.replenish_add_buff_failure, nic.lent()[1]), (i + 1, 6));
        assert_eq!(live(&mut h), 6, "the buffers that are lent");
        let _ = nic.interrupt(&mut h, 0);
        let _ = poll(&mut h, &mut nic);
        assert_eq!(nic.lent()[1], 8);
    }
    assert_eq!(nic.stats().replenish_no_mem, 0);
}

#[test]
fn frames_in_the_queue_at_a_close_are_counted_across_its_end() {
    // 41 slots: the frames that are not read are the last of a lap and the first of the next.
    let (mut h, mut nic) = open();
    for _ in 0..38 {
        arrive(&mut h, &[7; 300], 0, None);
        let up = poll(&mut h, &mut nic);
        up.received.into_iter().for_each(|(p, _)| p.release(&mut h));
    }
    for _ in 0..6 {
        arrive(&mut h, &[7; 300], 0, None);
    }
    nic.set_mtu(&mut h, 1500).unwrap();
    assert_eq!((nic.stats().rx_unread, nic.stats().rx_packets), (6, 38));
}

#[test]
fn every_frame_received_is_in_one_counter() {
    let (mut h, mut nic) = open();
    let mut whole = ip(true, false, 200);
    arrive(&mut h, &whole, Entry::CSUM_GOOD, None);
    arrive(&mut h, &[7; 100], 0, None);
    whole[50..52].fill(0);
    arrive(&mut h, &whole, Entry::CSUM_GOOD | Entry::NO_CSUM, None);
    enter(&mut h, Entry::VALID | 8, 100, [0xff; 8]);
    let up = poll(&mut h, &mut nic);
    let s = nic.stats();
    assert_eq!((up.received.len(), s.rx_packets, s.rx_bytes), (3, 3, 254 + 100 + 254));
    assert_eq!((s.rx_csum_good, s.rx_csum_partial, s.rx_copied, s.rx_bad_correlator), (2, 1, 1, 1));
}
