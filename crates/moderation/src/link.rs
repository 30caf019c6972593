//! A table of profiles computed from the link.
//!
//! A full packet takes t = (MTU + 38) * 8 / speed on the wire, 12.304 us for 1500 bytes at 1
//! Gbit/s. With a quarter as margin for jitter, rounded up to microseconds, a timer that each
//! completion restarts gets 5/4 t, and one that starts at an event or an interrupt 5/4 t n for a
//! count of n. Shorter, and a saturated link looks silent, or the count is never reached; longer,
//! and the end of every burst waits for nothing. The counts are 4^i. At 1 Gbit/s and MTU 1500 this
//! is axienet's 16 us. Times are capped at the device's [`Limits`]; if not even a second packet can
//! come within the limit, no profile waits. A train's first packet may still wait until the count
//! is full.

use crate::controller::{Period, Setting};
use crate::profiles::{COUNT, Profiles};

/// Bytes on the wire around the payload: Ethernet header 14, FCS 4, preamble 8,
/// inter-packet gap 12.
const AROUND: u64 = 38;
/// The shortest payload (the frame is padded to it).
const SHORTEST: u64 = 46;

/// A link, with the properties that determine the time of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Speed in Mbit/s; 0 while the link is down.
    pub mbit_s: u32,
    /// MTU in bytes: the payload of the longest frame.
    pub mtu: u32,
}

/// The range of a device's timer and counter.
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
    /// Returns the time of a full packet on the wire in nanoseconds, rounded up, or `None` if the
    /// link is down.
    pub const fn packet_ns(&self) -> Option<u64> {
        let payload = if (self.mtu as u64) < SHORTEST { SHORTEST } else { self.mtu as u64 };
        match self.mbit_s {
            0 => None,
            speed => Some(((payload + AROUND) * 8 * 1_000).div_ceil(speed as u64)),
        }
    }

    /// Returns the table for this link and a timer of kind `period` within `limits`. If the link is
    /// down, or too slow for the timer, no profile waits.
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
