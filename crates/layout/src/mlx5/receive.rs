//! Receive: what a receive queue is created from, its completion entry, and the
//! words that RSS speaks in.
//!
//! A cyclic receive queue's WQE is nothing but [`DataSeg`](super::DataSeg)s, as
//! many as its stride holds; a short list ends with [`TERMINATE_LKEY`]. A striding
//! one's is a [`NextSeg`], which links the queue, and one `DataSeg` for many frames.
//!
//! Compressed entries of a block: a title, and arrays of [`MiniCqe`]s. In the basic layout the
//! title holds the count, and arrays of eight, the title's own frame first, lie at 1, 8, 16 and so
//! on behind it. In the enhanced one it is an entry as any other, and a [`MiniArray`] lies in the
//! place of its first frame. In both, each frame takes a place, also where nothing is written.
//! Sources: linux/mlx5/{device,mlx5_ifc}.h, en_rx.c, en/params.c.

use zerocopy::byteorder::big_endian::{U16, U32, U64};

/// States of a receive queue (`rqc.state`): the numbers of a send queue's.
pub type RqState = super::SqState;

/// Context of a receive queue (the fields used of `rqc` and its `wq`).
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
    /// The completion queue it reports to.
    pub cqn: u32,
    /// The counter set (Q counter) that its losses go to.
    pub counter_set: u8,
    /// `vsd`: tags are left in the frame.
    pub keep_vlan: bool,
    /// `flush_in_error_en`: in ERR, what is posted is completed with "flushed".
    pub flush_in_error: bool,
    /// `end_padding_mode`: the last write of a frame goes on to the end of its cache line.
    pub end_padding: bool,
    /// A striding queue: a linked list of WQEs that many frames share.
    pub strides: Option<Strides>,
}

/// Division of a striding queue's WQEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// log2 of the strides of a WQE: 3 to 16.
    pub log_count: u8,
    /// log2 of the bytes of a stride: 6 to 13.
    pub log_size: u8,
}

layout! {
    const u32 {
        DBR_RECEIVE = 0, "Offset in bytes of a receive queue's WQE counter in its doorbell record.";

        /// `byte_count` bits of a receive data segment that are its length; the highest
        /// one asks for padding at the start (`MLX5_HW_START_PADDING`).
        RX_LEN = 0x7fff_ffff;

        /// The key of a data segment that ends a list before the stride does
        /// (`MLX5_TERMINATE_SCATTER_LIST_LKEY`).
        TERMINATE_LKEY = 0x100;

        FILLER = 1 << 31, "Bit of `byte_cnt`: no frame, only strides that none is in.";
        STRIDES_SHIFT = 16, "Place of the strides in `byte_cnt`.";
        STRIDE_BYTES = 0xffff, "Bits of `byte_cnt` that are the frame's length.";

        /// log2 of what `log_wqe_num_of_strides` and `log_wqe_stride_size` count from
        /// (`MLX5_MPWQE_LOG_NUM_STRIDES_BASE`, `MLX5_MPWQE_LOG_STRIDE_SZ_BASE`).
        LOG_STRIDES_BASE = 9;
        LOG_STRIDE_BASE = 6, "That of the latter.";
        MINIS = 8, "Frames in an array of the basic layout.";
        ENHANCED_MINIS = 7, "Frames in one of the enhanced layout.";
    }

    /// Completion entry of a received frame (device.h `mlx5_cqe64`).
    struct RxCqe[64] {
        rsvd0: [u8; 2], "Tunnel flag.";
        wqe_id: U16, "Of a striding queue, the place of the WQE.";
        rsvd4: [u8; 8], "LRO.";
        rss_hash_result: U32, "The RSS hash.";
        rss_hash_type: u8, "Fields in the hash: [`rss_type`].";
        rsvd17: [u8; 3], "Reserved.";
        check_sum: U16, "The sum of the IP datagram's bytes, not complemented.";
        rsvd22: [u8; 2], "Reserved (SLID).";
        /// \[23:0\] RQ number.
        flags_rqpn: U32;
        hds_ip_ext: u8, "Checks passed: [`L2_OK`], [`L3_OK`], [`L4_OK`].";
        /// Bit 7 fragment, \[6:4\] [`l4_type`], \[3:2\] [`l3_type`], bit 0 a tag was taken off.
        l4_l3_hdr_type: u8;
        vlan_info: U16, "That tag's TCI.";
        rsvd32: [u8; 12], "Reserved: SRQ number, immediate, metadata.";
        /// Bytes in memory. Of a striding queue \[30:16\] are the strides that are used up, and
        /// bit 31 is [`FILLER`]. Of a compressed title the count of frames.
        byte_cnt: U32;
        timestamp: U64, "Timestamp.";
        /// \[23:0\] flow tag of the steering entry that decided.
        sop_drop_qpn: U32;
        wqe_counter: U16, "Counter of the WQE; of a striding queue, the first stride.";
        signature: u8, "Signature; with the enhanced layout, the lap (`validity_iteration_count`).";
        op_own: u8, "As [`Cqe::op_own`](super::Cqe::op_own).";
    }

    /// A frame in a block of compressed entries (device.h `mlx5_mini_cqe8`).
    struct MiniCqe[8] {
        check_sum: U16, "As [`RxCqe::check_sum`]; with [`mini_format::HASH`] the hash begins here.";
        stride: U16, "With [`mini_format::STRIDE`], the first stride.";
        byte_cnt: U32, "As [`RxCqe::byte_cnt`].";
    }

    /// Up to seven of them, of the enhanced layout.
    struct MiniArray[64] {
        frames: [MiniCqe; 7], "The frames.";
        rsvd56: [u8; 6], "Reserved.";
        signature: u8, "The lap.";
        /// \[7:4\] frames less one, \[3:2\] [`COMPRESSED`], bit 0 owner.
        op_own: u8;
    }

    /// The next WQE of a linked list (qp.h `mlx5_wqe_srq_next_seg`), before its data segment.
    struct NextSeg[16] {
        rsvd0: [u8; 2], "Reserved.";
        next: U16, "Its place.";
        rsvd4: [u8; 12], "Signature, reserved.";
    }

    /// Contents of a [`MiniCqe`] (`cqc.mini_cqe_res_format`).
    mod mini_format: u32 {
        HASH = 0, "The hash instead of the sum.";
        CHECKSUM = 1, "The sum.";
        STRIDE = 3, "The sum, and the first stride.";
    }

    const u8 {
        COMPRESSED = 3 << 2, "Format, \\[3:2\\] of `op_own`, of a title and of arrays.";
        CQE_RECEIVED = 2, "CQE opcode: a frame was received (`MLX5_CQE_RESP_SEND`).";
        CQE_RECEIVE_ERROR = 14, "CQE opcode: a receive WQE failed (`MLX5_CQE_RESP_ERR`).";

        L2_OK = 1 << 0, "The frame's Ethernet header and FCS are right.";
        L3_OK = 1 << 1, "The IP header is sound, and its checksum right.";
        L4_OK = 1 << 2, "The TCP or UDP checksum is right.";

        /// Bit of `l4_l3_hdr_type`: a C-tag was taken off and is in `vlan_info`.
        VLAN_STRIPPED = 1 << 0;
        IP_FRAGMENT = 1 << 7, "Bit of `l4_l3_hdr_type`: an IP fragment.";
    }

    /// Network layers, \[3:2\] of `l4_l3_hdr_type`.
    mod l3_type: u8 {
        NONE = 0, "Not IP.";
        IPV6 = 1, "IPv6.";
        IPV4 = 2, "IPv4.";
    }

    /// Transports, \[6:4\] of `l4_l3_hdr_type`.
    mod l4_type: u8 {
        NONE = 0, "None of those below, or a fragment.";
        TCP_NO_ACK = 1, "TCP without ACK.";
        UDP = 2, "UDP.";
        TCP_ACK = 3, "TCP with ACK and no payload.";
        TCP_ACK_DATA = 4, "TCP with ACK and payload.";
    }

    /// Values of `rss_hash_type`.
    mod rss_type: u8 {
        /// IPv4 addresses went in (bits \[3:2\]).
        IPV4 = 1 << 2;
        IPV6 = 2 << 2, "IPv6 addresses did.";
        /// TCP ports went in (bits \[7:6\]).
        TCP = 1 << 6;
        UDP = 2 << 6, "UDP ports did.";
    }

    /// Bits of a TIR's `rx_hash_field_select`.
    mod hash_field: u32 {
        SRC_IP = 1 << 0, "Source address.";
        DST_IP = 1 << 1, "Destination address.";
        L4_SPORT = 1 << 2, "Source port.";
        L4_DPORT = 1 << 3, "Destination port.";
        UDP = 1 << 30, "`l4_prot_type`: 0 TCP, 1 UDP.";
        IPV6 = 1 << 31, "`l3_prot_type`: 0 IPv4, 1 IPv6.";
    }

    /// `self_lb_block` of a TIR. Against its name, a bit that is set lets in what the
    /// function itself sent (`mlx5e_refresh_tirs`).
    mod self_lb_block: u8 {
        UNICAST = 1, "Unicast frames.";
        MULTICAST = 2, "Multicast and broadcast frames.";
    }
}

impl RxCqe {
    /// Returns the strides that the entry uses up; 0 of a queue without strides.
    pub const fn strides(&self) -> u16 {
        ((self.byte_cnt.get() & !FILLER) >> STRIDES_SHIFT) as u16
    }
}
