//! What lies between a driver and a device: host memory and its mappings, the
//! rules of the bus, time lines, and the ledger that counts every crossing.
//!
//! ```text
//! driver -> Machine (Host) -> bus (register writes, DMA, interrupts) <- device (Port)
//!              |                 |
//!              +---- Platform: memory, guard, ledger, interrupts, wire
//! ```
//!
//! A [`Machine`] is the CPU's side of one platform with one device; it
//! implements [`Host`](doorbell_hal::Host). A bus such as [`Pcie`] is the
//! device's side; it implements [`Port`](doorbell_hal::Port) and books each
//! transaction on its time lines; [`Pci`] and [`Axi`] are others. Both sides meet in a
//! [`Platform`], which also says where a mapped buffer lies for the device
//! ([`Mapping`]).
#![forbid(unsafe_code)]

pub mod axi;
mod departures;
pub mod fault;
pub mod ledger;
pub mod machine;
pub mod memory;
pub mod meter;
mod outstanding;
pub mod partition;
pub mod pci;
pub mod pcie;
pub mod platform;
mod sink;
pub mod tce;
pub mod timeline;
pub mod trace;

pub use axi::Axi;
pub use departures::keep_every_other;
pub use ledger::Ledger;
pub use machine::{Bus, Costs, Machine, Price};
pub use memory::{Memory, ProtectionGranularity};
pub use meter::{Access, Meter};
pub use partition::{Each, Hypercalls, Hypervised, Partitions, Vio};
pub use pci::Pci;
pub use pcie::{Latencies, Pcie};
pub use platform::{Mapping, Platform, Refused, Stray, Strays};
pub use sink::{Capture, FrameSink};
pub use timeline::TimeLine;
pub use trace::Trace;
