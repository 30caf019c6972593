//! Words of the guest, which are answered while its CPU waits.
//!
//! The guest writes a line of text to I/O ports: its first character to [`PORT`], the next to the
//! port behind it, and so on. A newline ends it. Words are `begin`, `end` with or without a number,
//! `frames COUNT SIZE BURST GAP` with the gap in microseconds. Others are only noted.
//!
//! For each word a file is written, `0`, `1` and so on: the line itself, then a count a line, as
//! name and number. Beside it is a file with the counts of instructions in the protocol of
//! [`crate::count`], if they are counted.

use crate::count;
use doorbell_guest_machine::{Board, Frames};
use doorbell_hal::Span;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// The first port. No device of the machine has these.
pub(super) const PORT: u64 = 0xe00;
/// Ports, and the longest word with its newline.
pub(super) const LONGEST: usize = 64;

/// The word under way, and those before it.
pub(super) struct Words {
    directory: PathBuf,
    line: [u8; LONGEST],
    answered: usize,
}

impl Words {
    pub(super) fn create(directory: &Path) -> io::Result<Words> {
        std::fs::create_dir_all(directory)?;
        Ok(Words { directory: directory.to_owned(), line: [0; LONGEST], answered: 0 })
    }

    /// Takes a character. Returns the line that it ends.
    pub(super) fn take(&mut self, place: usize, character: u8) -> Option<String> {
        *self.line.get_mut(place)? = character;
        (character == b'\n').then(|| String::from_utf8_lossy(&self.line[..place]).into_owned())
    }

    /// Answers a line, and writes its file.
    pub(super) fn answer(&mut self, line: &str, board: &mut dyn Board) -> io::Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let file = self.directory.join(self.answered.to_string());
        self.answered += 1;
        std::fs::write(&file, text(line, board))?;
        if let (Some(count), ["begin" | "end", ..]) = (count::active(), &words[..]) {
            std::fs::write(file.with_extension("counts"), count.message())?;
        }
        match &words[..] {
            ["begin"] => board.mark(),
            ["frames", numbers @ ..] => {
                if let Some(frames) = frames(numbers) {
                    board.send(frames);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn frames(numbers: &[&str]) -> Option<Frames> {
    let [count, size, burst, gap] = numbers else { return None };
    let gap = Span::from_us(gap.parse().ok()?);
    let (count, burst) = (count.parse().ok()?, burst.parse().ok()?);
    Some(Frames { count, size: size.parse().ok()?, burst, gap })
}

/// Returns what the file of a word holds.
fn text(line: &str, board: &dyn Board) -> String {
    let counts = board.counts();
    let mut text = format!("{line}\ntime_ps {}\n", board.now().ps());
    let mut put = |group: &str, name: &str, n: u64| {
        // Writing to a string does not fail.
        _ = writeln!(text, "{group}{name} {n}");
    };
    counts.ledger.counters().for_each(|(c, n)| put("ledger.", c.name, n));
    counts.device.iter().for_each(|(name, n)| put("device.", name, *n));
    put("", "dropped", counts.dropped);
    for (group, seen) in [("sent.", counts.sent), ("offered.", counts.offered)] {
        put(group, "frames", seen.frames);
        if let Some((first, last)) = seen.span {
            put(group, "first_ps", first.ps());
            put(group, "last_ps", last.ps());
        }
    }
    text
}
