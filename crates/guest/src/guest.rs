//! A guest that runs: QEMU, and the shell on its console.

use crate::console::{Console, Message};
use crate::emulator::{self, Parts};
use crate::log::Kept;
use crate::{Error, Machine};
use doorbell_host_io::child::ChildGuard;
use rustix::process::Signal;
use std::process::Stdio;
use std::time::Duration;

/// Steps of 50 ms in which something appears.
const APPEARS: u32 = 60 * 20;

/// Returns the line that waits until `test` holds.
pub(crate) fn awaited(test: &str) -> String {
    format!("for i in $(seq {APPEARS}); do {test} && break; usleep 50000; done; {test}")
}

/// A running guest; it is killed when it is dropped.
pub struct Guest<'a> {
    qemu: ChildGuard,
    pub(crate) console: Console,
    log: Kept,
    patience: Duration,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> Guest<'a> {
    /// Starts QEMU, and does not wait for the shell. `patience` is how long the guest may be
    /// silent. `stop` is asked now and then, and ends each wait.
    pub fn start(
        machine: &Machine,
        parts: &Parts<'_>,
        patience: Duration,
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Guest<'a>, Error> {
        let [log, said] = ["qemu.log", "console.log"].map(|name| parts.directory.join(name));
        let (errors, said) = (Kept::create(&log)?, Kept::create(&said)?);
        let mut command = emulator::command(machine, parts)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut qemu = ChildGuard::spawn("QEMU", &mut command).map_err(Error::io("QEMU"))?;
        let (Some(input), Some(output), Some(words)) =
            (qemu.take_stdin(), qemu.take_stdout(), qemu.take_stderr())
        else {
            unreachable!("all three are pipes");
        };
        let log = Kept::follow(words, errors, log, "QEMU");
        let console = Console::new(input, output, said, patience);
        Ok(Guest { qemu, console, log, patience, stop })
    }

    /// Waits for the shell.
    pub fn up(&mut self) -> Result<(), Error> {
        self.message().map(drop)
    }

    /// Waits for the next message.
    pub(crate) fn message(&mut self) -> Result<Message, Error> {
        let found = self.console.message(&mut self.qemu, self.stop);
        // QEMU's own words say more than a silent console.
        found.map_err(|e| match e {
            Error::Guest { what, console } => {
                let console = format!("{console}\n{}", self.log.last_words());
                Error::Guest { what, console: console.trim().to_owned() }
            }
            other => other,
        })
    }

    /// Runs a line of the shell, and returns what it printed. A line that fails is an error.
    pub fn shell(&mut self, line: &str) -> Result<String, Error> {
        self.console.send(line)?;
        let done = self.message()?;
        let status = done.arguments.parse().unwrap_or(-1);
        if done.word == "done" && status == 0 {
            return Ok(done.before);
        }
        let said = done.before.trim().to_owned();
        Err(Error::Command { command: line.to_owned(), status, said })
    }

    /// Waits until `test` holds in the guest.
    pub(crate) fn wait_for(&mut self, test: &str, what: &str) -> Result<(), Error> {
        self.shell(&awaited(test)).map(drop).map_err(|e| match e {
            Error::Command { .. } => {
                let said = self.shell("dmesg | tail -n 20").unwrap_or_default();
                Error::Guest { what: what.to_owned(), console: said.trim().to_owned() }
            }
            other => other,
        })
    }

    /// Returns true if QEMU has ended.
    pub fn ended(&mut self) -> bool {
        !matches!(self.qemu.ended(), Ok(None))
    }

    /// Has the guest end by itself, and waits for it.
    pub fn power_off(&mut self) -> Result<(), Error> {
        self.console.send("poweroff -f")?;
        self.qemu.wait(self.patience).map(drop).map_err(Error::io("QEMU"))
    }

    /// Kills QEMU, and waits for its end.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.qemu.signal(Signal::KILL).map_err(Error::io("QEMU"))?;
        self.qemu.wait(self.patience).map(drop).map_err(Error::io("QEMU"))
    }
}
