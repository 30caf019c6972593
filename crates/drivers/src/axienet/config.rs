//! How the driver is set up: what a device tree says of the core, and what a user may
//! choose.

use super::coalesce::Coalesce;
use doorbell_hal::{Alignment, OutOfMemory};
use doorbell_moderation::{Direction, NetDim, profiles};
use doorbell_packet::vlan::TAG;
use doorbell_packet::{MAX_FRAGS, ethernet};

/// What the core does about checksums (`xlnx,txcsum`, `xlnx,rxcsum`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing (0).
    None,
    /// It sums; where from, where to and what it means is software's (1).
    CsumPartial,
    /// It knows IP, TCP and UDP (2).
    Full,
}

/// Speed of the link, in Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// 10.
    M10,
    /// 100.
    M100,
    /// 1000.
    M1000,
}

impl Speed {
    /// In Mbit/s.
    pub const fn mbits(self) -> u32 {
        match self {
            Speed::M10 => 10,
            Speed::M100 => 100,
            Speed::M1000 => 1000,
        }
    }
}

/// How a core is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its own address.
    pub mac: [u8; 6],
    /// Transmit descriptors: 18 to 4096.
    pub tx_ring: u32,
    /// Receive descriptors: 1 to 4096.
    pub rx_ring: u32,
    /// Longest IP datagram: 64 to 9000, and with headers and FCS no more than
    /// `rx_memory`. A core that is open keeps it.
    pub mtu: u32,
    /// The MAC's receive memory (`xlnx,rxmem`), bytes.
    pub rx_memory: u32,
    /// Transmitted checksums.
    pub tx_checksum: Checksum,
    /// Received checksums.
    pub rx_checksum: Checksum,
    /// Bits of a DMA address (`xlnx,addrwidth`): 32 to 64. Beyond 32 the upper halves
    /// of the registers exist.
    pub address_bits: u8,
    /// Where receive buffers begin: `NET_IP_ALIGN` is the offset.
    pub rx_place: Alignment,
    /// Clock of the scatter-gather port, which the delay counts.
    pub clock_hz: u32,
    /// Clock of the register port, of which MDIO's is divided.
    pub mdio_clock_hz: u32,
    /// Address of the PHY on MDIO; without one the link is up at `speed`.
    pub phy: Option<u8>,
    /// Speed until the PHY says another.
    pub speed: Speed,
    /// Obey pause frames and send them.
    pub flow_control: bool,
    /// The MAC counts; `None` asks its ABILITY register.
    pub statistics: Option<bool>,
    /// TAILDESC is written once a batch; Linux writes it for every packet.
    pub batch: bool,
    /// Interrupts.
    pub coalesce: Coalesce,
}

/// Ethernet header with a tag.
pub(super) const HEADER: u32 = (ethernet::HEADER + TAG) as u32;
const FCS: u32 = ethernet::FCS as u32;
/// Longest datagram of a frame that is not jumbo.
const MTU: u32 = ethernet::MTU as u32;
/// Descriptors that a packet may need.
pub(super) const PIECES: u32 = MAX_FRAGS as u32 + 1;

impl Config {
    /// What Linux sets up by default on a core with partial checksums, 32 bits and
    /// a 125 MHz clock.
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
        }
    }

    /// The controller that Linux has for it: net_dim over 4^i packets.
    pub const fn net_dim(&self) -> NetDim {
        let usec = if self.coalesce.rx_usecs > u16::MAX as u32 {
            u16::MAX
        } else {
            self.coalesce.rx_usecs as u16
        };
        NetDim::new(profiles::axienet(usec), Direction::Rx)
    }

    /// Bytes of a receive buffer: the longest frame.
    pub const fn rx_buffer(&self) -> u32 {
        HEADER + FCS + if self.is_jumbo() { self.mtu } else { MTU }
    }

    /// Whether frames are longer than the standard allows.
    pub const fn is_jumbo(&self) -> bool {
        self.mtu > MTU
    }

    /// What is out of range, if anything.
    pub(super) fn check(&self) -> Result<(), OpenError> {
        let bad = |ok: bool, what| if ok { Ok(()) } else { Err(OpenError::Setting(what)) };
        bad((PIECES..=4096).contains(&self.tx_ring), "tx_ring: 18 to 4096")?;
        bad((1..=4096).contains(&self.rx_ring), "rx_ring: 1 to 4096")?;
        bad((64..=9000).contains(&self.mtu), "mtu: 64 to 9000")?;
        bad(
            self.mtu + HEADER + FCS <= self.rx_memory,
            "mtu: with 22 bytes of header and FCS within rx_memory",
        )?;
        bad((32..=64).contains(&self.address_bits), "address_bits: 32 to 64")?;
        let p = self.rx_place;
        bad(p.align.is_power_of_two() && p.offset < p.align, "rx_place: offset below align")?;
        bad(self.clock_hz > 0, "clock_hz: not zero")?;
        bad(self.phy.is_none_or(|a| a < 32), "phy: 0 to 31")?;
        let clock = self.phy.is_none() || super::mdio::divisor(self.mdio_clock_hz).is_some();
        bad(clock, "mdio_clock_hz: at most 320 MHz, and not zero")?;
        self.coalesce.check()
    }

    /// Whether the core can name `len` bytes at `at`.
    pub(super) const fn reachable(&self, at: u64, len: u32) -> bool {
        match at.checked_add(len as u64) {
            Some(end) => self.address_bits >= 64 || (end - 1) >> self.address_bits == 0,
            None => false,
        }
    }
}

/// Why a core could not be opened, or a setting not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A setting is out of range: which, and what is allowed.
    Setting(&'static str),
    /// No host memory.
    OutOfMemory,
    /// A ring is where the core cannot reach it.
    Address,
    /// The device did not do this in time.
    Timeout(&'static str),
}

impl From<OutOfMemory> for OpenError {
    fn from(_: OutOfMemory) -> OpenError {
        OpenError::OutOfMemory
    }
}
