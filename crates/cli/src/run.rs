//! `doorbell run`.

use crate::args::{Format, Run};
use crate::output::{Files, print};
use crate::progress::{Interrupt, Recording};
use crate::text::{Table, amount, count, heading, rate, rate_name};
use crate::{DONE, Error, MISSED, plan, trace};
use doorbell_lab::Plan;
use doorbell_lab::result::{CountsOf, Group, RunResult};
use doorbell_lab::window::Window;
use std::io::Write;

pub(crate) fn run(args: &Run) -> Result<u8, Error> {
    let plan = plan::plan(&args.scenario, &args.changes)?;
    let port = (plan.rig.port_rate)(&plan.values);
    // Without files there is nothing to take away, and a signal ends the process as it always does.
    let interrupt = if args.out.is_some() || args.capture.is_some() || args.trace.is_some() {
        Interrupt::watched().map_err(|e| Error::input(format!("signals: {e}")))?
    } else {
        Interrupt::ignored()
    };
    let mut files =
        Files::begin(args.out.as_deref(), args.capture.as_deref(), args.trace.as_deref(), port)?;
    let mut recording =
        args.trace.as_ref().map(|_| Recording { packets: args.trace_packets, traced: None });
    let result = plan::execute_with(
        &plan,
        (files.capture.as_mut(), recording.as_mut()),
        &interrupt,
        args.quiet,
    );
    let traced = recording.and_then(|r| r.traced);
    let has_trace = traced.is_some();
    if let Some(traced) = traced
        && let Some(written) = files.trace(|out| trace::write(&traced, port, out))?
        && written.cut
    {
        let (packets, of) = (written.packets, args.trace_packets);
        let why = "more happens between them than it has room for";
        let _ = writeln!(
            std::io::stderr(),
            "doorbell: the trace ends early, with {packets} packets of {of}: {why}"
        );
    }
    let result = match result {
        Ok(result) => result,
        // A run that got stuck has no result, and what led to it is all there is to look at.
        Err(e) if e.code == MISSED && has_trace => {
            files.keep_trace()?;
            return Err(e);
        }
        Err(e) => return Err(e),
    };
    let json = result.to_json() + "\n";
    files.finish(&json)?;
    match args.format {
        Format::Json => print(&json)?,
        Format::Table => print(&table(&plan, &result))?,
    }
    Ok(if result.measured.is_sound() { DONE } else { MISSED })
}

/// The result for people: 100 columns, what did not happen left out.
fn table(plan: &Plan, result: &RunResult) -> String {
    let m = &result.measured;
    let mut text = heading(&format!("{} on {}", plan.scenario, plan.profile));
    text += &format!(" {}\n", plan.about);
    for set in &plan.set {
        text += &format!(" with {set}\n");
    }
    let mut rates = Table::new("rates", &[""], &[24]);
    rates.row("packets", &[count(m.packets)], "");
    rates.row("simulated time", &[m.elapsed.to_string()], "");
    let holds = match m.counts_of {
        CountsOf::Run => "of the rates; counts are of the whole run",
        CountsOf::Window => "of rates, counts and costs",
    };
    rates.row("window", &[m.window.length().to_string()], holds);
    for r in &m.rates {
        let (value, unit) = rate(r.name, r.value);
        let about = if r.name == "packets_per_s" {
            certain(&m.window, &r.about)
        } else {
            r.about.to_string()
        };
        rates.row(&rate_name(r.name), &[format!("{value} {unit}")], &about);
    }
    text += &rates.finish();

    // Of no packets there is no share.
    let each =
        |all: f64| if m.packets > 0 { amount(all / m.packets as f64) } else { "-".to_owned() };
    for (group, title) in
        Group::ALL.into_iter().zip(["bus", "CPU", "driver", "device", "wire", "faults"])
    {
        let mut table = Table::new(title, &["total", "a packet"], &[]);
        for c in m.counts.iter().filter(|c| c.group == group && c.value > 0) {
            let name = c
                .name
                .strip_prefix("driver_")
                .or(c.name.strip_prefix("device_"))
                .or(c.name.strip_prefix("fault_"))
                .unwrap_or(&c.name);
            table.row(name, &[count(c.value), each(c.value as f64)], c.about);
        }
        text += &table.finish();
        if group == Group::Cpu {
            let mut table = Table::new("CPU time", &["times", "cycles a packet"], &[]);
            for c in m.costs.iter().filter(|c| c.times > 0) {
                table.row(c.name, &[count(c.times), each(c.cycles)], "");
            }
            let all = m.costs.iter().map(|c| c.cycles).sum::<f64>();
            table.row("all", &[String::new(), each(all)], "modelled from the profile's prices");
            text += &table.finish();
        }
    }
    let mut latency = Table::new("latency, ns", &[""], &[]);
    for (name, ns) in m.latency_ns() {
        let about = if name == "min" { m.latency_of } else { "" };
        latency.row(name, &[amount(ns)], about);
    }
    text += &latency.finish();
    text += &audit(&result.scenario, result);
    text
}

/// How sure the packet rate is, and what it is of; or what a steady rate lacks.
fn certain(window: &Window, about: &str) -> String {
    if window.is_steady() { format!("{}, {about}", window.certainty()) } else { window.certainty() }
}

/// The audit's verdict on a run, as the last lines.
pub(crate) fn audit(of: &str, result: &RunResult) -> String {
    if result.measured.is_sound() {
        return format!("\n {of}: audit ok: driver, device, bus and wire agree\n");
    }
    let mut text = format!("\n {of}: AUDIT FAILED\n");
    for why in &result.measured.audit {
        text += &format!("   {why}\n");
    }
    text
}
