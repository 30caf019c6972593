//! NIC models, generic over the [`Port`](doorbell_hal::Port) they are attached
//! to: the lab's metered bus, or a guest's memory.
//!
//! A model splits its work as the hardware does: fetch descriptor, fetch data,
//! process, emit, write back, each with its limits. It never panics on what a
//! driver does, never touches memory but through its port, and does a bounded
//! amount of work for a bounded amount of input.
//!
//! ```
//! use doorbell_devices::e1000::{Config, E1000};
//! use doorbell_hal::EventSource;
//!
//! let device = E1000::new(Config::I82545EM);
//! assert_eq!(device.next_due(), None, "nothing happens before a driver opens it");
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[macro_use(counters)]
extern crate doorbell_hal;

mod common;

pub use common::Addresses;

pub mod axi_ethernet;
pub mod e1000;
pub mod mlx5;
pub mod rp1;
pub mod veth;
pub mod vnic;

#[cfg(test)]
mod tests;
