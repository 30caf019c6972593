//! The axienet system: AXI Ethernet with AXI DMA on an AXI bus, its driver, and a run of it.
//!
//! Loads are TCP ([`super::closed_loop`]), frames received in a pattern
//! ([`doorbell_sim::traffic::arrivals`]), frames at a fixed rate ([`super::fixed_rate`]) and frames
//! sent ([`super::open_loop`]). One core takes the queue's interrupts and softirq, another runs the
//! applications. The platform's other cores only count in the share of all cores.

mod audit;
mod controllers;
mod figures;
pub mod settings;

pub use controllers::Any;

use crate::arrivals::{self, Load as Arrivals};
use crate::audit::CrossCheck;
use crate::closed_loop::Load as TcpLoad;
use crate::fixed_rate::Load as Paced;
use crate::host::{self, HostConfig};
use crate::key::Values;
use crate::knobs::{Condition, Knob};
use crate::limits::Wider::{Less, More};
use crate::limits::{self, Resource};
use crate::metrics::{self, CPU_BUSY, DEVICE, DRIVER, Metric, Numbers, PACKETS, PAYLOAD};
use crate::open_loop::Load as OpenLoad;
use crate::result::{CountsOf, Measured, SENT, Sampled};
use crate::run::{self, platform};
use crate::slot::{self, AXI_BUSY, AxiKeys};
use crate::system::{self, PlacementKeys, StackKeys, System};
use crate::{Counted, Counts, OpenQueue, Points, Result, closed_loop, fixed_rate, open_loop};
use doorbell_bus::axi::{Latencies, Rules, Settings};
use doorbell_bus::ledger::BusKind;
use doorbell_bus::{Axi, Bus, Machine};
use doorbell_devices::axi_ethernet::{AxiEthernet as Device, Config as Nic, Counters};
use doorbell_drivers::axienet::{Axienet, Config as DriverConfig, Stats};
use doorbell_hal::Unit;
use doorbell_layout::axienet::line;
use doorbell_moderation::Controller;
use doorbell_sim::link::{Peer, SharedWire, Tell, Wired};
use doorbell_sim::traffic::arrivals::Meter;
use doorbell_sim::{Watch, fault::FaultSchedule};
use doorbell_sim::{napi::NapiContext, scheduler::Interrupt, traffic::Frames};
use settings::{BesideKeys, CPU, DriverKeys, KIND, NicKeys};
use std::sync::{Arc, OnceLock};

/// AXI Ethernet with AXI DMA.
pub(crate) static SYSTEM: System = System {
    name: "axienet",
    about: "AXI Ethernet with AXI DMA: interrupts coalesced by a controller, or not",
    devices: &["axi-ethernet"],
    platform_keys: &[&CPU, &host::TCP, AxiKeys::KEYS, NicKeys::KEYS],
    run_keys: &[
        &KIND,
        closed_loop::Keys::KEYS,
        PlacementKeys::KEYS,
        arrivals::Keys::KEYS,
        BesideKeys::KEYS,
        open_loop::Keys::KEYS,
        Paced::KEYS,
        DriverKeys::KEYS,
        StackKeys::KEYS,
        system::RUN,
    ],
    runner: run_values,
    transfer: slot::axi_transfer,
    port_rate: "link.rate",
    knobs: &[
        Knob::new(
            "driver.controller",
            &["fixed", "dim"],
            "ethtool -C $NIC adaptive-rx: on is dim, off is fixed; here {}",
        ),
        Knob::new(
            "driver.rx_frames",
            &["1", "4", "16", "24", "64", "128", "255"],
            "ethtool -C $NIC rx-frames {}",
        ),
        Knob::new(
            "driver.rx_usecs",
            &["0", "16", "50", "64", "128", "512"],
            "ethtool -C $NIC rx-usecs {}",
        ),
        Knob::new(
            "driver.tx_frames",
            &["1", "8", "24", "64", "128", "255"],
            "ethtool -C $NIC tx-frames {}",
        ),
        Knob::new(
            "driver.tx_usecs",
            &["0", "16", "50", "128", "510"],
            "ethtool -C $NIC tx-usecs {}",
        ),
        Knob::new("driver.rx_ring", &["64", "128", "1024", "4096"], "ethtool -G $NIC rx {}"),
        Knob::new("driver.tx_ring", &["64", "128", "1024", "4096"], "ethtool -G $NIC tx {}"),
        Knob::new("driver.batch", &["on", "off"], "a driver that writes TAILDESC once a batch: {}"),
        Knob::new("traffic.gro", &["on", "off"], "ethtool -K $NIC gro {}"),
    ],
    conditions: &[Condition { key: "traffic.load", values: &["1", "5", "20", "50", "100"] }],
    resources: &[
        Resource {
            name: "cores",
            shares: &["irq_core_busy_share", "app_core_busy_share"],
            keys: &[("cpu.frequency", More), ("cpu.mmio_write_spacing", Less)],
        },
        slot::AXI_BUS,
        limits::PORT,
        slot::AXI_BURSTS,
        Resource::of("MAC memory", &[("nic.rx_memory", More), ("nic.tx_memory", More)]),
        limits::RINGS,
        Resource::of("coalescing delay", &[("driver.rx_usecs", Less), ("driver.tx_usecs", Less)]),
        slot::AXI_LATENCY,
        limits::NETWORK,
        Resource::of(
            "load",
            &[
                ("traffic.rate", More),
                ("traffic.load", More),
                ("traffic.source_rate", More),
                ("traffic.connections", More),
                ("paced.every", Less),
            ],
        ),
    ],
    numbers: Numbers {
        buses: &[BusKind::Axi],
        rates: &[&metrics::BOTH_WAYS, &[metrics::LOST_SHARE, RECEIVED, SENT_OFF, THRESHOLD], &BUSY],
        counters: &[(DRIVER, Stats::DECLARED), (DEVICE, Counters::DECLARED)],
        calls: &[],
        cache: false,
        losses: &[metrics::MISSED],
    },
    declared: OnceLock::new(),
    figures: &[&figures::FIGURES],
};

const RECEIVED: Metric =
    Metric::rate("rx_interrupts_per_s", Unit::PerSecond, "interrupts of reception");
const SENT_OFF: Metric =
    Metric::rate("tx_interrupts_per_s", Unit::PerSecond, "interrupts of transmission");
const THRESHOLD: Metric = Metric::rate(
    "rx_threshold",
    Unit::Count,
    "received frames that an interrupt waits for, at the end",
);
/// The use of both cores, and of both directions of the bus.
const BUSY: [Metric; 4] = [
    Metric::busy("irq_core_busy_share", "of the core with interrupts and softirq"),
    Metric::busy("app_core_busy_share", "of the core with applications"),
    AXI_BUSY[0],
    AXI_BUSY[1],
];

/// The driver, with any controller.
pub(crate) type Driver = Axienet<Any>;

/// The inputs of a run, except its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Host and link.
    pub host: HostConfig,
    /// The bus.
    pub axi: Settings,
    /// Latencies around it.
    pub latencies: Latencies,
    /// The device.
    pub nic: Nic,
    /// The driver.
    pub driver: DriverConfig,
    /// The controller of coalescing.
    pub controller: Any,
    /// Cores of the platform.
    pub cores: usize,
}

/// The traffic of a run.
#[derive(Clone, Debug)]
pub enum Load {
    /// TCP.
    Closed(TcpLoad),
    /// Frames received.
    Arrivals(Arrivals),
    /// Frames sent.
    Open(OpenLoad),
}

/// Totals of the whole run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    /// The driver's counters.
    pub driver: Stats,
    /// The device's counters.
    pub device: Counters,
    /// Received packets an interrupt: the device's last setting.
    pub threshold: u32,
}

/// Statistics of a run. Core 0 takes the interrupts and core 1 runs the applications. Interrupts
/// are those of reception, then of transmission.
pub(crate) type RunStats = run::RunStats<Totals>;

/// Address of host memory: below 2 GiB, as on a Zynq UltraScale+.
const MEMORY_BASE: u64 = 64 << 20;

fn lines() -> Vec<Interrupt> {
    [line::RX, line::TX, line::MAC].map(Interrupt::Line).to_vec()
}

fn bus(setup: &Setup, memory: usize) -> Result<Axi> {
    let platform = platform(MEMORY_BASE, memory, setup.host.guard)?;
    let rules = Rules::new(setup.axi)?;
    Ok(Axi::new(platform, rules, setup.latencies))
}

/// A machine whose device is on a link to a peer.
type Board<Pr> = Machine<Axi<SharedWire>, Wired<Device, Pr>>;

/// Builds a machine on a link to `peer`, with its driver open. Interrupts have core 0, and
/// applications the last one.
fn machine<P: Peer>(
    bus: Axi,
    setup: &Setup,
    peer: P,
    cores: usize,
) -> Result<(Board<P>, OpenQueue<Driver>)> {
    let (bus, device) = Wired::new(bus, Device::new(setup.nic), peer, setup.host.link());
    let mut m = Machine::new(bus, device, setup.host.costs, cores);
    let driver = Axienet::open(&mut m, &setup.driver, setup.controller.clone())?;
    Ok((m, OpenQueue { driver, lines: lines(), cores: [0, cores - 1] }))
}

/// Runs `load` on `setup` to its end.
///
/// # Errors
/// The run cannot be set up, or is stuck. A failed audit is no error; it is in the statistics.
pub(crate) fn run(setup: &Setup, load: &Load, watch: &mut dyn Watch) -> Result<RunStats> {
    let memory = memory_size(setup, load);
    let _room = setup.host.room(memory);
    let bus = bus(setup, memory)?;
    let mut o = match load {
        Load::Closed(load) => tcp(bus, setup, load, watch),
        Load::Arrivals(load) => received(bus, setup, load, watch),
        Load::Open(load) => packets(bus, setup, load, watch),
    }?;
    slot::use_of_axi(&mut o, setup.axi.mhz);
    Ok(o)
}

/// Closes the driver, adds the totals to `o`, and audits it.
fn finish<P: Peer>(o: run::RunStats, mut m: Board<P>, driver: Driver) -> RunStats {
    let threshold = driver.coalesce().rx_frames;
    let driver = driver.close(&mut m);
    m.flush_posted();
    let mut o = o.with(Totals { driver, device: m.device.device.counters, threshold });
    let (sent, received) = (m.device.out.borrow().frames, m.device.back.landed.0);
    o.verdict.take(audit::audit(&o, m.bus.platform(), (sent, received)));
    o
}

/// Tells the device that its link goes up or down.
const CABLE: Tell<Device> = |d, at, up| d.set_cable(at, up);

fn tcp(bus: Axi, setup: &Setup, load: &TcpLoad, watch: &mut dyn Watch) -> Result<RunStats> {
    let (connections, hosts) = load.connect(setup.driver.mac);
    let (mut m, queue) = machine(bus, setup, hosts, 2)?;
    let ways = (CABLE, look);
    let (o, driver) =
        closed_loop::over(&mut m, queue, (load, connections), &setup.host, ways, watch)?;
    Ok(finish(o, m, driver))
}

fn look<P, E>(m: &Board<P>, s: &[NapiContext<Driver, E>]) -> Counted {
    let (driver, device) = (s[0].driver.stats(), &m.device.device);
    [driver.entries().collect(), device.counters.entries().collect(), vec![]]
}

/// Runs frames at a fixed rate.
fn fixed_rate(setup: &Setup, load: &Paced, watch: &mut dyn Watch) -> Result<run::RunStats> {
    let memory = (rings(setup) + load.memory()).next_multiple_of(1 << 20);
    let _room = setup.host.room(memory);
    let bus = bus(setup, memory)?;
    let mac = setup.driver.mac;
    let (mut m, queue) = machine(bus, setup, fixed_rate::Peer::new(load, mac), 1)?;
    let ways = (look, fixed_rate::by_interrupt);
    let (mut o, driver) =
        fixed_rate::run(&mut m, queue, (load, mac), ways, &setup.host.softirq, watch)?;
    driver.close(&mut m);
    m.flush_posted();
    let mut b = CrossCheck::new(None);
    b.platform(m.bus.platform(), 0);
    o.verdict.take(b);
    Ok(o)
}

/// Returns a slice's setting of the controller.
fn setting(s: &[NapiContext<Driver, Meter>]) -> Points {
    let driver = &s[0].driver;
    vec![
        ("setting_packets", f64::from(driver.coalesce().rx_frames)),
        ("setting_delay_us", f64::from(driver.controller().setting().delay_ns) * 1e-3),
    ]
}

fn received(bus: Axi, setup: &Setup, load: &Arrivals, watch: &mut dyn Watch) -> Result<RunStats> {
    let host = &setup.host;
    let (mut m, queue) = machine(bus, setup, load.source(setup.driver.mac), 2)?;
    let meter = || Meter::new(host.prices, host.link_rate, host.link_delay);
    let ways = (CABLE, look);
    let (o, mut drivers) =
        arrivals::run(&mut m, vec![queue], meter, (load, host), ways, setting, watch)?;
    Ok(finish(o, m, drivers.remove(0)))
}

fn packets(bus: Axi, setup: &Setup, load: &OpenLoad, watch: &mut dyn Watch) -> Result<RunStats> {
    let mut m: Machine<Axi, Device> =
        Machine::new(bus, Device::new(setup.nic), setup.host.costs, 1);
    let open: Driver = Axienet::open(&mut m, &setup.driver, setup.controller.clone())?;
    let on = (lines(), setup.driver.tx_ring);
    let trouble = |m: &mut Machine<Axi, Device>| {
        FaultSchedule::begin(&setup.host.faults, m, Vec::new(), |d, _, at, up| d.set_cable(at, up))
    };
    let (mut driver, mut threshold) = (Stats::default(), 0);
    let close = |m: &mut _, d: Driver| {
        threshold = d.coalesce().rx_frames;
        driver = d.close(m);
    };
    let mut o = open_loop::run_alone(&mut m, open, on, load, trouble, close, watch)?;
    let device = m.device.counters;
    o.counts.payload = o.counts.ledger.wire_bytes;
    for s in o.parts_mut() {
        s.payload = s.ledger.wire_bytes;
        // Nothing is received, so all interrupts are those of transmission.
        s.interrupts.insert(0, 0);
    }
    o.counts.interrupts = vec![driver.rx_irqs, driver.tx_irqs];
    o.counts.counters = [driver.entries().collect(), device.entries().collect(), vec![]];
    let mut o = o.with(Totals { driver, device, threshold });
    let sent = m.ledger().wire_frames;
    o.verdict.take(audit::audit(&o, m.bus.platform(), (sent, 0)));
    Ok(o)
}

/// Returns the host memory for the rings.
fn rings(setup: &Setup) -> usize {
    let d = &setup.driver;
    let slot = (d.rx_buffer() + 64).next_power_of_two() as usize;
    d.rx_ring as usize * 4 * slot + d.tx_ring as usize * 4096 + (4 << 20)
}

/// Returns the host memory for the rings and all that can be under way.
fn memory_size(setup: &Setup, load: &Load) -> usize {
    let traffic = match load {
        Load::Closed(l) => 2 * l.memory(),
        Load::Arrivals(_) => 0,
        Load::Open(l) => l.memory(setup.driver.tx_ring),
    };
    (rings(setup) + traffic).next_multiple_of(1 << 20)
}

fn run_values(v: &Values, frames: Option<&Arc<Frames>>, watch: &mut dyn Watch) -> Result<Measured> {
    let setup = settings::setup(v)?;
    let ghz = v.number("cpu.frequency");
    if v.word("traffic.kind") == fixed_rate::KIND {
        let load = Paced::within(v, setup.driver.mtu, "driver.mtu")?;
        return Ok(fixed_rate::measured(fixed_rate(&setup, &load, watch)?, &load, ghz));
    }
    let load = settings::load(v, &setup, frames)?;
    let o = run(&setup, &load, watch)?;
    let threshold = f64::from(o.totals.threshold);
    let rates = |s: &Counts, packets: f64| {
        let whose = format!("of the platform's {} cores", setup.cores);
        let share = s.all_busy_share() * s.busy.len() as f64 / setup.cores as f64;
        let by_time = |n: u64| s.by_time(n as f64);
        let [received, sent] = [0, 1].map(|line| by_time(s.interrupts[line]));
        let payload = by_time(8 * s.payload);
        let busy = [s.busy_share(0), s.busy_share(1), s.bus_share[0], s.bus_share[1]];
        [
            vec![
                PACKETS.is(packets).about("frames received or sent, or transactions"),
                PAYLOAD.is(payload).about("TCP payload, or frames"),
            ],
            s.wire_rates(),
            vec![
                RECEIVED.is(received),
                SENT_OFF.is(sent),
                THRESHOLD.is(threshold).sampled(Sampled::Once),
                metrics::POLLS.is(by_time(s.polls)),
                s.lost_share(),
                CPU_BUSY.is(share).about(whose),
            ],
            BUSY.iter().zip(busy).map(|(of, share)| of.is(share)).collect(),
        ]
        .concat()
    };
    let handed_up = arrivals::HANDED_UP;
    let (of, latency, sent) = match load {
        Load::Closed(_) => (CountsOf::Window, "from request to response", None),
        Load::Arrivals(_) => (CountsOf::Window, handed_up, None),
        Load::Open(load) => (CountsOf::Run, SENT, load.sent()),
    };
    Ok(Measured { sent, ..o.measured(rates, of, latency, ghz) })
}

#[cfg(test)]
mod tests;
