//! Configuration of the adapter and of the servers behind it.

use crate::Addresses;
use doorbell_hal::Span;
use doorbell_layout::ibmvnic::{MAX_ENTRIES, MAX_QUEUES, speed};

/// A server, with its backing device: what it grants and what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Most queues of each direction, 1 to 16.
    pub queues: u64,
    /// Fewest and most entries of a queue.
    pub entries: (u64, u64),
    /// Shortest and longest frame, Ethernet header included, FCS and tag not.
    pub mtu: (u64, u64),
    /// Multicast addresses that it filters.
    pub multicast_filters: u64,
    /// Promiscuous reception.
    pub promisc: bool,
    /// Inserts tags.
    pub vlan_insert: bool,
    /// Takes tags out.
    pub vlan_strip: bool,
    /// Checksums and large sends, in the order of [`doorbell_layout::ibmvnic::offload`].
    pub offloads: [bool; 10],
    /// Longest large send; 0: none.
    pub max_large_tx: u32,
    /// Smallest MSS that the adapter behind it cuts; 0: any. A large send with a smaller one
    /// freezes it: nothing leaves until the client is switched to the other server (linux
    /// f10b09ef687f).
    pub min_lso_mss: u16,
    /// Headers that it asks for, byte by byte: [`doorbell_layout::ibmvnic::desc_req`].
    pub desc_req: [u8; 8],
    /// It means it: a packet without them is an adapter error and ends the session. Otherwise
    /// it is over-cautious, parses the frame for itself, and counts.
    pub backing_needs_headers: bool,
    /// Pages of 4 KiB that long-term buffers may have.
    pub map_pages: u32,
    /// The station address cannot be changed.
    pub mac_locked: bool,
    /// Bit of [`speed`].
    pub speed: u32,
    /// Offset of a received frame in its buffer.
    pub rx_offset: u16,
}

impl Server {
    /// A server over a 100-Gbit/s adapter, with headers asked for as PowerVM's do: with checksums
    /// and large sends.
    pub const POWERVM: Server = Server {
        queues: 16,
        entries: (16, 1024),
        mtu: (60, 9014),
        multicast_filters: 32,
        promisc: true,
        vlan_insert: true,
        vlan_strip: true,
        offloads: [true, true, true, true, true, true, true, true, false, false],
        max_large_tx: 65_535,
        min_lso_mss: 0,
        desc_req: [0, 0, 0xf0, 0, 0xf0, 0, 0, 0],
        backing_needs_headers: false,
        map_pages: 64 * 1024,
        mac_locked: false,
        speed: speed::G100,
        rx_offset: 0,
    };

    fn clamped(mut self) -> Server {
        self.queues = self.queues.clamp(1, MAX_QUEUES);
        self.entries.1 = self.entries.1.clamp(1, MAX_ENTRIES);
        self.entries.0 = self.entries.0.clamp(1, self.entries.1);
        self.mtu.1 = self.mtu.1.clamp(60, 65_000);
        self.mtu.0 = self.mtu.0.clamp(14, self.mtu.1);
        self.multicast_filters = self.multicast_filters.min(4096);
        self.max_large_tx = self.max_large_tx.min(256 << 10);
        self.rx_offset = self.rx_offset.min(512);
        self
    }
}

/// The time line behind the calls: what hypervisor and server do one after another, for all
/// clients. The caller does not wait for it; what the caller's own CPU spends in a call is outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serial {
    /// A direct call.
    pub direct: Span,
    /// An indirect call, receive buffers too.
    pub indirect: Span,
    /// Each descriptor.
    pub descriptor: Span,
    /// Each valid byte in header descriptors.
    pub header_byte: Span,
    /// Each frame received.
    pub receive: Span,
}

impl Serial {
    /// A time line without cost.
    pub const FREE: Serial = Serial {
        direct: Span::ZERO,
        indirect: Span::ZERO,
        descriptor: Span::ZERO,
        header_byte: Span::ZERO,
        receive: Span::ZERO,
    };
}

/// Configuration of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The adapter's unit address, as the device tree has it.
    pub unit_address: u64,
    /// Station address of partition 0; each further one's last byte is one more.
    pub mac: [u8; 6],
    /// Rights to addresses. A guest takes one with CHANGE_MAC_ADDR.
    pub addresses: Addresses,
    /// Interrupt of the CRQ.
    pub crq_vector: u16,
    /// Interrupt of sub-CRQ 0; each further one's is one more.
    pub first_vector: u16,
    /// The server that works first, and the one that takes over.
    pub servers: [Server; 2],
    /// The time line behind the calls.
    pub serial: Serial,
    /// From a command's arrival to its execution.
    pub command: Span,
    /// Looking at one page of a long-term buffer.
    pub map_page: Span,
    /// Time of a byte on the wire.
    pub wire_byte: Span,
    /// Lead of fetching frames over the wire.
    pub fetch_ahead: Span,
    /// Time that a transmit completion waits for others, up to five, to share its message.
    pub completion_wait: Span,
    /// From a failover to the other server's first message.
    pub failover: Span,
    /// Number of times that H_FREE_CRQ and H_ENABLE_CRQ answer H_BUSY before they are done.
    pub busy_calls: u32,
}

impl Config {
    /// PowerVM over 100 Gbit/s, calls for nothing.
    pub const POWERVM: Config = Config {
        unit_address: 0x3000_0003,
        mac: [0x52, 0x54, 0x00, 0xfa, 0x00, 0x03],
        addresses: Addresses::Any,
        crq_vector: 0,
        first_vector: 1,
        servers: [Server::POWERVM; 2],
        serial: Serial::FREE,
        command: Span::ZERO,
        map_page: Span::ZERO,
        wire_byte: Span::from_ps(80),
        fetch_ahead: Span::from_us(10),
        completion_wait: Span::ZERO,
        failover: Span::from_ms(1),
        busy_calls: 0,
    };

    /// The same with every value in its range.
    pub(super) fn clamped(mut self) -> Config {
        self.servers = self.servers.map(Server::clamped);
        self.busy_calls = self.busy_calls.min(1000);
        self.first_vector = self.first_vector.min(u16::MAX - 64);
        self
    }
}
