//! Negotiation, and what is done without it.

use super::harness::{Harness, small};
use super::{Backend, Capability};
use crate::frames::{PEER, ip};
use doorbell_drivers::ibmveth::{Config, LargeSend, Negotiated, Transmit};
use doorbell_hal::Hypervisor;
use doorbell_packet::headers::{Check, verify};
use doorbell_packet::segment::prepare_gso;

/// An adapter without attributes agrees to nothing, and does all the same.
pub fn negotiation<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &Config { illan: true, ..small(c) });
    if b.a.has("negotiation", Capability::Attributes) {
        assert!(b.nic.negotiated().ipv4_checksum && b.nic.negotiated().tso(true));
        let n = b.nic.set_offloads(b.h, false, LargeSend::Off).unwrap();
        assert!(!n.ipv4_checksum && !n.ipv6_checksum && !n.large_send && !n.old_large_send);
        let n = b.nic.set_offloads(b.h, true, LargeSend::Old).unwrap();
        assert!(n.ipv4_checksum && n.old_large_send && !n.tso(false));
    } else {
        assert_eq!(*b.nic.negotiated(), Negotiated::default());
    }
    b.close();
}

/// Checksums are completed and large sends cut where the adapter has not agreed to do so.
pub fn software_offloads<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    for transmit in [Transmit::Copy, Transmit::Map { copybreak: 128 }] {
        let mut b = Harness::open(h, a, &Config { illan: false, transmit, ..small(c) });
        for (v4, udp) in [(true, false), (false, false), (true, true), (false, true)] {
            let whole = ip(PEER, v4, udp, 1000);
            let mut frame = whole.clone();
            let todo = prepare_gso(&mut frame, 1400).unwrap();
            assert!(todo.gso.is_none());
            assert_eq!(b.send(&frame, &[80, 300], 0, todo), [whole]);

            let mut frame = ip(PEER, v4, udp, 5000);
            let todo = prepare_gso(&mut frame, 1400).unwrap();
            assert!(todo.gso.is_some());
            for (cuts, listed) in [(&[80, 300][..], 0), (&[80, 300, 2000], 2)] {
                let wire = b.send(&frame, cuts, listed, todo);
                let payload: usize =
                    wire.iter().map(|f| f.len() - usize::from(todo.gso.unwrap().header)).sum();
                assert_eq!((wire.len(), payload), (4, 5000));
                for f in &wire {
                    let v = verify(f);
                    assert_eq!(v.transport, Check::Good);
                    assert_ne!(v.ip, Check::Bad);
                }
                // The cut ones' buffers are released, the last's comes back.
                assert!(b.sent().1 >= 1);
            }
        }
        let s = b.close();
        assert_eq!(
            (s.tx_segmented, s.tx_segments, s.tx_csum_software, s.tx_large_packets),
            (8, 32, 4, 0)
        );
    }
}
