//! Intel 8254x (e1000): registers and descriptors.
//!
//! Source: Intel, "PCI/PCI-X Family of Gigabit Ethernet Controllers Software
//! Developer's Manual" (317453), chapters 3 and 13. All of it is little-endian.
//! Registers are 32 bits wide, in region 0 (128 KiB).

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Register offsets in region 0.
pub mod reg {
    /// Device control.
    pub const CTRL: u32 = 0x0000;
    /// Device status.
    pub const STATUS: u32 = 0x0008;
    /// Interrupt causes; reading clears them.
    pub const ICR: u32 = 0x00c0;
    /// Interrupt throttling: least distance of two interrupts, in 256 ns.
    pub const ITR: u32 = 0x00c4;
    /// Interrupt causes, to be set.
    pub const ICS: u32 = 0x00c8;
    /// Interrupt mask: causes to be enabled.
    pub const IMS: u32 = 0x00d0;
    /// Interrupt mask: causes to be disabled.
    pub const IMC: u32 = 0x00d8;
    /// Receive control.
    pub const RCTL: u32 = 0x0100;
    /// Transmit control.
    pub const TCTL: u32 = 0x0400;
    /// Transmit inter-packet gap.
    pub const TIPG: u32 = 0x0410;
    /// Receive ring: address, low half.
    pub const RDBAL: u32 = 0x2800;
    /// Receive ring: address, high half.
    pub const RDBAH: u32 = 0x2804;
    /// Receive ring: bytes, a multiple of 128.
    pub const RDLEN: u32 = 0x2808;
    /// Receive ring: the device's next descriptor.
    pub const RDH: u32 = 0x2810;
    /// Receive ring: the driver's last filled descriptor, which the device does
    /// not take yet.
    pub const RDT: u32 = 0x2818;
    /// Transmit ring: address, low half.
    pub const TDBAL: u32 = 0x3800;
    /// Transmit ring: address, high half.
    pub const TDBAH: u32 = 0x3804;
    /// Transmit ring: bytes, a multiple of 128.
    pub const TDLEN: u32 = 0x3808;
    /// Transmit ring: the device's next descriptor.
    pub const TDH: u32 = 0x3810;
    /// Transmit ring: one past the driver's last descriptor. Writing it is the
    /// doorbell.
    pub const TDT: u32 = 0x3818;
    /// Receive address 0: low half, then high half with [`super::RAH_AV`].
    pub const RAL0: u32 = 0x5400;
    /// See [`RAL0`].
    pub const RAH0: u32 = 0x5404;
}

/// CTRL: set link up.
pub const CTRL_SLU: u32 = 1 << 6;
/// CTRL: reset; clears itself.
pub const CTRL_RST: u32 = 1 << 26;
/// STATUS: link up.
pub const STATUS_LU: u32 = 1 << 1;
/// TCTL: transmitter on.
pub const TCTL_EN: u32 = 1 << 1;
/// TCTL: pad short packets.
pub const TCTL_PSP: u32 = 1 << 3;
/// RCTL: receiver on.
pub const RCTL_EN: u32 = 1 << 1;
/// RCTL: accept broadcast.
pub const RCTL_BAM: u32 = 1 << 15;
/// RCTL: strip the FCS.
pub const RCTL_SECRC: u32 = 1 << 26;
/// RAH: this receive address is valid.
pub const RAH_AV: u32 = 1 << 31;

/// Interrupt cause: transmit descriptor written back.
pub const INT_TXDW: u32 = 1 << 0;
/// Interrupt cause: transmit queue empty.
pub const INT_TXQE: u32 = 1 << 1;
/// Interrupt cause: link status changed.
pub const INT_LSC: u32 = 1 << 2;
/// Interrupt cause: receive timer, a packet was received.
pub const INT_RXT0: u32 = 1 << 7;

/// The legacy transmit descriptor (section 3.3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LegacyTx {
    /// Where the data are.
    pub address: U64,
    /// How many bytes.
    pub length: U16,
    /// Checksum offset: where the checksum is stored, with [`LegacyTx::IC`].
    pub cso: u8,
    /// `EOP`, `IFCS`, `IC`, `RS`, ...
    pub cmd: u8,
    /// `DD`, ...; written by the device.
    pub status: u8,
    /// Checksum start.
    pub css: u8,
    /// VLAN tag.
    pub special: U16,
}
const _: () = assert!(size_of::<LegacyTx>() == 16);

impl LegacyTx {
    /// Command: the packet ends here.
    pub const EOP: u8 = 1 << 0;
    /// Command: append the FCS.
    pub const IFCS: u8 = 1 << 1;
    /// Command: insert a checksum.
    pub const IC: u8 = 1 << 2;
    /// Command: report status, when done.
    pub const RS: u8 = 1 << 3;
    /// Status: done.
    pub const DD: u8 = 1 << 0;
    /// Where the status is in the descriptor.
    pub const STATUS: u32 = core::mem::offset_of!(LegacyTx, status) as u32;
}

/// The receive descriptor (section 3.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Rx {
    /// Where the device may put data.
    pub address: U64,
    /// How many bytes it put there, the FCS among them unless it is stripped.
    pub length: U16,
    /// Packet checksum.
    pub checksum: U16,
    /// `DD`, `EOP`, ...; written by the device.
    pub status: u8,
    /// Errors.
    pub errors: u8,
    /// VLAN tag.
    pub special: U16,
}
const _: () = assert!(size_of::<Rx>() == 16);

impl Rx {
    /// Status: done.
    pub const DD: u8 = 1 << 0;
    /// Status: the packet ends here.
    pub const EOP: u8 = 1 << 1;
    /// Where the status is in the descriptor.
    pub const STATUS: u32 = core::mem::offset_of!(Rx, status) as u32;
}
