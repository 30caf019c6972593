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
    /// A workload claims packets that did not cross the wire.
    #[error("{workload}: it claims {claim}, but {frames} crossed the wire; {said}")]
    Claim {
        /// The name of the workload.
        workload: String,
        /// The packets and the frames that it allows.
        claim: String,
        /// The frames that crossed.
        frames: u64,
        /// Its output.
        said: String,
    },
    /// The driver is part of the kernel.
    #[error(
        "{kernel} has `{module}` built in, where its instructions cannot be told from the \
         kernel's: name the kernel's build tree in --modules, whose objects tell them, build it as \
         a module (=m), or count none (--instructions off)"
    )]
    BuiltIn {
        /// The name of the kernel.
        kernel: String,
        /// The name of the module.
        module: String,
    },
    /// A workload's frames are not the driver's.
    #[error(
        "{workload}: {frames} frames crossed the wire, but no instruction of {driver} was \
         executed; a workload with a driver of its own says `#: replaces driver`"
    )]
    Idle {
        /// The name of the workload.
        workload: String,
        /// The driver's modules.
        driver: String,
        /// The frames.
        frames: u64,
    },
    /// Calls of the driver's functions were not seen to end.
    #[error(
        "{workload}: {lost} of {calls} calls ({event}) were not seen to end, as in a kernel that \
         preempts its drivers; do without --inclusive"
    )]
    Lost {
        /// The name of the workload.
        workload: String,
        /// The event that the functions are for.
        event: &'static str,
        /// All calls.
        calls: u64,
        /// Those that were not seen to end.
        lost: u64,
    },
    /// A workload had no guest any more.
    #[error("not run, since the guest did not come through the workload before it")]
    NotRun,
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

impl From<Error> for doorbell_console::Error {
    fn from(e: Error) -> doorbell_console::Error {
        match e {
            Error::Input(what) => doorbell_console::Error::Input(what),
            Error::NoModule { .. } | Error::BuiltIn { .. } => {
                doorbell_console::Error::Untestable(e.to_string())
            }
            Error::Interrupted => doorbell_console::Error::Interrupted("no process is left behind"),
            other => doorbell_console::Error::Failed(other.to_string()),
        }
    }
}
