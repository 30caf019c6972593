//! From arguments to a run: the scenario, its changes, and its capture.

use crate::progress::{Interrupt, Observer, Progress, Recorder};
use crate::{Error, args::Changes, failed, input, output::Capture};
use doorbell_hal::Span;
use doorbell_host_io::pcap;
use doorbell_lab::result::{Measured, RunResult};
use doorbell_lab::{InputError, Plan, Scenario, Setting, traffic::Frames};
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::{fs::File, path::Path, sync::Arc};

/// Returns the scenario that `given` names, changed.
pub(crate) fn plan(given: &str, changes: &Changes) -> Result<Plan, Error> {
    let mut plan = Scenario::load(given)?.plan()?;
    change(&mut plan, changes)?;
    Ok(plan)
}

/// Applies the arguments to a plan.
pub(crate) fn change(plan: &mut Plan, changes: &Changes) -> Result<(), Error> {
    Ok(plan.layer(&settings(plan, changes)?)?)
}

/// The plans of several runs. Each setting must have an effect on at least one run that it is for.
#[derive(Default)]
pub(crate) struct Plans {
    plans: Vec<Plan>,
    /// The place of each setting, and the reason why it has had no effect so far, if any.
    idle: Vec<(String, Option<InputError>)>,
}

impl Plans {
    /// Adds the scenario that `given` names, changed; `more` are settings of this one alone.
    pub(crate) fn add(
        &mut self,
        given: &str,
        changes: &Changes,
        more: &[Setting],
    ) -> Result<(), Error> {
        let mut plan = Scenario::load(given)?.plan()?;
        let all = [settings(&plan, changes)?, more.to_vec()].concat();
        let idle = plan.lay(&all)?;
        for s in &all {
            let why = idle.iter().find(|e| e.place == s.place);
            match self.idle.iter_mut().find(|(place, _)| *place == s.place) {
                Some((_, so_far)) => *so_far = so_far.take().filter(|_| why.is_some()),
                None => self.idle.push((s.place.clone(), why.cloned())),
            }
        }
        self.plans.push(plan);
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Vec<Plan>, Error> {
        match self.idle.into_iter().find_map(|(_, why)| why) {
            Some(why) => Err(why.into()),
            None => Ok(self.plans),
        }
    }
}

/// Returns the settings of the arguments in order.
fn settings(plan: &Plan, changes: &Changes) -> Result<Vec<Setting>, Error> {
    let mut all = Vec::new();
    if let Some(file) = &changes.pcap {
        let Some(name) = file.to_str() else {
            return Err(input!("--pcap {}: the name is not UTF-8", file.display()));
        };
        let place = format!("--pcap {name}");
        all.push(Setting::at(&*place, "traffic.kind=pcap"));
        all.push(Setting::at(place, format!("traffic.file={name}")));
    }
    let flags = [
        ("--offload", "traffic.offload", &changes.offload),
        ("--gso", "traffic.gso", &changes.gso),
        ("--times", "traffic.times", &changes.times),
        ("--rounds", "traffic.rounds", &changes.rounds),
    ];
    for (flag, key, value) in flags {
        let Some(value) = value else { continue };
        if plan.capture().is_none() && changes.pcap.is_none() {
            return Err(input!("{flag} {value}: it is for captures; give one with --pcap FILE"));
        }
        all.push(Setting::at(format!("{flag} {value}"), format!("{key}={value}")));
    }
    let seed = |n| Setting::at(format!("--seed {n}"), format!("run.seed={n}"));
    all.extend(changes.seed.map(seed));
    if !changes.fault.is_empty() {
        let place = format!("--fault {}", changes.fault.join(" --fault "));
        all.push(Setting::at(place, format!("run.fault={}", changes.fault.join(","))));
    }
    all.extend(changes.sets.iter().map(|set| Setting::given("--set", set)));
    Ok(all)
}

/// Reads the frames of the plan's capture, if it sends one.
pub(crate) fn frames(plan: &Plan) -> Result<Option<Arc<Frames>>, Error> {
    let Some(file) = plan.capture() else { return Ok(None) };
    if file.is_empty() {
        // The system names the missing file.
        return Ok(None);
    }
    let capture = pcap::read(Path::new(file)).map_err(|e| input!("{e}"))?;
    let odd = [
        (capture.backwards, "earlier than the one before"),
        (capture.untimed, "without a time of their own"),
    ];
    let own = plan.values.word("traffic.times") == "own";
    for (n, how) in odd.into_iter().filter(|(n, _)| *n > 0 && own) {
        let _ = writeln!(std::io::stderr(), "doorbell: {file}: {n} frames are {how}");
    }
    let mut frames = Frames::default();
    for (ns, frame) in capture.iter() {
        // 213 days fit; the system refuses to wait for a clock that jumped by years.
        frames.push(Span::from_ps(ns.saturating_mul(1000)), frame);
    }
    Ok(Some(Arc::new(frames)))
}

/// Returns the SHA-256 of the plan's capture, if it sends one.
pub(crate) fn capture_sha256(plan: &Plan) -> Result<Option<String>, Error> {
    let Some(file) = plan.capture().filter(|f| !f.is_empty()) else { return Ok(None) };
    let mut hash = Sha256::new();
    let hashed = File::open(file).and_then(|mut from| io::copy(&mut from, &mut hash));
    hashed.map_err(Error::at(file))?;
    Ok(Some(format!("{:x}", hash.finalize())))
}

/// Returns the SHA-256 of the plan's profile: a line `key=value` for each of its keys.
fn profile_sha256(plan: &Plan) -> String {
    let mut hash = Sha256::new();
    for key in plan.system.platform() {
        hash.update(format!("{}={}\n", key.name, plan.platform.get(key.name)));
    }
    format!("{:x}", hash.finalize())
}

/// Returns the value of every key, with its unit.
pub(crate) fn values(plan: &Plan) -> Vec<(&'static str, String)> {
    plan.values.iter().map(|(key, value)| (key.name, key.said(value))).collect()
}

pub(crate) fn result(plan: &Plan, measured: Measured) -> Result<RunResult, Error> {
    Ok(RunResult {
        scenario: plan.scenario.clone(),
        profile: plan.profile.clone(),
        profile_sha256: profile_sha256(plan),
        set: plan.set.clone(),
        settings: values(plan),
        capture_sha256: capture_sha256(plan)?,
        seed: plan.seed(),
        measured,
    })
}

/// Runs a plan that writes no file.
pub(crate) fn execute(plan: &Plan, quiet: bool) -> Result<RunResult, Error> {
    execute_with(plan, (None, None), &Interrupt::ignored(), quiet)
}

/// Runs a plan, captures or records it if requested, and ends early when interrupted.
pub(crate) fn execute_with(
    plan: &Plan,
    (capture, recording): (Option<&mut Capture>, Option<&mut Recorder>),
    interrupt: &Interrupt,
    quiet: bool,
) -> Result<RunResult, Error> {
    let (frames, recorded) = (frames(plan)?, recording.is_some());
    let mut observer =
        Observer { progress: Progress::new(&plan.scenario, quiet), capture, recording, interrupt };
    let measured = (plan.system.run)(&plan.values, frames.as_ref(), &mut observer);
    result(
        plan,
        measured.map_err(|e| match e {
            e if e.is_input() => Error::of_run(&plan.scenario, e),
            _ if interrupt.came() => Error::Interrupted("nothing was written"),
            e if recorded => Error::of_run(&plan.scenario, e),
            e => failed!(
                "{}: {e}\n  `doorbell run` with --trace FILE shows the steps that led to it",
                plan.scenario
            ),
        })?,
    )
}
