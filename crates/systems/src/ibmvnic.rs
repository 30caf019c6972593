//! The ibmvnic system: a partition with a virtual NIC, the vNIC server behind it, and a run of it.
//!
//! ```text
//! application - ibmvnic driver -> hypervisor call -> [serial: hypervisor, server] -> wire -> peers
//! a core for each queue pair    the caller's CPU    one for all calls
//! ```
//!
//! The caller pays a call's price ([`super::papr`]). Behind it hypervisor and server work serially:
//! each call, descriptor, byte of headers and received frame. That work does not delay the caller,
//! but it limits the rate of transactions in the published runs. Loads are transactions with many
//! peers, and frames in bulk ([`traffic`]); frames that arrive ([`super::arrivals`]), and frames at
//! a fixed rate ([`super::fixed_rate`]).

mod audit;
mod figures;
mod queue;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod traffic;

pub use traffic::Load;

use crate::arrivals::{self, Load as Arrivals, Places};
use crate::audit::CrossCheck;
use crate::fixed_rate::Load as Paced;
use crate::host::HostConfig;
use crate::key::Values;
use crate::knobs::{self, Condition, Knob};
use crate::limits::Wider::{Less, More};
use crate::limits::{self, Resource};
use crate::metrics::{self, CPU_BUSY, DEVICE, DRIVER, Metric, Numbers, PACKETS, PAYLOAD};
use crate::papr::{self, Papr};
use crate::result::{CountsOf, Measured, Sampled};
use crate::run;
use crate::system::{self, StackKeys, System};
use crate::{Counted, Counts, Experiment, OpenQueue, Points, Probe, Result, RunError, SLICE};
use crate::{fixed_rate, open_loop};
use doorbell_bus::{HypervisorDevice, Machine};
use doorbell_devices::vnic::{self, Config as Nic, VnicServer};
use doorbell_drivers::ibmvnic::{Config as DriverConfig, Ibmvnic, QueueStats, Stats};
use doorbell_drivers::{Driver, Poll};
use doorbell_hal::{Host, Span, Unit};
use doorbell_layout::ibmvnic::{CALLS, hcall};
use doorbell_sim::link::{Peer, Tell, Wired};
use doorbell_sim::traffic::{Frames, arrivals::Meter};
use doorbell_sim::{Watch, histogram::Histogram, napi::NapiContext, scheduler::Interrupt};
use queue::Queue;
use settings::{CALL_KEYS, CPU, DriverKeys, NicKeys, SerialKeys, TrafficKeys};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use traffic::{RequestClients, Server};

/// A virtual NIC under PowerVM.
pub(crate) static SYSTEM: System = System {
    name: "ibmvnic",
    about: "IBM virtual NIC: a descriptor in registers or an array with headers, and the checksum \
        that buys the former",
    devices: &["vnic"],
    platform_keys: &[&CPU, papr::Keys::KEYS, &CALL_KEYS, SerialKeys::KEYS, NicKeys::KEYS],
    run_keys: &[
        TrafficKeys::KEYS,
        arrivals::Keys::KEYS,
        &open_loop::ARRIVING,
        Paced::KEYS,
        DriverKeys::KEYS,
        StackKeys::KEYS,
        system::RUN,
    ],
    runner: run_values,
    transfer: |_, _, _, _| Err("a virtual NIC has no bus: the hypervisor copies".into()),
    port_rate: "link.rate",
    knobs: &[
        Knob::new(
            "driver.direct",
            &["inspect", "never", "adaptive"],
            "inspect: Linux 6.12 and later; never: before; here {}",
        ),
        Knob::new(
            "driver.replenish",
            &["below_half", "each_poll"],
            "below_half: Linux 6.12 and later; each_poll: before; here {}",
        ),
        Knob::new("driver.queues", &["1", "2", "4", "8", "16"], "ethtool -L $NIC rx {} tx {}"),
        Knob::new("driver.tx_entries", &["64", "256", "1024"], "ethtool -G $NIC tx {}"),
        Knob::new("driver.rx_entries", &["64", "256", "1024", "4096"], "ethtool -G $NIC rx {}"),
        knobs::CHECKSUM,
    ],
    conditions: &[Condition {
        key: "traffic.response",
        values: &["60", "256", "1514", "4096", "9014"],
    }],
    resources: &[
        Resource { name: "cores", shares: &["cpu_busy_share"], keys: &[("cpu.frequency", More)] },
        Resource::of(
            "hypervisor calls",
            &[
                ("hypervisor.call", Less),
                ("hypervisor.copy", Less),
                ("hcall.send_sub_crq", Less),
                ("hcall.send_sub_crq_indirect", Less),
                ("hcall.indirect_descriptor", Less),
                ("hcall.vioctl", Less),
                ("tce.put", Less),
                ("tce.put_indirect", Less),
                ("tce.stuff", Less),
                ("tce.entry", Less),
            ],
        ),
        Resource::of(
            "serial work",
            &[
                ("serial.direct", Less),
                ("serial.indirect", Less),
                ("serial.descriptor", Less),
                ("serial.header_byte", Less),
                ("serial.receive", Less),
            ],
        ),
        Resource::of("completion wait", &[("nic.completion_wait", Less)]),
        limits::PORT,
        Resource::of("queues", &[("driver.tx_entries", More), ("driver.rx_entries", More)]),
        limits::NETWORK,
        Resource::of(
            "load",
            &[
                ("traffic.peers", More),
                ("traffic.window", More),
                ("traffic.load", More),
                ("paced.every", Less),
            ],
        ),
    ],
    numbers: Numbers {
        buses: &[],
        rates: &[
            &metrics::BOTH_WAYS,
            &[metrics::LOST_SHARE, metrics::LOST_RING],
            &[DIRECT, ARRAYS, SUMMED, RECEIVED, TRANSMIT, BREAK_EVEN],
        ],
        counters: &[
            (DRIVER, QueueStats::DECLARED),
            (DRIVER, Stats::DECLARED),
            (DEVICE, vnic::Counters::DECLARED),
        ],
        calls: &CALLS,
        cache: false,
        losses: &[metrics::no_buffer("device_rx_no_buffer")],
    },
    declared: OnceLock::new(),
    figures: &[&figures::FIGURES],
};

const DIRECT: Metric =
    Metric::rate("direct_share", Unit::Share, "packets sent in registers, of those sent");
const ARRAYS: Metric =
    Metric::rate("indirect_call_share", Unit::Share, "arrays of packets, of the packets sent");
const SUMMED: Metric = Metric::rate(
    "software_checksum_share",
    Unit::Share,
    "packets with a checksum by the driver, of those sent",
);
const RECEIVED: Metric = Metric::rate(
    "received_per_replenish",
    Unit::Count,
    "frames received for each array of buffers",
);
const TRANSMIT: Metric =
    Metric::rate("transmit_us", Unit::Microseconds, "time in the driver's transmit, each packet");
const BREAK_EVEN: Metric = Metric::rate(
    "break_even_bytes",
    Unit::Bytes,
    "adaptive: bytes up to which a checksum is made; -1: none",
);

/// The inputs of a run, except its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Host and link.
    pub host: HostConfig,
    /// An application's time for a transaction, besides copying.
    pub application: Span,
    /// Prices of calls and translation.
    pub papr: Papr,
    /// The adapter, its servers, and their serial work.
    pub nic: Nic,
    /// The driver; a core for each of its queue pairs.
    pub driver: DriverConfig,
}

/// Totals that only this system has.
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    /// Time in the driver's transmit in the measured time, over all queues.
    pub transmit: Span,
    /// The callers' time in H_SEND_SUB_CRQ_INDIRECT in the measured time.
    pub indirect: Span,
    /// With `adaptive`, the largest size at the end for which a checksum pays, in bytes.
    pub break_even: Option<u32>,
}

/// Statistics of a run.
pub type RunStats = run::RunStats<Totals>;

/// A machine of this system, on a link to `Pr`.
type Partition<Pr> = papr::Hosted<HypervisorDevice<VnicServer>, Pr>;

/// The longest time that a frame is in flight.
const REST: Span = Span::from_ms(50);
/// Times of it that cores get to end their work.
const LATE: u64 = 20;
/// Time without an answer after which a peer repeats a request, in runs that may lose frames.
const PATIENCE: Span = Span::from_ms(10);

/// Returns the bytes of a queue pair's long-term buffers and rings.
fn rings(d: &DriverConfig) -> usize {
    let slot = (d.mtu as usize + 700).next_multiple_of(256);
    (d.tx_entries + d.rx_entries) as usize * slot + d.tso_buffers as usize * 65_536 + (256 << 10)
}

/// Returns the memory of the partition in bytes: long-term buffers, rings, and frames in flight.
fn memory(setup: &Setup, load: &Load) -> usize {
    let d = &setup.driver;
    let t = &load.traffic;
    let frame = (t.request.max(t.response).max(t.other) as usize + 128).next_power_of_two();
    let flying = usize::from(t.peers) * 4
        + d.queues as usize * (t.window as usize + d.rx_entries as usize + 64);
    // Areas are rounded up to powers of two.
    2 * d.queues as usize * rings(d) + flying * frame + (8 << 20)
}

/// Returns the memory of the partition for frames that arrive.
fn memory_of_arrivals(setup: &Setup) -> usize {
    let d = &setup.driver;
    // Those of a poll are copied out of their long-term buffers.
    let frame = (d.mtu as usize + 128).next_power_of_two();
    2 * d.queues as usize * (rings(d) + 64 * frame) + (8 << 20)
}

type SharedNic = Rc<RefCell<Ibmvnic>>;

/// Builds a machine on a link to `peer`, with its driver open: a core for each queue pair.
fn machine<Pr: Peer>(
    setup: &Setup,
    driver: &DriverConfig,
    peer: Pr,
    memory: usize,
) -> Result<(Partition<Pr>, SharedNic, Vec<OpenQueue<Queue>>)> {
    let (host, queues) = (&setup.host, driver.queues as usize);
    let device = HypervisorDevice(VnicServer::new(setup.nic, 1));
    let partitions = setup.papr.partitions(&[memory], vec![0; queues], host.guard)?;
    let (partitions, device) = Wired::new(partitions, device, peer, host.link());
    let mut m = Machine::new(partitions, device, host.costs, queues);
    let nic = Ibmvnic::open(&mut m, driver)?;
    let granted = nic.negotiated().tx_queues.min(nic.negotiated().rx_queues) as usize;
    if granted < queues {
        let what = format!("the server grants {granted} queues of {queues}");
        return Err(RunError::Input(what.into()));
    }
    let (nic, opened) = (Rc::new(RefCell::new(nic)), m.now());
    let queue = |q: usize| {
        m.enter(q);
        m.idle_until(opened);
        let control = (q == 0).then_some(driver.crq_vector);
        let vectors = control.into_iter().chain(nic.borrow().vectors(q));
        let lines = vectors.map(Interrupt::Message).collect();
        let driver = Queue { nic: Rc::clone(&nic), number: q, spent: Span::ZERO };
        OpenQueue { driver, lines, cores: [q, q] }
    };
    let open = (0..queues).map(queue).collect();
    Ok((m, nic, open))
}

fn counters<Pr>(nic: &Ibmvnic, m: &Partition<Pr>) -> Counted {
    [
        nic.totals().entries().chain(nic.stats().entries()).collect(),
        m.device.device.0.counters.entries().collect(),
        papr::made(&m.bus, &CALLS),
    ]
}

fn look<Pr, E>(m: &Partition<Pr>, s: &[NapiContext<Queue, E>]) -> Counted {
    counters(&s[0].driver.nic.borrow(), m)
}

/// Closes the driver, which no queue holds any more.
fn close_nic<Pr: Peer>(m: &mut Partition<Pr>, nic: SharedNic) -> (Stats, QueueStats) {
    let Some(nic) = Rc::into_inner(nic) else { unreachable!("all queues are gone") };
    let counts = nic.into_inner().close(m);
    m.flush_posted();
    counts
}

/// A machine whose peers make requests.
type Asked = Partition<RequestClients>;

/// Counts the peers' frames, and the time in calls.
struct Answered {
    nic: Rc<RefCell<Ibmvnic>>,
    /// Time in transmit and in indirect calls, for each snapshot.
    spent: Vec<(Span, Span)>,
}

type Queues = NapiContext<Queue, Server>;

impl Probe<Asked, Queues> for Answered {
    fn done(&self, m: &Asked, _: &[Queues]) -> (u64, u64) {
        (m.device.peer.frames, m.device.peer.bytes)
    }
    fn counters(&self, m: &Asked, _: &[Queues]) -> Counted {
        counters(&self.nic.borrow(), m)
    }
    fn series(&mut self, rates: [f64; 2], _: &Asked, _: &mut [Queues]) -> Points {
        let bytes = self.nic.borrow().break_even().map_or(-1.0, f64::from);
        vec![("packets_per_s", rates[0]), ("break_even_bytes", bytes)]
    }
    fn take_latency(&mut self, m: &mut Asked, _: &mut [Queues]) -> Histogram {
        std::mem::take(&mut m.device.peer.latency)
    }
    fn snapped(&mut self, m: &mut Asked, stations: &mut [Queues]) {
        let transmit = stations.iter().fold(Span::ZERO, |sum, s| sum + s.driver.spent);
        self.spent.push((transmit, papr::spent(&m.bus, hcall::SEND_SUB_CRQ_INDIRECT)));
    }
}

/// Runs `load` on `setup` to its end.
///
/// # Errors
/// The run cannot be set up, or is stuck. A failed audit is no error; it is in the statistics.
pub fn run(setup: &Setup, load: &Load, watch: &mut dyn Watch) -> Result<RunStats> {
    let (host, queues) = (&setup.host, setup.driver.queues as usize);
    let peer = RequestClients::new(load, setup.driver.mac);
    let memory = memory(setup, load);
    let _room = host.room(memory);
    let (mut m, nic, open) = machine(setup, &setup.driver, peer, memory)?;
    let begin = m.now();
    let end = |q| Server::new(load, setup.driver.mac, setup.application, q);
    let stations = open.into_iter().enumerate().map(|(q, open)| open.under(end(q))).collect();
    let mut x = Experiment::new(&mut m, stations, queues, host.softirq, &host.faults, watch);
    x.may_idle = true;
    x.begin(|d, at, up| d.0.set_link(0, at, up));
    if !host.faults.is_empty() {
        x.m.device.peer.insist(PATIENCE);
    }
    x.m.outside(|device, _, at| device.peer.start(at));
    let mut probe = Answered { nic: Rc::clone(&nic), spent: Vec::new() };
    let (mut o, mut at) =
        x.measure(begin, (load.traffic.warmup, load.traffic.duration), &mut probe)?;
    let spent = probe.spent;
    drop(probe.nic);
    x.m.device.peer.stopping = true;
    for s in &mut x.stations {
        s.endpoint.stop();
    }
    // Frames in flight end, and those held back are sent. With faults a peer may repeat for ever a
    // request that nobody answers any more.
    let patient = host.faults.is_empty();
    let (rest, last) = (at + REST, at + REST * LATE);
    while at < rest || patient && at < last && x.is_under_way(at) {
        at += SLICE;
        for (q, s) in x.stations.iter_mut().enumerate() {
            x.m.enter(q);
            s.send(x.m);
        }
        x.slice(at)?;
    }
    if patient && at >= last && x.is_under_way(at) {
        let late = REST * LATE;
        o.verdict.unfinished = vec![format!("frames are under way {late} after the last request")];
    }
    o.faults = x.end();
    let stations = x.stations;
    let less = |a: Span, b: Span| Span::from_ps(b.ps() - a.ps());
    let mut o = o.with(Totals {
        transmit: less(spent[0].0, spent[1].0),
        indirect: less(spent[0].1, spent[1].1),
        break_even: nic.borrow().break_even(),
    });
    o.verdict.take(close(m, stations, nic, setup.driver.checksum, &o));
    Ok(o)
}

/// Runs frames at a fixed rate over one queue pair, so that no other queue's interrupts are
/// counted.
fn fixed_rate(setup: &Setup, load: &Paced, watch: &mut dyn Watch) -> Result<run::RunStats> {
    let d = &DriverConfig { queues: 1, ..setup.driver };
    let memory = 2 * rings(d) + load.memory() + (8 << 20);
    let _room = setup.host.room(memory);
    let peer = fixed_rate::Peer::new(load, d.mac);
    let (mut m, nic, mut open) = machine(setup, d, peer, memory)?;
    let (queue, ways) = (open.remove(0), (look, fixed_rate::by_interrupt));
    let rules = &setup.host.softirq;
    let (mut o, queue) = fixed_rate::run(&mut m, queue, (load, d.mac), ways, rules, watch)?;
    drop(queue);
    close_nic(&mut m, nic);
    o.verdict.take(papr::audit(&m.bus, None));
    Ok(o)
}

/// Runs frames that arrive, spread over the queue pairs by the server.
fn received(setup: &Setup, load: &Arrivals, watch: &mut dyn Watch) -> Result<run::RunStats> {
    let (d, host) = (&setup.driver, &setup.host);
    let memory = memory_of_arrivals(setup);
    let _room = host.room(memory);
    let (mut m, nic, open) = machine(setup, d, load.source(d.mac), memory)?;
    let meter = || Meter::that_drops(host.link_rate, host.link_delay);
    let tell: Tell<HypervisorDevice<VnicServer>> = |d, at, up| d.0.set_link(0, at, up);
    let of = (load, host);
    let (mut o, queues) = arrivals::run(&mut m, open, meter, of, (tell, look), |_| vec![], watch)?;
    drop(queues);
    if o.faults.is_some() {
        // Entries that are late.
        m.flush_posted();
    }
    let (stats, queues) = close_nic(&mut m, nic);
    let mut b = CrossCheck::of(&o);
    audit::nic(&mut b, &m, (&stats, &queues), o.faults.as_ref());
    o.verdict.take(b);
    Ok(o)
}

/// The place at which the server loses frames that arrive: the queue has no buffer.
const PLACES: Places =
    Places { came: &["rx_offered"], lost: &[(metrics::LOST_RING, "rx_no_buffer")] };

/// Closes and releases everything. Compares the counts. `verified`: the driver asks for the
/// server's word on checksums.
fn close(
    mut m: Asked,
    stations: Vec<NapiContext<Queue, Server>>,
    nic: Rc<RefCell<Ibmvnic>>,
    verified: bool,
    o: &RunStats,
) -> CrossCheck {
    let faults = o.faults;
    let mut above = audit::UpperLayer::default();
    let now = m.now();
    m.enter(0);
    m.idle_until(now);
    if faults.is_some() {
        // Entries that are late.
        m.flush_posted();
    }
    for mut s in stations {
        // Frames whose interrupt was lost.
        while faults.is_some() && s.driver.poll(&mut m, 64, &mut s.endpoint) == Poll::Again {}
        let rest: Vec<_> = s.drain_queue().collect();
        above.waiting += rest.len() as u64;
        rest.into_iter().for_each(|p| p.release(&mut m));
        above.dropped += s.endpoint.dropped;
        above.unverified += if verified { s.endpoint.unverified } else { 0 };
        above.exhausted += s.endpoint.exhausted;
        above.waiting += s.endpoint.release(&mut m);
    }
    let (stats, queues) = close_nic(&mut m, nic);
    audit::audit(&m, &above, (&stats, &queues), o)
}

fn run_values(v: &Values, frames: Option<&Arc<Frames>>, watch: &mut dyn Watch) -> Result<Measured> {
    let setup = settings::setup(v);
    let ghz = v.number("cpu.frequency");
    match v.word("traffic.kind") {
        fixed_rate::KIND => {
            let load = Paced::within(v, setup.driver.mtu, "driver.mtu")?;
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
    let transmit = o.totals.transmit.as_ns_f64() * 1e-3;
    let break_even = o.totals.break_even.map_or(-1.0, f64::from);
    let rates = |c: &Counts, packets: f64| {
        let share = |name, of: &str| match c.counter(0, of) {
            0 => 0.0,
            n => c.counter(0, name) as f64 / n as f64,
        };
        let of_sent = |name| share(name, "tx_packets");
        let received = share("rx_packets", "rx_add_arrays");
        let transmit = transmit / c.counter(0, "tx_packets").max(1) as f64;
        let whose = match c.busy.len() {
            0..=1 => "of its one core".to_owned(),
            n => format!("of the {n} cores, one for each queue"),
        };
        let payload = c.by_time(8.0 * c.payload as f64);
        let even = "adaptive: bytes up to which a checksum is made, at the end; -1: none";
        [
            vec![
                PACKETS.is(packets).about("transactions, or frames sent"),
                PAYLOAD.is(payload).about("frames sent"),
            ],
            c.wire_rates(),
            vec![
                DIRECT.is(of_sent("tx_direct")).about("of the packets sent"),
                ARRAYS.is(of_sent("tx_arrays")),
                SUMMED.is(of_sent("tx_csum_direct")).about("of the packets sent"),
                RECEIVED.is(received),
                TRANSMIT
                    .is(transmit)
                    .about("in the driver's transmit, each packet")
                    .sampled(Sampled::Once),
                BREAK_EVEN.is(break_even).about(even).sampled(Sampled::Once),
            ],
            c.event_rates(c.seconds()),
            vec![CPU_BUSY.is(c.all_busy_share()).about(whose)],
        ]
        .concat()
    };
    Ok(o.measured(rates, CountsOf::Window, "from request to response", ghz))
}
