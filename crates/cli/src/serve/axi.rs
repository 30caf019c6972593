//! AXI Ethernet for a guest: the cores behind a PCI function, as in a Raspberry Pi's RP1.
//!
//! The cores have no PCI identity; Linux finds them in a device tree. RP1 (1de4:0001) is a PCI
//! function whose BAR 1 is a bus of such cores: `rp1_pci` instantiates the nodes of the guest's
//! tree. BAR 0 has the MSI-X table, BAR 1 AXI Ethernet at 0, AXI DMA at 40000h, and at 108000h an
//! interrupt bridge with a word (ENABLE, IACK, LEVEL) for each line; +800h sets bits, +c00h clears
//! them. In level mode a rising line sends one message and then waits for IACK, otherwise each
//! rise sends. Registers and messages of the bridge are not counted except in `messages`.
//! Source: Linux drivers/misc/rp1/rp1_pci.c.

use super::bill::{AXI_BRIDGE, AXI_BUS};
use super::context::{ServeContext, SharedBill};
use super::vfio::{Card, Served, bars, serve};
use crate::{Error, input};
use doorbell_devices::axi_ethernet::{AxiEthernet, Config};
use doorbell_hal::{Device, Direction, DmaFault, EventSource, Iova, Port, Reg, RxVerdict, Time};
use doorbell_layout::axienet::{DMA, DMA_LEN, MAC, MAC_LEN};
use doorbell_vfio_user::{
    Bar, BarOffset, Capability, Crossing, Function, GuestPort, Identity, Observer,
};
use std::io;

/// The size of the BAR with the bus of the cores.
const BUS_LEN: u32 = 2 << 20;
/// Offsets on that bus.
const DMA_AT: u32 = MAC_LEN;
const SET: u32 = AXI_BRIDGE + 0x800;
const CLEAR: u32 = AXI_BRIDGE + 0xc00;
/// The offset of the first line's word in each group of words.
const WORDS: u32 = 8;
/// The vectors of RP1, which `rp1_pci` asks for.
const VECTORS: u16 = 61;
/// The lines of the cores: transmit, receive, MAC.
const LINES: usize = 3;

const ENABLE: u32 = 1 << 0;
const IACK: u32 = 1 << 2;
const LEVEL: u32 = 1 << 3;

/// The bridge's state of one line.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    control: u32,
    high: bool,
    /// A message was sent, and IACK has not come.
    waiting: bool,
}

impl Line {
    /// Returns true if a message must be sent now.
    fn sends(&mut self) -> bool {
        let sends = self.high && self.control & ENABLE != 0 && !self.waiting;
        self.waiting |= sends;
        sends
    }

    fn set(&mut self, high: bool) -> bool {
        self.high = high;
        if !high && self.control & LEVEL == 0 {
            self.waiting = false;
        }
        self.sends()
    }

    fn write(&mut self, set: u32, clear: u32) -> bool {
        self.control = (self.control | set & !IACK) & !clear;
        if set & IACK != 0 || self.control & ENABLE == 0 {
            self.waiting = false;
        }
        self.sends()
    }
}

/// The cores, and the bridge.
pub(super) struct Rp1 {
    cores: AxiEthernet,
    lines: [Line; LINES],
    acknowledged: u64,
}

/// The port of the cores: memory and wire as they are, lines through the bridge.
struct BridgedPort<'a> {
    port: &'a mut GuestPort<SharedBill>,
    lines: &'a mut [Line; LINES],
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
        if let Some(line) = self.lines.get_mut(usize::from(n))
            && line.set(high)
        {
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

/// Returns the register of a core at this offset of the PCI function.
fn core(r: Reg) -> Option<Reg> {
    if r.region != AXI_BUS {
        return None;
    }
    match r.offset.checked_sub(DMA_AT) {
        None => Some(Reg { region: MAC, offset: r.offset }),
        Some(offset) if offset < DMA_LEN => Some(Reg { region: DMA, offset }),
        Some(_) => None,
    }
}

/// Returns the line that a word of the group at `base` belongs to.
fn word(r: Reg, base: u32) -> Option<usize> {
    let n = r.offset.checked_sub(base + WORDS)?;
    (r.region == AXI_BUS && n.is_multiple_of(4) && n / 4 < u32::from(VECTORS))
        .then_some((n / 4) as usize)
}

impl Rp1 {
    fn split<'a>(
        &'a mut self,
        port: &'a mut GuestPort<SharedBill>,
    ) -> (&'a mut AxiEthernet, BridgedPort<'a>) {
        (&mut self.cores, BridgedPort { port, lines: &mut self.lines })
    }
}

impl EventSource for Rp1 {
    fn next_due(&self) -> Option<Time> {
        self.cores.next_due()
    }
}

impl Device<GuestPort<SharedBill>> for Rp1 {
    fn mmio_read(&mut self, p: &mut GuestPort<SharedBill>, at: Time, r: Reg, size: u8) -> u64 {
        if let Some(r) = core(r) {
            let (cores, mut p) = self.split(p);
            return cores.mmio_read(&mut p, at, r, size);
        }
        word(r, AXI_BRIDGE).and_then(|n| self.lines.get(n)).map_or(0, |l| l.control.into())
    }

    fn mmio_write(&mut self, p: &mut GuestPort<SharedBill>, at: Time, r: Reg, size: u8, v: u64) {
        if let Some(r) = core(r) {
            let (cores, mut p) = self.split(p);
            return cores.mmio_write(&mut p, at, r, size, v);
        }
        let v = v as u32;
        let (n, set, clear) = match (word(r, SET), word(r, CLEAR), word(r, AXI_BRIDGE)) {
            (Some(n), ..) => (n, v, 0),
            (_, Some(n), _) => (n, 0, v),
            (.., Some(n)) => (n, v, !v),
            _ => return,
        };
        // Other lines have no core.
        let Some(line) = self.lines.get_mut(n) else { return };
        self.acknowledged += u64::from(set & IACK != 0);
        if line.write(set, clear) {
            p.raise_msi(at, n as u16);
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

    fn reset(&mut self, p: &mut GuestPort<SharedBill>, at: Time) {
        let (cores, mut p) = self.split(p);
        cores.reset(&mut p, at);
        self.lines = Default::default();
    }
}

impl Served for Rp1 {
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all: Vec<_> = self.cores.counters.entries().collect();
        all.push(("acknowledged_messages", self.acknowledged));
        all
    }

    fn set_cable(&mut self, port: &mut GuestPort<SharedBill>, at: Time, plugged: bool) {
        self.cores.set_cable(at, plugged);
        Device::advance(self, port, at);
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
        vendor: 0x1de4,
        device: 0x0001,
        subsystem: (0x1de4, 0x0001),
        revision: 0,
        class: 0x02_0000,
        bars: bars([Bar::Memory(16 << 10), Bar::Memory(BUS_LEN)]),
        line: false,
        capabilities: vec![
            Capability::Power { resets: false },
            Capability::Express { speed: 2, width: 4 },
            Capability::MsiX { vectors: VECTORS, table: at(0), pending: at(0x2000) },
        ],
        polled: None,
    };
    let rp1 =
        Rp1 { cores: AxiEthernet::new(Config::ZYNQMP), lines: Default::default(), acknowledged: 0 };
    Function::new(identity, rp1, bill.clone())
}

#[cfg(test)]
mod tests;
