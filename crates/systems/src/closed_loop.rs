//! A closed-loop run: TCP over one NIC, for a given time.
//!
//! A system builds a machine with a link ([`Wired`]) and opens its driver. This module makes the
//! connections (`Load::connect`), runs them to a steady state ([`Load::warmup`]), measures them
//! for [`Load::duration`] and closes them, so that an audit can compare what was taken with what
//! was given back. Rates and counts are those of the measured time. A packet is a frame with data
//! on the wire, or a transaction in request-response traffic.

use crate::host::HostConfig;
use crate::key::{Is, Key, Needs, Values};
use crate::metrics::{CPU_BUSY, PACKETS, PAYLOAD};
use crate::result::Rate;
use crate::settings::{Field, settings};
use crate::system::placement;
use crate::{Counted, Counts, Experiment, OpenQueue, Probe, Result, RunStats, SLICE};
use crate::{SettingError, refuse};
use doorbell_bus::{Bus, Machine};
use doorbell_drivers::Driver;
use doorbell_hal::{Device, Host, Span, Time};
use doorbell_sim::Watch;
use doorbell_sim::histogram::Histogram;
use doorbell_sim::link::{Tell, Wired};
use doorbell_sim::napi::{End, Endpoint, NapiContext};
use doorbell_sim::standstill::Cause;
use doorbell_sim::traffic::tcp::{
    App, Config, Connection, FRAGMENT, Hosts, LargeSend, Offloads, Prices, QUEUE_LIMIT, Stack, pair,
};

/// The direction of the traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The machine sends in bulk.
    Send,
    /// The machine receives in bulk.
    Receive,
    /// The machine answers requests.
    Serve,
}

/// The traffic of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// The direction.
    pub kind: Kind,
    /// Number of connections.
    pub connections: u16,
    /// Time before the measurement.
    pub warmup: Span,
    /// Time of the measurement.
    pub duration: Span,
    /// Settings of the sockets at both ends; the peers' send single segments.
    pub socket: Config,
    /// Work that is left to the driver and its device.
    pub offloads: Offloads,
    /// GRO: received segments are merged.
    pub gro: bool,
    /// Bytes of a request and of a response.
    pub transaction: (u32, u32),
    /// The applications have a core of their own.
    pub own_core: bool,
    /// Limit of each source, in bits a second.
    pub source_rate: Option<u64>,
    /// Connections beside bulk traffic that the machine serves.
    pub beside: u16,
    /// Merges the segments that wait for a socket's owner.
    pub merges_backlog: bool,
}

/// The values of `traffic.kind` for this load.
pub(crate) const KINDS: [&str; 3] = ["send", "receive", "transactions"];

/// The meaning of a latency.
pub(crate) const ANSWERED: &str = "from request to response";

const TCP: &[Needs] = &[Needs::kind(&KINDS)];
const BULK: &[Needs] = &[Needs::kind(&["send", "receive"])];
const TIMED: &[Needs] = &[Needs::kind(&["send", "receive", "transactions", "arrivals"])];
const SEGMENTS: &[Needs] = &[Needs::kind(&["send", "receive", "transactions", "packets"])];
const SCHEDULED: &[Needs] =
    &[Needs::kind(&["send", "receive", "transactions", "arrivals", "paced"])];
const SERVES: &[Needs] = &[Needs::kind(&["transactions"]).or("traffic.beside", Is::Positive)];

settings! {
    /// TCP, as a scenario describes it.
    pub struct Keys {
        /// TCP: number of connections, each with its own peer
        connections: u16 = "traffic.connections",
            whole("connections", 1.0, 4096.0).default("1").when(TCP);
        /// TCP and arrivals: time before the measurement
        warmup: Span = "traffic.warmup", number("ms", 0.0, 1e5).default("10").when(TIMED);
        /// TCP and arrivals: time that is measured
        duration: Span = "traffic.duration", number("ms", 0.001, 1e5).default("50").when(TIMED);
        /// TCP: payload of a full segment
        mss: u32 = "traffic.mss", whole("B", 64.0, 9148.0).default("1448").when(SEGMENTS);
        /// TCP: the timestamp option, 12 bytes
        timestamps: bool = "traffic.timestamps", choice(&["on", "off"]).default("on").when(TCP);
        /// TCP: maximum payload passed to the driver at a time
        large_send: Option<u32> = "traffic.large_send",
            whole("B", 1.0, 65455.0).or(&["off", "auto"]).default("off").when(TCP);
        /// TCP: buffer of a socket in each direction
        window: u32 = "traffic.window", whole("KiB", 4.0, 65536.0).default("256").when(TCP);
        /// TCP: payload is in fragments; otherwise a frame is in one buffer
        scatter: bool = "traffic.scatter", choice(&["on", "off"]).default("on").when(TCP);
        /// TCP: the device computes checksums
        tx_checksum: bool = "traffic.tx_checksum", choice(&["on", "off"]).default("on").when(TCP);
        /// TCP: received segments are merged
        gro: bool = "traffic.gro", choice(&["on", "off"]).default("on").when(TCP);
        /// transactions: size of a request
        request: u32 = "traffic.request", whole("B", 1.0, 65536.0).default("1").when(SERVES);
        /// transactions: size of a response
        response: u32 = "traffic.response", whole("B", 1.0, 65536.0).default("1").when(SERVES);
        /// bulk: limit of each source, which writes evenly
        source_rate: Option<f64> = "traffic.source_rate",
            number("Mbit/s", 0.001, 1e5).or(&["full"]).default("full").when(BULK);
        /// TCP: maximum packets in one softirq action (netdev_budget)
        budget: u32 = "run.budget", whole("packets", 1.0, 1e6).default("300").when(SCHEDULED);
    }
}

/// The core of the applications, in systems that have a choice.
pub(crate) static APPLICATION: [Key; 1] =
    [Key::choice("run.application", &["same_core", "own_core"], "TCP: core of the applications")
        .default("same_core")
        .when(TCP)];

/// Returns the time before the measurement, and that of it.
pub(crate) fn times(v: &Values) -> [Span; 2] {
    ["traffic.warmup", "traffic.duration"].map(|key| Field::of(v, key))
}

impl Load {
    /// Reads the load from `v`, whose `traffic.kind` is `send`, `receive` or `transactions`.
    ///
    /// # Errors
    /// Values that are allowed each, but not together.
    pub(crate) fn of(v: &Values, max_mss: u32) -> Result<Load, SettingError> {
        let k = Keys::of(v);
        let Keys { mss, timestamps, .. } = k;
        let window = k.window * 1024;
        let most = max_mss - if timestamps { 12 } else { 0 };
        if mss > most {
            refuse!("`traffic.mss` is {mss} B, but the device's longest frame holds {most}");
        }
        let large_send = match (k.large_send, v.word("traffic.large_send")) {
            (Some(bytes), _) => LargeSend::Fixed(bytes),
            (None, "auto") => LargeSend::Auto(65_455),
            (None, _) => LargeSend::Off,
        };
        if large_send != LargeSend::Off && !k.tx_checksum {
            refuse!(
                "a large send leaves its checksums to the device; set `traffic.tx_checksum` on"
            );
        }
        let kind = match v.word("traffic.kind") {
            "receive" => Kind::Receive,
            "transactions" => Kind::Serve,
            _ => Kind::Send,
        };
        Ok(Load {
            kind,
            connections: k.connections,
            warmup: k.warmup,
            duration: k.duration,
            socket: Config {
                mss,
                timestamps,
                receive_buffer: window,
                send_buffer: window,
                large_send,
                no_delay: kind == Kind::Serve,
            },
            offloads: Offloads {
                checksum: k.tx_checksum,
                scatter: k.scatter,
                place: placement(v, 0)?,
            },
            gro: k.gro,
            transaction: (k.request, k.response),
            own_core: v.word_if_any("run.application") == Some("own_core"),
            source_rate: k.source_rate.map(|mbits| (mbits * 1e6) as u64),
            beside: 0,
            merges_backlog: true,
        })
    }

    /// Returns the number of cores that the machine needs.
    pub(crate) fn cores(&self) -> usize {
        if self.own_core { 2 } else { 1 }
    }

    /// Returns the host memory in bytes for everything that the connections can have in flight.
    pub(crate) fn memory(&self) -> usize {
        // Each segment in a window takes a buffer of its own, of at least a power of two bytes.
        let frame = (self.socket.mss as usize + 128)
            .next_power_of_two()
            .max(self.offloads.place.align as usize);
        let window = self.socket.receive_buffer.max(self.socket.send_buffer) as usize;
        let each = (window / self.socket.mss as usize + 64) * frame + 4 * window.max(64 << 10);
        usize::from(self.connections + self.beside) * each
    }

    /// Returns the host memory in bytes for the segments that wait to be read, each in a receive
    /// buffer of so many.
    pub(crate) fn received(&self, buffer: usize) -> usize {
        let segments = (self.socket.receive_buffer / self.socket.mss + 64) as usize;
        usize::from(self.connections + self.beside) * segments * buffer
    }

    /// Returns the host memory in bytes for the payload of segments between sockets and wire, each
    /// of which has a whole fragment.
    pub(crate) fn fragments(&self) -> usize {
        let bytes = match self.kind {
            Kind::Send => self.socket.send_buffer.min(QUEUE_LIMIT as u32),
            Kind::Receive => 0,
            Kind::Serve => self.transaction.1,
        };
        let is_linear = !self.offloads.scatter && self.socket.large_send == LargeSend::Off;
        let segments = if is_linear { 0 } else { bytes / self.socket.mss + 2 };
        usize::from(self.connections) * (segments * FRAGMENT) as usize
    }

    pub(crate) fn stack(&self, c: Vec<Connection>, prices: Prices, slice: Span) -> Stack {
        let mut stack = Stack::new(c, self.offloads, prices, self.gro, slice);
        stack.merges_backlog = self.merges_backlog;
        stack
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

    /// Returns both ends of the connections, for a machine with the address `mac`.
    pub(crate) fn connect(&self, mac: [u8; 6]) -> (Vec<Connection>, Hosts) {
        // A peer that asks opens its connection. With one such peer all connections are opened.
        let peer_opens = self.kind == Kind::Serve || self.beside > 0;
        pair(mac, self.connections + self.beside, peer_opens, |i| {
            let kind = if i < self.connections { self.kind } else { Kind::Serve };
            let ends = match kind {
                Kind::Send => (self.source(), App::drain()),
                Kind::Receive => (App::drain(), self.source()),
                Kind::Serve => {
                    let (request, response) = self.transaction;
                    // The first requests are 1 us apart.
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

/// A machine on a link to the hosts.
type Linked<B, D> = Machine<B, Wired<D, Hosts>>;

/// Returns the packets and payload bytes so far.
fn arrived<B: Bus, D>(m: &Linked<B, D>, stack: &Stack, kind: Kind) -> (u64, u64) {
    let peers = || m.device.peer.ends.iter();
    let sum = |f: &dyn Fn(&doorbell_sim::traffic::tcp::End) -> u64| peers().map(f).sum::<u64>();
    match kind {
        Kind::Send => (sum(&|e| e.socket.counters.data_received), sum(&|e| e.socket.received())),
        Kind::Receive => (
            stack.connections.iter().map(|c| c.socket.counters.data_received).sum(),
            stack.connections.iter().map(|c| c.socket.received()).sum(),
        ),
        Kind::Serve => {
            let done = sum(&|e| if let App::Client(c) = &e.app { c.done } else { 0 });
            (done, sum(&|e| e.socket.received()))
        }
    }
}

/// The longest time that connections take to close.
const LONGEST_END: Span = Span::from_ms(600_000);

/// Gives access to the endpoint of the first station, which has the connections.
pub(crate) trait HasStack {
    /// Returns the connections. Panics at any other station.
    fn stack(&self) -> &Stack;
    /// Returns the connections. Panics at any other station.
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

/// Counts what the connections carry; `L` reads the counters of drivers and devices.
struct Carried<L> {
    kind: Kind,
    look: L,
}

impl<B, D, Dr, E, L> Probe<Linked<B, D>, NapiContext<Dr, E>> for Carried<L>
where
    B: Bus,
    E: HasStack,
    L: Fn(&Linked<B, D>, &[NapiContext<Dr, E>]) -> Counted,
{
    fn done(&self, m: &Linked<B, D>, stations: &[NapiContext<Dr, E>]) -> (u64, u64) {
        arrived(m, stations[0].endpoint.stack(), self.kind)
    }
    fn counters(&self, m: &Linked<B, D>, stations: &[NapiContext<Dr, E>]) -> Counted {
        (self.look)(m, stations)
    }
    fn take_latency(&mut self, m: &mut Linked<B, D>, _: &mut [NapiContext<Dr, E>]) -> Histogram {
        let mut all = Histogram::default();
        for e in &mut m.device.peer.ends {
            if let App::Client(c) = &mut e.app {
                all.add(&c.latency);
                c.latency.clear();
            }
        }
        all
    }
}

/// Runs `load` with these connections over an open driver, as [`run`] does. Returns the driver.
pub(crate) fn over<B, D, Dr>(
    m: &mut Linked<B, D>,
    queue: OpenQueue<Dr>,
    (load, connections): (&Load, Vec<Connection>),
    host: &HostConfig,
    (tell, look): (Tell<D>, impl Fn(&Linked<B, D>, &[NapiContext<Dr, Stack>]) -> Counted),
    watch: &mut dyn Watch,
) -> Result<(RunStats, Dr)>
where
    B: Bus,
    Wired<D, Hosts>: Device<B>,
    Dr: Driver<Linked<B, D>>,
{
    let cores = 1 + queue.cores[0].max(queue.cores[1]);
    let stack = load.stack(connections, host.prices, host.softirq.slice);
    let stations = vec![queue.under(stack)];
    let mut x = Experiment::new(m, stations, cores, host.softirq, &host.faults, watch);
    let o = run(&mut x, load, tell, look)?;
    let s = x.stations.remove(0);
    s.endpoint.release(m);
    Ok((o, s.driver))
}

/// Runs `load` over the stations of `x`, the first of which has the connections. Leaves nothing in
/// their queues. `look` reads the counters of drivers and devices. Fails if the run is stuck, or
/// the watcher ends it.
pub(crate) fn run<B, D, Dr, E>(
    x: &mut Experiment<'_, B, D, Hosts, Dr, E>,
    load: &Load,
    tell: Tell<D>,
    look: impl Fn(&Linked<B, D>, &[NapiContext<Dr, E>]) -> Counted,
) -> Result<RunStats>
where
    B: Bus,
    Wired<D, Hosts>: Device<B>,
    Dr: Driver<Linked<B, D>>,
    E: Endpoint<Linked<B, D>> + HasStack,
{
    x.begin(tell);
    x.m.outside(|device, _, at| device.peer.start(at));
    let mut probe = Carried { kind: load.kind, look };
    let begin = x.m.now();
    let (mut o, mut at) = x.measure(begin, (load.warmup, load.duration), &mut probe)?;
    for c in &mut x.stations[0].endpoint.stack_mut().connections {
        c.app.finish();
    }
    for e in &mut x.m.device.peer.ends {
        e.app.finish();
    }
    let patience = if x.faults.is_empty() { LONGEST_END } else { x.faults.patience() };
    let (last, worked) = (at + patience, x.m.worked());
    // The last acknowledgment may be lost; the peer then repeats its segment.
    x.rules.lingers = x.rules.watchdog.is_some();
    let mut idle = false;
    loop {
        at += SLICE;
        let done = x.slice(at)? == End::Done || x.stations.iter().all(|s| s.endpoint.is_done());
        if done {
            // The last frame may still be in the device.
            x.settle(at)?;
        }
        if done && x.m.device.peer.all_closed() {
            break;
        }
        if at >= last {
            // A machine that does not keep up with its load is busy.
            idle = (x.m.worked() - worked).ps() < patience.ps() / 100;
            o.verdict.unfinished = waiting(x);
            x.m.device.peer.halt();
            break;
        }
    }
    o.verdict.audit = wrong(x.m, x.stations[0].endpoint.stack());
    if idle && x.faults.is_empty() {
        let what = "connections wait for what does not come, and the machine has nothing to do";
        o.verdict.audit.push(what.to_owned());
    }
    for s in &mut x.stations {
        // The buffers belong to the partition of this core.
        x.m.enter(s.irq_core);
        let rest: Vec<_> = s.drain_queue().collect();
        if !rest.is_empty() && o.verdict.unfinished.is_empty() {
            o.verdict
                .audit
                .push(format!("{} packets wait in the qdisc of closed connections", rest.len()));
        }
        rest.into_iter().for_each(|p| p.release(x.m));
    }
    x.m.enter(x.stations[0].irq_core);
    x.settle(at + Span::from_ms(10))?;
    o.faults = x.end();
    if !o.verdict.unfinished.is_empty() {
        // Frames that waited for the link.
        x.settle(at + Span::from_ms(20))?;
    }
    Ok(o)
}

/// The meaning of a packet.
pub(crate) const CARRIED: &str = "frames with data, or transactions";

/// Returns the cores that are meant by a share of their time, one of which has the queue.
pub(crate) fn whose(s: &Counts) -> String {
    let text = match s.busy.len() {
        0..=1 => "of its one core",
        _ => "of the core with interrupts and that with applications",
    };
    text.to_owned()
}

/// Returns the rates of a run whose packets are `what`, with those of frames that are lost. `whose`
/// names the cores. Buses are the system's.
pub(crate) fn rates(
    s: &Counts,
    packets: f64,
    (what, whose): (&'static str, String),
    lost: Vec<Rate>,
) -> Vec<Rate> {
    let payload = s.by_time(8.0 * s.payload as f64);
    [
        vec![
            PACKETS.is(packets).about(what),
            PAYLOAD.is(payload).about("TCP payload that arrived"),
        ],
        s.wire_rates(),
        s.event_rates(s.seconds()),
        lost,
        vec![CPU_BUSY.is(s.all_busy_share()).about(whose)],
    ]
    .concat()
}

/// Returns what waits in a run that is ended at its limit.
fn waiting<B, D, Dr, E>(x: &mut Experiment<'_, B, D, Hosts, Dr, E>) -> Vec<String>
where
    B: Bus,
    Wired<D, Hosts>: Device<B>,
    E: HasStack,
{
    let here = x.stations[0].endpoint.stack().connections.iter();
    let (here, there) = (here.map(|c| &c.socket), x.m.device.peer.ends.iter().map(|e| &e.socket));
    let [open, peers] =
        [here.filter(|s| !s.is_closed()).count(), there.filter(|s| !s.is_closed()).count()];
    let first = format!(
        "connections are open: {open} of the machine, {peers} of its peers, at {}",
        x.m.now()
    );
    let cause = Cause::of(x.m, None);
    std::iter::once(first).chain(cause.lines().map(str::to_owned)).collect()
}

/// Returns the faults that both ends found in each other's frames.
fn wrong<B: Bus, D>(m: &Linked<B, D>, stack: &Stack) -> Vec<String> {
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
