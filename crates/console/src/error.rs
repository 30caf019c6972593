//! The errors that end a command, each with its exit code.

use doorbell_spec::InputError;
use std::{fmt::Display, io};

/// A command that has no result, or none that can be shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is wrong: exit code 2.
    #[error("{0}")]
    Input(String),
    /// A file, a key or a value that a person wrote is wrong: exit code 2.
    #[error(transparent)]
    Lab(#[from] InputError),
    /// A file or a socket that was asked for cannot be used: exit code 2.
    #[error("{place}: {}", plain(.source))]
    Io {
        /// Its name.
        place: String,
        /// The reason.
        source: io::Error,
    },
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
    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            Error::Input(_) | Error::Lab(_) | Error::Io { .. } | Error::Untestable(_) => 2,
            Error::Failed(_) => 1,
            Error::Interrupted(_) => 130,
        }
    }

    /// Returns a function that names the place of an I/O error.
    pub fn at(place: impl Display) -> impl Fn(io::Error) -> Error {
        move |e| Error::Io { place: place.to_string(), source: e }
    }
}

/// The end of a command without a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The exit code that the program has then: 1 cannot go on, 2 wrong input, 130 interrupted.
    pub code: u8,
    /// The file and line, or the option, that a person has to change; empty if it is none.
    pub place: String,
    /// The reason, and what is allowed.
    pub what: String,
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
pub fn plain(e: &io::Error) -> String {
    let text = e.to_string();
    text.split(" at path \"").next().unwrap_or(&text).to_owned()
}

/// Builds an [`Error::Input`] from a format string.
#[macro_export]
macro_rules! input {
    ($($arg:tt)*) => { $crate::Error::Input(format!($($arg)*)) };
}

/// Builds an [`Error::Failed`] from a format string.
#[macro_export]
macro_rules! failed {
    ($($arg:tt)*) => { $crate::Error::Failed(format!($($arg)*)) };
}
