//! Frames that arrive in a pattern, whatever the machine does.
//!
//! A system builds a machine on a link to a [`Source`] and opens its driver. This module reads the
//! pattern from a scenario, runs the traffic and counts what is handed up. A frame that finds no
//! room is lost, as on hardware; nothing waits for the machine.

use crate::host::HostConfig;
use crate::key::{Needs, Values};
use crate::metrics::{self, CPU_BUSY, Metric, PACKETS};
use crate::result::{CountsOf, Measured, Rate, quantile_ns};
use crate::settings::settings;
use crate::{
    Counted, Counts, Experiment, OpenQueue, Points, Probe, Result, RunStats, SettingError,
};
use crate::{closed_loop, refuse};
use doorbell_bus::{Bus, Machine};
use doorbell_drivers::Driver;
use doorbell_hal::{Device, Host, Span};
use doorbell_packet::ethernet::{HEADER, MIN_FRAME, OVERHEAD};
use doorbell_packet::vlan;
use doorbell_sim::Watch;
use doorbell_sim::histogram::Histogram;
use doorbell_sim::link::{Tell, Wired};
use doorbell_sim::napi::NapiContext;
use doorbell_sim::traffic::Frames;
use doorbell_sim::traffic::arrivals::{Arrivals as Source, Meter, Pattern, Phase, Program, Rng};
use std::sync::Arc;

/// The value of `traffic.kind` for this load.
pub const KIND: &str = "arrivals";

/// The value of `traffic.pattern` for the frames of a capture.
pub const CAPTURE: &str = "capture";

/// The meaning of a latency.
pub(crate) const HANDED_UP: &str = "from a frame's last bit to its being handed up";

const ARRIVE: &[Needs] = &[Needs::kind(&[KIND])];
const AT_A_LOAD: &[Needs] =
    &[Needs::word("traffic.pattern", &["even", "poisson", "steps", "on_off"])];
const IN_TURN: &[Needs] = &[Needs::word("traffic.pattern", &["steps", "on_off"])];
const STEPS: &[Needs] = &[Needs::word("traffic.pattern", &["steps"])];
const BURSTS: &[Needs] = &[Needs::word("traffic.pattern", &["bursts"])];
const ONE_SIZE: &[Needs] =
    &[Needs::word("traffic.pattern", &["even", "poisson", "bursts", "steps", "on_off"])];

settings! {
    /// The pattern, as a scenario describes it.
    pub struct Keys {
        /// arrivals: evenly; at random; in bursts; high and low load in turn; load and silence in
        /// turn; random phases by the seed; the frames of a capture at their own times, again and
        /// again
        pattern: &'static str = "traffic.pattern",
            choice(&["even", "poisson", "bursts", "steps", "on_off", "random", CAPTURE])
                .when(ARRIVE);
        /// arrivals: share of the link
        load: f64 = "traffic.load", number("%", 0.001, 100.0).default("100").when(AT_A_LOAD);
        /// steps: share of the link in the phases of low load
        low: f64 = "traffic.low", number("%", 0.001, 100.0).default("1").when(STEPS);
        /// steps and on_off: duration of a phase
        hold: Span = "traffic.hold", number("ms", 0.01, 1e4).default("20").when(IN_TURN);
        /// bursts: number of frames back to back
        frames: u32 = "traffic.frames", whole("packets", 1.0, 100_000.0).default("32").when(BURSTS);
        /// bursts: time from one burst to the next
        every: Span = "traffic.every", number("us", 1.0, 1e6).default("1000").when(BURSTS);
        /// arrivals: size of a frame without FCS
        arrival_size: u32 = "traffic.arrival_size",
            whole("B", 60.0, 9014.0).default("1514").when(ONE_SIZE);
    }
}

/// Frames received in phases.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Time before the measurement.
    pub warmup: Span,
    /// Time of the measurement.
    pub duration: Span,
    /// The phases, in order.
    pub phases: Vec<Phase>,
    /// Seed of random arrivals.
    pub seed: u64,
    /// The flows that the frames are of, in turn.
    pub flows: Vec<u16>,
    /// The frames of a capture.
    pub captured: Arc<Frames>,
    /// A program at a driver that can have one.
    pub program: Option<Program>,
}

impl Load {
    /// Reads the load from `v`, on a link of so many Mbit/s, for a driver whose longest frame
    /// without FCS is `longest`. `key` names its setting. `frames` are those of the capture that it
    /// names.
    ///
    /// # Errors
    /// A frame is too long, or none of one.
    pub(crate) fn of(
        v: &Values,
        (longest, key): (u32, &str),
        mbit_per_s: f64,
        frames: Option<&Arc<Frames>>,
    ) -> Result<Load, SettingError> {
        let t = Keys::of(v);
        let size = t.arrival_size;
        let [warmup, duration] = closed_loop::times(v);
        if size > longest && !["random", CAPTURE].contains(&t.pattern) {
            refuse!("`traffic.arrival_size` is {size} B, but `{key}` allows {longest}");
        }
        let all = warmup + duration;
        // The interval of frames with preamble, FCS and gap at a share of the link.
        let gap = |load: f64, size: u32| {
            let bits = f64::from(8 * (size.max(MIN_FRAME as u32) + OVERHEAD as u32));
            Span::from_ps((bits / mbit_per_s * 1e6 * 100.0 / load).round() as u64)
        };
        let (high, low) = (gap(t.load, size), gap(t.low, size));
        let always = |pattern| vec![Phase { lasts: all, pattern, size }];
        let in_turn = |a: Pattern, b: Pattern| {
            let hold = t.hold.ps().max(1);
            // The load ends with the measured time, also amid a phase.
            let phase = |i: u64| Phase {
                lasts: Span::from_ps(hold.min(all.ps() - i * hold)),
                pattern: if i.is_multiple_of(2) { a } else { b },
                size,
            };
            (0..all.ps().div_ceil(hold)).map(phase).collect()
        };
        let seed = v.number("run.seed") as u64;
        let captured = frames.filter(|_| t.pattern == CAPTURE).map(Arc::clone).unwrap_or_default();
        for (i, (_, frame)) in captured.iter().enumerate() {
            let tag = if vlan::tag(frame).is_some() { vlan::TAG } else { 0 };
            if !(HEADER..=longest as usize + tag).contains(&frame.len()) {
                let (n, len) = (captured.number(i), frame.len());
                refuse!(
                    "frame {n} of the capture is {len} B; `{key}` allows {HEADER} to {longest}"
                );
            }
        }
        let phases = match t.pattern {
            "poisson" => always(Pattern::Random(high)),
            "bursts" => always(Pattern::Bursts(t.frames, t.every)),
            "steps" => in_turn(Pattern::Random(high), Pattern::Random(low)),
            "on_off" => in_turn(Pattern::Random(high), Pattern::Silence),
            CAPTURE => always(Pattern::Captured),
            "random" => random(all, longest, &gap, &mut Rng::new(seed)),
            _ => always(Pattern::Even(high)),
        };
        let flows = v.number_or_word("traffic.flows").map_or(vec![0], |n| (0..n as u16).collect());
        Ok(Load { warmup, duration, phases, seed, flows, captured, program: None })
    }

    /// Returns the peer of the machine with address `mac` that sends these frames.
    pub(crate) fn source(&self, mac: [u8; 6]) -> Source {
        Source::new(mac, self.phases.clone(), self.seed, self.flows.clone())
            .of_capture(Arc::clone(&self.captured))
    }
}

/// Returns a flow on each of `queues` queues: the first one that `queue_of` takes there.
pub(crate) fn flow_on_each(queues: usize, queue_of: impl Fn(u16) -> usize) -> Vec<u16> {
    let first = |queue| (0..u16::MAX).find(|flow| queue_of(*flow) == queue);
    (0..queues).filter_map(first).collect()
}

/// Draws phases: 2 to 40 ms each, of any kind, size and load.
fn random(all: Span, longest: u32, gap: &impl Fn(f64, u32) -> Span, draw: &mut Rng) -> Vec<Phase> {
    let mut phases = Vec::new();
    let mut left = all.ps();
    while left > 0 {
        let lasts = ((draw.between(2.0, 40.0) * 1e9) as u64).min(left);
        left -= lasts;
        let size = [60, 256, 590, longest][draw.one_of(4) as usize].min(longest);
        let load = draw.between(0.05, 100.0);
        let pattern = match draw.one_of(5) {
            0 => Pattern::Silence,
            1 => Pattern::Even(gap(load, size)),
            2 => {
                let frames = draw.between(2.0, 200.0) as u32;
                let every = Span::from_ps(gap(load, size).ps() * u64::from(frames));
                Pattern::Bursts(frames, every)
            }
            _ => Pattern::Random(gap(load, size)),
        };
        phases.push(Phase { lasts: Span::from_ps(lasts), pattern, size });
    }
    phases
}

/// A machine with a device that frames arrive at, and a driver with the end that they go to.
pub(crate) type Board<B, D> = Machine<B, Wired<D, Source>>;
pub(crate) type Station<Dr> = NapiContext<Dr, Meter>;

/// Counts the frames handed up. `look` reads the counters, and `sample` a slice's numbers of the
/// system's own.
struct HandedUp<L, S> {
    look: L,
    sample: S,
}

impl<B, D, Dr, L, S> Probe<Board<B, D>, Station<Dr>> for HandedUp<L, S>
where
    L: Fn(&Board<B, D>, &[Station<Dr>]) -> Counted,
    S: FnMut(&[Station<Dr>]) -> Points,
{
    fn done(&self, _: &Board<B, D>, s: &[Station<Dr>]) -> (u64, u64) {
        s.iter().fold((0, 0), |(n, b), s| (n + s.endpoint.frames, b + s.endpoint.bytes))
    }
    fn counters(&self, m: &Board<B, D>, s: &[Station<Dr>]) -> Counted {
        (self.look)(m, s)
    }
    fn series(&mut self, rates: [f64; 2], _: &Board<B, D>, s: &mut [Station<Dr>]) -> Points {
        let mut lately = Histogram::default();
        for s in s.iter_mut() {
            lately.add(&s.endpoint.lately);
            s.endpoint.lately.clear();
        }
        let latency = quantile_ns(&lately, 990).map_or(0.0, |ns| ns * 1e-3);
        let mut points = (self.sample)(s);
        points.extend([
            ("packets_per_s", rates[0]),
            ("interrupts_per_s", rates[1]),
            ("latency_p99_us", latency),
        ]);
        points
    }
    fn phases(&self, m: &Board<B, D>) -> u64 {
        m.device.peer.phase() as u64
    }
    fn take_latency(&mut self, _: &mut Board<B, D>, s: &mut [Station<Dr>]) -> Histogram {
        let mut all = Histogram::default();
        s.iter_mut().for_each(|s| all.add(&std::mem::take(&mut s.endpoint.latency)));
        all
    }
}

/// Runs `load` over the open queues of a NIC to its end, until frames in flight have arrived.
/// Returns the drivers. `meter` makes the end above a queue. `tell` tells the device that its link
/// goes up or down, `look` reads the counters, and `sample` a slice's numbers of the system's own.
pub(crate) fn run<B, D, Dr>(
    m: &mut Board<B, D>,
    queues: Vec<OpenQueue<Dr>>,
    meter: impl Fn() -> Meter,
    (load, host): (&Load, &HostConfig),
    (tell, look): (Tell<D>, impl Fn(&Board<B, D>, &[Station<Dr>]) -> Counted),
    sample: impl FnMut(&[Station<Dr>]) -> Points,
    watch: &mut dyn Watch,
) -> Result<(RunStats, Vec<Dr>)>
where
    B: Bus,
    Wired<D, Source>: Device<B>,
    Dr: Driver<Board<B, D>>,
{
    let cores = queues.iter().flat_map(|q| q.cores).max().map_or(1, |last| last + 1);
    let stations = queues.into_iter().map(|q| q.under(meter())).collect();
    let mut x = Experiment::new(m, stations, cores, host.softirq, &host.faults, watch);
    x.may_idle = true;
    x.slice_within(load.duration);
    let begin = x.m.now();
    x.begin(tell);
    x.m.outside(|device, _, at| device.peer.start(at));
    let times = (load.warmup, load.duration);
    let (mut o, at) = x.measure(begin, times, &mut HandedUp { look, sample })?;
    x.m.device.peer.finish();
    let end = at + Span::from_ms(50);
    x.slice(end)?;
    o.faults = x.end();
    let unknown: u64 = x.stations.iter().map(|s| s.endpoint.unknown).sum();
    if unknown > 0 {
        o.verdict.audit.push(format!("{unknown} frames were handed up that nobody sent"));
    }
    let mut drivers = Vec::with_capacity(x.stations.len());
    for s in x.stations {
        m.enter(s.irq_core);
        m.idle_until(end);
        s.endpoint.release(m);
        drivers.push(s.driver);
    }
    Ok((o, drivers))
}

/// The counters of a device that tell where frames that came are lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Those whose sum is all that came.
    pub(crate) came: &'static [&'static str],
    /// Those of each place, with the share that they are of all.
    pub(crate) lost: &'static [(Metric, &'static str)],
}

impl Places {
    /// Returns the share that was lost, then that of each place.
    pub(crate) fn shares(&self, s: &Counts) -> Vec<Rate> {
        let counted = |name: &str| s.counter(1, name) as f64;
        let came = self.came.iter().map(|name| counted(name)).sum::<f64>().max(1.0);
        let each = self.lost.iter().map(|(of, name)| of.is(counted(name) / came));
        let each: Vec<Rate> = each.collect();
        let all = metrics::LOST_SHARE.is(each.iter().map(|r| r.value).sum());
        std::iter::once(all).chain(each).collect()
    }
}

/// Returns a run under the names of results, at a clock of `ghz`. `bus` returns the share of a bus,
/// if there is one.
pub(crate) fn measured<T>(
    o: RunStats<T>,
    (carried, places): (Metric, &Places),
    bus: impl Fn(&Counts) -> Vec<Rate>,
    ghz: f64,
) -> Measured {
    let rates = |s: &Counts, packets: f64| rates(s, packets, carried, places, bus(s));
    o.measured(rates, CountsOf::Window, HANDED_UP, ghz)
}

/// Returns the rates of a run: frames handed up, their bits as `carried`, wire, events, losses, and
/// the share of a bus, if there is one.
pub(crate) fn rates(
    s: &Counts,
    packets: f64,
    carried: Metric,
    places: &Places,
    bus: Vec<Rate>,
) -> Vec<Rate> {
    let bits = s.by_time(8.0 * s.payload as f64);
    let frames = "frames handed up, without FCS";
    let whose = format!("of the {} cores that receive", s.busy.len());
    [
        vec![PACKETS.is(packets).about("frames handed up"), carried.is(bits).about(frames)],
        s.wire_rates(),
        s.event_rates(s.seconds()),
        places.shares(s),
        bus,
        vec![CPU_BUSY.is(s.all_busy_share()).about(whose)],
    ]
    .concat()
}
