//! The e1000 driver on our own 82540EM, 82544GC and 82545EM: the bodies that QEMU's
//! models judge too.

use doorbell_conformance::e1000::{self as body, model};
use doorbell_drivers::e1000::{Bus, Config, Errata};

doorbell_conformance::e1000_bodies!(model::on_each);

/// The device has the errata, so that the workarounds are needed here as in life.
#[test]
#[should_panic(expected = "sent, and not done")]
fn a_driver_without_the_workarounds_of_pcix_hangs() {
    model::on_each(|h, a, c| {
        if c.bus == Bus::PciX {
            body::large_send(h, a, &Config { errata: Errata::NONE, ..*c });
        }
    });
}
