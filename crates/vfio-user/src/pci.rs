//! Identity and configuration space of a PCI function.
//!
//! [`Identity`] describes a function to the server; [`ConfigSpace`] has the bytes that follow from
//! it, with a mask of writable bits. Capabilities are laid out in the order given, from 0x40 on,
//! double-word aligned. QEMU keeps BARs, MSI and MSI-X tables itself and only reads their places
//! here; other clients may read back their writes.
//!
//! Sources: PCI local bus specification 3.0, chapter 6; PCI power management 1.2;
//! PCI-X addendum 1.0, 7.2; PCI Express 3.0, 7.8.

use core::ops::Range;

/// A base address register.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Bar {
    /// No BAR, or the upper half of the one before.
    #[default]
    None,
    /// I/O space of this many bytes, a power of two.
    Io(u32),
    /// Memory of this many bytes, a power of two from 16 on, below 4 GiB.
    Memory(u32),
    /// 64-bit prefetchable memory of this many bytes; uses the next register too.
    Memory64(u64),
}

impl Bar {
    /// Returns its size in bytes.
    pub const fn size(self) -> u64 {
        match self {
            Bar::None => 0,
            Bar::Io(n) | Bar::Memory(n) => n as u64,
            Bar::Memory64(n) => n,
        }
    }
}

/// An offset in a BAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarOffset {
    /// Number of the BAR.
    pub bar: u8,
    /// Byte offset.
    pub offset: u32,
}

/// A capability of the function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capability {
    /// Power management with D0 and D3hot.
    Power {
        /// The transition from D3hot to D0 resets the function.
        resets: bool,
    },
    /// PCI-X, 64 bits at 133 MHz, reads of up to 4096 bytes.
    PciX,
    /// A PCI Express endpoint with function-level reset.
    Express {
        /// Generation of the link, 1 to 5.
        speed: u8,
        /// Lanes.
        width: u8,
    },
    /// MSI with 64-bit addresses and this many vectors (1, 2, 4 to 32).
    Msi(u8),
    /// MSI-X.
    MsiX {
        /// Vectors, 1 to 2048.
        vectors: u16,
        /// Place of the table.
        table: BarOffset,
        /// Place of the pending bits.
        pending: BarOffset,
    },
}

/// Pages of a BAR that the guest writes without a trap: shared memory that the server polls.
///
/// A non-zero word is an unseen write. The server swaps it with zero and passes it to the device as
/// a register write of 8 bytes. Of two writes before that only the later is seen, which suits only
/// doorbells, whose state is also in memory (producer index, doorbell record).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolledPages {
    /// Place of the first, a multiple of 4096 bytes.
    pub first: BarOffset,
    /// Number of pages of 4096 bytes.
    pub pages: u16,
    /// Byte offsets of the words in each page, multiples of 8.
    pub words: &'static [u16],
}

/// The description of a PCI function.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Subsystem vendor and id.
    pub subsystem: (u16, u16),
    /// Revision.
    pub revision: u8,
    /// Class, subclass and programming interface, as 24 bits.
    pub class: u32,
    /// Base address registers.
    pub bars: [Bar; 6],
    /// The function has an interrupt line, INTA.
    pub line: bool,
    /// Capabilities in the order of their list.
    pub capabilities: Vec<Capability>,
    /// Doorbell pages without traps.
    pub polled: Option<PolledPages>,
}

/// VFIO's index of the configuration space among the regions.
pub(super) const CONFIG_REGION: u32 = 7;
/// Regions of a PCI function: six BARs, ROM, configuration, VGA.
pub(super) const REGIONS: u32 = 9;
/// Bytes of a polled page.
pub(super) const PAGE: u32 = 4096;

impl Identity {
    /// Returns the numbers of MSI and MSI-X vectors.
    pub(super) fn vectors(&self) -> (u16, u16) {
        let mut n = (0, 0);
        for c in &self.capabilities {
            match *c {
                Capability::Msi(v) => n.0 = v.into(),
                Capability::MsiX { vectors, .. } => n.1 = vectors,
                _ => {}
            }
        }
        n
    }

    pub(super) fn region_size(&self, index: u32) -> u64 {
        match index {
            0..=5 => self.bars[index as usize].size(),
            CONFIG_REGION => self.config_size() as u64,
            _ => 0,
        }
    }

    fn config_size(&self) -> usize {
        let express = self.capabilities.iter().any(|c| matches!(c, Capability::Express { .. }));
        if express { 4096 } else { 256 }
    }

    /// Returns true for the MSI-X table and its pending bits, which the device does not implement.
    pub(super) fn is_msix(&self, bar: u32, offset: u64) -> bool {
        self.capabilities.iter().any(|c| match *c {
            Capability::MsiX { vectors, table, pending } => {
                let within = |at: BarOffset, len: u64| {
                    u32::from(at.bar) == bar
                        && offset.checked_sub(at.offset.into()).is_some_and(|o| o < len)
                };
                within(table, u64::from(vectors) * 16)
                    || within(pending, u64::from(vectors).div_ceil(64) * 8)
            }
            _ => false,
        })
    }

    /// Checks that it can be laid out. The error describes an impossible BAR, capability or page.
    pub(super) fn check(&self) -> Result<(), String> {
        for (i, bar) in self.bars.iter().enumerate() {
            let last = i == 5 && matches!(bar, Bar::Memory64(_));
            let covered =
                i > 0 && matches!(self.bars[i - 1], Bar::Memory64(_)) && *bar != Bar::None;
            let small = bar.size() > 0 && (bar.size() < 4 || !bar.size().is_power_of_two());
            if last || covered || small {
                return Err(format!("BAR {i} cannot be {bar:?}"));
            }
        }
        let inside = |at: BarOffset, len: u64| {
            let size = self.bars.get(usize::from(at.bar)).map_or(0, |b| b.size());
            u64::from(at.offset) + len <= size
        };
        for c in &self.capabilities {
            match *c {
                Capability::MsiX { vectors, table, pending }
                    if !(1..=2048).contains(&vectors)
                        || !inside(table, u64::from(vectors) * 16)
                        || !inside(pending, u64::from(vectors).div_ceil(64) * 8)
                        || table.offset % 8 != 0
                        || pending.offset % 8 != 0 =>
                {
                    return Err(format!("{c:?} is not inside its BAR"));
                }
                Capability::Msi(n) if !n.is_power_of_two() || n > 32 => {
                    return Err(format!("{c:?}: 1, 2, 4 to 32"));
                }
                _ => {}
            }
        }
        if let Some(p) = self.polled {
            let words = p.words.iter().all(|w| w % 8 == 0 && u32::from(*w) < PAGE);
            let pages = p.pages > 0 && p.first.offset % PAGE == 0;
            if !words || !pages || !inside(p.first, u64::from(p.pages) * 4096) {
                return Err(format!("{p:?} is not pages of a BAR"));
            }
        }
        Ok(())
    }
}

/// The configuration space with its writable bits.
#[derive(Debug)]
pub(super) struct ConfigSpace {
    bytes: Vec<u8>,
    mask: Vec<u8>,
    /// The bytes after power-on.
    initial: Vec<u8>,
    /// Offset of PMCSR; leaving D3hot resets.
    power: Option<(usize, bool)>,
    express: Option<usize>,
}

const COMMAND: usize = 0x04;
const COMMAND_MASTER: u8 = 1 << 2;
/// A bit of the upper byte.
const COMMAND_NO_LINE: u8 = 1 << 2;
const STATUS: usize = 0x06;
const STATUS_LINE: u8 = 1 << 3;
const PIN: usize = 0x3d;

impl ConfigSpace {
    pub(super) fn new(id: &Identity) -> ConfigSpace {
        let (bytes, mask) = (vec![0; id.config_size()], vec![0; id.config_size()]);
        let mut c = ConfigSpace { bytes, mask, initial: vec![], power: None, express: None };
        c.put(0x00, &id.vendor.to_le_bytes(), &[]);
        c.put(0x02, &id.device.to_le_bytes(), &[]);
        // I/O, memory, master, special cycles to MWI, parity, SERR, line disable.
        c.put(COMMAND, &[0, 0], &[0x57, 0x05]);
        c.put(0x08, &[id.revision], &[]);
        c.put(0x09, &id.class.to_le_bytes()[..3], &[]);
        // Cache line size and latency timer.
        c.put(0x0c, &[0, 0], &[0xff, 0xff]);
        for (i, bar) in id.bars.iter().enumerate() {
            let at = 0x10 + 4 * i;
            match *bar {
                Bar::None => {}
                Bar::Io(n) => c.put(at, &1u32.to_le_bytes(), &(!(n - 1) & !3).to_le_bytes()),
                Bar::Memory(n) => c.put(at, &[0; 4], &(!(n - 1) & !15).to_le_bytes()),
                Bar::Memory64(n) => {
                    c.put(at, &0xcu64.to_le_bytes(), &(!(n - 1) & !15).to_le_bytes());
                }
            }
        }
        c.put(0x2c, &id.subsystem.0.to_le_bytes(), &[]);
        c.put(0x2e, &id.subsystem.1.to_le_bytes(), &[]);
        // Interrupt line, whose routing the system's software keeps here, and pin.
        c.put(0x3c, &[0, u8::from(id.line)], &[0xff]);
        let mut at = 0x40;
        let mut link = 0x34;
        for cap in &id.capabilities {
            c.bytes[link] = at as u8;
            c.bytes[STATUS] |= 1 << 4;
            link = at + 1;
            at += c.capability(at, *cap).next_multiple_of(4);
        }
        c.initial.clone_from(&c.bytes);
        c
    }

    fn put(&mut self, at: usize, bytes: &[u8], mask: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.mask[at..at + mask.len()].copy_from_slice(mask);
    }

    /// Lays out one capability. Returns its length in bytes.
    fn capability(&mut self, at: usize, c: Capability) -> usize {
        match c {
            Capability::Power { resets } => {
                self.power = Some((at + 4, resets));
                // Version 2; PMCSR: power state can be written, bit 3 is "no soft reset".
                self.put(at, &[0x01, 0, 0x02, 0], &[]);
                self.put(at + 4, &[u8::from(!resets) << 3, 0, 0, 0], &[0x03, 0x01]);
                8
            }
            Capability::PciX => {
                // Command: recover, ordering, read count 512, one outstanding. Status: 64 bits, 133
                // MHz, most reads of 2048 bytes.
                self.put(at, &[0x07, 0, 0, 0], &[0, 0, 0x7f]);
                self.put(at + 4, &(3u32 << 16 | 2 << 21).to_le_bytes(), &[]);
                8
            }
            Capability::Express { speed, width } => {
                self.express = Some(at);
                self.put(at, &[0x10, 0, 0x02, 0], &[]);
                // 512-byte payloads, extended tags, role-based errors, function-level reset.
                self.put(at + 4, &0x1000_8022u32.to_le_bytes(), &[]);
                // Device control: payload 128, reads 512.
                self.put(at + 8, &[0x10, 0x28], &[0xff, 0x7f]);
                let link = u32::from(speed & 15) | u32::from(width & 63) << 4;
                self.put(at + 12, &link.to_le_bytes(), &[]);
                self.put(at + 16, &[0, 0], &[0xc3]);
                self.put(at + 18, &(link as u16).to_le_bytes(), &[]);
                // Device control 2, and supported and target link speeds.
                self.put(at + 40, &[0, 0], &[0x1f]);
                self.put(at + 44, &((2u32 << speed) - 2).to_le_bytes(), &[]);
                self.put(at + 48, &[speed, 0], &[0x0f]);
                60
            }
            Capability::Msi(n) => {
                // 64-bit addresses; how many vectors.
                let control = 0x80 | (n.trailing_zeros() as u8) << 1;
                self.put(at, &[0x05, 0, control, 0], &[0, 0, 0x71]);
                self.put(at + 4, &[0; 10], &[0xff; 10]);
                self.mask[at + 4] = 0xfc;
                14
            }
            Capability::MsiX { vectors, table, pending } => {
                self.put(at, &[0x11, 0], &[]);
                self.put(at + 2, &(vectors - 1).to_le_bytes(), &[0, 0xc0]);
                self.put(at + 4, &(table.offset | u32::from(table.bar)).to_le_bytes(), &[]);
                self.put(at + 8, &(pending.offset | u32::from(pending.bar)).to_le_bytes(), &[]);
                12
            }
        }
    }

    pub(super) fn inside(&self, offset: u64, len: usize) -> Option<Range<usize>> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(len)?;
        (end <= self.bytes.len()).then_some(start..end)
    }

    /// Reads `range`, with the level `line` of the interrupt line in the status.
    pub(super) fn read(&self, range: Range<usize>, line: bool, out: &mut [u8]) {
        out.copy_from_slice(&self.bytes[range.clone()]);
        if line && range.contains(&STATUS) {
            out[STATUS - range.start] |= STATUS_LINE;
        }
    }

    /// Writes the writable bits from `start` on. Returns true if the function must be reset:
    /// function-level reset, or the transition from D3hot to D0.
    pub(super) fn write(&mut self, start: usize, data: &[u8]) -> bool {
        let was_in_d3 = self.in_d3();
        let mut reset = false;
        for (i, &v) in data.iter().enumerate() {
            let at = start + i;
            let m = self.mask[at];
            self.bytes[at] = self.bytes[at] & !m | v & m;
            // Device control's top bit starts a function-level reset and reads as zero.
            reset |= self.express.is_some_and(|e| at == e + 9) && v & 0x80 != 0;
        }
        reset | (was_in_d3 && !self.in_d3() && self.power.is_some_and(|(_, resets)| resets))
    }

    /// Restores the bytes after power-on.
    pub(super) fn reset(&mut self) {
        self.bytes.clone_from(&self.initial);
    }

    fn in_d3(&self) -> bool {
        self.power.is_some_and(|(at, _)| self.bytes[at] & 3 != 0)
    }

    /// Returns true if the function may access memory: bus mastering is on, and it is in D0.
    pub(super) fn bus_master(&self) -> bool {
        self.bytes[COMMAND] & COMMAND_MASTER != 0 && !self.in_d3()
    }

    /// Returns true if the interrupt line exists and is not disabled.
    pub(super) fn line_enabled(&self) -> bool {
        self.bytes[PIN] != 0 && self.bytes[COMMAND + 1] & COMMAND_NO_LINE == 0
    }
}

#[cfg(kani)]
mod proofs;
#[cfg(test)]
mod tests;
