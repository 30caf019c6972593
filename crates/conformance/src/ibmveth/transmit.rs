//! Transmission.

use super::Backend;
use super::harness::{Harness, small};
use crate::frames::{PEER, plain};
use doorbell_drivers::ibmveth::{Config, Transmit};
use doorbell_drivers::{Driver, Tx};
use doorbell_hal::Hypervisor;
use doorbell_packet::OffloadRequest;

/// Both ways of transmission.
const WAYS: [Transmit; 2] = [Transmit::Copy, Transmit::Map { copybreak: 128 }];

/// Linear frames of all lengths leave as they are.
pub fn transmit<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    for transmit in WAYS {
        let mut b = Harness::open(h, a, &Config { transmit, ..small(c) });
        let lengths = [14, 15, 60, 127, 128, 129, 1514, 4096, 9014, 65_535, 65_536];
        for len in lengths {
            let frame = plain(PEER, len);
            assert_eq!(
                b.send(&frame, &[], 0, OffloadRequest::NONE),
                [frame],
                "{len} bytes, {transmit:?}"
            );
            assert_eq!(b.sent(), (1, 1));
        }
        let s = b.close();
        assert_eq!((s.tx_packets, s.tx_descriptors), (11, 11));
        assert_eq!(s.tx_bytes, lengths.iter().sum::<usize>() as u64);
        assert_eq!(
            s.tx_copied,
            if transmit == Transmit::Copy { 11 } else { 4 },
            "and those below the copybreak"
        );
    }
}

/// Pieces are gathered in order: six of them as they are, more in one.
pub fn scatter<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    for transmit in WAYS {
        let mut b = Harness::open(h, a, &Config { transmit, ..small(c) });
        let frame = plain(PEER, 6000);
        for pieces in 1..=18 {
            let cuts: Vec<usize> = (1..pieces).map(|i| 14 + 331 * (i - 1)).collect();
            assert_eq!(
                b.send(&frame, &cuts, 0, OffloadRequest::NONE),
                std::slice::from_ref(&frame),
                "{pieces} pieces"
            );
            let whole = transmit == Transmit::Copy || pieces <= 6;
            assert_eq!(b.sent(), (if whole { pieces } else { 1 }, 1));
        }
        for listed in 1..4 {
            assert_eq!(
                b.send(&frame, &[100, 2000, 4000], listed, OffloadRequest::NONE),
                std::slice::from_ref(&frame)
            );
            b.sent();
        }
        let s = b.close();
        let mapped = transmit != Transmit::Copy;
        assert_eq!(s.tx_linearized, if mapped { 12 + 3 } else { 0 });
        assert_eq!(s.tx_descriptors, if mapped { 21 + 12 + 3 } else { 18 + 3 });
    }
}

/// Small frames do not need a mapping of their own: the copybreak is a matter of
/// linear packets.
pub fn bounce<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b =
        Harness::open(h, a, &Config { transmit: Transmit::Map { copybreak: 128 }, ..small(c) });
    let frame = plain(PEER, 127);
    b.send(&frame, &[], 0, OffloadRequest::NONE);
    assert_eq!(b.nic.stats().tx_copied, 1);
    assert_eq!(b.send(&frame, &[20], 0, OffloadRequest::NONE), [frame]);
    assert_eq!(b.nic.stats().tx_copied, 1);
    b.sent();
    b.close();
}

/// A frame longer than the mapped buffer is not sent, and comes back whole.
pub fn too_long<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &Config { transmit: Transmit::Copy, ..small(c) });
    let p = b.packet(&plain(PEER, 65_537), &[], 0, OffloadRequest::NONE);
    let Tx::Dropped(p) = b.nic.transmit(b.h, p, false) else { panic!("dropped") };
    assert_eq!(p.len(), 65_537);
    p.release(b.h);
    assert_eq!(b.wire(), Vec::<Vec<u8>>::new());
    assert_eq!(b.close().tx_dropped, 1);
}

/// A frame to the own address goes nowhere.
pub fn loopback<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &small(c));
    let p = b.packet(&plain(c.mac, 60), &[], 0, OffloadRequest::NONE);
    let Tx::Dropped(p) = b.nic.transmit(b.h, p, false) else { panic!("dropped") };
    p.release(b.h);
    assert_eq!(b.wire(), Vec::<Vec<u8>>::new());
    let s = b.close();
    assert_eq!((s.tx_loopback, s.tx_dropped, s.tx_packets), (1, 1, 0));
}
