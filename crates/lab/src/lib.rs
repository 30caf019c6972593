//! The laboratory: clock, traffic, scenarios, profiles, published figures.
#![forbid(unsafe_code)]

pub mod clock;
pub mod figures;
pub mod histogram;
pub mod mlx5;
pub mod traffic;
