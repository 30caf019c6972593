//! The mlx5 system: ConnectX on PCI Express, driver and device, and a run of it.

mod audit;
mod figures;
mod rig;
pub mod settings;

pub use crate::open::Load;
pub use figures::{Figures, MPWQE_INSTRUCTIONS, SEND_INSTRUCTIONS};
pub use rig::RIG;

use crate::clock::{Core, Interrupt, Stuck};
use crate::fault::{self, Alarms, Trouble};
use crate::histogram::Histogram;
use crate::open;
use crate::result::work_of;
use crate::traffic::Source;
use crate::watch::Watch;
use crate::window::Steady;
use doorbell_bus::machine::Done;
use doorbell_bus::pcie::{Rules, RulesError, Settings};
use doorbell_bus::{Bus, Costs, Latencies, Ledger, Machine, Pcie, Platform, ProtectionGranularity};
use doorbell_devices::mlx5::{Config as Nic, Counters, Mlx5};
use doorbell_drivers::mlx5::{Channel, Config as DriverConfig, Hca, OpenError, Stats};
use doorbell_hal::{OutOfMemory, Span, Time, WorkKind};
use std::cell::RefCell;
use std::rc::Rc;

/// The machine of this system.
pub type System = Machine<Pcie, Mlx5>;

/// Everything that a run is a function of, but its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Cores, each with a channel of its own.
    pub cores: u16,
    /// What the CPU charges.
    pub costs: Costs,
    /// The link.
    pub pcie: Settings,
    /// Latencies around it.
    pub latencies: Latencies,
    /// Bus address of the registers.
    pub bar: u64,
    /// Bus address of host memory: a multiple of 64 MiB.
    pub memory_base: u64,
    /// How exactly device accesses are checked.
    pub guard: ProtectionGranularity,
    /// The device.
    pub nic: Nic,
    /// Each channel; the vector is the core's number.
    pub driver: DriverConfig,
    /// What goes wrong.
    pub faults: fault::Plan,
}

/// Why a run did not come to its end.
#[derive(Clone, Debug, PartialEq)]
pub enum RunError {
    /// A link setting that does not exist.
    Link(RulesError),
    /// A channel could not be opened.
    Open(OpenError),
    /// Host memory ran out while buffers were taken.
    Memory,
    /// Cores waited for an interrupt and nothing was under way.
    Stuck(Stuck),
    /// The receiver of the captured frames gave up.
    Capture(String),
    /// Whoever watched did not want to go on.
    Stopped,
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Link(e) => e.fmt(f),
            RunError::Open(OpenError::OutOfMemory) | RunError::Memory => {
                f.write_str("the machine's memory does not hold it")
            }
            RunError::Open(OpenError::Device(why)) => {
                write!(f, "the driver does not find its device: {why}")
            }
            RunError::Open(OpenError::Firmware(s)) => {
                write!(f, "the firmware refused a command: {s:?}")
            }
            RunError::Open(OpenError::Capability(c)) => {
                write!(f, "the device lacks {c}, which the driver needs")
            }
            RunError::Open(OpenError::Size) => {
                f.write_str("a queue size is out of range: 64 to 8192 blocks, CQ 2 to 65536")
            }
            RunError::Stuck(s) => s.fmt(f),
            RunError::Capture(why) => f.write_str(why),
            RunError::Stopped => f.write_str("stopped"),
        }
    }
}
impl std::error::Error for RunError {}
impl From<OpenError> for RunError {
    fn from(e: OpenError) -> RunError {
        RunError::Open(e)
    }
}
impl From<open::Ended> for RunError {
    fn from(e: open::Ended) -> RunError {
        match e {
            open::Ended::Stuck(s) => RunError::Stuck(s),
            open::Ended::Capture(why) => RunError::Capture(why),
            open::Ended::Stopped => RunError::Stopped,
        }
    }
}
impl From<OutOfMemory> for RunError {
    fn from(_: OutOfMemory) -> RunError {
        RunError::Memory
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Packets that left on the wire, large sends counted as their segments.
    pub packets: u64,
    /// From the start to the last packet on the link or wire.
    pub elapsed: Span,
    /// What rates are made of.
    pub steady: Steady,
    /// Every crossing.
    pub ledger: Ledger,
    /// What drivers did and what it cost, by kind.
    pub work: Vec<(WorkKind, Done, Span)>,
    /// Time that cores waited for register accesses and fences.
    pub stalled: Span,
    /// All channels' counters together.
    pub driver: Stats,
    /// The device's.
    pub device: Counters,
    /// From the call of the driver to the buffer's return.
    pub latency: Histogram,
    /// Share of the link that was in use: (toward the device, toward the host).
    pub link_share: (f64, f64),
    /// What went wrong, if it was asked to.
    pub faults: Option<fault::Report>,
    /// What does not add up; empty when all does.
    pub audit: Vec<String>,
}

/// Runs `load` on `setup` to its end.
///
/// # Errors
/// When it cannot be set up or gets stuck. A run whose audit fails is not an
/// error here: the outcome says so.
pub fn run(setup: &Setup, load: &Load, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    let rules = Rules::new(setup.pcie).map_err(RunError::Link)?;
    let cores = usize::from(setup.cores.max(1));
    let platform = Platform::new(setup.memory_base, memory_size(setup, load), setup.guard);
    let link = |platform| Pcie::new(platform, rules, setup.latencies, setup.bar);
    let mut m = Machine::new(link(platform), Mlx5::new(setup.nic), setup.costs, cores);
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
    // Everything stands. The clock starts here: how long the firmware took, and what
    // crossed the link for it, is no part of the run.
    m.flush_posted();
    let Machine { bus, device, .. } = m;
    let mut m = Machine::new(link(bus.into_platform()), device, setup.costs, cores);
    if watch.wants_frames() {
        m.bus.sink_mut().start();
    }
    for (i, core) in running.iter_mut().enumerate() {
        m.enter(i);
        core.driver.start(&mut m);
    }
    let before = m.ledger().clone();
    let mut trouble =
        Trouble::begin(&setup.faults, &mut m, functions, |d, b, at, up| d.set_carrier(b, at, up));
    let driven = open::drive(&mut m, &mut running, load, trouble.as_mut(), watch)?;
    let alarms = Alarms::of(&running);
    let faults = trouble.map(|t| t.end(&mut m, alarms));
    Ok(finish(m, running, hca, &before, driven.steady, faults))
}

/// Packets of one channel between driver and device at the most: one per data
/// segment of its ring.
fn in_flight(setup: &Setup) -> usize {
    4usize << setup.driver.log_sq
}

/// Host memory for all rings and all packets that can be under way.
fn memory_size(setup: &Setup, load: &Load) -> usize {
    let block = |bytes: u32| (bytes.max(64) as usize).next_power_of_two();
    let cores = usize::from(setup.cores.max(1));
    let packets = match load {
        Load::Pktgen { size, burst, .. } => {
            cores * (in_flight(setup) + *burst as usize) * block(*size)
        }
        // Replayed frames differ in size, so that freed blocks do not always fit.
        Load::Replay { frames, .. } => {
            in_flight(setup).min(2 * frames.len() + 64) * 2 * block(frames.longest())
        }
    };
    let others: usize = setup.driver.cqs.others().iter().map(|log| (64 << log) + 4096).sum();
    let rings =
        cores * ((64 << setup.driver.log_sq) + (64 << setup.driver.log_cq) + others + (64 << 10));
    (packets + rings + (4 << 20)).next_multiple_of(1 << 20)
}

/// Takes everything down and adds everything up.
fn finish(
    mut m: System,
    cores: Vec<Core<Channel<Rc<RefCell<Hca>>>, Source>>,
    hca: Rc<RefCell<Hca>>,
    before: &Ledger,
    steady: Option<Steady>,
    faults: Option<fault::Report>,
) -> Outcome {
    let elapsed = m.bus.booked_until().max(m.device.wire_free()).since(Time::ZERO);
    let ledger = m.ledger().since(before);
    // What the commands that end everything wait for is no part of it.
    let stalled = m.stalled();
    let mut driver = Stats::default();
    let mut latency = Histogram::default();
    let mut skipped = 0;
    for (i, core) in cores.into_iter().enumerate() {
        m.enter(i);
        driver.add(&core.driver.stats());
        latency.add(&core.latency);
        core.driver.close(&mut m);
        skipped += core.traffic.release(&mut m);
    }
    if let Some(hca) = Rc::into_inner(hca) {
        hca.into_inner().close(&mut m);
    }
    let work = work_of(&m);
    let busy = work.iter().fold(stalled, |sum, w| sum + w.2);
    let [interrupts, polls] = [WorkKind::Interrupt, WorkKind::Poll].map(|k| m.done(k).times);
    let steady = steady.unwrap_or_else(|| Steady::whole(elapsed, &ledger, busy, interrupts, polls));
    let capacity = m.bus.raw_capacity(steady.elapsed).max(1) as f64;
    let of = &steady.ledger;
    let inbound = of.pcie_down_tlp_bytes + of.pcie_down_dllp_bytes;
    let outbound = of.pcie_up_tlp_bytes + of.pcie_up_dllp_bytes;
    let mut outcome = Outcome {
        packets: ledger.wire_frames,
        elapsed,
        work,
        stalled,
        driver,
        device: m.device.counters,
        latency,
        link_share: (inbound as f64 / capacity, outbound as f64 / capacity),
        steady,
        ledger,
        faults,
        audit: Vec::new(),
    };
    outcome.audit = audit::audit(&outcome, &m, skipped);
    outcome
}

#[cfg(test)]
mod tests;
