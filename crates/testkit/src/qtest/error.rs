//! What can go wrong with a QEMU.

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a QEMU could not be started, or did not answer as it should.
#[derive(Debug)]
pub enum Error {
    /// The operating system refused something.
    System {
        /// What was being done.
        doing: String,
        /// The system's reason.
        why: io::Error,
    },
    /// QEMU has ended.
    Exited {
        /// How, if that is known.
        status: Option<ExitStatus>,
        /// The end of what it wrote to stderr, and a hint where we know one.
        said: String,
    },
    /// QEMU is there but does not answer.
    Silent {
        /// What it was asked.
        asked: String,
        /// How long we waited.
        waited: Duration,
    },
    /// QEMU answered that it cannot, or something that makes no sense.
    Answer {
        /// What it was asked.
        asked: String,
        /// Its answer.
        answer: String,
    },
    /// The device is not what was expected.
    Device(String),
}

impl Error {
    /// For `map_err` on the system's errors.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let doing = doing.into();
        move |why| Error::System { doing, why }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::System { doing, why } => write!(f, "{doing}: {why}"),
            Error::Exited { status, said } => {
                f.write_str("QEMU has ended")?;
                if let Some(status) = status {
                    write!(f, " ({status})")?;
                }
                if said.is_empty() {
                    f.write_str(" and said nothing")
                } else {
                    write!(f, ": {said}")
                }
            }
            Error::Silent { asked, waited } => {
                write!(f, "QEMU did not answer within {waited:?}: {asked}")
            }
            Error::Answer { asked, answer } => {
                write!(f, "QEMU was asked \"{asked}\" and answered \"{answer}\"")
            }
            Error::Device(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::System { why, .. } => Some(why),
            _ => None,
        }
    }
}
