//! A histogram of latencies. Its buckets are 1/32 of a power of two wide, so a quantile is off by
//! at most 3 per cent.

use doorbell_hal::Span;
use std::ops::Range;

/// log2 of the number of buckets in each power of two.
const FINE: u32 = 5;

/// Counts of spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    min: Span,
    max: Span,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: vec![0; 64 << FINE],
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
        self.counts[bucket(s.ps())] += 1;
        self.total += 1;
        self.min = self.min.min(s);
        self.max = self.max.max(s);
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Histogram) {
        for (a, b) in self.counts.iter_mut().zip(&other.counts) {
            *a += b;
        }
        self.total += other.total;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets all spans.
    pub fn clear(&mut self) {
        let used = self.used();
        self.counts[used].fill(0);
        (self.total, self.min, self.max) = (0, Span::from_ps(u64::MAX), Span::ZERO);
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
        let filled = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        filled.map(|(i, n)| (Span::from_ps(upper(i)).min(self.max), *n))
    }

    /// Returns a quantile: the span that `per_mille` of 1000 do not exceed, as the upper end of its
    /// bucket, at most the longest span.
    pub fn quantile(&self, per_mille: u64) -> Option<Span> {
        let bucket = self.at_rank((self.total * per_mille).div_ceil(1000))?;
        Some(Span::from_ps(upper(bucket)).min(self.max))
    }

    /// Returns the 95 % interval of a quantile: the ranks that it may have if spans are
    /// independent, from the lower end of a bucket to the upper end of another.
    pub fn interval(&self, per_mille: u64) -> Option<(Span, Span)> {
        let (n, share) = (self.total as f64, per_mille as f64 / 1000.0);
        let (middle, half) = (n * share, 1.96 * (n * share * (1.0 - share)).sqrt());
        let low = self.at_rank((middle - half).floor() as u64)?;
        let high = self.at_rank((middle + half).ceil() as u64)?;
        let low = if low == 0 { 0 } else { upper(low - 1) + 1 };
        Some((Span::from_ps(low).max(self.min), Span::from_ps(upper(high)).min(self.max)))
    }

    /// Returns the bucket of the span with this rank, the shortest being the first. `None` without
    /// spans.
    fn at_rank(&self, rank: u64) -> Option<usize> {
        let mut seen = 0;
        let mut used = self.used();
        let last = used.clone().last();
        used.find(|i| {
            seen += self.counts[*i];
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
    let fine = (ps >> (log - FINE)) as usize & ((1 << FINE) - 1);
    (((log - FINE + 1) as usize) << FINE) + fine
}

/// Returns the largest value of a bucket, in picoseconds.
fn upper(bucket: usize) -> u64 {
    if bucket < 1 << FINE {
        return bucket as u64;
    }
    let log = (bucket >> FINE) as u32 - 1 + FINE;
    let fine = (bucket & ((1 << FINE) - 1)) as u64;
    let start = (1u64 << log) + (fine << (log - FINE));
    start + ((1u64 << (log - FINE)) - 1)
}

#[cfg(test)]
mod tests;
