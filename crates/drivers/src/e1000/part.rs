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
}

impl Part {
    /// Returns whether it has ITR, RADV, TADV, MANC and write-back thresholds: 82540 and later.
    pub const fn is_82540_or_later(self) -> bool {
        !matches!(self, Part::I82544)
    }
}

/// The bus of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Conventional PCI: addresses of 32 bits, as these parts hang on dual address cycles.
    Pci,
    /// PCI-X.
    PciX,
}
