//! The axienet driver on QEMU's AXI Ethernet and AXI DMA.
//!
//! QEMU's models were written by others, so they judge driver and cases alike.
//! Needs QEMU and its qtest accelerator: DOORBELL_FULL=1.

use doorbell_conformance::Unsupported;
use doorbell_conformance::axienet::{self as cases, Backend, Capability};
use doorbell_conformance::{axienet_cases, full};
use doorbell_drivers::axienet::Config;
use doorbell_hal::{Alignment, Host, Span};
use doorbell_layout::axienet::line;
use doorbell_testkit::qtest::{Ml605, QtestHost, Wire};
use doorbell_testkit::reorder::{Order, Reorder};
use std::time::Duration;

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
/// QEMU's PHY says that it is a TDK 78Q2120.
const PHY_ID: u32 = 0x0300_e400;

struct Qemu {
    wire: Wire,
}

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
    fn interrupt(&mut self, h: &mut QtestHost, n: u16) -> bool {
        h.level(match n {
            line::TX => Ml605::TX_LINE,
            line::RX => Ml605::RX_LINE,
            _ => Ml605::MAC_LINE,
        })
    }
    fn delay_unit(&self) -> Span {
        // One clock where the core has 125.
        Span::from_ps(1_000_000_000_000 / u64::from(Ml605::CLOCK_HZ))
    }
    fn unsupported(&self) -> Unsupported<Capability> {
        &[
            (Capability::Padding, "QEMU sends a short frame as it is"),
            (
                Capability::TxStatusLength,
                "QEMU writes a length of 0 into a transmitted descriptor's status",
            ),
            (Capability::FullChecksum, "QEMU knows partial checksums only"),
            (Capability::ResetOfAll, "QEMU resets the one channel"),
            (Capability::StopHalts, "QEMU leaves SR alone when RS is cleared"),
            (Capability::CurrentLatches, "QEMU takes CURDESC at any time"),
            (Capability::FilterMask, "QEMU compares all bits, and with every entry"),
            (Capability::TxStatistics, "QEMU counts bytes sent, not frames"),
            (
                Capability::DoneIsError,
                "QEMU halts at a descriptor that is done, and raises no interrupt",
            ),
            (Capability::BusErrors, "QEMU's bus reads as zero where no memory is"),
        ]
    }
}

/// The same machine behind a CPU that reorders stores.
impl Backend<Reorder<QtestHost>> for Qemu {
    fn inject(&mut self, h: &mut Reorder<QtestHost>, frame: &[u8]) {
        self.inject(&mut h.inner, frame);
    }
    fn collect(&mut self, h: &mut Reorder<QtestHost>) -> Option<Vec<u8>> {
        self.collect(&mut h.inner)
    }
    fn wait(&mut self, h: &mut Reorder<QtestHost>, span: Span) {
        h.delay(span);
    }
    fn interrupt(&mut self, h: &mut Reorder<QtestHost>, n: u16) -> bool {
        self.interrupt(&mut h.inner, n)
    }
    fn delay_unit(&self) -> Span {
        Backend::<QtestHost>::delay_unit(self)
    }
    fn unsupported(&self) -> Unsupported<Capability> {
        Backend::<QtestHost>::unsupported(self)
    }
}

fn machine(arm: &Qemu, offset: u32) -> (QtestHost, Config) {
    let h = Ml605 { wire: &arm.wire }.start().unwrap();
    let c = Config {
        rx_memory: Ml605::MAC_MEMORY,
        rx_ring: 32,
        rx_place: Alignment { align: 64, offset },
        clock_hz: Ml605::CLOCK_HZ,
        phy: Some(Ml605::PHY),
        ..Config::new(MAC)
    };
    (h, c)
}

/// Runs `f`, with receive buffers on a line and two bytes behind it; all that was taken
/// comes back.
fn on(f: impl Fn(&mut QtestHost, &mut Qemu, &Config)) {
    if !full("QEMU for MicroBlaze and the qtest accelerator") {
        return;
    }
    for offset in [0, 2] {
        let mut arm = Qemu { wire: Wire::new().unwrap() };
        let (mut h, c) = machine(&arm, offset);
        f(&mut h, &mut arm, &c);
        let balance = h.finish().unwrap();
        assert!(balance.is_even(), "{balance:?}");
    }
}

/// Runs `f` on a CPU that keeps stores as long as fences allow, lets others pass, or
/// both at random.
fn reordered(f: impl Fn(&mut Reorder<QtestHost>, &mut Qemu, &Config)) {
    if !full("QEMU for MicroBlaze and the qtest accelerator") {
        return;
    }
    for order in [Order::Late, Order::Overtaken, Order::Random(1), Order::Random(2)] {
        println!("{order:?}");
        let mut arm = Qemu { wire: Wire::new().unwrap() };
        let (h, c) = machine(&arm, 2);
        let mut h = Reorder::new(h, order);
        f(&mut h, &mut arm, &c);
        let balance = h.inner.finish().unwrap();
        assert!(balance.is_even(), "{balance:?}");
    }
}

axienet_cases!(on, reordered);

#[test]
fn mdio() {
    on(|h, a, c| cases::mdio(h, a, c, PHY_ID));
}
#[test]
fn threshold() {
    on(cases::threshold);
}
#[test]
fn bus_error() {
    on(cases::bus_error);
}
#[test]
fn transmit_with_addresses_of_64_bits() {
    on(|h, a, c| cases::transmit(h, a, &Config { address_bits: 64, ..*c }));
}
#[test]
fn done_descriptor_with_addresses_of_64_bits() {
    on(|h, a, c| cases::done_descriptor(h, a, &Config { address_bits: 64, ..*c }));
}
