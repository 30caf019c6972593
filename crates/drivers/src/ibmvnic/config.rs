//! How the driver is set up: what the device tree says of the adapter, and what a user may
//! choose.

use doorbell_hal::{OutOfMemory, Span};
use doorbell_layout::ibmvnic::{MAX_ENTRIES, MAX_QUEUES};

/// When a packet goes by H_SEND_SUB_CRQ: one descriptor in registers, and no room for headers.
/// All of them ask that nothing is batched, that no more is coming, and that the packet is
/// no large send. The first four are Linux's, in the order of its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// Never (before 6.12).
    Never,
    /// Always then. A checksum is left to the server without the headers that it asked for: it
    /// works where the server is over-cautious (74839f7a8268).
    IgnoreHeaders,
    /// The checksum is made here first, and then no headers are due (e633e32b60fd). Whether
    /// plain packets want headers is not looked at.
    SoftwareChecksum,
    /// As before, if the server's byte for plain packets is 0 (de390657b5d6). A byte that names
    /// header layers without the bit that asks for them forbids it too, as in Linux.
    Inspect,
    /// What the server asked for is honoured, and of what that leaves the cheaper is taken, as it
    /// is measured: see [`super::Ibmvnic::break_even`].
    Adaptive,
}

impl Direct {
    /// All of them, in their order.
    pub const ALL: [Direct; 5] = [
        Direct::Never,
        Direct::IgnoreHeaders,
        Direct::SoftwareChecksum,
        Direct::Inspect,
        Direct::Adaptive,
    ];

    /// Its name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Direct::Never => "never",
            Direct::IgnoreHeaders => "ignore_headers",
            Direct::SoftwareChecksum => "software_checksum",
            Direct::Inspect => "inspect",
            Direct::Adaptive => "adaptive",
        }
    }
}

/// When a poll gives the server receive buffers. Opening fills the pool in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replenish {
    /// When the server has less than half of the pool: all that are missing (Linux since 6.12).
    BelowHalf,
    /// When a poll has not used its budget up, too: all that are missing (Linux before 6.12).
    EachPoll,
    /// When sixteen are missing, in whole arrays; a rest only below half of the pool. Not a rule of
    /// Linux.
    WholeArrays,
}

impl Replenish {
    /// All of them, the default first.
    pub const ALL: [Replenish; 3] =
        [Replenish::BelowHalf, Replenish::EachPoll, Replenish::WholeArrays];

    /// Its name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Replenish::BelowHalf => "below_half",
            Replenish::EachPoll => "each_poll",
            Replenish::WholeArrays => "whole_arrays",
        }
    }
}

/// How an adapter is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Unit address (`reg`).
    pub unit: u64,
    /// Its own address (`local-mac-address`).
    pub mac: [u8; 6],
    /// The CRQ's interrupt; those of the sub-CRQs come from the hypervisor.
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
    /// Checksums are left to the server, as far as it can.
    pub checksum: bool,
    /// Large sends too.
    pub large_send: bool,
    /// All frames are to be received.
    pub promisc: bool,
    /// When to send directly.
    pub direct: Direct,
    /// When to give receive buffers.
    pub replenish: Replenish,
    /// How long an answer to INIT may take.
    pub init_timeout: Span,
    /// How long an answer to another command may take.
    pub command_timeout: Span,
}

impl Config {
    /// What Linux sets up.
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
            init_timeout: Span::from_ms(20_000),
            command_timeout: Span::from_ms(10_000),
        }
    }

    /// What is out of range, if anything.
    pub(super) fn check(&self) -> Result<(), OpenError> {
        let bad = |ok: bool, what| if ok { Ok(()) } else { Err(OpenError::Setting(what)) };
        bad((1..=MAX_QUEUES).contains(&self.queues), "queues: 1 to 16")?;
        bad((1..=MAX_ENTRIES).contains(&self.tx_entries), "tx_entries: 1 to 4096")?;
        bad((1..=MAX_ENTRIES).contains(&self.rx_entries), "rx_entries: 1 to 4096")?;
        bad((1..=128).contains(&self.tso_buffers), "tso_buffers: 1 to 128")?;
        bad((68..=64_000).contains(&self.mtu), "mtu: 68 to 64000")
    }
}

/// Why an adapter could not be opened, or a setting not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A setting is out of range: which, and what is allowed.
    Setting(&'static str),
    /// No host memory, or no map ids left.
    OutOfMemory,
    /// Memory is where the adapter cannot name it: an ioba in a message has 32 bits.
    Address,
    /// The hypervisor refused: which call, and its return code.
    Call(&'static str, i64),
    /// The server refused: which command, and its return code.
    Refused(&'static str, u8),
    /// The server did not answer: which command.
    Timeout(&'static str),
    /// The server's answer cannot be: which.
    Answer(&'static str),
    /// Server after server went away before the adapter was up.
    Unsteady,
}

impl From<OutOfMemory> for OpenError {
    fn from(_: OutOfMemory) -> OpenError {
        OpenError::OutOfMemory
    }
}
