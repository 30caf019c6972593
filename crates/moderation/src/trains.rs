//! Trains: ours. It waits for the rest of a train of packets, and for nothing else.
//!
//! **The idea.** Waiting pays only if another packet comes while one waits. So the question at
//! each sample is not which setting was better in the last epoch, but whether packets come in
//! trains: one close behind the other. That is known from the sample alone, how many packets in
//! what time, and it is known at once.
//!
//! | what a sample shows | what it means | what is done |
//! |---|---|---|
//! | packets no further apart than [`REACH`] waits | the train goes on | the score rises by as many |
//! | more time than that | there was a silence; the packets after it are a new train | the score falls by one, and one more for each 65 us of it; then rises by all of them but the first |
//!
//! With a score of [`ENTER`] it begins to wait, and it ends waiting when none is left. The
//! score ends at [`FULL`], so what was long ago does not count: a silence of half a millisecond empties it
//! whatever came before. No interrupts are counted, so it does not matter how many
//! there are. Behind a long silence a lone packet is answered at once; only the first one finds the old setting.
//!
//! **How many.** [`SHORT`] packets. While a train lasts, a 64th of it: one that has lasted for
//! 2048 packets may wait for 32, and after 16384 (0.2 s of full packets at 1 Gbit/s) for all that the
//! device can count. So no packet waits for longer than a 64th of the time that the load has lasted, or
//! for [`SHORT`] packets; and a saturated link ends with as few interrupts as the device allows. Powers of two,
//! so that the device is told five times on that way and not at every sample.
//!
//! **How long.** With a timer that each packet restarts ([`Period::Completion`]) the silence that ends a train
//! is one full packet of the link and one unit of the timer: shorter, and a saturated link looks silent;
//! longer, and the end of every train waits for nothing. Other timers start once, so they get that
//! time for each packet that is counted; there the end of a train that is shorter than the count waits for the rest.
//! Where the device's timer does not reach even one packet, nothing is waited for.
//!
//! **What it cannot do.** Evenly spaced packets that are further apart than the silence but nearer than
//! `REACH` cannot be joined with such a timer, and wait for it in vain. And it does not know how long a burst
//! will be: one of 32 packets makes four interrupts.
//! The way to saturation takes 400 interrupts in its 0.2 s; net_dim's straightest is 256.
//!
//! A sample takes 64 instructions, 76 when the setting changes, with no division and no table. net_dim takes 32 inside
//! an epoch, where it decides nothing, and 124 where it decides (`benches/instructions.rs`).

use crate::controller::{Controller, Direction, Period, Sample, Setting};
use crate::link::{Limits, Link};

/// Packets for which a train is waited for that is not yet a long one.
pub const SHORT: u16 = 8;
/// Packets are of one train if they are no further apart than so many times the wait.
pub const REACH: u64 = 4;
/// The score with which waiting begins.
pub const ENTER: u32 = 4;
/// The highest score.
pub const FULL: u32 = 8;
/// A silence takes one from the score for each 2^16 ns of it.
const SILENCE: u32 = 16;
/// Of a long train, one in 2^6 packets is waited for.
const LONG: u32 = 6;

/// Waits while packets come in trains, for one direction of one queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trains {
    time_ns: u64,
    packets: u64,
    /// How much speaks for trains.
    score: u32,
    /// Packets of the train under way.
    length: u32,
    setting: Setting,
    direction: Direction,
    /// The most packets that the device counts.
    most: u16,
    /// The silence that ends a train.
    wait_ns: u32,
    /// The longest time that the device's timer takes.
    longest_ns: u32,
}

impl Trains {
    /// For what `direction` carries on `link`, with a timer of kind `period` that counts in
    /// units of `unit_ns` and goes as far as `limits`. It begins without waiting.
    pub const fn new(direction: Direction, link: Link, period: Period, unit_ns: u32, limits: Limits) -> Trains {
        let most_us = u32::MAX / 1_000;
        let longest_ns = 1_000 * if limits.usec < most_us { limits.usec } else { most_us };
        let (wait, most) = match link.packet_ns() {
            Some(packet) if packet + unit_ns as u64 <= longest_ns as u64 => (packet as u32 + unit_ns, limits.packets),
            _ => (0, 1),
        };
        Trains {
            time_ns: 0,
            packets: 0,
            score: 0,
            length: 0,
            setting: Setting { period, ..Setting::IMMEDIATE },
            direction,
            most: if most == 0 { 1 } else { most },
            wait_ns: wait,
            longest_ns,
        }
    }

    /// How much speaks for trains, 0 to [`FULL`].
    pub const fn score(&self) -> u32 {
        self.score
    }

    /// Packets of the train under way.
    pub const fn length(&self) -> u32 {
        self.length
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
}

impl Controller for Trains {
    #[inline]
    fn sample(&mut self, s: &Sample) -> Option<Setting> {
        let total = s.flow(self.direction).packets;
        // A counter that steps back looks like very many: the length saturates, and that is all.
        let packets = u32::try_from(total.wrapping_sub(self.packets)).unwrap_or(u32::MAX);
        if packets == 0 {
            return None;
        }
        let ns = s.time_ns.wrapping_sub(self.time_ns);
        (self.packets, self.time_ns) = (total, s.time_ns);
        // 2^32 packets of 2^32 ns, four times, leave 64 bits; nobody has them.
        let reach = u64::from(packets).wrapping_mul(u64::from(self.wait_ns) * REACH);
        let (before, joined) = if ns <= reach {
            self.length = self.length.saturating_add(packets);
            (self.score, packets)
        } else {
            self.length = packets;
            // A silence beyond 2^48 ns is three days.
            (self.score.saturating_sub(1).saturating_sub((ns >> SILENCE) as u32), packets - 1)
        };
        self.score = before.saturating_add(joined).min(FULL);
        let waits = self.setting.packets > 1;
        let count = if self.score < if waits { 1 } else { ENTER } {
            1
        } else {
            let long = self.length >> LONG;
            // The highest bit, which is not above 2^25.
            let count = if long > u32::from(SHORT) { 1 << long.ilog2() } else { u32::from(SHORT) };
            count.min(u32::from(self.most)) as u16
        };
        if count == self.setting.packets {
            return None;
        }
        self.setting = self.waiting_for(count);
        Some(self.setting)
    }

    fn setting(&self) -> Setting {
        self.setting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Flow;

    const GIGABIT: Link = Link { mbit_s: 1_000, mtu: 1_500 };
    const UNIT: u32 = 1_000;

    /// A controller, and the samples so far.
    struct Run(Trains, Sample);

    impl Run {
        fn new() -> Run {
            let c = Trains::new(Direction::Rx, GIGABIT, Period::Completion, UNIT, Limits::AXIENET);
            Run(c, Sample { time_ns: 1 << 40, ..Sample::default() })
        }
        /// So many packets after so many nanoseconds; what is waited for then.
        fn after(&mut self, ns: u64, packets: u64) -> u16 {
            self.1.time_ns += ns;
            self.1.events += 1;
            self.1.rx = Flow { packets: self.1.rx.packets + packets, bytes: 0 };
            self.0.sample(&self.1);
            self.0.setting().packets
        }
        /// A saturated link for so many packets.
        fn saturate(&mut self, packets: u64) -> u16 {
            let end = self.1.rx.packets + packets;
            while self.1.rx.packets < end {
                let n = u64::from(self.0.setting().packets);
                self.after(12_304 * n, n);
            }
            self.0.setting().packets
        }
    }

    #[test]
    fn low_load_does_not_make_it_wander() {
        let mut r = Run::new();
        // 10 packets a millisecond, now earlier, now later, for a second.
        for i in 0..10_000u64 {
            assert_eq!(r.after(60_000 + i * 7_919 % 80_000, 1), 1);
        }
    }

    #[test]
    fn a_load_drop_is_answered_with_the_first_packet_behind_a_silence() {
        for gap_us in [600, 1_000, 100_000, 5_000_000] {
            let mut r = Run::new();
            assert_eq!(r.saturate(100_000), 255);
            assert_eq!(r.after(gap_us * 1_000, 1), 1, "one packet, whatever the interrupt rate: {gap_us} us");
        }
    }

    #[test]
    fn at_ten_packets_a_millisecond_it_is_back_within_one() {
        let mut r = Run::new();
        r.saturate(100_000);
        let samples = (1..).find(|_| r.after(100_000, 1) == 1).unwrap();
        assert!(samples <= 10, "{samples}");
    }

    #[test]
    fn the_end_of_a_burst_waits_for_one_packet_and_one_unit() {
        for (mbit_s, mtu, packet) in [(1_000, 1_500, 12_304), (1_000, 9_000, 72_304), (100, 1_500, 123_040)] {
            let mut c = Trains::new(Direction::Rx, Link { mbit_s, mtu }, Period::Completion, UNIT, Limits::AXIENET);
            let burst = Sample { time_ns: 1_000_000, rx: Flow { packets: 32, bytes: 0 }, ..Sample::default() };
            let s = c.sample(&burst).unwrap();
            assert_eq!((s.packets, s.delay_ns), (SHORT, packet + UNIT));
        }
    }

    #[test]
    fn bursts_are_remembered_over_the_silence_between_them() {
        let mut r = Run::new();
        for _ in 0..100 {
            assert_eq!(r.after(10_000_000, 32), SHORT);
        }
    }

    #[test]
    fn saturation_ends_with_all_that_the_device_counts() {
        let mut r = Run::new();
        assert_eq!(r.saturate(600), SHORT);
        assert_eq!(r.saturate(2_000), 32);
        assert_eq!(r.saturate(16_000), 255);
        assert_eq!(r.saturate(1_000_000), 255);
    }

    #[test]
    fn no_packet_waits_longer_than_a_64th_of_the_load() {
        let mut r = Run::new();
        let mut sent = 0;
        while sent < 100_000 {
            let n = u64::from(r.0.setting().packets);
            assert!(n <= u64::from(SHORT) || n <= sent / 64, "{n} of {sent}");
            r.after(12_304 * n, n);
            sent += n;
        }
    }

    #[test]
    fn the_way_to_saturation_takes_some_400_interrupts() {
        let mut r = Run::new();
        r.saturate(20_000);
        // 16 for each doubling beyond the first 2048 packets, which come by 8. net_dim's straightest way is 256.
        assert!((350..450).contains(&r.1.events), "{}", r.1.events);
    }

    #[test]
    fn a_timer_too_short_for_the_link_is_not_used() {
        for link in [Link { mbit_s: 10, mtu: 1_500 }, Link { mbit_s: 0, mtu: 1_500 }] {
            let mut c = Trains::new(Direction::Rx, link, Period::Completion, UNIT, Limits::AXIENET);
            for i in 1..1_000 {
                let rx = Flow { packets: i * 100, bytes: 0 };
                assert_eq!(c.sample(&Sample { time_ns: i, rx, ..Sample::default() }), None);
            }
        }
    }

    #[test]
    fn a_timer_that_starts_once_gets_the_time_of_all_its_packets() {
        let mut c = Trains::new(Direction::Rx, GIGABIT, Period::Event, UNIT, Limits::AXIENET);
        let burst = Sample { time_ns: 1_000_000, rx: Flow { packets: 32, bytes: 0 }, ..Sample::default() };
        assert_eq!(c.sample(&burst).map(|s| (s.packets, s.delay_ns)), Some((SHORT, 8 * 13_304)));
    }

    #[test]
    fn an_interrupt_without_packets_says_nothing() {
        let mut r = Run::new();
        r.saturate(1_000);
        let before = r.0.clone();
        r.after(10_000, 0);
        assert_eq!(r.0, before);
    }
}
