//! The e1000 system: a gigabit controller of the 8254x family on PCI, PCI-X or PCI Express, its
//! driver, and a run of it.
//!
//! Loads are closed-loop TCP ([`super::closed_loop`]) over a gigabit link, and open-loop packets
//! ([`super::open_loop`]). There is one queue, one interrupt line and one core. Applications may
//! have a second core.

mod audit;
mod figures;
pub mod settings;

use crate::closed_loop::Load as TcpLoad;
use crate::host;
use crate::host::HostConfig;
use crate::key::Values;
use crate::knobs;
use crate::knobs::{Condition, Knob};
use crate::limits;
use crate::limits::Resource;
use crate::limits::Wider::{Less, More};
use crate::metrics;
use crate::metrics::{CPU_BUSY, DEVICE, DRIVER, Metric, Numbers, PACKETS, PAYLOAD};
use crate::open_loop::Load as OpenLoad;
use crate::result::{CountsOf, Measured, SENT};
use crate::run;
use crate::run::platform;
use crate::system;
use crate::system::{PlacementKeys, StackKeys, System, Transferred};
use crate::{Counts, Experiment, Result, closed_loop, open_loop};
use doorbell_bus::ledger::BusKind;
use doorbell_bus::pcie::Operation;
use doorbell_bus::tce::{Table, Window};
use doorbell_bus::{Bus, Capture, Machine, Mapping, Pci, Pcie, pci, pcie};
use doorbell_devices::e1000::{Config as Nic, Counters, E1000 as Device};
use doorbell_drivers::e1000::{Config as DriverConfig, E1000 as Driver, Stats};
use doorbell_hal::Span;
use doorbell_sim::scheduler::Interrupt;
use doorbell_sim::{Watch, fault::FaultSchedule, link::Wired, napi::NapiContext, traffic::Frames};
use settings::{BusKeys, CPU, DriverKeys, IommuKeys, KIND, NicKeys, PCIE, PciKeys};
use std::sync::{Arc, OnceLock};

/// A gigabit controller on PCI, PCI-X or PCI Express.
pub static SYSTEM: System = System {
    name: "e1000",
    about: "Intel 8254x on PCI, PCI-X or PCI Express: frames copied to aligned buffers, or not",
    devices: &["e1000", "e1000-82544gc", "e1000-82545em"],
    platform_keys: &[
        &CPU,
        &host::TCP,
        BusKeys::KEYS,
        PciKeys::KEYS,
        &PCIE,
        IommuKeys::KEYS,
        NicKeys::KEYS,
    ],
    run_keys: &[
        &KIND,
        closed_loop::Keys::KEYS,
        PlacementKeys::KEYS,
        &closed_loop::APPLICATION,
        open_loop::Keys::KEYS,
        DriverKeys::KEYS,
        StackKeys::KEYS,
        system::RUN,
    ],
    runner: run_values,
    transfer,
    port_rate: "link.rate",
    knobs: &[
        Knob {
            key: "driver.copy_align",
            values: &["on", "off"],
            command: "a driver that copies short frames to aligned buffers: {}",
        },
        Knob {
            key: "driver.throttle",
            values: &["off", "dynamic", "conservative", "3000", "8000", "20000"],
            command: "modprobe e1000 InterruptThrottleRate: {}",
        },
        Knob {
            key: "driver.tx_ring",
            values: &["80", "256", "1024", "4096"],
            command: "ethtool -G $NIC tx {}",
        },
        Knob {
            key: "driver.rx_ring",
            values: &["80", "256", "1024", "4096"],
            command: "ethtool -G $NIC rx {}",
        },
        Knob {
            key: "driver.tx_delay",
            values: &["0", "8", "32", "128"],
            command: "modprobe e1000 TxIntDelay={}",
        },
        Knob {
            key: "driver.rx_delay",
            values: &["0", "8", "32", "128"],
            command: "modprobe e1000 RxIntDelay={}",
        },
        Knob {
            key: "driver.copybreak",
            values: &["0", "128", "256"],
            command: "modprobe e1000 copybreak={}",
        },
        Knob {
            key: "pci.latency_timer",
            values: &["32", "64", "128", "248"],
            command: "setpci -s $BDF LATENCY_TIMER={} (decimal)",
        },
        Knob {
            key: "pci.mmrbc",
            values: &["512", "1024", "2048", "4096"],
            command: "setpci -s $BDF CAP_PCIX+2.w, bits 3:2, to {} B",
        },
        knobs::MPS,
        knobs::MRRS,
    ],
    conditions: &[Condition {
        key: "traffic.size",
        values: &["64", "128", "256", "512", "1024", "1514"],
    }],
    resources: &[
        Resource {
            name: "cores",
            shares: &["cpu_busy_share"],
            keys: &[("cpu.frequency", More), ("cpu.mmio_write_spacing", Less)],
        },
        Resource {
            name: "bus",
            shares: &["bus_busy_share"],
            keys: &[
                ("pci.clock", More),
                ("pci.read_command", Less),
                ("pci.read_byte", Less),
                ("pci.write_command", Less),
                ("pci.write_byte", Less),
            ],
        },
        limits::LINK,
        limits::PORT,
        Resource { name: "reads in flight", shares: &[], keys: &[("pci.outstanding", More)] },
        Resource { name: "IOMMU calls", shares: &[], keys: &[("iommu.call", Less)] },
        limits::RINGS,
        Resource {
            name: "latency",
            shares: &[],
            keys: &[
                ("pci.cpu_latency", Less),
                ("pci.memory_latency", Less),
                ("pci.register_latency", Less),
                ("pcie.link_latency", Less),
                ("pcie.memory_latency", Less),
            ],
        },
        limits::NETWORK,
        Resource {
            name: "load",
            shares: &[],
            keys: &[
                ("traffic.rate", More),
                ("traffic.source_rate", More),
                ("traffic.connections", More),
            ],
        },
    ],
    numbers: Numbers {
        buses: &[BusKind::Pci, BusKind::Pcix, BusKind::Pcie, BusKind::Tce],
        rates: &[&metrics::BOTH_WAYS, &[metrics::LOST_SHARE, BUS_BUSY], &metrics::LINK],
        counters: &[(DRIVER, Stats::DECLARED), (DEVICE, Counters::DECLARED)],
        calls: &[],
        losses: &[metrics::MISSED],
    },
    declared: OnceLock::new(),
    figures: Some(&figures::FIGURES),
};

/// The use of a PCI or PCI-X bus.
const BUS_BUSY: Metric = Metric::busy("bus_busy_share", "of the bus's clocks");

/// The slot of the card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slot {
    /// Conventional PCI or PCI-X.
    Parallel(pci::Settings, pci::Latencies),
    /// PCI Express.
    Express(pcie::Settings, pcie::Latencies),
}

/// The inputs of a run, except its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Host and link.
    pub host: HostConfig,
    /// The bus.
    pub slot: Slot,
    /// Translation of the device's addresses; `None` if they are physical.
    pub tce: Option<Window>,
    /// The device.
    pub nic: Nic,
    /// The driver.
    pub driver: DriverConfig,
}

/// The traffic of a run.
#[derive(Clone, Debug)]
pub enum Load {
    /// TCP.
    Closed(TcpLoad),
    /// Packets of a generator or a capture.
    Open(OpenLoad),
}

/// Totals of the whole run.
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    /// The driver's counters.
    pub driver: Stats,
    /// The device's counters.
    pub device: Counters,
}

/// Statistics of a run.
pub type RunStats = run::RunStats<Totals>;

/// Address of the registers, below 4 GiB: these controllers hang on dual address cycles.
const BAR: u64 = 0xfeb0_0000;
const MEMORY_BASE: u64 = 64 << 20;
const MOST_MEMORY: usize = 3 << 30;

/// Runs `load` on `setup` to its end.
///
/// # Errors
/// The run cannot be set up, or is stuck. A failed audit is no error; it is in the statistics.
pub fn run(setup: &Setup, load: &Load, watch: &mut dyn Watch) -> Result<RunStats> {
    let memory = memory_size(setup, load).min(MOST_MEMORY);
    let _room = setup.host.room(memory);
    let mut platform = platform(MEMORY_BASE, memory, setup.host.guard)?;
    if let Some(window) = setup.tce {
        platform = platform.with_mapping(Mapping::Tce(Box::new(Table::new(window))));
    }
    match setup.slot {
        Slot::Parallel(settings, latencies) => {
            let rules = pci::Rules::new(settings)?;
            let mut o = on(Pci::new(platform, rules, latencies, BAR), setup, load, watch)?;
            let clocks = |time: Span| (time.ps() / rules.period().ps()).max(1);
            o.use_of_bus("clocks", 4096, clocks, |l| vec![l.pci_clocks]);
            Ok(o)
        }
        Slot::Express(settings, latencies) => {
            let rules = pcie::Rules::new(settings)?;
            let mut o = on(Pcie::new(platform, rules, latencies, BAR), setup, load, watch)?;
            let capacity = |time: Span| rules.byte_time().capacity(time).max(1);
            o.use_of_bus("bytes", 4096, capacity, host::link_bytes);
            Ok(o)
        }
    }
}

fn on<B: Bus<Sink = Capture>>(
    bus: B,
    setup: &Setup,
    load: &Load,
    watch: &mut dyn Watch,
) -> Result<RunStats> {
    match load {
        Load::Closed(load) => tcp(bus, setup, load, watch),
        Load::Open(load) => packets(bus, setup, load, watch),
    }
}

const LINE: Interrupt = Interrupt::Line(0);

fn tcp<B: Bus>(bus: B, setup: &Setup, load: &TcpLoad, watch: &mut dyn Watch) -> Result<RunStats> {
    let host = &setup.host;
    let (connections, hosts) = load.connect(setup.nic.mac);
    let (bus, device) = Wired::new(bus, Device::new(setup.nic), hosts, host.link());
    let mut m = Machine::new(bus, device, host.costs, load.cores());
    let driver = Driver::open(&mut m, &setup.driver)?;
    let stack = load.stack(connections, host.prices, host.softirq.slice);
    let stations = vec![NapiContext::new(driver, stack, LINE, 0, load.cores() - 1)];
    let mut x = Experiment::new(&mut m, stations, load.cores(), host.softirq, &host.faults, watch);
    let o = closed_loop::run(
        &mut x,
        load,
        |d, at, up| d.set_cable(at, up),
        |m, s| {
            let driver = s[0].driver.stats();
            [driver.entries().collect(), m.device.device.counters.entries().collect(), vec![]]
        },
    )?;
    let mut driver = Stats::default();
    for s in x.stations {
        s.endpoint.release(&mut m);
        driver = s.driver.close(&mut m);
    }
    m.flush_posted();
    let mut o = o.with(Totals { driver, device: m.device.device.counters });
    let lost = m.device.dropped;
    let (sent, received) = (m.device.out.borrow().frames, m.device.back.landed.0 - lost);
    o.verdict.take(audit::audit(&o, m.bus.platform(), (sent, received)));
    Ok(o)
}

fn packets<B: Bus<Sink = Capture>>(
    bus: B,
    setup: &Setup,
    load: &OpenLoad,
    watch: &mut dyn Watch,
) -> Result<RunStats> {
    let mut m = Machine::new(bus, Device::new(setup.nic), setup.host.costs, 1);
    let (open, on) = (Driver::open(&mut m, &setup.driver)?, (LINE, setup.driver.tx_ring));
    let trouble = |m: &mut Machine<B, Device>| {
        FaultSchedule::begin(&setup.host.faults, m, Vec::new(), |d, _, at, up| d.set_cable(at, up))
    };
    let mut driver = Stats::default();
    let close = |m: &mut _, d: Driver| driver = d.close(m);
    let mut o = open_loop::run_alone(&mut m, open, on, load, trouble, close, watch)?;
    let device = m.device.counters;
    o.counts.counters = [driver.entries().collect(), device.entries().collect(), vec![]];
    let mut o = o.with(Totals { driver, device });
    let sent = m.ledger().wire_frames;
    o.verdict.take(audit::audit(&o, m.bus.platform(), (sent, 0)));
    Ok(o)
}

/// Returns the host memory for the rings and all that can be under way.
fn memory_size(setup: &Setup, load: &Load) -> usize {
    let d = &setup.driver;
    let slot = (d.rx_buffer + d.rx_align).next_power_of_two().max(d.rx_place.align) as usize;
    let rings = (d.rx_ring as usize) * 4 * slot + (d.tx_ring as usize) * 4096 + (4 << 20);
    let traffic = match load {
        Load::Closed(l) => 2 * l.memory(),
        Load::Open(l) => l.memory(d.tx_ring),
    };
    (rings + traffic).next_multiple_of(1 << 20)
}

fn run_values(v: &Values, frames: Option<&Arc<Frames>>, watch: &mut dyn Watch) -> Result<Measured> {
    let setup = settings::setup(v)?;
    let load = settings::load(v, &setup, frames)?;
    let o = run(&setup, &load, watch)?;
    let (cores, is_tcp, sent) = match load {
        Load::Closed(load) => (load.cores(), true, None),
        Load::Open(load) => (1, false, load.sent()),
    };
    let what = if is_tcp { "frames with data, or transactions" } else { "packets sent" };
    let whose = match cores {
        1 => "of its one core",
        _ => "of the core with interrupts and that with applications",
    };
    let rates = |s: &Counts, packets: f64| {
        let bus = match &s.bus_share[..] {
            [one] => vec![BUS_BUSY.is(*one)],
            all => metrics::LINK.iter().zip(all).map(|(of, share)| of.is(*share)).collect(),
        };
        let payload = s.by_time(8.0 * s.payload as f64);
        [
            vec![
                PACKETS.is(packets).about(what),
                PAYLOAD.is(payload).about("TCP payload that arrived"),
            ],
            s.wire_rates(),
            s.event_rates(s.seconds()),
            vec![s.lost_share(), CPU_BUSY.is(s.all_busy_share()).about(whose)],
            bus,
        ]
        .concat()
    };
    // Packets of an open loop are counted from the first to the last.
    let (of, latency) = match is_tcp {
        true => (CountsOf::Window, "from request to response"),
        false => (CountsOf::Run, SENT),
    };
    let measured = o.measured(rates, of, latency, v.number("cpu.frequency"));
    Ok(Measured { sent, ..measured })
}

fn transfer(v: &Values, op: Operation, at: u64, bytes: u32) -> Transferred {
    if v.word("bus.kind") == "pcie" {
        return system::pcie_transfer(v, op, at, bytes);
    }
    let rules = pci::Rules::new(settings::pci(v)).map_err(host::refused)?;
    Ok(Box::new(pci::transactions(&rules, op, at, bytes).map(Into::into)))
}

#[cfg(test)]
mod tests;
