//! Harnesses for tests of the mlx5 driver and the mlx5 device.
//!
//! * [`DriverHarness`]: the driver alone, on a [`FakeFirmware`]. Tests check its ring entries byte
//!   by byte against the manual, and write completions.
//! * [`DeviceHarness`]: the device alone, with a port that records every access and fails the test
//!   on a forbidden one. Tests write WQEs.
//! * [`CommandHarness`]: the device's firmware alone. Tests write commands byte by byte.
//! * [`Backend`]: driver and device together on any host. The [`cases`] run on each: the direct
//!   one, and the lab's machine with memory protection by page and by byte.

pub mod cases;
mod command_harness;
mod device_harness;

mod driver_harness;
pub mod hostile;
pub mod hostile_guest;
pub mod traffic;

mod leak_check;

pub use command_harness::{Answer, CommandHarness, Common, Written};
pub use device_harness::{Access, DeviceHarness, RecordingPort};
pub use driver_harness::{CAPS, DriverHarness, FakeFirmware, HarnessHost, Registers, Wqe};
pub use leak_check::LeakCheckHost;

use crate::fuzz::Seed;
use doorbell_bus::pcie::{Rules, Settings};
use doorbell_bus::{Bus, Costs, Latencies, Machine, Pcie, Platform, ProtectionGranularity};
use doorbell_devices::mlx5::{Config as Nic, Mlx5};
use doorbell_drivers::Sink;
use doorbell_hal::{Buf, Host, Span, Time};
use doorbell_packet::Packet;
use doorbell_testkit::DirectHost;

/// Attacks a device: an even byte leads to WQEs, an odd one to a whole guest.
pub fn attack(bytes: &[u8]) {
    match bytes.split_first() {
        Some((kind, rest)) if kind & 1 == 0 => _ = hostile::attack(rest),
        Some((_, rest)) => _ = hostile_guest::attack(rest),
        None => {}
    }
}

/// Returns the seeds of both.
pub fn seeds() -> Vec<Seed> {
    [hostile::seeds(), hostile_guest::seeds()].concat()
}

/// A host with an mlx5 device.
pub trait Backend: Host {
    /// Returns the device.
    fn device(&self) -> &Mlx5;
    /// Completes all work in progress.
    fn settle(&mut self);
    /// Starts to record frames.
    fn keep_frames(&mut self);
    /// Takes the frames sent since the last call, in order.
    fn frames(&mut self) -> Vec<Vec<u8>>;
    /// Takes interrupt `vector`. Returns true if it was raised.
    fn interrupted(&mut self, vector: u16) -> bool;
    /// Returns the mapped bytes or pages, and the refused accesses; zeroes without memory
    /// protection.
    fn guard(&self) -> (usize, u64);
}

impl Backend for DirectHost<Mlx5> {
    fn device(&self) -> &Mlx5 {
        &self.device
    }
    fn settle(&mut self) {
        DirectHost::settle(self);
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

impl Backend for Machine<Pcie, Mlx5> {
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

/// Returns the direct backend.
pub fn direct(nic: Nic) -> DirectHost<Mlx5> {
    DirectHost::new(32 << 20, Mlx5::new(nic))
}

/// Returns the lab's machine: PCIe Gen3 x16, one core, free CPU work.
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
    /// Returns the cookies of the packets that came back whole, in order.
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
