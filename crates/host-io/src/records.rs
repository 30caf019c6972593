//! A file of records that ends behind a whole one when it cannot be written on.

use rustix::fs::ftruncate;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsFd;

/// Bytes that are gathered before they are written.
const CHUNK: usize = 1 << 16;

/// A file to which whole records are written. Bytes are gathered in memory until
/// [`end_record`](Records::end_record).
#[derive(Debug)]
pub struct Records<F> {
    file: F,
    gathered: Vec<u8>,
    /// Bytes of whole records in the file.
    kept: u64,
}

impl<F: Write + Seek + AsFd> Records<F> {
    /// Writes to an empty file.
    pub fn new(file: F) -> Records<F> {
        Records { file, gathered: Vec::with_capacity(2 * CHUNK), kept: 0 }
    }

    /// Ends a record.
    ///
    /// # Errors
    /// As [`Records::save`].
    pub fn end_record(&mut self) -> io::Result<()> {
        if self.gathered.len() < CHUNK { Ok(()) } else { self.save() }
    }

    /// Writes the gathered records.
    ///
    /// # Errors
    /// If the file does not take them all, for instance on a full disk. They are lost then, and the
    /// file ends behind those of the last successful call.
    pub fn save(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.gathered);
        match written {
            Ok(()) => self.kept += self.gathered.len() as u64,
            Err(_) => {
                ftruncate(&self.file, self.kept)?;
                self.file.seek(SeekFrom::Start(self.kept))?;
            }
        }
        self.gathered.clear();
        written
    }

    /// Returns the bytes of all records, gathered or written.
    pub fn bytes(&self) -> u64 {
        self.kept + self.gathered.len() as u64
    }

    /// Returns the file without the records that were not saved.
    pub fn into_file(self) -> F {
        self.file
    }
}

impl<F: Write + Seek + AsFd> Write for Records<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.save()
    }
}

#[cfg(test)]
mod tests;
