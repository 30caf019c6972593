//! ibmvnic: the client of a virtual NIC on PowerVM.
//!
//! Sources: Linux 6.17 drivers/net/ethernet/ibm/ibmvnic.c and .h (behaviour; functions are named in
//! each file), and the commits that [`Direct`] names. Calls and formats are
//! [`doorbell_layout::ibmvnic`]'s. All on the wire is big-endian.

mod adaptive;
mod call;
mod config;
mod control;
mod headers;
mod login;
mod ltb;
mod negotiate;
mod nic;
mod ring;
mod rx;
mod stats;
mod subcrq;
mod tx;

pub use config::{Config, Direct, Replenish};
pub use negotiate::Negotiated;
pub use nic::Ibmvnic;
pub use stats::{QueueStats, Stats};
