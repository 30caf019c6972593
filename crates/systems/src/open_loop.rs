//! An open-loop run: packets of a generator or of a capture, on one core or several.
//!
//! A scenario's [`Keys`] are read into a [`Load`], which this module drives to its end on any
//! system.

mod load;

pub(crate) use load::by_hash;
pub use load::{ARRIVING, Arrivals, Captured, Generator, Keys, Limits, Load};

use crate::result::Verdict;
use crate::run::{Looks, evidence};
use crate::window::{Marks, Window};
use crate::{Counts, Result, RunError, RunStats};
use doorbell_bus::{Bus, Capture, Machine};
use doorbell_drivers::Driver;
use doorbell_hal::{Device, Host, Span, Time, fail_if};
use doorbell_sim::fault::{FaultSchedule, WatchdogEvents};
use doorbell_sim::scheduler::{self, Core, Interrupt};
use doorbell_sim::traffic::Source;
use doorbell_sim::{Watch, histogram::Histogram, watch};

/// Samples of a run at about equal numbers of frames.
#[derive(Debug)]
struct Samples {
    sent: u64,
    next: u64,
    stride: u64,
    /// Each with the latencies since the one before.
    looks: Looks,
    /// The latencies of all cores since the last sample, kept for its memory.
    since: Histogram,
    /// Frames that had left when the first source had handed over all of its own.
    dry: Option<u64>,
    /// The steady window of a run that ends because its rate stands.
    stood: Option<Steady>,
}

/// A steady window, with its counts and looks.
type Steady = (Window, Counts, Looks);

impl Samples {
    fn new<B: Bus, D: Device<B>>(m: &Machine<B, D>, stride: u64) -> Samples {
        let sent = m.ledger().wire_frames;
        Samples {
            sent,
            next: sent + stride,
            stride,
            looks: Looks::default(),
            since: Histogram::default(),
            dry: None,
            stood: None,
        }
    }

    #[cold]
    #[inline(never)]
    fn look<B: Bus, D: Device<B>, Dr, Tr>(
        &mut self,
        m: &Machine<B, D>,
        cores: &mut [Core<Dr, Tr>],
    ) {
        self.since.clear();
        take_latencies(cores, &mut self.since);
        self.looks.push(Counts::of(m), self.since.clone());
        if self.looks.thin() {
            self.stride *= 2;
        }
        let rounds = (m.ledger().wire_frames - self.sent) / self.stride + 1;
        self.next = self.sent + rounds * self.stride;
    }

    /// Returns whether the packet rate stands by now, with an error below `until`.
    fn stand(&mut self, began: Time, departures: impl FnOnce() -> Marks, until: f64) -> bool {
        if self.stood.is_some() || !self.looks.ask() {
            return false;
        }
        let mut steady = self.steady(began, &departures());
        if let Some((window, _, looks)) = &mut steady {
            looks.batched(window, 0);
        }
        let stands = self.looks.stand(steady.as_ref().map(|s| &s.0), until);
        self.stood = steady.filter(|_| stands);
        stands
    }

    /// Returns the steady window of a run that began at `began` and had these departures, with its
    /// counts and looks. A device counts ahead of the wire, so the counts are those between two
    /// samples, over the time that as many departures took in the window.
    fn steady(&self, began: Time, departures: &[(Time, u64)]) -> Option<Steady> {
        let dry = self.dry.unwrap_or(u64::MAX);
        let window = Window::found(began, departures, dry)?;
        let last = departures[..departures.partition_point(|d| d.1 <= dry)].last()?.1;
        let first = last - window.packets;
        let frames = |s: &Counts| s.packets - self.sent;
        let mut all = self.looks.all.iter();
        let a = &all.find(|(s, _)| frames(s) >= first)?.0;
        let b = &all.rfind(|(s, _)| frames(s) <= last).filter(|(b, _)| b.packets > a.packets)?.0;
        let mut counts = b.since(a);
        let seconds = counts.packets as f64 / window.rate();
        counts.elapsed = Span::from_ps((seconds * 1e12).round() as u64);
        counts.ran = counts.elapsed;
        let mut looks = Looks::default();
        for (s, since) in self.looks.all.iter().filter(|(s, _)| (first..=last).contains(&frames(s)))
        {
            let elapsed = departed(departures, frames(s));
            looks.push(Counts { elapsed, ran: elapsed, ..s.clone() }, since.clone());
        }
        Some((window, counts, looks))
    }
}

/// Returns the time at which so many frames had left, between two marks in proportion.
fn departed(departures: &[(Time, u64)], frames: u64) -> Span {
    let at = departures.partition_point(|d| d.1 < frames).min(departures.len() - 1);
    let (b, a) = (departures[at], departures[at.saturating_sub(1)]);
    let (time, of) = (b.0.since(a.0).ps(), (b.1 - a.1).max(1));
    let back = u128::from(time) * u128::from(b.1.saturating_sub(frames)) / u128::from(of);
    Span::from_ps(b.0.since(Time::ZERO).ps() - back as u64)
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
    let stride = load.stride(cores.len() as u16);
    m.bus.platform_mut().mark_departures(stride);
    let mut samples = Samples::new(m, stride);
    let (mut steps, mut failed, until) = (0u64, None, watch.until());
    let stuck_or_ended = scheduler::run(m, cores, trouble.as_mut(), |m, cores, i| {
        steps += 1;
        if m.ledger().wire_frames >= samples.next {
            samples.look(m, cores);
            if until.is_some_and(|e| samples.stand(began, || m.bus.platform().departures(), e)) {
                cores.iter_mut().for_each(|c| c.traffic.finish());
            }
        }
        if samples.dry.is_none() && cores[i].traffic.is_dry() {
            samples.dry = Some(m.ledger().wire_frames - samples.sent);
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
    let unfinished = match &ended {
        scheduler::Ended::Unfinished(waits) => waits.facts(),
        _ => Vec::new(),
    };
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
    let departures = m.bus.platform().departures();
    let steady = samples.stood.take().or_else(|| samples.steady(began, &departures));
    let mut alarms = WatchdogEvents::default();
    cores.iter().for_each(|c| alarms.add(c.alarms()));
    let faults = trouble.map(|t| t.end(m, alarms));
    let elapsed = end(m, last).since(Time::ZERO);
    let mut counts = Counts { elapsed, ..Counts::of(m) }.since(before);
    counts.busy = vec![counts.work.iter().fold(counts.stalled, |sum, w| sum + w.2)];
    counts.ran = counts.elapsed;
    counts.bus_time = [counts.elapsed; 2];
    counts.core_time = counts.core_time.max(elapsed * cores.len() as u64);
    let mut latency = Histogram::default();
    take_latencies(cores, &mut latency);
    samples.looks.all.iter().for_each(|(_, since)| latency.add(since));
    let whole =
        || (Window::whole(counts.elapsed, counts.packets), counts.clone(), Looks::default());
    let (window, steady, looks) = steady.unwrap_or_else(whole);
    let batches = looks.batches();
    let verdict = Verdict { unfinished, ..Verdict::default() };
    Ok(RunStats { batches, latency, faults, verdict, ..RunStats::new(window, steady, counts) })
}

/// Adds the latencies of all cores since the last call to `all`.
fn take_latencies<Dr, Tr>(cores: &mut [Core<Dr, Tr>], all: &mut Histogram) {
    cores.iter_mut().for_each(|c| c.take_latencies(all));
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
    run_each(m, vec![(driver, lines.into())], in_flight, load, trouble, end, watch)
}

/// Runs `load` as [`run_alone`] does through the queues of a driver, each on a core of its own. The
/// last core has opened its queue last. A queue without packets stays open until the end.
pub(crate) fn run_each<B: Bus<Sink = Capture>, D: Device<B>, Dr: Driver<Machine<B, D>>>(
    m: &mut Machine<B, D>,
    queues: Vec<(Dr, Vec<Interrupt>)>,
    in_flight: u32,
    load: &Load,
    trouble: impl FnOnce(&mut Machine<B, D>) -> Option<FaultSchedule<B, D>>,
    mut end: impl FnMut(&mut Machine<B, D>, Dr),
    watch: &mut dyn Watch,
) -> Result<RunStats> {
    if watch.wants_frames() {
        m.bus.sink_mut().start();
    }
    let (opened, of) = (m.now(), queues.len() as u16);
    let (mut cores, mut idle) = (Vec::new(), Vec::new());
    for (i, (driver, lines)) in queues.into_iter().enumerate() {
        m.enter(i);
        m.idle_until(opened);
        match load.source(m, of, i, in_flight)? {
            Some(source) => cores.push(Core::new(driver, source, lines, in_flight as usize)),
            None => idle.push(driver),
        }
    }
    let before = Counts::of(m);
    let trouble = trouble(m);
    let mut o = run(m, &mut cores, load, trouble, &before, |_, end| end, watch)?;
    o.verdict.evidence = evidence(m);
    close(m, cores, &mut o, &mut end);
    idle.into_iter().for_each(|driver| end(m, driver));
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
    // A core that ended long before the others would wait for the device, which is as late as they.
    let times = (0..cores.len()).map(|i| {
        m.enter(i);
        m.now()
    });
    let last = times.max().unwrap_or(Time::ZERO);
    for (i, mut core) in cores.into_iter().enumerate() {
        m.enter(i);
        m.idle_until(last);
        // Of a run that was ended.
        core.take_held().into_iter().for_each(|p| p.release(m));
        close(m, core.driver);
        skipped += core.traffic.release(m);
    }
    if skipped > 0 {
        o.verdict.audit.push(format!("{skipped} frames were skipped for want of memory or form"));
    }
}
