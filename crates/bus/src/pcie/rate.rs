//! Bytes into picoseconds, with nothing lost between calls.
//!
//! The time of a byte is a power-of-two fraction of a picosecond on every
//! generation and width (Gen3: 1015.625 / lanes), so fixed point holds it
//! exactly. A usable share or a flat deduction makes it any fraction; it is then
//! rounded once to 2^-44 ps, which reaches 1 ps after 3.5e13 bytes: more than
//! half an hour of a Gen3 x16 link. On the path: one multiplication, one shift.

use doorbell_seam::Span;

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

    /// The same link with only `left` of `whole` usable; rounded to the nearest 2^-44 ps.
    pub(super) const fn slowed(self, whole: u64, left: u64) -> ByteTime {
        ByteTime(((self.0 as u128 * whole as u128 + left as u128 / 2) / left as u128) as u64)
    }

    /// Picoseconds, for printing.
    pub fn as_ps_f64(self) -> f64 {
        self.0 as f64 / (1u64 << FRACTION) as f64
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
mod tests {
    use super::super::{DllpRule, Rules, Settings};
    use super::*;
    use proptest::prelude::*;

    fn rules(change: impl FnOnce(&mut Settings), generation: u32, lanes: u32) -> Rules {
        let mut settings = Settings::link(generation, lanes);
        change(&mut settings);
        Rules::new(settings).unwrap()
    }

    fn time(generation: u32, lanes: u32, bytes: u64) -> u64 {
        ByteClock::new(ByteTime::of_link(generation, lanes)).take(bytes).ps()
    }

    #[test]
    fn a_byte_takes_125_ps_on_gen2_x16_and_63_477_on_gen3_x16() {
        assert_eq!(time(2, 16, 1), 125);
        assert_eq!(ByteTime::of_link(3, 16).as_ps_f64(), 63.476_562_5);
        assert_eq!(time(3, 16, 1_000_000), 63_476_562);
        // 8e9 and 15.754e9 bytes a second.
        assert_eq!(ByteTime::of_link(2, 16).capacity(Span::from_ms(1000)), 8_000_000_000);
        assert_eq!(ByteTime::of_link(3, 16).capacity(Span::from_ms(1000)), 15_753_846_153);
    }

    /// facts: PCI Express rates, MB/s a lane.
    #[test]
    fn lane_rates_are_those_of_the_table() {
        for (generation, mb) in [(1, 250.0), (2, 500.0), (3, 984.6), (4, 1969.0), (5, 3938.0)] {
            for lanes in [1, 2, 4, 8, 16, 32] {
                let rate = 1e6 / ByteTime::of_link(generation, lanes).as_ps_f64();
                let table = mb * f64::from(lanes);
                assert!((rate / table - 1.0).abs() < 3e-4, "gen{generation} x{lanes}: {rate} {table}");
            }
        }
    }

    #[test]
    fn a_usable_share_slows_the_link() {
        let half = rules(|s| s.usable_ppm = 500_000, 2, 16);
        assert_eq!(ByteClock::new(half.byte_time()).take(3).ps(), 750);
        // The smallest share with the largest flat deduction still fits.
        let least = rules(
            |s| {
                (s.usable_ppm, s.dllp) = (10_000, DllpRule::Flat);
                (s.ack_limit, s.fc_limit) = (Some(32), Some(32));
            },
            1,
            1,
        );
        assert!((least.byte_time().as_ps_f64() / (400_000.0 / (0.5 - 4.0 / 1538.0)) - 1.0).abs() < 1e-12);
    }

    /// facts: pcie-model's share for TLPs, 55.51 of 64 Gb/s on Gen2 x16 with MPS 256.
    #[test]
    fn the_flat_rule_takes_13_per_cent_of_gen2_x16() {
        let flat = rules(|s| s.dllp = DllpRule::Flat, 2, 16).byte_time();
        assert!((8_000.0 / flat.as_ps_f64() - 55.50835).abs() < 1e-5);
    }

    proptest! {
        #[test]
        fn calls_add_up_to_the_picosecond(
            generation in 1u32..=5, lanes in 0u32..=5, ppm in 10_000u32..=1_000_000,
            calls in prop::collection::vec(0u64..70_000, 1..200),
        ) {
            let byte = rules(|s| s.usable_ppm = ppm, generation, 1 << lanes).byte_time();
            let mut clock = ByteClock::new(byte);
            let sum: u64 = calls.iter().map(|&n| clock.take(n).ps()).sum();
            let bytes: u64 = calls.iter().sum();
            prop_assert_eq!(sum, ByteClock::new(byte).take(bytes).ps());
            // Against the true rational: lane time in 2^-10 ps, times 10^6 / (lanes * ppm).
            let lane = [4_096_000u128, 2_048_000, 1_040_000, 520_000, 260_000][generation as usize - 1];
            let exact = u128::from(bytes) * lane * 1_000_000 / (u128::from(ppm) << (10 + lanes));
            prop_assert!(u128::from(sum).abs_diff(exact) <= 1);
        }
    }
}
