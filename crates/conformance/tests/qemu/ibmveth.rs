//! The ibmveth driver on QEMU's `spapr-vlan`.
//!
//! QEMU's model was written by others, so it judges driver and cases alike. A guest
//! that makes the driver's hypervisor calls runs under TCG. Needs QEMU for POWER:
//! DOORBELL_FULL=1.

use doorbell_conformance::ibmveth::{self as cases, Backend, Capability};
use doorbell_conformance::{Unsupported, full};
use doorbell_drivers::ibmveth::Config;
use doorbell_testkit::qtest::{Pseries, PseriesHost, Wire};
use std::sync::Mutex;
use std::time::Duration;

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];

/// The guest of each machine keeps a core busy; more than one at a time helps nobody.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Qemu {
    wire: Wire,
}

impl Backend<PseriesHost> for Qemu {
    fn inject(&mut self, h: &mut PseriesHost, frame: &[u8]) {
        self.wire.send(frame).unwrap();
        h.settle();
    }
    fn collect(&mut self, h: &mut PseriesHost) -> Option<Vec<u8>> {
        h.settle();
        self.wire.receive(Duration::ZERO).unwrap()
    }
    fn interrupt(&mut self, h: &mut PseriesHost) -> bool {
        h.take_interrupt()
    }
    fn unsupported(&self) -> Unsupported<Capability> {
        &[
            (
                Capability::Attributes,
                "QEMU has no H_ILLAN_ATTRIBUTES, so neither checksum nor large send nor trunk",
            ),
            (
                Capability::BufferListEnds,
                "QEMU keeps buffers in pools by size, and not in the page",
            ),
            (
                Capability::Loses,
                "QEMU counts a frame that fits no buffer, and retries it before all others",
            ),
            (Capability::Filter, "QEMU receives all frames"),
            (
                Capability::Trunk,
                "QEMU has one partition, and no attributes to say that it is a trunk",
            ),
            (Capability::Busy, "QEMU copies at once, and is never busy"),
        ]
    }
}

/// Runs `f`; all that was taken comes back.
fn on(f: impl Fn(&mut PseriesHost, &mut Qemu, &Config)) {
    if !full("QEMU for POWER") {
        return;
    }
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let mut arm = Qemu { wire: Wire::new().unwrap() };
    let mut h = Pseries { mac: "52:54:00:12:34:56", wire: &arm.wire }.start().unwrap();
    f(&mut h, &mut arm, &Config::new(Pseries::UNIT, MAC));
    let balance = h.finish().unwrap();
    assert!(balance.is_even(), "{balance:?}");
}

macro_rules! cases {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            on(cases::$name);
        })*
    };
}

cases! {
    transmit scatter bounce too_long loopback
    negotiation software_offloads
    receive toggle pools_by_size copybreak no_buffer default_pools interrupts mtu reopen
    mac_and_filter codes left_open translation
    busy trunk
}
