//! How a channel is set up, why that may fail, and what it counts.

use super::session::Sizing;
use doorbell_layout::mlx5::CmdStatus;
use doorbell_seam::Exhausted;

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
        vector: 0,
    };
}

/// Why a channel could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// No host memory.
    Exhausted,
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

impl From<Exhausted> for OpenError {
    fn from(_: Exhausted) -> OpenError {
        OpenError::Exhausted
    }
}
impl From<CmdStatus> for OpenError {
    fn from(s: CmdStatus) -> OpenError {
        OpenError::Firmware(s)
    }
}

macro_rules! stats {
    ($($(#[doc = $doc:literal])+ $field:ident,)*) => {
        /// Counters of a channel, named as in `ethtool -S` where it has them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[doc = $doc])+ pub $field: u64,)*
        }

        impl Stats {
            /// Every counter with its name.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
            /// Adds another channel's.
            pub fn add(&mut self, other: &Stats) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

stats! {
    /// Packets queued, in segments on the wire.
    packets,
    /// Bytes of those, headers of every segment included, padding not.
    bytes,
    /// Large sends.
    tso_packets,
    /// Packets whose checksum was left to the device.
    csum_partial,
    /// Packets whose tag was left to the device.
    added_vlan_packets,
    /// Calls that said that more would follow.
    xmit_more,
    /// NOPs posted.
    nop,
    /// WQEs posted, NOPs and sessions included.
    wqes,
    /// Sessions opened.
    mpwqe_blks,
    /// Packets in sessions.
    mpwqe_pkts,
    /// Doorbells rung.
    doorbells,
    /// CQEs taken.
    cqes,
    /// Error CQEs taken.
    cqe_err,
    /// CQEs that named no outstanding WQE.
    cqe_stray,
    /// Times the queue stopped.
    stopped,
    /// Times it woke.
    wake,
    /// Packets dropped.
    dropped,
    /// Recoveries completed.
    recover,
    /// Hangs that a look at the EQ ended: its interrupt was lost.
    eq_rearm,
    /// Hangs that it did not, after which the queues were made anew.
    timeouts,
    /// Interrupts that were ours.
    interrupts,
    /// Events taken from the EQ.
    eqes,
}
