//! Intel 8254x (e1000): registers, descriptors, EEPROM and PHY.
//!
//! Source: Intel, "PCI/PCI-X Family of Gigabit Ethernet Controllers Software
//! Developer's Manual" (317453), chapters 3, 5 and 13; where it is silent, the
//! numbers that Linux's e1000_hw.h uses. All of it is little-endian. Registers are
//! 32 bits wide, in region 0 (128 KiB). The 82542 has its rings elsewhere and is
//! not described here.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// PCI vendor.
pub const VENDOR: u16 = 0x8086;
/// Bytes of the register region.
pub const REGION_LEN: u32 = 128 << 10;

/// PCI device ids.
pub mod id {
    /// 82544GC, copper.
    pub const I82544GC: u16 = 0x100c;
    /// 82540EM.
    pub const I82540EM: u16 = 0x100e;
    /// 82545EM, copper.
    pub const I82545EM: u16 = 0x100f;
}

/// The window in the I/O region: a register's offset, then its value.
pub mod io {
    /// Which register.
    pub const IOADDR: u32 = 0;
    /// Its value.
    pub const IODATA: u32 = 4;
}

/// Register offsets in region 0.
pub mod reg {
    macro_rules! registers {
        ($($(#[doc = $doc:literal])+ $name:ident = $offset:literal;)*) => {
            $($(#[doc = $doc])+ pub const $name: u32 = $offset;)*
        };
    }
    registers! {
        /// Device control.
        CTRL = 0x0000;
        /// Device control, shadow.
        CTRL_DUP = 0x0004;
        /// Device status.
        STATUS = 0x0008;
        /// EEPROM pins and access.
        EECD = 0x0010;
        /// EEPROM read.
        EERD = 0x0014;
        /// Extended device control.
        CTRL_EXT = 0x0018;
        /// MDI control: the PHY's registers.
        MDIC = 0x0020;
        /// Flow control: address of pause frames, low half.
        FCAL = 0x0028;
        /// Flow control: address, high half.
        FCAH = 0x002c;
        /// Flow control: Ethernet type.
        FCT = 0x0030;
        /// Ethernet type of VLAN tags.
        VET = 0x0038;
        /// Interrupt causes; reading clears them.
        ICR = 0x00c0;
        /// Interrupt throttling: least distance of two interrupts, in 256 ns.
        ITR = 0x00c4;
        /// Interrupt causes, to be set.
        ICS = 0x00c8;
        /// Interrupt mask: causes to be enabled.
        IMS = 0x00d0;
        /// Interrupt mask: causes to be disabled.
        IMC = 0x00d8;
        /// Receive control.
        RCTL = 0x0100;
        /// Flow control: pause time sent.
        FCTTV = 0x0170;
        /// Transmit configuration (serdes).
        TXCW = 0x0178;
        /// Receive configuration (serdes).
        RXCW = 0x0180;
        /// Transmit control.
        TCTL = 0x0400;
        /// Transmit inter-packet gap.
        TIPG = 0x0410;
        /// Adaptive interframe spacing.
        AIT = 0x0458;
        /// LEDs.
        LEDCTL = 0x0e00;
        /// On-chip packet memory: KiB for receive below, for transmit above.
        PBA = 0x1000;
        /// Flow control: receive threshold low.
        FCRTL = 0x2160;
        /// Flow control: receive threshold high.
        FCRTH = 0x2168;
        /// Receive ring: address, low half.
        RDBAL = 0x2800;
        /// Receive ring: address, high half.
        RDBAH = 0x2804;
        /// Receive ring: bytes, a multiple of 128.
        RDLEN = 0x2808;
        /// Receive ring: the device's next descriptor.
        RDH = 0x2810;
        /// Receive ring: the driver's last filled descriptor, which the device does
        /// not take yet.
        RDT = 0x2818;
        /// Receive delay timer, in 1.024 us; restarted by each packet.
        RDTR = 0x2820;
        /// Receive descriptor control: thresholds.
        RXDCTL = 0x2828;
        /// Receive absolute delay timer, in 1.024 us; started by the first packet.
        RADV = 0x282c;
        /// Receive small packet detect: the size.
        RSRPD = 0x2c00;
        /// Transmit ring: address, low half.
        TDBAL = 0x3800;
        /// Transmit ring: address, high half.
        TDBAH = 0x3804;
        /// Transmit ring: bytes, a multiple of 128.
        TDLEN = 0x3808;
        /// Transmit ring: the device's next descriptor.
        TDH = 0x3810;
        /// Transmit ring: one past the driver's last descriptor. Writing it is the
        /// doorbell.
        TDT = 0x3818;
        /// Transmit delay timer, in 1.024 us.
        TIDV = 0x3820;
        /// Transmit descriptor control: thresholds.
        TXDCTL = 0x3828;
        /// Transmit absolute delay timer, in 1.024 us.
        TADV = 0x382c;
        /// TSO pad and minimum threshold (PCI-X).
        TSPMT = 0x3830;
        /// Receive checksum control.
        RXCSUM = 0x5000;
        /// Multicast table: 128 words.
        MTA = 0x5200;
        /// Receive address 0: low half, then high half with [`super::RAH_AV`]; 16
        /// pairs, 8 bytes apart.
        RAL0 = 0x5400;
        /// See [`RAL0`].
        RAH0 = 0x5404;
        /// VLAN filter table: 128 words.
        VFTA = 0x5600;
        /// Wake up control.
        WUC = 0x5800;
        /// Management control (82540 and later).
        MANC = 0x5820;
    }
    /// Words in [`MTA`].
    pub const MTA_LEN: u32 = 128;
    /// Words in [`VFTA`].
    pub const VFTA_LEN: u32 = 128;
    /// Pairs at [`RAL0`].
    pub const RAR_LEN: u32 = 16;

    /// Statistics: reading clears, and they stick at all ones. Of the four pairs
    /// the low half comes first, and reading the high half clears both.
    pub mod stat {
        registers! {
            /// CRC errors.
            CRCERRS = 0x4000;
            /// Alignment errors.
            ALGNERRC = 0x4004;
            /// Symbol errors.
            SYMERRS = 0x4008;
            /// Receive errors.
            RXERRC = 0x400c;
            /// Missed packets: no room on the chip.
            MPC = 0x4010;
            /// Single collisions.
            SCC = 0x4014;
            /// Excessive collisions.
            ECOL = 0x4018;
            /// Multiple collisions.
            MCC = 0x401c;
            /// Late collisions.
            LATECOL = 0x4020;
            /// Collisions.
            COLC = 0x4028;
            /// Deferred.
            DC = 0x4030;
            /// Transmitted without carrier sense.
            TNCRS = 0x4034;
            /// Sequence errors.
            SEC = 0x4038;
            /// Carrier extension errors.
            CEXTERR = 0x403c;
            /// Receive length errors.
            RLEC = 0x4040;
            /// XON received.
            XONRXC = 0x4048;
            /// XON sent.
            XONTXC = 0x404c;
            /// XOFF received.
            XOFFRXC = 0x4050;
            /// XOFF sent.
            XOFFTXC = 0x4054;
            /// Unsupported flow control received.
            FCRUC = 0x4058;
            /// Received, 64 bytes.
            PRC64 = 0x405c;
            /// Received, 65 to 127 bytes.
            PRC127 = 0x4060;
            /// Received, 128 to 255 bytes.
            PRC255 = 0x4064;
            /// Received, 256 to 511 bytes.
            PRC511 = 0x4068;
            /// Received, 512 to 1023 bytes.
            PRC1023 = 0x406c;
            /// Received, 1024 bytes and more.
            PRC1522 = 0x4070;
            /// Good packets received.
            GPRC = 0x4074;
            /// Broadcasts received.
            BPRC = 0x4078;
            /// Multicasts received.
            MPRC = 0x407c;
            /// Good packets sent.
            GPTC = 0x4080;
            /// Good octets received, low half.
            GORCL = 0x4088;
            /// High half.
            GORCH = 0x408c;
            /// Good octets sent, low half.
            GOTCL = 0x4090;
            /// High half.
            GOTCH = 0x4094;
            /// Receive: no buffers.
            RNBC = 0x40a0;
            /// Received, too short.
            RUC = 0x40a4;
            /// Received fragments.
            RFC = 0x40a8;
            /// Received, too long.
            ROC = 0x40ac;
            /// Received jabber.
            RJC = 0x40b0;
            /// Management packets received.
            MGTPRC = 0x40b4;
            /// Management packets dropped.
            MGTPDC = 0x40b8;
            /// Management packets sent.
            MGTPTC = 0x40bc;
            /// All octets received, low half.
            TORL = 0x40c0;
            /// High half.
            TORH = 0x40c4;
            /// All octets sent, low half.
            TOTL = 0x40c8;
            /// High half.
            TOTH = 0x40cc;
            /// All packets received.
            TPR = 0x40d0;
            /// All packets sent.
            TPT = 0x40d4;
            /// Sent, 64 bytes.
            PTC64 = 0x40d8;
            /// Sent, 65 to 127 bytes.
            PTC127 = 0x40dc;
            /// Sent, 128 to 255 bytes.
            PTC255 = 0x40e0;
            /// Sent, 256 to 511 bytes.
            PTC511 = 0x40e4;
            /// Sent, 512 to 1023 bytes.
            PTC1023 = 0x40e8;
            /// Sent, 1024 bytes and more.
            PTC1522 = 0x40ec;
            /// Multicasts sent.
            MPTC = 0x40f0;
            /// Broadcasts sent.
            BPTC = 0x40f4;
            /// TSO contexts sent.
            TSCTC = 0x40f8;
            /// TSO contexts failed.
            TSCTFC = 0x40fc;
        }
        /// The first.
        pub const FIRST: u32 = CRCERRS;
        /// The last.
        pub const LAST: u32 = TSCTFC;
    }
}

macro_rules! bits {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:expr;)*) => {
        $($(#[doc = $doc])+ pub const $name: u32 = $value;)*
    };
}

bits! {
    /// CTRL: full duplex.
    CTRL_FD = 1 << 0;
    /// CTRL: link reset.
    CTRL_LRST = 1 << 3;
    /// CTRL: speed as the PHY found it.
    CTRL_ASDE = 1 << 5;
    /// CTRL: set link up.
    CTRL_SLU = 1 << 6;
    /// CTRL: speed, 2 bits; this is 1000 Mbit/s.
    CTRL_SPD_1000 = 2 << 8;
    /// CTRL: speed is forced.
    CTRL_FRCSPD = 1 << 11;
    /// CTRL: duplex is forced.
    CTRL_FRCDPX = 1 << 12;
    /// CTRL: reset; clears itself.
    CTRL_RST = 1 << 26;
    /// CTRL: obey pause frames.
    CTRL_RFCE = 1 << 27;
    /// CTRL: send pause frames.
    CTRL_TFCE = 1 << 28;
    /// CTRL: strip VLAN tags on receive, and obey VLE.
    CTRL_VME = 1 << 30;
    /// CTRL: PHY reset.
    CTRL_PHY_RST = 1 << 31;

    /// STATUS: full duplex.
    STATUS_FD = 1 << 0;
    /// STATUS: link up.
    STATUS_LU = 1 << 1;
    /// STATUS: transmission paused.
    STATUS_TXOFF = 1 << 4;
    /// STATUS: serdes.
    STATUS_TBIMODE = 1 << 5;
    /// STATUS: speed, 2 bits: 0 is 10, 1 is 100, 2 and 3 are 1000 Mbit/s.
    STATUS_SPEED = 3 << 6;
    /// STATUS: 1000 Mbit/s.
    STATUS_SPEED_1000 = 2 << 6;
    /// STATUS: the bus is at 66 MHz (conventional PCI).
    STATUS_PCI66 = 1 << 11;
    /// STATUS: the bus is 64 bits wide.
    STATUS_BUS64 = 1 << 12;
    /// STATUS: the bus is PCI-X.
    STATUS_PCIX_MODE = 1 << 13;
    /// STATUS: PCI-X clock, 2 bits: 50 to 66, to 100, to 133 MHz.
    STATUS_PCIX_SPEED = 3 << 14;

    /// EECD: clock.
    EECD_SK = 1 << 0;
    /// EECD: chip select.
    EECD_CS = 1 << 1;
    /// EECD: data to the EEPROM.
    EECD_DI = 1 << 2;
    /// EECD: data from the EEPROM.
    EECD_DO = 1 << 3;
    /// EECD: software asks for the EEPROM.
    EECD_REQ = 1 << 6;
    /// EECD: it was granted.
    EECD_GNT = 1 << 7;
    /// EECD: there is an EEPROM.
    EECD_PRES = 1 << 8;
    /// EECD: it has 256 words and 8 address bits, not 64 and 6.
    EECD_SIZE = 1 << 9;

    /// EERD: begin.
    EERD_START = 1 << 0;
    /// EERD: done.
    EERD_DONE = 1 << 4;
    /// EERD: where the word's number begins.
    EERD_ADDR_SHIFT = 8;
    /// EERD: where the word begins.
    EERD_DATA_SHIFT = 16;

    /// CTRL_EXT: read the EEPROM again.
    CTRL_EXT_EE_RST = 1 << 13;
    /// CTRL_EXT: no relaxed ordering.
    CTRL_EXT_RO_DIS = 1 << 17;
    /// CTRL_EXT: link mode, 2 bits; 0 is copper.
    CTRL_EXT_LINK_MODE = 3 << 22;

    /// MDIC: data.
    MDIC_DATA = 0xffff;
    /// MDIC: where the register's number begins, 5 bits.
    MDIC_REG_SHIFT = 16;
    /// MDIC: where the PHY's address begins, 5 bits.
    MDIC_PHY_SHIFT = 21;
    /// MDIC: write.
    MDIC_OP_WRITE = 1 << 26;
    /// MDIC: read.
    MDIC_OP_READ = 2 << 26;
    /// MDIC: done.
    MDIC_READY = 1 << 28;
    /// MDIC: interrupt when done.
    MDIC_INT_EN = 1 << 29;
    /// MDIC: it failed.
    MDIC_ERROR = 1 << 30;

    /// RCTL: receiver on.
    RCTL_EN = 1 << 1;
    /// RCTL: store bad packets.
    RCTL_SBP = 1 << 2;
    /// RCTL: accept all unicast.
    RCTL_UPE = 1 << 3;
    /// RCTL: accept all multicast.
    RCTL_MPE = 1 << 4;
    /// RCTL: accept frames longer than 1522 bytes.
    RCTL_LPE = 1 << 5;
    /// RCTL: loopback, 2 bits; this is MAC loopback, 3 is the PHY's.
    RCTL_LBM_MAC = 1 << 6;
    /// RCTL: both bits of loopback.
    RCTL_LBM = 3 << 6;
    /// RCTL: where the threshold of free descriptors begins, 2 bits: 1/2, 1/4, 1/8.
    RCTL_RDMTS_SHIFT = 8;
    /// RCTL: where the multicast offset begins, 2 bits: address bits 47:36, 46:35, 45:34, 43:32.
    RCTL_MO_SHIFT = 12;
    /// RCTL: accept broadcast.
    RCTL_BAM = 1 << 15;
    /// RCTL: where the buffer size begins, 2 bits: 2048, 1024, 512, 256; with BSEX
    /// (none), 16384, 8192, 4096.
    RCTL_SZ_SHIFT = 16;
    /// RCTL: filter by VLAN.
    RCTL_VFE = 1 << 18;
    /// RCTL: filter by the canonical form bit.
    RCTL_CFIEN = 1 << 19;
    /// RCTL: its value to accept.
    RCTL_CFI = 1 << 20;
    /// RCTL: discard pause frames.
    RCTL_DPF = 1 << 22;
    /// RCTL: pass MAC control frames.
    RCTL_PMCF = 1 << 23;
    /// RCTL: the buffer size is 16 times as large.
    RCTL_BSEX = 1 << 25;
    /// RCTL: strip the FCS.
    RCTL_SECRC = 1 << 26;

    /// TCTL: transmitter on.
    TCTL_EN = 1 << 1;
    /// TCTL: pad short packets.
    TCTL_PSP = 1 << 3;
    /// TCTL: where the collision threshold begins, 8 bits.
    TCTL_CT_SHIFT = 4;
    /// TCTL: where the collision distance begins, 10 bits.
    TCTL_COLD_SHIFT = 12;
    /// TCTL: retransmit on a late collision.
    TCTL_RTLC = 1 << 24;
    /// TCTL: multiple requests.
    TCTL_MULR = 1 << 28;

    /// RXDCTL, TXDCTL: where the prefetch threshold begins, 6 bits.
    DCTL_PTHRESH_SHIFT = 0;
    /// RXDCTL, TXDCTL: where the host threshold begins, 6 bits.
    DCTL_HTHRESH_SHIFT = 8;
    /// RXDCTL, TXDCTL: where the write-back threshold begins, 6 bits.
    DCTL_WTHRESH_SHIFT = 16;
    /// RXDCTL, TXDCTL: thresholds are in descriptors, not cache lines.
    DCTL_GRAN = 1 << 24;
    /// TXDCTL: where the low threshold begins, in eights of descriptors, 7 bits.
    TXDCTL_LWTHRESH_SHIFT = 25;

    /// RDTR, TIDV: flush what is held back now.
    TIMER_FPD = 1 << 31;

    /// RXCSUM: packet checksum starts here, 8 bits.
    RXCSUM_PCSS = 0xff;
    /// RXCSUM: check IPv4 headers.
    RXCSUM_IPOFL = 1 << 8;
    /// RXCSUM: check TCP and UDP.
    RXCSUM_TUOFL = 1 << 9;

    /// RAH: this receive address is valid.
    RAH_AV = 1 << 31;
    /// MANC: answer ARP.
    MANC_ARP_EN = 1 << 13;

    /// Interrupt cause: transmit descriptor written back.
    INT_TXDW = 1 << 0;
    /// Interrupt cause: transmit queue empty.
    INT_TXQE = 1 << 1;
    /// Interrupt cause: link status changed.
    INT_LSC = 1 << 2;
    /// Interrupt cause: receive sequence error.
    INT_RXSEQ = 1 << 3;
    /// Interrupt cause: few free receive descriptors.
    INT_RXDMT0 = 1 << 4;
    /// Interrupt cause: receive overrun.
    INT_RXO = 1 << 6;
    /// Interrupt cause: receive timer, a packet was received.
    INT_RXT0 = 1 << 7;
    /// Interrupt cause: MDI access complete.
    INT_MDAC = 1 << 9;
    /// Interrupt cause: few transmit descriptors left.
    INT_TXD_LOW = 1 << 15;
    /// Interrupt cause: small packet received.
    INT_SRPD = 1 << 16;
    /// ICR: the line is raised.
    INT_ASSERTED = 1 << 31;
}

/// EEPROM: 16-bit words on a microwire bus (sections 5.2 and 5.6).
pub mod eeprom {
    /// Words 0 to 2 are the MAC address.
    pub const MAC: u8 = 0x00;
    /// Initialisation control 1.
    pub const INIT_CONTROL1: u8 = 0x0a;
    /// Subsystem.
    pub const SUBSYSTEM_ID: u8 = 0x0b;
    /// Subsystem vendor.
    pub const SUBSYSTEM_VENDOR: u8 = 0x0c;
    /// PCI device.
    pub const DEVICE_ID: u8 = 0x0d;
    /// PCI vendor.
    pub const VENDOR_ID: u8 = 0x0e;
    /// Initialisation control 2.
    pub const INIT_CONTROL2: u8 = 0x0f;
    /// Makes the sum right.
    pub const CHECKSUM: u8 = 0x3f;
    /// Words that are summed, and words of the smaller EEPROM.
    pub const WORDS: u8 = 0x40;
    /// What they sum to.
    pub const SUM: u16 = 0xbaba;
    /// Start bit and opcode of a read.
    pub const READ: u16 = 0b110;
    /// Bits of start and opcode.
    pub const OPCODE_BITS: u32 = 3;
    /// Address bits of the EEPROM of 64 words.
    pub const SMALL_ADDRESS_BITS: u32 = 6;
    /// Address bits of the EEPROM of 256 words.
    pub const LARGE_ADDRESS_BITS: u32 = 8;
}

/// The PHY: an M88E1000 or M88E1011 (IEEE 802.3 clause 22, and its maker's).
pub mod phy {
    /// Its address on the MDI.
    pub const ADDRESS: u32 = 1;
    /// Control.
    pub const CTRL: u8 = 0;
    /// Status.
    pub const STATUS: u8 = 1;
    /// Identifier, high half.
    pub const ID1: u8 = 2;
    /// Identifier, low half: the last four bits are the revision.
    pub const ID2: u8 = 3;
    /// What we advertise.
    pub const AUTONEG_ADV: u8 = 4;
    /// What the partner can.
    pub const LP_ABILITY: u8 = 5;
    /// 1000BASE-T control.
    pub const CTRL_1000T: u8 = 9;
    /// 1000BASE-T status.
    pub const STATUS_1000T: u8 = 10;
    /// Extended status.
    pub const EXT_STATUS: u8 = 15;
    /// M88: specific control.
    pub const M88_CTRL: u8 = 16;
    /// M88: specific status.
    pub const M88_STATUS: u8 = 17;
    /// M88: extended specific control.
    pub const M88_EXT_CTRL: u8 = 20;
    /// CTRL: restart autonegotiation.
    pub const CTRL_RESTART: u16 = 1 << 9;
    /// CTRL: autonegotiate.
    pub const CTRL_AUTONEG: u16 = 1 << 12;
    /// CTRL: loopback.
    pub const CTRL_LOOPBACK: u16 = 1 << 14;
    /// CTRL: reset; clears itself.
    pub const CTRL_RESET: u16 = 1 << 15;
    /// STATUS: link, latched low: read twice.
    pub const STATUS_LINK: u16 = 1 << 2;
    /// STATUS: autonegotiation complete.
    pub const STATUS_AUTONEG: u16 = 1 << 5;
    /// AUTONEG_ADV: all 10 and 100 Mbit/s modes, and the selector.
    pub const ADV_ALL: u16 = 0x01e1;
    /// AUTONEG_ADV: pause, symmetric.
    pub const ADV_PAUSE: u16 = 1 << 10;
    /// CTRL_1000T: advertise full duplex.
    pub const ADV_1000_FD: u16 = 1 << 9;
    /// The identifier without revision: M88E1000 outside the controller.
    pub const ID_M88E1000: u32 = 0x0141_0c50;
    /// The identifier without revision: M88E1000 inside the 82544.
    pub const ID_M88E1000_INSIDE: u32 = 0x0141_0c30;
    /// The identifier without revision: M88E1011 inside the 82540 and 82545.
    pub const ID_M88E1011: u32 = 0x0141_0c20;
    /// Which bits of it.
    pub const ID_MASK: u32 = 0xffff_fff0;
}

/// Bytes of a descriptor of any kind.
pub const DESCRIPTOR: u32 = 16;
/// Where the status byte is in a descriptor of any kind.
pub const STATUS_AT: u32 = 12;
/// Status of any kind of descriptor: done.
pub const DD: u8 = 1 << 0;

/// The legacy transmit descriptor (section 3.3.3).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
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
const _: () = assert!(size_of::<LegacyTx>() == DESCRIPTOR as usize);

impl LegacyTx {
    /// So many bytes at `address`, to be sent with `cmd` alone.
    pub fn new(address: u64, length: u16, cmd: u8) -> LegacyTx {
        LegacyTx { address: address.into(), length: length.into(), cmd, ..LegacyTx::default() }
    }
    /// Command: the packet ends here.
    pub const EOP: u8 = 1 << 0;
    /// Command: append the FCS.
    pub const IFCS: u8 = 1 << 1;
    /// Command: insert a checksum.
    pub const IC: u8 = 1 << 2;
    /// Command: report status, when done.
    pub const RS: u8 = 1 << 3;
    /// Command: report packet sent (82542).
    pub const RPS: u8 = 1 << 4;
    /// Command: not a legacy descriptor.
    pub const DEXT: u8 = 1 << 5;
    /// Command: insert a VLAN tag.
    pub const VLE: u8 = 1 << 6;
    /// Command: delay the interrupt.
    pub const IDE: u8 = 1 << 7;
    /// Status: done.
    pub const DD: u8 = DD;
    /// Status: given up after too many collisions.
    pub const EC: u8 = 1 << 1;
    /// Where the status is in the descriptor.
    pub const STATUS: u32 = core::mem::offset_of!(LegacyTx, status) as u32;
    /// The longest buffer (section 3.3.3).
    pub const MAX: u32 = 16288;
}

/// Bits of the word at byte 8 of data and context descriptors. `DCMD` is its top
/// byte, and what [`LegacyTx`] has in `cmd` is there at the same bit.
pub mod tx_word {
    /// Length of a data descriptor's buffer, or payload length of a context.
    pub const LENGTH: u32 = 0xf_ffff;
    /// Descriptor type data; 0 is context.
    pub const DTYP_DATA: u32 = 1 << 20;
    /// Both bits and two more of descriptor type.
    pub const DTYP: u32 = 0xf << 20;
    /// The packet ends here.
    pub const EOP: u32 = 1 << 24;
    /// Append the FCS.
    pub const IFCS: u32 = 1 << 25;
    /// TCP segmentation; in data and context.
    pub const TSE: u32 = 1 << 26;
    /// Report status, when done.
    pub const RS: u32 = 1 << 27;
    /// Report packet sent (82542).
    pub const RPS: u32 = 1 << 28;
    /// Not a legacy descriptor.
    pub const DEXT: u32 = 1 << 29;
    /// Insert a VLAN tag.
    pub const VLE: u32 = 1 << 30;
    /// Delay the interrupt.
    pub const IDE: u32 = 1 << 31;
    /// Context: TCP, not UDP.
    pub const TCP: u32 = 1 << 24;
    /// Context: IPv4, not IPv6.
    pub const IP: u32 = 1 << 25;
}

/// The transmit data descriptor (section 3.3.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DataTx {
    /// Where the data are.
    pub address: U64,
    /// [`tx_word`].
    pub word: U32,
    /// `DD`, ...; written by the device.
    pub status: u8,
    /// Which checksums to insert.
    pub popts: u8,
    /// VLAN tag.
    pub special: U16,
}
const _: () = assert!(size_of::<DataTx>() == DESCRIPTOR as usize);
const _: () = assert!(core::mem::offset_of!(DataTx, status) == STATUS_AT as usize);

impl DataTx {
    /// Options: insert the IPv4 header checksum.
    pub const IXSM: u8 = 1 << 0;
    /// Options: insert the TCP or UDP checksum.
    pub const TXSM: u8 = 1 << 1;
}

/// The transmit context descriptor (section 3.3.6).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ContextTx {
    /// IP checksum: start.
    pub ipcss: u8,
    /// IP checksum: where it is stored.
    pub ipcso: u8,
    /// IP checksum: last byte.
    pub ipcse: U16,
    /// TCP or UDP checksum: start.
    pub tucss: u8,
    /// TCP or UDP checksum: where it is stored.
    pub tucso: u8,
    /// TCP or UDP checksum: last byte; 0 is the packet's end.
    pub tucse: U16,
    /// [`tx_word`]: payload length, commands.
    pub word: U32,
    /// `DD`; written by the device.
    pub status: u8,
    /// Length of all headers.
    pub hdrlen: u8,
    /// Payload bytes a segment.
    pub mss: U16,
}
const _: () = assert!(size_of::<ContextTx>() == DESCRIPTOR as usize);
const _: () = assert!(core::mem::offset_of!(ContextTx, status) == STATUS_AT as usize);

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
const _: () = assert!(size_of::<Rx>() == DESCRIPTOR as usize);

impl Rx {
    /// Status: done.
    pub const DD: u8 = DD;
    /// Status: the packet ends here.
    pub const EOP: u8 = 1 << 1;
    /// Status: what is said about checksums is to be ignored.
    pub const IXSM: u8 = 1 << 2;
    /// Status: the packet had a VLAN tag, now in `special`.
    pub const VP: u8 = 1 << 3;
    /// Status: UDP checksum was calculated (not on all parts).
    pub const UDPCS: u8 = 1 << 4;
    /// Status: TCP or UDP checksum was calculated.
    pub const TCPCS: u8 = 1 << 5;
    /// Status: IPv4 header checksum was calculated.
    pub const IPCS: u8 = 1 << 6;
    /// Status: passed the filter inexactly.
    pub const PIF: u8 = 1 << 7;
    /// Errors: CRC or alignment.
    pub const CE: u8 = 1 << 0;
    /// Errors: symbol.
    pub const SE: u8 = 1 << 1;
    /// Errors: sequence.
    pub const SEQ: u8 = 1 << 2;
    /// Errors: carrier extension.
    pub const CXE: u8 = 1 << 4;
    /// Errors: TCP or UDP checksum.
    pub const TCPE: u8 = 1 << 5;
    /// Errors: IPv4 header checksum.
    pub const IPE: u8 = 1 << 6;
    /// Errors: data.
    pub const RXE: u8 = 1 << 7;
    /// Errors that make a frame unusable; checksum errors do not.
    pub const FRAME_ERRORS: u8 = Rx::CE | Rx::SE | Rx::SEQ | Rx::CXE | Rx::RXE;
    /// Where the length is in the descriptor.
    pub const LENGTH: u32 = core::mem::offset_of!(Rx, length) as u32;
    /// Where the status is in the descriptor.
    pub const STATUS: u32 = core::mem::offset_of!(Rx, status) as u32;
}
