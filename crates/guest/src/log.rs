//! Logs with a bound: what another program says is kept up to it, and read on beyond, so that one
//! that prints for ever fills no disk and no memory, and waits for nobody.

use crate::Error;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The most output that a log keeps.
pub(crate) const KEPT: usize = 16 << 20;
/// Characters of a program's words that an error shows.
pub(crate) const SHOWN: usize = 6000;
/// Bytes that are read at a time.
pub(crate) const CHUNK: usize = 1 << 16;
/// Longest wait for the last words of a program that has ended.
const LAST: Duration = Duration::from_secs(1);

/// Returns the end of what was said, for errors.
pub(crate) fn end_of(said: &[u8]) -> String {
    let past = said.len().saturating_sub(SHOWN);
    String::from_utf8_lossy(&said[past..]).trim().to_owned()
}

/// A log with a bound.
pub(crate) struct Log<W> {
    pub(crate) to: W,
    /// The name of whoever prints, such as "the console".
    pub(crate) who: &'static str,
    /// Bytes that there is room for; none once some were left out.
    pub(crate) room: Option<usize>,
}

impl<W: Write> Log<W> {
    pub(crate) fn new(to: W, who: &'static str) -> Log<W> {
        Log { to, who, room: Some(KEPT) }
    }

    /// Writes output as far as there is room, and says once that there was more. A full disk is no
    /// reason to stop a guest.
    pub(crate) fn keep(&mut self, chunk: &[u8]) {
        let Some(room) = self.room else { return };
        let n = chunk.len().min(room);
        self.room = (n == chunk.len()).then(|| room - n);
        let _ = self.to.write_all(&chunk[..n]);
        if self.room.is_none() {
            let _ = writeln!(self.to, "\ndoorbell: {} printed more, which is not kept", self.who);
        }
    }
}

/// A file with what a program says, which a thread of its own writes.
pub(crate) struct Kept {
    path: PathBuf,
    /// Closed when the program has said its last.
    ended: Receiver<()>,
}

impl Kept {
    /// Makes a file, which [`Kept::follow`] fills.
    pub(crate) fn create(path: &Path) -> Result<File, Error> {
        File::create(path).map_err(Error::io(path.display()))
    }

    /// Keeps the first 16 MiB of what comes through `pipe` in `file`, which is at `path`.
    pub(crate) fn follow<R: Read + Send + 'static>(
        mut pipe: R,
        file: File,
        path: PathBuf,
        who: &'static str,
    ) -> Kept {
        let (end, ended) = channel();
        let mut log = Log::new(file, who);
        std::thread::spawn(move || {
            let mut chunk = [0; CHUNK];
            while let Ok(n @ 1..) = pipe.read(&mut chunk) {
                log.keep(&chunk[..n]);
            }
            drop(end);
        });
        Kept { path, ended }
    }

    /// Returns what is kept, all of it if the program has ended.
    pub(crate) fn text(&self) -> io::Result<String> {
        self.read().map(|said| String::from_utf8_lossy(&said).into_owned())
    }

    /// Returns the end of what is kept, for errors.
    pub(crate) fn last_words(&self) -> String {
        end_of(&self.read().unwrap_or_default())
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        // Nothing is ever sent.
        let _ = self.ended.recv_timeout(LAST);
        std::fs::read(&self.path)
    }
}

#[cfg(test)]
mod tests;
