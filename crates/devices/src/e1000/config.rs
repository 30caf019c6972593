//! The chip, and choices that the documents leave open.

use doorbell_hal::Span;
use doorbell_layout::e1000::id;
pub use doorbell_packet::ethernet::Speed;

/// The chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// 82544GC: the oldest of the three. It knows RPS, and has neither interrupt
    /// throttling nor absolute timers nor the small-packet interrupt.
    I82544Gc,
    /// 82540EM: conventional PCI, on every desktop board of its time.
    I82540Em,
    /// 82545EM: PCI-X.
    I82545Em,
    /// 82574L: PCI Express, MSI-X, extended receive descriptors.
    I82574L,
}

impl Variant {
    /// PCI device id; the vendor is 0x8086.
    pub const fn device_id(self) -> u16 {
        match self {
            Variant::I82544Gc => id::I82544GC,
            Variant::I82540Em => id::I82540EM,
            Variant::I82545Em => id::I82545EM,
            Variant::I82574L => id::I82574L,
        }
    }

    /// ITR, RADV, TADV and RSRPD came with the 82540.
    pub(super) const fn moderates(self) -> bool {
        !matches!(self, Variant::I82544Gc)
    }

    /// "Report packet sent" left with the 82544.
    pub(super) const fn reports_sent(self) -> bool {
        matches!(self, Variant::I82544Gc)
    }

    /// Returns true if it has the registers and the interrupts of the 82574.
    pub(super) const fn is_82574(self) -> bool {
        matches!(self, Variant::I82574L)
    }

    /// KiB of packet memory, and those of them for receive at power-on (82574: 10.2.2.21).
    pub(super) const fn packet_memory(self) -> (u32, u32) {
        if self.is_82574() { (40, 20) } else { (64, 48) }
    }

    /// PHY identifier, registers 2 and 3: the discrete 88E1000 of the 82544, the
    /// integrated 88E1011 of the 82540 and 82545, and BM of the 82574.
    pub(super) const fn phy_id(self) -> [u16; 2] {
        match self {
            Variant::I82544Gc => [0x0141, 0x0c30],
            Variant::I82540Em | Variant::I82545Em => [0x0141, 0x0c20],
            Variant::I82574L => [0x0141, 0x0cb1],
        }
    }
}

/// The slot that the card is in, as STATUS tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Conventional PCI.
    Pci {
        /// 66 MHz.
        mhz66: bool,
        /// 64 bits wide.
        wide: bool,
    },
    /// PCI-X: clock class 0 (50-66 MHz), 1 (66-100) or 2 (100-133).
    PciX {
        /// The class.
        clock: u8,
    },
    /// PCI Express.
    Express {
        /// The interrupt is a message, number 0, and not the line. Where a function has a
        /// configuration space, that decides, and this is false.
        msi: bool,
    },
}

/// Configuration of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The chip.
    pub variant: Variant,
    /// Station address, in the EEPROM.
    pub mac: [u8; 6],
    /// The slot.
    pub slot: Slot,
    /// Speed that the link partner agrees to.
    pub speed: Speed,
    /// Cache line size that the system wrote into configuration space, in bytes.
    /// Thresholds may count in it. An unknown size counts as 32.
    pub cache_line: u32,
    /// Largest single read of packet data in bytes. The bus cuts a read by its own
    /// rules; this is for a chip that asks for less at a time.
    pub max_read: u32,
    /// A read of a large send's data goes on beyond the end of a segment. The manuals
    /// leave it open; a chip that stops there asks the bus for more, smaller pieces.
    pub read_across: bool,
    /// Duration of the link's absence after a PHY reset or a new negotiation: about two seconds in
    /// hardware, zero where nothing depends on it.
    pub negotiation: Span,
    /// The parts' errata that touch buffers: see [`E1000`](super::E1000).
    pub errata: bool,
    /// ICR bit 31 says that the interrupt was asserted. The manual of this family
    /// has it reserved; successors have it.
    pub int_asserted: bool,
}

impl Config {
    /// An 82540EM in a 32-bit, 66 MHz slot.
    pub const I82540EM: Config = Config {
        variant: Variant::I82540Em,
        mac: [0x00, 0x0e, 0x0c, 0x82, 0x54, 0x01],
        slot: Slot::Pci { mhz66: true, wide: false },
        speed: Speed::M1000,
        cache_line: 128,
        max_read: 16 * 1024,
        read_across: true,
        negotiation: Span::ZERO,
        errata: true,
        int_asserted: false,
    };
    /// An 82544GC in a 64-bit, 66 MHz slot.
    pub const I82544GC: Config = Config {
        variant: Variant::I82544Gc,
        slot: Slot::Pci { mhz66: true, wide: true },
        ..Config::I82540EM
    };
    /// An 82545EM on a PCI-X bus of 133 MHz.
    pub const I82545EM: Config =
        Config { variant: Variant::I82545Em, slot: Slot::PciX { clock: 2 }, ..Config::I82540EM };

    /// An 82574L in a slot of PCI Express.
    pub const I82574L: Config = Config {
        variant: Variant::I82574L,
        slot: Slot::Express { msi: false },
        cache_line: 64,
        int_asserted: true,
        ..Config::I82540EM
    };

    /// The same with every value in its range, as hardware would take it.
    pub(super) fn clamped(mut self) -> Config {
        if !matches!(self.cache_line, 16 | 32 | 64 | 128 | 256) {
            self.cache_line = 32;
        }
        self.max_read = self.max_read.clamp(64, 16 * 1024);
        self
    }
}
