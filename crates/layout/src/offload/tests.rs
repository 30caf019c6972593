use super::*;
use crate::{axienet, axienet::Checksum, e1000, ibmveth, ibmvnic, mlx5};
use doorbell_packet::GsoKind;
use doorbell_packet::headers::Transport;
use doorbell_packet::tunnel::Tunnel;

/// The layers of TCP or UDP over IP at `l3`.
fn layers(l3: u16, ip: Ip, transport: Transport) -> Layers {
    let l4 = l3 + if ip == Ip::V4 { 20 } else { 40 };
    let end = l4 + if transport == Transport::Tcp { 20 } else { 8 };
    let protocol = transport.protocol();
    let (fragment, source_routed, transport) = (false, false, Some(transport));
    Layers { l3, ip, l4, protocol, end, transport, fragment, source_routed }
}

/// A packet without a tag.
fn headers(ip: Ip, transport: Transport) -> Headers {
    let outer = layers(14, ip, transport);
    Headers { tags: 0, tag_types: [0; 3], outer, inner: None, inner_untagged: false, cwr: false }
}

/// The same with a tag of this type.
fn tagged(h: Headers, outermost: u16) -> Headers {
    let Layers { l3, l4, end, .. } = h.outer;
    let outer = Layers { l3: l3 + 4, l4: l4 + 4, end: end + 4, ..h.outer };
    let [a, b, _] = h.tag_types;
    Headers { tags: h.tags + 1, tag_types: [outermost, a, b], outer, ..h }
}

/// A TCP packet in a VXLAN tunnel to this port.
fn tunnel(port: u16) -> Headers {
    let outer = headers(Ip::V4, Transport::Udp);
    let inner = layers(34 + 16 + 14, Ip::V4, Transport::Tcp);
    Headers { inner: Some((Tunnel::Udp(port), inner)), inner_untagged: true, ..outer }
}

/// The request for the checksum of the innermost transport.
fn checksum(h: &Headers) -> OffloadRequest {
    let (checksum, encapsulated) = (h.layers().partial(), h.inner.is_some());
    OffloadRequest { checksum, encapsulated, ..OffloadRequest::NONE }
}

/// The same with segments of `size`.
fn large(h: &Headers, size: u16) -> OffloadRequest {
    let gso = h.layers().gso_kind().map(|kind| Gso { kind, size, header: h.layers().end });
    OffloadRequest { gso, ..checksum(h) }
}

fn ask(h: Headers, todo: OffloadRequest, can: impl FnOnce(&Request<'_>) -> Offload) -> Offload {
    can(&Request { headers: Some(h), todo: &todo, len: 3000 })
}

const CHIP: e1000::Caps = e1000::Caps { vlan: true };

/// TCP over IPv4.
const V4: Headers = Headers {
    tags: 0,
    tag_types: [0; 3],
    outer: Layers {
        l3: 14,
        ip: Ip::V4,
        l4: 34,
        protocol: 6,
        end: 54,
        transport: Some(Transport::Tcp),
        fragment: false,
        source_routed: false,
    },
    inner: None,
    inner_untagged: false,
    cwr: false,
};

fn extended() -> Headers {
    let h = headers(Ip::V6, Transport::Tcp);
    let Layers { l4, end, .. } = h.outer;
    Headers { outer: Layers { l4: l4 + 8, end: end + 8, ..h.outer }, ..h }
}

#[test]
fn full_checksums_of_axienet_are_of_ipv4_behind_one_tag() {
    let full = |h: Headers| ask(h, checksum(&h), |r| axienet::can(r, Checksum::Full));
    let qinq = tagged(tagged(V4, 0x8100), 0x88a8);
    let udp = headers(Ip::V4, Transport::Udp);
    for (h, expected) in [
        (V4, Offload::All),
        (udp, Offload::All),
        (tagged(V4, 0x8100), Offload::All),
        (tagged(V4, 0x88a8), Offload::None),
        (tagged(V4, 0x9100), Offload::None),
        (qinq, Offload::None),
        (headers(Ip::V6, Transport::Tcp), Offload::None),
        (extended(), Offload::None),
        (tunnel(4789), Offload::None),
    ] {
        assert_eq!(full(h), expected, "{h:?}");
        let partial = ask(h, checksum(&h), |r| axienet::can(r, Checksum::CsumPartial));
        let none = ask(h, checksum(&h), |r| axienet::can(r, Checksum::None));
        assert_eq!((partial, none), (Offload::All, Offload::None));
    }
    // Large sends are cut by software.
    assert_eq!(
        ask(V4, large(&V4, 1000), |r| axienet::can(r, Checksum::Full)),
        Offload::ChecksumOnly
    );
    // A checksum of something else than the transport.
    let odd = OffloadRequest { checksum: udp.layers().partial(), ..OffloadRequest::NONE };
    assert_eq!(ask(V4, odd, |r| axienet::can(r, Checksum::Full)), Offload::None);
}

#[test]
fn large_sends_of_e1000_are_tcp_without_cwr_and_tunnel() {
    let can = |h: Headers, todo| ask(h, todo, |r| e1000::can(r, &CHIP));
    let long = Headers { outer: Layers { l4: 220, end: 240, ..V4.outer }, ..V4 };
    for (h, expected) in [
        (V4, Offload::All),
        (headers(Ip::V6, Transport::Tcp), Offload::All),
        (extended(), Offload::All),
        (long, Offload::All),
        (Headers { outer: Layers { end: 256, ..long.outer }, ..long }, Offload::ChecksumOnly),
        (tagged(V4, 0x9100), Offload::All),
        (tagged(tagged(V4, 0x8100), 0x88a8), Offload::ChecksumOnly),
        (Headers { cwr: true, ..V4 }, Offload::ChecksumOnly),
        (headers(Ip::V4, Transport::Udp), Offload::ChecksumOnly),
        (tunnel(4789), Offload::ChecksumOnly),
    ] {
        assert_eq!(can(h, large(&h, 1)), expected, "{h:?}");
        assert_eq!(can(h, checksum(&h)), Offload::All);
    }
    assert_eq!(can(V4, large(&V4, 0)), Offload::ChecksumOnly);
    let far = Headers { outer: Layers { l4: 240, end: 260, ..V4.outer }, ..V4 };
    assert_eq!(can(far, checksum(&far)), Offload::None);
    // A tag that the driver inserts is part of the header.
    let edge = Headers { outer: Layers { end: 252, ..long.outer }, ..long };
    let todo = OffloadRequest { vlan: Some(5), ..large(&edge, 1000) };
    let tagged = |vlan| ask(edge, todo, |r| e1000::can(r, &e1000::Caps { vlan }));
    assert_eq!((tagged(true), tagged(false)), (Offload::All, Offload::ChecksumOnly));
    let todo = large(&V4, 1000);
    let big = Request { headers: Some(V4), todo: &todo, len: 65_537 };
    assert_eq!(e1000::can(&big, &CHIP), Offload::ChecksumOnly);
    assert_eq!(e1000::can(&Request { len: 65_536, ..big }, &CHIP), Offload::All);
}

#[test]
fn the_least_mss_of_ibmveth_is_224() {
    let caps = ibmveth::Caps { checksum: [true; 2], large: [true, false] };
    let can = |h: Headers, todo| ask(h, todo, |r| ibmveth::can(r, &caps));
    assert_eq!(can(V4, large(&V4, 223)), Offload::ChecksumOnly);
    assert_eq!(can(V4, large(&V4, 224)), Offload::All);
    // One segment is as good as two.
    assert_eq!(can(V4, large(&V4, 9000)), Offload::All);
    let v6 = headers(Ip::V6, Transport::Tcp);
    assert_eq!(
        (can(v6, checksum(&v6)), can(v6, large(&v6, 224))),
        (Offload::All, Offload::ChecksumOnly)
    );
    for h in [extended(), headers(Ip::V4, Transport::Udp), tunnel(4789)] {
        assert_eq!(can(h, checksum(&h)), Offload::None);
        assert_eq!(can(h, large(&h, 1000)), Offload::None);
    }
    let off = ibmveth::Caps { checksum: [false, true], ..caps };
    assert_eq!(ask(V4, checksum(&V4), |r| ibmveth::can(r, &off)), Offload::None);
}

#[test]
fn large_sends_of_ibmvnic_have_two_segments_of_224() {
    let caps = ibmvnic::Caps { on: [true; 8], max_large: 65_536, frame: 1514 };
    let can = |h: Headers, todo| ask(h, todo, |r| ibmvnic::can(r, &caps));
    let udp = headers(Ip::V6, Transport::Udp);
    assert_eq!(can(udp, checksum(&udp)), Offload::All);
    assert_eq!(can(udp, large(&udp, 1000)), Offload::ChecksumOnly);
    assert_eq!(can(V4, large(&V4, 223)), Offload::ChecksumOnly);
    assert_eq!(can(V4, large(&V4, 224)), Offload::All);
    // 1460 and 54 bytes of headers fill a frame.
    assert_eq!(can(V4, large(&V4, 1460)), Offload::All);
    assert_eq!(can(V4, large(&V4, 1461)), Offload::ChecksumOnly);
    let jumbo = ibmvnic::Caps { frame: 9014, ..caps };
    let jumbo = |size| ask(V4, large(&V4, size), |r| ibmvnic::can(r, &jumbo));
    assert_eq!((jumbo(2945), jumbo(2946)), (Offload::All, Offload::ChecksumOnly));
    let only_large =
        ibmvnic::Caps { on: [false, false, false, false, false, false, true, true], ..caps };
    assert_eq!(ask(V4, checksum(&V4), |r| ibmvnic::can(r, &only_large)), Offload::None);
    assert_eq!(ask(V4, large(&V4, 1000), |r| ibmvnic::can(r, &only_large)), Offload::All);
    assert_eq!(ask(V4, large(&V4, 100), |r| ibmvnic::can(r, &only_large)), Offload::None);
}

#[test]
fn mlx5_sees_through_vxlan_on_one_port() {
    let caps = mlx5::Caps { log_max_lso: 11, csum: true, swp: true, ..mlx5::Caps::default() };
    let can = |h: Headers, todo| ask(h, todo, |r| mlx5::can(r, &caps));
    for (port, expected) in [(4789, Offload::All), (6081, Offload::All), (8472, Offload::None)] {
        let h = tunnel(port);
        assert_eq!(can(h, checksum(&h)), expected, "{port}");
        let large = can(h, large(&h, 1000));
        assert_eq!(large == Offload::ChecksumOnly, expected == Offload::All);
    }
    let no_parser = mlx5::Caps { swp: false, ..caps };
    let h = tunnel(6081);
    assert_eq!(ask(h, checksum(&h), |r| mlx5::can(r, &no_parser)), Offload::None);
    // With an inner tag VXLAN's inner header is elsewhere.
    let mut h = tunnel(4789);
    h.inner = h.inner.map(|(t, l)| (t, Layers { l3: l.l3 + 4, l4: l.l4 + 4, ..l }));
    assert_eq!(can(h, checksum(&h)), Offload::None);
    for tunnel_kind in [Tunnel::Ip, Tunnel::Gre { checksum: true, sequence: false }] {
        let h = Headers { inner: Some((tunnel_kind, tunnel(1).inner.unwrap().1)), ..tunnel(1) };
        assert_eq!(can(h, checksum(&h)), Offload::All);
        let h = Headers { inner_untagged: false, ..h };
        assert_eq!(can(h, checksum(&h)), Offload::None);
    }
    assert_eq!(can(extended(), checksum(&extended())), Offload::None);
    // 2^11 bytes of payload.
    let todo = large(&V4, 1000);
    for (len, expected) in [(54 + 2048, Offload::All), (54 + 2049, Offload::ChecksumOnly)] {
        assert_eq!(mlx5::can(&Request { headers: Some(V4), todo: &todo, len }, &caps), expected);
    }
}

#[test]
fn a_request_that_does_not_fit_is_for_software() {
    let wrong = OffloadRequest {
        gso: Some(Gso { kind: GsoKind::Tcp6, size: 1000, header: 54 }),
        ..checksum(&V4)
    };
    let vnic = ibmvnic::Caps { on: [true; 8], max_large: 65_536, frame: 1514 };
    let veth = ibmveth::Caps { checksum: [true; 2], large: [true; 2] };
    let connectx = mlx5::Caps { log_max_lso: 18, csum: true, swp: true, ..mlx5::Caps::default() };
    assert_eq!(ask(V4, wrong, |r| e1000::can(r, &CHIP)), Offload::ChecksumOnly);
    assert_eq!(ask(V4, wrong, |r| ibmveth::can(r, &veth)), Offload::None);
    assert_eq!(ask(V4, wrong, |r| ibmvnic::can(r, &vnic)), Offload::None);
    assert_eq!(ask(V4, wrong, |r| mlx5::can(r, &connectx)), Offload::None);
    // Unknown headers: only a range can be summed.
    let todo = checksum(&V4);
    let unknown = Request { headers: None, todo: &todo, len: 1000 };
    assert_eq!(e1000::can(&unknown, &CHIP), Offload::All);
    assert_eq!(mlx5::can(&unknown, &connectx), Offload::None);
    // A tag to be inserted is a second one.
    let two = OffloadRequest { vlan: Some(1), ..checksum(&V4) };
    let h = tagged(V4, 0x8100);
    let two = OffloadRequest { checksum: h.outer.partial(), ..two };
    assert_eq!(ask(h, two, |r| ibmvnic::can(r, &vnic)), Offload::None);
}
