//! Receive: what a receive queue is created from, its completion entry, and the
//! words that RSS speaks in.
//!
//! A cyclic receive queue's WQE is nothing but [`DataSeg`](super::DataSeg)s, as
//! many as its stride holds; a short list ends with [`TERMINATE_LKEY`].
//! Sources: linux/mlx5/{device,mlx5_ifc}.h, en_rx.c, en/params.c.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// States of a receive queue (`rqc.state`): the numbers of a send queue's.
pub type RqState = super::SqState;

/// What a receive queue is created from (the fields used of `rqc` and its `wq`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RqContext {
    /// log2 of its WQEs.
    pub log_size: u8,
    /// log2 of a WQE's bytes: 4 is one data segment.
    pub log_stride: u8,
    /// Bus address of WQE 0.
    pub ring: u64,
    /// Bus address of its doorbell record.
    pub dbr: u64,
    /// Where its completions go.
    pub cqn: u32,
    /// The counter set (Q counter) that its losses go to.
    pub counter_set: u8,
    /// `vsd`: tags are left in the frame.
    pub keep_vlan: bool,
    /// `flush_in_error_en`: in ERR, what is posted is completed with "flushed".
    pub flush_in_error: bool,
}

/// Offset in bytes of a receive queue's WQE counter in its doorbell record.
pub const DBR_RECEIVE: u32 = 0;

/// `byte_count` bits of a receive data segment that are its length; the highest
/// one asks for padding at the start (`MLX5_HW_START_PADDING`).
pub const RX_LEN: u32 = 0x7fff_ffff;

/// The key of a data segment that ends a list before the stride does
/// (`MLX5_TERMINATE_SCATTER_LIST_LKEY`).
pub const TERMINATE_LKEY: u32 = 0x100;

/// Completion entry of a received frame (device.h `mlx5_cqe64`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RxCqe {
    /// Tunnel flag, LRO.
    pub rsvd0: [u8; 12],
    /// The RSS hash.
    pub rss_hash_result: U32,
    /// What it was made from: [`rss_type`].
    pub rss_hash_type: u8,
    /// Reserved.
    pub rsvd17: [u8; 3],
    /// The sum of the IP datagram's bytes, not complemented.
    pub check_sum: U16,
    /// Reserved (SLID).
    pub rsvd22: [u8; 2],
    /// \[23:0\] RQ number.
    pub flags_rqpn: U32,
    /// What was found right: [`L2_OK`], [`L3_OK`], [`L4_OK`].
    pub hds_ip_ext: u8,
    /// Bit 7 fragment, \[6:4\] [`l4_type`], \[3:2\] [`l3_type`], bit 0 a tag was taken off.
    pub l4_l3_hdr_type: u8,
    /// That tag's TCI.
    pub vlan_info: U16,
    /// Reserved: SRQ number, immediate, metadata.
    pub rsvd32: [u8; 12],
    /// Bytes in memory.
    pub byte_cnt: U32,
    /// Timestamp.
    pub timestamp: U64,
    /// \[23:0\] flow tag of the steering entry that decided.
    pub sop_drop_qpn: U32,
    /// Counter of the WQE.
    pub wqe_counter: U16,
    /// Signature.
    pub signature: u8,
    /// As [`Cqe::op_own`](super::Cqe::op_own).
    pub op_own: u8,
}
const _: () = assert!(size_of::<RxCqe>() == 64);

/// CQE opcode: a frame was received (`MLX5_CQE_RESP_SEND`).
pub const CQE_RECEIVED: u8 = 2;
/// CQE opcode: a receive WQE failed (`MLX5_CQE_RESP_ERR`).
pub const CQE_RECEIVE_ERROR: u8 = 14;

/// The frame's Ethernet header and FCS are right.
pub const L2_OK: u8 = 1 << 0;
/// The IP header is sound, and its checksum right.
pub const L3_OK: u8 = 1 << 1;
/// The TCP or UDP checksum is right.
pub const L4_OK: u8 = 1 << 2;

/// Bit of `l4_l3_hdr_type`: a C-tag was taken off and is in `vlan_info`.
pub const VLAN_STRIPPED: u8 = 1 << 0;
/// Bit of `l4_l3_hdr_type`: an IP fragment.
pub const IP_FRAGMENT: u8 = 1 << 7;

/// Network layers, \[3:2\] of `l4_l3_hdr_type`.
pub mod l3_type {
    /// Not IP.
    pub const NONE: u8 = 0;
    /// IPv6.
    pub const IPV6: u8 = 1;
    /// IPv4.
    pub const IPV4: u8 = 2;
}

/// Transports, \[6:4\] of `l4_l3_hdr_type`.
pub mod l4_type {
    /// None of those below, or a fragment.
    pub const NONE: u8 = 0;
    /// TCP without ACK.
    pub const TCP_NO_ACK: u8 = 1;
    /// UDP.
    pub const UDP: u8 = 2;
    /// TCP with ACK and no payload.
    pub const TCP_ACK: u8 = 3;
    /// TCP with ACK and payload.
    pub const TCP_ACK_DATA: u8 = 4;
}

/// Values of `rss_hash_type`.
pub mod rss_type {
    /// IPv4 addresses went in (bits \[3:2\]).
    pub const IPV4: u8 = 1 << 2;
    /// IPv6 addresses did.
    pub const IPV6: u8 = 2 << 2;
    /// TCP ports went in (bits \[7:6\]).
    pub const TCP: u8 = 1 << 6;
    /// UDP ports did.
    pub const UDP: u8 = 2 << 6;
}

/// Bits of a TIR's `rx_hash_field_select`.
pub mod hash_field {
    /// Source address.
    pub const SRC_IP: u32 = 1 << 0;
    /// Destination address.
    pub const DST_IP: u32 = 1 << 1;
    /// Source port.
    pub const L4_SPORT: u32 = 1 << 2;
    /// Destination port.
    pub const L4_DPORT: u32 = 1 << 3;
    /// `l4_prot_type`: 0 TCP, 1 UDP.
    pub const UDP: u32 = 1 << 30;
    /// `l3_prot_type`: 0 IPv4, 1 IPv6.
    pub const IPV6: u32 = 1 << 31;
}

/// `self_lb_block` of a TIR. Against its name, a bit that is set lets in what the
/// function itself sent (`mlx5e_refresh_tirs`).
pub mod self_lb_block {
    /// Unicast frames.
    pub const UNICAST: u8 = 1;
    /// Multicast and broadcast frames.
    pub const MULTICAST: u8 = 2;
}
