//! Room of the send queue: padding, wrap, doorbells, stop and wake.

use super::*;

#[test]
fn linux_5_10_pads_ten_nops_after_six_sessions_of_nine_blocks() {
    let mut d = DriverHarness::default_channel();
    for _ in 0..7 {
        d.batch(32);
    }
    let wqes = d.announced();
    let six = vec![(MPSW, 34, true); 6];
    let got: Vec<_> = wqes.iter().map(|w| (w.opcode, w.ds, w.asks)).collect();
    assert_eq!(got[..6], six);
    assert_eq!(got[6..16], vec![(NOP, 1, false); 10]);
    assert_eq!(got[16..], [(MPSW, 34, true)]);
    assert_eq!(wqes[16].pc, 64, "the seventh begins in the next fragment");
    assert_eq!(d.stats().nop, 10);
    assert!(d.host.spent.contains(&CpuWork::TxPad(10)));
    let nop = &wqes[6];
    assert_eq!(hex(&nop.bytes), "00 00 36 00 00 01 33 01 00 00 00 00 00 00 00 00");
}

#[test]
fn a_fitted_session_takes_what_is_left_of_the_fragment_and_pads_nothing() {
    let mut d = DriverHarness::new(Config { sizing: Sizing::Fit, ..Config::DEFAULT }, CAPS);
    for _ in 0..6 {
        d.batch(32);
    }
    // Ten blocks are left: 40 DS, 38 packets; then the next fragment.
    d.announced();
    d.batch(58);
    let wqes = d.announced();
    let got: Vec<_> = wqes.iter().map(|w| (w.pc, w.opcode, w.ds, w.asks)).collect();
    assert_eq!(got, [(54, MPSW, 40, false), (64, MPSW, 22, true)]);
    assert_eq!(d.stats().nop, 0);
}

#[test]
fn a_send_of_one_block_never_needs_padding() {
    let mut d = DriverHarness::without_mpwqe();
    d.batch(300);
    assert_eq!(d.stats().nop, 0);
    assert_eq!(d.announced().len(), 300);
}

#[test]
fn a_send_of_several_blocks_begins_in_the_next_fragment() {
    let mut d = DriverHarness::without_mpwqe();
    d.batch(63);
    d.announced();
    let p = d.fragments(20, &[20, 20]);
    d.send(p, false);
    let got: Vec<_> = d.announced().iter().map(|w| (w.pc, w.opcode, w.ds)).collect();
    assert_eq!(got, [(63, NOP, 1), (64, SEND, 5)]);
}

#[test]
fn the_ring_wraps_and_the_16_bit_counter_too() {
    for mpwqe in [false, true] {
        let mut d = DriverHarness::new(Config { mpwqe, log_sq: 6, ..Config::DEFAULT }, CAPS);
        let (mut blocks, mut n) = (0u32, 0);
        while blocks < 3 << 16 {
            n += 1;
            let p = if n % 3 == 0 { d.fragments(14, &[14, 14]) } else { d.packet(60) };
            d.send(p, false);
            for wqe in d.announced() {
                assert_eq!(wqe.pc, blocks as u16);
                let end = u32::from(wqe.pc % 64) + u32::from(wqe.blocks());
                assert!(end <= 64, "a WQE crosses the end of the ring");
                blocks += u32::from(wqe.blocks());
                if wqe.asks {
                    d.complete(wqe.pc, 0);
                }
            }
            assert_eq!(d.record() as u16, blocks as u16);
            d.poll();
        }
        let s = d.stats();
        assert_eq!((s.cqe_stray, s.dropped), (0, 0));
        assert_eq!(d.returned.packets().len() as u64, s.packets);
        d.close();
    }
}

#[test]
fn a_batch_has_one_doorbell_and_only_its_last_wqe_asks_for_a_cqe() {
    let mut d = DriverHarness::without_mpwqe();
    d.batch(32);
    let wqes = d.announced();
    assert_eq!(wqes.len(), 32);
    assert!(wqes[..31].iter().all(|w| !w.asks));
    let last = &wqes[31];
    assert!(last.asks);
    assert_eq!(d.record(), 32, "the record is the counter after the last block");
    let rung = d.doorbells();
    assert_eq!(
        rung,
        [<[u8; 8]>::try_from(&last.bytes[..8]).unwrap()],
        "the first 8 bytes of the last WQE"
    );
    assert_eq!(hex(&rung[0]), "00 00 1f 0a 00 01 33 03");
}

#[test]
fn the_doorbell_record_counts_on_past_the_ring() {
    let mut d = DriverHarness::without_mpwqe();
    for i in 1..=100u32 {
        d.batch(32);
        assert_eq!(d.record(), 32 * i);
        d.complete_all();
    }
}

/// Sends packets one by one, each with `more`, until the queue stops; how many.
pub(super) fn fill(d: &mut DriverHarness, more: bool) -> u32 {
    for n in 0.. {
        if d.stopped() {
            return n;
        }
        let p = d.packet(60);
        d.send(p, more);
    }
    unreachable!()
}

#[test]
fn the_queue_stops_with_less_than_31_blocks_left() {
    let mut d = DriverHarness::without_mpwqe();
    assert_eq!(fill(&mut d, false), 1024 - 30);
    assert_eq!(d.stats().stopped, 1);
    let p = d.packet(60);
    assert!(matches!(d.offer(p, false), Tx::Busy(_)));
}

#[test]
fn with_sessions_it_stops_with_less_than_60_left() {
    let mut d = DriverHarness::default_channel();
    fill(&mut d, false);
    let left = 1024 - d.record();
    assert!(
        (46..60).contains(&left),
        "{left} blocks left: a session or its padding before it were the last"
    );
}

#[test]
fn a_stop_in_the_middle_of_a_batch_rings() {
    for mut d in [DriverHarness::without_mpwqe(), DriverHarness::default_channel()] {
        fill(&mut d, true);
        let wqes = d.announced();
        assert!(wqes.last().unwrap().asks);
        assert_eq!(d.doorbells().len(), 1);
        let packets: u32 = wqes.iter().map(|w| if w.opcode == NOP { 0 } else { w.ds - 2 }).sum();
        assert_eq!(u64::from(packets), d.stats().packets, "everything queued was announced");
    }
}

#[test]
fn a_stop_at_a_differing_eth_segment_rings() {
    // Every packet closes the session before it: the stop comes at the close, and
    // the packet that caused it is in a session of its own.
    let mut d = DriverHarness::default_channel();
    let mut n = 0;
    while !d.stopped() {
        let p = if n % 2 == 0 { d.udp(60) } else { d.packet(60) };
        d.send(p, true);
        n += 1;
    }
    let wqes = d.announced();
    let packets: u32 = wqes.iter().filter(|w| w.opcode == MPSW).map(|w| w.ds - 2).sum();
    assert_eq!(packets, n, "nobody rings for what was left unannounced");
    assert!(wqes.last().unwrap().asks);
}

#[test]
fn a_stop_at_a_dropped_packet_rings() {
    let mut d = DriverHarness::default_channel();
    let mut n = 0;
    while !d.stopped() {
        let p = d.packet(60);
        d.send(p, true);
        n += 1;
        // Ineligible, so that the session closes; and impossible, so that it is dropped.
        let p = d.fragments(30, &[30, 0]);
        match d.offer(p, true) {
            Tx::Dropped(p) => p.release(&mut d.host),
            other => panic!("{other:?}"),
        }
    }
    let wqes = d.announced();
    let packets: u32 = wqes.iter().filter(|w| w.opcode == MPSW).map(|w| w.ds - 2).sum();
    assert_eq!(packets, n);
    assert!(wqes.last().unwrap().asks);
}

#[test]
fn the_queue_wakes_when_the_room_is_back_and_not_before() {
    let mut d = DriverHarness::without_mpwqe();
    fill(&mut d, false);
    assert_eq!(d.poll(), Poll::Idle);
    assert!(d.stopped());
    // 30 blocks are left; one more makes it 31.
    d.complete(0, 0);
    d.poll();
    assert!(!d.stopped());
    assert_eq!(d.stats().wake, 1);
    assert!(d.host.spent.contains(&CpuWork::Wake));
    d.batch(1);
    assert!(d.stopped());
    assert_eq!(d.stats().stopped, 2);
}

#[test]
fn the_smallest_ring_still_moves() {
    for sizing in [Sizing::Padded, Sizing::Fit] {
        let mut d = DriverHarness::new(Config { log_sq: 6, sizing, ..Config::DEFAULT }, CAPS);
        let mut sent = 0;
        for _ in 0..200 {
            while !d.stopped() && sent < 20_000 {
                let p = d.packet(60);
                d.send(p, sent % 40 != 39);
                sent += 1;
            }
            d.complete_all();
        }
        // The last batch may still be open.
        d.batch(1);
        d.complete_all();
        assert_eq!(d.returned.packets().len(), sent + 1);
        d.close();
    }
}
