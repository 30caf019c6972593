//! The ibmvnic system: a partition with a virtual NIC, the vNIC server behind it, and a run of it.
//!
//! ```text
//! application - ibmvnic driver -> hypervisor call -> [time line: hypervisor, server] -> wire -> peers
//! a core for each queue pair      the caller's CPU     one for all calls
//! ```
//!
//! A call costs its caller what the profile says of its kind ([`crate::papr`]). Behind it
//! hypervisor and server work one thing after another: each call, each descriptor, each byte of
//! headers, each frame received. The caller does not wait for that, but it is what limits the rate
//! of transactions in the published runs: there the time in `ibmvnic_xmit` stays, and
//! the rate rises by a third.
//!
//! The loads are transactions with many peers, and frames in bulk ([`traffic`]).

mod audit;
mod figures;
mod queue;
mod rig;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod traffic;

pub use figures::Figures;
pub use rig::RIG;
pub use traffic::{Kind, Load};

use crate::clock::Interrupt;
use crate::clock::link::{Wired, on_wire};
use crate::clock::napi::{Cpu, Rules as Softirq, Station, run_until};
use crate::closed::{self, Entries};
use crate::fault;
use crate::histogram::Histogram;
use crate::open::Ended;
use crate::paced;
use crate::papr::{self, Call, Papr};
use crate::result::{Failure, Series, WorkTotals, work_of};
use crate::watch::Watch;
use crate::window::{Marks, Window};
use doorbell_bus::{Bus, Costs, HypervisorDevice, Ledger, Machine, ProtectionGranularity};
use doorbell_devices::vnic::{Config as Nic, VnicServer};
use doorbell_drivers::ibmvnic::{Config as DriverConfig, Ibmvnic, OpenError, QueueStats, Stats};
use doorbell_drivers::{Driver, Poll};
use doorbell_hal::{Host, Span, Time};
use doorbell_layout::ibmvnic::{MAX_INDIRECT, hcall};
use queue::Queue;
use std::cell::RefCell;
use std::rc::Rc;
use traffic::{Askers, Server};

const fn call(number: u64, name: &'static str, key: &'static str) -> Call {
    Call { number, name, key, serial: "", each: None }
}

/// The call that takes an array, with the argument that says of how many descriptors.
const INDIRECT: Call = Call {
    each: Some((3, MAX_INDIRECT, "hcall.indirect_descriptor")),
    ..call(
        hcall::SEND_SUB_CRQ_INDIRECT,
        "hcall_send_sub_crq_indirect",
        "hcall.send_sub_crq_indirect",
    )
};

/// The calls of the driver.
static CALLS: [Call; 11] = [
    call(hcall::SEND_SUB_CRQ, "hcall_send_sub_crq", "hcall.send_sub_crq"),
    INDIRECT,
    call(hcall::VIOCTL, "hcall_vioctl", "hcall.vioctl"),
    call(hcall::SEND_CRQ, "hcall_send_crq", ""),
    call(hcall::VIO_SIGNAL, "hcall_vio_signal", ""),
    call(hcall::REG_CRQ, "hcall_reg_crq", ""),
    call(hcall::FREE_CRQ, "hcall_free_crq", ""),
    call(hcall::ENABLE_CRQ, "hcall_enable_crq", ""),
    call(hcall::REG_SUB_CRQ, "hcall_reg_sub_crq", ""),
    call(hcall::FREE_SUB_CRQ, "hcall_free_sub_crq", ""),
    call(hcall::EOI, "hcall_eoi", ""),
];

/// Everything that a run is a function of, but its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// What the CPU charges for the driver's work.
    pub costs: Costs,
    /// And for what an application does, besides copying.
    pub application: Span,
    /// How softirq is scheduled.
    pub softirq: Softirq,
    /// What calls and translation cost.
    pub papr: Papr,
    /// How exactly accesses to memory are checked.
    pub guard: ProtectionGranularity,
    /// The adapter, its servers, and what they do one after another.
    pub nic: Nic,
    /// The driver; a core for each of its queue pairs.
    pub driver: DriverConfig,
    /// Bits a second of the link.
    pub link_rate: u64,
    /// Its delay, one way.
    pub link_delay: Span,
    /// What goes wrong.
    pub faults: fault::Plan,
}

/// The asker's to mend: an adapter that does not take its settings.
fn refused(e: OpenError) -> Failure {
    Failure::Input(match e {
        OpenError::Setting(what) => format!("the driver does not take this: {what}"),
        OpenError::OutOfMemory => {
            "the partition's memory, its translation table or its map ids do not hold it".to_owned()
        }
        e => format!("the adapter could not be opened: {e:?}"),
    })
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Transactions, or frames.
    pub packets: u64,
    /// The time they took.
    pub elapsed: Span,
    /// The same time, and how sure the rate in it is.
    pub window: Window,
    /// Bytes of frames that were sent.
    pub payload: u64,
    /// Bytes on the wire, from the machine and to it, with preamble, FCS and gap.
    pub wire: (u64, u64),
    /// Every crossing in that time.
    pub ledger: Ledger,
    /// The driver's work in that time.
    pub work: WorkTotals,
    /// Waiting for fences and mappings in that time.
    pub stalled: Span,
    /// Time that each core was busy.
    pub busy: Vec<Span>,
    /// Time in the driver's transmit, all queues.
    pub transmit: Span,
    /// The callers' time in H_SEND_SUB_CRQ_INDIRECT.
    pub indirect: Span,
    /// Counters in that time: of the driver; of the device, with the calls made.
    pub counters: [Entries; 2],
    /// Interrupts taken.
    pub interrupts: u64,
    /// Polls made.
    pub polls: u64,
    /// With `adaptive`, the bytes up to which a checksum is worth it, at the end.
    pub break_even: Option<u32>,
    /// From request to response.
    pub latency: Histogram,
    /// What changed over the run.
    pub series: Vec<Series>,
    /// What went wrong, if it was asked to.
    pub faults: Option<fault::Report>,
    /// What does not add up; empty when all does.
    pub audit: Vec<String>,
}

impl Outcome {
    /// A counter of the measured time: 0 the driver's, 1 the device's.
    pub fn counted(&self, of: usize, name: &str) -> u64 {
        self.counters[of].iter().find(|c| c.0 == name).map_or(0, |c| c.1)
    }
    /// Transactions or frames a second.
    pub fn rate(&self) -> f64 {
        self.packets as f64 / self.elapsed.as_secs_f64().max(1e-12)
    }
}

type Partition = papr::Hosted<HypervisorDevice<VnicServer>, Askers>;

/// One look at a run, and how long what is under way takes at the most.
const SLICE: Span = Span::from_ms(1);
const REST: Span = Span::from_ms(50);
/// Where something may be lost, a peer asks again after so long without an answer.
const PATIENCE: Span = Span::from_ms(10);

/// Counts at an instant.
struct Mark {
    at: Time,
    frames: u64,
    bytes: u64,
    wire: [(u64, u64); 2],
    ledger: Ledger,
    work: WorkTotals,
    stalled: Span,
    busy: Vec<Span>,
    transmit: Span,
    indirect: Span,
    counters: [Entries; 2],
    interrupts: u64,
    polls: u64,
}

/// Memory of the partition: long-term buffers, rings, and frames under way.
pub(super) fn memory(setup: &Setup, load: &Load) -> usize {
    let d = &setup.driver;
    let slot = (d.mtu as usize + 700).next_multiple_of(256);
    let queue = (d.tx_entries + d.rx_entries) as usize * slot
        + d.tso_buffers as usize * 65_536
        + (256 << 10);
    let frame =
        (load.request.max(load.response).max(load.other) as usize + 128).next_power_of_two();
    let flying = usize::from(load.peers) * 4
        + d.queues as usize * (load.window as usize + d.rx_entries as usize + 64);
    // Areas are rounded up to powers of two.
    2 * d.queues as usize * queue + flying * frame + (8 << 20)
}

/// Runs `load` on `setup` to its end.
///
/// # Errors
/// When it cannot be set up or gets stuck. A run whose audit fails is not an error here: the
/// outcome says so.
pub fn run(setup: &Setup, load: &Load, watch: &mut dyn Watch) -> Result<Outcome, Failure> {
    let queues = setup.driver.queues as usize;
    let device = HypervisorDevice(VnicServer::new(setup.nic, 1));
    let partitions = setup.papr.partitions(&[memory(setup, load)], vec![0; queues], setup.guard);
    let link = (setup.link_rate, setup.link_delay);
    let (partitions, device) =
        Wired::new(partitions, device, Askers::new(load, setup.driver.mac), link);
    let mut m: Partition = Machine::new(partitions, device, setup.costs, queues);
    let nic = Rc::new(RefCell::new(Ibmvnic::open(&mut m, &setup.driver).map_err(refused)?));
    let begin = m.now();
    let granted =
        nic.borrow().negotiated().tx_queues.min(nic.borrow().negotiated().rx_queues) as usize;
    if granted < queues {
        return Err(Failure::Input(format!("the server grants {granted} queues of {queues}")));
    }
    let mut stations: Vec<Station<Queue, Server>> = (0..queues)
        .map(|q| {
            m.enter(q);
            m.idle_until(begin);
            let control = (q == 0).then_some(setup.driver.crq_vector);
            let vectors = control.into_iter().chain(nic.borrow().vectors(q));
            let lines: Vec<Interrupt> = vectors.map(Interrupt::Message).collect();
            let driver = Queue { nic: Rc::clone(&nic), number: q, spent: Span::ZERO };
            Station::new(
                driver,
                Server::new(load, setup.driver.mac, setup.application, q),
                lines,
                q,
                q,
            )
        })
        .collect();
    let mut cpus: Vec<Cpu> = (0..queues).map(|_| Cpu::default()).collect();
    m.device.capture = watch.wants_frames().then(Vec::new);
    crate::trace::begin_wired(&mut m, watch);
    setup.faults.begin_wired(&mut m, |d, at, up| d.0.set_link(0, at, up));
    if !setup.faults.is_empty() {
        m.device.peer.insist(PATIENCE);
    }
    m.outside(|device, _, at| device.peer.start(at));
    let ends = [begin + load.warmup, begin + load.warmup + load.duration];
    let mut at = begin;
    let mut marks = Vec::with_capacity(2);
    let mut series =
        ["packets_per_s", "break_even_bytes"].map(|name| Series { name, points: Vec::new() });
    let mut before = 0;
    let mut looks = Marks::new();
    while marks.len() < 2 {
        let goal = ends[marks.len()];
        let until = goal.min(at + SLICE);
        run_until(&mut m, &mut cpus, &mut stations, &setup.softirq, until)?;
        m.device.drain_capture(|at, f| watch.frame(at, f)).map_err(Failure::Run)?;
        let (ms, seconds) =
            (until.since(begin).ps() as f64 / 1e9, until.since(at).as_secs_f64().max(1e-12));
        series[0].points.push((ms, (m.device.peer.frames - before) as f64 / seconds));
        series[1].points.push((ms, nic.borrow().break_even().map_or(-1.0, f64::from)));
        before = m.device.peer.frames;
        at = until;
        if !watch.progress(at.since(begin).ps(), ends[1].since(begin).ps()) {
            return Err(Ended::Stopped.into());
        }
        if at == goal {
            marks.push(mark(&m, &cpus, &stations, &nic.borrow(), at));
            if marks.len() == 1 {
                // What came before is not of the measured time.
                m.device.peer.latency = Histogram::default();
            }
        }
        if !marks.is_empty() {
            looks.push((at, before));
        }
    }
    let latency = m.device.peer.latency.clone();
    m.device.peer.stopping = true;
    for s in &mut stations {
        s.endpoint.stop();
    }
    // What is under way ends, and what was held back goes.
    let last = at + REST;
    while at < last {
        at += SLICE;
        for (q, s) in stations.iter_mut().enumerate() {
            m.enter(q);
            s.send(&mut m);
        }
        run_until(&mut m, &mut cpus, &mut stations, &setup.softirq, at)?;
        m.device.drain_capture(|at, f| watch.frame(at, f)).map_err(Failure::Run)?;
    }
    crate::trace::end_wired(&mut m, watch);
    let faults = setup.faults.end_wired(&mut m, closed::alarms(&stations));
    let [a, b] = &marks[..] else { unreachable!("two marks were made") };
    let less = |a: Span, b: Span| Span::from_ps(b.ps() - a.ps());
    let wire = |i: usize| on_wire((b.wire[i].0 - a.wire[i].0, b.wire[i].1 - a.wire[i].1));
    let mut o = Outcome {
        packets: b.frames - a.frames,
        elapsed: b.at.since(a.at),
        window: Window::given(begin, &looks, load.warmup > Span::ZERO),
        payload: b.bytes - a.bytes,
        wire: (wire(0), wire(1)),
        ledger: b.ledger.since(&a.ledger),
        work: closed::differences(&a.work, &b.work),
        stalled: less(a.stalled, b.stalled),
        busy: a.busy.iter().zip(&b.busy).map(|(a, b)| less(*a, *b)).collect(),
        transmit: less(a.transmit, b.transmit),
        indirect: less(a.indirect, b.indirect),
        counters: closed::counted(&a.counters, &b.counters),
        interrupts: b.interrupts - a.interrupts,
        polls: b.polls - a.polls,
        break_even: nic.borrow().break_even(),
        latency,
        series: series.into(),
        faults,
        audit: Vec::new(),
    };
    o.audit = close(m, stations, nic, faults);
    Ok(o)
}

/// Runs frames at a pace over one queue pair: counts, and none of the other queues' interrupts
/// among them.
///
/// # Errors
/// As [`run`].
pub fn at_a_pace(
    setup: &Setup,
    load: &paced::Load,
    watch: &mut dyn Watch,
) -> Result<paced::Seen, Failure> {
    let driver = DriverConfig { queues: 1, ..setup.driver };
    let d = &driver;
    let slot = (d.mtu as usize + 700).next_multiple_of(256);
    let rings = (d.tx_entries + d.rx_entries) as usize * slot
        + d.tso_buffers as usize * 65_536
        + (256 << 10);
    let memory = 2 * rings + load.memory() + (8 << 20);
    let device = HypervisorDevice(VnicServer::new(setup.nic, 1));
    let partitions = setup.papr.partitions(&[memory], vec![0], setup.guard);
    let link = (setup.link_rate, setup.link_delay);
    let (partitions, device) = Wired::new(partitions, device, paced::Peer::new(load, d.mac), link);
    let mut m: papr::Hosted<HypervisorDevice<VnicServer>, paced::Peer> =
        Machine::new(partitions, device, setup.costs, 1);
    let nic = Rc::new(RefCell::new(Ibmvnic::open(&mut m, d).map_err(refused)?));
    let lines =
        [d.crq_vector].into_iter().chain(nic.borrow().vectors(0)).map(Interrupt::Message).collect();
    let driven = paced::Driven {
        driver: Queue { nic, number: 0, spent: Span::ZERO },
        mac: d.mac,
        lines,
        look: |q: &Queue, m: &papr::Hosted<HypervisorDevice<VnicServer>, paced::Peer>| {
            let nic = q.nic.borrow();
            let calls = papr::made(&m.bus, &CALLS);
            [
                nic.totals().entries().chain(nic.stats().entries()).collect(),
                m.device.device.0.counters.entries().chain(calls).collect(),
            ]
        },
        reclaim: |_: &mut Queue,
                  _: &mut papr::Hosted<HypervisorDevice<VnicServer>, paced::Peer>,
                  _: &mut paced::Above| {},
    };
    let (mut seen, queue) = paced::run(&mut m, driven, load, &setup.softirq, watch)?;
    let Some(nic) = Rc::into_inner(queue.nic) else {
        unreachable!("the queue was its only holder")
    };
    nic.into_inner().close(&mut m);
    m.flush_posted();
    seen.wrong.extend(papr::audit(&m.bus, None));
    Ok(seen)
}

fn mark(
    m: &Partition,
    cpus: &[Cpu],
    stations: &[Station<Queue, Server>],
    nic: &Ibmvnic,
    at: Time,
) -> Mark {
    let driver = nic.totals().entries().chain(nic.stats().entries()).collect();
    let calls = papr::made(&m.bus, &CALLS);
    let device = m.device.device.0.counters.entries().chain(calls).collect();
    Mark {
        at,
        frames: m.device.peer.frames,
        bytes: m.device.peer.bytes,
        wire: [m.device.out.borrow().landed, m.device.back.landed],
        ledger: m.bus.ledger(),
        work: work_of(m),
        stalled: m.stalled(),
        busy: cpus.iter().map(|c| c.busy.total()).collect(),
        transmit: stations.iter().fold(Span::ZERO, |sum, s| sum + s.driver.spent),
        indirect: papr::spent(&m.bus, &INDIRECT),
        counters: [driver, device],
        interrupts: stations.iter().map(|s| s.interrupts).sum(),
        polls: stations.iter().map(|s| s.polls).sum(),
    }
}

/// Closes and releases everything; what does not add up.
fn close(
    mut m: Partition,
    stations: Vec<Station<Queue, Server>>,
    nic: Rc<RefCell<Ibmvnic>>,
    faults: Option<fault::Report>,
) -> Vec<String> {
    let mut above = audit::Above::default();
    let now = m.now();
    m.enter(0);
    m.idle_until(now);
    for mut s in stations {
        // What came with an interrupt that was lost.
        while faults.is_some() && s.driver.poll(&mut m, 64, &mut s.endpoint) == Poll::Again {}
        let rest: Vec<_> = s.drain_queue().collect();
        above.waiting += rest.len() as u64;
        rest.into_iter().for_each(|p| p.release(&mut m));
        above.dropped += s.endpoint.dropped;
        above.unverified += s.endpoint.unverified;
        above.exhausted += s.endpoint.exhausted;
        above.waiting += s.endpoint.release(&mut m);
    }
    let Some(nic) = Rc::into_inner(nic) else { unreachable!("all stations are gone") };
    let nic = nic.into_inner();
    let (stats, queues) = nic.close(&mut m);
    m.flush_posted();
    audit::audit(&m, &above, (&stats, &queues), faults.as_ref())
}
