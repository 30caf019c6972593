//! Send WQEs: the segments that they are made of (linux/mlx5/qp.h).

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a data segment, the unit that `ds` counts.
pub const DS: u32 = 16;
/// Bytes of a send queue basic block.
pub const WQEBB: u32 = 64;
/// Data segments in a basic block.
pub const DS_PER_WQEBB: u32 = WQEBB / DS;
/// Longest send WQE in basic blocks (1 KiB).
pub const MAX_WQEBBS: u32 = 16;
/// Longest multi-packet session in basic blocks: the 6-bit `ds` field cannot say
/// 64, so a full-size WQE is one block shorter (en.h `mlx5e_get_max_sq_aligned_wqebbs`).
pub const MAX_MPW_WQEBBS: u32 = MAX_WQEBBS - 1;
/// Bytes in a queue fragment; a WQE never crosses the end of one.
pub const FRAGMENT: u32 = 4096;

/// Send WQE opcodes (device.h).
pub mod opcode {
    /// Nothing; fills up a queue fragment.
    pub const NOP: u8 = 0x00;
    /// One packet.
    pub const SEND: u8 = 0x0a;
    /// One packet to be cut into segments.
    pub const LSO: u8 = 0x0e;
    /// Enhanced multi-packet send: one packet per data segment.
    pub const ENHANCED_MPSW: u8 = 0x29;
}

/// Control segment, the first of every send WQE (qp.h `mlx5_wqe_ctrl_seg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CtrlSeg {
    /// \[31:24\] opmod, \[23:8\] producer counter of the WQE's first WQEBB, \[7:0\] opcode.
    pub opmod_idx_opcode: U32,
    /// \[31:8\] SQ number, \[5:0\] DS count of the whole WQE.
    pub qpn_ds: U32,
    /// Signature; zero in Ethernet drivers.
    pub signature: u8,
    /// Reserved, DCI stream.
    pub rsvd: [u8; 2],
    /// Fence, completion mode, solicited: see [`CQ_UPDATE`].
    pub fm_ce_se: u8,
    /// TIS number << 8, or an immediate.
    pub imm: U32,
}
const _: () = assert!(size_of::<CtrlSeg>() == DS as usize);

/// `fm_ce_se`: write a CQE when this WQE is done.
pub const CQ_UPDATE: u8 = 0x08;

impl CtrlSeg {
    /// A control segment with no completion asked for.
    #[inline(always)]
    pub fn new(pc: u16, opcode: u8, sqn: u32, ds: u32) -> CtrlSeg {
        CtrlSeg {
            opmod_idx_opcode: U32::new(u32::from(pc) << 8 | u32::from(opcode)),
            qpn_ds: U32::new(sqn << 8 | ds),
            signature: 0,
            rsvd: [0; 2],
            fm_ce_se: 0,
            imm: U32::ZERO,
        }
    }
    /// Opcode.
    pub fn opcode(&self) -> u8 {
        self.opmod_idx_opcode.get() as u8
    }
    /// Opcode modifier.
    pub fn opmod(&self) -> u8 {
        (self.opmod_idx_opcode.get() >> 24) as u8
    }
    /// Producer counter of the WQE's first basic block.
    pub fn pc(&self) -> u16 {
        (self.opmod_idx_opcode.get() >> 8) as u16
    }
    /// SQ number.
    pub fn sqn(&self) -> u32 {
        self.qpn_ds.get() >> 8
    }
    /// Length in data segments, this one included.
    pub fn ds(&self) -> u32 {
        self.qpn_ds.get() & 0x3f
    }
}

/// Ethernet segment, the second (qp.h `mlx5_wqe_eth_seg`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct EthSeg {
    /// Software parser: outer L4, outer L3, inner L4, inner L3 offsets in 2-byte units.
    pub swp_offsets: [u8; 4],
    /// Checksums to insert: [`cs_flags`].
    pub cs_flags: u8,
    /// Software parser: what the offsets point at: [`swp_flags`].
    pub swp_flags: u8,
    /// Payload bytes a segment, for LSO.
    pub mss: U16,
    /// Metadata for flow tables.
    pub flow_table_metadata: U32,
    /// Length of the inline header; or, with bit 15 set, "insert a VLAN tag".
    pub inline_hdr_sz: U16,
    /// The first two bytes of the inline header; or the tag to insert.
    pub inline_hdr_start: [u8; 2],
}
const _: () = assert!(size_of::<EthSeg>() == DS as usize);

/// How many bytes of the Ethernet segment packets of one session must share:
/// everything before `mss` (accel `MLX5E_ACCEL_ESEG_LEN`).
pub const ESEG_SHARED: usize = 6;

/// Bit of `inline_hdr_sz` that turns it and the next field into a VLAN insertion.
pub const ETH_WQE_INSERT_VLAN: u16 = 1 << 15;
/// Beside it: the tag is a service provider's (802.1ad).
pub const ETH_WQE_SVLAN: u16 = 1 << 0;

/// Checksum flags of the Ethernet segment.
pub mod cs_flags {
    /// Inner IP header checksum.
    pub const L3_INNER: u8 = 0x10;
    /// Inner transport checksum.
    pub const L4_INNER: u8 = 0x20;
    /// IP header checksum.
    pub const L3: u8 = 0x40;
    /// Transport checksum.
    pub const L4: u8 = 0x80;
}

/// Software parser flags of the Ethernet segment.
pub mod swp_flags {
    /// The inner IP header is IPv6's.
    pub const INNER_L3_IPV6: u8 = 0x01;
    /// The inner transport is UDP, else TCP.
    pub const INNER_L4_UDP: u8 = 0x02;
    /// The outer IP header is IPv6's.
    pub const OUTER_L3_IPV6: u8 = 0x10;
    /// The outer transport is UDP, else TCP.
    pub const OUTER_L4_UDP: u8 = 0x20;
}

/// Data segment: a piece of a packet in host memory (qp.h `mlx5_wqe_data_seg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DataSeg {
    /// Bytes; bit 31 makes it an inline segment: see [`INLINE_SEG`].
    pub byte_count: U32,
    /// Memory key.
    pub lkey: U32,
    /// Bus address.
    pub addr: U64,
}
const _: () = assert!(size_of::<DataSeg>() == DS as usize);

/// `byte_count` bit of a segment whose bytes follow in the WQE itself.
pub const INLINE_SEG: u32 = 1 << 31;
/// `byte_count` bits that hold an inline segment's length.
pub const INLINE_LEN: u32 = 0x3ff;
