//! The port's registers and the virtual port: messages.

use super::InHeader;

layout! {
    /// Registers that `ACCESS_REG` reaches.
    #[allow(missing_docs, reason = "their names are the manual's")]
    mod register: u16 {
        PMLP = 0x5002;
        PMTU = 0x5003;
        PTYS = 0x5004;
        PAOS = 0x5006;
        PFCC = 0x5007;
        PPCNT = 0x5008;
        PBMC = 0x500c;
        PVLC = 0x500f;
        PPLM = 0x5023;
        PDDR = 0x5031;
        PCMR = 0x5041;
        PCAM = 0x507f;
        HOST_ENDIANNESS = 0x7004;
        MPCNT = 0x9051;
        MCAM = 0x907f;
    }

    /// `op_mod` of `ACCESS_REG`.
    mod access: u32 {
        WRITE = 0, "Write the register.";
        READ = 1, "Read it.";
    }

    /// `PAOS` administrative and operational status.
    mod paos: u32 {
        UP = 1, "Up.";
        DOWN = 2, "Down.";
    }

    /// `PTYS` protocols: a bit for each.
    mod ptys: u32 {
        CR4_100G = 1 << 20, "100GBASE-CR4.";
    }

    /// Counter groups of `PPCNT`.
    mod ppcnt: u32 {
        IEEE_802_3 = 0x0, "IEEE 802.3.";
        RFC_2863 = 0x1, "RFC 2863.";
        RFC_2819 = 0x2, "RFC 2819.";
    }

    /// Fields of [`ModifyNicVportIn::FIELDS`].
    mod vport_field: u32 {
        ADDRESSES = 1 << 2, "The list of addresses of one kind.";
        PERMANENT_ADDRESS = 1 << 3, "The permanent address.";
        PROMISC = 1 << 4, "Promiscuous modes.";
        MTU = 1 << 6, "MTU.";
    }

    /// Kinds of address lists of a virtual port.
    mod list_type: u32 {
        UNICAST = 0, "Unicast.";
        MULTICAST = 1, "Multicast.";
        VLAN = 2, "VLANs.";
    }

    /// `ACCESS_REG`, input and output: the register's content follows.
    message AccessReg[0x10] { HEADER = part(0x00, InHeader), REGISTER = bits(0x08, 15, 0) }

    /// Port module and lane mapping.
    message Pmlp[0x40] { PORT = bits(0x00, 23, 16), WIDTH = bits(0x00, 7, 0) }
    /// Port MTU.
    message Pmtu[0x10] {
        PORT = bits(0x00, 23, 16), MAX = bits(0x04, 31, 16), ADMIN = bits(0x08, 31, 16),
        OPER = bits(0x0c, 31, 16),
    }
    /// Port type and speed.
    message Ptys[0x40] {
        PORT = bits(0x00, 23, 16), PROTO = bits(0x00, 2, 0), ETH_CAPABILITY = bits(0x0c, 31, 0),
        ETH_ADMIN = bits(0x18, 31, 0), ETH_OPER = bits(0x24, 31, 0),
    }
    /// Port administrative and operational status.
    message Paos[0x10] {
        PORT = bits(0x00, 23, 16), ADMIN = bits(0x00, 11, 8), OPER = bits(0x00, 3, 0),
    }
    /// Port counters: a group; counters of eight bytes follow.
    message Ppcnt[0x100] {
        PORT = bits(0x00, 23, 16), GROUP = bits(0x00, 5, 0), CLEAR = bits(0x04, 31, 31),
    }

    /// `QUERY_VPORT_STATE` output, `MODIFY_VPORT_STATE` input.
    message VportState[0x10] {
        HEADER = part(0x00, InHeader), ADMIN = bits(0x0c, 7, 4), STATE = bits(0x0c, 3, 0),
    }

    /// Context of a virtual port; its list of addresses, 8 bytes each, follows.
    message NicVport[0x100] {
        MIN_INLINE = bits(0x00, 26, 24), MTU = bits(0x24, 15, 0), SYSTEM_GUID = quad(0x28),
        PORT_GUID = quad(0x30), NODE_GUID = quad(0x38), PROMISC_UC = bits(0xf0, 31, 31),
        PROMISC_MC = bits(0xf0, 30, 30), PROMISC_ALL = bits(0xf0, 29, 29),
        LIST_TYPE = bits(0xf0, 26, 24), LIST_SIZE = bits(0xf0, 11, 0),
    }
    /// `QUERY_NIC_VPORT_CONTEXT`.
    message QueryNicVportIn[0x10] {
        HEADER = part(0x00, InHeader), OTHER = bits(0x08, 31, 31), LIST_TYPE = bits(0x0c, 26, 24),
    }
    /// `QUERY_NIC_VPORT_CONTEXT` output.
    message QueryNicVportOut[0x110] { CONTEXT = part(0x10, NicVport) }
    /// `MODIFY_NIC_VPORT_CONTEXT`.
    message ModifyNicVportIn[0x200] {
        HEADER = part(0x00, InHeader), OTHER = bits(0x08, 31, 31), FIELDS = bits(0x0c, 31, 0),
        CONTEXT = part(0x100, NicVport),
    }

    /// `QUERY_VPORT_COUNTER` output: packets, then octets, of each kind.
    message VportCounters[0x210] {
        RX_ERRORS = quad(0x10), TX_ERRORS = quad(0x20), RX_BROADCAST = quad(0x70),
        TX_BROADCAST = quad(0x80), RX_UNICAST = quad(0x90), TX_UNICAST = quad(0xa0),
        RX_MULTICAST = quad(0xb0), TX_MULTICAST = quad(0xc0),
    }

    impl NicVport: usize {
        ADDRESS = 0xf6, "Offset of the six bytes of the permanent address.";
    }
}
