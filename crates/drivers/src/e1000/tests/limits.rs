//! Packets, rings and buffers that stand exactly on a limit, and one beyond it.

use super::*;
use crate::e1000::errata::{MAX_LENGTH, Split};
use crate::e1000::hw::on_bus;
use doorbell_bus::{Costs, Machine, Platform, ProtectionGranularity};
use doorbell_hal::{Host as _, Span};
use doorbell_packet::MAX_FRAGS;
use doorbell_testkit::ConstantLatencyBus;

/// A packet of pieces with these lengths.
fn pieces(h: &mut Host, lens: &[usize]) -> Packet {
    let mut all: Vec<Fragment> = lens.iter().map(|n| packet(h, &vec![7; *n]).head).collect();
    let head = all.remove(0);
    let more = (!all.is_empty()).then(|| Box::new(NonLinear { frags: all, list: Vec::new() }));
    Packet { more, ..Packet::linear(head) }
}

fn is_dropped(h: &mut Host, nic: &mut E1000, p: Packet) -> bool {
    match nic.transmit(h, p, false) {
        Tx::Ok => false,
        Tx::Dropped(p) => {
            p.release(h);
            true
        }
        Tx::Busy(_) => panic!("the ring has room"),
    }
}

/// A large send whose frame and request a test changes.
fn large(h: &mut Host, frame: &[u8], gso: Gso) -> Packet {
    let mut p = packet(h, frame);
    p.todo.gso = Some(gso);
    p
}

const TCP4: Gso = Gso { kind: GsoKind::Tcp4, size: 1460, header: 54 };

/// A TCP frame over IPv6, its payload length field not zero.
fn tcp6(payload: usize) -> Vec<u8> {
    let mut f = vec![0u8; 74 + payload];
    f[12..14].copy_from_slice(&[0x86, 0xdd]);
    f[14..22].copy_from_slice(&[0x60, 1, 2, 3, 0xaa, 0xbb, 6, 64]);
    f[22..54].copy_from_slice(&[[0xfd; 16], [0xfc; 16]].concat());
    f[66] = 0x50;
    f
}

#[test]
fn rings_above_4_gib_have_an_upper_half() {
    for (part, bus, from) in
        [(Part::I82545, Bus::PciX, 3u64 << 32), (Part::I82540, Bus::Pci, 64 << 20)]
    {
        let platform = Platform::new(from, 16 << 20, ProtectionGranularity::Byte);
        let bridge = ConstantLatencyBus::new(platform, Span::ZERO);
        let mut h = Machine::new(bridge, Board::new(), Costs::FREE, 1);
        let c = Config { eeprom: Eeprom::Eerd, ..Config::new(part, bus) };
        let nic = E1000::open(&mut h, &c).unwrap();
        let high = (from >> 32) as u32;
        assert_eq!([reg::TDBAH, reg::RDBAH].map(|r| h.device.last(r)), [Some(high); 2]);
        nic.close(&mut h);
    }
}

#[test]
fn a_buffer_on_conventional_pci_may_end_at_4_gib() {
    let c = Config::new(Part::I82540, Bus::Pci);
    let at = (1 << 32) - 2048;
    assert!(on_bus(&c, at, 2048) && !on_bus(&c, at, 2049));
    assert!(on_bus(&Config { bus: Bus::PciX, ..c }, at, 2049));
}

#[test]
fn a_receive_buffer_that_would_cross_64_kib_is_replaced() {
    // Rings of 56 descriptors end where buffers of 2048 bytes in a row cross a boundary.
    for (rx_align, place) in [(0, 0), (2, 0), (2, 64)] {
        let rx_place = Alignment { align: 128, offset: place };
        let (mut h, nic) = open_with(Part::I82545, Bus::Pci, |c| {
            (c.tx_ring, c.rx_ring, c.rx_align, c.rx_place) = (56, 128, rx_align, rx_place);
        });
        for i in 0..127 {
            let d = descriptor(&mut h, reg::RDBAL, i);
            let at = u64::from_le_bytes(d[..8].try_into().unwrap());
            assert!(at > 0 && at >> 16 == (at + 2047) >> 16, "buffer {i} at {at:#x}");
        }
        assert_eq!(
            (h.device.last(reg::RDT), nic.stats().alloc_rx_buff_failed),
            (Some(126), 0),
            "each descriptor has one"
        );
    }
}

#[test]
fn an_idle_poll_fills_sixteen_holes_and_not_fifteen() {
    for (holes, told) in [(15, 0), (16, 1)] {
        let (mut h, mut nic) = open();
        let mut hoard = Vec::new();
        while let Ok(b) = h.buffer(2048, Alignment { align: 128, offset: 2 }) {
            hoard.push(b);
        }
        (0..holes).for_each(|i| arrive(&mut h, i, 300, l::Rx::EOP, 0));
        let mut up = Up::default();
        let _ = nic.poll(&mut h, 64, &mut up);
        assert_eq!(up.received.len(), holes as usize);
        // The first frame's descriptor was followed by the one that is held back.
        hoard.into_iter().for_each(|b| h.release(b));
        let before = h.device.count(reg::RDT);
        let _ = nic.poll(&mut h, 64, &mut up);
        assert_eq!(h.device.count(reg::RDT) - before, told, "{holes}");
    }
}

#[test]
fn a_frame_has_a_head_and_seventeen_fragments_at_most() {
    for (buffers, received) in [(MAX_FRAGS + 1, 1), (MAX_FRAGS + 2, 0), (2 * MAX_FRAGS + 9, 0)] {
        let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| c.rx_buffer = 256);
        let last = buffers as u32 - 1;
        (0..last).for_each(|i| arrive(&mut h, i, 256, 0, 0));
        arrive(&mut h, last, 100, l::Rx::EOP, 0);
        arrive(&mut h, last + 1, 100, l::Rx::EOP, 0);
        let mut up = Up::default();
        let _ = nic.poll(&mut h, 64, &mut up);
        let mut lens: Vec<u32> = up.received.iter().map(|(p, _)| p.len()).collect();
        assert_eq!(lens.pop(), Some(96), "the frame behind it comes whole");
        let s = nic.stats();
        assert_eq!((lens.len(), s.rx_malformed, s.rx_errors), (received, 1 - received as u64, 0));
        assert_eq!(h.device.last(reg::RDT), Some((last + 1 + 255) % 256), "all are posted again");
    }
}

#[test]
fn a_frame_with_an_error_at_its_end_is_dropped_with_its_fragments() {
    let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| c.rx_buffer = 256);
    let mut up = Up::default();
    // Frame errors are valid with EOP only.
    for (i, status, errors) in [(0, 0, l::Rx::CE), (1, l::Rx::EOP, l::Rx::CE)] {
        arrive(&mut h, i, 256, status, errors);
    }
    arrive(&mut h, 2, 256, 0, 0);
    arrive(&mut h, 3, 50, l::Rx::EOP, 0);
    let _ = nic.poll(&mut h, 64, &mut up);
    assert_eq!(up.received.iter().map(|(p, _)| p.len()).collect::<Vec<_>>(), [302]);
    assert_eq!((nic.stats().rx_errors, nic.stats().rx_malformed), (1, 0));
    // One that is too long, and wrong at its end.
    (4..30).for_each(|i| arrive(&mut h, i, 256, 0, 0));
    arrive(&mut h, 30, 256, l::Rx::EOP, l::Rx::CE);
    let _ = nic.poll(&mut h, 64, &mut up);
    assert_eq!((nic.stats().rx_errors, nic.stats().rx_malformed, up.received.len()), (2, 0, 1));
}

#[test]
fn a_frame_of_four_bytes_is_only_an_fcs() {
    let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| c.rx_buffer = 256);
    let mut up = Up::default();
    // In one buffer, and in pieces; each time one byte less and one more.
    for (i, len, status) in [(0, 4, l::Rx::EOP), (1, 5, l::Rx::EOP), (2, 1, 0), (3, 3, l::Rx::EOP)]
    {
        arrive(&mut h, i, len, status, 0);
    }
    arrive(&mut h, 4, 2, 0, 0);
    arrive(&mut h, 5, 3, l::Rx::EOP, 0);
    // Buffers that have nothing but the FCS are no fragments.
    arrive(&mut h, 6, 200, 0, 0);
    arrive(&mut h, 7, 4, 0, 0);
    arrive(&mut h, 8, 0, l::Rx::EOP, 0);
    let _ = nic.poll(&mut h, 64, &mut up);
    let shapes: Vec<_> = up.received.iter().map(|(p, _)| (p.len(), p.pieces().count())).collect();
    assert_eq!((shapes, nic.stats().rx_malformed), (vec![(1, 1), (1, 1), (200, 1)], 2));
}

#[test]
fn a_frame_with_a_descriptor_without_data_is_malformed() {
    let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| c.rx_buffer = 256);
    let mut up = Up::default();
    let frames = [[(256, 0), (0, 0), (100, l::Rx::EOP)], [(0, 0), (256, 0), (100, l::Rx::EOP)]];
    for (i, (len, status)) in (0..).zip(frames.concat()) {
        arrive(&mut h, i, len, status, 0);
    }
    arrive(&mut h, 6, 256, 0, 0);
    arrive(&mut h, 7, 100, l::Rx::EOP, 0);
    (8..80).for_each(|i| arrive(&mut h, i, 0, 0, 0));
    let _ = nic.poll(&mut h, 64, &mut up);
    let lens: Vec<Vec<_>> =
        up.received.iter().map(|(p, _)| p.pieces().map(|q| q.len).collect()).collect();
    assert_eq!((lens, nic.stats().rx_malformed), (vec![vec![256, 96]], 2));
    assert_eq!(h.device.last(reg::RDT), Some(66 - 2), "they count against the budget");
}

#[test]
fn a_tag_comes_up_if_the_device_stripped_one() {
    for (vlan, status, tag) in
        [(true, l::Rx::VP, Some(0x6005)), (true, l::Rx::IXSM, None), (false, l::Rx::VP, None)]
    {
        let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| c.vlan = vlan);
        arrive(&mut h, 0, 300, status | l::Rx::EOP, 0);
        let at = ring(&h, reg::RDBAL);
        h.port.at(at + 14, 2).copy_from_slice(&0x6005u16.to_le_bytes());
        let mut up = Up::default();
        let _ = nic.poll(&mut h, 64, &mut up);
        assert_eq!(up.received[0].0.todo, OffloadRequest { vlan: tag, ..OffloadRequest::NONE });
    }
}

#[test]
fn a_restart_counts_the_frames_that_were_done_and_clears_the_ring() {
    let (mut h, mut nic) = open();
    let mut up = Up::default();
    arrive(&mut h, 0, 300, l::Rx::EOP, 0);
    let _ = nic.poll(&mut h, 64, &mut up);
    // Two frames, one in two buffers; the rest of the ring is not done, whatever it says.
    arrive(&mut h, 1, 300, l::Rx::EOP, 0);
    arrive(&mut h, 2, 2048, 0, 0);
    arrive(&mut h, 3, 300, l::Rx::EOP, 0);
    let at = ring(&h, reg::RDBAL);
    h.port.at(at + 4 * 16 + 12, 1)[0] = l::Rx::EOP;
    (5..256).for_each(|i| arrive(&mut h, i, 300, l::Rx::EOP, 0));
    nic.restart(&mut h).unwrap();
    assert_eq!(nic.stats().rx_lost, 2);
    let held_back = descriptor(&mut h, reg::RDBAL, 255);
    assert_eq!((h.device.last(reg::RDT), held_back), (Some(254), [0; 16]));
    assert_eq!((nic.poll(&mut h, 64, &mut up), up.received.len()), (Poll::Work, 1));
}

/// The 82544 keeps twice the fragments free: each may need a second descriptor.
#[test]
fn a_queue_stops_before_the_longest_packet_has_no_room() {
    for (part, packets) in [(Part::I82540, 24), (Part::I82544, 6)] {
        let (mut h, mut nic) = open_with(part, Bus::PciX, |c| (c.tx_ring, c.bql) = (48, false));
        let mut n = 0;
        while !Driver::<Host>::stopped(&nic) {
            // Its last byte is at 7 modulo 8, where the 82544 does not hang.
            let p = packet(&mut h, &[1; 64]);
            assert_eq!(nic.transmit(&mut h, p, true), Tx::Ok);
            n += 1;
        }
        assert_eq!(n, packets, "{part:?}: of 47 at least MAX_FRAGS + 7 are free, or twice as many");
    }
}

#[test]
fn a_full_frame_has_two_tags_and_not_three() {
    for (len, dropped) in [(1514, false), (1518, false), (1522, false), (1523, true)] {
        let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |_| ());
        let p = packet(&mut h, &vec![7; len]);
        assert_eq!(is_dropped(&mut h, &mut nic, p), dropped, "{len}");
    }
}

#[test]
fn a_packet_that_needs_every_descriptor_is_sent_and_one_more_is_not() {
    // A context, for each piece its 4 KiB and two for the errata, and two to spare.
    let needed = |lens: &[usize]| {
        let of = |n: &usize| n.div_ceil(4096) + 2;
        lens.iter().map(of).sum::<usize>() + 3
    };
    let (mut lens, mut longer) = ([60; 14], [60; 14]);
    lens[..2].fill(5000);
    longer[..3].fill(5000);
    assert_eq!((needed(&lens), needed(&longer)), (47, 48));
    for (lens, dropped) in [(lens, false), (longer, true)] {
        let (mut h, mut nic) =
            open_with(Part::I82540, Bus::Pci, |c| (c.tx_ring, c.max_frame) = (48, 16110));
        let p = pieces(&mut h, &lens);
        assert_eq!(is_dropped(&mut h, &mut nic, p), dropped);
    }
}

#[test]
fn a_packet_waits_until_its_last_descriptor_is_free() {
    // Eighteen pieces need 1 + 3 * 18, and two are spare; 63 are usable.
    for (before, ok) in [(6, true), (7, false)] {
        let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| c.tx_ring = 64);
        for _ in 0..before {
            let p = packet(&mut h, &[1; 100]);
            assert_eq!(nic.transmit(&mut h, p, true), Tx::Ok);
        }
        let p = pieces(&mut h, &[80; MAX_FRAGS + 1]);
        assert_eq!(nic.transmit(&mut h, p, false) == Tx::Ok, ok);
        assert_eq!(Driver::<Host>::stopped(&nic), !ok);
    }
}

#[test]
fn a_stack_that_ignores_the_packet_rules_has_it_dropped() {
    let (mut h, mut nic) = open();
    let longest = 1514 + 8;
    for (lens, dropped) in [
        (vec![longest], false),
        (vec![longest + 1], true),
        (vec![80; MAX_FRAGS + 1], false),
        (vec![80; MAX_FRAGS + 2], true),
        (vec![80, 0, 80], true),
    ] {
        let p = pieces(&mut h, &lens);
        assert_eq!(is_dropped(&mut h, &mut nic, p), dropped, "{lens:?}");
    }
    let mut p = pieces(&mut h, &[80, 80]);
    p.more = p.more.map(|m| Box::new(NonLinear { list: m.frags, frags: Vec::new() }));
    assert!(is_dropped(&mut h, &mut nic, p), "a fragment list");
}

/// The fate of a large send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Large {
    Whole,
    Segmented,
    Dropped,
}

fn fate(h: &mut Host, nic: &mut E1000, p: Packet) -> Large {
    let before = nic.stats();
    if is_dropped(h, nic, p) {
        return Large::Dropped;
    }
    let after = nic.stats();
    match (after.tx_tso - before.tx_tso, after.tx_segmented - before.tx_segmented) {
        (1, 0) => Large::Whole,
        (0, 1) => Large::Segmented,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_large_send_is_tcp_with_payload_and_its_headers_in_the_head() {
    use Large::{Dropped, Segmented, Whole};
    let (mut h, mut nic) = open();
    let (v4, v6) = (tcp(3000), tcp6(3000));
    let mut udp = v4.clone();
    udp[23] = 17;
    let tcp6 = Gso { kind: GsoKind::Tcp6, header: 74, ..TCP4 };
    let mut cwr = v4.clone();
    cwr[47] = 0x80;
    for (frame, gso, expected) in [
        (&v4, TCP4, Whole),
        (&v6, tcp6, Whole),
        (&v4, Gso { kind: GsoKind::Tcp6, ..TCP4 }, Dropped),
        (&v6, Gso { kind: GsoKind::Tcp4, ..tcp6 }, Dropped),
        (&v4, Gso { header: 58, ..TCP4 }, Dropped),
        (&v4, Gso { size: 0, ..TCP4 }, Dropped),
        (&udp, Gso { kind: GsoKind::Udp4, header: 42, ..TCP4 }, Segmented),
        (&cwr, TCP4, Segmented),
        (&v4[..55].to_vec(), TCP4, Whole),
        (&v4[..54].to_vec(), TCP4, Dropped),
    ] {
        let p = large(&mut h, frame, gso);
        assert_eq!(fate(&mut h, &mut nic, p), expected, "{gso:?} of {}", frame.len());
    }
    let mut p = large(&mut h, &v4, TCP4);
    p.todo.encapsulated = true;
    assert!(is_dropped(&mut h, &mut nic, p), "a tunnel");
    let mut p = large(&mut h, &v4[..53], TCP4);
    let rest = packet(&mut h, &v4[53..]).head;
    p.more = Some(Box::new(NonLinear { frags: vec![rest], list: Vec::new() }));
    assert!(is_dropped(&mut h, &mut nic, p), "headers behind the head");
}

#[test]
fn a_large_send_over_ipv6_has_no_payload_length() {
    let (mut h, mut nic) = open();
    let frame = tcp6(3000);
    let p = large(&mut h, &frame, Gso { kind: GsoKind::Tcp6, header: 74, ..TCP4 });
    let at = p.head.buf.addr();
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    let headers = h.port.at(at, 74).to_vec();
    assert_eq!((&headers[..18], &headers[18..20]), (&frame[..18], &[0, 0][..]));
    assert_eq!(headers[20..70], frame[20..70], "only the length and the checksum change");
    // IPCSE is zero, IP is not in the command; PAYLEN is without the header.
    let context = [14, 24, 0, 0, 54, 70, 0, 0, 0xb8, 0x0b, 0, 0x25, 0, 74, 0xb4, 0x05];
    assert_eq!(descriptor(&mut h, reg::TDBAL, 0), context);
}

/// The context has a byte for the header's length.
#[test]
fn a_header_and_the_tag_put_into_it_have_255_bytes_at_most() {
    let cases =
        [(0, true, false, 254), (1, false, false, 254), (1, true, true, 254), (1, true, false, 0)];
    for (options, tag, vlan, hdrlen) in cases {
        let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| c.vlan = vlan);
        // 14 + 40, destination options of 176, TCP.
        let header = 14 + 40 + 176 + 20 + 4 * options;
        let mut f = vec![0u8; header + 2000];
        f[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        f[20] = 60;
        f[54..56].copy_from_slice(&[6, 21]);
        f[230 + 12] = (5 + options as u8) << 4;
        let gso = Gso { kind: GsoKind::Tcp6, header: header as u16, ..TCP4 };
        let mut p = large(&mut h, &f, gso);
        p.todo.vlan = tag.then_some(5);
        let whole = fate(&mut h, &mut nic, p) == Large::Whole;
        assert_eq!(whole, hdrlen > 0, "{header} {tag} {vlan}");
        if hdrlen > 0 {
            assert_eq!(descriptor(&mut h, reg::TDBAL, 0)[13], hdrlen);
        }
    }
}

#[test]
fn only_the_last_fragment_of_a_large_send_has_a_sentinel() {
    let (mut h, mut nic) = open();
    let frame = tcp(2000);
    let mut p = large(&mut h, &frame[..54], TCP4);
    let frags = [&frame[54..1054], &frame[1054..]].map(|b| packet(&mut h, b).head).into();
    p.more = Some(Box::new(NonLinear { frags, list: Vec::new() }));
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    let lens: Vec<u16> = (1..h.device.last(reg::TDT).unwrap())
        .map(|i| descriptor(&mut h, reg::TDBAL, i))
        .map(|d| u16::from_le_bytes([d[8], d[9]]))
        .collect();
    assert_eq!(lens, [54, 1000, 996, 4]);
}

#[test]
fn a_checksum_whose_field_is_behind_byte_255_is_made_by_software() {
    for (start, contexts) in [(239, 1), (240, 0)] {
        let (mut h, mut nic) = open();
        let mut p = packet(&mut h, &[7; 300]);
        p.todo.checksum = Some(CsumPartial { start, offset: 16 });
        let at = p.head.buf.addr();
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        let untouched = h.port.at(at, 300) == [7; 300];
        let s = nic.stats();
        assert_eq!((s.tx_contexts, s.tx_csum, untouched), (contexts, contexts, contexts == 1));
    }
}

#[test]
fn a_dropped_packet_ends_a_batch_as_any_other() {
    for (more, told) in [(true, 0), (false, 1)] {
        let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| c.bql = false);
        let p = packet(&mut h, &[7; 100]);
        assert_eq!(nic.transmit(&mut h, p, true), Tx::Ok);
        let before = h.device.count(reg::TDT);
        let p = packet(&mut h, &[7; 1600]);
        assert!(matches!(nic.transmit(&mut h, p, more), Tx::Dropped(_)));
        assert_eq!(h.device.count(reg::TDT) - before, told);
    }
}

#[test]
fn a_restart_passes_up_what_it_dropped() {
    let (mut h, mut nic) = open();
    let mut p = packet(&mut h, &[7; 100]);
    p.cookie = 5;
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    nic.restart(&mut h).unwrap();
    let mut up = Up::default();
    let _ = nic.poll(&mut h, 64, &mut up);
    assert_eq!(up.sent.iter().map(|s| (s.1, s.2)).collect::<Vec<_>>(), [(5, true)]);
}

const PLAIN: Split = Split { max: MAX_LENGTH, sentinel: false, first: true, after_tso: false };

/// Returns the lengths of a buffer's descriptors.
fn cut(e: Errata, mut at: u64, mut left: u32, mut c: Split) -> Vec<u32> {
    let mut lens = Vec::new();
    while left > 0 {
        let n = e.next(at, left, c);
        lens.push(n);
        (at, left) = (at + u64::from(n), left - n);
        (c.first, c.after_tso) = (false, false);
    }
    lens
}

#[test]
fn four_bytes_after_a_large_send_are_one_descriptor() {
    let after = Split { after_tso: true, ..PLAIN };
    let e = Errata { after_tso: true, ..Errata::NONE };
    for (len, lens) in [(3, vec![3]), (4, vec![4]), (5, vec![1, 4]), (9, vec![5, 4])] {
        assert_eq!(cut(e, 0x1000, len, after), lens);
    }
}

#[test]
fn two_boundaries_of_64_kib_take_two_descriptors_more() {
    let e = Errata { bound_64k: true, ..Errata::NONE };
    let lens = cut(e, 0xffff, 1 + 0x1_0000 + 1, PLAIN);
    assert_eq!((lens.len(), lens[0], lens.last()), (18, 1, Some(&1)));
    assert!(e.most(1 + 0x1_0000 + 1, MAX_LENGTH) >= 18);
    assert!(e.most(4 << 16, MAX_LENGTH) >= cut(e, 0xffff, 4 << 16, PLAIN).len() as u32);
}

proptest::proptest! {
    /// An MSS of three makes pieces of 12 bytes, of which the 82544 takes 8.
    #[test]
    fn the_room_reserved_is_enough_for_any_segment_size(
        mss in 1u32..1500,
        at in 0u64..0x2_0000,
        len in 1u32..9000,
        part in proptest::sample::select(vec![Part::I82544, Part::I82540, Part::I82545]),
        sentinel in proptest::bool::ANY,
    ) {
        let e = Errata::of(part, Bus::PciX);
        let max = MAX_LENGTH.min(mss << 2);
        let lens = cut(e, at, len, Split { max, sentinel, ..PLAIN });
        proptest::prop_assert!(lens.len() as u32 <= e.most(len, max));
    }
}

#[test]
fn twelve_byte_pieces_take_one_and_a_half_descriptors_on_the_82544() {
    let e = Errata::of(Part::I82544, Bus::PciX);
    let lens = cut(e, 0x1000, 1200, Split { max: 12, ..PLAIN });
    assert_eq!(lens.len(), 150, "each ends four bytes early");
    assert!(e.most(1200, 12) >= 150);
}
