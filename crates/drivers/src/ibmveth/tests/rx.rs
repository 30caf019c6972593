//! Reception, and headers that are restored.

use super::*;
use doorbell_packet::headers::{Check, verify};
use doorbell_packet::segment::{Segments, prepare_gso};
use doorbell_packet::{Gso, GsoKind};

/// One packet, as it came up.
fn one(h: &mut Host, nic: &mut Ibmveth) -> (Packet, bool) {
    let mut up = poll(h, nic);
    assert_eq!(up.received.len(), 1);
    up.received.pop().unwrap()
}

#[test]
fn the_toggle_begins_as_one_and_turns_at_each_wrap() {
    let (mut h, mut nic) = open();
    // 41 slots: three laps and some.
    for i in 0..150usize {
        let frame = vec![i as u8; 200 + i];
        assert!(poll(&mut h, &mut nic).received.is_empty(), "what is old stays old, after {i}");
        arrive(&mut h, &frame, 0, None);
        let (p, verified) = one(&mut h, &mut nic);
        assert_eq!((contents(&mut h, &p), verified), (frame, false));
        p.release(&mut h);
    }
    assert_eq!(nic.stats().rx_bad_correlator, 0);
}

#[test]
fn an_invalid_entry_only_brings_the_buffer_back() {
    let (mut h, mut nic) = open();
    let d = firmware(&mut h).lent.remove(0);
    let correlator: [u8; 8] = memory(&mut h, d.ioba().into(), 8).try_into().unwrap();
    enter(&mut h, 8, 0, correlator);
    assert!(poll(&mut h, &mut nic).received.is_empty());
    assert_eq!((nic.stats().rx_invalid_buffer, nic.lent()), (1, [8, 8, 0, 0, 7]));
    arrive(&mut h, &[7; 600], 0, None);
    assert_eq!(poll(&mut h, &mut nic).received.len(), 1);
}

#[test]
fn a_correlator_that_names_nothing_lent_is_counted() {
    let (mut h, mut nic) = open();
    for c in [5u64 << 32, 8, 2 << 32, u64::MAX] {
        enter(&mut h, Entry::VALID | 8, 100, c.to_be_bytes());
    }
    // The same buffer twice.
    arrive(&mut h, &[7; 300], 0, None);
    enter(&mut h, Entry::VALID | 8, 300, 0u64.to_be_bytes());
    assert_eq!(poll(&mut h, &mut nic).received.len(), 1);
    assert_eq!(nic.stats().rx_bad_correlator, 5);
}

#[test]
fn an_entry_whose_frame_cannot_be_is_counted_and_its_buffer_used_again() {
    let (mut h, mut nic) = open();
    let mut n = 0;
    for (flags, len) in
        [(8, 13), (8, 505), (7, 100), (0xffff, 100), (8, u32::MAX), (Entry::LRG_PKT | 8, 100)]
    {
        let i = firmware(&mut h).lent.iter().position(|d| d.len() == 512).unwrap();
        let d = firmware(&mut h).lent.remove(i);
        let correlator: [u8; 8] = memory(&mut h, d.ioba().into(), 8).try_into().unwrap();
        enter(&mut h, Entry::VALID | flags, len, correlator);
        assert!(poll(&mut h, &mut nic).received.is_empty());
        n += 1;
        assert_eq!(nic.stats().rx_malformed, n);
    }
    arrive(&mut h, &[7; 504], 0, None);
    assert_eq!(poll(&mut h, &mut nic).received.len(), 1);
}

#[test]
fn below_the_copybreak_the_buffer_stays_and_above_it_goes_up() {
    let (mut h, mut nic) = open();
    for (len, from) in [(127, 127), (128, 512)] {
        arrive(&mut h, &vec![1; len], 0, None);
        let (p, _) = one(&mut h, &mut nic);
        assert_eq!((p.head.buf.len(), p.head.len), (from, len as u32));
        p.release(&mut h);
    }
    assert_eq!(nic.stats().rx_copied, 1);
}

#[test]
fn pools_are_filled_again_below_seven_eighths() {
    let (mut h, mut nic) = open_with(Some(ALL), |c| c.pools[0].count = 16);
    for (n, lent) in [(1, 15), (2, 14), (3, 16)] {
        arrive(&mut h, &[1; 300], 0, None);
        let (p, _) = one(&mut h, &mut nic);
        p.release(&mut h);
        assert_eq!(nic.lent()[0], lent, "after {n}");
    }
}

#[test]
fn a_checksum_left_out_becomes_the_pseudo_header_sum_and_is_noted() {
    for v4 in [true, false] {
        let (mut h, mut nic) = open();
        let whole = ip(v4, false, 1000);
        let field = if v4 { 50 } else { 70 };
        let mut frame = whole.clone();
        frame[field..field + 2].fill(0);
        arrive(&mut h, &frame, Entry::CSUM_GOOD | Entry::NO_CSUM, None);
        let (mut p, verified) = one(&mut h, &mut nic);
        assert!(verified && p.todo.gso.is_none());
        let mut expected = whole.clone();
        let partial = headers::prepare_partial(&mut expected);
        assert_eq!((p.todo.checksum, contents(&mut h, &p)), (partial, expected));
        // Whoever forwards it has it made.
        p.complete_checksum(&mut h).unwrap();
        assert_eq!(contents(&mut h, &p), whole);
        assert_eq!(nic.stats().rx_csum_partial, 1);
    }
}

#[test]
fn a_padded_frame_is_cut_to_its_datagram_before_its_checksum_is_left_to_others() {
    let (mut h, mut nic) = open_with(Some(ALL), |c| c.rx_copybreak = 0);
    let whole = ip(true, false, 2);
    let mut frame = whole.clone();
    frame[50..52].fill(0);
    frame.extend([0xaa; 4]);
    arrive(&mut h, &frame, Entry::CSUM_GOOD | Entry::NO_CSUM, None);
    let (mut p, _) = one(&mut h, &mut nic);
    p.complete_checksum(&mut h).unwrap();
    assert_eq!(contents(&mut h, &p), whole);
}

#[test]
fn a_frame_with_its_checksum_is_left_alone_and_verified_if_the_sender_vouches() {
    for (flags, good) in [(0, false), (Entry::CSUM_GOOD, true)] {
        let (mut h, mut nic) = open();
        let frame = ip(true, false, 1000);
        arrive(&mut h, &frame, flags, None);
        let (p, verified) = one(&mut h, &mut nic);
        assert_eq!((verified, p.todo, contents(&mut h, &p)), (good, OffloadRequest::NONE, frame));
    }
}

/// A received large send can be segmented as the sender's stack would have.
fn forwarded(h: &mut Host, p: &Packet, whole: &[u8], size: u16) {
    let mut want = whole.to_vec();
    let todo = prepare_gso(&mut want, size).unwrap();
    assert_eq!(p.todo, todo);
    let bytes = contents(h, p);
    let mut segments = Segments::new(&bytes, p.todo.gso.unwrap()).unwrap();
    let mut out = vec![0; segments.plan().longest()];
    let mut n = 0;
    while let Some(len) = segments.next_into(&mut out) {
        let v = verify(&out[..len]);
        assert_eq!(v.transport, Check::Good);
        assert_ne!(v.ip, Check::Bad);
        n += 1;
    }
    assert_eq!(
        n,
        (bytes.len() - usize::from(todo.gso.unwrap().header)).div_ceil(usize::from(size))
    );
}

#[test]
fn the_mss_of_a_large_packet_is_beside_the_correlator_and_the_offset_leads_behind_it() {
    for v4 in [true, false] {
        let (mut h, mut nic) = open();
        let whole = ip(v4, false, 20_000);
        let mut frame = whole.clone();
        let field = if v4 { 50 } else { 70 };
        frame[field..field + 2].fill(0);
        arrive(&mut h, &frame, Entry::CSUM_GOOD | Entry::NO_CSUM, Some(1400));
        let (p, verified) = one(&mut h, &mut nic);
        assert!(verified && p.head.start == 16);
        forwarded(&mut h, &p, &whole, 1400);
        assert_eq!(nic.stats().rx_large_packets, 1);
    }
}

#[test]
fn the_old_signature_never_leaves_the_ip_header_is_right_again() {
    let (mut h, mut nic) = open();
    let whole = ip(true, false, 20_000);
    let mut frame = whole.clone();
    frame[24..26].fill(0xff);
    frame[50..52].copy_from_slice(&1400u16.to_be_bytes());
    arrive(&mut h, &frame, Entry::CSUM_GOOD | Entry::NO_CSUM, None);
    let (p, _) = one(&mut h, &mut nic);
    assert_eq!(contents(&mut h, &p)[24..26], whole[24..26]);
    forwarded(&mut h, &p, &whole, 1400);
}

#[test]
fn the_old_signature_counts_in_a_frame_within_the_mtu_too() {
    let (mut h, mut nic) = open();
    let whole = ip(true, false, 1200);
    let mut frame = whole.clone();
    frame[24..26].fill(0xff);
    frame[50..52].copy_from_slice(&500u16.to_be_bytes());
    arrive(&mut h, &frame, Entry::CSUM_GOOD, None);
    let (p, _) = one(&mut h, &mut nic);
    assert_eq!(p.todo.gso, Some(Gso { kind: GsoKind::Tcp4, size: 500, header: 54 }));
    forwarded(&mut h, &p, &whole, 500);
}

#[test]
fn beyond_the_mtu_the_segment_size_is_in_the_checksum() {
    let (mut h, mut nic) = open();
    let whole = ip(true, false, 3000);
    let mut frame = whole.clone();
    frame[50..52].copy_from_slice(&1400u16.to_be_bytes());
    arrive(&mut h, &frame, Entry::CSUM_GOOD, None);
    let (p, _) = one(&mut h, &mut nic);
    forwarded(&mut h, &p, &whole, 1400);
}

#[test]
fn what_is_not_tcp_is_not_large_however_long() {
    let (mut h, mut nic) = open();
    let frame = ip(true, true, 3000);
    arrive(&mut h, &frame, Entry::CSUM_GOOD, None);
    let (p, _) = one(&mut h, &mut nic);
    assert_eq!((p.todo, contents(&mut h, &p)), (OffloadRequest::NONE, frame));
}

#[test]
fn the_drop_counter_is_the_last_word_of_the_page_and_goes_on_after_a_reopening() {
    let (mut h, mut nic) = open();
    let at = firmware(&mut h).list + 4088;
    memory(&mut h, at, 8).copy_from_slice(&3u64.to_be_bytes());
    poll(&mut h, &mut nic);
    assert_eq!(nic.stats().rx_no_buffer, 3);
    nic.set_mtu(&mut h, 1400).unwrap();
    let at = firmware(&mut h).list + 4088;
    memory(&mut h, at, 8).copy_from_slice(&2u64.to_be_bytes());
    poll(&mut h, &mut nic);
    assert_eq!(nic.stats().rx_no_buffer, 5);
}
