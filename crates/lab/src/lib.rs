//! The laboratory: configuration, experiments and published figures.
//!
//! ```
//! use doorbell_lab::{Scenario, Unwatched};
//!
//! let mut plan = Scenario::load("mlx5-pktgen-64")?.plan()?;
//! plan.set("traffic.packets=2400")?;
//! let result = plan.system.run(&plan.values, None, &mut Unwatched).expect("the run ends");
//! assert!(result.is_sound() && result.packets == 2400);
//! # Ok::<(), doorbell_lab::InputError>(())
//! ```
#![forbid(unsafe_code)]

pub mod config;
pub mod experiment;

pub use doorbell_spec::table;

pub use config::{InputError, Plan, Profile, Scenario, Setting, hint, nearest};
pub use config::{host, key, profile, scenario, schema, templates, today};
pub use doorbell_sim::{
    Recording, Unwatched, Watch, fault, histogram, link, napi, scheduler, traffic,
};
pub use experiment::{
    advise, axienet, bill, closed_loop, cores, custom, e1000, figures, fit, fixed_rate, ibmveth,
    ibmvnic, in_parallel, limits, metrics, mlx5, on_threads, open_loop, papr, result, system,
    systems, window,
};
