//! Frames in both directions.

use super::harness::{AT_ONCE, Harness};
use super::{Backend, Capability};
use crate::frames::{PEER, ip, plain};
use doorbell_drivers::axienet::{Checksum, Config};
use doorbell_drivers::{Driver, Tx};
use doorbell_hal::{Host, Span};
use doorbell_layout::axienet::{S2MM, dma, sr};
use doorbell_packet::headers::{self, Check, verify};
use doorbell_packet::{MAX_FRAGS, OffloadRequest, Packet};

fn padded<H: Host, A: Backend<H>>(a: &A, body: &str, mut frame: Vec<u8>) -> Vec<u8> {
    if frame.len() < 60 && a.has(body, Capability::Padding) {
        frame.resize(60, 0);
    }
    frame
}

/// Frames of all lengths, the ring several times round; the doorbell for each.
pub fn transmit<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let c = Config { tx_ring: 64, ..*c };
    let mut b = Harness::open(h, a, &c);
    let lengths: Vec<usize> =
        (60..200).chain([14, 40, 59, 511, 512, 513, 1000, 1513, 1514]).collect();
    for batch in lengths.chunks(5) {
        let frames: Vec<_> = batch.iter().map(|n| plain(PEER, *n)).collect();
        for (i, f) in frames.iter().enumerate() {
            let p = Packet { cookie: i as u32, ..b.packet(f, &[], OffloadRequest::NONE) };
            assert_eq!(b.nic.transmit(b.h, p, i + 1 < frames.len()), Tx::Ok);
        }
        let expected: Vec<_> = frames.into_iter().map(|f| padded(b.a, "transmit", f)).collect();
        assert_eq!(b.wire(), expected);
        let cookies: Vec<u32> = b.up.sent.iter().map(|s| s.1).collect();
        assert_eq!(cookies, (0..expected.len() as u32).collect::<Vec<_>>());
        assert_eq!(b.sent(), (expected.len(), expected.len()));
    }
    let lengths_in_status = b.a.has("transmit", Capability::TxStatusLength);
    let s = b.close();
    assert_eq!(
        (s.tx_packets, s.tx_tail, s.tx_errors),
        (lengths.len() as u64, lengths.len() as u64, 0)
    );
    assert_eq!(s.tx_bytes, lengths.iter().sum::<usize>() as u64);
    if lengths_in_status {
        assert_eq!(s.tx_status_bytes, s.tx_bytes);
    }
}

/// Packets in pieces: 7 fragments, and as many as a stack makes.
pub fn scatter<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, c);
    let seven: Vec<usize> = (1..8).map(|i| i * 60).collect();
    let most: Vec<usize> = (1..=MAX_FRAGS).map(|i| 14 + i * 3).collect();
    let cases: [(usize, &[usize]); 7] = [
        (1514, &[14]),
        (1514, &[54, 700]),
        (60, &[14, 20]),
        (1514, &[15, 16, 17, 18, 19]),
        (1000, &[999]),
        (464, &seven),
        (1514, &most),
    ];
    for (len, cuts) in cases {
        let f = plain(PEER, len);
        b.send(&f, cuts, OffloadRequest::NONE);
        assert_eq!(b.wire(), [f], "{len} {cuts:?}");
        assert_eq!(b.sent(), (cuts.len() + 1, 1));
    }
    b.close();
}

/// Returns true if the core is built with these checksums.
fn built<H: Host, A: Backend<H>>(a: &A, body: &str, kind: Checksum) -> bool {
    match kind {
        Checksum::None => true,
        Checksum::CsumPartial => a.has(body, Capability::PartialChecksum),
        Checksum::Full => a.has(body, Capability::FullChecksum),
    }
}

/// Checksums of TCP and UDP left to the device, or done by the CPU for one that has none.
pub fn checksum_offload<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    for (kind, device, cpu) in
        [(Checksum::CsumPartial, 16, 0), (Checksum::None, 0, 16), (Checksum::Full, 16, 0)]
    {
        if !built(a, "checksum_offload", kind) {
            continue;
        }
        let mut b = Harness::open(h, a, &Config { tx_checksum: kind, ..*c });
        for udp in [false, true] {
            for payload in [20, 33, 700, 1453] {
                let whole = ip(PEER, true, udp, payload);
                assert_eq!(verify(&whole).transport, Check::Good);
                let mut f = whole.clone();
                let checksum = headers::prepare_partial(&mut f);
                assert_ne!(f, whole);
                for cuts in [&[][..], &[54]] {
                    b.send(&f, cuts, OffloadRequest { checksum, ..OffloadRequest::NONE });
                    assert_eq!(
                        b.wire(),
                        std::slice::from_ref(&whole),
                        "{kind:?}, udp {udp}, {payload}"
                    );
                    b.sent();
                    // The words of one packet are not the next one's.
                    b.send(&whole, &[], OffloadRequest::NONE);
                    assert_eq!(b.wire(), std::slice::from_ref(&whole));
                    b.sent();
                }
            }
        }
        let s = b.close();
        assert_eq!((s.tx_csum, s.tx_csum_software), (device, cpu));
    }
}

/// Frames of all lengths, several times round the ring; several before a poll.
pub fn receive<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &Config { rx_ring: 40, ..*c });
    let mac = b.nic.mac();
    let lengths: Vec<usize> =
        (60..160).chain([254, 255, 256, 257, 512, 1000, 1513, 1514]).collect();
    for len in &lengths {
        let f = plain(mac, *len);
        let came = b.receive(&f);
        assert_eq!(came.len(), 1, "{len}");
        assert_eq!((&came[0].bytes, came[0].verified), (&f, false), "{len}");
    }
    assert_eq!(b.nic.stats().rx_packets, lengths.len() as u64);
    let frames: Vec<_> = (0..40).map(|i| plain(mac, 100 + i * 30)).collect();
    let mut came = Vec::new();
    for few in frames.chunks(8) {
        for f in few {
            b.a.inject(b.h, f);
        }
        b.run();
        came.extend(b.came().into_iter().map(|f| f.bytes));
    }
    assert_eq!(came, frames);
    let s = b.close();
    assert_eq!((s.rx_malformed, s.rx_errors), (0, 0));
}

/// The device reports received checksums.
pub fn receive_checksum<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    for kind in [Checksum::CsumPartial, Checksum::Full] {
        if !built(a, "receive_checksum", kind) {
            continue;
        }
        let mut b = Harness::open(h, a, &Config { rx_checksum: kind, ..*c });
        let mac = b.nic.mac();
        for udp in [false, true] {
            for payload in [0, 1, 6, 7, 300, 1453] {
                let mut f = ip(mac, true, udp, payload);
                f.resize(f.len().max(60), 0);
                assert!(b.receive(&f)[0].verified, "{kind:?}, udp {udp}, {payload}");
                f[36] ^= 1;
                assert!(!b.receive(&f)[0].verified, "{kind:?}, udp {udp}, {payload}, spoilt");
            }
        }
        assert!(!b.receive(&plain(mac, 100))[0].verified);
        let s = b.close();
        assert_eq!((s.rx_csum_good, s.rx_csum_bad), (12, 12));
    }
}

/// Long frames in one buffer, within the MAC's memory.
pub fn jumbo<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mtu = 9000.min(c.rx_memory - 22);
    let mut b = Harness::open(h, a, &Config { mtu, ..*c });
    let mac = b.nic.mac();
    for len in [1518, 1519, 1523, 3000, mtu as usize + 14] {
        let f = plain(mac, len);
        let came = b.receive(&f);
        assert_eq!(came.len(), 1, "{len}");
        assert_eq!(came[0].bytes, f, "{len}");
        let f = plain(PEER, len);
        b.send(&f, &[14, 1000], OffloadRequest::NONE);
        assert_eq!(b.wire(), [f], "{len}");
        b.sent();
    }
    b.close();
}

/// A frame longer than the MTU allows is not handed up, in whole or in parts, and the next
/// one is.
pub fn too_long<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &Config { rx_ring: 8, ..*c });
    let mac = b.nic.mac();
    for len in [1523, 2000, 3500] {
        for _ in 0..5 {
            assert_eq!(b.receive(&plain(mac, len)), [], "{len}");
            let f = plain(mac, 1514);
            let came = b.receive(&f);
            assert_eq!(came.len(), 1, "after {len}");
            assert_eq!(came[0].bytes, f);
        }
    }
    b.close();
}

/// Small rings many times round; the transmit queue filled until it stops, and woken by a
/// poll.
pub fn ring_wrap_and_stop<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    for tx_ring in [18, 32] {
        let c = Config { tx_ring, rx_ring: 5, ..*c };
        let mut b = Harness::open(h, a, &c);
        let (mut sent, mut stopped, mut seen) = (0u32, 0, Vec::new());
        while sent < 100 {
            if Driver::<H>::stopped(&b.nic) {
                stopped += 1;
                seen.extend(b.wire());
                assert!(!Driver::<H>::stopped(&b.nic), "a poll wakes it");
                b.sent();
            }
            let f = plain(PEER, 60 + sent as usize);
            let p = Packet { cookie: sent, ..b.packet(&f, &[30], OffloadRequest::NONE) };
            match b.nic.transmit(b.h, p, true) {
                Tx::Ok => sent += 1,
                Tx::Busy(p) | Tx::Dropped(p) => p.release(b.h),
            }
        }
        stopped += u64::from(Driver::<H>::stopped(&b.nic));
        seen.extend(b.wire());
        b.sent();
        let expected: Vec<_> = (0..100).map(|i| plain(PEER, 60 + i)).collect();
        assert_eq!(seen, expected, "in order, each once");
        assert!(stopped > 5);
        let mac = b.nic.mac();
        for i in 0..23 {
            let f = plain(mac, 60 + i);
            let came = b.receive(&f);
            assert_eq!(came.len(), 1);
            assert_eq!(came[0].bytes, f);
        }
        let s = b.close();
        assert_eq!((s.tx_stopped, s.tx_restart_queue), (stopped, stopped));
    }
}

/// More frames than descriptors: the device idles behind TAILDESC and the MAC keeps
/// the rest, until a poll has renewed descriptors; none is lost, and all are in order.
pub fn rx_exhaustion<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &Config { rx_ring: 4, coalesce: AT_ONCE, ..*c });
    let mac = b.nic.mac();
    let frames: Vec<_> = (0..7).map(|i| plain(mac, 70 + i)).collect();
    for (i, f) in frames.iter().enumerate() {
        assert_eq!(
            b.dma(S2MM, dma::SR) & sr::IDLE != 0,
            i >= 4,
            "idle after its last descriptor, before frame {i}"
        );
        b.a.inject(b.h, f);
    }
    assert_eq!(b.dma(S2MM, dma::SR) & (sr::IDLE | sr::HALTED), sr::IDLE, "idle is not halted");
    let mut came = Vec::new();
    for _ in 0..3 {
        b.run();
        b.a.wait(b.h, Span::from_us(20));
        came.extend(b.came().into_iter().map(|f| f.bytes));
    }
    b.run();
    came.extend(b.came().into_iter().map(|f| f.bytes));
    assert_eq!(came, frames);
    assert_eq!(b.dma(S2MM, dma::SR) & (sr::IDLE | sr::HALTED), 0, "TAILDESC ended the idling");
    b.close();
}
