//! Configuration: the adapter's properties from the device tree, and the user's choices.

use crate::{Opened, check};
use doorbell_hal::Span;
use doorbell_layout::ibmvnic::{MAX_ENTRIES, MAX_QUEUES};

/// The rule for sending a packet by H_SEND_SUB_CRQ: one descriptor in registers, without room for
/// headers. All rules require that nothing is batched, that no more is coming, and that the packet
/// is not a large send. The first four are Linux's, in historical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// Never (before 6.12).
    Never,
    /// Always. A checksum is left to the server without the headers that it requested, which works
    /// with servers that do not need them (74839f7a8268).
    IgnoreHeaders,
    /// With the checksum completed by the driver, so that its headers are not due (e633e32b60fd).
    /// Requests for the headers of plain packets are ignored.
    SoftwareChecksum,
    /// As `SoftwareChecksum`, if the server's request byte for plain packets is 0 (de390657b5d6).
    /// As in Linux, layers without the bit that requests them forbid it too.
    Inspect,
    /// Honours the server's requests, and takes the cheaper way by measurement; see
    /// [`super::Ibmvnic::break_even`].
    Adaptive,
}

/// The rule for posting receive buffers in a poll. Opening always fills the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replenish {
    /// All missing buffers, when the server has less than half of the pool (Linux since 6.12).
    BelowHalf,
    /// The same, and also when a poll has budget left (Linux before 6.12).
    EachPoll,
    /// Whole arrays of sixteen; a remainder only below half of the pool. Not a rule of Linux.
    WholeArrays,
}

/// The configuration of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Unit address (`reg`).
    pub unit: u64,
    /// MAC address (`local-mac-address`).
    pub mac: [u8; 6],
    /// The CRQ's interrupt; the hypervisor assigns those of the sub-CRQs.
    pub crq_vector: u16,
    /// Longest IP datagram, 68 to 9000 with most servers; the server may grant less.
    pub mtu: u32,
    /// Queue pairs wanted, 1 to 16; the server may grant fewer.
    pub queues: u64,
    /// Entries of each transmit queue wanted.
    pub tx_entries: u64,
    /// Entries of each receive queue wanted.
    pub rx_entries: u64,
    /// Buffers for large sends of each transmit queue, 64 KiB each.
    pub tso_buffers: u32,
    /// Leave checksums to the server, as far as it can.
    pub checksum: bool,
    /// Leave large sends to the server.
    pub large_send: bool,
    /// Receive all frames.
    pub promisc: bool,
    /// Rule for direct sends.
    pub direct: Direct,
    /// Rule for posting receive buffers.
    pub replenish: Replenish,
    /// The stack limits the bytes in a transmit queue (BQL).
    pub bql: bool,
    /// Limit for the answer to INIT.
    pub init_timeout: Span,
    /// Limit for the response to another command.
    pub command_timeout: Span,
}

impl Config {
    /// Linux's defaults.
    pub const fn new(unit: u64, mac: [u8; 6]) -> Config {
        Config {
            unit,
            mac,
            crq_vector: 0,
            mtu: 1500,
            queues: 1,
            tx_entries: 512,
            rx_entries: 512,
            tso_buffers: 64,
            checksum: true,
            large_send: true,
            promisc: false,
            direct: Direct::Inspect,
            replenish: Replenish::BelowHalf,
            bql: true,
            init_timeout: Span::from_ms(20_000),
            command_timeout: Span::from_ms(10_000),
        }
    }
    pub(super) fn check(&self) -> Opened {
        check((1..=MAX_QUEUES).contains(&self.queues), "queues: 1 to 16")?;
        check((1..=MAX_ENTRIES).contains(&self.tx_entries), "tx_entries: 1 to 4096")?;
        check((1..=MAX_ENTRIES).contains(&self.rx_entries), "rx_entries: 1 to 4096")?;
        check((1..=128).contains(&self.tso_buffers), "tso_buffers: 1 to 128")?;
        check((68..=64_000).contains(&self.mtu), "mtu: 68 to 64000")
    }
}
