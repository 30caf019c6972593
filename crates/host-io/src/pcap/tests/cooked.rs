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
         be replayed; allowed are 1 (Ethernet), 772 (loopback) and 65534 (none)"
    );
}

#[test]
fn a_cooked_packet_captured_in_part_is_filled_to_its_length() {
    let part = [v1(0, 1, 0x800), frame(40)].concat();
    let record = [LITTLE.words(&[1, 2, part.len() as u32, 1516]), part].concat();
    let file = [LITTLE.pcap(0xa1b2_c3d4, 113), record];
    assert!(bad(&file).contains("only 56 of the packet's 1516 bytes"));
    let c = read_from("x.cap", &file.concat()[..], true).unwrap();
    assert_eq!((c.bytes.len(), &c.bytes[14..54]), (1514, &frame(40)[..]));
    // The capture's own header has to be there.
    let record = [LITTLE.words(&[1, 2, 15, 1516]), frame(15)].concat();
    let file = [LITTLE.pcap(0xa1b2_c3d4, 113), record].concat();
    let e = read_from("x.cap", &file[..], true).unwrap_err();
    assert!(matches!(e.why, Fault::Snapped { captured: 15, .. }), "{e}");
}
