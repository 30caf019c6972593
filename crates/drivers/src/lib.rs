//! NIC drivers, generic over the [`Host`] they run on.
//!
//! A driver here is what sits between a stack and one queue pair of a NIC: it
//! takes [`Packet`]s, talks to the device through the `Host` alone, and gives
//! buffers back through a [`Sink`]. It knows no ledger and no platform number;
//! what it does with the CPU it declares with [`Host::charge`].
//!
//! [`Driver`] is what the lab's NAPI loop, the benches, the conformance bodies
//! and a newcomer's own driver go through. It stands here and not in the seam
//! because it speaks of packets, and a device author need not.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bql;
mod counters;

pub mod axienet;
pub mod e1000;
pub mod ibmveth;
pub mod ibmvnic;
pub mod mlx5;

pub use bql::Bql;
use doorbell_hal::{Buf, Host};
use doorbell_packet::Packet;

/// A driver for one queue pair, owned by one CPU.
pub trait Driver<H: Host> {
    /// Queues `p`. With `more`, another packet follows at once and the device
    /// need not be told yet (`netdev_xmit_more`); a batch ends with `more` false.
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx;
    /// Handles up to `budget` completions and received packets, as NAPI's poll.
    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll;
    /// The handler of interrupt `vector`.
    fn interrupt(&mut self, h: &mut H, vector: u16) -> Irq;
    /// Deferred work: recovery, moderation changes. Called when [`Poll::CpuWork`]
    /// asked for it, outside interrupt and poll.
    fn work(&mut self, _h: &mut H) {}
    /// Whether the transmit queue is stopped: `transmit` is not to be called
    /// until a poll has woken it.
    fn stopped(&self) -> bool;
    /// Bytes that the stack may queue before the byte limit of this queue ([`Bql`]) holds it back;
    /// below zero it starts no batch. A driver without such a limit leaves this as it is. The
    /// driver refuses nothing for it: a sender past the stack, such as pktgen, may go on.
    fn byte_room(&self) -> i32 {
        i32::MAX
    }
    /// Somebody looks after the queue. [`Irq::Poll`] when a poll is to follow; so it goes on as
    /// after an interrupt.
    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        let _ = why;
        self.work(h);
        Irq::None
    }
}

/// Why somebody looks after a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// The driver's own periodic work is due: every two seconds or so.
    Tick,
    /// The transmit queue has been stopped for too long (`ndo_tx_timeout`).
    TxTimeout,
    /// The platform saw accesses of the device fail (`pci_error_handlers`).
    IoError,
}

/// What became of a packet.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Tx {
    /// Queued.
    Ok,
    /// Not queued, and still the caller's: no room (`NETDEV_TX_BUSY`).
    Busy(Packet),
    /// Dropped and counted; the buffers are the caller's again.
    Dropped(Packet),
}

/// What a poll found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// All done, interrupts are enabled again.
    Idle,
    /// The budget was used up: poll again.
    Again,
    /// As `Idle`, and [`Driver::work`] has something to do.
    CpuWork,
}

/// What an interrupt handler found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Irq {
    /// Not from this device.
    None,
    /// Handled, nothing more to do.
    Handled,
    /// A poll is needed.
    Poll,
}

/// Where a driver's poll hands things up.
pub trait Sink {
    /// A transmitted packet's buffer is free again. A packet of several pieces
    /// gives each back, in order, the final one with `last`.
    fn sent(&mut self, b: Buf, cookie: u32, last: bool);
    /// A received packet. `verified` says that the device found its checksum good.
    fn received(&mut self, p: Packet, verified: bool);
}
