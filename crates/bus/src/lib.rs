//! Everything between a driver and a device: host memory and its mappings, buses, and the ledger.
//!
//! ```text
//! driver -> Machine (Host) -> bus (register writes, DMA, interrupts) <- device (Port) -> FrameSink
//!              |                 |
//!              +---- Platform: memory, mappings, interrupts, ledger
//! ```
//!
//! A [`Machine`] is the CPU's side of one platform with one device. A bus such as [`Pcie`], [`Pci`]
//! or [`Axi`] is the device's side. [`meter`] counts what an access becomes.
//!
//! ```
//! use doorbell_bus::pcie::{Operation, Rules, Settings, transactions};
//!
//! // A device reads a frame over PCI Express 2.0 x8: requests to the host, completions back.
//! let rules = Rules::new(Settings::link(2, 8))?;
//! let commands: Vec<_> = transactions(&rules, Operation::Read, 0x1000, 300).collect();
//! assert_eq!(commands[0].command.name(), "MRd");
//! assert!(commands.iter().map(|t| t.wire_bytes).sum::<u32>() > 300);
//! # Ok::<(), doorbell_bus::RulesError>(())
//! ```
#![forbid(unsafe_code)]

pub mod axi;
pub mod cache;
mod departures;
pub mod fault;
pub mod iotlb;
pub mod ledger;
pub mod log;
pub mod machine;
pub mod memory;
pub mod meter;
pub mod order;
mod outstanding;
pub mod partition;
pub mod pci;
pub mod pcie;
pub mod platform;
pub mod random;
pub mod reservations;
mod rules;
mod sink;
pub mod tce;
pub mod trace;

pub use axi::Axi;
pub use cache::Cache;
pub use departures::keep_every_other;
pub use ledger::Ledger;
pub use log::Log;
pub use machine::{Bus, Costs, Machine, Price};
pub use memory::{Memory, ProtectionGranularity};
pub use meter::{Access, Meter};
pub use order::{Order, Ordered};
pub use partition::{CallPrice, Each, Hypercalls, HypervisorDevice, HypervisorPort, Partitions};
pub use pci::Pci;
pub use pcie::{Latencies, Pcie};
pub use platform::{Mapping, Platform, Refused, Stray, Strays};
pub use reservations::Reservations;
pub use rules::RulesError;
pub use sink::{Capture, FrameSink};
pub use trace::Trace;
