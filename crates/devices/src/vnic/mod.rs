//! The vNIC server: what an ibmvnic adapter's driver talks to.
//!
//! On PowerVM the adapter of a partition is a queue to a server (VIOS) that owns an SR-IOV card;
//! the hypervisor moves messages and descriptors between them. Here both are one device, reached by
//! hypervisor calls, with two servers behind each adapter of which one works.
//!
//! Sources: what Linux's `ibmvnic.c` sends, expects and does about it (6.x; message formats in
//! [`doorbell_layout::ibmvnic`]). PAPR is not public. Where the driver's text does not settle
//! an answer, the nearest return code was chosen, and the module says so.
//!
//! ```text
//! H_SEND_CRQ -> [command] -> CRQ entry -> interrupt
//! H_SEND_SUB_CRQ(_INDIRECT) -> [check] -> time line -> [fetch from long-term buffer] -> wire
//!                                                        \-> completion, up to five a message
//! wire -> filter -> [buffer of a queue] -> long-term buffer -> completion -> interrupt
//! ```
//!
//! **A session's states**:
//!
//! | state | entered by | sends answer | left by |
//! |---|---|---|---|
//! | closed | H_REG_CRQ, failover, migration, fatal error | H_CLOSED, or H_PARAMETER while a server is up | INIT or INIT_COMPLETE |
//! | initialised | that | H_PARAMETER: no handle exists | VERSION_EXCHANGE |
//! | negotiating | that | H_PARAMETER | LOGIN |
//! | logged in | that | H_SUCCESS | all that closes |
//!
//! **Two layers.** The hypervisor keeps the CRQ, the sub-CRQs and their interrupts: they survive a
//! failover and a migration, until H_FREE_CRQ frees all of them. The server keeps the session:
//! capabilities, login, handles, long-term buffers. It ends with a failover, a migration, a fatal
//! error, a second INIT and H_FREE_CRQ; the buffers are then unmapped without being asked, and what
//! was under way is lost and counted. A handle of an ended session is never valid again, and who
//! asks for the unmapping of such a session's buffer is told that there is none (PARAMETER).
//! Linux's driver does after a change of MTU, and prints `Error 4 in REQUEST_UNMAP_RSP`, as it did
//! under PowerVM for resets by its watchdog until it learnt not to ask there
//! (`free_long_term_buff`).
//!
//! **Failover.** The client gets a transport event; sends answer H_CLOSED; after a time the other
//! server is up and sends INIT. A client that registers its CRQ anew before that gets H_CLOSED,
//! which means "registered, partner not up yet". A client may ask for it: it reads the session
//! token and reports the session in error with that token.
//!
//! **The time line behind the calls** ([`Serial`]) is one for all clients: what hypervisor and
//! server do for each call, descriptor and header byte, one after another. The caller does not wait
//! for it (but for the reading of an indirect array), so it shows as a rate, not as CPU time.
//!
//! **Not modelled**: scatter-gather of sent frames (SGE descriptors) and received ones, merging of
//! received frames, VLAN filters and ACLs beyond a locked address, firmware dumps and traces.

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

pub use config::{Config, Serial, Server};
pub use device::{Counters, OpenQueue, VnicServer};
pub use transmit::well_formed;

#[cfg(test)]
mod tests;
