use super::super::read_from;
use super::*;

const OURS: [u8; 6] = [0x52, 0x54, 0, 1, 2, 3];

/// A cooked header of version 1: kind of packet, ARPHRD, protocol.
fn v1(kind: u16, device: u16, protocol: u16) -> Vec<u8> {
    let head = [kind, device, 6].map(u16::to_be_bytes).concat();
    [&head[..], &OURS, &[0, 0], &protocol.to_be_bytes()].concat()
}

/// The same of version 2, with an interface.
fn v2(kind: u8, device: u16, protocol: u16) -> Vec<u8> {
    let head = [&protocol.to_be_bytes()[..], &[0, 0, 0, 0, 0, 7], &device.to_be_bytes()].concat();
    [&head[..], &[kind, 6], &OURS, &[0, 0]].concat()
}

fn file(link: u32, packet: &[u8]) -> [Vec<u8>; 2] {
    [LITTLE.pcap(0xa1b2_c3d4, link), LITTLE.record(1, 2, packet)]
}

#[test]
fn a_cooked_packet_gets_an_ethernet_header() {
    let payload = frame(40);
    for (kind, receiver) in [
        (0, [2, 0, 0, 0, 0, 1]),
        (1, [0xff; 6]),
        (2, [1, 0, 0x5e, 0, 0, 1]),
        (4, [2, 0, 0, 0, 0, 1]),
    ] {
        let expected = [&receiver[..], &OURS, &[0x86, 0xdd], &payload].concat();
        let one = file(113, &[v1(kind, 1, 0x86dd), payload.clone()].concat());
        let two = file(276, &[v2(kind as u8, 772, 0x86dd), payload.clone()].concat());
        for file in [one, two] {
            let c = good(&file);
            assert_eq!((content(&c), c.cooked), (vec![(0, expected.clone())], 1));
        }
    }
}

#[test]
fn a_protocol_that_is_no_ether_type_becomes_the_length() {
    for protocol in [1, 4] {
        let c = good(&file(113, &[v1(0, 1, protocol), frame(40)].concat()));
        assert_eq!(c.bytes[12..14], [0, 40]);
    }
}

#[test]
fn a_device_without_ether_types_is_refused() {
    assert_eq!(
        bad(&file(276, &[v2(0, 824, 0x800), frame(40)].concat())),
        "x.cap: byte 24, packet 1: a Linux cooked packet of a device of type 824 (ARPHRD) cannot \
         be replayed; allowed are 1 (Ethernet), 772 (loopback), 65534 (none), and others with IP \
         inside"
    );
}

#[test]
fn a_cooked_packet_captured_in_part_is_filled_to_its_length() {
    let part = [v1(0, 1, 0x800), frame(40)].concat();
    let record = [LITTLE.words(&[1, 2, part.len() as u32, 1516]), part].concat();
    let file = [LITTLE.pcap(0xa1b2_c3d4, 113), record];
    assert!(bad(&file).contains("only 56 of the packet's 1516 bytes"));
    let c = read_from("x.cap", &file.concat()[..], PAD).unwrap();
    assert_eq!((c.bytes.len(), &c.bytes[14..54]), (1514, &frame(40)[..]));
    // The capture's own header has to be there.
    let record = [LITTLE.words(&[1, 2, 15, 1516]), frame(15)].concat();
    let file = [LITTLE.pcap(0xa1b2_c3d4, 113), record].concat();
    let e = read_from("x.cap", &file[..], PAD).unwrap_err();
    assert!(matches!(e.why, Fault::Snapped { captured: 15, .. }), "{e}");
}

#[test]
fn a_device_with_ip_inside_is_a_link_of_ip() {
    let v4 = ip(4);
    for device in [512, 519, 530, 778] {
        let c = good(&file(113, &[v1(0, device, 0x800), v4.clone()].concat()));
        assert_eq!((&c.bytes[12..14], &c.bytes[14..]), (&[8, 0][..], &v4[..]));
        // The packet has to be what the protocol says.
        assert!(bad(&file(113, &[v1(0, device, 0x86dd), v4.clone()].concat())).contains("ARPHRD"));
    }
}

/// An IP packet of 40 bytes, as far as its version.
fn ip(version: u8) -> Vec<u8> {
    let mut packet = frame(40);
    packet[0] = version << 4 | 5;
    packet
}

#[test]
fn a_packet_without_ethernets_header_gets_one() {
    let (v4, v6, mpls) = (ip(4), ip(6), frame(40));
    let types: [(u32, &[u8], &[u8], u16); 20] = [
        (101, &[], &v4, 0x800),
        (12, &[], &v6, 0x86dd),
        (14, &[], &v4, 0x800),
        (228, &[], &v4, 0x800),
        (229, &[], &v6, 0x86dd),
        (0, &[2, 0, 0, 0], &v4, 0x800),
        (0, &[0, 0, 0, 2], &v4, 0x800),
        (0, &[30, 0, 0, 0], &v6, 0x86dd),
        (108, &[0, 0, 0, 24], &v6, 0x86dd),
        (108, &[0, 0, 0, 28], &v6, 0x86dd),
        (9, &[0xff, 3, 0, 0x21], &v4, 0x800),
        (9, &[0, 0x57], &v6, 0x86dd),
        (9, &[0x21], &v4, 0x800),
        (50, &[0xff, 3, 0x57], &v6, 0x86dd),
        (9, &[0xff, 3, 2, 0x81], &mpls, 0x8847),
        (50, &[0x0f, 0, 8, 0], &v4, 0x800),
        (104, &[0x0f, 0, 8, 0], &v4, 0x800),
        (104, &[0x8f, 0, 0x86, 0xdd], &v6, 0x86dd),
        (104, &[0x0f, 0, 0x88, 0x47], &mpls, 0x8847),
        (104, &[0x0f, 0, 0x88, 0x48], &mpls, 0x8848),
    ];
    for (link, header, packet, ether_type) in types {
        let head = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], &ether_type.to_be_bytes()[..]].concat();
        let c = good(&file(link, &[header, packet].concat()));
        assert_eq!((content(&c), c.headed), (vec![(0, [&head, packet].concat())], 1), "{link}");
    }
}

#[test]
fn a_link_that_carries_no_ip_is_refused() {
    let types: [(u32, &[u8], &str); 6] = [
        (101, &[0x10; 40], "version of IP 0x1"),
        (228, &[0x60; 40], "version of IP 0x6"),
        (229, &[0x45; 40], "version of IP 0x4"),
        (0, &[7; 40], "address family 0x7070707"),
        (9, &[0xff, 3, 0xc0, 0x21, 1, 1, 0, 4], "PPP protocol 0xc021"),
        (104, &[0x8f, 0, 0x80, 0x35, 0, 0], "HDLC protocol 0x8035"),
    ];
    for (link, packet, why) in types {
        let said = bad(&file(link, packet));
        let all = format!(
            "x.cap: byte 24, packet 1: {why}: of a link without Ethernet's header, IP and MPLS \
             alone can be replayed"
        );
        assert_eq!(said, all);
    }
    for (link, packet) in [(101, &[][..]), (0, &[2, 0]), (9, &[0xff, 3, 0]), (104, &[0x0f, 0, 8])] {
        let said = bad(&file(link, packet));
        assert!(said.contains(&format!("a frame of {} bytes without FCS", packet.len())), "{said}");
    }
}

#[test]
fn what_is_no_frame_is_left_out_and_counted() {
    let part = [LITTLE.words(&[1, 2, 20, 60]), v2(0, 1, 0x800)].concat();
    let interfaces = [1, 127, 9].map(|link| LITTLE.interface(link, 0, &[]));
    let packets = [
        LITTLE.enhanced(1, 0, &frame(60), &[]),
        LITTLE.enhanced(0, 0, &frame(60), &[]),
        LITTLE.enhanced(2, 0, &[0xc0, 0x21, 1, 1, 0, 4], &[]),
        LITTLE.enhanced(0, 0, &frame(13), &[]),
        LITTLE.enhanced(2, 0, &[&[0x21][..], &ip(4)].concat(), &[]),
        LITTLE.enhanced(1, 0, &frame(61), &[]),
    ];
    let file = [vec![LITTLE.section()], interfaces.to_vec(), packets.to_vec()].concat().concat();
    let c = super::super::read_from("x.cap", &file[..], SKIP).unwrap();
    let numbers: Vec<u32> = c.frames.iter().map(|f| f.number).collect();
    assert_eq!((numbers, c.packets), (vec![2, 5], 6));
    assert_eq!(c.skipped, [("length", 1), ("link_type", 2), ("not_ip", 1)].into());
    let cooked = v2(0, 824, 0);
    let records = [LITTLE.record(0, 0, &cooked), part, LITTLE.record(0, 0, &v2(0, 1, 0x800))];
    let file = [vec![LITTLE.pcap(0xa1b2_c3d4, 276)], records.to_vec()].concat().concat();
    let c = super::super::read_from("x.cap", &file[..], SKIP).unwrap();
    assert_eq!(c.skipped, [("captured_in_part", 1), ("device_type", 1)].into());
    let file = [LITTLE.pcap(0xa1b2_c3d4, 276), LITTLE.record(0, 0, &cooked)].concat();
    let e = super::super::read_from("x.cap", &file[..], SKIP).unwrap_err().to_string();
    assert_eq!(e, "x.cap: none of the capture's 1 packets can be sent; left out are 1 device_type");
}

#[test]
fn the_packets_of_one_interface_are_read() {
    let interfaces = [1, 127].map(|link| LITTLE.interface(link, 0, &[]));
    let packets = [
        LITTLE.enhanced(1, 0, &frame(60), &[]),
        LITTLE.enhanced(0, 0, &frame(61), &[]),
        LITTLE.old(0, 0, &frame(62), &[]),
        LITTLE.simple(&frame(63), 63),
    ];
    let file = [vec![LITTLE.section()], interfaces.to_vec(), packets.to_vec()].concat().concat();
    let of = |id| {
        let how = Reading { interface: Some(id), ..Reading::default() };
        super::super::read_from("x.cap", &file[..], how).map_err(|e| e.to_string())
    };
    let c = of(0).unwrap();
    let frames: Vec<(u32, u32)> = c.frames.iter().map(|f| (f.number, f.len)).collect();
    assert_eq!((frames, c.packets), (vec![(2, 61), (3, 62), (4, 63)], 3));
    assert!(of(1).unwrap_err().contains("packet 1: link type 127"));
    assert_eq!(
        of(2).unwrap_err(),
        "x.cap: no packet is of interface 2; a section describes 2, counted from 0"
    );
}
