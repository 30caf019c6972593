//! The guest's shell on its serial console.
//!
//! What the guest says to the host stands in `<<<word arguments>>>` (`init.sh`); all else is
//! output of its programs, or of its kernel.

use crate::Error;
use crate::log::{CHUNK, Log, SHOWN};
use doorbell_host_io::child::ChildGuard;
use memchr::memmem;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Longest line that the guest's terminal takes, without its end (N_TTY_BUF_SIZE).
const LONGEST: usize = 4094;
/// The most output between two messages.
const MOST: usize = 16 << 20;
/// Pieces of output, each of at most [`CHUNK`] bytes, that wait to be looked at. When there are so
/// many, the reader waits, and with it the guest's serial line, as if the cable were slow.
const WAITING: usize = 32;
/// Words of a kernel that panics (Linux, kernel/panic.c).
pub(crate) const PANIC: &[u8] = b"Kernel panic - not syncing";
/// Longest wait for what a kernel says after it panicked.
const LAST: Duration = Duration::from_secs(10);
/// Longest wait between two looks at a signal.
const LOOK: Duration = Duration::from_millis(100);

/// A running guest's console.
pub(crate) struct Console {
    input: Box<dyn Write>,
    /// The words in front of a line for the shell.
    before: &'static str,
    output: Receiver<Vec<u8>>,
    pending: Vec<u8>,
    /// Bytes of `pending` in front of which no message begins.
    searched: usize,
    /// The last bytes that were said, for errors.
    said: Vec<u8>,
    patience: Duration,
}

/// A message of the guest, and the output before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) before: String,
    pub(crate) word: String,
    pub(crate) arguments: String,
}

/// Returns the first message in `text`, and the end of its line; or how far there is none.
pub(crate) fn message(text: &[u8], searched: usize) -> Result<(Message, usize), usize> {
    let find = |from: usize, what: &[u8]| memmem::find(&text[from..], what).map(|n| from + n);
    // Two bytes of the next may have come.
    let Some(start) = find(searched, b"<<<") else { return Err(text.len().saturating_sub(2)) };
    let Some(end) = find(start, b">>>") else { return Err(start) };
    let line_end = match &text[end + 3..] {
        // It would be part of the next output.
        [] | [b'\r'] => return Err(start),
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _ => 0,
    };
    let inside = String::from_utf8_lossy(&text[start + 3..end]).into_owned();
    let (word, arguments) = inside.split_once(' ').unwrap_or((&inside, ""));
    let before = String::from_utf8_lossy(&text[..start]).replace('\r', "");
    let found = Message { before, word: word.to_owned(), arguments: arguments.trim().to_owned() };
    Ok((found, end + 3 + line_end))
}

/// Returns the next piece of a program's output each time, and keeps the first 16 MiB in `log`.
pub(crate) fn kept(
    mut output: impl Read + Send + 'static,
    log: File,
) -> impl FnMut() -> Option<Vec<u8>> + Send + 'static {
    let (mut log, mut chunk) = (Log::new(log, "the console"), [0; CHUNK]);
    move || {
        let n = output.read(&mut chunk).ok().filter(|n| *n > 0)?;
        log.keep(&chunk[..n]);
        Some(chunk[..n].to_vec())
    }
}

impl Console {
    /// Reads a console by pieces until there is none. A line for its shell has `before` in front.
    /// `patience` is how long it may be silent.
    pub(crate) fn new(
        (input, before): (Box<dyn Write>, &'static str),
        mut next: impl FnMut() -> Option<Vec<u8>> + Send + 'static,
        patience: Duration,
    ) -> Console {
        let (send, receive) = sync_channel(WAITING);
        std::thread::spawn(move || {
            while let Some(piece) = next() {
                if send.send(piece).is_err() {
                    break;
                }
            }
        });
        Console {
            input,
            before,
            output: receive,
            pending: Vec::new(),
            searched: 0,
            said: Vec::new(),
            patience,
        }
    }

    /// Sends a line.
    pub(crate) fn send(&mut self, line: &str) -> Result<(), Error> {
        if line.len() > LONGEST {
            let n = line.len();
            return Err(Error::Input(format!("a line for the guest has {n} bytes: {line}")));
        }
        self.write(&format!("{}{line}\n", self.before))
    }

    /// Writes to the console's input.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Error> {
        let sent = self.input.write_all(text.as_bytes()).and_then(|()| self.input.flush());
        sent.map_err(|_| self.ended("the guest has ended"))
    }

    /// Waits for the next message. `stop` ends the wait.
    pub(crate) fn message(
        &mut self,
        qemu: &mut ChildGuard,
        stop: &dyn Fn() -> bool,
    ) -> Result<Message, Error> {
        let mut until = Instant::now() + self.patience;
        loop {
            if stop() {
                return Err(Error::Interrupted);
            }
            match message(&self.pending, self.searched) {
                Ok((found, end)) => {
                    self.pending.drain(..end);
                    self.searched = 0;
                    return Ok(found);
                }
                Err(searched) => self.searched = searched,
            }
            match self.output.recv_timeout(LOOK) {
                Ok(more) => {
                    self.remember(&more);
                    self.pending.extend(&more);
                    until = Instant::now() + self.patience;
                    if self.panicked(more.len()) {
                        return Err(self.ended("the guest's kernel panicked"));
                    }
                    if self.pending.len() > MOST {
                        let what = format!("the guest printed {} MiB without end", MOST >> 20);
                        return Err(self.ended(&what));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let how = match qemu.ended() {
                        Ok(Some(status)) => format!("the guest has ended ({status})"),
                        _ => "the guest has closed its console".to_owned(),
                    };
                    return Err(self.ended(&how));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => {
                    let seconds = self.patience.as_secs();
                    return Err(self.ended(&format!(
                        "the guest did not answer for {seconds} s, and was stopped \
                         (--timeout allows more)"
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Keeps the last bytes for errors.
    fn remember(&mut self, more: &[u8]) {
        self.said.extend_from_slice(more);
        let past = self.said.len().saturating_sub(SHOWN);
        self.said.drain(..past);
    }

    /// Returns true if the kernel said in the last `new` bytes that it panicked, and all that it
    /// said has come.
    fn panicked(&mut self, new: usize) -> bool {
        let from = self.pending.len().saturating_sub(new + PANIC.len());
        if memmem::find(&self.pending[from..], PANIC).is_none() {
            return false;
        }
        let until = Instant::now() + LAST;
        while let Ok(more) = self.output.recv_timeout(Duration::from_secs(1)) {
            self.remember(&more);
            if Instant::now() > until {
                break;
            }
        }
        true
    }

    /// Builds the error of a guest that is not there any more.
    pub(crate) fn ended(&self, what: &str) -> Error {
        let console = String::from_utf8_lossy(&self.said).replace('\r', "");
        Error::Guest { what: what.to_owned(), console: console.trim().to_owned() }
    }
}

#[cfg(test)]
mod tests;
