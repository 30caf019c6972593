//! Studies of systems: published figures and fits, what limits, advice.
//!
//! A study runs systems and knows none of them: no device, no driver.
#![forbid(unsafe_code)]

pub mod advise;
pub mod figures;
pub mod fit;
pub mod limits;
pub mod lossless;
pub mod schema;
pub mod today;
