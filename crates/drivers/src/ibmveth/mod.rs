//! ibmveth: the logical LAN adapter of a POWER partition.
//!
//! Sources: Linux 6.17 and 4.4 drivers/net/ethernet/ibm/ibmveth.c (behaviour); PAPR+, "Logical LAN
//! option". Calls and formats are [`doorbell_layout::ibmveth`]'s. There are no registers and no
//! doorbells: every request is a hypervisor call.

mod call;
mod config;
mod negotiate;
mod nic;
mod pool;
mod rx;
mod stats;
#[cfg(test)]
mod tests;
mod tx;

pub use config::{Config, LargeSend, Pool, Transmit};
pub use negotiate::Negotiated;
pub use nic::Ibmveth;
pub use stats::Stats;
