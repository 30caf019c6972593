//! TAP devices, namespaces and the capture socket against the kernel.
//!
//! What `segmentation_kernel.rs` leaves open: frames that the kernel hands *to* a TAP
//! with work left undone, and the cleaning up. Needs root, /dev/net/tun, iproute2
//! and Linux 6.2.

use doorbell_conformance::full;
use doorbell_host_io::netns::NetNs;
use doorbell_host_io::tap::{Tap, VnetHeader, offload};
use doorbell_packet::CsumPartial;
use doorbell_packet::checksum::Sum;
use doorbell_packet::headers::{Check, verify};
use doorbell_packet::segment::prepare_gso;
use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const ALL: u32 = offload::CSUM
    | offload::TSO4
    | offload::TSO6
    | offload::TSO_ECN
    | offload::USO4
    | offload::USO6;

fn namespace() -> Option<NetNs> {
    if !full("root, for a network namespace") {
        return None;
    }
    let ns = NetNs::new("doorbell-tap").expect("a network namespace");
    ns.within(|| std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"))
        .and_then(|written| written)
        .expect("IPv6 off");
    Some(ns)
}

fn tap(ns: &NetNs, name: &str, offloads: u32) -> Tap {
    let tap =
        ns.within(|| Tap::open(name, offloads)).expect("into the namespace").expect("a TAP device");
    tap.set_nonblocking(true).expect("nonblocking");
    tap
}

/// The next frame that `wanted` wants, within two seconds.
fn next(tap: &Tap, wanted: impl Fn(&[u8]) -> bool) -> Option<(VnetHeader, Vec<u8>)> {
    let until = Instant::now() + Duration::from_secs(2);
    let mut frame = vec![0; 0x1_0100];
    while Instant::now() < until {
        match tap.receive(&mut frame) {
            Ok((header, n)) if wanted(&frame[..n]) => {
                frame.truncate(n);
                return Some((header, frame));
            }
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(e) => panic!("reading the TAP: {e}"),
        }
    }
    None
}

/// A large send of UDP over IPv4 from 10.9.0.1, 3 segments of 500 bytes, in a sender's form.
fn large_send() -> (VnetHeader, Vec<u8>) {
    let mut f =
        [&[0x02, 0xdb, 0, 0, 0, 2, 0x02, 0xdb, 0, 0, 0, 1, 8, 0][..], &[0x45, 0, 0x05, 0xf8]]
            .concat();
    f.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
    let check = Sum::of(&f[14..]).checksum();
    f[24..26].copy_from_slice(&check.to_be_bytes());
    f.extend([0x30, 0x39, 0x30, 0x3a, 0x05, 0xe4, 0, 0]);
    f.extend((0..1500).map(|i| (i % 253) as u8));
    // Any checksum will do to begin with, but none at all is not one.
    f[40] = 1;
    let todo = prepare_gso(&mut f, 500).expect("UDP");
    let (c, g) = (todo.checksum.expect("a checksum"), todo.gso.expect("a large send"));
    let header = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: VnetHeader::GSO_UDP_L4,
        hdr_len: g.header.into(),
        gso_size: g.size.into(),
        csum_start: c.start.into(),
        csum_offset: c.offset.into(),
    };
    (header, f)
}

/// Two TAP devices with a bridge between them.
fn bridged(ns: &NetNs) -> (Tap, Tap) {
    let (a, b) = (tap(ns, "a%d", 0), tap(ns, "b%d", ALL));
    assert_eq!((a.name(), b.name()), ("a0", "b0"));
    for line in [
        "ip link add br0 type bridge stp_state 0 mcast_snooping 0",
        "ip link set a0 master br0 up",
        "ip link set b0 master br0 up",
        "ip link set br0 up",
    ] {
        ns.run(line).expect(line);
    }
    (a, b)
}

/// Sends a frame over the bridge. Returns it as it comes out.
fn forwarded((a, b): (&Tap, &Tap), header: &VnetHeader, frame: &[u8]) -> (VnetHeader, Vec<u8>) {
    // Until the bridge has carrier, frames are lost.
    for _ in 0..15 {
        a.send(header, frame).expect("the kernel takes it");
        if let Some(got) = next(b, |f| f[..12] == frame[..12]) {
            return got;
        }
    }
    panic!("a frame of {} bytes is not forwarded", frame.len());
}

#[test]
fn frames_of_any_length_cross_the_kernel_unchanged() {
    let Some(ns) = namespace() else { return };
    let (a, b) = bridged(&ns);
    // Those of up to 256 bytes are written in one piece.
    for (n, len) in [60, 255, 256, 257, 1514].into_iter().enumerate() {
        let mut frame = vec![0x02, 0xdb, 0, 0, 0, 2, 0x02, 0xdb, 0, 0, 1, n as u8, 0x88, 0xb5];
        frame.extend((frame.len()..len).map(|i| (i % 251) as u8));
        let (header, bytes) = forwarded((&a, &b), &VnetHeader::default(), &frame);
        assert_eq!((header.flags, header.gso_type), (0, VnetHeader::GSO_NONE));
        assert_eq!(bytes, frame, "{len}");
    }
}

#[test]
fn a_large_send_crosses_the_kernel_uncut_when_the_reader_takes_it() {
    let Some(ns) = namespace() else { return };
    let (a, b) = bridged(&ns);
    let (header, frame) = large_send();
    let (mut seen, bytes) = forwarded((&a, &b), &header, &frame);
    // The kernel says how much is linear, not how long the headers are.
    seen.hdr_len = header.hdr_len;
    assert_eq!(seen, header);
    assert_eq!(bytes, frame);
}

/// The kernel sends a datagram to a TAP that takes checksums; we complete it, turn
/// it round (which keeps a sum), and give it back to be checked and delivered.
#[test]
fn a_checksum_that_the_kernel_left_is_completed_to_its_satisfaction() {
    let Some(ns) = namespace() else { return };
    let tap = tap(&ns, "tap0", ALL);
    for line in [
        "ip link set tap0 address 02:db:00:00:00:01 up",
        "ip addr add 10.9.0.1/24 dev tap0",
        "ip neigh add 10.9.0.2 lladdr 02:db:00:00:00:02 dev tap0",
    ] {
        ns.run(line).expect(line);
    }
    let socket = ns
        .within(|| UdpSocket::bind("10.9.0.1:5000"))
        .expect("into the namespace")
        .expect("a socket");
    socket.connect("10.9.0.2:6000").expect("a destination");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    for (round, len) in [0usize, 1, 17, 200, 1472].into_iter().enumerate() {
        let sent: Vec<u8> = (0..len).map(|i| (i * 31 + round) as u8).collect();
        socket.send(&sent).expect("sent");
        let (header, mut frame) = next(&tap, |f| f.get(23) == Some(&17)).expect("on the TAP");
        assert_eq!(header.flags, VnetHeader::NEEDS_CSUM);
        assert_eq!(
            verify(&frame).transport,
            Check::Bad,
            "only the pseudo-header's sum is there yet"
        );
        let partial =
            CsumPartial { start: header.csum_start.get(), offset: header.csum_offset.get() };
        partial.complete(&mut frame).expect("inside the frame");
        assert_eq!(verify(&frame).transport, Check::Good);
        for (a, b, n) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
            let (x, y) = frame.split_at_mut(b);
            x[a..a + n].swap_with_slice(&mut y[..n]);
        }
        let mut got = [0; 2000];
        // With a bit wrong the kernel drops it, so the check is not idle.
        frame[40] ^= 1;
        tap.send(&VnetHeader::default(), &frame).expect("taken");
        assert!(socket.recv(&mut got).is_err(), "a wrong checksum is not delivered");
        frame[40] ^= 1;
        tap.send(&VnetHeader::default(), &frame).expect("taken");
        let n = socket.recv(&mut got).expect("delivered");
        assert_eq!(got[..n], sent);
    }
}

#[test]
fn a_namespace_is_gone_when_its_owner_panics() {
    let Some(ns) = namespace() else { return };
    let path = format!("/run/netns/{}", ns.name());
    assert!(std::path::Path::new(&path).exists());
    assert!(ns.run("ip link show no-such-device").is_err());
    let panicked = std::thread::spawn(move || {
        ns.within(|| panic!("as a failing test would")).expect("into the namespace");
    });
    assert!(panicked.join().is_err());
    assert!(!std::path::Path::new(&path).exists());
}
