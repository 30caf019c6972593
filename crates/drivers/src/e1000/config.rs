//! How the driver is set up.

use super::split::Errata;
use doorbell_hal::{Alignment, OutOfMemory, Span};

/// Which controller.
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
    /// By PCI device id.
    pub const fn of_device(id: u16) -> Option<Part> {
        use doorbell_layout::e1000::id;
        match id {
            id::I82544GC => Some(Part::I82544),
            id::I82540EM => Some(Part::I82540),
            id::I82545EM => Some(Part::I82545),
            _ => None,
        }
    }
    /// Whether it has ITR, RADV, TADV, MANC and write-back thresholds: 82540 and later.
    pub const fn is_82540_or_later(self) -> bool {
        !matches!(self, Part::I82544)
    }
}

/// What it is plugged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Conventional PCI: addresses of 32 bits, as these parts hang on dual address cycles.
    Pci,
    /// PCI-X.
    PciX,
}

/// How the EEPROM is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eeprom {
    /// Bit by bit through EECD, as Linux does on these parts.
    Microwire,
    /// A word at a time through EERD.
    Eerd,
}

/// Interrupt throttling (`InterruptThrottleRate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttle {
    /// None (0).
    Off,
    /// So many interrupts a second.
    Fixed(u32),
    /// By classes (1).
    Dynamic,
    /// By classes without the fastest (3).
    Conservative,
}

/// Thresholds of RXDCTL or TXDCTL, in descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Fetch when fewer than these are on the chip.
    pub prefetch: u8,
    /// And these are in memory.
    pub host: u8,
    /// Write back when these are done; 0 is each at once.
    pub write_back: u8,
}

/// How a controller is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which one.
    pub part: Part,
    /// Where.
    pub bus: Bus,
    /// Region of the I/O ports, through which it is reset; without, by a register write.
    pub io: Option<u8>,
    /// How to read the EEPROM.
    pub eeprom: Eeprom,
    /// Workarounds that are on.
    pub errata: Errata,
    /// Transmit descriptors: 48 to 4096, a multiple of 8.
    pub tx_ring: u32,
    /// Receive descriptors, likewise.
    pub rx_ring: u32,
    /// The switch: frames up to [`COPY_MAX`] are copied to slots of 2048 bytes
    /// that stay mapped.
    pub copy_align: bool,
    /// The switch: `NET_IP_ALIGN`, 0 or 2.
    pub rx_align: u32,
    /// Where receive buffers begin, before `rx_align`.
    pub rx_place: Alignment,
    /// Receive buffer: 256, 512, ... 16384 bytes.
    pub rx_buffer: u32,
    /// Longest frame without FCS and tag.
    pub max_frame: u32,
    /// Frames shorter than this, at most 256, are copied out of their buffer.
    pub copybreak: u32,
    /// Tags are inserted and stripped by the device.
    pub vlan: bool,
    /// The device checks TCP and UDP on receive.
    pub rx_checksum: bool,
    /// Obey and send pause frames.
    pub flow_control: bool,
    /// Throttling.
    pub throttle: Throttle,
    /// TIDV, in 1.024 us; 0 is off.
    pub tx_delay: u16,
    /// TADV.
    pub tx_absolute: u16,
    /// RDTR.
    pub rx_delay: u16,
    /// RADV.
    pub rx_absolute: u16,
    /// TXDCTL.
    pub tx_thresholds: Thresholds,
    /// RXDCTL; `None` leaves the part's own.
    pub rx_thresholds: Option<Thresholds>,
    /// RDMTS: RXDMT0 at 1/2 (0), 1/4 (1) or 1/8 (2) of the ring free.
    pub rx_low: u8,
    /// A transmission that takes longer is a hang.
    pub hang: Span,
}

/// Longest frame that `copy_align` copies.
pub const COPY_MAX: u32 = 2048;

impl Config {
    /// What Linux sets up by default.
    pub const fn new(part: Part, bus: Bus) -> Config {
        let write_back = if part.is_82540_or_later() { 1 } else { 0 };
        Config {
            part,
            bus,
            io: None,
            eeprom: Eeprom::Microwire,
            errata: Errata::of(part, bus),
            tx_ring: 256,
            rx_ring: 256,
            copy_align: false,
            rx_align: 2,
            rx_place: Alignment { align: 128, offset: 0 },
            rx_buffer: 2048,
            max_frame: 1514,
            copybreak: 256,
            vlan: true,
            rx_checksum: true,
            flow_control: true,
            throttle: Throttle::Conservative,
            tx_delay: 8,
            tx_absolute: 32,
            rx_delay: 0,
            rx_absolute: 8,
            tx_thresholds: Thresholds { prefetch: 0, host: 0, write_back },
            rx_thresholds: None,
            rx_low: 0,
            hang: Span::from_ms(2000),
        }
    }

    /// What is out of range, if anything.
    pub(super) fn check(&self) -> Result<(), OpenError> {
        let ring = |n: u32| (48..=4096).contains(&n) && n.is_multiple_of(8);
        let bad = |ok: bool, what| if ok { Ok(()) } else { Err(OpenError::Setting(what)) };
        bad(ring(self.tx_ring), "tx_ring: a multiple of 8 from 48 to 4096")?;
        bad(ring(self.rx_ring), "rx_ring: a multiple of 8 from 48 to 4096")?;
        bad(matches!(self.rx_align, 0 | 2), "rx_align: 0 or 2")?;
        let size = self.rx_buffer.is_power_of_two() && (256..=16384).contains(&self.rx_buffer);
        bad(size, "rx_buffer: a power of two from 256 to 16384")?;
        bad(self.copybreak <= 256, "copybreak: at most 256")?;
        bad((60..=16110).contains(&self.max_frame), "max_frame: 60 to 16110")?;
        bad(self.rx_low <= 2, "rx_low: 0, 1 or 2")?;
        let p = self.rx_place;
        bad(
            p.align.is_power_of_two() && p.offset + self.rx_align < p.align,
            "rx_place: offset below align",
        )?;
        let most = |t: Thresholds| t.prefetch.max(t.host).max(t.write_back) < 64;
        bad(most(self.tx_thresholds) && self.rx_thresholds.is_none_or(most), "thresholds: below 64")
    }
}

/// Why a controller could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A setting is out of range: which, and what is allowed.
    Setting(&'static str),
    /// No host memory.
    OutOfMemory,
    /// A ring or slot is where the part cannot reach it.
    Address,
    /// The card says that it is in PCI-X, where it has errata, and [`Config::bus`] does not.
    Bus,
    /// The device did not do this in time.
    Timeout(&'static str),
    /// The EEPROM's words sum to this and not to 0xbaba.
    Checksum(u16),
    /// The MDI has another PHY.
    Phy(u32),
}

impl From<OutOfMemory> for OpenError {
    fn from(_: OutOfMemory) -> OpenError {
        OpenError::OutOfMemory
    }
}
