//! Receive: what a receive queue is created from, its completion entry, and the
//! words that RSS speaks in.
//!
//! A cyclic receive queue's WQE is nothing but [`DataSeg`](super::DataSeg)s, as
//! many as its stride holds; a short list ends with [`TERMINATE_LKEY`].
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
    }

    /// Completion entry of a received frame (device.h `mlx5_cqe64`).
    struct RxCqe[64] {
        rsvd0: [u8; 12], "Tunnel flag, LRO.";
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
        byte_cnt: U32, "Bytes in memory.";
        timestamp: U64, "Timestamp.";
        /// \[23:0\] flow tag of the steering entry that decided.
        sop_drop_qpn: U32;
        wqe_counter: U16, "Counter of the WQE.";
        signature: u8, "Signature.";
        op_own: u8, "As [`Cqe::op_own`](super::Cqe::op_own).";
    }

    const u8 {
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
