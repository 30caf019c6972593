//! Runs that rows are measured of.
//!
//! Settings of a run stay as they are. Choices between models replace what its scenario says, which
//! stays otherwise. All other keys follow the constants.

use super::{Constants, platform};
use doorbell_sim::traffic::Frames;
use doorbell_spec::key::{Key, Values};
use doorbell_systems::Plan;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A run that rows are measured of.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Its name in the file, or that of its scenario.
    pub name: String,
    /// The scenario on the profile, with its settings.
    pub plan: Plan,
    /// The keys that its settings set.
    pub(super) set: BTreeSet<String>,
    /// The constants that it follows.
    pub(super) follows: BTreeSet<&'static str>,
    /// The frames of its capture.
    pub frames: Option<Arc<Frames>>,
}

impl Run {
    /// Returns the values of the run with these constants. A key without effect has the plan's
    /// value, so that equal values mean equal results.
    pub(crate) fn values(&self, c: &Constants) -> Values {
        let choices = c.choices().iter().filter(|c| !self.set.contains(&c.key));
        let numbers = c.iter().filter(|c| self.follows.contains(&*c.key));
        let mut values = self.plan.values.clone();
        platform::apply(choices, numbers, &mut values);
        let idle = |key: &&'static Key| values.idle(key).is_some();
        for key in values.keys().into_iter().filter(idle).collect::<Vec<_>>() {
            values.put(key, self.plan.values.get(key.name).clone());
        }
        values
    }
}
