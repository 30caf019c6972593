//! A recorder of the first packets: each event with its time.
//!
//! The [`Platform`](crate::Platform) holds it. Recording does not change a run. The lab's
//! schedulers record the driver's calls, the [`Machine`](crate::Machine) CPU work and accesses, the
//! buses transfers, the device's [`Port`](doorbell_hal::Port) its reads and writes. The address
//! tells the stage of the device's work ([`DmaStage`]): rings are in coherent memory, packets
//! elsewhere or in a slot that the driver copies to or from. The bytes of packets are kept. The
//! number of packets bounds the memory.

use doorbell_hal::{CpuWork, Direction, Hcall, Iova, Reg, Time};
use std::{collections::BTreeMap, ops::Range};

/// An event, from its start to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time of its beginning.
    pub from: Time,
    /// Time of its end, the same for an instant.
    pub until: Time,
    /// Its kind.
    pub what: EventKind,
}

/// The kind of an event, by the place where it happened.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// On a core of this number.
    Core(u16, CpuStep),
    /// On the bus.
    Bus(Link, Transfer),
    /// In the device: a part of its work, on bytes at a DMA address.
    Device(DmaStage, Iova, Bytes),
    /// An interrupt line of this number was high.
    Line(u16),
    /// A message of this vector arrived.
    Message(u16),
    /// A frame's first bit left.
    Frame(Bytes),
}

/// A step of a core.
#[derive(Clone, Debug, PartialEq)]
pub enum CpuStep {
    /// A call, which the other steps are part of.
    Call(DriverCall),
    /// Work that the driver or the stack declared.
    CpuWork(CpuWork),
    /// A register is read: its bytes and its value.
    Read(Reg, u8, u64),
    /// A register is written: its bytes and its value.
    Write(Reg, u8, u64),
    /// A fence.
    Fence,
    /// A buffer is lent to the device.
    Map(MappedRange),
    /// A buffer is given back.
    Unmap(MappedRange),
    /// The driver looks into a buffer that stays lent: a small frame is copied out.
    Look(MappedRange),
    /// Bytes are copied to a coherent area: address and length.
    Copy(Iova, u32),
    /// Bytes are copied out of a coherent area.
    CopyOut(Iova, u32),
    /// A hypervisor call.
    Hcall(Hcall),
}

/// Calls of a driver and of the stack above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverCall {
    /// `Driver::transmit`.
    Transmit,
    /// `Driver::poll`.
    Poll,
    /// `Driver::interrupt`, for this line or vector.
    Interrupt(u16),
    /// `Driver::work`.
    Work,
    /// The stack handles received packets.
    Stack,
    /// Timers of the stack.
    Timers,
    /// An application's system call.
    Application,
}

/// Bytes lent to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// The device's address of the first.
    pub at: Iova,
    /// Their number.
    pub len: u32,
    /// The direction.
    pub dir: Direction,
}

/// A direction of a bus, or all of it where it has but one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// PCI Express toward the device.
    PcieDown,
    /// PCI Express toward the host.
    PcieUp,
    /// PCI and PCI-X.
    Pci,
    /// AXI, data that the device reads.
    AxiRead,
    /// AXI, data that it writes.
    AxiWrite,
    /// AXI4-Lite: registers.
    AxiLite,
    /// The hypervisor's copies.
    Hypervisor,
}

/// A transfer that held a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The bus's name for it: `MRd`, `MWI`.
    pub name: &'static str,
    /// Address of the first byte.
    pub at: Iova,
    /// Bytes on the link; of PCI Express with framing and headers.
    pub bytes: u64,
    /// Packets, commands or bursts.
    pub count: u64,
}

/// A part of a device's work, as its transfers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DmaStage {
    /// Reads rings and contexts.
    FetchDescriptors,
    /// Reads a packet.
    FetchData,
    /// Writes rings: completions.
    WriteBack,
    /// Writes a packet.
    DeliverData,
}

/// Bytes that were moved. Those of a packet are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// Their number.
    pub len: u32,
    kept: Option<u32>,
}

/// The recorder of a platform.
#[derive(Debug)]
pub struct Trace {
    events: Vec<Event>,
    data: Vec<u8>,
    /// Copies to shared memory: what the device reads there is a packet.
    slots: Vec<Range<u64>>,
    /// The events of the device's last writes to shared memory, by address.
    written: BTreeMap<u64, usize>,
    frames: u32,
    packets: u32,
    full: bool,
}

/// Events besides those of packets: what goes on before the first.
const EVENTS: usize = 4096;
/// Events of a packet; a packet of TCP on a slow bus has some 100.
const EVENTS_A_PACKET: usize = 256;
/// Bytes that are kept, likewise: large sends are 64 KiB.
const BYTES: usize = 1 << 20;
const BYTES_A_PACKET: usize = 64 << 10;

impl Trace {
    /// Creates a recorder for `packets` packets.
    pub fn new(packets: u32) -> Trace {
        let (events, data, slots, written) = (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
        Trace { events, data, slots, written, frames: 0, packets, full: false }
    }

    /// Returns the events in the order in which they were noted. A call comes after its steps.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the bytes of a packet, or `None` for bytes read from rings.
    pub fn bytes(&self, b: Bytes) -> Option<&[u8]> {
        let start = b.kept? as usize;
        self.data.get(start..start + b.len as usize)
    }

    /// Returns true if there was more than it holds.
    pub fn is_full(&self) -> bool {
        self.full
    }

    fn has_room(&mut self) -> bool {
        let packets = self.packets as usize;
        self.full |= self.events.len() >= EVENTS + EVENTS_A_PACKET * packets
            || self.data.len() >= BYTES + BYTES_A_PACKET * packets;
        !self.full
    }

    /// Records an event.
    #[cold]
    #[inline(never)]
    pub fn add(&mut self, from: Time, until: Time, what: EventKind) {
        match what {
            // Free work is no event.
            EventKind::Core(_, CpuStep::CpuWork(_)) if from == until => return,
            EventKind::Core(_, CpuStep::Copy(at, len)) => {
                let slot = at.0..at.0.saturating_add(len.into());
                self.slots.retain(|s| s.end <= slot.start || slot.end <= s.start);
                self.slots.push(slot);
            }
            EventKind::Core(_, CpuStep::CopyOut(at, len)) => {
                let slot = at.0..at.0.saturating_add(len.into());
                for (_, event) in self.written.extract_if(slot, |_, _| true) {
                    if let EventKind::Device(stage, ..) = &mut self.events[event].what {
                        *stage = DmaStage::DeliverData;
                    }
                }
            }
            _ => {}
        }
        if self.has_room() {
            self.events.push(Event { from, until, what });
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Bytes {
        // The bound on what is kept is far below 4 GiB.
        let kept = Some(self.data.len() as u32);
        self.data.extend_from_slice(bytes);
        Bytes { len: bytes.len() as u32, kept }
    }

    /// Records that the device moved `bytes`, which lie in coherent memory if `shared`.
    #[cold]
    #[inline(never)]
    pub fn transfer(
        &mut self,
        (from, until): (Time, Time),
        at: Iova,
        bytes: &[u8],
        dir: Direction,
        shared: bool,
    ) {
        if !self.has_room() {
            return;
        }
        let packet = !shared || self.slots.iter().any(|s| s.contains(&at.0));
        let stage = match (dir.is_written(), packet) {
            (false, false) => DmaStage::FetchDescriptors,
            (false, true) => DmaStage::FetchData,
            (true, false) => DmaStage::WriteBack,
            (true, true) => DmaStage::DeliverData,
        };
        if stage == DmaStage::WriteBack {
            self.written.insert(at.0, self.events.len());
        }
        // What is written to a ring may turn out to be a packet.
        let kept = packet || stage == DmaStage::WriteBack;
        let bytes =
            if kept { self.keep(bytes) } else { Bytes { len: bytes.len() as u32, kept: None } };
        // There was room, and what is kept of it is the last that there may be.
        self.events.push(Event { from, until, what: EventKind::Device(stage, at, bytes) });
    }

    /// Records the departure of a frame, up to the number asked for.
    #[cold]
    #[inline(never)]
    pub fn frame(&mut self, at: Time, frame: &[u8]) {
        if self.frames < self.packets && self.has_room() {
            self.frames += 1;
            let bytes = self.keep(frame);
            self.events.push(Event { from: at, until: at, what: EventKind::Frame(bytes) });
        }
    }
}

#[cfg(test)]
mod tests;
