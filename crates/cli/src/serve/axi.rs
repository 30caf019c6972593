//! AXI Ethernet for a guest: the cores behind a PCI function, as peripherals are behind a Raspberry
//! Pi's RP1.
//!
//! The cores have no PCI identity, and Linux's driver finds them in a device tree. RP1 (1de4:0001)
//! is a PCI function whose BAR 1 is a bus of such cores. Linux's `rp1_pci` binds it and
//! instantiates what the device tree has below it, which a guest's own tree can say: so neither
//! kernel nor driver is ours.
//!
//! ```text
//! BAR 0          MSI-X table
//! BAR 1 + 0      AXI Ethernet
//!       + 40000  AXI DMA
//!       + 108000 interrupt bridge: a word for each line; +800 sets its bits, +c00 clears them
//! ```
//!
//! **The bridge** makes messages of levels. A line's word has ENABLE, IACK and LEVEL. With LEVEL, a
//! rising line sends its message once, and then waits for IACK; if the line is high then, it sends
//! again. Without it (edges), each rise sends. This matters: the driver's handler may clear less
//! than is pending, so that a line never falls.
//!
//! Neither the bridge nor the messages exist where these cores live: there the lines end at the
//! GIC. So its registers are in no count of the ledger but `messages`, and the bus is the cores'
//! own, AXI.
//!
//! Source: Linux drivers/misc/rp1/rp1_pci.c, for what it expects; what RP1 itself is like beyond
//! that is not known here.

use super::bill::Bill;
use super::devices::{Entry, Served};
use super::turns::{Around, run};
use crate::{Error, input};
use doorbell_devices::axi_ethernet::{AxiEthernet, Config};
use doorbell_hal::{Device, Direction, DmaFault, EventSource, Iova, Port, Reg, RxVerdict, Time};
use doorbell_layout::axienet::{DMA, DMA_LEN, MAC, MAC_LEN};
use doorbell_vfio_user::{Bar, Capability, Function, GuestPort, Identity, InBar, Watch};

/// The BAR that is the cores' bus, and its bytes.
const BUS: u8 = 1;
const BUS_LEN: u32 = 2 << 20;
/// Offsets there.
const DMA_AT: u32 = MAC_LEN;
const BRIDGE: u32 = 0x10_8000;
const SET: u32 = BRIDGE + 0x800;
const CLEAR: u32 = BRIDGE + 0xc00;
/// The first line's word from the start of each of the three.
const WORDS: u32 = 8;
/// `rp1_pci` asks for as many vectors as RP1 has.
const VECTORS: u16 = 61;
/// The cores': transmit, receive, MAC.
const LINES: usize = 3;

const ENABLE: u32 = 1 << 0;
const IACK: u32 = 1 << 2;
const LEVEL: u32 = 1 << 3;

/// Whether a register is the cores', and not of the bridge between them and PCI.
pub(super) fn is_core(r: Reg) -> bool {
    r.region == BUS && r.offset < BRIDGE
}

/// A line's way to a message.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    control: u32,
    high: bool,
    /// The message has been sent, and nobody has said IACK.
    waiting: bool,
}

impl Line {
    /// Whether a message is to be sent now.
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
#[derive(Debug)]
struct Rp1 {
    cores: AxiEthernet,
    lines: [Line; LINES],
    acknowledged: u64,
}

/// The cores' way out: memory and wire as they are, lines through the bridge.
struct Behind<'a> {
    port: &'a mut GuestPort<Bill>,
    lines: &'a mut [Line; LINES],
}

impl Port for Behind<'_> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.port.read(at, from, into)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        self.port.write(at, to, from)
    }

    fn check_access(&self, at: Iova, len: u32, dir: Direction) -> Result<(), DmaFault> {
        self.port.check_access(at, len, dir)
    }

    fn set_irq_line(&mut self, at: Time, n: u16, high: bool) {
        self.port.watch.line(at, high);
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

/// The cores' register at this place of the PCI function.
fn core(r: Reg) -> Option<Reg> {
    if r.region != BUS {
        return None;
    }
    match r.offset.checked_sub(DMA_AT) {
        None => Some(Reg { region: MAC, offset: r.offset }),
        Some(offset) if offset < DMA_LEN => Some(Reg { region: DMA, offset }),
        Some(_) => None,
    }
}

/// The line whose word this is, from `base`.
fn word(r: Reg, base: u32) -> Option<usize> {
    let n = r.offset.checked_sub(base + WORDS)?;
    (r.region == BUS && n.is_multiple_of(4) && n / 4 < u32::from(VECTORS))
        .then_some((n / 4) as usize)
}

impl Rp1 {
    fn split<'a>(&'a mut self, port: &'a mut GuestPort<Bill>) -> (&'a mut AxiEthernet, Behind<'a>) {
        (&mut self.cores, Behind { port, lines: &mut self.lines })
    }
}

impl EventSource for Rp1 {
    fn next_due(&self) -> Option<Time> {
        self.cores.next_due()
    }
}

impl Device<GuestPort<Bill>> for Rp1 {
    fn mmio_read(&mut self, p: &mut GuestPort<Bill>, at: Time, r: Reg, size: u8) -> u64 {
        if let Some(r) = core(r) {
            let (cores, mut p) = self.split(p);
            return cores.mmio_read(&mut p, at, r, size);
        }
        word(r, BRIDGE).and_then(|n| self.lines.get(n)).map_or(0, |l| l.control.into())
    }

    fn mmio_write(&mut self, p: &mut GuestPort<Bill>, at: Time, r: Reg, size: u8, v: u64) {
        if let Some(r) = core(r) {
            let (cores, mut p) = self.split(p);
            return cores.mmio_write(&mut p, at, r, size, v);
        }
        let v = v as u32;
        let (n, set, clear) = match (word(r, SET), word(r, CLEAR), word(r, BRIDGE)) {
            (Some(n), ..) => (n, v, 0),
            (_, Some(n), _) => (n, 0, v),
            (.., Some(n)) => (n, v, !v),
            _ => return,
        };
        // A line that nothing is connected to.
        let Some(line) = self.lines.get_mut(n) else { return };
        self.acknowledged += u64::from(set & IACK != 0);
        if line.write(set, clear) {
            p.raise_msi(at, n as u16);
        }
    }

    fn receive(&mut self, p: &mut GuestPort<Bill>, at: Time, frame: &[u8]) -> RxVerdict {
        let (cores, mut p) = self.split(p);
        cores.receive(&mut p, at, frame)
    }

    fn advance(&mut self, p: &mut GuestPort<Bill>, until: Time) {
        let (cores, mut p) = self.split(p);
        cores.advance(&mut p, until);
    }

    fn reset(&mut self, p: &mut GuestPort<Bill>, at: Time) {
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

    fn set_cable(&mut self, port: &mut GuestPort<Bill>, at: Time, plugged: bool) {
        self.cores.set_cable(at, plugged);
        Device::advance(self, port, at);
    }
}

/// Serves it. The station address is the driver's to say, from its device tree.
pub(super) fn axi_ethernet(
    entry: &Entry,
    mac: Option<[u8; 6]>,
    bill: Bill,
    around: Around,
) -> Result<(), Error> {
    if mac.is_some() {
        return Err(input!(
            "--mac: an AXI Ethernet has no address of its own; it is `local-mac-address` in the \
             guest's device tree"
        ));
    }
    let at = |offset| InBar { bar: 0, offset };
    let identity = Identity {
        vendor: 0x1de4,
        device: 0x0001,
        subsystem: (0x1de4, 0x0001),
        revision: 0,
        class: 0x02_0000,
        bars: [
            Bar::Memory(16 << 10),
            Bar::Memory(BUS_LEN),
            Bar::None,
            Bar::None,
            Bar::None,
            Bar::None,
        ],
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
    let function = Function::new(identity, rp1, bill).map_err(|e| input!("{e}"))?;
    run(entry, function, around)
}

#[cfg(test)]
mod tests;
