//! `direct = adaptive`: finds the frame size up to which a software checksum pays for a direct
//! call.
//!
//! Packets are classed by the bytes to be summed. Classes below a bound, the **rung**, go directly;
//! the others go in an array with their headers. A **trial** measures epochs of the rung in force
//! and of the next one up or down that has packets, each after earlier packets are done. The
//! shorter time per packet wins, if by 0.4 % at least; otherwise the smaller CPU time in the
//! driver's transmit. After a win the next trial goes the same way. After losses in both directions
//! the controller pauses, four times as long each time; a change of traffic ends the pause.

use doorbell_hal::{Span, Time};

/// Classes by bytes to be summed; class 0 sums none.
const CLASSES: usize = 17;
/// Least packets of an epoch.
const EPOCH: u64 = 384;
/// Packets of the first pause; each pause is four times the one before, up to [`MAX_PAUSE`].
const PAUSE: u64 = 8192;
const MAX_PAUSE: u64 = 1 << 20;
/// Classes with less than one packet in this many are skipped.
const RARE: u64 = 50;

/// The result of an epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    packets: u64,
    time: Span,
    /// CPU time in the driver's transmit.
    cpu: Span,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No trial for this many packets.
    Pause(u64),
    /// A trial, before an epoch: its number (even: rung in force, odd: the other), packets until it
    /// begins.
    Settle(u32, u64),
    /// An epoch of a trial: its number, packets left, start time.
    Epoch(u32, u64, Time),
}

/// The controller of all queues, which share the server behind the call.
#[derive(Debug)]
pub(super) struct AdaptiveDirect {
    /// Bytes per class.
    width: u32,
    /// The bound in force.
    rung: usize,
    /// The bound on trial.
    other: usize,
    up: bool,
    /// Consecutive trials lost.
    lost: u32,
    pause: u64,
    phase: Phase,
    /// Packets per epoch.
    length: u64,
    /// Results of the bound in force and of the one on trial.
    results: [Measured; 2],
    /// Packets by class in the current and the previous period.
    seen: [u64; CLASSES],
    seen_before: [u64; CLASSES],
    cpu: Span,
    now: Time,
    pub(super) trials: u64,
    pub(super) moves: u64,
}

impl AdaptiveDirect {
    /// Begins with everything going directly, for frames of `longest` bytes.
    pub(super) fn new(longest: u32) -> AdaptiveDirect {
        AdaptiveDirect {
            width: longest.div_ceil(CLASSES as u32 - 1).max(1),
            rung: CLASSES,
            other: CLASSES,
            up: false,
            lost: 0,
            pause: PAUSE,
            phase: Phase::Pause(EPOCH),
            length: 0,
            results: [Measured::default(); 2],
            seen: [0; CLASSES],
            seen_before: [0; CLASSES],
            cpu: Span::ZERO,
            now: Time::ZERO,
            trials: 0,
            moves: 0,
        }
    }

    fn class(&self, summed: u32) -> usize {
        (summed.div_ceil(self.width) as usize).min(CLASSES - 1)
    }

    /// Returns the most bytes that are summed for a direct call; `None` if no packet goes directly.
    pub(super) fn break_even(&self) -> Option<u32> {
        self.rung.checked_sub(1).map(|top| top as u32 * self.width)
    }

    /// Returns whether a packet goes directly that could, with `summed` bytes to be summed.
    pub(super) fn goes_directly(&mut self, summed: u32) -> bool {
        let class = self.class(summed);
        self.seen[class] += 1;
        let trying = matches!(self.phase, Phase::Settle(n, _) | Phase::Epoch(n, ..) if n % 2 == 1);
        class < if trying { self.other } else { self.rung }
    }

    /// Records a packet whose transmit took from `began` to `now`, with `under_way` packets at the
    /// server.
    pub(super) fn packet(&mut self, began: Time, now: Time, under_way: u64) {
        self.cpu += now.since(began);
        // Clocks of cores differ; time never goes back.
        self.now = self.now.max(now);
        match &mut self.phase {
            Phase::Pause(left) | Phase::Settle(_, left) | Phase::Epoch(_, left, _) if *left > 1 => {
                *left -= 1;
            }
            Phase::Pause(_) => self.begin(under_way),
            Phase::Settle(n, _) => {
                self.cpu = Span::ZERO;
                self.length = EPOCH.max(4 * under_way);
                self.phase = Phase::Epoch(*n, self.length, self.now);
            }
            Phase::Epoch(n, ..) => {
                let n = *n;
                self.end_epoch(n, under_way);
            }
        }
        if self.seen.iter().sum::<u64>() >= PAUSE / 2 {
            self.compare_traffic();
        }
    }

    /// Shortens the pause if the mix of classes has changed.
    fn compare_traffic(&mut self) {
        let (now, before): (u64, u64) = (self.seen.iter().sum(), self.seen_before.iter().sum());
        let seen = self.seen.iter().zip(&self.seen_before);
        let moved: u64 = seen.map(|(a, b)| (a * before).abs_diff(b * now)).sum();
        // Half of the sum is the share of packets in other classes.
        if before > 0 && moved / 2 > now * before / 4 {
            self.pause = PAUSE;
            if let Phase::Pause(left) = &mut self.phase {
                *left = (*left).min(EPOCH);
            }
        }
        self.seen_before = self.seen;
        self.seen = [0; CLASSES];
    }

    /// Returns the next rung up or down with packets between it and the one in force.
    fn neighbour(&self, up: bool) -> Option<usize> {
        let all: [u64; CLASSES] = core::array::from_fn(|i| self.seen[i] + self.seen_before[i]);
        let least = (all.iter().sum::<u64>() / RARE).max(1);
        if up {
            (self.rung..CLASSES).find(|c| all[*c] >= least).map(|c| c + 1)
        } else {
            (0..self.rung).rev().find(|c| all[*c] >= least)
        }
    }

    fn begin(&mut self, under_way: u64) {
        let Some(other) = self.neighbour(self.up) else {
            // There are no packets on this side.
            self.up = !self.up;
            self.lost += 1;
            return self.rest(under_way);
        };
        self.other = other;
        self.trials += 1;
        self.results = [Measured::default(); 2];
        self.phase = Phase::Settle(0, 1);
    }

    fn rest(&mut self, under_way: u64) {
        if self.lost >= 2 {
            self.lost = 0;
            self.phase = Phase::Pause(self.pause);
            self.pause = (self.pause * 4).min(MAX_PAUSE);
        } else {
            self.phase = Phase::Pause(2 * under_way + 1);
        }
    }

    fn end_epoch(&mut self, n: u32, under_way: u64) {
        let Phase::Epoch(_, _, began) = self.phase else { return };
        let r = &mut self.results[(n % 2) as usize];
        r.packets += self.length;
        r.time += self.now.since(began);
        r.cpu += self.cpu;
        let [a, b] = self.results;
        if n < 3 && !(n == 1 && is_far(a, b)) {
            self.phase = Phase::Settle(n + 1, 2 * under_way + 64);
            return;
        }
        if cheaper(b, a) {
            self.rung = self.other;
            self.moves += 1;
            self.lost = 0;
            self.pause = PAUSE;
        } else {
            self.up = !self.up;
            self.lost += 1;
        }
        self.rest(under_way);
    }
}

/// Returns the span per packet, in millionths of a picosecond.
fn per_packet(s: Span, m: Measured) -> u128 {
    u128::from(s.ps()) * 1_000_000 / u128::from(m.packets.max(1))
}

/// Returns whether two results are more than ten per cent apart.
fn is_far(a: Measured, b: Measured) -> bool {
    let (ta, tb) = (per_packet(a.time, a), per_packet(b.time, b));
    ta.abs_diff(tb) * 10 > ta
}

/// Returns whether `b` costs less than `a`.
fn cheaper(b: Measured, a: Measured) -> bool {
    let (ta, tb) = (per_packet(a.time, a), per_packet(b.time, b));
    if ta.abs_diff(tb) * 250 > ta {
        return tb < ta;
    }
    per_packet(b.cpu, b) < per_packet(a.cpu, a)
}

#[cfg(test)]
mod tests;
