//! `doorbell run`.

use crate::observer::{Observed, Recorder};
use crate::{args::Run, plan, record, trace};
use doorbell_console::output::{Files, print, tell};
use doorbell_console::progress::Interrupt;
use doorbell_console::render::{
    Document, NUMBER, amount, count, each, estimates, json, numbers, rate, wrapped,
};
use doorbell_console::{DONE, Error, MISSED, failed};
use doorbell_study::runs::Loaded;
use doorbell_study::{limits, lossless};
use doorbell_systems::limits::{Change, Limit, Limits};
use doorbell_systems::metrics;
use doorbell_systems::result::{CountsOf, Group, Measured, Outcome, RunResult};
use doorbell_systems::window::percent;
use doorbell_systems::{Plan, Registry, Setting};
use std::path::Path;

pub(crate) fn run(registry: &'static Registry, args: &Run) -> Result<u8, Error> {
    let mut plan = plan::plan(registry, &args.scenario, &args.changes)?;
    let port = plan.values.bits_per_second(plan.system.port_rate);
    let writes = args.out.is_some() || args.capture.is_some() || args.trace.is_some();
    let interrupt = Interrupt::watched_for(writes)?;
    let read = [Some(&*args.scenario), args.changes.profile.as_deref(), plan.capture()];
    let read: Vec<&Path> = read.into_iter().flatten().map(Path::new).collect();
    let mut files = Files::begin(
        args.out.as_deref(),
        args.capture.as_deref(),
        args.trace.as_deref(),
        port,
        &read,
    )?;
    let mut recording =
        args.trace.as_ref().map(|_| Recorder { packets: args.trace_packets, traced: None });
    if let Some(most) = args.lossless {
        at_lossless_load(&mut plan, most, &interrupt)?;
    }
    let observed = Observed {
        capture: files.capture.as_mut(),
        recording: recording.as_mut(),
        registers: args.registers,
    };
    let result = plan::execute_with(&plan, observed, &interrupt, args.output.quiet);
    let traced = recording.and_then(|r| r.traced);
    if let Some(traced) = &traced
        && let Some(written) = files.trace(|out| trace::write(traced, port, out))?
        && written.cut
    {
        let (packets, of) = (written.packets, args.trace_packets);
        tell(format_args!("the trace buffer is full; the trace has {packets} of {of} packets"));
    }
    // A run that got stuck has no result; its trace shows the steps that led there.
    if let (Err(Error::Failed(_)), true) = (&result, traced.is_some()) {
        files.keep_trace()?;
        return result.map(|_| DONE);
    }
    let mut result = result?;
    let capture = plan::capture(&plan)?;
    if !args.no_limits {
        find_limit(&plan, &mut result, &interrupt)?;
    }
    files.finish(|| json("run", &result))?;
    let record = record::of(&plan, &result);
    print(&document(&plan, capture.as_deref(), &result).with(vec![record]).show(
        args.output.format,
        "run",
        &result,
    ))?;
    overloaded(usize::from(is_overloaded(&result)), 1);
    Ok(if result.measured.is_sound() { DONE } else { MISSED })
}

/// Changes the load of a plan to the greatest one, up to its own, that loses no more than a share
/// of the frames.
fn at_lossless_load(plan: &mut Plan, most: f64, interrupt: &Interrupt) -> Result<(), Error> {
    let stop = || interrupt.came();
    let found = lossless::find(plan.system, &plan.values, most, &stop);
    if interrupt.came() {
        return Err(Error::Interrupted("nothing was written"));
    }
    let share = amount(most * 100.0);
    let found = found.map_err(|e| plan::of_run(&plan.scenario, e))?;
    let Some(load) = found else {
        return Err(failed!("at every load more than {share} % of the frames are lost"));
    };
    let setting = Setting::at("--lossless", format!("{}={load}", lossless::LOAD));
    Ok(plan.layer(&[setting])?)
}

/// Finds out what limits a run, by more runs, and adds it to its result.
pub(crate) fn find_limit(
    plan: &Plan,
    result: &mut RunResult,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let capture = plan::capture(plan)?;
    let frames = capture.as_ref().map(|c| &c.frames);
    let stop = || interrupt.came();
    let found = limits::find(plan.system, &plan.values, frames, &result.measured, &stop);
    if interrupt.came() {
        return Err(Error::Interrupted("nothing was written"));
    }
    result.limit = Some(found);
    Ok(())
}

/// Returns whether the machine did not keep up with its load.
pub(crate) fn is_overloaded(result: &RunResult) -> bool {
    result.measured.verdict.outcome() == Outcome::Overloaded
}

/// Tells people of the runs whose machine did not keep up with its load, if there are any.
pub(crate) fn overloaded(runs: usize, of: usize) {
    let what = match (runs, of) {
        (0, _) => return,
        (_, 1) => "the machine does not keep up with its load".to_owned(),
        _ => format!("in {runs} of {of} runs the machine does not keep up with its load"),
    };
    tell(format_args!("overloaded: {what}"));
}

/// Returns the result for people, in 100 columns and without counts of zero.
fn document(plan: &Plan, capture: Option<&Loaded>, result: &RunResult) -> Document {
    let m = &result.measured;
    let mut doc = Document::titled(format!("{} on {}", plan.scenario, plan.profile));
    doc.line(&plan.about);
    plan.set.iter().for_each(|set| doc.line(format!("with {set}")));
    if let Some(c) = capture {
        doc.line(format!("capture: {}", c.about));
    }
    if let Some(sent) = m.sent.as_ref().filter(|sent| !sent.skipped.is_empty()) {
        let left_out: u64 = sent.skipped.values().sum();
        let all: Vec<String> =
            sent.skipped.iter().map(|(why, n)| format!("{} {why}", count(*n))).collect();
        let (of, all) = (count(sent.packets), all.join(", "));
        doc.line(format!("left out: {} of {of} packets ({all})", count(left_out)));
    }
    let mut rates = estimates("rates", "", NUMBER);
    rates.row(["packets", &count(m.packets), ""]);
    rates.row(["simulated time", &m.elapsed.to_string(), ""]);
    let holds = match m.counts_of {
        CountsOf::Run => "of the rates; counts are of the whole run",
        CountsOf::Window => "of rates, counts and costs",
    };
    rates.noted(["window", &m.window.length().to_string(), ""], holds);
    let errors = m.rate_errors();
    for r in &m.rates {
        let (name, (value, unit)) = (r.metric.name, rate(r.metric.unit, r.value));
        let about = match m.window.lacks().filter(|_| r.metric == metrics::PACKETS) {
            Some(why) => why,
            None => &r.about,
        };
        let cells = [name.to_owned(), format!("{value} {unit}"), error(name, r.value, &errors)];
        rates.noted(cells, about);
    }
    doc.table(rates);
    if let Some(limits) = &result.limit {
        limit(&mut doc, limits);
    }
    for (group, title) in GROUPS {
        let mut table = numbers(title, &["total", "a packet"], NUMBER);
        for c in m.counts.iter().filter(|c| c.group == group && c.value > 0) {
            let cells = [&*c.name, &count(c.value), &each(c.value as f64, m.packets as f64)];
            table.noted(cells, c.about);
        }
        doc.table(table);
        if group == Group::Cpu {
            costs(&mut doc, m);
            registers(&mut doc, m);
        }
    }
    let mut latency = estimates("latency", "ns", 10);
    let errors = m.latency_errors();
    for (name, ns) in m.latency_ns() {
        let about = if name == "min" { m.latency_of } else { "" };
        let cells = [format!("latency_ns.{name}"), amount(ns), error(name, ns, &errors)];
        latency.noted(cells, about);
    }
    doc.table(latency);
    audit(&mut doc, &result.of.scenario, result);
    doc
}

/// Adds what limits, and the resources that are near to it.
fn limit(doc: &mut Document, limits: &Limits) {
    let percent = |x: Option<f64>, sign: bool| match x {
        None => "-".to_owned(),
        Some(x) if sign && x.abs() < 0.0005 => "0".to_owned(),
        Some(x) if sign => format!("{:+.1} %", x * 100.0),
        Some(x) => format!("{:.1} %", x * 100.0),
    };
    let mut table = numbers("limits", &["used", "wider gains"], NUMBER);
    let gains = |l: &&Limit| l.share.is_some() || l.gain.is_some_and(|g| g.abs() >= 0.0005);
    for l in limits.resources.iter().filter(gains) {
        let wider: Vec<String> = l.wider.iter().map(Change::said).collect();
        let [first, rest @ ..] = &wider[..] else {
            table.row([l.resource, &percent(l.share, false), "-"]);
            continue;
        };
        let more =
            if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
        let cells = [l.resource, &percent(l.share, false), &percent(l.gain, true)];
        table.noted(cells, &format!("{first}{more}"));
    }
    doc.table(table);
    let idle = limits.resources.iter().filter(|l| !gains(l));
    let idle: Vec<String> = idle.map(|l| l.resource.to_owned()).collect();
    if !idle.is_empty() {
        doc.line(wrapped("nothing gained by more of:", &idle));
    }
    doc.line(format!("the limit is {}", limits.said()));
}

/// Groups of counts, with their titles.
pub(crate) const GROUPS: [(Group, &str); 6] = [
    (Group::Bus, "bus"),
    (Group::Cpu, "CPU"),
    (Group::Driver, "driver"),
    (Group::Device, "device"),
    (Group::Wire, "wire"),
    (Group::Fault, "faults"),
];

fn costs(doc: &mut Document, m: &Measured) {
    let mut table = numbers("CPU time", &["times", "cycles a packet"], NUMBER);
    for c in m.costs.iter().filter(|c| c.times > 0) {
        table.row([
            &format!("cycles_{}", c.name),
            &count(c.times),
            &each(c.cycles, m.packets as f64),
        ]);
    }
    let all = m.costs.iter().map(|c| c.cycles).sum::<f64>();
    let cells = ["cycles", "", &each(all, m.packets as f64)];
    table.noted(cells, "modelled from the profile's prices");
    doc.table(table);
}

/// Registers that the table for people has: the longest waited for.
const DEAREST: usize = 3;

/// Adds the dearest registers, if accesses are logged.
fn registers(doc: &mut Document, m: &Measured) {
    let mut table = numbers("registers", &["reads a packet", "writes a packet", "waited"], NUMBER);
    for r in m.registers.iter().take(DEAREST) {
        let [reads, writes] = [r.reads, r.writes].map(|n| each(n as f64, m.packets as f64));
        table.row([&*r.name, &reads, &writes, &format!("{} %", amount(r.waited_share * 100.0))]);
    }
    doc.table(table);
}

/// Formats the half of the 95 % interval of a number, by its name among all that have one.
fn error(name: &str, value: f64, all: &[(&'static str, f64)]) -> String {
    let own = all.iter().find(|(of, _)| *of == name && value != 0.0);
    own.map_or(String::new(), |(_, e)| percent(e / value.abs()))
}

/// Adds the audit's verdict on a run.
pub(crate) fn audit(doc: &mut Document, of: &str, result: &RunResult) {
    doc.gap();
    let verdict = &result.measured.verdict;
    if let [first, rest @ ..] = &verdict.unfinished[..] {
        let why = if verdict.faults { "ended at its limit of virtual time" } else { "overloaded" };
        doc.line(format!("{of}: {why}: {first}"));
        rest.iter().for_each(|fact| doc.line(format!("  {fact}")));
    }
    verdict.lost.iter().for_each(|loss| doc.line(format!("{of}: lossy: {loss}")));
    verdict.warnings.iter().for_each(|why| doc.line(format!("{of}: warning: {why}")));
    if result.measured.is_sound() {
        return doc.line(format!("{of}: audit ok: driver, device, bus and wire agree"));
    }
    doc.line(format!("{of}: AUDIT FAILED"));
    verdict.audit.iter().for_each(|why| doc.line(format!("  {why}")));
    if !verdict.evidence.is_empty() {
        doc.line("at the end of the traffic, before the driver was closed:");
        verdict.evidence.iter().for_each(|fact| doc.line(format!("  {fact}")));
    }
}
