//! The settings and the numbers of a system, without a device and without a run: [`key`]s with
//! their values, [`metric`]s with their [`number`]s, and the [`table`]s that are made of them.
#![forbid(unsafe_code)]

pub mod error;
pub mod key;
pub mod metric;
pub mod mix;
pub mod number;
pub mod readings;
mod sum;
pub mod table;
pub mod trade;

pub use error::{InputError, SettingError, hint, nearest};
pub use readings::Readings;
pub use sum::Sum;
