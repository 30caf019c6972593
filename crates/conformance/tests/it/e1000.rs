//! The e1000 driver on our own 82540EM, 82544GC, 82545EM and 82574L: the cases of QEMU's
//! models.

use doorbell_conformance::e1000::{self as cases, Backend, model};
use doorbell_drivers::e1000::{Bus, Config, E1000, Errata};
use doorbell_drivers::{Driver, Tx};
use doorbell_hal::{Alignment, Host, Span};
use doorbell_packet::{Fragment, OffloadRequest, Packet};

doorbell_conformance::e1000_cases!(model::on_each);

mod express {
    use super::model;
    doorbell_conformance::e1000_cases!(model::on_express);
}

/// The device has the errata, so that the workarounds are needed here as in life.
#[test]
#[should_panic(expected = "sent, and not done")]
fn a_driver_without_the_workarounds_of_pcix_hangs() {
    model::on_each(|h, a, c| {
        if c.bus == Bus::PciX {
            cases::large_send(h, a, &Config { errata: Errata::NONE, ..*c });
        }
    });
}

/// Whatever was under way: the card is not heard of again, and no access is refused, since none is
/// made.
#[test]
fn no_dma_after_the_driver_has_closed() {
    model::on_each(|h, a, c| {
        let mut nic = E1000::open(h, c).expect("a card");
        let settling = Backend::<model::System>::settling(a);
        h.delay(settling);
        Driver::<model::System>::work(&mut nic, h);
        for cookie in 0..8 {
            let head = Fragment::whole(h.buffer(1500, Alignment::ANY).expect("memory"));
            assert_eq!(
                nic.transmit(
                    h,
                    Packet { head, todo: OffloadRequest::NONE, more: None, cookie },
                    false
                ),
                Tx::Ok
            );
            a.inject(h, &[0xff; 600]);
        }
        let dma = |h: &model::System| {
            let l = h.ledger();
            (
                l.pci_read_bytes,
                l.pci_write_bytes,
                l.pcix_reads,
                l.pcix_writes,
                l.wire_frames,
                l.dma_faults,
            )
        };
        assert_ne!(dma(h).0, 0, "it was at work");
        nic.close(h);
        let before = dma(h);
        for _ in 0..8 {
            a.inject(h, &[0xff; 600]);
            a.wait(h, Span::from_ms(5));
        }
        h.catch_up();
        assert_eq!((dma(h), dma(h).5), (before, 0));
    });
}
