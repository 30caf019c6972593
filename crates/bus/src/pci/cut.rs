//! Cutting a transfer into bus transactions, one by one.

use super::{Operation, Protocol, Rules};
use core::fmt;

/// The memory commands of both protocols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Memory Read.
    Mr,
    /// Memory Read Line.
    Mrl,
    /// Memory Read Multiple.
    Mrm,
    /// Memory Write.
    Mw,
    /// Memory Write and Invalidate: whole lines only.
    Mwi,
    /// PCI-X Memory Read DWORD.
    MrDword,
    /// PCI-X Memory Read Block: the request.
    MrBlock,
    /// PCI-X Memory Write Block.
    MwBlock,
    /// PCI-X Split Completion: the answer to a read request.
    SplitCompletion,
}

impl Command {
    /// Its code on C/BE#\[3:0\].
    pub const fn code(self) -> u8 {
        match self {
            Command::Mr | Command::MrDword => 0x6,
            Command::Mw => 0x7,
            Command::Mrm | Command::SplitCompletion => 0xC,
            Command::Mrl | Command::MrBlock => 0xE,
            Command::Mwi | Command::MwBlock => 0xF,
        }
    }

    /// Its mnemonic.
    pub const fn name(self) -> &'static str {
        match self {
            Command::Mr => "MR",
            Command::Mrl => "MRL",
            Command::Mrm => "MRM",
            Command::Mw => "MW",
            Command::Mwi => "MWI",
            Command::MrDword => "MRD",
            Command::MrBlock => "MRB",
            Command::MwBlock => "MWB",
            Command::SplitCompletion => "SC",
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One transaction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Address of its first byte.
    pub addr: u64,
    /// The command.
    pub command: Command,
    /// Bytes it asks for or carries, never zero.
    pub bytes: u32,
}

impl Transaction {
    /// Lines of `line` bytes, a power of two, that it touches but does not fill: each, when
    /// written, costs the memory controller a read-modify-write.
    pub const fn partial_lines(&self, line: u32) -> u32 {
        let mask = line as u64 - 1;
        let end = self.addr.wrapping_add(self.bytes as u64);
        let (head, tail) = (self.addr & mask != 0, end & mask != 0);
        // Inside one line, both ends may be missing from the same.
        if (self.addr & mask) + self.bytes as u64 <= line as u64 {
            (head || tail) as u32
        } else {
            head as u32 + tail as u32
        }
    }
}

/// The rule by which the next piece is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    /// Conventional read.
    Lines,
    /// Conventional write of whole lines, then of what is left.
    Invalidate,
    /// Conventional write.
    Write,
    /// PCI-X requests of up to so many bytes.
    Requests(u32),
    /// PCI-X write.
    Blocks,
    /// The answers to one PCI-X request.
    Completions,
}

/// The transactions of a range in address order. An empty range has none.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    rules: Rules,
    cut: Cut,
    addr: u64,
    left: u32,
}

/// See [`transactions`].
#[derive(Clone, Copy, Debug)]
pub struct Transactions {
    pieces: Pieces,
    /// The answers to the PCI-X request before, still to be listed.
    answers: Option<Pieces>,
}

/// Every transaction of a transfer by the device, each PCI-X request followed by its completions.
/// Sizes and counts are those of [`Rules::reads`] and [`Rules::writes`], which the bus books.
pub fn transactions(rules: &Rules, operation: Operation, addr: u64, len: u32) -> Transactions {
    let pieces = match operation {
        Operation::Read => rules.reads(addr, len),
        Operation::Write => rules.writes(addr, len),
    };
    Transactions { pieces, answers: None }
}

impl Rules {
    fn cut(&self, cut: Cut, addr: u64, left: u32) -> Pieces {
        Pieces { rules: *self, cut, addr, left }
    }

    /// The read commands of a transfer; on PCI-X, its requests.
    #[inline]
    pub fn reads(&self, addr: u64, len: u32) -> Pieces {
        let cut = match self.settings.protocol {
            Protocol::Conventional { .. } => Cut::Lines,
            Protocol::X { mmrbc, .. } => Cut::Requests(mmrbc),
        };
        self.cut(cut, addr, len)
    }

    /// The write commands of a transfer.
    #[inline]
    pub fn writes(&self, addr: u64, len: u32) -> Pieces {
        let line = self.settings.line;
        let cut = match self.settings.protocol {
            Protocol::X { .. } => Cut::Blocks,
            Protocol::Conventional { .. } => {
                let whole = addr & u64::from(line - 1) == 0 && len >= line;
                if self.settings.mwi && whole { Cut::Invalidate } else { Cut::Write }
            }
        };
        self.cut(cut, addr, len)
    }

    /// The Split Completions that answer one PCI-X request.
    #[inline]
    pub fn completions(&self, addr: u64, len: u32) -> Pieces {
        self.cut(Cut::Completions, addr, len)
    }
}

/// Bytes from `addr` to the next multiple of `window`, a power of two.
#[inline]
const fn to_end(addr: u64, window: u32) -> u32 {
    window - (addr as u32 & (window - 1))
}

impl Iterator for Pieces {
    type Item = Transaction;

    #[inline]
    fn next(&mut self) -> Option<Transaction> {
        if self.left == 0 {
            return None;
        }
        let t = self.rules.piece(self.cut, self.addr, self.left);
        self.addr = t.addr.wrapping_add(t.bytes.into());
        self.left -= t.bytes;
        Some(t)
    }
}

impl Iterator for Transactions {
    type Item = Transaction;

    fn next(&mut self) -> Option<Transaction> {
        if let Some(answer) = self.answers.as_mut().and_then(Pieces::next) {
            return Some(answer);
        }
        let t = self.pieces.next()?;
        self.answers = matches!(self.pieces.cut, Cut::Requests(_))
            .then(|| self.pieces.rules.completions(t.addr, t.bytes));
        Some(t)
    }
}

impl Rules {
    /// The first transaction of the `left` bytes at `addr`.
    #[inline]
    fn piece(&self, cut: Cut, addr: u64, left: u32) -> Transaction {
        let super::Settings { line, boundary, latency_timer, .. } = self.settings;
        let burst = to_end(addr, boundary);
        let (command, most) = match cut {
            Cut::Lines => {
                let offset = addr & u64::from(line - 1);
                let lines = (offset + u64::from(left) + u64::from(line - 1)) >> self.line_shift;
                match lines {
                    1 if left < line => (Command::Mr, left),
                    1 | 2 => (Command::Mrl, to_end(addr, line)),
                    _ => (Command::Mrm, burst),
                }
            }
            Cut::Invalidate if left >= line => (Command::Mwi, burst.min(left & !(line - 1))),
            Cut::Invalidate | Cut::Write => (Command::Mw, burst),
            Cut::Requests(_) if to_end(addr, 4) >= left => (Command::MrDword, left),
            Cut::Requests(mmrbc) => (Command::MrBlock, mmrbc),
            Cut::Blocks => (Command::MwBlock, burst),
            Cut::Completions => (Command::SplitCompletion, burst),
        };
        let mut bytes = left.min(most);
        if latency_timer.is_some() {
            bytes = bytes.min(self.timed(command, addr));
        }
        Transaction { addr, command, bytes }
    }

    /// The most bytes that the latency timer lets `command` move. MWI ends with a line, PCI-X with
    /// an allowable disconnect boundary; a request moves no data.
    #[cold]
    fn timed(&self, command: Command, addr: u64) -> u32 {
        let tenure =
            (self.phases << self.width_shift) - (addr as u32 & ((1 << self.width_shift) - 1));
        let whole = |unit: u32| tenure + to_end(addr.wrapping_add(u64::from(tenure - 1)), unit) - 1;
        match command {
            Command::Mr | Command::Mrl | Command::Mrm | Command::Mw => tenure,
            Command::Mwi => whole(self.settings.line),
            Command::MrDword | Command::MrBlock => u32::MAX,
            Command::MwBlock | Command::SplitCompletion => whole(128),
        }
    }
}

#[cfg(test)]
mod tests;
