//! Cases on a LAN with other adapters: a trunk, and a busy hypervisor.

use super::harness::{Harness, small};
use super::{Backend, Capability};
use crate::frames::{PEER, ip, plain};
use doorbell_drivers::ibmveth::{Config, Transmit};
use doorbell_hal::Hypervisor;
use doorbell_packet::OffloadRequest;
use doorbell_packet::headers::{Check, verify};
use doorbell_packet::segment::prepare_gso;

/// A station that no partition has.
const OUTSIDE: [u8; 6] = [0x02, 0, 0, 0, 0, 0x77];

/// A hypervisor that cannot copy a frame at once says so; the driver comes back with its
/// correlator, and the frame arrives once and whole.
pub fn busy<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    if !a.has("busy", Capability::Busy) {
        return;
    }
    for transmit in [Transmit::Copy, Transmit::Map { copybreak: 128 }] {
        let mut b = Harness::open(h, a, &Config { transmit, ..small(c) });
        for len in [60, 1514, 9014, 65_536] {
            let frame = plain(PEER, len);
            let before = b.nic.stats().tx_busy;
            assert_eq!(b.send(&frame, &[], 0, OffloadRequest::NONE), [frame]);
            assert_eq!(b.nic.stats().tx_busy > before, len > 60, "{len} bytes, {transmit:?}");
            assert_eq!(b.sent(), (1, 1));
        }
        let s = b.close();
        assert_eq!((s.tx_packets, s.tx_dropped, s.tx_send_failed), (4, 0, 0));
    }
}

/// A trunk receives what has no owner on the LAN, and sends for others: with checksums left out and
/// large, in which a fragment list is linearised.
pub fn trunk<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    if !a.has("trunk", Capability::Trunk) {
        return;
    }
    let mut b =
        Harness::open(h, a, &Config { transmit: Transmit::Map { copybreak: 128 }, ..small(c) });
    let n = *b.nic.negotiated();
    assert!(n.active_trunk && n.ipv4_checksum && n.ipv6_checksum && n.large_send);
    for to in [OUTSIDE, c.mac] {
        let frame = plain(to, 300);
        assert_eq!(b.receive(&frame), [frame], "a frame for {to:x?}");
    }
    for v4 in [true, false] {
        let from_outside = |payload: usize| {
            let mut f = ip(PEER, v4, false, payload);
            f[6..12].copy_from_slice(&OUTSIDE);
            f
        };
        // The neighbour has agreed to nothing: the hypervisor makes the checksum, and cuts.
        let whole = from_outside(1000);
        let mut frame = whole.clone();
        let todo = prepare_gso(&mut frame, 1400).unwrap();
        assert_eq!(b.send(&frame, &[], 0, todo), [whole]);
        b.sent();
        let mut frame = from_outside(5000);
        let todo = prepare_gso(&mut frame, 1400).unwrap();
        let wire = b.send(&frame, &[80, 300, 2000], 2, todo);
        let payload: usize =
            wire.iter().map(|f| f.len() - usize::from(todo.gso.unwrap().header)).sum();
        assert_eq!((wire.len(), payload), (4, 5000));
        assert!(
            wire.iter().all(|f| verify(f).transport == Check::Good && verify(f).ip != Check::Bad)
        );
        b.sent();
    }
    let s = b.close();
    assert_eq!((s.tx_csum, s.tx_csum_software, s.tx_large_packets), (4, 0, 2));
    assert_eq!((s.tx_linearized, s.tx_segmented), (2, 0));
}
