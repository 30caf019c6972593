//! Simulation: schedulers, links, traffic, and faults in time.

pub mod bql;
pub mod fault;
pub mod histogram;
pub mod link;
pub mod napi;
pub mod scheduler;
pub mod standstill;
pub mod traffic;
pub(crate) mod watch;

pub use watch::{Recording, Unwatched, Watch};
