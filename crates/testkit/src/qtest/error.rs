//! Errors of a QEMU under qtest.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

/// A QEMU could not be started, or did not answer correctly.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused an action.
    #[error("{doing}: {why}")]
    System {
        /// The refused action.
        doing: String,
        /// The system's reason.
        #[source]
        why: io::Error,
    },
    /// QEMU has ended.
    #[error("QEMU has ended{}{}", bracketed(status), spoken(said))]
    Exited {
        /// Its exit status, if known.
        status: Option<ExitStatus>,
        /// The end of its stderr, and a hint if there is one.
        said: String,
    },
    /// QEMU runs but does not answer.
    #[error("QEMU did not answer within {waited:?}: {asked}")]
    Silent {
        /// The command.
        asked: String,
        /// Time waited.
        waited: Duration,
    },
    /// QEMU refused, or gave an invalid answer.
    #[error("QEMU was asked \"{asked}\" and answered \"{answer}\"")]
    Answer {
        /// The command.
        asked: String,
        /// Its answer.
        answer: String,
    },
    /// The device is not the expected one.
    #[error("{0}")]
    Device(String),
}

impl Error {
    /// Returns a function for `map_err` on the system's errors.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let doing = doing.into();
        move |why| Error::System { doing, why }
    }
}

fn bracketed(status: &Option<ExitStatus>) -> String {
    status.map(|s| format!(" ({s})")).unwrap_or_default()
}

fn spoken(said: &str) -> String {
    if said.is_empty() { " and said nothing".into() } else { format!(": {said}") }
}
