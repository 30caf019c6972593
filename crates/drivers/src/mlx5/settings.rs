//! How a channel is set up, why that may fail, and what it counts.

use super::session::Sizing;
use crate::common::counters;
use doorbell_hal::OutOfMemory;
use doorbell_layout::mlx5::CmdStatus;

/// Completion queues of a channel, each with an arm at the end of every poll (en_txrx.c
/// `mlx5e_napi_poll`). Those beside the send queue's stay empty: nothing is received, and no
/// internal operation is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cqs {
    /// The send queue's alone. No Linux does this.
    Send,
    /// Also the receive queue's and the internal operations' (ICOSQ): Linux since it makes the
    /// other two on demand.
    Three,
    /// Also the asynchronous internal operations' and the XDP send queue's: linux 5.10.
    Five,
}

impl Cqs {
    /// log2 of the entries of those beside the send queue's, in the order in which they are armed:
    /// RQ, ICOSQ, asynchronous ICOSQ, XDP SQ. Sizes are those of their queues in Linux (en.h
    /// `MLX5E_PARAMS_DEFAULT_LOG_RQ_SIZE`, `MLX5E_PARAMS_MINIMUM_LOG_SQ_SIZE`).
    pub const fn others(self) -> &'static [u8] {
        match self {
            Cqs::Send => &[],
            Cqs::Three => &[10, 6],
            Cqs::Five => &[10, 6, 6, 10],
        }
    }
}

/// How a channel is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The switch: `ethtool --set-priv-flags skb_tx_mpwqe`. It takes effect only
    /// where the device has the capability and needs nothing inlined.
    pub mpwqe: bool,
    /// How sessions are sized.
    pub sizing: Sizing,
    /// log2 of the send queue in basic blocks: 6 to 13, 10 in Linux.
    pub log_sq: u8,
    /// log2 of the completion queue.
    pub log_cq: u8,
    /// CQ moderation: microseconds (16 in Linux).
    pub cq_period_us: u16,
    /// CQ moderation: completions (32 in Linux).
    pub cq_max_count: u16,
    /// Which completion queues there are.
    pub cqs: Cqs,
    /// Whether the stack limits the bytes in the send queue (BQL).
    pub bql: bool,
    /// MSI-X vector of the channel.
    pub vector: u16,
}

impl Config {
    /// What mlx5e sets up by default, on vector 0.
    pub const DEFAULT: Config = Config {
        mpwqe: true,
        sizing: Sizing::Padded,
        log_sq: 10,
        log_cq: 10,
        cq_period_us: 16,
        cq_max_count: 32,
        cqs: Cqs::Five,
        bql: true,
        vector: 0,
    };
}

/// Why a channel could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// No host memory.
    OutOfMemory,
    /// No device, or none that this driver knows.
    Device(&'static str),
    /// The firmware refused.
    Firmware(CmdStatus),
    /// The device lacks what the driver cannot do without: checksum, VLAN and
    /// LSO capability, and send WQEs of 1 KiB.
    Capability(&'static str),
    /// `log_sq` or `log_cq` out of range.
    Size,
}

impl From<OutOfMemory> for OpenError {
    fn from(_: OutOfMemory) -> OpenError {
        OpenError::OutOfMemory
    }
}
impl From<CmdStatus> for OpenError {
    fn from(s: CmdStatus) -> OpenError {
        OpenError::Firmware(s)
    }
}

counters! {
    /// Counters of a channel, named as in `ethtool -S` where it has them.
    Stats {
        packets: "Packets queued, in segments on the wire.",
        bytes: "Bytes of those, headers of every segment included, padding not.",
        tso_packets: "Large sends.",
        csum_partial: "Packets whose checksum was left to the device.",
        added_vlan_packets: "Packets whose tag was left to the device.",
        xmit_more: "Calls that said that more would follow.",
        nop: "NOPs posted.",
        wqes: "WQEs posted, NOPs and sessions included.",
        mpwqe_blks: "Sessions opened.",
        mpwqe_pkts: "Packets in sessions.",
        doorbells: "Doorbells rung.",
        cqes: "CQEs taken.",
        cqe_err: "Error CQEs taken.",
        cqe_stray: "CQEs that named no outstanding WQE, or came to a CQ whose queue is empty.",
        stopped: "Times the queue stopped.",
        wake: "Times the queue woke.",
        dropped: "Packets dropped.",
        recover: "Recoveries completed.",
        eq_rearm: "Hangs that polling the EQ ended: its interrupt was lost.",
        timeouts: "Other hangs, after which the queues were recreated.",
        interrupts: "Interrupts of this device.",
        eqes: "Events taken from the EQ.",
    }
}
