//! Counts, lengths and rooms that stand exactly on a limit.

use super::*;

/// A linear packet of these bytes.
fn frame(d: &mut DriverHarness, bytes: &[u8]) -> Packet {
    let p = d.packet(bytes.len() as u32);
    d.host.bytes_mut(&p.head.buf, 0..p.head.len, |b| b.copy_from_slice(bytes));
    p
}

fn is_dropped(d: &mut DriverHarness, p: Packet) -> bool {
    match d.offer(p, false) {
        Tx::Ok => false,
        Tx::Dropped(p) => {
            p.release(&mut d.host);
            true
        }
        Tx::Busy(_) => panic!("there is room"),
    }
}

/// The units of each `TxDone` since the last call.
fn done(d: &mut DriverHarness) -> Vec<u32> {
    let spent = d.host.spent.drain(..);
    spent.filter_map(|w| if let CpuWork::TxDone(n) = w { Some(n) } else { None }).collect()
}

// ---- limits ----

#[test]
fn a_queue_stops_when_padding_and_the_longest_wqe_do_not_fit() {
    // 16 blocks, and 15 of padding; with sessions, 15 and 14 more.
    for (mpwqe, room) in [(false, 64 - 31), (true, 64 - 31 - 29)] {
        let mut d = DriverHarness::new(Config { mpwqe, log_sq: 6, ..Config::DEFAULT }, CAPS);
        let mut blocks = 0;
        while !d.stopped() {
            d.batch(1);
            blocks += 1;
        }
        assert_eq!(blocks, room + 1, "sessions: {mpwqe}");
        d.complete_all();
        assert!(!d.stopped());
        d.close();
    }
}

#[test]
fn short_wqes_get_linear_packets_and_segments() {
    // 16 data segments: two heads, the head, and 13 fragments.
    for (bytes, fragments, whole) in [(256, 13, true), (256, 14, false), (1024, 17, true)] {
        let caps = Caps { max_wqe_sz_sq: bytes, ..CAPS };
        let mut d = DriverHarness::new(Config { mpwqe: false, ..Config::DEFAULT }, caps);
        let p = d.fragments(100, &vec![50; fragments]);
        d.send(p, false);
        let wqe = d.announced().pop().unwrap();
        let expected = if whole { 3 + fragments as u32 } else { 3 };
        assert_eq!((wqe.opcode, wqe.ds), (opcode::SEND, expected), "{bytes} {fragments}");
        d.complete(wqe.pc, 0);
        d.poll();
        d.close();
    }
    // A large send has four data segments of headers, which leaves nine for fragments.
    for (fragments, whole) in [(9, true), (10, false)] {
        let caps = Caps { max_wqe_sz_sq: 256, ..CAPS };
        let mut d = DriverHarness::new(Config::DEFAULT, caps);
        let mut p = d.fragments(154, &vec![100; fragments]);
        d.ipv4(&p, 6);
        p.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: 200, header: 54 });
        d.send(p, false);
        let wqes = d.announced();
        assert_eq!(wqes[0].opcode == opcode::LSO, whole, "{fragments} fragments");
        let segments = (100 + 100 * fragments as u64).div_ceil(200);
        assert_eq!(d.stats().packets, segments);
        assert_eq!(d.stats().tso_software, u64::from(!whole));
        wqes.iter().filter(|w| w.asks).for_each(|w| d.complete(w.pc, 0));
        while d.poll() == Poll::Again {}
        assert_eq!(d.returned.packets().len(), 1);
        d.close();
    }
}

#[test]
fn a_wqe_that_ends_with_the_page_needs_no_padding() {
    // Four blocks: two heads, the head and thirteen fragments.
    for (before, nops) in [(60, 0), (61, 3)] {
        let mut d = DriverHarness::without_mpwqe();
        d.batch(before);
        let p = d.fragments(60, &[60; 13]);
        d.send(p, false);
        let wqes = d.announced();
        let padding = wqes.iter().filter(|w| w.opcode == opcode::NOP).count();
        let last = wqes.last().unwrap();
        assert_eq!((padding, d.stats().nop), (nops, nops as u64));
        assert_eq!((last.pc, last.blocks()), (before as u16 + nops as u16, 4));
        d.close();
    }
}

#[test]
fn a_header_is_needed_where_it_is_inlined_or_gets_a_tag() {
    for (min_inline, vlan, dropped) in
        [(0, None, false), (0, Some(5), true), (1, None, true), (1, Some(5), true)]
    {
        let mut d = DriverHarness::new(Config::DEFAULT, Caps { min_inline, ..CAPS });
        let mut p = d.fragments(13, &[60]);
        p.todo.vlan = vlan;
        assert_eq!(is_dropped(&mut d, p), dropped, "mode {min_inline}, {vlan:?}");
        let mut p = d.fragments(14, &[60]);
        p.todo.vlan = vlan;
        assert!(!is_dropped(&mut d, p));
        d.close();
    }
}

/// Ethernet with `tags` tags, IPv4, and the protocol's header, cut at `len`.
fn headers(tags: usize, protocol: u8, len: usize) -> Vec<u8> {
    let mut f = vec![2; 12];
    (0..tags).for_each(|_| f.extend([0x81, 0, 0, 5]));
    f.extend([8, 0, 0x45, 0, 0, 100, 0, 0, 0, 0, 64, protocol]);
    f.extend([0; 10]);
    // A TCP header of 24 bytes.
    f.extend([0; 12]);
    f.push(0x60);
    f.resize(len.max(f.len()), 0);
    f.truncate(len);
    f
}

#[test]
fn the_inlined_header_ends_where_the_mode_says() {
    for (mode, bytes, inlined) in [
        (1, headers(0, 6, 100), 18),
        (1, headers(1, 6, 100), 18),
        (1, headers(2, 6, 100), 22),
        // A tag, and nothing behind its type.
        (1, headers(1, 6, 16), 16),
        (2, headers(0, 6, 100), 34),
        (2, headers(1, 6, 38), 38),
        (2, headers(1, 6, 37), 18),
        (2, headers(0, 6, 34), 34),
        (2, headers(0, 6, 33), 18),
        (3, headers(0, 6, 100), 58),
        (3, headers(0, 6, 47), 47),
        (3, headers(0, 6, 46), 34),
        (3, headers(0, 6, 40), 34),
        (3, headers(0, 17, 100), 42),
        (3, headers(0, 17, 40), 40),
        (3, headers(0, 1, 100), 34),
    ] {
        let mut d = DriverHarness::new(Config::DEFAULT, Caps { min_inline: mode, ..CAPS });
        let p = frame(&mut d, &bytes);
        d.send(p, false);
        let wqe = d.announced().pop().unwrap();
        let size = u16::from_be_bytes([wqe.segment(1)[12], wqe.segment(1)[13]]);
        assert_eq!(size, inlined, "mode {mode}, {} bytes", bytes.len());
        assert_eq!(wqe.segment(1)[14..], bytes[..2]);
        d.complete(wqe.pc, 0);
        assert_eq!(d.poll(), Poll::Idle);
        assert_eq!(done(&mut d), [1], "also if all of it is inlined");
        d.close();
    }
}

#[test]
fn a_tag_in_an_inlined_header_stays_within_its_wqe() {
    // Every place in the ring, its last block too, on which a store beyond would fail.
    let config = Config { log_sq: 6, mpwqe: false, ..Config::DEFAULT };
    let mut d = DriverHarness::new(config, Caps { min_inline: 3, ..CAPS });
    let bytes = headers(0, 6, 100);
    for _ in 0..70 {
        let mut p = frame(&mut d, &bytes);
        p.todo.vlan = Some(5);
        d.send(p, false);
        let wqe = d.announced().pop().unwrap();
        // 58 bytes and the tag: 60 behind the first two.
        assert_eq!((wqe.segment(1)[12..14].to_vec(), wqe.ds), (vec![0, 62], 2 + 4 + 1));
        d.complete(wqe.pc, 0);
        assert_eq!(d.poll(), Poll::Idle);
    }
    assert_eq!(d.stats().nop, 0, "two blocks fit to the end");
    d.close();
}

// ---- counters ----

#[test]
fn calls_with_more_to_come_are_counted_in_every_path() {
    // Room for four blocks. A session of 18 packets has five; the next one has another key.
    let mut d = DriverHarness::new(Config { log_sq: 6, ..Config::DEFAULT }, CAPS);
    for _ in 0..18 {
        let p = d.packet(60);
        d.send(p, true);
    }
    let p = d.udp(60);
    d.send(p, true);
    assert!(d.stopped());
    let s = d.stats();
    assert_eq!((s.xmit_more, s.packets, s.mpwqe_pkts, s.csum_partial), (19, 19, 19, 1));
    assert_eq!((s.doorbells, s.stopped, s.mpwqe_blks), (1, 1, 2), "the stop rings");
    d.complete_all();
    d.close();
    // Packets with a WQE of their own, and ones that cannot be mapped.
    for mpwqe in [true, false] {
        let mut d = DriverHarness::new(Config { mpwqe, ..Config::DEFAULT }, CAPS);
        for more in [true, true, false] {
            let mut p = d.fragments(60, &[60]);
            d.ipv4(&p, 17);
            p.todo.checksum = Some(UDP);
            d.send(p, more);
        }
        assert_eq!((d.stats().xmit_more, d.stats().csum_partial), (2, 3));
        for more in [true, true, false] {
            let p = d.udp(60);
            d.host.fail_map_after = Some(0);
            let Tx::Dropped(p) = d.offer(p, more) else { panic!("it cannot be mapped") };
            p.release(&mut d.host);
        }
        let s = d.stats();
        assert_eq!((s.xmit_more, s.csum_partial, s.packets, s.dropped), (4, 6, 3, 3));
        d.complete_all();
        d.close();
    }
}

#[test]
fn a_poll_charges_and_announces_the_packets_that_it_retired() {
    let mut d = DriverHarness::without_mpwqe();
    d.batch(3);
    d.batch(2);
    let asks: Vec<u16> = d.announced().iter().filter(|w| w.asks).map(|w| w.pc).collect();
    assert_eq!((asks.len(), d.channel.last_announced()), (2, 4));
    asks.iter().for_each(|pc| d.complete(*pc, 0));
    d.host.spent.clear();
    for _ in 0..3 {
        assert_eq!(d.poll(), Poll::Idle);
    }
    assert_eq!(done(&mut d), [5], "once, for all");
    let s = d.stats();
    assert_eq!((s.cqes, s.packets, s.cqe_stray), (2, 5, 0));
    let at = d.cqs()[0].dbr + u64::from(dbr::CQ_CI);
    assert_eq!(d.host.host.port.at(at, 4), [0, 0, 0, 2], "the consumer index, for the device");
    d.close();
}

#[test]
fn an_entry_without_an_opcode_is_no_completion() {
    let mut d = DriverHarness::default_channel();
    d.batch(1);
    let ring = d.cqs()[0].ring;
    d.host.host.port.at(ring + 63, 1)[0] = cqe_opcode::INVALID << 4;
    assert_eq!((d.poll(), d.stats().cqes), (Poll::Idle, 0));
    let pc = d.announced()[0].pc;
    d.complete(pc, 0);
    assert_eq!((d.poll(), d.stats().cqes), (Poll::Idle, 1));
    d.close();
}

/// The driver looks at the syndrome of the entry that it took, not of another.
#[test]
fn an_error_is_read_where_it_stands() {
    let mut d = DriverHarness::without_mpwqe();
    (0..3).for_each(|_| d.batch(1));
    let pcs: Vec<u16> = d.announced().iter().map(|w| w.pc).collect();
    for (pc, syndrome) in pcs.into_iter().zip([0, 0, 4]) {
        d.complete(pc, syndrome);
    }
    d.set_state(SqState::Error);
    assert_eq!(d.poll(), Poll::Work);
    let s = d.stats();
    assert_eq!((s.cqes, s.cqe_err, s.recover), (3, 1, 0));
    d.work();
    assert_eq!((d.stats().recover, d.states().last()), (1, Some(&SqState::Ready)));
    d.close();
}

#[test]
fn stray_entries_of_empty_queues_are_counted_as_entries() {
    let mut d = DriverHarness::default_channel();
    d.stray(1);
    d.stray(3);
    assert_eq!(d.poll(), Poll::Idle);
    let s = d.stats();
    assert_eq!((s.cqes, s.cqe_stray), (2, 2));
    for (n, ci) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
        let at = d.cqs()[n].dbr + u64::from(dbr::CQ_CI);
        assert_eq!(d.host.host.port.at(at, 4), [0, 0, 0, ci], "CQ {n}");
    }
    d.close();
}

/// The two bits of the event count in each arm request are those of the queue's own events.
#[test]
fn each_event_is_counted_at_its_queue() {
    let mut d = DriverHarness::default_channel();
    assert_eq!(d.eq().events, 1 << event::CQ_ERROR | 1 << event::WQ_CATAS);
    for cqn in [2, 0, 2] {
        d.event(FakeFirmware::CQN + cqn);
    }
    assert_eq!(d.interrupt(), Irq::Poll);
    assert_eq!(d.interrupt(), Irq::None);
    d.arms();
    assert_eq!(d.poll(), Poll::Idle);
    let arms = d.arms();
    let counts: Vec<u8> = arms.iter().filter(|a| a.0 == uar::CQ_ARM).map(|a| a.1[0] >> 4).collect();
    assert_eq!(counts[..3], [1, 0, 2]);
    let s = d.stats();
    assert_eq!((s.interrupts, s.eqes), (1, 3));
    d.close();
}

// ---- recovery ----

#[test]
fn a_hang_with_an_event_is_a_lost_interrupt() {
    let mut d = DriverHarness::default_channel();
    d.batch(2);
    let pc = d.announced()[0].pc;
    for n in 1..=2 {
        d.event(FakeFirmware::CQN);
        assert_eq!(d.channel.alarm(&mut d.host, Alarm::TxTimeout), Irq::Poll);
        assert_eq!((d.stats().eq_rearm, d.stats().timeouts), (n, 0));
    }
    d.complete(pc, 0);
    assert_eq!(d.poll(), Poll::Idle);
    d.close();
}

#[test]
fn a_hang_without_an_event_creates_the_queues_again() {
    let mut d = DriverHarness::without_mpwqe();
    d.batch(5);
    let p = d.packet(60);
    d.send(p, true);
    for _ in 0..2 {
        assert_eq!(d.channel.alarm(&mut d.host, Alarm::TxTimeout), Irq::Poll);
        assert_eq!((d.stats().eq_rearm, d.stats().timeouts), (0, 1), "once, until it is over");
    }
    assert_eq!((d.poll(), d.stats().recover), (Poll::Work, 0));
    assert_eq!((d.returned.packets().len(), d.stats().dropped), (6, 6));
    d.work();
    assert_eq!((d.stats().recover, d.stopped(), d.record()), (1, false, 0));
    // It counts from zero.
    d.restarted();
    d.batch(2);
    let pcs: Vec<u16> = d.announced().iter().map(|w| w.pc).collect();
    assert_eq!((pcs, d.channel.last_announced(), d.record()), (vec![0, 1], 1, 2));
    d.close();
}

/// The firmware fails the test where an object is created again, or one that is not there is
/// destroyed.
#[test]
fn a_refused_reopening_leaves_no_objects() {
    for command in 0..10 {
        let hung = || {
            let mut d = DriverHarness::without_mpwqe();
            d.batch(5);
            assert_eq!(d.channel.alarm(&mut d.host, Alarm::TxTimeout), Irq::Poll);
            assert_eq!(d.poll(), Poll::Work);
            d.refuse_after(command);
            d.work();
            assert_eq!((d.stats().recover, d.stopped()), (0, true), "command {command}");
            d
        };
        hung().close();
        let mut d = hung();
        d.work();
        assert_eq!((d.stats().recover, d.stopped()), (1, false), "command {command}");
        d.close();
    }
}

/// A tick between a poll that used its budget up and the next one finds packets that were never
/// announced.
#[test]
fn a_queue_with_packets_left_is_not_restarted() {
    let mut d = DriverHarness::without_mpwqe();
    d.batch(1);
    let pc = d.announced()[0].pc;
    let p = d.packet(60);
    d.send(p, true);
    d.complete(pc, 4);
    d.set_state(SqState::Error);
    assert_eq!(d.channel.poll(&mut d.host, 1, &mut d.returned), Poll::Again);
    assert_eq!(d.channel.alarm(&mut d.host, Alarm::Tick), Irq::None);
    assert_eq!((d.stats().recover, d.states().last()), (0, Some(&SqState::Error)));
    assert_eq!(d.poll(), Poll::Work);
    d.work();
    assert_eq!((d.stats().recover, d.stats().dropped), (1, 1));
    d.close();
}
