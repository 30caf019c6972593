//! AXI Ethernet for a guest: the cores behind a PCI function, as in a Raspberry Pi's RP1.
//!
//! The cores have no PCI identity; Linux finds them in a device tree. `rp1_pci` instantiates the
//! nodes of the guest's tree behind RP1 ([`doorbell_devices::rp1`]). BAR 0 has the MSI-X table.
//! Registers and messages of the bridge are not counted except in `messages`.

use super::context::{ServeContext, SharedBill};
use super::vfio::{Card, bars, serve};
use doorbell_console::{Error, input};
use doorbell_devices::axi_ethernet::{AxiEthernet, Config};
use doorbell_devices::rp1::{self, Bridge, core};
use doorbell_hal::{Device, Direction, DmaFault, EventSource, Iova, Port, Reg, RxVerdict, Time};
use doorbell_vfio_user::{
    Bar, BarOffset, Capability, Crossing, Function, GuestPort, Identity, Observer,
};
use std::io;

/// The cores, and the bridge.
pub(super) struct Rp1 {
    cores: AxiEthernet,
    bridge: Bridge,
}

/// The port of the cores: memory and wire as they are, lines through the bridge.
struct BridgedPort<'a> {
    port: &'a mut GuestPort<SharedBill>,
    bridge: &'a mut Bridge,
}

impl Port for BridgedPort<'_> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.port.read(at, from, into)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        self.port.write(at, to, from)
    }

    fn check_access(&mut self, at: Iova, len: u32, dir: Direction) -> Result<(), DmaFault> {
        self.port.check_access(at, len, dir)
    }

    fn charge(&mut self, units: u64) {
        self.port.charge(units);
    }

    fn is_spent(&self) -> bool {
        self.port.is_spent()
    }

    fn set_irq_line(&mut self, at: Time, n: u16, high: bool) {
        self.port.observer.crossed(at, Crossing::Line(high));
        if self.bridge.set(n, high) {
            self.port.raise_msi(at, n);
        }
    }

    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.port.raise_msi(at, vector);
    }

    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.port.emit(at, frame);
    }
}

impl Rp1 {
    fn split<'a>(
        &'a mut self,
        port: &'a mut GuestPort<SharedBill>,
    ) -> (&'a mut AxiEthernet, BridgedPort<'a>) {
        (&mut self.cores, BridgedPort { port, bridge: &mut self.bridge })
    }
}

impl EventSource for Rp1 {
    fn next_due(&self) -> Option<Time> {
        self.cores.next_due()
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.cores.counters(tell);
        tell("acknowledged_messages", self.bridge.acknowledged);
    }
}

impl Device<GuestPort<SharedBill>> for Rp1 {
    fn mmio_read(&mut self, p: &mut GuestPort<SharedBill>, at: Time, r: Reg, size: u8) -> u64 {
        if let Some(r) = core(r) {
            let (cores, mut p) = self.split(p);
            return cores.mmio_read(&mut p, at, r, size);
        }
        self.bridge.read(r).into()
    }

    fn mmio_write(&mut self, p: &mut GuestPort<SharedBill>, at: Time, r: Reg, size: u8, v: u64) {
        if let Some(r) = core(r) {
            let (cores, mut p) = self.split(p);
            return cores.mmio_write(&mut p, at, r, size, v);
        }
        if let Some(vector) = self.bridge.write(r, v as u32) {
            p.raise_msi(at, vector);
        }
    }

    fn receive(&mut self, p: &mut GuestPort<SharedBill>, at: Time, frame: &[u8]) -> RxVerdict {
        let (cores, mut p) = self.split(p);
        cores.receive(&mut p, at, frame)
    }

    fn advance(&mut self, p: &mut GuestPort<SharedBill>, until: Time) {
        let (cores, mut p) = self.split(p);
        cores.advance(&mut p, until);
    }

    fn cable(&mut self, p: &mut GuestPort<SharedBill>, at: Time, plugged: bool) {
        let (cores, mut p) = self.split(p);
        cores.cable(&mut p, at, plugged);
    }

    fn reset(&mut self, p: &mut GuestPort<SharedBill>, at: Time) {
        let (cores, mut p) = self.split(p);
        cores.reset(&mut p, at);
        self.bridge.reset();
    }
}

/// Serves the cores. Their MAC address comes from the driver's device tree.
pub(super) fn axi_ethernet(card: Card, bill: SharedBill, c: ServeContext) -> Result<u8, Error> {
    if card.mac.is_some() {
        return Err(input!(
            "--mac: an AXI Ethernet has no address of its own; it is `local-mac-address` in the \
             guest's device tree"
        ));
    }
    serve(card, axi_function(&bill), bill, c)
}

/// Returns the cores behind their PCI function.
pub(super) fn axi_function(bill: &SharedBill) -> io::Result<Function<Rp1, SharedBill>> {
    let at = |offset| BarOffset { bar: 0, offset };
    let identity = Identity {
        vendor: rp1::IDS.0,
        device: rp1::IDS.1,
        subsystem: rp1::IDS,
        revision: 0,
        class: 0x02_0000,
        bars: bars([Bar::Memory(16 << 10), Bar::Memory(rp1::BUS_LEN)]),
        line: false,
        capabilities: vec![
            Capability::Power { resets: false },
            Capability::Express { speed: 2, width: 4 },
            Capability::MsiX { vectors: rp1::VECTORS, table: at(0), pending: at(0x2000) },
        ],
        polled: None,
    };
    let rp1 = Rp1 { cores: AxiEthernet::new(Config::ZYNQMP), bridge: Bridge::default() };
    Function::new(identity, rp1, bill.clone())
}
