//! The e1000 system: a gigabit controller of the 8254x family, driver and device, on
//! conventional PCI, PCI-X or PCI Express, and a run of it.
//!
//! The loads are closed-loop TCP ([`crate::closed`]) over a gigabit link, and open-loop
//! packets ([`crate::open`]). One queue, one interrupt line, one core; applications may
//! have a second.

mod audit;
mod figures;
mod rig;
pub mod settings;

pub use figures::Figures;
pub use rig::RIG;

use crate::clock::link::{Wired, on_wire};
use crate::clock::napi::Rules as Softirq;
use crate::clock::{Core, Interrupt};
use crate::closed::{self, Above, Entries, Seen};
use crate::fault::{self, Alarms, Trouble};
use crate::histogram::Histogram;
use crate::open;
use crate::result::{Failure, Series, WorkTotals, work_of};
use crate::traffic::tcp::Prices;
use crate::watch::Watch;
use crate::window::Steady;
use doorbell_bus::tce::{Table, Window};
use doorbell_bus::{
    Bus, Capture, Costs, Ledger, Machine, Mapping, Pci, Pcie, Platform, ProtectionGranularity, pci,
    pcie,
};
use doorbell_devices::e1000::{Config as Nic, Counters, E1000 as Device};
use doorbell_drivers::e1000::{Config as DriverConfig, E1000 as Driver, OpenError, Stats};
use doorbell_hal::{Host, OutOfMemory, Span, WorkKind};

/// What the card is plugged into.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slot {
    /// Conventional PCI or PCI-X.
    Parallel(pci::Settings, pci::Latencies),
    /// PCI Express.
    Express(pcie::Settings, pcie::Latencies),
}

/// Everything that a run is a function of, but its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// What the CPU charges for the driver's work.
    pub costs: Costs,
    /// And for TCP's.
    pub prices: Prices,
    /// How softirq is scheduled.
    pub softirq: Softirq,
    /// The bus.
    pub slot: Slot,
    /// Translation of the device's addresses; `None`: they are physical.
    pub tce: Option<Window>,
    /// How exactly device accesses are checked.
    pub guard: ProtectionGranularity,
    /// The device.
    pub nic: Nic,
    /// The driver.
    pub driver: DriverConfig,
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
    /// TCP.
    Closed(closed::Load),
    /// Packets as told.
    Open(open::Load),
}

/// The asker's to mend: a device that does not take its settings.
fn refused(e: OpenError) -> Failure {
    Failure::Input(match e {
        OpenError::Setting(what) => format!("the driver does not take this: {what}"),
        OpenError::OutOfMemory => NO_MEMORY.to_owned(),
        e => format!("the controller could not be opened: {e:?}"),
    })
}

const NO_MEMORY: &str = "the machine's memory, or its translation table, does not hold it";

/// The asker's to mend: buffers that the memory does not hold.
fn no_memory(_: OutOfMemory) -> Failure {
    Failure::Input(NO_MEMORY.to_owned())
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Frames with data or transactions (TCP), or packets sent.
    pub packets: u64,
    /// The time they took.
    pub elapsed: Span,
    /// What rates are made of.
    pub steady: Steady,
    /// Payload bytes of TCP; 0 for other packets.
    pub payload: u64,
    /// Bytes of frames on the wire in both directions, with preamble, FCS and gap.
    pub wire: (u64, u64),
    /// Every crossing in that time.
    pub ledger: Ledger,
    /// The driver's work in that time.
    pub work: WorkTotals,
    /// Waiting for registers and fences in that time.
    pub stalled: Span,
    /// Time that cores were busy.
    pub busy: Span,
    /// Cores there are.
    pub cores: usize,
    /// Counters of driver and device in that time.
    pub counters: [Entries; 2],
    /// Interrupts taken in that time.
    pub interrupts: u64,
    /// Polls made.
    pub polls: u64,
    /// The driver's counters of the whole run.
    pub driver: Stats,
    /// The device's of the whole run.
    pub device: Counters,
    /// Of transactions, or from the call of the driver to the buffer's return.
    pub latency: Histogram,
    /// What changed over the run.
    pub series: Vec<Series>,
    /// Share of the bus that was in use; of a PCI Express link, toward the device and toward the
    /// host.
    pub bus_share: Vec<f64>,
    /// What went wrong, if it was asked to.
    pub faults: Option<fault::Report>,
    /// What does not add up; empty when all does.
    pub audit: Vec<String>,
}

/// Where registers and memory lie: below 4 GiB, as these controllers hang on dual address cycles.
const BAR: u64 = 0xfeb0_0000;
const MEMORY_BASE: u64 = 64 << 20;
/// The most memory that fits below the registers.
const MOST_MEMORY: usize = 3 << 30;

/// Runs `load` on `setup` to its end.
///
/// # Errors
/// When it cannot be set up or gets stuck. A run whose audit fails is not an
/// error here: the outcome says so.
pub fn run(setup: &Setup, load: &Load, watch: &mut dyn Watch) -> Result<Outcome, Failure> {
    let mut platform =
        Platform::new(MEMORY_BASE, memory_size(setup, load).min(MOST_MEMORY), setup.guard);
    if let Some(window) = setup.tce {
        platform = platform.with_mapping(Mapping::Tce(Box::new(Table::new(window))));
    }
    match setup.slot {
        Slot::Parallel(settings, latencies) => {
            let rules = pci::Rules::new(settings).map_err(|e| Failure::Input(e.to_string()))?;
            let mut o = on(Pci::new(platform, rules, latencies, BAR), setup, load, watch)?;
            let clocks = |time: Span| (time.ps() / rules.period().ps()).max(1);
            o.bus_share = vec![o.steady.ledger.pci_clocks as f64 / clocks(o.steady.elapsed) as f64];
            let clocks = clocks(o.elapsed);
            // A transaction under way at either end of the measured time counts for the side it
            // began on.
            if o.ledger.pci_clocks > clocks + 4096 {
                o.audit.push(format!(
                    "bus: {} clocks in a time that has {clocks}",
                    o.ledger.pci_clocks
                ));
            }
            Ok(o)
        }
        Slot::Express(settings, latencies) => {
            let rules = pcie::Rules::new(settings).map_err(|e| Failure::Input(e.to_string()))?;
            let mut o = on(Pcie::new(platform, rules, latencies, BAR), setup, load, watch)?;
            let capacity = |time: Span| rules.raw_byte_time().capacity(time).max(1);
            let bytes = |l: &Ledger| {
                [
                    l.pcie_down_tlp_bytes + l.pcie_down_dllp_bytes,
                    l.pcie_up_tlp_bytes + l.pcie_up_dllp_bytes,
                ]
            };
            let steady = capacity(o.steady.elapsed) as f64;
            o.bus_share = bytes(&o.steady.ledger).iter().map(|b| *b as f64 / steady).collect();
            let capacity = capacity(o.elapsed);
            for bytes in bytes(&o.ledger).into_iter().filter(|b| *b > capacity + 65_536) {
                o.audit.push(format!("link: {bytes} bytes in a time that carries {capacity}"));
            }
            Ok(o)
        }
    }
}

fn on<B: Bus<Sink = Capture>>(
    bus: B,
    setup: &Setup,
    load: &Load,
    watch: &mut dyn Watch,
) -> Result<Outcome, Failure> {
    match load {
        Load::Closed(load) => tcp(bus, setup, load, watch),
        Load::Open(load) => packets(bus, setup, load, watch),
    }
}

/// The line that the card's interrupt is wired to.
const LINE: Interrupt = Interrupt::Line(0);

fn tcp<B: Bus>(
    bus: B,
    setup: &Setup,
    load: &closed::Load,
    watch: &mut dyn Watch,
) -> Result<Outcome, Failure> {
    let (connections, hosts) = load.connect(setup.nic.mac);
    let link = (setup.link_rate, setup.link_delay);
    let (bus, device) = Wired::new(bus, Device::new(setup.nic), hosts, link);
    let mut m = Machine::new(bus, device, setup.costs, load.cores());
    let driver = Driver::open(&mut m, &setup.driver).map_err(refused)?;
    let above =
        Above { lines: LINE.into(), connections, prices: setup.prices, softirq: setup.softirq };
    let look = |driver: &Driver, device: &Device| {
        [driver.stats().entries().collect(), device.counters.entries().collect()]
    };
    setup.faults.begin_wired(&mut m, |d, at, up| d.set_cable(at, up));
    let (seen, driver) = closed::run(&mut m, driver, above, load, look, watch)?;
    let faults = setup.faults.end_wired(&mut m, seen.alarms);
    let stats = driver.close(&mut m);
    m.flush_posted();
    let busy = seen.busy.iter().fold(Span::ZERO, |sum, b| sum + b.total());
    let steady = seen.steady([busy, Span::ZERO], [seen.interrupts.iter().sum(), 0]);
    let Seen {
        packets,
        elapsed,
        payload,
        out,
        back,
        ledger,
        work,
        stalled,
        counters,
        interrupts,
        polls,
        latency,
        series,
        wrong,
        ..
    } = seen;
    let mut o = Outcome {
        packets,
        elapsed,
        steady,
        payload,
        wire: (on_wire(out), on_wire(back)),
        ledger,
        work,
        stalled,
        busy,
        cores: load.cores(),
        counters,
        interrupts: interrupts.iter().sum(),
        polls,
        driver: stats,
        device: m.device.device.counters,
        latency,
        series,
        bus_share: Vec::new(),
        faults,
        audit: wrong,
    };
    let lost = m.device.dropped;
    let (sent, received) =
        (m.device.out.borrow().frames, m.device.back.frames - m.device.back.cut - lost);
    o.audit.extend(audit::audit(&o, &m, (sent, received)));
    Ok(o)
}

fn packets<B: Bus<Sink = Capture>>(
    bus: B,
    setup: &Setup,
    load: &open::Load,
    watch: &mut dyn Watch,
) -> Result<Outcome, Failure> {
    let mut m: Machine<B, Device> = Machine::new(bus, Device::new(setup.nic), setup.costs, 1);
    if watch.wants_frames() {
        m.bus.sink_mut().start();
    }
    let driver = Driver::open(&mut m, &setup.driver).map_err(refused)?;
    let buffers = setup.driver.tx_ring;
    let mut cores = Vec::with_capacity(1);
    if let Some(source) = load.source(&mut m, 1, 0, buffers).map_err(no_memory)? {
        cores.push(Core::new(driver, source, LINE, buffers as usize));
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
    let (mut stats, mut latency, mut skipped) = (Stats::default(), Histogram::default(), 0);
    for core in cores {
        latency.add(&core.latency);
        stats = core.driver.close(&mut m);
        skipped += core.traffic.release(&mut m);
    }
    m.flush_posted();
    let (elapsed, busy) = (end.since(begin), work.iter().fold(stalled, |sum, w| sum + w.2));
    let wire = (on_wire((ledger.wire_frames, ledger.wire_bytes)), 0);
    let polls = m.done(WorkKind::Poll).times;
    let steady =
        steady.unwrap_or_else(|| Steady::whole(elapsed, &ledger, busy, stats.interrupts, polls));
    let mut o = Outcome {
        packets: ledger.wire_frames,
        elapsed,
        steady,
        payload: 0,
        wire,
        busy,
        work,
        stalled,
        cores: 1,
        counters: [stats.entries().collect(), m.device.counters.entries().collect()],
        interrupts: stats.interrupts,
        polls,
        ledger,
        driver: stats,
        device: m.device.counters,
        latency,
        series: Vec::new(),
        bus_share: Vec::new(),
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

/// Host memory for the rings and all that can be under way.
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

#[cfg(test)]
mod tests;
