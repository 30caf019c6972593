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

use bits::messages;
pub use bits::{Bits, Part, Quad};
pub use caps::{EthCaps, FlowTableCaps, GeneralCaps, cap_type, checksum};
pub use flow::*;
pub use objects::*;
pub use port::*;
pub use system::*;
pub use transport::{
    DELIVERY, Entry, InitSegment, Mailbox, SLOTS, delivery, entry_type, init_segment, mailbox, own,
    xor,
};

/// Opcodes (mlx5_ifc.h).
#[rustfmt::skip]
#[allow(missing_docs, reason = "their names are what they do")]
pub mod op {
    pub const QUERY_HCA_CAP: u16 = 0x100;
    pub const QUERY_ADAPTER: u16 = 0x101;
    pub const INIT_HCA: u16 = 0x102;
    pub const TEARDOWN_HCA: u16 = 0x103;
    pub const ENABLE_HCA: u16 = 0x104;
    pub const DISABLE_HCA: u16 = 0x105;
    pub const QUERY_PAGES: u16 = 0x107;
    pub const MANAGE_PAGES: u16 = 0x108;
    pub const SET_HCA_CAP: u16 = 0x109;
    pub const QUERY_ISSI: u16 = 0x10a;
    pub const SET_ISSI: u16 = 0x10b;
    pub const CREATE_MKEY: u16 = 0x200;
    pub const QUERY_MKEY: u16 = 0x201;
    pub const DESTROY_MKEY: u16 = 0x202;
    pub const CREATE_EQ: u16 = 0x301;
    pub const DESTROY_EQ: u16 = 0x302;
    pub const QUERY_EQ: u16 = 0x303;
    pub const CREATE_CQ: u16 = 0x400;
    pub const DESTROY_CQ: u16 = 0x401;
    pub const QUERY_CQ: u16 = 0x402;
    pub const MODIFY_CQ: u16 = 0x403;
    pub const QUERY_VPORT_STATE: u16 = 0x750;
    pub const MODIFY_VPORT_STATE: u16 = 0x751;
    pub const QUERY_NIC_VPORT_CONTEXT: u16 = 0x754;
    pub const MODIFY_NIC_VPORT_CONTEXT: u16 = 0x755;
    pub const QUERY_VPORT_COUNTER: u16 = 0x770;
    pub const ALLOC_Q_COUNTER: u16 = 0x771;
    pub const DEALLOC_Q_COUNTER: u16 = 0x772;
    pub const QUERY_Q_COUNTER: u16 = 0x773;
    pub const ALLOC_PD: u16 = 0x800;
    pub const DEALLOC_PD: u16 = 0x801;
    pub const ALLOC_UAR: u16 = 0x802;
    pub const DEALLOC_UAR: u16 = 0x803;
    pub const ACCESS_REG: u16 = 0x805;
    pub const ALLOC_TRANSPORT_DOMAIN: u16 = 0x816;
    pub const DEALLOC_TRANSPORT_DOMAIN: u16 = 0x817;
    pub const CREATE_TIR: u16 = 0x900;
    pub const MODIFY_TIR: u16 = 0x901;
    pub const DESTROY_TIR: u16 = 0x902;
    pub const QUERY_TIR: u16 = 0x903;
    pub const CREATE_SQ: u16 = 0x904;
    pub const MODIFY_SQ: u16 = 0x905;
    pub const DESTROY_SQ: u16 = 0x906;
    pub const QUERY_SQ: u16 = 0x907;
    pub const CREATE_RQ: u16 = 0x908;
    pub const MODIFY_RQ: u16 = 0x909;
    pub const DESTROY_RQ: u16 = 0x90a;
    pub const QUERY_RQ: u16 = 0x90b;
    pub const CREATE_TIS: u16 = 0x912;
    pub const MODIFY_TIS: u16 = 0x913;
    pub const DESTROY_TIS: u16 = 0x914;
    pub const QUERY_TIS: u16 = 0x915;
    pub const CREATE_RQT: u16 = 0x916;
    pub const MODIFY_RQT: u16 = 0x917;
    pub const DESTROY_RQT: u16 = 0x918;
    pub const QUERY_RQT: u16 = 0x919;
    pub const SET_FLOW_TABLE_ROOT: u16 = 0x92f;
    pub const CREATE_FLOW_TABLE: u16 = 0x930;
    pub const DESTROY_FLOW_TABLE: u16 = 0x931;
    pub const CREATE_FLOW_GROUP: u16 = 0x933;
    pub const DESTROY_FLOW_GROUP: u16 = 0x934;
    pub const SET_FLOW_TABLE_ENTRY: u16 = 0x936;
    pub const QUERY_FLOW_TABLE_ENTRY: u16 = 0x937;
    pub const DELETE_FLOW_TABLE_ENTRY: u16 = 0x938;
    pub const MODIFY_FLOW_TABLE: u16 = 0x93c;
}

messages! {
    /// How every input begins.
    InHeader[0x08] { OPCODE = bits(0x00, 31, 16), UID = bits(0x00, 15, 0), OP_MOD = bits(0x04, 15, 0) }

    /// How every output begins.
    OutHeader[0x08] { STATUS = bits(0x00, 31, 24), SYNDROME = bits(0x04, 31, 0) }

    /// An input that names one object by number, and most outputs that return one.
    Numbered[0x10] {
        HEADER = part(0x00, InHeader),
        NUMBER = bits(0x08, 23, 0),
        BYTE = bits(0x08, 7, 0),
    }
}
