//! Trains: waits while packets come in trains, close behind one another (packet trains: Jain and
//! Routhier, 1986). The reasoning and the choice of the constants are in `docs/moderation.md`.
//!
//! An account of time decides. Each packet credits three waits and elapsed time is debited; a wait
//! is the silence that ends a train, one full packet of the link and one unit of the timer. Waiting
//! begins at nine packets' credit and ends below two. The count begins at four packets. When the
//! interrupts were as few as the count allows for 3072 waits it grows fourfold, up to the device's
//! limit; when they were more by an eighth it shrinks fourfold, and must then hold four times as
//! long.

use crate::controller::{Controller, Direction, Period, Sample, Setting};
use crate::link::{Limits, Link};

/// Packets per interrupt when waiting begins.
const INITIAL_COUNT: u16 = 4;
/// Packets between evaluations of the count, besides eight counts.
const EVAL_PACKETS: u64 = 1024;
/// Waits for which a count must hold before it grows.
const GROW_AFTER: u64 = 3072;
/// Credit of a packet, in waits.
const PER_PACKET: u64 = 3;
/// Credit at which waiting begins, in packets.
const ON: u64 = 9;
/// Credit below which waiting ends, in packets.
const OFF: u64 = 2;
/// Largest credit, in packets.
const CREDIT_CAP: u64 = 13;

/// Waits while packets come in trains, for one direction of one queue.
///
/// Packets further apart than three waits are never waited for. Evenly spaced packets that are
/// closer than that but further apart than one wait, and the ends of short bursts, wait in vain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trains {
    /// Packets so far.
    packets: u64,
    /// Time at which the credit runs out without a packet.
    until_ns: u64,
    /// Credit below which there is no waiting.
    threshold_ns: u64,
    /// Packet count of the next evaluation.
    evaluate_at: u64,
    /// Packets and interrupts at the last evaluation.
    from: (u64, u64),
    /// Time at which the count may grow.
    grows_ns: u64,
    setting: Setting,
    direction: Direction,
    /// Largest count of the device.
    max_count: u16,
    per_packet_ns: u64,
    /// Largest credit.
    cap_ns: u64,
    /// The silence that ends a train.
    wait_ns: u32,
    /// Limit of the device's timer.
    longest_ns: u32,
}

impl Trains {
    /// Begins without waiting, for the traffic of `direction` on `link`, with a timer of kind
    /// `period` in units of `unit_ns` within `limits`.
    pub const fn new(
        direction: Direction,
        link: Link,
        period: Period,
        unit_ns: u32,
        limits: Limits,
    ) -> Trains {
        let most_us = u32::MAX / 1_000;
        let longest_ns = 1_000 * if limits.usec < most_us { limits.usec } else { most_us };
        let unit = if unit_ns == 0 { 1 } else { unit_ns as u64 };
        // In whole units, which the device keeps exactly.
        let (wait, most) = match link.packet_ns() {
            Some(packet) if packet + unit <= longest_ns as u64 => {
                ((packet + unit) / unit * unit, limits.packets)
            }
            _ => (0, 1),
        };
        let per_packet_ns = PER_PACKET * wait;
        Trains {
            packets: 0,
            until_ns: 0,
            // Never, where the timer does not reach one packet.
            threshold_ns: if most > 1 { ON * per_packet_ns } else { u64::MAX },
            evaluate_at: 0,
            from: (0, 0),
            grows_ns: 0,
            setting: Setting { period, ..Setting::IMMEDIATE },
            direction,
            max_count: most,
            per_packet_ns,
            cap_ns: CREDIT_CAP * per_packet_ns,
            wait_ns: wait as u32,
            longest_ns,
        }
    }

    /// Returns the credit at `time_ns`, in nanoseconds.
    pub const fn credit_ns(&self, time_ns: u64) -> u64 {
        self.until_ns.saturating_sub(time_ns)
    }

    fn waiting_for(&self, packets: u16) -> Setting {
        let period = self.setting.period;
        let delay_ns = match (packets, period) {
            (1, _) => 0,
            (_, Period::Completion) => self.wait_ns,
            (n, Period::Event | Period::Interval) => {
                (u64::from(self.wait_ns) * u64::from(n)).min(u64::from(self.longest_ns)) as u32
            }
        };
        Setting { delay_ns, packets, period }
    }

    /// Starts, stops or re-evaluates waiting, with the current credit.
    #[cold]
    #[inline(never)]
    fn reevaluate(&mut self, events: u64, credit_ns: u64) -> Option<Setting> {
        let (count, now) = (self.setting.packets, self.until_ns.wrapping_sub(credit_ns));
        let (packets, interrupts) =
            (self.packets.wrapping_sub(self.from.0), events.wrapping_sub(self.from.1));
        let full = packets.saturating_mul(8) >= interrupts.saturating_mul(7 * u64::from(count));
        let next = match count {
            1 => INITIAL_COUNT,
            _ if credit_ns < self.threshold_ns => 1,
            n if !full => n.div_ceil(4).max(INITIAL_COUNT),
            n if now < self.grows_ns => n,
            n => n.saturating_mul(4),
        };
        let next = next.min(self.max_count);
        self.threshold_ns = if next > 1 { OFF } else { ON } * self.per_packet_ns;
        self.from = (self.packets, events);
        self.evaluate_at = self.packets.saturating_add(EVAL_PACKETS + 8 * u64::from(next));
        if next != count || !full {
            // A count that was too high is not tried again soon.
            let times = if next < count { 4 } else { 1 };
            self.grows_ns = now.saturating_add(times * GROW_AFTER * u64::from(self.wait_ns));
        }
        if next == count {
            return None;
        }
        self.setting = self.waiting_for(next);
        Some(self.setting)
    }
}

impl Controller for Trains {
    #[inline]
    fn sample(&mut self, s: &Sample) -> Option<Setting> {
        // A counter that steps back looks like very many packets, which is harmless.
        let (now, total) = (s.time_ns, s.flow(self.direction).packets);
        let packets = total.wrapping_sub(self.packets);
        self.packets = total;
        let until = self.until_ns.max(now).wrapping_add(packets.wrapping_mul(self.per_packet_ns));
        if self.setting.packets == 1 {
            self.until_ns = until;
            let credit = until.wrapping_sub(now);
            if credit < self.threshold_ns {
                return None;
            }
            let credit = credit.min(self.cap_ns);
            self.until_ns = now.wrapping_add(credit);
            return self.reevaluate(s.events, credit);
        }
        let credit = until.wrapping_sub(now).min(self.cap_ns);
        self.until_ns = now.wrapping_add(credit);
        if credit >= self.threshold_ns && total < self.evaluate_at {
            return None;
        }
        self.reevaluate(s.events, credit)
    }

    fn setting(&self) -> Setting {
        self.setting
    }
}

#[cfg(test)]
mod tests;
