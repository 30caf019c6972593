//! Packets that are dropped, and resources that are refused.

use super::*;

#[test]
fn a_dropped_last_packet_flushes_with_a_nop() {
    let mut d = DriverHarness::without_mpwqe();
    let p = d.packet(60);
    d.send(p, true);
    d.host.fail_map_after = Some(0);
    let p = d.packet(60);
    let Tx::Dropped(p) = d.offer(p, false) else { panic!("it could not be mapped") };
    p.release(&mut d.host);
    assert_eq!(shapes(&mut d), [(SEND, 3, false), (NOP, 1, true)]);
    assert_eq!(hex(&d.doorbells()[0]), "00 00 01 00 00 01 33 01");
    d.complete(1, 0);
    d.poll();
    assert_eq!(d.returned.packets(), [0]);
    assert_eq!((d.stats().dropped, d.stats().nop), (1, 1));
    d.close();
}

#[test]
fn a_dropped_last_packet_announces_the_open_session() {
    let mut d = DriverHarness::default_channel();
    let p = d.packet(60);
    d.send(p, true);
    d.host.fail_map_after = Some(0);
    let p = d.packet(60);
    let Tx::Dropped(p) = d.offer(p, false) else { panic!("it could not be mapped") };
    p.release(&mut d.host);
    assert_eq!(shapes(&mut d), [(MPSW, 3, true)]);
}

#[test]
fn a_session_whose_first_packet_could_not_be_mapped_was_never_there() {
    for last in [true, false] {
        let mut d = DriverHarness::default_channel();
        d.host.fail_map_after = Some(0);
        let p = d.packet(60);
        let Tx::Dropped(p) = d.offer(p, !last) else { panic!("it could not be mapped") };
        p.release(&mut d.host);
        d.batch(2);
        assert_eq!(shapes(&mut d), [(MPSW, 4, true)]);
        assert_eq!((d.stats().mpwqe_blks, d.stats().mpwqe_pkts, d.stats().packets), (1, 2, 2));
    }
}

#[test]
fn a_packet_that_cannot_be_mapped_comes_back_as_it_was() {
    for min_inline in [0, 1] {
        for fail in 0..5 {
            let mut d = DriverHarness::new(Config::DEFAULT, Caps { min_inline, ..CAPS });
            let mut p = d.fragments(64, &[100, 200, 300, 400]);
            p.head.start = 4;
            p.head.len = 50;
            p.more.as_mut().unwrap().frags[2].start = 7;
            p.more.as_mut().unwrap().frags[2].len = 90;
            d.ipv4(&p, 17);
            p.todo.checksum = Some(UDP);
            let before = format!("{p:?}");
            d.host.fail_map_after = Some(fail);
            let Tx::Dropped(p) = d.offer(p, false) else { panic!("map {fail} failed") };
            assert_eq!(format!("{p:?}"), before, "map {fail}, inline mode {min_inline}");
            assert_eq!(d.host.mapped, []);
            assert_eq!((d.record(), d.stats().packets, d.stats().bytes), (0, 0, 0));
            // The next one is not disturbed.
            p.release(&mut d.host);
            d.batch(1);
            d.complete_all();
            assert_eq!(d.returned.packets().len(), 1);
            d.close();
        }
    }
}

#[test]
fn a_head_that_was_inlined_whole_comes_back_as_it_was_when_a_fragment_cannot_be_mapped() {
    let mut d = DriverHarness::default_channel();
    let mut p = d.fragments(80, &[500, 600]);
    p.head.start = 10;
    p.head.len = 54;
    d.ipv4(&p, 6);
    p.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: 100, header: 54 });
    let before = format!("{p:?}");
    d.host.fail_map_after = Some(1);
    let Tx::Dropped(p) = d.offer(p, false) else { panic!("the second fragment failed") };
    assert_eq!(format!("{p:?}"), before);
    p.release(&mut d.host);
    d.close();
}

#[test]
fn what_no_wqe_can_hold_is_dropped() {
    let mut d = DriverHarness::default_channel();
    let mut impossible = vec![d.fragments(14, &[10; 18]), d.packet(0), d.fragments(30, &[10, 0])];
    let mut listed = d.fragments(20, &[20]);
    let more = listed.more.as_mut().unwrap();
    more.list.push(more.frags.pop().unwrap());
    impossible.push(listed);
    let mut headless = d.fragments(40, &[1000]);
    headless.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: 100, header: 54 });
    impossible.push(headless);
    let mut sizeless = d.packet(1000);
    sizeless.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: 0, header: 54 });
    impossible.push(sizeless);
    let mut bodiless = d.packet(54);
    bodiless.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: 100, header: 54 });
    impossible.push(bodiless);
    let mut long = d.packet(4000);
    long.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: 100, header: 1200 });
    impossible.push(long);
    let mut runt = d.packet(13);
    runt.todo.vlan = Some(1);
    impossible.push(runt);
    let count = impossible.len() as u64;
    for p in impossible {
        let before = format!("{p:?}");
        let Tx::Dropped(p) = d.offer(p, false) else { panic!("taken: {before}") };
        assert_eq!(format!("{p:?}"), before);
        p.release(&mut d.host);
    }
    assert_eq!(d.stats().dropped, count);
    assert_eq!(d.announced(), []);
    d.close();
}

#[test]
fn seventeen_fragments_fit() {
    let mut d = DriverHarness::default_channel();
    let mut p = d.fragments(54 + 10, &[100; 17]);
    d.ipv4(&p, 6);
    p.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: 100, header: 54 });
    d.send(p, false);
    assert_eq!(shapes(&mut d), [(LSO, 2 + 4 + 1 + 17, true)]);
    d.complete(0, 0);
    d.poll();
    assert_eq!(d.returned.0.len(), 18);
    d.close();
}

#[test]
fn a_channel_without_memory_leaves_none_behind() {
    // A ring and a record for each of five CQs and the SQ, and the EQ's ring.
    for n in 0..13 {
        let (why, host) =
            DriverHarness::with_failures(Config::DEFAULT, CAPS, Some(n), None).unwrap_err();
        assert_eq!((why, host.coherent), (OpenError::OutOfMemory, 0), "area {n}");
    }
    assert!(DriverHarness::with_failures(Config::DEFAULT, CAPS, Some(13), None).is_ok());
}

#[test]
fn what_the_firmware_refuses_is_said_and_leaves_nothing() {
    for n in 0..10 {
        let (why, host) =
            DriverHarness::with_failures(Config::DEFAULT, CAPS, None, Some(n)).unwrap_err();
        let refused = OpenError::Firmware(CmdStatus::NoResources);
        assert_eq!((why, host.coherent), (refused, 0), "command {n}");
    }
}
