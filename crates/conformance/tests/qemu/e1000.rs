//! The e1000 driver on QEMU's 82540EM, 82544GC, 82545EM and 82574L.
//!
//! QEMU's models were written by others, so they judge driver and cases alike.
//! Needs QEMU and its qtest accelerator: DOORBELL_FULL=1.

use doorbell_conformance::e1000::{Backend, Capability, MAC};
use doorbell_conformance::{Unsupported, full};
use doorbell_drivers::e1000::{Bus, Config, Part};
use doorbell_hal::{Host, Span, Time};
use doorbell_testkit::qtest::{Backing, Pc, QtestHost, Wire};
use std::time::Duration;

const NICS: [(&str, Part); 4] = [
    ("e1000", Part::I82540),
    ("e1000-82544gc", Part::I82544),
    ("e1000-82545em", Part::I82545),
    ("e1000e", Part::I82574),
];

struct Qemu {
    wire: Wire,
    part: Part,
}

const ITR: (Capability, &str) =
    (Capability::ItrExact, "QEMU keeps 128 us between interrupts, whatever ITR says");
const RESET: (Capability, &str) =
    (Capability::Reset, "QEMU 7.2 clears CTRL.RST and resets nothing, and ignores the I/O ports");
/// Capabilities that the models of the 8254x lack.
const OLDER: Unsupported<Capability> = &[
    (Capability::RxChecksum, "QEMU sets IXSM in every receive descriptor"),
    ITR,
    (Capability::DelayTimers, "QEMU has TADV alone"),
    RESET,
    (Capability::TsoExact, "QEMU sends the headers once more after a payload of whole segments"),
];
/// Capabilities that the model of the 82574 lacks.
const NEWER: Unsupported<Capability> = &[
    ITR,
    (Capability::DelayTimers, "QEMU keeps 128 us between interrupts, whatever RDTR says"),
    RESET,
    (Capability::Tso, "QEMU 7.2 writes wrong lengths into the headers of segments"),
    (Capability::AutoMask, "QEMU clears ICR before it looks whether IAM is to be applied"),
    (Capability::OctetsWithFcs, "QEMU counts octets without FCS"),
];

impl Backend<QtestHost> for Qemu {
    fn inject(&mut self, h: &mut QtestHost, frame: &[u8]) {
        self.wire.send(frame).unwrap();
        h.settle();
    }
    fn collect(&mut self, h: &mut QtestHost) -> Option<Vec<u8>> {
        h.settle();
        self.wire.receive(Duration::ZERO).unwrap()
    }
    fn wait(&mut self, h: &mut QtestHost, span: Span) {
        h.step(span);
    }
    fn rose(&mut self, h: &mut QtestHost) -> Option<Time> {
        // The line has no clock: it is looked at every 4 us, and an interrupt is seen in one.
        h.interrupt_pending().then(|| h.now())
    }
    fn slack(&self) -> Span {
        Span::from_us(8)
    }
    fn settling(&self) -> Span {
        // It holds reception for a second after RCTL is written, and negotiates for half of one.
        Span::from_ms(1100)
    }
    fn unsupported(&self) -> Unsupported<Capability> {
        if self.part.is_82574() { NEWER } else { OLDER }
    }
}

/// Runs `f` on each part, with the copy of small frames and without.
fn on_each(f: impl Fn(&mut QtestHost, &mut Qemu, &Config)) {
    if !full("QEMU and the qtest accelerator") {
        return;
    }
    for (nic, part) in NICS {
        for copy_align in [false, true] {
            println!("{nic}, copy_align {copy_align}");
            let mut arm = Qemu { wire: Wire::new().unwrap(), part };
            let mac = MAC.map(|b| format!("{b:02x}")).join(":");
            let pc =
                Pc { nic: &format!("{nic},mac={mac}"), wire: &arm.wire, backing: Backing::Mapped };
            let mut h = pc.start().unwrap();
            let bus = if part.is_82574() { Bus::Express } else { Bus::Pci };
            let c = Config { copy_align, io: None, ..Config::new(part, bus) };
            f(&mut h, &mut arm, &c);
            let balance = h.finish().unwrap();
            assert!(balance.is_even(), "{balance:?}");
        }
    }
}

doorbell_conformance::e1000_cases!(on_each);
