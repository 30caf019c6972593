//! Configuration and counters of a channel.

use super::session::Sizing;
use super::strides::{LOG_WQE, log_wqes};
use crate::common::counters;
use doorbell_hal::Alignment;

/// Completion queues of a channel, all armed at the end of every poll (en_txrx.c
/// `mlx5e_napi_poll`). Those beside the send queue's stay empty, but for the receive queue's if
/// there is one: no internal operation is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cqs {
    /// The send queue's alone, which no Linux has.
    Send,
    /// Also the receive queue's and the internal operations' (ICOSQ): Linux since it creates the
    /// other two on demand.
    Three,
    /// Also the asynchronous internal operations' and the XDP send queue's: linux 5.10.
    Five,
}

impl Cqs {
    /// Returns log2 of the entries of those beside the send queue's, in the order of arming: RQ,
    /// ICOSQ, asynchronous ICOSQ, XDP SQ (en.h `MLX5E_PARAMS_DEFAULT_LOG_RQ_SIZE`,
    /// `MLX5E_PARAMS_MINIMUM_LOG_SQ_SIZE`).
    pub const fn others(self) -> &'static [u8] {
        match self {
            Cqs::Send => &[],
            Cqs::Three => &[10, 6],
            Cqs::Five => &[10, 6, 6, 10],
        }
    }
}

/// The configuration of a channel's receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RqConfig {
    /// log2 of its WQEs: 1 to 13, 10 in Linux.
    pub log_size: u8,
    /// Bytes of a buffer, of which a frame takes one.
    pub buffer: u32,
    /// Alignment of the area that a buffer is in, and the bytes in front of the frame.
    pub align: u32,
    /// Those bytes.
    pub headroom: u32,
    /// WQEs that are posted at a time.
    pub bulk: u16,
    /// The last write of a frame goes on to the end of its cache line.
    pub padding: bool,
    /// log2 of the bytes of a stride, if frames share WQEs: 12 with a program, which has a page for
    /// each frame.
    pub log_stride: Option<u8>,
    /// The order in which pages are received into again.
    pub recycling: Recycling,
    /// The device compresses CQEs, if it can.
    pub compression: bool,
    /// A program looks at each frame first ([`Sink::program`](crate::Sink::program)). Pages stay
    /// mapped, and go from the program back to the queue; those that it sends leave through a send
    /// queue of their own, which needs [`Cqs::Five`].
    pub xdp: bool,
    /// CQ moderation by net_dim (`ethtool -C adaptive-rx`, on in Linux); it begins with 8 us.
    pub adaptive: bool,
    /// CQ moderation: microseconds (16 in Linux).
    pub cq_period_us: u16,
    /// CQ moderation: completions (32 in Linux).
    pub cq_max_count: u16,
}

/// Orders in which the pages of a queue are received into again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recycling {
    /// That in which they came back, of up to 256 (en.h `MLX5E_CACHE_SIZE`): until Linux 6.3.
    Cache,
    /// The latest first, of up to 128, and behind them a ring (page_pool.c
    /// `PP_ALLOC_CACHE_SIZE`).
    Pool,
    /// As of a pool, of up to 512 (`RTE_MEMPOOL_CACHE_MAX_SIZE`): DPDK. Its buffers are no pages,
    /// but lie next to each other: `align` is the size of an object, whose header takes 64 bytes,
    /// `struct rte_mbuf` two lines.
    Mempool,
}

/// Bytes in front of the `struct rte_mbuf` of an object, and its own.
const OBJECT_HEADER: u32 = 64;
pub(super) const MBUF: u32 = 128;

impl RqConfig {
    /// Returns the bytes of a buffer and their place: a frame in its area, or a page that frames
    /// share.
    pub(super) const fn buffer(&self) -> (u32, Alignment) {
        match self.log_stride {
            Some(_) if !self.xdp => (4096, Alignment { align: 4096, offset: 0 }),
            _ if self.is_mempool() => {
                let place = Alignment { align: self.align, offset: OBJECT_HEADER };
                (self.align - OBJECT_HEADER, place)
            }
            _ => (self.buffer, Alignment { align: self.align, offset: self.headroom }),
        }
    }

    /// Returns whether its buffers are those of DPDK.
    pub(super) const fn is_mempool(&self) -> bool {
        self.xdp && matches!(self.recycling, Recycling::Mempool)
    }

    /// Returns log2 of the entries of its CQ.
    pub(super) const fn log_cqes(&self) -> u8 {
        match self.log_stride {
            Some(stride) => log_wqes(self.log_size, stride) + LOG_WQE - stride,
            None => self.log_size,
        }
    }
}

/// The configuration of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The switch: `ethtool --set-priv-flags skb_tx_mpwqe`, and `xdp_tx_mpwqe` for what a program
    /// sends. It takes effect only on a device with the capability that needs nothing inlined.
    pub mpwqe: bool,
    /// Size of sessions.
    pub sizing: Sizing,
    /// log2 of the send queue in basic blocks: 6 to 13, 10 in Linux.
    pub log_sq: u8,
    /// log2 of the completion queue.
    pub log_cq: u8,
    /// CQ moderation: microseconds (16 in Linux).
    pub cq_period_us: u16,
    /// CQ moderation: completions (32 in Linux).
    pub cq_max_count: u16,
    /// Completion queues of the channel.
    pub cqs: Cqs,
    /// The receive queue; without one its CQ stays empty.
    pub rq: Option<RqConfig>,
    /// The stack limits the bytes in the send queue (BQL).
    pub bql: bool,
    /// MSI-X vector of the channel.
    pub vector: u16,
    /// That of a channel of the second port on the same core, which frames leave by that a program
    /// hands to that port ([`Verdict::Redirect`](crate::Verdict::Redirect)). It needs
    /// [`RqConfig::xdp`] and a device with two ports.
    pub second: Option<u16>,
}

impl Config {
    /// mlx5e's defaults, on vector 0.
    pub const DEFAULT: Config = Config {
        mpwqe: true,
        sizing: Sizing::Padded,
        log_sq: 10,
        log_cq: 10,
        cq_period_us: 16,
        cq_max_count: 32,
        cqs: Cqs::Five,
        rq: None,
        bql: true,
        vector: 0,
        second: None,
    };
}

counters! {
    /// Counters of a channel, named as in `ethtool -S` where it has them.
    Stats {
        packets: "Packets queued, in segments on the wire.",
        bytes in Bytes: "Bytes of those, headers of every segment included, padding not.",
        tso_packets: "Large sends.",
        tso_software: "Large sends segmented by the CPU.",
        csum_partial: "Packets whose checksum was left to the device.",
        csum_software: "Checksums completed by the CPU.",
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
        rx_packets: "Frames passed up.",
        rx_bytes in Bytes: "Bytes of those, without FCS.",
        rx_csum_unnecessary: "Frames among them whose checksums the device found good.",
        rx_cqes: "CQEs of the receive queue taken.",
        rx_cqe_compress_blks: "Blocks of compressed CQEs taken.",
        rx_cqe_compress_pkts: "Frames in those.",
        rx_mpwqe_filler_cqes: "CQEs that told of strides without a frame.",
        rx_umrs: "UMRs among the WQEs, each for the pages of a receive WQE.",
        rx_umr_doorbells: "Doorbells among all, rung for UMRs.",
        rx_umr_err: "UMRs that failed.",
        rx_cqe_stray: "CQEs that named no buffer.",
        rx_wqe_err: "Error CQEs of the receive queue.",
        rx_malformed: "CQEs with a length that no frame can have.",
        rx_buff_alloc_err: "Times that there was no memory for a buffer.",
        rx_left: "Frames in a queue that was closed or started again.",
        rx_moderated: "Changes of moderation that net_dim decided on.",
        rx_recover: "Receive queues started again after an error.",
        rx_xdp_drop: "Frames that the program dropped.",
        rx_xdp_tx_xmit: "Frames that the program sent back.",
        rx_xdp_tx_full: "Frames that it would have sent, but the queue for them had no room.",
        rx_xdp_tx_cqe: "CQEs of that queue.",
        rx_xdp_tx_inlnw: "Frames sent back that were copied into their WQE.",
        rx_xdp_redirect: "Frames that the program handed to the second port.",
        xdp_devmap_drops: "Frames among them that the port's XDP send queue did not take.",
        tx_xdp_xmit: "Frames queued at the second port.",
        tx_xdp_full: "Times that the queue there had no room.",
        tx_xdp_mpwqe: "Sessions opened there.",
        tx_xdp_inlnw: "Frames there that were copied into their WQE.",
        tx_xdp_nops: "NOPs posted there.",
        tx_xdp_err: "Frames too short for a WQE there.",
        tx_xdp_cqes: "CQEs of that queue.",
        rx_cache_reuse: "Pages taken from those that the driver keeps.",
        rx_cache_empty: "Pages allocated because it kept none.",
        rx_cache_full: "Pages released because it kept enough.",
    }
}
