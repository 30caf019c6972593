//! Transmission.

use super::*;
use doorbell_packet::{Gso, GsoKind};

fn control(h: &mut Host, i: u32) -> u32 {
    word(h, MM2S, i, Descriptor::CONTROL_AT)
}
fn app(h: &mut Host, i: u32) -> [u32; 3] {
    [0, 4, 8].map(|n| word(h, MM2S, i, Descriptor::APP_AT + n))
}

#[test]
fn a_linear_packet_is_one_descriptor_that_begins_and_ends_it() {
    let (mut h, mut nic) = open();
    let p = packet(&mut h, &[7; 100]);
    let at = p.head.buf.addr();
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(u64::from(word(&mut h, MM2S, 0, Descriptor::BUFFER_AT)), at);
    assert_eq!(control(&mut h, 0), 100 | Descriptor::SOF | Descriptor::EOF);
    assert_eq!((word(&mut h, MM2S, 0, Descriptor::STATUS_AT), app(&mut h, 0)[0]), (0, 0));
    assert_eq!(
        tail(&h, MM2S),
        Some(0),
        "TAILDESC names the last descriptor, not the one behind it"
    );
}

#[test]
fn every_packet_rings_though_more_follows_unless_it_is_a_batch() {
    for (batch, times) in [(false, 3), (true, 1)] {
        let (mut h, mut nic) = open_with(|c| c.batch = batch);
        for i in 0..3 {
            let p = packet(&mut h, &[7; 100]);
            assert_eq!(nic.transmit(&mut h, p, i < 2), Tx::Ok);
        }
        assert_eq!((rings(&h, MM2S), tail(&h, MM2S)), (times, Some(2)));
    }
}

#[test]
fn sof_is_in_the_first_descriptor_and_eof_in_the_last_which_taildesc_names() {
    let (mut h, mut nic) = open();
    let p = pieces(&mut h, 3);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(
        [0, 1, 2].map(|i| control(&mut h, i)),
        [60 | Descriptor::SOF, 20, 20 | Descriptor::EOF]
    );
    assert_eq!((tail(&h, MM2S), rings(&h, MM2S)), (Some(2), 1));
}

#[test]
fn partial_checksum_is_in_the_application_words_of_the_first_descriptor_alone() {
    let (mut h, mut nic) = open();
    let mut p = pieces(&mut h, 2);
    p.todo.checksum = Some(CsumPartial { start: 34, offset: 16 });
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(app(&mut h, 0), [1, 34 << 16 | 50, 0]);
    assert_eq!(app(&mut h, 1), [0; 3]);
    // The words of a packet before are not the next one's.
    sent(&mut h, 0);
    sent(&mut h, 1);
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    for _ in 2..=128 {
        let p = packet(&mut h, &[7; 100]);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        let i = tail(&h, MM2S).unwrap() as u32;
        sent(&mut h, i);
        let _ = nic.poll(&mut h, 64, &mut Up::default());
    }
    assert_eq!((tail(&h, MM2S), app(&mut h, 0)[0]), (Some(0), 0), "once round the ring");
    assert_eq!(nic.stats().tx_csum, 1);
}

#[test]
fn full_checksum_says_only_that_there_is_one_and_is_for_tcp_and_udp() {
    let (mut h, mut nic) = open_with(|c| c.tx_checksum = Checksum::Full);
    for (i, offset, words) in [(0, 16, [2, 0, 0]), (1, 6, [2, 0, 0]), (2, 2, [0, 0, 0])] {
        let mut bytes = [7; 100];
        bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        bytes[20..22].fill(0);
        bytes[23] = if offset == 6 { 17 } else { 6 };
        bytes[46] = 0x50;
        let mut p = packet(&mut h, &bytes);
        p.todo.checksum = Some(CsumPartial { start: 34, offset });
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        assert_eq!(app(&mut h, i), words, "csum_offset {offset}");
    }
    assert_eq!((nic.stats().tx_csum, nic.stats().tx_csum_software), (2, 1));
}

#[test]
fn a_core_without_checksums_gets_them_done() {
    let (mut h, mut nic) = open_with(|c| c.tx_checksum = Checksum::None);
    let mut p = packet(&mut h, &[0; 60]);
    let at = p.head.buf.addr();
    h.port.at(at, 60)[40] = 0x12;
    p.todo.checksum = Some(CsumPartial { start: 34, offset: 16 });
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(app(&mut h, 0), [0; 3]);
    assert_eq!(h.port.at(at, 60)[50..52], [0xed, 0xff]);
}

#[test]
fn what_the_core_cannot_send_is_dropped_and_given_back() {
    let (mut h, mut nic) = open();
    let large = Gso { kind: GsoKind::Tcp4, size: 1460, header: 54 };
    let mut bad: Vec<Packet> = (0..3).map(|_| packet(&mut h, &[7; 100])).collect();
    bad[0].todo.gso = Some(large);
    bad[1].head.len = 13;
    let piece = packet(&mut h, &[1; 10]).head;
    bad[2].more = Some(Box::new(NonLinear { frags: Vec::new(), list: alloc::vec![piece] }));
    bad.push(packet(&mut h, &alloc::vec![0; 1519]));
    bad.push(pieces(&mut h, 19));
    let mut empty = pieces(&mut h, 2);
    empty.more.as_mut().unwrap().frags[0].len = 0;
    bad.push(empty);
    for (i, p) in bad.into_iter().enumerate() {
        assert!(matches!(nic.transmit(&mut h, p, false), Tx::Dropped(_)), "{i}");
    }
    assert_eq!((nic.stats().tx_dropped, rings(&h, MM2S)), (6, 0));
}

#[test]
fn the_longest_frame_has_room_for_one_tag() {
    let (mut h, mut nic) = open();
    for (len, vlan, fits) in
        [(1518, None, true), (1519, None, false), (1514, Some(5), true), (1515, Some(5), false)]
    {
        let mut p = packet(&mut h, &alloc::vec![0; len]);
        p.todo.vlan = vlan;
        assert_eq!(nic.transmit(&mut h, p, false) == Tx::Ok, fits, "{len} {vlan:?}");
    }
}

#[test]
fn a_packet_that_cannot_be_mapped_comes_back_whole_and_leaves_the_ring_as_it_was() {
    let (mut h, mut nic) = open_with(|c| c.tx_ring = 18);
    for bad in [0, 1, 3] {
        let mut p = pieces(&mut h, 4);
        let at: Vec<u64> = p.pieces().map(|q| q.buf.addr()).collect();
        let spoil = |q: &mut Fragment| q.len = q.buf.len() + 1;
        match bad {
            0 => spoil(&mut p.head),
            n => spoil(&mut p.more.as_mut().unwrap().frags[n - 1]),
        }
        let Tx::Dropped(p) = nic.transmit(&mut h, p, false) else { panic!("dropped") };
        assert_eq!(p.pieces().map(|q| q.buf.addr()).collect::<Vec<_>>(), at, "in their order");
        assert!(nic.is_drained());
        assert_eq!([0, 1, 2, 3].map(|i| control(&mut h, i)), [0; 4]);
    }
    // The next one begins where they would have.
    let p = pieces(&mut h, 18);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!((tail(&h, MM2S), rings(&h, MM2S), nic.stats().tx_dropped), (Some(17), 1, 3));
}

#[test]
fn a_tag_is_put_into_the_bytes_and_the_checksum_moves_with_it() {
    let (mut h, mut nic) = open();
    let mut p = packet(&mut h, &[7; 100]);
    p.todo = OffloadRequest {
        checksum: Some(CsumPartial { start: 34, offset: 16 }),
        vlan: Some(0x6005),
        ..OffloadRequest::NONE
    };
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(control(&mut h, 0) & Descriptor::LENGTH, 104);
    assert_eq!(app(&mut h, 0), [1, 38 << 16 | 54, 0]);
    let at = u64::from(word(&mut h, MM2S, 0, Descriptor::BUFFER_AT));
    assert_eq!(h.port.at(at, 16)[12..], [0x81, 0, 0x60, 0x05]);
}

#[test]
fn a_packet_whose_tag_made_one_piece_of_it_counts_as_one() {
    let (mut h, mut nic) = open();
    // No room in front of the head.
    let mut p = pieces(&mut h, 4);
    p.todo.vlan = Some(5);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(control(&mut h, 0), 124 | Descriptor::SOF | Descriptor::EOF);
    assert_eq!((tail(&h, MM2S), nic.stats().tx_descriptors), (Some(0), 1));
}

#[test]
fn descriptors_are_taken_in_order_and_the_first_without_cmplt_ends_it() {
    let (mut h, mut nic) = open();
    let mut p = pieces(&mut h, 3);
    p.cookie = 5;
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    let mut up = Up::default();
    // A device that marks the end of the packet alone, or out of order, stalls it.
    sent(&mut h, 2);
    sent(&mut h, 1);
    let _ = nic.poll(&mut h, 64, &mut up);
    assert!(up.sent.is_empty() && !nic.is_drained());
    sent(&mut h, 0);
    let _ = nic.poll(&mut h, 64, &mut up);
    assert_eq!(
        up.sent.iter().map(|s| (s.1, s.2)).collect::<Vec<_>>(),
        [(5, false), (5, false), (5, true)]
    );
    assert_eq!(
        (nic.stats().tx_packets, nic.stats().tx_status_bytes, nic.stats().tx_bytes),
        (1, 100, 100)
    );
}

#[test]
fn a_free_descriptor_has_neither_control_nor_status() {
    let (mut h, mut nic) = open();
    let p = packet(&mut h, &[7; 100]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    sent(&mut h, 0);
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    // The device stops at one whose status says that it is done.
    assert_eq!((control(&mut h, 0), word(&mut h, MM2S, 0, Descriptor::STATUS_AT)), (0, 0));
}

#[test]
fn the_queue_stops_when_the_largest_packet_may_not_fit_and_a_poll_wakes_it() {
    let (mut h, mut nic) = open_with(|c| c.tx_ring = 32);
    let mut n = 0u32;
    while !Driver::<Host>::stopped(&nic) {
        let p = packet(&mut h, &[1; 100]);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        n += 1;
    }
    // 18 pieces, and the descriptor behind them is free as well.
    assert_eq!(n, 32 - 18);
    let p = packet(&mut h, &[1; 100]);
    assert!(matches!(nic.transmit(&mut h, p, false), Tx::Busy(_)));
    let mut up = Up::default();
    let _ = nic.poll(&mut h, 64, &mut up);
    assert!(Driver::<Host>::stopped(&nic), "nothing is done");
    sent(&mut h, 0);
    let _ = nic.poll(&mut h, 64, &mut up);
    assert!(!Driver::<Host>::stopped(&nic));
    let p = pieces(&mut h, 18);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert!(Driver::<Host>::stopped(&nic));
    assert_eq!((nic.stats().tx_stopped, nic.stats().tx_restart_queue), (2, 1));
}

#[test]
fn the_least_ring_takes_the_largest_packet_when_it_is_empty() {
    let (mut h, mut nic) = open_with(|c| c.tx_ring = 18);
    for _ in 0..3 {
        let p = pieces(&mut h, 18);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        assert!(Driver::<Host>::stopped(&nic));
        (0..17).for_each(|i| sent(&mut h, i));
        let _ = nic.poll(&mut h, 64, &mut Up::default());
        assert!(Driver::<Host>::stopped(&nic), "one is in use");
        sent(&mut h, 17);
        let _ = nic.poll(&mut h, 64, &mut Up::default());
        assert!(!Driver::<Host>::stopped(&nic) && nic.is_drained());
    }
}

#[test]
fn the_budget_counts_packets_and_not_descriptors() {
    let (mut h, mut nic) = open();
    for _ in 0..3 {
        let p = pieces(&mut h, 4);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    }
    (0..12).for_each(|i| sent(&mut h, i));
    let mut up = Up::default();
    assert_eq!(nic.poll(&mut h, 2, &mut up), Poll::Again);
    assert_eq!(up.sent.len(), 8);
    assert_eq!(nic.poll(&mut h, 2, &mut up), Poll::Idle);
    assert_eq!(up.sent.len(), 12);
}

proptest::proptest! {
    /// However many packets of however many pieces go round the ring, its descriptors
    /// name their bytes in order, and everything comes back once.
    #[test]
    fn descriptors_name_the_packets_bytes_once(
        packets in
            proptest::collection::vec(
                (proptest::collection::vec(1u32..80, 0..17), 14u32..100),
                1..40,
            ),
        tx_ring in 18u32..40,
    ) {
        let (mut h, mut nic) = open_with(|c| c.tx_ring = tx_ring);
        let (mut up, mut first, mut given, mut back) = (Up::default(), 0, 0, 0);
        for (n, (frags, head)) in packets.into_iter().enumerate() {
            let mut expected = Vec::new();
            let mut piece = |h: &mut Host, i: usize, len: u32| {
                let bytes: Vec<u8> =
                    (0..len).map(|k| (k as usize * 7 + i * 11 + n) as u8).collect();
                expected.extend_from_slice(&bytes);
                packet(h, &bytes).head
            };
            let head = piece(&mut h, 0, head);
            let frags: Vec<Fragment> =
                frags.iter().enumerate().map(|(i, len)| piece(&mut h, i + 1, *len)).collect();
            let count = 1 + frags.len() as u32;
            let more = (!frags.is_empty()).then(|| Box::new(NonLinear { frags, list: Vec::new() }));
            let p = Packet { head, todo: OffloadRequest::NONE, more, cookie: n as u32 };
            proptest::prop_assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
            let mut seen = Vec::new();
            let mut i = first;
            loop {
                let word = control(&mut h, i);
                proptest::prop_assert_eq!(word & Descriptor::SOF != 0, i == first);
                let at = self::word(&mut h, MM2S, i, Descriptor::BUFFER_AT);
                seen.extend_from_slice(h.port.at(at.into(), (word & Descriptor::LENGTH) as usize));
                sent(&mut h, i);
                if word & Descriptor::EOF != 0 {
                    break;
                }
                i = (i + 1) % tx_ring;
            }
            proptest::prop_assert_eq!(tail(&h, MM2S), Some(u64::from(i)));
            proptest::prop_assert_eq!(seen, expected);
            proptest::prop_assert_eq!((i + tx_ring - first) % tx_ring + 1, count);
            first = (i + 1) % tx_ring;
            given += count;
            let _ = nic.poll(&mut h, 64, &mut up);
            back += up.sent.len() as u32;
            up.sent.drain(..).for_each(|(b, ..)| h.release(b));
        }
        proptest::prop_assert_eq!(given, back);
        nic.close(&mut h);
    }
}

fn room(nic: &Axienet) -> i32 {
    Driver::<Host>::byte_room(nic)
}

#[test]
fn bytes_count_until_their_packet_is_done() {
    let (mut h, mut nic) = open();
    let p = pieces(&mut h, 2);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    let p = packet(&mut h, &[7; 100]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(room(&nic), -180, "80 in two pieces, and 100");
    sent(&mut h, 0);
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    assert_eq!(room(&nic), -180, "the first has another piece");
    sent(&mut h, 1);
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    assert_eq!(room(&nic), -100, "not dry: the limit stays");
    sent(&mut h, 2);
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    assert!(room(&nic) > 0);
}

#[test]
fn a_reset_forgets_the_bytes() {
    let (mut h, mut nic) = open();
    let p = packet(&mut h, &[7; 100]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    nic.restart(&mut h).unwrap();
    assert_eq!((room(&nic), nic.is_drained()), (0, true));
}

#[test]
fn without_a_byte_limit_there_is_always_room() {
    let (mut h, mut nic) = open_with(|c| c.bql = false);
    for _ in 0..3 {
        let p = packet(&mut h, &[7; 100]);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    }
    assert!(room(&nic) > 1 << 30);
}
