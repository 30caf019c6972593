//! AXI Ethernet and AXI DMA (axienet): registers, buffer descriptors, application
//! words, MDIO.
//!
//! Sources: Linux `drivers/net/ethernet/xilinx/xilinx_axienet.h` and
//! `xilinx_axienet_main.c`, `drivers/dma/xilinx/xilinx_dma.c`; AMD's embeddedsw
//! `xaxidma_hw.h`, `xaxiethernet_hw.h`. The vendor's guides are PG138 (AXI Ethernet)
//! and PG021 (AXI DMA). Registers and descriptors are little-endian words of 32 bits; an
//! address of more bits has its upper half (MSB) in the next word.
//!
//! These are two cores with a register window each: the MAC in [`MAC`], the DMA engine
//! in [`DMA`]. The engine has two channels with the same registers, [`MM2S`] (transmit)
//! and [`S2MM`] (receive); a channel's register is at the channel's offset plus its own
//! ([`dma`]). Each channel has an interrupt line, and so has the MAC ([`mod@line`]).

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The MAC's register window: region of the seam's `Reg`.
pub const MAC: u8 = 0;
/// Bytes of it, the extended multicast table included.
pub const MAC_LEN: u32 = 256 << 10;
/// The DMA engine's register window.
pub const DMA: u8 = 1;
/// Bytes of it.
pub const DMA_LEN: u32 = 4 << 10;

/// Channel: memory to stream, which transmits.
pub const MM2S: u32 = 0x00;
/// Channel: stream to memory, which receives.
pub const S2MM: u32 = 0x30;

/// Interrupt lines: levels.
pub mod line {
    /// Channel [`super::MM2S`].
    pub const TX: u16 = 0;
    /// Channel [`super::S2MM`].
    pub const RX: u16 = 1;
    /// The MAC's: [`super::mac::IP`] is not 0.
    pub const MAC: u16 = 2;
}

macro_rules! words {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:expr;)*) => {
        $($(#[doc = $doc])+ pub const $name: u32 = $value;)*
    };
}

/// Registers of a DMA channel, from the channel's offset.
pub mod dma {
    words! {
        /// Control ([`super::cr`]).
        CR = 0x00;
        /// Status ([`super::sr`]).
        SR = 0x04;
        /// The current descriptor; writable while the channel is halted.
        CURDESC = 0x08;
        /// Its upper half.
        CURDESC_MSB = 0x0c;
        /// The last descriptor that the engine may take. Writing it is the doorbell.
        TAILDESC = 0x10;
        /// Its upper half.
        TAILDESC_MSB = 0x14;
        /// Source or destination address (simple mode).
        ADDRESS = 0x18;
        /// Its upper half.
        ADDRESS_MSB = 0x1c;
        /// Length (simple mode).
        LENGTH = 0x28;
        /// Scatter-gather user and cache bits, of the first channel only.
        SG_CTL = 0x2c;
    }
}

/// A channel's control register.
pub mod cr {
    words! {
        /// Run; 0 stops after the descriptor in work.
        RS = 1 << 0;
        /// Reset of the whole core, the MAC included; clears itself.
        RESET = 1 << 2;
        /// Keyhole: the address does not advance.
        KEYHOLE = 1 << 3;
        /// Cyclic: Cmplt in a fetched descriptor is no error.
        CYCLIC = 1 << 4;
        /// Interrupt on completion of the threshold.
        IOC_IRQ_EN = 1 << 12;
        /// Interrupt on delay.
        DLY_IRQ_EN = 1 << 13;
        /// Interrupt on error.
        ERR_IRQ_EN = 1 << 14;
        /// All three enables.
        IRQ_ALL = 7 << 12;
        /// Where the threshold begins, 8 bits: packets, 1 to 255.
        THRESHOLD_SHIFT = 16;
        /// The threshold.
        THRESHOLD = 0xff << 16;
        /// Where the delay begins, 8 bits: in [`super::DELAY_UNIT_CLOCKS`]; 0 is none.
        DELAY_SHIFT = 24;
        /// The delay.
        DELAY = 0xff << 24;
    }
}

/// A channel's status register.
pub mod sr {
    words! {
        /// The channel is halted: after a reset, or by an error.
        HALTED = 1 << 0;
        /// It has done the descriptor at TAILDESC and waits.
        IDLE = 1 << 1;
        /// Scatter-gather is there.
        SG_INCLUDED = 1 << 3;
        /// DMA internal error: a length of 0.
        DMA_INT_ERR = 1 << 4;
        /// DMA slave error: data could not be read or written.
        DMA_SLV_ERR = 1 << 5;
        /// DMA decode error: nothing is at the data's address.
        DMA_DEC_ERR = 1 << 6;
        /// Scatter-gather internal error: a descriptor with Cmplt set was fetched.
        SG_INT_ERR = 1 << 8;
        /// Scatter-gather slave error: a descriptor could not be read or written.
        SG_SLV_ERR = 1 << 9;
        /// Scatter-gather decode error: nothing is at the descriptor's address.
        SG_DEC_ERR = 1 << 10;
        /// All errors.
        ERRORS = 0x770;
        /// The threshold was reached. This and the next two: write 1 to clear. They
        /// are set whether enabled or not; the line is (SR & CR & [`IRQ_ALL`]) != 0.
        IOC_IRQ = 1 << 12;
        /// The delay is over.
        DLY_IRQ = 1 << 13;
        /// An error.
        ERR_IRQ = 1 << 14;
        /// All three.
        IRQ_ALL = 7 << 12;
        /// Where the packets left to the threshold begin, 8 bits.
        THRESHOLD_SHIFT = 16;
        /// Where the delay counter begins, 8 bits.
        DELAY_SHIFT = 24;
    }
}

/// Clocks of the scatter-gather port in a unit of the delay (C_DLYTMR_RESOLUTION as
/// it is usually built, and as Linux assumes).
pub const DELAY_UNIT_CLOCKS: u32 = 125;
/// The largest threshold and delay.
pub const COALESCE_MAX: u32 = 255;

/// Alignment of descriptors, and their distance.
pub const DESCRIPTOR: u32 = 64;

/// A buffer descriptor, of both channels. The engine uses 52 bytes; it writes
/// `status`, and on receive `app`.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Descriptor {
    /// The next one; the last of a ring names the first.
    pub next: U32,
    /// Its upper half.
    pub next_msb: U32,
    /// Where the data are, or go.
    pub buffer: U32,
    /// Its upper half.
    pub buffer_msb: U32,
    /// Multichannel: 0.
    pub multichannel: U32,
    /// Stride: 0.
    pub stride: U32,
    /// Length of the buffer, and on transmit [`Descriptor::SOF`] and
    /// [`Descriptor::EOF`].
    pub control: U32,
    /// What became of it; 0 before.
    pub status: U32,
    /// Application words. Transmit: of the packet, taken from its first descriptor
    /// ([`tx_app`]). Receive: valid in the packet's last ([`rx_app`]).
    pub app: [U32; 5],
    /// For software; the engine does not look at it.
    pub software: [U32; 3],
}
const _: () = assert!(size_of::<Descriptor>() == DESCRIPTOR as usize);
const _: () = assert!(core::mem::offset_of!(Descriptor, software) == 52);

impl Descriptor {
    /// Length in control and in status.
    pub const LENGTH: u32 = 0x7f_ffff;
    /// Control and status: the packet ends here.
    pub const EOF: u32 = 1 << 26;
    /// Control and status: the packet begins here.
    pub const SOF: u32 = 1 << 27;
    /// Status: DMA internal error.
    pub const INT_ERR: u32 = 1 << 28;
    /// Status: DMA slave error.
    pub const SLV_ERR: u32 = 1 << 29;
    /// Status: DMA decode error.
    pub const DEC_ERR: u32 = 1 << 30;
    /// Status: all errors.
    pub const ERRORS: u32 = 7 << 28;
    /// Status: done. The engine stops at a descriptor that has it already.
    pub const CMPLT: u32 = 1 << 31;
    /// Where the next descriptor's address is.
    pub const NEXT_AT: u32 = core::mem::offset_of!(Descriptor, next) as u32;
    /// Where the buffer's address is.
    pub const BUFFER_AT: u32 = core::mem::offset_of!(Descriptor, buffer) as u32;
    /// Where the control word is.
    pub const CONTROL_AT: u32 = core::mem::offset_of!(Descriptor, control) as u32;
    /// Where the status word is.
    pub const STATUS_AT: u32 = core::mem::offset_of!(Descriptor, status) as u32;
    /// Where the application words are.
    pub const APP_AT: u32 = core::mem::offset_of!(Descriptor, app) as u32;
}

/// Application words of a transmitted packet.
pub mod tx_app {
    words! {
        /// APP0: insert a checksum by APP1 and APP2.
        PARTIAL = 1;
        /// APP0: find and insert IP, TCP and UDP checksums.
        FULL = 2;
        /// APP0: both bits.
        CHECKSUM = 3;
        /// APP1: where the number of the first byte to be summed begins, 16 bits.
        START_SHIFT = 16;
        /// APP1: where the checksum goes, from the frame's first byte.
        INSERT = 0xffff;
        /// APP2: what the sum begins with.
        SEED = 0xffff;
    }
}

/// Application words of a received packet.
pub mod rx_app {
    words! {
        /// APP2: where the checksum status begins, 3 bits.
        STATUS_SHIFT = 3;
        /// APP2: the checksum status.
        STATUS = 7 << 3;
        /// Checksum status: nothing was looked at.
        NONE = 0;
        /// Checksum status: the IP header is good; no transport was looked at.
        IP_GOOD = 1;
        /// Checksum status: IP and TCP are good.
        TCP_GOOD = 2;
        /// Checksum status: IP and UDP are good.
        UDP_GOOD = 3;
        /// Checksum status: the IP header is bad.
        IP_BAD = 5;
        /// Checksum status: IP is good, the transport bad.
        TRANSPORT_BAD = 6;
        /// APP3: one's-complement sum of big-endian words from byte 14 to the end.
        SUM = 0xffff;
        /// APP4: length of the frame without FCS.
        LENGTH = 0xffff;
    }
    /// The first byte that APP3 sums.
    pub const SUM_FROM: usize = 14;
}

/// Registers of the MAC.
pub mod mac {
    words! {
        /// Reset and address filter ([`super::raf`]).
        RAF = 0x000;
        /// Pause time of transmitted pause frames, 16 bits.
        TPF = 0x004;
        /// Inter-frame gap, 7 bits.
        IFGP = 0x008;
        /// Interrupt status ([`super::int`]): write 1 to clear.
        IS = 0x00c;
        /// Interrupts pending: IS and IE.
        IP = 0x010;
        /// Interrupts enabled.
        IE = 0x014;
        /// Statistics: 64 bits each, the low half first ([`super::stat`]).
        STATISTICS = 0x200;
        /// Receive configuration 0: bytes 0 to 3 of the pause frames' source.
        RCW0 = 0x400;
        /// Receive configuration 1 ([`super::rcw1`]).
        RCW1 = 0x404;
        /// Transmit configuration ([`super::tc`]).
        TC = 0x408;
        /// Flow control ([`super::fcc`]).
        FCC = 0x40c;
        /// Mode: speed ([`super::emmc`]).
        EMMC = 0x410;
        /// SGMII and 1000BASE-X status.
        PHYC = 0x414;
        /// Identification: major and minor version in the upper half.
        ID = 0x4f8;
        /// What the core can ([`super::ability`]).
        ABILITY = 0x4fc;
        /// MDIO: setup ([`super::mdio`]).
        MDIO_MC = 0x500;
        /// MDIO: command.
        MDIO_MCR = 0x504;
        /// MDIO: data to be written.
        MDIO_MWD = 0x508;
        /// MDIO: data that were read.
        MDIO_MRD = 0x50c;
        /// Unicast address: bytes 0 to 3, the first lowest.
        UAW0 = 0x700;
        /// Unicast address: bytes 4 and 5.
        UAW1 = 0x704;
        /// Frame filter: which entry ([`super::fmi`]).
        FMI = 0x708;
        /// Frame filter: the entry is on.
        FFE = 0x70c;
        /// Frame filter: pattern of bytes 0 to 3.
        AF0 = 0x710;
        /// Frame filter: pattern of bytes 4 to 7.
        AF1 = 0x714;
        /// Frame filter: which bits of AF0 count.
        AM0 = 0x750;
        /// Frame filter: which bits of AF1 count.
        AM1 = 0x754;
        /// Transmit VLAN table.
        TX_VLAN = 0x4000;
        /// Receive VLAN table.
        RX_VLAN = 0x8000;
        /// Extended multicast table.
        MULTICAST = 0x2_0000;
    }
    /// Entries of the frame filter.
    pub const FILTERS: u32 = 4;
}

/// Reset and address filter.
pub mod raf {
    words! {
        /// Reject multicast.
        MCAST_REJECT = 1 << 1;
        /// Reject broadcast.
        BCAST_REJECT = 1 << 2;
        /// Filter by the extended multicast table.
        EXTENDED_MCAST = 1 << 12;
        /// Reset of the statistics.
        STATS_RESET = 1 << 13;
        /// Receive bad frames.
        RX_BAD = 1 << 14;
    }
}

/// Interrupts of the MAC.
pub mod int {
    words! {
        /// A register access to the hard core is complete.
        HARD_ACCESS = 1 << 0;
        /// Autonegotiation is complete.
        AUTONEG = 1 << 1;
        /// A frame was received.
        RX_COMPLETE = 1 << 2;
        /// A frame was rejected.
        RX_REJECT = 1 << 3;
        /// The receive FIFO was full.
        RX_FIFO_OVERFLOW = 1 << 4;
        /// A frame was transmitted.
        TX_COMPLETE = 1 << 5;
        /// The receive clock is locked.
        RX_DCM_LOCK = 1 << 6;
        /// The transceiver is ready.
        MGT_READY = 1 << 7;
        /// The PHY's reset is over.
        PHY_RESET_COMPLETE = 1 << 8;
    }
}

/// Receive configuration 1. Its lower 16 bits are bytes 4 and 5 of the pause frames'
/// source.
pub mod rcw1 {
    words! {
        /// The length of control frames is not checked.
        CONTROL_LENGTH_DISABLE = 1 << 24;
        /// The length/type field is not checked.
        LENGTH_TYPE_DISABLE = 1 << 25;
        /// VLAN frames may be 4 bytes longer.
        VLAN = 1 << 27;
        /// Receiver on.
        RX = 1 << 28;
        /// The FCS is passed up with the frame.
        FCS = 1 << 29;
        /// Jumbo frames.
        JUMBO = 1 << 30;
        /// Reset of the receiver; clears itself.
        RESET = 1 << 31;
    }
}

/// Transmit configuration.
pub mod tc {
    words! {
        /// The inter-frame gap is IFGP's.
        IFG = 1 << 25;
        /// VLAN frames may be 4 bytes longer.
        VLAN = 1 << 27;
        /// Transmitter on.
        TX = 1 << 28;
        /// Frames have their FCS already.
        FCS = 1 << 29;
        /// Jumbo frames.
        JUMBO = 1 << 30;
        /// Reset of the transmitter; clears itself.
        RESET = 1 << 31;
    }
}

/// Flow control.
pub mod fcc {
    words! {
        /// Obey pause frames.
        RX = 1 << 29;
        /// Send pause frames.
        TX = 1 << 30;
    }
}

/// Mode.
pub mod emmc {
    words! {
        /// 1000BASE-X.
        BASE_X = 1 << 27;
        /// SGMII.
        SGMII = 1 << 28;
        /// RGMII.
        RGMII = 1 << 29;
        /// Speed, 2 bits.
        SPEED = 3 << 30;
        /// 10 Mbit/s.
        SPEED_10 = 0;
        /// 100 Mbit/s.
        SPEED_100 = 1 << 30;
        /// 1000 Mbit/s.
        SPEED_1000 = 2 << 30;
    }
}

/// What the core was built with.
pub mod ability {
    words! {
        /// 10 Mbit/s.
        M10 = 1 << 0;
        /// 100 Mbit/s.
        M100 = 1 << 1;
        /// 1000 Mbit/s.
        M1000 = 1 << 2;
        /// Statistics.
        STATISTICS = 1 << 8;
        /// Half duplex.
        HALF_DUPLEX = 1 << 9;
        /// The frame filter.
        FRAME_FILTER = 1 << 10;
    }
}

/// Management of the PHY.
pub mod mdio {
    words! {
        /// MC: on.
        ENABLE = 1 << 6;
        /// MC: the clock is the AXI-Lite clock / (2 * (divisor + 1)); 6 bits.
        DIVISOR = 0x3f;
        /// MCR: where the PHY's address begins, 5 bits.
        PHY_SHIFT = 24;
        /// MCR: where the register's number begins, 5 bits.
        REG_SHIFT = 16;
        /// MCR: write.
        WRITE = 1 << 14;
        /// MCR: read.
        READ = 2 << 14;
        /// MCR: begin.
        INITIATE = 1 << 11;
        /// MCR: ready for the next access; what was read is in MRD.
        READY = 1 << 7;
    }
    /// The fastest clock, Hz (IEEE 802.3, 22.2.2.13).
    pub const MAX_HZ: u32 = 2_500_000;
}

/// Frame filter index.
pub mod fmi {
    words! {
        /// The entry, 8 bits.
        INDEX = 0xff;
        /// Promiscuous.
        PROMISCUOUS = 1 << 31;
    }
}

/// Offsets of the statistics: the low half, which is to be read before the high half
/// 4 bytes on.
pub mod stat {
    words! {
        /// Bytes received.
        RX_BYTES = 0x200;
        /// Bytes sent.
        TX_BYTES = 0x208;
        /// Received, too short.
        RX_UNDERSIZE = 0x210;
        /// Received fragments.
        RX_FRAGMENT = 0x218;
        /// Received, 64 bytes.
        RX_64 = 0x220;
        /// Received, 65 to 127 bytes.
        RX_65_127 = 0x228;
        /// Received, 128 to 255 bytes.
        RX_128_255 = 0x230;
        /// Received, 256 to 511 bytes.
        RX_256_511 = 0x238;
        /// Received, 512 to 1023 bytes.
        RX_512_1023 = 0x240;
        /// Received, 1024 bytes and more.
        RX_1024_MAX = 0x248;
        /// Received, too long.
        RX_OVERSIZE = 0x250;
        /// Sent, 64 bytes.
        TX_64 = 0x258;
        /// Sent, 65 to 127 bytes.
        TX_65_127 = 0x260;
        /// Sent, 128 to 255 bytes.
        TX_128_255 = 0x268;
        /// Sent, 256 to 511 bytes.
        TX_256_511 = 0x270;
        /// Sent, 512 to 1023 bytes.
        TX_512_1023 = 0x278;
        /// Sent, 1024 bytes and more.
        TX_1024_MAX = 0x280;
        /// Sent, too long.
        TX_OVERSIZE = 0x288;
        /// Good frames received.
        RX_GOOD = 0x290;
        /// Received with a wrong FCS.
        RX_FCS_ERRORS = 0x298;
        /// Good broadcasts received.
        RX_BROADCAST = 0x2a0;
        /// Good multicasts received.
        RX_MULTICAST = 0x2a8;
        /// Control frames received.
        RX_CONTROL = 0x2b0;
        /// Received with a wrong length field.
        RX_LENGTH_ERRORS = 0x2b8;
        /// VLAN frames received.
        RX_VLAN = 0x2c0;
        /// Pause frames received.
        RX_PAUSE = 0x2c8;
        /// Control frames with an unknown opcode received.
        RX_CONTROL_OPCODE_ERRORS = 0x2d0;
        /// Good frames sent.
        TX_GOOD = 0x2d8;
        /// Good broadcasts sent.
        TX_BROADCAST = 0x2e0;
        /// Good multicasts sent.
        TX_MULTICAST = 0x2e8;
        /// Underruns.
        TX_UNDERRUN_ERRORS = 0x2f0;
        /// Control frames sent.
        TX_CONTROL = 0x2f8;
        /// VLAN frames sent.
        TX_VLAN = 0x300;
        /// Pause frames sent.
        TX_PAUSE = 0x308;
        /// Single collisions.
        TX_SINGLE_COLLISION = 0x310;
        /// Multiple collisions.
        TX_MULTIPLE_COLLISION = 0x318;
        /// Deferred.
        TX_DEFERRED = 0x320;
        /// Late collisions.
        TX_LATE_COLLISION = 0x328;
        /// Excessive collisions.
        TX_EXCESS_COLLISION = 0x330;
    }
    /// The first.
    pub const FIRST: u32 = RX_BYTES;
    /// The last.
    pub const LAST: u32 = TX_EXCESS_COLLISION;
}
