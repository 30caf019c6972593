//! Cutting a transfer into bursts, one by one.

use super::Rules;

/// One burst of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Burst {
    /// Address of its first byte; need not be aligned.
    pub addr: u64,
    /// Bytes, never zero.
    pub bytes: u32,
    /// Data beats.
    pub beats: u32,
}

/// The bursts of a range in address order. An empty range has none.
#[derive(Clone, Copy, Debug)]
pub struct Bursts {
    rules: Rules,
    addr: u64,
    left: u32,
}

impl Rules {
    /// The bursts of `len` bytes at `addr`. Reads and writes are cut alike.
    #[inline]
    pub fn bursts(&self, addr: u64, len: u32) -> Bursts {
        Bursts { rules: *self, addr, left: len }
    }
}

impl Iterator for Bursts {
    type Item = Burst;

    #[inline]
    fn next(&mut self) -> Option<Burst> {
        if self.left == 0 {
            return None;
        }
        let addr = self.addr;
        let boundary = self.rules.boundary;
        let bytes = self.left.min(boundary - (addr as u32 & (boundary - 1)));
        self.addr = addr.wrapping_add(bytes.into());
        self.left -= bytes;
        Some(Burst { addr, bytes, beats: self.rules.beats(addr, bytes) as u32 })
    }
}

#[cfg(test)]
mod tests;
