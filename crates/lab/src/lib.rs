//! The laboratory: clock, traffic, scenarios, profiles, published figures.
#![forbid(unsafe_code)]

pub mod axienet;
pub mod bill;
pub mod bql;
pub mod clock;
pub mod closed;
pub mod e1000;
pub mod experiment;
pub mod fault;
pub mod figures;
pub mod histogram;
pub mod host;
pub mod ibmveth;
pub mod ibmvnic;
mod input;
pub mod key;
pub mod mlx5;
pub mod open;
pub mod own;
pub mod paced;
pub mod papr;
pub mod profile;
pub mod result;
pub mod rig;
pub mod scenario;
pub mod schema;
pub mod standstill;
pub mod start;
pub mod table;
pub mod trace;
pub mod traffic;
mod watch;
pub mod window;

pub use input::{InputError, hint, nearest};
pub use profile::Profile;
pub use scenario::{Plan, Scenario, Setting};
pub use watch::{Unwatched, Watch};

/// Every system whose published figures can be reproduced.
///
/// # Errors
/// A built-in profile that does not parse.
pub fn systems() -> Result<Vec<Box<dyn figures::System>>, InputError> {
    Ok(vec![
        Box::new(mlx5::Figures::new()?),
        Box::new(e1000::Figures::new()?),
        Box::new(axienet::Figures::new()?),
        Box::new(ibmveth::Figures::new()?),
        Box::new(ibmvnic::Figures::new()?),
    ])
}
