//! Multi-packet WQEs: when a session opens and closes.

use super::*;

#[test]
fn a_one_packet_session_is_legal_and_has_three_ds() {
    let mut d = DriverHarness::default_channel();
    d.batch(1);
    assert_eq!(shapes(&mut d), [(MPSW, 3, true)]);
    assert_eq!((d.stats().mpwqe_blks, d.stats().mpwqe_pkts, d.stats().nop), (1, 1, 0));
}

#[test]
fn a_session_closes_when_the_batch_ends() {
    let mut d = DriverHarness::default_channel();
    d.batch(32);
    d.batch(5);
    assert_eq!(shapes(&mut d), [(MPSW, 34, true), (MPSW, 7, true)]);
    assert_eq!(d.doorbells().len(), 2);
    assert_eq!(d.stats().xmit_more, 31 + 4);
}

#[test]
fn a_session_closes_when_it_is_full_at_58_packets_and_15_blocks() {
    let mut d = DriverHarness::default_channel();
    d.batch(128);
    // At block 30 the third one begins; it takes 4 blocks (14 DS).
    assert_eq!(shapes(&mut d), [(MPSW, 60, false), (MPSW, 60, false), (MPSW, 14, true)]);
    assert_eq!(d.doorbells().len(), 1, "one doorbell for the batch");
    assert_eq!((d.stats().mpwqe_blks, d.stats().mpwqe_pkts), (3, 128));
}

#[test]
fn a_session_that_is_full_at_the_batchs_end_is_announced_once() {
    let mut d = DriverHarness::default_channel();
    d.batch(58);
    assert_eq!(shapes(&mut d), [(MPSW, 60, true)]);
    assert_eq!(d.doorbells().len(), 1);
}

/// Also while a session is open, and while nothing is announced.
#[test]
fn the_statistics_are_exact_after_every_packet() {
    for mut d in [DriverHarness::default_channel(), DriverHarness::without_mpwqe()] {
        let (mut packets, mut more_calls, mut checksums) = (0, 0, 0);
        for i in 0..200u64 {
            let (partial, more) = (i / 3 % 4 == 1, i % 7 != 6);
            let p = if partial { d.udp(60) } else { d.packet(60) };
            d.send(p, more);
            packets += 1;
            more_calls += u64::from(more);
            checksums += u64::from(partial);
            let s = d.stats();
            assert_eq!(
                (s.packets, s.bytes, s.xmit_more, s.csum_partial),
                (packets, packets * 60, more_calls, checksums)
            );
            let own = s.wqes - s.nop;
            if s.mpwqe_blks == 0 {
                assert_eq!((own, s.mpwqe_pkts), (packets, 0));
            } else {
                assert_eq!(s.mpwqe_pkts, packets);
                assert_eq!(
                    s.mpwqe_blks - own,
                    u64::from(more),
                    "one is open unless the batch has ended"
                );
            }
        }
    }
}

#[test]
fn a_session_closes_when_the_eth_segment_differs() {
    let mut d = DriverHarness::default_channel();
    for (i, partial) in [false, false, true, true, true, false].into_iter().enumerate() {
        let p = if partial { d.udp(60) } else { d.packet(60) };
        d.send(p, i < 5);
    }
    let wqes = d.announced();
    let got: Vec<_> = wqes.iter().map(|w| (w.opcode, w.ds, w.asks, w.segment(1)[4])).collect();
    assert_eq!(got, [(MPSW, 4, false, 0), (MPSW, 5, false, 0xc0), (MPSW, 3, true, 0)]);
    assert_eq!(d.doorbells().len(), 1);
    assert_eq!(d.stats().csum_partial, 3);
}

#[test]
fn a_tunnels_checksum_differs_from_a_plain_ones() {
    let mut d = DriverHarness::default_channel();
    for (i, encapsulated) in [false, true].into_iter().enumerate() {
        let mut p = d.udp(120);
        if encapsulated {
            // IPv4 in IPv4.
            let inner = [0x45, 0, 0, 86, 0, 0, 0, 0, 64, 17];
            d.host.bytes_mut(&p.head.buf, 34..44, |b| b.copy_from_slice(&inner));
            d.host.bytes_mut(&p.head.buf, 23..24, |b| b[0] = 4);
            p.todo.encapsulated = true;
            p.todo.checksum = Some(CsumPartial { start: 54, offset: 6 });
        }
        d.send(p, i < 1);
    }
    let flags: Vec<u8> = d.announced().iter().map(|w| w.segment(1)[4]).collect();
    assert_eq!(flags, [0xc0, 0x70], "L3, L4; L3, L3_INNER, L4_INNER");
}

/// Opens a session with two packets, then sends `p` with more to come, then ends
/// the batch with a plain packet.
fn around(
    config: Config,
    caps: Caps,
    p: impl FnOnce(&mut DriverHarness) -> doorbell_packet::Packet,
) -> Vec<(u8, u32, bool)> {
    let mut d = DriverHarness::new(config, caps);
    for _ in 0..2 {
        let p = d.packet(60);
        d.send(p, true);
    }
    let p = p(&mut d);
    d.send(p, true);
    d.batch(1);
    assert_eq!(d.doorbells().len(), 1);
    shapes(&mut d)
}

#[test]
fn a_session_closes_before_a_large_send_fragments_or_a_tag() {
    let large = |d: &mut DriverHarness| d.large(54 + 2000, 1000);
    let tagged = |d: &mut DriverHarness| {
        let mut p = d.packet(60);
        p.todo.vlan = Some(1);
        p
    };
    let one = (MPSW, 3, true);
    assert_eq!(around(Config::DEFAULT, CAPS, large), [(MPSW, 4, false), (LSO, 7, false), one]);
    assert_eq!(around(Config::DEFAULT, CAPS, tagged), [(MPSW, 4, false), (SEND, 3, false), one]);
    let fragments = |d: &mut DriverHarness| d.fragments(30, &[30]);
    assert_eq!(around(Config::DEFAULT, CAPS, fragments), [(MPSW, 4, false), (SEND, 4, false), one]);
}

#[test]
fn no_session_opens_where_headers_must_be_inlined() {
    for mode in 1..=3 {
        let mut d = DriverHarness::new(Config::DEFAULT, Caps { min_inline: mode, ..CAPS });
        d.batch(3);
        assert_eq!(
            shapes(&mut d),
            [(SEND, 4, false), (SEND, 4, false), (SEND, 4, true)],
            "mode {mode}"
        );
        assert_eq!(d.stats().mpwqe_blks, 0);
    }
}

#[test]
fn no_session_opens_without_the_capability() {
    let mut d = DriverHarness::new(Config::DEFAULT, Caps { enhanced_mpw: false, ..CAPS });
    d.batch(3);
    assert_eq!(shapes(&mut d), [(SEND, 3, false), (SEND, 3, false), (SEND, 3, true)]);
    assert_eq!(d.stats().mpwqe_blks, 0);
}

#[test]
fn a_device_without_what_the_driver_needs_is_refused() {
    let refused = |caps: Caps, what: &'static str| {
        let e = DriverHarness::with_failures(Config::DEFAULT, caps, None, None).unwrap_err();
        assert_eq!(e.0, OpenError::Capability(what));
    };
    refused(Caps { csum: false, ..CAPS }, "csum_cap");
    refused(Caps { vlan: false, ..CAPS }, "vlan_cap");
    refused(Caps { log_max_lso: 0, ..CAPS }, "max_lso_cap");
    refused(Caps { max_wqe_sz_sq: 255, ..CAPS }, "max_wqe_sz_sq");
    for (log_sq, log_cq) in [(5, 10), (14, 10), (10, 0), (10, 17)] {
        let c = Config { log_sq, log_cq, ..Config::DEFAULT };
        let e = DriverHarness::with_failures(c, CAPS, None, None).unwrap_err();
        assert!(matches!(e.0, OpenError::Setting(_)));
    }
}
