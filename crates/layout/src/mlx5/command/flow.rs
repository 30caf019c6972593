//! Messages about flow tables, groups and entries.

use super::InHeader;

/// Bytes of match criteria and match values.
pub const MATCH_LEN: usize = 0x200;

layout! {
    /// Bits of [`FlowContext::ACTION`].
    mod flow_action: u32 {
        ALLOW = 1 << 0, "Let it through (egress and eswitch).";
        DROP = 1 << 1, "Drop it.";
        FORWARD = 1 << 2, "Forward it to the destinations.";
        COUNT = 1 << 3, "Count it.";
    }

    /// Types of destinations, \[31:24\] of an entry in their list.
    mod destination: u32 {
        TABLE = 1, "Another table.";
        TIR = 2, "A TIR.";
    }

    /// [`FlowTableContext::MISS_ACTION`].
    mod miss_action: u32 {
        DEFAULT = 0, "As ever: of received frames, dropped.";
        TABLE = 1, "On in [`MISS_TABLE`](super::FlowTableContext::MISS_TABLE).";
    }

    /// Bits of [`ModifyFlowTableIn::FIELDS`].
    mod modify_flow_table: u32 {
        MISS = 1 << 0, "The table that goes on with what no entry matches.";
    }

    /// Bits of [`SetFteIn::MODIFY`].
    mod modify_fte: u32 {
        ACTION = 1 << 0, "The action.";
        TAG = 1 << 1, "The tag.";
        DESTINATIONS = 1 << 2, "The destinations.";
        COUNTERS = 1 << 3, "The counters.";
    }

    /// Flow table context.
    message FlowTableContext[0x28] {
        MISS_ACTION = bits(0x00, 27, 24), LEVEL = bits(0x00, 23, 16), LOG_SIZE = bits(0x00, 7, 0),
        MISS_TABLE = bits(0x04, 23, 0),
    }
    /// `CREATE_FLOW_TABLE`.
    message CreateFlowTableIn[0x40] {
        HEADER = part(0x00, InHeader), OTHER_VPORT = bits(0x08, 31, 31), TYPE = bits(0x10, 31, 24),
        CONTEXT = part(0x18, FlowTableContext),
    }
    /// `MODIFY_FLOW_TABLE`.
    message ModifyFlowTableIn[0x40] {
        HEADER = part(0x00, InHeader), FIELDS = bits(0x0c, 15, 0), TYPE = bits(0x10, 31, 24),
        TABLE = bits(0x14, 23, 0), CONTEXT = part(0x18, FlowTableContext),
    }
    /// `DESTROY_FLOW_TABLE`, `SET_FLOW_TABLE_ROOT`.
    message FlowTableIn[0x18] {
        HEADER = part(0x00, InHeader), TYPE = bits(0x10, 31, 24), TABLE = bits(0x14, 23, 0),
    }

    /// `CREATE_FLOW_GROUP`; its match criteria follow.
    message CreateFlowGroupIn[0x40] {
        HEADER = part(0x00, InHeader), TYPE = bits(0x10, 31, 24), TABLE = bits(0x14, 23, 0),
        START = bits(0x1c, 31, 0), END = bits(0x24, 31, 0), CRITERIA = bits(0x3c, 7, 0),
    }
    /// `DESTROY_FLOW_GROUP`.
    message FlowGroupIn[0x1c] {
        HEADER = part(0x00, InHeader), TYPE = bits(0x10, 31, 24), TABLE = bits(0x14, 23, 0),
        GROUP = bits(0x18, 31, 0),
    }

    /// Flow entry: what is done with a packet. Its match value is at
    /// [`FlowContext::MATCH`]; destinations, 8 bytes each, follow it.
    message FlowContext[0x300] {
        GROUP = bits(0x04, 31, 0), TAG = bits(0x08, 23, 0), ACTION = bits(0x0c, 15, 0),
        EXTENDED_DESTINATION = bits(0x10, 31, 31), DESTINATIONS = bits(0x10, 23, 0),
        COUNTERS = bits(0x14, 23, 0),
    }
    /// `SET_FLOW_TABLE_ENTRY`; destinations follow.
    message SetFteIn[0x340] {
        HEADER = part(0x00, InHeader), TYPE = bits(0x10, 31, 24), TABLE = bits(0x14, 23, 0),
        MODIFY = bits(0x18, 7, 0), INDEX = bits(0x20, 31, 0), CONTEXT = part(0x40, FlowContext),
    }
    /// `QUERY_FLOW_TABLE_ENTRY`, `DELETE_FLOW_TABLE_ENTRY`.
    message FteIn[0x24] {
        HEADER = part(0x00, InHeader), TYPE = bits(0x10, 31, 24), TABLE = bits(0x14, 23, 0),
        INDEX = bits(0x20, 31, 0),
    }
    /// `QUERY_FLOW_TABLE_ENTRY` output; destinations follow.
    message QueryFteOut[0x340] { CONTEXT = part(0x40, FlowContext) }

    impl FlowContext: usize {
        MATCH = 0x40, "Offset of the match value.";
    }
    const usize {
        CRITERIA_LIST = 0x40, "Offset of a group's match criteria.";
        DESTINATION_LIST = 0x340, "Offset of an entry's destinations.";
    }
}
