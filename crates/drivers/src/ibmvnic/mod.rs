//! ibmvnic: the client of a virtual NIC on PowerVM.
//!
//! Sources: Linux 6.17 drivers/net/ethernet/ibm/ibmvnic.c and .h (behaviour; functions named in
//! each file), and the commits that [`Direct`] names; calls and formats are
//! [`doorbell_layout::ibmvnic`]'s. All on the wire is big-endian.
//!
//! ```text
//! transmit -> slot of a long-term buffer -> descriptor, headers -> array of 16 -> H_SEND_SUB_CRQ_INDIRECT
//!                                        \-> lone, and no headers due ----------> H_SEND_SUB_CRQ
//! sub-CRQ  -> interrupt -> poll: completions, frames -> buffers again, up to 16 a call
//! CRQ      -> interrupt -> poll: link, errors, failover -> work: all of it again
//! ```
//!
//! **A session's states**:
//!
//! | state | entered by | sends | left by |
//! |---|---|---|---|
//! | down | open, reset | dropped | handshake, version, capabilities, login, maps |
//! | up, no carrier | that | dropped | LINK_STATE_INDICATION |
//! | running | that | taken | H_CLOSED, an event, an error |
//! | closed | H_CLOSED, failover event | dropped | INIT of the other server, migration event: reset |
//!
//! **Direct or in an array.** A server asks, by a string of bytes, for copies of the headers with
//! some kinds of packets. Headers are descriptors, so such a packet has several, and takes an array
//! in memory, a call that the hypervisor must read it for. A packet whose checksum is made here
//! first is a plain one, has one descriptor, and that fits into registers. When that pays is what
//! [`Direct`] is about.
//!
//! **Losses.** The driver sends nothing twice. What it had given to a session that ended is counted
//! as lost, although the server may have sent it; what it had only batched is counted as dropped.
//!
//! **Where it differs from Linux.** A slot is not cleared before the copy (Linux fills all of it
//! with zeros); a short packet is padded to the server's shortest frame, and what is behind it is
//! cleared. The Ethernet header's length is that of the frame in the buffer, without a tag that is
//! still to be inserted. Completions are polled with received frames, not in a handler of their
//! own. What the server cannot do (a tag, a checksum, a large send) is done here, as a stack above
//! Linux's driver would. Packets of a queue pair are copied by one CPU; queue pairs of an adapter
//! share a session, and so one value has all of them.

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

pub use config::{Config, Direct, OpenError, Replenish};
pub use negotiate::Negotiated;
pub use nic::{Filter, Ibmvnic};
pub use stats::{QueueStats, Stats};
