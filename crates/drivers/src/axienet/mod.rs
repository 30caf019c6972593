//! AXI Ethernet with AXI DMA (axienet), the soft core in AMD's FPGAs.
//!
//! Source: linux 6.17 drivers/net/ethernet/xilinx/xilinx_axienet_main.c (behaviour). Registers and
//! descriptors are [`doorbell_layout::axienet`]'s.
//!
//! States: up -> (ring full) stopped -> (poll) up; up -> (error interrupt) failed ->
//! ([`Driver::work`]) the whole core is reset and both rings start anew; queued packets are dropped.
//!
//! [`Driver::work`]: crate::Driver::work
//!
//! # Interrupts
//!
//! A channel interrupts when a number of packets is done (the threshold), or when nothing has
//! happened for a while after the last of them (the delay). Both are in CR, beside the enables.
//! The handler clears the enables of its channel. The end of the poll writes CR again; status bits
//! that were latched meanwhile interrupt at once. Packets below the threshold are announced by the
//! delay, so a threshold above one without a delay is refused. The core keeps its count across
//! that write; QEMU's model restarts it.
//!
//! At the end of each poll that an interrupt began and that ran dry, a
//! [`Controller`](doorbell_moderation::Controller) sees the counters. [`Driver::work`] brings its
//! decision to the device: by default the number of packets alone, as Linux does with net_dim's
//! index; the delay is the user's.
//!
//! # Differences from Linux
//!
//! - A delay that rounds to zero units is one unit; zero would mean no delay.
//! - [`Driver::alarm`](crate::Driver::alarm) finds lost interrupts and queues that hang.
//! - Free descriptors are counted, not read from control words, which at the smallest ring that
//!   Linux allows may name a descriptor in use.
//!
//! As in Linux 6.17, a core with partial checksums sums every received frame. Earlier versions used
//! the sum for IPv4 over 64 bytes only.

mod coalesce;
mod config;
mod error;
mod hw;
mod mdio;
mod nic;
mod regs;
mod rx;
mod stats;
#[cfg(test)]
mod tests;
mod tx;

pub use coalesce::{Adaptive, Coalesce, control, delay_units};
pub use config::{Checksum, Config};
pub use error::{MdioError, OpenError};
pub use hw::Filter;
pub use mdio::{Link, Speed, divisor};
pub use nic::Axienet;
pub use stats::{Hardware, Stats};
