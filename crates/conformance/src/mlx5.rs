//! Tests of the mlx5 driver and the mlx5 device together.
//!
//! A [`Backend`] is a host with the device. The [`cases`] run on each: the direct one, and the
//! lab's machine with memory protection by page and by byte.

pub mod cases;
pub mod traffic;

use doorbell_bus::pcie::{Rules, Settings};
use doorbell_bus::{Bus, Costs, Latencies, Machine, Pcie, Platform, ProtectionGranularity};
use doorbell_devices::mlx5::{Config as Nic, Mlx5};
use doorbell_drivers::mlx5::{Recycling, RqConfig};
use doorbell_hal::{Host, Span, Time};
use doorbell_testkit::{DirectHost, LeakCheckHost};

/// A short receive queue whose entries are reported one by one.
pub const SMALL_RQ: RqConfig = RqConfig {
    log_size: 5,
    buffer: 1536,
    align: 2048,
    headroom: 64,
    bulk: 8,
    padding: true,
    log_stride: None,
    recycling: Recycling::Cache,
    compression: false,
    xdp: false,
    adaptive: false,
    cq_period_us: 0,
    cq_max_count: 0,
};

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

impl<H: Backend> Backend for LeakCheckHost<H> {
    fn device(&self) -> &Mlx5 {
        self.host.device()
    }
    fn settle(&mut self) {
        self.host.settle();
    }
    fn keep_frames(&mut self) {
        self.host.keep_frames();
    }
    fn frames(&mut self) -> Vec<Vec<u8>> {
        self.host.frames()
    }
    fn interrupted(&mut self, vector: u16) -> bool {
        self.host.interrupted(vector)
    }
    fn guard(&self) -> (usize, u64) {
        self.host.guard()
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
