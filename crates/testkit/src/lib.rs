//! Hosts, buses and clients for tests; no product links them.
//!
//! [`DirectHost`] passes every access straight to the device, [`ConstantLatencyBus`] takes the same
//! time for each, [`Reorder`] is a machine that reorders stores as a weakly ordered CPU does,
//! [`Hostile`] one whose device lies, [`lingering()`] a connection that is slow to close, and
//! [`qtest`] a machine inside QEMU.

pub mod constant_latency;
pub mod direct;
pub mod hostile;
pub mod lingering;
pub mod qtest;
pub mod reorder;

pub use constant_latency::ConstantLatencyBus;
pub use direct::{DirectHost, NoDevice};
pub use hostile::Hostile;
pub use lingering::lingering;
pub use reorder::Reorder;
