//! The device's side: what a NIC model is, and its only way out.

use crate::{Direction, Hcall, HcallReturn, Iova, Reg, Time};

/// A value of a device, for a person who looks for the cause of a standstill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// A number: a ring's head.
    Number(u64),
    /// A register of bits: an interrupt mask.
    Bits(u64),
    /// A state that is or is not.
    State(bool),
}

/// A source of events in virtual time.
pub trait EventSource {
    /// Returns the time of its next event; `None` if nothing is pending. A timer
    /// that restarts is a time that moves.
    fn next_due(&self) -> Option<Time>;
    /// Tells what a person would look at first when nothing moves any more: the rings' heads and
    /// tails, interrupt causes and masks, the link. Each value has the name of its register or
    /// a plain noun. Never called while packets move.
    fn diagnose(&self, _tell: &mut dyn FnMut(&'static str, Fact)) {}
}

/// A NIC model.
///
/// Virtual time reaches it through the `at` and `until` of these calls. It may
/// *read* announced memory as soon as it is announced, but what it does to the
/// outside (memory writes, messages, rising interrupt lines, frames) happens
/// inside `advance`, at its own time, in the order of those times. Whoever owns
/// the device calls `advance(now)` before anything could see such an effect. Only
/// a register access may act at once, at its `at`: reading a cause register
/// lowers the line, arming a queue that has entries sends the message it owes.
pub trait Device<P: Port>: EventSource {
    /// The CPU reads a register of `size` bytes (1, 2, 4 or 8). A register that
    /// does not exist reads as the hardware would have it.
    fn mmio_read(&mut self, p: &mut P, at: Time, r: Reg, size: u8) -> u64;
    /// The CPU writes a register. The write arrives at `at`, which may be ahead of
    /// the last `advance`: where it changes what is due before, the device does
    /// that first (`self.advance(p, at)`).
    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, size: u8, v: u64);
    /// A frame, without FCS, arrives from the wire.
    fn receive(&mut self, p: &mut P, at: Time, frame: &[u8]) -> RxVerdict;
    /// Does everything that is due up to and including `until`.
    fn advance(&mut self, p: &mut P, until: Time);
    /// Resets the device as power-on or a function-level reset does: nothing pending, no DMA.
    fn reset(&mut self, p: &mut P, at: Time);
}

/// A device that lives in the hypervisor and is reached by its calls, from
/// several partitions. It has no registers.
///
/// `ports[i]` is partition `i`'s memory and interrupts. Every call gets all of
/// them, for what one partition sends may arrive in another, at once or later.
/// Time is as for a [`Device`], except that a call does its work while the
/// caller waits, so that `hcall` too may write, interrupt and emit.
pub trait HcallDevice<P: Port>: EventSource {
    /// Partition `from` makes call `c` with arguments `a`, zero where it gave
    /// none. `advance(at)` has been called. Also says when the caller's CPU comes
    /// back from what the device did; the fixed price of a call is outside.
    fn hcall(
        &mut self,
        ports: &mut [P],
        from: usize,
        at: Time,
        c: Hcall,
        a: &[u64; 9],
    ) -> (HcallReturn, Time);
    /// Takes a frame, as [`Device::receive`].
    fn receive(&mut self, ports: &mut [P], at: Time, frame: &[u8]) -> RxVerdict;
    /// Does what is due, as [`Device::advance`].
    fn advance(&mut self, ports: &mut [P], until: Time);
    /// Resets the device to the hypervisor's start: no partition has registered anything.
    fn reset(&mut self, ports: &mut [P], at: Time);
}

/// A device's only way out; one per function or partition.
pub trait Port {
    /// Reads host memory. The bytes are there on return; the `Time` says when
    /// the last of them arrives at the device.
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault>;
    /// Writes host memory, posted. The `Time` says when the last byte arrives in
    /// memory; writes of one port arrive in the order they were made.
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault>;
    /// Checks that `len` bytes there could be read (`ToDevice`) or written now: what a hypervisor
    /// looks up before it accepts a partition's buffer. Moves nothing and takes no time. A port
    /// that cannot tell says yes; the access itself will.
    fn check_access(&self, _at: Iova, _len: u32, _dir: Direction) -> Result<(), DmaFault> {
        Ok(())
    }
    /// The device is about to write a report: a completion, or a descriptor as done. Whether the
    /// report is to be of a failure, by a fault that was asked for.
    fn begin_completion(&mut self, _at: Time) -> bool {
        false
    }
    /// Raises or lowers interrupt line `n`, a level. Whether it is masked is
    /// looked up outside, when it matters.
    fn set_irq_line(&mut self, at: Time, n: u16, high: bool);
    /// Sends message-signalled interrupt `vector`; it arrives after the writes
    /// made before it.
    fn raise_msi(&mut self, at: Time, vector: u16);
    /// A frame leaves on the wire, without FCS; `at` is when its first bit does.
    fn emit(&mut self, at: Time, frame: &[u8]);
}

/// A device's access to memory that is not mapped for it, or does not exist.
/// Nothing was transferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DmaFault {
    /// The first address that could not be reached.
    pub at: Iova,
    /// Why.
    pub kind: DmaFaultKind,
}

/// Why a DMA access failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DmaFaultKind {
    /// No live mapping covers the address.
    Unmapped,
    /// A mapping covers it, but not for this direction.
    Direction,
    /// A fault that was asked for (`--fault`).
    Injected,
}

/// The device's verdict on a frame from the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RxVerdict {
    /// The device took it.
    Yes,
    /// It was dropped.
    Dropped(DropReason),
    /// Back-pressure: offer it again later.
    Hold,
}

/// Why a device dropped a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropReason {
    /// The receiver is off or the link is down.
    Off,
    /// Not addressed to this station.
    Filter,
    /// No receive buffer was posted, or none that fits.
    NoBuffer,
    /// On-chip memory was full.
    Fifo,
    /// Too short, too long or otherwise malformed.
    Malformed,
    /// Its buffer could not be reached.
    Dma,
}
