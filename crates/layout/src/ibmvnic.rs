//! IBM virtual NIC (ibmvnic): hypervisor calls, CRQ messages, sub-CRQ descriptors, buffers.
//!
//! A message on the command/response queue (CRQ) has 16 bytes, a descriptor on a sub-CRQ 32. An
//! entry is valid when its byte 0 is not 0; consumers take entries in order and clear them, and
//! there is no producer index. A response is the request with [`RESPONSE`] set in the command byte
//! and a return code in bytes 12 to 15. All is big-endian, on little-endian Linux too. Transmit
//! descriptors are of version 1; no public text has the layout of version 0.
//!
//! Source: Linux's `ibmvnic.h`, `ibmvnic.c` and `hvcall.h` (6.x); PAPR itself is not public.

use crate::Call;
use crate::offload::{Offload, Request, checksum_and};
use doorbell_packet::headers::{Ip, Transport};
use zerocopy::byteorder::big_endian::{U16, U32, U64};

/// The smallest MSS of a large send: some backing adapters take none that is smaller, nor one of a
/// single segment (linux f10b09ef687f, `ibmvnic_features_check`).
pub const MIN_LSO_MSS: u16 = 224;

/// The offloads that a session has negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Checksums and large sends that are on, in the order of [`mod@offload`].
    pub on: [bool; 8],
    /// Most bytes of a large send.
    pub max_large: u32,
    /// Most bytes of a segment with its headers, without a tag.
    pub frame: u32,
}

/// Returns what the server can do for a packet: TCP and UDP without a tunnel, of large sends TCP
/// (ibmvnic.c `send_control_ip_offload`, `ibmvnic_xmit`).
pub fn can(request: &Request<'_>, caps: &Caps) -> Offload {
    let Some(h) = request.plain().filter(|h| h.inner.is_none()) else { return Offload::None };
    let v6 = h.outer.ip == Ip::V6;
    let pick = |v4: usize, six: usize| caps.on[if v6 { six } else { v4 }];
    let (checksum, large) = match h.outer.transport {
        Some(Transport::Tcp) => {
            (pick(offload::TCP4, offload::TCP6), pick(offload::LARGE_TX4, offload::LARGE_TX6))
        }
        Some(Transport::Udp) => (pick(offload::UDP4, offload::UDP6), false),
        None => (false, false),
    };
    let all = checksum_and(request, |gso, payload| {
        let summed = request.todo.checksum.is_some();
        let size = gso.size >= MIN_LSO_MSS && payload > gso.size.into() && summed;
        let segment = u32::from(gso.header) + u32::from(gso.size);
        let tags = u32::from(h.tags) * 4;
        large && size && request.len <= caps.max_large && segment <= caps.frame + tags
    });
    // A large send has its checksums made with it.
    if checksum || all == Offload::All && request.todo.gso.is_some() { all } else { Offload::None }
}

/// The calls of a virtual NIC, in the order of a packet's life.
pub const CALLS: [Call; 11] = calls! {
    hcall::SEND_SUB_CRQ, send_sub_crq, "H_SEND_SUB_CRQ: sends one descriptor, the direct path.";
    hcall::SEND_SUB_CRQ_INDIRECT, send_sub_crq_indirect,
        "H_SEND_SUB_CRQ_INDIRECT: sends an array of descriptors.";
    hcall::VIOCTL, vioctl, "H_VIOCTL: an interrupt on or off, or a session's token.";
    hcall::SEND_CRQ, send_crq, "H_SEND_CRQ: sends a message.";
    hcall::VIO_SIGNAL, vio_signal, "H_VIO_SIGNAL: interrupts of the CRQ on or off.";
    hcall::REG_CRQ, reg_crq, "H_REG_CRQ: registers the CRQ.";
    hcall::FREE_CRQ, free_crq, "H_FREE_CRQ: frees the CRQ.";
    hcall::ENABLE_CRQ, enable_crq, "H_ENABLE_CRQ: enables the CRQ after a migration.";
    hcall::REG_SUB_CRQ, reg_sub_crq, "H_REG_SUB_CRQ: registers a sub-CRQ.";
    hcall::FREE_SUB_CRQ, free_sub_crq, "H_FREE_SUB_CRQ: frees a sub-CRQ.";
    hcall::EOI, eoi, "H_EOI: ends an interrupt.";
};

layout! {
    /// Hypervisor calls; arguments begin with the adapter's unit address.
    mod hcall: u64 {
        /// Ends an interrupt; once, for one that was pending before it was enabled (xirr).
        EOI = 0x64;
        REG_CRQ = 0xfc, "Registers the CRQ (address, bytes).";
        FREE_CRQ = 0x100, "Frees the CRQ, and the sub-CRQs with it.";
        VIO_SIGNAL = 0x104, "Interrupts of the CRQ off (0) or on (1).";
        SEND_CRQ = 0x108, "Sends a message (high, low half).";
        VIOCTL = 0x2a8, "See [`super::vioctl`].";
        ENABLE_CRQ = 0x2b0, "Enables the CRQ again after a migration.";
        REG_SUB_CRQ = 0x2dc, "Registers a sub-CRQ (address, bytes): its number and interrupt.";
        FREE_SUB_CRQ = 0x2e0, "Frees a sub-CRQ (number).";
        SEND_SUB_CRQ = 0x2e4, "Sends one descriptor (handle, four words).";
        SEND_SUB_CRQ_INDIRECT = 0x2e8, "Sends descriptors in memory (handle, address, count).";
    }

    /// Return values of hypervisor calls.
    mod status: i64 {
        SUCCESS = 0, "Done.";
        BUSY = 1, "Try again.";
        /// The partner is not there. From [`super::hcall::REG_CRQ`]: registered, but the partner is
        /// not up.
        CLOSED = 2;
        IN_PROGRESS = 14, "Try again.";
        LONG_BUSY_1_MS = 9900, "Try again in 1 ms; up to 9905, ten times longer each.";
        LONG_BUSY_100_S = 9905, "The last of them, 100 s.";
        HARDWARE = -1, "Failed hardware.";
        FUNCTION = -2, "No such call.";
        PARAMETER = -4, "A bad argument.";
        DROPPED = -12, "Not accepted.";
        RESOURCE = -16, "No room, or in use.";
    }

    /// Functions of [`hcall::VIOCTL`], its second argument.
    mod vioctl: u64 {
        DISABLE_ALL_VIO_INTERRUPTS = 0x0a, "All interrupts of the adapter off.";
        DISABLE_VIO_INTERRUPT = 0x0b, "One interrupt off (its number).";
        ENABLE_VIO_INTERRUPT = 0x0c, "One interrupt on (its number).";
        GET_SESSION_TOKEN = 0x19, "The session's token; another one after a failover.";
        SESSION_ERR_DETECTED = 0x1a, "The client finds the session (token) in error: fail over.";
    }

    const u64 {
        CRQ_BYTES = 4096, "Bytes of the CRQ: a page.";
        SUB_CRQ_BYTES = 4 * 4096, "Bytes of a sub-CRQ as Linux makes it: four pages.";
        MAX_CRQ_BYTES = 65536, "Bytes of the CRQ of a kernel with pages of 64 KiB.";
        MAX_SUB_CRQ_BYTES = 4 * 65536, "Bytes of its sub-CRQs.";
        MESSAGE: usize = 16, "Bytes of a CRQ message.";
        DESCRIPTOR: usize = 32, "Bytes of a sub-CRQ descriptor.";
        MAX_INDIRECT = 16, "Descriptors in one indirect send at the most.";
        MAX_QUEUES = 16, "Queues of a kind at the most.";
        MAX_ENTRIES = 4096, "Entries of a sub-CRQ at the most.";
        MAX_COMPLETIONS: usize = 5, "Correlators in a transmit completion at the most.";
        MAX_MAP_ID: u8 = 254, "Largest id of a long-term buffer; 0 is reserved.";
        MAX_LTB: u32 = 8 << 20, "Bytes of a long-term buffer, as Linux makes them, at the most.";
        VERSION: u16 = 1, "Version of the protocol.";
        /// In a correlator, the driver's: an index into the pool for large sends. Data to the
        /// server.
        TSO_POOL: u32 = 1 << 31;
    }

    /// Byte 0 of an entry.
    mod first: u8 {
        EMPTY = 0x00, "The slot is empty.";
        VALID = 0x80, "A command, a response, a descriptor.";
        HANDSHAKE = 0xc0, "Handshake; byte 1 is [`INIT`] or [`INIT_COMPLETE`].";
        TRANSPORT = 0xff, "Transport event; byte 1 says which, what is neither of two is fatal.";
        INIT = 1, "Handshake: I am here.";
        INIT_COMPLETE = 2, "Handshake: so am I.";
        MIGRATED = 6, "Transport event: the partition has migrated.";
        FAILOVER = 8, "Transport event: another device is behind the adapter.";
    }

    const RESPONSE: u8 = 0x80, "In a command byte: this is the response.";

    /// Commands, byte 1 of a message.
    mod cmd: u8 {
        VERSION_EXCHANGE = 0x01, "[`VersionExchange`](super::VersionExchange).";
        QUERY_CAPABILITY = 0x02, "[`Capability`](super::Capability).";
        REQUEST_CAPABILITY = 0x03, "[`Capability`](super::Capability).";
        LOGIN = 0x04, "[`Login`](super::Login).";
        QUERY_PHYS_PARMS = 0x05, "[`PhysParms`](super::PhysParms).";
        QUERY_PHYS_CAPABILITIES = 0x06, "[`PhysParms`](super::PhysParms): what the port can do.";
        SET_PHYS_PARMS = 0x07, "[`PhysParms`](super::PhysParms).";
        ERROR_INDICATION = 0x08, "[`ErrorIndication`](super::ErrorIndication), from the server.";
        LOGICAL_LINK_STATE = 0x0c, "[`LogicalLinkState`](super::LogicalLinkState).";
        REQUEST_STATISTICS = 0x0d, "[`RequestStatistics`](super::RequestStatistics).";
        /// [`LinkStateIndication`](super::LinkStateIndication), from the server.
        LINK_STATE_INDICATION = 0x12;
        CHANGE_MAC_ADDR = 0x13, "[`ChangeMac`](super::ChangeMac).";
        MULTICAST_CTRL = 0x14, "[`MulticastCtrl`](super::MulticastCtrl).";
        GET_VPD_SIZE = 0x15, "Response: [`VpdSize`](super::VpdSize).";
        GET_VPD = 0x16, "[`AddressLength`](super::AddressLength).";
        /// [`LengthAddress`](super::LengthAddress): the other way round than the next.
        QUERY_IP_OFFLOAD = 0x18;
        CONTROL_IP_OFFLOAD = 0x19, "[`AddressLength`](super::AddressLength).";
        ACL_CHANGE_INDICATION = 0x1a, "[`AclChange`](super::AclChange), from the server.";
        ACL_QUERY = 0x1b, "[`AddressLength`](super::AddressLength).";
        QUERY_MAP = 0x1d, "Response: [`QueryMap`](super::QueryMap).";
        REQUEST_MAP = 0x1e, "[`RequestMap`](super::RequestMap).";
        REQUEST_UNMAP = 0x1f, "[`RequestMap`](super::RequestMap), of which the id counts.";
        VLAN_CTRL = 0x20, "Linux does not use it.";
    }

    /// Return codes of responses, byte 12.
    mod rc: u8 {
        SUCCESS = 0, "Done.";
        PARTIAL_SUCCESS = 1, "Not as asked; the response says what can be had.";
        PERMISSION = 2, "Not allowed.";
        NO_MEMORY = 3, "No room.";
        PARAMETER = 4, "A bad value.";
        UNKNOWN_COMMAND = 5, "No such command.";
        ABORTED = 6, "Given up.";
        INVALID_STATE = 7, "Not now.";
        INVALID_IOBA = 8, "The address cannot be reached.";
        INVALID_LENGTH = 9, "A bad length.";
        UNSUPPORTED_OPTION = 10, "Not offered.";
    }

    /// Capabilities. MTUs count the 14 bytes of the Ethernet header.
    mod cap: u16 {
        MIN_TX_QUEUES = 1, "Fewest transmit queues.";
        MIN_RX_QUEUES = 2, "Fewest receive queues.";
        MIN_RX_ADD_QUEUES = 3, "Fewest buffer queues of each receive queue.";
        MAX_TX_QUEUES = 4, "Most transmit queues.";
        MAX_RX_QUEUES = 5, "Most receive queues.";
        MAX_RX_ADD_QUEUES = 6, "Most buffer queues of each receive queue.";
        REQ_TX_QUEUES = 7, "Transmit queues wanted.";
        REQ_RX_QUEUES = 8, "Receive queues wanted.";
        REQ_RX_ADD_QUEUES = 9, "Buffer queues of each receive queue wanted.";
        MIN_TX_ENTRIES = 10, "Fewest entries of a transmit queue.";
        MIN_RX_ADD_ENTRIES = 11, "Fewest entries of a buffer queue.";
        MAX_TX_ENTRIES = 12, "Most entries of a transmit queue.";
        MAX_RX_ADD_ENTRIES = 13, "Most entries of a buffer queue.";
        REQ_TX_ENTRIES = 14, "Entries of a transmit queue wanted.";
        REQ_RX_ADD_ENTRIES = 15, "Entries of a buffer queue wanted.";
        TCP_IP_OFFLOAD = 16, "There is an IP offload to be asked about.";
        PROMISC_REQUESTED = 17, "Promiscuous reception wanted.";
        PROMISC_SUPPORTED = 18, "Promiscuous reception can be had.";
        MIN_MTU = 19, "Shortest frame.";
        MAX_MTU = 20, "Longest MTU.";
        REQ_MTU = 21, "MTU wanted.";
        MAX_MULTICAST_FILTERS = 22, "Multicast addresses that can be filtered.";
        VLAN_HEADER_INSERTION = 23, "The server inserts VLAN tags.";
        RX_VLAN_HEADER_INSERTION = 24, "The server takes VLAN tags out.";
        MAX_TX_SG_ENTRIES = 25, "Most pieces of a transmitted frame.";
        RX_SG_SUPPORTED = 26, "A received frame may lie in several buffers.";
        RX_SG_REQUESTED = 27, "Scattered receive frames wanted.";
        OPT_TX_COMP_QUEUES = 28, "Best number of transmit completion queues.";
        OPT_RX_COMP_QUEUES = 29, "Best number of receive completion queues.";
        OPT_RX_BUFADD_QUEUES = 30, "Best number of buffer queues.";
        OPT_TX_ENTRIES = 31, "Best number of entries of a transmit queue.";
        OPT_RXBA_ENTRIES = 32, "Best number of entries of a buffer queue.";
        TX_RX_DESC_REQ = 33, "Headers that the server wants: see [`desc_req`](super::desc_req).";
        /// Capabilities that Linux queries, in its order.
        QUERIES: [u16; 25] = [
            1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 16, 18, 19, 20, 22, 23, 24, 25, 26, 28, 29, 30, 31,
            32, 33,
        ];
        /// Capabilities that Linux requests, in its order. It omits the last where the server would
        /// refuse it.
        REQUESTS: [u16; 7] = [7, 8, 9, 14, 15, 21, 17];
    }

    /// [`cap::TX_RX_DESC_REQ`]: eight bytes in the order of the wire, never a number. Each says
    /// which headers go with a kind of packet.
    mod desc_req: u8 {
        PLAIN: usize = 0, "The byte for packets with nothing to be done.";
        CHECKSUM: usize = 2, "The byte for packets whose checksum is left to the server.";
        LSO: usize = 4, "The byte for large sends.";
        WANTED = 0x80, "Headers are wanted at all.";
        L2 = 0x40, "Ethernet header.";
        L3 = 0x20, "IP header.";
        L4 = 0x10, "TCP or UDP header.";
    }
}

// ---- messages ----

layout! {
    /// A return code: the code, then details.
    struct Rc[4] {
        code: u8, "See [`rc`].";
        detail: [u8; 3], "Details.";
    }
}

impl Rc {
    /// A code without details.
    pub const fn new(code: u8) -> Rc {
        Rc { code, detail: [0; 3] }
    }
}

/// Declares messages: byte 0 and the command, then the fields of each.
macro_rules! messages {
    ($($(#[$a:meta])* $T:ident { $($fields:tt)* })*) => {
        layout! {$(
            $(#[$a])*
            struct $T[16] {
                first: u8, "See [`first`].";
                cmd: u8, "See [`cmd`].";
                $($fields)*
            }
        )*}
    };
}

messages! {
    /// Fields common to all messages. Many responses have no others.
    Message {
        params: [u8; 10], "The command's own.";
        rc: Rc, "In responses.";
    }
    /// The version that the client offers, and the one it gets.
    VersionExchange {
        version: U16, "Version.";
        reserved: [u8; 8], "Reserved.";
        rc: Rc, "In the response.";
    }
    /// A capability's value, asked for or requested.
    Capability {
        capability: U16, "See [`cap`].";
        number: U64, "Its value.";
        rc: Rc, "In the response.";
    }
    /// Address of the login buffer. The response is a [`Message`].
    Login {
        reserved: [u8; 6], "Reserved.";
        ioba: U32, "Address of a [`LoginBuffer`].";
        len: U32, "Its bytes, everything in it included.";
    }
    /// The port.
    PhysParms {
        flags1: u8, "See [`phys`].";
        flags2: u8, "See [`phys`].";
        speed: U32, "See [`speed`].";
        mtu: U32, "MTU, in bytes.";
        rc: Rc, "In the response.";
    }
    /// Up, down, or what is it.
    LogicalLinkState {
        link_state: u8, "See [`link`].";
        reserved: [u8; 9], "Reserved.";
        rc: Rc, "In the response.";
    }
    /// Length, then address: [`cmd::QUERY_IP_OFFLOAD`] alone has them so.
    LengthAddress {
        reserved: [u8; 2], "Reserved.";
        len: U32, "Bytes.";
        ioba: U32, "Address.";
        rc: Rc, "In the response.";
    }
    /// Address, then length.
    AddressLength {
        reserved: [u8; 2], "Reserved.";
        ioba: U32, "Address.";
        len: U32, "Bytes.";
        rc: Rc, "In the response.";
    }
    /// Asks for [`Statistics`] at an address.
    RequestStatistics {
        flags: u8, "0x80: of the physical port.";
        reserved: u8, "Reserved.";
        ioba: U32, "Address.";
        len: U32, "Bytes.";
        rc: Rc, "In the response.";
    }
    /// Something broke.
    ErrorIndication {
        flags: u8, "[`ERROR_FATAL`].";
        reserved: u8, "Reserved.";
        error_id: U32, "Number of the error.";
        detail_error_sz: U32, "Bytes of details.";
        error_cause: U16, "See [`cause`].";
        reserved2: [u8; 2], "Reserved.";
    }
    /// The link has changed.
    LinkStateIndication {
        reserved: [u8; 2], "Reserved.";
        phys_link_state: u8, "Of the port: see [`link`].";
        logical_link_state: u8, "Of the adapter: see [`link`].";
        reserved2: [u8; 10], "Reserved.";
    }
    /// A station address; the response has the one in force.
    ChangeMac {
        mac_addr: [u8; 6], "Address.";
        reserved: [u8; 4], "Reserved.";
        rc: Rc, "In the response.";
    }
    /// A multicast address to be received or not.
    MulticastCtrl {
        mac_addr: [u8; 6], "Address.";
        flags: u8, "See [`multicast`].";
        reserved: [u8; 3], "Reserved.";
        rc: Rc, "In the response.";
    }
    /// Length of the vital product data.
    VpdSize {
        reserved: [u8; 2], "Reserved.";
        len: U64, "Bytes.";
        rc: Rc, "Return code.";
    }
    /// The client's permissions have changed.
    AclChange {
        change_type: U16, "0 MAC addresses, 1 VLANs.";
        reserved: [u8; 12], "Reserved.";
    }
    /// Pages that long-term buffers may have.
    QueryMap {
        reserved: u8, "Reserved.";
        page_size: u8, "Of a page, log2.";
        tot_pages: U32, "In all.";
        free_pages: U32, "Left.";
        rc: Rc, "Return code.";
    }
    /// A long-term buffer.
    RequestMap {
        reserved: u8, "Reserved.";
        map_id: u8, "The client's choice, 1 to [`MAX_MAP_ID`].";
        ioba: U32, "Address.";
        len: U32, "Bytes.";
        rc: Rc, "In the response.";
    }
}

layout! {
    /// Flags of [`PhysParms`].
    mod phys: u8 {
        PROMISC = 0x20, "`flags1`: promiscuous.";
        LINK_ACTIVE = 0x10, "`flags1`: the port's link is up.";
        AUTONEG_DUPLEX = 0x08, "`flags1`: duplex is negotiated.";
        FULL_DUPLEX = 0x04, "`flags1`: full duplex.";
        HALF_DUPLEX = 0x02, "`flags1`: half duplex.";
        CAN_CHANGE = 0x01, "`flags1`: the client may set them.";
        LOGICAL_LINK_ACTIVE = 0x80, "`flags2`: the adapter's link is up.";
    }

    /// Speeds of [`PhysParms`].
    mod speed: u32 {
        AUTONEG = 0x8000_0000, "Negotiated.";
        M10 = 0x4000_0000, "10 Mbit/s.";
        M100 = 0x2000_0000, "100 Mbit/s.";
        G1 = 0x1000_0000, "1 Gbit/s.";
        G10 = 0x0800_0000, "10 Gbit/s.";
        G40 = 0x0400_0000, "40 Gbit/s.";
        G100 = 0x0200_0000, "100 Gbit/s.";
        G25 = 0x0100_0000, "25 Gbit/s.";
        G50 = 0x0080_0000, "50 Gbit/s.";
        G200 = 0x0040_0000, "200 Gbit/s.";
    }

    /// States of a link.
    mod link: u8 {
        DOWN = 0, "Down.";
        UP = 1, "Up.";
        QUERY = 0xff, "Asks for the state.";
    }

    /// [`MulticastCtrl::flags`].
    mod multicast: u8 {
        ENABLE = 0x80, "Receive this address.";
        DISABLE = 0x40, "Do not.";
        ENABLE_ALL = 0x20, "Receive all.";
        DISABLE_ALL = 0x10, "Receive none.";
    }

    const ERROR_FATAL: u8 = 0x80, "[`ErrorIndication::flags`]: the session is lost.";

    /// [`ErrorIndication::error_cause`].
    mod cause: u16 {
        ADAPTER = 0, "The adapter.";
        BUS = 1, "Its bus.";
        FW = 2, "Its firmware.";
        DRIVER = 3, "The server's driver.";
        EEH = 4, "Isolated by EEH.";
        FW_UPDATED = 5, "Its firmware was updated.";
        LOW_MEMORY = 6, "The server is short of memory.";
    }
}

// ---- descriptors ----

layout! {
    /// Types of descriptors sent, byte 1.
    mod desc: u8 {
        TX = 0x10, "[`Tx`](super::Tx).";
        HDR = 0x11, "[`Hdr`](super::Hdr).";
        HDR_EXT = 0x12, "[`HdrExt`](super::HdrExt).";
        SGE = 0x30, "[`Sge`](super::Sge).";
    }

    /// [`Tx::flags1`] and [`Tx::flags2`].
    mod tx: u8 {
        COMP_NEEDED = 0x80, "`flags1`: report when it has been sent.";
        CHKSUM_OFFLOAD = 0x40, "`flags1`: complete the transport checksum.";
        LSO = 0x20, "`flags1`: cut into segments.";
        PROT_TCP = 0x10, "`flags1`: TCP.";
        PROT_UDP = 0x08, "`flags1`: UDP.";
        PROT_IPV4 = 0x04, "`flags1`: IPv4.";
        PROT_IPV6 = 0x02, "`flags1`: IPv6.";
        VLAN_PRESENT = 0x01, "`flags1`: the frame has a tag.";
        VLAN_INSERT = 0x80, "`flags2`: insert [`Tx::vlan_id`](super::Tx::vlan_id).";
    }

    /// [`RxComp::flags`].
    mod rx: u8 {
        IP_CHKSUM_GOOD = 0x80, "The IP header's checksum is right.";
        /// TCP's or UDP's is. A driver trusts it only together with the other.
        TCP_UDP_CHKSUM_GOOD = 0x40;
        END_FRAME = 0x20, "The last buffer of the frame.";
        EXACT_MC = 0x10, "Multicast, and its address is filtered for.";
        VLAN_STRIPPED = 0x08, "A tag was taken out.";
    }

    const usize {
        HDR_DATA = 24, "Header bytes in a [`Hdr`].";
        HDR_EXT_DATA = 29, "Header bytes in a [`HdrExt`].";
    }

    /// A frame to be sent; `n_crq_elem` - 1 header descriptors follow.
    struct Tx[32] {
        first: u8, "[`first::VALID`].";
        kind: u8, "[`desc::TX`].";
        n_crq_elem: u8, "Descriptors of this frame, this one included.";
        n_sge: u8, "Pieces: 1.";
        flags1: u8, "See [`tx`].";
        flags2: u8, "See [`tx`].";
        mss: U16, "Payload bytes of a segment.";
        reserved: [u8; 4], "Reserved.";
        correlator: U32, "Comes back as it is in a [`TxComp`].";
        vlan_id: U16, "Tag to insert.";
        dma_reg: U16, "Id of the long-term buffer.";
        sge_len: U32, "Bytes of the frame.";
        ioba: U64, "First byte: an address inside the long-term buffer.";
    }
    /// The first bytes of a frame's headers.
    struct Hdr[32] {
        first: u8, "[`first::VALID`].";
        kind: u8, "[`desc::HDR`].";
        len: u8, "Valid bytes in `data`.";
        l2_len: u8, "Bytes of the Ethernet header.";
        l3_len: U16, "Bytes of the IP header.";
        l4_len: u8, "Bytes of the TCP or UDP header.";
        flag: u8, "Headers in `data`: the byte of [`desc_req`], shifted left by one.";
        data: [u8; 24], "The bytes.";
    }
    /// More of them.
    struct HdrExt[32] {
        first: u8, "[`first::VALID`].";
        kind: u8, "[`desc::HDR_EXT`].";
        len: u8, "Valid bytes in `data`.";
        data: [u8; 29], "The bytes.";
    }
    /// Two more pieces of a frame. Linux does not use it.
    struct Sge[32] {
        first: u8, "[`first::VALID`].";
        kind: u8, "[`desc::SGE`].";
        sge1_dma_reg: U16, "First piece: id of the long-term buffer.";
        sge1_len: U32, "Bytes.";
        sge1_ioba: U64, "Address in the buffer.";
        reserved: U16, "Reserved.";
        sge2_dma_reg: U16, "Second piece.";
        sge2_len: U32, "Bytes.";
        sge2_ioba: U64, "Address in the buffer.";
    }
    /// Frames have been sent.
    struct TxComp[32] {
        first: u8, "[`first::VALID`].";
        num_comps: u8, "Completions in it, 1 to 5.";
        rcs: [U16; 5], "Result of each; not 0 is an error.";
        correlators: [U32; 5], "Whose they are.";
    }
    /// A frame has arrived.
    struct RxComp[32] {
        first: u8, "[`first::VALID`].";
        flags: u8, "See [`rx`].";
        off_frame_data: U16, "Offset of the frame in the buffer.";
        len: U32, "Bytes.";
        correlator: U64, "The buffer's.";
        vlan_tci: U16, "Tag that was taken out.";
        rc: U16, "Not 0: the buffer comes back without a frame.";
        reserved: [u8; 12], "Reserved.";
    }
    /// A buffer to receive into.
    struct RxAdd[32] {
        first: u8, "[`first::VALID`].";
        reserved: [u8; 7], "Reserved.";
        correlator: U64, "Comes back as it is in a [`RxComp`].";
        ioba: U32, "First byte: an address inside the long-term buffer.";
        map_id: u8, "Id of the long-term buffer.";
        len: [u8; 3], "Bytes, 24 bits.";
        reserved2: [u8; 8], "Reserved.";
    }
}

impl RxAdd {
    /// Bytes of the buffer.
    pub const fn len(&self) -> u32 {
        u32::from_be_bytes([0, self.len[0], self.len[1], self.len[2]])
    }
    /// Returns true if it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A buffer of `len` bytes, of which 24 bits count.
    pub fn new(correlator: u64, map_id: u8, ioba: u32, len: u32) -> RxAdd {
        let [_, len @ ..] = len.to_be_bytes();
        let zeroed = RxAdd::default();
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

/// Returns true if a queue takes this array: of receive buffers, or else of frames.
pub fn well_formed(entries: &[[u8; DESCRIPTOR]], buffers: bool) -> bool {
    if buffers {
        return entries.iter().all(|e| e[0] == first::VALID);
    }
    let mut rest = entries;
    while let Some(&d) = rest.first() {
        let d = Tx::of(d);
        let n = usize::from(d.n_crq_elem);
        let sized = (1..=rest.len()).contains(&n);
        if d.first != first::VALID || d.kind != desc::TX || !sized || !are_headers(&rest[1..n]) {
            return false;
        }
        rest = &rest[n..];
    }
    true
}

/// Returns true if the descriptors behind a transmit descriptor can be header descriptors.
pub fn are_headers(entries: &[[u8; DESCRIPTOR]]) -> bool {
    let Some((head, more)) = entries.split_first() else { return true };
    let h = Hdr::of(*head);
    let next = |e: &[u8; DESCRIPTOR]| {
        let x = HdrExt::of(*e);
        x.first == first::VALID && x.kind == desc::HDR_EXT && usize::from(x.len) <= HDR_EXT_DATA
    };
    h.first == first::VALID
        && h.kind == desc::HDR
        && usize::from(h.len) <= HDR_DATA
        && more.iter().all(next)
}

/// Header bytes that go with a frame (ibmvnic.c `get_hdr_lens`, `create_hdr_descs`).
///
/// The selected lengths are added up, and so many bytes from the frame's first on are sent. A
/// selection without L2 thus sends L2's bytes and cuts L4's, as Linux does.
pub mod headers {
    use super::desc_req;

    /// Returns the lengths of Ethernet, IP and transport header of the frame that begins with `b`:
    /// Ethernet 14, or 18 with a tag; IPv4 by its IHL, IPv6 40, ARP 28; TCP by its data offset, UDP
    /// 8.
    pub fn lengths(b: &[u8]) -> [usize; 3] {
        let at = |i: usize| b.get(i).copied().unwrap_or(0);
        let l2 = if (at(12), at(13)) == (0x81, 0x00) { 18 } else { 14 };
        let (l3, protocol) = match (at(l2 - 2), at(l2 - 1)) {
            (0x08, 0x00) => (usize::from(at(l2) & 0xf) * 4, at(l2 + 9)),
            (0x86, 0xdd) => (40, at(l2 + 6)),
            (0x08, 0x06) => (28, 0),
            _ => (0, 0),
        };
        let l4 = match protocol {
            6 => usize::from(at(l2 + l3 + 12) >> 4) * 4,
            17 => 8,
            _ => 0,
        };
        [l2, l3, l4]
    }

    /// Returns the header bytes that `wanted`, a byte of [`desc_req`], selects; `None` if it asks
    /// for no descriptors.
    pub fn selected(wanted: u8, [l2, l3, l4]: [usize; 3]) -> Option<usize> {
        let part = |bit, len| if wanted & bit != 0 { len } else { 0 };
        let sum = part(desc_req::L2, l2) + part(desc_req::L3, l3) + part(desc_req::L4, l4);
        (wanted & desc_req::WANTED != 0).then_some(sum)
    }
}

// ---- buffers ----

layout! {
    /// The client's login. The arrays and strings that it names by offset follow in the same
    /// buffer.
    struct LoginBuffer[40] {
        len: U32, "Bytes in all.";
        version: U32, "1.";
        num_txcomp_subcrqs: U32, "Transmit completion queues.";
        off_txcomp_subcrqs: U32, "Offset of their numbers, 64 bits each.";
        num_rxcomp_subcrqs: U32, "Receive completion queues.";
        off_rxcomp_subcrqs: U32, "Offset of their numbers.";
        login_rsp_ioba: U32, "Address for the [`LoginResponse`].";
        login_rsp_len: U32, "Its bytes.";
        /// Offset of the client's data: type, length (16 bits), string, and again. Type 0 ends
        /// them.
        client_data_offset: U32;
        client_data_len: U32, "Their bytes.";
    }

    /// Types of client data.
    mod client_data: u8 {
        OS = 1, "Operating system.";
        NODE = 2, "Host name.";
        NETDEV = 3, "Interface name.";
    }

    /// The server's answer: handles of the queues to send to.
    struct LoginResponse[36] {
        len: U32, "Bytes in all.";
        version: U32, "1.";
        num_txsubm_subcrqs: U32, "Transmit queues.";
        off_txsubm_subcrqs: U32, "Offset of their handles, 64 bits each.";
        num_rxadd_subcrqs: U32, "Buffer queues.";
        off_rxadd_subcrqs: U32, "Offset of their handles.";
        off_rxadd_buff_size: U32, "Offset of the sizes of their buffers, 64 bits each.";
        num_supp_tx_desc: U32, "Versions of transmit descriptors.";
        off_supp_tx_desc: U32, "Their offset, a byte each.";
    }

    /// Offloads that the server has.
    struct QueryIpOffload[256] {
        len: U32, "Bytes.";
        version: U32, "1.";
        can: [u8; 10], "Checksums and large sends, in the order of [`offload`].";
        reserved1: [u8; 14], "Reserved.";
        max_ipv4_header_size: U16, "Longest IPv4 header.";
        max_ipv6_header_size: U16, "Longest IPv6 header.";
        max_tcp_header_size: U16, "Longest TCP header.";
        max_udp_header_size: U16, "Longest UDP header.";
        max_large_tx_size: U32, "Longest large send; 0: none.";
        max_large_rx_size: U32, "Longest merged frame.";
        reserved2: [u8; 16], "Reserved.";
        ipv6_extension_header: u8, "Extension headers: 0 none, 1 some, 0xff all.";
        tcp_pseudosum_req: u8, "The checksum field has to hold the pseudo-header's sum.";
        reserved3: [u8; 30], "Reserved.";
        num_ipv6_ext_headers: U16, "Known extension headers.";
        off_ipv6_ext_headers: U32, "Their offset.";
        reserved4: [u8; 154], "Reserved.";
    }
    /// Counters of the server (Linux's `ibmvnic_statistics`).
    struct Statistics[256] {
        version: U32, "Version.";
        promiscuous: U32, "Promiscuous.";
        rx_packets: U64, "Frames received.";
        rx_bytes: U64, "Their bytes.";
        tx_packets: U64, "Frames sent.";
        tx_bytes: U64, "Their bytes.";
        ucast_tx_packets: U64, "Unicast sent.";
        ucast_rx_packets: U64, "Unicast received.";
        mcast_tx_packets: U64, "Multicast sent.";
        mcast_rx_packets: U64, "Multicast received.";
        bcast_tx_packets: U64, "Broadcast sent.";
        bcast_rx_packets: U64, "Broadcast received.";
        line: [U64; 8], "Alignment, FCS, collisions, SQE, deferred, late and excess collisions.";
        internal_mac_tx_errors: U64, "Not sent by the port's fault.";
        carrier_sense: U64, "No carrier.";
        too_long_frames: U64, "Too long.";
        internal_mac_rx_errors: U64, "Not received by the port's fault.";
        reserved: [u8; 72], "Reserved.";
    }

    /// Offloads that the client switches on.
    struct ControlIpOffload[136] {
        len: U32, "Bytes.";
        version: U32, "1.";
        want: [u8; 8], "The first eight of [`offload`].";
        bad_packet_rx: u8, "Frames with bad checksums too.";
        large_rx: [u8; 2], "The last two of [`offload`].";
        reserved: [u8; 117], "Reserved.";
    }

    /// Indices of [`QueryIpOffload::can`] and [`ControlIpOffload::want`].
    mod offload: usize {
        IPV4 = 0, "IPv4 header checksum.";
        IPV6 = 1, "Nothing to sum in IPv6's header; it goes with the others.";
        TCP4 = 2, "TCP over IPv4.";
        TCP6 = 3, "TCP over IPv6.";
        UDP4 = 4, "UDP over IPv4.";
        UDP6 = 5, "UDP over IPv6.";
        LARGE_TX4 = 6, "Large sends over IPv4.";
        LARGE_TX6 = 7, "Large sends over IPv6.";
        LARGE_RX4 = 8, "Merging over IPv4.";
        LARGE_RX6 = 9, "Merging over IPv6.";
    }

    /// Addresses and VLANs that the client may use.
    struct AclBuffer[128] {
        len: U32, "Bytes.";
        version: U32, "1.";
        mac_acls_restrict: u8, "Station addresses are restricted.";
        vlan_acls_restrict: u8, "VLANs are.";
        reserved1: [u8; 22], "Reserved.";
        num_mac_addrs: U32, "Addresses allowed.";
        offset_mac_addrs: U32, "Their offset.";
        num_vlan_ids: U32, "VLANs allowed.";
        offset_vlan_ids: U32, "Their offset.";
        reserved2: [u8; 80], "Reserved.";
    }
}

#[cfg(test)]
mod tests;
