//! The native part of the Python package `doorbell`: a function that runs a command, and one that
//! is the program. The package's Python files have everything that people see.

/// Runs commands. `doorbell/_native.pyi` has the types.
#[pyo3::pymodule]
mod _native {
    use doorbell_cli::{Caller, DOORBELL, Devices, Failure, VERSION, call, main_of};
    use pyo3::exceptions::PyRuntimeError;
    use pyo3::prelude::*;
    use std::ffi::OsString;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    /// The version, and the commit that it was built from.
    #[pymodule_export]
    const VERSION_AND_COMMIT: &str = VERSION;

    /// The time between two looks for Ctrl-C.
    const LOOK: Duration = Duration::from_millis(20);

    /// Exit code, output, place and text of the error.
    type Ended = (u8, Option<String>, String, String);

    /// Runs a command without the global interpreter lock. Returns its exit code and its output;
    /// if it has none, the place and the text of the error. Now and then `progress` gets how much
    /// is done, and of how much.
    ///
    /// # Errors
    /// Returns the exception of a signal handler, such as `KeyboardInterrupt`, or of `progress`;
    /// the command has ended then.
    #[pyfunction]
    #[pyo3(signature = (args, progress=None, /))]
    fn run(
        py: Python<'_>,
        args: Vec<String>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Ended> {
        let (own, ended) = (Arc::new(Caller::default()), Arc::new(AtomicBool::new(false)));
        let command = thread::spawn({
            let (own, ended, waiting) = (own.clone(), ended.clone(), thread::current());
            move || {
                let done = call(&DOORBELL, &args, &own);
                ended.store(true, Ordering::Release);
                waiting.unpark();
                done
            }
        });
        let (mut signal, mut told) = (Ok(()), (0, 0));
        let mut tell = || {
            let now = own.progress();
            match &progress {
                Some(progress) if now != told => {
                    told = now;
                    progress.call1(now).map(drop)
                }
                _ => Ok(()),
            }
        };
        // A thread that panicked has not said that it ended.
        while !ended.load(Ordering::Acquire) && !command.is_finished() {
            py.detach(|| thread::park_timeout(LOOK));
            if signal.is_ok() {
                signal = py.check_signals().and_then(|()| tell());
                own.stop.store(signal.is_err(), Ordering::Relaxed);
            }
        }
        let done = py.detach(|| command.join());
        signal.and_then(|()| tell())?;
        match done {
            Ok(Ok((code, out))) => Ok((code, Some(out), String::new(), String::new())),
            Ok(Err(Failure { code, place, what })) => Ok((code, None, place, what)),
            Err(_) => Err(PyRuntimeError::new_err("doorbell has a fault; stderr tells where")),
        }
    }

    /// Runs the command that `args` name, with the name of the program first, and ends the process.
    /// `program` starts such a process again.
    #[pyfunction]
    fn main(program: Vec<OsString>, args: Vec<OsString>) {
        // A server confines itself, and Python's end needs more than that allows.
        std::process::exit(main_of(&DOORBELL, Devices::default(), &program, args).into());
    }
}
