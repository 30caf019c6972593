//! Send WQEs: the segments that they are made of (linux/mlx5/qp.h).

use zerocopy::byteorder::big_endian::{U16, U32, U64};

layout! {
    const u32 {
        DS = 16, "Bytes of a data segment, the unit that `ds` counts.";
        WQEBB = 64, "Bytes of a send queue basic block.";
        DS_PER_WQEBB = WQEBB / DS, "Data segments in a basic block.";
        MAX_WQEBBS = 16, "Longest send WQE in basic blocks (1 KiB).";
        /// Longest multi-packet session in basic blocks: the 6-bit `ds` field cannot say
        /// 64, so a full-size WQE is one block shorter (en.h `mlx5e_get_max_sq_aligned_wqebbs`).
        MAX_MPW_WQEBBS = MAX_WQEBBS - 1;
        FRAGMENT = 4096, "Bytes in a queue fragment; a WQE never crosses the end of one.";
    }

    /// Send WQE opcodes (device.h).
    mod opcode: u8 {
        NOP = 0x00, "Nothing; fills up a queue fragment.";
        SEND = 0x0a, "One packet.";
        LSO = 0x0e, "One packet to be cut into segments.";
        UMR = 0x25, "Changes what a memory key translates to.";
        ENHANCED_MPSW = 0x29, "Enhanced multi-packet send: one packet per data segment.";
    }

    /// Control segment, the first of every send WQE (qp.h `mlx5_wqe_ctrl_seg`).
    struct CtrlSeg[DS] {
        /// \[31:24\] opmod, \[23:8\] producer counter of the WQE's first WQEBB, \[7:0\] opcode.
        opmod_idx_opcode: U32;
        /// \[31:8\] SQ number, \[5:0\] DS count of the whole WQE.
        qpn_ds: U32;
        signature: u8, "Signature; zero in Ethernet drivers.";
        rsvd: [u8; 2], "Reserved, DCI stream.";
        fm_ce_se: u8, "Fence, completion mode, solicited: see [`CQ_UPDATE`].";
        imm: U32, "TIS number << 8, an immediate, or the memory key of a UMR.";
    }

    const CQ_UPDATE: u8 = 0x08, "`fm_ce_se`: write a CQE when this WQE is done.";
}

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

layout! {
    /// Ethernet segment, the second (qp.h `mlx5_wqe_eth_seg`).
    struct EthSeg[DS] {
        /// Software parser: outer L4, outer L3, inner L4, inner L3 offsets in 2-byte units.
        swp_offsets: [u8; 4];
        cs_flags: u8, "Checksums to insert: [`cs_flags`].";
        swp_flags: u8, "Software parser: what the offsets point at: [`swp_flags`].";
        mss: U16, "Payload bytes a segment, for LSO.";
        flow_table_metadata: U32, "Metadata for flow tables.";
        /// Length of the inline header; or, with bit 15 set, "insert a VLAN tag".
        inline_hdr_sz: U16;
        /// The first two bytes of the inline header; or the tag to insert.
        inline_hdr_start: [u8; 2];
    }

    const u16 {
        /// Bytes of the Ethernet segment that all packets of a session share: those before `mss`
        /// (`MLX5E_ACCEL_ESEG_LEN`).
        ESEG_SHARED: usize = 6;

        /// Bit of `inline_hdr_sz` that turns it and the next field into a VLAN insertion.
        ETH_WQE_INSERT_VLAN = 1 << 15;
        ETH_WQE_SVLAN = 1 << 0, "Beside it: the tag is a service provider's (802.1ad).";
    }

    /// Checksum flags of the Ethernet segment.
    mod cs_flags: u8 {
        L3_INNER = 0x10, "Inner IP header checksum.";
        L4_INNER = 0x20, "Inner transport checksum.";
        L3 = 0x40, "IP header checksum.";
        L4 = 0x80, "Transport checksum.";
    }

    /// Software parser flags of the Ethernet segment.
    mod swp_flags: u8 {
        INNER_L3_IPV6 = 0x01, "The inner IP header is IPv6's.";
        INNER_L4_UDP = 0x02, "The inner transport is UDP, else TCP.";
        OUTER_L3_IPV6 = 0x10, "The outer IP header is IPv6's.";
        OUTER_L4_UDP = 0x20, "The outer transport is UDP, else TCP.";
    }

    /// Data segment: a piece of a packet in host memory (qp.h `mlx5_wqe_data_seg`).
    struct DataSeg[DS] {
        byte_count: U32, "Bytes; bit 31 makes it an inline segment: see [`INLINE_SEG`].";
        lkey: U32, "Memory key.";
        addr: U64, "Bus address.";
    }

    const u32 {
        INLINE_SEG = 1 << 31, "`byte_count` bit of a segment whose bytes follow in the WQE itself.";
        INLINE_LEN = 0x3ff, "`byte_count` bits that hold an inline segment's length.";
    }
}

layout! {
    /// Control of a UMR, its second segment (qp.h `mlx5_wqe_umr_ctrl_seg`). A memory key's segment
    /// of 64 bytes follows, and from [`UMR_TRANSLATIONS`] on the translations.
    struct UmrCtrlSeg[48] {
        flags: u8, "[`umr`].";
        rsvd1: [u8; 3], "Reserved.";
        octowords: U16, "Length of the translations in units of 16 bytes.";
        offset: U16, "Place of the first of them in the key's list, in the same unit.";
        mkey_mask: U64, "Fields of the key that change: [`MKEY_MASK_FREE`].";
        offset_high: U32, "Bits 47 to 16 of the place.";
        rsvd20: [u8; 28], "Reserved.";
    }

    const u32 {
        UMR_TRANSLATIONS = 128, "Offset of the translations in a UMR.";
        OCTOWORD = 16, "Bytes of the unit of translations: two of pages.";
    }

    /// Flags of a UMR.
    mod umr: u8 {
        TRANSLATION_OFFSET = 1 << 4, "The translations go to a place in the list.";
        CHECK_NOT_FREE = 1 << 5, "It fails if the key is not free.";
        CHECK_FREE = 2 << 5, "It fails if the key is free.";
        INLINE = 1 << 7, "The translations are in the WQE.";
    }

    const u64 {
        /// Bit of `mkey_mask`: the key becomes free or not, as [`MKEY_FREE`] in its segment says.
        MKEY_MASK_FREE = 1 << 29;
        MTT_READ = 1 << 0, "Bit of a translation: the page may be read (`MLX5_EN_RD`).";
        MTT_WRITE = 1 << 1, "Bit of a translation: the page may be written (`MLX5_EN_WR`).";
        MKEY_FREE: u8 = 1 << 6, "Bit of the first byte of a key's segment: it is free.";
    }
}
