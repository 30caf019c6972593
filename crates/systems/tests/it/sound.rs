//! Runs of scenarios that have to be sound, and their numbers.

use doorbell_sim::Unwatched;
use doorbell_sim::traffic::Frames;
use doorbell_systems::result::Measured;
use doorbell_systems::{DOORBELL, Plan};
use std::sync::Arc;

/// Returns the plan of a scenario with these settings.
pub(crate) fn plan(scenario: &str, sets: &[impl AsRef<str>]) -> Plan {
    let mut plan = DOORBELL.plan(scenario).unwrap();
    sets.iter().for_each(|s| plan.set(s.as_ref()).unwrap_or_else(|e| panic!("{e}")));
    plan
}

/// Runs a plan, on these frames if it has any. Its counts have to agree.
pub(crate) fn run_of(plan: &Plan, frames: Option<&Arc<Frames>>) -> Measured {
    let (scenario, set) = (&plan.scenario, &plan.set);
    let m = plan.system.run(&plan.values, frames, &mut Unwatched);
    let m = m.unwrap_or_else(|e| panic!("{scenario} {set:?}: {e}"));
    assert!(m.verdict.audit.is_empty(), "{scenario} {set:?}: {:?}", m.verdict.audit);
    m
}

/// Runs a scenario with these settings ([`run_of`]).
pub(crate) fn run(
    scenario: &str,
    sets: &[impl AsRef<str>],
    frames: Option<&Arc<Frames>>,
) -> Measured {
    run_of(&plan(scenario, sets), frames)
}

/// Returns a number of a run.
pub(crate) fn number(m: &Measured, name: &str) -> f64 {
    m.number(name).unwrap_or_else(|| panic!("{name}"))
}
