//! Intel 8254x: 82544GC, 82540EM and 82545EM.
//!
//! Sources: Intel's "PCI/PCI-X Family of Gigabit Ethernet Controllers Software
//! Developer's Manual" (317453), called SDM here; what Linux's e1000 expects. QEMU has
//! models of the same parts; where they do less than the manual (delay timers,
//! descriptor thresholds, receive checksums, the FIFOs) the manual is followed, and the
//! modules say so. What the manual leaves open is a [`Config`] value or is said below.
//!
//! ```text
//! TDT -> [fetch descriptors] -> on chip -> [read data] -> packet -> checksum, segments
//!     -> transmit FIFO -> wire          \-> write-back -> TXDW, or TIDV/TADV first
//! wire -> filter, checksum, tag -> receive FIFO -> [write data] -> write-back
//!     -> RXT0, or RDTR/RADV first                          causes -> mask -> ITR -> line
//! ```
//!
//! **The bus interface** has one read outstanding, of descriptors or data: what
//! waits for a descriptor goes first, then data, then prefetch. Writes are posted,
//! a few at a time. A buffer is read in one piece, except that segmentation reads
//! what one segment needs, and that the FIFO must have room.
//!
//! **FIFOs** divide 64 KiB as PBA says. A packet is sent when all of it is in the
//! FIFO. One that can never fit stops the transmitter, as in life, until CTRL.RST. A
//! received frame leaves the FIFO when it is in memory; with no descriptor it
//! waits (RNBC), with no room it is missed (MPC, RXO). QEMU drops it at once.
//!
//! **Errata** that touch buffers are modelled ([`Config::errata`]), so that a driver that
//! lacks a workaround hangs here too. Not modelled: premature write-back of
//! segmented packets, hardware padding that corrupts (nobody says which bytes),
//! and those of steppings and parts that are not these three.
//!
//! **Memory that is not there** stops all DMA until CTRL.RST.
//!
//! **Registers** are dwords. A shorter write does nothing, a shorter read gives
//! its part, and 8 bytes are two accesses, the low half first.

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
mod stats;
mod transmit;
mod wire;

pub use config::{Config, Slot, Speed, Variant};
pub use device::{Counters, E1000};

#[cfg(test)]
mod tests;
