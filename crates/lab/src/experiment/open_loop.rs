//! An open-loop run: the packet generator on every core, or a capture on one.
//!
//! Reads a scenario ([`Keys`]) into a [`Load`], and drives it to its end on any system.

use crate::config::key::{Is, Needs, Values, settings};
use crate::config::{SettingError, refuse};
use crate::experiment::{Counts, Result, RunError, RunStats, window::Window};
use doorbell_bus::{Bus, Capture, Machine, keep_every_other};
use doorbell_drivers::Driver;
use doorbell_hal::{Device, Host, OutOfMemory, Span, Time, fail_if};
use doorbell_packet::{ethernet, vlan};
use doorbell_sim::fault::{FaultSchedule, WatchdogEvents};
use doorbell_sim::scheduler::{self, Core, Interrupt};
use doorbell_sim::traffic::{Frames, Pktgen, Rate, Replay, ReplayOptions, Source};
use doorbell_sim::{Watch, histogram::Histogram, watch};
use std::sync::Arc;

/// The longest simulated time of a run; 10^18 ps fit well into a `Time`.
const MAX_SECONDS: f64 = 1e6;

const PKTGEN: &[Needs] = &[Needs::kind(&["pktgen"])];
const PCAP: &[Needs] = &[Needs::kind(&["pcap"])];
/// Frames at their own times are not announced together.
const IN_BURSTS: &[Needs] = &[
    Needs::kind(&["pktgen", "pcap"]),
    Needs::kind(&["pktgen"]).or("traffic.times", Is::Word(&["full"])),
];

settings! {
    /// Packets of a generator or a capture, as a scenario describes them.
    pub struct Keys {
        /// pktgen: size of a packet without FCS
        size: u32 = "traffic.size", steps("B", (42.0, 16384.0, 1.0)).default("64").when(PKTGEN);
        /// packets in a burst, announced by one doorbell
        burst: u32 = "traffic.burst", whole("packets", 1.0, 4096.0).default("32").when(IN_BURSTS);
        /// pktgen: packet rate over all cores
        rate: Option<f64> = "traffic.rate",
            number("Mpps", 0.001, 1e4).or(&["full"]).default("full").when(PKTGEN);
        /// pktgen: number of packets, rounded up to a multiple of the cores
        packets: u64 = "traffic.packets", whole("packets", 1.0, 1e9).default("240000").when(PKTGEN);
        /// pktgen: the device computes the UDP checksum
        checksum: bool = "traffic.checksum", choice(&["off", "on"]).default("off").when(PKTGEN);
        /// pcap: path of the capture
        file: String = "traffic.file", file().when(PCAP);
        /// pcap: fill frames that were captured in part with zeros
        pad: bool = "traffic.pad", choice(&["off", "on"]).default("off").when(PCAP);
        /// pcap: send frames as fast as the queue accepts them, or at their own times
        times: &'static str = "traffic.times", choice(&["full", "own"]).default("full").when(PCAP);
        /// pcap: number of times that the capture is sent
        rounds: u32 = "traffic.rounds", whole("rounds", 1.0, 1e6).default("1").when(PCAP);
        /// pcap: who computes TCP and UDP checksums: the device, or nobody
        offload: &'static str = "traffic.offload",
            choice(&["csum", "none"]).default("csum").when(PCAP);
        /// pcap: treat frames over the MTU as large sends with segments of this payload
        gso: Option<u16> = "traffic.gso",
            steps("B", (1.0, 65535.0, 1.0)).or(&["none"]).default("none").when(PCAP);
        /// pcap: MTU, the largest IP packet
        mtu: u32 = "traffic.mtu", steps("B", (68.0, 65535.0, 1.0)).default("1500").when(PCAP);
    }
}

/// The limits of driver and device, in bytes, each with the key that sets it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest frame, without FCS.
    pub frame: (u32, &'static str),
    /// The largest payload of a large send; 0 if none is possible.
    pub large_send: (u32, &'static str),
}

/// The traffic of a run.
#[derive(Clone, Debug)]
pub enum Load {
    /// The packet generator on every core.
    Pktgen {
        /// Bytes without FCS.
        size: u32,
        /// Packets in a burst.
        burst: u32,
        /// Packets a second over all cores; `None` for full speed.
        rate: Option<f64>,
        /// Packets over all cores, rounded up to a multiple of the cores.
        packets: u64,
        /// The UDP checksum is left to the device.
        checksum: bool,
    },
    /// Captured frames, on core 0.
    Replay {
        /// The frames.
        frames: Arc<Frames>,
        /// The way they are sent.
        options: ReplayOptions,
    },
}

impl Load {
    /// Returns the number of frames to send as far as it is known beforehand: large sends count
    /// once.
    pub fn packets(&self, cores: u16) -> u64 {
        match self {
            Load::Pktgen { packets, .. } => {
                packets.div_ceil(u64::from(cores.max(1))) * u64::from(cores.max(1))
            }
            Load::Replay { frames, options } => frames.len() as u64 * u64::from(options.rounds),
        }
    }

    /// Returns the packets that leave together. Departures are sampled in multiples of them, so
    /// that a pace shows between bursts and not within one.
    fn announced(&self) -> u64 {
        match self {
            Load::Pktgen { burst, .. } => u64::from(*burst),
            Load::Replay { options, .. } if options.own_times => 1,
            Load::Replay { options, .. } => u64::from(options.burst),
        }
    }

    /// Reads the load from `v`. `frames` are those of the capture that it names.
    ///
    /// # Errors
    /// This machine cannot send the traffic. The error names the frame, if it is one.
    pub fn of(
        v: &Values,
        limits: &Limits,
        frames: Option<&Arc<Frames>>,
    ) -> Result<Load, SettingError> {
        if v.word("traffic.kind") == "pcap" { replay(v, limits, frames) } else { pktgen(v, limits) }
    }

    /// Returns the host memory in bytes for the packets in flight of one queue of `ring` entries.
    pub fn memory(&self, ring: u32) -> usize {
        let block = |bytes: u32| bytes.next_power_of_two() as usize;
        match self {
            Load::Pktgen { size, burst, .. } => (ring + burst) as usize * 2 * block(*size),
            // Replayed frames differ in size, so freed blocks do not always fit.
            Load::Replay { frames, .. } => ring as usize * 4 * block(frames.longest()),
        }
    }

    /// Returns the source of core `i` of `cores`, if it has one. Its queue holds `in_flight`
    /// packets.
    ///
    /// # Errors
    /// There is not enough host memory.
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
                        // Each core starts at its own share of the interval between bursts.
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

fn pktgen(v: &Values, limits: &Limits) -> Result<Load, SettingError> {
    let k = Keys::of(v);
    let size = k.size;
    let (most, key) = limits.frame;
    if size > most {
        refuse!("`traffic.size` is {size} B, but the device sends {most} at the most (`{key}`)");
    }
    Ok(Load::Pktgen {
        size,
        burst: k.burst,
        rate: k.rate.map(|mpps| mpps * 1e6),
        packets: k.packets,
        checksum: k.checksum,
    })
}

fn replay(v: &Values, limits: &Limits, frames: Option<&Arc<Frames>>) -> Result<Load, SettingError> {
    let Some(frames) = frames.filter(|f| !f.is_empty()) else {
        refuse!("the traffic is a capture, but none is given: --pcap FILE, or `traffic.file`");
    };
    let k = Keys::of(v);
    let file = &k.file;
    let options = ReplayOptions {
        own_times: k.times == "own",
        rounds: k.rounds,
        burst: k.burst,
        checksum_offload: k.offload == "csum",
        gso: k.gso,
        mtu: k.mtu,
    };
    if options.own_times {
        let seconds = frames.span().as_secs_f64() * f64::from(options.rounds);
        if seconds > MAX_SECONDS {
            refuse!(
                "{file}: at its own times it lasts {seconds:.0} s, and {MAX_SECONDS} are the most; \
                 send it with --times full"
            );
        }
    }
    let mut scratch = Vec::new();
    for (i, (_, frame)) in frames.iter().enumerate() {
        sendable(frame, &options, limits, &mut scratch).map_err(|why| {
            let bytes = frame.len();
            SettingError(format!("{file}: frame {} has {bytes} bytes, {why}", i + 1))
        })?;
    }
    Ok(Load::Replay { frames: Arc::clone(frames), options })
}

/// Checks that driver and device can send a frame. The error says why not, and what to do.
fn sendable(
    frame: &[u8],
    options: &ReplayOptions,
    limits: &Limits,
    scratch: &mut Vec<u8>,
) -> Result<(), SettingError> {
    let mtu = options.mtu;
    if !options.is_over(frame) {
        let (most, key) = limits.frame;
        if frame.len() > most as usize {
            refuse!("more than the device's {most} (`{key}`)");
        }
        return Ok(());
    }
    let Some(size) = options.gso else {
        refuse!(
            "more than an MTU of {mtu} allows; --gso MSS sends it as a large send, --set \
             traffic.mtu=N allows longer frames"
        );
    };
    scratch.clear();
    scratch.extend_from_slice(frame);
    let gso = options.prepare(scratch).and_then(|todo| todo.gso);
    let Some(gso) = gso else {
        refuse!(
            "more than an MTU of {mtu} allows, and cannot be cut into segments of {size}; only \
             whole TCP and UDP datagrams with more payload than that can, no fragments"
        );
    };
    let payload = frame.len() - usize::from(gso.header);
    let (most, key) = limits.large_send;
    if payload > most as usize {
        refuse!("and its payload is over the device's limit of {most} for a large send (`{key}`)");
    }
    let segment = usize::from(gso.header) + usize::from(size);
    let tagged = scratch.get(12..14).is_some_and(|t| matches!(t, [0x81, 0x00] | [0x88, 0xa8]));
    let header = ethernet::HEADER + if tagged { vlan::TAG } else { 0 };
    if segment > mtu as usize + header {
        refuse!(
            "and segments of {size} (--gso) make frames of {segment}, more than an MTU of {mtu} \
             allows"
        );
    }
    Ok(())
}

/// Samples of a run at about equal numbers of frames. In a long run every other sample is dropped
/// each time that they are too many.
#[derive(Debug)]
struct Looks {
    sent: u64,
    next: u64,
    stride: u64,
    all: Vec<Counts>,
    /// Frames that had left when the first source had handed over all of its own.
    dry: Option<u64>,
}

/// The number of samples at which every other is dropped.
const MOST_LOOKS: usize = 128;

impl Looks {
    fn new<B: Bus, D: Device<B>>(m: &Machine<B, D>, stride: u64) -> Looks {
        let sent = m.ledger().wire_frames;
        Looks { sent, next: sent + stride, stride, all: Vec::with_capacity(MOST_LOOKS), dry: None }
    }

    #[cold]
    #[inline(never)]
    fn look<B: Bus, D: Device<B>>(&mut self, m: &Machine<B, D>) {
        self.next = m.ledger().wire_frames + self.stride;
        self.all.push(Counts::of(m));
        if self.all.len() == MOST_LOOKS {
            keep_every_other(&mut self.all);
            self.stride *= 2;
        }
    }

    /// Returns the steady window of a run that began at `began` and had these departures, with its
    /// counts. A device counts ahead of the wire, so the counts are those between two samples, over
    /// the time that as many departures took in the window.
    fn steady(&self, began: Time, departures: &[(Time, u64)]) -> Option<(Window, Counts)> {
        let dry = self.dry.unwrap_or(u64::MAX);
        let window = Window::found(began, departures, dry)?;
        let last = departures[..departures.partition_point(|d| d.1 <= dry)].last()?.1;
        let first = last - window.packets;
        let frames = |s: &Counts| s.packets - self.sent;
        let a = self.all.iter().find(|s| frames(s) >= first)?;
        let b = self.all.iter().rfind(|s| frames(s) <= last).filter(|b| b.packets > a.packets)?;
        let mut counts = b.since(a);
        let seconds = counts.packets as f64 / window.rate();
        counts.elapsed = Span::from_ps((seconds * 1e12).round() as u64);
        Some((window, counts))
    }
}

/// Drives all cores to the end of their traffic, until everything sent has left the device. The
/// traffic, and any pace, starts now. Counts are those since `before`; the run ends at
/// `end(machine, time of the last event)`. Fails if a core is stuck, or the watcher ends the run.
pub(crate) fn run<B: Bus<Sink = Capture>, D: Device<B>, Dr: Driver<Machine<B, D>>>(
    m: &mut Machine<B, D>,
    cores: &mut [Core<Dr, Source>],
    load: &Load,
    mut trouble: Option<FaultSchedule<B, D>>,
    before: &Counts,
    end: impl FnOnce(&Machine<B, D>, Time) -> Time,
    watch: &mut dyn Watch,
) -> Result<RunStats> {
    watch::begin(m, watch);
    let (began, total) = (m.now(), load.packets(cores.len() as u16));
    for core in cores.iter_mut() {
        core.traffic.start(began);
    }
    m.bus.platform_mut().mark_departures(load.announced());
    let mut looks = Looks::new(m, load.announced());
    let (mut steps, mut failed) = (0u64, None);
    let stuck_or_ended = scheduler::run(m, cores, trouble.as_mut(), |m, traffic| {
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
        // The trace shows the events that led to it.
        watch::end(m, watch);
    }
    let ended = stuck_or_ended?;
    if let Some(why) = failed {
        return Err(RunError::Capture(why));
    }
    fail_if(ended == scheduler::Ended::Stopped, RunError::Stopped)?;
    // Moderated events may still be in flight.
    let mut last = m.now();
    loop {
        while m.next_event() < Time::NEVER {
            last = last.max(m.next_event());
            m.run_device(m.next_event());
        }
        // Frames that wait for the link leave when it is up again.
        match &mut trouble {
            Some(t) if t.flaps.is_down() => t.mend(m),
            _ => break,
        }
    }
    m.bus.sink_mut().drain(|at, f| watch.frame(at, f)).map_err(RunError::Capture)?;
    watch.progress(m.ledger().wire_frames, total);
    watch::end(m, watch);
    let steady = looks.steady(began, &m.bus.platform().departures());
    let mut alarms = WatchdogEvents::default();
    cores.iter().for_each(|c| alarms.add(c.alarms()));
    let faults = trouble.map(|t| t.end(m, alarms));
    let elapsed = end(m, last).since(Time::ZERO);
    let mut counts = Counts { elapsed, ..Counts::of(m) }.since(before);
    counts.busy = vec![counts.work.iter().fold(counts.stalled, |sum, w| sum + w.2)];
    let mut latency = Histogram::default();
    cores.iter().for_each(|c| latency.add(&c.latency));
    let whole = || (Window::whole(counts.elapsed, counts.packets), counts.clone());
    let (window, steady) = steady.unwrap_or_else(whole);
    Ok(RunStats { latency, faults, ..RunStats::new(window, steady, counts) })
}

/// Runs `load` through one driver on core 0, and takes it down with `end`. `lines` are its
/// interrupts, and its queue holds `in_flight` packets. `trouble` starts the faults. Fails for lack
/// of host memory, or as [`run`].
pub(crate) fn run_alone<B: Bus<Sink = Capture>, D: Device<B>, Dr: Driver<Machine<B, D>>>(
    m: &mut Machine<B, D>,
    driver: Dr,
    (lines, in_flight): (impl Into<Vec<Interrupt>>, u32),
    load: &Load,
    trouble: impl FnOnce(&mut Machine<B, D>) -> Option<FaultSchedule<B, D>>,
    end: impl FnMut(&mut Machine<B, D>, Dr),
    watch: &mut dyn Watch,
) -> Result<RunStats> {
    if watch.wants_frames() {
        m.bus.sink_mut().start();
    }
    let source = load.source(m, 1, 0, in_flight)?;
    let core = source.map(|s| Core::new(driver, s, lines, in_flight as usize));
    let mut cores = Vec::from_iter(core);
    let before = Counts::of(m);
    let trouble = trouble(m);
    let mut o = run(m, &mut cores, load, trouble, &before, |_, end| end, watch)?;
    close(m, cores, &mut o, end);
    m.flush_posted();
    Ok(o)
}

/// Closes the drivers, each on its core, and releases the buffers of their traffic.
pub(crate) fn close<B: Bus, D: Device<B>, Dr>(
    m: &mut Machine<B, D>,
    cores: Vec<Core<Dr, Source>>,
    o: &mut RunStats,
    mut close: impl FnMut(&mut Machine<B, D>, Dr),
) {
    let mut skipped = 0;
    for (i, core) in cores.into_iter().enumerate() {
        m.enter(i);
        close(m, core.driver);
        skipped += core.traffic.release(m);
    }
    if skipped > 0 {
        o.audit.push(format!("{skipped} frames were skipped for want of memory or form"));
    }
}
