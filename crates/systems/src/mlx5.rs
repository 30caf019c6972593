//! The mlx5 system: ConnectX on PCI Express, driver and device, and a run of it.

mod audit;
mod figures;
pub mod settings;

pub use crate::open_loop::Load;
pub use figures::{MPWQE_INSTRUCTIONS, SEND_INSTRUCTIONS};

use crate::arrivals::Places;
use crate::closed_loop::Load as TcpLoad;
use crate::host::{self, HostConfig, link_bytes};
use crate::key::Values;
use crate::knobs::{self, Condition, Knob};
use crate::limits::Wider::{Less, More};
use crate::limits::{self, Resource};
use crate::metrics::{self, CPU_BUSY, DEVICE, DRIVER, Metric, Numbers, PACKETS};
use crate::result::{CountsOf, Measured, Rate, SENT};
use crate::run::{self, platform};
use crate::system::{self, PlacementKeys, RUN, StackKeys, System};
use crate::{Counted, Counts, OpenQueue, Result, arrivals, closed_loop, open_loop};
use doorbell_bus::ledger::BusKind;
use doorbell_bus::pcie::{Rules, Settings};
use doorbell_bus::{Bus, Latencies, Machine, Pcie, Platform};
use doorbell_devices::mlx5::{Config as Nic, Counters, Mlx5, Received};
use doorbell_drivers::mlx5::{Channel, Config as DriverConfig, Hca, RqConfig, Stats};
use doorbell_hal::{Span, Unit};
use doorbell_sim::link::{Peer, SharedWire, Tell, Wired};
use doorbell_sim::napi::NapiContext;
use doorbell_sim::scheduler::{Core, Interrupt};
use doorbell_sim::traffic::{Frames, arrivals::Meter};
use doorbell_sim::{Watch, fault::FaultSchedule};
use settings::{CPU, KIND, NicKeys, PCIE, QueueKeys, ReceiveKeys, RunKeys};
use std::cell::RefCell;
use std::iter;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// ConnectX on PCI Express.
pub static SYSTEM: System = System {
    name: "mlx5",
    about: "ConnectX-5 and later on PCI Express: Enhanced TX MPWQE on and off",
    devices: &["mlx5"],
    platform_keys: &[&CPU, &host::TCP, &PCIE, &host::MEMORY, &host::IOMMU, NicKeys::KEYS],
    run_keys: &[
        &KIND,
        closed_loop::Keys::KEYS,
        &closed_loop::APPLICATION,
        arrivals::Keys::KEYS,
        open_loop::Keys::KEYS,
        PlacementKeys::KEYS,
        QueueKeys::KEYS,
        ReceiveKeys::KEYS,
        StackKeys::KEYS,
        RunKeys::KEYS,
        RUN,
    ],
    runner: run_values,
    transfer: system::pcie_transfer,
    port_rate: "nic.port_rate",
    knobs: &[
        Knob {
            key: "driver.mpwqe",
            values: &["on", "off"],
            command: "ethtool --set-priv-flags $NIC skb_tx_mpwqe {}",
        },
        Knob {
            key: "driver.queue",
            values: &["128", "256", "512", "1024", "2048", "4096", "8192"],
            command: "ethtool -G $NIC tx {}",
        },
        Knob {
            key: "driver.moderation_period",
            values: &["0", "8", "16", "32", "64", "128"],
            command: "ethtool -C $NIC adaptive-tx off tx-usecs {}",
        },
        Knob {
            key: "driver.moderation_count",
            values: &["8", "32", "64", "128", "256"],
            command: "ethtool -C $NIC adaptive-tx off tx-frames {}",
        },
        Knob {
            key: "driver.rx_ring",
            values: &["128", "256", "512", "1024", "2048", "4096", "8192"],
            command: "ethtool -G $NIC rx {}",
        },
        Knob {
            key: "driver.adaptive_rx",
            values: &["on", "off"],
            command: "ethtool -C $NIC adaptive-rx {}",
        },
        Knob {
            key: "driver.rx_moderation_period",
            values: &["0", "8", "16", "32", "64", "128"],
            command: "ethtool -C $NIC adaptive-rx off rx-usecs {}",
        },
        Knob {
            key: "driver.rx_moderation_count",
            values: &["8", "32", "64", "128", "256"],
            command: "ethtool -C $NIC adaptive-rx off rx-frames {}",
        },
        Knob {
            key: "driver.striding",
            values: &["on", "off"],
            command: "ethtool --set-priv-flags $NIC rx_striding_rq {}",
        },
        Knob {
            key: "driver.rx_cqe_compress",
            values: &["on", "off"],
            command: "ethtool --set-priv-flags $NIC rx_cqe_compress {}",
        },
        Knob {
            key: "driver.rx_recycling",
            values: &["cache", "pool"],
            command: "a kernel whose driver has the {}: a pool since Linux 6.4, a cache before",
        },
        knobs::MPS,
        knobs::MRRS,
        Knob {
            key: "run.cores",
            values: &["1", "2", "4", "8", "16", "32", "64"],
            command: "ethtool -L $NIC combined {}",
        },
    ],
    conditions: &[
        Condition { key: "traffic.burst", values: &["1", "2", "4", "8", "16", "32", "64"] },
        Condition { key: "traffic.size", values: &["64", "128", "256", "512", "1024", "1514"] },
    ],
    resources: &[
        Resource {
            name: "cores",
            shares: &["cpu_busy_share"],
            keys: &[("cpu.frequency", More), ("cpu.mmio_write_spacing", Less)],
        },
        limits::LINK,
        Resource {
            name: "port",
            shares: &["port_share", "port_out_share", "port_in_share"],
            keys: &[("nic.port_rate", More)],
        },
        Resource {
            name: "pipeline",
            shares: &["pipeline_share"],
            keys: &[("nic.packet_time", Less)],
        },
        Resource { name: "reads in flight", shares: &[], keys: &[("pcie.tags", More)] },
        Resource { name: "WQEs fetched ahead", shares: &[], keys: &[("nic.fetch_ahead", More)] },
        Resource {
            name: "queues",
            shares: &[],
            keys: &[("driver.queue", More), ("driver.cq", More), ("driver.rx_ring", More)],
        },
        Resource {
            name: "latency",
            shares: &[],
            keys: &[
                ("pcie.link_latency", Less),
                ("pcie.memory_latency", Less),
                ("nic.pipeline_delay", Less),
            ],
        },
        limits::NETWORK,
        Resource {
            name: "load",
            shares: &[],
            keys: &[
                ("traffic.rate", More),
                ("traffic.load", More),
                ("traffic.source_rate", More),
                ("traffic.connections", More),
            ],
        },
    ],
    numbers: Numbers {
        buses: &[BusKind::Pcie],
        rates: &[
            &[FRAMES, metrics::WIRE],
            &metrics::BOTH_WAYS,
            &[metrics::LOST_SHARE, metrics::LOST_FIFO, metrics::LOST_RING],
            &metrics::LINK,
        ],
        counters: &[
            (DRIVER, Stats::DECLARED),
            (DEVICE, Counters::DECLARED),
            (DEVICE, Received::DECLARED),
        ],
        calls: &[],
        cache: true,
        losses: &[metrics::NO_WQE, metrics::FIFO_FULL],
    },
    declared: OnceLock::new(),
    figures: &[&figures::FIGURES, &figures::HARDWARE],
};

/// The frames sent.
const FRAMES: Metric = Metric::rate("frame_bits_per_s", Unit::BitsPerSecond, "frames, without FCS");

/// The machine of this system.
pub type Board = Machine<Pcie, Mlx5>;

/// The inputs of a run, except its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The host.
    pub host: HostConfig,
    /// Cores, each with a channel of its own.
    pub cores: u16,
    /// The link.
    pub pcie: Settings,
    /// Latencies around it.
    pub latencies: Latencies,
    /// Bus address of the registers.
    pub bar: u64,
    /// Bus address of host memory: a multiple of 64 MiB.
    pub memory_base: u64,
    /// The device.
    pub nic: Nic,
    /// Each channel; the vector is the core's number.
    pub driver: DriverConfig,
}

/// Totals of the whole run.
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    /// Counters of all channels together.
    pub driver: Stats,
    /// The device's counters.
    pub device: Counters,
}

/// Statistics of a run.
pub type RunStats = run::RunStats<Totals>;

/// Runs `load` on `setup` to its end.
///
/// # Errors
/// The run cannot be set up, or is stuck. A failed audit is no error; it is in the statistics.
pub fn run(setup: &Setup, load: &Load, watch: &mut dyn Watch) -> Result<RunStats> {
    let rules = Rules::new(setup.pcie)?;
    let (cores, costs) = (usize::from(setup.cores.max(1)), setup.host.costs);
    let memory = memory_size(setup, load);
    let _room = setup.host.room(memory);
    let platform = memory_of_host(setup, memory)?;
    let link = |platform| Pcie::new(platform, rules, setup.latencies, setup.bar);
    let mut m = Machine::new(link(platform), Mlx5::new(setup.nic), costs, cores);
    let hca = Rc::new(RefCell::new(Hca::open(&mut m)?));
    let functions = m.bus.platform().areas();
    let mut running = Vec::with_capacity(cores);
    for i in 0..cores {
        m.enter(i);
        let Some(source) = load.source(&mut m, setup.cores, i, in_flight(setup) as u32)? else {
            continue;
        };
        let config = DriverConfig { vector: i as u16, ..setup.driver };
        let channel = Channel::create(&mut m, Rc::clone(&hca), &config)?;
        running.push(Core::new(channel, source, Interrupt::Message(i as u16), in_flight(setup)));
    }
    // The clock starts at zero here: firmware commands are not part of the run.
    m.flush_posted();
    let Machine { bus, device, .. } = m;
    let mut m = Machine::new(link(bus.into_platform()), device, costs, cores);
    if watch.wants_frames() {
        m.bus.sink_mut().start();
    }
    let zero = Counts::of(&m);
    for (i, core) in running.iter_mut().enumerate() {
        m.enter(i);
        core.driver.start(&mut m);
    }
    let before = Counts { ledger: *m.ledger(), packets: m.ledger().wire_frames, ..zero };
    let trouble = FaultSchedule::begin(&setup.host.faults, &mut m, functions, |d, b, at, up| {
        d.set_carrier(b, at, up);
    });
    let end = |m: &Board, _| m.bus.booked_until().max(m.device.wire_free());
    let mut o = open_loop::run(&mut m, &mut running, load, trouble, &before, end, watch)?;
    let mut driver = Stats::default();
    open_loop::close(&mut m, running, &mut o, |m, channel| {
        driver.add(&channel.close(m));
    });
    if let Some(hca) = Rc::into_inner(hca) {
        hca.into_inner().close(&mut m);
    }
    let device = m.device.counters;
    o.counts.counters = counted(&driver, &m.device, m.bus.platform());
    o.use_of_bus("bytes", 4096, |time| m.bus.capacity(time).max(1), link_bytes);
    let mut o = o.with(Totals { driver, device });
    o.verdict.take(audit::audit(&o, &m));
    Ok(o)
}

/// Returns so much memory behind the caches of the host.
fn memory_of_host(setup: &Setup, bytes: usize) -> Result<Platform> {
    let HostConfig { guard, cache, iotlb, .. } = setup.host;
    Ok(platform(setup.memory_base, bytes, guard)?.with_cache(cache)?.with_iotlb(iotlb))
}

/// A machine of this system on a link to `Pr`.
type Linked<Pr> = Machine<Pcie<SharedWire>, Wired<Mlx5, Pr>>;
type SharedHca = Rc<RefCell<Hca>>;
type OnLink = Channel<SharedHca>;

/// Builds a machine with so much memory on a link to `peer`, with a delay, and opens a channel on
/// each of `cores`: the core of its interrupts, and that of its applications.
fn linked<Pr: Peer>(
    setup: &Setup,
    memory: usize,
    (peer, delay): (Pr, Span),
    cores: &[[usize; 2]],
) -> Result<(Linked<Pr>, SharedHca, Vec<OpenQueue<OnLink>>)> {
    let rules = Rules::new(setup.pcie)?;
    let platform = memory_of_host(setup, memory)?;
    let bus = Pcie::new(platform, rules, setup.latencies, setup.bar);
    let (bus, device) = Wired::new(bus, Mlx5::new(setup.nic), peer, (wire_rate(setup), delay));
    let last = cores.as_flattened().iter().max().map_or(0, |last| *last);
    let mut m = Machine::new(bus, device, setup.host.costs, last + 1);
    let hca = Rc::new(RefCell::new(Hca::open(&mut m)?));
    let mut channels = Vec::with_capacity(cores.len());
    for (i, &cores) in cores.iter().enumerate() {
        m.enter(cores[0]);
        let (vector, second) = (i as u16, setup.driver.second.map(|first| first + i as u16));
        let config = DriverConfig { vector, second, ..setup.driver };
        let driver = Channel::open(&mut m, Rc::clone(&hca), &config)?;
        let lines = iter::once(vector).chain(second).map(Interrupt::Message).collect();
        channels.push(OpenQueue { driver, lines, cores });
    }
    Ok((m, hca, channels))
}

/// Returns the rate of the port in bits a second.
fn wire_rate(setup: &Setup) -> u64 {
    8_000_000_000_000_u64 * 1024 / u64::from(setup.nic.wire_byte_1024th_ps.max(1))
}

/// Tells the device nothing: frames are lost on the wire. No event tells of it, and no driver here
/// takes one.
const UNTOLD: Tell<Mlx5> = |_, _, _| {};

fn look<Pr, E>(m: &Linked<Pr>, s: &[NapiContext<OnLink, E>]) -> Counted {
    let mut driver = Stats::default();
    s.iter().for_each(|s| driver.add(&s.driver.stats()));
    counted(&driver, &m.device.device, m.bus.platform())
}

/// Closes the channels, of which each has a core of its own, adds the totals to `o`, and audits it.
fn finish<Pr: Peer>(
    (o, channels): (run::RunStats, Vec<OnLink>),
    mut m: Linked<Pr>,
    hca: SharedHca,
    setup: &Setup,
) -> RunStats {
    let mut driver = Stats::default();
    for (i, channel) in channels.into_iter().enumerate() {
        m.enter(i);
        driver.add(&channel.close(&mut m));
    }
    if let Some(hca) = Rc::into_inner(hca) {
        hca.into_inner().close(&mut m);
    }
    m.flush_posted();
    let mut o = o.with(Totals { driver, device: m.device.device.counters });
    // Behind writes that are booked ahead their acknowledgements still wait for their time.
    let slack = 4096 + 64 * u64::from(setup.nic.writes_outstanding);
    o.use_of_bus("bytes", slack, |time| m.bus.capacity(time).max(1), link_bytes);
    let ring = setup.driver.rq.map_or(0, |rq| 1 << rq.log_size);
    let verdict = audit::linked(&o, &m, ring);
    o.verdict.take(verdict);
    o
}

/// Runs frames that arrive in a pattern, one channel a core.
///
/// # Errors
/// The run cannot be set up, or is stuck. A failed audit is no error; it is in the statistics.
pub fn receive(setup: &Setup, load: &arrivals::Load, watch: &mut dyn Watch) -> Result<RunStats> {
    let memory = memory_of_arrivals(setup);
    let _room = setup.host.room(memory);
    let cores: Vec<_> = (0..usize::from(setup.cores.max(1))).map(|i| [i, i]).collect();
    let source = load.source(setup.nic.mac);
    let (mut m, hca, channels) = linked(setup, memory, (source, Span::ZERO), &cores)?;
    let meter = || Meter::that_drops(wire_rate(setup), Span::ZERO).with_program(load.program);
    let of = (load, &setup.host);
    let ended = arrivals::run(&mut m, channels, meter, of, (UNTOLD, look), |_| vec![], watch)?;
    Ok(finish(ended, m, hca, setup))
}

/// Runs TCP over one channel.
///
/// # Errors
/// The run cannot be set up, or is stuck. A failed audit is no error; it is in the statistics.
pub fn tcp(setup: &Setup, load: &TcpLoad, watch: &mut dyn Watch) -> Result<RunStats> {
    let memory = memory_of_tcp(setup, load);
    let _room = setup.host.room(memory);
    let (connections, hosts) = load.connect(setup.nic.mac);
    let peer = (hosts, setup.host.link_delay);
    let (mut m, hca, mut channels) = linked(setup, memory, peer, &[[0, load.cores() - 1]])?;
    let (of, channel) = ((load, connections), channels.remove(0));
    let (o, channel) = closed_loop::over(&mut m, channel, of, &setup.host, (UNTOLD, look), watch)?;
    Ok(finish((o, vec![channel]), m, hca, setup))
}

/// Returns the counters of both and of the host's caches, under the names of results.
fn counted(driver: &Stats, device: &Mlx5, p: &Platform) -> Counted {
    let received = device.received().entries();
    let cached = p.cache().map(|c| c.counts.entries()).into_iter().flatten();
    let cached = cached.chain(p.iotlb().map(|t| t.counts.entries()).into_iter().flatten());
    let device = device.counters.entries().chain(received);
    [driver.entries().collect(), device.collect(), cached.collect()]
}

/// Returns the host memory for all rings, and for the buffers of frames that arrive.
fn memory_of_arrivals(setup: &Setup) -> usize {
    (usize::from(setup.cores.max(1)) * receiving(setup) + (4 << 20)).next_multiple_of(1 << 20)
}

/// Returns the host memory for the rings of one core, and for what TCP can have under way.
fn memory_of_tcp(setup: &Setup, load: &TcpLoad) -> usize {
    // A received segment waits in a receive buffer until it is read.
    let windows = setup.driver.rq.map_or(0, |rq| load.received(rq.align as usize));
    let sent = 2 * load.memory() + load.fragments();
    (receiving(setup) + sent + windows + (4 << 20)).next_multiple_of(1 << 20)
}

/// Returns the host memory for one core's rings, and for the buffers of its receive queue.
fn receiving(setup: &Setup) -> usize {
    let frames = setup.driver.rq.map_or(0, |rq| {
        // Those posted, those of a poll, and what a program sends, with the pages kept.
        let sent = if rq.xdp { (1 << setup.driver.log_sq) + 256 } else { 0 };
        ((1 << rq.log_size) + 2 * 64 + sent) * (rq.align as usize + 64 + 16)
    });
    let shared = setup.driver.rq.filter(|rq| rq.log_stride.is_some()).map_or(0, shared);
    let second = setup.driver.second.map_or(0, |_| rings(setup));
    frames + shared + rings(setup) + second + setup.driver.rq.map_or(0, |rq| 80 << rq.log_size)
}

/// Returns the host memory for the pages of a striding queue beyond those of its frames, for its
/// UMRs and for its completions.
fn shared(rq: RqConfig) -> usize {
    let wqes = (1usize << rq.log_size).max(1 << 9);
    wqes * (4096 + 64 + 16) + (wqes >> 5) * 2048 + (64 << rq.log_size) + (1 << 20)
}

/// Returns the host memory for one core's rings, the receive queue's left out.
fn rings(setup: &Setup) -> usize {
    let others: usize = setup.driver.cqs.others().iter().map(|log| (64 << log) + 4096).sum();
    (64 << setup.driver.log_sq) + (64 << setup.driver.log_cq) + others + (64 << 10)
}

/// Returns the most packets of one channel between driver and device: one for each data segment of
/// its ring.
fn in_flight(setup: &Setup) -> usize {
    4usize << setup.driver.log_sq
}

/// Returns the host memory for all rings and all packets that can be under way.
fn memory_size(setup: &Setup, load: &Load) -> usize {
    let block = |bytes: u32| (bytes.max(64) as usize).next_power_of_two();
    let (cores, ring) = (usize::from(setup.cores.max(1)), in_flight(setup));
    // Replayed frames differ in size, so freed blocks do not always fit.
    let packets = match load.longest() {
        (size, None) => cores * (ring + load.burst() as usize) * block(size),
        (longest, Some(frames)) => cores * ring.min(2 * frames + 64) * 2 * block(longest),
    };
    (packets + cores * rings(setup) + (4 << 20)).next_multiple_of(1 << 20)
}

fn run_values(v: &Values, frames: Option<&Arc<Frames>>, watch: &mut dyn Watch) -> Result<Measured> {
    let (setup, ghz) = (settings::setup(v)?, v.number("cpu.frequency"));
    if v.word("traffic.kind") == arrivals::KIND {
        let load = settings::arriving(v, &setup, frames)?;
        let o = receive(&setup, &load, watch)?;
        return Ok(arrivals::measured(o, (FRAMES, &PLACES), link_shares, ghz));
    }
    if closed_loop::KINDS.contains(&v.word("traffic.kind")) {
        let load = settings::connected(v, &setup)?;
        let o = tcp(&setup, &load, watch)?;
        let rates = |s: &Counts, packets: f64| {
            let what = (closed_loop::CARRIED, closed_loop::whose(s));
            let carried = closed_loop::rates(s, packets, what, PLACES.shares(s));
            [carried, link_shares(s)].concat()
        };
        return Ok(o.measured(rates, CountsOf::Window, closed_loop::ANSWERED, ghz));
    }
    let load = settings::load(v, &setup, frames)?;
    let o = run(&setup, &load, watch)?;
    let rates = |s: &Counts, packets: f64| {
        let whose = match setup.cores {
            0..=1 => "of the one core that sends".to_owned(),
            n => format!("of the {n} cores that send"),
        };
        let frames = s.by_time(8.0 * s.ledger.wire_bytes as f64);
        let wire = s.by_time(8.0 * s.wire.0 as f64);
        let carried = [PACKETS.is(packets).about("packets sent"), FRAMES.is(frames)];
        let mut rates = Vec::from(carried);
        rates.push(metrics::WIRE.is(wire));
        rates.extend(link_shares(s));
        rates.push(CPU_BUSY.is(s.all_busy_share()).about(whose));
        rates
    };
    let measured = o.measured(rates, CountsOf::Run, SENT, ghz);
    Ok(Measured { sent: load.sent(), ..measured })
}

/// Returns the use of the link.
fn link_shares(s: &Counts) -> Vec<Rate> {
    metrics::LINK.iter().zip(&s.bus_share).map(|(of, share)| of.is(*share)).collect()
}

/// The places at which the device loses frames.
const PLACES: Places = Places {
    came: &["rx_arrived"],
    lost: &[(metrics::LOST_FIFO, "rx_fifo_full"), (metrics::LOST_RING, "rx_out_of_buffer")],
};

#[cfg(test)]
mod tests;
