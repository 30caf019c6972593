//! NIC drivers, generic over the [`Host`] they run on.
//!
//! A driver serves one queue pair of a NIC for one CPU: it takes [`Packet`]s, reaches the device
//! through the `Host` alone, and returns buffers and received packets through a [`Sink`]. It knows
//! neither prices nor counters of the bus; CPU work is declared with [`Host::charge`].
//!
//! [`Driver`] is the interface that the lab's NAPI loop, the benches and out-of-tree drivers use.
//! It is here and not in `hal` because it speaks of packets, which a device does not know.
//!
//! ```
//! use doorbell_drivers::{Driver, Tx};
//! use doorbell_hal::Host;
//! use doorbell_packet::Packet;
//!
//! /// Sends packets, the last of which rings the doorbell. Returns how many the driver took.
//! fn send<H: Host>(driver: &mut impl Driver<H>, h: &mut H, packets: Vec<Packet>) -> usize {
//!     let last = packets.len();
//!     let sent = (1..).zip(packets).map(|(n, p)| driver.transmit(h, p, n < last));
//!     sent.take_while(|t| matches!(t, Tx::Ok)).count()
//! }
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bql;
mod common;
mod error;
#[cfg(kani)]
mod proofs;

pub mod axienet;
pub mod e1000;
pub mod ibmveth;
pub mod ibmvnic;
pub mod mlx5;

use alloc::vec::Vec;
pub use bql::Bql;
use core::ops::Range;
use doorbell_hal::{Buf, Host, Mapped};
use doorbell_packet::Packet;
pub use error::OpenError;
pub(crate) use error::{Opened, check};

/// Frames received besides unicast to the own address and broadcast.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Everything. Virtual adapters (ibmveth, ibmvnic) do not have it here.
    pub promiscuous: bool,
    /// All multicast; implied when there are more groups than a filter holds exactly. On ibmveth
    /// Linux uses it in the place of `promiscuous`.
    pub all_multicast: bool,
    /// These groups.
    pub multicast: Vec<[u8; 6]>,
}

/// A driver for one queue pair, owned by one CPU.
pub trait Driver<H: Host> {
    /// Queues `p`. With `more`, another packet follows at once and the doorbell may wait
    /// (`netdev_xmit_more`); a batch ends with `more` false.
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx;
    /// Handles up to `budget` completions and received packets, as NAPI's poll does.
    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll;
    /// Handles interrupt `vector`.
    fn interrupt(&mut self, h: &mut H, vector: u16) -> Irq;
    /// Does deferred work: recovery, moderation changes. Called outside interrupt and poll, after
    /// [`Poll::Work`].
    fn work(&mut self, _h: &mut H) {}
    /// Returns whether the transmit queue is stopped: `transmit` must not be called until a poll
    /// has woken it.
    fn stopped(&self) -> bool;
    /// Returns the bytes that the stack may queue before the byte limit of this queue ([`Bql`])
    /// holds it back; below zero it starts no batch. The driver does not enforce the limit: a
    /// sender that bypasses the stack, such as pktgen, ignores it. Without a limit the default is
    /// right.
    fn byte_room(&self) -> i32 {
        i32::MAX
    }
    /// Checks the queue. Returns [`Irq::Poll`] if the caller must poll, as after an interrupt.
    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        let _ = why;
        self.work(h);
        Irq::None
    }
}

/// Reason for a check of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// The driver's own periodic work is due: every two seconds or so.
    Tick,
    /// The transmit queue has been stopped for too long (`ndo_tx_timeout`).
    TxTimeout,
    /// The platform saw accesses of the device fail (`pci_error_handlers`).
    IoError,
}

/// Result of a transmit.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Tx {
    /// Queued.
    Ok,
    /// Not queued, because there is no room (`NETDEV_TX_BUSY`).
    Busy(Packet),
    /// Dropped and counted.
    Dropped(Packet),
}

/// Result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// All done; interrupts are enabled again.
    Idle,
    /// The budget was used up: poll again.
    Again,
    /// As `Idle`, and [`Driver::work`] must be called.
    Work,
}

/// Result of an interrupt handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Irq {
    /// Not from this device.
    None,
    /// Handled, nothing more to do.
    Handled,
    /// A poll is needed.
    Poll,
}

/// Receiver of a poll's results.
pub trait Sink {
    /// Takes back the buffer of a packet that was sent or dropped. A packet of several fragments
    /// returns each, in order, the final one with `last`. A large send that the driver segmented
    /// returns the buffer of its last segment.
    fn sent(&mut self, b: Buf, cookie: u32, last: bool);
    /// Takes a received packet. `verified`: the device found its checksum good.
    fn received(&mut self, p: Packet, verified: bool);
    /// Runs the program at the driver (XDP) on a received frame, the bytes `range` of a page that
    /// stays mapped. Only a queue that is set up for it asks.
    fn program<H: Host>(&mut self, _h: &mut H, _page: &Mapped, _range: Range<u32>) -> Verdict {
        Verdict::Pass
    }
}

/// The decision of a program at the driver about a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It goes up.
    #[default]
    Pass,
    /// It is dropped, and its page is received into again (`XDP_DROP`).
    Drop,
    /// It goes back to the wire from the page that it came in (`XDP_TX`).
    Send,
    /// It leaves at another port, from that page (`XDP_REDIRECT`). Where there is none it is
    /// dropped.
    Redirect,
}
