//! Sending and receiving: descriptors, buffers, the toggled queue, H_BUSY.

use super::super::{Adapter, Config};
use super::*;
use doorbell_layout::ibmveth::status::*;

#[test]
fn six_descriptors_are_one_frame_and_the_first_invalid_ends_them() {
    let mut b = Bench::plain(2).open();
    let f = plain(b.mac(1), b.mac(0), 600);
    b.put(0, &f);
    let d = |i: u32| Descriptor::new(0, 100, SEND + 100 * i).0;
    assert_eq!(b.own(0, H_SEND_LOGICAL_LAN, &[d(0), d(1), d(2), d(3), d(4), d(5)]), H_SUCCESS);
    assert_eq!(b.bytes(1), Some(f.clone()));
    assert_eq!(b.own(0, H_SEND_LOGICAL_LAN, &[d(0), d(1), 0, d(3), d(4), d(5)]), H_SUCCESS);
    assert_eq!(b.bytes(1).unwrap(), f[..200]);
    assert_eq!(b.d.counters(0).tx_descriptors, 8);
    assert_eq!(b.own(0, H_SEND_LOGICAL_LAN, &[0, d(0)]), H_SUCCESS, "nothing to send");
    assert_eq!(b.bytes(1), None);
}

#[test]
fn a_frame_lies_behind_the_correlator_which_stays() {
    let mut b = Bench::plain(2).open();
    let f = plain(b.mac(1), b.mac(0), 60);
    assert_eq!(b.send(0, &f), H_SUCCESS);
    let buffer = &b.p[1].memory[BUFFERS as usize..][..72];
    assert_eq!((&buffer[..8], &buffer[8..68]), (&5u64.to_be_bytes()[..], &f[..]));
    assert_eq!(buffer[68..], [0; 4], "and no more than was sent");
    let got = b.received(1).unwrap();
    assert_eq!((got.flags, got.correlator), (Entry::VALID | 8, 5));
}

#[test]
fn the_toggle_turns_with_each_lap_and_the_list_shows_it() {
    let mut b = Bench::plain(2).open();
    let f = plain(b.mac(1), b.mac(0), 60);
    for i in 0..3 * ENTRIES {
        assert_eq!(b.send(0, &f), H_SUCCESS);
        let got = b.received(1).expect("by the toggle that is expected");
        let flags = b.p[1].memory[(QUEUE + i % ENTRIES * ENTRY) as usize];
        assert_eq!(flags >> 7 == 1, (i / ENTRIES).is_multiple_of(2), "1 in the first lap");
        let turned = b.p[1].memory[LIST as usize] & 0x40 != 0;
        assert_eq!(turned, (i + 1) / ENTRIES % 2 == 1, "the descriptor has the inverse");
        assert_eq!(b.received(1), None, "the last lap's entries are not new");
        let at = b.p[1]
            .memory
            .windows(8)
            .skip(BUFFERS as usize)
            .position(|w| w == got.correlator.to_be_bytes());
        b.post(1, 2048, BUFFERS + at.unwrap() as u32);
    }
}

#[test]
fn the_entrys_control_byte_is_written_last() {
    let mut b = Bench::plain(2).open();
    b.p[1].writes.clear();
    b.send(0, &plain(b.mac(1), b.mac(0), 60));
    let queue = QUEUE as usize;
    assert_eq!(
        b.p[1].writes,
        [BUFFERS as usize + 8..BUFFERS as usize + 68, queue + 1..queue + 16, queue..queue + 1]
    );
}

#[test]
fn the_smallest_buffer_that_holds_frame_and_correlator_is_used() {
    let mut b = Bench::plain(2).open();
    b.post(1, 4096, BUFFERS + 0x4000);
    b.post(1, 512, BUFFERS + 0x3000);
    b.send(0, &plain(b.mac(1), b.mac(0), 504));
    assert_eq!(b.received(1).unwrap().correlator, 10, "512");
    b.post(1, 512, BUFFERS + 0x3000);
    b.send(0, &plain(b.mac(1), b.mac(0), 505));
    assert_eq!(b.received(1).unwrap().correlator, 5, "the first of 2048");
    b.send(0, &plain(b.mac(1), b.mac(0), 2041));
    assert_eq!(b.received(1).unwrap().correlator, 9, "4096");
}

#[test]
fn without_a_buffer_the_frame_is_lost_and_the_lists_last_word_counts() {
    let mut b = Bench::plain(2).open();
    let f = plain(b.mac(1), b.mac(0), 2041);
    for i in 1..3u64 {
        assert_eq!(b.send(0, &f), H_DROPPED);
        assert_eq!(b.p[1].memory[LIST as usize + 4088..][..8], i.to_be_bytes());
    }
    assert_eq!((b.d.counters(1).rx_no_buffer, b.dropped(0)), (2, 2));
    assert_eq!(b.received(1), None);
    assert_eq!(b.send(0, &f[..2040]), H_SUCCESS);
    b.own(1, H_FREE_LOGICAL_LAN, &[]);
    b.register(1);
    assert_eq!(b.send(0, &f), H_DROPPED);
    assert_eq!(
        b.p[1].memory[LIST as usize + 4088..][..8],
        1u64.to_be_bytes(),
        "registration begins anew"
    );
}

#[test]
fn a_closed_adapter_sends_nothing() {
    let mut b = Bench::plain(2);
    b.register(1);
    let f = plain(b.mac(1), b.mac(0), 60);
    assert_eq!(b.send(0, &f), H_DROPPED);
    assert_eq!((b.d.counters(0).drop_closed, b.p[0].reads.len()), (1, 0));
}

#[test]
fn memory_that_is_not_mapped_is_refused_and_nothing_arrives() {
    let mut b = Bench::plain(2).open();
    let f = plain(b.mac(1), b.mac(0), 600);
    b.put(0, &f);
    let good = Descriptor::new(0, 600, SEND).0;
    for bad in [(600, MEMORY as u32 - 100), (600, 0xffff_ff00), (8192, SEND + 0x1000)] {
        b.p[0].mapped[(SEND as usize + 0x2000) / PAGE] = false;
        let bad = Descriptor::new(0, bad.0, bad.1).0;
        assert_eq!(b.own(0, H_SEND_LOGICAL_LAN, &[good, bad]), H_PARAMETER);
    }
    assert_eq!((b.bytes(1), b.d.counters(0).tx_refused), (None, 3));
}

#[test]
fn a_frame_longer_than_64_kib_is_refused_unread_and_one_without_addresses_too() {
    let mut b = Bench::plain(2).open();
    let d = |len| Descriptor::new(0, len, SEND).0;
    b.p[0].reads.clear();
    assert_eq!(b.own(0, H_SEND_LOGICAL_LAN, &[d(60_000), d(5_537)]), H_RESOURCE);
    assert_eq!(b.own(0, H_SEND_LOGICAL_LAN, &[d(Descriptor::LENGTH_MAX); 6]), H_RESOURCE);
    assert!(b.p[0].reads.is_empty());
    assert_eq!(b.own(0, H_SEND_LOGICAL_LAN, &[d(13)]), H_PARAMETER);
}

#[test]
fn a_buffer_that_is_gone_when_it_is_used_comes_back_without_a_frame() {
    let mut b = Bench::plain(2).open();
    let page = BUFFERS as usize / PAGE;
    b.p[1].writable[page] = false;
    assert_eq!(b.send(0, &plain(b.mac(1), b.mac(0), 60)), H_DROPPED);
    let got = b.received(1).unwrap();
    assert_eq!((got.flags & Entry::VALID, got.correlator, got.bytes.len()), (0, 5, 0));
    assert_eq!(b.d.counters(1).rx_bad_buffer, 1);
    b.p[1].writable[page] = true;
    b.p[1].writable[QUEUE as usize / PAGE] = false;
    assert_eq!(b.send(0, &plain(b.mac(1), b.mac(0), 60)), H_DROPPED);
    assert_eq!(b.d.counters(1).rx_lost_entry, 1);
}

#[test]
fn a_copy_takes_the_callers_time() {
    let mut b = Bench::plain(2).open();
    (b.p[0].price, b.p[1].price) = (Span::from_ns(100), Span::from_ns(30));
    let before = b.now;
    b.send(0, &plain(b.mac(1), b.mac(0), 60));
    // One read of the frame; one write of it, the correlator's read and two writes of the entry.
    assert_eq!(b.now.since(before), Span::from_ns(100 + 4 * 30));
}

/// A LAN of four, where a call copies 1 KiB and answers H_BUSY.
fn slow() -> Bench {
    let adapters = (0..4).map(|i| Adapter::new(i.into(), i)).collect();
    Bench::new(Config { slice: 1024, ..Config::new(adapters) }).open()
}

fn try_send(b: &mut Bench, len: u32, token: u64) -> HcallReturn {
    b.full(0, H_SEND_LOGICAL_LAN, &[Descriptor::new(0, len, SEND).0, 0, 0, 0, 0, 0, token])
}

#[test]
fn a_busy_send_goes_on_with_its_token_and_nobody_gets_it_twice() {
    let mut b = slow();
    let f = plain([0xff; 6], b.mac(0), 1500);
    b.put(0, &f);
    let mut answer = try_send(&mut b, 1500, 0);
    let mut calls = 1;
    while answer.status == H_BUSY {
        // What the sender writes meanwhile is not sent.
        b.p[0].memory[SEND as usize..SEND as usize + 1500].fill(0);
        answer = try_send(&mut b, 1500, answer.ret[0]);
        calls += 1;
    }
    assert_eq!((answer.status, answer.ret[0], calls), (H_SUCCESS, 0, 4));
    for i in 1..4 {
        assert_eq!((b.bytes(i), b.bytes(i)), (Some(f.clone()), None));
    }
    assert_eq!((b.d.counters(0).tx_busy, b.d.counters(0).tx_packets), (3, 1));
}

#[test]
fn a_token_is_for_the_same_call_and_good_once() {
    let mut b = slow();
    b.put(0, &plain([0xff; 6], b.mac(0), 1500));
    let token = try_send(&mut b, 1500, 0).ret[0];
    assert_eq!(try_send(&mut b, 1500, token + 1).status, H_PARAMETER);
    assert_eq!(try_send(&mut b, 1499, token).status, H_PARAMETER);
    let next = try_send(&mut b, 1500, token);
    assert_eq!(next.status, H_BUSY, "the frame has waited");
    assert_eq!(try_send(&mut b, 1500, token).status, H_PARAMETER, "used");
    // A new send forgets the old.
    assert_eq!(try_send(&mut b, 100, 0).status, H_SUCCESS);
    assert_eq!(try_send(&mut b, 1500, next.ret[0]).status, H_PARAMETER);
    // As does closing.
    let token = try_send(&mut b, 1500, 0).ret[0];
    assert_eq!(b.own(0, H_FREE_LOGICAL_LAN, &[]), H_SUCCESS);
    b.register(0);
    assert_eq!(try_send(&mut b, 1500, token).status, H_PARAMETER);
}
