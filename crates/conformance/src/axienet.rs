//! Conformance cases of an AXI Ethernet with AXI DMA and its driver.
//!
//! A case is generic over the machine and over a [`Backend`]: the other end of the cable, the
//! passing of time, the three interrupt lines, and missing capabilities. Cases run on QEMU's model
//! and on ours. A case that needs an unsupported capability prints so.
//!
//! The delay of the DMA counts 1 cycle in QEMU and 125 in hardware, so cases count time in units of
//! the delay, whose length the backend gives.

mod coalescing;
mod core;
mod data;
mod harness;
mod list;
pub mod model;

pub use self::core::{bus_error, done_descriptor, filter, mdio, reset, statistics};
pub use coalescing::{adaptive, delay, interrupt_levels, threshold, threshold_counts_packets};
pub use data::{
    checksum_offload, jumbo, receive, receive_checksum, ring_wrap_and_stop, rx_exhaustion, scatter,
    too_long, transmit,
};

use crate::{Unsupported, supports};
use doorbell_hal::{Host, Span};

/// A capability that a device may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capability {
    /// The MAC makes short frames 60 bytes long.
    Padding,
    /// The status of a transmitted descriptor has its length.
    TxStatusLength,
    /// It sums from an offset given by the driver, and all received bytes. A core is built with
    /// this capability or the next, or with none.
    PartialChecksum,
    /// It inserts IP, TCP and UDP checksums and verifies them on receive.
    FullChecksum,
    /// Reset of a channel resets the other and the MAC.
    ResetOfAll,
    /// RS = 0 halts a channel.
    StopHalts,
    /// CURDESC keeps its value when written while the channel runs.
    CurrentLatches,
    /// Entries of the frame filter have masks, and can be off.
    FilterMask,
    /// Transmitted frames are counted.
    TxStatistics,
    /// A completed descriptor halts the channel with an error interrupt.
    DoneIsError,
    /// An access outside of memory halts the channel with an error interrupt.
    BusErrors,
}

/// The environment of a device under test.
pub trait Backend<H: Host> {
    /// Delivers a frame without FCS from the wire, into memory if possible. Takes far less than 50
    /// units of the delay.
    fn inject(&mut self, h: &mut H, frame: &[u8]);
    /// Returns the next frame on the wire without FCS, if there is one.
    fn collect(&mut self, h: &mut H) -> Option<Vec<u8>>;
    /// Advances time; the device does its due work.
    fn wait(&mut self, h: &mut H, span: Span);
    /// Returns the level of interrupt line `n` of [`doorbell_layout::axienet::line`] after all
    /// frames have arrived.
    fn interrupt(&mut self, h: &mut H, n: u16) -> bool;
    /// Returns the length of a unit of the delay.
    fn delay_unit(&self) -> Span;
    /// Returns the missing capabilities.
    fn unsupported(&self) -> Unsupported<Capability>;

    /// Returns true if it has a capability. Prints the reason otherwise.
    fn has(&self, case: &str, c: Capability) -> bool {
        supports(self.unsupported(), case, c)
    }
}
