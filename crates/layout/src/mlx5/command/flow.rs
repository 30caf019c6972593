//! Messages about flow tables, groups and entries.

use super::InHeader;
use super::bits::messages;

/// Bytes of match criteria and match values.
pub const MATCH_LEN: usize = 0x200;

/// Bits of [`FlowContext::ACTION`].
pub mod flow_action {
    /// Let it through (egress and eswitch).
    pub const ALLOW: u32 = 1 << 0;
    /// Drop it.
    pub const DROP: u32 = 1 << 1;
    /// Forward it to the destinations.
    pub const FORWARD: u32 = 1 << 2;
    /// Count it.
    pub const COUNT: u32 = 1 << 3;
}

/// Types of destinations, \[31:24\] of an entry in their list.
pub mod destination {
    /// Another table.
    pub const TABLE: u32 = 1;
    /// A TIR.
    pub const TIR: u32 = 2;
}

/// [`FlowTableContext::MISS_ACTION`].
pub mod miss_action {
    /// As ever: of received frames, dropped.
    pub const DEFAULT: u32 = 0;
    /// On in [`MISS_TABLE`](super::FlowTableContext::MISS_TABLE).
    pub const TABLE: u32 = 1;
}

/// Bits of [`ModifyFlowTableIn::FIELDS`].
pub mod modify_flow_table {
    /// The table that goes on with what no entry matches.
    pub const MISS: u32 = 1 << 0;
}

/// Bits of [`SetFteIn::MODIFY`].
pub mod modify_fte {
    /// The action.
    pub const ACTION: u32 = 1 << 0;
    /// The tag.
    pub const TAG: u32 = 1 << 1;
    /// The destinations.
    pub const DESTINATIONS: u32 = 1 << 2;
    /// The counters.
    pub const COUNTERS: u32 = 1 << 3;
}

messages! {
    /// Flow table context.
    FlowTableContext[0x28] {
        MISS_ACTION = bits(0x00, 27, 24), LEVEL = bits(0x00, 23, 16), LOG_SIZE = bits(0x00, 7, 0),
        MISS_TABLE = bits(0x04, 23, 0),
    }
    /// `CREATE_FLOW_TABLE`.
    CreateFlowTableIn[0x40] {
        HEADER = part(0x00, InHeader), OTHER_VPORT = bits(0x08, 31, 31), TYPE = bits(0x10, 31, 24),
        CONTEXT = part(0x18, FlowTableContext),
    }
    /// `MODIFY_FLOW_TABLE`.
    ModifyFlowTableIn[0x40] {
        HEADER = part(0x00, InHeader), FIELDS = bits(0x0c, 15, 0), TYPE = bits(0x10, 31, 24),
        TABLE = bits(0x14, 23, 0), CONTEXT = part(0x18, FlowTableContext),
    }
    /// `DESTROY_FLOW_TABLE`, `SET_FLOW_TABLE_ROOT`.
    FlowTableIn[0x18] { HEADER = part(0x00, InHeader), TYPE = bits(0x10, 31, 24), TABLE = bits(0x14, 23, 0) }

    /// `CREATE_FLOW_GROUP`; its match criteria follow.
    CreateFlowGroupIn[0x40] {
        HEADER = part(0x00, InHeader), TYPE = bits(0x10, 31, 24), TABLE = bits(0x14, 23, 0),
        START = bits(0x1c, 31, 0), END = bits(0x24, 31, 0), CRITERIA = bits(0x3c, 7, 0),
    }
    /// `DESTROY_FLOW_GROUP`.
    FlowGroupIn[0x1c] {
        HEADER = part(0x00, InHeader), TYPE = bits(0x10, 31, 24), TABLE = bits(0x14, 23, 0),
        GROUP = bits(0x18, 31, 0),
    }

    /// Flow entry: what is done with a packet. Its match value is at
    /// [`FlowContext::MATCH`]; destinations, 8 bytes each, follow it.
    FlowContext[0x300] {
        GROUP = bits(0x04, 31, 0), TAG = bits(0x08, 23, 0), ACTION = bits(0x0c, 15, 0),
        EXTENDED_DESTINATION = bits(0x10, 31, 31), DESTINATIONS = bits(0x10, 23, 0), COUNTERS = bits(0x14, 23, 0),
    }
    /// `SET_FLOW_TABLE_ENTRY`; destinations follow.
    SetFteIn[0x340] {
        HEADER = part(0x00, InHeader), TYPE = bits(0x10, 31, 24), TABLE = bits(0x14, 23, 0),
        MODIFY = bits(0x18, 7, 0), INDEX = bits(0x20, 31, 0), CONTEXT = part(0x40, FlowContext),
    }
    /// `QUERY_FLOW_TABLE_ENTRY`, `DELETE_FLOW_TABLE_ENTRY`.
    FteIn[0x24] {
        HEADER = part(0x00, InHeader), TYPE = bits(0x10, 31, 24), TABLE = bits(0x14, 23, 0),
        INDEX = bits(0x20, 31, 0),
    }
    /// `QUERY_FLOW_TABLE_ENTRY` output; destinations follow.
    QueryFteOut[0x340] { CONTEXT = part(0x40, FlowContext) }
}

impl FlowContext {
    /// Where the match value is.
    pub const MATCH: usize = 0x40;
}
/// Where a group's match criteria are.
pub const CRITERIA_LIST: usize = 0x40;
/// Where an entry's destinations are.
pub const DESTINATION_LIST: usize = 0x340;
