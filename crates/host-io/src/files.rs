//! Files of text that people name: read whole, with bounds.
//!
//! Scenarios, profiles, budgets, measurements and results are read here alone. None of them is
//! larger than [`MOST`], and none is a pipe or a device, which might have no end or never begin.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::iter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The most bytes of a file that is read whole.
pub const MOST: u64 = 16 << 20;

/// The most bytes of a line of a file that is read line by line.
pub const LONGEST: u64 = 1 << 20;

/// Opens a regular file for reading.
///
/// # Errors
/// If it cannot be opened, or is not a regular file. A named pipe without a writer does not wait.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.file_type() {
        kind if kind.is_file() => Ok(file),
        kind if kind.is_dir() => Err(ErrorKind::IsADirectory.into()),
        _ => Err(refused("it is no regular file, which alone is read".to_owned())),
    }
}

/// Reads a regular file of UTF-8 text, of at most [`MOST`] bytes.
///
/// # Errors
/// If it cannot be read, is not a regular file, is too long, or is not UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    text_from(open(path)?)
}

/// Reads a stream of UTF-8 text, of at most [`MOST`] bytes.
///
/// # Errors
/// If it cannot be read, is too long, or is not UTF-8.
pub fn text_from(from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(refused(format!(
            "it is longer than {} MiB, the most that is read",
            MOST >> 20
        )));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        io::Error::new(ErrorKind::InvalidData, format!("it is not UTF-8 text, from byte {at} on"))
    })
}

/// Iterates over the lines of a stream, each UTF-8 text of at most [`LONGEST`] bytes. An error ends
/// it.
pub fn lines(from: impl Read) -> impl Iterator<Item = io::Result<String>> {
    let mut from = Some(BufReader::with_capacity(1 << 16, from));
    iter::from_fn(move || {
        let mut line = String::new();
        let mut within = from.as_mut()?.take(LONGEST + 1);
        let read = within.read_line(&mut line).and_then(|n| match n as u64 > LONGEST {
            true => Err(refused(format!("a line is longer than {} KiB", LONGEST >> 10))),
            false => Ok(n),
        });
        if !matches!(read, Ok(1..)) {
            from = None;
        }
        match read {
            Ok(0) => None,
            read => Some(read.map(|_| line)),
        }
    })
}

fn refused(why: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests;
