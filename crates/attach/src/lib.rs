//! The outside world.
//!
//! Ways to put a driver in front of a device, or a device behind a driver, that
//! were made elsewhere, and to move frames in and out.

pub mod qtest;
pub mod shared;
