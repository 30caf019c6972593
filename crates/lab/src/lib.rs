//! The laboratory: simulation, configuration, experiments and published figures.
#![forbid(unsafe_code)]

pub mod config;
pub mod experiment;
pub mod sim;
pub mod table;

pub use config::{InputError, Plan, Profile, Scenario, Setting, hint, nearest};
pub use config::{host, key, profile, scenario, schema, templates};
pub use experiment::{
    axienet, bill, closed_loop, custom, e1000, figures, fixed_rate, ibmveth, ibmvnic, mlx5,
    open_loop, papr, result, system, systems, window,
};
pub use sim::{Recording, Unwatched, Watch, fault, histogram, link, napi, scheduler, traffic};
