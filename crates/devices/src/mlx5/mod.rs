//! ConnectX-5 and later, Ethernet: a device that an unmodified Linux mlx5_core drives.
//!
//! BAR0 has the initialization segment for `command` and the doorbell pages. A doorbell announces
//! all WQEs up to the one it holds. They are fetched in reads, round robin over SQs, and executed
//! in order; a CQE follows the last frame of its WQE. Errors are per queue. The receive side is in
//! [`receive`], `steering` and `rss`. docs/device-models.md has the data path.
//!
//! Sources: linux drivers/net/ethernet/mellanox/mlx5 and mlx5_ifc.h; the public programmer's
//! reference for names. Assumptions about the silicon are values of [`Config`].

mod command;
mod config;
mod device;
mod loopback;
mod moderation;
mod offload;
mod polled;
mod queues;
pub mod receive;
mod registers;
mod ring;
mod rss;
mod steering;
#[cfg(test)]
mod tests;
mod transmit;

pub use command::{CommandCounters, Unknown};
pub use config::{Compress, Config};
pub use device::{Counters, Mlx5};
use doorbell_layout::mlx5::CmdStatus;
pub use receive::Counters as Received;

/// Result of a step of a command. A refused command changes nothing.
type Answer<T = ()> = Result<T, CmdStatus>;

/// Objects of a kind at the most.
const LIMIT: usize = 1024;
/// CQs at the most: five for each EQ, as many as a channel of Linux has.
const MAX_CQS: usize = 5 * MAX_EQS;
/// EQs at the most: an arm has eight bits for the number, and it starts at 4.
const MAX_EQS: usize = 252;
/// The BAR's 32 MiB in pages.
const BAR_PAGES: u32 = 8192;
/// log2 of the longest work queue in entries, and of the longest CQ and EQ.
const LOG_MAX_WQ: u32 = 15;
const LOG_MAX_CQ_SZ: u32 = 18;
const LOG_MAX_EQ_SZ: u32 = 18;
