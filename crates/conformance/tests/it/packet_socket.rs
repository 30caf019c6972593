//! Raw sockets with virtio-net headers, and the count of frames that are too long, on a kernel's
//! interfaces.

use doorbell_conformance::full;
use doorbell_host_io::netns::NetNs;
use doorbell_host_io::packet_socket::{Oversize, PacketSocket};
use doorbell_host_io::tap::{Tap, VnetHeader, offload};
use doorbell_packet::checksum::Sum;
use std::time::{Duration, Instant};

const NEEDS: &str = "root, for a network namespace";
/// IEEE's local experimental type: no stack wants it.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// A namespace with a TAP device that takes large sends, and no IPv6 that would send by itself.
fn tap() -> (Tap, NetNs) {
    let ns = NetNs::new("doorbell-raw").expect("a network namespace");
    ns.within(|| std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"))
        .unwrap()
        .expect("IPv6 off");
    let offloads = offload::CSUM | offload::TSO4 | offload::TSO6;
    let tap = ns.within(|| Tap::open("tap0", offloads)).unwrap().expect("a TAP device");
    tap.set_nonblocking(true).unwrap();
    ns.run("ip link set tap0 txqueuelen 1000 up").expect("up");
    (tap, ns)
}

fn frame(n: u32, len: usize) -> Vec<u8> {
    let mut f = vec![0; len];
    f[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    f[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 8]);
    f[12..14].copy_from_slice(&ETHERTYPE);
    f[14..18].copy_from_slice(&n.to_be_bytes());
    f
}

/// A large send of TCP, whose checksum nobody has made.
fn large(payload: usize) -> (VnetHeader, Vec<u8>) {
    let mut f = frame(0, 54 + payload);
    f[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    f[16..18].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
    f[22..24].copy_from_slice(&[64, 6]);
    f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = Sum::of(&f[14..34]).checksum();
    f[24..26].copy_from_slice(&sum.to_be_bytes());
    (f[46], f[47]) = (0x50, 0x10);
    let h = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: VnetHeader::GSO_TCPV4,
        hdr_len: 54.into(),
        gso_size: 1448.into(),
        csum_start: 34.into(),
        csum_offset: 16.into(),
    };
    (h, f)
}

/// The next frame whose first address is ours.
fn next(
    mut receive: impl FnMut(&mut [u8]) -> std::io::Result<(VnetHeader, usize)>,
) -> (VnetHeader, Vec<u8>) {
    let until = Instant::now() + Duration::from_secs(60);
    let mut f = vec![0; 70_000];
    loop {
        match receive(&mut f) {
            Ok((h, n)) if f[..6] == [2, 0, 0, 0, 0, 9] => return (h, f[..n].to_vec()),
            Ok(_) => {}
            Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::WouldBlock, "{e}"),
        }
        assert!(Instant::now() < until, "no frame");
    }
}

#[test]
fn many_frames_go_out_in_order_and_a_large_one_keeps_its_header() {
    if !full(NEEDS) {
        return;
    }
    let (tap, ns) = tap();
    let socket = ns.within(|| PacketSocket::open("tap0")).unwrap().expect("a socket");
    let frames: Vec<Vec<u8>> = (0..200).map(|n| frame(n, 60 + n as usize)).collect();
    let refused =
        socket.send(frames.iter().map(|f| (VnetHeader::default(), &f[..]))).expect("sent");
    assert_eq!(refused, 0);
    for f in &frames {
        assert_eq!(next(|b| tap.receive(b)), (VnetHeader::default(), f.clone()));
    }
    let (header, f) = large(30_000);
    // In the middle one that the kernel refuses: longer than the MTU, and not said to be large.
    let long = frame(1, 9000);
    let three = [
        (VnetHeader::default(), &frames[0][..]),
        (VnetHeader::default(), &long[..]),
        (header, &f[..]),
    ];
    assert_eq!(socket.send(three).expect("sent"), 1);
    assert_eq!(next(|b| tap.receive(b)).1, frames[0]);
    let (h, got) = next(|b| tap.receive(b));
    assert_eq!(
        (h.flags, h.gso_type, h.gso_size, h.csum_start),
        (header.flags, header.gso_type, header.gso_size, header.csum_start)
    );
    assert!(got == f);
}

#[test]
fn what_the_other_end_writes_is_received_with_its_header_and_ones_own_is_not() {
    if !full(NEEDS) {
        return;
    }
    let (tap, ns) = tap();
    let socket = ns.within(|| PacketSocket::open("tap0")).unwrap().expect("a socket");
    let own = frame(7, 100);
    assert_eq!(socket.send([(VnetHeader::default(), &own[..])]).unwrap(), 0);
    let (header, f) = large(20_000);
    tap.send(&header, &f).expect("the kernel takes it");
    let (h, got) = next(|b| socket.receive(b));
    assert_eq!(
        (h.gso_type, h.gso_size, h.csum_offset),
        (header.gso_type, header.gso_size, header.csum_offset)
    );
    assert!(got == f);
    tap.send(&VnetHeader::default(), &frame(1, 2000)).expect("the kernel takes it");
    let mut small = [0; 100];
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match socket.receive(&mut small) {
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => break,
            Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::WouldBlock, "{e}"),
            Ok(_) => {}
        }
        assert!(Instant::now() < until, "a frame that does not fit is told");
    }
}

#[test]
fn frames_that_leave_and_are_too_long_are_counted_after_segmentation() {
    if !full(NEEDS) {
        return;
    }
    let (tap, ns) = tap();
    ns.run("ip link set tap0 mtu 9000").expect("an MTU");
    let socket = ns.within(|| PacketSocket::open("tap0")).unwrap().expect("a socket");
    drop(socket);
    let mut over = ns.within(|| Oversize::open("tap0", 1514)).unwrap().expect("a count");
    // A veth whose segmentation is the kernel's, behind a bridge, as in `segmentation_kernel`.
    for line in [
        "ip link add br0 type bridge stp_state 0 mcast_snooping 0",
        "ip link add v0 type veth peer name v1",
        "ethtool -K v0 tso off tx off",
        "ip link set tap0 master br0",
        "ip link set v0 master br0",
    ] {
        ns.run(line).expect(line);
    }
    for interface in ["v0", "v1", "br0"] {
        ns.run(&format!("ip link set {interface} mtu 9000 up")).expect(interface);
    }
    let mut leaving = ns.within(|| Oversize::open("v0", 1514)).unwrap().expect("a count");
    let mut whole = ns.within(|| Oversize::open("v0", 0)).unwrap().expect("a count");
    let until = Instant::now() + Duration::from_secs(60);
    while whole.count().unwrap() == 0 {
        tap.send(&VnetHeader::default(), &frame(0, 60)).expect("the kernel takes it");
        assert!(Instant::now() < until, "the bridge forwards nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The bridge may hand a frame on a little later.
    let settled = |of: &mut Oversize, before: u64, least: u64| {
        let until = Instant::now() + Duration::from_secs(60);
        while of.count().unwrap() < before + least && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        of.count().unwrap() - before
    };
    let before = whole.count().unwrap();
    let (header, f) = large(14_480);
    tap.send(&header, &f).expect("the kernel takes it");
    assert_eq!(settled(&mut whole, before, 10), 10, "ten segments");
    assert_eq!(leaving.count().unwrap(), 0, "none too long");
    for n in 0..3 {
        tap.send(&VnetHeader::default(), &frame(n, 1515)).expect("the kernel takes it");
    }
    assert_eq!(settled(&mut leaving, 0, 3), 3);
    assert_eq!(over.count().unwrap(), 0, "what arrives does not leave");
}

#[test]
fn namespaces_of_a_process_that_is_no_more_are_swept() {
    if !full(NEEDS) {
        return;
    }
    let ns = NetNs::new("doorbell-swept").expect("a network namespace");
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let abandoned = format!("doorbell-swept-{}-0", gone.id());
    let ip = |what: &str, name: &str| {
        std::process::Command::new("ip").args(["netns", what, name]).status().unwrap()
    };
    assert!(ip("add", &abandoned).success());
    assert_eq!(NetNs::sweep("doorbell-swept"), 1);
    let there = |name: &str| std::path::Path::new("/run/netns").join(name).exists();
    assert!(!there(&abandoned) && there(ns.name()));
}
