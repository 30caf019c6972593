//! A card on PCI, PCI-X, PCI Express or AXI, as a system: any driver on any device.
//!
//! A [`Card`] says how device and driver are made and what they count. Its loads are closed-loop
//! TCP over a link ([`crate::closed_loop`]), frames at a fixed rate ([`crate::fixed_rate`]), frames
//! that arrive in a pattern ([`crate::arrivals`]) and open-loop packets ([`crate::open_loop`]).
//! Each queue of the driver has a core; TCP and frames at a fixed rate have one queue, and
//! applications may have a second core. The built-in e1000 is one; [`system`] makes one of a driver
//! of your own.

use crate::arrivals::{self, Load as Arrivals};
use crate::closed_loop::Load as TcpLoad;
use crate::fixed_rate::{self, Load as Paced};
use crate::host::{self, HostConfig, MAX_MEMORY};
use crate::key::{Key, Needs, Values};
use crate::knobs::Knob;
use crate::limits::Wider::More;
use crate::limits::{self, Resource};
use crate::metrics::{self, DEVICE, DRIVER, Metric, Numbers, Party};
use crate::open_loop::{Limits, Load as OpenLoad};
use crate::result::{CountsOf, Measured, SENT, Verdict};
use crate::run::platform;
use crate::slot::{self, AXI_BUSY, BUS_BUSY, IommuKeys, PciKeys, Slot};
use crate::system::{PlacementKeys, RUN, System};
use crate::{
    Counted, Counts, Entries, OpenQueue, Result, RunError, SettingError, closed_loop, knobs,
};
use crate::{open_loop, run};
use doorbell_bus::ledger::BusKind;
use doorbell_bus::tce::{Table, Window};
use doorbell_bus::{
    Axi, Bus, Capture, Machine, Mapping, Memory, Order, Ordered, Pci, Pcie, Platform,
    ProtectionGranularity, axi, pci, pcie,
};
use doorbell_drivers::{Driver, OpenError};
use doorbell_hal::{
    Counter, CounterSet, Device, EventSource, Host, OutOfMemory, Port, Rule, Span, Time,
};
use doorbell_packet::ethernet::HEADER;
use doorbell_sim::link::{Peer, SharedWire, Tell, Wired};
use doorbell_sim::scheduler::Interrupt;
use doorbell_sim::traffic::{Frames, arrivals::Meter, flow_headers};
use doorbell_sim::{Watch, fault::FaultSchedule, napi::NapiContext, watch::Asking};
use std::sync::{Arc, OnceLock};

pub use crate::audit::CrossCheck;

/// A driver and a device: how they are made, and what they count.
pub trait Card: Sized + 'static {
    /// The settings of both, from the values of [`Card::PLATFORM`] and [`Card::RUN`].
    type Config;
    /// The device.
    type Device<P: Port>: Device<P>;
    /// The driver.
    type Driver<H: Host>: Driver<H>;
    /// The driver's counters; `()` if it has none.
    type Stats: CounterSet;
    /// The device's counters; `()` if it has none.
    type Counters: CounterSet;

    /// Keys of its profiles, beside those of CPU, slot and link.
    const PLATFORM: &'static [Key] = &[];
    /// Keys of its scenarios, beside those of the traffic.
    const RUN: &'static [Key] = &[];
    /// The most queues that its driver opens, each on a core of its own. If there are several,
    /// `run.cores` of a scenario says how many.
    const QUEUES: u16 = 1;
    /// Its system has `run.order`.
    const ORDERED: bool = true;
    /// The transmit timeout of the driver, with faults.
    const WATCHDOG: Span = Span::from_ms(5_000);

    /// Reads the settings. A device that sends at a rate of its own takes `link.rate` here, or
    /// refuses another.
    ///
    /// # Errors
    /// Values that are allowed each, but not together.
    fn config(v: &Values) -> Result<Self::Config, SettingError>;

    /// Returns the station address.
    fn mac(_: &Self::Config) -> [u8; 6] {
        [0x02, 0, 0, 0, 0, 0x01]
    }

    /// Returns the longest IP packet.
    fn mtu(_: &Self::Config) -> u32 {
        1500
    }

    /// Returns the frames that driver and device take.
    fn frames(c: &Self::Config) -> Limits {
        let frame = (Self::mtu(c) + HEADER as u32, "the MTU of the driver");
        Limits { frame, tagged: frame.0, large_send: (0, "the driver, which takes none") }
    }

    /// Returns the interrupt of a queue: a line of its number, unless the device sends messages.
    fn interrupt(_: &Self::Config, queue: u16) -> Interrupt {
        Interrupt::Line(queue)
    }

    /// Returns the interrupts of a queue, if it has more than one.
    fn interrupts(c: &Self::Config, queue: u16) -> Vec<Interrupt> {
        vec![Self::interrupt(c, queue)]
    }

    /// Returns the most packets of one queue between driver and device.
    fn in_flight(c: &Self::Config) -> u32;

    /// Returns the host memory for rings and receive buffers of one queue, in bytes.
    fn memory(_: &Self::Config) -> usize {
        16 << 20
    }

    /// Returns the machine's memory of `size` bytes, if it has a place of its own.
    ///
    /// # Errors
    /// The system refuses it.
    fn own_memory(
        _: &Self::Config,
        _size: usize,
        _: ProtectionGranularity,
    ) -> Result<Option<Memory>, OutOfMemory> {
        Ok(None)
    }

    /// Returns the order of the driver's stores if none was asked for; `None` is the program's.
    fn order(_: &Self::Config) -> Option<Order> {
        None
    }

    /// Makes the device.
    fn device<P: Port>(c: &Self::Config) -> Self::Device<P>;

    /// Opens the driver, until the link is up: its only queue, or the first.
    ///
    /// # Errors
    /// The device did not answer as the driver expects, or there is no memory.
    fn open<H: Host>(h: &mut H, c: &Self::Config) -> Result<Self::Driver<H>, OpenError>;

    /// Opens another queue, with a number below [`Card::QUEUES`], on the device that the `first`
    /// queue's driver has open. State that all queues share can be in an `Rc<RefCell<..>>`.
    ///
    /// # Errors
    /// As for [`Card::open`].
    fn open_queue<H: Host>(
        _: &mut H,
        _: &Self::Config,
        _first: &mut Self::Driver<H>,
        _queue: u16,
    ) -> Result<Self::Driver<H>, OpenError> {
        Err(OpenError::Setting("its card has several queues and no `open_queue`"))
    }

    /// Returns the function that tells the queue of a frame from the wire, among so many, where the
    /// flows of a load are chosen: one to each queue. By default it is Toeplitz's hash of addresses
    /// and ports, with Microsoft's key, modulo their number.
    fn queue_of(queues: u16) -> impl Fn(&[u8]) -> usize {
        open_loop::by_hash(queues)
    }

    /// Closes the driver of a queue and gives back all that it has: the first queue, then the
    /// others. What they share goes with the last. Returns its counters.
    fn close<H: Host>(driver: Self::Driver<H>, h: &mut H) -> Self::Stats;

    /// Returns the counters of a queue's driver so far.
    fn stats<H: Host>(_: &Self::Driver<H>) -> Self::Stats {
        Self::Stats::default()
    }

    /// Returns the device's counters so far, by default those that it tells by these names
    /// ([`EventSource::counters`]).
    fn counters<P: Port>(device: &Self::Device<P>) -> Self::Counters {
        let mut all = Self::Counters::default();
        device.counters(&mut |name, n| all.named(name).into_iter().for_each(|own| *own = n));
        all
    }

    /// Returns the rules of the device's manual that drivers break. The audit of a run names those
    /// that its driver broke. One that the model works without is a warning, but with `run.strict`.
    fn rules<P: Port>(_: &Self::Device<P>) -> impl IntoIterator<Item = Rule> {
        []
    }

    /// Tells the device that its link went up or down.
    fn cable<P: Port>(_: &mut Self::Device<P>, _: Time, _: bool) {}

    /// Compares the counts of the whole run: those of the driver and of the device, the packets
    /// that a generator has handed to the driver, and the frames on the wire from the card and to
    /// it. Without one of its own, a card is held to what is true of all ([`audit`]).
    fn audit(
        o: &RunStats<Self>,
        p: &Platform,
        handed: Option<u64>,
        wire: (u64, u64),
    ) -> CrossCheck {
        audit::<Self>(o, p, handed, wire)
    }
}

/// Audits what is true of every card: all packets leave, checksums are right, and all that was
/// taken is given back.
pub fn audit<C: Card>(
    o: &RunStats<C>,
    p: &Platform,
    handed: Option<u64>,
    wire: (u64, u64),
) -> CrossCheck {
    let mut b = CrossCheck::of(o);
    if let Some(handed) = handed.filter(|_| o.faults.is_none()) {
        let text = "packets: handed to the driver {}, frames on the wire {}";
        b.less(text, [handed, wire.0], ("of a run that was ended", handed));
    }
    let wrong = o.counts.counter(1, "wire_bad_checksums");
    b.never("checksums: wrong on the wire {}", wrong);
    b.platform(p, o.faults.map_or(0, |f| f.struck.dma));
    b
}

/// The inputs of a run, except its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup<C> {
    /// Host and link.
    pub host: HostConfig,
    /// The bus.
    pub slot: Slot,
    /// Translation of the device's addresses; `None` if they are physical.
    pub tce: Option<Window>,
    /// Queues that the driver opens.
    pub queues: u16,
    /// The order of the driver's stores, if it is not that of the program.
    pub order: Option<Order>,
    /// All rules of the manual are kept, not only those that the model needs.
    pub strict: bool,
    /// Device and driver.
    pub card: C,
}

/// The traffic of a run.
#[derive(Clone, Debug)]
pub enum Load {
    /// TCP.
    Closed(TcpLoad),
    /// Frames received in a pattern.
    Arrivals(Arrivals),
    /// Packets of a generator or a capture.
    Open(OpenLoad),
}

/// Totals of the whole run.
#[derive(Clone, Copy, Debug)]
pub struct Totals<S, N> {
    /// The driver's counters.
    pub driver: S,
    /// The device's counters.
    pub device: N,
}

/// Statistics of a run of a card.
pub type RunStats<C> = run::RunStats<Totals<<C as Card>::Stats, <C as Card>::Counters>>;

/// Address of the registers, below 4 GiB, where every card takes it.
pub(crate) const BAR: u64 = 0xfeb0_0000;
/// Address of host memory.
pub(crate) const MEMORY_BASE: u64 = 64 << 20;
const MOST_MEMORY: usize = 3 << 30;
const ADVICE: &str = "fewer connections (`traffic.connections`), a smaller window \
                      (`traffic.window`), shorter rings";

/// Reads the [`Setup`] from `v`.
///
/// # Errors
/// Values that are allowed each, but not together.
pub fn setup<C: Card>(v: &Values) -> Result<Setup<C::Config>, SettingError> {
    let (slot, tce) = Slot::of(v)?;
    let card = C::config(v)?;
    let order = order(v).unwrap_or_else(|| C::order(&card));
    let strict = v.word_if_any(OWN[1].name) == Some("on");
    let (host, queues) = (HostConfig::of(v, C::WATCHDOG), queues::<C>(v));
    Ok(Setup { host, slot, tce, queues, order, strict, card })
}

/// Reads the number of queues: one where the key of several has no effect.
pub(crate) fn queues<C: Card>(v: &Values) -> u16 {
    if C::QUEUES <= 1 || v.find(CORES).is_none_or(|(key, _)| v.idle(key).is_some()) {
        return 1;
    }
    v.number_or_word(CORES).map_or(C::QUEUES, |n| n as u16)
}

/// Reads the [`Load`] from `v`. `frames` are those of the capture that it names.
///
/// # Errors
/// This machine cannot carry the traffic.
pub fn load<C: Card>(
    v: &Values,
    setup: &Setup<C::Config>,
    frames: Option<&Arc<Frames>>,
) -> Result<Load, SettingError> {
    let load = match v.word("traffic.kind") {
        "pktgen" | "pcap" => {
            Load::Open(OpenLoad::of(v, &C::frames(&setup.card), frames, setup.queues)?)
        }
        arrivals::KIND => {
            let longest = C::frames(&setup.card).frame;
            let mbit_per_s = setup.host.link_rate as f64 / 1e6;
            let mut load = Arrivals::of(v, longest, mbit_per_s, frames)?;
            if setup.queues > 1 && v.number_or_word("traffic.flows").is_none() {
                let queue_of = C::queue_of(setup.queues);
                let comes_to = |flow| queue_of(&flow_headers(flow));
                load.flows = arrivals::flow_on_each(setup.queues.into(), comes_to);
            }
            Load::Arrivals(load)
        }
        // IP and TCP headers without options.
        _ => Load::Closed(TcpLoad::of(v, C::mtu(&setup.card) - 40)?),
    };
    setup.host.fits(memory_size::<C>(setup, &load), MAX_MEMORY, ADVICE)?;
    Ok(load)
}

/// Returns the host memory for the rings and all that can be under way.
fn memory_size<C: Card>(setup: &Setup<C::Config>, load: &Load) -> usize {
    let traffic = match load {
        Load::Closed(l) => 2 * l.memory(),
        // Those of a poll.
        Load::Arrivals(_) => 1 << 20,
        Load::Open(l) => l.memory(C::in_flight(&setup.card)),
    };
    let queues = usize::from(setup.queues);
    (queues * (C::memory(&setup.card) + traffic)).next_multiple_of(1 << 20)
}

/// A load on a bus of any kind.
trait On {
    type Made;
    fn on<B: Bus<Sink = Capture>>(self, bus: B) -> Result<Self::Made>;
}

/// Puts a load on the slot's bus, with so much memory, and a log from the driver's opening on.
/// Returns what it made.
fn placed<C: Card, T>(
    setup: &Setup<C::Config>,
    memory: usize,
    log: bool,
    load: impl On<Made = run::RunStats<T>>,
) -> Result<run::RunStats<T>> {
    let _room = setup.host.room(memory);
    let guard = setup.host.guard;
    let mut platform = match C::own_memory(&setup.card, memory, guard) {
        Ok(None) => platform(MEMORY_BASE, memory, guard)?,
        Ok(Some(own)) => {
            let mut platform = platform(MEMORY_BASE, 0, guard)?;
            platform.memory = own;
            platform
        }
        Err(OutOfMemory) => return Err(RunError::Refused { bytes: memory }),
    };
    if let Some(window) = setup.tce {
        platform = platform.with_mapping(Mapping::Tce(Box::new(Table::new(window))));
    }
    if log {
        platform.keep_log();
    }
    match setup.slot {
        Slot::Parallel(settings, latencies) => {
            let rules = pci::Rules::new(settings)?;
            let mut o = ordered::<C, _, _>(setup, Pci::new(platform, rules, latencies, BAR), load)?;
            let clocks = |time: Span| (time.ps() / rules.period().ps()).max(1);
            o.use_of_bus("clocks", 4096, clocks, |l| vec![l.pci_clocks]);
            Ok(o)
        }
        Slot::Express(settings, latencies) => {
            let rules = pcie::Rules::new(settings)?;
            let bus = Pcie::new(platform, rules, latencies, BAR);
            let mut o = ordered::<C, _, _>(setup, bus, load)?;
            let capacity = |time: Span| rules.byte_time().capacity(time).max(1);
            o.use_of_bus("bytes", 4096, capacity, host::link_bytes);
            Ok(o)
        }
        Slot::Axi(settings, latencies) => {
            let bus = Axi::new(platform, axi::Rules::new(settings)?, latencies);
            let mut o = ordered::<C, _, _>(setup, bus, load)?;
            slot::use_of_axi(&mut o, settings.mhz);
            Ok(o)
        }
    }
}

/// Puts a load on a bus, with a store buffer if the order asks for one.
fn ordered<C: Card, B: Bus<Sink = Capture>, L: On>(
    setup: &Setup<C::Config>,
    bus: B,
    load: L,
) -> Result<L::Made> {
    if C::ORDERED
        && let Some(order) = setup.order
    {
        return load.on(Ordered::new(bus, order));
    }
    load.on(bus)
}

/// Reads the order of stores, if one is asked for.
fn order(v: &Values) -> Option<Option<Order>> {
    match v.word_if_any(OWN[0].name)? {
        "program" => Some(None),
        "late" => Some(Some(Order::Late)),
        "overtaken" => Some(Some(Order::Overtaken)),
        "random" => Some(Some(Order::Random(v.number("run.seed") as u64))),
        _ => None,
    }
}

/// Names the rules of the manual that the driver broke.
fn obeys<C: Card, P: Port>(device: &C::Device<P>, strict: bool, verdict: &mut Verdict) {
    for Rule { broken, text, works } in C::rules(device) {
        let into = if works && !strict { &mut verdict.warnings } else { &mut verdict.audit };
        into.extend((broken > 0).then(|| format!("{broken} {text}")));
    }
}

/// Runs `load` on `setup` to its end.
///
/// # Errors
/// The run cannot be set up, or is stuck. A failed audit is no error; it is in the statistics.
pub fn run<C: Card>(
    setup: &Setup<C::Config>,
    load: &Load,
    watch: &mut dyn Watch,
) -> Result<RunStats<C>> {
    struct Run<'a, C: Card>(&'a Setup<C::Config>, &'a Load, &'a mut dyn Watch);
    impl<C: Card> On for Run<'_, C> {
        type Made = RunStats<C>;
        fn on<B: Bus<Sink = Capture>>(self, bus: B) -> Result<RunStats<C>> {
            match self.1 {
                Load::Closed(load) => tcp::<C, B>(bus, self.0, load, self.2),
                Load::Arrivals(load) => received::<C, B>(bus, self.0, load, self.2),
                Load::Open(load) => packets::<C, B>(bus, self.0, load, self.2),
            }
        }
    }
    let memory = memory_size::<C>(setup, load).min(MOST_MEMORY);
    placed::<C, _>(setup, memory, watch.wants_log(), Run::<C>(setup, load, watch))
}

/// Returns the counters of both, by name.
fn counted(driver: &impl CounterSet, device: &impl CounterSet) -> Counted {
    [list(driver), list(device), Entries::new()]
}

fn list(of: &impl CounterSet) -> Entries {
    let mut all = Entries::new();
    of.each(&mut |name, value| all.push((name, value)));
    all
}

/// The driver of a queue in a machine.
type QueueOn<C, B, D> = <C as Card>::Driver<Machine<B, D>>;

/// Opens all queues, each on its core, one after the other.
fn open<C: Card, B: Bus, D: Device<B>>(
    m: &mut Machine<B, D>,
    setup: &Setup<C::Config>,
) -> Result<Vec<QueueOn<C, B, D>>, OpenError> {
    let mut all = vec![C::open(m, &setup.card)?];
    for queue in 1..setup.queues {
        let before = m.now();
        m.enter(queue.into());
        m.idle_until(before);
        let next = C::open_queue(m, &setup.card, &mut all[0], queue)?;
        all.push(next);
    }
    Ok(all)
}

/// A machine with a card on a link to `Pr`, and the drivers of the card's queues.
type Linked<C, B, Pr> = Machine<B, Wired<<C as Card>::Device<B>, Pr>>;
type DriverOn<C, B, Pr> = <C as Card>::Driver<Linked<C, B, Pr>>;
type Opened<C, B, Pr> = (Linked<C, B, Pr>, Vec<OpenQueue<DriverOn<C, B, Pr>>>);

/// Builds a machine on a link to `peer`, with its driver's queues open. Applications have the core
/// so many behind their queue's.
fn linked<C: Card, B: Bus, Pr: Peer>(
    bus: B,
    setup: &Setup<C::Config>,
    peer: Pr,
    applications: usize,
) -> Result<Opened<C, B::With<SharedWire>, Pr>> {
    let (bus, device) = Wired::new(bus, C::device(&setup.card), peer, setup.host.link());
    let cores = usize::from(setup.queues) + applications;
    let mut m = Machine::new(bus, device, setup.host.costs, cores);
    let queue = |(driver, i): (_, u16)| {
        let (lines, core) = (C::interrupts(&setup.card, i), usize::from(i));
        OpenQueue { driver, lines, cores: [core, core + applications] }
    };
    let queues = open::<C, _, _>(&mut m, setup)?.into_iter().zip(0..).map(queue).collect();
    Ok((m, queues))
}

/// Reads the counters of all queues' drivers and of the device.
fn look<C: Card, B: Bus, Pr: Peer, E>(
    m: &Linked<C, B, Pr>,
    s: &[NapiContext<DriverOn<C, B, Pr>, E>],
) -> Counted {
    let mut driver = C::Stats::default();
    s.iter().for_each(|s| driver.add(&C::stats(&s.driver)));
    counted(&driver, &C::counters(&m.device.device))
}

/// Closes the drivers, each on its core, adds the totals to `o`, and audits it.
fn finish<C: Card, B: Bus, Pr: Peer>(
    o: run::RunStats,
    mut m: Linked<C, B, Pr>,
    drivers: Vec<DriverOn<C, B, Pr>>,
    strict: bool,
) -> RunStats<C> {
    let evidence = run::evidence(&mut m);
    let mut driver = C::Stats::default();
    for (i, queue) in drivers.into_iter().enumerate() {
        m.enter(i);
        driver.add(&C::close(queue, &mut m));
    }
    m.flush_posted();
    let mut o = o.with(Totals { driver, device: C::counters(&m.device.device) });
    obeys::<C, _>(&m.device.device, strict, &mut o.verdict);
    let wire = (m.device.out.borrow().frames, m.device.back.landed.0 - m.device.dropped);
    o.verdict.take(C::audit(&o, m.bus.platform(), None, wire));
    o.verdict.evidence = evidence;
    o
}

fn tcp<C: Card, B: Bus>(
    bus: B,
    setup: &Setup<C::Config>,
    load: &TcpLoad,
    watch: &mut dyn Watch,
) -> Result<RunStats<C>> {
    let (connections, hosts) = load.connect(C::mac(&setup.card));
    let (mut m, mut queues) = linked::<C, B, _>(bus, setup, hosts, load.cores() - 1)?;
    let (ways, queue) = ((C::cable as Tell<_>, look::<C, _, _, _>), queues.remove(0));
    let (o, driver) =
        closed_loop::over(&mut m, queue, (load, connections), &setup.host, ways, watch)?;
    Ok(finish::<C, _, _>(o, m, vec![driver], setup.strict))
}

fn received<C: Card, B: Bus>(
    bus: B,
    setup: &Setup<C::Config>,
    load: &Arrivals,
    watch: &mut dyn Watch,
) -> Result<RunStats<C>> {
    let (host, source) = (&setup.host, load.source(C::mac(&setup.card)));
    let (mut m, queues) = linked::<C, B, _>(bus, setup, source, 0)?;
    let meter = || Meter::new(host.prices, host.link_rate, host.link_delay);
    let ways = (C::cable as Tell<_>, look::<C, _, _, _>);
    let (o, drivers) =
        arrivals::run(&mut m, queues, meter, (load, host), ways, |_| Vec::new(), watch)?;
    Ok(finish::<C, _, _>(o, m, drivers, setup.strict))
}

fn packets<C: Card, B: Bus<Sink = Capture>>(
    bus: B,
    setup: &Setup<C::Config>,
    load: &OpenLoad,
    watch: &mut dyn Watch,
) -> Result<RunStats<C>> {
    let (device, cores) = (C::device::<B>(&setup.card), setup.queues.into());
    let mut m = Machine::new(bus, device, setup.host.costs, cores);
    let queue = |(driver, i)| (driver, C::interrupts(&setup.card, i));
    let queues = open::<C, _, _>(&mut m, setup)?.into_iter().zip(0..).map(queue).collect();
    let in_flight = C::in_flight(&setup.card);
    let trouble = |m: &mut Machine<B, C::Device<B>>| {
        let cable = |d: &mut C::Device<B>, _: &mut B, at, up| C::cable::<B>(d, at, up);
        FaultSchedule::begin(&setup.host.faults, m, Vec::new(), cable)
    };
    let mut driver = C::Stats::default();
    let close = |m: &mut _, d| driver.add(&C::close(d, m));
    let mut o = open_loop::run_each(&mut m, queues, in_flight, load, trouble, close, watch)?;
    let device = C::counters(&m.device);
    o.counts.counters = counted(&driver, &device);
    let mut o = o.with(Totals { driver, device });
    obeys::<C, _>(&m.device, setup.strict, &mut o.verdict);
    // The number is known beforehand, unless the run ends by its error.
    let counted = load.sent().is_none() && watch.until().is_none();
    let handed = counted.then(|| load.packets(setup.queues));
    let sent = m.ledger().wire_frames;
    o.verdict.take(C::audit(&o, m.bus.platform(), handed, (sent, 0)));
    Ok(o)
}

/// Runs frames at a fixed rate.
fn paced<C: Card>(
    setup: &Setup<C::Config>,
    load: &Paced,
    watch: &mut dyn Watch,
) -> Result<run::RunStats> {
    struct Run<'a, C: Card>(&'a Setup<C::Config>, &'a Paced, &'a mut dyn Watch);
    impl<C: Card> On for Run<'_, C> {
        type Made = run::RunStats;
        fn on<B: Bus<Sink = Capture>>(self, bus: B) -> Result<run::RunStats> {
            let Run(setup, load, watch) = self;
            let mac = C::mac(&setup.card);
            let peer = fixed_rate::Peer::new(load, mac);
            let (mut m, mut queues) = linked::<C, B, _>(bus, setup, peer, 0)?;
            let ways = (look::<C, _, _, _>, fixed_rate::by_interrupt);
            let (rules, queue) = (&setup.host.softirq, queues.remove(0));
            let (mut o, driver) = fixed_rate::run(&mut m, queue, (load, mac), ways, rules, watch)?;
            o.verdict.evidence = run::evidence(&mut m);
            C::close(driver, &mut m);
            m.flush_posted();
            obeys::<C, _>(&m.device.device, setup.strict, &mut o.verdict);
            let mut b = CrossCheck::new(None);
            b.platform(m.bus.platform(), 0);
            o.verdict.take(b);
            Ok(o)
        }
    }
    let memory = (C::memory(&setup.card) + load.memory()).next_multiple_of(1 << 20);
    placed::<C, _>(setup, memory, watch.wants_log(), Run::<C>(setup, load, watch))
}

/// Runs the traffic of these values, as a [`System`] does.
///
/// # Errors
/// As [`run`], and those of the values.
pub fn run_values<C: Card>(
    v: &Values,
    frames: Option<&Arc<Frames>>,
    watch: &mut dyn Watch,
) -> Result<Measured> {
    let (setup, ghz) = (setup::<C>(v)?, v.number("cpu.frequency"));
    if v.word("traffic.kind") == fixed_rate::KIND {
        let load = Paced::within(v, C::mtu(&setup.card), "the MTU of the driver")?;
        return Ok(fixed_rate::measured(paced::<C>(&setup, &load, watch)?, &load, ghz));
    }
    let load = load::<C>(v, &setup, frames)?;
    let o = run::<C>(&setup, &load, watch)?;
    // Packets of an open loop are counted from the first to the last.
    let (what, of, latency, sent) = match load {
        Load::Closed(_) => (closed_loop::CARRIED, CountsOf::Window, closed_loop::ANSWERED, None),
        Load::Arrivals(_) => ("frames handed up", CountsOf::Window, arrivals::HANDED_UP, None),
        Load::Open(load) => ("packets sent", CountsOf::Run, SENT, load.sent()),
    };
    let rates = |s: &Counts, packets: f64| {
        let bus = match &s.bus_share[..] {
            [one] => vec![BUS_BUSY.is(*one)],
            all => {
                let of: &[Metric] =
                    if all.len() == AXI_BUSY.len() { &AXI_BUSY } else { &metrics::LINK };
                of.iter().zip(all).map(|(of, share)| of.is(*share)).collect()
            }
        };
        let whose = match setup.queues {
            1 => closed_loop::whose(s),
            n => format!("of the {n} cores, one for each queue"),
        };
        [closed_loop::rates(s, packets, (what, whose), vec![s.lost_share()]), bus].concat()
    };
    Ok(Measured { sent, ..o.measured(rates, of, latency, ghz) })
}

/// Runs as [`run_values`], with a log for the message of a run that fails.
fn run_own<C: Card>(
    v: &Values,
    frames: Option<&Arc<Frames>>,
    watch: &mut dyn Watch,
) -> Result<Measured> {
    run_values::<C>(v, frames, &mut Asking::log(watch))
}

/// Returns keys with the default 0: work that is counted, and costs nothing until a profile says
/// otherwise.
const fn free<const N: usize>(mut keys: [Key; N]) -> [Key; N] {
    let mut i = 0;
    while i < N {
        keys[i] = keys[i].default("0");
        i += 1;
    }
    keys
}

static CPU: [Key; 19] = {
    let mut keys = free(crate::e1000::settings::CPU);
    (keys[0], keys[18]) = (keys[0].default("1"), keys[18].default("1"));
    keys
};
static TCP: [Key; 8] = free(host::TCP);
static KIND: [Key; 1] = [Key::choice(
    "traffic.kind",
    &["pktgen", "pcap", fixed_rate::KIND, arrivals::KIND, "send", "receive", "transactions"],
    "the packet generator; a capture; frames at a fixed rate; frames that arrive in a pattern; TCP \
     in bulk, either way; TCP transactions that the machine serves",
)];

/// The keys of a driver's trials.
static OWN: [Key; 2] = [
    Key::choice(
        "run.order",
        &["auto", "program", "late", "overtaken", "random"],
        "order in which the driver's stores to shared memory are seen: that of the program; each \
         as late as its fences allow, at most 10 us; the first after a fence last; any, by the \
         seed; auto: program, or late for a driver in C that knows only pointers",
    )
    .default("auto"),
    Key::choice(
        "run.strict",
        &["on", "off"],
        "the audit fails where the driver breaks a rule of the manual that the model works without",
    )
    .default("off"),
];

static LINK: [Key; 2] = [
    Key::number("link.rate", "Gbit/s", 0.01, 1000.0, "rate of the link").default("1"),
    Key::ns("link.delay", "delay of the cable and what is behind it, one way").default("5000"),
];

/// The number of queues, and the traffic that is spread over them.
const CORES: &str = "run.cores";
pub(crate) const SPREAD_KINDS: [&str; 3] = ["pktgen", "pcap", arrivals::KIND];
const SPREAD: &[Needs] = &[Needs::kind(&SPREAD_KINDS)];

/// The declarations of a card's system.
trait Declared: Card {
    const PLATFORM_KEYS: &'static [&'static [Key]] = &[
        &CPU,
        &TCP,
        &slot::KIND,
        PciKeys::KEYS,
        &slot::PCIE,
        &slot::AXI,
        IommuKeys::KEYS,
        &LINK,
        Self::PLATFORM,
    ];
    const RUN_KEYS: &'static [&'static [Key]] = &[
        &KIND,
        closed_loop::Keys::KEYS,
        PlacementKeys::KEYS,
        &closed_loop::APPLICATION,
        arrivals::Keys::KEYS,
        open_loop::Keys::KEYS,
        Paced::KEYS,
        Self::QUEUE_KEYS,
        Self::RUN,
        &OWN,
        RUN,
    ];
    const QUEUE_KEYS: &'static [Key] = if Self::QUEUES > 1 {
        const ABOUT: &str = "number of queues, each on a core of its own; the frames of a capture \
                             are spread over them by flow";
        &[Key::whole(CORES, "cores", 1.0, Self::QUEUES as f64, ABOUT)
            .or(&["all"])
            .default("all")
            .when(SPREAD)]
    } else {
        &[]
    };
    const COUNTERS: &'static [(Party, &'static [Counter])] = &[
        (DRIVER, <Self::Stats as CounterSet>::DECLARED),
        (DEVICE, <Self::Counters as CounterSet>::DECLARED),
    ];
}

impl<C: Card> Declared for C {}

static RESOURCES: [Resource; 10] = [
    limits::CORES,
    slot::BUS,
    limits::LINK,
    limits::PORT,
    slot::LATENCY,
    Resource { name: "AXI bus", ..slot::AXI_BUS },
    slot::AXI_BURSTS,
    Resource { name: "AXI latency", ..slot::AXI_LATENCY },
    limits::NETWORK,
    Resource::of(
        "load",
        &[("traffic.rate", More), ("traffic.load", More), ("traffic.source_rate", More)],
    ),
];
static KNOBS: [Knob; 2] = [knobs::MPS, knobs::MRRS];

/// Returns the system of a card, for a [`Registry`](crate::registry::Registry) of your own. A
/// profile of it has to name the bus; all prices are 0 until it sets them.
pub const fn system<C: Card>(name: &'static str, about: &'static str) -> System {
    System {
        name,
        about,
        devices: &[],
        platform_keys: C::PLATFORM_KEYS,
        run_keys: C::RUN_KEYS,
        runner: run_own::<C>,
        transfer: slot::transfer,
        port_rate: "link.rate",
        knobs: &KNOBS,
        conditions: &[],
        resources: &RESOURCES,
        numbers: Numbers {
            buses: &[BusKind::Pci, BusKind::Pcix, BusKind::Pcie, BusKind::Axi, BusKind::Tce],
            rates: &[
                &metrics::BOTH_WAYS,
                &[metrics::LOST_SHARE, BUS_BUSY],
                &metrics::LINK,
                &AXI_BUSY,
            ],
            counters: C::COUNTERS,
            calls: &[],
            cache: false,
            losses: &[metrics::MISSED],
        },
        declared: OnceLock::new(),
        figures: &[],
    }
}

#[cfg(test)]
mod tests;
