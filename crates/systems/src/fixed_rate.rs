//! Frames at a fixed rate, for one driver with its wire: the cost of each, whatever the machine's
//! speed.
//!
//! Bursts of equal UDP frames at equal intervals are sent, received, or received and answered one
//! by one. All but the last packet of a sent burst carry "more", as with the kernel's pktgen. An
//! answer does not, since its socket sends each by itself. Frames are linear.
//!
//! A guest's own driver gets the same traffic from pktgen and from the host, so that the costs a
//! frame can be compared (docs/guests.md). The ledger counts the driver's copies only.

use crate::audit::{ANY, CrossCheck};
use crate::key::{Needs, Values};
use crate::metrics::{CPU_BUSY, PACKETS};
use crate::result::{CountsOf, Measured, Sampled};
use crate::settings::{settings, words};
use crate::window::{Marks, Window};
use crate::{Counted, Counts, Experiment, OpenQueue, Points, Probe, Result, RunError, RunStats};
use crate::{SLICE, SettingError, refuse};
use doorbell_bus::{Bus, Machine};
use doorbell_drivers::{Driver, Sink};
use doorbell_hal::{Alignment, Buf, Device, EventSource, Host, Span, Time};
use doorbell_packet::{CsumPartial, Fragment, OffloadRequest, Packet, ethernet::HEADER};
use doorbell_sim::histogram::Histogram;
use doorbell_sim::link::{Peer as Other, Wire, Wired};
use doorbell_sim::napi::{Endpoint, NapiContext, Rules};
use doorbell_sim::{Watch, fault::Plan, traffic::udp};
use std::collections::VecDeque;

/// The direction of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Bursts are sent.
    Send,
    /// Bursts are received.
    Receive,
    /// Bursts are received, and each frame is answered with one.
    Answer,
}

/// The value of `traffic.kind` for this load.
pub(crate) const KIND: &str = "paced";

const PACED: &[Needs] = &[Needs::kind(&[KIND])];
const SENT: &[Needs] = &[Needs::kind(&[KIND]), Needs::word("paced.way", &["send", "answer"])];

words! {
    Direction { "send" => Self::Send, "receive" => Self::Receive, "answer" => Self::Answer }
}

settings! {
    /// The traffic of a run.
    #[derive(Copy, Eq)]
    pub struct Load {
        /// paced: frames are sent; received; or received and answered one by one
        way: Direction = "paced.way",
            choice(&["send", "receive", "answer"]).default("send").when(PACED);
        /// paced: size of a frame without FCS
        size: u32 = "paced.size", whole("B", 60.0, 9014.0).default("60").when(PACED);
        /// paced: frames in a burst, back to back
        burst: u32 = "paced.burst", whole("packets", 1.0, 4096.0).default("1").when(PACED);
        /// paced: time from one burst to the next
        every: Span = "paced.every", number("us", 1.0, 1e6).default("1000").when(PACED);
        /// paced: number of bursts
        bursts: u64 = "paced.bursts", whole("bursts", 1.0, 1e6).default("400").when(PACED);
        /// paced: the driver or its device computes the UDP checksums of sent frames
        checksum: bool = "paced.checksum", choice(&["off", "on"]).default("off").when(SENT);
    }
}

/// Frames in flight at the most, beside the driver's own: a burst and those not yet taken back.
const UNDER_WAY: usize = 4096;

impl Load {
    /// Reads the load from `v`, for a driver whose longest IP packet is `mtu`. `key` names its
    /// setting.
    ///
    /// # Errors
    /// A frame is too long, or the scenario injects faults.
    pub(crate) fn within(v: &Values, mtu: u32, key: &str) -> Result<Load, SettingError> {
        if !crate::fault::plan(v, Span::ZERO).is_empty() {
            refuse!(
                "`run.fault`: with `traffic.kind` \"{KIND}\" what a frame costs is counted, \
                 without faults"
            );
        }
        let load = Load::of(v);
        let (size, longest) = (load.size, mtu + HEADER as u32);
        if size > longest {
            refuse!("`paced.size` is {size} B, but `{key}` allows {longest}");
        }
        Ok(load)
    }

    /// Returns the host memory for the frames, in bytes.
    pub(crate) fn memory(&self) -> usize {
        (UNDER_WAY + self.burst as usize) * (self.size as usize).next_power_of_two()
    }

    /// Returns the due time of the `n`th frame, from 0, of bursts from `began` on.
    fn due(&self, began: Time, n: u64) -> Time {
        began + self.every * (n / u64::from(self.burst))
    }

    /// Returns the meaning of the latency of a frame.
    pub(crate) fn latency_of(&self) -> &'static str {
        match self.way {
            Direction::Send => "from a frame's due time to its last bit at the peer",
            Direction::Receive => "from a frame's due time at the peer to its being handed up",
            Direction::Answer => {
                "from a frame's due time at the peer to its answer's last bit there"
            }
        }
    }

    /// Returns the time from the first burst until the last frames have ended.
    fn lasts(&self) -> Span {
        self.every * self.bursts + REST
    }
}

/// The longest time that a frame is in flight.
const REST: Span = Span::from_ms(20);
/// The times of a load's own that a core gets to end it.
const LATE: u64 = 10;
/// The counters of devices for frames that found no buffer.
const LOSSES: [&str; 2] = ["rx_missed", "rx_no_buffer"];
const PEER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];

#[derive(Clone, Copy, Debug)]
struct BurstTimer {
    next: Time,
    left: u64,
    every: Span,
}

impl BurstTimer {
    fn new(load: &Load, beats: bool) -> BurstTimer {
        let left = if beats { load.bursts } else { 0 };
        BurstTimer { next: Time::NEVER, left, every: load.every }
    }
    fn start(&mut self, at: Time) {
        self.next = if self.left > 0 { at } else { Time::NEVER };
    }
    /// Returns the due time of the burst that is due by `now`.
    fn due(&mut self, now: Time) -> Option<Time> {
        let at = Some(self.next).filter(|at| *at <= now && self.left > 0)?;
        self.left -= 1;
        self.start(at + self.every);
        Some(at)
    }
}

/// The frames of a load that have reached one end.
#[derive(Debug)]
struct Ended {
    load: Load,
    /// Time of the first burst.
    began: Time,
    frames: u64,
    /// Time of the last of them.
    last: Time,
    /// From the due time of each to its end.
    latency: Histogram,
}

impl Ended {
    fn new(load: &Load) -> Ended {
        let (began, last) = (Time::ZERO, Time::ZERO);
        Ended { load: *load, began, frames: 0, last, latency: Histogram::default() }
    }

    /// Counts the next frame.
    fn count(&mut self, at: Time) {
        self.latency.record(at.since(self.load.due(self.began, self.frames)));
        (self.frames, self.last) = (self.frames + 1, at);
    }
}

/// The other end of the wire.
#[derive(Debug)]
pub(crate) struct Peer {
    frame: Vec<u8>,
    beat: BurstTimer,
    came: Ended,
    /// Frames sent.
    pub sent: u64,
    /// Received frames of another size than the load's.
    pub strange: u64,
}

impl Peer {
    /// Makes the peer of a station with the address `mac`.
    pub(crate) fn new(load: &Load, mac: [u8; 6]) -> Peer {
        let mut frame = udp(mac, PEER, load.size, true);
        // Both fields are inside the frame.
        let _ = CHECKSUM.complete(&mut frame);
        let beat = BurstTimer::new(load, load.way != Direction::Send);
        Peer { frame, beat, came: Ended::new(load), sent: 0, strange: 0 }
    }
}

/// The UDP checksum's place in a frame.
const CHECKSUM: CsumPartial = CsumPartial { start: 34, offset: 6 };

impl EventSource for Peer {
    fn next_due(&self) -> Option<Time> {
        Some(self.beat.next).filter(|t| *t < Time::NEVER)
    }
}

impl Other for Peer {
    fn receive(&mut self, at: Time, frame: &[u8], _: &mut Wire) {
        self.came.count(at);
        self.strange += u64::from(frame.len() != self.frame.len());
    }
    fn advance(&mut self, until: Time, wire: &mut Wire) {
        while let Some(at) = self.beat.due(until) {
            for _ in 0..self.came.load.burst {
                wire.send(at, &self.frame);
                self.sent += 1;
            }
        }
    }
}

/// The layer above the driver.
#[derive(Debug)]
pub(crate) struct UpperLayer {
    load: Load,
    frame: Vec<u8>,
    beat: BurstTimer,
    ready: VecDeque<Packet>,
    came: Vec<Packet>,
    spare: Vec<Buf>,
    made: u64,
    received: Ended,
    dropped: u64,
    exhausted: u64,
}

impl UpperLayer {
    fn new(load: &Load, mac: [u8; 6]) -> UpperLayer {
        UpperLayer {
            load: *load,
            frame: udp(PEER, mac, load.size, load.checksum),
            beat: BurstTimer::new(load, load.way == Direction::Send),
            ready: VecDeque::new(),
            came: Vec::new(),
            spare: Vec::new(),
            made: 0,
            received: Ended::new(load),
            dropped: 0,
            exhausted: 0,
        }
    }

    fn make<H: Host>(&mut self, h: &mut H) {
        let Ok(buf) = h.buffer(self.load.size, Alignment::ANY) else {
            self.exhausted += 1;
            return;
        };
        h.bytes_mut(&buf, 0..self.load.size, |b| b.copy_from_slice(&self.frame));
        let checksum = self.load.checksum.then_some(CHECKSUM);
        self.made += 1;
        self.ready.push_back(Packet {
            todo: OffloadRequest { checksum, ..OffloadRequest::NONE },
            ..Packet::linear(Fragment::whole(buf))
        });
    }
}

impl Sink for UpperLayer {
    fn sent(&mut self, b: Buf, _: u32, _: bool) {
        self.spare.push(b);
    }
    fn received(&mut self, p: Packet, _: bool) {
        self.came.push(p);
    }
}

impl<H: Host> Endpoint<H> for UpperLayer {
    fn softirq(&mut self, h: &mut H) {
        self.spare.drain(..).for_each(|b| h.release(b));
        for p in std::mem::take(&mut self.came) {
            p.release(h);
            self.received.count(h.now());
            if self.load.way == Direction::Answer {
                self.make(h);
            }
        }
    }
    fn timers(&mut self, h: &mut H) {
        if self.beat.due(h.now()).is_some() {
            for _ in 0..self.load.burst {
                self.make(h);
            }
        }
    }
    fn next_timer(&self) -> Time {
        self.beat.next
    }
    fn output(&mut self, _: &mut H) -> Option<Packet> {
        self.ready.pop_front()
    }
    fn more(&self) -> bool {
        self.load.way == Direction::Send && !self.ready.is_empty()
    }
    fn is_generator(&self) -> bool {
        self.load.way == Direction::Send
    }
    fn dropped(&mut self, h: &mut H, p: Packet) {
        self.dropped += 1;
        p.release(h);
    }
}

/// Leaves sent frames to the interrupts of a device that has one for them.
pub(crate) const fn by_interrupt<Dr, M>(_: &mut Dr, _: &mut M, _: &mut UpperLayer) {}

/// Counts the frames that reached their end: the peer, or the machine's stack.
struct Frames<L, R> {
    way: Direction,
    look: L,
    reclaim: R,
    /// The time of the first burst, until it is started.
    begin: Option<Time>,
    marks: Marks,
}

type Under<D> = Wired<D, Peer>;
type Board<B, D> = Machine<B, Under<D>>;
type Station<Dr> = NapiContext<Dr, UpperLayer>;

impl<B, D, Dr, L, R> Probe<Board<B, D>, Station<Dr>> for Frames<L, R>
where
    B: Bus,
    Under<D>: Device<B>,
    Dr: Driver<Board<B, D>>,
    L: Fn(&Board<B, D>, &[Station<Dr>]) -> Counted,
    R: Fn(&mut Dr, &mut Board<B, D>, &mut UpperLayer),
{
    fn done(&self, m: &Board<B, D>, s: &[Station<Dr>]) -> (u64, u64) {
        let received = &s[0].endpoint.received;
        let ended = if self.way == Direction::Receive { received } else { &m.device.peer.came };
        (ended.frames, 0)
    }
    fn counters(&self, m: &Board<B, D>, s: &[Station<Dr>]) -> Counted {
        (self.look)(m, s)
    }
    fn sliced(&mut self, at: Time, m: &mut Board<B, D>, s: &mut [Station<Dr>]) {
        let s = &mut s[0];
        (self.reclaim)(&mut s.driver, m, &mut s.endpoint);
        s.endpoint.spare.drain(..).for_each(|b| m.release(b));
        s.send(m);
        // Slices without a frame are left out: the rate is that from the first burst to the last.
        let done = self.done(m, std::slice::from_ref(s)).0;
        if done > self.marks.last().map_or(0, |m| m.1) {
            self.marks.push((at, done));
        }
    }
    fn snapped(&mut self, m: &mut Board<B, D>, s: &mut [Station<Dr>]) {
        if let Some(begin) = self.begin.take() {
            m.outside(|device, _, at| {
                device.peer.came.began = at.max(begin);
                device.peer.beat.start(at.max(begin));
            });
            s[0].endpoint.received.began = begin;
            s[0].endpoint.beat.start(begin);
        }
    }
    fn series(&mut self, _: [f64; 2], _: &Board<B, D>, _: &mut [Station<Dr>]) -> Points {
        Vec::new()
    }
}

/// Runs `load` over an open driver with the address `mac`, and returns it. `look` reads the
/// counters, and `reclaim` makes the driver return sent frames where no interrupt does. Counts
/// start when it is open and end before it is closed. Fails if the run is stuck, or the watcher
/// ends it.
pub(crate) fn run<B, D, Dr>(
    m: &mut Board<B, D>,
    queue: OpenQueue<Dr>,
    (load, mac): (&Load, [u8; 6]),
    (look, reclaim): (
        impl Fn(&Board<B, D>, &[Station<Dr>]) -> Counted,
        impl Fn(&mut Dr, &mut Board<B, D>, &mut UpperLayer),
    ),
    rules: &Rules,
    watch: &mut dyn Watch,
) -> Result<(RunStats, Dr)>
where
    B: Bus,
    Under<D>: Device<B>,
    Dr: Driver<Board<B, D>>,
{
    let stations = vec![queue.under(UpperLayer::new(load, mac))];
    let none = Plan::default();
    let mut x = Experiment::new(m, stations, 1, *rules, &none, watch);
    x.may_idle = true;
    // The effects of opening are not part of the traffic.
    let begin = x.m.now() + REST;
    x.slice(begin)?;
    x.begin(|_, _, _| {});
    let mut probe =
        Frames { way: load.way, look, reclaim, begin: Some(begin), marks: Marks::new() };
    let before = x.snapshot(begin, &probe);
    let (mut o, mut at) = x.measure(begin, (Span::ZERO, load.lasts()), &mut probe)?;
    let last = at + load.lasts() * LATE;
    let mut evidence = Vec::new();
    while (x.is_under_way(at) || x.stations[0].has_waiting()) && at < last {
        at += SLICE;
        x.slice(at)?;
        probe.sliced(at, x.m, &mut x.stations);
        let late = at.since(begin + load.every * load.bursts);
        evidence = vec![format!("frames were still under way {late} after their bursts")];
        if !x.watch.progress(at.since(begin).ps(), last.since(begin).ps()) {
            return Err(RunError::Stopped);
        }
    }
    o.counts = x.snapshot(at, &probe).since(&before);
    x.end();
    let mut stations = x.stations;
    let mut s = stations.remove(0);
    let waiting: Vec<_> = s.drain_queue().collect();
    let (above, peer) = (&s.endpoint, &m.device.peer);
    let asked = load.bursts * u64::from(load.burst);
    if above.exhausted > 0 {
        evidence.push(format!("{} frames found no memory: those before wait", above.exhausted));
    }
    if !waiting.is_empty() {
        evidence.push(format!("{} frames still wait for the driver", waiting.len()));
    }
    o.verdict.unfinished = evidence;
    let mut b = CrossCheck::of(&o);
    let left = waiting.len() as u64;
    b.less(
        "frames sent: made {}, peer took {}",
        [above.made, peer.came.frames],
        ("that wait", left),
    );
    b.never("frames sent: of another size {}", peer.strange);
    let lost = LOSSES.iter().map(|name| o.counts.counter(1, name)).sum::<u64>();
    let text = "frames received: peer sent {}, driver handed up or device lost {}";
    b.less(text, [peer.sent, above.received.frames + lost], ("under way", ANY));
    b.never("frames: dropped by the driver {}", above.dropped);
    let (begun, ended) = (above.made + above.exhausted, above.received.frames + lost);
    b.less("frames: asked for {}, made or received {}", [asked, begun.max(ended)], ("late", ANY));
    o.verdict.take(b);
    // Bursts may be rarer than slices: batches of equal time would hold different numbers of them.
    o.batches.clear();
    let is_received = load.way == Direction::Receive;
    let ended = if is_received { &above.received } else { &peer.came };
    let (all, last) = (ended.frames, ended.last);
    o.counts.packets = all;
    // Which frames were lost is not known.
    if (lost, above.exhausted) == (0, 0) {
        o.latency = ended.latency.clone();
    }
    // The frames may take longer than their bursts, on a link or a core that is slower.
    let time = (load.every * load.bursts).max(last.since(begin)).max(o.counts.busy[0]);
    o.window = match Window::given(begin, &probe.marks, true) {
        w if w.error.is_some() && all as f64 / w.rate() >= o.counts.busy[0].as_secs_f64() => w,
        _ => Window::whole(time, all),
    };
    o.counts.ran = Span::from_ps((all as f64 / o.window.rate().max(1e-12) * 1e12) as u64);
    waiting.into_iter().for_each(|p| p.release(m));
    Ok((o, s.driver))
}

/// Returns a run of `load` under the names of results, at a clock of `ghz`.
pub(crate) fn measured(o: RunStats, load: &Load, ghz: f64) -> Measured {
    // Counts are those of all frames. The time is that of the bursts, without rest and end.
    let all = o.counts.clone();
    let rates = |_: &Counts, rate: f64| {
        let (c, seconds) = (&all, all.packets as f64 / rate.max(1e-12));
        let each = "frames, of which each is answered where that is asked for";
        let busy = c.busy[0].as_secs_f64() / seconds;
        let rates = [
            vec![PACKETS.is(rate).about(each).sampled(Sampled::Window)],
            c.wire_rates(),
            c.event_rates(seconds),
            vec![CPU_BUSY.is(busy).about("of its one core")],
        ];
        rates.concat()
    };
    o.measured(rates, CountsOf::Run, load.latency_of(), ghz)
}

#[cfg(test)]
mod tests;
