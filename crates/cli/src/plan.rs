//! From arguments to a run: the scenario, what changes it, and its capture.

use crate::args::Changes;
use crate::output::Capture;
use crate::progress::{Interrupt, Observer, Progress, Recording};
use crate::{Error, INTERRUPTED, MISSED};
use doorbell_attach::pcap;
use doorbell_lab::result::{Failure, Measured, RunResult};
use doorbell_lab::traffic::Frames;
use doorbell_lab::{InputError, Plan, Scenario};
use doorbell_seam::Span;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The scenario that `given` names, changed; `more` are settings of this one alone.
pub(crate) fn plan(given: &str, changes: &Changes, more: &[String]) -> Result<Plan, Error> {
    let mut plan = Scenario::load(given)?.plan()?;
    change(&mut plan, changes, more)?;
    Ok(plan)
}

/// Changes a plan as the arguments say.
pub(crate) fn change(plan: &mut Plan, changes: &Changes, more: &[String]) -> Result<(), Error> {
    if let Some(file) = &changes.pcap {
        let Some(file) = file.to_str() else {
            return Err(Error::input(format!("--pcap {}: the name is not UTF-8", file.display())));
        };
        plan.set("traffic.kind=pcap")?;
        plan.set(&format!("traffic.file={file}"))?;
    }
    let flags = [
        ("--offload", "traffic.offload", &changes.offload),
        ("--gso", "traffic.gso", &changes.gso),
        ("--times", "traffic.times", &changes.times),
        ("--rounds", "traffic.rounds", &changes.rounds),
    ];
    for (flag, key, value) in flags {
        let Some(value) = value else { continue };
        if plan.capture().is_none() {
            return Err(Error::input(format!("{flag} {value}: it is for captures; give one with --pcap FILE")));
        }
        plan.set(&format!("{key}={value}")).map_err(|e| InputError::new(format!("{flag} {value}"), e.what))?;
    }
    if let Some(seed) = changes.seed {
        plan.set(&format!("run.seed={seed}")).map_err(|e| InputError::new(format!("--seed {seed}"), e.what))?;
    }
    if !changes.fault.is_empty() {
        let faults = changes.fault.join(",");
        let place = format!("--fault {}", changes.fault.join(" --fault "));
        plan.set(&format!("run.fault={faults}")).map_err(|e| InputError::new(place, e.what))?;
    }
    for set in &changes.sets {
        plan.set(set)?;
    }
    for with in more {
        plan.set(with).map_err(|e| InputError::new(e.place.replace("--set", "--with"), e.what))?;
    }
    Ok(())
}

/// The frames of the plan's capture, if it sends one.
pub(crate) fn frames(plan: &Plan) -> Result<Option<Arc<Frames>>, Error> {
    let Some(file) = plan.capture() else { return Ok(None) };
    if file.is_empty() {
        // The system says what is missing.
        return Ok(None);
    }
    let capture = pcap::read(Path::new(file)).map_err(|e| Error::input(e.to_string()))?;
    let odd = [(capture.backwards, "earlier than the one before"), (capture.untimed, "without a time of their own")];
    for (n, what) in odd.into_iter().filter(|(n, _)| *n > 0 && plan.values.word("traffic.times") == "own") {
        let _ = writeln!(std::io::stderr(), "doorbell: {file}: {n} frames are {what}");
    }
    let mut frames = Frames::default();
    for (ns, frame) in capture.iter() {
        // 213 days fit; where a clock jumped by years, the system refuses to wait for them.
        frames.push(Span::from_ps(ns.saturating_mul(1000)), frame);
    }
    Ok(Some(Arc::new(frames)))
}

/// A plan with what it measured.
pub(crate) fn result(plan: &Plan, measured: Measured) -> RunResult {
    let (scenario, profile, set) = (plan.scenario.clone(), plan.profile.clone(), plan.set.clone());
    RunResult { scenario, profile, set, seed: plan.seed(), measured }
}

/// Runs a plan that writes no file.
pub(crate) fn execute(plan: &Plan, quiet: bool) -> Result<RunResult, Error> {
    execute_with(plan, (None, None), &Interrupt::ignored(), quiet)
}

/// Runs a plan, keeps its frames or records it, and ends early when interrupted.
pub(crate) fn execute_with(
    plan: &Plan,
    (capture, recording): (Option<&mut Capture>, Option<&mut Recording>),
    interrupt: &Interrupt,
    quiet: bool,
) -> Result<RunResult, Error> {
    let frames = frames(plan)?;
    let mut observer = Observer { progress: Progress::new(&plan.scenario, quiet), capture, recording, interrupt };
    let measured = (plan.rig.run)(&plan.values, frames.as_ref(), &mut observer).map_err(|failure| match failure {
        Failure::Input(what) => Error::input(format!("{}: {what}", plan.scenario)),
        Failure::Run(_) if interrupt.came() => {
            Error { code: INTERRUPTED, what: "interrupted; nothing was written".to_owned() }
        }
        Failure::Run(what) => Error { code: MISSED, what: format!("{}: {what}", plan.scenario) },
    })?;
    Ok(result(plan, measured))
}
