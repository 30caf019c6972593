//! The e1000 driver on QEMU's 82540EM, 82544GC and 82545EM.
//!
//! QEMU's models were written by others, so they judge driver and bodies alike.
//! Needs QEMU and its qtest accelerator: DOORBELL_FULL=1.

use doorbell_attach::qtest::{Backing, Pc, QtestHost, Wire};
use doorbell_conformance::e1000::{self as body, Arm, Fact, Lacks};
use doorbell_conformance::full;
use doorbell_drivers::e1000::{Bus, Config, Eeprom, Errata, Part};
use doorbell_seam::Span;
use std::time::Duration;

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
const NICS: [(&str, Part); 3] =
    [("e1000", Part::I82540), ("e1000-82544gc", Part::I82544), ("e1000-82545em", Part::I82545)];

struct Qemu {
    wire: Wire,
}

impl Arm<QtestHost> for Qemu {
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
    fn interrupt(&mut self, h: &mut QtestHost) -> bool {
        h.interrupt_pending()
    }
    fn settling(&self) -> Span {
        // It holds reception for a second after RCTL is written, and negotiates for half of one.
        Span::from_ms(1100)
    }
    fn lacks(&self) -> Lacks {
        &[
            (Fact::RxChecksum, "QEMU sets IXSM in every receive descriptor"),
            (Fact::ItrExact, "QEMU keeps 128 us between interrupts, whatever ITR says"),
            (Fact::DelayTimers, "QEMU has TADV alone"),
            (Fact::Reset, "QEMU 7.2 clears CTRL.RST and resets nothing, and ignores the I/O ports"),
            (Fact::TsoExact, "QEMU sends the headers once more after a payload of whole segments"),
        ]
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
            let mut arm = Qemu { wire: Wire::new().unwrap() };
            let pc = Pc { nic: &format!("{nic},mac=52:54:00:12:34:56"), wire: &arm.wire, backing: Backing::Mapped };
            let mut h = pc.start().unwrap();
            let c = Config { copy_align, io: None, ..Config::new(part, Bus::Pci) };
            f(&mut h, &mut arm, &c);
            let balance = h.finish().unwrap();
            assert!(balance.is_even(), "{balance:?}");
        }
    }
}

#[test]
fn eeprom_and_phy() {
    on_each(|h, a, c| {
        for eeprom in [Eeprom::Microwire, Eeprom::Eerd] {
            body::eeprom_and_phy(h, a, &Config { eeprom, ..*c }, MAC);
        }
    });
}
#[test]
fn transmit() {
    on_each(body::transmit);
}
#[test]
fn scatter() {
    on_each(body::scatter);
}
#[test]
fn checksum_offload() {
    on_each(body::checksum_offload);
}
#[test]
fn large_send() {
    on_each(body::large_send);
}
#[test]
fn large_send_with_the_workarounds_of_pcix_and_of_all_parts() {
    let all = Errata { even_dword: true, short_first: true, tso_sentinel: true, after_tso: true, bound_64k: true };
    on_each(|h, a, c| {
        for errata in [all, Errata::NONE] {
            body::large_send(h, a, &Config { errata, ..*c });
            body::transmit(h, a, &Config { errata, ..*c });
        }
    });
}
#[test]
fn vlan() {
    on_each(body::vlan);
}
#[test]
fn vlan_in_software() {
    on_each(|h, a, c| body::vlan(h, a, &Config { vlan: false, ..*c }));
}
#[test]
fn delay_timers() {
    on_each(body::delay_timers);
}
#[test]
fn receive() {
    on_each(|h, a, c| {
        for rx_align in [0, 2] {
            body::receive(h, a, &Config { rx_align, ..*c });
        }
    });
}
#[test]
fn receive_several_buffers() {
    on_each(body::receive_several_buffers);
}
#[test]
fn filter() {
    on_each(body::filter);
}
#[test]
fn ring_wrap_and_stop() {
    on_each(body::ring_wrap_and_stop);
}
#[test]
fn interrupts() {
    on_each(body::interrupts);
}
#[test]
fn statistics() {
    on_each(body::statistics);
}
#[test]
fn reset_and_reopen() {
    on_each(body::reset_and_reopen);
}
