//! The e1000 system: a gigabit controller of the 8254x family on PCI, PCI-X or PCI Express, or an
//! 82574L, and its driver, as a [`Card`].

mod audit;
mod figures;
pub mod settings;

use crate::audit::CrossCheck;
use crate::card::{self, Card};
use crate::host;
use crate::key::Values;
use crate::knobs::{self, Condition, Knob};
use crate::limits::Wider::{Less, More};
use crate::limits::{self, Resource};
use crate::metrics::{self, DEVICE, DRIVER, Numbers};
use crate::open_loop::Limits;
use crate::slot::{self, BUS_BUSY, BusKeys, IommuKeys, PciKeys};
use crate::system::{self, PlacementKeys, StackKeys, System};
use crate::{Result, SettingError, arrivals, closed_loop, open_loop};
use doorbell_bus::Platform;
use doorbell_bus::ledger::BusKind;
use doorbell_devices::e1000::{Config as Nic, Counters, E1000 as Device, Slot};
use doorbell_drivers::OpenError;
use doorbell_drivers::e1000::{Config as DriverConfig, Queue as Driver, Stats};
use doorbell_hal::{Host, Port, Time};
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::headers::{Layers, Transport};
use doorbell_packet::toeplitz::{MICROSOFT, Toeplitz};
use doorbell_sim::scheduler::Interrupt;
use settings::{CPU, DriverKeys, KIND, NicKeys};
use std::sync::OnceLock;

/// A gigabit controller on PCI, PCI-X or PCI Express.
pub(crate) static SYSTEM: System = System {
    name: "e1000",
    about: "Intel 8254x on PCI, PCI-X or PCI Express: frames copied to aligned buffers, or not",
    devices: &["e1000", "e1000-82544gc", "e1000-82545em", "e1000-82574l"],
    platform_keys: &[
        &CPU,
        &host::TCP,
        BusKeys::KEYS,
        PciKeys::KEYS,
        &slot::PCIE,
        IommuKeys::KEYS,
        NicKeys::KEYS,
    ],
    run_keys: &[
        &KIND,
        closed_loop::Keys::KEYS,
        PlacementKeys::KEYS,
        &closed_loop::APPLICATION,
        arrivals::Keys::KEYS,
        open_loop::Keys::KEYS,
        DriverKeys::KEYS,
        StackKeys::KEYS,
        system::RUN,
    ],
    runner: card::run_values::<E1000>,
    transfer: slot::transfer,
    port_rate: "link.rate",
    knobs: &[
        Knob::new(
            "driver.copy_align",
            &["on", "off"],
            "a driver that copies short frames to aligned buffers: {}",
        ),
        Knob::new(
            "driver.throttle",
            &["off", "dynamic", "conservative", "3000", "8000", "20000"],
            "modprobe e1000 InterruptThrottleRate: {}",
        ),
        Knob::new("run.cores", &["1", "2"], "a driver of the 82574 with {} queues"),
        Knob::new("driver.tx_ring", &["80", "256", "1024", "4096"], "ethtool -G $NIC tx {}"),
        Knob::new("driver.rx_ring", &["80", "256", "1024", "4096"], "ethtool -G $NIC rx {}"),
        Knob::new("driver.tx_delay", &["0", "8", "32", "128"], "modprobe e1000 TxIntDelay={}"),
        Knob::new("driver.rx_delay", &["0", "8", "32", "128"], "modprobe e1000 RxIntDelay={}"),
        Knob::new("driver.copybreak", &["0", "128", "256"], "modprobe e1000 copybreak={}"),
        Knob::new(
            "pci.latency_timer",
            &["32", "64", "128", "248"],
            "setpci -s $BDF LATENCY_TIMER={} (decimal)",
        ),
        Knob::new(
            "pci.mmrbc",
            &["512", "1024", "2048", "4096"],
            "setpci -s $BDF CAP_PCIX+2.w, bits 3:2, to {} B",
        ),
        knobs::MPS,
        knobs::MRRS,
    ],
    conditions: &[Condition {
        key: "traffic.size",
        values: &["64", "128", "256", "512", "1024", "1514"],
    }],
    resources: &[
        limits::CORES,
        slot::BUS,
        limits::LINK,
        limits::PORT,
        Resource::of("reads in flight", &[("pci.outstanding", More)]),
        Resource::of("IOMMU calls", &[("iommu.call", Less)]),
        limits::RINGS,
        slot::LATENCY,
        limits::NETWORK,
        Resource::of(
            "load",
            &[
                ("traffic.rate", More),
                ("traffic.load", More),
                ("traffic.source_rate", More),
                ("traffic.connections", More),
            ],
        ),
    ],
    numbers: Numbers {
        buses: &[BusKind::Pci, BusKind::Pcix, BusKind::Pcie, BusKind::Tce],
        rates: &[&metrics::BOTH_WAYS, &[metrics::LOST_SHARE, BUS_BUSY], &metrics::LINK],
        counters: &[(DRIVER, Stats::DECLARED), (DEVICE, Counters::DECLARED)],
        calls: &[],
        cache: false,
        losses: &[metrics::MISSED],
    },
    declared: OnceLock::new(),
    figures: &[&figures::FIGURES],
};

/// Device and driver.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The device.
    pub nic: Nic,
    /// The driver.
    pub driver: DriverConfig,
}

/// The controller with its driver.
#[derive(Debug)]
pub struct E1000;

/// Statistics of a run.
pub type RunStats = card::RunStats<E1000>;

/// Longest frame that these controllers send, without FCS.
const LONGEST_FRAME: (u32, &str) = (16_110, "8254x manual");

impl Card for E1000 {
    type Config = Config;
    type Device<P: Port> = Device;
    type Driver<H: Host> = Driver;
    type Stats = Stats;
    type Counters = Counters;

    const QUEUES: u16 = 2;
    const ORDERED: bool = false;

    fn config(v: &Values) -> Result<Config, SettingError> {
        settings::config(v)
    }

    fn mac(c: &Config) -> [u8; 6] {
        c.nic.mac
    }

    fn mtu(c: &Config) -> u32 {
        c.driver.max_frame - HEADER as u32
    }

    fn frames(c: &Config) -> Limits {
        let longest = (c.driver.longest(), "driver.mtu");
        let frame = if longest.0 <= LONGEST_FRAME.0 { longest } else { LONGEST_FRAME };
        // A large send's total length is that of an IP packet: 16 bits.
        Limits { frame, tagged: frame.0, large_send: (65_535, "8254x manual") }
    }

    fn interrupts(c: &Config, queue: u16) -> Vec<Interrupt> {
        match c.nic.slot {
            Slot::Express { .. } if c.driver.msix => {
                Driver::vectors(c.driver.queues, queue).map(Interrupt::Message).collect()
            }
            Slot::Express { msi: true } => vec![Interrupt::Message(0)],
            _ => vec![Interrupt::Line(queue)],
        }
    }

    fn in_flight(c: &Config) -> u32 {
        c.driver.tx_ring
    }

    fn memory(c: &Config) -> usize {
        let d = &c.driver;
        let slot = (d.rx_buffer + d.rx_align).next_power_of_two().max(d.rx_place.align) as usize;
        (d.rx_ring as usize) * 4 * slot + (d.tx_ring as usize) * 4096 + (4 << 20)
    }

    fn device<P: Port>(c: &Config) -> Device {
        Device::new(c.nic)
    }

    fn open<H: Host>(h: &mut H, c: &Config) -> Result<Driver, OpenError> {
        Driver::open(h, &c.driver)
    }

    fn open_queue<H: Host>(
        _: &mut H,
        _: &Config,
        first: &mut Driver,
        queue: u16,
    ) -> Result<Driver, OpenError> {
        Ok(first.another(queue))
    }

    fn queue_of(queues: u16) -> impl Fn(&[u8]) -> usize {
        let key = Toeplitz::new(&MICROSOFT);
        move |frame| {
            let hash = |l: Layers| key.of(frame, &l, l.transport == Some(Transport::Tcp));
            Layers::of(frame).map_or(0, hash) as usize % usize::from(queues.max(1))
        }
    }

    fn close<H: Host>(driver: Driver, h: &mut H) -> Stats {
        driver.close(h)
    }

    fn stats<H: Host>(driver: &Driver) -> Stats {
        driver.stats()
    }

    fn cable<P: Port>(device: &mut Device, at: Time, up: bool) {
        device.set_cable(at, up);
    }

    fn audit(o: &RunStats, p: &Platform, _: Option<u64>, wire: (u64, u64)) -> CrossCheck {
        audit::audit(o, p, wire)
    }
}

#[cfg(test)]
mod tests;
