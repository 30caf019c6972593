//! What an ibmvnic driver and a vNIC server have to do together, on any machine of ours.
//!
//! There is no model of a vNIC that others wrote, and no public specification: the judges are the
//! sheet's traps, each a body here, and the server's own strictness. It reads a partition's memory
//! through a translation table that is guarded by the byte, compares headers byte for byte, and
//! ends the session where a real one would.
//!
//! A body is given a way to make a machine, so that it can ask for the server it needs; it runs
//! with a CPU that does everything in order and with ones that do not.

mod bench;
mod direct;
mod failover;
mod receive;
mod session;
mod spy;
mod transmit;

pub use bench::{Model, System, reordered, system};
pub use direct::*;
pub use failover::*;
pub use receive::*;
pub use session::*;
pub use spy::{Call, Spy};
pub use transmit::*;
