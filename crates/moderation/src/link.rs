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
        let longest =
            if limits.usec > u32::MAX / 1_000 { u32::MAX / 1_000 } else { limits.usec } as u64;
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
mod tests;
