//! A closed-loop run: TCP over one NIC, for a time.
//!
//! A system makes a machine with a link ([`Wired`]) and opens its driver; here the
//! connections are made ([`Load::connect`]), run to a steady state ([`Load::warmup`]), measured
//! for [`Load::duration`], and brought to their end, so that an audit can hold what was
//! taken against what was given back. Rates and counts are those of the measured time.
//!
//! A packet is a frame with data on the wire: sent where the machine sends, received
//! where it receives. In request-response traffic it is a transaction.
//!
//! Other stations may work beside the one with the connections ([`run_among`]): a machine of
//! several partitions, one of which carries what another sends. Counts are then those of all of
//! them.

use crate::clock::link::{Wired, on_wire};
use crate::clock::napi::{
    Busy, Cpu, End, Endpoint, Interrupt, Rules, Station, Stuck, run as schedule,
};
use crate::fault::Alarms;
use crate::histogram::Histogram;
use crate::key::{Is, Key, Needs, Values};
use crate::result::{Series, WorkTotals, work_of};
use crate::standstill::Cause;
use crate::trace;
use crate::traffic::tcp::{
    App, Config, Connection, Hosts, LargeSend, Offloads, Prices, Stack, pair,
};
use crate::watch::Watch;
use crate::window::{Marks, Steady, Window};
use doorbell_bus::machine::Done;
use doorbell_bus::{Bus, Ledger, Machine};
use doorbell_drivers::Driver;
use doorbell_hal::{Alignment, Device, Host, Span, Time, WorkKind};

/// What the connections do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The machine sends in bulk.
    Send,
    /// It receives in bulk.
    Receive,
    /// It answers requests.
    Serve,
}

/// The traffic of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Which way.
    pub kind: Kind,
    /// How many connections.
    pub connections: u16,
    /// Time before anything is counted.
    pub warmup: Span,
    /// Time in which it is.
    pub duration: Span,
    /// Both ends' sockets; the peers' send single segments.
    pub socket: Config,
    /// What the driver gets to do.
    pub offloads: Offloads,
    /// Whether received segments are merged.
    pub gro: bool,
    /// Bytes of a request, and of a response.
    pub transaction: (u32, u32),
    /// Whether applications have a core of their own.
    pub own_core: bool,
    /// Bits a second that each source writes at the most.
    pub source_rate: Option<u64>,
    /// Connections beside bulk traffic that the machine serves.
    pub beside: u16,
    /// Segments that wait for a socket's owner are merged.
    pub merges_backlog: bool,
}

const TCP: &[Needs] = &[Needs::kind(&["send", "receive", "transactions"])];
const BULK: &[Needs] = &[Needs::kind(&["send", "receive"])];
const TIMED: &[Needs] = &[Needs::kind(&["send", "receive", "transactions", "arrivals"])];
const SEGMENTS: &[Needs] = &[Needs::kind(&["send", "receive", "transactions", "packets"])];
const SCHEDULED: &[Needs] =
    &[Needs::kind(&["send", "receive", "transactions", "arrivals", "paced"])];
const SERVES: &[Needs] = &[Needs::kind(&["transactions"]).or("traffic.beside", Is::Positive)];

/// What a scenario says of it.
pub static KEYS: [Key; 16] = [
    Key::whole(
        "traffic.connections",
        "connections",
        1.0,
        4096.0,
        "TCP: connections, each with a peer of its own",
    )
    .default("1")
    .when(TCP),
    Key::number("traffic.warmup", "ms", 0.0, 1e5, "TCP: time before anything is counted")
        .default("10")
        .when(TIMED),
    Key::number("traffic.duration", "ms", 0.001, 1e5, "TCP: time that is measured")
        .default("50")
        .when(TIMED),
    Key::whole("traffic.mss", "B", 64.0, 9148.0, "TCP: payload of a full segment")
        .default("1448")
        .when(SEGMENTS),
    Key::choice("traffic.timestamps", &["on", "off"], "TCP: the timestamp option, 12 bytes")
        .default("on")
        .when(TCP),
    Key::whole(
        "traffic.large_send",
        "B",
        1.0,
        65455.0,
        "TCP: payload handed to the driver at a time",
    )
    .or(&["off", "auto"])
    .default("off")
    .when(TCP),
    Key::whole("traffic.window", "KiB", 4.0, 65536.0, "TCP: buffer of a socket, each way")
        .default("256")
        .when(TCP),
    Key::choice(
        "traffic.scatter",
        &["on", "off"],
        "TCP: payload in fragments, or all in one buffer",
    )
    .default("on")
    .when(TCP),
    Key::choice("traffic.tx_checksum", &["on", "off"], "TCP: checksums left to the device")
        .default("on")
        .when(TCP),
    Key::among(
        "traffic.align",
        "B",
        &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0],
        "TCP: a buffer that holds all of a frame starts at a multiple of this",
    )
    .default("64")
    .when(TCP),
    Key::whole("traffic.offset", "B", 0.0, 8191.0, "TCP: and this many bytes after it")
        .default("0")
        .when(TCP),
    Key::choice("traffic.gro", &["on", "off"], "TCP: received segments merged")
        .default("on")
        .when(TCP),
    Key::whole("traffic.request", "B", 1.0, 65536.0, "transactions: bytes of a request")
        .default("1")
        .when(SERVES),
    Key::whole("traffic.response", "B", 1.0, 65536.0, "transactions: bytes of a response")
        .default("1")
        .when(SERVES),
    Key::number(
        "traffic.source_rate",
        "Mbit/s",
        0.001,
        1e5,
        "bulk: what each source writes at the most, evenly",
    )
    .or(&["full"])
    .default("full")
    .when(BULK),
    Key::whole(
        "run.budget",
        "packets",
        1.0,
        1e6,
        "TCP: packets in one softirq action (netdev_budget)",
    )
    .default("300")
    .when(SCHEDULED),
];

/// The same of systems that have a choice.
pub static APPLICATION: [Key; 1] =
    [Key::choice("run.application", &["same_core", "own_core"], "TCP: where applications run")
        .default("same_core")
        .when(TCP)];

impl Load {
    /// The load of these values, whose `traffic.kind` is `send`, `receive` or `transactions`.
    ///
    /// # Errors
    /// Values that are allowed each, but not together.
    pub fn of(v: &Values, max_mss: u32) -> Result<Load, String> {
        let window = (v.number("traffic.window") * 1024.0) as u32;
        let mss = v.number("traffic.mss") as u32;
        let timestamps = v.is_on("traffic.timestamps");
        let most = max_mss - if timestamps { 12 } else { 0 };
        if mss > most {
            return Err(format!(
                "`traffic.mss` is {mss} B, but the device's longest frame holds {most}"
            ));
        }
        let (align, offset) = (v.number("traffic.align") as u32, v.number("traffic.offset") as u32);
        if offset >= align {
            return Err(format!(
                "`traffic.offset` is {offset} B, which is not below `traffic.align`, {align}"
            ));
        }
        let large_send =
            match (v.number_or_word("traffic.large_send"), v.word("traffic.large_send")) {
                (Some(bytes), _) => LargeSend::Fixed(bytes as u32),
                (None, "auto") => LargeSend::Auto(65_455),
                (None, _) => LargeSend::Off,
            };
        if large_send != LargeSend::Off && !v.is_on("traffic.tx_checksum") {
            return Err(
                "a large send leaves its checksums to the device; set `traffic.tx_checksum` on"
                    .to_owned(),
            );
        }
        let kind = match v.word("traffic.kind") {
            "receive" => Kind::Receive,
            "transactions" => Kind::Serve,
            _ => Kind::Send,
        };
        let ms = |key| Span::from_ps((v.number(key) * 1e9).round() as u64);
        Ok(Load {
            kind,
            connections: v.number("traffic.connections") as u16,
            warmup: ms("traffic.warmup"),
            duration: ms("traffic.duration"),
            socket: Config {
                mss,
                timestamps,
                receive_buffer: window,
                send_buffer: window,
                large_send,
                no_delay: kind == Kind::Serve,
            },
            offloads: Offloads {
                checksum: v.is_on("traffic.tx_checksum"),
                scatter: v.is_on("traffic.scatter"),
                place: Alignment { align, offset },
            },
            gro: v.is_on("traffic.gro"),
            transaction: (v.number("traffic.request") as u32, v.number("traffic.response") as u32),
            own_core: v.word_if_any("run.application") == Some("own_core"),
            source_rate: v.number_or_word("traffic.source_rate").map(|mbits| (mbits * 1e6) as u64),
            beside: 0,
            merges_backlog: true,
        })
    }

    /// Cores that the machine needs.
    pub fn cores(&self) -> usize {
        if self.own_core { 2 } else { 1 }
    }

    /// Host memory for what the connections can have under way.
    pub fn memory(&self) -> usize {
        // A segment in a window takes a buffer of its own, at the least a power of two.
        let frame = (self.socket.mss as usize + 128)
            .next_power_of_two()
            .max(self.offloads.place.align as usize);
        let window = self.socket.receive_buffer.max(self.socket.send_buffer) as usize;
        let each = (window / self.socket.mss as usize + 64) * frame + 4 * window.max(64 << 10);
        usize::from(self.connections + self.beside) * each
    }

    fn source(&self) -> App {
        match self.source_rate {
            None => App::source(u64::MAX),
            // Two segments at a time: as evenly as a paced sender.
            rate => {
                App::Source { left: u64::MAX, write: 2 * self.socket.mss, rate, next: Time::ZERO }
            }
        }
    }

    /// Both ends of the connections, for a machine with this address.
    pub fn connect(&self, mac: [u8; 6]) -> (Vec<Connection>, Hosts) {
        // A peer that asks opens its connection; then all do.
        let peer_opens = self.kind == Kind::Serve || self.beside > 0;
        pair(mac, self.connections + self.beside, peer_opens, |i| {
            let kind = if i < self.connections { self.kind } else { Kind::Serve };
            let ends = match kind {
                Kind::Send => (self.source(), App::drain()),
                Kind::Receive => (App::drain(), self.source()),
                Kind::Serve => {
                    let (request, response) = self.transaction;
                    // Not all at the same instant.
                    let first = Time::ZERO + Span::from_us(u64::from(i));
                    (
                        App::server(request, response),
                        App::client(request, response, Span::ZERO, u64::MAX, first),
                    )
                }
            };
            let socket = Config { no_delay: kind == Kind::Serve, ..self.socket };
            ((socket, ends.0), (socket, ends.1))
        })
    }
}

/// Why a run did not come to its end.
#[derive(Clone, Debug, PartialEq)]
pub enum RunError {
    /// Nothing was under way, or an interrupt line that nobody serves; and what is known of the
    /// cause.
    Stuck(Stuck, Cause),
    /// The connections did not close.
    Open,
    /// The receiver of the captured frames gave up.
    Capture(String),
    /// Whoever watched did not want to go on.
    Stopped,
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Stuck(Stuck::Nothing(at), cause) => {
                write!(f, "connections wait for something that cannot come, at {at}{cause}")
            }
            RunError::Stuck(Stuck::Line(n), cause) => {
                write!(f, "interrupt line {n} is high, and nobody cares{cause}")
            }
            RunError::Open => {
                f.write_str("connections were still open ten minutes after their end")
            }
            RunError::Capture(why) => f.write_str(why),
            RunError::Stopped => f.write_str("stopped"),
        }
    }
}
impl std::error::Error for RunError {}

/// Counters with their names.
pub type Entries = Vec<(&'static str, u64)>;

/// What was seen in the measured time.
#[derive(Clone, Debug)]
pub struct Seen {
    /// How long it was.
    pub elapsed: Span,
    /// The same time, and how sure the rate in it is.
    pub window: Window,
    /// Frames with data, or transactions.
    pub packets: u64,
    /// Payload that reached the other end's application, or its TCP.
    pub payload: u64,
    /// Frames and bytes without FCS to the peers.
    pub out: (u64, u64),
    /// Frames and bytes from the peers.
    pub back: (u64, u64),
    /// Every crossing.
    pub ledger: Ledger,
    /// What the driver did and what it cost, by kind.
    pub work: WorkTotals,
    /// Time that cores waited for register accesses and fences.
    pub stalled: Span,
    /// The driver's counters, and the device's, as the system looked at them.
    pub counters: [Entries; 2],
    /// Interrupts taken, by line.
    pub interrupts: Vec<u64>,
    /// Polls made.
    pub polls: u64,
    /// Each core's time.
    pub busy: Vec<Busy>,
    /// From request to response; empty for bulk traffic.
    pub latency: Histogram,
    /// What changed over the run: interrupts and packets of each look.
    pub series: Vec<Series>,
    /// What the stations' watchdogs have raised.
    pub alarms: Alarms,
    /// What does not add up above the driver.
    pub wrong: Vec<String>,
}

impl Seen {
    /// What rates are made of: the measured time, in which two cores were so long busy.
    pub fn steady(&self, busy: [Span; 2], interrupts: [u64; 2]) -> Steady {
        Steady {
            window: self.window.clone(),
            elapsed: self.elapsed,
            packets: self.packets,
            payload: self.payload,
            wire: (on_wire(self.out), on_wire(self.back)),
            ledger: self.ledger.clone(),
            busy,
            interrupts,
            polls: self.polls,
        }
    }
}

/// What is above a driver.
#[derive(Debug)]
pub struct Above {
    /// The driver's interrupts.
    pub lines: Vec<Interrupt>,
    /// The machine's ends of the connections.
    pub connections: Vec<Connection>,
    /// What the CPU charges for TCP.
    pub prices: Prices,
    /// How softirq is scheduled.
    pub softirq: Rules,
}

/// Counts at an instant.
struct Mark {
    at: Time,
    packets: u64,
    payload: u64,
    out: (u64, u64),
    back: (u64, u64),
    ledger: Ledger,
    work: WorkTotals,
    stalled: Span,
    counters: [Entries; 2],
    interrupts: Vec<u64>,
    polls: u64,
    busy: Vec<Busy>,
}

/// Packets and payload so far.
fn arrived<B: Bus, D>(m: &Machine<B, Wired<D, Hosts>>, stack: &Stack, kind: Kind) -> (u64, u64) {
    let peers = || m.device.peer.ends.iter();
    let sum = |f: &dyn Fn(&crate::traffic::tcp::End) -> u64| peers().map(f).sum::<u64>();
    match kind {
        Kind::Send => (sum(&|e| e.socket.counters.data_received), sum(&|e| e.socket.received())),
        Kind::Receive => (
            stack.connections.iter().map(|c| c.socket.counters.data_received).sum(),
            stack.connections.iter().map(|c| c.socket.received()).sum(),
        ),
        Kind::Serve => {
            let done = sum(&|e| if let App::Client(c) = &e.app { c.latency.count() } else { 0 });
            (done, sum(&|e| e.socket.received()))
        }
    }
}

fn mark<B: Bus, D, Dr, E: HasStack>(
    m: &Machine<B, Wired<D, Hosts>>,
    stations: &[Station<Dr, E>],
    cpus: &[Cpu],
    at: Time,
    kind: Kind,
    counters: [Entries; 2],
) -> Mark
where
    Wired<D, Hosts>: Device<B>,
{
    let (packets, payload) =
        stations.first().map_or((0, 0), |s| arrived(m, s.endpoint.stack(), kind));
    let wire = |w: &crate::clock::link::Wire| w.landed;
    Mark {
        at,
        packets,
        payload,
        out: wire(&m.device.out.borrow()),
        back: wire(&m.device.back),
        ledger: m.bus.ledger(),
        work: work_of(m),
        stalled: m.stalled(),
        counters,
        interrupts: stations.iter().flat_map(|s| s.taken.iter().copied()).collect(),
        polls: stations.iter().map(|s| s.polls).sum(),
        busy: cpus.iter().map(|c| c.busy).collect(),
    }
}

/// What was done between two looks.
pub(crate) fn differences(a: &WorkTotals, b: &WorkTotals) -> WorkTotals {
    let less = |a: &(WorkKind, Done, Span), b: &(WorkKind, Done, Span)| {
        let done = Done { times: b.1.times - a.1.times, units: b.1.units - a.1.units };
        (b.0, done, Span::from_ps(b.2.ps() - a.2.ps()))
    };
    a.iter().zip(b).map(|(a, b)| less(a, b)).collect()
}

/// What was counted between two looks.
pub(crate) fn counted(a: &[Entries; 2], b: &[Entries; 2]) -> [Entries; 2] {
    std::array::from_fn(|i| {
        a[i].iter().zip(&b[i]).map(|(a, b)| (b.0, b.1.saturating_sub(a.1))).collect()
    })
}

/// How long one look at the run takes, and the longest end.
const SLICE: Span = Span::from_ms(1);
const LONGEST_END: Span = Span::from_ms(600_000);

/// The first station's endpoint, which has the connections.
pub trait HasStack {
    /// The connections of the first station; of others it is not asked for.
    fn stack(&self) -> &Stack;
    /// The same.
    fn stack_mut(&mut self) -> &mut Stack;
}

impl HasStack for Stack {
    fn stack(&self) -> &Stack {
        self
    }
    fn stack_mut(&mut self) -> &mut Stack {
        self
    }
}

/// Runs `load` over `driver`, which is open. Gives the driver back. `look` reads the counters of
/// driver and device.
///
/// # Errors
/// When it gets stuck, or whoever watches ends it.
pub fn run<B, D, Dr>(
    m: &mut Machine<B, Wired<D, Hosts>>,
    driver: Dr,
    above: Above,
    load: &Load,
    look: impl Fn(&Dr, &D) -> [Entries; 2],
    watch: &mut dyn Watch,
) -> Result<(Seen, Dr), RunError>
where
    B: Bus,
    Wired<D, Hosts>: Device<B>,
    Dr: Driver<Machine<B, Wired<D, Hosts>>>,
{
    let Above { lines, connections, prices, softirq: rules } = above;
    let mut stack = Stack::new(connections, load.offloads, prices, load.gro, rules.slice);
    stack.merges_backlog = load.merges_backlog;
    let stations = vec![Station::new(driver, stack, lines, 0, load.cores() - 1)];
    let look = |s: &[Station<Dr, Stack>], m: &Machine<B, Wired<D, Hosts>>| {
        look(&s[0].driver, &m.device.device)
    };
    let (seen, mut stations) = run_among(m, stations, load.cores(), &rules, load, look, watch)?;
    let Station { driver, endpoint, .. } = stations.remove(0);
    endpoint.release(m);
    Ok((seen, driver))
}

/// Runs `load` over several stations on `cores` cores, the first of which has the connections.
/// Gives them back, nothing in their queues.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// When there is no station.
pub fn run_among<B, D, Dr, E>(
    m: &mut Machine<B, Wired<D, Hosts>>,
    mut stations: Vec<Station<Dr, E>>,
    cores: usize,
    rules: &Rules,
    load: &Load,
    look: impl Fn(&[Station<Dr, E>], &Machine<B, Wired<D, Hosts>>) -> [Entries; 2],
    watch: &mut dyn Watch,
) -> Result<(Seen, Vec<Station<Dr, E>>), RunError>
where
    B: Bus,
    Wired<D, Hosts>: Device<B>,
    Dr: Driver<Machine<B, Wired<D, Hosts>>>,
    E: Endpoint<Machine<B, Wired<D, Hosts>>> + HasStack,
{
    let mut cpus: Vec<Cpu> = (0..cores).map(|_| Cpu::default()).collect();
    let begin = m.now();
    trace::begin_wired(m, watch);
    m.outside(|device, _, at| device.peer.start(at));
    m.device.capture = watch.wants_frames().then(Vec::new);
    let (from, to) = (begin + load.warmup, begin + load.warmup + load.duration);
    let mut marks: Vec<Mark> = Vec::with_capacity(2);
    let (mut at, all) = (begin, to.since(begin).ps());
    let mut series =
        ["packets_per_s", "interrupts_per_s"].map(|name| Series { name, points: Vec::new() });
    let mut last = (begin, 0, 0);
    let mut looks = Marks::new();
    while marks.len() < 2 {
        let goal = if marks.is_empty() { from } else { to };
        let until = goal.min(at + SLICE);
        schedule(m, &mut cpus, &mut stations, rules, until).map_err(|s| stuck(m, s, watch))?;
        at = until;
        m.device.drain_capture(|at, f| watch.frame(at, f)).map_err(RunError::Capture)?;
        if !watch.progress(at.since(begin).ps(), all) {
            return Err(RunError::Stopped);
        }
        let packets = arrived(m, stations[0].endpoint.stack(), load.kind).0;
        let interrupts = stations.iter().filter_map(|s| s.taken.first()).sum();
        let seconds = until.since(last.0).as_secs_f64().max(1e-12);
        let ms = at.since(begin).ps() as f64 / 1e9;
        series[0].points.push((ms, (packets - last.1) as f64 / seconds));
        series[1].points.push((ms, (interrupts - last.2) as f64 / seconds));
        last = (until, packets, interrupts);
        if at == goal {
            // At an instant: what the cores did beyond it counts for the other side at both ends
            // alike.
            let counters = look(&stations, m);
            marks.push(mark(m, &stations, &cpus, at, load.kind, counters));
        }
        if !marks.is_empty() {
            looks.push((at, packets));
        }
    }
    for c in &mut stations[0].endpoint.stack_mut().connections {
        c.app.finish();
    }
    for e in &mut m.device.peer.ends {
        e.app.finish();
    }
    let last = at + LONGEST_END;
    // The last acknowledgment may be lost, and the peer asks for it.
    let rules = &Rules { lingers: rules.watchdog.is_some(), ..*rules };
    loop {
        at += SLICE;
        let end =
            schedule(m, &mut cpus, &mut stations, rules, at).map_err(|s| stuck(m, s, watch))?;
        let done = end == End::Done || stations.iter().all(|s| s.endpoint.is_done());
        if done {
            // It may still be in the device.
            settle(m, at);
        }
        m.device.drain_capture(|at, f| watch.frame(at, f)).map_err(RunError::Capture)?;
        if done && m.device.peer.all_closed() {
            break;
        }
        if at >= last {
            return Err(RunError::Open);
        }
    }
    let mut wrong = wrong(m, stations[0].endpoint.stack());
    for s in &mut stations {
        // Its buffers are its partition's.
        m.enter(s.irq_core);
        let rest: Vec<_> = s.drain_queue().collect();
        if !rest.is_empty() {
            wrong.push(format!("{} packets wait in the qdisc of closed connections", rest.len()));
        }
        rest.into_iter().for_each(|p| p.release(m));
    }
    m.enter(stations[0].irq_core);
    let latency = latency(&m.device.peer);
    settle(m, at + Span::from_ms(10));
    trace::end_wired(m, watch);
    m.device.drain_capture(|at, f| watch.frame(at, f)).map_err(RunError::Capture)?;
    let (a, b) = (&marks[0], &marks[1]);
    let seen = Seen {
        elapsed: b.at.since(a.at),
        window: Window::given(begin, &looks, load.warmup > Span::ZERO),
        packets: b.packets - a.packets,
        payload: b.payload - a.payload,
        out: (b.out.0 - a.out.0, b.out.1 - a.out.1),
        back: (b.back.0 - a.back.0, b.back.1 - a.back.1),
        ledger: b.ledger.since(&a.ledger),
        work: differences(&a.work, &b.work),
        stalled: Span::from_ps(b.stalled.ps() - a.stalled.ps()),
        counters: counted(&a.counters, &b.counters),
        interrupts: a.interrupts.iter().zip(&b.interrupts).map(|(a, b)| b - a).collect(),
        polls: b.polls - a.polls,
        busy: a.busy.iter().zip(&b.busy).map(|(a, b)| b.since(a)).collect(),
        latency,
        series: series.into(),
        alarms: alarms(&stations),
        wrong,
    };
    Ok((seen, stations))
}

/// What all stations' watchdogs have raised.
pub(crate) fn alarms<Dr, E>(stations: &[Station<Dr, E>]) -> Alarms {
    let mut all = Alarms::default();
    stations.iter().filter_map(|s| s.watchdog.as_ref()).for_each(|w| all.add(w.alarms));
    all
}

/// A run that is stuck: what is known of the cause, and what led to it for whoever records.
fn stuck<B: Bus, D>(
    m: &mut Machine<B, Wired<D, Hosts>>,
    s: Stuck,
    watch: &mut dyn Watch,
) -> RunError
where
    Wired<D, Hosts>: Device<B>,
{
    trace::end_wired(m, watch);
    RunError::Stuck(s, Cause::of(m, None))
}

/// What is on its way to the wire leaves until `until`, and what was written arrives.
fn settle<B: Bus, D>(m: &mut Machine<B, Wired<D, Hosts>>, until: Time)
where
    Wired<D, Hosts>: Device<B>,
{
    while m.next_event() <= until {
        m.run_device(m.next_event());
    }
}

fn latency(peers: &Hosts) -> Histogram {
    let mut all = Histogram::default();
    for e in &peers.ends {
        if let App::Client(c) = &e.app {
            all.add(&c.latency);
        }
    }
    all
}

/// What both ends found wrong with each other's frames.
fn wrong<B: Bus, D>(m: &Machine<B, Wired<D, Hosts>>, stack: &Stack) -> Vec<String> {
    let (here, there) = (stack.counters, &m.device.peer);
    [
        ("frames with a bad checksum came", here.bad_checksums),
        ("frames with a bad payload came", here.bad_payloads),
        ("frames for nobody came", here.unknown),
        ("packets could not be made for want of memory", here.exhausted),
        ("frames with a bad checksum were sent", there.bad_checksums),
        ("frames with a bad payload were sent", there.bad_payloads),
        ("frames for nobody were sent", there.unknown),
    ]
    .into_iter()
    .filter(|(_, n)| *n > 0)
    .map(|(what, n)| format!("{n} {what}"))
    .collect()
}

#[cfg(test)]
mod tests;
