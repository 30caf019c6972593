//! The vNIC server behind an ibmvnic adapter: hypervisor, and two servers of which one works.
//!
//! A session is closed, initialised, negotiating, or logged in. The hypervisor keeps CRQ, sub-CRQs
//! and interrupts, which survive a failover and a migration. The server keeps capabilities, login,
//! handles and long-term buffers, which end with the session. Work behind the calls is one time
//! line for all clients ([`Serial`]). docs/device-models.md has the data path, the states and the
//! omissions.
//!
//! Sources: Linux's `ibmvnic.c` (6.x); PAPR is not public. Elsewhere the nearest code was chosen.

mod calls;
mod command;
mod config;
mod device;
mod headers;
mod login;
mod queue;
mod receive;
mod session;
mod transmit;

/// A descriptor as it comes.
type Entry = [u8; doorbell_layout::ibmvnic::DESCRIPTOR];

pub use config::{Config, Serial, Server};
pub use device::{Counters, OpenQueue, VnicServer};
pub use receive::queue_of;

#[cfg(test)]
mod tests;
