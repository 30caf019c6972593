//! Commands to a served device, one per line, through a named pipe: `echo failover > PATH`.
//!
//! The pipe is the caller's (`mkfifo PATH`). It is opened for reading and writing, so that it does
//! not end when a writer leaves, and is polled a hundred times a second.

use doorbell_console::{Error, input, plain};
use doorbell_hal::{Span, Time};
use doorbell_vfio_user::readable;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::{path::Path, time::Duration};

const EVERY: Span = Span::from_ms(10);
const LONGEST: usize = 256;

/// The pipe, with the part of a line that was read.
#[derive(Debug)]
pub(super) struct Control {
    pipe: File,
    lines: Lines,
    looked: Time,
}

/// Bytes cut into lines.
#[derive(Debug, Default)]
struct Lines {
    /// Bytes that follow the last line.
    rest: Vec<u8>,
    /// They belong to a line that is too long.
    overlong: bool,
}

impl Lines {
    /// Returns the next whole line of at most [`LONGEST`] bytes. Control characters are replaced,
    /// since it is shown on a terminal.
    fn next(&mut self) -> Option<String> {
        while let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if !std::mem::take(&mut self.overlong) && end <= LONGEST {
                let shown = |c: char| if c.is_control() { ' ' } else { c };
                let text: String = String::from_utf8_lossy(&line).chars().map(shown).collect();
                return Some(text.trim().to_owned());
            }
        }
        self.overlong |= self.rest.len() > LONGEST;
        if self.overlong {
            self.rest.clear();
        }
        None
    }
}

impl Control {
    pub(super) fn open(path: &Path) -> Result<Control, Error> {
        let place = path.display();
        let wrong = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => {
                let why = plain(&e);
                input!("--control {place}: {why}; `mkfifo {place}` makes the named pipe")
            }
            _ => input!("--control {place}: {}", plain(&e)),
        };
        // A file of another kind would be at its end at once.
        if !path.metadata().map_err(wrong)?.file_type().is_fifo() {
            return Err(input!("--control {place}: it is not a named pipe"));
        }
        let pipe = OpenOptions::new().read(true).write(true).open(path).map_err(wrong)?;
        Ok(Control { pipe, lines: Lines::default(), looked: Time::ZERO })
    }

    /// Reads lines from anything that is open.
    #[cfg(any(test, fuzzing))]
    pub(super) fn of(pipe: File) -> Control {
        Control { pipe, lines: Lines::default(), looked: Time::ZERO }
    }

    /// Returns the descriptor to wait for.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Returns the next line, if it is time to look and there is one. Overlong lines are dropped.
    pub(super) fn line(&mut self, now: Time) -> Option<String> {
        if let Some(said) = self.lines.next() {
            return Some(said);
        }
        if now.since(self.looked) < EVERY {
            return None;
        }
        self.looked = now;
        let mut ready = Vec::new();
        let there = readable(&[self.pipe.as_fd()], Some(Duration::ZERO), &mut ready).is_ok()
            && ready.contains(&true);
        let mut more = [0; LONGEST];
        if there && let Ok(n) = self.pipe.read(&mut more) {
            self.lines.rest.extend_from_slice(&more[..n]);
        }
        self.lines.next()
    }
}

/// Reads lines that come in parts. Returns how many.
///
/// # Panics
/// Panics if they are not the lines of the bytes as a whole, or have a control character.
#[cfg(any(test, fuzzing))]
pub(crate) fn lines_in_parts(bytes: &[u8]) -> usize {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    for part in bytes.chunks(1 + usize::from(bytes.first().copied().unwrap_or(0))) {
        lines.rest.extend_from_slice(part);
        found.extend(std::iter::from_fn(|| lines.next()));
    }
    assert!(found.iter().all(|l| !l.contains(char::is_control)), "{found:?}");
    let whole: Vec<_> = bytes.split(|b| *b == b'\n').collect();
    let short = whole[..whole.len() - 1].iter().filter(|l| l.len() <= LONGEST);
    assert_eq!(found.len(), short.count());
    found.len()
}

#[cfg(test)]
mod tests;
