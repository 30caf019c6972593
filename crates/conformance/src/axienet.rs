//! What an AXI Ethernet with AXI DMA and its driver have to do together, on any arm.
//!
//! A body is generic over the machine and over an [`Arm`], the rest of a test: the other
//! end of the cable, the passing of time, the three interrupt lines, and what this
//! machine's device is known to lack. Bodies run on QEMU's model, which others wrote,
//! and on our own. A body that needs what an arm lacks prints so.
//!
//! Time differs between the arms: QEMU counts the delay in its clock and not in
//! 125 of it. A body speaks of units of the delay, and the arm says how long one is.

mod bench;
mod coalescing;
mod core;
mod data;
mod list;

pub use self::core::{bus_error, done_descriptor, filter, mdio, reset, statistics};
pub use coalescing::{adaptive, delay, interrupt_levels, threshold, threshold_counts_packets};
pub use data::{
    checksum_offload, jumbo, receive, receive_checksum, ring_wrap_and_stop, rx_exhaustion, scatter,
    too_long, transmit,
};

use doorbell_hal::{Host, Span};

/// What a device may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// The MAC makes short frames 60 bytes long.
    Padding,
    /// The status of a transmitted descriptor has its length.
    TxStatusLength,
    /// It sums from where it is told to, and all that it receives. A core is built with
    /// this or the next, or with none.
    PartialChecksum,
    /// IP, TCP and UDP checksums are found and inserted, and judged on receive.
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
    /// A descriptor that is done already is an error that interrupts; it halts the
    /// channel anyway.
    DoneIsError,
    /// An access to where no memory is halts the channel, and is an error that interrupts.
    BusErrors,
}

/// What an arm lacks, and why.
pub type Lacks = &'static [(Fact, &'static str)];

/// The rest of a test.
pub trait Arm<H: Host> {
    /// A frame without FCS arrives from the wire, and is in memory on return if it
    /// can be. This takes far less than 50 units of the delay.
    fn inject(&mut self, h: &mut H, frame: &[u8]);
    /// The next frame that left on the wire, without FCS; `None` when none is on its way.
    fn collect(&mut self, h: &mut H) -> Option<Vec<u8>>;
    /// Time passes, and the device does what is due.
    fn wait(&mut self, h: &mut H, span: Span);
    /// Whether interrupt line `n` of [`doorbell_layout::axienet::line`] is high, now that
    /// all has arrived.
    fn interrupt(&mut self, h: &mut H, n: u16) -> bool;
    /// How long a unit of the delay is.
    fn delay_unit(&self) -> Span;
    /// What it lacks.
    fn lacks(&self) -> Lacks;

    /// Whether it has this fact; when not, that is printed.
    fn has(&self, body: &str, f: Fact) -> bool {
        let lack = self.lacks().iter().find(|(lack, _)| *lack == f);
        if let Some((_, why)) = lack {
            println!("{body}: not judged here: {f:?}: {why}");
        }
        lack.is_none()
    }
}
