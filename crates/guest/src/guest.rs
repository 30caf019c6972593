//! A guest that runs: QEMU, and the shell on its console. In virtual time the shell asks for each
//! line, and the guest's time stands until it has it (the plug-in's module `device::talk`).

use crate::console::{self, Console, Message};
use crate::emulator::{self, Parts};
use crate::log::Kept;
use crate::{Error, Machine};
use doorbell_host_io::child::ChildGuard;
use memchr::memmem;
use rustix::process::Signal;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

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
    /// The file with the counts, in virtual time.
    counts: Option<PathBuf>,
    patience: Duration,
    stop: &'a dyn Fn() -> bool,
}

/// The word in front of a line of the shell in virtual time.
const RUN: &str = "run ";

/// Waits for the plug-in's connection. `None` if QEMU has ended before. `stop` ends the wait.
fn accepted(
    listening: &UnixListener,
    qemu: &mut ChildGuard,
    patience: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Option<UnixStream>, Error> {
    let failed = |e| Error::io("the plug-in's socket")(e);
    listening.set_nonblocking(true).map_err(failed)?;
    let until = Instant::now() + patience;
    loop {
        match listening.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(false).map_err(failed)?;
                return Ok(Some(socket));
            }
            Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(failed(e)),
            Err(_) if stop() => return Err(Error::Interrupted),
            Err(_) if qemu.ended().map_err(Error::io("QEMU"))?.is_some() => return Ok(None),
            Err(_) if Instant::now() > until => {
                let seconds = patience.as_secs();
                let what = format!(
                    "the plug-in did not connect for {seconds} s, and QEMU was stopped (--timeout \
                     allows more)"
                );
                return Err(Error::Guest { what, console: String::new() });
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Reads what the guest has printed since the last look, each time that it asks for a line, and
/// once more at its end. A guest whose last words are still in its serial port gets an empty line,
/// with which it asks again.
fn printed(file: &Path, asks: UnixStream) -> io::Result<impl FnMut() -> Option<Vec<u8>> + use<>> {
    let (mut file, mut asks) = (File::open(file)?, Some(BufReader::new(asks)));
    Ok(move || {
        let mut all = Vec::new();
        loop {
            let reader = asks.as_mut()?;
            let ended = !matches!(reader.read_line(&mut String::new()), Ok(1..));
            file.read_to_end(&mut all).ok()?;
            if ended {
                asks = None;
            } else if !is_whole(&all) {
                reader.get_mut().write_all(format!("{RUN}\n").as_bytes()).ok()?;
                continue;
            }
            return Some(all);
        }
    })
}

/// Adds QEMU's own words, which say more than a silent console.
fn with_words(e: Error, log: &Kept) -> Error {
    match e {
        Error::Guest { what, console } => {
            let console = format!("{console}\n{}", log.last_words());
            Error::Guest { what, console: console.trim().to_owned() }
        }
        other => other,
    }
}

/// Returns true if the words with which a guest asks for a line have come.
fn is_whole(text: &[u8]) -> bool {
    let last = ["<<<done ", "<<<up "].into_iter();
    let last = last.filter_map(|word| memmem::rfind(text, word.as_bytes())).max();
    last.is_some_and(|at| text[at..].contains(&b'\n'))
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
        let [log, said_in] = ["qemu.log", "console.log"].map(|name| parts.directory.join(name));
        let (errors, said) = (Kept::create(&log)?, Kept::create(&said_in)?);
        let talk = parts.in_process.and_then(|p| Some((p.words, p.talk?)));
        let listening = talk.map(|(_, socket)| UnixListener::bind(socket)).transpose();
        let listening = listening.map_err(Error::io("the plug-in's socket"))?;
        let mut command = emulator::command(machine, parts)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut qemu = ChildGuard::spawn("QEMU", &mut command).map_err(Error::io("QEMU"))?;
        let (Some(input), Some(output), Some(words)) =
            (qemu.take_stdin(), qemu.take_stdout(), qemu.take_stderr())
        else {
            unreachable!("all three are pipes");
        };
        let log = Kept::follow(words, errors, log, "QEMU");
        let connected = |listening| accepted(&listening, &mut qemu, patience, stop);
        let socket = listening.map(connected).transpose().map_err(|e| with_words(e, &log))?;
        let console = match socket.flatten() {
            None => Console::new((Box::new(input), ""), console::kept(output, said), patience),
            Some(socket) => {
                let asks = socket.try_clone().and_then(|asks| printed(&said_in, asks));
                let asks = asks.map_err(Error::io(said_in.display()))?;
                Console::new((Box::new(socket), RUN), asks, patience)
            }
        };
        let counts = talk.map(|(words, _)| words.join("counts"));
        Ok(Guest { qemu, console, log, counts, patience, stop })
    }

    /// Returns the counts of the machine in virtual time, when the guest has asked for a line: a
    /// count a line, as name and number.
    ///
    /// # Panics
    /// Panics if the guest is not in virtual time.
    pub fn counts(&self) -> Result<String, Error> {
        let file = self.counts.as_ref().expect("a guest in virtual time");
        std::fs::read_to_string(file).map_err(Error::io(file.display()))
    }

    /// Has the machine in virtual time do something before the guest's next line: `cable out`,
    /// `cable in`, or `frame HEXADECIMAL` for a frame of the peer.
    pub fn tell(&mut self, command: &str) -> Result<(), Error> {
        self.console.write(&format!("{command}\n"))
    }

    /// Waits for the shell.
    pub fn up(&mut self) -> Result<(), Error> {
        self.message().map(drop)
    }

    /// Waits for the next message.
    pub(crate) fn message(&mut self) -> Result<Message, Error> {
        let found = self.console.message(&mut self.qemu, self.stop);
        found.map_err(|e| with_words(e, &self.log))
    }

    /// Runs a line of the shell, and returns what it printed. A line that fails is an error.
    pub fn shell(&mut self, line: &str) -> Result<String, Error> {
        self.console.send(line)?;
        let mut done = self.message()?;
        // Words of the line, which are answered in virtual time.
        while self.counts.is_some() && done.word != "done" {
            let next = self.message()?;
            done = Message { before: done.before + &next.before, ..next };
        }
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

#[cfg(test)]
mod tests;
