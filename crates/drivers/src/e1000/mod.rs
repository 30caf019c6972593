//! Intel 8254x gigabit controllers: 82540EM, 82544GC, 82545EM.
//!
//! Sources: linux drivers/net/ethernet/intel/e1000 (behaviour, 4.4); Intel's developer's manual
//! 317453; the errata of the specification updates.
//!
//! States: up -> (queue full) stopped -> (poll) up; up -> (no DD in time) hanging ->
//! [`Driver::work`](crate::Driver::work) resets the controller and drops what was queued.
//!
//! The driver has no access to PCI configuration space. These parts need MMRBC of at most 2048 on
//! PCI-X, which the owner of the bus sets.
//!
//! # The switches
//!
//! With [`Config::copy_align`], a frame of up to 2 kB is copied to a slot of 2048 bytes, aligned to
//! that and mapped permanently: fewer bus transactions, no mapping per packet, one copy. With
//! [`Config::rx_align`], a receive buffer begins on a line, or two bytes behind it so that the IP
//! header is on a word.
//!
//! # Descriptors
//!
//! A packet without offload is sent with legacy descriptors, as in Linux. A checksum or a large
//! send takes a context descriptor, then data descriptors. [`Errata`] decides how a buffer is split.

mod config;
mod errata;
mod hw;
mod nic;
mod part;
mod rx;
mod stats;
#[cfg(test)]
mod tests;
mod tx;

pub use config::{COPY_MAX, Config, Eeprom, OpenError, Thresholds, Throttle, interval};
pub use errata::Errata;
pub use hw::{Filter, hash};
pub use nic::{E1000, Link};
pub use part::{Bus, Part};
pub use stats::{Hardware, Stats};
