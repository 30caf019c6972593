//! Configuration: keys and their values, profiles, scenarios, and files to start from.

mod config_error;
pub(crate) mod fault;
pub mod host;
pub mod key;
pub(crate) mod mix;
pub mod profile;
pub mod scenario;
pub mod schema;
pub mod templates;
pub mod today;
mod trade;

pub use config_error::{InputError, SettingError, hint, nearest};
pub(crate) use config_error::{line_at, refuse};
pub use profile::Profile;
pub use scenario::{Plan, Scenario, Setting};
pub use trade::{hint_of_key, hint_of_number};
