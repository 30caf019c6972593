//! Configuration of a controller.

use super::errata::Errata;
use super::part::{Bus, Part};
use crate::{Opened, check};
use doorbell_hal::{Alignment, Span};
use doorbell_packet::vlan::TAG;

/// Method of reading the EEPROM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eeprom {
    /// Bit by bit through EECD, as in Linux on these parts.
    Microwire,
    /// A word at a time through EERD.
    Eerd,
}

/// Interrupt throttling (`InterruptThrottleRate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttle {
    /// None (0).
    Off,
    /// A fixed number of interrupts a second.
    Fixed(u32),
    /// By traffic classes (1).
    Dynamic,
    /// By traffic classes without the fastest (3).
    Conservative,
}

/// Thresholds of RXDCTL or TXDCTL, in descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Fetch when fewer than this are on the chip.
    pub prefetch: u8,
    /// And at least this many are in memory.
    pub host: u8,
    /// Write back when this many are done; 0: each at once.
    pub write_back: u8,
}

/// The configuration of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The controller.
    pub part: Part,
    /// Its bus.
    pub bus: Bus,
    /// Region of the I/O ports, used for its reset; `None` resets by a register write.
    pub io: Option<u8>,
    /// Method of reading the EEPROM.
    pub eeprom: Eeprom,
    /// Workarounds that are on.
    pub errata: Errata,
    /// Transmit descriptors: 48 to 4096, a multiple of 8.
    pub tx_ring: u32,
    /// Receive descriptors, likewise.
    pub rx_ring: u32,
    /// The switch: frames up to 2048 bytes are copied to slots that stay mapped.
    pub copy_align: bool,
    /// The switch: `NET_IP_ALIGN`, 0 or 2.
    pub rx_align: u32,
    /// Alignment of receive buffers, before `rx_align`.
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
    /// Transmit time that counts as a hang at 100 and 1000 Mbit/s. At 10 it is 16 times as long,
    /// and never shorter than the time of a full ring on the link.
    pub hang: Span,
    /// The stack limits the bytes in the transmit ring (BQL).
    pub bql: bool,
    /// An 82574 sends messages of MSI-X: one for each queue's received frames, one for each queue's
    /// sent ones, and one for the link.
    pub msix: bool,
    /// Queues of each direction: 1, or 2 of an 82574, which spreads received frames over them. With
    /// several, each is a [`Queue`](super::Queue).
    pub queues: u16,
}

/// Longest frame that `copy_align` copies.
pub(super) const COPY_MAX: u32 = 2048;

impl Config {
    /// Linux's defaults.
    pub const fn new(part: Part, bus: Bus) -> Config {
        let write_back = if part.is_82540_or_later() { 1 } else { 0 };
        let plain = Config::of_8254x(part, bus, write_back);
        if !part.is_82574() {
            return plain;
        }
        // FLAG2_DMA_BURST: descriptors in bursts, and the timers that end the wait for one.
        Config {
            eeprom: Eeprom::Eerd,
            rx_delay: 32,
            rx_absolute: 32,
            tx_thresholds: Thresholds { prefetch: 31, host: 1, write_back },
            rx_thresholds: Some(Thresholds { prefetch: 32, host: 4, write_back: 4 }),
            ..plain
        }
    }

    const fn of_8254x(part: Part, bus: Bus, write_back: u8) -> Config {
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
            bql: true,
            msix: false,
            queues: 1,
        }
    }

    /// Returns the length in bytes without FCS of the longest frame that is sent: with a provider's
    /// and a customer's tag.
    pub const fn longest(&self) -> u32 {
        self.max_frame + 2 * TAG as u32
    }

    pub(super) fn check(&self) -> Opened {
        let ring = |n: u32| (48..=4096).contains(&n) && n.is_multiple_of(8);
        check(ring(self.tx_ring), "tx_ring: a multiple of 8 from 48 to 4096")?;
        check(ring(self.rx_ring), "rx_ring: a multiple of 8 from 48 to 4096")?;
        check(matches!(self.rx_align, 0 | 2), "rx_align: 0 or 2")?;
        let own_bus = self.part.is_82574() == matches!(self.bus, Bus::Express);
        check(own_bus, "bus: PCI Express of an 82574, and of no other")?;
        check(!self.msix || self.part.is_82574(), "msix: of an 82574 alone")?;
        let queues = self.queues == 1 || self.queues == 2 && self.part.is_82574();
        check(queues, "queues: 1, or 2 of an 82574")?;
        let microwire = self.eeprom == Eeprom::Microwire;
        check(!(microwire && self.part.is_82574()), "eeprom: of an 82574 through EERD")?;
        let size = self.rx_buffer.is_power_of_two() && (256..=16384).contains(&self.rx_buffer);
        check(size, "rx_buffer: a power of two from 256 to 16384")?;
        check(self.copybreak <= 256, "copybreak: at most 256")?;
        check((60..=16110).contains(&self.max_frame), "max_frame: 60 to 16110")?;
        check(self.rx_low <= 2, "rx_low: 0, 1 or 2")?;
        let p = self.rx_place;
        check(
            p.align.is_power_of_two() && p.offset + self.rx_align < p.align,
            "rx_place: offset below align",
        )?;
        let most = |t: Thresholds| t.prefetch.max(t.host).max(t.write_back) < 64;
        let all = most(self.tx_thresholds) && self.rx_thresholds.is_none_or(most);
        check(all, "thresholds: below 64")
    }
}

/// Returns the value of ITR for a rate in interrupts per second: the interval in 256 ns, or 0 for
/// no limit.
pub const fn interval(rate: u32) -> u32 {
    // A rate that is too low for 16 bits is the lowest.
    let n = match rate {
        0 => 0,
        r => 1_000_000_000 / (r as u64 * 256),
    };
    if n > 0xffff { 0xffff } else { n as u32 }
}
