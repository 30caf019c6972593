//! AXI Ethernet with AXI DMA (axienet), the soft core in AMD's FPGAs.
//!
//! Source: linux 6.17 drivers/net/ethernet/xilinx/xilinx_axienet_main.c (behaviour). Registers and
//! descriptors are [`doorbell_layout::axienet`]'s.
//!
//! States: up -> (ring full) stopped -> (poll) up; up -> (error interrupt) failed ->
//! ([`Driver::work`]) the whole core is reset and both rings start anew; queued packets are
//! dropped.
//!
//! [`Driver::work`]: crate::Driver::work

mod coalesce;
mod config;
mod hw;
mod mdio;
mod nic;
mod regs;
mod rx;
mod stats;
#[cfg(test)]
mod tests;
mod tx;

pub use coalesce::{Adaptive, Coalesce};
pub use config::{Checksum, Config};
pub use mdio::{Link, MdioError, Speed};
pub use nic::Axienet;
pub use stats::{Hardware, Stats};
