//! ConnectX-5 and later, Ethernet: send WQEs, completion and event queue
//! entries, the doorbell page, and the contexts that objects are created from.
//!
//! Everything in host memory and in BAR0 is big-endian. The unit of a WQE is the
//! data segment (DS, 16 bytes); the unit of a send queue is the basic block
//! (WQEBB, 64 bytes, 4 DS). Names follow linux/mlx5/{device,qp,cq}.h.

pub mod receive;
pub mod steering;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EthSeg {
    /// Software parser: outer L4, outer L3, inner L4, inner L3 offsets in 2-byte units.
    pub swp_offsets: [u8; 4],
    /// Checksums to insert: [`cs_flags`].
    pub cs_flags: u8,
    /// Software parser: what the offsets point at.
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

/// Completion queue entry (device.h `mlx5_cqe64`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Cqe {
    /// Tunnel headers, LRO, RSS hash, SLID and the like (receive).
    pub receive: [u8; 44],
    /// Bytes received.
    pub byte_cnt: U32,
    /// Timestamp, nanoseconds or device cycles. In an error CQE the last two
    /// bytes are the vendor syndrome (low) and [`syndrome`].
    pub timestamp: [u8; 8],
    /// \[31:24\] opcode of the completed send WQE, \[23:0\] SQ or RQ number.
    pub sop_drop_qpn: U32,
    /// Producer counter of the WQE that asked for this CQE.
    pub wqe_counter: U16,
    /// Signature.
    pub signature: u8,
    /// \[7:4\] [`cqe_opcode`], \[3:2\] format, bit 1 solicited, bit 0 owner.
    pub op_own: u8,
}
const _: () = assert!(size_of::<Cqe>() == 64);

/// What `op_own` of a CQE is before the device ever wrote it: invalid, owner 1.
pub const CQE_INITIAL: u8 = 0xf1;

/// CQE opcodes, the upper half of `op_own` (device.h).
pub mod cqe_opcode {
    /// A send WQE is done.
    pub const REQ: u8 = 0;
    /// A send WQE failed.
    pub const REQ_ERR: u8 = 13;
    /// Never written by hardware.
    pub const INVALID: u8 = 15;
}

/// Syndromes of an error CQE (cq.h).
pub mod syndrome {
    /// The WQE says more bytes than a message may have, or segments and length disagree.
    pub const LOCAL_LENGTH: u8 = 0x01;
    /// The WQE is not one this queue can execute.
    pub const LOCAL_QP_OP: u8 = 0x02;
    /// A memory key or address is not valid.
    pub const LOCAL_PROT: u8 = 0x04;
    /// The queue was in error; the WQE was not executed.
    pub const WR_FLUSH: u8 = 0x05;
}

impl Cqe {
    /// An error CQE's syndrome.
    pub fn syndrome(&self) -> u8 {
        self.timestamp[7]
    }
    /// CQE opcode.
    pub fn opcode(&self) -> u8 {
        self.op_own >> 4
    }
    /// SQ or RQ number.
    pub fn qpn(&self) -> u32 {
        self.sop_drop_qpn.get() & 0xff_ffff
    }
}

/// The last dword of a CQE, all that a poller needs to see whether it is his.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CqeTail {
    /// [`Cqe::sop_drop_qpn`].
    pub sop_drop_qpn: U32,
    /// [`Cqe::wqe_counter`].
    pub wqe_counter: U16,
    /// [`Cqe::signature`].
    pub signature: u8,
    /// [`Cqe::op_own`].
    pub op_own: u8,
}
/// Where [`CqeTail`] starts in a [`Cqe`].
pub const CQE_TAIL: u32 = 56;
const _: () = assert!(CQE_TAIL as usize + size_of::<CqeTail>() == size_of::<Cqe>());

/// Event queue entry (eq.h `mlx5_eqe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Eqe {
    /// Reserved.
    pub rsvd0: u8,
    /// [`event`].
    pub event_type: u8,
    /// Reserved.
    pub rsvd2: u8,
    /// Sub type.
    pub sub_type: u8,
    /// Reserved.
    pub rsvd4: [u8; 28],
    /// What the event is about; a completion's CQ number is in the last dword but one.
    pub data: [U32; 7],
    /// Reserved.
    pub rsvd60: [u8; 2],
    /// Signature.
    pub signature: u8,
    /// Bit 0: owner.
    pub owner: u8,
}
const _: () = assert!(size_of::<Eqe>() == 64);

/// Event types (device.h `mlx5_event`).
pub mod event {
    /// A CQ that was armed has a new entry.
    pub const COMPLETION: u8 = 0x00;
    /// A CQ overran or could not be written.
    pub const CQ_ERROR: u8 = 0x04;
    /// A work queue failed beyond what a CQE can say.
    pub const WQ_CATAS: u8 = 0x05;
}

/// Index of the CQ number in [`Eqe::data`].
pub const EQE_CQN: usize = 6;

/// Doorbell page (UAR) offsets.
pub mod uar {
    /// Bytes a page.
    pub const PAGE: u32 = 4096;
    /// CQ arm: 64 bits {sn, command, consumer counter; CQ number}.
    pub const CQ_ARM: u32 = 0x20;
    /// EQ consumer update and arm: eqn << 24 | consumer counter.
    pub const EQ_ARM: u32 = 0x40;
    /// EQ consumer update only.
    pub const EQ_UPDATE: u32 = 0x48;
    /// Send doorbell: the first 8 bytes of the last announced WQE.
    pub const SEND: u32 = 0x800;
}

/// Doorbell record dwords.
pub mod dbr {
    /// Bytes of a queue's doorbell record.
    pub const SIZE: u32 = 8;
    /// Send queue: producer counter, offset in bytes.
    pub const SEND: u32 = 4;
    /// CQ: consumer counter, offset in bytes.
    pub const CQ_CI: u32 = 0;
    /// CQ: the last arm request, offset in bytes.
    pub const CQ_ARM: u32 = 4;
}

/// What a completion queue is created from (the fields used of `cqc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqContext {
    /// log2 of its entries.
    pub log_size: u8,
    /// Bus address of entry 0.
    pub ring: u64,
    /// Bus address of its doorbell record.
    pub dbr: u64,
    /// The event queue it reports to.
    pub eqn: u32,
    /// Moderation: microseconds after the first unreported entry; 0 with `max_count` 0 is off.
    pub period_us: u16,
    /// Moderation: entries that end the wait.
    pub max_count: u16,
}

/// What an event queue is created from (the fields used of `eqc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqContext {
    /// log2 of its entries.
    pub log_size: u8,
    /// Bus address of entry 0.
    pub ring: u64,
    /// MSI-X vector.
    pub vector: u16,
}

/// What a send queue is created from (the fields used of `sqc` and its `wq`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqContext {
    /// log2 of its basic blocks.
    pub log_size: u8,
    /// Bus address of block 0.
    pub ring: u64,
    /// Bus address of its doorbell record.
    pub dbr: u64,
    /// Where its completions go.
    pub cqn: u32,
    /// Minimum inline mode: 0 none, 1 L2, 2 IP, 3 TCP/UDP.
    pub min_inline: u8,
}

/// States of a send queue (`sqc.state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SqState {
    /// Doorbells are ignored; counters are zero.
    Reset = 0,
    /// WQEs are executed.
    Ready = 1,
    /// WQEs are flushed.
    Error = 3,
}

/// What the device can do, as far as a send queue cares (`QUERY_HCA_CAP`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// ETH `enhanced_multi_pkt_send_wqe`.
    pub enhanced_mpw: bool,
    /// GENERAL `max_wqe_sz_sq`, bytes.
    pub max_wqe_sz_sq: u16,
    /// ETH `wqe_inline_mode` resolved: the minimum inline mode, 0 to 3.
    pub min_inline: u8,
    /// ETH `max_lso_cap`, log2 of the largest LSO payload; 0: no LSO.
    pub log_max_lso: u8,
    /// ETH `csum_cap`.
    pub csum: bool,
    /// ETH `vlan_cap`.
    pub vlan: bool,
}

/// Status of a firmware command (cmd.c `mlx5_cmd_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CmdStatus {
    /// The parameters are not valid.
    BadParam = 0x03,
    /// A resource named does not exist.
    BadResource = 0x05,
    /// The resource is in use by another.
    ResourceBusy = 0x06,
    /// A limit was exceeded.
    ExceedLimit = 0x08,
    /// The resource is not in the state that was said.
    BadResourceState = 0x09,
    /// No resources left.
    NoResources = 0x0f,
}
