//! The device's side: NIC models and their port.

use crate::{Direction, Hcall, Iova, Reg, Reply, Time};
use alloc::{string::String, vec::Vec};

/// A value of a device that helps to diagnose a standstill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// A number: a ring's head.
    Number(u64),
    /// A register of bits: an interrupt mask.
    Bits(u64),
    /// A condition: link up.
    State(bool),
}

/// A rule of a device's manual, and how often the driver broke it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The number of times.
    pub broken: u64,
    /// The rule, in words that follow the number, with the section of the manual.
    pub text: &'static str,
    /// The model works all the same: a break of the rule is a warning.
    pub works: bool,
}

/// A source of events in virtual time.
pub trait EventSource {
    /// Returns the time of its next event, if one is pending. It changes if a timer restarts.
    fn next_due(&self) -> Option<Time>;
    /// Passes the values that explain a standstill to `tell`: heads and tails of rings, interrupt
    /// causes and masks, the link. Each has the name of its register or a plain noun. Not called
    /// while packets move.
    fn diagnose(&self, _tell: &mut dyn FnMut(&'static str, Fact)) {}
    /// Passes each counter of its own to `tell`, by name. Not called while packets move.
    fn counters(&self, _tell: &mut dyn FnMut(&'static str, u64)) {}
    /// Describes the `n`th different request of a driver that it does not know, if there were so
    /// many.
    fn unknown(&self, _n: usize) -> Option<String> {
        None
    }
    /// Returns the name of a register in the manual. A table of registers has one name.
    fn register_name(&self, _r: Reg) -> Option<&'static str> {
        None
    }
}

/// A NIC model.
///
/// Virtual time is the `at` and `until` of these calls. The device may *read* announced memory at
/// once, but its effects (memory writes, MSIs, rising interrupt lines, frames) happen inside
/// `advance`, in the order of their times. Its owner calls `advance(now)` before an effect could be
/// seen. Only a register access may act at once, at its `at`: reading a cause register lowers the
/// line, arming a queue with entries sends the pending MSI.
pub trait Device<P: Port>: EventSource {
    /// Reads a register of `size` bytes (1, 2, 4 or 8) for the CPU. A missing register reads as in
    /// hardware.
    fn mmio_read(&mut self, p: &mut P, at: Time, r: Reg, size: u8) -> u64;
    /// Writes a register for the CPU. `at` may be later than the last `advance`: a device whose
    /// earlier events depend on the write advances first (`self.advance(p, at)`).
    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, size: u8, v: u64);
    /// Receives a frame without FCS from the wire.
    fn receive(&mut self, p: &mut P, at: Time, frame: &[u8]) -> RxVerdict;
    /// Receives a frame as [`Device::receive`]. Unless it holds the frame back, the device may keep
    /// the buffer, so that no byte is copied, and leave another with any bytes.
    fn receive_buffer(&mut self, p: &mut P, at: Time, frame: &mut Vec<u8>) -> RxVerdict {
        self.receive(p, at, frame)
    }
    /// Does everything that is due up to and including `until`.
    fn advance(&mut self, p: &mut P, until: Time);
    /// Does what is due up to `until`, but no more after the first instant with an effect outside
    /// memory: an interrupt, a frame that leaves. Returns that instant. A device that cannot tell
    /// stops at each event.
    fn advance_to_effect(&mut self, p: &mut P, until: Time) -> Option<Time> {
        let due = self.next_due().filter(|due| *due <= until)?;
        self.advance(p, due);
        Some(due)
    }
    /// Pulls the cable, or plugs it in. A device without a link stays as it is.
    fn cable(&mut self, _p: &mut P, _at: Time, _plugged: bool) {}
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
    fn hcall(&mut self, ports: &mut [P], from: usize, at: Time, c: Hcall, a: &[u64; 9]) -> Reply;
    /// Receives a frame, as [`Device::receive`].
    fn receive(&mut self, ports: &mut [P], at: Time, frame: &[u8]) -> RxVerdict;
    /// Receives a frame, as [`Device::receive_buffer`].
    fn receive_buffer(&mut self, ports: &mut [P], at: Time, frame: &mut Vec<u8>) -> RxVerdict {
        self.receive(ports, at, frame)
    }
    /// Advances the device, as [`Device::advance`].
    fn advance(&mut self, ports: &mut [P], until: Time);
    /// Resets the device to the hypervisor's start, without registrations.
    fn reset(&mut self, ports: &mut [P], at: Time);
}

/// A device's only access to the outside, one per function or partition.
pub trait Port {
    /// Reads host memory. Returns the time at which the last byte arrives at the device.
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault>;
    /// Reads host memory as [`Port::read`], of which the device looks at the first `seen` bytes.
    /// The rest only passes on to the wire: a port whose frames nobody looks at may leave it as it
    /// is in `into`, so that no byte of it is copied.
    fn read_passing(
        &mut self,
        at: Time,
        from: Iova,
        into: &mut [u8],
        _seen: usize,
    ) -> Result<Time, DmaFault> {
        self.read(at, from, into)
    }
    /// Returns the time from which one more read can be under way. A read before it waits.
    fn read_ready(&self) -> Time {
        Time::ZERO
    }
    /// Writes host memory, posted. Returns the time at which the last byte arrives in memory.
    /// Writes of one port arrive in order.
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault>;
    /// Writes host memory as [`Port::write`]. Unless it refuses the write, the port may keep the
    /// buffer, so that no byte is copied on the way, and leave another with any bytes.
    fn write_buffer(&mut self, at: Time, to: Iova, from: &mut Vec<u8>) -> Result<Time, DmaFault> {
        self.write(at, to, from)
    }
    /// Writes parts of an area at `to`, each at its offset, one after another. Together they fill
    /// the area.
    fn write_parts(
        &mut self,
        at: Time,
        to: Iova,
        parts: &[(u64, &[u8])],
    ) -> Result<Time, DmaFault> {
        write_each(self, at, to, parts)
    }
    /// Checks that `len` bytes at `at` could be read (`ToDevice`) or written now, as a hypervisor
    /// does before it accepts a partition's buffer. Takes no time, but is [charged](Port::charge).
    /// A port that cannot check returns `Ok`; the access itself faults.
    fn check_access(&mut self, _at: Iova, _len: u32, _dir: Direction) -> Result<(), DmaFault> {
        Ok(())
    }
    /// Announces that the next write is a completion. Returns true if it must report an error
    /// (fault injection).
    fn begin_completion(&mut self, _at: Time) -> bool {
        false
    }
    /// Charges the guest for work that the device does for it: frames sent, comparisons, entries
    /// walked, bytes moved, objects reset. The port itself charges reads and checks of accesses. A
    /// unit is some 10 ns of work: a comparison with all that belongs to it, or 16 bytes moved
    /// ([`transfer_units`]). Where time is simulated nobody is charged.
    fn charge(&mut self, _units: u64) {}
    /// Returns true if the guest's share of a turn is spent: the device shall leave what else is
    /// due to its next advance, because others wait for their turn. Never where time is simulated.
    fn is_spent(&self) -> bool {
        false
    }
    /// Sets the level of interrupt line `n`. The port applies masks.
    fn set_irq_line(&mut self, at: Time, n: u16, high: bool);
    /// Sends message-signalled interrupt `vector`, which arrives after earlier writes.
    fn raise_msi(&mut self, at: Time, vector: u16);
    /// Sends a frame without FCS on the wire. `at` is the time of its first bit.
    fn emit(&mut self, at: Time, frame: &[u8]);
    /// Sends a frame as [`Port::emit`]. The port may keep the buffer and leave another with any
    /// bytes.
    fn emit_buffer(&mut self, at: Time, frame: &mut Vec<u8>) {
        self.emit(at, frame);
    }
}

/// Writes the parts of an area at `to` one by one, as [`Port::write_parts`] does by itself.
pub fn write_each<P: Port + ?Sized>(
    p: &mut P,
    at: Time,
    to: Iova,
    parts: &[(u64, &[u8])],
) -> Result<Time, DmaFault> {
    let mut parts = parts.iter().filter(|part| !part.1.is_empty());
    parts.try_fold(at, |at, (offset, bytes)| p.write(at, to + *offset, bytes))
}

/// Returns the units of [`Port::charge`] of an access to memory, or of a frame, of so many bytes.
pub const fn transfer_units(bytes: usize) -> u64 {
    16 + bytes as u64 / 16
}

/// A refused access of a device. Nothing was transferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DmaFault {
    /// The first address that could not be reached.
    pub at: Iova,
    /// The reason.
    pub kind: DmaFaultKind,
}

/// The reason for a refused DMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DmaFaultKind {
    /// No live mapping covers the address.
    Unmapped,
    /// A mapping covers it, but not for this direction.
    Direction,
    /// An injected fault (`--fault`).
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

/// The reason for a dropped frame.
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
