//! Capability groups of `QUERY_HCA_CAP`: the fields that drivers of Ethernet ports look at.

layout! {
    /// Groups.
    mod cap_type: u32 {
        GENERAL = 0x0, "General.";
        ETH = 0x1, "Ethernet offloads.";
        FLOW_TABLE = 0x7, "Flow tables.";
    }

    /// [`GeneralCaps::CMDIF_CHECKSUM`].
    mod checksum: u32 {
        DISABLED = 0, "No signature is checked.";
        ENTRY = 1, "Those of entries are.";
        ENABLED = 3, "Those of mailboxes are, too.";
    }

    /// General.
    message GeneralCaps[0x1000] {
        LOG_MAX_QP_SZ = bits(0x10, 23, 16), LOG_MAX_QP = bits(0x10, 4, 0),
        LOG_MAX_CQ_SZ = bits(0x18, 23, 16), LOG_MAX_CQ = bits(0x18, 4, 0),
        LOG_MAX_EQ_SZ = bits(0x1c, 31, 24), LOG_MAX_MKEY = bits(0x1c, 21, 16),
        LOG_MAX_EQ = bits(0x1c, 3, 0), VPORT_GROUP_MANAGER = bits(0x34, 31, 31),
        NIC_FLOW_TABLE = bits(0x34, 25, 25), PORT_TYPE = bits(0x34, 9, 8),
        NUM_PORTS = bits(0x34, 7, 0), MAX_TC = bits(0x38, 19, 16), CQE_VERSION = bits(0x3c, 3, 0),
        STRIDING_RQ = bits(0x40, 30, 30),
        CMDIF_CHECKSUM = bits(0x40, 15, 14), ETH_NET_OFFLOADS = bits(0x40, 3, 3),
        CQ_MODERATION = bits(0x44, 29, 29), CQ_PERIOD_MODE_MODIFY = bits(0x44, 28, 28),
        CQ_PERIOD_START_FROM_CQE = bits(0x44, 20, 20), UMR_PTR_RLKY = bits(0x44, 15, 15),
        UAR_4K = bits(0x48, 31, 31),
        LOG_PG_SZ = bits(0x48, 7, 0), BF = bits(0x4c, 31, 31), LOG_BF_REG_SIZE = bits(0x4c, 20, 16),
        LAG_TX_PORT_AFFINITY = bits(0x4c, 7, 7), NUM_LAG_PORTS = bits(0x4c, 3, 0),
        MAX_WQE_SZ_SQ = bits(0x50, 15, 0), MAX_WQE_SZ_RQ = bits(0x54, 15, 0),
        LOG_MAX_TD = bits(0x64, 28, 24), LOG_MAX_PD = bits(0x64, 20, 16),
        LOG_MAX_RQ = bits(0x6c, 28, 24), LOG_MAX_SQ = bits(0x6c, 20, 16),
        LOG_MAX_TIR = bits(0x6c, 12, 8), LOG_MAX_TIS = bits(0x6c, 4, 0),
        BASIC_CYCLIC_RCV_WQE = bits(0x70, 31, 31), LOG_MAX_RQT = bits(0x70, 20, 16),
        LOG_MAX_RQT_SIZE = bits(0x70, 12, 8),
        EXT_STRIDE_NUM_RANGE = bits(0x74, 31, 31), LOG_MAX_WQ_SZ = bits(0x78, 4, 0),
        LOG_MAX_VLAN_LIST = bits(0x7c, 20, 16), LOG_MAX_MC_LIST = bits(0x7c, 12, 8),
        LOG_MAX_UC_LIST = bits(0x7c, 4, 0), MAX_NUM_EQS = bits(0x8c, 15, 0),
        LOG_UAR_PAGE_SZ = bits(0x90, 15, 0), FREQUENCY_MHZ = bits(0x98, 31, 0),
        FREQUENCY_KHZ = bits(0x9c, 31, 0), ENHANCED_CQE_COMPRESSION = bits(0xb4, 15, 15),
        MINI_CQE_STRIDE_INDEX = bits(0xb4, 3, 3), CQE_COMPRESSION = bits(0xb4, 0, 0),
        CQE_COMPRESSION_TIMEOUT = bits(0xb8, 31, 16), CQE_COMPRESSION_MAX_NUM = bits(0xb8, 15, 0),
    }
    /// Ethernet offloads.
    message EthCaps[0x1000] {
        CSUM = bits(0x00, 31, 31), VLAN = bits(0x00, 30, 30),
        SELF_LB_MODIFIABLE = bits(0x00, 23, 23), MAX_LSO = bits(0x00, 20, 16),
        MULTI_PACKET_SEND = bits(0x00, 15, 14), INLINE_MODE = bits(0x00, 13, 12),
        RSS_IND_TBL = bits(0x00, 11, 8), REG_UMR_SQ = bits(0x00, 7, 7),
        ENHANCED_MPW = bits(0x00, 5, 5), SWP = bits(0x04, 31, 31),
        SWP_CSUM = bits(0x04, 30, 30), CHECKSUM_FULL = bits(0x04, 28, 28),
    }
    /// Flow tables: what the NIC's receive tables can do.
    message FlowTableCaps[0x1000] {
        RX_SUPPORT = bits(0x40, 31, 31), RX_MODIFY_ROOT = bits(0x40, 27, 27),
        RX_LOG_MAX_SIZE = bits(0x44, 29, 24), RX_MAX_LEVEL = bits(0x44, 7, 0),
        RX_LOG_MAX_TABLES = bits(0x4c, 7, 0), RX_LOG_MAX_DESTINATIONS = bits(0x50, 7, 0),
        RX_LOG_MAX_FLOWS = bits(0x54, 7, 0),
    }

    impl FlowTableCaps: usize {
        /// Offset of the bits that say which fields of packets can be matched, 32 bytes.
        RX_FIELDS = 0x60;
    }
}
