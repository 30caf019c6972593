//! Experiments: loads, runs and their statistics, the five systems, and published figures.

pub mod advise;
mod audit;
pub mod axienet;
pub mod bill;
pub mod closed_loop;
pub mod custom;
pub mod e1000;
pub mod figures;
pub mod fit;
pub mod fixed_rate;
pub mod ibmveth;
pub mod ibmvnic;
pub mod limits;
pub mod metrics;
pub mod mlx5;
pub mod open_loop;
pub mod papr;
pub(crate) mod parallel;
pub mod result;
mod run;
pub mod system;
pub mod window;

pub use parallel::{cores, in_parallel, on_threads};
pub use run::{Counted, Counts, Entries, Result, RunError, RunStats, WorkTotals};
pub(crate) use run::{Experiment, Points, Probe, SLICE};

use crate::config::InputError;
use figures::SystemFigures;

/// Returns every system with published figures.
///
/// # Errors
/// A built-in profile or file of figures does not parse.
pub fn systems() -> Result<Vec<Box<dyn figures::PublishedFigures>>, InputError> {
    system::SYSTEMS.iter().filter_map(|s| s.figures).map(SystemFigures::open).collect()
}

#[cfg(test)]
mod tests;
