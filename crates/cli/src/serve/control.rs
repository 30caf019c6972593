//! Commands to a served device, a line each, through a named pipe: `echo failover > PATH`.
//!
//! The pipe is the caller's (`mkfifo PATH`). It is opened both ways, so that it has no end when a
//! writer goes. It is looked at a hundred times a second, and read only when something is there:
//! nobody waits for it.

use crate::Error;
use crate::output::plain;
use doorbell_vfio_user::readable;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(10);
const LONGEST: usize = 256;

/// The pipe, and what was read of a line.
#[derive(Debug)]
pub(super) struct Control {
    pipe: File,
    line: Vec<u8>,
    looked: Instant,
}

impl Control {
    /// What `--control` says.
    pub(super) fn open(path: &Path) -> Result<Control, Error> {
        let wrong = |why: String| {
            let path = path.display();
            Error::input(format!(
                "--control {path}: {why}; allowed is a named pipe, which `mkfifo {path}` makes"
            ))
        };
        // A file of another kind would be at its end at once.
        let kind = path.metadata().map_err(|e| wrong(plain(&e)))?.file_type();
        if !kind.is_fifo() {
            return Err(wrong("it is no named pipe".to_owned()));
        }
        let pipe =
            OpenOptions::new().read(true).write(true).open(path).map_err(|e| wrong(plain(&e)))?;
        Ok(Control { pipe, line: Vec::new(), looked: Instant::now() })
    }

    /// What to wait for.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// The next line, if it is time to look and there is one. What is longer than a line may be is
    /// dropped.
    pub(super) fn line(&mut self) -> Option<String> {
        let whole = |line: &mut Vec<u8>| {
            let end = line.iter().position(|b| *b == b'\n')?;
            let rest = line.split_off(end + 1);
            let said = String::from_utf8_lossy(&std::mem::replace(line, rest)).trim().to_owned();
            Some(said)
        };
        if let Some(said) = whole(&mut self.line) {
            return Some(said);
        }
        if self.looked.elapsed() < EVERY {
            return None;
        }
        self.looked = Instant::now();
        let mut ready = Vec::new();
        let there = readable(&[self.pipe.as_fd()], Some(Duration::ZERO), &mut ready).is_ok()
            && ready.contains(&true);
        let mut more = [0; LONGEST];
        if there && let Ok(n) = self.pipe.read(&mut more) {
            self.line.extend_from_slice(&more[..n]);
        }
        let said = whole(&mut self.line);
        if said.is_none() && self.line.len() > LONGEST {
            self.line.clear();
        }
        said
    }
}

#[cfg(test)]
mod tests;
