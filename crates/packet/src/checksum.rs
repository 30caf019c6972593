//! The Internet checksum (RFC 1071).
//!
//! A [`Sum`] is a one's-complement sum that can be added to another, at an even or odd offset, in
//! any order. Words are added in the CPU's byte order (RFC 1071, 2.B); only the finished 16 bits
//! are put in network order. The long loop adds words of 64 bits, each with the carry of the one
//! before, in two lanes that a CPU adds side by side.
//!
//! A sum of bytes that are not all zero is never 0x0000, so a finished checksum is never 0xffff.
//! UDP reserves 0x0000 for "no checksum" and sends 0xffff instead (RFC 768). Linux's
//! `skb_checksum_help` does so for every protocol; its GSO, hardware and this crate for UDP alone.

use crate::CsumPartial;
use doorbell_hal::fail_if;

/// A one's-complement sum in progress.
///
/// Two values with the same checksum need not be equal in representation.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Sum(u64);

/// Bytes per iteration of the long loop.
const STRIDE: usize = 256;
/// Length below which the long loop does not pay: mostly headers.
const SHORT: usize = 128;

impl Sum {
    /// The sum of no bytes.
    pub const ZERO: Sum = Sum(0);

    /// Returns the sum of `bytes`, the first of which is at an even offset.
    #[inline(always)]
    pub fn of(bytes: &[u8]) -> Sum {
        if bytes.len() < SHORT { Sum::ZERO.plus_short(bytes) } else { Sum::of_long(bytes) }
    }

    #[inline(never)]
    fn of_long(bytes: &[u8]) -> Sum {
        let (chunks, rest) = bytes.as_chunks::<STRIDE>();
        let mut lanes = Lanes::default();
        for chunk in chunks {
            lanes = lanes.plus(chunk);
        }
        lanes.total().plus_short(rest)
    }

    /// Copies `from` to `to` and sums it on the way.
    ///
    /// # Panics
    /// Panics if the lengths differ.
    #[inline]
    pub fn copy(to: &mut [u8], from: &[u8]) -> Sum {
        assert_eq!(to.len(), from.len());
        if from.len() < SHORT {
            to.copy_from_slice(from);
            return Sum::ZERO.plus_short(from);
        }
        let (to, to_rest) = to.as_chunks_mut::<STRIDE>();
        let (from, from_rest) = from.as_chunks::<STRIDE>();
        let mut lanes = Lanes::default();
        for (to, from) in to.iter_mut().zip(from) {
            // Through a local, so that the bytes are loaded once.
            let chunk = *from;
            lanes = lanes.plus(&chunk);
            *to = chunk;
        }
        to_rest.copy_from_slice(from_rest);
        lanes.total().plus_short(from_rest)
    }

    /// Returns the sum of TCP's or UDP's pseudo-header over IPv4 (RFC 9293, 3.1), for a transport
    /// header and payload of `len` bytes.
    #[inline]
    pub fn pseudo_v4(source: [u8; 4], destination: [u8; 4], protocol: u8, len: u32) -> Sum {
        Sum(u32::from_ne_bytes(source) as u64)
            .plus(Sum(u32::from_ne_bytes(destination) as u64))
            .plus_be32(len)
            .plus_be16(protocol as u16)
    }

    /// Returns the sum of the pseudo-header over IPv6 (RFC 8200, 8.1).
    #[inline]
    pub fn pseudo_v6(source: [u8; 16], destination: [u8; 16], protocol: u8, len: u32) -> Sum {
        Sum::of(&source).plus(Sum::of(&destination)).plus_be32(len).plus_be16(protocol as u16)
    }

    /// Adds another sum, in 64 bits with an end-around carry; 2^64 - 1 is a multiple of 0xffff.
    #[inline(always)]
    pub fn plus(self, other: Sum) -> Sum {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Sum(sum + carry as u64)
    }

    /// Adds the sum of bytes that begin `offset` bytes further on.
    #[inline(always)]
    pub fn plus_at(self, offset: usize, other: Sum) -> Sum {
        if offset.is_multiple_of(2) {
            self.plus(other)
        } else {
            self.plus(Sum(other.fold().swap_bytes() as u64))
        }
    }

    /// Adds a 16-bit field.
    #[inline(always)]
    pub fn plus_be16(self, field: u16) -> Sum {
        self.plus(Sum(field.to_be() as u64))
    }

    /// Adds a 32-bit field.
    #[inline(always)]
    pub fn plus_be32(self, field: u32) -> Sum {
        self.plus(Sum(field.to_be() as u64))
    }

    /// Returns the 16-bit sum, not complemented, as a sender leaves it in the checksum field for a
    /// device to complete.
    #[inline(always)]
    pub fn value(self) -> u16 {
        u16::from_be(self.fold())
    }

    /// Returns the checksum: the complement of the sum.
    #[inline(always)]
    pub fn checksum(self) -> u16 {
        !self.value()
    }

    /// Returns the checksum of a UDP datagram, which is never 0.
    #[inline(always)]
    pub fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            c => c,
        }
    }

    /// Returns whether bytes with this sum, their checksum included, are intact.
    #[inline(always)]
    pub fn is_intact(self) -> bool {
        self.fold() == 0xffff
    }

    /// Returns 16 bits in the CPU's order; zero only when every byte was zero.
    #[inline(always)]
    fn fold(self) -> u16 {
        let s = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let s = (s >> 16) + (s & 0xffff);
        let s = (s >> 16) + (s & 0xffff);
        ((s >> 16) + (s & 0xffff)) as u16
    }

    /// Adds a few bytes; the offset so far is even.
    #[inline(always)]
    fn plus_short(self, bytes: &[u8]) -> Sum {
        let mut sum = self;
        let (runs, rest) = bytes.as_chunks::<32>();
        for run in runs {
            let (added, carry) = add_words(sum.0, run);
            sum = Sum(added).plus(Sum(carry.into()));
        }
        let (words, rest) = rest.as_chunks::<8>();
        for w in words {
            sum = sum.plus(Sum(u64::from_ne_bytes(*w)));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            sum = sum.plus(Sum(u64::from_ne_bytes(last)));
        }
        sum
    }
}

/// The state of the long loop, which stays in registers.
#[derive(Clone, Copy, Default)]
struct Lanes {
    sums: (u64, u64),
    carries: u64,
}

impl Lanes {
    #[inline(always)]
    fn plus(self, chunk: &[u8; STRIDE]) -> Lanes {
        let (parts, _) = chunk.as_chunks::<{ STRIDE / 2 }>();
        let (first, over) = add_words(self.sums.0, &parts[0]);
        let (second, more) = add_words(self.sums.1, &parts[1]);
        let carries = self.carries + u64::from(over) + u64::from(more);
        Lanes { sums: (first, second), carries }
    }

    #[inline(always)]
    fn total(self) -> Sum {
        Sum(self.carries).plus(Sum(self.sums.0)).plus(Sum(self.sums.1))
    }
}

/// Adds words with the carry of each to the next. Returns the last carry, too.
#[inline(always)]
fn add_words<const N: usize>(mut sum: u64, bytes: &[u8; N]) -> (u64, bool) {
    let mut carry = false;
    for word in bytes.as_chunks::<8>().0 {
        (sum, carry) = sum.carrying_add(u64::from_ne_bytes(*word), carry);
    }
    (sum, carry)
}

/// A [`CsumPartial`] that does not fit its frame; nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the checksum field is outside the frame")]
pub struct OutOfFrame;

/// `csum_offset` of UDP. TCP's is 16, so the offset identifies the protocol.
const UDP_OFFSET: u16 = 6;

impl CsumPartial {
    /// Returns the offset of the checksum in the frame.
    #[inline(always)]
    pub const fn field(self) -> usize {
        self.start as usize + self.offset as usize
    }

    /// Returns the checksum for the field, from the sum of all bytes from `start` to the end.
    #[inline(always)]
    pub fn finish(self, sum: Sum) -> u16 {
        if self.offset == UDP_OFFSET { sum.udp_checksum() } else { sum.checksum() }
    }

    /// Completes the checksum of a linear frame in place. Returns the number of bytes summed.
    #[inline]
    pub fn complete(self, frame: &mut [u8]) -> Result<u32, OutOfFrame> {
        let field = self.field();
        fail_if(frame.len() < field + 2, OutOfFrame)?;
        let summed = &frame[self.start as usize..];
        let n = summed.len() as u32;
        let check = self.finish(Sum::of(summed));
        frame[field..field + 2].copy_from_slice(&check.to_be_bytes());
        Ok(n)
    }
}

/// A running sum over pieces of any length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Running {
    sum: Sum,
    len: usize,
}

impl Running {
    /// Sums the next piece.
    #[inline]
    pub fn add(&mut self, piece: &[u8]) {
        self.add_sum(Sum::of(piece), piece.len());
    }

    /// Adds the sum of the next `len` bytes.
    #[inline(always)]
    pub fn add_sum(&mut self, sum: Sum, len: usize) {
        self.sum = self.sum.plus_at(self.len, sum);
        self.len += len;
    }

    /// Returns the sum so far.
    pub const fn sum(&self) -> Sum {
        self.sum
    }

    /// Returns the number of bytes so far.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there were no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests;
