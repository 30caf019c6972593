//! Frames at a pace, for one driver alone with its wire: what each costs, whatever the machine's
//! speed.
//!
//! Bursts of equal UDP frames at equal distances are sent, or come, or come and are answered one by
//! one. What is sent in a burst is announced with "more" on all but its last packet, as the
//! kernel's pktgen does it; an answer is not, for each comes down from its socket by itself. The
//! frames are in one piece.
//!
//! A guest's own driver can be given the same traffic, by pktgen in the guest and by frames that
//! the host sends. So what both cost by the frame can be held against each other (docs/guests.md),
//! and this is what it is for. Copies in the ledger are the driver's alone: whoever makes a frame
//! here copies nothing.

use crate::clock::link::{Peer as Other, Wire, Wired, on_wire};
use crate::clock::napi::{Cpu, Endpoint, Interrupt, Rules, Station, run_until};
use crate::closed::{self, Entries};
use crate::fault::Plan;
use crate::histogram::Histogram;
use crate::key::{Key, Needs, Values};
use crate::open::Ended;
use crate::result::{Cost, Count, CountsOf, Failure, Group, Measured, Rate, WorkTotals, work_of};
use crate::trace;
use crate::traffic::udp;
use crate::watch::Watch;
use crate::window::{Marks, Window};
use doorbell_bus::{Bus, Ledger, Machine};
use doorbell_drivers::{Driver, Sink};
use doorbell_hal::{Alignment, Buf, Device, EventSource, Host, Span, Time};
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::{CsumPartial, Fragment, OffloadRequest, Packet};
use std::collections::VecDeque;

/// Which way frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Bursts are sent.
    Send,
    /// Bursts come.
    Receive,
    /// Bursts come, and each frame is answered by one.
    Answer,
}

/// The traffic of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Which way.
    pub way: Way,
    /// Bytes of a frame without FCS.
    pub size: u32,
    /// Frames of a burst.
    pub burst: u32,
    /// From one burst to the next.
    pub every: Span,
    /// How many bursts.
    pub bursts: u64,
    /// UDP checksums of what is sent are left to the driver; else there is none.
    pub checksum: bool,
}

/// What `traffic.kind` says of it.
pub const KIND: &str = "paced";

const PACED: &[Needs] = &[Needs::kind(&[KIND])];
const SENT: &[Needs] = &[Needs::kind(&[KIND]), Needs::word("paced.way", &["send", "answer"])];

/// What a scenario says of it.
pub static KEYS: [Key; 6] = [
    Key::choice(
        "paced.way",
        &["send", "receive", "answer"],
        "paced: frames are sent; or come; or come and are answered, one by one",
    )
    .default("send")
    .when(PACED),
    Key::whole("paced.size", "B", 60.0, 9014.0, "paced: frame without FCS")
        .default("60")
        .when(PACED),
    Key::whole(
        "paced.burst",
        "packets",
        1.0,
        4096.0,
        "paced: frames of a burst, one right behind the other",
    )
    .default("1")
    .when(PACED),
    Key::number("paced.every", "us", 1.0, 1e6, "paced: from one burst to the next")
        .default("1000")
        .when(PACED),
    Key::whole("paced.bursts", "bursts", 1.0, 1e6, "paced: how many").default("400").when(PACED),
    Key::choice(
        "paced.checksum",
        &["off", "on"],
        "paced: UDP checksums of what is sent are left to the driver",
    )
    .default("off")
    .when(SENT),
];

/// Frames under way at the most, beside the driver's own: a burst, and what nobody took back yet.
const UNDER_WAY: usize = 4096;

impl Load {
    /// The load of these values, for a driver whose longest IP packet is `mtu`, which is called
    /// `key`.
    ///
    /// # Errors
    /// A frame that is too long, or faults that are asked for.
    pub fn of(v: &Values, mtu: u32, key: &str) -> Result<Load, String> {
        if !Plan::of(v, Span::ZERO).is_empty() {
            return Err(format!(
                "`run.fault`: with `traffic.kind` \"{KIND}\" what a frame costs is counted, without faults"
            ));
        }
        let size = v.number("paced.size") as u32;
        let longest = mtu + HEADER as u32;
        if size > longest {
            return Err(format!("`paced.size` is {size} B, but `{key}` allows {longest}"));
        }
        Ok(Load {
            way: match v.word("paced.way") {
                "receive" => Way::Receive,
                "answer" => Way::Answer,
                _ => Way::Send,
            },
            size,
            burst: v.number("paced.burst") as u32,
            every: Span::from_ps((v.number("paced.every") * 1e6).round() as u64),
            bursts: v.number("paced.bursts") as u64,
            checksum: v.is_on("paced.checksum"),
        })
    }

    /// Host memory for its frames.
    pub fn memory(&self) -> usize {
        (UNDER_WAY + self.burst as usize) * (self.size as usize).next_power_of_two()
    }

    /// How long all of it takes, and what is then under way comes to its end.
    fn lasts(&self) -> Span {
        self.every * self.bursts + REST
    }
}

/// One look at a run; and how long what is under way takes at the most.
const SLICE: Span = Span::from_ms(1);
const REST: Span = Span::from_ms(20);
const PEER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];

/// A burst, again and again.
#[derive(Clone, Copy, Debug)]
struct Beat {
    next: Time,
    left: u64,
    every: Span,
}

impl Beat {
    fn new(load: &Load, beats: bool) -> Beat {
        Beat { next: Time::NEVER, left: if beats { load.bursts } else { 0 }, every: load.every }
    }
    fn start(&mut self, at: Time) {
        self.next = if self.left > 0 { at } else { Time::NEVER };
    }
    /// When the burst that is due by `now` was due.
    fn due(&mut self, now: Time) -> Option<Time> {
        let at = Some(self.next).filter(|at| *at <= now && self.left > 0)?;
        self.left -= 1;
        self.start(at + self.every);
        Some(at)
    }
}

/// What is on the other end of the wire.
#[derive(Debug)]
pub struct Peer {
    frame: Vec<u8>,
    burst: u32,
    beat: Beat,
    /// Frames sent.
    pub sent: u64,
    /// Frames that came.
    pub came: u64,
    /// Of those, not of the size that all have.
    pub strange: u64,
}

impl Peer {
    /// The peer of a station.
    pub fn new(load: &Load, mac: [u8; 6]) -> Peer {
        let mut frame = udp(mac, PEER, load.size, true);
        // Both are in the frame.
        let _ = CHECKSUM.complete(&mut frame);
        let beat = Beat::new(load, load.way != Way::Send);
        Peer { frame, burst: load.burst, beat, sent: 0, came: 0, strange: 0 }
    }
}

/// Where the UDP checksum is.
const CHECKSUM: CsumPartial = CsumPartial { start: 34, offset: 6 };

impl EventSource for Peer {
    fn next_due(&self) -> Option<Time> {
        Some(self.beat.next).filter(|t| *t < Time::NEVER)
    }
}

impl Other for Peer {
    fn receive(&mut self, _: Time, frame: &[u8], _: &mut Wire) {
        self.came += 1;
        self.strange += u64::from(frame.len() != self.frame.len());
    }
    fn advance(&mut self, until: Time, wire: &mut Wire) {
        while let Some(at) = self.beat.due(until) {
            for _ in 0..self.burst {
                wire.send(at, &self.frame);
                self.sent += 1;
            }
        }
    }
}

/// What is above the driver.
#[derive(Debug)]
pub struct Above {
    load: Load,
    frame: Vec<u8>,
    beat: Beat,
    ready: VecDeque<Packet>,
    came: Vec<Packet>,
    spare: Vec<Buf>,
    made: u64,
    received: u64,
    dropped: u64,
    exhausted: u64,
}

impl Above {
    fn new(load: &Load, mac: [u8; 6]) -> Above {
        Above {
            load: *load,
            frame: udp(PEER, mac, load.size, load.checksum),
            beat: Beat::new(load, load.way == Way::Send),
            ready: VecDeque::new(),
            came: Vec::new(),
            spare: Vec::new(),
            made: 0,
            received: 0,
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

impl Sink for Above {
    fn sent(&mut self, b: Buf, _: u32, _: bool) {
        self.spare.push(b);
    }
    fn received(&mut self, p: Packet, _: bool) {
        self.came.push(p);
    }
}

impl<H: Host> Endpoint<H> for Above {
    fn softirq(&mut self, h: &mut H) {
        self.spare.drain(..).for_each(|b| h.release(b));
        for p in std::mem::take(&mut self.came) {
            p.release(h);
            self.received += 1;
            if self.load.way == Way::Answer {
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
        self.load.way == Way::Send && !self.ready.is_empty()
    }
    fn dropped(&mut self, h: &mut H, p: Packet) {
        self.dropped += 1;
        p.release(h);
    }
    fn is_ready(&self) -> bool {
        false
    }
    fn run(&mut self, _: &mut H) {}
    fn is_done(&self) -> bool {
        false
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Seen {
    packets: u64,
    elapsed: Span,
    window: Window,
    wire: [(u64, u64); 2],
    ledger: Ledger,
    work: WorkTotals,
    stalled: Span,
    busy: Span,
    counters: [Entries; 2],
    interrupts: u64,
    polls: u64,
    /// What does not add up.
    pub wrong: Vec<String>,
}

/// What a system brings: its driver, open, and how to deal with it.
#[derive(Debug)]
pub struct Driven<Dr, L, R> {
    /// The driver.
    pub driver: Dr,
    /// Its station's address.
    pub mac: [u8; 6],
    /// Its interrupts.
    pub lines: Vec<Interrupt>,
    /// Reads the counters of driver and device.
    pub look: L,
    /// Has the driver hand back what was sent, where no interrupt makes it.
    pub reclaim: R,
}

/// Runs `load` over a driver that is open, and gives it back. Counts begin when it is open, and end
/// before it is closed.
///
/// # Errors
/// When it gets stuck, or whoever watches ends it.
pub fn run<B, D, Dr>(
    m: &mut Machine<B, Wired<D, Peer>>,
    driven: Driven<
        Dr,
        impl Fn(&Dr, &Machine<B, Wired<D, Peer>>) -> [Entries; 2],
        impl Fn(&mut Dr, &mut Machine<B, Wired<D, Peer>>, &mut Above),
    >,
    load: &Load,
    rules: &Rules,
    watch: &mut dyn Watch,
) -> Result<(Seen, Dr), Failure>
where
    B: Bus,
    Wired<D, Peer>: Device<B>,
    Dr: Driver<Machine<B, Wired<D, Peer>>>,
{
    let Driven { driver, mac, lines, look, reclaim } = driven;
    let mut stations = [Station::new(driver, Above::new(load, mac), lines, 0, 0)];
    let mut cpus = [Cpu::default()];
    m.device.capture = watch.wants_frames().then(Vec::new);
    // What opening set going is not of the traffic.
    let begin = m.now() + REST;
    run_until(m, &mut cpus, &mut stations, rules, begin)?;
    trace::begin_wired(m, watch);
    let before = (m.bus.ledger(), work_of(m), m.stalled(), look(&stations[0].driver, m));
    let (wire, taken) = (
        [m.device.out.borrow().landed, m.device.back.landed],
        (stations[0].interrupts, stations[0].polls),
    );
    let busy = cpus[0].busy.total();
    m.outside(|device, _, at| device.peer.beat.start(at.max(begin)));
    stations[0].endpoint.beat.start(begin);
    let (mut at, end) = (begin, begin + load.lasts());
    let (mut looks, mut seen) = (Marks::new(), 0);
    while at < end {
        at += SLICE;
        run_until(m, &mut cpus, &mut stations, rules, at)?;
        let s = &mut stations[0];
        reclaim(&mut s.driver, m, &mut s.endpoint);
        s.endpoint.spare.drain(..).for_each(|b| m.release(b));
        s.send(m);
        // A frame is done where it goes: with the peer, or handed up. Looks without any are left
        // out, so that the rate is that from the first burst to the last.
        let done = if load.way == Way::Receive { s.endpoint.received } else { m.device.peer.came };
        if done > seen {
            looks.push((at, done));
            seen = done;
        }
        m.device.drain_capture(|at, f| watch.frame(at, f)).map_err(Failure::Run)?;
        if !watch.progress(at.since(begin).ps(), end.since(begin).ps()) {
            return Err(Ended::Stopped.into());
        }
    }
    trace::end_wired(m, watch);
    let [mut s] = stations;
    let waiting: Vec<_> = s.drain_queue().collect();
    let (above, peer) = (&s.endpoint, &m.device.peer);
    let mut wrong = Vec::new();
    let mut same = |what: &str, a: (&str, u64), b: (&str, u64)| {
        if a.1 != b.1 {
            wrong.push(format!("{what}: {} {}, {} {}", a.0, a.1, b.0, b.1));
        }
    };
    same("frames sent", ("made", above.made), ("peer took", peer.came));
    same("frames sent", ("of another size", peer.strange), ("allowed", 0));
    same("frames received", ("peer sent", peer.sent), ("driver handed up", above.received));
    same("frames", ("for which there was no memory", above.exhausted), ("allowed", 0));
    same(
        "frames",
        ("dropped by the driver or waiting", above.dropped + waiting.len() as u64),
        ("allowed", 0),
    );
    let all = load.bursts * u64::from(load.burst);
    same("frames", ("made or received", above.made.max(above.received)), ("asked for", all));
    let less = |a: (u64, u64), b: (u64, u64)| (b.0 - a.0, b.1 - a.1);
    let seen = Seen {
        packets: all,
        elapsed: end.since(begin),
        window: match Window::given(begin, &looks, true) {
            w if w.error.is_some() => w,
            _ => Window::whole(load.every * load.bursts, all),
        },
        wire: [less(wire[0], m.device.out.borrow().landed), less(wire[1], m.device.back.landed)],
        ledger: m.bus.ledger().since(&before.0),
        work: closed::differences(&before.1, &work_of(m)),
        stalled: Span::from_ps(m.stalled().ps() - before.2.ps()),
        busy: Span::from_ps(cpus[0].busy.total().ps() - busy.ps()),
        counters: closed::counted(&before.3, &look(&s.driver, m)),
        interrupts: s.interrupts - taken.0,
        polls: s.polls - taken.1,
        wrong,
    };
    waiting.into_iter().for_each(|p| p.release(m));
    Ok((seen, s.driver))
}

impl Seen {
    /// What does not add up on the machine, when everything has been closed and released.
    pub fn audit<B: Bus, D>(&mut self, m: &Machine<B, D>) {
        let l = m.bus.ledger();
        for (what, a, b) in [
            ("mappings made and ended", l.maps, l.unmaps),
            ("buffers taken and released", l.buffers_taken, l.buffers_released),
            ("DMA faults, of which are allowed", l.dma_faults, 0),
        ] {
            if a != b {
                self.wrong.push(format!("{what}: {a}, {b}"));
            }
        }
    }

    /// Under the names of results; the clock is of so many GHz.
    pub fn measured(self, ghz: f64) -> Measured {
        // What was counted is of all frames, and those took so long: rest and end are not of the
        // pace.
        let seconds = self.packets as f64 / self.window.rate().max(1e-12);
        let rate = |name, about: &'static str, value| Rate { name, about: about.into(), value };
        let rates = vec![
            rate(
                "packets_per_s",
                "frames, of which each is answered where that is asked for",
                self.window.rate(),
            ),
            rate(
                "wire_out_bits_per_s",
                "frames sent, with preamble, FCS and gap",
                8.0 * on_wire(self.wire[0]) as f64 / seconds,
            ),
            rate(
                "wire_in_bits_per_s",
                "frames received, with preamble, FCS and gap",
                8.0 * on_wire(self.wire[1]) as f64 / seconds,
            ),
            rate("interrupts_per_s", "interrupts taken", self.interrupts as f64 / seconds),
            rate("polls_per_s", "polls made", self.polls as f64 / seconds),
            Rate::of_cores("of its one core", self.busy.as_secs_f64() / seconds),
        ];
        let [driver, device] = self.counters;
        let mut counts = Count::of_ledger(&self.ledger);
        counts.extend(Count::of(Group::Driver, driver.into_iter()));
        counts.extend(Count::of(Group::Device, device.into_iter()));
        Measured {
            packets: self.packets,
            elapsed: self.elapsed,
            window: self.window,
            counts_of: CountsOf::Run,
            rates,
            counts,
            costs: Cost::of(
                &self.work,
                (
                    self.ledger.mmio_writes + self.ledger.mmio_reads + self.ledger.fences,
                    self.stalled,
                ),
                ghz,
            ),
            series: Vec::new(),
            latency_of: "nothing of it is measured",
            latency: Histogram::default(),
            audit: self.wrong,
        }
    }
}

#[cfg(test)]
mod tests;
