//! The logical LAN of POWER partitions: adapters without registers, and the
//! hypervisor's switch between them.
//!
//! Sources: Linux on Power Architecture Reference (LoPAR), "Interpartition Logical LAN
//! Option", called PAPR here; what Linux's ibmveth expects; QEMU's `spapr_llan`, which
//! models one adapter and a network behind it.
//!
//! ```text
//! H_SEND -> [check] -> [gather by descriptors] -> [switch] -> for each receiver:
//!    [cut, checksum, tag as it has agreed to] -> its buffer -> its receive queue -> interrupt
//! ```
//!
//! A call works on the caller's CPU: when H_SEND_LOGICAL_LAN returns, the frame is
//! in the receivers' memory or lost. Who has sent more than a [`Config::slice`] is
//! told H_BUSY and comes back with the token; the frame gathered waits.
//!
//! **Partitions stay apart.** A call reaches only adapters of the partition that makes
//! it. Memory is reached through the ports of the adapters' own partitions, at addresses that
//! their owners gave. What the hypervisor knows it keeps itself: the buffer list and the
//! filter list, which lie in the partition's memory, are written for it to see and never read
//! back, so what a partition does to them it does to nobody. A MAC that an adapter has
//! registered cannot be learned elsewhere.
//!
//! **Where sources differ.** Buffers are kept by size, smallest first, as PAPR has it; a
//! list of 509 as QEMU's old one is [`Config::max_buffers`]. The receive queue is not cleared at
//! registration: PAPR leaves that to the driver. PAPR says no word about closing what is not open
//! or adding buffers to it, nor of frames over the limit: H_RESOURCE, as QEMU. A frame for a VLAN
//! that the port does not have is H_PARAMETER, as in the call's semantics, though the overview has
//! it dropped. H_VIO_SIGNAL of another mode is H_PARAMETER, though PAPR also says that unknown
//! bits are ignored. Not modelled: the buffer size control bit, port disabling, H_MIGRATE_DMA.

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
