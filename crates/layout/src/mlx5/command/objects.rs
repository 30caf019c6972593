//! Messages that make, change, query and destroy queues and what they refer to.

use super::{InHeader, OutHeader};

layout! {
    /// Work queue types (`wq.wq_type`).
    mod wq_type: u32 {
        LINKED_LIST = 0, "Linked list.";
        CYCLIC = 1, "Cyclic.";
        STRIDING = 2, "Linked list of WQEs with strides.";
    }

    /// Memory key access modes (`mkc.access_mode_1_0`).
    mod access_mode: u32 {
        PA = 0, "Addresses are bus addresses.";
        MTT = 1, "Addresses are translated by a list of pages.";
    }

    /// Bits of [`ModifyCqIn::FIELDS`].
    mod modify_cq: u32 {
        PERIOD = 1 << 0, "The period.";
        MAX_COUNT = 1 << 1, "The count.";
        PERIOD_MODE = 1 << 4, "From which moment the period runs.";
    }

    /// Bits of [`ModifyRqIn::FIELDS`].
    mod modify_rq: u64 {
        VSD = 1 << 1, "`vsd`: tags stay in the frame.";
        COUNTER_SET = 1 << 3, "The counter set.";
    }

    /// Bits of [`RqtIn::FIELDS`].
    mod modify_rqt: u64 {
        LIST = 1 << 0, "The list.";
    }

    /// Bits of [`ModifyTirIn::FIELDS`].
    mod modify_tir: u64 {
        PACKET_MERGE = 1 << 0, "LRO.";
        HASH = 1 << 2, "Hash function, key and fields.";
        SELF_LB = 1 << 4, "Self loopback.";
    }

    /// Event queue context.
    message Eqc[0x40] {
        STATUS = bits(0x00, 31, 28), STATE = bits(0x00, 11, 8), PAGE_OFFSET = bits(0x08, 11, 6),
        LOG_SIZE = bits(0x0c, 28, 24), UAR = bits(0x0c, 23, 0), INTR = bits(0x14, 11, 0),
        LOG_PAGE_SIZE = bits(0x18, 28, 24), CONSUMER = bits(0x28, 23, 0),
        PRODUCER = bits(0x2c, 23, 0),
    }
    /// `CREATE_EQ`; page addresses follow.
    message CreateEqIn[0x110] {
        HEADER = part(0x00, InHeader), EQC = part(0x10, Eqc), EVENTS = quad(0x58),
    }
    /// `QUERY_EQ` output.
    message QueryEqOut[0x50] { EQC = part(0x10, Eqc) }

    /// Completion queue context.
    message Cqc[0x40] {
        STATUS = bits(0x00, 31, 28), CQE_SIZE = bits(0x00, 23, 21),
        IGNORE_OVERRUN = bits(0x00, 17, 17), PERIOD_MODE = bits(0x00, 16, 15),
        COMPRESSION = bits(0x00, 14, 14), MINI_FORMAT = bits(0x00, 13, 12),
        STATE = bits(0x00, 11, 8), COMPRESSION_LAYOUT = bits(0x00, 1, 0),
        PAGE_OFFSET = bits(0x08, 11, 6), LOG_SIZE = bits(0x0c, 28, 24), UAR = bits(0x0c, 23, 0),
        PERIOD = bits(0x10, 27, 16), MAX_COUNT = bits(0x10, 15, 0), EQN = bits(0x14, 7, 0),
        LOG_PAGE_SIZE = bits(0x18, 28, 24), CONSUMER = bits(0x28, 23, 0),
        PRODUCER = bits(0x2c, 23, 0), DBR = quad(0x38),
    }
    /// `CREATE_CQ`; page addresses follow.
    message CreateCqIn[0x110] { HEADER = part(0x00, InHeader), CQC = part(0x10, Cqc) }
    /// `MODIFY_CQ`.
    message ModifyCqIn[0x50] {
        HEADER = part(0x00, InHeader), CQN = bits(0x08, 23, 0), FIELDS = bits(0x0c, 31, 0),
        CQC = part(0x10, Cqc),
    }
    /// `QUERY_CQ` output.
    message QueryCqOut[0x50] { CQC = part(0x10, Cqc) }

    /// Memory key context.
    message Mkc[0x40] {
        FREE = bits(0x00, 30, 30), UMR = bits(0x00, 15, 15), LOCAL_WRITE = bits(0x00, 11, 11),
        LOCAL_READ = bits(0x00, 10, 10), ACCESS_MODE = bits(0x00, 9, 8), QPN = bits(0x04, 31, 8),
        KEY = bits(0x04, 7, 0), LENGTH64 = bits(0x0c, 31, 31), PD = bits(0x0c, 23, 0),
        START = quad(0x10), LENGTH = quad(0x18), OCTWORDS = bits(0x34, 31, 0),
        LOG_PAGE_SIZE = bits(0x38, 4, 0),
    }
    /// `CREATE_MKEY`; page addresses follow, two to an octword.
    message CreateMkeyIn[0x110] {
        HEADER = part(0x00, InHeader), MKC = part(0x10, Mkc), OCTWORDS = bits(0x60, 31, 0),
    }
    /// `QUERY_MKEY` output.
    message QueryMkeyOut[0x50] { MKC = part(0x10, Mkc) }

    /// Work queue, inside [`Sqc`] and [`Rqc`].
    message Wq[0xc0] {
        TYPE = bits(0x00, 31, 28), SIGNED = bits(0x00, 27, 27), END_PADDING = bits(0x00, 26, 25),
        PAGE_OFFSET = bits(0x04, 20, 16), PD = bits(0x08, 23, 0), UAR = bits(0x0c, 23, 0),
        DBR = quad(0x10), HW_COUNTER = bits(0x18, 31, 0), SW_COUNTER = bits(0x1c, 31, 0),
        LOG_STRIDE = bits(0x20, 19, 16), LOG_PAGE_SIZE = bits(0x20, 12, 8),
        LOG_SIZE = bits(0x20, 4, 0), LOG_STRIDES = bits(0x24, 11, 8), SHIFT = bits(0x24, 7, 7),
        LOG_STRIDE_SIZE = bits(0x24, 2, 0),
    }
    /// Send queue context.
    message Sqc[0xf0] {
        FLUSH_IN_ERROR = bits(0x00, 28, 28), MULTI_PACKET = bits(0x00, 27, 27),
        MIN_INLINE = bits(0x00, 26, 24), STATE = bits(0x00, 23, 20),
        REG_UMR = bits(0x00, 19, 19), ALLOW_SWP = bits(0x00, 18, 18),
        CQN = bits(0x08, 23, 0), TIS_LIST_SIZE = bits(0x20, 31, 16), TIS = bits(0x2c, 23, 0),
        WQ = part(0x30, Wq),
    }
    /// Receive queue context.
    message Rqc[0xf0] {
        SCATTER_FCS = bits(0x00, 29, 29), NO_VLAN_STRIP = bits(0x00, 28, 28),
        MEMORY_TYPE = bits(0x00, 27, 24), STATE = bits(0x00, 23, 20),
        FLUSH_IN_ERROR = bits(0x00, 18, 18), CQN = bits(0x08, 23, 0),
        COUNTER_SET = bits(0x0c, 31, 24), WQ = part(0x30, Wq),
    }
    /// `CREATE_SQ`; page addresses follow.
    message CreateSqIn[0x110] { HEADER = part(0x00, InHeader), SQC = part(0x20, Sqc) }
    /// `CREATE_RQ`; page addresses follow.
    message CreateRqIn[0x110] { HEADER = part(0x00, InHeader), RQC = part(0x20, Rqc) }
    /// `MODIFY_SQ`.
    message ModifySqIn[0x110] {
        HEADER = part(0x00, InHeader), FROM = bits(0x08, 31, 28), NUMBER = bits(0x08, 23, 0),
        FIELDS = quad(0x10), SQC = part(0x20, Sqc),
    }
    /// `MODIFY_RQ`.
    message ModifyRqIn[0x110] {
        HEADER = part(0x00, InHeader), FROM = bits(0x08, 31, 28), NUMBER = bits(0x08, 23, 0),
        FIELDS = quad(0x10), RQC = part(0x20, Rqc),
    }
    /// `QUERY_SQ` output.
    message QuerySqOut[0x110] { HEADER = part(0x00, OutHeader), SQC = part(0x20, Sqc) }
    /// `QUERY_RQ` output.
    message QueryRqOut[0x110] { HEADER = part(0x00, OutHeader), RQC = part(0x20, Rqc) }

    /// Transport interface send: context.
    message Tisc[0x30] {
        LAG_TX_PORT_AFFINITY = bits(0x00, 27, 24), PRIO = bits(0x00, 19, 16),
        TRANSPORT_DOMAIN = bits(0x24, 23, 0),
    }
    /// `CREATE_TIS`, `MODIFY_TIS` (its number as in [`super::Numbered`]).
    message TisIn[0x50] {
        HEADER = part(0x00, InHeader), TISN = bits(0x08, 23, 0), TISC = part(0x20, Tisc),
    }
    /// `QUERY_TIS` output.
    message QueryTisOut[0x50] { TISC = part(0x20, Tisc) }

    /// Transport interface receive: context.
    message Tirc[0x60] {
        DISPATCH = bits(0x04, 31, 28), PACKET_MERGE = bits(0x10, 31, 28),
        INLINE_RQN = bits(0x1c, 23, 0), SYMMETRIC = bits(0x20, 31, 31), RQTN = bits(0x20, 23, 0),
        HASH_FN = bits(0x24, 31, 28), SELF_LB_BLOCK = bits(0x24, 25, 24),
        TRANSPORT_DOMAIN = bits(0x24, 23, 0), FIELDS = bits(0x50, 31, 0),
    }
    /// `CREATE_TIR`.
    message CreateTirIn[0x80] { HEADER = part(0x00, InHeader), TIRC = part(0x20, Tirc) }
    /// `MODIFY_TIR`.
    message ModifyTirIn[0x80] {
        HEADER = part(0x00, InHeader), TIRN = bits(0x08, 23, 0), FIELDS = quad(0x10),
        TIRC = part(0x20, Tirc),
    }
    /// `QUERY_TIR` output.
    message QueryTirOut[0x80] { TIRC = part(0x20, Tirc) }

    /// RQ table: `CREATE_RQT` and `MODIFY_RQT`; queue numbers follow.
    message RqtIn[0x110] {
        HEADER = part(0x00, InHeader), RQTN = bits(0x08, 23, 0), FIELDS = quad(0x10),
        MAX_SIZE = bits(0x34, 15, 0), ACTUAL_SIZE = bits(0x38, 15, 0),
    }

    /// `QUERY_Q_COUNTER`.
    message QueryQCounterIn[0x20] {
        HEADER = part(0x00, InHeader), CLEAR = bits(0x18, 31, 31), SET = bits(0x1c, 7, 0),
    }
    /// `QUERY_Q_COUNTER` output.
    message QueryQCounterOut[0x100] { OUT_OF_BUFFER = bits(0x30, 31, 0) }

    impl Tirc: usize {
        KEY = 0x28, "Offset of the Toeplitz key, 40 bytes.";
    }

    /// Ways for a TIR to find its queue (`tirc.disp_type`).
    mod dispatch: u32 {
        DIRECT = 0, "`INLINE_RQN`.";
        INDIRECT = 1, "A hash into the RQ table.";
    }

    /// The second port, as [`Tisc::LAG_TX_PORT_AFFINITY`] names it; 0 is the function's own.
    const SECOND_PORT: u32 = 2;

    /// Offset of the list of page addresses or queue numbers, in all messages that have one.
    const PAS_LIST: usize = 0x110;
}
