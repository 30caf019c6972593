//! Transmission.

use super::*;
use doorbell_bus::{Mapping, tce};
use doorbell_hal::{Direction, MapFault};
use doorbell_packet::headers::{Check, verify};
use doorbell_packet::segment::prepare_gso;

const MAP: Transmit = Transmit::Map { copybreak: 128 };
const CSUM: u64 = Descriptor::NO_CSUM | Descriptor::CSUM_GOOD;

fn send(
    h: &mut Host,
    nic: &mut Ibmveth,
    frame: &[u8],
    cuts: &[usize],
    listed: usize,
    todo: OffloadRequest,
) -> Tx {
    let p = packet(h, frame, cuts, listed, todo);
    nic.transmit(h, p, false)
}

fn last(h: &mut Host) -> &Sent {
    firmware(h).sent.last().unwrap()
}

#[test]
fn a_modern_driver_sends_exactly_one_descriptor_and_an_old_one_each_segment_with_its_flags() {
    let mut frame = ip(true, false, 900);
    let todo = prepare_gso(&mut frame, 1400).unwrap();
    for (transmit, n) in [(Transmit::Copy, 1), (MAP, 6)] {
        let (mut h, mut nic) = open_with(Some(ALL), |c| c.transmit = transmit);
        assert_eq!(send(&mut h, &mut nic, &frame, &[80, 200, 300, 400, 500], 0, todo), Tx::Ok);
        let sent = last(&mut h);
        assert_eq!(sent.descriptors.len(), n);
        assert!(
            sent.descriptors.iter().all(|d| d.0 & CSUM == CSUM && d.0 & Descriptor::LRG_SND == 0)
        );
        // The checksum is left out: zero, not the pseudo-header's sum.
        let mut expected = frame.clone();
        expected[50..52].fill(0);
        assert_eq!(sent.bytes, expected);
        nic.close(&mut h);
    }
}

#[test]
fn more_than_six_pieces_are_linearised_and_so_is_a_list() {
    let frame: Vec<u8> = (0..2000).map(|i| i as u8).collect();
    let (mut h, mut nic) = open_with(Some(ALL), |c| c.transmit = MAP);
    for (cuts, listed, n, linearised) in [
        (&[100, 200, 300, 400, 500][..], 0, 6, 0),
        (&[100, 200, 300, 400, 500, 600], 0, 1, 1),
        (&[100, 200], 1, 1, 2),
    ] {
        assert_eq!(send(&mut h, &mut nic, &frame, cuts, listed, OffloadRequest::NONE), Tx::Ok);
        let sent = last(&mut h);
        assert_eq!((sent.descriptors.len(), &sent.bytes), (n, &frame));
        assert_eq!(nic.stats().tx_linearized, linearised);
    }
}

#[test]
fn a_copied_packet_keeps_its_fragment_list() {
    let frame: Vec<u8> = (0..2000).map(|i| i as u8).collect();
    let (mut h, mut nic) = open();
    assert_eq!(send(&mut h, &mut nic, &frame, &[100, 200, 1000], 2, OffloadRequest::NONE), Tx::Ok);
    assert_eq!(last(&mut h).bytes, frame);
    assert_eq!((nic.stats().tx_linearized, nic.stats().tx_bytes), (0, 2000));
}

#[test]
fn small_linear_frames_are_copied_and_take_no_mapping() {
    let (mut h, mut nic) = open_with(Some(ALL), |c| c.transmit = MAP);
    for (len, cuts, copied) in [(127, &[][..], 1), (128, &[], 1), (127, &[50], 1)] {
        let _ = send(&mut h, &mut nic, &vec![9; len], cuts, 0, OffloadRequest::NONE);
        assert_eq!(nic.stats().tx_copied, copied);
    }
}

#[test]
fn the_correlator_of_a_busy_call_is_fed_back() {
    let (mut h, mut nic) = open();
    firmware(&mut h).refuse.push((l::H_SEND_LOGICAL_LAN, status::H_BUSY, 3));
    assert_eq!(send(&mut h, &mut nic, &[1; 60], &[], 0, OffloadRequest::NONE), Tx::Ok);
    let tokens: Vec<u64> =
        firmware(&mut h).called(l::H_SEND_LOGICAL_LAN).iter().map(|a| a[7]).collect();
    assert_eq!(tokens, [0, 0xc0de_0002, 0xc0de_0001, 0xc0de_0000]);
    assert_eq!((last(&mut h).correlator, nic.stats().tx_busy), (0xc0de_0000, 3));
}

#[test]
fn a_hypervisor_busy_for_ever_is_given_up_after_1024_tries() {
    let (mut h, mut nic) = open();
    firmware(&mut h).refuse.push((l::H_SEND_LOGICAL_LAN, status::H_BUSY, u32::MAX));
    let Tx::Dropped(p) = send(&mut h, &mut nic, &[1; 60], &[], 0, OffloadRequest::NONE) else {
        panic!("dropped")
    };
    p.release(&mut h);
    assert_eq!(firmware(&mut h).called(l::H_SEND_LOGICAL_LAN).len(), 1 + 1024);
    assert_eq!((nic.stats().tx_send_failed, nic.stats().tx_dropped), (1, 1));
}

#[test]
fn h_dropped_counts_as_sent_and_any_other_error_does_not() {
    let (mut h, mut nic) = open();
    firmware(&mut h).refuse.push((l::H_SEND_LOGICAL_LAN, status::H_DROPPED, 1));
    assert_eq!(send(&mut h, &mut nic, &[1; 60], &[], 0, OffloadRequest::NONE), Tx::Ok);
    assert_eq!((nic.stats().tx_packets, nic.stats().tx_hypervisor_dropped), (1, 1));
    firmware(&mut h).refuse.push((l::H_SEND_LOGICAL_LAN, status::H_PARAMETER, 1));
    assert!(matches!(
        send(&mut h, &mut nic, &[1; 60], &[], 0, OffloadRequest::NONE),
        Tx::Dropped(_)
    ));
    assert_eq!(
        (nic.stats().tx_packets, nic.stats().tx_send_failed, nic.stats().tx_dropped),
        (1, 1, 1)
    );
}

#[test]
fn a_large_send_has_its_bit_and_its_mss_is_the_last_argument() {
    for v4 in [true, false] {
        let mut frame = ip(v4, false, 20_000);
        let todo = prepare_gso(&mut frame, 1400).unwrap();
        let (mut h, mut nic) = open();
        assert_eq!(send(&mut h, &mut nic, &frame, &[100, 8000], 0, todo), Tx::Ok);
        let sent = last(&mut h);
        assert_eq!((sent.mss, sent.descriptors.len()), (1400, 1));
        assert_eq!(
            sent.descriptors[0].0 & (CSUM | Descriptor::LRG_SND),
            CSUM | Descriptor::LRG_SND
        );
        let check = if v4 { 50 } else { 70 };
        assert_eq!(sent.bytes[check..check + 2], [0, 0]);
        assert_eq!(nic.stats().tx_large_packets, 1);
        // A plain frame has an mss of 0 after it.
        let _ = send(&mut h, &mut nic, &[1; 60], &[], 0, OffloadRequest::NONE);
        assert_eq!(last(&mut h).mss, 0);
    }
}

#[test]
fn the_old_large_send_is_in_the_checksum_fields_and_its_mss_no_argument() {
    let mut frame = ip(true, false, 20_000);
    let todo = prepare_gso(&mut frame, 1400).unwrap();
    let (mut h, mut nic) = open_with(Some(ALL), |c| c.large_send = LargeSend::Old);
    assert_eq!(send(&mut h, &mut nic, &frame, &[], 0, todo), Tx::Ok);
    let sent = last(&mut h);
    assert_eq!((sent.mss, sent.descriptors[0].0 & Descriptor::LRG_SND), (0, 0));
    assert_eq!(
        (&sent.bytes[24..26], &sent.bytes[50..52]),
        (&[0xff, 0xff][..], &1400u16.to_be_bytes()[..])
    );
}

#[test]
fn a_checksum_that_is_not_tcps_is_completed() {
    for (v4, udp, attributes) in
        [(true, true, ALL), (false, true, ALL), (true, false, 0), (false, false, 0)]
    {
        let whole = ip(v4, udp, 700);
        let mut frame = whole.clone();
        let todo = prepare_gso(&mut frame, 1400).unwrap();
        let (mut h, mut nic) = open_with(Some(attributes), |_| {});
        assert_eq!(send(&mut h, &mut nic, &frame, &[90], 0, todo), Tx::Ok);
        let sent = last(&mut h);
        assert_eq!((&sent.bytes, sent.descriptors[0].0 & CSUM), (&whole, 0));
        assert_eq!((nic.stats().tx_csum_software, nic.stats().tx_csum), (1, 0));
    }
}

#[test]
fn a_large_send_with_a_list_is_segmented_unless_an_active_trunk_takes_lists() {
    let mut frame = ip(true, false, 20_000);
    let todo = prepare_gso(&mut frame, 1400).unwrap();
    let trunk = ALL | attribute::ACTIVE_TRUNK;
    // Without firmware large send it goes the old way, list or not.
    let old = trunk & !attribute::LRG_SND_SUPPORT;
    let cases = [
        (trunk, true, 1, 1),
        (old, true, 1, 1),
        (trunk, false, 15, 0),
        (old, false, 15, 0),
        (ALL, true, 15, 0),
    ];
    for (attributes, fraglist, sends, linearised) in cases {
        let (mut h, mut nic) =
            open_with(Some(attributes), |c| (c.transmit, c.fraglist) = (MAP, fraglist));
        assert_eq!(send(&mut h, &mut nic, &frame, &[100, 8000, 16_000], 2, todo), Tx::Ok);
        assert_eq!((firmware(&mut h).sent.len(), nic.stats().tx_linearized), (sends, linearised));
        if sends > 1 {
            assert!(
                firmware(&mut h).sent.iter().all(|s| verify(&s.bytes).transport == Check::Good)
            );
            assert_eq!((nic.stats().tx_segmented, nic.stats().tx_segments), (1, 15));
        }
        let up = poll(&mut h, &mut nic);
        assert_eq!(up.sent.iter().filter(|s| s.2).count(), 1, "one packet, one end");
        assert_eq!(up.sent[0].1, 7);
    }
}

#[test]
fn a_mapping_that_fails_makes_the_packet_linear_and_copied() {
    // A translation table that has room for the adapter, and that others have used up.
    let window = tce::Window { base: 0, pages: 300, multi: true, prices: tce::Prices::default() };
    let mapping = Mapping::Tce(Box::new(tce::Table::new(window)));
    let mut h = host(Some(ALL));
    h.bus.ports[0] = HypervisorPort::new(
        Platform::new(0x1000_0000, 16 << 20, ProtectionGranularity::Page).with_mapping(mapping),
        Span::ZERO,
    );
    let mut nic = Ibmveth::open(&mut h, &Config { transmit: MAP, ..config() }).unwrap();
    let mut held = Vec::new();
    loop {
        let b = h.buffer(4096, Alignment { align: 4096, offset: 0 }).unwrap();
        match h.map(b, 0..4096, Direction::ToDevice) {
            Ok(m) => held.push(m),
            Err(e) => {
                assert_eq!(e.why, MapFault::NoEntries);
                h.release(e.buf);
                break;
            }
        }
    }
    // Room for one piece of three.
    let b = h.unmap(held.pop().unwrap());
    h.release(b);
    let before = h.bus.ports[0].platform().live_entries();
    let p = packet(&mut h, &[9; 2000], &[100, 700], 0, OffloadRequest::NONE);
    // What it is sent from is in the table; the firmware of these tests does not look there.
    firmware(&mut h).refuse.push((l::H_SEND_LOGICAL_LAN, status::H_DROPPED, 1));
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    let s = nic.stats();
    assert_eq!((s.tx_map_failed, s.tx_linearized, s.tx_copied, s.tx_descriptors), (1, 1, 1, 1));
    assert_eq!((s.tx_bytes, h.bus.ports[0].platform().live_entries()), (2000, before));
}

#[test]
fn what_is_longer_than_the_mapped_buffer_comes_back_whole() {
    let (mut h, mut nic) = open();
    let Tx::Dropped(p) = send(&mut h, &mut nic, &vec![3; 65_537], &[100], 0, OffloadRequest::NONE)
    else {
        panic!("dropped")
    };
    assert_eq!(contents(&mut h, &p), vec![3; 65_537]);
    assert_eq!(send(&mut h, &mut nic, &vec![3; 65_536], &[100], 0, OffloadRequest::NONE), Tx::Ok);
}

#[test]
fn a_frame_to_the_own_address_is_dropped() {
    let (mut h, mut nic) = open();
    let frame = [&MAC[..], &[0; 54]].concat();
    assert!(matches!(send(&mut h, &mut nic, &frame, &[], 0, OffloadRequest::NONE), Tx::Dropped(_)));
    assert_eq!((nic.stats().tx_loopback, firmware(&mut h).sent.len()), (1, 0));
}

#[test]
fn a_tag_is_inserted_and_the_offsets_move() {
    let whole = ip(true, false, 300);
    let mut frame = whole.clone();
    let todo = OffloadRequest { vlan: Some(5), ..prepare_gso(&mut frame, 1400).unwrap() };
    let (mut h, mut nic) = open();
    assert_eq!(send(&mut h, &mut nic, &frame, &[], 0, todo), Tx::Ok);
    let sent = last(&mut h);
    assert_eq!(
        (sent.bytes[12..16].to_vec(), sent.bytes.len()),
        (vec![0x81, 0, 0, 5], whole.len() + 4)
    );
    assert_eq!((sent.descriptors[0].0 & CSUM, &sent.bytes[54..56]), (CSUM, &[0, 0][..]));
}

#[test]
fn buffers_come_back_piece_by_piece_and_the_queue_stops_when_nobody_takes_them() {
    let (mut h, mut nic) = open();
    let _ = send(&mut h, &mut nic, &[1; 90], &[20, 40], 1, OffloadRequest::NONE);
    let up = poll(&mut h, &mut nic);
    let lens: Vec<(u32, bool)> = up.sent.iter().map(|s| (s.0.len(), s.2)).collect();
    assert_eq!(lens, [(20, false), (20, false), (50, true)]);
    let mut n = 0;
    while !Driver::<Host>::stopped(&nic) {
        let _ = send(&mut h, &mut nic, &[1; 60], &[], 0, OffloadRequest::NONE);
        n += 1;
    }
    assert_eq!(n, 1024);
    assert!(matches!(send(&mut h, &mut nic, &[1; 60], &[], 0, OffloadRequest::NONE), Tx::Busy(_)));
    nic.reclaim(&mut h, &mut Up::default());
    assert!(!Driver::<Host>::stopped(&nic) && nic.is_drained());
}
