//! Intel 8254x gigabit controllers: 82540EM, 82544GC, 82545EM; and the 82574L.
//!
//! Sources: linux drivers/net/ethernet/intel/e1000 (behaviour, 4.4), and e1000e for the 82574;
//! Intel's developer's manual 317453; the 82574's datasheet; the errata of the specification
//! updates.
//!
//! States: up -> (queue full) stopped -> (poll) up; up -> (no DD in time) hanging ->
//! [`Driver::work`](crate::Driver::work) resets the controller and drops what was queued.
//!
//! The driver has no access to PCI configuration space. These parts need MMRBC of at most 2048 on
//! PCI-X, which the owner of the bus sets.

mod config;
mod errata;
mod hw;
mod nic;
mod part;
mod queue;
mod rx;
mod stats;
#[cfg(test)]
mod tests;
mod tx;

pub use config::{Config, Eeprom, Thresholds, Throttle, interval};
pub use errata::Errata;
pub use hw::hash;
pub use nic::{E1000, Link};
pub use part::{Bus, Part};
pub use queue::Queue;
pub use stats::{Hardware, Stats};
