//! The split of a buffer into descriptors: their longest length, and the errata that apply.
//!
//! Source: e1000_main.c `e1000_tx_map`, and the specification updates named at each rule. The rules
//! are applied in Linux's order, because each changes the length that the next one sees.

use super::part::{Bus, Part};

/// Longest buffer of a descriptor (`1 << E1000_MAX_DATA_PER_TXD_PWR`, less).
pub(super) const MAX_LENGTH: u32 = 4096;
/// Longest first descriptor of a packet on PCI-X (erratum 10).
const MAX_FIRST: u32 = 2015;

/// The workarounds that are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Errata {
    /// 82544 on PCI-X: the part hangs if a buffer ends in an even dword.
    pub even_dword: bool,
    /// PCI-X, erratum 10: the first descriptor of a packet is less than 2016 bytes.
    pub short_first: bool,
    /// The last buffer of a large send is shortened by 4 bytes, and a descriptor of 4 bytes
    /// follows, because its write-back is premature (82546GB update, 1).
    pub tso_sentinel: bool,
    /// The same for the first descriptor of a linear packet after a large send.
    pub after_tso: bool,
    /// 82545 and 82546 of revision 0, erratum 23: no buffer crosses 64 KiB.
    pub bound_64k: bool,
}

impl Errata {
    /// No workarounds.
    pub const NONE: Errata = Errata {
        even_dword: false,
        short_first: false,
        tso_sentinel: false,
        after_tso: false,
        bound_64k: false,
    };

    /// Returns the workarounds of a part on a bus.
    pub const fn of(part: Part, bus: Bus) -> Errata {
        let pcix = matches!(bus, Bus::PciX);
        let is_82544 = matches!(part, Part::I82544);
        if part.is_82574() {
            return Errata::NONE;
        }
        Errata {
            even_dword: is_82544 && pcix,
            short_first: pcix,
            tso_sentinel: true,
            after_tso: !is_82544,
            bound_64k: matches!(part, Part::I82545),
        }
    }
}

/// The circumstances of a descriptor that its length depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// Longest length: [`MAX_LENGTH`], or less for a large send.
    pub(super) max: u32,
    /// The packet is a large send, and this is its last buffer.
    pub(super) sentinel: bool,
    /// The packet's first descriptor.
    pub(super) first: bool,
    /// First descriptor of a linear packet right after a large send.
    pub(super) after_tso: bool,
}

impl Errata {
    /// Returns the length, 1 to `left`, of the next descriptor for a buffer of which `left` bytes
    /// remain at `at`.
    #[inline(always)]
    pub(super) fn next(&self, at: u64, left: u32, c: Split) -> u32 {
        let mut size = left.min(c.max);
        if self.bound_64k {
            size = size.min(0x1_0000 - (at & 0xffff) as u32);
        }
        if self.after_tso && c.after_tso && size > 4 {
            size -= 4;
        }
        if self.tso_sentinel && c.sentinel && size == left && size > 8 {
            size -= 4;
        }
        if self.short_first && c.first && size > MAX_FIRST {
            size = MAX_FIRST;
        }
        // Bit 2 of the address of the last byte.
        if self.even_dword && (at + u64::from(size) - 1) & 4 == 0 && size > 4 {
            size -= 4;
        }
        size
    }

    /// Returns the most descriptors that a buffer of `len` bytes can need.
    #[inline(always)]
    pub(super) const fn most(&self, len: u32, max: u32) -> u32 {
        let mut n = len.div_ceil(max);
        if self.bound_64k {
            n += 1 + len / 0x1_0000;
        }
        if self.short_first {
            n += 1;
        }
        if self.even_dword {
            // Every descriptor may need a second one, of 4 bytes.
            n = 2 * n + len / 512;
        }
        n + self.tso_sentinel as u32 + self.after_tso as u32
    }

    /// Returns whether a buffer or ring may be at this address.
    pub(super) const fn allows(&self, at: u64, len: u32) -> bool {
        !self.bound_64k || len == 0 || at >> 16 == (at + len as u64 - 1) >> 16
    }
}

#[cfg(test)]
mod tests;
