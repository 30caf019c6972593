//! QEMU's `petalogix-ml605` board: a MicroBlaze with an AXI Ethernet and its AXI DMA.
//!
//! Source: hw/microblaze/petalogix_ml605_mmu.c in QEMU. The devices are where the board
//! has them, so there is nothing to enumerate. The board allocates its memory itself
//! and cannot share it, so each access goes through the socket.

use super::{Error, Irq, Launch, QtestHost, Ram, Region, Wire};

/// The configuration of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Ml605<'a> {
    /// The cable of its Ethernet.
    pub wire: &'a Wire,
}

const MEMORY_MIB: u64 = 64;
const MEMORY: u64 = 0x5000_0000;
const ETHERNET: u64 = 0x8278_0000;
const DMA: u64 = 0x8460_0000;
/// The board's only interrupt controller; it has no name in QEMU's object model.
const CONTROLLER: &str = "/machine/unattached/device[2]";

impl Ml605<'_> {
    /// Input of the interrupt controller for the DMA channel that transmits.
    pub const TX_LINE: u32 = 1;
    /// Input for the channel that receives.
    pub const RX_LINE: u32 = 0;
    /// Input for the MAC.
    pub const MAC_LINE: u32 = 3;
    /// Bytes of the MAC's memories for transmission and reception, each.
    pub const MAC_MEMORY: u32 = 4096;
    /// Clock of the DMA engine.
    pub const CLOCK_HZ: u32 = 100_000_000;
    /// Address of the PHY on MDIO.
    pub const PHY: u8 = 7;

    /// Starts the machine. Region 0 is the MAC, region 1 the DMA engine; the host's
    /// line is that of reception.
    ///
    /// # Errors
    /// When QEMU does not start.
    pub fn start(self) -> Result<QtestHost, Error> {
        let mut launch = Launch::new("microblazeel")?;
        launch.args(["-machine", "petalogix-ml605", "-m", &MEMORY_MIB.to_string()]);
        launch.args(["-netdev", &self.wire.netdev("wire"), "-net", "nic,netdev=wire"]);
        let q = launch.start()?;
        let regions = vec![Region::Memory(ETHERNET), Region::Memory(DMA)];
        let irq = Irq { controller: CONTROLLER, line: Self::RX_LINE };
        QtestHost::new(q, Ram::SOCKET, MEMORY..MEMORY + (MEMORY_MIB << 20), regions, irq)
    }
}
