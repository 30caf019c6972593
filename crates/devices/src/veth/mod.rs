//! The logical LAN of POWER partitions: adapters without registers, and the switch between them.
//!
//! A call works on the caller's CPU: when H_SEND_LOGICAL_LAN returns, the frame is in the
//! receivers' memory or lost; a sender of more than a [`Config::slice`] is told H_BUSY. A call
//! reaches only adapters of its partition, memory only through the ports of the adapters' owners.
//! The lists in the partition's memory are written and never read back. docs/device-models.md has
//! the data path, the points where sources differ, and the omissions.
//!
//! Sources: LoPAR, "Interpartition Logical LAN Option", called PAPR here; Linux's ibmveth.

mod adapter;
mod attributes;
mod calls;
mod config;
mod device;
mod multicast;
mod offload;
mod pools;
mod receive;
mod send;
mod switch;

pub use adapter::Counters;
pub use config::{Adapter, Config, Uplink};
pub use device::{H_CONSTRAINED, Veth};

#[cfg(test)]
mod tests;
