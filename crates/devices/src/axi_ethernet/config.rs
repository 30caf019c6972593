//! Configuration of the cores, and choices that the documents leave open.

use doorbell_hal::Span;
pub use doorbell_layout::axienet::Checksum;
use doorbell_layout::axienet::Descriptor;
pub use doorbell_packet::ethernet::Speed;

/// Configuration of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of transmit memory (C_TXMEM): 2048 to 32768.
    pub tx_memory: u32,
    /// Bytes of receive memory (C_RXMEM): 2048 to 32768.
    pub rx_memory: u32,
    /// Transmitted checksums.
    pub tx_checksum: Checksum,
    /// Received checksums.
    pub rx_checksum: Checksum,
    /// Bits of a DMA address, 32 to 64.
    pub address_bits: u32,
    /// Bits of a descriptor's length that the engine takes, 8 to 26 (C_SG_LENGTH_WIDTH). What is
    /// above is ignored.
    pub length_bits: u32,
    /// A partial checksum that comes out as 0 leaves as 0, which is no checksum in UDP over IPv4
    /// and wrong over IPv6; else as 0xffff. No document says what the core does.
    pub zero_checksum: bool,
    /// Data realignment engine: buffers may begin anywhere, else at multiples of 4.
    pub realign: bool,
    /// The clock of the DMA engine and of its delay timers, MHz.
    pub clock_mhz: u32,
    /// The clock of the register port, MHz: MDIO's is divided from it.
    pub lite_mhz: u32,
    /// Clocks of the DMA engine in a unit of the delay (C_DLYTMR_RESOLUTION): 1 to 100000.
    pub delay_clocks: u32,
    /// Any write of CR restarts the threshold's count, as in QEMU's model; else only a changed
    /// threshold does, as in the core's source. See `coalesce.rs`.
    pub reload_on_any_write: bool,
    /// The PHY's address on MDIO; `None`: a fixed link, which is up whenever the cable is in.
    pub phy: Option<u8>,
    /// Speed that the link partner agrees to.
    pub speed: Speed,
    /// From a reset to PhyRstCmplt: some milliseconds, for which no document was found. The driver
    /// waits for up to 50 ms.
    pub phy_reset: Span,
    /// Duration of a negotiation: about two seconds in hardware, zero where nothing depends on it.
    pub negotiation: Span,
    /// The core has statistics registers.
    pub statistics: bool,
    /// The core has the extended multicast table.
    pub extended_multicast: bool,
}

impl Config {
    /// 1 Gbit/s on a Zynq UltraScale+: 125 MHz, partial checksums, memory for jumbo frames, 64 bits
    /// of address.
    pub const ZYNQMP: Config = Config {
        tx_memory: 32 << 10,
        rx_memory: 32 << 10,
        tx_checksum: Checksum::CsumPartial,
        rx_checksum: Checksum::CsumPartial,
        address_bits: 64,
        length_bits: 16,
        zero_checksum: false,
        realign: true,
        clock_mhz: 125,
        lite_mhz: 125,
        delay_clocks: 125,
        reload_on_any_write: false,
        phy: Some(1),
        speed: Speed::M1000,
        phy_reset: Span::from_ms(5),
        negotiation: Span::ZERO,
        statistics: true,
        extended_multicast: false,
    };

    /// The same with every value in its range.
    pub(super) fn clamped(mut self) -> Config {
        self.tx_memory = self.tx_memory.clamp(2048, 32768);
        self.rx_memory = self.rx_memory.clamp(2048, 32768);
        self.address_bits = self.address_bits.clamp(32, 64);
        self.length_bits = self.length_bits.clamp(8, 26);
        self.clock_mhz = self.clock_mhz.clamp(1, 1000);
        self.lite_mhz = self.lite_mhz.clamp(1, 1000);
        self.delay_clocks = self.delay_clocks.clamp(1, 100_000);
        self.phy = self.phy.map(|p| p & 31);
        self
    }

    /// Returns the length in a control word, as far as the engine takes it.
    pub(super) const fn length(&self, control: u32) -> u32 {
        control & Descriptor::LENGTH & ((1 << self.length_bits) - 1)
    }

    /// Returns the time of `n` clocks of the DMA engine.
    pub(super) const fn clocks(&self, n: u64) -> Span {
        Span::from_ps((n * 1_000_000).div_ceil(self.clock_mhz as u64))
    }

    pub(super) const fn delay_unit(&self) -> Span {
        self.clocks(self.delay_clocks as u64)
    }

    /// Returns true if address registers have upper halves.
    pub(super) const fn wide(&self) -> bool {
        self.address_bits > 32
    }

    /// An address as the engine puts it on the bus.
    pub(super) const fn address(&self, low: u32, high: u32) -> u64 {
        (low as u64 | (high as u64) << 32) & (u64::MAX >> (64 - self.address_bits))
    }
}
