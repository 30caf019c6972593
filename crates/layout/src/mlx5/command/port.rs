//! The port's registers and the virtual port: messages.

use super::InHeader;
use super::bits::messages;

/// Registers that `ACCESS_REG` reaches.
#[allow(missing_docs, reason = "their names are the manual's")]
pub mod register {
    pub const PMLP: u16 = 0x5002;
    pub const PMTU: u16 = 0x5003;
    pub const PTYS: u16 = 0x5004;
    pub const PAOS: u16 = 0x5006;
    pub const PFCC: u16 = 0x5007;
    pub const PPCNT: u16 = 0x5008;
    pub const PBMC: u16 = 0x500c;
    pub const PVLC: u16 = 0x500f;
    pub const PPLM: u16 = 0x5023;
    pub const PDDR: u16 = 0x5031;
    pub const PCMR: u16 = 0x5041;
    pub const PCAM: u16 = 0x507f;
    pub const HOST_ENDIANNESS: u16 = 0x7004;
    pub const MPCNT: u16 = 0x9051;
    pub const MCAM: u16 = 0x907f;
}

/// `op_mod` of `ACCESS_REG`.
pub mod access {
    /// Write the register.
    pub const WRITE: u32 = 0;
    /// Read it.
    pub const READ: u32 = 1;
}

/// `PAOS` administrative and operational status.
pub mod paos {
    /// Up.
    pub const UP: u32 = 1;
    /// Down.
    pub const DOWN: u32 = 2;
}

/// `PTYS` protocols: a bit for each.
pub mod ptys {
    /// 100GBASE-CR4.
    pub const CR4_100G: u32 = 1 << 20;
}

/// Counter groups of `PPCNT`.
pub mod ppcnt {
    /// IEEE 802.3.
    pub const IEEE_802_3: u32 = 0x0;
    /// RFC 2863.
    pub const RFC_2863: u32 = 0x1;
    /// RFC 2819.
    pub const RFC_2819: u32 = 0x2;
}

/// Fields of [`ModifyNicVportIn::FIELDS`].
pub mod vport_field {
    /// The list of addresses of one kind.
    pub const ADDRESSES: u32 = 1 << 2;
    /// The permanent address.
    pub const PERMANENT_ADDRESS: u32 = 1 << 3;
    /// Promiscuous modes.
    pub const PROMISC: u32 = 1 << 4;
    /// MTU.
    pub const MTU: u32 = 1 << 6;
}

/// Kinds of address lists of a virtual port.
pub mod list_type {
    /// Unicast.
    pub const UNICAST: u32 = 0;
    /// Multicast.
    pub const MULTICAST: u32 = 1;
    /// VLANs.
    pub const VLAN: u32 = 2;
}

messages! {
    /// `ACCESS_REG`, input and output: the register's content follows.
    AccessReg[0x10] { HEADER = part(0x00, InHeader), REGISTER = bits(0x08, 15, 0) }

    /// Port module and lane mapping.
    Pmlp[0x40] { PORT = bits(0x00, 23, 16), WIDTH = bits(0x00, 7, 0) }
    /// Port MTU.
    Pmtu[0x10] {
        PORT = bits(0x00, 23, 16), MAX = bits(0x04, 31, 16), ADMIN = bits(0x08, 31, 16), OPER = bits(0x0c, 31, 16),
    }
    /// Port type and speed.
    Ptys[0x40] {
        PORT = bits(0x00, 23, 16), PROTO = bits(0x00, 2, 0), ETH_CAPABILITY = bits(0x0c, 31, 0),
        ETH_ADMIN = bits(0x18, 31, 0), ETH_OPER = bits(0x24, 31, 0),
    }
    /// Port administrative and operational status.
    Paos[0x10] { PORT = bits(0x00, 23, 16), ADMIN = bits(0x00, 11, 8), OPER = bits(0x00, 3, 0) }
    /// Port counters: a group; counters of eight bytes follow.
    Ppcnt[0x100] { PORT = bits(0x00, 23, 16), GROUP = bits(0x00, 5, 0), CLEAR = bits(0x04, 31, 31) }

    /// `QUERY_VPORT_STATE` output, `MODIFY_VPORT_STATE` input.
    VportState[0x10] { HEADER = part(0x00, InHeader), ADMIN = bits(0x0c, 7, 4), STATE = bits(0x0c, 3, 0) }

    /// Context of a virtual port; its list of addresses, 8 bytes each, follows.
    NicVport[0x100] {
        MIN_INLINE = bits(0x00, 26, 24), MTU = bits(0x24, 15, 0), SYSTEM_GUID = quad(0x28), PORT_GUID = quad(0x30),
        NODE_GUID = quad(0x38), PROMISC_UC = bits(0xf0, 31, 31), PROMISC_MC = bits(0xf0, 30, 30),
        PROMISC_ALL = bits(0xf0, 29, 29), LIST_TYPE = bits(0xf0, 26, 24), LIST_SIZE = bits(0xf0, 11, 0),
    }
    /// `QUERY_NIC_VPORT_CONTEXT`.
    QueryNicVportIn[0x10] { HEADER = part(0x00, InHeader), OTHER = bits(0x08, 31, 31), LIST_TYPE = bits(0x0c, 26, 24) }
    /// `QUERY_NIC_VPORT_CONTEXT` output.
    QueryNicVportOut[0x110] { CONTEXT = part(0x10, NicVport) }
    /// `MODIFY_NIC_VPORT_CONTEXT`.
    ModifyNicVportIn[0x200] {
        HEADER = part(0x00, InHeader), OTHER = bits(0x08, 31, 31), FIELDS = bits(0x0c, 31, 0),
        CONTEXT = part(0x100, NicVport),
    }

    /// `QUERY_VPORT_COUNTER` output: packets, then octets, of each kind.
    VportCounters[0x210] {
        RX_ERRORS = quad(0x10), TX_ERRORS = quad(0x20), RX_BROADCAST = quad(0x70), TX_BROADCAST = quad(0x80),
        RX_UNICAST = quad(0x90), TX_UNICAST = quad(0xa0), RX_MULTICAST = quad(0xb0), TX_MULTICAST = quad(0xc0),
    }
}

impl NicVport {
    /// Where the six bytes of the permanent address are.
    pub const ADDRESS: usize = 0xf6;
}
