//! Errors of a guest run.

use std::{fmt::Display, io};

/// A guest that cannot be made, or that did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name or a file that a person gave is wrong.
    #[error("{0}")]
    Input(String),
    /// Something cannot be downloaded.
    #[error("{what} cannot be fetched:\n{said}")]
    Fetch {
        /// The arguments of the script.
        what: String,
        /// Its last lines.
        said: String,
    },
    /// A file, a program or a socket cannot be used.
    #[error("{place}: {source}")]
    Io {
        /// Its name.
        place: String,
        /// The reason.
        source: io::Error,
    },
    /// The kernel has no such module, neither built in nor as a file.
    #[error("{kernel} has no module `{module}`: {advice}")]
    NoModule {
        /// The name of the kernel.
        kernel: String,
        /// The name of the module.
        module: String,
        /// The way to one that has it.
        advice: &'static str,
    },
    /// The guest ended, panicked, or was silent for too long.
    #[error("{what}; the console's last lines:\n{console}")]
    Guest {
        /// The event.
        what: String,
        /// The console's last lines, or QEMU's own words.
        console: String,
    },
    /// A command in the guest failed.
    #[error("in the guest `{command}` ended with {status}: {said}")]
    Command {
        /// The command.
        command: String,
        /// Its exit status.
        status: i32,
        /// Its output.
        said: String,
    },
    /// The server of the device ended.
    #[error("the server of the device has ended: {0}")]
    Server(String),
    /// A signal came first.
    #[error("interrupted; nothing is left behind")]
    Interrupted,
}

impl Error {
    /// Returns a function that names the place of an I/O error.
    pub(crate) fn io(place: impl Display) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { place: place.to_string(), source }
    }
}
