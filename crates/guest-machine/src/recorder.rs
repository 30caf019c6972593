//! Numbers over time: rates of each slice, and the moderation in force at its end.

use crate::board::Board;
use doorbell_hal::{Span, Time};
use doorbell_spec::number::Series;
use doorbell_spec::number::series::{INTERRUPTS, WIRE_FRAMES};

/// A slice, and the most of them. With more, two become one.
const SLICE: Span = Span::from_ms(1);
const MOST: usize = 1000;

/// A slice's frames on the wire, both ways, its interrupts, and its settings.
#[derive(Clone, Debug)]
struct Slice {
    crossed: [u64; 2],
    moderation: Vec<(&'static str, f64)>,
}

/// Records a machine's rates and its moderation.
#[derive(Clone, Debug)]
pub struct Recorder {
    began: Time,
    /// The length of a slice, and the end of the one that runs.
    each: Span,
    ends: Time,
    /// Frames and interrupts before the one that runs.
    before: [u64; 2],
    slices: Vec<Slice>,
}

impl Recorder {
    /// Begins at the machine's time.
    pub fn begin(board: &dyn Board) -> Recorder {
        let (began, each) = (board.now(), SLICE);
        Recorder { began, each, ends: began + each, before: board.crossed(), slices: Vec::new() }
    }

    /// Ends the slices that end at `now` or before. Everything that happened before is counted.
    pub fn pass(&mut self, now: Time, board: &dyn Board) {
        while self.ends <= now {
            self.cut(board);
            self.ends += self.each;
            if self.slices.len() == MOST {
                self.join();
            }
        }
    }

    fn cut(&mut self, board: &dyn Board) {
        let crossed = board.crossed();
        let before = std::mem::replace(&mut self.before, crossed);
        let crossed = [0, 1].map(|n| crossed[n] - before[n]);
        self.slices.push(Slice { crossed, moderation: board.moderation() });
    }

    /// Makes one of two slices each.
    fn join(&mut self) {
        let joined = self.slices.chunks(2).map(|two| {
            let crossed = [0, 1].map(|n| two.iter().map(|slice| slice.crossed[n]).sum());
            let last = two.last().map(|slice| slice.moderation.clone());
            Slice { crossed, moderation: last.unwrap_or_default() }
        });
        self.slices = joined.collect();
        self.each = self.each + self.each;
        self.ends = self.began + self.each * (self.slices.len() as u64 + 1);
    }

    /// Ends at the machine's time. Returns the series.
    pub fn end(mut self, board: &dyn Board) -> Vec<Series> {
        let now = board.now();
        self.pass(now, board);
        let begins = self.began + self.each * self.slices.len() as u64;
        // A rate over a moment would be of its one frame.
        if now > begins && (self.slices.is_empty() || now.since(begins) * 10 >= self.each) {
            self.cut(board);
        }
        let mut all: Vec<Series> = Vec::new();
        let mut add = |name, ms, value| {
            let place = all.iter().position(|series| series.name == name).unwrap_or_else(|| {
                all.push(Series { name, points: Vec::new() });
                all.len() - 1
            });
            all[place].points.push((ms, value));
        };
        for (n, Slice { crossed, moderation }) in self.slices.iter().enumerate() {
            let begins = self.began + self.each * n as u64;
            let ends = now.min(begins + self.each);
            let ms = ends.since(self.began).as_secs_f64() * 1e3;
            let seconds = ends.since(begins).as_secs_f64();
            for (name, n) in [WIRE_FRAMES, INTERRUPTS].into_iter().zip(crossed) {
                add(name, ms, *n as f64 / seconds);
            }
            moderation.iter().for_each(|(name, value)| add(name, ms, *value));
        }
        all
    }
}

#[cfg(test)]
mod tests;
