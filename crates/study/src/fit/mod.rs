//! Calibration: constants of a profile, solved for so that runs give measured numbers.
//!
//! [`Measurements`] is a file of rows, each a number of a result, measured on a machine. [`fit`]
//! brings the runs of its rows closest to them (by least squares) and tells for each constant its
//! interval, or that the rows do not determine it. Rows of role
//! [`Predicted`](crate::figures::Role::Predicted) are predicted. [`Moved`] tells what follows a
//! constant that was not solved for.

mod measurements;
mod outcome;
mod profile;
pub(crate) mod readers;
mod sensitivity;
mod student;

pub use measurements::{Measurements, Unknown};
pub use outcome::{Calibration, Compared, Contradiction, FitError, Solved, State, fit};
pub use profile::profile;
pub use sensitivity::Moved;
