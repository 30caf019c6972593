//! The errors that end a command, each with its exit code.

use crate::Failure;
use doorbell_spec::InputError;
use doorbell_systems::RunError;
use std::{fmt::Display, io};

/// A command that has no result, or none that can be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The input is wrong: exit code 2.
    #[error("{0}")]
    Input(String),
    /// A file, a key or a value that a person wrote is wrong: exit code 2.
    #[error(transparent)]
    Lab(#[from] InputError),
    /// A file or a socket that was asked for cannot be used: exit code 2.
    #[error("{place}: {}", plain(.source))]
    Io { place: String, source: io::Error },
    /// A kernel that lacks what is asked of it: exit code 2.
    #[error("{0}")]
    Untestable(String),
    /// A run, a server or the machine cannot go on: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// A signal came first: exit code 130, as a shell reports Ctrl-C.
    #[error("interrupted; {0}")]
    Interrupted(&'static str),
}

impl Error {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Error::Input(_) | Error::Lab(_) | Error::Io { .. } | Error::Untestable(_) => 2,
            Error::Failed(_) => 1,
            Error::Interrupted(_) => 130,
        }
    }

    /// Returns a function that names the place of an I/O error.
    pub(crate) fn at(place: impl Display) -> impl Fn(io::Error) -> Error {
        move |e| Error::Io { place: place.to_string(), source: e }
    }

    /// Names the scenario of a run that failed.
    pub(crate) fn of_run(scenario: &str, e: RunError) -> Error {
        let what = format!("{scenario}: {e}");
        if e.is_input() { Error::Input(what) } else { Error::Failed(what) }
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        let code = e.code();
        let (place, what) = match e {
            Error::Lab(InputError { place, what }) => (place, what),
            Error::Io { place, source } => (place, plain(&source)),
            e => (String::new(), e.to_string()),
        };
        Failure { code, place, what }
    }
}

/// Returns the text of an I/O error without the name of a temporary file, which means nothing to
/// a person.
pub(crate) fn plain(e: &io::Error) -> String {
    let text = e.to_string();
    text.split(" at path \"").next().unwrap_or(&text).to_owned()
}

/// Builds an [`Error::Input`] from a format string.
macro_rules! input {
    ($($arg:tt)*) => { $crate::Error::Input(format!($($arg)*)) };
}

/// Builds an [`Error::Failed`] from a format string.
macro_rules! failed {
    ($($arg:tt)*) => { $crate::Error::Failed(format!($($arg)*)) };
}

pub(crate) use {failed, input};
