//! The native part of the Python package `doorbell`: a function that runs a command, and one that
//! is the program. The package's Python files have everything that people see.

/// Runs commands. `doorbell/_native.pyi` has the types.
#[pyo3::pymodule]
mod _native {
    use doorbell_cli::{DOORBELL, Devices, Failure, call, main_of};
    use pyo3::exceptions::PyRuntimeError;
    use pyo3::prelude::*;
    use std::ffi::OsString;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    /// The time between two looks for Ctrl-C.
    const LOOK: Duration = Duration::from_millis(20);

    /// Exit code, output, place and text of the error.
    type Ended = (u8, Option<String>, String, String);

    /// Runs a command without the global interpreter lock. Returns its exit code and its output;
    /// if it has none, the place and the text of the error.
    ///
    /// # Errors
    /// Returns the exception of a signal handler, such as `KeyboardInterrupt`; the command has
    /// ended then.
    #[pyfunction]
    fn run(py: Python<'_>, args: Vec<String>) -> PyResult<Ended> {
        let (stop, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let command = thread::spawn({
            let (stop, ended, caller) = (stop.clone(), ended.clone(), thread::current());
            move || {
                let done = call(&DOORBELL, &args, &stop);
                ended.store(true, Ordering::Release);
                caller.unpark();
                done
            }
        });
        let mut signal = Ok(());
        // A thread that panicked has not said that it ended.
        while !ended.load(Ordering::Acquire) && !command.is_finished() {
            py.detach(|| thread::park_timeout(LOOK));
            if signal.is_ok() {
                signal = py.check_signals();
                stop.store(signal.is_err(), Ordering::Relaxed);
            }
        }
        let done = py.detach(|| command.join());
        signal?;
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
