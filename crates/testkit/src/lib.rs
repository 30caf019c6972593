//! Hosts, buses and clients for tests; no product links them.
//!
//! [`Flat`] passes every access straight to the device, [`Fixed`] is a bus of constant latency,
//! [`Reorder`] a machine that reorders stores as a weakly ordered CPU does, and [`qtest`] a machine
//! inside QEMU.

pub mod fixed;
pub mod flat;
pub mod qtest;
pub mod reorder;

pub use fixed::Fixed;
pub use flat::{Flat, NoDevice};
pub use reorder::Reorder;
