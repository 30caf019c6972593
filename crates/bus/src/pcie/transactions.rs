//! The packets of one transfer, in order, for people to read.

use super::{LinkDirection, Pieces, Rules};
use core::fmt;

/// The TLPs of a memory transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Memory read request.
    MRd,
    /// Memory write request.
    MWr,
    /// Completion with data.
    CplD,
}

impl Command {
    /// Its mnemonic.
    pub const fn name(self) -> &'static str {
        match self {
            Command::MRd => "MRd",
            Command::MWr => "MWr",
            Command::CplD => "CplD",
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A DMA operation of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Reads host memory.
    Read,
    /// Writes host memory.
    Write,
}

/// One TLP of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Address of the first byte it asks for or carries.
    pub addr: u64,
    /// The TLP.
    pub command: Command,
    /// Bytes it asks for or carries.
    pub bytes: u32,
    /// Bytes it takes on the wire.
    pub wire_bytes: u32,
    /// Bytes of padding behind it, up to the end of its symbol time.
    pub pad: u32,
    /// The direction in which it travels.
    pub toward: LinkDirection,
}

/// See [`transactions`].
#[derive(Clone, Debug)]
pub struct Transactions {
    rules: Rules,
    operation: Operation,
    requests: Pieces,
    /// The completions of the request before, still to be listed.
    completions: Pieces,
}

/// Every TLP of a transfer by the device, each read request followed by its completions. On a real
/// link several requests are under way before the first is answered; sizes and counts are the same.
pub fn transactions(rules: &Rules, operation: Operation, addr: u64, len: u32) -> Transactions {
    let requests = match operation {
        Operation::Read => rules.split_read(addr, len),
        Operation::Write => rules.split_write(addr, len),
    };
    Transactions { rules: *rules, operation, requests, completions: Pieces::EMPTY }
}

impl Iterator for Transactions {
    type Item = Transaction;

    fn next(&mut self) -> Option<Transaction> {
        let (piece, command) = match self.completions.next() {
            Some(piece) => (piece, Command::CplD),
            None => match self.operation {
                Operation::Read => (self.requests.next()?, Command::MRd),
                Operation::Write => (self.requests.next()?, Command::MWr),
            },
        };
        let (wire_bytes, toward) = match command {
            Command::MRd => {
                self.completions = self.rules.split_completions(piece.addr, piece.len);
                (self.rules.mrd_bytes(piece.addr), LinkDirection::Upstream)
            }
            Command::MWr => (self.rules.mwr_bytes(piece.addr, piece.len), LinkDirection::Upstream),
            Command::CplD => {
                (self.rules.cpld_bytes(piece.addr, piece.len), LinkDirection::Downstream)
            }
        };
        let pad = self.rules.padded(self.rules.pad(wire_bytes.into()), toward) as u32;
        Some(Transaction { addr: piece.addr, command, bytes: piece.len, wire_bytes, pad, toward })
    }
}

#[cfg(test)]
mod tests;
