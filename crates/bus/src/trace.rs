//! A recorder: what happened to the first packets, each thing with its time.
//!
//! The ledger counts; this remembers. It hangs on the [`Platform`](crate::Platform), where CPU, bus
//! and device meet, and is absent but when asked for: then each place that could note something
//! looks once whether it is there. What is noted changes nothing, so a run with it and a run
//! without it are the same.
//!
//! # What is noted, and where
//!
//! | by | what |
//! |---|---|
//! | the lab's clocks ([`Machine::mark`](crate::Machine::mark)) | a call of the driver, from its begin to its end |
//! | [`Machine`](crate::Machine) | work, register accesses, fences, mappings, copies to shared memory, hypervisor calls |
//! | the buses | how long which transfer held which direction |
//! | the device's [`Port`](doorbell_hal::Port) | reads and writes, from the request to the last byte |
//! | [`Platform`](crate::Platform) | messages, interrupt lines, frames that leave |
//!
//! What a device does with a transfer it does not say, but where the bytes lie does ([`Stage`]): a
//! ring is in coherent memory, a packet in a mapped buffer, in a slot that the driver copied it to,
//! or in one that the driver copies it out of: that is known only then, and what was noted as
//! written to a ring becomes a packet's. The bytes of packets are kept, so that a frame on the wire
//! can be found again in the buffer that it came from.
//!
//! The memory for all this is bounded by the number of packets that were asked for; what comes
//! later is not noted.

use doorbell_hal::{CpuWork, Direction, Hcall, Iova, Reg, Time};
use std::collections::BTreeMap;
use std::ops::Range;

/// Something that happened, from one time to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When it began.
    pub from: Time,
    /// When it was over; the same where it takes no time.
    pub until: Time,
    /// What it was.
    pub what: What,
}

/// What happened, by where.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// On a core of this number.
    Core(u16, Step),
    /// On the bus.
    Bus(Link, Crossing),
    /// In the device: this part of its work, on so many bytes at an address of its own.
    Device(Stage, Iova, Bytes),
    /// An interrupt line of this number was high.
    Line(u16),
    /// A message of this vector arrived.
    Message(u16),
    /// A frame's first bit left.
    Frame(Bytes),
}

/// What a core does.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A call, which the other steps are part of.
    Call(Call),
    /// Work that the driver declared, or what is above it.
    CpuWork(CpuWork),
    /// A register is read: `size` bytes.
    Read(Reg, u8),
    /// A register is written.
    Write(Reg, u8),
    /// A fence.
    Fence,
    /// A buffer is lent to the device.
    Map(Lent),
    /// And given back.
    Unmap(Lent),
    /// The driver looks into a buffer that stays lent: a small frame is copied out.
    Look(Lent),
    /// Bytes are copied to so many at an address that the device may always use.
    Copy(Iova, u32),
    /// And out of there.
    CopyOut(Iova, u32),
    /// A hypervisor call.
    Hcall(Hcall),
}

/// Calls of a driver, and of what is above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `Driver::transmit`.
    Transmit,
    /// `Driver::poll`.
    Poll,
    /// `Driver::interrupt`, for this line or vector.
    Interrupt(u16),
    /// `Driver::work`.
    CpuWork,
    /// What was received goes up the stack.
    Stack,
    /// Timers of the stack.
    Timers,
    /// An application's system call.
    Application,
}

/// Bytes lent to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Where the device finds the first.
    pub at: Iova,
    /// How many.
    pub len: u32,
    /// Which way.
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
pub struct Crossing {
    /// The bus's name for it: `MRd`, `MWI`.
    pub name: &'static str,
    /// Of the first byte.
    pub at: Iova,
    /// Bytes on the link; of PCI Express with framing and headers.
    pub bytes: u64,
    /// Packets, commands or bursts.
    pub count: u64,
}

/// A part of a device's work, as its transfers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Reads rings and contexts.
    FetchDescriptors,
    /// Reads a packet.
    FetchData,
    /// Writes rings: completions.
    WriteBack,
    /// Writes a packet.
    DeliverData,
}

/// Bytes that were moved: how many, and where they are kept if they are a packet's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// How many.
    pub len: u32,
    kept: Option<u32>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Trace {
    events: Vec<Event>,
    data: Vec<u8>,
    /// Copies to shared memory: what the device reads there is a packet.
    slots: Vec<Range<u64>>,
    /// What the device wrote last to shared memory, by address: its event.
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
    /// For `packets` packets.
    pub fn new(packets: u32) -> Trace {
        let (events, data, slots, written) = (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
        Trace { events, data, slots, written, frames: 0, packets, full: false }
    }

    /// What happened, in the order in which it was noted; a call comes after its steps.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The bytes of a packet; `None` for those that were read from rings.
    pub fn bytes(&self, b: Bytes) -> Option<&[u8]> {
        let start = b.kept? as usize;
        self.data.get(start..start + b.len as usize)
    }

    /// Whether there was more than it holds.
    pub fn is_full(&self) -> bool {
        self.full
    }

    fn has_room(&mut self) -> bool {
        let packets = self.packets as usize;
        self.full |= self.events.len() >= EVENTS + EVENTS_A_PACKET * packets
            || self.data.len() >= BYTES + BYTES_A_PACKET * packets;
        !self.full
    }

    /// Notes something.
    #[cold]
    #[inline(never)]
    pub fn add(&mut self, from: Time, until: Time, what: What) {
        match what {
            // Free work is no event.
            What::Core(_, Step::CpuWork(_)) if from == until => return,
            What::Core(_, Step::Copy(at, len)) => {
                let slot = at.0..at.0.saturating_add(len.into());
                self.slots.retain(|s| s.end <= slot.start || slot.end <= s.start);
                self.slots.push(slot);
            }
            What::Core(_, Step::CopyOut(at, len)) => {
                let slot = at.0..at.0.saturating_add(len.into());
                for (_, event) in self.written.extract_if(slot, |_, _| true) {
                    if let What::Device(stage, ..) = &mut self.events[event].what {
                        *stage = Stage::DeliverData;
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

    /// The device moved `bytes`; `shared` says whether they lie in coherent memory.
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
        let stage = match (dir, packet) {
            (Direction::ToDevice, false) => Stage::FetchDescriptors,
            (Direction::ToDevice, true) => Stage::FetchData,
            (Direction::FromDevice, false) => Stage::WriteBack,
            (Direction::FromDevice, true) => Stage::DeliverData,
        };
        if stage == Stage::WriteBack {
            self.written.insert(at.0, self.events.len());
        }
        // What is written to a ring may turn out to be a packet.
        let kept = packet || stage == Stage::WriteBack;
        let bytes =
            if kept { self.keep(bytes) } else { Bytes { len: bytes.len() as u32, kept: None } };
        // There was room, and what is kept of it is the last that there may be.
        self.events.push(Event { from, until, what: What::Device(stage, at, bytes) });
    }

    /// A frame leaves. More than were asked for are not noted.
    #[cold]
    #[inline(never)]
    pub fn frame(&mut self, at: Time, frame: &[u8]) {
        if self.frames < self.packets && self.has_room() {
            self.frames += 1;
            let bytes = self.keep(frame);
            self.events.push(Event { from: at, until: at, what: What::Frame(bytes) });
        }
    }
}

#[cfg(test)]
mod tests;
