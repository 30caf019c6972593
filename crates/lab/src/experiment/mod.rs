//! Experiments: loads, runs and their statistics, the five systems, and published figures.

mod audit;
pub mod axienet;
pub mod bill;
pub mod closed_loop;
pub mod custom;
pub mod e1000;
pub mod figures;
pub mod fixed_rate;
pub mod ibmveth;
pub mod ibmvnic;
pub mod mlx5;
pub mod open_loop;
pub mod papr;
pub mod result;
mod run;
pub mod system;
pub mod window;

pub use run::{Counts, Entries, OpenError, RunError, RunStats, Snapshot, WorkTotals};
pub(crate) use run::{Experiment, Probe, SLICE};

use crate::config::InputError;
use figures::published;

/// Returns every system with published figures.
///
/// # Errors
/// A built-in profile or file of figures does not parse.
pub fn systems() -> Result<Vec<Box<dyn figures::PublishedFigures>>, InputError> {
    Ok(vec![
        Box::new(mlx5::Figures::new(published::mlx5(), "mlx5-gen2")?),
        Box::new(e1000::Figures::new(published::e1000(), "e1000-power4")?),
        Box::new(axienet::Figures::new(published::axienet(), "axienet-zynqmp")?),
        Box::new(ibmveth::Figures::new(published::ibmveth(), "ibmveth-power8")?),
        Box::new(ibmvnic::Figures::new(published::ibmvnic(), "ibmvnic-power9")?),
    ])
}

#[cfg(test)]
mod tests;
