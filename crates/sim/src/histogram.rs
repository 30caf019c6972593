//! A histogram of latencies. Its buckets are at most 1/256 of a power of two wide, so their middle
//! is within 0.2 per cent of every span in them.
//!
//! The counts reach from the power of two of the shortest span to that of the longest.

use doorbell_hal::Span;
use std::iter::repeat_n;
use std::ops::Range;

/// log2 of the number of buckets in each power of two.
const FINE: u32 = 8;
/// The buckets of a power of two.
const OCTAVE: usize = 1 << FINE;

/// Counts of spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The bucket that the first of `counts` counts: the first of an octave.
    first: usize,
    counts: Vec<u64>,
    total: u64,
    min: Span,
    max: Span,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            first: 0,
            counts: Vec::new(),
            total: 0,
            min: Span::from_ps(u64::MAX),
            max: Span::ZERO,
        }
    }
}

impl Histogram {
    /// Counts a span.
    #[inline]
    pub fn record(&mut self, s: Span) {
        let bucket = bucket(s.ps());
        match self.counts.get_mut(bucket.wrapping_sub(self.first)) {
            Some(n) => *n += 1,
            None => self.record_first(bucket),
        }
        self.total += 1;
        self.min = self.min.min(s);
        self.max = self.max.max(s);
    }

    /// Counts a span of an octave that has no counts yet.
    #[cold]
    #[inline(never)]
    fn record_first(&mut self, bucket: usize) {
        self.reach(bucket);
        self.counts[bucket - self.first] += 1;
    }

    /// Extends the counts to the octave of a bucket.
    fn reach(&mut self, bucket: usize) {
        let octave = bucket / OCTAVE * OCTAVE;
        if self.counts.is_empty() {
            self.first = octave;
        }
        let below = self.first.saturating_sub(octave);
        if below > 0 {
            self.counts.splice(0..0, repeat_n(0, below));
            self.first = octave;
        }
        let needed = octave + OCTAVE - self.first;
        self.counts.resize(self.counts.len().max(needed), 0);
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Histogram) {
        if other.total == 0 {
            return;
        }
        let used = other.used();
        self.reach(used.start);
        self.reach(used.end - 1);
        let into = &mut self.counts[used.start - self.first..used.end - self.first];
        for (sum, n) in into.iter_mut().zip(&other.counts[used.start - other.first..]) {
            *sum += n;
        }
        self.total += other.total;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets all spans.
    pub fn clear(&mut self) {
        self.counts.clear();
        (self.first, self.total) = (0, 0);
        (self.min, self.max) = (Span::from_ps(u64::MAX), Span::ZERO);
    }

    /// Returns the buckets of the shortest to the longest span. All others are empty.
    fn used(&self) -> Range<usize> {
        if self.total == 0 { 0..0 } else { bucket(self.min.ps())..bucket(self.max.ps()) + 1 }
    }

    /// Returns the number of spans.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Returns the shortest span, or `None` without spans.
    pub fn min(&self) -> Option<Span> {
        (self.total > 0).then_some(self.min)
    }

    /// Returns the longest span, or `None` without spans.
    pub fn max(&self) -> Option<Span> {
        (self.total > 0).then_some(self.max)
    }

    /// Returns the largest span and the count of each bucket that is not empty.
    pub fn buckets(&self) -> impl Iterator<Item = (Span, u64)> {
        let all = self.used().map(|i| (i, self.counts[i - self.first]));
        let filled = all.filter(|(_, n)| *n > 0);
        filled.map(|(i, n)| (Span::from_ps(upper(i)).min(self.max), n))
    }

    /// Returns a quantile: the span that `per_mille` of 1000 do not exceed, as the middle of its
    /// bucket. The shortest and the longest span are exact.
    pub fn quantile(&self, per_mille: u64) -> Option<Span> {
        let rank = (self.total * per_mille).div_ceil(1000);
        let bucket = self.at_rank(rank)?;
        Some(match rank {
            0 | 1 => self.min,
            last if last >= self.total => self.max,
            _ => Span::from_ps(middle(bucket)).clamp(self.min, self.max),
        })
    }

    /// Returns the interval of a quantile whose share of the spans is known within `half`: from the
    /// lower end of a bucket to the upper end of another. `None` if it reaches beyond the shortest
    /// or the longest span. Spans that are all the same leave no doubt.
    pub fn interval(&self, per_mille: u64, half: f64) -> Option<(Span, Span)> {
        if self.total > 0 && self.min == self.max {
            return Some((self.min, self.max));
        }
        let (n, share) = (self.total as f64, per_mille as f64 / 1000.0);
        let (low, high) = (n * (share - half), n * (share + half));
        if low < 0.0 || high > n {
            return None;
        }
        let ends = [self.at_rank(low.floor() as u64)?, self.at_rank(high.ceil() as u64)?];
        let ends = [lower(ends[0]), upper(ends[1])];
        let [low, high] = ends.map(|ps| Span::from_ps(ps).clamp(self.min, self.max));
        Some((low, high))
    }

    /// Returns the number of spans in buckets below that of `s`, and in buckets up to it.
    pub fn around(&self, s: Span) -> [u64; 2] {
        let (used, of) = (self.used(), bucket(s.ps()));
        let sum = |upto: usize| {
            (used.start..upto.clamp(used.start, used.end))
                .map(|i| self.counts[i - self.first])
                .sum()
        };
        [sum(of), sum(of + 1)]
    }

    /// Returns the bucket of the span with this rank, the shortest being the first. `None` without
    /// spans.
    fn at_rank(&self, rank: u64) -> Option<usize> {
        let mut seen = 0;
        let mut used = self.used();
        let last = used.clone().last();
        used.find(|i| {
            seen += self.counts[*i - self.first];
            seen >= rank.max(1)
        })
        .or(last)
    }
}

#[inline]
fn bucket(ps: u64) -> usize {
    if ps < 1 << FINE {
        return ps as usize;
    }
    let log = 63 - ps.leading_zeros();
    let fine = (ps >> (log - FINE)) as usize & (OCTAVE - 1);
    (((log - FINE + 1) as usize) << FINE) + fine
}

/// Returns log2 of the number of values of a bucket, in picoseconds.
fn width(bucket: usize) -> u32 {
    (bucket >> FINE).saturating_sub(1) as u32
}

/// Returns the smallest value of a bucket, in picoseconds.
fn lower(bucket: usize) -> u64 {
    if bucket < OCTAVE {
        return bucket as u64;
    }
    ((OCTAVE + (bucket & (OCTAVE - 1))) as u64) << width(bucket)
}

/// Returns the largest value of a bucket, in picoseconds.
fn upper(bucket: usize) -> u64 {
    lower(bucket) + ((1 << width(bucket)) - 1)
}

/// Returns the value in the middle of a bucket, in picoseconds.
fn middle(bucket: usize) -> u64 {
    lower(bucket) + ((1 << width(bucket)) - 1) / 2
}

#[cfg(test)]
mod tests;
