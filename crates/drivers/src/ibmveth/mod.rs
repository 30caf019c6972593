//! ibmveth: the logical LAN adapter of a POWER partition.
//!
//! Sources: Linux 6.17 and 4.4 drivers/net/ethernet/ibm/ibmveth.c (behaviour); PAPR+,
//! "Logical LAN option"; calls and formats are [`doorbell_layout::ibmveth`]'s.
//!
//! ```text
//! transmit -> H_SEND_LOGICAL_LAN: the hypervisor copies while the caller waits
//! wire     -> a lent buffer, an entry in the receive queue -> interrupt -> poll
//! poll     -> H_ADD_LOGICAL_LAN_BUFFER(S) -> H_VIO_SIGNAL, and a second look
//! ```
//!
//! There are no registers and no doorbells: whatever the driver wants it says in a
//! call, and a call is what a packet costs.
//!
//! **Reception.** Buffers of up to five sizes are lent, the hypervisor takes the smallest that
//! fits. The driver writes a correlator (pool and index) into each before it lends it, and
//! finds it again in the receive queue's entry. Entries are told new from old by
//! a toggle, which begins as 1 and changes at each wrap.
//!
//! **Transmission** is over when the call returns. Two ways ([`Transmit`]): each piece of a
//! packet mapped, up to six, or all of it copied to a buffer that is mapped for good.
//! There is nothing to interrupt for, so what was sent is handed back by
//! [`Ibmveth::reclaim`], which every poll does too.
//!
//! **Offloads** are negotiated with H_ILLAN_ATTRIBUTES before the adapter is opened, and
//! each change closes and reopens it. A TCP checksum that is left out is *left out*: the
//! field is zero, and a receiver that forwards the packet must have it made. So a
//! received packet with a zero gets the pseudo-header's sum and a note that
//! the rest is to do. A large send goes to another partition whole; its receiver learns
//! the segment size beside the data, or, in the old way, in the checksum fields.
//!
//! **What the driver cannot send as it is** is brought into a form it can, as the stack
//! above a Linux driver would: a large send that was not negotiated is segmented, a
//! checksum that is not TCP's is completed, a tag is inserted, a list is linearised. A
//! large send *with a fragment list* is the case in point: without [`Config::fraglist`] it is
//! segmented, with it linearised and kept whole.
//!
//! Where it differs from Linux: copied packets keep their fragment list (6.17 copies
//! head and fragments only, finds bytes missing, and drops the packet); the bounce
//! buffer of the mapped way holds a large send, as 4.4's did not; a received large packet
//! always gets a pseudo-header sum, so that it can be forwarded; a padded frame's
//! pseudo-header has the datagram's length; counters survive a reopening. One driver has one
//! transmit queue, of the CPU that owns it: to the hypervisor queues are nothing but buffers.

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
