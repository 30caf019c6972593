//! A table whose times follow the link.
//!
//! The message that gave axienet its table ends with a wish: "adjusting the profile
//! times based on the link speed/mtu would be good improvement for generic DIM". The
//! fixed 16 us are right for 1500 bytes at 1 Gbit/s only: at MTU 9000 a packet takes
//! 72 us, the timer runs out between any two, and every packet interrupts.
//!
//! Derivation. A full packet occupies the wire for
//!
//! ```text
//! t = (MTU + 14 header + 4 FCS + 8 preamble + 12 gap) bytes * 8 / speed
//! ```
//!
//! which is 12.304 us for 1500 bytes at 1 Gbit/s. On a saturated link completions
//! come every `t`. Let a quarter be the margin for their jitter, and round up to the
//! microseconds that devices and `ethtool` speak of. Then, for a count of `n`:
//!
//! | the timer starts at | time | because |
//! |---|---|---|
//! | each completion | 5/4 t | shorter, and a saturated link looks silent after every packet; longer, and the last packet of every burst waits for nothing |
//! | an event, or an interrupt | 5/4 t n | shorter, and the count is never reached; longer, and a burst that ends early waits for nothing |
//!
//! The counts are 4^i, as the message proposes: each step makes a quarter of the
//! interrupts. A count of 1 needs no timer. At 1 Gbit/s and 1500 bytes this gives
//! axienet's 16 us (12.304 * 5/4 = 15.38), which is how the margin was chosen.
//!
//! A device's timer and counter end somewhere ([`Limits`]). A time beyond the limit is
//! cut to it. But where not even the second packet can come in that time, waiting buys
//! nothing: then all five profiles are immediate. (10 Mbit/s behind axienet's 255 us: a
//! packet takes 1230 us. At 813 packets a second nobody needs moderation.)
//!
//! What the table does not bound: with a restarted timer the first packet of a long
//! train waits until the count is full, 5/4 t n at most. Someone who cannot afford 255
//! packets of 72 us lowers [`Limits::packets`].

use crate::controller::{Period, Setting};
use crate::profiles::{COUNT, Profiles};

/// Bytes on the wire around the payload: Ethernet header 14, FCS 4, preamble 8,
/// inter-packet gap 12.
const AROUND: u64 = 38;
/// The shortest payload (the frame is padded to it).
const SHORTEST: u64 = 46;

/// What a link is: enough to know how long a packet takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Speed in Mbit/s; 0 while the link is down.
    pub mbit_s: u32,
    /// MTU in bytes: the payload of the longest frame.
    pub mtu: u32,
}

/// How far a device's timer and counter go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The longest time, in microseconds.
    pub usec: u32,
    /// The largest number of packets; 0 counts as 1.
    pub packets: u16,
}

impl Limits {
    /// axienet: 8 bits each. The timer's unit is 125 clocks of the scatter-gather
    /// clock, 1 us at 125 MHz.
    pub const AXIENET: Limits = Limits { usec: 255, packets: 255 };
}

impl Link {
    /// How long a full packet occupies the wire, in nanoseconds, rounded up; `None`
    /// if the link is down.
    pub const fn packet_ns(&self) -> Option<u64> {
        let payload = if (self.mtu as u64) < SHORTEST { SHORTEST } else { self.mtu as u64 };
        match self.mbit_s {
            0 => None,
            speed => Some(((payload + AROUND) * 8 * 1_000).div_ceil(speed as u64)),
        }
    }

    /// The table for this link, for a timer of kind `period` that goes as far as
    /// `limits`. If the link is down, or too slow for the timer, no profile waits.
    pub const fn profiles(&self, period: Period, limits: Limits) -> Profiles {
        let mut table = [Setting { period, ..Setting::IMMEDIATE }; COUNT];
        // The field is nanoseconds in 32 bits: 4.29 s, which no device's timer reaches.
        let longest = if limits.usec > u32::MAX / 1_000 { u32::MAX / 1_000 } else { limits.usec } as u64;
        let packet = match self.packet_ns() {
            Some(ns) if ns < longest * 1_000 => ns,
            _ => return table,
        };
        let mut i = 0;
        while i < COUNT {
            let asked = 1u16 << (2 * i);
            let count = if asked < limits.packets { asked } else { limits.packets };
            if count > 1 {
                let packets = match period {
                    Period::Completion => 1,
                    Period::Event | Period::Interval => count as u64,
                };
                let usec = (packet * packets * 5).div_ceil(4 * 1_000);
                let usec = if usec < longest { usec } else { longest };
                table[i] = Setting { delay_ns: usec as u32 * 1_000, packets: count, period };
            }
            i += 1;
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::{AXIENET_USEC, axienet};

    const WIDE: Limits = Limits { usec: 65_535, packets: u16::MAX };

    const fn link(mbit_s: u32, mtu: u32) -> Link {
        Link { mbit_s, mtu }
    }

    #[test]
    fn a_gigabit_of_1500_byte_packets_gives_axienets_table() {
        assert_eq!(link(1_000, 1_500).packet_ns(), Some(12_304));
        assert_eq!(link(1_000, 1_500).profiles(Period::Completion, Limits::AXIENET), axienet(AXIENET_USEC));
    }

    #[test]
    fn a_jumbo_packet_fits_its_own_timer_and_not_axienets() {
        let packet = link(1_000, 9_000).packet_ns().unwrap();
        assert_eq!(packet, 72_304);
        assert!(axienet(AXIENET_USEC).iter().all(|s| u64::from(s.delay_ns) < packet));
        let table = link(1_000, 9_000).profiles(Period::Completion, Limits::AXIENET);
        assert_eq!(table.map(|s| s.usec()), [0, 91, 91, 91, 91]);
    }

    #[test]
    fn times_follow_the_speed() {
        let usec = |mbit| link(mbit, 1_500).profiles(Period::Completion, WIDE)[1].usec();
        assert_eq!([10, 100, 1_000, 10_000, 25_000, 100_000].map(usec), [1_538, 154, 16, 2, 1, 1]);
    }

    #[test]
    fn a_timer_from_the_event_lasts_as_long_as_the_count() {
        let table = link(1_000, 1_500).profiles(Period::Event, WIDE);
        assert_eq!(table.map(|s| (s.usec(), s.packets)), [(0, 1), (62, 4), (247, 16), (985, 64), (3_938, 256)]);
    }

    #[test]
    fn a_time_beyond_the_timer_is_cut_to_it() {
        let table = link(1_000, 1_500).profiles(Period::Interval, Limits { usec: 200, packets: 64 });
        assert_eq!(table.map(|s| (s.usec(), s.packets)), [(0, 1), (62, 4), (200, 16), (200, 64), (200, 64)]);
    }

    #[test]
    fn a_link_too_slow_for_the_timer_or_down_does_not_wait() {
        for slow in [link(10, 1_500), link(0, 1_500)] {
            for period in [Period::Event, Period::Completion, Period::Interval] {
                let table = slow.profiles(period, Limits::AXIENET);
                assert!(table.iter().all(|s| (s.delay_ns, s.packets, s.period) == (0, 1, period)));
            }
        }
    }

    #[test]
    fn extremes_neither_overflow_nor_leave_the_limits() {
        for mbit in [0, 1, 7, u32::MAX] {
            for mtu in [0, 46, 65_535, u32::MAX] {
                for limits in [WIDE, Limits { usec: 0, packets: 0 }, Limits { usec: u32::MAX, packets: u16::MAX }] {
                    for period in [Period::Event, Period::Completion] {
                        for s in link(mbit, mtu).profiles(period, limits) {
                            assert!(s.usec() <= limits.usec && s.packets <= limits.packets.max(1) && s.packets > 0);
                        }
                    }
                }
            }
        }
    }
}
