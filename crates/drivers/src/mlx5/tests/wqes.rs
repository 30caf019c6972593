//! WQEs byte by byte.

use super::*;

#[test]
fn a_send_wqe_is_byte_for_byte_the_manuals() {
    let mut d = DriverHarness::without_mpwqe();
    let p = d.packet(60);
    let addr = p.head.buf.addr().to_be_bytes();
    d.send(p, false);
    let expected = format!(
        "00 00 00 0a 00 01 33 03 00 00 00 08 00 00 00 00\n\
         00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n\
         00 00 00 3c 00 12 34 00 {}",
        hex(&addr)
    );
    assert_eq!(hex(&d.announced()[0].bytes), expected);
    assert_eq!(d.ring(48, 16), [0; 16], "nothing behind it");
    d.complete(0, 0);
    assert_eq!(d.poll(), Poll::Idle);
    d.close();
}

#[test]
fn a_session_is_byte_for_byte_the_manuals() {
    let mut d = DriverHarness::default_channel();
    let mut addrs = vec![];
    for (i, len) in [60, 61, 1514].into_iter().enumerate() {
        let p = d.udp(len);
        addrs.push(hex(&p.head.buf.addr().to_be_bytes()));
        d.send(p, i < 2);
    }
    let [a, b, c] = &addrs[..] else { unreachable!() };
    let expected = format!(
        "00 00 00 29 00 01 33 05 00 00 00 08 00 00 00 00\n\
         00 00 00 00 c0 00 00 00 00 00 00 00 00 00 00 00\n\
         00 00 00 3c 00 12 34 00 {a}\n\
         00 00 00 3d 00 12 34 00 {b}\n\
         00 00 05 ea 00 12 34 00 {c}"
    );
    assert_eq!(hex(&d.announced()[0].bytes), expected);
}

#[test]
fn a_large_send_has_its_headers_inline_and_its_mss_in_the_eth_segment() {
    let mut d = DriverHarness::default_channel();
    let mut p = d.large(54 + 3000, 1460);
    p.todo.checksum = Some(CsumPartial { start: 34, offset: 16 });
    let at = hex(&(p.head.buf.addr() + 54).to_be_bytes());
    d.send(p, false);
    // 54 bytes of header: two in the Ethernet segment, 52 in four DS behind it.
    let expected = format!(
        "00 00 00 0e 00 01 33 07 00 00 00 08 00 00 00 00\n\
         00 00 00 00 c0 00 05 b4 00 00 00 00 00 36 00 01\n\
         02 03 04 05 06 07 08 09 0a 0b 08 00 45 0f 10 11\n\
         12 13 00 00 16 06 18 19 1a 1b 1c 1d 1e 1f 20 21\n\
         22 23 24 25 26 27 28 29 2a 2b 2c 2d 50 2f 30 31\n\
         32 33 34 35 00 00 00 00 00 00 00 00 00 00 00 00\n\
         00 00 0b b8 00 12 34 00 {at}"
    );
    let wqe = d.announced().remove(0);
    assert_eq!(hex(&wqe.bytes), expected);
    assert_eq!(wqe.blocks(), 2);
    let s = d.stats();
    assert_eq!((s.tso_packets, s.packets, s.bytes), (1, 3, 3000 + 3 * 54));
    assert_eq!((s.mpwqe_blks, s.mpwqe_pkts), (0, 0));
}

#[test]
fn a_tag_is_inserted_by_the_device_where_nothing_is_inlined() {
    let mut d = DriverHarness::default_channel();
    let mut p = d.packet(60);
    p.todo.vlan = Some(0x2005);
    d.send(p, false);
    let wqe = d.announced().remove(0);
    assert_eq!((wqe.opcode, wqe.ds), (SEND, 3));
    assert_eq!(hex(wqe.segment(1)), "00 00 00 00 00 00 00 00 00 00 00 00 80 00 20 05");
    assert_eq!((d.stats().added_vlan_packets, d.stats().bytes), (1, 64));
}

#[test]
fn a_tag_goes_into_the_inlined_header_where_there_is_one() {
    let mut d = DriverHarness::new(Config::DEFAULT, Caps { min_inline: 1, ..CAPS });
    let mut p = d.packet(60);
    p.todo.vlan = Some(0x2005);
    d.send(p, false);
    let wqe = d.announced().remove(0);
    // 18 bytes and a tag of 4; the data segment begins behind the 18.
    assert_eq!((wqe.opcode, wqe.ds), (SEND, 5));
    assert_eq!(hex(wqe.segment(1)), "00 00 00 00 00 00 00 00 00 00 00 00 00 16 00 01");
    assert_eq!(hex(wqe.segment(2)), "02 03 04 05 06 07 08 09 0a 0b 81 00 20 05 0c 0d");
    assert_eq!(hex(wqe.segment(3)), "0e 0f 10 11 00 00 00 00 00 00 00 00 00 00 00 00");
    assert_eq!(wqe.segment(4)[..4], 42u32.to_be_bytes());
}

#[test]
fn a_tag_of_a_large_send_goes_into_its_headers() {
    let mut d = DriverHarness::default_channel();
    let mut p = d.large(54 + 2000, 1000);
    p.todo.vlan = Some(7);
    d.send(p, false);
    let wqe = d.announced().remove(0);
    assert_eq!(wqe.segment(1)[12..14], 58u16.to_be_bytes());
    assert_eq!(hex(wqe.segment(2)), "02 03 04 05 06 07 08 09 0a 0b 81 00 00 07 08 00");
    assert_eq!(wqe.segment(wqe.ds as usize - 1)[..4], 2000u32.to_be_bytes());
    assert_eq!((d.stats().packets, d.stats().bytes), (2, 2000 + 2 * 58));
}

#[test]
fn a_packet_of_a_head_and_three_fragments_takes_six_ds_and_two_blocks() {
    let mut d = DriverHarness::default_channel();
    let p = d.fragments(20, &[16, 16, 8]);
    let more = p.more.as_ref().unwrap();
    let addrs: Vec<u64> = [&p.head].into_iter().chain(&more.frags).map(|f| f.buf.addr()).collect();
    d.send(p, false);
    let wqe = d.announced().remove(0);
    assert_eq!((wqe.opcode, wqe.ds, wqe.blocks()), (SEND, 6, 2));
    for (i, (addr, len)) in addrs.iter().zip([20u32, 16, 16, 8]).enumerate() {
        let expected = [&len.to_be_bytes()[..], &[0, 0x12, 0x34, 0], &addr.to_be_bytes()].concat();
        assert_eq!(wqe.segment(2 + i), expected);
    }
    d.complete(0, 0);
    d.poll();
    let got: Vec<(u64, bool)> = d.returned.0.iter().map(|(b, _, last)| (b.addr(), *last)).collect();
    assert_eq!(got, [(addrs[0], false), (addrs[1], false), (addrs[2], false), (addrs[3], true)]);
    d.close();
}

#[test]
fn the_part_of_a_buffer_that_is_not_the_packet_is_not_mapped() {
    let mut d = DriverHarness::default_channel();
    let mut p = d.packet(2048);
    p.head.start = 66;
    p.head.len = 600;
    let at = p.head.buf.addr() + 66;
    d.send(p, false);
    assert_eq!(d.host.mapped, [(at, 600)]);
    let wqe = d.announced().remove(0);
    assert_eq!(wqe.segment(2)[..4], 600u32.to_be_bytes());
    assert_eq!(wqe.segment(2)[8..], at.to_be_bytes());
}
