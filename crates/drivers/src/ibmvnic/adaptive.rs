//! `direct = adaptive`: which packets are worth a checksum here.
//!
//! A direct call is bought with a checksum, whose price grows with the frame; what the call saves
//! lies partly on this CPU and partly on a time line behind the call that the driver cannot see.
//! What it can see is how long a packet takes in all. So it compares.
//!
//! Packets are classed by the bytes that would have to be summed: none, or a sixteenth of the
//! longest frame's and its multiples. A **rung** is a class's bound: what is below goes directly,
//! what is above in an array with its headers. A checksum of more bytes is never cheaper, so one
//! bound is all there is to find, and that is the break-even frame size.
//!
//! A **trial** compares the rung in force with the next one up or down of which there are packets:
//! an epoch of each, and if they are not ten per cent apart another of each; every epoch begins
//! after what was under way has been done. The shorter time a packet wins, by 0.4 % at least;
//! within that, where something else than this driver sets the pace, the smaller CPU time in the
//! driver's own transmit does. Won, the next trial goes on the same way; lost in both directions,
//! there is a pause, four times as long each time. Other traffic, by class, ends it.

use doorbell_hal::{Span, Time};

/// Classes by bytes to be summed; 0 is for none.
const CLASSES: usize = 17;
/// Packets of an epoch at least.
const EPOCH: u64 = 384;
/// Packets of the first pause; each is four times as long as the one before, up to [`MAX_PAUSE`].
const PAUSE: u64 = 8192;
const MAX_PAUSE: u64 = 1 << 20;
/// Classes with less than this share of the packets are passed over: 1 in so many.
const RARE: u64 = 50;

/// What an epoch came to.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    packets: u64,
    time: Span,
    /// In the driver's transmit.
    cpu: Span,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Until so many more packets.
    Pause(u64),
    /// Of a trial: which epoch (even: in force, odd: the other), and packets to come before it
    /// begins.
    Settle(u32, u64),
    /// Of a trial: which epoch, packets to come, when it began.
    Epoch(u32, u64, Time),
}

/// The controller; one for all queues, for they share what is behind the call.
#[derive(Debug)]
pub(super) struct Adaptive {
    /// Bytes of a class.
    width: u32,
    /// In force.
    rung: usize,
    /// Tried against it.
    other: usize,
    up: bool,
    /// Trials lost in a row.
    lost: u32,
    pause: u64,
    phase: Phase,
    /// Packets of the epoch.
    length: u64,
    /// In force, tried.
    results: [Measured; 2],
    /// Packets by class, lately and before.
    seen: [u64; CLASSES],
    seen_before: [u64; CLASSES],
    cpu: Span,
    now: Time,
    pub(super) trials: u64,
    pub(super) moves: u64,
}

impl Adaptive {
    /// For frames of `longest` bytes. At first everything goes directly.
    pub(super) fn new(longest: u32) -> Adaptive {
        Adaptive {
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

    /// Checksums of so many bytes and fewer are made here; `None`: not even packets without any go
    /// directly.
    pub(super) fn break_even(&self) -> Option<u32> {
        self.rung.checked_sub(1).map(|top| top as u32 * self.width)
    }

    /// Whether a packet that could go directly does, when `summed` bytes have to be summed for it.
    pub(super) fn direct(&mut self, summed: u32) -> bool {
        let class = self.class(summed);
        self.seen[class] += 1;
        let trying = matches!(self.phase, Phase::Settle(n, _) | Phase::Epoch(n, ..) if n % 2 == 1);
        class < if trying { self.other } else { self.rung }
    }

    /// A packet was handed to the driver at `began`; now it is `now`, and `under_way` packets are
    /// with the server.
    pub(super) fn packet(&mut self, began: Time, now: Time, under_way: u64) {
        self.cpu += now.since(began);
        // Cores differ by what they do at a time; none goes back.
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
            self.look_at_traffic();
        }
    }

    /// Traffic that is not as it was is worth a trial soon.
    fn look_at_traffic(&mut self) {
        let (now, before): (u64, u64) = (self.seen.iter().sum(), self.seen_before.iter().sum());
        let moved: u64 = self
            .seen
            .iter()
            .zip(&self.seen_before)
            .map(|(a, b)| (a * before).abs_diff(b * now))
            .sum();
        // Half of the sum is the share that changed its class.
        if before > 0 && moved / 2 > now * before / 4 {
            self.pause = PAUSE;
            if let Phase::Pause(left) = &mut self.phase {
                *left = (*left).min(EPOCH);
            }
        }
        self.seen_before = self.seen;
        self.seen = [0; CLASSES];
    }

    /// The next rung from the one in force, up or down, with packets in between.
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
            // Nothing on this side.
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
        if n < 3 && !(n == 1 && far(a, b)) {
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

/// A span for each packet, in millionths of a picosecond.
fn each(s: Span, m: Measured) -> u128 {
    u128::from(s.ps()) * 1_000_000 / u128::from(m.packets.max(1))
}

/// Whether one look is enough.
fn far(a: Measured, b: Measured) -> bool {
    let (ta, tb) = (each(a.time, a), each(b.time, b));
    ta.abs_diff(tb) * 10 > ta
}

/// Whether `b` costs less than `a`.
fn cheaper(b: Measured, a: Measured) -> bool {
    let (ta, tb) = (each(a.time, a), each(b.time, b));
    if ta.abs_diff(tb) * 250 > ta {
        return tb < ta;
    }
    each(b.cpu, b) < each(a.cpu, a)
}

#[cfg(test)]
mod tests;
