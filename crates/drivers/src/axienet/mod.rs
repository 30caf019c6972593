//! AXI Ethernet with AXI DMA (axienet), the soft core in AMD's FPGAs.
//!
//! Source: linux 6.17 drivers/net/ethernet/xilinx/xilinx_axienet_main.c (behaviour);
//! the registers are [`doorbell_layout::axienet`]'s.
//!
//! ```text
//! transmit -> descriptors (one a piece) -> TAILDESC, for every packet
//! device   -> Cmplt in each, threshold or delay -> interrupt: SR, CR -> poll -> CR
//! wire     -> buffers up to TAILDESC, Cmplt, threshold or delay -> the same poll
//! ```
//!
//! **Interrupts** come when so many packets are done (the threshold), or when after
//! the last of them nothing happens for a while (the delay). Both are in CR, beside
//! the enables. The handler clears the enables of its channel; the end of the poll
//! writes CR again, which arms the interrupt; what was latched meanwhile interrupts at once. What
//! is below the threshold is for the delay to announce, which is why a threshold above one without
//! a delay is refused. The core keeps its count at that write; QEMU's model begins anew.
//!
//! **Adaptive reception.** At the end of each poll that an interrupt began and that
//! ran dry, a [`Controller`] sees the counters. What it decides is brought to the
//! device by [`Driver::work`]: by default the number of packets alone, as Linux's
//! work item does with net_dim's index; the delay is the user's.
//!
//! **Descriptors** are in a ring that is linked once and for all. The device owns
//! those up to and with TAILDESC. One is done when its Cmplt is set; they are done in
//! order. What belongs to one (the mapping, the sender's cookie) is beside the ring, not in
//! its software area: the device would fetch it for nothing.
//!
//! **States.** Up -> (queue full) stopped -> (poll) up; up -> (error interrupt)
//! failed -> [`Driver::work`] resets the whole core, since reset knows no less, and starts
//! both rings anew; what was queued is dropped.
//!
//! As in Linux 6.17, the sum of a core with partial checksums is taken for every frame. Earlier
//! versions took it for IPv4 over 64 bytes only.
//!
//! Where it differs from Linux: a delay that rounds to zero units is one unit, for zero would be
//! none; an interrupt that was lost and a queue that hangs are found by [`Driver::alarm`]; space in
//! the ring is counted and not read from control words, which at the least ring Linux allows may
//! name a descriptor in use.
//!
//! [`Controller`]: doorbell_moderation::Controller
//! [`Driver::alarm`]: crate::Driver::alarm
//! [`Driver::work`]: crate::Driver::work

mod coalesce;
mod config;
mod hw;
mod mdio;
mod nic;
mod rx;
mod stats;
#[cfg(test)]
mod tests;
mod tx;

pub use coalesce::{Adaptive, Coalesce, control, delay_units};
pub use config::{Checksum, Config, OpenError, Speed};
pub use hw::Filter;
pub use mdio::{Link, MdioError, divisor};
pub use nic::Axienet;
pub use stats::{Hardware, Stats};
