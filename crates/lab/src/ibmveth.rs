//! The ibmveth system: a partition that reaches the network through an I/O server, and a run of it.
//!
//! ```text
//! client partition           hypervisor                I/O server partition
//! TCP - ibmveth driver -> logical LAN, switch -> ibmveth driver (trunk) - bridge - physical port -> network
//! ```
//!
//! Each partition has one core (the client may have two) and its own memory behind a translation
//! table. The hypervisor copies on the sender's core while that waits. The bridge forwards what it
//! gets; what the outgoing port does not take is brought into a form that it takes, by the CPU: for
//! the logical LAN by its driver (a large send with a fragment list is the case in point), for the
//! physical port by [`server`].
//!
//! Loads are closed-loop TCP ([`crate::closed`]) between the client and hosts on the network, and
//! single large sends from the server to the client, one at a time ([`packets`]), to see what each
//! costs either side.

mod audit;
mod bridge;
mod figures;
mod lan;
mod packets;
mod rig;
mod server;
pub mod settings;

pub use bridge::{BridgePrices, Counters as BridgeCounters};
pub use figures::Figures;
pub use lan::{Lan, PortConfig, PortCounters};
pub use packets::{Form, Load as PacketsLoad};
pub use rig::RIG;
pub use server::Stats as PortStats;

use crate::clock::Interrupt;
use crate::clock::link::{Wired, on_wire};
use crate::clock::napi::{Rules as Softirq, Station};
use crate::closed::{self, Entries};
use crate::fault;
use crate::histogram::Histogram;
use crate::paced;
use crate::papr::{self, Call, Papr};
use crate::result::{Failure, Series, WorkTotals};
use crate::traffic::tcp::{Hosts, Prices, Stack};
use crate::watch::Watch;
use crate::window::Window;
use bridge::{Bridge, Top};
use doorbell_bus::HypervisorDevice;
use doorbell_bus::{Costs, Ledger, Machine, ProtectionGranularity};
use doorbell_devices::veth::{Config as LanConfig, Counters, Uplink, Veth};
use doorbell_drivers::ibmveth::{Config as DriverConfig, Ibmveth, OpenError, Stats};
use doorbell_hal::{Host, Span};
use doorbell_layout::ibmveth as layout;
use lan::{CLIENT, PORT_VECTOR, SERVER};
use server::{Lpars, Server, Side};

const fn call(number: u64, name: &'static str, key: &'static str, serial: &'static str) -> Call {
    Call { number, name, key, serial, each: None }
}

/// The calls of the drivers, in the order of a packet's life.
static CALLS: [Call; 9] = [
    call(layout::H_SEND_LOGICAL_LAN, "hcall_send", "hcall.send", "hcall.send_serial"),
    call(layout::H_ADD_LOGICAL_LAN_BUFFER, "hcall_add_buffer", "hcall.add_buffer", ""),
    call(layout::H_ADD_LOGICAL_LAN_BUFFERS, "hcall_add_buffers", "hcall.add_buffers", ""),
    call(layout::H_VIO_SIGNAL, "hcall_signal", "hcall.signal", ""),
    call(layout::H_REGISTER_LOGICAL_LAN, "hcall_register", "", ""),
    call(layout::H_FREE_LOGICAL_LAN, "hcall_free", "", ""),
    call(layout::H_ILLAN_ATTRIBUTES, "hcall_attributes", "", ""),
    call(layout::H_MULTICAST_CTRL, "hcall_multicast", "", ""),
    call(layout::H_CHANGE_LOGICAL_LAN_MAC, "hcall_change_mac", "", ""),
];

/// Everything that a run is a function of, but its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// What the CPU charges for the drivers' work.
    pub costs: Costs,
    /// And for TCP's.
    pub prices: Prices,
    /// And for the bridge's.
    pub bridge: BridgePrices,
    /// How softirq is scheduled.
    pub softirq: Softirq,
    /// What calls and translation cost.
    pub papr: Papr,
    /// How exactly accesses to memory are checked.
    pub guard: ProtectionGranularity,
    /// The logical LAN; adapter 0 is the client's, adapter 1 the server's.
    pub lan: LanConfig,
    /// The physical port.
    pub port: PortConfig,
    /// Whether the bridge merges what comes from it.
    pub gro: bool,
    /// The drivers of both adapters.
    pub drivers: [DriverConfig; 2],
    /// For how long hosts on the network merge frames.
    pub network_gro: Option<Span>,
    /// Bits a second of the link.
    pub link_rate: u64,
    /// Its delay, one way.
    pub link_delay: Span,
    /// What goes wrong.
    pub faults: fault::Plan,
}

/// What is sent or received.
#[derive(Clone, Debug)]
pub enum Load {
    /// TCP between the client and the network.
    Closed(closed::Load),
    /// Large sends from the server to the client, one at a time.
    Packets(PacketsLoad),
}

/// The asker's to mend: an adapter that does not take its settings.
fn refused(e: OpenError) -> Failure {
    Failure::Input(match e {
        OpenError::Setting(what) => format!("the driver does not take this: {what}"),
        OpenError::OutOfMemory => NO_MEMORY.to_owned(),
        e => format!("the adapter could not be opened: {e:?}"),
    })
}

const NO_MEMORY: &str = "the partition's memory, or its translation table, does not hold it";

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Frames with data on the wire, or transactions; or large sends.
    pub packets: u64,
    /// The time they took.
    pub elapsed: Span,
    /// The same time, and how sure the rate in it is.
    pub window: Window,
    /// Payload bytes.
    pub payload: u64,
    /// Bytes of frames on the wire in both directions, with preamble, FCS and gap.
    pub wire: (u64, u64),
    /// Every crossing in that time, of both partitions.
    pub ledger: Ledger,
    /// The drivers' work in that time.
    pub work: WorkTotals,
    /// Waiting for fences and mappings in that time.
    pub stalled: Span,
    /// Time that the client's cores and the server's were busy.
    pub busy: [Span; 2],
    /// Counters in that time: of both drivers and what is beside the server's
    /// ([`driver_counters`]), and of both adapters, the port and the hypervisor
    /// ([`device_counters`]).
    pub counters: [Entries; 2],
    /// Interrupts of the client's adapter, the server's and the port.
    pub interrupts: [u64; 3],
    /// Polls made.
    pub polls: u64,
    /// Both drivers' counters of the whole run.
    pub drivers: [Stats; 2],
    /// The adapters' of the whole run.
    pub adapters: [Counters; 2],
    /// The server's other counters of the whole run.
    pub port_driver: PortStats,
    /// The same, of the port.
    pub port: PortCounters,
    /// The same, of the bridge.
    pub bridge: BridgeCounters,
    /// From request to response; empty for other traffic.
    pub latency: Histogram,
    /// What changed over the run.
    pub series: Vec<Series>,
    /// What went wrong, if it was asked to.
    pub faults: Option<fault::Report>,
    /// What does not add up; empty when all does.
    pub audit: Vec<String>,
}

impl Outcome {
    /// A counter of the measured time: 0 the drivers', 1 the devices'.
    pub fn counted(&self, of: usize, name: &str) -> u64 {
        self.counters[of].iter().find(|c| c.0 == name).map_or(0, |c| c.1)
    }
}

/// Runs `load` on `setup` to its end.
///
/// # Errors
/// When it cannot be set up or gets stuck. A run whose audit fails is not an
/// error here: the outcome says so.
pub fn run(setup: &Setup, load: &Load, watch: &mut dyn Watch) -> Result<Outcome, Failure> {
    let mut o = match load {
        Load::Closed(load) => tcp(setup, load, watch),
        Load::Packets(load) => packets::run(setup, load, watch),
    }?;
    let capacity =
        (u128::from(setup.link_rate) * o.elapsed.ps() as u128 / 8_000_000_000_000) as u64;
    // What is under way at either end of the measured time counts for the side it began on: the
    // device runs as far as a core's step, and one may send a handful of large packets.
    for bytes in [o.wire.0, o.wire.1].into_iter().filter(|b| *b > capacity + 262_144) {
        o.audit.push(format!("link: {bytes} bytes in a time that carries {capacity}"));
    }
    Ok(o)
}

/// The client's second core, if it has one.
const SECOND: usize = 2;

/// A machine with both adapters open, all cores at the same time. With `own_core` the client has a
/// second one.
fn machine(
    setup: &Setup,
    hosts: Hosts,
    memory: [usize; 2],
    own_core: bool,
) -> Result<(Lpars, Ibmveth, Server), Failure> {
    let lan = Lan::new(Veth::new(setup.lan.clone()), setup.port);
    let of_core = if own_core { vec![CLIENT, SERVER, CLIENT] } else { vec![CLIENT, SERVER] };
    let cores = of_core.len();
    let partitions = setup.papr.partitions(&memory, of_core, setup.guard);
    let link = (setup.link_rate, setup.link_delay);
    let (partitions, device) = Wired::new(partitions, lan, hosts, link);
    let mut m: Lpars = Machine::new(partitions, device, setup.costs, cores);
    let mut opened = m.now();
    let mut open = |m: &mut Lpars, i: usize| {
        m.enter(i);
        m.idle_until(opened);
        let driver = Ibmveth::open(m, &setup.drivers[i]).map_err(refused);
        opened = m.now();
        driver
    };
    // The trunk first: it is there when its clients come.
    let server = open(&mut m, SERVER)?;
    let client = open(&mut m, CLIENT)?;
    for core in (0..cores).rev() {
        m.enter(core);
        m.idle_until(opened);
    }
    Ok((m, client, Server::new(server)))
}

fn tcp(setup: &Setup, load: &closed::Load, watch: &mut dyn Watch) -> Result<Outcome, Failure> {
    let (connections, mut hosts) = load.connect(setup.drivers[CLIENT].mac);
    hosts.gro = setup.network_gro;
    let (mut m, client, server) = machine(setup, hosts, memory(setup, Some(load)), load.own_core)?;
    let stack = Stack::new(connections, load.offloads, setup.prices, load.gro, setup.softirq.slice);
    let bridge = Bridge::new(setup.bridge, setup.gro);
    let applications = if load.own_core { SECOND } else { CLIENT };
    let line = |i: usize| Interrupt::Message(setup.drivers[i].vector);
    let stations = vec![
        Station::new(
            Side::Client(client),
            Top::Stack(Box::new(stack)),
            line(CLIENT),
            CLIENT,
            applications,
        ),
        Station::new(
            Side::Server(server),
            Top::Bridge(Box::new(bridge)),
            vec![line(SERVER), Interrupt::Message(PORT_VECTOR)],
            SERVER,
            SERVER,
        ),
    ];
    let look = |s: &[Station<Side, Top>], m: &Lpars| [driver_counters(s), device_counters(m)];
    // The LAN has no link to lose: the port behind it has.
    setup.faults.begin_wired(&mut m, |_, _, _| {});
    let (seen, stations) =
        closed::run_among(&mut m, stations, 1 + load.cores(), &setup.softirq, load, look, watch)?;
    let faults = setup.faults.end_wired(&mut m, seen.alarms);
    let busy = |i: usize| seen.busy.get(i).map_or(Span::ZERO, |b| b.total());
    let mut o = Outcome {
        packets: seen.packets,
        elapsed: seen.elapsed,
        window: seen.window,
        payload: seen.payload,
        wire: (on_wire(seen.out), on_wire(seen.back)),
        ledger: seen.ledger,
        work: seen.work,
        stalled: seen.stalled,
        busy: [busy(CLIENT) + busy(SECOND), busy(SERVER)],
        counters: seen.counters,
        interrupts: std::array::from_fn(|i| seen.interrupts.get(i).copied().unwrap_or(0)),
        polls: seen.polls,
        drivers: [Stats::default(); 2],
        adapters: [CLIENT, SERVER].map(|i| *m.device.device.veth.0.counters(i)),
        port_driver: PortStats::default(),
        port: m.device.device.port.counters,
        bridge: BridgeCounters::default(),
        latency: seen.latency,
        series: seen.series,
        faults,
        audit: seen.wrong,
    };
    for s in stations {
        close(&mut m, s.driver, &mut o);
        match s.endpoint {
            Top::Stack(s) => s.release(&mut m),
            Top::Bridge(b) => {
                o.bridge = b.counters;
                b.release(&mut m);
            }
        }
    }
    m.flush_posted();
    o.audit.extend(audit::audit(setup, &o, &m));
    o.audit.extend(papr::audit(&m.bus, o.faults.as_ref()));
    Ok(o)
}

/// Runs frames at a pace between the client alone and a network right behind the switch.
///
/// # Errors
/// As [`run`].
pub fn at_a_pace(
    setup: &Setup,
    load: &paced::Load,
    watch: &mut dyn Watch,
) -> Result<paced::Seen, Failure> {
    type Client = papr::Hosted<HypervisorDevice<Veth>, paced::Peer>;
    let d = &setup.drivers[CLIENT];
    let adapters = setup.lan.adapters[..=CLIENT].to_vec();
    let lan =
        LanConfig { adapters, uplink: Some(Uplink { port: CLIENT, pvid: 1 }), ..setup.lan.clone() };
    let device = HypervisorDevice(Veth::new(lan));
    let partitions = setup.papr.partitions(
        &[memory(setup, None)[CLIENT] + load.memory()],
        vec![CLIENT],
        setup.guard,
    );
    let link = (setup.link_rate, setup.link_delay);
    let (partitions, device) = Wired::new(partitions, device, paced::Peer::new(load, d.mac), link);
    let mut m: Client = Machine::new(partitions, device, setup.costs, 1);
    let driven = paced::Driven {
        driver: Ibmveth::open(&mut m, d).map_err(refused)?,
        mac: d.mac,
        lines: vec![Interrupt::Message(d.vector)],
        look: |nic: &Ibmveth, m: &Client| {
            let adapter = m.device.device.0.counters(CLIENT).entries();
            [nic.stats().entries().collect(), adapter.chain(papr::made(&m.bus, &CALLS)).collect()]
        },
        reclaim: |nic: &mut Ibmveth, m: &mut Client, above: &mut paced::Above| {
            nic.reclaim(m, above);
        },
    };
    let (mut seen, nic) = paced::run(&mut m, driven, load, &setup.softirq, watch)?;
    nic.close(&mut m);
    m.flush_posted();
    seen.wrong.extend(papr::audit(&m.bus, None));
    Ok(seen)
}

/// Closes a partition's driver, in its own partition, and keeps what it counted.
fn close(m: &mut Lpars, driver: Side, o: &mut Outcome) {
    match driver {
        Side::Client(d) => {
            m.enter(CLIENT);
            o.drivers[CLIENT] = d.close(m);
        }
        Side::Server(s) => {
            m.enter(SERVER);
            (o.drivers[SERVER], o.port_driver) = s.close(m);
        }
    }
}

/// The drivers' counters: the client's, the server's, its port's and its bridge's.
fn driver_counters(stations: &[Station<Side, Top>]) -> Entries {
    let mut all = Entries::new();
    for s in stations {
        all.extend(s.driver.veth().stats().entries());
        if let Side::Server(s) = &s.driver {
            all.extend(s.stats.entries());
        }
        if let Top::Bridge(b) = &s.endpoint {
            all.extend(b.counters.entries());
        }
    }
    all
}

/// The devices': both adapters', the port's, and the calls made by kind.
fn device_counters(m: &Lpars) -> Entries {
    let lan = &m.device.device;
    let mut all: Entries =
        [CLIENT, SERVER].into_iter().flat_map(|i| lan.veth.0.counters(i).entries()).collect();
    all.extend(lan.port.counters.entries());
    all.extend(papr::made(&m.bus, &CALLS));
    all
}

impl PortStats {
    fn entries(&self) -> [(&'static str, u64); 7] {
        let s = self;
        [
            ("port_tx_packets", s.tx_packets),
            ("port_tx_segmented", s.tx_segmented),
            ("port_tx_segments", s.tx_segments),
            ("port_tx_csum_software", s.tx_csum_software),
            ("port_tx_dropped", s.tx_dropped),
            ("port_rx_packets", s.rx_packets),
            ("port_rx_no_memory", s.rx_no_memory),
        ]
    }
}

impl BridgeCounters {
    fn entries(&self) -> [(&'static str, u64); 6] {
        let c = self;
        [
            ("bridge_to_port", c.to_port),
            ("bridge_to_port_segments", c.to_port_segments),
            ("bridge_to_lan", c.to_lan),
            ("bridge_to_lan_segments", c.to_lan_segments),
            ("bridge_merged", c.merged),
            ("bridge_dropped", c.dropped),
        ]
    }
}

impl PortCounters {
    fn entries(&self) -> [(&'static str, u64); 7] {
        let c = self;
        [
            ("port_tx_frames", c.tx_frames),
            ("port_tx_large", c.tx_large),
            ("port_tx_checksums", c.tx_checksums),
            ("port_tx_too_long", c.tx_too_long),
            ("port_rx_frames", c.rx_frames),
            ("port_rx_missed", c.rx_missed),
            ("port_interrupts", c.interrupts),
        ]
    }
}

/// Memory of both partitions: receive buffers, queues, and what can be under way.
fn memory(setup: &Setup, load: Option<&closed::Load>) -> [usize; 2] {
    let rings = |d: &DriverConfig| {
        let pools: usize =
            d.pools.iter().map(|p| (p.size.next_power_of_two() * p.count) as usize).sum();
        2 * pools + (8 << 20)
    };
    let (client, server) = load.map_or((8 << 20, 8 << 20), |l| {
        let window = l.socket.receive_buffer.max(l.socket.send_buffer) as usize;
        let connections = usize::from(l.connections + l.beside);
        // Frames of a window, each in a buffer of its own, once more as segments; in the client
        // also as they wait to be read.
        (
            4 * l.memory() + connections * 4 * window,
            connections * 8 * window.max(64 << 10) + (4096 << 11),
        )
    });
    let up = |n: usize| n.next_multiple_of(1 << 20);
    [up(rings(&setup.drivers[CLIENT]) + client), up(rings(&setup.drivers[SERVER]) + server)]
}

#[cfg(test)]
mod tests;
