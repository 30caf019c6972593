//! Trains: ours. It waits for the rest of a train of packets, and for nothing else.
//!
//! **The idea.** Waiting pays only if another packet comes while one waits. So the question at
//! each sample is not which setting was better in the last epoch, but whether packets come in
//! trains: one close behind the other. That is known from the sample alone, how many packets in
//! what time, and it is known at once. No interrupts are counted, so it does not matter how many
//! there are.
//!
//! **Whether.** An account of time. Each packet pays in three waits ([`REACH`]), the time that
//! passes is taken out, and while it waits the account holds thirteen packets' worth at the most
//! ([`FULL`]). Waiting begins when nine are there ([`ENTER`]), and ends when less than two are left
//! ([`LEAVE`]). So packets that are further apart than three waits empty it, whatever came before:
//! behind half a millisecond of silence (at 1 Gbit/s) it is empty, and a lone packet is the last
//! that is waited for. And a chance of few packets close together does not fill it: at 10 packets a
//! millisecond, at random, that happens to one in some millions.
//!
//! **How many.** [`SHORT`] packets. After every 1024 packets ([`JUDGED`]) and eight waits the count
//! is judged. If the interrupts were as many as it says, it holds; and when it has held for 3072
//! waits ([`HOLD`]), it becomes four times as much, up to all that the device can count: three
//! steps, 150 ms at 1 Gbit/s. A high count takes few interrupts from a load that lasts, and makes
//! the packets late of one that does not; so a load has to last. If the interrupts were more, by an
//! eighth, the timer ended waits: no train is so long, or a sender has no more under way (a window
//! of TCP below the count) and would wait for acknowledgments that wait for its packets. Then it is
//! a quarter, and has to hold four times as long.
//!
//! **How long.** With a timer that each packet restarts ([`Period::Completion`]) the silence that
//! ends a train is one full packet of the link and one unit of the timer, in whole units: shorter,
//! and a saturated link looks silent; longer, and the end of every train waits for nothing. Other
//! timers start once, so they get that time for each packet that is counted; there the end of a
//! train that is shorter than the count waits for the rest. Where the device's timer does not reach
//! even one packet, nothing is waited for.
//!
//! **What it cannot do.** Evenly spaced packets that are further apart than the silence but nearer
//! than `REACH` cannot be joined with such a timer, and wait for it in vain. Around that distance,
//! 25 packets a millisecond at 1 Gbit/s, random traffic takes it to and fro between one packet and
//! four. It does not know how long a burst will be: one of 32 takes eight interrupts at a count of
//! four. Of a burst of six small packets the fourth interrupts, and all are there when the poll
//! begins; the timer that runs behind them interrupts again, for nothing. The way to saturation
//! takes 1400 interrupts; net_dim's straightest is 256.
//!
//! The constants were chosen on random loads (`docs/moderation.md`), and held against others that
//! had no part in the choice. No division on the way of most samples and no table; what a sample
//! costs is in `benches/instructions.rs`.

use crate::controller::{Controller, Direction, Period, Sample, Setting};
use crate::link::{Limits, Link};

/// Packets for which a train is waited for that is not yet a long one.
pub const SHORT: u16 = 4;
/// Packets after which the count is judged, and eight waits more.
pub const JUDGED: u64 = 1024;
/// How long a load fills a count until four times as many are waited for, in waits.
pub const HOLD: u64 = 3072;
/// What a packet pays into the account, in waits.
pub const REACH: u64 = 3;
/// Packets' worth with which waiting begins.
pub const ENTER: u64 = 9;
/// Packets' worth below which it ends.
pub const LEAVE: u64 = 2;
/// The most that the account holds, in packets' worth.
pub const FULL: u64 = 13;

/// Waits while packets come in trains, for one direction of one queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trains {
    /// Packets so far.
    packets: u64,
    /// When the account will be empty, if no packet comes.
    until_ns: u64,
    /// What decides in the account: less is no waiting.
    threshold_ns: u64,
    /// Packets in all with which the count is judged.
    mark: u64,
    /// Packets and interrupts since when it is.
    from: (u64, u64),
    /// When it will have held for long enough to become more.
    grows_ns: u64,
    setting: Setting,
    direction: Direction,
    /// The most packets that the device counts.
    most: u16,
    /// What a packet pays in.
    reach_ns: u64,
    /// The most that the account holds.
    full_ns: u64,
    /// The silence that ends a train.
    wait_ns: u32,
    /// The longest time that the device's timer takes.
    longest_ns: u32,
}

impl Trains {
    /// For what `direction` carries on `link`, with a timer of kind `period` that counts in
    /// units of `unit_ns` and goes as far as `limits`. It begins without waiting.
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
        // Whole units: what the device is told is then what it does.
        let (wait, most) = match link.packet_ns() {
            Some(packet) if packet + unit <= longest_ns as u64 => {
                ((packet + unit) / unit * unit, limits.packets)
            }
            _ => (0, 1),
        };
        let reach_ns = REACH * wait;
        Trains {
            packets: 0,
            until_ns: 0,
            // Where nothing can be waited for, never.
            threshold_ns: if most > 1 { ENTER * reach_ns } else { u64::MAX },
            mark: 0,
            from: (0, 0),
            grows_ns: 0,
            setting: Setting { period, ..Setting::IMMEDIATE },
            direction,
            most,
            reach_ns,
            full_ns: FULL * reach_ns,
            wait_ns: wait as u32,
            longest_ns,
        }
    }

    /// What is in the account at `time_ns`, in nanoseconds.
    pub const fn credit_ns(&self, time_ns: u64) -> u64 {
        self.until_ns.saturating_sub(time_ns)
    }

    /// The setting that waits for `packets`.
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

    /// What is not for every sample: waiting begins or ends, or its count is judged. So much is in
    /// the account.
    #[cold]
    #[inline(never)]
    fn turn(&mut self, events: u64, credit_ns: u64) -> Option<Setting> {
        let (count, now) = (self.setting.packets, self.until_ns.wrapping_sub(credit_ns));
        let (packets, interrupts) =
            (self.packets.wrapping_sub(self.from.0), events.wrapping_sub(self.from.1));
        let full = packets.saturating_mul(8) >= interrupts.saturating_mul(7 * u64::from(count));
        let next = match count {
            1 => SHORT,
            _ if credit_ns < self.threshold_ns => 1,
            n if !full => n.div_ceil(4).max(SHORT),
            n if now < self.grows_ns => n,
            n => n.saturating_mul(4),
        };
        let next = next.min(self.most);
        self.threshold_ns = if next > 1 { LEAVE } else { ENTER } * self.reach_ns;
        self.from = (self.packets, events);
        self.mark = self.packets.saturating_add(JUDGED + 8 * u64::from(next));
        if next != count || !full {
            // What was too much is not tried again soon.
            let times = if next < count { 4 } else { 1 };
            self.grows_ns = now.saturating_add(times * HOLD * u64::from(self.wait_ns));
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
        // A counter that steps back looks like very many packets: the account is somewhere, and
        // that is all. Without packets nothing but time has passed.
        let (now, total) = (s.time_ns, s.flow(self.direction).packets);
        let packets = total.wrapping_sub(self.packets);
        self.packets = total;
        let until = self.until_ns.max(now).wrapping_add(packets.wrapping_mul(self.reach_ns));
        if self.setting.packets == 1 {
            self.until_ns = until;
            let credit = until.wrapping_sub(now);
            if credit < self.threshold_ns {
                return None;
            }
            let credit = credit.min(self.full_ns);
            self.until_ns = now.wrapping_add(credit);
            return self.turn(s.events, credit);
        }
        let credit = until.wrapping_sub(now).min(self.full_ns);
        self.until_ns = now.wrapping_add(credit);
        if credit >= self.threshold_ns && total < self.mark {
            return None;
        }
        self.turn(s.events, credit)
    }

    fn setting(&self) -> Setting {
        self.setting
    }
}

#[cfg(test)]
mod tests;
