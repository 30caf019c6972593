//! What the tests of the mlx5 driver and of the mlx5 device are made of.
//!
//! Four ways to look:
//!
//! * [`Desk`]: the driver alone. Its firmware is [`Paper`], its register writes are written down,
//!   and completions are written by the test. What it put into its rings is compared byte by byte
//!   with the manual.
//! * [`Bench`]: the device alone, with a port that records every access and fails the test on one
//!   that it has forbidden. WQEs are written by the test.
//! * [`Console`]: the device's firmware alone. Commands are written byte by byte.
//! * [`Arm`]: driver and device together, on any host. The bodies in [`bodies`] are written once
//!   and run on each arm: the bare one, and the lab's machine with its guard by page and by byte.

mod bench;
pub mod bodies;
mod console;

mod desk;
pub mod hostile;
pub mod hostile_guest;
pub mod traffic;

mod watched;

pub use bench::{Access, Bench, Recorder};
pub use console::{Answer, Common, Console, Written};
pub use desk::{CAPS, Desk, DeskHost, Paper, Registers, Wqe};
pub use watched::Watched;

use doorbell_bus::pcie::{Rules, Settings};
use doorbell_bus::{Bus, Costs, Latencies, Machine, Pcie, Platform, ProtectionGranularity};
use doorbell_devices::mlx5::{Config as Nic, Mlx5};
use doorbell_drivers::Sink;
use doorbell_hal::{Buf, Host, Span, Time};
use doorbell_packet::Packet;
use doorbell_testkit::Flat;

/// A host with an mlx5 device.
pub trait Arm: Host {
    /// The device, as it stands.
    fn device(&self) -> &Mlx5;
    /// Everything that is under way comes to its end.
    fn settle(&mut self);
    /// From now on frames are kept.
    fn keep_frames(&mut self);
    /// The frames that left since the last call, in order.
    fn frames(&mut self) -> Vec<Vec<u8>>;
    /// Whether interrupt `vector` was raised; takes it.
    fn interrupted(&mut self, vector: u16) -> bool;
    /// Bytes or pages still lent to the device, and accesses that the guard refused;
    /// zeroes where there is no guard.
    fn guard(&self) -> (usize, u64);
}

impl Arm for Flat<Mlx5> {
    fn device(&self) -> &Mlx5 {
        &self.device
    }
    fn settle(&mut self) {
        Flat::settle(self);
    }
    fn keep_frames(&mut self) {
        self.port.wire.get_or_insert_default();
    }
    fn frames(&mut self) -> Vec<Vec<u8>> {
        self.port.wire.as_mut().map(std::mem::take).unwrap_or_default()
    }
    fn interrupted(&mut self, vector: u16) -> bool {
        let before = self.port.messages.len();
        self.port.messages.retain(|&v| v != vector);
        self.port.messages.len() < before
    }
    fn guard(&self) -> (usize, u64) {
        (0, 0)
    }
}

impl Arm for Machine<Pcie, Mlx5> {
    fn device(&self) -> &Mlx5 {
        &self.device
    }
    fn settle(&mut self) {
        while self.next_event() < Time::NEVER {
            self.idle_until(self.next_event());
            self.catch_up();
        }
    }
    fn keep_frames(&mut self) {
        self.bus.sink_mut().start();
    }
    fn frames(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let drained = self.bus.sink_mut().drain(|_, f| {
            all.push(f.to_vec());
            Ok::<(), std::convert::Infallible>(())
        });
        match drained {
            Ok(()) => all,
        }
    }
    fn interrupted(&mut self, vector: u16) -> bool {
        self.bus.platform_mut().take_message(vector).is_some()
    }
    fn guard(&self) -> (usize, u64) {
        let (read, written) = self.bus.platform().memory.mapped();
        (read + written, self.ledger().dma_faults)
    }
}

/// The bare arm.
pub fn flat(nic: Nic) -> Flat<Mlx5> {
    Flat::new(32 << 20, Mlx5::new(nic))
}

/// The lab's machine: PCIe Gen3 x16, one core, work that costs nothing.
pub fn machine(nic: Nic, guard: ProtectionGranularity) -> Machine<Pcie, Mlx5> {
    let platform = Platform::new(1 << 32, 8 << 20, guard);
    let rules = Rules::new(Settings::link(3, 16)).expect("a link that exists");
    let latencies = Latencies { link: Span::from_ns(150), memory: Span::from_ns(250) };
    let pcie = Pcie::new(platform, rules, latencies, 0x3c_0000_0000);
    Machine::new(pcie, Mlx5::new(nic), Costs::FREE, 1)
}

/// Buffers that came back, in order.
#[derive(Debug, Default)]
pub struct Returned(pub Vec<(Buf, u32, bool)>);

impl Returned {
    /// The marks of the packets that came back whole, in order.
    pub fn packets(&self) -> Vec<u32> {
        self.0.iter().filter(|(_, _, last)| *last).map(|(_, cookie, _)| *cookie).collect()
    }
    /// Releases all of it.
    pub fn release<H: Host>(self, h: &mut H) {
        for (b, ..) in self.0 {
            h.release(b);
        }
    }
}

impl Sink for Returned {
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        self.0.push((b, cookie, last));
    }
    fn received(&mut self, p: Packet, _verified: bool) {
        unreachable!("nothing was sent to us: {p:?}");
    }
}
