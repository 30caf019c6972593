//! AXI Ethernet with AXI DMA: AMD's soft MAC and its scatter-gather engine.
//!
//! Sources: AMD's product guides PG021 (AXI DMA) and PG138 (AXI Ethernet), as far as
//! their pages are public; what the VHDL of AXI DMA 7.1, as Vivado ships it, does
//! (axi_dma.vhd, axi_dma_register.vhd, axi_sg_intrpt.vhd); embeddedsw's `xaxidma_hw.h`
//! and `xaxiethernet_hw.h`; what Linux's `xilinx_axienet_main.c` expects. QEMU has models
//! of both cores; where they do less (units of the delay, error halts, back-pressure in
//! bytes, the PHY) the guides are followed, and the modules say so. What the guides leave
//! open is a [`Config`] value or is said below.
//!
//! ```text
//! TAILDESC -> [fetch descriptor] -> [read data] -> control words -> transmit memory -> wire
//!                                     \-> status word -> threshold, delay -> line 0
//! wire -> filter -> receive memory -> [fetch descriptor] -> [write data] -> status and
//!                                     application words -> threshold, delay -> line 1
//! ```
//!
//! **A channel's states** (MM2S transmits, S2MM receives):
//!
//! | state | SR | entered by | left by |
//! |---|---|---|---|
//! | halted | Halted | reset, RS 0 when all in work is done, an error | RS 1, unless an error is set |
//! | waiting | | RS 1 | TAILDESC |
//! | active | | TAILDESC | the descriptor at TAILDESC is done |
//! | idle | Idle | that | TAILDESC |
//!
//! The engine takes descriptors up to **and with** the one at TAILDESC. TAILDESC written to a
//! halted channel is kept and starts nothing. With addresses of more than 32 bits it
//! is the upper half that starts, so it has to be written, even if it is 0 (PG034).
//!
//! **Errors**: a length of 0, data or descriptors that cannot be reached, a descriptor that is
//! done already. SR says which, CURDESC where; the channel halts, and so does the other one, though
//! its SR has no error. Nothing but a reset helps. A reset of either channel is one of both, and of
//! the MAC and its PHY.
//!
//! **The memories** of the MAC hold whole frames. Transmitted ones wait there for the wire; with
//! no room the engine waits. Received ones wait for descriptors; with no room they
//! are dropped and counted (RxFifoOvr). A transmitted frame that can never fit is dropped.
//!
//! **Not modelled**: pause frames (FCC is storage), the extended VLAN tables, SNAP frames in full
//! checksum offload, simple DMA without descriptors, keyhole mode, several channels (MCDMA), and
//! the multicast address in APP0 and APP1 of received frames.
//!
//! **Registers** are words of 32 bits. A shorter write does nothing, a shorter read gives its
//! part, and 8 bytes are two accesses, the low half first.

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
