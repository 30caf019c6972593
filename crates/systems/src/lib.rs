//! Systems: a driver, a device, a bus, a load and an audit each; their keys, profiles and
//! scenarios; the loads and the statistics of runs.
//!
//! ```
//! use doorbell_systems::{DOORBELL, Unwatched};
//!
//! let mut plan = DOORBELL.plan("mlx5-pktgen-64")?;
//! plan.set("traffic.packets=2400")?;
//! let result = plan.system.run(&plan.values, None, &mut Unwatched).expect("the run ends");
//! assert!(result.is_sound() && result.packets == 2400);
//! # Ok::<(), doorbell_spec::InputError>(())
//! ```
#![forbid(unsafe_code)]

pub mod arrivals;
pub mod audit;
pub mod axienet;
pub mod bill;
pub mod card;
pub mod closed_loop;
pub mod custom;
pub mod e1000;
pub(crate) mod fault;
pub mod fixed_rate;
pub mod host;
pub mod ibmveth;
pub mod ibmvnic;
pub mod knobs;
pub mod limits;
pub mod metrics;
pub mod mlx5;
pub mod open_loop;
pub mod papr;
pub mod parallel;
pub mod profile;
pub mod published;
pub mod registry;
pub mod result;
mod run;
pub mod scenario;
pub(crate) mod settings;
pub mod slot;
pub mod system;
pub mod templates;
pub mod window;

pub use doorbell_sim::{Unwatched, Watch};
pub(crate) use doorbell_spec::{InputError, SettingError, hint, key, mix, refuse};
pub use parallel::{cores, in_parallel, on_threads};
pub use profile::Profile;
pub use registry::{DOORBELL, Registry};
pub use run::{Counted, Counts, Entries, Result, RunError, RunStats, WorkTotals};
pub(crate) use run::{Experiment, OpenQueue, Points, Probe, SLICE};
pub use scenario::{Plan, Scenario, Setting};

#[cfg(test)]
mod tests;
