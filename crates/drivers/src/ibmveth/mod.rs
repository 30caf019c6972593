//! ibmveth: the logical LAN adapter of a POWER partition.
//!
//! Sources: Linux 6.17 and 4.4 drivers/net/ethernet/ibm/ibmveth.c (behaviour); PAPR+, "Logical LAN
//! option". Calls and formats are [`doorbell_layout::ibmveth`]'s. There are no registers and no
//! doorbells: every request is a hypervisor call.
//!
//! # Receive
//!
//! Buffers of up to five sizes are lent to the hypervisor, which takes the smallest that fits. The
//! driver writes a correlator (pool and index) into each buffer and finds it again in the entry of
//! the receive queue. A toggle tells new entries from old; it begins as 1 and flips at each wrap.
//! Buffers are lent with H_ADD_LOGICAL_LAN_BUFFER(S); H_VIO_SIGNAL switches the interrupt, and each
//! poll ends with a second look at the queue.
//!
//! # Transmit
//!
//! A send is over when H_SEND_LOGICAL_LAN returns, because the hypervisor copies meanwhile.
//! [`Transmit`] chooses between mapping each fragment, up to six, and copying the packet to a
//! buffer that stays mapped. Nothing interrupts for a send; each poll, or [`Ibmveth::reclaim`],
//! passes the buffers up.
//!
//! # Offloads
//!
//! Offloads are negotiated with H_ILLAN_ATTRIBUTES before the adapter is opened; each change
//! closes and reopens it. An omitted TCP checksum leaves zero in its field, so a receiver that
//! forwards the packet must complete it: the driver writes the pseudo-header's sum and passes the
//! packet up as CHECKSUM_PARTIAL. A large send reaches another partition whole; its receiver learns
//! the segment size beside the data, or, in the old way, in the checksum fields.
//!
//! A packet that the firmware cannot send is converted as the stack above Linux's driver would:
//! segmented, linearised, tagged, or its checksum completed. A large send with a fragment list is
//! segmented without [`Config::fraglist`], and linearised and sent whole with it.
//!
//! # Differences from Linux
//!
//! - Copied packets keep their fragment list; 6.17 drops such packets.
//! - The bounce buffer of the mapped way holds a large send; 4.4's did not.
//! - A received large packet always gets a pseudo-header sum, so that it can be forwarded.
//! - The pseudo-header of a padded frame has the datagram's length.
//! - Counters survive a reopening.
//! - There is one transmit queue, of the CPU that owns the driver.

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

pub use config::{Config, LargeSend, OpenError, Pool, Transmit};
pub use negotiate::Negotiated;
pub use nic::{Filter, Ibmveth};
pub use stats::Stats;
