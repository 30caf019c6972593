//! Studies of systems: published figures and fits, what limits, advice, sweeps and rankings.
//!
//! A study runs systems and knows none of them: no device, no driver.
#![forbid(unsafe_code)]

pub mod advise;
pub mod axis;
pub mod budget;
pub mod figures;
pub mod fit;
pub mod limits;
pub mod lossless;
mod memo;
pub mod origin;
mod paths;
pub mod point;
pub mod rank;
pub mod record;
pub mod runs;
pub mod schema;
pub mod shown;
mod solve;
pub mod sweep;
pub mod today;
#[cfg(test)]
mod toy;
