//! The load of an open loop: packets of a generator or a capture, and their times.

use crate::arrivals;
use crate::key::{Is, Key, Needs, Values};
use crate::result::Sent;
use crate::settings::settings;
use crate::system::placement;
use crate::{SettingError, mix, refuse};
use doorbell_hal::{Alignment, Host, OutOfMemory, Span, fail_if};
use doorbell_packet::toeplitz::{MICROSOFT, Toeplitz};
use doorbell_packet::vlan;
use doorbell_sim::traffic::{
    Frames, Generated, Pace, Pktgen, Rate, Replay, ReplayOptions, SegmentSize, SegmentSizes, Sizes,
    Source, flow_headers,
};
use std::sync::Arc;

/// The longest simulated time of a run; 10^18 ps fit well into a `Time`.
const MAX_SECONDS: f64 = 1e6;

/// The fewest rounds of all cores whose departures give a rate and its error.
const ROUNDS: u64 = 32;

const PKTGEN: &[Needs] = &[Needs::kind(&["pktgen"])];
const PCAP: &[Needs] = &[Needs::kind(&["pcap"])];
/// A capture is sent, or arrives.
const FILE: &[Needs] =
    &[Needs::kind(&["pcap"]).or("traffic.pattern", Is::Word(&[arrivals::CAPTURE]))];
const FLOWS: &[Needs] = &[Needs::kind(&["pktgen", "arrivals"])];
const ONE_SIZE: &[Needs] = &[Needs::kind(&["pktgen"]), Needs::word("traffic.mix", &["off"])];
/// Frames at their own times have no other, and are not announced together.
const PACED: &[Needs] = &[
    Needs::kind(&["pktgen", "pcap"]),
    Needs::kind(&["pktgen"]).or("traffic.times", Is::Word(&["full"])),
];
const AT_A_RATE: &[Needs] = &[
    Needs::kind(&["pktgen", "pcap"]),
    Needs::kind(&["pktgen"]).or("traffic.times", Is::Word(&["full"])),
    Needs::new("traffic.rate", Is::Number),
];
const ON_OFF: &[Needs] = &[Needs::word("traffic.arrivals", &["on_off"])];

settings! {
    /// Packets of a generator or a capture, as a scenario describes them.
    pub struct Keys {
        /// pktgen: size of a packet without FCS
        size: u32 = "traffic.size",
            steps("B", (42.0, 16384.0, 1.0)).default("64").when(ONE_SIZE);
        /// pktgen: sizes of packets without FCS with their weights; imix is 60:7,590:4,1514:1
        mix: String = "traffic.mix", mix().when(PKTGEN);
        /// pktgen and arrivals: flows, spread over the cores by the hash of their addresses and
        /// ports; or a flow on each core
        flows: Option<u16> = "traffic.flows",
            whole("flows", 1.0, 65535.0).or(&["each_core"]).default("each_core").when(FLOWS);
        /// packets in a burst, announced by one doorbell
        burst: u32 = "traffic.burst", whole("packets", 1.0, 4096.0).default("32").when(PACED);
        /// packet rate over all cores
        rate: Option<f64> = "traffic.rate",
            number("Mpps", 0.001, 1e4).or(&["full"]).default("full").when(PACED);
        /// at a rate: bursts at equal intervals; at random, each core for itself; or at equal
        /// intervals in phases, with silence between them
        arrivals: &'static str = "traffic.arrivals",
            choice(&["even", "poisson", "on_off"]).default("even").when(AT_A_RATE);
        /// on_off: duration of a phase with packets, whose rate makes the mean `traffic.rate`
        on: Span = "traffic.on", number("us", 0.1, 1e6).default("1000").when(ON_OFF);
        /// on_off: duration of the silence after it
        off: Span = "traffic.off", number("us", 0.1, 1e6).default("1000").when(ON_OFF);
        /// pktgen: number of packets, rounded up to a multiple of the cores
        packets: u64 = "traffic.packets", whole("packets", 1.0, 1e9).default("240000").when(PKTGEN);
        /// pktgen: the device computes the UDP checksum
        checksum: bool = "traffic.checksum", choice(&["off", "on"]).default("off").when(PKTGEN);
        /// pcap: path of the capture
        file: String = "traffic.file", file().when(FILE);
        /// pcap: fill frames that were captured in part with zeros
        pad: bool = "traffic.pad", choice(&["off", "on"]).default("off").when(FILE);
        /// pcap: leave out what cannot be sent, and count it by reason
        skip: bool = "traffic.skip", choice(&["off", "on"]).default("off").when(FILE);
        /// pcap: send the packets of this interface of a pcapng file alone, counted from 0
        interface: Option<u32> = "traffic.interface",
            whole("", 0.0, 4_294_967_295.0).or(&["all"]).default("all").when(FILE);
        /// pcap: send frames as fast as the queue accepts them or at a rate, or at their own times
        times: &'static str = "traffic.times", choice(&["full", "own"]).default("full").when(PCAP);
        /// pcap: number of times that the capture is sent
        rounds: u32 = "traffic.rounds", whole("rounds", 1.0, 1e6).default("1").when(PCAP);
        /// pcap: who computes TCP and UDP checksums: the device, or nobody
        offload: &'static str = "traffic.offload",
            choice(&["csum", "none"]).default("csum").when(PCAP);
        /// pcap: treat frames over the MTU as large sends with segments of this payload; auto: of
        /// the MSS of each flow, from its SYNs, its full segments or the MTU
        gso: Option<u16> = "traffic.gso",
            steps("B", (1.0, 65535.0, 1.0)).or(&["none", "auto"]).default("none").when(PCAP);
        /// pcap: MTU, the largest IP packet
        mtu: u32 = "traffic.mtu", steps("B", (68.0, 65535.0, 1.0)).default("1500").when(PCAP);
    }
}

/// The keys of frames that arrive on a system that sends none in an open loop: their flows, and the
/// capture that they are from.
pub static ARRIVING: [Key; 5] =
    [Keys::KEYS[2], Keys::KEYS[10], Keys::KEYS[11], Keys::KEYS[12], Keys::KEYS[13]];

/// The limits of driver and device, in bytes, each with the key that sets it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest frame, without FCS.
    pub frame: (u32, &'static str),
    /// The longest frame behind an 802.1Q tag, with all its tags.
    pub tagged: u32,
    /// The largest payload of a large send.
    pub large_send: (u32, &'static str),
}

impl Limits {
    /// Returns the length of the longest frame with the tags of this one.
    fn longest(&self, frame: &[u8]) -> u32 {
        if vlan::tag(frame).is_some() { self.tagged } else { self.frame.0 }
    }
}

/// The distribution of bursts at a rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arrivals {
    /// At equal intervals.
    Even,
    /// At random.
    Poisson,
    /// At equal intervals in phases of this length, with silence of that length after each.
    OnOff(Span, Span),
}

/// Packets of a generator over all cores.
#[derive(Clone, Debug)]
pub struct Generator {
    /// Sizes without FCS.
    pub sizes: Sizes,
    /// Flows; `None` for one on each core.
    pub flows: Option<u16>,
    /// Number of packets; with a flow on each core, rounded up to a multiple of the cores.
    pub packets: u64,
    /// The UDP checksum is left to the device.
    pub checksum: bool,
    /// Place of the packets.
    pub place: Alignment,
}

/// Captured frames.
#[derive(Clone, Debug)]
pub struct Captured {
    frames: Arc<Frames>,
    /// The indices of each core's frames.
    queues: Vec<Arc<[u32]>>,
    segments: SegmentSizes,
    options: ReplayOptions,
    /// The frames of the file that are sent in a round, and those that are not.
    sent: Sent,
    /// Length of the longest frame that is sent.
    longest: u32,
}

impl Captured {
    /// Returns the frames of a capture, spread over so many cores by flow. `skipped` are the
    /// reasons and indices of those that are left out, by index.
    fn of(
        frames: Arc<Frames>,
        segments: SegmentSizes,
        options: ReplayOptions,
        cores: u16,
        skipped: &[(&'static str, u32)],
    ) -> Captured {
        let mut queues = frames.spread(cores.into());
        if !skipped.is_empty() {
            let left_out = |i: &u32| skipped.binary_search_by_key(i, |s| s.1).is_ok();
            let kept = |own: &Arc<[u32]>| own.iter().copied().filter(|i| !left_out(i)).collect();
            queues = queues.iter().map(kept).collect();
        }
        let mut sent = Sent::of(&frames);
        sent.frames = queues.iter().map(|own| own.len() as u64).sum();
        skipped.iter().for_each(|(why, _)| *sent.skipped.entry(why).or_default() += 1);
        let mut longest = 0;
        for (_, frame) in
            queues.iter().flat_map(|own| &**own).filter_map(|i| frames.get(*i as usize))
        {
            longest = longest.max(frame.len() as u32);
            sent.large_sends += u64::from(options.is_over(frame));
        }
        Captured { frames, queues, segments, options, sent, longest }
    }
}

#[derive(Clone, Debug)]
enum Packets {
    Generated(Generator),
    Captured(Captured),
}

/// The traffic of a run.
#[derive(Clone, Debug)]
pub struct Load {
    packets: Packets,
    /// Packets announced together.
    burst: u32,
    /// Packets a second over all cores; `None` for full speed.
    rate: Option<f64>,
    arrivals: Arrivals,
    seed: u64,
}

impl Load {
    /// Returns packets of one size in bytes without FCS, in bursts, a flow on each core, at full
    /// speed.
    pub fn pktgen(size: u32, burst: u32, packets: u64) -> Load {
        let sizes = Sizes::one(size);
        Load::generated(
            Generator { sizes, flows: None, packets, checksum: false, place: Pktgen::PLACE },
            burst,
        )
    }

    /// Returns the packets of a generator in bursts, at full speed.
    pub(crate) fn generated(packets: Generator, burst: u32) -> Load {
        Load::of_packets(Packets::Generated(packets), burst)
    }

    /// Returns captured frames, spread over so many cores by flow, at full speed or at their own
    /// times.
    pub fn replay(frames: Arc<Frames>, options: ReplayOptions, cores: u16) -> Load {
        let segments = SegmentSizes::of(&frames, &options);
        Load::captured(Captured::of(frames, segments, options, cores, &[]))
    }

    fn captured(captured: Captured) -> Load {
        let ReplayOptions { own_times, burst, .. } = captured.options;
        let burst = if own_times { 1 } else { burst };
        Load::of_packets(Packets::Captured(captured), burst)
    }

    /// Returns what is sent of a capture in a round; `None` for a generator.
    pub(crate) fn sent(&self) -> Option<Sent> {
        match &self.packets {
            Packets::Captured(c) => Some(c.sent.clone()),
            Packets::Generated(_) => None,
        }
    }

    fn of_packets(packets: Packets, burst: u32) -> Load {
        Load { packets, burst, rate: None, arrivals: Arrivals::Even, seed: 0 }
    }

    /// Sets the packets a second over all cores; `None` for full speed.
    pub fn at(self, rate: Option<f64>) -> Load {
        Load { rate, ..self }
    }

    /// Sets the distribution of bursts at a rate. `seed` is that of all random numbers.
    pub(crate) fn arriving(self, arrivals: Arrivals, seed: u64) -> Load {
        Load { arrivals, seed, ..self }
    }

    /// Returns the number of frames to send as far as it is known beforehand: large sends count
    /// once.
    pub(crate) fn packets(&self, cores: u16) -> u64 {
        match &self.packets {
            Packets::Generated(Generator { packets, flows: Some(_), .. }) => *packets,
            Packets::Generated(g) => {
                let cores = u64::from(cores.max(1));
                g.packets.div_ceil(cores) * cores
            }
            Packets::Captured(c) => c.sent.frames * u64::from(c.options.rounds),
        }
    }

    /// Returns the packets of a core that leave together.
    pub(crate) fn burst(&self) -> u32 {
        self.burst
    }

    /// Returns the packets from one sample of the departures to the next: a round of bursts of all
    /// cores. Cores at full speed send in step, and a rate between any two bursts would count from
    /// the last of a round to the first of another. At a rate each core has its own part of the
    /// interval, and captured frames have their times: single bursts do where there are few rounds.
    pub(crate) fn stride(&self, cores: u16) -> u64 {
        let (burst, cores) = (u64::from(self.burst), cores.max(1));
        let round = burst * u64::from(cores);
        let own_times = matches!(&self.packets, Packets::Captured(c) if c.options.own_times);
        let paced = self.rate.is_some() || own_times;
        if paced && self.packets(cores) < ROUNDS * round { burst } else { round }
    }

    /// Returns the memory of the longest frame, and the number of frames of a capture.
    pub(crate) fn longest(&self) -> (u32, Option<usize>) {
        match &self.packets {
            Packets::Generated(g) => (g.block(), None),
            Packets::Captured(c) => (c.longest, Some(c.sent.frames as usize)),
        }
    }

    /// Returns the host memory in bytes for the packets in flight of one queue of `ring` entries.
    pub(crate) fn memory(&self, ring: u32) -> usize {
        let block = |bytes: u32| bytes.next_power_of_two() as usize;
        match &self.packets {
            Packets::Generated(g) => (ring + self.burst) as usize * 2 * block(g.block()),
            // Replayed frames differ in size, so freed blocks do not always fit.
            Packets::Captured(c) => ring as usize * 4 * block(c.longest),
        }
    }

    /// Reads the load from `v`, for so many cores. `frames` are those of the capture that it names.
    ///
    /// # Errors
    /// This machine cannot send the traffic. The error names the frame, if it is one.
    pub(crate) fn of(
        v: &Values,
        limits: &Limits,
        frames: Option<&Arc<Frames>>,
        cores: u16,
    ) -> Result<Load, SettingError> {
        let k = Keys::of(v);
        let load = match v.word("traffic.kind") {
            "pcap" => replay(v, &k, limits, frames, cores)?,
            _ => Load::generated(generator(v, &k, limits)?, k.burst),
        };
        let arrivals = match k.arrivals {
            "poisson" => Arrivals::Poisson,
            "on_off" => Arrivals::OnOff(k.on, k.off),
            _ => Arrivals::Even,
        };
        // A capture at its own times has no other rate.
        let paced = v.word("traffic.kind") != "pcap" || k.times == "full";
        let rate = k.rate.filter(|_| paced).map(|mpps| mpps * 1e6);
        Ok(load.at(rate).arriving(arrivals, v.number("run.seed") as u64))
    }

    /// Returns the source of core `i` of `cores`, if it has one. Its queue holds `in_flight`
    /// packets.
    ///
    /// # Errors
    /// There is not enough host memory.
    pub(crate) fn source<H: Host>(
        &self,
        h: &mut H,
        cores: u16,
        i: usize,
        in_flight: u32,
    ) -> Result<Option<Source>, OutOfMemory> {
        match &self.packets {
            Packets::Captured(c) => {
                let Some(own) = c.queues.get(i).filter(|own| !own.is_empty()) else {
                    return Ok(None);
                };
                let share = own.len() as f64 / c.sent.frames as f64;
                let (own, pace) = (Arc::clone(own), self.pace(share, i, cores));
                let (frames, segments) = (Arc::clone(&c.frames), c.segments.clone());
                Ok(Some(Source::Replay(Replay::new(frames, own, segments, pace, c.options))))
            }
            Packets::Generated(g) => {
                let Some((flows, packets)) = g.part(i, cores) else { return Ok(None) };
                let share = match g.flows {
                    None => 1.0 / f64::from(cores.max(1)),
                    Some(all) => flows.len() as f64 / f64::from(all),
                };
                let generated = Generated {
                    sizes: g.sizes.clone(),
                    burst: self.burst,
                    packets,
                    flows,
                    partial: g.checksum,
                    place: g.place,
                    seed: self.seed_of(i),
                };
                let pace = self.pace(share, i, cores);
                Pktgen::new(h, generated, pace, in_flight + self.burst)
                    .map(Source::Pktgen)
                    .map(Some)
            }
        }
    }

    /// Returns the seed of a core's random numbers.
    fn seed_of(&self, i: usize) -> u64 {
        self.seed.wrapping_add((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns the pace of core `i`, which sends this share of all packets. Each core starts at its
    /// own part of the interval between bursts.
    fn pace(&self, share: f64, i: usize, cores: u16) -> Pace {
        let Some(pps) = self.rate else { return Pace::new(Rate::Full, Span::ZERO, 0) };
        let mean = f64::from(self.burst) / (pps * share) * 1e12;
        let span = |ps: f64| Span::from_ps(ps.round() as u64);
        let first = |every: f64| span(every * i as f64 / f64::from(cores.max(1)));
        match self.arrivals {
            Arrivals::Even => Pace::new(Rate::Burst(span(mean)), first(mean), 0),
            Arrivals::Poisson => Pace::new(Rate::Poisson(span(mean)), Span::ZERO, self.seed_of(i)),
            Arrivals::OnOff(on, off) => {
                let every = mean * (on.ps() as f64 / (on + off).ps() as f64);
                Pace::new(Rate::OnOff { every: span(every), on, off }, first(every), 0)
            }
        }
    }
}

/// Returns the function that tells the queue of a frame among so many: by Toeplitz's hash of
/// addresses and ports with Microsoft's key, modulo their number.
pub(crate) fn by_hash(queues: u16) -> impl Fn(&[u8]) -> usize {
    let key = Toeplitz::new(&MICROSOFT);
    move |frame| key.flow(frame) as usize % usize::from(queues.max(1))
}

impl Generator {
    /// Returns the bytes from the alignment in front of the largest packet to its end.
    fn block(&self) -> u32 {
        (self.sizes.largest() + self.place.offset).max(self.place.align)
    }

    /// Returns the flows and the number of packets of core `i`, if it has any.
    fn part(&self, i: usize, cores: u16) -> Option<(Vec<u16>, u64)> {
        let Some(all) = self.flows else {
            return Some((vec![i as u16], self.packets.div_ceil(u64::from(cores.max(1)))));
        };
        let core_of = by_hash(cores);
        let flows: Vec<u16> = (0..all).filter(|flow| core_of(&flow_headers(*flow)) == i).collect();
        // The first flows have what is left over.
        let (each, left) = (self.packets / u64::from(all), self.packets % u64::from(all));
        let packets = flows.iter().map(|f| each + u64::from(u64::from(*f) < left)).sum();
        (packets > 0).then_some((flows, packets))
    }
}

fn generator(v: &Values, k: &Keys, limits: &Limits) -> Result<Generator, SettingError> {
    let (sizes, key) = match k.mix.as_str() {
        "off" => (Sizes::one(k.size), "traffic.size"),
        given => {
            let sizes = mix::parse(given).map(Sizes::mix);
            (sizes.unwrap_or_else(|| unreachable!("the key takes no other")), "traffic.mix")
        }
    };
    let (size, (most, limit)) = (sizes.largest(), limits.frame);
    if size > most {
        refuse!("`{key}` is {size} B, but the device sends {most} at the most (`{limit}`)");
    }
    let place = placement(v, Pktgen::PLACE.offset)?;
    Ok(Generator { sizes, flows: k.flows, packets: k.packets, checksum: k.checksum, place })
}

fn replay(
    v: &Values,
    k: &Keys,
    limits: &Limits,
    frames: Option<&Arc<Frames>>,
    cores: u16,
) -> Result<Load, SettingError> {
    let Some(frames) = frames.filter(|f| !f.is_empty()) else {
        refuse!("the traffic is a capture, but none is given: --pcap FILE, or `traffic.file`");
    };
    let file = &k.file;
    let gso = match v.word("traffic.gso") {
        "auto" => Some(SegmentSize::OfFlow),
        _ => k.gso.map(SegmentSize::Bytes),
    };
    let options = ReplayOptions {
        own_times: k.times == "own",
        rounds: k.rounds,
        burst: k.burst,
        checksum_offload: k.offload == "csum",
        gso,
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
    let segments = SegmentSizes::of(frames, &options);
    let (mut scratch, mut skipped) = (Vec::new(), Vec::new());
    for (i, (_, frame)) in frames.iter().enumerate() {
        let Err(why) = sendable(frame, segments.size(i), &options, limits, &mut scratch) else {
            continue;
        };
        if !k.skip {
            let (number, bytes, said) = (frames.number(i), frame.len(), why.said(&options, limits));
            refuse!("{file}: frame {number} has {bytes} bytes, {said}; --skip leaves it out");
        }
        skipped.push((why.reason(), i as u32));
    }
    let captured = Captured::of(Arc::clone(frames), segments, options, cores, &skipped);
    if captured.sent.frames == 0 {
        let all: Vec<String> =
            captured.sent.skipped.iter().map(|(why, n)| format!("{n} {why}")).collect();
        refuse!("{file}: nothing can be sent; left out are {}", all.join(", "));
    }
    Ok(Load::captured(captured))
}

/// The reason why driver and device cannot send a frame.
#[derive(Clone, Copy, Debug)]
enum Unsendable {
    /// It is longer than this many bytes, the limit of the driver or device.
    Long(u32),
    /// It is over the MTU, and no large send is asked for.
    OverMtu,
    /// It cannot be cut into segments.
    Whole,
    /// A large send has too much payload.
    LargeSend,
    /// SegmentSizes of this payload make frames of that many bytes, more than the MTU allows.
    Segment(u16, usize),
}

impl Unsendable {
    /// Returns the reason's name in results.
    const fn reason(self) -> &'static str {
        match self {
            Unsendable::Long(_) => "frame_limit",
            Unsendable::OverMtu => "over_mtu",
            Unsendable::Whole => "not_segmentable",
            Unsendable::LargeSend => "large_send_limit",
            Unsendable::Segment(..) => "segment_over_mtu",
        }
    }

    /// Returns why a frame is not sent, and what to do.
    fn said(self, options: &ReplayOptions, limits: &Limits) -> String {
        let mtu = options.mtu;
        match self {
            Unsendable::Long(most) => {
                format!("more than the device's {most} (`{}`)", limits.frame.1)
            }
            Unsendable::OverMtu => format!(
                "more than an MTU of {mtu} allows; --gso auto sends it as a large send, --set \
                 traffic.mtu=N allows longer frames"
            ),
            Unsendable::Whole => format!(
                "more than an MTU of {mtu} allows, and cannot be cut into segments; only whole TCP \
                 and UDP datagrams with more payload than a segment can, no fragments"
            ),
            Unsendable::LargeSend => {
                let (most, key) = limits.large_send;
                format!("and its payload is over the device's {most} of a large send (`{key}`)")
            }
            Unsendable::Segment(size, bytes) => format!(
                "and segments of {size} (--gso) make frames of {bytes}, more than an MTU of {mtu} \
                 allows; --gso auto makes them fit"
            ),
        }
    }
}

/// Checks that driver and device can send a frame, as a large send with segments of `size` bytes of
/// payload if it is over the MTU.
fn sendable(
    frame: &[u8],
    size: Option<u16>,
    options: &ReplayOptions,
    limits: &Limits,
    scratch: &mut Vec<u8>,
) -> Result<(), Unsendable> {
    let most = limits.longest(frame);
    if !options.is_over(frame) {
        return fail_if(frame.len() > most as usize, Unsendable::Long(most));
    }
    fail_if(options.gso.is_none(), Unsendable::OverMtu)?;
    scratch.clear();
    scratch.extend_from_slice(frame);
    let gso = options.prepare(scratch, size).and_then(|todo| todo.gso).ok_or(Unsendable::Whole)?;
    let payload = frame.len() - usize::from(gso.header);
    fail_if(payload > limits.large_send.0 as usize, Unsendable::LargeSend)?;
    let segment = usize::from(gso.header) + usize::from(gso.size);
    let allowed = vlan::header(frame) + options.mtu as usize;
    fail_if(segment > allowed, Unsendable::Segment(gso.size, segment))?;
    fail_if(segment > most as usize, Unsendable::Long(most))
}
