//! An open-loop run: the packet generator on every core, or a capture through one.
//!
//! What a scenario says of it ([`KEYS`]), the [`Load`] that comes of it, and the
//! loop that drives it to its end, for any system.

use crate::clock::link::on_wire;
use crate::clock::{self, Core, Stuck};
use crate::fault::Trouble;
use crate::key::{Is, Key, Needs, Values};
use crate::trace;
use crate::traffic::{Frames, Pktgen, Rate, Replay, ReplayOptions, Source};
use crate::watch::Watch;
use crate::window::{Steady, Window};
use doorbell_bus::{Bus, Capture, Ledger, Machine, keep_every_other};
use doorbell_drivers::Driver;
use doorbell_hal::{Device, Host, OutOfMemory, Span, Time, WorkKind};
use doorbell_packet::{ethernet, vlan};
use std::sync::Arc;

/// Simulated time that a run may take: 10^18 ps are well inside a `Time`.
const MAX_SECONDS: f64 = 1e6;

const PKTGEN: &[Needs] = &[Needs::kind(&["pktgen"])];
const PCAP: &[Needs] = &[Needs::kind(&["pcap"])];
/// Frames at their own times are not announced together.
const IN_BURSTS: &[Needs] = &[
    Needs::kind(&["pktgen", "pcap"]),
    Needs::kind(&["pktgen"]).or("traffic.times", Is::Word(&["full"])),
];

/// What a scenario says, beside `traffic.kind`: `pktgen` or `pcap`.
pub static KEYS: [Key; 11] = [
    Key::steps("traffic.size", "B", (42.0, 16384.0, 1.0), "pktgen: packet without FCS")
        .default("64")
        .when(PKTGEN),
    Key::whole("traffic.burst", "packets", 1.0, 4096.0, "packets announced together")
        .default("32")
        .when(IN_BURSTS),
    Key::number("traffic.rate", "Mpps", 0.001, 1e4, "pktgen: over all cores")
        .or(&["full"])
        .default("full")
        .when(PKTGEN),
    Key::whole(
        "traffic.packets",
        "packets",
        1.0,
        1e9,
        "pktgen: in all; rounded up to a multiple of the cores",
    )
    .default("240000")
    .when(PKTGEN),
    Key::choice(
        "traffic.checksum",
        &["off", "on"],
        "pktgen: whether the UDP checksum is left to the device",
    )
    .default("off")
    .when(PKTGEN),
    Key::file("traffic.file", "pcap: the capture").when(PCAP),
    Key::choice(
        "traffic.times",
        &["full", "own"],
        "pcap: as fast as the queue takes frames, or at their own times",
    )
    .default("full")
    .when(PCAP),
    Key::whole("traffic.rounds", "rounds", 1.0, 1e6, "pcap: how often it is sent")
        .default("1")
        .when(PCAP),
    Key::choice(
        "traffic.offload",
        &["csum", "none"],
        "pcap: whether TCP and UDP checksums are left to the device",
    )
    .default("csum")
    .when(PCAP),
    Key::steps(
        "traffic.gso",
        "B",
        (1.0, 65535.0, 1.0),
        "pcap: frames over the MTU are large sends with segments of this payload",
    )
    .or(&["none"])
    .default("none")
    .when(PCAP),
    Key::steps("traffic.mtu", "B", (68.0, 65535.0, 1.0), "pcap: the largest IP packet")
        .default("1500")
        .when(PCAP),
];

/// What driver and device can send: bytes, and the key that says so.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest frame, without FCS.
    pub frame: (u32, &'static str),
    /// Most payload of a large send; 0: none is possible.
    pub large_send: (u32, &'static str),
}

/// What is sent.
#[derive(Clone, Debug)]
pub enum Load {
    /// The packet generator on every core.
    Pktgen {
        /// Bytes without FCS.
        size: u32,
        /// Packets in a burst.
        burst: u32,
        /// Packets a second over all cores; `None`: full speed.
        rate: Option<f64>,
        /// Packets in all, dealt out evenly: rounded up to a multiple of the cores.
        packets: u64,
        /// Whether the UDP checksum is left to the device.
        checksum: bool,
    },
    /// Frames from elsewhere, on core 0.
    Replay {
        /// The frames.
        frames: Arc<Frames>,
        /// How they are sent.
        options: ReplayOptions,
    },
}

impl Load {
    /// Frames that it will send, as far as that is known beforehand: large sends count once.
    pub fn packets(&self, cores: u16) -> u64 {
        match self {
            Load::Pktgen { packets, .. } => {
                packets.div_ceil(u64::from(cores.max(1))) * u64::from(cores.max(1))
            }
            Load::Replay { frames, options } => frames.len() as u64 * u64::from(options.rounds),
        }
    }

    /// Packets that leave together: departures are looked at in multiples of them, so that a pace
    /// is seen between bursts and not within one.
    fn beat(&self) -> u64 {
        match self {
            Load::Pktgen { burst, .. } => u64::from(*burst),
            Load::Replay { options, .. } if options.own_times => 1,
            Load::Replay { options, .. } => u64::from(options.burst),
        }
    }

    /// The load of these values; `frames` are those of the capture they name.
    ///
    /// # Errors
    /// Traffic that this machine cannot send, with the frame where it is one.
    pub fn of(v: &Values, limits: &Limits, frames: Option<&Arc<Frames>>) -> Result<Load, String> {
        if v.word("traffic.kind") == "pcap" { replay(v, limits, frames) } else { pktgen(v, limits) }
    }

    /// Host memory for what one queue of `ring` packets has under way.
    pub fn memory(&self, ring: u32) -> usize {
        let block = |bytes: u32| bytes.next_power_of_two() as usize;
        match self {
            Load::Pktgen { size, burst, .. } => (ring + burst) as usize * 2 * block(*size),
            // Replayed frames differ in size, so that freed blocks do not always fit.
            Load::Replay { frames, .. } => ring as usize * 4 * block(frames.longest()),
        }
    }

    /// The source of core `i` of `cores`, if it has one; `in_flight` packets fit its queue.
    ///
    /// # Errors
    /// No host memory.
    pub fn source<H: Host>(
        &self,
        h: &mut H,
        cores: u16,
        i: usize,
        in_flight: u32,
    ) -> Result<Option<Source>, OutOfMemory> {
        match self {
            Load::Replay { frames, options } => {
                Ok((i == 0).then(|| Source::Replay(Replay::new(Arc::clone(frames), *options))))
            }
            &Load::Pktgen { size, burst, rate, checksum, .. } => {
                let cores = u64::from(cores.max(1));
                let packets = self.packets(cores as u16) / cores;
                let (rate, first) = match rate {
                    None => (Rate::Full, Span::ZERO),
                    Some(pps) => {
                        // Each core starts at its own share of the distance between bursts.
                        let every = f64::from(burst) * cores as f64 / pps * 1e12;
                        let first = every * i as f64 / cores as f64;
                        (
                            Rate::Burst(Span::from_ps(every.round() as u64)),
                            Span::from_ps(first.round() as u64),
                        )
                    }
                };
                let buffers = in_flight + burst;
                let p =
                    Pktgen::new(h, size, burst, packets, rate, first, buffers, i as u16, checksum)?;
                Ok(Some(Source::Pktgen(p)))
            }
        }
    }
}

fn pktgen(v: &Values, limits: &Limits) -> Result<Load, String> {
    let size = v.number("traffic.size") as u32;
    let (most, key) = limits.frame;
    if size > most {
        return Err(format!(
            "`traffic.size` is {size} B, but the device sends {most} at the most (`{key}`)"
        ));
    }
    Ok(Load::Pktgen {
        size,
        burst: v.number("traffic.burst") as u32,
        rate: v.number_or_word("traffic.rate").map(|mpps| mpps * 1e6),
        packets: v.number("traffic.packets") as u64,
        checksum: v.is_on("traffic.checksum"),
    })
}

fn replay(v: &Values, limits: &Limits, frames: Option<&Arc<Frames>>) -> Result<Load, String> {
    let Some(frames) = frames.filter(|f| !f.is_empty()) else {
        return Err("the traffic is a capture, but none is given: --pcap FILE, or `traffic.file`"
            .to_owned());
    };
    let file = v.text("traffic.file");
    let options = ReplayOptions {
        own_times: v.word("traffic.times") == "own",
        rounds: v.number("traffic.rounds") as u32,
        burst: v.number("traffic.burst") as u32,
        checksum_offload: v.word("traffic.offload") == "csum",
        gso: v.number_or_word("traffic.gso").map(|mss| mss as u16),
        mtu: v.number("traffic.mtu") as u32,
    };
    if options.own_times {
        let seconds = frames.span().as_secs_f64() * f64::from(options.rounds);
        if seconds > MAX_SECONDS {
            return Err(format!(
                "{file}: at its own times it lasts {seconds:.0} s, and {MAX_SECONDS} are the most; send it with --times full"
            ));
        }
    }
    let mut scratch = Vec::new();
    for (i, (_, frame)) in frames.iter().enumerate() {
        sendable(frame, &options, limits, &mut scratch)
            .map_err(|why| format!("{file}: frame {} has {} bytes, {why}", i + 1, frame.len()))?;
    }
    Ok(Load::Replay { frames: Arc::clone(frames), options })
}

/// Whether driver and device can send a frame; if not, why, and what to do.
fn sendable(
    frame: &[u8],
    options: &ReplayOptions,
    limits: &Limits,
    scratch: &mut Vec<u8>,
) -> Result<(), String> {
    let mtu = options.mtu;
    if !options.is_over(frame) {
        let (most, key) = limits.frame;
        if frame.len() > most as usize {
            return Err(format!("more than the device's {most} (`{key}`)"));
        }
        return Ok(());
    }
    let Some(size) = options.gso else {
        return Err(format!(
            "more than an MTU of {mtu} allows; --gso MSS sends it as a large send, --set traffic.mtu=N allows longer frames"
        ));
    };
    scratch.clear();
    scratch.extend_from_slice(frame);
    let gso = options.prepare(scratch).and_then(|todo| todo.gso);
    let Some(gso) = gso else {
        return Err(format!(
            "more than an MTU of {mtu} allows, and cannot be cut into segments of {size}; only whole TCP and UDP datagrams with \
             more payload than that can, no fragments"
        ));
    };
    let payload = frame.len() - usize::from(gso.header);
    let (most, key) = limits.large_send;
    if payload > most as usize {
        return Err(format!(
            "and its payload is over the device's limit of {most} for a large send (`{key}`)"
        ));
    }
    let segment = usize::from(gso.header) + usize::from(size);
    let tagged = scratch.get(12..14).is_some_and(|t| matches!(t, [0x81, 0x00] | [0x88, 0xa8]));
    let header = ethernet::HEADER + if tagged { vlan::TAG } else { 0 };
    if segment > mtu as usize + header {
        return Err(format!(
            "and segments of {size} (--gso) make frames of {segment}, more than an MTU of {mtu} allows"
        ));
    }
    Ok(())
}

/// Why a run did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Cores waited for an interrupt and nothing was under way.
    Stuck(Stuck),
    /// The receiver of the captured frames gave up.
    Capture(String),
    /// Whoever watched did not want to go on.
    Stopped,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Stuck(s) => s.fmt(f),
            Ended::Capture(why) => f.write_str(why),
            Ended::Stopped => f.write_str("stopped"),
        }
    }
}

/// What came of a load that was driven to its end.
#[derive(Clone, Debug)]
pub struct Driven {
    /// When the last thing happened.
    pub end: Time,
    /// What rates are made of. `None`: the run was too short for a steady window.
    pub steady: Option<Steady>,
}

/// Counts when so many frames had left.
#[derive(Clone, Debug)]
struct Look {
    frames: u64,
    ledger: Ledger,
    busy: Span,
    interrupts: u64,
    polls: u64,
}

/// Looks at a run, at about equal numbers of frames; of a long run, every other of these, and so
/// on.
#[derive(Debug)]
struct Looks {
    sent: u64,
    next: u64,
    stride: u64,
    all: Vec<Look>,
    /// Frames that had left when the first source had handed over everything.
    dry: Option<u64>,
}

/// Looks at which every other goes.
const MOST_LOOKS: usize = 128;

impl Looks {
    fn new<B: Bus, D: Device<B>>(m: &Machine<B, D>, stride: u64) -> Looks {
        let sent = m.ledger().wire_frames;
        Looks { sent, next: sent + stride, stride, all: Vec::with_capacity(MOST_LOOKS), dry: None }
    }

    #[cold]
    #[inline(never)]
    fn look<B: Bus, D: Device<B>>(&mut self, m: &Machine<B, D>) {
        let ledger = m.ledger().clone();
        self.next = ledger.wire_frames + self.stride;
        self.all.push(Look {
            frames: ledger.wire_frames - self.sent,
            ledger,
            busy: WorkKind::ALL.iter().fold(m.stalled(), |sum, k| sum + m.spent(*k)),
            interrupts: m.done(WorkKind::Interrupt).times,
            polls: m.done(WorkKind::Poll).times,
        });
        if self.all.len() == MOST_LOOKS {
            keep_every_other(&mut self.all);
            self.stride *= 2;
        }
    }

    /// What was counted in the steady window of a run that began at `began`, whose departures were
    /// these. A device counts ahead of the wire. So counts are those between two looks, and the
    /// time that they took is that of as many departures in the window.
    fn steady(&self, began: Time, departures: &[(Time, u64)]) -> Option<Steady> {
        let dry = self.dry.unwrap_or(u64::MAX);
        let window = Window::found(began, departures, dry)?;
        let last = departures[..departures.partition_point(|d| d.1 <= dry)].last()?.1;
        let first = last - window.packets;
        let a = self.all.iter().find(|l| l.frames >= first)?;
        let b = self.all.iter().rfind(|l| l.frames <= last).filter(|b| b.frames > a.frames)?;
        let (ledger, packets) = (b.ledger.since(&a.ledger), b.frames - a.frames);
        Some(Steady {
            elapsed: Span::from_ps((packets as f64 / window.rate() * 1e12).round() as u64),
            packets,
            payload: 0,
            wire: (on_wire((packets, ledger.wire_bytes)), 0),
            ledger,
            busy: [Span::from_ps(b.busy.ps() - a.busy.ps()), Span::ZERO],
            interrupts: [b.interrupts - a.interrupts, 0],
            polls: b.polls - a.polls,
            window,
        })
    }
}

/// Drives all cores to the end of their traffic, and what they sent out of the device. The traffic
/// begins now: what is sent at a pace is due from here on. `trouble` is what goes wrong meanwhile,
/// if anything is asked for.
///
/// # Errors
/// When it gets stuck, or whoever watches ends it.
pub fn drive<B, D, Dr>(
    m: &mut Machine<B, D>,
    cores: &mut [Core<Dr, Source>],
    load: &Load,
    mut trouble: Option<&mut Trouble<B, D>>,
    watch: &mut dyn Watch,
) -> Result<Driven, Ended>
where
    B: Bus<Sink = Capture>,
    D: Device<B>,
    Dr: Driver<Machine<B, D>>,
{
    trace::begin(m, watch);
    let (began, total) = (m.now(), load.packets(cores.len() as u16));
    for core in cores.iter_mut() {
        core.traffic.start(began);
    }
    m.bus.platform_mut().mark_departures(load.beat());
    let mut looks = Looks::new(m, load.beat());
    let (mut steps, mut failed) = (0u64, None);
    let stuck_or_ended = clock::run(m, cores, trouble.as_deref_mut(), |m, traffic| {
        steps += 1;
        if m.ledger().wire_frames >= looks.next {
            looks.look(m);
        }
        if looks.dry.is_none() && traffic.is_dry() {
            looks.dry = Some(m.ledger().wire_frames - looks.sent);
        }
        if failed.is_none() {
            failed = m.bus.sink_mut().drain(|at, f| watch.frame(at, f)).err();
        }
        let go_on = !steps.is_multiple_of(4096) || watch.progress(m.ledger().wire_frames, total);
        go_on && failed.is_none()
    });
    if stuck_or_ended.is_err() {
        // What led to it is what one wants to see.
        trace::end(m, watch);
    }
    let ended = stuck_or_ended.map_err(Ended::Stuck)?;
    if let Some(why) = failed {
        return Err(Ended::Capture(why));
    }
    if ended == clock::Ended::Stopped {
        return Err(Ended::Stopped);
    }
    // Moderated events may still be on their way.
    let mut last = m.now();
    loop {
        while m.next_event() < Time::NEVER {
            last = last.max(m.next_event());
            m.run_device(m.next_event());
        }
        // What waits for a link leaves when it is up again.
        match &mut trouble {
            Some(t) if t.flaps.is_down() => t.mend(m),
            _ => break,
        }
    }
    m.bus.sink_mut().drain(|at, f| watch.frame(at, f)).map_err(Ended::Capture)?;
    watch.progress(m.ledger().wire_frames, total);
    trace::end(m, watch);
    Ok(Driven { end: last, steady: looks.steady(began, &m.bus.platform().departures()) })
}
