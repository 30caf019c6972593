//! A host that talks to the guest in virtual time: it gives the guest's shell a line, looks at what
//! came of it, and gives it the next one.
//!
//! The guest asks for a line by a read, and its CPU is in that read until the line is there. So no
//! time passes in the guest, however long the host thinks, and two boots with the same lines are
//! the same.
//!
//! The host listens on a socket. When the guest asks, the machine's counts are written to the file
//! `counts` beside those of the words, and the host gets a line of its own, [`ASKS`]. It answers
//! with commands, a line each: any of `cable out`, `cable in`, `frame HEXADECIMAL` for a frame of
//! the peer, and then `run LINE`. A host that goes while it is asked has the guest power off. One
//! that had gone before (the line cannot be written: EPIPE), or that answers with anything else,
//! has QEMU end with an error.

use super::words::{LONGEST, START, text};
use doorbell_guest_machine::Board;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The line by which the guest asks.
const ASKS: &[u8] = b"?\n";
/// Characters that the guest gets with one look. Of a line's last ones at least one is a newline.
const PART: usize = LONGEST - 1;
/// The line of a guest whose host goes while it is asked.
const END: &str = "poweroff -f";

/// The conversation.
pub(super) struct Talk {
    host: BufReader<UnixStream>,
    /// The file for the counts.
    counts: PathBuf,
    /// The rest of the line that the guest reads.
    left: Option<Vec<u8>>,
    part: [u8; PART],
}

impl Talk {
    /// Begins one with a host that listens, whose files are in this directory.
    pub(super) fn to(socket: &Path, directory: &Path) -> io::Result<Talk> {
        let host = BufReader::new(UnixStream::connect(socket)?);
        let counts = directory.join("counts");
        Ok(Talk { host, counts, left: None, part: [b'\n'; PART] })
    }

    /// Returns the character of a place, from 1 on. The first begins a part of a line.
    pub(super) fn hear(&mut self, place: usize, board: &mut dyn Board) -> io::Result<u8> {
        if place == 1 {
            let mut left = match self.left.take() {
                Some(left) => left,
                None => self.ask(board)?,
            };
            let now: Vec<u8> = left.drain(..left.len().min(PART)).collect();
            self.part.fill(b'\n');
            self.part[..now.len()].copy_from_slice(&now);
            self.left = (now.len() == PART).then_some(left);
        }
        Ok(self.part.get(place.wrapping_sub(1)).copied().unwrap_or(u8::MAX))
    }

    /// Asks the host. Returns its line.
    fn ask(&mut self, board: &mut dyn Board) -> io::Result<Vec<u8>> {
        std::fs::write(&self.counts, text("counts", board))?;
        self.host.get_ref().write_all(ASKS)?;
        loop {
            let mut line = String::new();
            self.host.read_line(&mut line)?;
            // A line that its host did not end is not its last wish.
            let Some(line) = line.strip_suffix('\n') else { return Ok(END.into()) };
            match line.split_once(' ') {
                Some(("run", line)) => return Ok(line.into()),
                Some(("cable", state @ ("in" | "out"))) => board.cable(state == "in"),
                Some(("frame", bytes)) if let Some(frame) = frame(bytes) => {
                    board.give(START, frame);
                }
                _ => return Err(io::Error::other(format!("the host says `{line}`"))),
            }
        }
    }
}

/// Reads a frame.
fn frame(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |c: u8| (c as char).to_digit(16);
    let byte = |pair: &[u8; 2]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    pairs.iter().map(byte).collect::<Option<_>>().filter(|_| rest.is_empty())
}
