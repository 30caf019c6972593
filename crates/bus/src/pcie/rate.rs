//! Bytes into picoseconds, with nothing lost between calls.
//!
//! The time of a byte is a power-of-two fraction of a picosecond on every
//! generation and width (Gen3: 1015.625 / lanes), so fixed point holds it
//! exactly. Another speed makes it any fraction; it is then rounded once to 2^-44 ps,
//! which reaches 1 ps after 3.5e13 bytes: more than half an hour of a Gen3 x16 link.
//! On the path: one multiplication, one shift.

use doorbell_hal::Span;

/// Fraction bits of a [`ByteTime`].
const FRACTION: u32 = 44;

/// Fraction bits that every generation and width needs: Gen5 x32 is 8125 / 1024 ps.
const EXACT: u32 = 10;

/// The time of one byte on a link direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteTime(u64);

impl ByteTime {
    /// After line coding: 8b/10b up to generation 2, 128b/130b up to 5. Arguments as checked by
    /// [`super::Rules::new`].
    pub(super) const fn of_link(generation: u32, lanes: u32) -> ByteTime {
        // 2^-10 ps for a byte on one lane: 8 bits / (GT/s * coding).
        let lane: u64 = match generation {
            1 => 4000 << EXACT,
            2 => 2000 << EXACT,
            3 => 1_040_000,
            4 => 520_000,
            _ => 260_000,
        };
        ByteTime((lane / lanes as u64) << (FRACTION - EXACT))
    }

    /// The same link at `speed`, of which `whole` is the generation's. Rounded to the nearest
    /// 2^-44 ps.
    pub(super) const fn at_speed(self, speed: u32, whole: u32) -> ByteTime {
        let (speed, whole) = (speed as u128, whole as u128);
        ByteTime(((self.0 as u128 * whole + speed / 2) / speed) as u64)
    }

    /// The same link where SKP ordered sets take their part: 4 symbols each 1180 to 1538, or a
    /// block each 370 to 375 (base specification 3.0, 4.2.7).
    pub(super) const fn with_skips(self, generation: u32) -> ByteTime {
        if generation < 3 { self.at_speed(1359, 1363) } else { self.at_speed(745, 747) }
    }

    /// Returns the time of `bytes`, rounded up.
    pub(super) const fn span(self, bytes: u64) -> Span {
        let time = self.0 as u128 * bytes as u128;
        Span::from_ps((time >> FRACTION) as u64 + 1)
    }

    /// The whole bytes that fit a span: the capacity that the audit holds bookings against.
    pub const fn capacity(self, span: Span) -> u64 {
        (((span.ps() as u128) << FRACTION) / self.0 as u128) as u64
    }
}

/// A [`ByteTime`] with the fraction that earlier calls left over: one for each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteClock {
    byte: ByteTime,
    /// In 2^-44 ps, below one picosecond.
    rest: u64,
}

impl ByteClock {
    /// A clock that nothing has been taken from.
    pub const fn new(byte: ByteTime) -> ByteClock {
        ByteClock { byte, rest: 0 }
    }

    /// The time of the next `bytes`. All calls together are the time of all bytes together,
    /// rounded down, however the bytes are dealt out over calls.
    #[inline]
    pub const fn take(&mut self, bytes: u64) -> Span {
        let time = self.byte.0 as u128 * bytes as u128 + self.rest as u128;
        self.rest = time as u64 & ((1 << FRACTION) - 1);
        Span::from_ps((time >> FRACTION) as u64)
    }
}

#[cfg(test)]
mod tests;
