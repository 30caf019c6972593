//! Boots a Linux kernel under QEMU with a served device, runs a workload in it, and tells what the
//! kernel's driver did.
//!
//! Nothing here knows a device model: a device is a socket of `doorbell serve`, and its counts are
//! the server's.

pub mod instructions;
