//! The bridge of a Raspberry Pi's RP1: cores without a PCI identity behind a PCI function.
//!
//! RP1 (1de4:0001) is a PCI function whose BAR 1 is a bus of cores: here AXI Ethernet at 0 and AXI
//! DMA at 40000h. An interrupt bridge at 108000h has a word (ENABLE, IACK, LEVEL) for each line;
//! +800h sets bits, +c00h clears them. In level mode a rising line sends one message and then waits
//! for IACK, otherwise each rise sends. Source: Linux drivers/misc/rp1/rp1_pci.c.

use doorbell_hal::Reg;
use doorbell_layout::axienet::{DMA, DMA_LEN, MAC, MAC_LEN};

/// The BAR with the bus of the cores, and its size.
pub const BUS: u8 = 1;
/// Bytes of that BAR.
pub const BUS_LEN: u32 = 2 << 20;
/// The offset of the bridge there.
pub const BRIDGE: u32 = 0x10_8000;
/// The vectors, which Linux asks for.
pub const VECTORS: u16 = 61;
/// Identities of vendor and device.
pub const IDS: (u16, u16) = (0x1de4, 0x0001);

const DMA_AT: u32 = MAC_LEN;
const SET: u32 = BRIDGE + 0x800;
const CLEAR: u32 = BRIDGE + 0xc00;
/// The offset of the first line's word in each group of words.
const WORDS: u32 = 8;
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

/// The interrupt bridge.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bridge {
    lines: [Line; LINES],
    /// Messages that were acknowledged.
    pub acknowledged: u64,
}

/// Returns the register of a core at this offset of the PCI function.
pub fn core(r: Reg) -> Option<Reg> {
    if r.region != BUS {
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
    (r.region == BUS && n.is_multiple_of(4) && n / 4 < u32::from(VECTORS))
        .then_some((n / 4) as usize)
}

impl Bridge {
    /// Sets the level of a core's line. Returns true if its message must be sent.
    pub fn set(&mut self, n: u16, high: bool) -> bool {
        self.lines.get_mut(usize::from(n)).is_some_and(|line| line.set(high))
    }

    /// Reads a register of the bridge.
    pub fn read(&self, r: Reg) -> u32 {
        word(r, BRIDGE).and_then(|n| self.lines.get(n)).map_or(0, |line| line.control)
    }

    /// Writes a register of the bridge. Returns the vector of a message that must be sent.
    pub fn write(&mut self, r: Reg, v: u32) -> Option<u16> {
        let (n, set, clear) = match (word(r, SET), word(r, CLEAR), word(r, BRIDGE)) {
            (Some(n), ..) => (n, v, 0),
            (_, Some(n), _) => (n, 0, v),
            (.., Some(n)) => (n, v, !v),
            _ => return None,
        };
        // Other lines have no core.
        let line = self.lines.get_mut(n)?;
        self.acknowledged += u64::from(set & IACK != 0);
        line.write(set, clear).then_some(n as u16)
    }

    /// Resets the lines. The count of acknowledged messages stays.
    pub fn reset(&mut self) {
        self.lines = Default::default();
    }
}

#[cfg(test)]
mod tests;
