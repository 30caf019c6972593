//! The runs of measured rows, at any values of the constants.
//!
//! Each run is made once for each set of values, and is single-threaded. Independent runs go over
//! threads; results, errors and their order do not depend on how many there are.

use super::measurements::{Measurements, Run};
use crate::memo::Memo;
use crate::solve::Model;
use doorbell_sim::watch::While;
use doorbell_spec::key::Value;
use doorbell_systems::result::Measured;
use doorbell_systems::{RunError, cores, on_threads};
use std::collections::BTreeSet;

/// A run that gives no numbers.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unmeasured {
    /// The run failed.
    #[error("{place}: {scenario}: {error}")]
    Run {
        /// File and line of the first row that is measured of it.
        place: String,
        /// The scenario.
        scenario: String,
        /// The failure.
        error: RunError,
    },
    /// The run has no such number.
    #[error("{place}: a run of {scenario} has no number `{name}`")]
    Number {
        /// File and line of the row.
        place: String,
        /// The scenario.
        scenario: String,
        /// The number.
        name: String,
    },
    /// The watcher ended it.
    #[error("stopped")]
    Stopped,
}

/// Hears of the number of runs made so far, from several threads. Returns whether to go on.
pub type GoOn<'a> = &'a (dyn Fn(usize) -> bool + Sync);

/// A run by its index, and the values of the constants that it takes from the profile.
type Job = (usize, Vec<Option<u64>>);

/// The runs of a measurement file, made so far.
pub struct Runs<'a> {
    of: &'a Measurements,
    go_on: GoOn<'a>,
    threads: usize,
    /// The numbers of the rows of each run.
    done: Memo<Job, Result<Vec<f64>, Unmeasured>>,
}

impl<'a> Runs<'a> {
    /// Starts without any, on as many threads as the machine has cores.
    pub fn new(of: &'a Measurements, go_on: GoOn<'a>) -> Runs<'a> {
        Runs { of, go_on, threads: cores(), done: Memo::default() }
    }

    /// Sets the number of threads.
    pub fn on(mut self, threads: usize) -> Runs<'a> {
        self.threads = threads.max(1);
        self
    }

    /// Returns the number of runs made.
    pub fn made(&self) -> usize {
        self.done.len()
    }

    /// Returns the run at a point, which may end before the constants that are not solved for. Of
    /// these, only those that were moved count.
    fn job(&self, run: &Run, at: usize, point: &[f64]) -> Job {
        let solved = self.of.unknowns.len();
        let of = |(i, free): (usize, &bool)| {
            let x = point.get(i).filter(|_| *free)?;
            let moved = i < solved || self.of.others[i - solved].start != *x;
            moved.then(|| x.to_bits())
        };
        (at, run.free.iter().enumerate().map(of).collect())
    }

    /// Returns the numbers of the rows of a run, which is made if it is not yet done.
    fn get(&self, job: &Job) -> Result<Vec<f64>, Unmeasured> {
        self.done.get(job.clone(), || self.run(job, &|| (self.go_on)(self.made())))
    }

    /// Makes a run, and returns the numbers of its rows.
    fn run(&self, (at, point): &Job, go_on: &dyn Fn() -> bool) -> Result<Vec<f64>, Unmeasured> {
        let run = &self.of.runs[*at];
        let mut values = run.plan.values.clone();
        for (unknown, bits) in self.of.unknowns.iter().chain(&self.of.others).zip(point) {
            if let Some(bits) = bits {
                values.put(unknown.key, Value::Number(f64::from_bits(*bits)));
            }
        }
        let rows = || self.of.rows.iter().filter(|r| r.run == *at);
        let place = rows().next().map_or(String::new(), |r| r.place.clone());
        let scenario = run.plan.scenario.clone();
        if !go_on() {
            return Err(Unmeasured::Stopped);
        }
        let measured = run.plan.system.run(&values, run.frames.as_ref(), &mut While(go_on));
        let failed =
            |error| Unmeasured::Run { place: place.clone(), scenario: scenario.clone(), error };
        let numbers = match measured.and_then(Measured::sound) {
            Err(RunError::Stopped) => return Err(Unmeasured::Stopped),
            other => other.map_err(failed)?.numbers(),
        };
        let each = rows().map(|row| {
            let lacks = |name: &str| Unmeasured::Number {
                place: row.place.clone(),
                scenario: run.plan.scenario.clone(),
                name: name.to_owned(),
            };
            row.metric.of(&numbers).map(|(value, _)| value).map_err(lacks)
        });
        each.collect()
    }
}

impl Model for Runs<'_> {
    type Error = Unmeasured;

    fn values(&mut self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Unmeasured> {
        let of = self.of;
        let jobs = |point: &Vec<f64>| -> Vec<Job> {
            of.runs.iter().enumerate().map(|(at, run)| self.job(run, at, point)).collect()
        };
        let all: BTreeSet<Job> = points.iter().flat_map(jobs).collect();
        on_threads(self.threads, &Vec::from_iter(all), |_, job| self.get(job))?;
        let values = |point: &Vec<f64>| {
            let jobs = jobs(point);
            let mut taken = vec![0; jobs.len()];
            let each = of.rows.iter().map(|row| {
                taken[row.run] += 1;
                Ok(self.get(&jobs[row.run])?[taken[row.run] - 1])
            });
            each.collect()
        };
        points.iter().map(values).collect()
    }
}
