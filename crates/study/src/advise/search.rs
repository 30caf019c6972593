//! The search for the best design in a space of settings.
//!
//! A space that the budget of runs holds is run whole. In a larger one some runs go to random
//! designs; from the best of them, and from other random designs, each setting in turn is tried
//! with all its values while the others stay (coordinate descent), until none gains. Then pairs of
//! settings are exchanged: a bound makes a ridge of what it allows, along which no single setting
//! leads. All designs that differ in two settings are run from the best design that keeps the
//! bounds, and from the nearest one that does not, as long as that finds better ones. Designs are
//! not run twice.
//!
//! At the end each setting takes the value nearest to today's among those that are as good as the
//! best, so that nothing is changed for nothing.

use doorbell_sim::traffic::arrivals::Rng;
use doorbell_systems::in_parallel;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// One of so many runs is a random design.
const RANDOM: usize = 4;
/// The most random designs.
const MOST_RANDOM: usize = 60;
/// The descents from different starts.
const STARTS: usize = 4;

/// A design: the index of the value of each setting.
pub(crate) type Design = Vec<usize>;

/// The result of a design. Less is better.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Score {
    /// The distance from the constraints; 0 if they hold. Infinite for a design that cannot run.
    pub missed: f64,
    /// The goal, as a number of which less is better.
    pub goal: f64,
    /// Its error, relative to it.
    pub error: f64,
}

impl Score {
    /// A design that cannot run.
    pub(crate) const NONE: Score = Score { missed: f64::INFINITY, goal: f64::INFINITY, error: 0.0 };

    /// Compares two scores: first by the constraints.
    pub fn compare(&self, other: &Score) -> Ordering {
        self.missed.total_cmp(&other.missed).then(self.goal.total_cmp(&other.goal))
    }
}

/// A space of designs.
pub struct Space<'a> {
    /// The number of values of each setting.
    pub sizes: &'a [usize],
    /// The distance of a setting's value from today's.
    pub distance: &'a dyn Fn(usize, usize) -> f64,
    /// The least gain that counts, relative to the goal; up to twice that if its error is larger.
    pub least: f64,
}

/// A search under way.
struct Search<'a, E> {
    space: &'a Space<'a>,
    /// Runs a design.
    run: &'a (dyn Fn(&Design) -> Result<Score, E> + Sync),
    /// Is told the number of runs so far; returns whether to go on.
    go_on: &'a mut dyn FnMut(usize) -> bool,
    known: BTreeMap<Design, Score>,
    most: usize,
    draw: Rng,
}

/// The findings of a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best design, with each setting as near to today's as is as good.
    pub best: Design,
    /// The best design of all that were run.
    pub top: Design,
    /// The scores of all designs that were run.
    pub known: BTreeMap<Design, Score>,
    /// The ends of the descents from different starts.
    pub ends: usize,
    /// Those of them that are as good as the best design of all.
    pub agree: usize,
}

/// Returns the number of designs in a space.
pub(crate) fn designs(sizes: &[usize]) -> usize {
    sizes.iter().fold(1usize, |n, size| n.saturating_mul(*size))
}

/// Searches the best design in at most `most` runs, beginning with `start`. Ends early, with the
/// best so far, when `go_on` says so.
///
/// # Errors
/// The first error of `run`.
pub fn search<E: Send>(
    space: &Space<'_>,
    start: &Design,
    (seed, most): (u64, usize),
    run: &(dyn Fn(&Design) -> Result<Score, E> + Sync),
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Found, E> {
    let (known, draw, sizes) = (BTreeMap::new(), Rng::new(seed), space.sizes);
    let mut s = Search { space, run, go_on, known, most, draw };
    s.try_all(vec![start.clone()])?;
    let mut ends = Vec::new();
    if designs(sizes) <= most {
        s.try_all(every(sizes))?;
    } else {
        // The last runs are for what is as good and nearer to today's settings.
        let line: usize = sizes.iter().map(|n| n - 1).sum();
        s.most = most.saturating_sub(line).max(most / 2);
        let random = (0..(s.most / RANDOM).min(MOST_RANDOM)).map(|_| s.random()).collect();
        if s.try_all(random)? {
            ends = s.descend()?;
            s.exchange()?;
        }
        s.most = most;
    }
    let top = s.best();
    let agree = ends.iter().filter(|end| s.is_as_good(end, &top)).count();
    let best = s.settle()?;
    Ok(Found { best, top: s.best(), known: s.known, ends: ends.len(), agree })
}

/// Returns every design of a space.
fn every(sizes: &[usize]) -> Vec<Design> {
    let mut all: Vec<Design> = vec![Vec::new()];
    for size in sizes {
        all = all.iter().flat_map(|d| (0..*size).map(|v| [&d[..], &[v]].concat())).collect();
    }
    all
}

impl<E: Send> Search<'_, E> {
    fn best(&self) -> Design {
        let best = self.known.iter().min_by(|a, b| a.1.compare(b.1));
        best.map_or_else(|| vec![0; self.space.sizes.len()], |(design, _)| design.clone())
    }

    fn random(&mut self) -> Design {
        self.space.sizes.iter().map(|n| self.draw.one_of(*n as u64) as usize).collect()
    }

    /// Takes of each setting's values that are as good as the best design the one nearest to
    /// today's, until nothing changes.
    fn settle(&mut self) -> Result<Design, E> {
        let mut at = self.best();
        let Some(mut top) = self.known.get(&at).copied() else { return Ok(at) };
        let slack = self.slack(&top);
        for _ in 0..self.space.sizes.len() {
            let before = at.clone();
            for setting in 0..self.space.sizes.len() {
                let line = self.line(&at, setting);
                self.try_all(line.clone())?;
                let known = line.iter().filter_map(|d| Some((*self.known.get(d)?, d)));
                let known: Vec<(Score, &Design)> = known.collect();
                let best = known.iter().map(|(s, _)| *s).chain([top]).min_by(Score::compare);
                top = best.unwrap_or(top);
                let good = |s: &Score| s.missed <= top.missed && s.goal <= top.goal + slack;
                let far = |d: &Design| (self.space.distance)(setting, d[setting]);
                let nearest = known.iter().filter(|(s, _)| good(s)).map(|(_, d)| *d);
                let nearest = nearest.min_by(|a, b| far(a).total_cmp(&far(b)));
                at = nearest.cloned().unwrap_or(at);
            }
            if at == before {
                break;
            }
        }
        Ok(at)
    }

    /// Returns a design with each value of one setting.
    fn line(&self, at: &Design, setting: usize) -> Vec<Design> {
        let with = |v| {
            let mut design = at.clone();
            design[setting] = v;
            design
        };
        (0..self.space.sizes[setting]).map(with).collect()
    }

    /// Returns by how much a goal may be worse than this one and still be as good.
    fn slack(&self, of: &Score) -> f64 {
        of.error.clamp(self.space.least, 2.0 * self.space.least) * of.goal.abs()
    }

    /// Returns whether a design is as good as the best one.
    fn is_as_good(&self, design: &Design, best: &Design) -> bool {
        let score = |d: &Design| self.known.get(d).copied().unwrap_or(Score::NONE);
        let (this, best) = (score(design), score(best));
        this.missed <= best.missed && this.goal <= best.goal + self.slack(&best)
    }

    /// Returns all designs that differ from this one in two settings.
    fn pairs(&self, at: &Design) -> Vec<Design> {
        let mut all = Vec::new();
        for (first, size) in self.space.sizes.iter().enumerate() {
            for v in (0..*size).filter(|v| *v != at[first]) {
                let mut with = at.clone();
                with[first] = v;
                for second in first + 1..at.len() {
                    let other = self.line(&with, second).into_iter();
                    all.extend(other.filter(|d| d[second] != at[second]));
                }
            }
        }
        all
    }

    /// Returns the design that misses the bounds by least among those that would be better than the
    /// best one.
    fn nearest_miss(&self, best: &Design) -> Option<Design> {
        let goal = self.known.get(best)?.goal;
        let misses = self.known.iter().filter(|(_, s)| s.missed > 0.0 && s.missed.is_finite());
        let better = misses.filter(|(_, s)| s.goal < goal);
        better.min_by(|a, b| a.1.compare(b.1)).map(|(design, _)| design.clone())
    }

    /// Exchanges pairs of settings from the best design and from the nearest one that misses the
    /// bounds, and descends from what is better, until nothing is.
    fn exchange(&mut self) -> Result<(), E> {
        let mut done = BTreeSet::new();
        loop {
            let best = self.best();
            let from = [Some(best.clone()), self.nearest_miss(&best)];
            let Some(next) = from.into_iter().flatten().find(|d| !done.contains(d)) else {
                return Ok(());
            };
            if !self.try_all(self.pairs(&next))? {
                return Ok(());
            }
            done.insert(next);
            let better = self.best();
            if better != best && self.descend_from(better)?.is_none() {
                return Ok(());
            }
        }
    }

    /// Runs those of the designs that are not known, as far as there are runs left. Returns whether
    /// to go on.
    fn try_all(&mut self, mut designs: Vec<Design>) -> Result<bool, E> {
        designs.sort();
        designs.dedup();
        designs.retain(|d| !self.known.contains_key(d));
        designs.truncate(self.most.saturating_sub(self.known.len()));
        // So many at a time that an interrupt is heeded soon.
        for some in designs.chunks(16) {
            if !(self.go_on)(self.known.len()) {
                return Ok(false);
            }
            let scores = in_parallel(some, |_, d| (self.run)(d))?;
            self.known.extend(some.iter().cloned().zip(scores));
        }
        Ok(self.known.len() < self.most && (self.go_on)(self.known.len()))
    }

    /// Descends from the best design, and then from random ones. Returns the ends of the descents.
    fn descend(&mut self) -> Result<Vec<Design>, E> {
        let (mut ends, mut from) = (Vec::new(), self.best());
        while ends.len() < STARTS {
            let Some(end) = self.descend_from(from)? else { break };
            ends.push(end);
            from = self.random();
        }
        Ok(ends)
    }

    /// Tries all values of one setting after the other, each time from the best so far on this way.
    /// Returns where it ends; `None` if it has to end before.
    fn descend_from(&mut self, mut at: Design) -> Result<Option<Design>, E> {
        if !self.try_all(vec![at.clone()])? {
            return Ok(None);
        }
        loop {
            let before = at.clone();
            for setting in 0..self.space.sizes.len() {
                let line = self.line(&at, setting);
                let go_on = self.try_all(line.clone())?;
                let tried = line.into_iter().filter_map(|d| Some((*self.known.get(&d)?, d)));
                let best = tried.min_by(|a, b| a.0.compare(&b.0));
                at = best.map_or(at, |(_, design)| design);
                if !go_on {
                    return Ok(None);
                }
            }
            if at == before {
                return Ok(Some(at));
            }
        }
    }
}

#[cfg(test)]
mod tests;
