//! Headers of tunnels.

use super::*;

/// A frame in GENEVE with so many bytes of options: an IPv4 packet with `protocol` in Ethernet in
/// UDP.
fn geneve(d: &mut DriverHarness, options: usize, protocol: u8) -> Packet {
    let mut transport = [0; 40];
    transport[12] = 0x50;
    let inner = frame(0, 0x0800, &ipv4(protocol, 20 + 40), &transport, 0);
    let udp_len = 8 + 8 + options + inner.len();
    let mut udp = vec![0x99, 0x99, 0x17, 0xc1];
    udp.extend((udp_len as u16).to_be_bytes());
    udp.extend([0, 0, (options / 4) as u8, 0, 0x65, 0x58, 0, 0, 1, 0]);
    udp.resize(16 + options, 0);
    udp.extend(&inner);
    let f = frame(0, 0x0800, &ipv4(17, 20 + udp_len), &udp, 0);
    let mut p = d.packet(f.len() as u32);
    d.host.bytes_mut(&p.head.buf, 0..f.len() as u32, |b| b.copy_from_slice(&f));
    let inner_network = (14 + 20 + 16 + options + 14) as u16;
    p.todo.encapsulated = true;
    p.todo.inner_network = inner_network;
    p.todo.checksum =
        Some(CsumPartial { start: inner_network + 20, offset: if protocol == 6 { 16 } else { 6 } });
    p
}

fn ipv4(protocol: u8, total: usize) -> [u8; 20] {
    let [hi, lo] = (total as u16).to_be_bytes();
    [0x45, 0, hi, lo, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]
}

/// The part of the Ethernet segment that a session shares.
fn shared(w: &Wqe) -> &[u8] {
    &w.segment(1)[..6]
}

#[test]
fn a_geneve_packet_says_where_its_headers_are() {
    let mut d = DriverHarness::default_channel();
    let udp = geneve(&mut d, 8, 17);
    d.send(udp, false);
    let tcp = geneve(&mut d, 8, 6);
    d.send(tcp, false);
    let wqes = d.announced();
    // Outer L4 at 34, outer L3 at 14, inner L4 at 92, inner L3 at 72.
    assert_eq!(shared(&wqes[0]), [17, 7, 46, 36, 0x70, 0x22]);
    assert_eq!(shared(&wqes[1]), [17, 7, 46, 36, 0x70, 0x20]);
}

#[test]
fn a_session_holds_one_layout_of_headers() {
    let mut d = DriverHarness::default_channel();
    for (i, options) in [8, 8, 4, 8].into_iter().enumerate() {
        let p = geneve(&mut d, options, 6);
        d.send(p, i < 3);
    }
    let got: Vec<_> = d.announced().iter().map(|w| (w.opcode, w.ds, w.segment(1)[3])).collect();
    assert_eq!(got, [(MPSW, 4, 36), (MPSW, 3, 34), (MPSW, 3, 36)]);
    assert_eq!((d.stats().mpwqe_pkts, d.stats().csum_partial), (4, 4));
}

#[test]
fn geneve_without_a_checksum_is_told_apart_too() {
    // en_accel.h looks at skb->encapsulation alone.
    let mut d = DriverHarness::default_channel();
    for i in 0..4 {
        let mut p = geneve(&mut d, 8, 6);
        p.todo.checksum = None;
        if i % 2 == 1 {
            p.todo = OffloadRequest::NONE;
        }
        d.send(p, i < 3);
    }
    let got: Vec<_> = d.announced().iter().map(|w| shared(w).to_vec()).collect();
    assert_eq!(got, [[17, 7, 46, 36, 0, 0x20], [0; 6], [17, 7, 46, 36, 0, 0x20], [0; 6]]);
    assert_eq!(d.stats().csum_partial, 0);
}

#[test]
fn other_tunnels_leave_the_parser_alone() {
    let mut d = DriverHarness::default_channel();
    let vxlan = geneve(&mut d, 0, 6);
    d.host.bytes_mut(&vxlan.head.buf, 36..38, |b| b.copy_from_slice(&4789u16.to_be_bytes()));
    d.send(vxlan, false);
    assert_eq!(shared(&d.announced()[0]), [0, 0, 0, 0, 0x70, 0]);
}

#[test]
fn a_geneve_packet_is_looked_through_without_help() {
    let mut d = DriverHarness::default_channel();
    let mut p = geneve(&mut d, 8, 6);
    p.todo.inner_network = 0;
    d.send(p, false);
    assert_eq!(shared(&d.announced()[0]), [17, 7, 46, 36, 0x70, 0x20]);
}

#[test]
fn a_tunnel_on_another_port_is_summed_by_the_cpu() {
    let mut d = DriverHarness::default_channel();
    let mut vxlan = geneve(&mut d, 0, 6);
    d.host.bytes_mut(&vxlan.head.buf, 36..38, |b| b.copy_from_slice(&8472u16.to_be_bytes()));
    vxlan.todo.inner_network = 0;
    d.send(vxlan, false);
    assert_eq!(shared(&d.announced()[0]), [0; 6]);
    assert_eq!((d.stats().csum_software, d.stats().csum_partial), (1, 0));
}

#[test]
fn a_tag_in_the_inline_header_moves_the_offsets() {
    let mut d = DriverHarness::new(Config::DEFAULT, Caps { min_inline: 1, ..CAPS });
    for vlan in [None, Some(5)] {
        let mut p = geneve(&mut d, 8, 6);
        p.todo.vlan = vlan;
        d.send(p, false);
    }
    let wqes = d.announced();
    assert_eq!(shared(&wqes[0]), [17, 7, 46, 36, 0x70, 0x20]);
    assert_eq!(shared(&wqes[1]), [19, 9, 48, 38, 0x70, 0x20]);
}
