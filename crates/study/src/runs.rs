//! Runs of many plans on several threads, with results in the order of the plans.

use crate::record::Outcome;
use doorbell_sim::traffic::Frames;
use doorbell_sim::watch::While;
use doorbell_spec::InputError;
use doorbell_systems::result::Measured;
use doorbell_systems::{Plan, RunError, cores, on_threads};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most runs at a time, for each core: each has a thread and its memory.
const JOBS: usize = 4;

/// A capture that was read.
#[derive(Debug)]
pub struct Loaded {
    /// Its frames.
    pub frames: Arc<Frames>,
    /// SHA-256 of the file as it is, in hexadecimal.
    pub sha256: String,
    /// Its format, and the number and lengths of its frames, for people.
    pub about: String,
}

/// The program that asks for a study. It has the captures and what was kept, hears of progress, and
/// may end it.
pub trait Caller: Sync {
    /// The end of a study without a result.
    type Error: From<InputError> + Send;

    /// Returns the capture that a plan sends, if it sends one.
    fn capture(&self, plan: &Plan) -> Result<Option<Arc<Loaded>>, Self::Error>;

    /// Returns the error of a run that has no result.
    fn failed(&self, plan: &Plan, why: RunError) -> Self::Error;

    /// Hears how many runs of how many are done. Returns whether to go on.
    fn go_on(&self, _done: usize, _of: usize) -> bool {
        true
    }

    /// Returns the outcome of the point with this key, if it was kept.
    fn kept(&self, _key: &str) -> Result<Option<Outcome>, Self::Error> {
        Ok(None)
    }

    /// Keeps the outcome of the point with this key.
    fn keep(&self, _key: &str, _outcome: &Outcome) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Hears how many points of how many were kept.
    fn had(&self, _points: usize, _of: usize) {}

    /// Returns the SHA-256 of the capture that a plan sends, if it sends one.
    fn sha256(&self, plan: &Plan) -> Result<Option<String>, Self::Error> {
        Ok(self.capture(plan)?.map(|c| c.sha256.clone()))
    }
}

/// Refuses to run on a capture that has this hash `now`, if it had another.
pub fn same_capture(name: &str, now: Option<&str>, then: Option<&str>) -> Result<(), InputError> {
    if now == then {
        return Ok(());
    }
    let [then, now] = [then, now].map(|hash| hash.unwrap_or("none"));
    Err(InputError::new(name, format!("the capture had SHA-256 {then}, and now has {now}")))
}

/// Returns the number of threads for `jobs` runs at a time, by default one for each core.
pub fn threads(jobs: Option<NonZeroUsize>) -> usize {
    jobs.map_or_else(cores, usize::from).min(JOBS * cores())
}

/// Makes the run of each item on so many threads, `before` of them being done. Returns what `take`
/// makes of each measurement, or the first error.
pub(crate) fn each<C: Caller, I: Sync, T: Send>(
    caller: &C,
    (threads, before): (usize, usize),
    items: &[I],
    plan: impl Fn(&I) -> &Plan + Sync,
    take: impl Fn(&I, Measured) -> Result<T, C::Error> + Sync,
) -> Result<Vec<T>, C::Error> {
    let (done, of) = (AtomicUsize::new(before), before + items.len());
    let go_on = || caller.go_on(done.load(Ordering::Relaxed), of);
    let all = on_threads(threads, items, |_, item| {
        let taken = take(item, one(caller, plan(item), &go_on)?);
        done.fetch_add(1, Ordering::Relaxed);
        taken
    })?;
    // Nothing is left that could be ended.
    caller.go_on(of, of);
    Ok(all)
}

fn one<C: Caller>(caller: &C, plan: &Plan, go_on: &dyn Fn() -> bool) -> Result<Measured, C::Error> {
    // A short run ends before it looks whether to go on.
    if !go_on() {
        return Err(caller.failed(plan, RunError::Stopped));
    }
    let capture = caller.capture(plan)?;
    let frames = capture.as_ref().map(|c| &c.frames);
    let run = plan.system.run(&plan.values, frames, &mut While(go_on));
    let mut measured = run.map_err(|e| caller.failed(plan, e))?;
    measured.retain_counts(|name| plan.system.metric(name).is_some());
    Ok(measured)
}
