//! Conformance cases of an ibmvnic driver and a vNIC server.
//!
//! There is neither a public specification nor a model by others; the server is strict instead. It
//! reads a partition's memory through a byte-exact translation table, compares headers byte for
//! byte, and ends the session where a real one would. A case gets a constructor of machines, whose
//! CPU may reorder stores and loads.

mod direct;
mod failover;
mod harness;
mod limits;
mod receive;
mod recording_server;
mod session;
mod transmit;

pub use direct::*;
pub use failover::*;
pub use harness::sized;
pub use harness::{Model, System, reordered, system};
pub use limits::*;
pub use receive::*;
pub use recording_server::{Call, RecordingServer};
pub use session::*;
pub use transmit::*;
