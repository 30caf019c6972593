//! The Internet checksum (RFC 1071), over bytes wherever they lie.
//!
//! A [`Sum`] is a one's-complement sum that is still open: it can be added to
//! another, at an even or an odd offset, in any order, and becomes a checksum
//! only when it is finished. That is what lets a sender sum the pseudo-header, a
//! driver the fragments, and a device the rest.
//!
//! Words are added as the CPU loads them: the one's-complement sum of swapped
//! words is the swapped sum (RFC 1071, 2.B), so only the finished 16 bits are put
//! in network order. The long loop adds eight 64-bit lanes of 64 bytes. It keeps
//! two sums a lane, of the words and of their upper halves: the lower half's sum
//! is the difference, so nothing is lost when the first one wraps, there is no
//! carry to chase, and a compiler makes vector code of it.
//!
//! One's complement has two zeros. A sum of bytes that are not all zero is never
//! 0x0000, so a finished checksum is 0x0000 and never 0xffff; UDP reserves 0x0000
//! for "no checksum" and sends 0xffff instead (RFC 768). Linux's
//! `skb_checksum_help` does that for every protocol, its GSO and the hardware
//! for UDP alone; here it is UDP alone.

use crate::CsumPartial;

/// A one's-complement sum in progress.
///
/// Two values that finish to the same checksum need not be `==`.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Sum(u64);

/// Bytes a turn of the long loop.
const STRIDE: usize = 64;
const LANES: usize = STRIDE / 8;
/// Below this the long loop does not earn its setting up: headers, mostly.
const SHORT: usize = 128;

impl Sum {
    /// The sum of no bytes.
    pub const ZERO: Sum = Sum(0);

    /// The sum of `bytes`, the first of which is at an even offset.
    #[inline]
    pub fn of(bytes: &[u8]) -> Sum {
        if bytes.len() < SHORT {
            return Sum::ZERO.plus_short(bytes);
        }
        let (chunks, rest) = bytes.as_chunks::<STRIDE>();
        let mut lanes = Lanes::default();
        for chunk in chunks {
            lanes.add(chunk);
        }
        lanes.total().plus_short(rest)
    }

    /// Copies `from` to `to`, which is as long, and sums it on the way.
    ///
    /// # Panics
    /// When the lengths differ.
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
            // By way of a local, so that the bytes are loaded once.
            let chunk = *from;
            lanes.add(&chunk);
            *to = chunk;
        }
        to_rest.copy_from_slice(from_rest);
        lanes.total().plus_short(from_rest)
    }

    /// TCP's or UDP's pseudo-header over IPv4 (RFC 9293, 3.1): `len` is the
    /// length of transport header and payload.
    #[inline]
    pub fn pseudo_v4(source: [u8; 4], destination: [u8; 4], protocol: u8, len: u32) -> Sum {
        Sum(u32::from_ne_bytes(source) as u64)
            .plus(Sum(u32::from_ne_bytes(destination) as u64))
            .plus_be32(len)
            .plus_be16(protocol as u16)
    }

    /// The pseudo-header over IPv6 (RFC 8200, 8.1).
    #[inline]
    pub fn pseudo_v6(source: [u8; 16], destination: [u8; 16], protocol: u8, len: u32) -> Sum {
        Sum::of(&source).plus(Sum::of(&destination)).plus_be32(len).plus_be16(protocol as u16)
    }

    /// Both together. Addition in 64 bits with the carry brought round; 2^64 - 1
    /// is a multiple of 0xffff, so it is the same sum.
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

    /// The sum in 16 bits as a number, not complemented: what a sender leaves in
    /// the checksum field for a device to complete.
    #[inline(always)]
    pub fn value(self) -> u16 {
        u16::from_be(self.fold())
    }

    /// The checksum as a number: the complement of the sum.
    #[inline(always)]
    pub fn checksum(self) -> u16 {
        !self.value()
    }

    /// The checksum of a UDP datagram: never 0.
    #[inline(always)]
    pub fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            c => c,
        }
    }

    /// Whether bytes with this sum, their checksum among them, are intact.
    #[inline(always)]
    pub fn is_intact(self) -> bool {
        self.fold() == 0xffff
    }

    /// 16 bits in the CPU's order; zero only when every byte was zero.
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
        let mut sum = u128::from(self.0);
        let (words, rest) = bytes.as_chunks::<8>();
        for w in words {
            sum += u128::from(u64::from_ne_bytes(*w));
        }
        let (words, rest) = rest.as_chunks::<2>();
        for w in words {
            sum += u128::from(u16::from_ne_bytes(*w));
        }
        if let [last] = rest {
            sum += u128::from(u16::from_ne_bytes([*last, 0]));
        }
        Sum(sum as u64).plus(Sum((sum >> 64) as u64))
    }
}

/// The state of the long loop. Exact for 2^32 words, that is 32 GiB.
#[derive(Default)]
struct Lanes {
    whole: [u64; LANES],
    upper: [u64; LANES],
}

impl Lanes {
    #[inline(always)]
    fn add(&mut self, chunk: &[u8; STRIDE]) {
        let (words, _) = chunk.as_chunks::<8>();
        for ((word, whole), upper) in words.iter().zip(&mut self.whole).zip(&mut self.upper) {
            let word = u64::from_ne_bytes(*word);
            *whole = whole.wrapping_add(word);
            *upper = upper.wrapping_add(word >> 32);
        }
    }

    #[inline(always)]
    fn total(self) -> Sum {
        let add = |lanes: [u64; LANES]| lanes.into_iter().fold(0, u64::wrapping_add);
        let (whole, upper) = (add(self.whole), add(self.upper));
        Sum(whole.wrapping_sub(upper << 32)).plus(Sum(upper))
    }
}

/// A [`CsumPartial`] that does not fit its frame: nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfFrame;

/// `csum_offset` of UDP. TCP's is 16, so the offset tells the protocol, as it has to
/// for hardware that is told nothing else.
const UDP_OFFSET: u16 = 6;

impl CsumPartial {
    /// Where the checksum is, from the first byte of the frame.
    #[inline(always)]
    pub const fn field(self) -> usize {
        self.start as usize + self.offset as usize
    }

    /// Checksum for the field, from the sum of all bytes from `start` to the end.
    #[inline(always)]
    pub fn finish(self, sum: Sum) -> u16 {
        if self.offset == UDP_OFFSET { sum.udp_checksum() } else { sum.checksum() }
    }

    /// Completes the checksum of a linear frame in place; returns how many bytes
    /// were summed.
    #[inline]
    pub fn complete(self, frame: &mut [u8]) -> Result<u32, OutOfFrame> {
        let field = self.field();
        if frame.len() < field + 2 {
            return Err(OutOfFrame);
        }
        let summed = &frame[self.start as usize..];
        let n = summed.len() as u32;
        let check = self.finish(Sum::of(summed));
        frame[field..field + 2].copy_from_slice(&check.to_be_bytes());
        Ok(n)
    }

    /// Completes the checksum of a frame that lies in pieces. Headers, up to and
    /// with the checksum field, are in the first.
    pub fn complete_pieces<'a>(
        self,
        head: &mut [u8],
        rest: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<u32, OutOfFrame> {
        let field = self.field();
        if head.len() < field + 2 {
            return Err(OutOfFrame);
        }
        let mut run = Running::default();
        run.add(&head[self.start as usize..]);
        for piece in rest {
            run.add(piece);
        }
        head[field..field + 2].copy_from_slice(&self.finish(run.sum()).to_be_bytes());
        Ok(run.len() as u32)
    }
}

/// A sum over pieces as they come, whatever their lengths.
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

    /// Takes in the next `len` bytes, already summed.
    #[inline(always)]
    pub fn add_sum(&mut self, sum: Sum, len: usize) {
        self.sum = self.sum.plus_at(self.len, sum);
        self.len += len;
    }

    /// The sum so far.
    pub const fn sum(&self) -> Sum {
        self.sum
    }

    /// Bytes so far.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there were none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests;
