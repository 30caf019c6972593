//! Configuration: the core's properties from the device tree, and the user's choices.

use super::coalesce::Coalesce;
use super::mdio::{Speed, divisor};
use crate::{Opened, check, common::within};
use doorbell_hal::Alignment;
pub use doorbell_layout::axienet::Checksum;
use doorbell_moderation::{Direction, NetDim, profiles};
use doorbell_packet::{MAX_FRAGS, ethernet, vlan::TAG};

/// The configuration of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its own address.
    pub mac: [u8; 6],
    /// Transmit descriptors: 18 to 4096.
    pub tx_ring: u32,
    /// Receive descriptors: 1 to 4096.
    pub rx_ring: u32,
    /// Longest IP datagram: 64 to 9000, and with headers and FCS at most `rx_memory`.
    pub mtu: u32,
    /// The MAC's receive memory (`xlnx,rxmem`), bytes.
    pub rx_memory: u32,
    /// Transmitted checksums.
    pub tx_checksum: Checksum,
    /// Received checksums.
    pub rx_checksum: Checksum,
    /// Bits of a DMA address (`xlnx,addrwidth`): 32 to 64. Above 32 the registers have upper
    /// halves.
    pub address_bits: u8,
    /// Alignment of receive buffers: `NET_IP_ALIGN` is the offset.
    pub rx_place: Alignment,
    /// Clock of the scatter-gather port; the delay is counted in it.
    pub clock_hz: u32,
    /// Clock of the register port; MDIO's is divided from it.
    pub mdio_clock_hz: u32,
    /// Address of the PHY on MDIO; without one the link is up at `speed`.
    pub phy: Option<u8>,
    /// Speed until the PHY says another.
    pub speed: Speed,
    /// Obey pause frames and send them.
    pub flow_control: bool,
    /// The MAC has counters; `None` asks its ABILITY register.
    pub statistics: Option<bool>,
    /// TAILDESC is written once a batch; Linux writes it for every packet.
    pub batch: bool,
    /// Interrupts.
    pub coalesce: Coalesce,
    /// The stack limits the bytes in the transmit ring (BQL).
    pub bql: bool,
}

/// Ethernet header with a tag.
pub(super) const HEADER: u32 = (ethernet::HEADER + TAG) as u32;
const FCS: u32 = ethernet::FCS as u32;
/// Longest datagram of a frame that is not jumbo.
const MTU: u32 = ethernet::MTU as u32;
/// Descriptors that a packet may need.
pub(super) const PIECES: u32 = MAX_FRAGS as u32 + 1;

impl Config {
    /// Linux's defaults on a core with partial checksums, 32 bits and a 125 MHz clock.
    pub const fn new(mac: [u8; 6]) -> Config {
        Config {
            mac,
            tx_ring: 128,
            rx_ring: 1024,
            mtu: MTU,
            rx_memory: 32 << 10,
            tx_checksum: Checksum::CsumPartial,
            rx_checksum: Checksum::CsumPartial,
            address_bits: 32,
            rx_place: Alignment { align: 64, offset: 2 },
            clock_hz: 125_000_000,
            mdio_clock_hz: 150_000_000,
            phy: None,
            speed: Speed::M1000,
            flow_control: true,
            statistics: None,
            batch: false,
            coalesce: Coalesce::LINUX,
            bql: true,
        }
    }

    /// Returns Linux's controller: net_dim over 4^i packets.
    pub const fn net_dim(&self) -> NetDim {
        let usec = if self.coalesce.rx_usecs > u16::MAX as u32 {
            u16::MAX
        } else {
            self.coalesce.rx_usecs as u16
        };
        NetDim::new(profiles::axienet(usec), Direction::Rx)
    }

    /// Returns the length in bytes without FCS of the longest frame that is sent: with a tag.
    pub const fn longest(&self) -> u32 {
        self.mtu + HEADER
    }

    /// Returns the bytes of a receive buffer: the longest frame.
    pub const fn rx_buffer(&self) -> u32 {
        HEADER + FCS + if self.is_jumbo() { self.mtu } else { MTU }
    }

    /// Returns whether frames are longer than the standard allows.
    pub(super) const fn is_jumbo(&self) -> bool {
        self.mtu > MTU
    }
    pub(super) fn check(&self) -> Opened {
        check((PIECES..=4096).contains(&self.tx_ring), "tx_ring: 18 to 4096")?;
        check((1..=4096).contains(&self.rx_ring), "rx_ring: 1 to 4096")?;
        check((64..=9000).contains(&self.mtu), "mtu: 64 to 9000")?;
        check(
            self.mtu + HEADER + FCS <= self.rx_memory,
            "mtu: with 22 bytes of header and FCS within rx_memory",
        )?;
        check((32..=64).contains(&self.address_bits), "address_bits: 32 to 64")?;
        let p = self.rx_place;
        check(p.align.is_power_of_two() && p.offset < p.align, "rx_place: offset below align")?;
        check(self.clock_hz > 0, "clock_hz: not zero")?;
        check(self.phy.is_none_or(|a| a < 32), "phy: 0 to 31")?;
        let clock = self.phy.is_none() || divisor(self.mdio_clock_hz).is_some();
        check(clock, "mdio_clock_hz: at most 320 MHz, and not zero")?;
        self.coalesce.check()
    }

    /// Returns whether the core can address `len` bytes at `at`.
    pub(super) const fn reachable(&self, at: u64, len: u32) -> bool {
        within(self.address_bits, at, len)
    }
}
