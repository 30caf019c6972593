//! Configuration: keys and their values, profiles, scenarios, and files to start from.

mod builtin;
pub(crate) mod fault;
pub mod host;
pub mod profile;
pub mod scenario;
pub mod schema;
pub(crate) mod settings;
pub mod templates;
pub mod today;

pub use doorbell_spec::trade::{hint_of_key, hint_of_number};
pub use doorbell_spec::{InputError, SettingError, hint, key, nearest};
pub(crate) use doorbell_spec::{error::line_at, mix, refuse};
pub use profile::Profile;
pub use scenario::{Plan, Scenario, Setting};
