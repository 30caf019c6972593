//! A stream that keeps the offset of its current record.

use super::Fault;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// A capture file being read, one record (header, packet, block) at a time.
pub(super) struct Input<R> {
    from: BufReader<R>,
    offset: u64,
    start: u64,
    /// The current record, from its first byte.
    bytes: Vec<u8>,
}

impl<R: Read> Input<R> {
    pub(super) fn new(from: R) -> Input<R> {
        let from = BufReader::with_capacity(1 << 18, from);
        Input { from, offset: 0, start: 0, bytes: Vec::new() }
    }

    /// Returns the offset in bytes of the current record.
    pub(super) fn record(&self) -> u64 {
        self.start
    }

    /// Moves to the next record. Returns true if there is none.
    pub(super) fn at_end(&mut self) -> Result<bool, Fault> {
        self.bytes.clear();
        self.start = self.offset;
        loop {
            match self.from.fill_buf() {
                Ok(b) => return Ok(b.is_empty()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                    return Err(Fault::Truncated { need: 1, have: 0 });
                }
                Err(e) => return Err(Fault::Io(e)),
            }
        }
    }

    /// Returns the record's first `n` bytes, and reads those that have not been read.
    pub(super) fn upto(&mut self, n: usize) -> Result<&[u8], Fault> {
        let more = n.saturating_sub(self.bytes.len());
        if let Some(b) = self.from.buffer().get(..more) {
            self.bytes.extend_from_slice(b);
            self.from.consume(more);
            self.offset += more as u64;
            return Ok(&self.bytes[..n]);
        }
        // `take` grows the vector as bytes come, so a wrong length in a short file allocates
        // nothing.
        let before = self.bytes.len();
        ended(self.from.by_ref().take(more as u64).read_to_end(&mut self.bytes))?;
        self.offset += (self.bytes.len() - before) as u64;
        if self.bytes.len() < n {
            return Err(Fault::Truncated { need: n as u64, have: self.bytes.len() as u64 });
        }
        Ok(&self.bytes[..n])
    }

    /// Returns the first record's first four bytes without consuming them.
    pub(super) fn peek4(&mut self) -> Result<&[u8; 4], Fault> {
        if self.at_end()? {
            return Err(Fault::Empty);
        }
        let b = self.upto(4)?;
        Ok(b.first_chunk().expect("upto returns as many as asked"))
    }

    /// Skips the rest of a record of `n` bytes.
    pub(super) fn skip_to(&mut self, n: u64) -> Result<(), Fault> {
        let more = n - self.bytes.len() as u64;
        let got = ended(io::copy(&mut self.from.by_ref().take(more), &mut io::sink()))?;
        self.offset += got;
        if got < more {
            return Err(Fault::Truncated { need: n, have: self.bytes.len() as u64 + got });
        }
        Ok(())
    }
}

/// Takes the end of a stream within a compressed part for the end of the file.
fn ended<N: Default>(read: io::Result<N>) -> Result<N, Fault> {
    match read {
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(N::default()),
        read => read.map_err(Fault::Io),
    }
}
