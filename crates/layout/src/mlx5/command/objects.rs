//! Messages that make, change, query and destroy queues and what they refer to.

use super::bits::messages;
use super::{InHeader, OutHeader};

/// Work queue types (`wq.wq_type`).
pub mod wq_type {
    /// Linked list.
    pub const LINKED_LIST: u32 = 0;
    /// Cyclic.
    pub const CYCLIC: u32 = 1;
}

/// Memory key access modes (`mkc.access_mode_1_0`).
pub mod access_mode {
    /// Addresses are bus addresses.
    pub const PA: u32 = 0;
    /// Addresses are translated by a list of pages.
    pub const MTT: u32 = 1;
}

/// Bits of [`ModifyCqIn::FIELDS`].
pub mod modify_cq {
    /// The period.
    pub const PERIOD: u32 = 1 << 0;
    /// The count.
    pub const MAX_COUNT: u32 = 1 << 1;
    /// From which moment the period runs.
    pub const PERIOD_MODE: u32 = 1 << 4;
}

/// Bits of [`ModifyRqIn::FIELDS`].
pub mod modify_rq {
    /// Whether tags stay in the frame.
    pub const VSD: u64 = 1 << 1;
    /// The counter set.
    pub const COUNTER_SET: u64 = 1 << 3;
}

/// Bits of [`RqtIn::FIELDS`].
pub mod modify_rqt {
    /// The list.
    pub const LIST: u64 = 1 << 0;
}

/// Bits of [`ModifyTirIn::FIELDS`].
pub mod modify_tir {
    /// LRO.
    pub const PACKET_MERGE: u64 = 1 << 0;
    /// Hash function, key and fields.
    pub const HASH: u64 = 1 << 2;
    /// Self loopback.
    pub const SELF_LB: u64 = 1 << 4;
}

messages! {
    /// Event queue context.
    Eqc[0x40] {
        STATUS = bits(0x00, 31, 28), STATE = bits(0x00, 11, 8), PAGE_OFFSET = bits(0x08, 11, 6),
        LOG_SIZE = bits(0x0c, 28, 24), UAR = bits(0x0c, 23, 0), INTR = bits(0x14, 11, 0),
        LOG_PAGE_SIZE = bits(0x18, 28, 24), CONSUMER = bits(0x28, 23, 0), PRODUCER = bits(0x2c, 23, 0),
    }
    /// `CREATE_EQ`; page addresses follow.
    CreateEqIn[0x110] { HEADER = part(0x00, InHeader), EQC = part(0x10, Eqc), EVENTS = quad(0x58) }
    /// `QUERY_EQ` output.
    QueryEqOut[0x50] { EQC = part(0x10, Eqc) }

    /// Completion queue context.
    Cqc[0x40] {
        STATUS = bits(0x00, 31, 28), CQE_SIZE = bits(0x00, 23, 21), IGNORE_OVERRUN = bits(0x00, 17, 17),
        PERIOD_MODE = bits(0x00, 16, 15), COMPRESSION = bits(0x00, 14, 14), STATE = bits(0x00, 11, 8),
        PAGE_OFFSET = bits(0x08, 11, 6), LOG_SIZE = bits(0x0c, 28, 24), UAR = bits(0x0c, 23, 0),
        PERIOD = bits(0x10, 27, 16), MAX_COUNT = bits(0x10, 15, 0), EQN = bits(0x14, 7, 0),
        LOG_PAGE_SIZE = bits(0x18, 28, 24), CONSUMER = bits(0x28, 23, 0), PRODUCER = bits(0x2c, 23, 0),
        DBR = quad(0x38),
    }
    /// `CREATE_CQ`; page addresses follow.
    CreateCqIn[0x110] { HEADER = part(0x00, InHeader), CQC = part(0x10, Cqc) }
    /// `MODIFY_CQ`.
    ModifyCqIn[0x50] {
        HEADER = part(0x00, InHeader), CQN = bits(0x08, 23, 0), FIELDS = bits(0x0c, 31, 0), CQC = part(0x10, Cqc),
    }
    /// `QUERY_CQ` output.
    QueryCqOut[0x50] { CQC = part(0x10, Cqc) }

    /// Memory key context.
    Mkc[0x40] {
        FREE = bits(0x00, 30, 30), LOCAL_WRITE = bits(0x00, 11, 11), LOCAL_READ = bits(0x00, 10, 10),
        ACCESS_MODE = bits(0x00, 9, 8), QPN = bits(0x04, 31, 8), KEY = bits(0x04, 7, 0),
        LENGTH64 = bits(0x0c, 31, 31), PD = bits(0x0c, 23, 0), START = quad(0x10), LENGTH = quad(0x18),
        OCTWORDS = bits(0x34, 31, 0), LOG_PAGE_SIZE = bits(0x38, 4, 0),
    }
    /// `CREATE_MKEY`; page addresses follow, two to an octword.
    CreateMkeyIn[0x110] {
        HEADER = part(0x00, InHeader), MKC = part(0x10, Mkc), OCTWORDS = bits(0x60, 31, 0),
    }
    /// `QUERY_MKEY` output.
    QueryMkeyOut[0x50] { MKC = part(0x10, Mkc) }

    /// Work queue, inside [`Sqc`] and [`Rqc`].
    Wq[0xc0] {
        TYPE = bits(0x00, 31, 28), SIGNED = bits(0x00, 27, 27), END_PADDING = bits(0x00, 26, 25),
        PAGE_OFFSET = bits(0x04, 20, 16), PD = bits(0x08, 23, 0), UAR = bits(0x0c, 23, 0), DBR = quad(0x10),
        HW_COUNTER = bits(0x18, 31, 0), SW_COUNTER = bits(0x1c, 31, 0), LOG_STRIDE = bits(0x20, 19, 16),
        LOG_PAGE_SIZE = bits(0x20, 12, 8), LOG_SIZE = bits(0x20, 4, 0),
    }
    /// Send queue context.
    Sqc[0xf0] {
        FLUSH_IN_ERROR = bits(0x00, 28, 28), MULTI_PACKET = bits(0x00, 27, 27), MIN_INLINE = bits(0x00, 26, 24),
        STATE = bits(0x00, 23, 20), ALLOW_SWP = bits(0x00, 18, 18), CQN = bits(0x08, 23, 0), TIS_LIST_SIZE = bits(0x20, 31, 16),
        TIS = bits(0x2c, 23, 0), WQ = part(0x30, Wq),
    }
    /// Receive queue context.
    Rqc[0xf0] {
        SCATTER_FCS = bits(0x00, 29, 29), NO_VLAN_STRIP = bits(0x00, 28, 28), MEMORY_TYPE = bits(0x00, 27, 24),
        STATE = bits(0x00, 23, 20), FLUSH_IN_ERROR = bits(0x00, 18, 18),
        CQN = bits(0x08, 23, 0), COUNTER_SET = bits(0x0c, 31, 24), WQ = part(0x30, Wq),
    }
    /// `CREATE_SQ`; page addresses follow.
    CreateSqIn[0x110] { HEADER = part(0x00, InHeader), SQC = part(0x20, Sqc) }
    /// `CREATE_RQ`; page addresses follow.
    CreateRqIn[0x110] { HEADER = part(0x00, InHeader), RQC = part(0x20, Rqc) }
    /// `MODIFY_SQ`.
    ModifySqIn[0x110] {
        HEADER = part(0x00, InHeader), FROM = bits(0x08, 31, 28), NUMBER = bits(0x08, 23, 0), FIELDS = quad(0x10),
        SQC = part(0x20, Sqc),
    }
    /// `MODIFY_RQ`.
    ModifyRqIn[0x110] {
        HEADER = part(0x00, InHeader), FROM = bits(0x08, 31, 28), NUMBER = bits(0x08, 23, 0), FIELDS = quad(0x10),
        RQC = part(0x20, Rqc),
    }
    /// `QUERY_SQ` output.
    QuerySqOut[0x110] { HEADER = part(0x00, OutHeader), SQC = part(0x20, Sqc) }
    /// `QUERY_RQ` output.
    QueryRqOut[0x110] { HEADER = part(0x00, OutHeader), RQC = part(0x20, Rqc) }

    /// Transport interface send: context.
    Tisc[0x30] { PRIO = bits(0x00, 19, 16), TRANSPORT_DOMAIN = bits(0x24, 23, 0) }
    /// `CREATE_TIS`, `MODIFY_TIS` (its number as in [`super::Numbered`]).
    TisIn[0x50] { HEADER = part(0x00, InHeader), TISN = bits(0x08, 23, 0), TISC = part(0x20, Tisc) }
    /// `QUERY_TIS` output.
    QueryTisOut[0x50] { TISC = part(0x20, Tisc) }

    /// Transport interface receive: context.
    Tirc[0x60] {
        DISPATCH = bits(0x04, 31, 28), PACKET_MERGE = bits(0x10, 31, 28), INLINE_RQN = bits(0x1c, 23, 0), SYMMETRIC = bits(0x20, 31, 31),
        RQTN = bits(0x20, 23, 0), HASH_FN = bits(0x24, 31, 28), SELF_LB_BLOCK = bits(0x24, 25, 24),
        TRANSPORT_DOMAIN = bits(0x24, 23, 0), FIELDS = bits(0x50, 31, 0),
    }
    /// `CREATE_TIR`.
    CreateTirIn[0x80] { HEADER = part(0x00, InHeader), TIRC = part(0x20, Tirc) }
    /// `MODIFY_TIR`.
    ModifyTirIn[0x80] {
        HEADER = part(0x00, InHeader), TIRN = bits(0x08, 23, 0), FIELDS = quad(0x10), TIRC = part(0x20, Tirc),
    }
    /// `QUERY_TIR` output.
    QueryTirOut[0x80] { TIRC = part(0x20, Tirc) }

    /// RQ table: `CREATE_RQT` and `MODIFY_RQT`; queue numbers follow.
    RqtIn[0x110] {
        HEADER = part(0x00, InHeader), RQTN = bits(0x08, 23, 0), FIELDS = quad(0x10), MAX_SIZE = bits(0x34, 15, 0),
        ACTUAL_SIZE = bits(0x38, 15, 0),
    }

    /// `QUERY_Q_COUNTER`.
    QueryQCounterIn[0x20] { HEADER = part(0x00, InHeader), CLEAR = bits(0x18, 31, 31), SET = bits(0x1c, 7, 0) }
    /// `QUERY_Q_COUNTER` output.
    QueryQCounterOut[0x100] { OUT_OF_BUFFER = bits(0x30, 31, 0) }
}

impl Tirc {
    /// Where the Toeplitz key is, 40 bytes.
    pub const KEY: usize = 0x28;
}

/// How a TIR finds its queue (`tirc.disp_type`).
pub mod dispatch {
    /// `INLINE_RQN`.
    pub const DIRECT: u32 = 0;
    /// A hash into the RQ table.
    pub const INDIRECT: u32 = 1;
}

/// Where lists of page addresses and of queue numbers begin, in all messages that have one.
pub const PAS_LIST: usize = 0x110;
