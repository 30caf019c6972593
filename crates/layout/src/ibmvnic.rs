//! IBM virtual NIC (ibmvnic): hypervisor calls, CRQ messages, sub-CRQ descriptors and the buffers
//! that messages point at.
//!
//! Source: what Linux's `ibmvnic.h`, `ibmvnic.c` and `hvcall.h` use (6.x); PAPR itself is not
//! public. **All of it is big-endian**, on little-endian Linux too.
//!
//! A message on the command/response queue (CRQ) has 16 bytes, a descriptor on a sub-CRQ 32. In
//! both byte 0 is not 0 when the entry is valid; consumers go on in order and clear it; there is no
//! producer index. A response is the request with [`RESPONSE`] set in the command byte and a
//! return code in bytes 12 to 15.
//!
//! Transmit descriptors are of version 1. Version 0 is gone: no public text has its layout.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Hypervisor calls; arguments begin with the adapter's unit address.
pub mod hcall {
    /// Ends an interrupt; once, for one that was pending before it was enabled (xirr).
    pub const EOI: u64 = 0x64;
    /// Registers the CRQ (address, bytes).
    pub const REG_CRQ: u64 = 0xfc;
    /// Frees the CRQ, and the sub-CRQs with it.
    pub const FREE_CRQ: u64 = 0x100;
    /// Interrupts of the CRQ off (0) or on (1).
    pub const VIO_SIGNAL: u64 = 0x104;
    /// Sends a message (high, low half).
    pub const SEND_CRQ: u64 = 0x108;
    /// See [`super::vioctl`].
    pub const VIOCTL: u64 = 0x2a8;
    /// Enables the CRQ again after a migration.
    pub const ENABLE_CRQ: u64 = 0x2b0;
    /// Registers a sub-CRQ (address, bytes): its number and interrupt.
    pub const REG_SUB_CRQ: u64 = 0x2dc;
    /// Frees a sub-CRQ (number).
    pub const FREE_SUB_CRQ: u64 = 0x2e0;
    /// Sends one descriptor (handle, four words).
    pub const SEND_SUB_CRQ: u64 = 0x2e4;
    /// Sends descriptors in memory (handle, address, count).
    pub const SEND_SUB_CRQ_INDIRECT: u64 = 0x2e8;
}

/// What hypervisor calls return.
pub mod status {
    /// Done.
    pub const SUCCESS: i64 = 0;
    /// Try again.
    pub const BUSY: i64 = 1;
    /// The partner is not there. From [`super::hcall::REG_CRQ`]: registered, but the partner is not
    /// up.
    pub const CLOSED: i64 = 2;
    /// Try again.
    pub const IN_PROGRESS: i64 = 14;
    /// Try again in 1 ms; up to 9905, ten times longer each.
    pub const LONG_BUSY_1_MS: i64 = 9900;
    /// The last of them, 100 s.
    pub const LONG_BUSY_100_S: i64 = 9905;
    /// Failed hardware.
    pub const HARDWARE: i64 = -1;
    /// No such call.
    pub const FUNCTION: i64 = -2;
    /// A bad argument.
    pub const PARAMETER: i64 = -4;
    /// Not accepted.
    pub const DROPPED: i64 = -12;
    /// No room, or in use.
    pub const RESOURCE: i64 = -16;
}

/// Functions of [`hcall::VIOCTL`], its second argument.
pub mod vioctl {
    /// All interrupts of the adapter off.
    pub const DISABLE_ALL_VIO_INTERRUPTS: u64 = 0x0a;
    /// One interrupt off (its number).
    pub const DISABLE_VIO_INTERRUPT: u64 = 0x0b;
    /// One interrupt on (its number).
    pub const ENABLE_VIO_INTERRUPT: u64 = 0x0c;
    /// The session's token; another one after a failover.
    pub const GET_SESSION_TOKEN: u64 = 0x19;
    /// The client finds the session (token) in error: fail over.
    pub const SESSION_ERR_DETECTED: u64 = 0x1a;
}

/// Bytes of the CRQ: a page.
pub const CRQ_BYTES: u64 = 4096;
/// Bytes of a sub-CRQ as Linux makes it: four pages.
pub const SUB_CRQ_BYTES: u64 = 4 * 4096;
/// Bytes of a CRQ message.
pub const MESSAGE: usize = 16;
/// Bytes of a sub-CRQ descriptor.
pub const DESCRIPTOR: usize = 32;
/// Descriptors in one indirect send at the most.
pub const MAX_INDIRECT: u64 = 16;
/// Queues of a kind at the most.
pub const MAX_QUEUES: u64 = 16;
/// Entries of a sub-CRQ at the most.
pub const MAX_ENTRIES: u64 = 4096;
/// Correlators in a transmit completion at the most.
pub const MAX_COMPLETIONS: usize = 5;
/// Largest id of a long-term buffer; 0 is reserved.
pub const MAX_MAP_ID: u8 = 254;
/// Bytes of a long-term buffer, as Linux makes them, at the most.
pub const MAX_LTB: u32 = 8 << 20;
/// Version of the protocol.
pub const VERSION: u16 = 1;
/// In a correlator, the driver's: an index into the pool for large sends. Data to the server.
pub const TSO_POOL: u32 = 1 << 31;

/// Byte 0 of an entry.
pub mod first {
    /// The slot is empty.
    pub const EMPTY: u8 = 0x00;
    /// A command, a response, a descriptor.
    pub const VALID: u8 = 0x80;
    /// Handshake; byte 1 is [`INIT`] or [`INIT_COMPLETE`].
    pub const HANDSHAKE: u8 = 0xc0;
    /// Transport event; byte 1 says which, what is neither of two is fatal.
    pub const TRANSPORT: u8 = 0xff;
    /// Handshake: I am here.
    pub const INIT: u8 = 1;
    /// Handshake: so am I.
    pub const INIT_COMPLETE: u8 = 2;
    /// Transport event: the partition has migrated.
    pub const MIGRATED: u8 = 6;
    /// Transport event: another device is behind the adapter.
    pub const FAILOVER: u8 = 8;
}

/// In a command byte: this is the response.
pub const RESPONSE: u8 = 0x80;

/// Commands, byte 1 of a message.
pub mod cmd {
    macro_rules! commands {
        ($($(#[doc = $doc:literal])+ $name:ident = $n:literal;)*) => {
            $($(#[doc = $doc])+ pub const $name: u8 = $n;)*
        };
    }
    commands! {
        /// [`VersionExchange`](super::VersionExchange).
        VERSION_EXCHANGE = 0x01;
        /// [`Capability`](super::Capability).
        QUERY_CAPABILITY = 0x02;
        /// [`Capability`](super::Capability).
        REQUEST_CAPABILITY = 0x03;
        /// [`Login`](super::Login).
        LOGIN = 0x04;
        /// [`PhysParms`](super::PhysParms).
        QUERY_PHYS_PARMS = 0x05;
        /// [`PhysParms`](super::PhysParms): what the port can do.
        QUERY_PHYS_CAPABILITIES = 0x06;
        /// [`PhysParms`](super::PhysParms).
        SET_PHYS_PARMS = 0x07;
        /// [`ErrorIndication`](super::ErrorIndication), from the server.
        ERROR_INDICATION = 0x08;
        /// [`LogicalLinkState`](super::LogicalLinkState).
        LOGICAL_LINK_STATE = 0x0c;
        /// [`RequestStatistics`](super::RequestStatistics).
        REQUEST_STATISTICS = 0x0d;
        /// [`LinkStateIndication`](super::LinkStateIndication), from the server.
        LINK_STATE_INDICATION = 0x12;
        /// [`ChangeMac`](super::ChangeMac).
        CHANGE_MAC_ADDR = 0x13;
        /// [`MulticastCtrl`](super::MulticastCtrl).
        MULTICAST_CTRL = 0x14;
        /// Response: [`VpdSize`](super::VpdSize).
        GET_VPD_SIZE = 0x15;
        /// [`AddressLength`](super::AddressLength).
        GET_VPD = 0x16;
        /// [`LengthAddress`](super::LengthAddress): the other way round than the next.
        QUERY_IP_OFFLOAD = 0x18;
        /// [`AddressLength`](super::AddressLength).
        CONTROL_IP_OFFLOAD = 0x19;
        /// [`AclChange`](super::AclChange), from the server.
        ACL_CHANGE_INDICATION = 0x1a;
        /// [`AddressLength`](super::AddressLength).
        ACL_QUERY = 0x1b;
        /// Response: [`QueryMap`](super::QueryMap).
        QUERY_MAP = 0x1d;
        /// [`RequestMap`](super::RequestMap).
        REQUEST_MAP = 0x1e;
        /// [`RequestMap`](super::RequestMap), of which the id counts.
        REQUEST_UNMAP = 0x1f;
        /// Linux does not use it.
        VLAN_CTRL = 0x20;
    }
}

/// Return codes of responses, byte 12.
pub mod rc {
    /// Done.
    pub const SUCCESS: u8 = 0;
    /// Not as asked; the response says what can be had.
    pub const PARTIAL_SUCCESS: u8 = 1;
    /// Not allowed.
    pub const PERMISSION: u8 = 2;
    /// No room.
    pub const NO_MEMORY: u8 = 3;
    /// A bad value.
    pub const PARAMETER: u8 = 4;
    /// No such command.
    pub const UNKNOWN_COMMAND: u8 = 5;
    /// Given up.
    pub const ABORTED: u8 = 6;
    /// Not now.
    pub const INVALID_STATE: u8 = 7;
    /// The address cannot be reached.
    pub const INVALID_IOBA: u8 = 8;
    /// A bad length.
    pub const INVALID_LENGTH: u8 = 9;
    /// Not offered.
    pub const UNSUPPORTED_OPTION: u8 = 10;
}

/// Capabilities. MTUs count the 14 bytes of the Ethernet header.
pub mod cap {
    macro_rules! capabilities {
        ($($(#[doc = $doc:literal])+ $name:ident = $n:literal;)*) => {
            $($(#[doc = $doc])+ pub const $name: u16 = $n;)*
        };
    }
    capabilities! {
        /// Fewest transmit queues.
        MIN_TX_QUEUES = 1;
        /// Fewest receive queues.
        MIN_RX_QUEUES = 2;
        /// Fewest buffer queues of each receive queue.
        MIN_RX_ADD_QUEUES = 3;
        /// Most transmit queues.
        MAX_TX_QUEUES = 4;
        /// Most receive queues.
        MAX_RX_QUEUES = 5;
        /// Most buffer queues of each receive queue.
        MAX_RX_ADD_QUEUES = 6;
        /// Transmit queues wanted.
        REQ_TX_QUEUES = 7;
        /// Receive queues wanted.
        REQ_RX_QUEUES = 8;
        /// Buffer queues of each receive queue wanted.
        REQ_RX_ADD_QUEUES = 9;
        /// Fewest entries of a transmit queue.
        MIN_TX_ENTRIES = 10;
        /// Fewest entries of a buffer queue.
        MIN_RX_ADD_ENTRIES = 11;
        /// Most entries of a transmit queue.
        MAX_TX_ENTRIES = 12;
        /// Most entries of a buffer queue.
        MAX_RX_ADD_ENTRIES = 13;
        /// Entries of a transmit queue wanted.
        REQ_TX_ENTRIES = 14;
        /// Entries of a buffer queue wanted.
        REQ_RX_ADD_ENTRIES = 15;
        /// There is an IP offload to be asked about.
        TCP_IP_OFFLOAD = 16;
        /// Promiscuous reception wanted.
        PROMISC_REQUESTED = 17;
        /// Promiscuous reception can be had.
        PROMISC_SUPPORTED = 18;
        /// Shortest frame.
        MIN_MTU = 19;
        /// Longest MTU.
        MAX_MTU = 20;
        /// MTU wanted.
        REQ_MTU = 21;
        /// Multicast addresses that can be filtered.
        MAX_MULTICAST_FILTERS = 22;
        /// The server inserts VLAN tags.
        VLAN_HEADER_INSERTION = 23;
        /// The server takes VLAN tags out.
        RX_VLAN_HEADER_INSERTION = 24;
        /// Most pieces of a transmitted frame.
        MAX_TX_SG_ENTRIES = 25;
        /// A received frame may lie in several buffers.
        RX_SG_SUPPORTED = 26;
        /// That is wanted.
        RX_SG_REQUESTED = 27;
        /// Best number of transmit completion queues.
        OPT_TX_COMP_QUEUES = 28;
        /// Best number of receive completion queues.
        OPT_RX_COMP_QUEUES = 29;
        /// Best number of buffer queues.
        OPT_RX_BUFADD_QUEUES = 30;
        /// Best number of entries of a transmit queue.
        OPT_TX_ENTRIES = 31;
        /// Best number of entries of a buffer queue.
        OPT_RXBA_ENTRIES = 32;
        /// Which headers the server wants: see [`desc_req`](super::desc_req).
        TX_RX_DESC_REQ = 33;
    }
    /// What Linux asks for, in its order.
    pub const QUERIES: [u16; 25] = [
        1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 16, 18, 19, 20, 22, 23, 24, 25, 26, 28, 29, 30, 31, 32,
        33,
    ];
    /// What Linux requests, in its order; the last is left out where it would be refused.
    pub const REQUESTS: [u16; 7] = [7, 8, 9, 14, 15, 21, 17];
}

/// [`cap::TX_RX_DESC_REQ`]: eight bytes in the order of the wire, never a number. Each says
/// which headers go with a kind of packet.
pub mod desc_req {
    /// The byte for packets with nothing to be done.
    pub const PLAIN: usize = 0;
    /// The byte for packets whose checksum is left to the server.
    pub const CHECKSUM: usize = 2;
    /// The byte for large sends.
    pub const LSO: usize = 4;
    /// Headers are wanted at all.
    pub const WANTED: u8 = 0x80;
    /// Ethernet header.
    pub const L2: u8 = 0x40;
    /// IP header.
    pub const L3: u8 = 0x20;
    /// TCP or UDP header.
    pub const L4: u8 = 0x10;
}

// ---- messages ----

macro_rules! records {
    ($size:literal: $($(#[doc = $about:literal])+ struct $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $ty:ty,)*
    })*) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $ty,)*
        }
        const _: () = assert!(size_of::<$name>() == $size);
        impl $name {
            /// All bytes zero.
            pub fn zeroed() -> $name {
                zerocopy::FromZeros::new_zeroed()
            }
            /// Its bytes.
            pub fn bytes(&self) -> [u8; $size] {
                zerocopy::transmute!(*self)
            }
            /// From its bytes.
            pub fn of(bytes: [u8; $size]) -> $name {
                zerocopy::transmute!(bytes)
            }
        }
    )*};
}

/// A return code: the code, then details.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Rc {
    /// See [`rc`].
    pub code: u8,
    /// More of it.
    pub detail: [u8; 3],
}

impl Rc {
    /// A code without details.
    pub const fn new(code: u8) -> Rc {
        Rc { code, detail: [0; 3] }
    }
}

records! { 16:
    /// What all messages have in common; many responses have nothing else.
    struct Message {
        /// See [`first`].
        first: u8,
        /// See [`cmd`].
        cmd: u8,
        /// The command's own.
        params: [u8; 10],
        /// In responses.
        rc: Rc,
    }
    /// The version that the client offers, and the one it gets.
    struct VersionExchange {
        /// See [`first`].
        first: u8,
        /// [`cmd::VERSION_EXCHANGE`].
        cmd: u8,
        /// Version.
        version: U16,
        /// Reserved.
        reserved: [u8; 8],
        /// In the response.
        rc: Rc,
    }
    /// A capability's value, asked for or requested.
    struct Capability {
        /// See [`first`].
        first: u8,
        /// [`cmd::QUERY_CAPABILITY`], [`cmd::REQUEST_CAPABILITY`].
        cmd: u8,
        /// See [`cap`].
        capability: U16,
        /// Its value.
        number: U64,
        /// In the response.
        rc: Rc,
    }
    /// Where the login buffer is. The response is a [`Message`].
    struct Login {
        /// See [`first`].
        first: u8,
        /// [`cmd::LOGIN`].
        cmd: u8,
        /// Reserved.
        reserved: [u8; 6],
        /// Address of a [`LoginBuffer`].
        ioba: U32,
        /// Its bytes, everything in it included.
        len: U32,
    }
    /// The port.
    struct PhysParms {
        /// See [`first`].
        first: u8,
        /// [`cmd::QUERY_PHYS_PARMS`] and the like.
        cmd: u8,
        /// See [`phys`].
        flags1: u8,
        /// See [`phys`].
        flags2: u8,
        /// See [`speed`].
        speed: U32,
        /// MTU, in bytes.
        mtu: U32,
        /// In the response.
        rc: Rc,
    }
    /// Up, down, or what is it.
    struct LogicalLinkState {
        /// See [`first`].
        first: u8,
        /// [`cmd::LOGICAL_LINK_STATE`].
        cmd: u8,
        /// See [`link`].
        link_state: u8,
        /// Reserved.
        reserved: [u8; 9],
        /// In the response.
        rc: Rc,
    }
    /// Length, then address: [`cmd::QUERY_IP_OFFLOAD`] alone has them so.
    struct LengthAddress {
        /// See [`first`].
        first: u8,
        /// The command.
        cmd: u8,
        /// Reserved.
        reserved: [u8; 2],
        /// Bytes.
        len: U32,
        /// Address.
        ioba: U32,
        /// In the response.
        rc: Rc,
    }
    /// Address, then length.
    struct AddressLength {
        /// See [`first`].
        first: u8,
        /// The command.
        cmd: u8,
        /// Reserved.
        reserved: [u8; 2],
        /// Address.
        ioba: U32,
        /// Bytes.
        len: U32,
        /// In the response.
        rc: Rc,
    }
    /// Where to write [`Statistics`].
    struct RequestStatistics {
        /// See [`first`].
        first: u8,
        /// [`cmd::REQUEST_STATISTICS`].
        cmd: u8,
        /// 0x80: of the physical port.
        flags: u8,
        /// Reserved.
        reserved: u8,
        /// Address.
        ioba: U32,
        /// Bytes.
        len: U32,
        /// In the response.
        rc: Rc,
    }
    /// Something broke.
    struct ErrorIndication {
        /// See [`first`].
        first: u8,
        /// [`cmd::ERROR_INDICATION`].
        cmd: u8,
        /// [`ERROR_FATAL`].
        flags: u8,
        /// Reserved.
        reserved: u8,
        /// Which error.
        error_id: U32,
        /// Bytes of details.
        detail_error_sz: U32,
        /// See [`cause`].
        error_cause: U16,
        /// Reserved.
        reserved2: [u8; 2],
    }
    /// The link has changed.
    struct LinkStateIndication {
        /// See [`first`].
        first: u8,
        /// [`cmd::LINK_STATE_INDICATION`].
        cmd: u8,
        /// Reserved.
        reserved: [u8; 2],
        /// Of the port: see [`link`].
        phys_link_state: u8,
        /// Of the adapter: see [`link`].
        logical_link_state: u8,
        /// Reserved.
        reserved2: [u8; 10],
    }
    /// A station address; the response has the one in force.
    struct ChangeMac {
        /// See [`first`].
        first: u8,
        /// [`cmd::CHANGE_MAC_ADDR`].
        cmd: u8,
        /// Address.
        mac_addr: [u8; 6],
        /// Reserved.
        reserved: [u8; 4],
        /// In the response.
        rc: Rc,
    }
    /// A multicast address to be received or not.
    struct MulticastCtrl {
        /// See [`first`].
        first: u8,
        /// [`cmd::MULTICAST_CTRL`].
        cmd: u8,
        /// Address.
        mac_addr: [u8; 6],
        /// See [`multicast`].
        flags: u8,
        /// Reserved.
        reserved: [u8; 3],
        /// In the response.
        rc: Rc,
    }
    /// How long the vital product data are.
    struct VpdSize {
        /// See [`first`].
        first: u8,
        /// [`cmd::GET_VPD_SIZE`].
        cmd: u8,
        /// Reserved.
        reserved: [u8; 2],
        /// Bytes.
        len: U64,
        /// Return code.
        rc: Rc,
    }
    /// What the client may do has changed.
    struct AclChange {
        /// See [`first`].
        first: u8,
        /// [`cmd::ACL_CHANGE_INDICATION`].
        cmd: u8,
        /// 0 MAC addresses, 1 VLANs.
        change_type: U16,
        /// Reserved.
        reserved: [u8; 12],
    }
    /// Pages that long-term buffers may have.
    struct QueryMap {
        /// See [`first`].
        first: u8,
        /// [`cmd::QUERY_MAP`].
        cmd: u8,
        /// Reserved.
        reserved: u8,
        /// Of a page, log2.
        page_size: u8,
        /// In all.
        tot_pages: U32,
        /// Left.
        free_pages: U32,
        /// Return code.
        rc: Rc,
    }
    /// A long-term buffer.
    struct RequestMap {
        /// See [`first`].
        first: u8,
        /// [`cmd::REQUEST_MAP`], [`cmd::REQUEST_UNMAP`].
        cmd: u8,
        /// Reserved.
        reserved: u8,
        /// The client's choice, 1 to [`MAX_MAP_ID`].
        map_id: u8,
        /// Address.
        ioba: U32,
        /// Bytes.
        len: U32,
        /// In the response.
        rc: Rc,
    }
}

/// Flags of [`PhysParms`].
pub mod phys {
    /// `flags1`: promiscuous.
    pub const PROMISC: u8 = 0x20;
    /// `flags1`: the port's link is up.
    pub const LINK_ACTIVE: u8 = 0x10;
    /// `flags1`: duplex is negotiated.
    pub const AUTONEG_DUPLEX: u8 = 0x08;
    /// `flags1`: full duplex.
    pub const FULL_DUPLEX: u8 = 0x04;
    /// `flags1`: half duplex.
    pub const HALF_DUPLEX: u8 = 0x02;
    /// `flags1`: the client may set them.
    pub const CAN_CHANGE: u8 = 0x01;
    /// `flags2`: the adapter's link is up.
    pub const LOGICAL_LINK_ACTIVE: u8 = 0x80;
}

/// Speeds of [`PhysParms`].
pub mod speed {
    /// Negotiated.
    pub const AUTONEG: u32 = 0x8000_0000;
    /// 10 Mbit/s.
    pub const M10: u32 = 0x4000_0000;
    /// 100 Mbit/s.
    pub const M100: u32 = 0x2000_0000;
    /// 1 Gbit/s.
    pub const G1: u32 = 0x1000_0000;
    /// 10 Gbit/s.
    pub const G10: u32 = 0x0800_0000;
    /// 40 Gbit/s.
    pub const G40: u32 = 0x0400_0000;
    /// 100 Gbit/s.
    pub const G100: u32 = 0x0200_0000;
    /// 25 Gbit/s.
    pub const G25: u32 = 0x0100_0000;
    /// 50 Gbit/s.
    pub const G50: u32 = 0x0080_0000;
    /// 200 Gbit/s.
    pub const G200: u32 = 0x0040_0000;
}

/// States of a link.
pub mod link {
    /// Down.
    pub const DOWN: u8 = 0;
    /// Up.
    pub const UP: u8 = 1;
    /// What is it?
    pub const QUERY: u8 = 0xff;
}

/// [`MulticastCtrl::flags`].
pub mod multicast {
    /// Receive this address.
    pub const ENABLE: u8 = 0x80;
    /// Do not.
    pub const DISABLE: u8 = 0x40;
    /// Receive all.
    pub const ENABLE_ALL: u8 = 0x20;
    /// Receive none.
    pub const DISABLE_ALL: u8 = 0x10;
}

/// [`ErrorIndication::flags`]: the session is lost.
pub const ERROR_FATAL: u8 = 0x80;

/// [`ErrorIndication::error_cause`].
pub mod cause {
    /// The adapter.
    pub const ADAPTER: u16 = 0;
    /// Its bus.
    pub const BUS: u16 = 1;
    /// Its firmware.
    pub const FW: u16 = 2;
    /// The server's driver.
    pub const DRIVER: u16 = 3;
    /// Isolated by EEH.
    pub const EEH: u16 = 4;
    /// Its firmware was updated.
    pub const FW_UPDATED: u16 = 5;
    /// The server is short of memory.
    pub const LOW_MEMORY: u16 = 6;
}

// ---- descriptors ----

/// Types of descriptors sent, byte 1.
pub mod desc {
    /// [`Tx`](super::Tx).
    pub const TX: u8 = 0x10;
    /// [`Hdr`](super::Hdr).
    pub const HDR: u8 = 0x11;
    /// [`HdrExt`](super::HdrExt).
    pub const HDR_EXT: u8 = 0x12;
    /// [`Sge`](super::Sge).
    pub const SGE: u8 = 0x30;
}

/// [`Tx::flags1`] and [`Tx::flags2`].
pub mod tx {
    /// `flags1`: report when it has been sent.
    pub const COMP_NEEDED: u8 = 0x80;
    /// `flags1`: complete the transport checksum.
    pub const CHKSUM_OFFLOAD: u8 = 0x40;
    /// `flags1`: cut into segments.
    pub const LSO: u8 = 0x20;
    /// `flags1`: TCP.
    pub const PROT_TCP: u8 = 0x10;
    /// `flags1`: UDP.
    pub const PROT_UDP: u8 = 0x08;
    /// `flags1`: IPv4.
    pub const PROT_IPV4: u8 = 0x04;
    /// `flags1`: IPv6.
    pub const PROT_IPV6: u8 = 0x02;
    /// `flags1`: the frame has a tag.
    pub const VLAN_PRESENT: u8 = 0x01;
    /// `flags2`: insert [`Tx::vlan_id`](super::Tx::vlan_id).
    pub const VLAN_INSERT: u8 = 0x80;
}

/// [`RxComp::flags`].
pub mod rx {
    /// The IP header's checksum is right.
    pub const IP_CHKSUM_GOOD: u8 = 0x80;
    /// TCP's or UDP's is. A driver trusts it only together with the other.
    pub const TCP_UDP_CHKSUM_GOOD: u8 = 0x40;
    /// The last buffer of the frame.
    pub const END_FRAME: u8 = 0x20;
    /// Multicast, and its address is filtered for.
    pub const EXACT_MC: u8 = 0x10;
    /// A tag was taken out.
    pub const VLAN_STRIPPED: u8 = 0x08;
}

/// Header bytes in a [`Hdr`].
pub const HDR_DATA: usize = 24;
/// Header bytes in a [`HdrExt`].
pub const HDR_EXT_DATA: usize = 29;

records! { 32:
    /// A frame to be sent; `n_crq_elem` - 1 header descriptors follow.
    struct Tx {
        /// [`first::VALID`].
        first: u8,
        /// [`desc::TX`].
        kind: u8,
        /// Descriptors of this frame, this one included.
        n_crq_elem: u8,
        /// Pieces: 1.
        n_sge: u8,
        /// See [`tx`].
        flags1: u8,
        /// See [`tx`].
        flags2: u8,
        /// Payload bytes of a segment.
        mss: U16,
        /// Reserved.
        reserved: [u8; 4],
        /// Comes back as it is in a [`TxComp`].
        correlator: U32,
        /// Tag to insert.
        vlan_id: U16,
        /// Id of the long-term buffer.
        dma_reg: U16,
        /// Bytes of the frame.
        sge_len: U32,
        /// Where it begins: an address inside the long-term buffer.
        ioba: U64,
    }
    /// The first bytes of a frame's headers.
    struct Hdr {
        /// [`first::VALID`].
        first: u8,
        /// [`desc::HDR`].
        kind: u8,
        /// Valid bytes in `data`.
        len: u8,
        /// Bytes of the Ethernet header.
        l2_len: u8,
        /// Bytes of the IP header.
        l3_len: U16,
        /// Bytes of the TCP or UDP header.
        l4_len: u8,
        /// What is here: the byte of [`desc_req`], shifted left by one.
        flag: u8,
        /// The bytes.
        data: [u8; 24],
    }
    /// More of them.
    struct HdrExt {
        /// [`first::VALID`].
        first: u8,
        /// [`desc::HDR_EXT`].
        kind: u8,
        /// Valid bytes in `data`.
        len: u8,
        /// The bytes.
        data: [u8; 29],
    }
    /// Two more pieces of a frame. Linux does not use it.
    struct Sge {
        /// [`first::VALID`].
        first: u8,
        /// [`desc::SGE`].
        kind: u8,
        /// First piece: id of the long-term buffer.
        sge1_dma_reg: U16,
        /// Bytes.
        sge1_len: U32,
        /// Where in the buffer.
        sge1_ioba: U64,
        /// Reserved.
        reserved: U16,
        /// Second piece.
        sge2_dma_reg: U16,
        /// Bytes.
        sge2_len: U32,
        /// Where in the buffer.
        sge2_ioba: U64,
    }
    /// Frames have been sent.
    struct TxComp {
        /// [`first::VALID`].
        first: u8,
        /// How many, 1 to 5.
        num_comps: u8,
        /// What became of each; not 0 is an error.
        rcs: [U16; 5],
        /// Whose they are.
        correlators: [U32; 5],
    }
    /// A frame has arrived.
    struct RxComp {
        /// [`first::VALID`].
        first: u8,
        /// See [`rx`].
        flags: u8,
        /// Where in the buffer it begins.
        off_frame_data: U16,
        /// Bytes.
        len: U32,
        /// The buffer's.
        correlator: U64,
        /// Tag that was taken out.
        vlan_tci: U16,
        /// Not 0: the buffer comes back without a frame.
        rc: U16,
        /// Reserved.
        reserved: [u8; 12],
    }
    /// A buffer to receive into.
    struct RxAdd {
        /// [`first::VALID`].
        first: u8,
        /// Reserved.
        reserved: [u8; 7],
        /// Comes back as it is in a [`RxComp`].
        correlator: U64,
        /// Where it begins: an address inside the long-term buffer.
        ioba: U32,
        /// Id of the long-term buffer.
        map_id: u8,
        /// Bytes, 24 bits.
        len: [u8; 3],
        /// Reserved.
        reserved2: [u8; 8],
    }
}

impl RxAdd {
    /// Bytes of the buffer.
    pub const fn len(&self) -> u32 {
        u32::from_be_bytes([0, self.len[0], self.len[1], self.len[2]])
    }
    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A buffer of `len` bytes, of which 24 bits count.
    pub fn new(correlator: u64, map_id: u8, ioba: u32, len: u32) -> RxAdd {
        let [_, len @ ..] = len.to_be_bytes();
        let zeroed = RxAdd::zeroed();
        RxAdd {
            first: first::VALID,
            correlator: U64::new(correlator),
            ioba: U32::new(ioba),
            map_id,
            len,
            ..zeroed
        }
    }
}

// ---- buffers ----

records! { 40:
    /// What the client logs in with. The arrays and strings it names by offset follow in the same buffer.
    struct LoginBuffer {
        /// Bytes in all.
        len: U32,
        /// 1.
        version: U32,
        /// Transmit completion queues.
        num_txcomp_subcrqs: U32,
        /// Where their numbers are, 64 bits each.
        off_txcomp_subcrqs: U32,
        /// Receive completion queues.
        num_rxcomp_subcrqs: U32,
        /// Where their numbers are.
        off_rxcomp_subcrqs: U32,
        /// Address for the [`LoginResponse`].
        login_rsp_ioba: U32,
        /// Its bytes.
        login_rsp_len: U32,
        /// Where the client's data are: type, length (16 bits), string, and again; type 0 ends them.
        client_data_offset: U32,
        /// Their bytes.
        client_data_len: U32,
    }
}

/// Types of client data.
pub mod client_data {
    /// Operating system.
    pub const OS: u8 = 1;
    /// Host name.
    pub const NODE: u8 = 2;
    /// Interface name.
    pub const NETDEV: u8 = 3;
}

records! { 36:
    /// What the client gets: where to send to.
    struct LoginResponse {
        /// Bytes in all.
        len: U32,
        /// 1.
        version: U32,
        /// Transmit queues.
        num_txsubm_subcrqs: U32,
        /// Where their handles are, 64 bits each.
        off_txsubm_subcrqs: U32,
        /// Buffer queues.
        num_rxadd_subcrqs: U32,
        /// Where their handles are.
        off_rxadd_subcrqs: U32,
        /// Where the sizes of their buffers are, 64 bits each.
        off_rxadd_buff_size: U32,
        /// Versions of transmit descriptors.
        num_supp_tx_desc: U32,
        /// Where they are, a byte each.
        off_supp_tx_desc: U32,
    }
}

records! { 256:
    /// What the server can do.
    struct QueryIpOffload {
        /// Bytes.
        len: U32,
        /// 1.
        version: U32,
        /// Checksums and large sends, in the order of [`offload`].
        can: [u8; 10],
        /// Reserved.
        reserved1: [u8; 14],
        /// Longest IPv4 header.
        max_ipv4_header_size: U16,
        /// Longest IPv6 header.
        max_ipv6_header_size: U16,
        /// Longest TCP header.
        max_tcp_header_size: U16,
        /// Longest UDP header.
        max_udp_header_size: U16,
        /// Longest large send; 0: none.
        max_large_tx_size: U32,
        /// Longest merged frame.
        max_large_rx_size: U32,
        /// Reserved.
        reserved2: [u8; 16],
        /// Extension headers: 0 none, 1 some, 0xff all.
        ipv6_extension_header: u8,
        /// Whether the checksum field has to hold the pseudo-header's sum.
        tcp_pseudosum_req: u8,
        /// Reserved.
        reserved3: [u8; 30],
        /// Known extension headers.
        num_ipv6_ext_headers: U16,
        /// Where they are.
        off_ipv6_ext_headers: U32,
        /// Reserved.
        reserved4: [u8; 154],
    }
    /// What the server counted (Linux's `ibmvnic_statistics`).
    struct Statistics {
        /// Version.
        version: U32,
        /// Promiscuous.
        promiscuous: U32,
        /// Frames received.
        rx_packets: U64,
        /// Their bytes.
        rx_bytes: U64,
        /// Frames sent.
        tx_packets: U64,
        /// Their bytes.
        tx_bytes: U64,
        /// Unicast sent.
        ucast_tx_packets: U64,
        /// Unicast received.
        ucast_rx_packets: U64,
        /// Multicast sent.
        mcast_tx_packets: U64,
        /// Multicast received.
        mcast_rx_packets: U64,
        /// Broadcast sent.
        bcast_tx_packets: U64,
        /// Broadcast received.
        bcast_rx_packets: U64,
        /// Alignment, FCS, collisions, SQE, deferred, late and excess collisions.
        line: [U64; 8],
        /// Not sent by the port's fault.
        internal_mac_tx_errors: U64,
        /// No carrier.
        carrier_sense: U64,
        /// Too long.
        too_long_frames: U64,
        /// Not received by the port's fault.
        internal_mac_rx_errors: U64,
        /// Reserved.
        reserved: [u8; 72],
    }
}

records! { 136:
    /// What the client wants of it.
    struct ControlIpOffload {
        /// Bytes.
        len: U32,
        /// 1.
        version: U32,
        /// The first eight of [`offload`].
        want: [u8; 8],
        /// Frames with bad checksums too.
        bad_packet_rx: u8,
        /// The last two of [`offload`].
        large_rx: [u8; 2],
        /// Reserved.
        reserved: [u8; 117],
    }
}

/// Indices of [`QueryIpOffload::can`] and [`ControlIpOffload::want`].
pub mod offload {
    /// IPv4 header checksum.
    pub const IPV4: usize = 0;
    /// Nothing to sum in IPv6's header; it goes with the others.
    pub const IPV6: usize = 1;
    /// TCP over IPv4.
    pub const TCP4: usize = 2;
    /// TCP over IPv6.
    pub const TCP6: usize = 3;
    /// UDP over IPv4.
    pub const UDP4: usize = 4;
    /// UDP over IPv6.
    pub const UDP6: usize = 5;
    /// Large sends over IPv4.
    pub const LARGE_TX4: usize = 6;
    /// Large sends over IPv6.
    pub const LARGE_TX6: usize = 7;
    /// Merging over IPv4.
    pub const LARGE_RX4: usize = 8;
    /// Merging over IPv6.
    pub const LARGE_RX6: usize = 9;
}

records! { 128:
    /// What the client may use.
    struct AclBuffer {
        /// Bytes.
        len: U32,
        /// 1.
        version: U32,
        /// Station addresses are restricted.
        mac_acls_restrict: u8,
        /// VLANs are.
        vlan_acls_restrict: u8,
        /// Reserved.
        reserved1: [u8; 22],
        /// Addresses allowed.
        num_mac_addrs: U32,
        /// Where they are.
        offset_mac_addrs: U32,
        /// VLANs allowed.
        num_vlan_ids: U32,
        /// Where they are.
        offset_vlan_ids: U32,
        /// Reserved.
        reserved2: [u8; 80],
    }
}

#[cfg(test)]
mod tests;
