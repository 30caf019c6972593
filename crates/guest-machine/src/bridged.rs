//! An AXI Ethernet behind RP1's bridge: the laboratory's cores on their AXI bus, whose lines become
//! messages. The bridge takes no time, and its own registers cross no bus that is counted.

use crate::board::{Board, Counts, NO_SLOT, State};
use crate::peer::{Frames, OtherEnd};
use crate::plan::{Card, Plan, PlanError, Slot};
use crate::station::Requests;
use doorbell_bus::{Axi, Bus, Costs, Machine, Memory, Platform, ProtectionGranularity, axi};
use doorbell_devices::axi_ethernet::AxiEthernet;
use doorbell_devices::rp1::{Bridge, core};
use doorbell_hal::{Reg, Span, Time};
use doorbell_layout::axienet::line;
use doorbell_sim::link::{SharedWire, Wired};
use memmap2::MmapMut;

/// Address of a guest's memory in QEMU's `virt` machine.
const MEMORY: u64 = 1 << 30;
/// The lines of the cores.
const LINES: [u16; 3] = [line::TX, line::RX, line::MAC];

type Cores = Machine<Axi<SharedWire>, Wired<AxiEthernet, OtherEnd>>;

/// The cores, and the bridge.
struct Bridged {
    cores: Cores,
    bridge: Bridge,
    /// The levels that the bridge has seen.
    seen: [bool; LINES.len()],
    /// Messages that were not taken.
    raised: [bool; LINES.len()],
}

impl Bridged {
    /// Shows the bridge the lines, after something has happened.
    fn look(&mut self) {
        for (n, vector) in LINES.into_iter().enumerate() {
            let high = self.cores.bus.platform().line(vector).is_some();
            if std::mem::replace(&mut self.seen[n], high) != high {
                self.raised[n] |= self.bridge.set(vector, high);
            }
        }
    }

    /// Returns the place of a vector.
    fn place(vector: u16) -> Option<usize> {
        LINES.into_iter().position(|n| n == vector)
    }

    fn cores(&self) -> &dyn Board {
        &self.cores
    }

    fn cores_mut(&mut self) -> &mut dyn Board {
        &mut self.cores
    }
}

impl Board for Bridged {
    fn run(&mut self, t: Time) {
        self.cores_mut().run(t);
        self.look();
    }

    fn now(&self) -> Time {
        self.cores().now()
    }

    fn read(&mut self, r: Reg, size: u8) -> u64 {
        let Some(r) = core(r) else { return self.bridge.read(r).into() };
        let value = self.cores_mut().read(r, size);
        self.look();
        value
    }

    fn write(&mut self, r: Reg, size: u8, v: u64) {
        if let Some(r) = core(r) {
            self.cores_mut().write(r, size, v);
            self.look();
        } else if let Some(n) = self.bridge.write(r, v as u32).and_then(Bridged::place) {
            self.raised[n] = true;
        }
    }

    fn next_event(&self) -> Time {
        self.cores().next_event()
    }

    fn line(&self) -> bool {
        false
    }

    fn take_message(&mut self, vector: u16) -> bool {
        Bridged::place(vector).is_some_and(|n| std::mem::take(&mut self.raised[n]))
    }

    fn allow_dma(&mut self, allowed: bool) {
        self.cores_mut().allow_dma(allowed);
    }

    fn reset(&mut self) {
        self.cores_mut().reset();
        self.bridge.reset();
        self.look();
    }

    fn send(&mut self, after: Span, frames: Frames) {
        self.cores_mut().send(after, frames);
    }

    fn give(&mut self, after: Span, frame: Vec<u8>) {
        self.cores_mut().give(after, frame);
    }

    fn cable(&mut self, plugged: bool) {
        self.cores_mut().cable(plugged);
        self.look();
    }

    fn can_send(&self, frames: &Frames) -> bool {
        self.cores().can_send(frames)
    }

    fn ask(&mut self, after: Span, requests: Requests) {
        self.cores_mut().ask(after, requests);
    }

    fn state(&self) -> State {
        self.cores().state()
    }

    fn counts(&self) -> Counts {
        let mut counts = self.cores().counts();
        counts.device.push(("acknowledged_messages", self.bridge.acknowledged));
        counts
    }

    fn mark(&mut self) {
        self.cores_mut().mark();
    }

    fn crossed(&self) -> [u64; 2] {
        self.cores().crossed()
    }

    fn moderation(&self) -> Vec<(&'static str, f64)> {
        self.cores().moderation()
    }
}

impl Plan {
    /// Builds the machine of cores behind RP1 over a guest's memory.
    ///
    /// # Errors
    /// A rule of the bus that the numbers break, or the plan has no such cores.
    pub(crate) fn bridged(&self, memory: MmapMut) -> Result<Box<dyn Board>, PlanError> {
        let (Card::Axi(nic, mac), Slot::Axi(settings, latencies)) = (&self.card, &self.slot) else {
            return Err(PlanError::of(NO_SLOT));
        };
        let mut platform = Platform::new(0, 0, ProtectionGranularity::Page);
        platform.memory = Memory::of_guest(MEMORY, memory);
        let rules = axi::Rules::new(*settings).map_err(PlanError::of)?;
        let bus = Axi::new(platform, rules, *latencies);
        let peer = OtherEnd::new(*mac, self);
        let link = (self.rate, self.delay);
        let (bus, device) = Wired::new(bus, AxiEthernet::new(*nic), peer, link);
        let cores = Machine::new(bus, device, Costs::FREE, 1);
        let none = [false; LINES.len()];
        Ok(Box::new(Bridged { cores, bridge: Bridge::default(), seen: none, raised: none }))
    }
}

#[cfg(test)]
mod tests;
