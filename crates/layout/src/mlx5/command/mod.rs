//! Firmware commands: how they are delivered, their opcodes, and each message as a
//! table of its fields.
//!
//! Sources: linux mlx5_ifc.h (names and places), device.h and cmd.c (delivery).
//! A command's input and output are byte strings: 8 bytes of [`InHeader`] or
//! [`OutHeader`], then its fields. Lists (page addresses, queue numbers, match
//! parameters) follow at the offset that a message names `*_LIST`.

mod bits;
mod caps;
mod flow;
mod objects;
mod port;
mod system;
mod transport;

pub use bits::{Bits, Inner, Part, Quad};
pub use caps::{EthCaps, FlowTableCaps, GeneralCaps, cap_type, checksum};
pub use flow::*;
pub use objects::*;
pub use port::*;
pub use system::*;
pub use transport::{
    DELIVERY, Entry, InitSegment, Mailbox, SLOTS, delivery, entry_type, init_segment, mailbox, own,
    xor,
};

layout! {
    /// Opcodes (mlx5_ifc.h).
    #[allow(missing_docs, reason = "their names are what they do")]
    mod op: u16 {
        QUERY_HCA_CAP = 0x100;
        QUERY_ADAPTER = 0x101;
        INIT_HCA = 0x102;
        TEARDOWN_HCA = 0x103;
        ENABLE_HCA = 0x104;
        DISABLE_HCA = 0x105;
        QUERY_PAGES = 0x107;
        MANAGE_PAGES = 0x108;
        SET_HCA_CAP = 0x109;
        QUERY_ISSI = 0x10a;
        SET_ISSI = 0x10b;
        CREATE_MKEY = 0x200;
        QUERY_MKEY = 0x201;
        DESTROY_MKEY = 0x202;
        CREATE_EQ = 0x301;
        DESTROY_EQ = 0x302;
        QUERY_EQ = 0x303;
        CREATE_CQ = 0x400;
        DESTROY_CQ = 0x401;
        QUERY_CQ = 0x402;
        MODIFY_CQ = 0x403;
        QUERY_VPORT_STATE = 0x750;
        MODIFY_VPORT_STATE = 0x751;
        QUERY_NIC_VPORT_CONTEXT = 0x754;
        MODIFY_NIC_VPORT_CONTEXT = 0x755;
        QUERY_VPORT_COUNTER = 0x770;
        ALLOC_Q_COUNTER = 0x771;
        DEALLOC_Q_COUNTER = 0x772;
        QUERY_Q_COUNTER = 0x773;
        ALLOC_PD = 0x800;
        DEALLOC_PD = 0x801;
        ALLOC_UAR = 0x802;
        DEALLOC_UAR = 0x803;
        ACCESS_REG = 0x805;
        ALLOC_TRANSPORT_DOMAIN = 0x816;
        DEALLOC_TRANSPORT_DOMAIN = 0x817;
        CREATE_TIR = 0x900;
        MODIFY_TIR = 0x901;
        DESTROY_TIR = 0x902;
        QUERY_TIR = 0x903;
        CREATE_SQ = 0x904;
        MODIFY_SQ = 0x905;
        DESTROY_SQ = 0x906;
        QUERY_SQ = 0x907;
        CREATE_RQ = 0x908;
        MODIFY_RQ = 0x909;
        DESTROY_RQ = 0x90a;
        QUERY_RQ = 0x90b;
        CREATE_TIS = 0x912;
        MODIFY_TIS = 0x913;
        DESTROY_TIS = 0x914;
        QUERY_TIS = 0x915;
        CREATE_RQT = 0x916;
        MODIFY_RQT = 0x917;
        DESTROY_RQT = 0x918;
        QUERY_RQT = 0x919;
        SET_FLOW_TABLE_ROOT = 0x92f;
        CREATE_FLOW_TABLE = 0x930;
        DESTROY_FLOW_TABLE = 0x931;
        CREATE_FLOW_GROUP = 0x933;
        DESTROY_FLOW_GROUP = 0x934;
        SET_FLOW_TABLE_ENTRY = 0x936;
        QUERY_FLOW_TABLE_ENTRY = 0x937;
        DELETE_FLOW_TABLE_ENTRY = 0x938;
        MODIFY_FLOW_TABLE = 0x93c;
    }

    /// The beginning of every input.
    message InHeader[0x08] {
        OPCODE = bits(0x00, 31, 16), UID = bits(0x00, 15, 0), OP_MOD = bits(0x04, 15, 0),
    }

    /// The beginning of every output.
    message OutHeader[0x08] { STATUS = bits(0x00, 31, 24), SYNDROME = bits(0x04, 31, 0) }

    /// An input that names one object by number, and most outputs that return one.
    message Numbered[0x10] {
        HEADER = part(0x00, InHeader), NUMBER = bits(0x08, 23, 0), BYTE = bits(0x08, 7, 0),
    }
}
