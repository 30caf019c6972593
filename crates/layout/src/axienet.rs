//! AXI Ethernet and AXI DMA (axienet): registers, buffer descriptors, application words, MDIO.
//!
//! Two cores with a register window each: the MAC in [`MAC`], the DMA engine in [`DMA`]. The engine
//! has two channels with the same registers: a channel's register is at the channel's offset
//! ([`MM2S`] or [`S2MM`]) plus its own ([`dma`]). Each channel and the MAC have an interrupt
//! ([`mod@line`]). All is little-endian; the upper half of a longer address is in the next word.
//!
//! Sources: PG138 (AXI Ethernet), PG021 (AXI DMA); Linux `xilinx_axienet.h`, `xilinx_dma.c`; AMD's
//! embeddedsw `xaxidma_hw.h`, `xaxiethernet_hw.h`.

use crate::offload::{Offload, Request, checksum_and};
use core::mem::offset_of;
use doorbell_packet::headers::Ip;
use zerocopy::little_endian::U32;

/// Checksum offload of the core (C_TXCSUM, C_RXCSUM; `xlnx,txcsum`, `xlnx,rxcsum`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing (0).
    None,
    /// Transmit: it sums from where to where it is told. Receive: it sums from byte 14 on;
    /// software interprets the result (1).
    CsumPartial,
    /// It knows IPv4, TCP and UDP (2).
    Full,
}

/// Returns what a core with this checksum offload can do for a packet. It has no large send.
///
/// Partial offload sums any range (`NETIF_F_HW_CSUM`). Full offload knows TCP and UDP over IPv4
/// behind at most one tag of 802.1Q (PG138, "Full TCP/UDP Checksum Offload in Hardware";
/// for Linux's `NETIF_F_IP_CSUM` netdev 20240903184334.4150843-3).
pub fn can(request: &Request<'_>, built: Checksum) -> Offload {
    let all = checksum_and(request, |_, _| false);
    match (built, request.todo.checksum) {
        (Checksum::CsumPartial, Some(c)) if c.field() as u32 <= tx_app::INSERT => all,
        (Checksum::Full, _) => match request.plain() {
            Some(h)
                if h.inner.is_none()
                    && h.outer.ip == Ip::V4
                    && matches!(h.tag_types[0], 0 | 0x8100) =>
            {
                all
            }
            _ => Offload::None,
        },
        _ => Offload::None,
    }
}

/// Returns the name of the register of a window ([`MAC`], [`DMA`]) at `offset`. The statistics and
/// the words of a table have one name.
pub fn register_name(window: u8, offset: u32) -> Option<&'static str> {
    match (window, offset) {
        (MAC, mac::STATISTICS..mac::RCW0) => Some("STATISTICS"),
        (MAC, mac::TX_VLAN..mac::RX_VLAN) => Some("TX_VLAN"),
        (MAC, mac::RX_VLAN..mac::MULTICAST) => Some("RX_VLAN"),
        (MAC, mac::MULTICAST..MAC_LEN) => Some("MULTICAST"),
        (MAC, _) => crate::name_of(offset, mac::NAMES),
        (DMA, _) => {
            let (channel, second) = if offset < S2MM { (MM2S, false) } else { (S2MM, true) };
            let (_, tx, rx) = DMA_NAMES.iter().find(|r| channel + r.0 == offset)?;
            Some(if second { rx } else { tx })
        }
        _ => None,
    }
}

/// Registers of a channel, with their names in the first and in the second.
const DMA_NAMES: [(u32, &str, &str); 9] = [
    (dma::CR, "MM2S_DMACR", "S2MM_DMACR"),
    (dma::SR, "MM2S_DMASR", "S2MM_DMASR"),
    (dma::CURDESC, "MM2S_CURDESC", "S2MM_CURDESC"),
    (dma::CURDESC_MSB, "MM2S_CURDESC_MSB", "S2MM_CURDESC_MSB"),
    (dma::TAILDESC, "MM2S_TAILDESC", "S2MM_TAILDESC"),
    (dma::TAILDESC_MSB, "MM2S_TAILDESC_MSB", "S2MM_TAILDESC_MSB"),
    (dma::ADDRESS, "MM2S_SA", "S2MM_DA"),
    (dma::ADDRESS_MSB, "MM2S_SA_MSB", "S2MM_DA_MSB"),
    (dma::LENGTH, "MM2S_LENGTH", "S2MM_LENGTH"),
];

layout! {
    const u32 {
        MAC: u8 = 0, "The MAC's register window: region of `hal::Reg`.";
        MAC_LEN = 256 << 10, "Bytes of it, the extended multicast table included.";
        DMA: u8 = 1, "The DMA engine's register window.";
        DMA_LEN = 4 << 10, "Bytes of it.";

        MM2S = 0x00, "Channel: memory to stream, which transmits.";
        S2MM = 0x30, "Channel: stream to memory, which receives.";
    }

    /// Interrupt lines: levels.
    mod line: u16 {
        TX = 0, "Channel [`super::MM2S`].";
        RX = 1, "Channel [`super::S2MM`].";
        MAC = 2, "The MAC's: [`super::mac::IP`] is not 0.";
    }

    /// Registers of a DMA channel, from the channel's offset.
    mod dma: u32 {
        CR = 0x00, "Control ([`super::cr`]).";
        SR = 0x04, "Status ([`super::sr`]).";
        CURDESC = 0x08, "The current descriptor; writable while the channel is halted.";
        CURDESC_MSB = 0x0c, "Its upper half.";
        /// The last descriptor that the engine may take. Writing it is the doorbell.
        TAILDESC = 0x10;
        TAILDESC_MSB = 0x14, "Its upper half.";
        ADDRESS = 0x18, "Source or destination address (simple mode).";
        ADDRESS_MSB = 0x1c, "Its upper half.";
        LENGTH = 0x28, "Length (simple mode).";
        SG_CTL = 0x2c, "Scatter-gather user and cache bits, of the first channel only.";
    }

    /// A channel's control register.
    mod cr: u32 {
        RS = 1 << 0, "Run; 0 stops after the descriptor in work.";
        RESET = 1 << 2, "Reset of the whole core, the MAC included; clears itself.";
        KEYHOLE = 1 << 3, "Keyhole: the address does not advance.";
        CYCLIC = 1 << 4, "Cyclic: Cmplt in a fetched descriptor is no error.";
        IOC_IRQ_EN = 1 << 12, "Interrupt on completion of the threshold.";
        DLY_IRQ_EN = 1 << 13, "Interrupt on delay.";
        ERR_IRQ_EN = 1 << 14, "Interrupt on error.";
        IRQ_ALL = 7 << 12, "All three enables.";
        THRESHOLD_SHIFT = 16, "Lowest bit of the threshold, 8 bits: packets, 1 to 255.";
        THRESHOLD = 0xff << 16, "The threshold.";
        /// Lowest bit of the delay, 8 bits, in [`super::DELAY_UNIT_CLOCKS`]; 0 is none.
        DELAY_SHIFT = 24;
        DELAY = 0xff << 24, "The delay.";
    }

    /// A channel's status register.
    mod sr: u32 {
        HALTED = 1 << 0, "The channel is halted: after a reset, or by an error.";
        IDLE = 1 << 1, "It has done the descriptor at TAILDESC and waits.";
        SG_INCLUDED = 1 << 3, "Scatter-gather is there.";
        DMA_INT_ERR = 1 << 4, "DMA internal error: a length of 0.";
        DMA_SLV_ERR = 1 << 5, "DMA slave error: data could not be read or written.";
        DMA_DEC_ERR = 1 << 6, "DMA decode error: nothing is at the data's address.";
        /// Scatter-gather internal error: a descriptor with Cmplt set was fetched.
        SG_INT_ERR = 1 << 8;
        /// Scatter-gather slave error: a descriptor could not be read or written.
        SG_SLV_ERR = 1 << 9;
        /// Scatter-gather decode error: nothing is at the descriptor's address.
        SG_DEC_ERR = 1 << 10;
        ERRORS = 0x770, "All errors.";
        /// The threshold was reached. This and the next two: write 1 to clear. They
        /// are set whether enabled or not; the line is (SR & CR & [`IRQ_ALL`]) != 0.
        IOC_IRQ = 1 << 12;
        DLY_IRQ = 1 << 13, "The delay is over.";
        ERR_IRQ = 1 << 14, "An error.";
        IRQ_ALL = 7 << 12, "All three.";
        THRESHOLD_SHIFT = 16, "Lowest bit of the packets left to the threshold, 8 bits.";
        DELAY_SHIFT = 24, "Lowest bit of the delay counter, 8 bits.";
    }

    const u32 {
        /// Clocks of the scatter-gather port in a unit of the delay (C_DLYTMR_RESOLUTION as
        /// it is usually built, and as Linux assumes).
        DELAY_UNIT_CLOCKS = 125;
        COALESCE_MAX = 255, "The largest threshold and delay.";

        DESCRIPTOR = 64, "Alignment of descriptors, and their distance.";
    }

    /// A buffer descriptor, of both channels. The engine uses 52 bytes; it writes
    /// `status`, and on receive `app`.
    struct Descriptor[DESCRIPTOR] {
        next: U32, "The next one; the last of a ring names the first.";
        next_msb: U32, "Its upper half.";
        buffer: U32, "Address of the data.";
        buffer_msb: U32, "Its upper half.";
        multichannel: U32, "Multichannel: 0.";
        stride: U32, "Stride: 0.";
        /// Length of the buffer, and on transmit [`Descriptor::SOF`] and [`Descriptor::EOF`].
        control: U32;
        status: U32, "Result, written by the engine; 0 before.";
        /// Application words. Transmit: of the packet, taken from its first descriptor
        /// ([`tx_app`]). Receive: valid in the packet's last ([`rx_app`]).
        app: [U32; 5];
        software: [U32; 3], "For software; the engine does not look at it.";
    }

    impl Descriptor: u32 {
        /// Length in control and in status, of which a core takes as many bits as it was built with
        /// (c_sg_length_width; PG021, and linux 393e0b4f178e).
        LENGTH = 0x3ff_ffff;
        EOF = 1 << 26, "Control and status: the packet ends here.";
        SOF = 1 << 27, "Control and status: the packet begins here.";
        INT_ERR = 1 << 28, "Status: DMA internal error.";
        SLV_ERR = 1 << 29, "Status: DMA slave error.";
        DEC_ERR = 1 << 30, "Status: DMA decode error.";
        ERRORS = 7 << 28, "Status: all errors.";
        CMPLT = 1 << 31, "Status: done. The engine stops at a descriptor that has it already.";
        NEXT_AT = offset_of!(Descriptor, next) as u32, "Offset of the next descriptor's address.";
        BUFFER_AT = offset_of!(Descriptor, buffer) as u32, "Offset of the buffer's address.";
        CONTROL_AT = offset_of!(Descriptor, control) as u32, "Offset of the control word.";
        STATUS_AT = offset_of!(Descriptor, status) as u32, "Offset of the status word.";
        APP_AT = offset_of!(Descriptor, app) as u32, "Offset of the application words.";
    }

    /// Application words of a transmitted packet.
    mod tx_app: u32 {
        PARTIAL = 1, "APP0: insert a checksum by APP1 and APP2.";
        FULL = 2, "APP0: find and insert IP, TCP and UDP checksums.";
        CHECKSUM = 3, "APP0: both bits.";
        START_SHIFT = 16, "APP1: lowest bit of the number of the first byte to be summed, 16 bits.";
        INSERT = 0xffff, "APP1: where the checksum goes, from the frame's first byte.";
        SEED = 0xffff, "APP2: what the sum begins with.";
    }

    /// Application words of a received packet.
    mod rx_app: u32 {
        STATUS_SHIFT = 3, "APP2: lowest bit of the checksum status, 3 bits.";
        STATUS = 7 << 3, "APP2: the checksum status.";
        NONE = 0, "Checksum status: nothing was looked at.";
        IP_GOOD = 1, "Checksum status: the IP header is good; no transport was looked at.";
        TCP_GOOD = 2, "Checksum status: IP and TCP are good.";
        UDP_GOOD = 3, "Checksum status: IP and UDP are good.";
        IP_BAD = 5, "Checksum status: the IP header is bad.";
        TRANSPORT_BAD = 6, "Checksum status: IP is good, the transport bad.";
        SUM = 0xffff, "APP3: one's-complement sum of big-endian words from byte 14 to the end.";
        LENGTH = 0xffff, "APP4: length of the frame without FCS.";
        SUM_FROM: usize = 14, "The first byte that APP3 sums.";
    }

    /// Registers of the MAC.
    registers mac: u32 {
        RAF = 0x000, "Reset and address filter ([`super::raf`]).";
        TPF = 0x004, "Pause time of transmitted pause frames, 16 bits.";
        IFGP = 0x008, "Inter-frame gap, 7 bits.";
        IS = 0x00c, "Interrupt status ([`super::int`]): write 1 to clear.";
        IP = 0x010, "Interrupts pending: IS and IE.";
        IE = 0x014, "Interrupts enabled.";
        STATISTICS = 0x200, "Statistics: 64 bits each, the low half first ([`super::stat`]).";
        RCW0 = 0x400, "Receive configuration 0: bytes 0 to 3 of the pause frames' source.";
        RCW1 = 0x404, "Receive configuration 1 ([`super::rcw1`]).";
        TC = 0x408, "Transmit configuration ([`super::tc`]).";
        FCC = 0x40c, "Flow control ([`super::fcc`]).";
        EMMC = 0x410, "Mode: speed ([`super::emmc`]).";
        PHYC = 0x414, "SGMII and 1000BASE-X status.";
        ID = 0x4f8, "Identification: major and minor version in the upper half.";
        ABILITY = 0x4fc, "Abilities of the core ([`super::ability`]).";
        MDIO_MC = 0x500, "MDIO: setup ([`super::mdio`]).";
        MDIO_MCR = 0x504, "MDIO: command.";
        MDIO_MWD = 0x508, "MDIO: data to be written.";
        MDIO_MRD = 0x50c, "MDIO: data that were read.";
        UAW0 = 0x700, "Unicast address: bytes 0 to 3, the first lowest.";
        UAW1 = 0x704, "Unicast address: bytes 4 and 5.";
        FMI = 0x708, "Frame filter: which entry ([`super::fmi`]).";
        FFE = 0x70c, "Frame filter: the entry is on.";
        AF0 = 0x710, "Frame filter: pattern of bytes 0 to 3.";
        AF1 = 0x714, "Frame filter: pattern of bytes 4 to 7.";
        AM0 = 0x750, "Frame filter: which bits of AF0 count.";
        AM1 = 0x754, "Frame filter: which bits of AF1 count.";
        TX_VLAN = 0x4000, "Transmit VLAN table.";
        RX_VLAN = 0x8000, "Receive VLAN table.";
        MULTICAST = 0x2_0000, "Extended multicast table.";
        FILTERS = 4, "Entries of the frame filter.";
    }

    /// Reset and address filter.
    mod raf: u32 {
        MCAST_REJECT = 1 << 1, "Reject multicast.";
        BCAST_REJECT = 1 << 2, "Reject broadcast.";
        EXTENDED_MCAST = 1 << 12, "Filter by the extended multicast table.";
        STATS_RESET = 1 << 13, "Reset of the statistics.";
        RX_BAD = 1 << 14, "Receive bad frames.";
    }

    /// Interrupts of the MAC.
    mod int: u32 {
        HARD_ACCESS = 1 << 0, "A register access to the hard core is complete.";
        AUTONEG = 1 << 1, "Autonegotiation is complete.";
        RX_COMPLETE = 1 << 2, "A frame was received.";
        RX_REJECT = 1 << 3, "A frame was rejected.";
        RX_FIFO_OVERFLOW = 1 << 4, "The receive FIFO was full.";
        TX_COMPLETE = 1 << 5, "A frame was transmitted.";
        RX_DCM_LOCK = 1 << 6, "The receive clock is locked.";
        MGT_READY = 1 << 7, "The transceiver is ready.";
        PHY_RESET_COMPLETE = 1 << 8, "The PHY's reset is over.";
    }

    /// Receive configuration 1. Its lower 16 bits are bytes 4 and 5 of the pause frames' source.
    mod rcw1: u32 {
        CONTROL_LENGTH_DISABLE = 1 << 24, "The length of control frames is not checked.";
        LENGTH_TYPE_DISABLE = 1 << 25, "The length/type field is not checked.";
        VLAN = 1 << 27, "VLAN frames may be 4 bytes longer.";
        RX = 1 << 28, "Receiver on.";
        FCS = 1 << 29, "The FCS is passed up with the frame.";
        JUMBO = 1 << 30, "Jumbo frames.";
        RESET = 1 << 31, "Reset of the receiver; clears itself.";
    }

    /// Transmit configuration.
    mod tc: u32 {
        IFG = 1 << 25, "The inter-frame gap is IFGP's.";
        VLAN = 1 << 27, "VLAN frames may be 4 bytes longer.";
        TX = 1 << 28, "Transmitter on.";
        FCS = 1 << 29, "Frames have their FCS already.";
        JUMBO = 1 << 30, "Jumbo frames.";
        RESET = 1 << 31, "Reset of the transmitter; clears itself.";
    }

    /// Flow control.
    mod fcc: u32 {
        RX = 1 << 29, "Obey pause frames.";
        TX = 1 << 30, "Send pause frames.";
    }

    /// Mode.
    mod emmc: u32 {
        BASE_X = 1 << 27, "1000BASE-X.";
        SGMII = 1 << 28, "SGMII.";
        RGMII = 1 << 29, "RGMII.";
        SPEED = 3 << 30, "Speed, 2 bits.";
        SPEED_10 = 0, "10 Mbit/s.";
        SPEED_100 = 1 << 30, "100 Mbit/s.";
        SPEED_1000 = 2 << 30, "1000 Mbit/s.";
    }

    /// Features that the core was built with.
    mod ability: u32 {
        M10 = 1 << 0, "10 Mbit/s.";
        M100 = 1 << 1, "100 Mbit/s.";
        M1000 = 1 << 2, "1000 Mbit/s.";
        STATISTICS = 1 << 8, "Statistics.";
        HALF_DUPLEX = 1 << 9, "Half duplex.";
        FRAME_FILTER = 1 << 10, "The frame filter.";
    }

    /// Management of the PHY.
    mod mdio: u32 {
        ENABLE = 1 << 6, "MC: on.";
        DIVISOR = 0x3f, "MC: the clock is the AXI-Lite clock / (2 * (divisor + 1)); 6 bits.";
        PHY_SHIFT = 24, "MCR: lowest bit of the PHY's address, 5 bits.";
        REG_SHIFT = 16, "MCR: lowest bit of the register's number, 5 bits.";
        WRITE = 1 << 14, "MCR: write.";
        READ = 2 << 14, "MCR: read.";
        INITIATE = 1 << 11, "MCR: begin.";
        READY = 1 << 7, "MCR: ready for the next access; what was read is in MRD.";
        MAX_HZ = 2_500_000, "The fastest clock, Hz (IEEE 802.3, 22.2.2.13).";
    }

    /// Frame filter index.
    mod fmi: u32 {
        INDEX = 0xff, "The entry, 8 bits.";
        PROMISCUOUS = 1 << 31, "Promiscuous.";
    }

    /// Offsets of the statistics: the low half, which is to be read before the high half
    /// 4 bytes on.
    mod stat: u32 {
        RX_BYTES = 0x200, "Bytes received.";
        TX_BYTES = 0x208, "Bytes sent.";
        RX_UNDERSIZE = 0x210, "Received, too short.";
        RX_FRAGMENT = 0x218, "Received fragments.";
        RX_64 = 0x220, "Received, 64 bytes.";
        RX_65_127 = 0x228, "Received, 65 to 127 bytes.";
        RX_128_255 = 0x230, "Received, 128 to 255 bytes.";
        RX_256_511 = 0x238, "Received, 256 to 511 bytes.";
        RX_512_1023 = 0x240, "Received, 512 to 1023 bytes.";
        RX_1024_MAX = 0x248, "Received, 1024 bytes and more.";
        RX_OVERSIZE = 0x250, "Received, too long.";
        TX_64 = 0x258, "Sent, 64 bytes.";
        TX_65_127 = 0x260, "Sent, 65 to 127 bytes.";
        TX_128_255 = 0x268, "Sent, 128 to 255 bytes.";
        TX_256_511 = 0x270, "Sent, 256 to 511 bytes.";
        TX_512_1023 = 0x278, "Sent, 512 to 1023 bytes.";
        TX_1024_MAX = 0x280, "Sent, 1024 bytes and more.";
        TX_OVERSIZE = 0x288, "Sent, too long.";
        RX_GOOD = 0x290, "Good frames received.";
        RX_FCS_ERRORS = 0x298, "Received with a wrong FCS.";
        RX_BROADCAST = 0x2a0, "Good broadcasts received.";
        RX_MULTICAST = 0x2a8, "Good multicasts received.";
        RX_CONTROL = 0x2b0, "Control frames received.";
        RX_LENGTH_ERRORS = 0x2b8, "Received with a wrong length field.";
        RX_VLAN = 0x2c0, "VLAN frames received.";
        RX_PAUSE = 0x2c8, "Pause frames received.";
        RX_CONTROL_OPCODE_ERRORS = 0x2d0, "Control frames with an unknown opcode received.";
        TX_GOOD = 0x2d8, "Good frames sent.";
        TX_BROADCAST = 0x2e0, "Good broadcasts sent.";
        TX_MULTICAST = 0x2e8, "Good multicasts sent.";
        TX_UNDERRUN_ERRORS = 0x2f0, "Underruns.";
        TX_CONTROL = 0x2f8, "Control frames sent.";
        TX_VLAN = 0x300, "VLAN frames sent.";
        TX_PAUSE = 0x308, "Pause frames sent.";
        TX_SINGLE_COLLISION = 0x310, "Single collisions.";
        TX_MULTIPLE_COLLISION = 0x318, "Multiple collisions.";
        TX_DEFERRED = 0x320, "Deferred.";
        TX_LATE_COLLISION = 0x328, "Late collisions.";
        TX_EXCESS_COLLISION = 0x330, "Excessive collisions.";
        FIRST = RX_BYTES, "The first.";
        LAST = TX_EXCESS_COLLISION, "The last.";
    }
}

const _: () = assert!(offset_of!(Descriptor, software) == 52);
