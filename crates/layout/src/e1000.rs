//! Intel 8254x and 82574 (e1000): registers, descriptors, EEPROM and PHY.
//!
//! Registers are 32 bits wide, in region 0 (128 KiB); all is little-endian. The 82542 has its rings
//! elsewhere and is not described here.
//!
//! Source: Intel, "PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual"
//! (317453), chapters 3, 5 and 13; where it is silent, Linux's e1000_hw.h. What the 82574 alone has
//! is in its datasheet, chapters 7 and 10.

use crate::offload::{Offload, Request, checksum_and};
use core::mem::offset_of;
use doorbell_packet::GsoKind;
use zerocopy::little_endian::{U16, U32, U64};

/// The use of a chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// It inserts tags; else the driver does.
    pub vlan: bool,
}

/// Most bytes of a large send: `tso_max_size` where a driver does not set it.
const MAX_LARGE: u32 = 65_536;

/// Most bytes of a segment with its headers: those of the longest frame.
const MAX_SEGMENT: u32 = 16_110;

/// Returns what the chip can do for a packet, by the offsets of a context descriptor.
///
/// It sums any range (`NETIF_F_HW_CSUM`) whose offsets have 8 bits. It segments TCP with up to 255
/// bytes of headers, but it knows no second IP header, and it does not clear CWR behind the first
/// segment, so Linux's driver has no `NETIF_F_TSO_ECN` (manual, 3.5 and 3.6: TUCSS, TUCSO, HDRLEN,
/// "TCP Segmentation Data Manipulation").
pub fn can(request: &Request<'_>, caps: &Caps) -> Offload {
    let tag = if request.todo.vlan.is_some() && !caps.vlan { 4 } else { 0 };
    let large = || {
        checksum_and(request, |gso, payload| {
            let h = request.matching().filter(|h| h.inner.is_none() && !h.cwr);
            let tcp = matches!(gso.kind, GsoKind::Tcp4 | GsoKind::Tcp6);
            let fits = gso.header + tag <= 255 && request.len <= MAX_LARGE;
            let segment = u32::from(gso.header) + u32::from(gso.size);
            let size = gso.size > 0 && segment <= MAX_SEGMENT;
            h.is_some() && tcp && fits && size && payload > 0
        })
    };
    match request.todo.checksum {
        Some(c) if c.field() + usize::from(tag) > 255 => Offload::None,
        _ => large(),
    }
}

layout! {
    const u16 {
        VENDOR = 0x8086, "PCI vendor.";
        REGION_LEN: u32 = 128 << 10, "Bytes of the register region.";
    }

    /// PCI device ids.
    mod id: u16 {
        I82544GC = 0x100c, "82544GC, copper.";
        I82540EM = 0x100e, "82540EM.";
        I82545EM = 0x100f, "82545EM, copper.";
        I82574L = 0x10d3, "82574L.";
    }

    /// The window in the I/O region: a register's offset, then its value.
    mod io: u32 {
        IOADDR = 0, "Register offset.";
        IODATA = 4, "Register value.";
    }
}

/// Register offsets in region 0.
pub mod reg {
    layout! {
        registers u32 {
            CTRL = 0x0000, "Device control.";
            CTRL_DUP = 0x0004, "Device control, shadow.";
            STATUS = 0x0008, "Device status.";
            EECD = 0x0010, "EEPROM pins and access.";
            EERD = 0x0014, "EEPROM read.";
            CTRL_EXT = 0x0018, "Extended device control.";
            MDIC = 0x0020, "MDI control: the PHY's registers.";
            FCAL = 0x0028, "Flow control: address of pause frames, low half.";
            FCAH = 0x002c, "Flow control: address, high half.";
            FCT = 0x0030, "Flow control: Ethernet type.";
            VET = 0x0038, "Ethernet type of VLAN tags.";
            ICR = 0x00c0, "Interrupt causes; reading clears them.";
            ITR = 0x00c4, "Interrupt throttling: least distance of two interrupts, in 256 ns.";
            ICS = 0x00c8, "Interrupt causes, to be set.";
            IMS = 0x00d0, "Interrupt mask: causes to be enabled.";
            IMC = 0x00d8, "Interrupt mask: causes to be disabled.";
            EIAC = 0x00dc, "82574: causes that the MSI-X message of theirs clears.";
            IAM = 0x00e0, "82574: causes that reading ICR, or a message, disables.";
            IVAR = 0x00e4, "82574: the MSI-X vector of each cause.";
            /// 82574: interrupt throttling of MSI-X vector 0; five registers, as [`ITR`].
            EITR = 0x00e8;
            RCTL = 0x0100, "Receive control.";
            FCTTV = 0x0170, "Flow control: pause time sent.";
            TXCW = 0x0178, "Transmit configuration (serdes).";
            RXCW = 0x0180, "Receive configuration (serdes).";
            TCTL = 0x0400, "Transmit control.";
            TIPG = 0x0410, "Transmit inter-packet gap.";
            AIT = 0x0458, "Adaptive interframe spacing.";
            LEDCTL = 0x0e00, "LEDs.";
            EXTCNF_CTRL = 0x0f00, "82574: extended configuration; owner of the PHY and the NVM.";
            PHY_CTRL = 0x0f10, "82574: the PHY's power management (POEMB).";
            PBA = 0x1000, "On-chip packet memory: KiB for receive below, for transmit above.";
            EEMNGCTL = 0x1010, "82574: the NVM's configuration has been read.";
            EEWR = 0x102c, "82574: NVM write.";
            FCRTL = 0x2160, "Flow control: receive threshold low.";
            FCRTH = 0x2168, "Flow control: receive threshold high.";
            PSRCTL = 0x2170, "82574: packet split: sizes of the buffers of a descriptor.";
            RDBAL = 0x2800, "Receive ring: address, low half.";
            RDBAH = 0x2804, "Receive ring: address, high half.";
            RDLEN = 0x2808, "Receive ring: bytes, a multiple of 128.";
            RDH = 0x2810, "Receive ring: the device's next descriptor.";
            /// Receive ring: the driver's last filled descriptor, which the device does
            /// not take yet.
            RDT = 0x2818;
            RDTR = 0x2820, "Receive delay timer, in 1.024 us; restarted by each packet.";
            RXDCTL = 0x2828, "Receive descriptor control: thresholds.";
            /// Receive absolute delay timer, in 1.024 us; started by the first packet.
            RADV = 0x282c;
            RDBAL1 = 0x2900, "82574: receive ring 1, see [`RDBAL`].";
            RDBAH1 = 0x2904, "82574: receive ring 1, see [`RDBAH`].";
            RDLEN1 = 0x2908, "82574: receive ring 1, see [`RDLEN`].";
            RDH1 = 0x2910, "82574: receive ring 1, see [`RDH`].";
            RDT1 = 0x2918, "82574: receive ring 1, see [`RDT`].";
            RXDCTL1 = 0x2928, "82574: receive ring 1, see [`RXDCTL`].";
            RSRPD = 0x2c00, "Receive small packet detect: the size.";
            TDBAL = 0x3800, "Transmit ring: address, low half.";
            TDBAH = 0x3804, "Transmit ring: address, high half.";
            TDLEN = 0x3808, "Transmit ring: bytes, a multiple of 128.";
            TDH = 0x3810, "Transmit ring: the device's next descriptor.";
            /// Transmit ring: one past the driver's last descriptor. Writing it is the doorbell.
            TDT = 0x3818;
            TIDV = 0x3820, "Transmit delay timer, in 1.024 us.";
            TXDCTL = 0x3828, "Transmit descriptor control: thresholds.";
            TADV = 0x382c, "Transmit absolute delay timer, in 1.024 us.";
            TSPMT = 0x3830, "TSO pad and minimum threshold (PCI-X).";
            TARC0 = 0x3840, "82574: arbitration of transmit queue 0.";
            TDBAL1 = 0x3900, "82574: transmit ring 1, see [`TDBAL`].";
            TDBAH1 = 0x3904, "82574: transmit ring 1, see [`TDBAH`].";
            TDLEN1 = 0x3908, "82574: transmit ring 1, see [`TDLEN`].";
            TDH1 = 0x3910, "82574: transmit ring 1, see [`TDH`].";
            TDT1 = 0x3918, "82574: transmit ring 1, see [`TDT`].";
            TXDCTL1 = 0x3928, "82574: transmit ring 1, see [`TXDCTL`].";
            TARC1 = 0x3940, "82574: arbitration of transmit queue 1.";
            RXCSUM = 0x5000, "Receive checksum control.";
            RFCTL = 0x5008, "82574: receive filter control, and the form of descriptors.";
            MTA = 0x5200, "Multicast table: 128 words.";
            /// Receive address 0: low half, then high half with [`super::RAH_AV`]; 16
            /// pairs, 8 bytes apart.
            RAL0 = 0x5400;
            RAH0 = 0x5404, "See [`RAL0`].";
            VFTA = 0x5600, "VLAN filter table: 128 words.";
            WUC = 0x5800, "Wake up control.";
            MRQC = 0x5818, "82574: several receive queues, and the fields that are hashed.";
            MANC = 0x5820, "Management control (82540 and later).";
            GCR = 0x5b00, "82574: PCI Express control.";
            SWSM = 0x5b50, "82574: semaphores of software and firmware.";
            FWSM = 0x5b54, "82574: the firmware's mode.";
            GCR2 = 0x5b64, "82574: PCI Express control 2.";
            RETA = 0x5c00, "82574: queues by hash: 128 bytes, with the queue in bit 7.";
            RSSRK = 0x5c80, "82574: the key of the hash: 40 bytes.";
        }

        const u32 {
            MTA_LEN = 128, "Words in [`MTA`].";
            VFTA_LEN = 128, "Words in [`VFTA`].";
            RAR_LEN = 16, "Pairs at [`RAL0`].";
            RETA_LEN = 32, "Words in [`RETA`].";
            RSSRK_LEN = 10, "Words in [`RSSRK`].";
            QUEUE = 0x100, "Distance of the registers of two queues (82574).";
            VECTORS = 5, "MSI-X vectors of the 82574, each with its [`EITR`].";
        }

        /// Statistics: reading clears, and they stick at all ones. Of the four pairs
        /// the low half comes first, and reading the high half clears both.
        registers stat: u32 {
            CRCERRS = 0x4000, "CRC errors.";
            ALGNERRC = 0x4004, "Alignment errors.";
            SYMERRS = 0x4008, "Symbol errors.";
            RXERRC = 0x400c, "Receive errors.";
            MPC = 0x4010, "Missed packets: no room on the chip.";
            SCC = 0x4014, "Single collisions.";
            ECOL = 0x4018, "Excessive collisions.";
            MCC = 0x401c, "Multiple collisions.";
            LATECOL = 0x4020, "Late collisions.";
            COLC = 0x4028, "Collisions.";
            DC = 0x4030, "Deferred.";
            TNCRS = 0x4034, "Transmitted without carrier sense.";
            SEC = 0x4038, "Sequence errors.";
            CEXTERR = 0x403c, "Carrier extension errors.";
            RLEC = 0x4040, "Receive length errors.";
            XONRXC = 0x4048, "XON received.";
            XONTXC = 0x404c, "XON sent.";
            XOFFRXC = 0x4050, "XOFF received.";
            XOFFTXC = 0x4054, "XOFF sent.";
            FCRUC = 0x4058, "Unsupported flow control received.";
            PRC64 = 0x405c, "Received, 64 bytes.";
            PRC127 = 0x4060, "Received, 65 to 127 bytes.";
            PRC255 = 0x4064, "Received, 128 to 255 bytes.";
            PRC511 = 0x4068, "Received, 256 to 511 bytes.";
            PRC1023 = 0x406c, "Received, 512 to 1023 bytes.";
            PRC1522 = 0x4070, "Received, 1024 bytes and more.";
            GPRC = 0x4074, "Good packets received.";
            BPRC = 0x4078, "Broadcasts received.";
            MPRC = 0x407c, "Multicasts received.";
            GPTC = 0x4080, "Good packets sent.";
            GORCL = 0x4088, "Good octets received, low half.";
            GORCH = 0x408c, "High half.";
            GOTCL = 0x4090, "Good octets sent, low half.";
            GOTCH = 0x4094, "High half.";
            RNBC = 0x40a0, "Receive: no buffers.";
            RUC = 0x40a4, "Received, too short.";
            RFC = 0x40a8, "Received fragments.";
            ROC = 0x40ac, "Received, too long.";
            RJC = 0x40b0, "Received jabber.";
            MGTPRC = 0x40b4, "Management packets received.";
            MGTPDC = 0x40b8, "Management packets dropped.";
            MGTPTC = 0x40bc, "Management packets sent.";
            TORL = 0x40c0, "All octets received, low half.";
            TORH = 0x40c4, "High half.";
            TOTL = 0x40c8, "All octets sent, low half.";
            TOTH = 0x40cc, "High half.";
            TPR = 0x40d0, "All packets received.";
            TPT = 0x40d4, "All packets sent.";
            PTC64 = 0x40d8, "Sent, 64 bytes.";
            PTC127 = 0x40dc, "Sent, 65 to 127 bytes.";
            PTC255 = 0x40e0, "Sent, 128 to 255 bytes.";
            PTC511 = 0x40e4, "Sent, 256 to 511 bytes.";
            PTC1023 = 0x40e8, "Sent, 512 to 1023 bytes.";
            PTC1522 = 0x40ec, "Sent, 1024 bytes and more.";
            MPTC = 0x40f0, "Multicasts sent.";
            BPTC = 0x40f4, "Broadcasts sent.";
            TSCTC = 0x40f8, "TSO contexts sent.";
            TSCTFC = 0x40fc, "TSO contexts failed.";
            IAC = 0x4100, "82574: interrupts asserted.";
            ICRXDMTC = 0x4120, "82574: interrupt causes: few free receive descriptors.";
            ICRXOC = 0x4124, "82574: interrupt causes: receive overrun.";
            FIRST = CRCERRS, "The first.";
            LAST = TSCTFC, "The last of the 8254x.";
        }
    }
}

/// Returns the name of the register at `offset`. The words of a table have one name.
pub fn register_name(offset: u32) -> Option<&'static str> {
    let table = |from: u32, words: u32| (from..from + 4 * words).contains(&offset);
    if table(reg::MTA, reg::MTA_LEN) {
        Some("MTA")
    } else if table(reg::VFTA, reg::VFTA_LEN) {
        Some("VFTA")
    } else if table(reg::RETA, reg::RETA_LEN) {
        Some("RETA")
    } else if table(reg::RSSRK, reg::RSSRK_LEN) {
        Some("RSSRK")
    } else if table(reg::RAL0, 2 * reg::RAR_LEN) {
        Some(["RAL", "RAH"][(offset / 4 % 2) as usize])
    } else {
        crate::name_of(offset, reg::NAMES).or_else(|| crate::name_of(offset, reg::stat::NAMES))
    }
}

layout! {
    const u32 {
        CTRL_FD = 1 << 0, "CTRL: full duplex.";
        CTRL_GIO_DISABLE = 1 << 2, "CTRL: no further requests on PCI Express (82574).";
        CTRL_LRST = 1 << 3, "CTRL: link reset.";
        CTRL_ASDE = 1 << 5, "CTRL: speed as the PHY found it.";
        CTRL_SLU = 1 << 6, "CTRL: set link up.";
        CTRL_SPD_1000 = 2 << 8, "CTRL: speed, 2 bits; this is 1000 Mbit/s.";
        CTRL_FRCSPD = 1 << 11, "CTRL: speed is forced.";
        CTRL_FRCDPX = 1 << 12, "CTRL: duplex is forced.";
        CTRL_RST = 1 << 26, "CTRL: reset; clears itself.";
        CTRL_RFCE = 1 << 27, "CTRL: obey pause frames.";
        CTRL_TFCE = 1 << 28, "CTRL: send pause frames.";
        CTRL_VME = 1 << 30, "CTRL: strip VLAN tags on receive, and obey VLE.";
        CTRL_PHY_RST = 1 << 31, "CTRL: PHY reset.";

        STATUS_FD = 1 << 0, "STATUS: full duplex.";
        STATUS_LU = 1 << 1, "STATUS: link up.";
        STATUS_TXOFF = 1 << 4, "STATUS: transmission paused.";
        STATUS_TBIMODE = 1 << 5, "STATUS: serdes.";
        STATUS_SPEED = 3 << 6, "STATUS: speed, 2 bits: 0 is 10, 1 is 100, 2 and 3 are 1000 Mbit/s.";
        STATUS_SPEED_1000 = 2 << 6, "STATUS: 1000 Mbit/s.";
        STATUS_PCI66 = 1 << 11, "STATUS: the bus is at 66 MHz (conventional PCI).";
        STATUS_BUS64 = 1 << 12, "STATUS: the bus is 64 bits wide.";
        STATUS_PCIX_MODE = 1 << 13, "STATUS: the bus is PCI-X.";
        STATUS_PCIX_SPEED = 3 << 14, "STATUS: PCI-X clock, 2 bits: 50 to 66, to 100, to 133 MHz.";
        STATUS_GIO_ENABLED = 1 << 19, "STATUS: requests on PCI Express go on (82574).";

        EECD_SK = 1 << 0, "EECD: clock.";
        EECD_CS = 1 << 1, "EECD: chip select.";
        EECD_DI = 1 << 2, "EECD: data to the EEPROM.";
        EECD_DO = 1 << 3, "EECD: data from the EEPROM.";
        EECD_REQ = 1 << 6, "EECD: software asks for the EEPROM.";
        EECD_GNT = 1 << 7, "EECD: it was granted.";
        EECD_PRES = 1 << 8, "EECD: there is an EEPROM.";
        EECD_SIZE = 1 << 9, "EECD: it has 256 words and 8 address bits, not 64 and 6.";
        EECD_AUTO_RD = 1 << 9, "EECD: the chip has read it (82574).";

        EERD_START = 1 << 0, "EERD: begin.";
        EERD_DONE = 1 << 4, "EERD: done.";
        EERD_ADDR_SHIFT = 8, "EERD: lowest bit of the word's number.";
        EERD_DATA_SHIFT = 16, "EERD: lowest bit of the word.";
        EERD_DONE_82574 = 1 << 1, "EERD, EEWR: done (82574).";
        EERD_ADDR_SHIFT_82574 = 2, "EERD, EEWR: lowest bit of the word's number (82574).";

        CTRL_EXT_EE_RST = 1 << 13, "CTRL_EXT: read the EEPROM again.";
        CTRL_EXT_RO_DIS = 1 << 17, "CTRL_EXT: no relaxed ordering.";
        CTRL_EXT_LINK_MODE = 3 << 22, "CTRL_EXT: link mode, 2 bits; 0 is copper.";
        CTRL_EXT_EIAME = 1 << 24, "CTRL_EXT: an MSI-X message disables causes by IAM (82574).";
        CTRL_EXT_IAME = 1 << 27, "CTRL_EXT: reading ICR disables causes by IAM (82574).";
        CTRL_EXT_PBA_CLR = 1 << 31, "CTRL_EXT: enabling causes clears pending MSI-X (82574).";

        EXTCNF_SW_OWNER = 1 << 5, "EXTCNF_CTRL: software owns the PHY and the NVM.";
        EEMNGCTL_CFG_DONE = 1 << 18, "EEMNGCTL: the configuration has been read.";
        SWSM_SMBI = 1 << 0, "SWSM: semaphore of drivers; reading sets it.";
        SWSM_SWESMBI = 1 << 1, "SWSM: semaphore of software and firmware.";

        IVAR_VALID = 1 << 3, "IVAR: the entry of 4 bits has a vector, in its lower bits.";
        IVAR_RXQ0 = 0, "IVAR: lowest bit of the entry of receive queue 0.";
        IVAR_TXQ0 = 8, "IVAR: lowest bit of the entry of transmit queue 0.";
        IVAR_OTHER = 16, "IVAR: lowest bit of the entry of other causes.";
        IVAR_EVERY_WB = 1 << 31, "IVAR: each write-back of transmit descriptors interrupts.";

        RFCTL_IPV6_DIS = 1 << 10, "RFCTL: IPv6 is not looked at.";
        RFCTL_ACK_DIS = 1 << 12, "RFCTL: no interrupts for ACKs.";
        RFCTL_IPFRSP_DIS = 1 << 14, "RFCTL: fragments are not split.";
        RFCTL_EXTEN = 1 << 15, "RFCTL: receive descriptors are extended.";
        RFCTL_IPV6_EX_DIS = 1 << 16, "RFCTL: of IPv6 with extensions the addresses are hashed.";

        MRQC_ENABLE = 3, "MRQC: both bits of several receive queues.";
        MRQC_RSS = 1, "MRQC: frames are spread over the queues by hash.";
        MRQC_TCP_IPV4 = 1 << 16, "MRQC: TCP over IPv4 is hashed by addresses and ports.";
        MRQC_IPV4 = 1 << 17, "MRQC: IPv4 is hashed by addresses.";
        MRQC_TCP_IPV6 = 1 << 18, "MRQC: TCP over IPv6 is hashed by addresses and ports.";
        MRQC_IPV6_EX = 1 << 19, "MRQC: IPv6 is hashed by addresses, or those of extensions.";
        MRQC_IPV6 = 1 << 20, "MRQC: IPv6 is hashed by addresses.";
        RETA_QUEUE = 1 << 7, "RETA: the queue, in a byte.";

        PSRCTL_RESET = 2 | 4 << 8 | 4 << 16, "PSRCTL at power-on: 256 B, 4 KiB and 4 KiB.";

        TARC_COUNT = 0x7f, "TARC: packets in a row while the other queue has some, too.";
        TARC_ENABLE = 1 << 10, "TARC: descriptors are fetched.";
        TARC_RESET = 3 | 1 << 10, "TARC at power-on.";

        MDIC_DATA = 0xffff, "MDIC: data.";
        MDIC_REG_SHIFT = 16, "MDIC: lowest bit of the register's number, 5 bits.";
        MDIC_PHY_SHIFT = 21, "MDIC: lowest bit of the PHY's address, 5 bits.";
        MDIC_OP_WRITE = 1 << 26, "MDIC: write.";
        MDIC_OP_READ = 2 << 26, "MDIC: read.";
        MDIC_READY = 1 << 28, "MDIC: done.";
        MDIC_INT_EN = 1 << 29, "MDIC: interrupt when done.";
        MDIC_ERROR = 1 << 30, "MDIC: it failed.";

        RCTL_EN = 1 << 1, "RCTL: receiver on.";
        RCTL_SBP = 1 << 2, "RCTL: store bad packets.";
        RCTL_UPE = 1 << 3, "RCTL: accept all unicast.";
        RCTL_MPE = 1 << 4, "RCTL: accept all multicast.";
        RCTL_LPE = 1 << 5, "RCTL: accept frames longer than 1522 bytes.";
        RCTL_LBM_MAC = 1 << 6, "RCTL: loopback, 2 bits; this is MAC loopback, 3 is the PHY's.";
        RCTL_LBM = 3 << 6, "RCTL: both bits of loopback.";
        /// RCTL: lowest bit of the threshold of free descriptors, 2 bits: 1/2, 1/4, 1/8.
        RCTL_RDMTS_SHIFT = 8;
        /// RCTL: lowest bit of the multicast offset, 2 bits: address bits 47:36, 46:35, 45:34,
        /// 43:32.
        RCTL_MO_SHIFT = 12;
        RCTL_DTYP = 3 << 10, "RCTL: both bits of the descriptors' type (82574).";
        RCTL_DTYP_SPLIT = 1 << 10, "RCTL: descriptors split packets, if they are extended (82574).";
        RCTL_BAM = 1 << 15, "RCTL: accept broadcast.";
        /// RCTL: lowest bit of the buffer size, 2 bits: 2048, 1024, 512, 256; with BSEX (none),
        /// 16384, 8192, 4096.
        RCTL_SZ_SHIFT = 16;
        RCTL_VFE = 1 << 18, "RCTL: filter by VLAN.";
        RCTL_CFIEN = 1 << 19, "RCTL: filter by the canonical form bit.";
        RCTL_CFI = 1 << 20, "RCTL: its value to accept.";
        RCTL_DPF = 1 << 22, "RCTL: discard pause frames.";
        RCTL_PMCF = 1 << 23, "RCTL: pass MAC control frames.";
        RCTL_BSEX = 1 << 25, "RCTL: the buffer size is 16 times as large.";
        RCTL_SECRC = 1 << 26, "RCTL: strip the FCS.";
        RCTL_FLXBUF_SHIFT = 27, "RCTL: lowest bit of the buffer size in KiB, 4 bits (82574).";

        TCTL_EN = 1 << 1, "TCTL: transmitter on.";
        TCTL_PSP = 1 << 3, "TCTL: pad short packets.";
        TCTL_CT_SHIFT = 4, "TCTL: lowest bit of the collision threshold, 8 bits.";
        TCTL_COLD_SHIFT = 12, "TCTL: lowest bit of the collision distance, 10 bits.";
        TCTL_RTLC = 1 << 24, "TCTL: retransmit on a late collision.";
        TCTL_MULR = 1 << 28, "TCTL: multiple requests.";

        DCTL_PTHRESH_SHIFT = 0, "RXDCTL, TXDCTL: lowest bit of the prefetch threshold, 6 bits.";
        DCTL_HTHRESH_SHIFT = 8, "RXDCTL, TXDCTL: lowest bit of the host threshold, 6 bits.";
        DCTL_WTHRESH_SHIFT = 16, "RXDCTL, TXDCTL: lowest bit of the write-back threshold, 6 bits.";
        DCTL_GRAN = 1 << 24, "RXDCTL, TXDCTL: thresholds are in descriptors, not cache lines.";
        /// TXDCTL: where the low threshold begins, in eights of descriptors, 7 bits.
        TXDCTL_LWTHRESH_SHIFT = 25;

        TIMER_FPD = 1 << 31, "RDTR, TIDV: flush what is held back now.";

        RXCSUM_PCSS = 0xff, "RXCSUM: packet checksum starts here, 8 bits.";
        RXCSUM_IPOFL = 1 << 8, "RXCSUM: check IPv4 headers.";
        RXCSUM_TUOFL = 1 << 9, "RXCSUM: check TCP and UDP.";
        /// RXCSUM: extended descriptors have the RSS hash, not the packet checksum (82574).
        RXCSUM_PCSD = 1 << 13;

        RAH_AV = 1 << 31, "RAH: this receive address is valid.";
        MANC_ARP_EN = 1 << 13, "MANC: answer ARP.";

        INT_TXDW = 1 << 0, "Interrupt cause: transmit descriptor written back.";
        INT_TXQE = 1 << 1, "Interrupt cause: transmit queue empty.";
        INT_LSC = 1 << 2, "Interrupt cause: link status changed.";
        INT_RXSEQ = 1 << 3, "Interrupt cause: receive sequence error.";
        INT_RXDMT0 = 1 << 4, "Interrupt cause: few free receive descriptors.";
        INT_RXO = 1 << 6, "Interrupt cause: receive overrun.";
        INT_RXT0 = 1 << 7, "Interrupt cause: receive timer, a packet was received.";
        INT_MDAC = 1 << 9, "Interrupt cause: MDI access complete.";
        INT_TXD_LOW = 1 << 15, "Interrupt cause: few transmit descriptors left.";
        INT_SRPD = 1 << 16, "Interrupt cause: small packet received.";
        INT_RXQ0 = 1 << 20, "Interrupt cause: receive queue 0 (82574).";
        INT_TXQ0 = 1 << 22, "Interrupt cause: transmit queue 0 (82574).";
        INT_OTHER = 1 << 24, "Interrupt cause: one that is of no queue (82574).";
        INT_ASSERTED = 1 << 31, "ICR: the line is raised.";
    }

    /// EEPROM: 16-bit words on a microwire bus (sections 5.2 and 5.6).
    mod eeprom: u8 {
        MAC = 0x00, "Words 0 to 2 are the MAC address.";
        INIT_CONTROL1 = 0x0a, "Initialisation control 1.";
        SUBSYSTEM_ID = 0x0b, "Subsystem.";
        SUBSYSTEM_VENDOR = 0x0c, "Subsystem vendor.";
        DEVICE_ID = 0x0d, "PCI device.";
        VENDOR_ID = 0x0e, "PCI vendor.";
        INIT_CONTROL2 = 0x0f, "Initialisation control 2.";
        INIT_CONTROL3 = 0x24, "Initialisation control 3 (82574).";
        CHECKSUM = 0x3f, "Makes the sum right.";
        WORDS = 0x40, "Words that are summed, and words of the smaller EEPROM.";
        SUM: u16 = 0xbaba, "Their sum.";
        READ: u16 = 0b110, "Start bit and opcode of a read.";
        OPCODE_BITS: u32 = 3, "Bits of start and opcode.";
        SMALL_ADDRESS_BITS: u32 = 6, "Address bits of the EEPROM of 64 words.";
        LARGE_ADDRESS_BITS: u32 = 8, "Address bits of the EEPROM of 256 words.";
    }

    /// The PHY: an M88E1000 or M88E1011 (IEEE 802.3 clause 22, and its maker's).
    mod phy: u8 {
        ADDRESS: u32 = 1, "Its address on the MDI.";
        CTRL = 0, "Control.";
        STATUS = 1, "Status.";
        ID1 = 2, "Identifier, high half.";
        ID2 = 3, "Identifier, low half: the last four bits are the revision.";
        AUTONEG_ADV = 4, "Abilities that this end advertises.";
        LP_ABILITY = 5, "Abilities of the partner.";
        CTRL_1000T = 9, "1000BASE-T control.";
        STATUS_1000T = 10, "1000BASE-T status.";
        EXT_STATUS = 15, "Extended status.";
        M88_CTRL = 16, "M88: specific control.";
        M88_STATUS = 17, "M88: specific status.";
        M88_EXT_CTRL = 20, "M88: extended specific control.";
        CTRL_RESTART: u16 = 1 << 9, "CTRL: restart autonegotiation.";
        CTRL_AUTONEG: u16 = 1 << 12, "CTRL: autonegotiate.";
        CTRL_LOOPBACK: u16 = 1 << 14, "CTRL: loopback.";
        CTRL_RESET: u16 = 1 << 15, "CTRL: reset; clears itself.";
        STATUS_LINK: u16 = 1 << 2, "STATUS: link, latched low: read twice.";
        STATUS_AUTONEG: u16 = 1 << 5, "STATUS: autonegotiation complete.";
        ADV_ALL: u16 = 0x01e1, "AUTONEG_ADV: all 10 and 100 Mbit/s modes, and the selector.";
        ADV_PAUSE: u16 = 1 << 10, "AUTONEG_ADV: pause, symmetric.";
        ADV_1000_FD: u16 = 1 << 9, "CTRL_1000T: advertise full duplex.";
        /// The identifier without revision: M88E1000 outside the controller.
        ID_M88E1000: u32 = 0x0141_0c50;
        /// The identifier without revision: M88E1000 inside the 82544.
        ID_M88E1000_INSIDE: u32 = 0x0141_0c30;
        /// The identifier without revision: M88E1011 inside the 82540 and 82545.
        ID_M88E1011: u32 = 0x0141_0c20;
        ID_MASK: u32 = 0xffff_fff0, "The identifier without revision.";
        /// The identifier without revision: BM, inside the 82574.
        ID_BM: u32 = 0x0141_0cb0;
        BM_PAGE = 22, "BM: page of the registers from 16 on.";
    }

    const u32 {
        DESCRIPTOR = 16, "Bytes of a descriptor of any kind.";
        STATUS_AT = 12, "Offset of the status byte in a descriptor of any kind.";
        DD: u8 = 1 << 0, "Status of any kind of descriptor: done.";
    }

    /// The legacy transmit descriptor (section 3.3.3).
    struct LegacyTx[DESCRIPTOR] {
        address: U64, "Address of the data.";
        length: U16, "Length in bytes.";
        cso: u8, "Checksum offset: where the checksum is stored, with [`LegacyTx::IC`].";
        cmd: u8, "`EOP`, `IFCS`, `IC`, `RS`, ...";
        status: u8, "`DD`, ...; written by the device.";
        css: u8, "Checksum start.";
        special: U16, "VLAN tag.";
    }

    impl LegacyTx: u8 {
        EOP = 1 << 0, "Command: the packet ends here.";
        IFCS = 1 << 1, "Command: append the FCS.";
        IC = 1 << 2, "Command: insert a checksum.";
        RS = 1 << 3, "Command: report status, when done.";
        RPS = 1 << 4, "Command: report packet sent (82542).";
        DEXT = 1 << 5, "Command: not a legacy descriptor.";
        VLE = 1 << 6, "Command: insert a VLAN tag.";
        IDE = 1 << 7, "Command: delay the interrupt.";
        DD = DD, "Status: done.";
        EC = 1 << 1, "Status: given up after too many collisions.";
        /// Offset of the status in the descriptor.
        STATUS: u32 = offset_of!(LegacyTx, status) as u32;
        MAX: u32 = 16288, "The longest buffer (section 3.3.3).";
    }
}

impl LegacyTx {
    /// So many bytes at `address`, to be sent with `cmd` alone.
    pub fn new(address: u64, length: u16, cmd: u8) -> LegacyTx {
        LegacyTx { address: address.into(), length: length.into(), cmd, ..LegacyTx::default() }
    }
}

layout! {
    /// Bits of the word at byte 8 of data and context descriptors. `DCMD` is its top
    /// byte, and what [`LegacyTx`] has in `cmd` is there at the same bit.
    mod tx_word: u32 {
        LENGTH = 0xf_ffff, "Length of a data descriptor's buffer, or payload length of a context.";
        DTYP_DATA = 1 << 20, "Descriptor type data; 0 is context.";
        DTYP = 0xf << 20, "Both bits and two more of descriptor type.";
        EOP = 1 << 24, "The packet ends here.";
        IFCS = 1 << 25, "Append the FCS.";
        TSE = 1 << 26, "TCP segmentation; in data and context.";
        RS = 1 << 27, "Report status, when done.";
        RPS = 1 << 28, "Report packet sent (82542).";
        DEXT = 1 << 29, "Not a legacy descriptor.";
        VLE = 1 << 30, "Insert a VLAN tag.";
        IDE = 1 << 31, "Delay the interrupt.";
        TCP = 1 << 24, "Context: TCP, not UDP.";
        IP = 1 << 25, "Context: IPv4, not IPv6.";
    }

    /// The transmit data descriptor (section 3.3.7).
    struct DataTx[DESCRIPTOR] {
        address: U64, "Address of the data.";
        word: U32, "[`tx_word`].";
        status: u8, "`DD`, ...; written by the device.";
        popts: u8, "Checksums to insert.";
        special: U16, "VLAN tag.";
    }

    impl DataTx: u8 {
        IXSM = 1 << 0, "Options: insert the IPv4 header checksum.";
        TXSM = 1 << 1, "Options: insert the TCP or UDP checksum.";
    }

    /// The transmit context descriptor (section 3.3.6).
    struct ContextTx[DESCRIPTOR] {
        ipcss: u8, "IP checksum: start.";
        ipcso: u8, "IP checksum: where it is stored.";
        ipcse: U16, "IP checksum: last byte.";
        tucss: u8, "TCP or UDP checksum: start.";
        tucso: u8, "TCP or UDP checksum: where it is stored.";
        tucse: U16, "TCP or UDP checksum: last byte; 0 is the packet's end.";
        word: U32, "[`tx_word`]: payload length, commands.";
        status: u8, "`DD`; written by the device.";
        hdrlen: u8, "Length of all headers.";
        mss: U16, "Payload bytes a segment.";
    }

    /// The extended receive descriptor, as it is written back (82574, section 7.1.5.2). As it is
    /// read it has the address in the first half, and zeros.
    struct RxExtended[DESCRIPTOR] {
        queue: U32, "RSS type, and the queue from bit 8 on.";
        hash: U32, "RSS hash; or IP identification and packet checksum.";
        status: U32, "Bits 0 to 19 are status, 24 to 31 errors, as in [`Rx`].";
        length: U16, "Bytes received, the FCS among them unless it is stripped.";
        special: U16, "VLAN tag.";
    }

    impl RxExtended: u32 {
        IPIDV = 1 << 9, "Status: the IP identification is valid.";
        PACKET_SHIFT = 16, "Lowest bit of the packet's type in the status, 4 bits.";
        PACKET_IPV4 = 1, "Packet type: IPv4.";
        PACKET_IPV4_TRANSPORT = 2, "Packet type: IPv4 with TCP or UDP.";
        PACKET_IPV6 = 5, "Packet type: IPv6.";
        PACKET_IPV6_TRANSPORT = 6, "Packet type: IPv6 with TCP or UDP.";
        RSS_TYPE = 0xf, "RSS type: which fields are hashed; 0 is none.";
        RSS_TCP_IPV4 = 1, "RSS type: addresses and ports of TCP over IPv4.";
        RSS_IPV4 = 2, "RSS type: addresses of IPv4.";
        RSS_TCP_IPV6 = 3, "RSS type: addresses and ports of TCP over IPv6.";
        RSS_IPV6_EX = 4, "RSS type: addresses of IPv6, with extensions.";
        RSS_IPV6 = 5, "RSS type: addresses of IPv6.";
        QUEUE_SHIFT = 8, "Lowest bit of the queue, 5 bits, beside the RSS type.";
        ERRORS_SHIFT = 24, "Lowest bit of the errors.";
        STATUS = offset_of!(RxExtended, status) as u32, "Offset of the status.";
    }

    /// The second half of a receive descriptor of packet split, as it is written back; the first
    /// is [`RxExtended`]. As it is read, both have the addresses of four buffers (82574, section
    /// 7.1.6).
    struct RxSplit[DESCRIPTOR] {
        header: U16, "Length of the headers in its lower 10 bits, and [`RxSplit::HDRSP`].";
        length1: U16, "Bytes in the second buffer.";
        length2: U16, "Bytes in the third buffer.";
        length3: U16, "Bytes in the fourth buffer.";
        reserved: U64, "Zeros.";
    }

    impl RxSplit: u16 {
        HEADER = 0x3ff, "Length of the headers.";
        HDRSP = 1 << 15, "The headers are in the first buffer, alone.";
        BUFFERS: usize = 4, "Buffers of a descriptor.";
    }

    /// The receive descriptor (section 3.2.3).
    struct Rx[DESCRIPTOR] {
        address: U64, "Address of the buffer.";
        length: U16, "Bytes received, the FCS among them unless it is stripped.";
        checksum: U16, "Packet checksum.";
        status: u8, "`DD`, `EOP`, ...; written by the device.";
        errors: u8, "Errors.";
        special: U16, "VLAN tag.";
    }

    impl Rx: u8 {
        DD = DD, "Status: done.";
        EOP = 1 << 1, "Status: the packet ends here.";
        IXSM = 1 << 2, "Status: what is said about checksums is to be ignored.";
        VP = 1 << 3, "Status: the packet had a VLAN tag, now in `special`.";
        UDPCS = 1 << 4, "Status: UDP checksum was calculated (not on all parts).";
        TCPCS = 1 << 5, "Status: TCP or UDP checksum was calculated.";
        IPCS = 1 << 6, "Status: IPv4 header checksum was calculated.";
        PIF = 1 << 7, "Status: passed the filter inexactly.";
        CE = 1 << 0, "Errors: CRC or alignment.";
        SE = 1 << 1, "Errors: symbol.";
        SEQ = 1 << 2, "Errors: sequence.";
        CXE = 1 << 4, "Errors: carrier extension.";
        TCPE = 1 << 5, "Errors: TCP or UDP checksum.";
        IPE = 1 << 6, "Errors: IPv4 header checksum.";
        RXE = 1 << 7, "Errors: data.";
        /// Errors that make a frame unusable; checksum errors do not.
        FRAME_ERRORS = Rx::CE | Rx::SE | Rx::SEQ | Rx::CXE | Rx::RXE;
        LENGTH: u32 = offset_of!(Rx, length) as u32, "Offset of the length in the descriptor.";
        STATUS: u32 = offset_of!(Rx, status) as u32, "Offset of the status in the descriptor.";
    }
}

const _: () = assert!(offset_of!(DataTx, status) == STATUS_AT as usize);

const _: () = assert!(offset_of!(ContextTx, status) == STATUS_AT as usize);

impl RxExtended {
    /// Returns what the legacy descriptor says of the same.
    pub fn legacy(&self) -> Rx {
        let status = self.status.get();
        Rx {
            length: self.length,
            status: status as u8,
            errors: (status >> RxExtended::ERRORS_SHIFT) as u8,
            special: self.special,
            ..Rx::default()
        }
    }
}
