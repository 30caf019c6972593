//! ibmvnic: the client of a virtual NIC on PowerVM.
//!
//! Sources: Linux 6.17 drivers/net/ethernet/ibm/ibmvnic.c and .h (behaviour; functions are named in
//! each file), and the commits that [`Direct`] names. Calls and formats are
//! [`doorbell_layout::ibmvnic`]'s. All on the wire is big-endian.
//!
//! # States of a session
//!
//! | state | entered by | sends | left by |
//! |---|---|---|---|
//! | down | open, reset | dropped | handshake, version, capabilities, login, maps |
//! | up, no carrier | the end of these | dropped | LINK_STATE_INDICATION |
//! | running | link up | taken | H_CLOSED, an event, an error |
//! | closed | H_CLOSED, failover event | dropped | INIT of the other server, migration event: reset |
//!
//! # Transmit
//!
//! A packet is copied to a slot of a long-term buffer. Its descriptors go in an array of up to
//! sixteen by H_SEND_SUB_CRQ_INDIRECT, which the hypervisor reads from memory, or, one descriptor
//! alone, in registers by H_SEND_SUB_CRQ. A server may request copies of the headers of some kinds
//! of packets; these are descriptors too, so such a packet needs an array. A packet whose checksum
//! is completed by the driver is a plain one with a single descriptor. [`Direct`] is the rule for
//! when that pays.
//!
//! The driver sends nothing twice. Packets given to a session that ended count as lost, although
//! the server may have sent them; packets only batched count as dropped.
//!
//! # Differences from Linux
//!
//! - A slot is not cleared before the copy; Linux fills all of it with zeros. A short packet is
//!   padded with zeros to the server's shortest frame.
//! - The Ethernet header's length is that of the frame in the buffer, without a tag that is still
//!   to be inserted.
//! - Completions are polled with received frames, not in a handler of their own.
//! - A tag, checksum or large send that the server cannot do is done here, as the stack would.
//! - Queue pairs share a session, so one value owns all of them.

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
