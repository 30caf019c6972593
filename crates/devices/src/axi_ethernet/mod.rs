//! AXI Ethernet with AXI DMA: AMD's soft MAC and its scatter-gather engine.
//!
//! A channel is halted, waiting for TAILDESC, active, or idle. An error halts both channels, and
//! only a reset, which is one of both cores, helps. The MAC's memories hold whole frames. Registers
//! are words of 32 bits; a shorter write does nothing. docs/device-models.md has the data path, the
//! states and the omissions.
//!
//! Sources: PG021 (AXI DMA), PG138 (AXI Ethernet); the VHDL of AXI DMA 7.1; embeddedsw's headers;
//! Linux's `xilinx_axienet_main.c`.

mod channel;
mod coalesce;
mod config;
mod device;
mod filter;
mod mac;
mod offload;
mod phy;
mod receive;
mod registers;
mod stats;
mod transmit;
mod wire;

pub use config::{Checksum, Config, Speed};
pub use device::{AxiEthernet, Counters};

#[cfg(test)]
mod tests;
