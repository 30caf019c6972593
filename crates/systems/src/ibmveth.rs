//! The ibmveth system: a partition on the network through an I/O server, and a run of it.
//!
//! ```text
//! client partition     hypervisor            I/O server partition
//! TCP - ibmveth driver -> logical LAN, switch -> ibmveth driver (trunk) - bridge - port -> network
//! ```
//!
//! Each partition has a core (the client may have two) and its own memory. The hypervisor copies on
//! the sender's core. The CPU converts forwarded packets that a port does not take (`server`).
//! Loads are TCP ([`super::closed_loop`]) and single large sends to the client (`packets`). Frames
//! at a fixed rate ([`super::fixed_rate`]) and frames that arrive ([`super::arrivals`]) have the
//! client alone, with a network right behind the switch.

mod audit;
mod bridge;
mod figures;
mod lan;
mod packets;
mod server;
pub mod settings;

pub use bridge::{BridgePrices, Counters as BridgeCounters};
pub use lan::{Lan, PortConfig, PortCounters};
pub use packets::{Form, Load as PacketsLoad};
pub use server::Stats as PortStats;

use crate::arrivals::{self, Load as Arrivals, Places};
use crate::audit::fault_counts;
use crate::fixed_rate::Load as Paced;
use crate::host::{HostConfig, TCP};
use crate::key::Values;
use crate::knobs::{self, Knob};
use crate::limits::Wider::{Less, More};
use crate::limits::{self, Resource};
use crate::metrics::{self, DEVICE, DRIVER, Metric, Numbers, PACKETS, PAYLOAD, Party};
use crate::papr::{self, Papr};
use crate::result::{Count, CountsOf, Group, Measured};
use crate::run;
use crate::system::{self, PlacementKeys, System};
use crate::{Counted, Counts, Entries, Experiment, OpenQueue, Result};
use crate::{closed_loop, fixed_rate, open_loop};
use bridge::{Bridge, UpperLayer};
use doorbell_bus::ledger::BusKind;
use doorbell_bus::{HypervisorDevice, Machine};
use doorbell_devices::veth::{Config as LanConfig, Counters, Uplink, Veth};
use doorbell_drivers::ibmveth::{Config as DriverConfig, Ibmveth, Stats};
use doorbell_hal::{Host, Span, Unit};
use doorbell_layout::ibmveth as layout;
use doorbell_sim::link::{Peer, Tell, Wired};
use doorbell_sim::traffic::{Frames, arrivals::Meter, tcp::Hosts};
use doorbell_sim::{Watch, napi::NapiContext, scheduler::Interrupt};
use lan::{CLIENT, PORT_VECTOR, SERVER};
use server::{Lpars, PartitionDriver, PortDriver};
use settings::{CPU, DriverKeys, HypervisorKeys, PRICES, PortKeys, TrafficKeys};
use std::sync::{Arc, OnceLock};

/// A partition that reaches the network through an I/O server.
pub static SYSTEM: System = System {
    name: "ibmveth",
    about: "IBM logical LAN of POWER partitions: large send and checksums through a trunk and a \
        bridge, or not",
    devices: &["veth"],
    platform_keys: &[&CPU, &TCP, papr::Keys::KEYS, &PRICES, HypervisorKeys::KEYS, PortKeys::KEYS],
    run_keys: &[
        TrafficKeys::KEYS,
        closed_loop::Keys::KEYS,
        PlacementKeys::KEYS,
        &closed_loop::APPLICATION,
        arrivals::Keys::KEYS,
        &open_loop::ARRIVING,
        Paced::KEYS,
        DriverKeys::KEYS,
        system::RUN,
    ],
    runner: run_values,
    transfer: |_, _, _, _| {
        Err("ibmveth has no bus: the hypervisor copies, and what that costs is `hypervisor.copy`"
            .into())
    },
    port_rate: "link.rate",
    knobs: &[
        Knob::new(
            "driver.transmit",
            &["map", "copy"],
            "copy: Linux 6.1 and later; map: before; here {}",
        ),
        Knob::new("driver.multi_buffer", &["on", "off"], "on: Linux 6.17 and later; here {}"),
        Knob::new(
            "driver.trunk_offload",
            &["on", "off"],
            "ethtool -K $NIC tx {} tso {}, on the trunk adapter",
        ),
        knobs::CHECKSUM,
        Knob::new(
            "driver.rx_copybreak",
            &["0", "128", "256", "1500"],
            "/sys/module/ibmveth/parameters/rx_copybreak: {}",
        ),
        Knob::new(
            "driver.copybreak",
            &["0", "128", "256", "1500"],
            "/sys/module/ibmveth/parameters/tx_copybreak: {}",
        ),
        Knob::new(
            "driver.pool_2k",
            &["128", "512", "2048"],
            "/sys/devices/vio/$UNIT/pool1/num: {}",
        ),
        Knob::new(
            "driver.pool_64k",
            &["64", "256", "1024"],
            "/sys/devices/vio/$UNIT/pool4/num: {}",
        ),
    ],
    conditions: &[],
    resources: &[
        Resource {
            name: "cores",
            shares: &["client_busy_share", "server_busy_share"],
            keys: &[("cpu.frequency", More)],
        },
        Resource::of(
            "hypervisor calls",
            &[
                ("hypervisor.call", Less),
                ("hypervisor.copy", Less),
                ("hypervisor.sum", Less),
                ("hcall.send", Less),
                ("hcall.add_buffer", Less),
                ("hcall.add_buffers", Less),
                ("hcall.vio_signal", Less),
                ("tce.put", Less),
                ("tce.put_indirect", Less),
                ("tce.stuff", Less),
                ("tce.entry", Less),
            ],
        ),
        Resource::of("serial calls", &[("hcall.send_serial", Less)]),
        Resource::of(
            "interrupt latency",
            &[("hypervisor.interrupt", Less), ("port.interrupt_gap", Less)],
        ),
        limits::PORT,
        Resource::of(
            "receive buffers",
            &[("driver.pool_2k", More), ("driver.pool_64k", More), ("port.ring", More)],
        ),
        limits::NETWORK,
        Resource::of(
            "load",
            &[
                ("traffic.source_rate", More),
                ("traffic.connections", More),
                ("traffic.load", More),
                ("paced.every", Less),
            ],
        ),
    ],
    numbers: Numbers {
        buses: &[BusKind::Tce],
        rates: &[&metrics::BOTH_WAYS, &[metrics::LOST_SHARE, metrics::LOST_RING], &SIDES],
        counters: &[
            // Of the client alone there is one driver, and its adapter.
            (DRIVER, Stats::DECLARED),
            (DEVICE, Counters::DECLARED),
            (DRIVERS[CLIENT], Stats::DECLARED),
            (DRIVERS[SERVER], Stats::DECLARED),
            (DRIVER, PortStats::DECLARED),
            (DRIVER, BridgeCounters::DECLARED),
            (DEVICES[CLIENT], Counters::DECLARED),
            (DEVICES[SERVER], Counters::DECLARED),
            (DEVICE, PortCounters::DECLARED),
        ],
        calls: &layout::CALLS,
        cache: false,
        losses: &[
            metrics::no_buffer("device_rx_no_buffer"),
            metrics::no_buffer("device_client_rx_no_buffer"),
            metrics::no_buffer("device_server_rx_no_buffer"),
            metrics::Lost {
                counter: "device_port_rx_missed",
                of: "received frames",
                want: "room in the port",
            },
        ],
    },
    declared: OnceLock::new(),
    figures: &[&figures::FIGURES],
};

/// The use of the cores of both sides, and their time for a packet.
const SIDES: [Metric; 4] = [
    Metric::busy("client_busy_share", CLIENT_CORES),
    Metric::busy("server_busy_share", "of its core's time"),
    Metric::rate("client_ns_a_packet", Unit::Nanoseconds, "time of its cores, calls included"),
    Metric::rate("server_ns_a_packet", Unit::Nanoseconds, "time of its core, calls included"),
];

/// The drivers of both sides.
const DRIVERS: [Party; 2] =
    [Party { prefix: "driver_client_", ..DRIVER }, Party { prefix: "driver_server_", ..DRIVER }];
/// Their adapters.
const DEVICES: [Party; 2] =
    [Party { prefix: "device_client_", ..DEVICE }, Party { prefix: "device_server_", ..DEVICE }];

/// The inputs of a run, except its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Host and link.
    pub host: HostConfig,
    /// Prices of the bridge.
    pub bridge: BridgePrices,
    /// Prices of calls and translation.
    pub papr: Papr,
    /// The logical LAN; adapter 0 is the client's, adapter 1 the server's.
    pub lan: LanConfig,
    /// The physical port.
    pub port: PortConfig,
    /// The bridge merges frames that come from the port.
    pub gro: bool,
    /// The drivers of both adapters.
    pub drivers: [DriverConfig; 2],
    /// The time within which hosts on the network merge frames.
    pub network_gro: Option<Span>,
}

/// The traffic of a run.
#[derive(Clone, Debug)]
pub enum Load {
    /// TCP between the client and the network.
    Closed(closed_loop::Load),
    /// Large sends from the server to the client, one at a time.
    Packets(PacketsLoad),
}

/// Totals of the whole run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    /// Both drivers' counters.
    pub drivers: [Stats; 2],
    /// The counters of the adapters.
    pub adapters: [Counters; 2],
    /// The counters of the server's port driver.
    pub port_driver: PortStats,
    /// The counters of the physical port.
    pub port: PortCounters,
    /// The counters of the bridge.
    pub bridge: BridgeCounters,
}

/// Statistics of a run. Cores are the client's, the server's and the client's second. Interrupts
/// are those of the client's adapter, the server's adapter and the port.
pub(crate) type RunStats = run::RunStats<Totals>;

/// Runs `load` on `setup` to its end.
///
/// # Errors
/// The run cannot be set up, or is stuck. A failed audit is no error; it is in the statistics.
pub(crate) fn run(setup: &Setup, load: &Load, watch: &mut dyn Watch) -> Result<RunStats> {
    match load {
        Load::Closed(load) => tcp(setup, load, watch),
        Load::Packets(load) => packets::run(setup, load, watch),
    }
}

/// The client's second core, if it has one.
const SECOND: usize = 2;

const CLIENT_CORES: &str = "of the time of the client's one or two cores";

/// Builds a machine with both adapters open, all cores at the same time. With `own_core` the client
/// has a second core.
fn machine(
    setup: &Setup,
    hosts: Hosts,
    memory: [usize; 2],
    own_core: bool,
) -> Result<(Lpars, [PartitionDriver; 2])> {
    let lan = Lan::new(Veth::new(setup.lan.clone()), setup.port);
    let of_core = if own_core { vec![CLIENT, SERVER, CLIENT] } else { vec![CLIENT, SERVER] };
    let cores = of_core.len();
    let partitions = setup.papr.partitions(&memory, of_core, setup.host.guard)?;
    let (partitions, device) = Wired::new(partitions, lan, hosts, setup.host.link());
    let mut m: Lpars = Machine::new(partitions, device, setup.host.costs, cores);
    let mut opened = m.now();
    let mut open = |m: &mut Lpars, i: usize| {
        m.enter(i);
        m.idle_until(opened);
        let driver = Ibmveth::open(m, &setup.drivers[i]);
        opened = m.now();
        driver
    };
    // The trunk opens first, so that it is there when its clients open.
    let server = open(&mut m, SERVER)?;
    let client = open(&mut m, CLIENT)?;
    for core in (0..cores).rev() {
        m.enter(core);
        m.idle_until(opened);
    }
    let client = PartitionDriver { veth: client, port: None };
    let server = PartitionDriver { veth: server, port: Some(PortDriver::default()) };
    Ok((m, [client, server]))
}

fn tcp(setup: &Setup, load: &closed_loop::Load, watch: &mut dyn Watch) -> Result<RunStats> {
    let host = &setup.host;
    let (connections, mut hosts) = load.connect(setup.drivers[CLIENT].mac);
    hosts.gro = setup.network_gro;
    let memory = memory(setup, Some(load));
    let _room = setup.host.room(memory.iter().sum());
    let (mut m, [client, server]) = machine(setup, hosts, memory, load.own_core)?;
    let stack =
        UpperLayer::Stack(Box::new(load.stack(connections, host.prices, host.softirq.slice)));
    let bridge = UpperLayer::Bridge(Box::new(Bridge::new(setup.bridge, setup.gro)));
    let applications = if load.own_core { SECOND } else { CLIENT };
    let line = |i: usize| Interrupt::Message(setup.drivers[i].vector);
    let server_lines = vec![line(SERVER), Interrupt::Message(PORT_VECTOR)];
    let stations = vec![
        NapiContext::new(client, stack, line(CLIENT), CLIENT, applications),
        NapiContext::new(server, bridge, server_lines, SERVER, SERVER),
    ];
    let cores = 1 + load.cores();
    let mut x = Experiment::new(&mut m, stations, cores, host.softirq, &host.faults, watch);
    let look = |m: &Lpars, s: &[Station]| {
        [driver_counters(s), device_counters(m), papr::made(&m.bus, &layout::CALLS)]
    };
    // The LAN has no link state. The port's link can go down.
    let o = closed_loop::run(&mut x, load, |_, _, _| {}, look)?;
    let mut totals = Totals::of(x.m);
    for s in x.stations {
        close(&mut m, s.driver, &mut totals);
        match s.endpoint {
            UpperLayer::Stack(s) => s.release(&mut m),
            UpperLayer::Bridge(b) => {
                totals.bridge = b.counters;
                b.release(&mut m);
            }
        }
    }
    m.flush_posted();
    let mut o = o.with(totals);
    o.verdict.take(audit::audit(setup, &o, &m));
    o.verdict.take(papr::audit(&m.bus, o.faults.as_ref()));
    Ok(o)
}

/// A machine of the client alone, with a network right behind the switch.
type Alone<Pr> = papr::Hosted<HypervisorDevice<Veth>, Pr>;

/// Builds the client alone with so much memory, on a link to `peer`, with its adapter open.
fn alone<Pr: Peer>(
    setup: &Setup,
    peer: Pr,
    memory: usize,
) -> Result<(Alone<Pr>, OpenQueue<Ibmveth>)> {
    let (d, host) = (&setup.drivers[CLIENT], &setup.host);
    let adapters = setup.lan.adapters[..=CLIENT].to_vec();
    let lan =
        LanConfig { adapters, uplink: Some(Uplink { port: CLIENT, pvid: 1 }), ..setup.lan.clone() };
    let lan = HypervisorDevice(Veth::new(lan));
    let partitions = setup.papr.partitions(&[memory], vec![CLIENT], host.guard)?;
    let (partitions, device) = Wired::new(partitions, lan, peer, host.link());
    let mut m: Alone<Pr> = Machine::new(partitions, device, host.costs, 1);
    let driver = Ibmveth::open(&mut m, d)?;
    let lines = vec![Interrupt::Message(d.vector)];
    Ok((m, OpenQueue { driver, lines, cores: [CLIENT; 2] }))
}

fn look<Pr, E>(m: &Alone<Pr>, s: &[NapiContext<Ibmveth, E>]) -> Counted {
    let (nic, adapter) = (s[0].driver.stats(), m.device.device.0.counters(CLIENT).entries());
    [nic.entries().collect(), adapter.collect(), papr::made(&m.bus, &layout::CALLS)]
}

/// Runs frames at a fixed rate between the client alone and its network.
fn fixed_rate(setup: &Setup, load: &Paced, watch: &mut dyn Watch) -> Result<run::RunStats> {
    let (mac, host) = (setup.drivers[CLIENT].mac, &setup.host);
    let memory = memory(setup, None)[CLIENT] + load.memory();
    let _room = host.room(memory);
    let (mut m, queue) = alone(setup, fixed_rate::Peer::new(load, mac), memory)?;
    let reclaim = |nic: &mut Ibmveth, m: &mut Alone<_>, above: &mut fixed_rate::UpperLayer| {
        nic.reclaim(m, above);
    };
    let (mut o, nic) =
        fixed_rate::run(&mut m, queue, (load, mac), (look, reclaim), &host.softirq, watch)?;
    nic.close(&mut m);
    m.flush_posted();
    o.verdict.take(papr::audit(&m.bus, None));
    Ok(o)
}

/// Runs frames that arrive at the client alone.
fn received(setup: &Setup, load: &Arrivals, watch: &mut dyn Watch) -> Result<run::RunStats> {
    let host = &setup.host;
    let memory = memory_of_arrivals(setup);
    let _room = host.room(memory);
    let (mut m, queue) = alone(setup, load.source(setup.drivers[CLIENT].mac), memory)?;
    let meter = || Meter::new(host.prices, host.link_rate, host.link_delay);
    // The LAN has no link state.
    let ways: (Tell<_>, _) = (|_, _, _| {}, look);
    let (mut o, mut nics) =
        arrivals::run(&mut m, vec![queue], meter, (load, host), ways, |_| vec![], watch)?;
    let driver = nics.remove(0).close(&mut m);
    m.flush_posted();
    o.verdict.take(audit::alone(setup, &o, &m, &driver));
    o.verdict.take(papr::audit(&m.bus, o.faults.as_ref()));
    Ok(o)
}

/// The place at which the hypervisor loses frames that arrive: it has no buffer that holds one.
const PLACES: Places =
    Places { came: &["rx_packets", "rx_no_buffer"], lost: &[(metrics::LOST_RING, "rx_no_buffer")] };

impl Totals {
    /// Reads the counters of the devices. Those of the drivers are added when they are closed.
    fn of(m: &Lpars) -> Totals {
        Totals {
            drivers: [Stats::default(); 2],
            adapters: [CLIENT, SERVER].map(|i| *m.device.device.veth.0.counters(i)),
            port_driver: PortStats::default(),
            port: m.device.device.port.counters,
            bridge: BridgeCounters::default(),
        }
    }
}

/// Closes a partition's driver, in its own partition, and keeps its counters.
fn close(m: &mut Lpars, driver: PartitionDriver, o: &mut Totals) {
    let i = if driver.port.is_some() { SERVER } else { CLIENT };
    m.enter(i);
    o.drivers[i] = driver.veth.close(m);
    if let Some(port) = driver.port {
        o.port_driver = port.close(m);
    }
}

type Station = NapiContext<PartitionDriver, UpperLayer>;

/// Returns the drivers' counters: the client's, the server's, its port's and its bridge's.
fn driver_counters(stations: &[Station]) -> Entries {
    let mut all = Entries::new();
    for s in stations {
        all.extend(s.driver.veth.stats().entries());
        all.extend(s.driver.port.iter().flat_map(|port| port.stats.entries()));
        if let UpperLayer::Bridge(b) = &s.endpoint {
            all.extend(b.counters.entries());
        }
    }
    all
}

/// Returns the devices' counters: both adapters' and the port's.
fn device_counters(m: &Lpars) -> Entries {
    let lan = &m.device.device;
    let mut all: Entries =
        [CLIENT, SERVER].into_iter().flat_map(|i| lan.veth.0.counters(i).entries()).collect();
    all.extend(lan.port.counters.entries());
    all
}

/// Returns the memory of both partitions in bytes: receive buffers, queues, and frames in flight.
fn memory(setup: &Setup, load: Option<&closed_loop::Load>) -> [usize; 2] {
    let rings = |d: &DriverConfig| {
        let pools: usize =
            d.pools.iter().map(|p| (p.size.next_power_of_two() * p.count) as usize).sum();
        2 * pools + (8 << 20)
    };
    let (client, server) = load.map_or((8 << 20, 8 << 20), |l| {
        let window = l.socket.receive_buffer.max(l.socket.send_buffer) as usize;
        let n = usize::from(l.connections + l.beside);
        // Frames of a window, each in a buffer of its own, and once more as segments. In the client
        // they also wait to be read.
        (4 * l.memory() + n * 4 * window, n * 8 * window.max(64 << 10) + (4096 << 11))
    });
    let up = |n: usize| n.next_multiple_of(1 << 20);
    [up(rings(&setup.drivers[CLIENT]) + client), up(rings(&setup.drivers[SERVER]) + server)]
}

/// Returns the client's memory for its receive buffers, and for the frames of a poll.
fn memory_of_arrivals(setup: &Setup) -> usize {
    memory(setup, None)[CLIENT] + (1 << 20)
}

/// Returns the counts of `entries`, the first `n` of which are the client's, the next `n` the
/// server's, and the others those of `all`.
fn sides(
    group: Group,
    (of, all): ([Party; 2], Party),
    n: usize,
    entries: &[(&'static str, u64)],
) -> Vec<Count> {
    let (client, rest) = entries.split_at(n);
    let (server, others) = rest.split_at(n);
    let parts = [(of[CLIENT], client), (of[SERVER], server), (all, others)];
    let mut all = Vec::with_capacity(entries.len());
    for (of, part) in parts {
        all.extend(Count::of(group, of.prefix, part.iter().copied()));
    }
    all
}

fn run_values(v: &Values, frames: Option<&Arc<Frames>>, watch: &mut dyn Watch) -> Result<Measured> {
    let setup = settings::setup(v)?;
    let ghz = v.number("cpu.frequency");
    match v.word("traffic.kind") {
        fixed_rate::KIND => {
            let load = Paced::within(v, setup.drivers[CLIENT].mtu, "the adapter's MTU")?;
            return Ok(fixed_rate::measured(fixed_rate(&setup, &load, watch)?, &load, ghz));
        }
        arrivals::KIND => {
            let o = received(&setup, &settings::arriving(v, &setup, frames)?, watch)?;
            return Ok(arrivals::measured(o, (PAYLOAD, &PLACES), |_| vec![], ghz));
        }
        _ => {}
    }
    let load = settings::load(v, &setup)?;
    let o = run(&setup, &load, watch)?;
    let c = &o.counts;
    let rates = |c: &Counts, packets: f64| {
        let by_packet = |busy: Span| match c.packets {
            0 => 0.0,
            n => busy.as_ns_f64() / n as f64,
        };
        let client = c.busy[CLIENT] + c.busy.get(SECOND).copied().unwrap_or(Span::ZERO);
        let server = c.busy[SERVER];
        let share = |busy: Span| c.by_time(busy.as_secs_f64());
        let of_client = share(client) / if c.busy.len() > SECOND { 2.0 } else { 1.0 };
        let payload = c.by_time(8.0 * c.payload as f64);
        let mut events = c.event_rates(c.seconds());
        events[0].about = "interrupts taken, of both partitions".into();
        let what = "frames with data on the wire, transactions, or large sends";
        let of_sides = [of_client, share(server), by_packet(client), by_packet(server)];
        [
            vec![
                PACKETS.is(packets).about(what),
                PAYLOAD.is(payload).about("TCP payload that arrived"),
            ],
            c.wire_rates(),
            events,
            SIDES.iter().zip(of_sides).map(|(of, value)| of.is(value)).collect(),
        ]
        .concat()
    };
    let [drivers, devices, calls] = &c.counters;
    let others =
        PortStats::default().entries().count() + BridgeCounters::default().entries().count();
    let mut counts = Count::of_ledger(&c.ledger);
    let own = (drivers.len() - others) / 2;
    counts.extend(sides(Group::Driver, (DRIVERS, DRIVER), own, drivers));
    let own = o.totals.adapters[CLIENT].entries().count();
    counts.extend(sides(Group::Device, (DEVICES, DEVICE), own, devices));
    counts.extend(Count::of(Group::Bus, "", calls.iter().copied()));
    counts.extend(o.faults.iter().flat_map(fault_counts));
    let measured = o.measured(rates, CountsOf::Window, "from request to response", ghz);
    Ok(Measured { counts, ..measured })
}

#[cfg(test)]
mod tests;
