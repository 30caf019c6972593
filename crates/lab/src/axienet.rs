//! The axienet system: AXI Ethernet with AXI DMA on an AXI bus, driver and device, and
//! a run of it.
//!
//! What matters here is reception and its interrupts. The loads are TCP ([`crate::closed`]),
//! frames that come by a pattern ([`crate::traffic::arrivals`]), and frames sent
//! ([`crate::open`]). The queue's interrupts and softirq have a core, applications
//! another; the other cores of the platform only count when a share of all is asked for.

mod audit;
mod controllers;
mod figures;
mod rig;
pub mod settings;

pub use controllers::Any;
pub use figures::Figures;
pub use rig::RIG;

use crate::clock::link::{SharedWire, Wired, on_wire};
use crate::clock::napi::{Busy, Cpu, Rules as Softirq, Station, run_until};
use crate::clock::{Core, Interrupt};
use crate::closed::{self, Above, Entries};
use crate::fault::{self, Alarms, Trouble};
use crate::histogram::Histogram;
use crate::result::{Failure, Series, WorkTotals, work_of};
use crate::traffic::arrivals::{Arrivals as Peer, Meter, Phase};
use crate::traffic::tcp::Prices;
use crate::watch::Watch;
use crate::window::{Marks, Steady, Window};
use crate::{open, paced};
use doorbell_bus::axi::{Latencies, Rules, Settings};
use doorbell_bus::{Axi, Bus, Costs, Ledger, Machine, Platform, ProtectionGranularity};
use doorbell_devices::axi_ethernet::{AxiEthernet as Device, Config as Nic, Counters};
use doorbell_drivers::axienet::{Axienet, Config as DriverConfig, OpenError, Stats};
use doorbell_hal::{Host, OutOfMemory, Span, Time, WorkKind};
use doorbell_layout::axienet::line;
use doorbell_moderation::Controller;

/// The driver, with any controller.
pub type Driver = Axienet<Any>;

/// Everything that a run is a function of, but its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// What the CPU charges for the driver's work.
    pub costs: Costs,
    /// And for TCP's, or for what is done with frames.
    pub prices: Prices,
    /// How softirq is scheduled.
    pub softirq: Softirq,
    /// The bus.
    pub axi: Settings,
    /// Latencies around it.
    pub latencies: Latencies,
    /// How exactly device accesses are checked.
    pub guard: ProtectionGranularity,
    /// The device.
    pub nic: Nic,
    /// The driver.
    pub driver: DriverConfig,
    /// What decides on coalescing.
    pub controller: Any,
    /// Bits a second of the link.
    pub link_rate: u64,
    /// Its delay, one way.
    pub link_delay: Span,
    /// Cores of the platform.
    pub cores: usize,
    /// What goes wrong.
    pub faults: fault::Plan,
}

/// Frames that come by phases.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    /// Time before anything is counted.
    pub warmup: Span,
    /// Time in which it is.
    pub duration: Span,
    /// What comes.
    pub phases: Vec<Phase>,
    /// For what is drawn.
    pub seed: u64,
}

/// What is sent or received.
#[derive(Clone, Debug)]
pub enum Load {
    /// TCP.
    Closed(closed::Load),
    /// Frames that come.
    Arrivals(Arrivals),
    /// Frames that are sent.
    Open(open::Load),
}

/// The asker's to mend: a device that does not take its settings.
fn refused(e: OpenError) -> Failure {
    Failure::Input(match e {
        OpenError::Setting(what) => format!("the driver does not take this: {what}"),
        OpenError::OutOfMemory => NO_MEMORY.to_owned(),
        e => format!("the core could not be opened: {e:?}"),
    })
}

const NO_MEMORY: &str = "the machine's memory does not hold it";

/// The asker's to mend: buffers that the memory does not hold.
fn no_memory(_: OutOfMemory) -> Failure {
    Failure::Input(NO_MEMORY.to_owned())
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Frames received or sent, or transactions.
    pub packets: u64,
    /// The time they took.
    pub elapsed: Span,
    /// Payload bytes of TCP, or bytes of frames.
    pub payload: u64,
    /// What rates are made of.
    pub steady: Steady,
    /// Bytes of frames on the wire, from the machine and to it, with preamble, FCS and gap.
    pub wire: (u64, u64),
    /// Every crossing.
    pub ledger: Ledger,
    /// The driver's work.
    pub work: WorkTotals,
    /// Waiting for registers and fences.
    pub stalled: Span,
    /// Time that the interrupt's core and the application's were busy.
    pub busy: [Span; 2],
    /// Interrupts of reception and of transmission.
    pub interrupts: [u64; 2],
    /// Polls made.
    pub polls: u64,
    /// Counters of driver and device in that time.
    pub counters: [Entries; 2],
    /// The driver's of the whole run.
    pub driver: Stats,
    /// The device's of the whole run.
    pub device: Counters,
    /// Received packets an interrupt, as the device was told at the end.
    pub threshold: u32,
    /// Of frames (from their last bit to being handed up) or transactions.
    pub latency: Histogram,
    /// What changed over the run.
    pub series: Vec<Series>,
    /// Share of the bus's read and write data beats.
    pub bus_share: [f64; 2],
    /// What went wrong, if it was asked to.
    pub faults: Option<fault::Report>,
    /// What does not add up; empty when all does.
    pub audit: Vec<String>,
}

/// Where host memory lies: below 2 GiB, as on a Zynq UltraScale+.
const MEMORY_BASE: u64 = 64 << 20;

fn lines() -> Vec<Interrupt> {
    [line::RX, line::TX, line::MAC].map(Interrupt::Line).to_vec()
}

/// Runs `load` on `setup` to its end.
///
/// # Errors
/// When it cannot be set up or gets stuck. A run whose audit fails is not an
/// error here: the outcome says so.
pub fn run(setup: &Setup, load: &Load, watch: &mut dyn Watch) -> Result<Outcome, Failure> {
    let platform = Platform::new(MEMORY_BASE, memory_size(setup, load), setup.guard);
    let rules = Rules::new(setup.axi).map_err(|e| Failure::Input(e.to_string()))?;
    let bus = Axi::new(platform, rules, setup.latencies);
    let mut o = match load {
        Load::Closed(load) => tcp(bus, setup, load, watch),
        Load::Arrivals(load) => arrivals(bus, setup, load, watch),
        Load::Open(load) => packets(bus, setup, load, watch),
    }?;
    let clocks =
        |time: Span| (u128::from(time.ps()) * u128::from(setup.axi.mhz) / 1_000_000).max(1) as u64;
    let beats = |l: &Ledger| [l.axi_read_beats, l.axi_write_beats];
    o.bus_share = beats(&o.steady.ledger).map(|b| b as f64 / clocks(o.steady.elapsed) as f64);
    let (clocks, beats) = (clocks(o.elapsed), beats(&o.ledger));
    // What is under way at either end of the measured time counts for the side it began on.
    for beats in beats.into_iter().filter(|b| *b > clocks + 4096) {
        o.audit.push(format!("bus: {beats} beats in a time of {clocks} clocks"));
    }
    Ok(o)
}

fn tcp(
    bus: Axi,
    setup: &Setup,
    load: &closed::Load,
    watch: &mut dyn Watch,
) -> Result<Outcome, Failure> {
    let (connections, hosts) = load.connect(setup.driver.mac);
    let link = (setup.link_rate, setup.link_delay);
    let (bus, device) = Wired::new(bus, Device::new(setup.nic), hosts, link);
    let mut m = Machine::new(bus, device, setup.costs, 2);
    let driver = Axienet::open(&mut m, &setup.driver, setup.controller.clone()).map_err(refused)?;
    let above = Above { lines: lines(), connections, prices: setup.prices, softirq: setup.softirq };
    let load = closed::Load { own_core: true, ..*load };
    setup.faults.begin_wired(&mut m, |d, at, up| d.set_cable(at, up));
    let (seen, driver) = closed::run(&mut m, driver, above, &load, look, watch)?;
    let faults = setup.faults.end_wired(&mut m, seen.alarms);
    let threshold = driver.coalesce().rx_frames;
    let stats = driver.close(&mut m);
    m.flush_posted();
    let total = |i: usize| seen.busy.get(i).map_or(Span::ZERO, Busy::total);
    let mut o = Outcome {
        steady: seen.steady([total(0), total(1)], [seen.interrupts[0], seen.interrupts[1]]),
        packets: seen.packets,
        elapsed: seen.elapsed,
        payload: seen.payload,
        wire: (on_wire(seen.out), on_wire(seen.back)),
        ledger: seen.ledger,
        work: seen.work,
        stalled: seen.stalled,
        busy: [total(0), total(1)],
        interrupts: [seen.interrupts[0], seen.interrupts[1]],
        polls: seen.polls,
        counters: seen.counters,
        driver: stats,
        device: m.device.device.counters,
        threshold,
        latency: seen.latency,
        series: seen.series,
        bus_share: [0.0; 2],
        faults,
        audit: seen.wrong,
    };
    let (sent, received) = (m.device.out.borrow().frames, m.device.back.frames - m.device.back.cut);
    o.audit.extend(audit::audit(&o, &m, (sent, received)));
    Ok(o)
}

fn look(driver: &Driver, device: &Device) -> [Entries; 2] {
    [driver.stats().entries().collect(), device.counters.entries().collect()]
}

/// Runs frames at a pace.
///
/// # Errors
/// As [`run`].
pub fn at_a_pace(
    setup: &Setup,
    load: &paced::Load,
    watch: &mut dyn Watch,
) -> Result<paced::Seen, Failure> {
    type Board = Machine<Axi<SharedWire>, Wired<Device, paced::Peer>>;
    let memory = rings(setup) + load.memory();
    let platform = Platform::new(MEMORY_BASE, memory.next_multiple_of(1 << 20), setup.guard);
    let rules = Rules::new(setup.axi).map_err(|e| Failure::Input(e.to_string()))?;
    let peer = paced::Peer::new(load, setup.driver.mac);
    let bus = Axi::new(platform, rules, setup.latencies);
    let link = (setup.link_rate, setup.link_delay);
    let (bus, device) = Wired::new(bus, Device::new(setup.nic), peer, link);
    let mut m: Board = Machine::new(bus, device, setup.costs, 1);
    let driven = paced::Driven {
        driver: Axienet::open(&mut m, &setup.driver, setup.controller.clone()).map_err(refused)?,
        mac: setup.driver.mac,
        lines: lines(),
        look: |driver: &Driver, m: &Board| look(driver, &m.device.device),
        reclaim: |_: &mut Driver, _: &mut Board, _: &mut paced::Above| {},
    };
    let (mut seen, driver) = paced::run(&mut m, driven, load, &setup.softirq, watch)?;
    driver.close(&mut m);
    m.flush_posted();
    seen.audit(&m);
    Ok(seen)
}

/// One look at a run.
const SLICE: Span = Span::from_ms(1);

/// Counts at an instant of an arrivals run.
struct Mark {
    at: Time,
    frames: u64,
    bytes: u64,
    wire: [(u64, u64); 2],
    ledger: Ledger,
    work: WorkTotals,
    stalled: Span,
    counters: [Entries; 2],
    taken: Vec<u64>,
    polls: u64,
    busy: [Span; 2],
    latency: Histogram,
}

fn arrivals(
    bus: Axi,
    setup: &Setup,
    load: &Arrivals,
    watch: &mut dyn Watch,
) -> Result<Outcome, Failure> {
    let peer = Peer::new(setup.driver.mac, load.phases.clone(), load.seed);
    let link = (setup.link_rate, setup.link_delay);
    let (bus, device) = Wired::new(bus, Device::new(setup.nic), peer, link);
    let mut m = Machine::new(bus, device, setup.costs, 2);
    let driver: Driver =
        Axienet::open(&mut m, &setup.driver, setup.controller.clone()).map_err(refused)?;
    let meter = Meter::new(setup.prices, setup.link_rate, setup.link_delay);
    let mut cpus = [Cpu::default(), Cpu::default()];
    let mut stations = [Station::new(driver, meter, lines(), 0, 1)];
    let begin = m.now();
    m.device.capture = watch.wants_frames().then(Vec::new);
    crate::trace::begin_wired(&mut m, watch);
    setup.faults.begin_wired(&mut m, |d, at, up| d.set_cable(at, up));
    m.outside(|device, _, at| device.peer.start(at));
    let ends = [begin + load.warmup, begin + load.warmup + load.duration];
    let mut at = begin;
    let mut marks = Vec::with_capacity(2);
    let mut series = Changing::new();
    let mut looks = Marks::new();
    while marks.len() < 2 {
        let goal = ends[marks.len()];
        let until = goal.min(at + SLICE);
        run_until(&mut m, &mut cpus, &mut stations, &setup.softirq, until)?;
        at = until;
        m.device.drain_capture(|at, f| watch.frame(at, f)).map_err(Failure::Run)?;
        series.note(at.since(begin), &mut stations[0]);
        if !watch.progress(at.since(begin).ps(), ends[1].since(begin).ps()) {
            return Err(open::Ended::Stopped.into());
        }
        if at == goal {
            let s = &stations[0];
            marks.push(Mark {
                at,
                frames: s.endpoint.frames,
                bytes: s.endpoint.bytes,
                wire: [m.device.out.borrow().landed, m.device.back.landed],
                ledger: m.ledger().clone(),
                work: work_of(&m),
                stalled: m.stalled(),
                counters: look(&s.driver, &m.device.device),
                taken: s.taken.clone(),
                polls: s.polls,
                busy: [cpus[0].busy.total(), cpus[1].busy.total()],
                latency: s.endpoint.latency.clone(),
            });
            // What came before is not of the measured time.
            stations[0].endpoint.latency = Histogram::default();
        }
        if !marks.is_empty() {
            looks.push((at, stations[0].endpoint.frames));
        }
    }
    // What is still on its way arrives.
    at += Span::from_ms(50);
    run_until(&mut m, &mut cpus, &mut stations, &setup.softirq, at)?;
    m.device.drain_capture(|at, f| watch.frame(at, f)).map_err(Failure::Run)?;
    crate::trace::end_wired(&mut m, watch);
    let faults = setup.faults.end_wired(&mut m, closed::alarms(&stations));
    let [station] = stations;
    let Station { driver, endpoint, .. } = station;
    let threshold = driver.coalesce().rx_frames;
    let stats = driver.close(&mut m);
    m.flush_posted();
    let unknown = endpoint.unknown;
    endpoint.release(&mut m);
    let [a, b] = &marks[..] else { unreachable!("two marks were made") };
    let wire = |i: usize| on_wire((b.wire[i].0 - a.wire[i].0, b.wire[i].1 - a.wire[i].1));
    let less = |a: Span, b: Span| Span::from_ps(b.ps() - a.ps());
    let steady = Steady {
        window: Window::given(begin, &looks, load.warmup > Span::ZERO),
        elapsed: b.at.since(a.at),
        packets: b.frames - a.frames,
        payload: b.bytes - a.bytes,
        wire: (wire(0), wire(1)),
        ledger: b.ledger.since(&a.ledger),
        busy: [less(a.busy[0], b.busy[0]), less(a.busy[1], b.busy[1])],
        interrupts: [b.taken[0] - a.taken[0], b.taken[1] - a.taken[1]],
        polls: b.polls - a.polls,
    };
    let mut o = Outcome {
        packets: steady.packets,
        elapsed: steady.elapsed,
        payload: steady.payload,
        wire: steady.wire,
        ledger: steady.ledger.clone(),
        work: closed::differences(&a.work, &b.work),
        stalled: less(a.stalled, b.stalled),
        busy: steady.busy,
        interrupts: steady.interrupts,
        polls: steady.polls,
        steady,
        counters: closed::counted(&a.counters, &b.counters),
        driver: stats,
        device: m.device.device.counters,
        threshold,
        latency: b.latency.clone(),
        series: series.finish(),
        bus_share: [0.0; 2],
        faults,
        audit: Vec::new(),
    };
    if unknown > 0 {
        o.audit.push(format!("{unknown} frames were handed up that nobody sent"));
    }
    let (sent, received) = (m.device.out.borrow().frames, m.device.back.frames - m.device.back.cut);
    o.audit.extend(audit::audit(&o, &m, (sent, received)));
    Ok(o)
}

/// What changes over a run, slice by slice.
struct Changing {
    before: (f64, u64, u64),
    all: [Series; 5],
}

impl Changing {
    fn new() -> Changing {
        let names = [
            "setting_packets",
            "setting_delay_us",
            "packets_per_s",
            "interrupts_per_s",
            "latency_p99_us",
        ];
        Changing { before: (0.0, 0, 0), all: names.map(|name| Series { name, points: Vec::new() }) }
    }
    fn note(&mut self, at: Span, s: &mut Station<Driver, Meter>) {
        let ms = at.ps() as f64 / 1e9;
        let setting = s.driver.controller().setting();
        let (frames, interrupts) = (s.endpoint.frames, s.taken[0]);
        let seconds = (ms - self.before.0).max(1e-9) * 1e-3;
        let p99 = s.endpoint.lately.quantile(990).map_or(0.0, |t| t.as_ns_f64() * 1e-3);
        s.endpoint.lately = Histogram::default();
        let values = [
            f64::from(s.driver.coalesce().rx_frames),
            f64::from(setting.delay_ns) * 1e-3,
            (frames - self.before.1) as f64 / seconds,
            (interrupts - self.before.2) as f64 / seconds,
            p99,
        ];
        self.before = (ms, frames, interrupts);
        for (series, value) in self.all.iter_mut().zip(values) {
            series.points.push((ms, value));
        }
    }
    fn finish(self) -> Vec<Series> {
        self.all.into()
    }
}

fn packets(
    bus: Axi,
    setup: &Setup,
    load: &open::Load,
    watch: &mut dyn Watch,
) -> Result<Outcome, Failure> {
    let mut m: Machine<Axi, Device> = Machine::new(bus, Device::new(setup.nic), setup.costs, 1);
    if watch.wants_frames() {
        m.bus.sink_mut().start();
    }
    let driver: Driver =
        Axienet::open(&mut m, &setup.driver, setup.controller.clone()).map_err(refused)?;
    let buffers = setup.driver.tx_ring;
    let mut cores = Vec::with_capacity(1);
    if let Some(source) = load.source(&mut m, 1, 0, buffers).map_err(no_memory)? {
        cores.push(Core::new(driver, source, lines(), buffers as usize));
    }
    let before = (m.ledger().clone(), work_of(&m), m.stalled());
    let begin = m.now();
    let mut trouble =
        Trouble::begin(&setup.faults, &mut m, Vec::new(), |d, _, at, up| d.set_cable(at, up));
    let open::Driven { end, steady } =
        open::drive(&mut m, &mut cores, load, trouble.as_mut(), watch)?;
    let alarms = Alarms::of(&cores);
    let faults = trouble.map(|t| t.end(&mut m, alarms));
    // What opening and closing cost is not of the packets.
    let ledger = m.ledger().since(&before.0);
    let work = closed::differences(&before.1, &work_of(&m));
    let stalled = Span::from_ps(m.stalled().ps() - before.2.ps());
    let (mut stats, mut latency, mut skipped, mut threshold) =
        (Stats::default(), Histogram::default(), 0, 0);
    for core in cores {
        threshold = core.driver.coalesce().rx_frames;
        latency.add(&core.latency);
        stats = core.driver.close(&mut m);
        skipped += core.traffic.release(&mut m);
    }
    m.flush_posted();
    let busy = work.iter().fold(stalled, |sum, w| sum + w.2);
    let (elapsed, polls) = (end.since(begin), m.done(WorkKind::Poll).times);
    let steady =
        steady.unwrap_or_else(|| Steady::whole(elapsed, &ledger, busy, stats.tx_irqs, polls));
    let mut o = Outcome {
        packets: ledger.wire_frames,
        elapsed,
        payload: ledger.wire_bytes,
        // Nothing comes: all interrupts are of transmission.
        steady: Steady {
            payload: steady.ledger.wire_bytes,
            interrupts: [0, steady.interrupts[0]],
            ..steady
        },
        wire: (on_wire((ledger.wire_frames, ledger.wire_bytes)), 0),
        work,
        stalled,
        busy: [busy, Span::ZERO],
        interrupts: [stats.rx_irqs, stats.tx_irqs],
        polls,
        counters: [stats.entries().collect(), m.device.counters.entries().collect()],
        ledger,
        driver: stats,
        device: m.device.counters,
        threshold,
        latency,
        series: Vec::new(),
        bus_share: [0.0; 2],
        faults,
        audit: Vec::new(),
    };
    if skipped > 0 {
        o.audit.push(format!("{skipped} frames were skipped for want of memory or form"));
    }
    let sent = m.ledger().wire_frames;
    o.audit.extend(audit::audit(&o, &m, (sent, 0)));
    Ok(o)
}

/// Host memory for the rings.
fn rings(setup: &Setup) -> usize {
    let d = &setup.driver;
    let slot = (d.rx_buffer() + 64).next_power_of_two() as usize;
    d.rx_ring as usize * 4 * slot + d.tx_ring as usize * 4096 + (4 << 20)
}

/// Host memory for the rings and all that can be under way.
fn memory_size(setup: &Setup, load: &Load) -> usize {
    let traffic = match load {
        Load::Closed(l) => 2 * l.memory(),
        Load::Arrivals(_) => 0,
        Load::Open(l) => l.memory(setup.driver.tx_ring),
    };
    (rings(setup) + traffic).next_multiple_of(1 << 20)
}

#[cfg(test)]
mod tests;
