//! The machine without its CPU, and the steps that a guest's CPU and clock move it by.

use crate::peer::{Frames, OtherEnd, Seen};
use crate::plan::{Card, Plan, PlanError, Slot};
use crate::station::Requests;
use doorbell_bus::{Bus, Costs, Ledger, Machine, Memory, Pci, Pcie, Platform};
use doorbell_bus::{ProtectionGranularity, pci, pcie};
use doorbell_devices::{axi_ethernet::AxiEthernet, e1000::E1000, mlx5::Mlx5};
use doorbell_hal::{Device, Host, Port, Reg, Span, Time};
use doorbell_sim::histogram::Histogram;
use doorbell_sim::link::Wired;
use doorbell_spec::number::series::{SETTING_DELAY, SETTING_PACKETS};
use memmap2::MmapMut;

/// Bus address of the registers of a card on PCI, and of one on PCI Express: below 4 GiB, as
/// firmware places them.
const BAR: u64 = 0xfeb0_0000;

/// The error of a card where none goes.
pub(crate) const NO_SLOT: &str = "a card has a slot, and an adapter a hypervisor";

/// Counts since the machine's start.
#[derive(Clone, Debug)]
pub struct Counts {
    /// All that crossed the bus.
    pub ledger: Ledger,
    /// Hypervisor calls by name.
    pub calls: Vec<(&'static str, u64)>,
    /// The device's own counters.
    pub device: Vec<(&'static str, u64)>,
    /// Frames that the device did not take.
    pub dropped: u64,
    /// Frames of the device that arrived at the peer, since the last [`Board::mark`].
    pub sent: Seen,
    /// Frames of the peer, since the last [`Board::mark`].
    pub offered: Seen,
    /// Time from a request's first bit to its answer's last at the peer, since then. A frame that
    /// comes back is an answer.
    pub answers: Histogram,
    /// TCP segments that the peer's host has sent again.
    pub sent_again: u64,
}

/// Activity of the peer by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing.
    Idle,
    /// Frames or requests are left.
    Busy,
    /// Nothing: a request was not answered.
    Unanswered,
}

/// A machine whose CPU is a guest's.
pub trait Board {
    /// Moves the CPU's time to `t`. Then the device catches up with it.
    fn run(&mut self, t: Time);
    /// Returns the CPU's time. After a register access it is when the CPU has the answer.
    fn now(&self) -> Time;
    /// Reads a register of at most 8 bytes.
    fn read(&mut self, r: Reg, size: u8) -> u64;
    /// Writes a register of at most 8 bytes.
    fn write(&mut self, r: Reg, size: u8, v: u64);
    /// Returns the time of the next event, or [`Time::NEVER`].
    fn next_event(&self) -> Time;
    /// Returns true if the interrupt line is high.
    fn line(&self) -> bool;
    /// Takes the message of a vector, if it was raised.
    fn take_message(&mut self, vector: u16) -> bool;
    /// Allows the device all of memory, or nothing of it (the bus master bit).
    fn allow_dma(&mut self, allowed: bool);
    /// Resets the device as power-on does.
    fn reset(&mut self);
    /// Has the peer send these frames, from a time after now on.
    fn send(&mut self, after: Span, frames: Frames);
    /// Has the peer send a frame, a time after now.
    fn give(&mut self, after: Span, frame: Vec<u8>);
    /// Pulls the cable, or plugs it in. A device without a link stays as it is.
    fn cable(&mut self, plugged: bool);
    /// Returns true if the peer has such frames: those of a capture only with one.
    fn can_send(&self, frames: &Frames) -> bool;
    /// Has the peer ask the guest, from a time after now on.
    fn ask(&mut self, after: Span, requests: Requests);
    /// Returns what the peer does.
    fn state(&self) -> State;
    /// Returns the counts.
    fn counts(&self) -> Counts;
    /// Begins the peer's notes anew.
    fn mark(&mut self);
    /// Returns the frames on the link and the interrupts since the machine's start.
    fn crossed(&self) -> [u64; 2];
    /// Returns the moderation in force, by the names of series.
    fn moderation(&self) -> Vec<(&'static str, f64)>;
}

/// A device with calls that its bus counts, and with moderation.
pub(crate) trait Counted<B: Port>: Device<B> {
    fn calls(_: &B) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    fn moderation(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
    /// Pulls the cable, or plugs it in.
    fn plug(&mut self, bus: &mut B, now: Time, plugged: bool) {
        self.cable(bus, now, plugged);
    }
}

fn us(span: Span) -> f64 {
    span.as_ns_f64() / 1000.0
}

impl<B: Port> Counted<B> for E1000
where
    E1000: Device<B>,
{
    fn moderation(&self) -> Vec<(&'static str, f64)> {
        vec![(SETTING_DELAY, us(self.throttling()))]
    }
}

impl<B: Port> Counted<B> for Mlx5
where
    Mlx5: Device<B>,
{
    fn moderation(&self) -> Vec<(&'static str, f64)> {
        let (packets, delay) = self.receive_moderation().unwrap_or_default();
        vec![(SETTING_PACKETS, packets.into()), (SETTING_DELAY, delay.into())]
    }
}

impl<B: Port> Counted<B> for AxiEthernet
where
    AxiEthernet: Device<B>,
{
    fn moderation(&self) -> Vec<(&'static str, f64)> {
        let (packets, delay) = self.receive_moderation();
        vec![(SETTING_PACKETS, packets.into()), (SETTING_DELAY, us(delay))]
    }
}

impl<B: Bus, D: Device<B> + Counted<B>> Board for Machine<B, Wired<D, OtherEnd>> {
    fn run(&mut self, t: Time) {
        self.set_now(t);
        self.run_device(t);
    }

    fn now(&self) -> Time {
        Host::now(self)
    }

    fn read(&mut self, r: Reg, size: u8) -> u64 {
        let low = u64::from(self.read32(r));
        if size <= 4 {
            return low;
        }
        low | u64::from(self.read32(Reg { offset: r.offset + 4, ..r })) << 32
    }

    fn write(&mut self, r: Reg, size: u8, v: u64) {
        if size == 8 { self.write64(r, v) } else { self.write32(r, v as u32) }
    }

    fn next_event(&self) -> Time {
        Machine::next_event(self)
    }

    fn line(&self) -> bool {
        self.bus.platform().line(0).is_some()
    }

    fn take_message(&mut self, vector: u16) -> bool {
        self.bus.platform_mut().take_message(vector).is_some()
    }

    fn allow_dma(&mut self, allowed: bool) {
        self.bus.platform_mut().memory.allow_all(allowed);
    }

    fn reset(&mut self) {
        self.outside(|device, bus, now| device.reset(bus, now));
    }

    fn send(&mut self, after: Span, frames: Frames) {
        self.outside(|device, _, now| device.peer.send(now + after, frames));
    }

    fn give(&mut self, after: Span, frame: Vec<u8>) {
        self.outside(|device, _, now| device.peer.give(now + after, frame));
    }

    fn cable(&mut self, plugged: bool) {
        self.outside(|device, bus, now| device.device.plug(bus, now, plugged));
    }

    fn can_send(&self, frames: &Frames) -> bool {
        self.device.peer.can_send(frames)
    }

    fn ask(&mut self, after: Span, requests: Requests) {
        self.outside(|device, _, now| device.peer.ask(now + after, requests));
    }

    fn state(&self) -> State {
        let peer = &self.device.peer;
        match (peer.is_busy(), peer.station.answered) {
            (true, _) => State::Busy,
            (false, true) => State::Idle,
            (false, false) => State::Unanswered,
        }
    }

    fn counts(&self) -> Counts {
        let Wired { device, peer, dropped, .. } = &self.device;
        let mut counters = Vec::new();
        device.counters(&mut |name, n| counters.push((name, n)));
        Counts {
            ledger: self.bus.ledger(),
            calls: D::calls(&self.bus),
            device: counters,
            dropped: *dropped,
            sent: peer.sent,
            offered: peer.offered,
            answers: peer.answers.clone(),
            sent_again: peer.station.sent_again(),
        }
    }

    fn mark(&mut self) {
        self.device.peer.mark();
    }

    fn crossed(&self) -> [u64; 2] {
        let Ledger { wire_frames, messages, line_interrupts, .. } = self.bus.ledger();
        let (arrived, _) = self.device.back.landed;
        [wire_frames + arrived, messages + line_interrupts]
    }

    fn moderation(&self) -> Vec<(&'static str, f64)> {
        Counted::<B>::moderation(&self.device.device)
    }
}

impl Plan {
    /// Builds the machine of a card over a guest's memory. It begins at address 0, or of a guest
    /// whose cores are behind RP1 at 1 GiB.
    ///
    /// # Errors
    /// A rule of the bus that the numbers break, or the plan has no card in a slot.
    pub fn board(&self, memory: MmapMut) -> Result<Box<dyn Board>, PlanError> {
        if matches!(self.card, Card::Axi(..)) {
            return self.bridged(memory);
        }
        let mut platform = Platform::new(0, 0, ProtectionGranularity::Page);
        platform.memory = Memory::of_guest(0, memory);
        match &self.slot {
            Slot::Parallel(settings, latencies) => {
                let rules = pci::Rules::new(*settings).map_err(PlanError::of)?;
                self.on(Pci::new(platform, rules, *latencies, BAR))
            }
            Slot::Express(settings, latencies) => {
                let rules = pcie::Rules::new(*settings).map_err(PlanError::of)?;
                self.on(Pcie::new(platform, rules, *latencies, BAR))
            }
            Slot::Axi(..) | Slot::Hypervisor(_) => Err(PlanError::of(NO_SLOT)),
        }
    }

    fn on<B: Bus + 'static>(&self, bus: B) -> Result<Box<dyn Board>, PlanError>
    where
        E1000: Device<B::With<doorbell_sim::link::SharedWire>>,
        Mlx5: Device<B::With<doorbell_sim::link::SharedWire>>,
    {
        let link = (self.rate, self.delay);
        Ok(match &self.card {
            Card::E1000(nic) => {
                let peer = OtherEnd::new(nic.mac, self);
                let (bus, device) = Wired::new(bus, E1000::new(*nic), peer, link);
                Box::new(Machine::new(bus, device, Costs::FREE, 1))
            }
            Card::Mlx5(nic) => {
                let peer = OtherEnd::new(nic.mac, self);
                let (bus, device) = Wired::new(bus, Mlx5::new(*nic), peer, link);
                Box::new(Machine::new(bus, device, Costs::FREE, 1))
            }
            Card::Axi(..) | Card::Adapter(_) => return Err(PlanError::of(NO_SLOT)),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
