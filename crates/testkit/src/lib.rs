//! Hosts, buses and clients for tests; no product links them.
//!
//! [`DirectHost`] passes every access straight to the device, [`ConstantLatencyBus`] takes the same
//! time for each, [`Reorder`] is a machine that reorders stores as a weakly ordered CPU does, and
//! [`qtest`] a machine inside QEMU.

pub mod constant_latency;
pub mod direct;
pub mod qtest;
pub mod reorder;

pub use constant_latency::ConstantLatencyBus;
pub use direct::{DirectHost, NoDevice};
pub use reorder::Reorder;
