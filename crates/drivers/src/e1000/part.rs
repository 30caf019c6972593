//! The controllers that this driver knows, and the buses that they are on.

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// 82544GC.
    I82544,
    /// 82540EM.
    I82540,
    /// 82545EM (revision 0).
    I82545,
    /// 82574L.
    I82574,
}

impl Part {
    /// Returns whether it has ITR, RADV, TADV, MANC and write-back thresholds: 82540 and later.
    pub const fn is_82540_or_later(self) -> bool {
        !matches!(self, Part::I82544)
    }

    /// Returns whether it has the registers, the interrupts and the receive descriptors of the
    /// 82574, for which Linux has a driver of its own (e1000e).
    pub const fn is_82574(self) -> bool {
        matches!(self, Part::I82574)
    }
}

/// The bus of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Conventional PCI: addresses of 32 bits, as these parts hang on dual address cycles.
    Pci,
    /// PCI-X.
    PciX,
    /// PCI Express, of the 82574 alone. The others are behind a bridge there, on [`Bus::Pci`].
    Express,
}
