//! A command's side towards a person: errors with their exit codes, results as tables and files,
//! progress, and signals. Knows no system, device or run.
//!
//! ```
//! use doorbell_console::render::{Document, Format, NUMBER, numbers};
//!
//! let mut table = numbers("frames", &["sent"], NUMBER);
//! table.row(["all", "3"]);
//! let text = Document::from(table).show(Format::Csv, "example", &());
//! assert_eq!(text.lines().count(), 2);
//! ```
#![forbid(unsafe_code)]

pub mod chrome;
mod error;
pub mod output;
pub mod progress;
pub mod render;
pub mod schema;

pub use error::{Error, Failure, plain};

/// The version, and the commit that it was built from if it was built in a repository.
pub const VERSION: &str = env!("DOORBELL_VERSION");

/// Exit code: everything was done, and every claim holds.
pub const DONE: u8 = 0;
/// Exit code: a figure was missed without a listed explanation, a budget is broken, an audit
/// failed, or a server's capture or trace is not complete. [`Error::code`] has the codes of
/// commands without a result.
pub const MISSED: u8 = 1;
