//! The models of rows: their runs, each made once for each set of values.

use super::{Constants, MeasureError, Number, Run};
use crate::memo::Memo;
use doorbell_sim::Watch;
use doorbell_spec::Sum;
use doorbell_systems::RunError;
use doorbell_systems::result::{Measured, Numbers};
use std::sync::Arc;

/// The runs of rows, and those of them made so far.
#[derive(Debug, Default)]
pub struct Models {
    /// The runs.
    pub runs: Vec<Run>,
    /// Their numbers, by the values that have an effect.
    done: Memo<Vec<String>, Result<Arc<Numbers>, RunError>>,
}

impl Models {
    /// Starts without any made.
    pub(crate) fn new(runs: Vec<Run>) -> Models {
        Models { runs, done: Memo::default() }
    }

    /// Returns the number of runs made.
    pub(crate) fn made(&self) -> usize {
        self.done.len()
    }

    /// Returns a number of a run with these constants. The run is made unless one was with the
    /// same values.
    pub(super) fn measure(
        &self,
        c: &Constants,
        of: &Number,
        watch: &mut dyn Watch,
    ) -> Result<f64, MeasureError> {
        let run = &self.runs[of.run];
        let values = run.values(c);
        let key = values.iter().map(|(_, value)| value.to_string()).collect();
        let numbers = self.done.get(key, || {
            let made = run.plan.system.run(&values, run.frames.as_ref(), watch);
            Ok(Arc::new(made.and_then(Measured::sound)?.numbers()))
        })?;
        let value = |sum: &Sum| {
            let lacks = |name| format!("the run {} has no number `{name}`", run.name);
            sum.of(&numbers).map(|(value, _)| value).map_err(|name| MeasureError::new(lacks(name)))
        };
        let number = value(&of.metric)?;
        let per = of.per.as_ref().map_or(Ok(1.0), value)?;
        let quotient = if number == 0.0 { 0.0 } else { number / per };
        Ok(quotient * of.factor)
    }
}
