//! Intel 8254x: 82544GC, 82540EM and 82545EM; and the 82574L of PCI Express, which is like them.
//!
//! The bus interface has one read outstanding: descriptors that something waits for, then data,
//! then prefetch. The FIFOs divide 64 KiB as PBA says. Errata of buffers are modelled
//! ([`Config::errata`]). Unreachable memory stops all DMA until CTRL.RST. Registers are dwords; a
//! shorter write does nothing. docs/device-models.md has the data path and the omissions.
//!
//! Sources: Intel's "PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual"
//! (317453), called SDM here; Linux's e1000. "82574" and a number are a
//! section of Intel's "82574 GbE Controller Family Datasheet"; Linux's e1000e.

mod config;
mod device;
mod eeprom;
mod filter;
mod interrupt;
mod offload;
mod phy;
mod receive;
mod registers;
mod ring;
mod rss;
mod stats;
mod transmit;
mod wire;

pub use config::{Config, Slot, Speed, Variant};
pub use device::{Counters, E1000};

#[cfg(test)]
mod tests;
